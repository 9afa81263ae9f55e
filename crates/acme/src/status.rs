//! What is known of a name, for `keepwarm status` and the metrics.

use std::time::SystemTime;

use crate::CertificateFacts;

/// The state of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameStatus {
    /// The name.
    pub name: String,
    /// A client requested it, and it is in no configuration.
    pub on_demand: bool,
    /// What its listeners present.
    pub state: NameState,
    /// When it is renewed, or the next attempt is made.
    pub next: Option<SystemTime>,
    /// Failed attempts in a row.
    pub failures: u32,
    /// The last failure, if no attempt has succeeded since.
    pub error: Option<String>,
    /// Certificates obtained by this process.
    pub obtained: u64,
    /// Attempts of this process that failed.
    pub failed: u64,
}

/// What the listeners present for a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NameState {
    /// A certificate signed by its own key, until there is one from the authority.
    SelfSigned,
    /// A certificate from the authority, which may have expired.
    Issued(CertificateFacts),
}

impl NameStatus {
    pub(crate) fn new(name: &str, on_demand: bool) -> Self {
        Self {
            name: name.to_owned(),
            on_demand,
            state: NameState::SelfSigned,
            next: None,
            failures: 0,
            error: None,
            obtained: 0,
            failed: 0,
        }
    }
}
