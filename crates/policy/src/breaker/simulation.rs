//! Checks bounds on the defaults, in virtual time: the cost to callers of a bad page, a bad endpoint, a dead one, a restart and a slow start, with 1, 2 and 8 endpoints.
//!
//! Callers call, get a response, pause, and call again. Breakers, outliers, the choice of an endpoint and the budget of retries are the real ones; the code around them in `egress` (which call
//! waits, what counts as a sign of life, what is retried) is replaced by a few lines.

#![expect(clippy::disallowed_methods, reason = "tests need some instant to count from")]

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::*;
use crate::balance::{EndpointLoad, FailedMembers, Member, MemberStatus, PickContext};
use crate::outlier::EndpointRecord;
use crate::rng::Rng;
use crate::{BalanceSettings, Balancer, Outlier, OutlierSettings, RetryBudget, RetryBudgetSettings};

const MILLI: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// How long a call waits_until for the breaker (`limits.queue_timeout`).
const WAIT: Duration = SECOND;
/// How long an endpoint may be silent (`timeouts.first_byte`): short, so that there are many of those.
const SILENCE: Duration = SECOND;

/// How an endpoint handles a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Behavior {
    /// Responds after that time.
    Serves(Duration),
    /// Responds with 500.
    Fails,
    /// Refuses the connection.
    Refuses,
    /// Sends nothing.
    Hangs,
}

/// What becomes of a call to this endpoint for this page at this time.
type Script = fn(endpoint: usize, page: Page, at: Duration) -> Behavior;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Page {
    Good,
    Bad,
}

#[derive(Debug, Clone, Copy)]
struct Case {
    endpoints: usize,
    /// Callers of the good page and of the bad one, and how long each pauses between its calls.
    good: (usize, Duration),
    bad: (usize, Duration),
    duration: Duration,
    script: Script,
}

/// Of the good page's calls, unless it says otherwise.
#[derive(Debug, Default)]
struct Tally {
    served: u32,
    /// An error of the endpoint's was the response: 500, 502, 504.
    failed: u32,
    /// Refused although an endpoint would have responded at that time.
    wrongly_refused: u32,
    /// Refused.
    refused: u32,
    /// Attempts at endpoints that refuse or hang, and that fail, of both pages.
    sent_to_dead: u32,
    sent_to_failing: u32,
    /// When the first endpoint served the first time after it had not.
    recovered: Option<Duration>,
}

struct Endpoint {
    breaker: Breaker,
    record: EndpointRecord,
    load: EndpointLoad,
}

/// A caller, in one of its calls.
#[derive(Debug, Default)]
struct Caller {
    tried: FailedMembers,
    silent: FailedMembers,
    retries: u32,
    /// It waits_until for the breaker until then.
    waits_until: Option<Instant>,
}

/// An attempt that is under way.
struct Attempt {
    at: usize,
    behavior: Behavior,
    permit: Option<Permit>,
    admitted: Permit,
    began: Instant,
}

enum Event {
    /// The caller tries, or tries again.
    Begin(usize),
    /// Those who wait look.
    Wake,
    End(usize, Attempt),
}

struct World {
    case: Case,
    start: Instant,
    now: Instant,
    rng: Rng,
    endpoints: Vec<Endpoint>,
    balancer: Balancer,
    upstream: Breaker,
    outlier: Outlier,
    budget: RetryBudget,
    callers: Vec<Caller>,
    events: BinaryHeap<Reverse<(Instant, usize)>>,
    /// By the number of the event.
    pending: Vec<Option<Event>>,
    /// When those who wait look next, of themselves.
    wakes_at: Option<Instant>,
    was_dead: bool,
    tally: Tally,
}

fn run(case: Case, seed: u64) -> Tally {
    let start = Instant::now();
    let endpoint = |_| Endpoint {
        breaker: Breaker::new(BreakerSettings::default(), start),
        record: EndpointRecord::new(start),
        load: EndpointLoad::new(start),
    };
    let member = |at: usize| Member { weight: 1, priority: 0, identity: crate::rng::mix(at as u64) };
    let members: Vec<Member> = (0..case.endpoints).map(member).collect();
    let callers = case.good.0 + case.bad.0;
    let mut world = World {
        case,
        start,
        now: start,
        rng: Rng::new(seed),
        endpoints: (0..case.endpoints).map(endpoint).collect(),
        balancer: Balancer::new(BalanceSettings::default(), &members),
        upstream: Breaker::new(BreakerSettings { success_rate: 0, ..BreakerSettings::default() }, start),
        outlier: Outlier::new(OutlierSettings::default(), start),
        budget: RetryBudget::new(RetryBudgetSettings::default()),
        callers: (0..callers).map(|_| Caller::default()).collect(),
        events: BinaryHeap::new(),
        pending: Vec::new(),
        wakes_at: None,
        was_dead: false,
        tally: Tally::default(),
    };
    for caller in 0..callers {
        let after = MILLI * u32::try_from(world.rng.below(20)).unwrap();
        world.at(start + after, Event::Begin(caller));
    }
    while let Some(Reverse((at, event))) = world.events.pop() {
        if at > start + case.duration {
            break;
        }
        world.now = at;
        match world.pending[event].take().expect("each happens once") {
            Event::Begin(caller) => world.begin(caller),
            Event::End(caller, attempt) => world.end(caller, attempt),
            Event::Wake => {}
        }
        if world.wakes_at.is_some_and(|at| at <= world.now) {
            world.wakes_at = None;
        }
        world.wake();
    }
    world.tally
}

impl World {
    fn at(&mut self, when: Instant, event: Event) {
        self.events.push(Reverse((when, self.pending.len())));
        self.pending.push(Some(event));
    }

    fn page(&self, caller: usize) -> Page {
        if caller < self.case.good.0 { Page::Good } else { Page::Bad }
    }

    fn behavior(&self, endpoint: usize, page: Page) -> Behavior {
        (self.case.script)(endpoint, page, self.now - self.start)
    }

    /// As `egress::forward` behavior: the breaker of all of them first, then one of them.
    fn begin(&mut self, caller: usize) {
        if self.callers[caller].retries == 0 && self.callers[caller].waits_until.is_none() {
            self.budget.handle_request();
        }
        match self.upstream.try_acquire(self.now) {
            Ok((admitted, _)) => self.send(caller, admitted),
            Err(refused) => {
                let until = *self.callers[caller].waits_until.get_or_insert(self.now + WAIT);
                let late = !refused.is_probing && self.now + refused.retry_after > until;
                if late || self.now >= until {
                    return self.refuse(caller);
                }
                let next = (self.now + refused.retry_after).min(until);
                if self.wakes_at.is_none_or(|at| next < at) {
                    self.wakes_at = Some(next);
                    self.at(next, Event::Wake);
                }
            }
        }
    }

    fn wake(&mut self) {
        for caller in 0..self.callers.len() {
            if self.callers[caller].waits_until.is_some() {
                self.begin(caller);
            }
        }
    }

    fn send(&mut self, caller: usize, admitted: Permit) {
        self.callers[caller].waits_until = None;
        let (tried, silent) = (self.callers[caller].tried, self.callers[caller].silent);
        let random = self.rng.next();
        let view = |at: usize| MemberStatus {
            usable: self.is_usable(at) && !silent.contains(at),
            outstanding: self.endpoints[at].load.outstanding(),
            average: self.endpoints[at].load.average(self.now),
            slow_start_factor: 1000,
        };
        let picked = self.balancer.pick(view, PickContext { hash: None, tried: &tried, random });
        let at = picked.expect("panic finds one").index;
        let behavior = self.behavior(at, self.page(caller));
        match behavior {
            Behavior::Serves(_) => {}
            Behavior::Fails => self.tally.sent_to_failing += 1,
            Behavior::Refuses | Behavior::Hangs => {
                self.tally.sent_to_dead += 1;
                self.was_dead |= at == 0;
            }
        }
        let endpoint = &mut self.endpoints[at];
        let permit = endpoint.breaker.try_acquire(self.now).ok().map(|(permit, _)| permit);
        endpoint.load.handle_begin();
        let took = match behavior {
            Behavior::Serves(took) => took,
            Behavior::Fails => MILLI,
            Behavior::Refuses => MILLI / 5,
            Behavior::Hangs => SILENCE,
        };
        let attempt = Attempt { at, behavior, permit, admitted, began: self.now };
        self.at(self.now + took, Event::End(caller, attempt));
    }

    fn end(&mut self, caller: usize, attempt: Attempt) {
        let Attempt { at, behavior, permit, admitted, began } = attempt;
        let (outcome, alive) = match behavior {
            Behavior::Serves(_) => (Outcome::Success, Outcome::Success),
            Behavior::Fails => (Outcome::Failure, Outcome::Success),
            Behavior::Refuses | Behavior::Hangs => (Outcome::Failure, Outcome::Failure),
        };
        let is_single = self.endpoints.len() == 1;
        let random = self.rng.next();
        let endpoint = &mut self.endpoints[at];
        endpoint.load.handle_response(self.now - began, outcome == Outcome::Failure, self.now);
        endpoint.load.handle_end();
        if let Some(permit) = permit {
            let reported = if is_single { alive } else { outcome };
            endpoint.breaker.handle_result(permit, reported, self.now, random);
        }
        self.compare(at, outcome);
        let has_another = (0..self.endpoints.len()).any(|other| other != at && self.is_usable(other));
        let reported = if alive == Outcome::Failure && has_another { Outcome::Unknown } else { alive };
        self.upstream.handle_result(admitted, reported, self.now, random);
        if outcome == Outcome::Success && at == 0 && self.was_dead && self.tally.recovered.is_none() {
            self.tally.recovered = Some(self.now - self.start);
        }
        if alive == Outcome::Failure {
            self.callers[caller].silent.push(at);
        }
        // A connection that was not made is tried again; a silence is not, by default.
        let again = behavior == Behavior::Refuses && self.callers[caller].retries == 0;
        if again && self.budget.try_retry_at(self.now) {
            self.callers[caller].retries += 1;
            self.callers[caller].tried.push(at);
            let wait = crate::backoff::fraction(25 * MILLI, random);
            return self.at(self.now + wait, Event::Begin(caller));
        }
        if self.page(caller) == Page::Good {
            let count = match outcome {
                Outcome::Success => &mut self.tally.served,
                _ => &mut self.tally.failed,
            };
            *count += 1;
        }
        self.pause(caller);
    }

    fn refuse(&mut self, caller: usize) {
        if self.page(caller) == Page::Good {
            self.tally.refused += 1;
            let responses = |at| matches!(self.behavior(at, Page::Good), Behavior::Serves(_));
            let wrongly = (0..self.endpoints.len()).any(responses);
            self.tally.wrongly_refused += u32::from(wrongly);
        }
        self.pause(caller);
    }

    fn pause(&mut self, caller: usize) {
        let pause = if self.page(caller) == Page::Good { self.case.good.1 } else { self.case.bad.1 };
        self.callers[caller] = Caller::default();
        let pause = pause / 2 + crate::backoff::fraction(pause, self.rng.next());
        self.at(self.now + pause, Event::Begin(caller));
    }

    fn is_usable(&self, at: usize) -> bool {
        let endpoint = &self.endpoints[at];
        endpoint.breaker.would_permit(self.now) && !endpoint.record.is_ejected(self.now)
    }

    fn compare(&mut self, at: usize, outcome: Outcome) {
        if self.endpoints.len() < 2 {
            return;
        }
        let random = self.rng.next();
        let records: Vec<&EndpointRecord> = self.endpoints.iter().map(|endpoint| &endpoint.record).collect();
        match outcome {
            Outcome::Failure => {
                let row = records[at].handle_failure(self.now);
                let _ = self.outlier.handle_consecutive(&records, at, row, self.now, random);
            }
            _ => records[at].handle_success(),
        }
        self.outlier.handle_interval(&records, self.now, random);
    }
}

const SIZES: [usize; 3] = [1, 2, 8];
/// Callers times their time, in all runs of a case with one number of endpoints. So each test takes about a second on a machine that has nothing else to do.
const WORK: Duration = Duration::from_secs(2_400);

/// The bounds are half more than the worst of a thousand seeds, which stands beside them.
fn each(sizes: &[usize], case: Case, holds: impl Fn(usize, &Tally) -> bool) {
    let callers = u32::try_from(case.good.0 + case.bad.0).unwrap();
    let seeds = WORK.as_secs() / (case.duration * callers).as_secs();
    for endpoints in sizes {
        for seed in 0..seeds {
            let seen = run(Case { endpoints: *endpoints, ..case }, seed);
            assert!(holds(*endpoints, &seen), "{endpoints} endpoints, seed {seed}: {seen:?}");
        }
    }
}

/// Ten visitors of a good page for each endpoint's sake, and nobody else.
fn ten(duration: Duration, script: Script) -> Case {
    Case { endpoints: 1, good: (10, 20 * MILLI), bad: (0, MILLI), duration, script }
}

/// Thirty hammer a page that responds with 500; three visit another.
#[test]
fn a_page_that_fails_does_not_refuse_other_calls() {
    let script: Script = |_, page, _| match page {
        Page::Good => Behavior::Serves(2 * MILLI),
        Page::Bad => Behavior::Fails,
    };
    let case = Case { bad: (30, 5 * MILLI), good: (3, 10 * MILLI), ..ten(6 * SECOND, script) };
    each(&SIZES, case, |_, tally| tally.refused == 0 && tally.failed == 0 && tally.served > 1_000);
}

/// Thirty wait for a page that says nothing; three visit another.
#[test]
fn a_page_that_hangs_does_not_refuse_other_calls() {
    let script: Script = |_, page, _| match page {
        Page::Good => Behavior::Serves(2 * MILLI),
        Page::Bad => Behavior::Hangs,
    };
    let case = Case { bad: (30, 5 * MILLI), good: (3, 10 * MILLI), ..ten(6 * SECOND, script) };
    each(&SIZES, case, |_, tally| tally.refused == 0 && tally.failed == 0 && tally.served > 1_000);
}

/// A minute of 500 for everything, at the first endpoint: alone it is called all the same, beside others it is left alone.
#[test]
fn an_endpoint_that_fails_everything_is_avoided_if_there_are_others() {
    let script: Script = |at, _, _| if at == 0 { Behavior::Fails } else { Behavior::Serves(2 * MILLI) };
    each(&SIZES, ten(60 * SECOND, script), |endpoints, tally| {
        // 19.
        let bound = if endpoints == 1 { u32::MAX } else { 28 };
        tally.refused == 0 && tally.sent_to_failing <= bound
    });
}

/// A minute of nobody there, at the first endpoint. Alone: who calls is refused, but for the probes.
#[test]
fn an_endpoint_that_is_gone_gets_few_calls() {
    let script: Script = |at, _, _| if at == 0 { Behavior::Refuses } else { Behavior::Serves(2 * MILLI) };
    each(&SIZES, ten(60 * SECOND, script), |endpoints, tally| {
        let well = endpoints == 1 || (tally.failed == 0 && tally.refused == 0 && tally.served > 5_000);
        // 22.
        tally.sent_to_dead <= 33 && tally.wrongly_refused == 0 && well
    });
    let script: Script = |at, _, _| if at == 0 { Behavior::Hangs } else { Behavior::Serves(2 * MILLI) };
    each(&SIZES, ten(60 * SECOND, script), |endpoints, tally| {
        let well = endpoints == 1 || (tally.refused == 0 && tally.served > 5_000);
        // 25 and 6.
        tally.sent_to_dead <= if endpoints == 1 { 36 } else { 9 } && tally.wrongly_refused == 0 && well
    });
}

/// The first endpoint is away for 0.3 s, under ten callers who never pause for long.
#[test]
fn a_restart_is_a_delay() {
    let script: Script = |at, _, time| match time.as_millis() {
        1000..1300 if at == 0 => Behavior::Refuses,
        _ => Behavior::Serves(2 * MILLI),
    };
    // Ten callers, none of them rejected: a delay of 0.2 s at most, however many endpoints there are.
    each(&SIZES, ten(60 * SECOND, script), |endpoints, tally| {
        let recovered = tally.recovered.is_some_and(|at| at <= Duration::from_millis(1_600));
        // 4 failed, of those who had no other endpoint; 9 went there.
        let failed = if endpoints == 1 { 6 } else { 0 };
        tally.refused == 0 && tally.failed <= failed && tally.sent_to_dead <= 14 && recovered
    });
}

/// The other endpoint is 200 times as slow: the one that was away is soon called again.
#[test]
fn a_restart_of_the_only_fast_endpoint_is_a_delay() {
    let script: Script = |at, _, time| match (at, time.as_millis()) {
        (0, 1000..1300) => Behavior::Refuses,
        (0, _) => Behavior::Serves(2 * MILLI),
        _ => Behavior::Serves(400 * MILLI),
    };
    each(&[2], ten(60 * SECOND, script), |_, tally| {
        let recovered = tally.recovered.is_some_and(|at| at <= Duration::from_millis(1_600));
        tally.refused == 0 && tally.failed == 0 && recovered && tally.served > 10_000
    });
}

/// All of them at once.
#[test]
fn a_restart_of_all_endpoints_is_a_delay() {
    let script: Script = |_, _, time| match time.as_millis() {
        1000..1300 => Behavior::Refuses,
        _ => Behavior::Serves(2 * MILLI),
    };
    each(&SIZES, ten(12 * SECOND, script), |endpoints, tally| {
        // 4, 8 and 92: the breaker of all of them counts only when none is left, and each of eight has to be found silent first.
        let failed = match endpoints {
            1 => 6,
            2 => 12,
            _ => 138,
        };
        tally.refused == 0 && tally.failed <= failed && tally.recovered.is_some()
    });
}

/// The only endpoint is away for longer: those who call are refused, and it is found again soon.
#[test]
fn recovery_takes_no_longer_than_the_outage_and_seconds_at_most() {
    for (script, back) in [
        (
            (|_, _, time| {
                if (1..3).contains(&time.as_secs()) { Behavior::Refuses } else { Behavior::Serves(MILLI) }
            }) as Script,
            3,
        ),
        (
            (|_, _, time| {
                if (1..61).contains(&time.as_secs()) { Behavior::Refuses } else { Behavior::Serves(MILLI) }
            }) as Script,
            61,
        ),
        (
            (|_, _, time| {
                if (1..61).contains(&time.as_secs()) { Behavior::Hangs } else { Behavior::Serves(MILLI) }
            }) as Script,
            61,
        ),
    ] {
        each(&[1], ten(80 * SECOND, script), |_, tally| {
            let recovery = tally.recovered.map(|at| at.saturating_sub(SECOND * back));
            recovery.is_some_and(|took| took <= Duration::from_millis(6_300).min(SECOND * back))
                && tally.sent_to_dead <= 60
        });
    }
}

/// Away for 0.3 s, and then slow for two seconds: those who wait for the probes do so for a second, and each is refused once at most.
#[test]
fn a_slow_start_refuses_each_caller_once_at_most() {
    let script: Script = |at, _, time| match time.as_millis() {
        1000..1300 if at == 0 => Behavior::Refuses,
        1300..3300 if at == 0 => Behavior::Serves(800 * MILLI),
        _ => Behavior::Serves(2 * MILLI),
    };
    each(&SIZES, ten(60 * SECOND, script), |endpoints, tally| {
        // 8, and 4 failed, of those who had no other endpoint.
        let (refused, failed) = if endpoints == 1 { (10, 6) } else { (0, 0) };
        tally.refused <= refused && tally.failed <= failed && tally.recovered.is_some()
    });
}
