//! Which pages and routes are kept from an app because they kill its workers.
//!
//! A request that kills its worker costs all others the time of a new start. When requests for one page have killed `DEATHS` workers without that page
//! having been answered in between, the next would too: it is refused for a while, and then tried with one request at a time, until one is answered. What
//! other pages response meanwhile says nothing of this one. A whole route is judged only by deaths of *different* pages (`/user/1`, `/user/2`), and by the
//! answers of all: one bad page must not take the pages beside it away.
//!
//! The signal is a worker's death with a request in work. Where it had several in work, nobody knows which one it was, and each
//! bears its share: an innocent page beside a deadly one has its own responses to clear it, and needs longer to gather the blame. A response clears all.
//! The first refusal is short, since a deploy may just be going wrong; each further one is twice as long. Nothing is known at the start, and nothing refused;
//! what has not killed for `FORGOTTEN_AFTER` is forgotten.

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
/// Deaths that lie further apart have little to do with one another, and a page that nobody requests is not to be watched for ever.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);
/// So many pages and routes are watched at most; then the one whose last death is the longest ago is forgotten. Each costs an app a worker.
const WATCHED_MAX: usize = 1024;

/// The pages and routes of one app that are watched: those with a death since their last response, and no others. `R` names a route.
#[derive(Debug)]
pub struct Vigil<R> {
    watched: HashMap<Scope<R>, Watched>,
    /// When to look for what can be forgotten.
    look_at: Option<Instant>,
}

/// What a request asks for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Page<R> {
    /// Its route.
    pub route: R,
    /// Stands for its path; two paths that share a number share their fate.
    pub path: u64,
}

/// What is refused.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Scope<R> {
    /// One page.
    Page(Page<R>),
    /// All pages of a route.
    Route(R),
}

#[derive(Debug, Clone, Copy)]
struct Watched {
    blame: u64,
    last_death: Instant,
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission<R> {
    /// It is given to a worker.
    Free,
    /// It is given to a worker, as the only one of this scope: [`Vigil::handle_trial_over`] is due when it has ended, however.
    Trial(Scope<R>),
    /// It is refused; to be tried again after this time.
    Refused(Duration),
}

impl<R> Default for Vigil<R> {
    fn default() -> Self {
        Self { watched: HashMap::new(), look_at: None }
    }
}

impl<R: Hash + Eq + Clone> Scope<R> {
    /// Whether a request for this page is meant.
    pub fn covers(&self, page: &Page<R>) -> bool {
        match self {
            Self::Page(own) => own == page,
            Self::Route(route) => *route == page.route,
        }
    }

    /// The narrow one first.
    fn both(page: &Page<R>) -> [Self; 2] {
        [Self::Page(page.clone()), Self::Route(page.route.clone())]
    }
}

impl<R: Hash + Eq + Clone> Vigil<R> {
    /// Whether nothing has died lately: answers need not be told then.
    pub fn is_quiet(&self) -> bool {
        self.watched.is_empty()
    }

    /// A request is about to be given.
    pub fn admit(&mut self, page: &Page<R>, now: Instant) -> Admission<R> {
        self.forget_old(now);
        if let Some(time) = self.refuses(page, now) {
            return Admission::Refused(time);
        }
        for scope in Scope::both(page) {
            let Some(watched) = self.watched.get_mut(&scope) else { continue };
            if matches!(watched.stage, Stage::Refused(_)) {
                watched.stage = Stage::Trying;
                return Admission::Trial(scope);
            }
        }
        Admission::Free
    }

    /// Whether a request would be refused now, and for how long.
    pub fn refuses(&self, page: &Page<R>, now: Instant) -> Option<Duration> {
        let watched = Scope::both(page).into_iter().filter_map(|scope| self.watched.get(&scope));
        watched.filter_map(|watched| watched.refuses(now)).max()
    }

    /// A request for the page has been answered. `true`: such requests were refused until now.
    pub fn handle_response(&mut self, page: &Page<R>) -> bool {
        let mut opened = false;
        for scope in Scope::both(page) {
            opened |= self.watched.remove(&scope).is_some_and(|watched| watched.stage != Stage::Open);
        }
        opened
    }

    /// A worker died with requests for these pages in work, one entry for each. Gives what is refused from now on, and for how long.
    pub fn handle_death(&mut self, pages: &[Page<R>], now: Instant) -> Vec<(Scope<R>, Duration)> {
        // Rounded up: shares of one death are a whole death together.
        let share = WHOLE.div_ceil((pages.len() as u64).max(1));
        let mut refused: Vec<(Scope<R>, Duration)> = Vec::new();
        for page in pages {
            let [own, route] = Scope::both(page);
            // The route is not to blame for a page that kills again.
            let is_new = !self.watched.contains_key(&own);
            refused.extend(self.blame(own, share, now));
            if is_new {
                refused.extend(self.blame(route, share, now));
            }
        }
        refused
    }

    /// A request that was a [`Admission::Trial`] has ended. Without a response and without a death nothing was learnt, and the next may try.
    pub fn handle_trial_over(&mut self, scope: &Scope<R>, now: Instant) {
        if let Some(watched) = self.watched.get_mut(scope).filter(|watched| watched.stage == Stage::Trying) {
            watched.stage = Stage::Refused(now);
        }
    }

    fn blame(&mut self, scope: Scope<R>, share: u64, now: Instant) -> Option<(Scope<R>, Duration)> {
        if self.watched.len() >= WATCHED_MAX && !self.watched.contains_key(&scope) {
            self.forget_oldest();
        }
        self.look_at.get_or_insert(now + FORGOTTEN_AFTER);
        let watched = self.watched.entry(scope.clone()).or_insert(Watched {
            blame: 0,
            last_death: now,
            refused_for: Duration::ZERO,
            stage: Stage::Open,
        });
        watched.last_death = now;
        watched.blame = watched.blame.saturating_add(share);
        // One that was in work from before the refusal says nothing new.
        if watched.blame < DEATHS * WHOLE || matches!(watched.stage, Stage::Refused(_)) {
            return None;
        }
        Some((scope, watched.refuse(now)))
    }

    fn forget_old(&mut self, now: Instant) {
        if self.look_at.is_none_or(|at| at > now) {
            return;
        }
        self.watched.retain(|_, watched| {
            watched.stage == Stage::Trying || watched.last_death + FORGOTTEN_AFTER > now
        });
        self.look_at = (!self.watched.is_empty()).then(|| now + FORGOTTEN_AFTER);
    }

    fn forget_oldest(&mut self) {
        let of = self.watched.iter().min_by_key(|(_, watched)| watched.last_death);
        if let Some(oldest) = of.map(|(scope, _)| scope.clone()) {
            self.watched.remove(&oldest);
        }
    }
}

impl Watched {
    fn refuses(&self, now: Instant) -> Option<Duration> {
        match self.stage {
            Stage::Refused(until) if until > now => Some(until - now),
            // The trial ends as any request does: how soon, nobody knows.
            Stage::Trying => Some(Duration::from_secs(1)),
            Stage::Open | Stage::Refused(_) => None,
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
    const DEADLY: Page<&str> = page(1);

    const fn page(path: u64) -> Page<&'static str> {
        Page { route: "/*", path }
    }

    fn trial(path: u64) -> Admission<&'static str> {
        Admission::Trial(Scope::Page(page(path)))
    }

    fn over(vigil: &mut Vigil<&'static str>, now: Instant) {
        vigil.handle_trial_over(&Scope::Page(DEADLY), now);
    }

    /// A vigil in which the deadly page has just been refused.
    fn refusing() -> (Vigil<&'static str>, Instant) {
        let (mut vigil, now) = (Vigil::default(), Instant::now());
        assert!(vigil.handle_death(&[DEADLY], now).is_empty());
        assert!(vigil.handle_death(&[DEADLY], now).is_empty());
        assert_eq!(vigil.handle_death(&[DEADLY], now), [(Scope::Page(DEADLY), SHORTEST)]);
        (vigil, now)
    }

    #[test]
    fn the_third_death_in_a_row_is_one_too_many_and_the_pages_beside_it_are_served() {
        let (mut vigil, now) = refusing();
        assert_eq!(vigil.admit(&DEADLY, now), Admission::Refused(SHORTEST));
        assert_eq!(vigil.refuses(&DEADLY, now + SECOND), Some(SHORTEST - SECOND));
        assert_eq!(vigil.admit(&page(2), now), Admission::Free);
    }

    #[test]
    fn a_response_in_between_clears_it() {
        let (mut vigil, now) = (Vigil::default(), Instant::now());
        for _ in 0..10 {
            assert!(vigil.handle_death(&[DEADLY], now).is_empty());
            assert!(vigil.handle_death(&[DEADLY], now).is_empty());
            assert!(!vigil.handle_response(&DEADLY));
        }
        assert!(vigil.is_quiet());
    }

    #[test]
    fn responses_of_other_pages_in_between_do_not() {
        let (mut vigil, now) = (Vigil::default(), Instant::now());
        let mut refused = Vec::new();
        for _ in 0..3 {
            refused.extend(vigil.handle_death(&[DEADLY], now));
            assert!(!vigil.handle_response(&page(2)));
        }
        assert_eq!(refused, [(Scope::Page(DEADLY), SHORTEST)]);
        assert_eq!(vigil.admit(&page(2), now), Admission::Free);
    }

    #[test]
    fn a_route_whose_pages_all_kill_is_refused_as_a_whole_and_opened_by_any_response() {
        let (mut vigil, now) = (Vigil::default(), Instant::now());
        assert!(vigil.handle_death(&[page(1)], now).is_empty());
        assert!(vigil.handle_death(&[page(2)], now).is_empty());
        assert_eq!(vigil.handle_death(&[page(3)], now), [(Scope::Route("/*"), SHORTEST)]);
        assert_eq!(vigil.admit(&page(4), now), Admission::Refused(SHORTEST));
        let now = now + SHORTEST;
        assert_eq!(vigil.admit(&page(4), now), Admission::Trial(Scope::Route("/*")));
        assert_eq!(vigil.admit(&page(5), now), Admission::Refused(SECOND));
        assert!(vigil.handle_response(&page(4)));
        assert_eq!(vigil.admit(&page(5), now), Admission::Free);
    }

    #[test]
    fn after_the_time_one_at_a_time_is_tried_and_a_response_opens_it() {
        let (mut vigil, now) = refusing();
        let now = now + SHORTEST;
        assert_eq!(vigil.refuses(&DEADLY, now), None);
        assert_eq!(vigil.admit(&DEADLY, now), trial(1));
        assert_eq!(vigil.admit(&DEADLY, now), Admission::Refused(SECOND));
        assert!(vigil.handle_response(&DEADLY));
        over(&mut vigil, now);
        assert_eq!(vigil.admit(&DEADLY, now), Admission::Free);
    }

    #[test]
    fn a_trial_that_dies_doubles_the_time_up_to_a_minute() {
        let (mut vigil, mut now) = refusing();
        for seconds in [10, 20, 40, 60, 60] {
            now += LONGEST;
            assert_eq!(vigil.admit(&DEADLY, now), trial(1));
            assert_eq!(vigil.handle_death(&[DEADLY], now), [(Scope::Page(DEADLY), seconds * SECOND)]);
            over(&mut vigil, now);
            assert_eq!(vigil.refuses(&DEADLY, now), Some(seconds * SECOND));
        }
    }

    #[test]
    fn a_trial_that_says_nothing_makes_room_for_the_next() {
        let (mut vigil, now) = refusing();
        let now = now + SHORTEST;
        assert_eq!(vigil.admit(&DEADLY, now), trial(1));
        over(&mut vigil, now);
        assert_eq!(vigil.admit(&DEADLY, now), trial(1));
    }

    #[test]
    fn requests_from_before_the_refusal_do_not_prolong_it() {
        let (mut vigil, now) = refusing();
        assert!(vigil.handle_death(&[DEADLY], now + SECOND).is_empty());
        assert_eq!(vigil.refuses(&DEADLY, now + SECOND), Some(SHORTEST - SECOND));
        // One that is answered after all is the better news.
        assert!(vigil.handle_response(&DEADLY));
        assert!(vigil.is_quiet());
    }

    #[test]
    fn who_shares_a_worker_shares_the_blame() {
        for beside in [2_u64, 3, 7] {
            let (mut vigil, now) = (Vigil::default(), Instant::now());
            let pages: Vec<Page<u64>> = (0..beside).map(|path| Page { route: path, path }).collect();
            for _ in 1..beside * 3 {
                assert!(vigil.handle_death(&pages, now).is_empty(), "{beside}");
            }
            assert_eq!(vigil.handle_death(&pages, now).len() as u64, beside);
        }
    }

    #[test]
    fn an_innocent_page_beside_a_deadly_one_is_cleared_by_its_responses() {
        let (mut vigil, now) = (Vigil::default(), Instant::now());
        let mut refused = Vec::new();
        for _ in 0..6 {
            refused.extend(vigil.handle_death(&[DEADLY, page(2)], now));
            vigil.handle_response(&page(2));
        }
        assert_eq!(refused, [(Scope::Page(DEADLY), SHORTEST)]);
    }

    #[test]
    fn several_of_one_page_in_one_worker_are_one_death_together() {
        let (mut vigil, now) = (Vigil::default(), Instant::now());
        assert!(vigil.handle_death(&[DEADLY; 5], now).is_empty());
        assert!(vigil.handle_death(&[DEADLY; 5], now).is_empty());
        assert_eq!(vigil.handle_death(&[DEADLY; 5], now), [(Scope::Page(DEADLY), SHORTEST)]);
    }

    #[test]
    fn what_has_not_killed_for_long_is_forgotten() {
        let (mut vigil, now) = (Vigil::default(), Instant::now());
        vigil.handle_death(&[DEADLY], now);
        let later = now + FORGOTTEN_AFTER;
        assert_eq!(vigil.admit(&page(2), later), Admission::Free);
        assert!(vigil.is_quiet());
    }

    #[test]
    fn no_number_of_pages_that_kill_grows_the_memory() {
        let (mut vigil, now) = (Vigil::default(), Instant::now());
        for path in 0..10_000_u64 {
            vigil.handle_death(&[Page { route: path, path }], now + Duration::from_millis(path));
        }
        assert!(vigil.watched.len() <= WATCHED_MAX);
        assert!(vigil.watched.contains_key(&Scope::Route(9_999)));
    }
}
