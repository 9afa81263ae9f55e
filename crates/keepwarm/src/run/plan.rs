//! What the listeners of a configuration are to serve, all of it made before anything is changed.

use std::collections::BTreeMap;

use keepwarm_config::Bind;

use super::sockets::{Copies, Opened};
use super::way::{Terms, Wanted};

/// What is to be served, by address.
pub(super) struct Plan {
    /// The sockets of addresses that are new.
    pub(super) opened: Opened,
    pub(super) addresses: BTreeMap<Bind, Planned>,
}

/// What is to be served at one address.
pub(super) struct Planned {
    pub(super) wanted: Wanted,
    pub(super) terms: Terms,
    /// Of its sockets; none where what accepts there goes on.
    pub(super) copies: Option<Copies>,
}

impl Plan {
    pub(super) fn new(opened: Opened) -> Self {
        Self { opened, addresses: BTreeMap::new() }
    }
}
