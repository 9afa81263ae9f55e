//! Which routes are kept from an app because they kill its workers.
//!
//! A request that kills its worker costs all others the time of a new start. When a route has killed [`DEATHS`] workers without one answer in
//! between, the next would too: it is refused for a while, and then tried with one request at a time, until one is answered.
//!
//! The signal is a worker's death with a request of the route in work. Where it had several in work, nobody knows which one it was, and each
//! bears its share: an innocent route beside a deadly one has its own answers to clear it, and needs longer to gather the blame. An answer clears all.
//! The first refusal is short, since a deploy may just be going wrong; each further one is twice as long. Nothing is known at the start, and nothing refused.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

/// Deaths in a row that are one too many. Two may be one request that was given a second time.
const DEATHS: u64 = 3;
/// One death, in units that a share of it can be told in.
const WHOLE: u64 = 1 << 32;
/// The first refusal lasts this long.
const SHORTEST: Duration = Duration::from_secs(5);
/// And the longest: what a person waits before trying again.
const LONGEST: Duration = Duration::from_secs(60);

/// The routes of one app that are watched: those with a death since their last answer, and no others. `R` names a route.
#[derive(Debug)]
pub struct Vigil<R> {
    watched: HashMap<R, Watched>,
}

#[derive(Debug, Clone, Copy)]
struct Watched {
    blame: u64,
    /// How long it was refused last; zero: never yet.
    refused_for: Duration,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Its requests are given to workers.
    Open,
    /// They are refused, up to this time.
    Refused(Instant),
    /// One of them is on its way, to see.
    Trying,
}

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// It is given to a worker.
    Free,
    /// It is given to a worker, as the only one of its route: [`Vigil::handle_trial_over`] is due when it has ended, however.
    Trial,
    /// It is refused; to be tried again after this time.
    Refused(Duration),
}

impl<R> Default for Vigil<R> {
    fn default() -> Self {
        Self { watched: HashMap::new() }
    }
}

impl<R: Hash + Eq + Clone> Vigil<R> {
    /// Whether nothing has died lately: answers need not be told then.
    pub fn is_quiet(&self) -> bool {
        self.watched.is_empty()
    }

    /// A request is about to be given.
    pub fn admit(&mut self, route: &R, now: Instant) -> Admission {
        let Some(watched) = self.watched.get_mut(route) else { return Admission::Free };
        let admission = watched.admission(now);
        if admission == Admission::Trial {
            watched.stage = Stage::Trying;
        }
        admission
    }

    /// Whether a request would be refused now, and for how long.
    pub fn refuses(&self, route: &R, now: Instant) -> Option<Duration> {
        match self.watched.get(route)?.admission(now) {
            Admission::Refused(time) => Some(time),
            Admission::Free | Admission::Trial => None,
        }
    }

    /// A request of the route has been answered. `true`: it was refused until now.
    pub fn handle_answer(&mut self, route: &R) -> bool {
        self.watched.remove(route).is_some_and(|watched| watched.stage != Stage::Open)
    }

    /// A worker died with requests of these routes in work, one entry for each. Gives those that are refused from now on, and for how long.
    pub fn handle_death(&mut self, routes: &[R], now: Instant) -> Vec<(R, Duration)> {
        // Rounded up: shares of one death are a whole death together.
        let share = WHOLE.div_ceil((routes.len() as u64).max(1));
        let mut refused: Vec<(R, Duration)> = Vec::new();
        for route in routes {
            let watched = self.watched.entry(route.clone()).or_insert(Watched {
                blame: 0,
                refused_for: Duration::ZERO,
                stage: Stage::Open,
            });
            watched.blame = watched.blame.saturating_add(share);
            let guilty = watched.blame >= DEATHS * WHOLE;
            // One that was in work from before the refusal says nothing new.
            if guilty && !matches!(watched.stage, Stage::Refused(_)) {
                let time = watched.refuse(now);
                refused.push((route.clone(), time));
            }
        }
        refused
    }

    /// A request that was a [`Admission::Trial`] has ended. Without an answer and without a death nothing was learnt, and the next may try.
    pub fn handle_trial_over(&mut self, route: &R, now: Instant) {
        if let Some(watched) = self.watched.get_mut(route).filter(|watched| watched.stage == Stage::Trying) {
            watched.stage = Stage::Refused(now);
        }
    }
}

impl Watched {
    fn admission(&self, now: Instant) -> Admission {
        match self.stage {
            Stage::Open => Admission::Free,
            Stage::Refused(until) if until > now => Admission::Refused(until - now),
            Stage::Refused(_) => Admission::Trial,
            // The trial ends as any request does: how soon, nobody knows.
            Stage::Trying => Admission::Refused(Duration::from_secs(1)),
        }
    }

    fn refuse(&mut self, now: Instant) -> Duration {
        self.refused_for = (self.refused_for * 2).clamp(SHORTEST, LONGEST);
        self.stage = Stage::Refused(now + self.refused_for);
        self.refused_for
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests need some instant to count from")]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A vigil in which `/deadly` has just been refused.
    fn refusing() -> (Vigil<&'static str>, Instant) {
        let (mut vigil, now) = (Vigil::default(), Instant::now());
        assert!(vigil.handle_death(&["/deadly"], now).is_empty());
        assert!(vigil.handle_death(&["/deadly"], now).is_empty());
        assert_eq!(vigil.handle_death(&["/deadly"], now), [("/deadly", SHORTEST)]);
        (vigil, now)
    }

    #[test]
    fn the_third_death_in_a_row_is_one_too_many() {
        let (mut vigil, now) = refusing();
        assert_eq!(vigil.admit(&"/deadly", now), Admission::Refused(SHORTEST));
        assert_eq!(vigil.refuses(&"/deadly", now + SECOND), Some(SHORTEST - SECOND));
        assert_eq!(vigil.admit(&"/other", now), Admission::Free);
    }

    #[test]
    fn an_answer_in_between_clears_it() {
        let (mut vigil, now) = (Vigil::default(), Instant::now());
        for _ in 0..10 {
            assert!(vigil.handle_death(&["/"], now).is_empty());
            assert!(vigil.handle_death(&["/"], now).is_empty());
            assert!(!vigil.handle_answer(&"/"));
        }
        assert!(vigil.is_quiet());
    }

    #[test]
    fn after_the_time_one_at_a_time_is_tried_and_an_answer_opens_it() {
        let (mut vigil, now) = refusing();
        let now = now + SHORTEST;
        assert_eq!(vigil.refuses(&"/deadly", now), None);
        assert_eq!(vigil.admit(&"/deadly", now), Admission::Trial);
        assert_eq!(vigil.admit(&"/deadly", now), Admission::Refused(SECOND));
        assert!(vigil.handle_answer(&"/deadly"));
        vigil.handle_trial_over(&"/deadly", now);
        assert_eq!(vigil.admit(&"/deadly", now), Admission::Free);
    }

    #[test]
    fn a_trial_that_dies_doubles_the_time_up_to_a_minute() {
        let (mut vigil, mut now) = refusing();
        for seconds in [10, 20, 40, 60, 60] {
            now += LONGEST;
            assert_eq!(vigil.admit(&"/deadly", now), Admission::Trial);
            assert_eq!(vigil.handle_death(&["/deadly"], now), [("/deadly", seconds * SECOND)]);
            vigil.handle_trial_over(&"/deadly", now);
            assert_eq!(vigil.refuses(&"/deadly", now), Some(seconds * SECOND));
        }
    }

    #[test]
    fn a_trial_that_says_nothing_makes_room_for_the_next() {
        let (mut vigil, now) = refusing();
        let now = now + SHORTEST;
        assert_eq!(vigil.admit(&"/deadly", now), Admission::Trial);
        vigil.handle_trial_over(&"/deadly", now);
        assert_eq!(vigil.admit(&"/deadly", now), Admission::Trial);
    }

    #[test]
    fn requests_from_before_the_refusal_do_not_prolong_it() {
        let (mut vigil, now) = refusing();
        assert!(vigil.handle_death(&["/deadly"], now + SECOND).is_empty());
        assert_eq!(vigil.refuses(&"/deadly", now + SECOND), Some(SHORTEST - SECOND));
        // One that is answered after all is the better news.
        assert!(vigil.handle_answer(&"/deadly"));
        assert!(vigil.is_quiet());
    }

    #[test]
    fn who_shares_a_worker_shares_the_blame() {
        for beside in [2_usize, 3, 7] {
            let (mut vigil, now) = (Vigil::default(), Instant::now());
            let routes: Vec<usize> = (0..beside).collect();
            for _ in 1..beside * 3 {
                assert!(vigil.handle_death(&routes, now).is_empty(), "{beside}");
            }
            assert_eq!(vigil.handle_death(&routes, now).len(), beside);
        }
    }

    #[test]
    fn an_innocent_route_beside_a_deadly_one_is_cleared_by_its_answers() {
        let (mut vigil, now) = (Vigil::default(), Instant::now());
        let mut refused = Vec::new();
        for _ in 0..6 {
            refused.extend(vigil.handle_death(&["/deadly", "/innocent"], now));
            vigil.handle_answer(&"/innocent");
        }
        assert_eq!(refused, [("/deadly", SHORTEST)]);
    }

    #[test]
    fn several_of_one_route_in_one_worker_are_one_death_together() {
        let (mut vigil, now) = (Vigil::default(), Instant::now());
        assert!(vigil.handle_death(&["/"; 5], now).is_empty());
        assert!(vigil.handle_death(&["/"; 5], now).is_empty());
        assert_eq!(vigil.handle_death(&["/"; 5], now), [("/", SHORTEST)]);
    }
}
