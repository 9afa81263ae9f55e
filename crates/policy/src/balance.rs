//! Which endpoint gets the next request.
//!
//! * **Least request** (default): of two endpoints drawn at random the one with less load gets it ("power of two choices": Mitzenmacher, *The Power of Two
//!   Choices in Randomized Load Balancing*, 2001). Load is the peak-sensitive moving average of the responses' times, times the requests in flight and this one
//!   (Finagle's `PeakEwma`; see [`Load`]): an endpoint that becomes slow is avoided at once, and tried again as its average fades.
//! * **Round robin**: smooth and weighted, nginx's.
//! * **Ring hash** (ketama: 160 points for an endpoint) and **Maglev** (Eisenbud et al., *Maglev: A Fast and Reliable Software Network Load Balancer*, 2016): the
//!   same key goes to the same endpoint for as long as that can be used, on every host that knows the same endpoints; when one goes, only its keys move.
//!
//! Endpoints have priorities, 0 first. A lower one gets requests as far as the endpoints above it are missing: Envoy's rule, see `priority`. When fewer than
//! half of them can be used, all are (Envoy's "panic"): the health checks are then more likely to be wrong than so many endpoints, and the few that are left
//! would not bear the load.
//!
//! A [`Balancer`] is built once for a set of endpoints, and picks by index into that set, from any thread, in constant time (ring: logarithmic), as long as a good part of
//! the set can be used. What changes all the time it asks for: [`View`].

mod level;
mod load;
mod priority;
mod tables;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::draws::{Draws, mix};
use level::Level;
pub use load::Load;

/// How an endpoint is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Method {
    /// The less loaded of two that are drawn.
    #[default]
    LeastRequest,
    /// One after the other.
    RoundRobin,
    /// By a key, on a ring.
    RingHash,
    /// By a key, in Maglev's table: more even than a ring, and a little more moves when an endpoint goes.
    Maglev,
}

impl Method {
    /// Whether a key decides.
    #[must_use]
    pub fn is_hash(self) -> bool {
        matches!(self, Self::RingHash | Self::Maglev)
    }
}

/// How a set of endpoints is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// How one of them is chosen.
    pub method: Method,
    /// In per cent: what the usable endpoints of a priority are taken to bear of its normal load, as 100 is all of it with all of them. At 140 a priority
    /// gives load away once less than 72 % of it can be used.
    pub overprovision: u32,
    /// In per cent of a priority: when fewer can be used, all are. 0: never; then there may be none to pick.
    pub panic: u32,
}

impl Default for Settings {
    /// Envoy's numbers.
    fn default() -> Self {
        Self { method: Method::default(), overprovision: 140, panic: 50 }
    }
}

/// What an endpoint is to the set it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Its share, relative to the others of its priority. 0: it gets nothing. At most [`Member::MOST`] counts.
    pub weight: u32,
    /// 0 first.
    pub priority: u32,
    /// What tells it from the others on every host: [`crate::stable_hash`] of its address.
    pub identity: u64,
}

impl Member {
    /// The largest weight.
    pub const MOST: u32 = 1 << 16;
}

/// What an endpoint is at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    /// Whether it may get requests: healthy, not ejected, its breaker lets some through, not draining.
    pub usable: bool,
    /// Requests in flight.
    pub outstanding: u32,
    /// [`Load::average`]; zero while nothing is known.
    pub average: Duration,
    /// In thousandths: how much of its weight it bears already ([`crate::health::warmth`]); 1000 but for slow start.
    pub warmth: u32,
}

/// One request that asks for an endpoint.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// The hash of its key. Without one a hash method picks at random.
    pub hash: Option<u64>,
    /// Those it has failed at.
    pub tried: &'a Tried,
    /// Fresh randomness.
    pub random: u64,
}

/// The response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pick {
    /// Into the members.
    pub index: usize,
    /// It may be one that is not usable, because too few are.
    pub panic: bool,
}

/// The endpoints that a request has failed at, by index: they are taken again only when there is no other. Begin anew when the set is another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tried {
    indices: [usize; Self::ROOM],
    count: usize,
}

impl Tried {
    /// The oldest are forgotten beyond this. More attempts than this help nobody.
    const ROOM: usize = 8;

    /// The request has failed there.
    pub fn push(&mut self, index: usize) {
        if let Some(slot) = self.indices.get_mut(self.count % Self::ROOM) {
            *slot = index;
            self.count += 1;
        }
    }

    /// Whether it has failed there.
    #[must_use]
    pub fn contains(&self, index: usize) -> bool {
        self.indices.iter().take(self.count).any(|tried| *tried == index)
    }

    /// Nothing was tried yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// Picks from one set of endpoints. Shared by all threads.
#[derive(Debug)]
pub struct Balancer {
    settings: Settings,
    /// By priority, the first first. None is empty.
    levels: Vec<Level>,
    refresh: u32,
    picks: AtomicU32,
}

/// So many picks after one another believe in the same shares of the priorities, or as many as there are endpoints: so that looking at all of them costs a pick one look.
const REFRESH: u32 = 64;

/// Whom a search takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Admits {
    /// Usable, not tried.
    Fresh,
    Usable,
    /// Not tried.
    Untried,
    Any,
}

impl Balancer {
    /// Builds what picking needs; Maglev's table takes some milliseconds.
    #[must_use]
    pub fn new(settings: Settings, members: &[Member]) -> Self {
        let mut priorities: Vec<u32> =
            members.iter().filter(|member| member.weight > 0).map(|member| member.priority).collect();
        priorities.sort_unstable();
        priorities.dedup();
        let levels =
            priorities.into_iter().map(|priority| Level::new(settings.method, members, priority)).collect();
        let refresh = u32::try_from(members.len()).unwrap_or(u32::MAX).max(REFRESH);
        Self { settings, levels, refresh, picks: AtomicU32::new(0) }
    }

    /// The endpoint for a request; `None` when there is none, or (without panic) none that can be used. `view` tells of a member by its index, and is asked for few.
    pub fn pick(&self, view: impl Fn(usize) -> View, ask: Ask<'_>) -> Option<Pick> {
        if self.picks.fetch_add(1, Ordering::Relaxed).is_multiple_of(self.refresh) {
            self.refresh(&view);
        }
        let mut draws = Draws::new(ask.random);
        let hash = match self.settings.method.is_hash() {
            true => Some(ask.hash.unwrap_or_else(|| draws.next())),
            false => None,
        };
        // A key is to stay with its priority too.
        let first = priority::choose(&self.levels, hash.map_or_else(|| draws.next(), |hash| mix(!hash)));
        let search = |admits: Admits, draws: &mut Draws| {
            let others = (0..self.levels.len()).filter(|at| *at != first);
            std::iter::once(first).chain(others).find_map(|at| {
                let level = self.levels.get(at)?;
                let panic = level.panics() || matches!(admits, Admits::Untried | Admits::Any);
                let admit = |index: usize, view: &View| match admits {
                    Admits::Fresh | Admits::Untried => (panic || view.usable) && !ask.tried.contains(index),
                    Admits::Usable | Admits::Any => panic || view.usable,
                };
                let index = level.pick(&view, &admit, hash, draws)?;
                Some(Pick { index, panic })
            })
        };
        let usable = search(Admits::Fresh, &mut draws).or_else(|| match ask.tried.is_empty() {
            true => None,
            false => search(Admits::Usable, &mut draws),
        });
        if usable.is_some() || self.settings.panic == 0 {
            return usable;
        }
        search(Admits::Untried, &mut draws).or_else(|| search(Admits::Any, &mut draws))
    }

    /// Looks at all of them, and decides how much each priority gets. Done now and then by [`Balancer::pick`]; whoever changes the state of many may ask for it.
    pub fn refresh(&self, view: impl Fn(usize) -> View) {
        priority::refresh(&self.settings, &self.levels, view);
    }

    /// How much of the load each priority gets, in thousandths, the first first.
    pub fn shares(&self) -> impl Iterator<Item = u32> + '_ {
        self.levels.iter().map(Level::share)
    }

    /// Whether all endpoints of some priority are used, because too few of it are usable.
    #[must_use]
    pub fn is_panicking(&self) -> bool {
        self.levels.iter().any(Level::panics)
    }
}
