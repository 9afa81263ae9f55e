use std::fmt;

use super::Bind;

/// `[admin]`: health, metrics and status for those who run the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admin {
    /// Where it is served; at least one.
    pub bind: Vec<Bind>,
    /// What a client must know that is not on this machine, or wants to change something. There is one wherever `bind` leaves the machine.
    pub token: Option<Secret>,
}

/// A value that no message, log or debug output shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps a value.
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
