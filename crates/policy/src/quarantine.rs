//! Pages and routes of an app that are refused because they kill its workers.
//!
//! A request that kills its worker costs all others the time of a new start. When requests for one page have killed `DEATHS` workers and no request for that page got
//! a response in between, the page is refused, and then tried with one request at a time until one gets a response. Responses of other pages say nothing about it. A
//! whole route is judged by deaths of *different* pages (`/user/1`, `/user/2`) and by the responses of all its pages: one bad page must not take the others away.
//!
//! The signal is a worker's death while it serves a request. If it served several, the culprit is unknown and each bears an equal share: an innocent page has its own
//! responses to clear it, and takes longer to collect the blame. A response clears a page completely. The first refusal is short, because a deploy may just be going wrong;
//! each further one is twice as long. At the start nothing is refused; a page that has not killed a worker for `FORGET_AFTER` is forgotten.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

/// Deaths in a row before a page is refused. Two may be one request that was retried.
const DEATHS: u64 = 3;
/// One death, in units that allow for shares.
const ONE_DEATH: u64 = 1 << 32;
/// The length of the first refusal.
const REFUSAL_MIN: Duration = Duration::from_secs(5);
/// The longest refusal: about what a person waits before the next attempt.
const REFUSAL_MAX: Duration = Duration::from_secs(60);
/// Deaths further apart are unrelated, and a page that is no longer requested should not be kept for ever.
const FORGET_AFTER: Duration = Duration::from_secs(600);
/// Limit on suspects; above it, the one with the oldest death is forgotten. Each entry has cost the app a worker.
const SUSPECTS_MAX: usize = 1024;

/// The suspects of one app: pages and routes with a death since their last response. `R` names a route.
#[derive(Debug)]
pub struct Quarantine<R> {
    suspects: HashMap<Scope<R>, Suspect>,
    /// When to remove old suspects.
    sweep_at: Option<Instant>,
}

/// The page that a request is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Page<R> {
    /// Its route.
    pub route: R,
    /// Hash of its path; paths with the same hash are treated as one page.
    pub path: u64,
}

/// The requests that a refusal covers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Scope<R> {
    /// One page.
    Page(Page<R>),
    /// All pages of a route.
    Route(R),
}

#[derive(Debug, Clone, Copy)]
struct Suspect {
    blame: u64,
    last_death: Instant,
    /// Length of the last refusal; zero: never refused.
    refused_for: Duration,
    state: SuspectState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SuspectState {
    /// Its requests go to workers.
    Admitted,
    /// Its requests are refused until this time.
    Refused(Instant),
    /// One request is under way as a trial.
    Trial,
}

/// Whether a request may go to a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission<R> {
    /// It may.
    Allowed,
    /// It may, as the only one of this scope: call [`Quarantine::handle_trial_end`] when it has ended, for whatever reason.
    Trial(Scope<R>),
    /// It is refused; a trial is due after this time.
    Refused(Duration),
}

impl<R> Default for Quarantine<R> {
    fn default() -> Self {
        Self { suspects: HashMap::new(), sweep_at: None }
    }
}

impl<R: Hash + Eq + Clone> Scope<R> {
    /// Whether a request for this page is in the scope.
    pub fn covers(&self, page: &Page<R>) -> bool {
        match self {
            Self::Page(own) => own == page,
            Self::Route(route) => *route == page.route,
        }
    }

    /// The narrow one first.
    fn narrow_and_wide(page: &Page<R>) -> [Self; 2] {
        [Self::Page(page.clone()), Self::Route(page.route.clone())]
    }
}

impl<R: Hash + Eq + Clone> Quarantine<R> {
    /// Whether there is no suspect: responses need not be reported then.
    pub fn is_empty(&self) -> bool {
        self.suspects.is_empty()
    }

    /// A request is about to be given to a worker.
    pub fn admit(&mut self, page: &Page<R>, now: Instant) -> Admission<R> {
        self.forget_old(now);
        if let Some(time) = self.refusal(page, now) {
            return Admission::Refused(time);
        }
        for scope in Scope::narrow_and_wide(page) {
            let Some(suspect) = self.suspects.get_mut(&scope) else { continue };
            if matches!(suspect.state, SuspectState::Refused(_)) {
                suspect.state = SuspectState::Trial;
                return Admission::Trial(scope);
            }
        }
        Admission::Allowed
    }

    /// For how long a request would be refused now, if it would.
    pub fn refusal(&self, page: &Page<R>, now: Instant) -> Option<Duration> {
        let suspects = Scope::narrow_and_wide(page).into_iter().filter_map(|scope| self.suspects.get(&scope));
        suspects.filter_map(|suspect| suspect.refusal(now)).max()
    }

    /// A request for the page got a response. `true`: such requests were refused until now.
    pub fn handle_response(&mut self, page: &Page<R>) -> bool {
        let mut opened = false;
        for scope in Scope::narrow_and_wide(page) {
            opened |=
                self.suspects.remove(&scope).is_some_and(|suspect| suspect.state != SuspectState::Admitted);
        }
        opened
    }

    /// A worker died while it served requests for these pages, one entry for each request. Returns what is refused from now on, and for how long.
    pub fn handle_death(&mut self, pages: &[Page<R>], now: Instant) -> Vec<(Scope<R>, Duration)> {
        // Rounded up: shares of one death are a whole death together.
        let share = ONE_DEATH.div_ceil((pages.len() as u64).max(1));
        let mut refused: Vec<(Scope<R>, Duration)> = Vec::new();
        for page in pages {
            let [own, route] = Scope::narrow_and_wide(page);
            // The route is not to blame for a page that kills again.
            let is_new = !self.suspects.contains_key(&own);
            refused.extend(self.blame(own, share, now));
            if is_new {
                refused.extend(self.blame(route, share, now));
            }
        }
        refused
    }

    /// A request admitted as an [`Admission::Trial`] has ended. If it brought neither a response nor a death, nothing was learnt and the next request is a trial.
    pub fn handle_trial_end(&mut self, scope: &Scope<R>, now: Instant) {
        if let Some(suspect) =
            self.suspects.get_mut(scope).filter(|suspect| suspect.state == SuspectState::Trial)
        {
            suspect.state = SuspectState::Refused(now);
        }
    }

    fn blame(&mut self, scope: Scope<R>, share: u64, now: Instant) -> Option<(Scope<R>, Duration)> {
        if self.suspects.len() >= SUSPECTS_MAX && !self.suspects.contains_key(&scope) {
            self.forget_oldest();
        }
        self.sweep_at.get_or_insert(now + FORGET_AFTER);
        let suspect = self.suspects.entry(scope.clone()).or_insert(Suspect {
            blame: 0,
            last_death: now,
            refused_for: Duration::ZERO,
            state: SuspectState::Admitted,
        });
        suspect.last_death = now;
        suspect.blame = suspect.blame.saturating_add(share);
        // A death of a request from before the refusal says nothing new.
        if suspect.blame < DEATHS * ONE_DEATH || matches!(suspect.state, SuspectState::Refused(_)) {
            return None;
        }
        Some((scope, suspect.refuse(now)))
    }

    fn forget_old(&mut self, now: Instant) {
        if self.sweep_at.is_none_or(|at| at > now) {
            return;
        }
        self.suspects.retain(|_, suspect| {
            suspect.state == SuspectState::Trial || suspect.last_death + FORGET_AFTER > now
        });
        self.sweep_at = (!self.suspects.is_empty()).then(|| now + FORGET_AFTER);
    }

    fn forget_oldest(&mut self) {
        let oldest = self.suspects.iter().min_by_key(|(_, suspect)| suspect.last_death);
        if let Some(oldest) = oldest.map(|(scope, _)| scope.clone()) {
            self.suspects.remove(&oldest);
        }
    }
}

impl Suspect {
    fn refusal(&self, now: Instant) -> Option<Duration> {
        match self.state {
            SuspectState::Refused(until) if until > now => Some(until - now),
            // Nobody knows how long the trial takes.
            SuspectState::Trial => Some(Duration::from_secs(1)),
            SuspectState::Admitted | SuspectState::Refused(_) => None,
        }
    }

    fn refuse(&mut self, now: Instant) -> Duration {
        self.refused_for = (self.refused_for * 2).clamp(REFUSAL_MIN, REFUSAL_MAX);
        self.state = SuspectState::Refused(now + self.refused_for);
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

    fn end_trial(quarantine: &mut Quarantine<&'static str>, now: Instant) {
        quarantine.handle_trial_end(&Scope::Page(DEADLY), now);
    }

    /// A quarantine in which the deadly page has just been refused.
    fn refusing() -> (Quarantine<&'static str>, Instant) {
        let (mut quarantine, now) = (Quarantine::default(), Instant::now());
        assert!(quarantine.handle_death(&[DEADLY], now).is_empty());
        assert!(quarantine.handle_death(&[DEADLY], now).is_empty());
        assert_eq!(quarantine.handle_death(&[DEADLY], now), [(Scope::Page(DEADLY), REFUSAL_MIN)]);
        (quarantine, now)
    }

    #[test]
    fn the_third_death_in_a_row_is_refused_and_other_pages_are_served() {
        let (mut quarantine, now) = refusing();
        assert_eq!(quarantine.admit(&DEADLY, now), Admission::Refused(REFUSAL_MIN));
        assert_eq!(quarantine.refusal(&DEADLY, now + SECOND), Some(REFUSAL_MIN - SECOND));
        assert_eq!(quarantine.admit(&page(2), now), Admission::Allowed);
    }

    #[test]
    fn a_response_between_deaths_clears_the_page() {
        let (mut quarantine, now) = (Quarantine::default(), Instant::now());
        for _ in 0..10 {
            assert!(quarantine.handle_death(&[DEADLY], now).is_empty());
            assert!(quarantine.handle_death(&[DEADLY], now).is_empty());
            assert!(!quarantine.handle_response(&DEADLY));
        }
        assert!(quarantine.is_empty());
    }

    #[test]
    fn responses_of_other_pages_do_not_clear_it() {
        let (mut quarantine, now) = (Quarantine::default(), Instant::now());
        let mut refused = Vec::new();
        for _ in 0..3 {
            refused.extend(quarantine.handle_death(&[DEADLY], now));
            assert!(!quarantine.handle_response(&page(2)));
        }
        assert_eq!(refused, [(Scope::Page(DEADLY), REFUSAL_MIN)]);
        assert_eq!(quarantine.admit(&page(2), now), Admission::Allowed);
    }

    #[test]
    fn a_route_whose_pages_all_kill_is_refused_and_cleared_by_any_response() {
        let (mut quarantine, now) = (Quarantine::default(), Instant::now());
        assert!(quarantine.handle_death(&[page(1)], now).is_empty());
        assert!(quarantine.handle_death(&[page(2)], now).is_empty());
        assert_eq!(quarantine.handle_death(&[page(3)], now), [(Scope::Route("/*"), REFUSAL_MIN)]);
        assert_eq!(quarantine.admit(&page(4), now), Admission::Refused(REFUSAL_MIN));
        let now = now + REFUSAL_MIN;
        assert_eq!(quarantine.admit(&page(4), now), Admission::Trial(Scope::Route("/*")));
        assert_eq!(quarantine.admit(&page(5), now), Admission::Refused(SECOND));
        assert!(quarantine.handle_response(&page(4)));
        assert_eq!(quarantine.admit(&page(5), now), Admission::Allowed);
    }

    #[test]
    fn after_the_refusal_one_request_is_tried_and_a_response_clears_the_page() {
        let (mut quarantine, now) = refusing();
        let now = now + REFUSAL_MIN;
        assert_eq!(quarantine.refusal(&DEADLY, now), None);
        assert_eq!(quarantine.admit(&DEADLY, now), trial(1));
        assert_eq!(quarantine.admit(&DEADLY, now), Admission::Refused(SECOND));
        assert!(quarantine.handle_response(&DEADLY));
        end_trial(&mut quarantine, now);
        assert_eq!(quarantine.admit(&DEADLY, now), Admission::Allowed);
    }

    #[test]
    fn a_trial_that_kills_doubles_the_refusal_up_to_a_minute() {
        let (mut quarantine, mut now) = refusing();
        for seconds in [10, 20, 40, 60, 60] {
            now += REFUSAL_MAX;
            assert_eq!(quarantine.admit(&DEADLY, now), trial(1));
            assert_eq!(quarantine.handle_death(&[DEADLY], now), [(Scope::Page(DEADLY), seconds * SECOND)]);
            end_trial(&mut quarantine, now);
            assert_eq!(quarantine.refusal(&DEADLY, now), Some(seconds * SECOND));
        }
    }

    #[test]
    fn a_trial_without_a_result_is_followed_by_another() {
        let (mut quarantine, now) = refusing();
        let now = now + REFUSAL_MIN;
        assert_eq!(quarantine.admit(&DEADLY, now), trial(1));
        end_trial(&mut quarantine, now);
        assert_eq!(quarantine.admit(&DEADLY, now), trial(1));
    }

    #[test]
    fn requests_from_before_the_refusal_do_not_prolong_it() {
        let (mut quarantine, now) = refusing();
        assert!(quarantine.handle_death(&[DEADLY], now + SECOND).is_empty());
        assert_eq!(quarantine.refusal(&DEADLY, now + SECOND), Some(REFUSAL_MIN - SECOND));
        // A late response clears the page all the same.
        assert!(quarantine.handle_response(&DEADLY));
        assert!(quarantine.is_empty());
    }

    #[test]
    fn pages_in_one_worker_share_the_blame() {
        for beside in [2_u64, 3, 7] {
            let (mut quarantine, now) = (Quarantine::default(), Instant::now());
            let pages: Vec<Page<u64>> = (0..beside).map(|path| Page { route: path, path }).collect();
            for _ in 1..beside * 3 {
                assert!(quarantine.handle_death(&pages, now).is_empty(), "{beside}");
            }
            assert_eq!(quarantine.handle_death(&pages, now).len() as u64, beside);
        }
    }

    #[test]
    fn an_innocent_page_beside_a_deadly_one_is_cleared_by_its_responses() {
        let (mut quarantine, now) = (Quarantine::default(), Instant::now());
        let mut refused = Vec::new();
        for _ in 0..6 {
            refused.extend(quarantine.handle_death(&[DEADLY, page(2)], now));
            quarantine.handle_response(&page(2));
        }
        assert_eq!(refused, [(Scope::Page(DEADLY), REFUSAL_MIN)]);
    }

    #[test]
    fn several_requests_of_one_page_in_one_worker_count_as_one_death() {
        let (mut quarantine, now) = (Quarantine::default(), Instant::now());
        assert!(quarantine.handle_death(&[DEADLY; 5], now).is_empty());
        assert!(quarantine.handle_death(&[DEADLY; 5], now).is_empty());
        assert_eq!(quarantine.handle_death(&[DEADLY; 5], now), [(Scope::Page(DEADLY), REFUSAL_MIN)]);
    }

    #[test]
    fn old_deaths_are_forgotten() {
        let (mut quarantine, now) = (Quarantine::default(), Instant::now());
        quarantine.handle_death(&[DEADLY], now);
        let later = now + FORGET_AFTER;
        assert_eq!(quarantine.admit(&page(2), later), Admission::Allowed);
        assert!(quarantine.is_empty());
    }

    #[test]
    fn the_number_of_suspects_is_bounded() {
        let (mut quarantine, now) = (Quarantine::default(), Instant::now());
        for path in 0..10_000_u64 {
            quarantine.handle_death(&[Page { route: path, path }], now + Duration::from_millis(path));
        }
        assert!(quarantine.suspects.len() <= SUSPECTS_MAX);
        assert!(quarantine.suspects.contains_key(&Scope::Route(9_999)));
    }
}
