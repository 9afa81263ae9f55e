//! Names of request fields, in every spelling that an application takes for the same.
//!
//! Everything that is neither a letter nor a digit becomes `_` in a variable of CGI (RFC 3875 §4.1.18), so that `Remote_User` and `Remote.User` are
//! `Remote-User` to WSGI, Rack and PHP. A pattern that did not know that would let a client state what only Keepwarm may (caddy#7545).

/// Names of fields, exact or by their begin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldPatterns {
    /// Folded.
    names: Vec<Box<[u8]>>,
    /// The begins of names, folded.
    prefixes: Vec<Box<[u8]>>,
}

impl FieldPatterns {
    /// Names in any case; `X-Auth-*` is every name that begins with `X-Auth-`.
    #[must_use]
    pub fn new<P: AsRef<str>>(patterns: impl IntoIterator<Item = P>) -> Self {
        let mut made = Self::default();
        for pattern in patterns {
            match pattern.as_ref().strip_suffix('*') {
                Some(prefix) => made.prefixes.push(prefix.bytes().map(fold).collect()),
                None => made.names.push(pattern.as_ref().bytes().map(fold).collect()),
            }
        }
        made
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && self.prefixes.is_empty()
    }

    /// Whether a name, in any case and spelling, is one of them.
    #[must_use]
    pub fn matches(&self, name: &[u8]) -> bool {
        let begins = |prefix: &[u8]| name.get(..prefix.len()).is_some_and(|begin| is_same(prefix, begin));
        self.names.iter().any(|of| is_same(of, name)) || self.prefixes.iter().any(|prefix| begins(prefix))
    }
}

/// `folded`: one of ours. Names are compared by length first, which rules out nearly all.
fn is_same(folded: &[u8], name: &[u8]) -> bool {
    folded.len() == name.len() && name.iter().map(|byte| fold(*byte)).eq(folded.iter().copied())
}

fn fold(byte: u8) -> u8 {
    if byte.is_ascii_alphanumeric() { byte.to_ascii_lowercase() } else { b'-' }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_in_every_spelling() {
        let patterns = FieldPatterns::new(["Remote-User", "X-Auth-*"]);
        for name in ["Remote-User", "remote_user", "REMOTE.USER", "Remote|User", "remote~user"] {
            assert!(patterns.matches(name.as_bytes()), "{name}");
        }
        for name in ["X-Auth-Groups", "x_auth_groups", "X.Auth-", "x-auth_"] {
            assert!(patterns.matches(name.as_bytes()), "{name}");
        }
        for name in
            ["", "Remote-Users", "Remote-Use", "XRemote-User", "X-Auth", "X-Authority", "Remote--User"]
        {
            assert!(!patterns.matches(name.as_bytes()), "{name}");
        }
        assert!(FieldPatterns::default().is_empty() && !FieldPatterns::default().matches(b""));
    }
}
