use std::fmt;

use super::Bind;

/// `[admin]`: health, metrics and status for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admin {
    /// Addresses that serve it; at least one.
    pub bind: Vec<Bind>,
    /// Token that other machines need to read, and every client over TCP to change something. Set if an address in
    /// `bind` can be reached from other machines.
    pub token: Option<Secret>,
}

/// A value that messages, logs and debug output never show.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a value.
    pub fn new(value: String) -> Self {
        Self(value)
    }

    /// The value.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(...)")
    }
}
