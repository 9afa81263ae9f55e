//! Patterns of hosts and paths.

use std::fmt;

use crate::matcher::{Glob, RegularExpression};

/// `host` of a route. Case, port and a final dot of the request's host do not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostPattern {
    /// `example.com`; an IPv6 address is in brackets.
    Exact(String),
    /// `*.example.com`, held as `.example.com`: any number of labels in front, at least one.
    Below(String),
    /// `shop-*.example.com`, in lower case: `*` is any text.
    Glob(Glob),
    /// A regular expression of the host in lower case.
    Regex(RegularExpression),
}

impl HostPattern {
    /// Whether a host, without port and final dot, fits.
    #[must_use]
    pub fn matches(&self, host: &[u8]) -> bool {
        match self {
            Self::Exact(exact) => host.eq_ignore_ascii_case(exact.as_bytes()),
            Self::Below(suffix) => {
                let front = host.len().checked_sub(suffix.len()).filter(|&front| front > 0);
                front
                    .and_then(|front| host.get(front..))
                    .is_some_and(|end| end.eq_ignore_ascii_case(suffix.as_bytes()))
            }
            Self::Glob(glob) => glob.matches(&host.to_ascii_lowercase()),
            Self::Regex(regex) => regex.matches(&host.to_ascii_lowercase()),
        }
    }
}

/// `path` of a route, compared byte by byte with the request's normalized path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathPattern {
    /// Every path.
    Any,
    /// `/x`: this path alone.
    Exact(String),
    /// `/assets/*`, held as `/assets/`: every path that begins so. `/assets` does not: it is another resource, which an `Exact` route can redirect;
    /// it belongs to the route only where the prefix is stripped ([`Self::is_mount`]).
    Prefix(String),
    /// `*.php`, `/blog/*/feed`: `*` is any text, also with slashes.
    Glob(Glob),
    /// A regular expression of the whole path.
    Regex(RegularExpression),
}

impl PathPattern {
    /// Whether a normalized path fits.
    #[must_use]
    pub fn matches(&self, path: &[u8]) -> bool {
        match self {
            Self::Any => true,
            Self::Exact(exact) => path == exact.as_bytes(),
            Self::Prefix(prefix) => path.starts_with(prefix.as_bytes()),
            Self::Glob(glob) => glob.matches(path),
            Self::Regex(regex) => regex.matches(path),
        }
    }

    /// Whether a normalized path is the prefix itself, without its slash: `/assets` of `/assets/*`.
    #[must_use]
    pub fn is_mount(&self, path: &[u8]) -> bool {
        match self {
            Self::Prefix(prefix) => prefix.strip_suffix('/').is_some_and(|mount| path == mount.as_bytes()),
            Self::Any | Self::Exact(_) | Self::Glob(_) | Self::Regex(_) => false,
        }
    }

    /// How many bytes of a path that matches are stripped as a prefix: those of `/assets` for `/assets/*`. The rest begins with a slash.
    #[must_use]
    pub fn mount(&self) -> usize {
        match self {
            Self::Prefix(prefix) => prefix.strip_suffix('/').unwrap_or(prefix).len(),
            Self::Any | Self::Exact(_) | Self::Glob(_) | Self::Regex(_) => 0,
        }
    }

    /// What each `*` or group of the pattern stands for in a path that matches.
    pub(crate) fn captures(&self, path: &[u8]) -> Vec<Vec<u8>> {
        match self {
            Self::Any | Self::Exact(_) => Vec::new(),
            Self::Prefix(prefix) => vec![path.get(prefix.len()..).unwrap_or_default().to_vec()],
            Self::Glob(glob) => glob.captures(path),
            Self::Regex(regex) => regex.captures(path),
        }
    }

    /// The text that every path that matches begins with.
    pub(crate) fn literal_prefix(&self) -> &[u8] {
        match self {
            Self::Any => b"",
            Self::Exact(text) | Self::Prefix(text) => text.as_bytes(),
            Self::Glob(glob) => glob.literal_prefix(),
            Self::Regex(regex) => regex.literal_prefix(),
        }
    }
}

impl fmt::Display for HostPattern {
    /// As the configuration has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(host) => f.write_str(host),
            Self::Below(suffix) => write!(f, "*{suffix}"),
            Self::Glob(glob) => glob.fmt(f),
            Self::Regex(regex) => write!(f, "~{regex}"),
        }
    }
}

impl fmt::Display for PathPattern {
    /// As the configuration has it; every path is `/*`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("/*"),
            Self::Exact(path) => f.write_str(path),
            Self::Prefix(prefix) => write!(f, "{prefix}*"),
            Self::Glob(glob) => glob.fmt(f),
            Self::Regex(regex) => write!(f, "~{regex}"),
        }
    }
}

/// The host of `host[:port]`, without the dot that marks a name as complete (RFC 3986 §3.2.2).
pub(crate) fn host_of(authority: &[u8]) -> &[u8] {
    let host = match authority {
        [b'[', ..] => match memchr::memchr(b']', authority) {
            Some(end) => authority.get(..=end).unwrap_or(authority),
            None => authority,
        },
        _ => match memchr::memchr(b':', authority) {
            Some(end) => authority.get(..end).unwrap_or(authority),
            None => authority,
        },
    };
    host.strip_suffix(b".").unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        let exact = |host: &str| HostPattern::Exact(host.to_owned());
        let below = |host: &str| HostPattern::Below(host.to_owned());
        let cases = [
            (exact("example.com"), "example.com", true),
            (exact("example.com"), "EXAMPLE.Com:8080", true),
            (exact("example.com"), "example.com.", true),
            (exact("example.com"), "example.com.:80", true),
            (exact("example.com"), "www.example.com", false),
            (exact("example.com"), "example.com.evil.net", false),
            (exact("example.com"), "", false),
            (below(".example.com"), "www.example.com", true),
            (below(".example.com"), "a.b.EXAMPLE.com:1", true),
            (below(".example.com"), "example.com", false),
            (below(".example.com"), ".example.com", false),
            (below(".example.com"), "badexample.com", false),
            (exact("[::1]"), "[::1]:8080", true),
            (exact("[::1]"), "[::1]", true),
            (exact("[::1]"), "[::2]", false),
            (exact("127.0.0.1"), "127.0.0.1:80", true),
        ];
        for (pattern, authority, expected) in cases {
            assert_eq!(pattern.matches(host_of(authority.as_bytes())), expected, "{pattern:?} {authority}");
        }
    }

    #[test]
    fn paths() {
        let exact = PathPattern::Exact("/x".to_owned());
        let prefix = PathPattern::Prefix("/assets/".to_owned());
        let cases = [
            (&PathPattern::Any, "/", true),
            (&PathPattern::Any, "/a//b", true),
            (&exact, "/x", true),
            (&exact, "/x/", false),
            (&exact, "/X", false),
            (&prefix, "/assets/", true),
            (&prefix, "/assets/a/b", true),
            (&prefix, "/assets", false),
            (&prefix, "/assetsx", false),
            (&prefix, "//assets/a", false),
            (&prefix, "/assets%2Fa", false),
        ];
        for (pattern, path, expected) in cases {
            assert_eq!(pattern.matches(path.as_bytes()), expected, "{pattern:?} {path}");
        }
        assert_eq!((PathPattern::Any.mount(), exact.mount(), prefix.mount()), (0, 0, 7));
    }
}
