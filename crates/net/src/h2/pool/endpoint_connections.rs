//! The connections of one thread to one endpoint.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Waker;

use bytes::Bytes;
use h2::client::SendRequest;
use tokio::time::Instant;

use super::prewarm::PrewarmTask;
use crate::h2::link::Link;
use crate::h2::settings;
use crate::{AcquireError, ConnectionNeed, PoolSettings};

/// The connections of one thread to one endpoint.
#[derive(Debug, Default)]
pub(super) struct EndpointConnections {
    pub(super) kept: Vec<PooledConnection>,
    pub(super) dialling: bool,
    /// The number of the dial in progress, or of the last one.
    pub(super) dial: u64,
    /// The last dial failed.
    pub(super) failure: Option<AcquireError>,
    /// By number, the oldest first; without a waker: woken, and about to look.
    pub(super) waiting: BTreeMap<u64, Option<Waker>>,
    /// The task that keeps a connection ready, with or without calls.
    pub(super) warmer: Option<PrewarmTask>,
}

/// A connection that may be given calls.
#[derive(Debug)]
pub(super) struct PooledConnection {
    pub(super) sender: SendRequest<Bytes>,
    pub(super) link: Arc<Link>,
}

impl EndpointConnections {
    /// Removes connections that are too old, or have carried enough calls.
    pub(super) fn drop_worn(&mut self, settings: &PoolSettings, now: Instant) {
        self.kept.retain(|PooledConnection { link, .. }| {
            let keep = !link.goes_away()
                && link.begun() < settings.max_requests
                && now.saturating_duration_since(link.opened) < settings.max_age;
            if !keep {
                link.retire();
            }
            keep
        });
    }

    /// Whether a new connection is needed.
    pub(super) fn is_short(&self, need: ConnectionNeed, everywhere: usize, max: usize) -> bool {
        let full = everywhere >= max && !self.kept.is_empty();
        !self.dialling
            && !full
            && !self.is_shut()
            && self.says_nothing(need)
            && (need == ConnectionNeed::New || self.is_settled())
    }

    /// Gives up the oldest idle connection with room: it did not meet the caller's need, and at the limit the caller would wait in vain for another beside it.
    pub(super) fn make_room(&mut self) -> bool {
        let unused =
            |kept: &PooledConnection| kept.link.open() == 0 && kept.has_room() && kept.link.is_quiet();
        let Some(at) = self.kept.iter().position(unused) else { return false };
        self.kept.remove(at).link.retire();
        true
    }

    /// Whether the server accepts no calls for now, on two connections already: dialling a third would repeat without end.
    fn is_shut(&self) -> bool {
        self.kept.iter().filter(|kept| kept.takes_none()).nth(1).is_some()
    }

    /// Whether there will be a stream only once the server allows some again.
    pub(super) fn waits_for_server(&self) -> bool {
        self.is_shut() && self.kept.iter().all(PooledConnection::takes_none)
    }

    /// Whether the stream limit of every connection is known.
    fn is_settled(&self) -> bool {
        self.kept.iter().all(|kept| kept.link.is_settled())
    }

    /// Whether no idle connection has a pending event that may yet make it usable.
    pub(super) fn says_nothing(&self, need: ConnectionNeed) -> bool {
        need == ConnectionNeed::New || self.kept.iter().all(|kept| kept.link.is_quiet())
    }

    /// Why the dial that the caller waits for has failed.
    pub(super) fn failure_of(&self, waits_for: Option<u64>) -> Option<AcquireError> {
        let failure = self.failure.as_ref().filter(|_| waits_for.is_some_and(|dial| dial <= self.dial))?;
        Some(failure.told_again())
    }

    /// Wakes every waiter to look again; those that find nothing wait once more.
    pub(super) fn wake(&mut self) {
        self.waiting.values_mut().filter_map(Option::take).for_each(Waker::wake);
    }
}

impl PooledConnection {
    /// Whether the server accepts no calls at all on it, as far as is known.
    fn takes_none(&self) -> bool {
        self.link.is_settled() && self.sender.current_max_send_streams() == 0
    }

    pub(super) fn has_room(&self) -> bool {
        let most = match self.link.is_settled() {
            true => self.sender.current_max_send_streams().min(settings::STREAMS),
            false => 1,
        };
        self.link.open() < most
    }
}
