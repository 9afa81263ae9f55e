//! Origins (RFC 6454 §4, RFC 9110 §4.3.1): scheme, host and port.

use keepwarm_net::Scheme;

/// An origin that URLs are compared with.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Origin {
    scheme: Scheme,
    host: Box<str>,
    port: u16,
}

impl Origin {
    /// Of a scheme and `host[:port]`. `None`: a port that is none.
    #[must_use]
    pub fn new(scheme: Scheme, authority: &str) -> Option<Self> {
        let (host, port) = split_authority(authority.as_bytes(), scheme)?;
        let host = std::str::from_utf8(host).ok()?.to_ascii_lowercase();
        Some(Self { scheme, host: host.into(), port })
    }

    /// In plaintext or over TLS.
    #[must_use]
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// `host[:port]`, without the port where that is the scheme's own.
    #[must_use]
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.to_string() };
        if self.port == own_port(self.scheme) { host } else { format!("{host}:{}", self.port) }
    }

    /// Host, an IPv6 address without its brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, the scheme's own when none was written.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What follows this origin in an absolute reference, or one without a scheme (`//host/path`); none when it leads elsewhere or nowhere.
    pub(crate) fn strip_from<'u>(&self, reference: &'u [u8]) -> Option<&'u [u8]> {
        let rest = match reference.strip_prefix(b"//") {
            Some(rest) => rest,
            None => {
                let scheme = self.scheme.as_str().as_bytes();
                let (given, rest) = reference.split_at_checked(scheme.len())?;
                if !given.eq_ignore_ascii_case(scheme) {
                    return None;
                }
                rest.strip_prefix(b"://")?
            }
        };
        let end =
            rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#' | b'\\')).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        let (host, port) = split_authority(authority, self.scheme)?;
        (port == self.port && host.eq_ignore_ascii_case(self.host.as_bytes())).then_some(rest)
    }
}

/// Host (an IPv6 address without its brackets, a name without its last dot) and port of `host[:port]`.
pub(crate) fn split_authority(authority: &[u8], scheme: Scheme) -> Option<(&[u8], u16)> {
    let (host, port) = match authority.strip_prefix(b"[") {
        Some(rest) => {
            let end = rest.iter().position(|byte| *byte == b']')?;
            let (host, rest) = rest.split_at(end);
            (host, rest.get(1..)?.strip_prefix(b":").unwrap_or_default())
        }
        None => match authority.iter().rposition(|byte| *byte == b':') {
            Some(colon) => (authority.get(..colon)?, authority.get(colon + 1..)?),
            None => (authority, b"".as_slice()),
        },
    };
    let host = host.strip_suffix(b".").unwrap_or(host);
    let port = match port {
        b"" => own_port(scheme),
        port => std::str::from_utf8(port).ok()?.parse().ok()?,
    };
    Some((host, port))
}

fn own_port(scheme: Scheme) -> u16 {
    match scheme {
        Scheme::Http => 80,
        Scheme::Https => 443,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_an_origin_in_a_reference() {
        let origin = Origin::new(Scheme::Https, "search.internal:9243").unwrap();
        for (reference, rest) in [
            ("https://search.internal:9243/a?b", Some("/a?b")),
            ("HTTPS://Search.Internal:9243", Some("")),
            ("//search.internal:9243/x", Some("/x")),
            ("https://search.internal:9243?q", Some("?q")),
            ("https://search.internal/a", None),
            ("http://search.internal:9243/a", None),
            ("https://search.internal:92433/a", None),
            ("https://search.internal:9243.evil/a", None),
            ("https://search.internal:9243@evil/a", None),
            ("/a", None),
            ("a", None),
            ("", None),
        ] {
            let found = origin.strip_from(reference.as_bytes());
            assert_eq!(found, rest.map(str::as_bytes), "{reference}");
        }
        let usual = Origin::new(Scheme::Https, "api.example").unwrap();
        assert_eq!(usual.strip_from(b"https://api.example:443/a"), Some(b"/a".as_slice()));
        let six = Origin::new(Scheme::Http, "[::1]:80").unwrap();
        assert_eq!(six.strip_from(b"http://[::1]/a"), Some(b"/a".as_slice()));
        assert_eq!(six.authority(), "[::1]");
        assert_eq!(origin.authority(), "search.internal:9243");
    }
}
