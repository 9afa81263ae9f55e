//! Load balancing: picks the endpoint of the next request.
//!
//! * **Least request** (default): the less loaded of two endpoints drawn at random ("power of two choices": Mitzenmacher, *The Power of Two Choices in
//!   Randomized Load Balancing*, 2001). Load is the peak-sensitive moving average of response times, times the requests in flight including this one
//!   (Finagle's `PeakEwma`; see [`EndpointLoad`]): an endpoint that becomes slow is avoided at once, and tried again as its average decays.
//! * **Round robin**: smooth and weighted, as in nginx.
//! * **Ring hash** (ketama: 160 points per endpoint) and **Maglev** (Eisenbud et al., *Maglev: A Fast and Reliable Software Network Load Balancer*, 2016): the
//!   same key goes to the same endpoint as long as it is usable, on every host with the same endpoints; when an endpoint goes, only its keys move.
//!
//! Endpoints have priorities, 0 first. A lower priority gets requests as far as endpoints above it are missing: Envoy's rule, see `priority`. When fewer than
//! half of the endpoints of a priority are usable, all are used (Envoy's "panic"): then the health checks are more likely to be wrong than most endpoints to be
//! down, and the few that are left could not bear the load.
//!
//! A [`Balancer`] is built once for a set of endpoints. It picks by index into that set, from any thread, in constant time (ring: logarithmic), as long as a good
//! part of the set is usable. The volatile state of an endpoint is queried for each pick: [`MemberStatus`].

mod level;
mod load;
mod priority;
mod tables;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::rng::{Rng, mix};
use level::Level;
pub use load::EndpointLoad;

/// The balancing algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Algorithm {
    /// The less loaded of two endpoints drawn at random.
    #[default]
    LeastRequest,
    /// One after the other, by weight.
    RoundRobin,
    /// By the hash of a key, on a ring.
    RingHash,
    /// By the hash of a key, in Maglev's table: more even than a ring, but a few more keys move when an endpoint goes.
    Maglev,
}

impl Algorithm {
    /// Whether it hashes a key.
    #[must_use]
    pub fn is_hash(self) -> bool {
        matches!(self, Self::RingHash | Self::Maglev)
    }
}

/// Settings of a [`Balancer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BalanceSettings {
    /// The algorithm.
    pub method: Algorithm,
    /// Overprovisioning factor in per cent: how much of a priority's normal load its usable endpoints are assumed to bear. At 140 a priority
    /// passes load on once less than 72 % of it is usable.
    pub overprovision: u32,
    /// Panic threshold in per cent of a priority: when fewer are usable, all are used. 0: never; then there may be none to pick.
    pub panic: u32,
}

impl Default for BalanceSettings {
    /// Envoy's values.
    fn default() -> Self {
        Self { method: Algorithm::default(), overprovision: 140, panic: 50 }
    }
}

/// An endpoint as a member of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Its share, relative to the others of its priority. 0: it gets nothing. At most [`Member::MOST`] counts.
    pub weight: u32,
    /// 0 first.
    pub priority: u32,
    /// Its identity, the same on every host: [`crate::stable_hash`] of its address.
    pub identity: u64,
}

impl Member {
    /// The largest weight.
    pub const MOST: u32 = 1 << 16;
}

/// The current status of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberStatus {
    /// Whether it may get requests: healthy, not ejected, its breaker lets some through, not draining.
    pub usable: bool,
    /// Requests in flight.
    pub outstanding: u32,
    /// [`EndpointLoad::average`]; zero without a sample.
    pub average: Duration,
    /// In thousandths: the part of its weight that applies during slow start ([`crate::health::slow_start_factor`]); 1000 otherwise.
    pub slow_start_factor: u32,
}

/// The request that an endpoint is picked for.
#[derive(Debug, Clone, Copy)]
pub struct PickContext<'a> {
    /// The hash of its key. Without one a hash method picks at random.
    pub hash: Option<u64>,
    /// The endpoints that it has failed at.
    pub tried: &'a FailedMembers,
    /// Fresh randomness.
    pub random: u64,
}

/// The picked endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pick {
    /// Index into the members.
    pub index: usize,
    /// Panic: it may be unusable, because too few endpoints are usable.
    pub panic: bool,
}

/// The endpoints that a request has failed at, by index: they are picked again only if there is no other. Start with an empty one when the set changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FailedMembers {
    indices: [usize; Self::CAPACITY],
    count: usize,
}

impl FailedMembers {
    /// Capacity; beyond it the oldest are forgotten. More attempts than this are useless.
    const CAPACITY: usize = 8;

    /// The request has failed there.
    pub fn push(&mut self, index: usize) {
        if let Some(slot) = self.indices.get_mut(self.count % Self::CAPACITY) {
            *slot = index;
            self.count += 1;
        }
    }

    /// Whether it has failed there.
    #[must_use]
    pub fn contains(&self, index: usize) -> bool {
        self.indices.iter().take(self.count).any(|tried| *tried == index)
    }

    /// Whether nothing was tried yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// Picks endpoints from one set. Shared by all threads.
#[derive(Debug)]
pub struct Balancer {
    settings: BalanceSettings,
    /// By priority, in order. None is empty.
    levels: Vec<Level>,
    refresh: u32,
    picks: AtomicU32,
}

/// Picks between two refreshes of the priorities' shares, unless there are more endpoints: the refresh then costs each pick about one query.
const REFRESH_INTERVAL: u32 = 64;

/// Which members a search accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Filter {
    /// Usable, not tried.
    Fresh,
    Usable,
    /// Not tried.
    Untried,
    Any,
}

impl Balancer {
    /// Builds the tables; Maglev's takes some milliseconds.
    #[must_use]
    pub fn new(settings: BalanceSettings, members: &[Member]) -> Self {
        let mut priorities: Vec<u32> =
            members.iter().filter(|member| member.weight > 0).map(|member| member.priority).collect();
        priorities.sort_unstable();
        priorities.dedup();
        let levels =
            priorities.into_iter().map(|priority| Level::new(settings.method, members, priority)).collect();
        let refresh = u32::try_from(members.len()).unwrap_or(u32::MAX).max(REFRESH_INTERVAL);
        Self { settings, levels, refresh, picks: AtomicU32::new(0) }
    }

    /// The endpoint for a request; `None` if there is none, or (without panic) none that is usable. `view` returns the status of a member by its index, and is called for few.
    pub fn pick(&self, view: impl Fn(usize) -> MemberStatus, ask: PickContext<'_>) -> Option<Pick> {
        if self.picks.fetch_add(1, Ordering::Relaxed).is_multiple_of(self.refresh) {
            self.refresh(&view);
        }
        let mut rng = Rng::new(ask.random);
        let hash = match self.settings.method.is_hash() {
            true => Some(ask.hash.unwrap_or_else(|| rng.next())),
            false => None,
        };
        // A key stays with its priority, too.
        let first = priority::choose(&self.levels, hash.map_or_else(|| rng.next(), |hash| mix(!hash)));
        let search = |admits: Filter, rng: &mut Rng| {
            let others = (0..self.levels.len()).filter(|at| *at != first);
            std::iter::once(first).chain(others).find_map(|at| {
                let level = self.levels.get(at)?;
                let panic = level.panics() || matches!(admits, Filter::Untried | Filter::Any);
                let admit = |index: usize, view: &MemberStatus| match admits {
                    Filter::Fresh | Filter::Untried => (panic || view.usable) && !ask.tried.contains(index),
                    Filter::Usable | Filter::Any => panic || view.usable,
                };
                let index = level.pick(&view, &admit, hash, rng)?;
                Some(Pick { index, panic })
            })
        };
        let usable = search(Filter::Fresh, &mut rng).or_else(|| match ask.tried.is_empty() {
            true => None,
            false => search(Filter::Usable, &mut rng),
        });
        if usable.is_some() || self.settings.panic == 0 {
            return usable;
        }
        search(Filter::Untried, &mut rng).or_else(|| search(Filter::Any, &mut rng))
    }

    /// Queries all members, and computes the share of each priority. [`Balancer::pick`] does it now and then; a caller that changes many members may do it at once.
    pub fn refresh(&self, view: impl Fn(usize) -> MemberStatus) {
        priority::refresh(&self.settings, &self.levels, view);
    }

    /// The share of the load of each priority, in thousandths, in order.
    pub fn shares(&self) -> impl Iterator<Item = u32> + '_ {
        self.levels.iter().map(Level::share)
    }

    /// Whether all endpoints of some priority are used, because too few of it are usable.
    #[must_use]
    pub fn is_panicking(&self) -> bool {
        self.levels.iter().any(Level::panics)
    }
}
