//! Which connections are idle, and since when: known across threads, so that the longest idle one of the whole process can be closed.
//!
//! A connection writes only its own state, when it changes between busy and idle: a store on a cache line of its own. The thread that needs room
//! does everything else.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};
use std::task::{Context, Waker};
use std::time::Duration;

use keepwarm_telemetry::per_thread::PerThread;
use tokio::time::Instant;

/// A kept connection may be closed to make room after this long without a request. Before that, its next request is probably in flight, and would be
/// lost: RFC 9112 §9.6 has no close that both sides agree on.
const IDLE: u64 = 1_000_000;
/// The same for a connection that has never carried a request: as long as a head may take by default. A busy machine accepts before the client sends.
const SILENT: u64 = 10_000_000;
/// Idle connections that one search collects. The longest idle one keeps its rank until it is used, so one search serves that many evictions.
const CANDIDATES: usize = 256;
/// Minimum interval between searches, and between evictions while one is in progress.
pub(super) const RETRY: Duration = Duration::from_millis(100);

/// A connection's side: it reports its activity, and learns whether it must leave.
#[derive(Debug)]
pub(crate) struct Activity {
    state: Arc<ActivityState>,
    /// The task that `state` wakes.
    waker: Option<Waker>,
}

#[derive(Debug, Default)]
struct ActivityState {
    /// When it became idle ([`stamp`]), with [`SERVED`]; 0 during a request.
    idle_since: AtomicU64,
    /// The `idle_since` that was found too long. It is void once the connection has been used again.
    leave: AtomicU64,
    waker: Mutex<Option<Waker>>,
}

/// The lowest bit of `idle_since`: the connection has carried a request.
const SERVED: u64 = 1;

impl Activity {
    /// A request is in progress, or may be.
    pub(crate) fn set_busy(&self) {
        self.state.idle_since.store(0, Ordering::Relaxed);
    }

    /// No request is in progress. `served`: the connection has carried one.
    pub(crate) fn set_idle(&self, since: Instant, served: bool) {
        self.state.idle_since.store(stamp(since) << 1 | u64::from(served), Ordering::Relaxed);
    }

    /// Whether the idle connection must leave. Registers its task to be woken when it must.
    pub(crate) fn poll_leave(&mut self, cx: &Context<'_>) -> bool {
        if !self.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            self.waker = Some(cx.waker().clone());
            *lock(&self.state.waker) = self.waker.clone();
        }
        let since = self.state.idle_since.load(Ordering::Relaxed);
        since != 0 && self.state.leave.load(Ordering::Acquire) == since
    }
}

impl ActivityState {
    /// The [`stamp`] in microseconds from which on it may be closed to make room.
    fn evictable_at(idle_since: u64) -> u64 {
        (idle_since >> 1) + if idle_since & SERVED == 0 { SILENT } else { IDLE }
    }

    /// `false`: it is busy, or has been used since.
    fn ask_to_leave(&self, since: u64) -> bool {
        if self.idle_since.load(Ordering::Relaxed) != since {
            return false;
        }
        self.leave.store(since, Ordering::Release);
        if let Some(waker) = &*lock(&self.waker) {
            waker.wake_by_ref();
        }
        true
    }

    fn is_leaving(&self) -> bool {
        let since = self.idle_since.load(Ordering::Relaxed);
        since != 0 && self.leave.load(Ordering::Relaxed) == since
    }
}

/// All connections that share a limit.
#[derive(Debug, Default)]
pub(super) struct ActivityRegistry {
    threads: PerThread<Mutex<Vec<Weak<ActivityState>>>>,
    search: Mutex<IdleSearch>,
}

/// The result of the last search.
#[derive(Debug, Default)]
struct IdleSearch {
    /// The longest idle last.
    candidates: Vec<Candidate>,
    at: Option<Instant>,
    /// The connection that was asked to leave, and when.
    leaving: Option<(Weak<ActivityState>, Instant)>,
}

#[derive(Debug)]
struct Candidate {
    since: u64,
    state: Weak<ActivityState>,
}

/// The result of an eviction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Eviction {
    /// A connection leaves.
    UnderWay,
    /// None is idle for long enough.
    NobodyIdle,
}

impl ActivityRegistry {
    /// Adds a connection of the thread of this index, busy until it reports otherwise.
    pub(super) fn add(&self, thread: usize) -> Activity {
        let state = Arc::<ActivityState>::default();
        let mut states = lock(self.threads.of(thread));
        if states.len() == states.capacity() {
            // Before it grows: as many steps as connections were added since.
            states.retain(|state| state.strong_count() > 0);
            let room = states.len();
            states.reserve(room.max(64));
        }
        states.push(Arc::downgrade(&state));
        Activity { state, waker: None }
    }

    /// Asks the longest idle connection to leave, one at a time.
    pub(super) fn evict(&self) -> Eviction {
        let now = Instant::now();
        let mut search = lock(&self.search);
        let under_way = |(state, at): &(Weak<ActivityState>, Instant)| {
            now.saturating_duration_since(*at) < RETRY
                && state.upgrade().is_some_and(|state| state.is_leaving())
        };
        if search.leaving.as_ref().is_some_and(under_way) {
            return Eviction::UnderWay;
        }
        let again = search.at.is_none_or(|at| now.saturating_duration_since(at) >= RETRY);
        if search.candidates.is_empty() && again {
            search.at = Some(now);
            search.candidates = self.longest_idle(stamp(now));
        }
        while let Some(Candidate { since, state }) = search.candidates.pop() {
            if state.upgrade().is_some_and(|state| state.ask_to_leave(since)) {
                search.leaving = Some((state, now));
                return Eviction::UnderWay;
            }
        }
        Eviction::NobodyIdle
    }

    fn longest_idle(&self, now: u64) -> Vec<Candidate> {
        let mut found: Vec<Candidate> = Vec::new();
        self.for_each(|state| {
            let since = state.idle_since.load(Ordering::Relaxed);
            if since != 0 && ActivityState::evictable_at(since) <= now {
                found.push(Candidate { since, state: Arc::downgrade(state) });
            }
        });
        let key = |candidate: &Candidate| std::cmp::Reverse(ActivityState::evictable_at(candidate.since));
        found.sort_unstable_by_key(key);
        let surplus = found.len().saturating_sub(CANDIDATES);
        found.drain(..surplus);
        found
    }

    /// Asks every connection to leave that has been idle for this long, whether it has carried a request or not.
    pub(super) fn close_idle(&self, idle_for: Duration) {
        let now = stamp(Instant::now());
        let idle_for = micros(idle_for);
        self.for_each(|state| {
            let since = state.idle_since.load(Ordering::Relaxed);
            if since != 0 && (since >> 1) + idle_for <= now {
                state.ask_to_leave(since);
            }
        });
    }

    fn for_each(&self, mut visit: impl FnMut(&Arc<ActivityState>)) {
        for thread in self.threads.iter() {
            lock(thread).iter().filter_map(Weak::upgrade).for_each(|state| visit(&state));
        }
    }
}

/// Microseconds since the process began, from 1 on.
fn stamp(at: Instant) -> u64 {
    static BEGIN: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);
    micros(at.into_std().saturating_duration_since(*BEGIN)) + 1
}

fn micros(time: Duration) -> u64 {
    // A century of them fits, with the bit.
    time.as_micros() as u64
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaves(activity: &mut Activity) -> bool {
        activity.poll_leave(&Context::from_waker(Waker::noop()))
    }

    fn idle(activities: &ActivityRegistry, thread: usize, served: bool) -> Activity {
        let activity = activities.add(thread);
        activity.set_idle(Instant::now(), served);
        activity
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_idle_of_any_thread_goes_first_one_at_a_time() {
        keepwarm_telemetry::per_thread::set_threads(3);
        let activities = ActivityRegistry::default();
        let mut all = Vec::new();
        for thread in [2, 0, 1, 2] {
            all.push(idle(&activities, thread, true));
            tokio::time::advance(Duration::from_millis(10)).await;
        }
        tokio::time::advance(Duration::from_secs(1)).await;
        for at in 0..4 {
            assert_eq!(activities.evict(), Eviction::UnderWay);
            assert_eq!(activities.evict(), Eviction::UnderWay, "no second one while the first leaves");
            let mut leaving = all.remove(0);
            assert!(leaves(&mut leaving), "{at}");
            assert!(!all.iter_mut().any(leaves), "{at}");
        }
        assert_eq!(activities.evict(), Eviction::NobodyIdle);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_busy_or_was_just_used_or_accepted_stays() {
        let activities = ActivityRegistry::default();
        let mut busy = activities.add(0);
        let mut silent = idle(&activities, 0, false);
        let mut used_again = idle(&activities, 0, true);
        tokio::time::advance(Duration::from_secs(2)).await;
        used_again.set_busy();
        used_again.set_idle(Instant::now(), true);
        assert_eq!(activities.evict(), Eviction::NobodyIdle);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(activities.evict(), Eviction::UnderWay);
        assert!(leaves(&mut used_again) && !leaves(&mut silent) && !leaves(&mut busy));
        // Used in that very moment: the request to leave was for an earlier idle period.
        used_again.set_busy();
        assert!(!leaves(&mut used_again));
        used_again.set_idle(Instant::now(), true);
        assert!(!leaves(&mut used_again));
        tokio::time::advance(Duration::from_secs(7)).await;
        drop(used_again);
        assert_eq!(activities.evict(), Eviction::UnderWay, "it has said nothing for ten seconds");
        assert!(leaves(&mut silent) && !leaves(&mut busy));
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_takes_long_to_leave_does_not_hold_up_the_next() {
        let activities = ActivityRegistry::default();
        let mut all = [idle(&activities, 0, true), idle(&activities, 0, true)];
        tokio::time::advance(Duration::from_secs(2)).await;
        activities.evict();
        tokio::time::advance(RETRY).await;
        activities.evict();
        assert!(all.iter_mut().all(leaves));
    }

    #[tokio::test(start_paused = true)]
    async fn a_search_finds_the_longest_idle_of_many() {
        let activities = ActivityRegistry::default();
        let mut all = Vec::new();
        for _ in 0..CANDIDATES + 50 {
            all.push(idle(&activities, 0, true));
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        tokio::time::advance(Duration::from_secs(2)).await;
        for _ in 0..CANDIDATES + 50 {
            assert_eq!(activities.evict(), Eviction::UnderWay);
            assert!(leaves(&mut all.remove(0)));
            tokio::time::advance(Duration::from_millis(1)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_closes_what_is_idle_for_long_enough() {
        let activities = ActivityRegistry::default();
        let mut old = idle(&activities, 0, false);
        let mut busy = activities.add(0);
        tokio::time::advance(Duration::from_secs(2)).await;
        let mut young = idle(&activities, 0, true);
        activities.close_idle(Duration::from_secs(2));
        assert!(leaves(&mut old) && !leaves(&mut busy) && !leaves(&mut young));
    }
}
