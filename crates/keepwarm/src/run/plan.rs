//! The plan for the listeners of a configuration, complete before anything is changed.

use std::collections::BTreeMap;

use keepwarm_config::Bind;

use super::listener_handler::{ListenerSettings, ListenerTarget};
use super::sockets::{OpenedSockets, SocketCopies};
use crate::tls::PreparedTls;

/// What a configuration serves, by address.
pub(super) struct ListenPlan {
    /// The sockets of addresses that are new.
    pub(super) opened: OpenedSockets,
    pub(super) addresses: BTreeMap<Bind, PlannedListener>,
    /// Of listeners with TLS.
    pub(super) tls: PreparedTls,
}

/// What a configuration serves at one address.
pub(super) struct PlannedListener {
    pub(super) wanted: ListenerTarget,
    pub(super) settings: ListenerSettings,
    /// Copies of its sockets; `None` where the listener keeps running.
    pub(super) copies: Option<SocketCopies>,
}

impl ListenPlan {
    pub(super) fn new(opened: OpenedSockets, tls: PreparedTls) -> Self {
        Self { opened, addresses: BTreeMap::new(), tls }
    }
}
