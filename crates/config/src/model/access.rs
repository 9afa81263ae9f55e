use std::time::Duration;

use super::Secret;

/// `basic_auth` of a route: who may use it, by name and password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BasicAuth {
    /// Name of the area, shown by browsers; without quotes and control characters.
    pub realm: String,
    /// Users of `users`, then of `file`; at least one. If two have the same name, the first applies.
    pub users: Vec<PasswordHash>,
    /// Pass `Authorization` on to the app.
    pub forward_credentials: bool,
}

/// A user and the hash of the password, by argon2 (PHC string) or bcrypt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PasswordHash {
    /// The name, without a colon.
    pub user: String,
    /// The hash.
    pub hash: Secret,
}

impl Default for BasicAuth {
    fn default() -> Self {
        BasicAuth { realm: "Restricted".to_owned(), users: Vec::new(), forward_credentials: false }
    }
}

/// `concurrency` of a route: how many of its requests are in progress at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Concurrency {
    /// All clients together. `None`: no limit.
    pub total: Option<u32>,
    /// Of one client address. `None`: no limit.
    pub per_client: Option<u32>,
    /// How long a request waits for others of `total` to end.
    pub wait: Duration,
}

impl Default for Concurrency {
    fn default() -> Self {
        Concurrency { total: None, per_client: None, wait: Duration::ZERO }
    }
}
