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
    /// Which dial is under way, or was last.
    pub(super) dial: u64,
    /// The last dial failed.
    pub(super) failure: Option<AcquireError>,
    /// By number, the oldest first; without a waker: woken, and about to look.
    pub(super) waiting: BTreeMap<u64, Option<Waker>>,
    /// Who keeps a connection there, whether there are calls or not.
    pub(super) warmer: Option<PrewarmTask>,
}

/// A connection that may be given calls.
#[derive(Debug)]
pub(super) struct PooledConnection {
    pub(super) sender: SendRequest<Bytes>,
    pub(super) link: Arc<Link>,
}

impl EndpointConnections {
    /// Takes those off that are too old, or have carried enough.
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

    /// Whether one is to be made.
    pub(super) fn is_short(&self, need: ConnectionNeed, everywhere: usize, max: usize) -> bool {
        let full = everywhere >= max && !self.kept.is_empty();
        !self.dialling
            && !full
            && !self.is_shut()
            && self.says_nothing(need)
            && (need == ConnectionNeed::New || self.is_settled())
    }

    /// Gives up the oldest connection that is idle and has room: it was not good enough for the caller, who would wait for it in vain where there may be no other beside it.
    pub(super) fn make_room(&mut self) -> bool {
        let unused =
            |kept: &PooledConnection| kept.link.open() == 0 && kept.has_room() && kept.link.is_quiet();
        let Some(at) = self.kept.iter().position(unused) else { return false };
        self.kept.remove(at).link.retire();
        true
    }

    /// Whether the server takes no calls for now, on one connection as on another: with a third it would be asked without an end.
    fn is_shut(&self) -> bool {
        self.kept.iter().filter(|kept| kept.takes_none()).nth(1).is_some()
    }

    /// Whether it is known of every connection how many calls it takes.
    fn is_settled(&self) -> bool {
        self.kept.iter().all(|kept| kept.link.is_settled())
    }

    /// Whether no idle connection has something to say that may yet make it one to use.
    pub(super) fn says_nothing(&self, need: ConnectionNeed) -> bool {
        need == ConnectionNeed::New || self.kept.iter().all(|kept| kept.link.is_quiet())
    }

    /// Why the dial that somebody waits for has failed.
    pub(super) fn failure_of(&self, waits_for: Option<u64>) -> Option<AcquireError> {
        let failure = self.failure.as_ref().filter(|_| waits_for.is_some_and(|dial| dial <= self.dial))?;
        Some(failure.told_again())
    }

    /// Each looks again, and those who find nothing wait once more.
    pub(super) fn wake(&mut self) {
        self.waiting.values_mut().filter_map(Option::take).for_each(Waker::wake);
    }
}

impl PooledConnection {
    /// Whether the server takes no calls at all on it, as far as is known.
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
