//! The race in virtual time: a million calls of one caller each against origins that close idle connections, and a pool that asks [`KeepAlive`].
//!
//! Guarantees: after the first close that was seen, no call fails, GET or POST; no request is processed twice; and nearly as many connections are reused as by an oracle that
//! knows the timeout and uses four fifths of it.

#![expect(clippy::disallowed_methods, reason = "tests need some instant to count from")]

use std::time::{Duration, Instant};

use super::{KeepAlive, with_margin};
use crate::rng::Rng;

/// How an origin ends an idle connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    /// It closes it, and that is seen.
    Fin,
    /// It responds to the first byte after it with a reset.
    Reset,
    /// It says when, and closes.
    Stated,
}

/// The distribution of the caller's pauses, relative to the timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pauses {
    /// Uniform up to twice the timeout.
    Even,
    /// Mostly short, few very long (each power of two as likely as the next).
    Powers,
    /// Exponential, with half of the timeout as its mean.
    Exponential,
    /// Always the same, just below or just above.
    Near,
    /// Rows of calls, and long pauses between them.
    Rows,
}

#[derive(Debug, Clone, Copy)]
struct Case {
    style: Style,
    pauses: Pauses,
    timeout: Duration,
    /// How many of a hundred calls can be repeated.
    repeatable: u64,
    /// To the origin and back.
    round_trip: Duration,
    calls: u64,
    /// The origin's timeout changes after this number of calls.
    changes: Option<u64>,
    /// The origin ends after this number of calls, and another replaces it.
    ends: Option<(u64, End)>,
    /// Every second connection goes to another server, with this timeout.
    other: Option<Duration>,
}

/// How an origin ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// It closes its connections.
    Closes,
    /// Its host is gone: a request on an old connection gets a reset.
    Silent,
}

impl Case {
    fn new(style: Style, pauses: Pauses, timeout: Duration, repeatable: u64) -> Self {
        let (round_trip, calls) = (Duration::from_millis(1), 2_000);
        Self { style, pauses, timeout, repeatable, round_trip, calls, changes: None, ends: None, other: None }
    }
}

#[derive(Debug, Default)]
struct Outcome {
    reused: u64,
    /// What the oracle would have used again, from the first close on.
    possible: u64,
    /// Those of them that were.
    reached: u64,
    dialled: u64,
    repeated: u64,
    /// Before the first close.
    failed_before: u64,
    failed_by_end: u64,
    failed: Vec<u64>,
}

struct Connection {
    since: Instant,
    /// The origin's, at its last response here.
    timeout: Duration,
    /// The origin is gone.
    gone: bool,
}

/// One door, one caller, one origin.
struct World {
    case: Case,
    rng: Rng,
    now: Instant,
    keep: KeepAlive,
    idle: Vec<Connection>,
    timeout: Duration,
    /// Times each request was processed.
    processed: Vec<u8>,
    /// A close for idleness was seen, since the origin is what it is.
    seen: bool,
    outcome: Outcome,
}

/// As the pool has them by default.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
const IDLE_MOST: usize = 64;

fn run(case: Case, seed: u64) -> Outcome {
    let mut world = World {
        case,
        rng: Rng::new(seed),
        now: Instant::now(),
        keep: KeepAlive::default(),
        idle: Vec::new(),
        timeout: case.timeout,
        processed: vec![0; case.calls as usize],
        seen: false,
        outcome: Outcome::default(),
    };
    for id in 0..case.calls {
        world.change(id);
        let pause = world.pause(id);
        world.wait(pause);
        world.call(id);
    }
    assert!(world.processed.iter().all(|times| *times <= 1), "processed twice: {case:?}");
    let unprocessed = world.processed.iter().filter(|times| **times == 0).count() as u64;
    let Outcome { failed_before, failed_by_end, .. } = world.outcome;
    let failed = world.outcome.failed.len() as u64 + failed_before + failed_by_end;
    assert_eq!(unprocessed, failed, "{case:?}");
    world.outcome
}

impl World {
    fn change(&mut self, id: u64) {
        if self.case.changes.is_some_and(|calls| id > 0 && id.is_multiple_of(calls)) {
            self.timeout = time_out(&mut self.rng);
            self.seen = false;
        }
        match self.case.ends {
            Some((calls, End::Closes)) if id > 0 && id.is_multiple_of(calls) => {
                for connection in std::mem::take(&mut self.idle) {
                    self.keep.handle_close(self.now - connection.since, self.now);
                }
            }
            Some((calls, End::Silent)) if id > 0 && id.is_multiple_of(calls) => {
                self.idle.iter_mut().for_each(|connection| connection.gone = true);
            }
            _ => {}
        }
    }

    fn pause(&mut self, id: u64) -> Duration {
        let nanos = self.timeout.as_nanos() as u64;
        let nanos = match self.case.pauses {
            Pauses::Even => self.rng.below(2 * nanos),
            Pauses::Powers => {
                let power = self.rng.below(12);
                ((nanos * 4) >> power) / 2 + self.rng.below((nanos * 4) >> power)
            }
            Pauses::Exponential => {
                // The sum of leading ones is geometric; a straight line between its steps.
                let steps = u64::from(self.rng.next().trailing_ones());
                (nanos / 2) * steps * 7 / 10 + self.rng.below(nanos * 7 / 20)
            }
            Pauses::Near => nanos * 95 / 100 + self.rng.below(nanos / 10),
            Pauses::Rows if id.is_multiple_of(20) => nanos / 2 + self.rng.below(2 * nanos),
            Pauses::Rows => self.rng.below(nanos / 50),
        };
        Duration::from_nanos(nanos)
    }

    /// Time passes, and with it what the origin and the pool do by themselves.
    fn wait(&mut self, pause: Duration) {
        let until = self.now + pause;
        loop {
            let keeps = self.keep.keep_for().map_or(IDLE_TIMEOUT, |keeps| keeps.min(IDLE_TIMEOUT));
            let tells = self.case.style != Style::Reset;
            let due = |connection: &Connection| {
                let closes = connection.since + connection.timeout;
                let kept = connection.since + keeps;
                if tells && !connection.gone && closes <= kept { (closes, true) } else { (kept, false) }
            };
            let next = self.idle.iter().enumerate().map(|(at, it)| (due(it), at)).min();
            let Some(((at, closed), index)) = next.filter(|((at, _), _)| *at <= until) else { break };
            // What is due by a rule that has just changed is due now.
            self.now = self.now.max(at);
            let idle = self.now - self.idle.remove(index).since;
            match closed {
                true => {
                    self.keep.handle_close(idle, self.now);
                    self.seen = true;
                }
                false => self.keep.handle_open(idle, self.now),
            }
        }
        self.now = until;
    }

    fn call(&mut self, id: u64) {
        let repeatable = self.rng.below(100) < self.case.repeatable;
        let idle = self.idle.last().map(|newest| self.now - newest.since);
        let possible =
            self.seen && idle.is_some_and(|idle| idle < with_margin(self.timeout.min(IDLE_TIMEOUT)));
        self.outcome.possible += u64::from(possible);
        match idle.filter(|idle| self.keep.may_use(*idle, repeatable, self.now)) {
            None => self.dial(id),
            Some(idle) => {
                self.keep.handle_use(idle, self.now);
                let connection = self.idle.pop().expect("it was looked at");
                if !connection.gone && idle + self.case.round_trip < connection.timeout {
                    self.outcome.reused += 1;
                    self.outcome.reached += u64::from(possible);
                    self.keep.handle_success(idle, self.now);
                    self.respond(id);
                } else {
                    self.keep.handle_loss(idle, self.now);
                    match repeatable {
                        true => {
                            self.outcome.repeated += 1;
                            self.dial(id);
                        }
                        // Nothing can be known of the end of a host that says nothing.
                        false if connection.gone => self.outcome.failed_by_end += 1,
                        false if self.seen => self.outcome.failed.push(id),
                        false => self.outcome.failed_before += 1,
                    }
                    self.seen |= !connection.gone;
                }
            }
        }
    }

    fn dial(&mut self, id: u64) {
        self.outcome.dialled += 1;
        if let Some(other) = self.case.other {
            let second = self.outcome.dialled.is_multiple_of(2);
            self.timeout = if second { other } else { self.case.timeout };
        }
        self.respond(id);
    }

    fn respond(&mut self, id: u64) {
        self.processed[id as usize] += 1;
        if self.case.style == Style::Stated {
            // In whole seconds: an origin with less says nothing, and closes.
            let seconds = Some(Duration::from_secs(self.timeout.as_secs())).filter(|it| !it.is_zero());
            self.keep.handle_header(seconds);
            self.seen |= seconds.is_some();
        }
        self.idle.push(Connection { since: self.now, timeout: self.timeout, gone: false });
        if self.idle.len() > IDLE_MOST {
            self.idle.remove(0);
        }
    }
}

/// From 0.2 s to 120 s, each power of two as likely as the next.
fn time_out(rng: &mut Rng) -> Duration {
    let power = rng.below(9);
    let base = 200_u64 << power;
    Duration::from_millis((base + rng.below(base)).min(120_000))
}

const PAUSES: [Pauses; 5] = [Pauses::Even, Pauses::Powers, Pauses::Exponential, Pauses::Near, Pauses::Rows];

/// What several cases came to.
#[derive(Debug, Default)]
struct Sum {
    possible: u64,
    reached: u64,
}

impl Sum {
    /// After the first close none failed; before it at most one did.
    fn add(&mut self, case: Case, seed: u64) -> Outcome {
        let outcome = run(case, seed);
        assert!(outcome.failed.is_empty(), "{case:?}, seed {seed}: {outcome:?}");
        self.possible += outcome.possible;
        self.reached += outcome.reached;
        outcome
    }

    fn percent(&self) -> u64 {
        (self.reached * 100).checked_div(self.possible).unwrap_or(100)
    }
}

const STYLES: [Style; 3] = [Style::Fin, Style::Reset, Style::Stated];

/// A million calls: every way to close, every distribution of pauses, all timeouts from 0.2 s to 120 s, and each kind of caller.
#[test]
fn after_the_first_close_no_call_fails_and_nothing_is_processed_twice() {
    let mut rng = Rng::new(1);
    let (mut calls, mut sums) = (0, [(); 3].map(|()| Sum::default()));
    while calls < 1_000_000 {
        for (style, sum) in STYLES.into_iter().zip(&mut sums) {
            for pauses in PAUSES {
                for repeatable in [100, 90, 50, 10, 0] {
                    let timeout = time_out(&mut rng);
                    let mut case = Case::new(style, pauses, timeout, repeatable);
                    case.calls = 1_000 + rng.below(3_000);
                    // The fifth that is left covers it.
                    case.round_trip = timeout * u32::try_from(rng.below(150)).unwrap() / 1000;
                    // Of an origin that never tells, those learn little who cannot try.
                    let learns = style != Style::Reset || repeatable > 0;
                    let mut other = Sum::default();
                    let outcome = if learns { &mut *sum } else { &mut other }.add(case, rng.next());
                    assert!(outcome.failed_before <= 1, "{case:?}: {outcome:?}");
                    let reached = (outcome.reached * 100).checked_div(outcome.possible.max(1));
                    let least = match style {
                        Style::Fin | Style::Stated => 95,
                        Style::Reset if repeatable >= 50 => 80,
                        Style::Reset => 0,
                    };
                    assert!(outcome.possible < 100 || reached >= Some(least), "{case:?}: {outcome:?}");
                    calls += case.calls;
                }
            }
        }
    }
    let reached = sums.map(|sum| sum.percent());
    assert!(reached[0] >= 98 && reached[1] >= 90 && reached[2] >= 98, "{reached:?}");
}

/// One pair for days.
#[test]
fn a_caller_adapts_to_an_origin_that_never_sends_a_fin() {
    for (pauses, timeout) in PAUSES.into_iter().zip([300, 1_500, 5_000, 20_000, 60_000]) {
        let case = Case::new(Style::Reset, pauses, Duration::from_millis(timeout), 50);
        let outcome = Sum::default().add(Case { calls: 50_000, ..case }, timeout);
        assert!(outcome.repeated < 1_000, "{case:?}: {outcome:?}");
    }
}

/// Two servers behind one address that close silently, one with a shorter timeout: an idle time that is safe at one is lost at the other. The learner soon finds that it cannot know.
#[test]
fn servers_of_two_kinds_behind_one_address_cost_few_calls() {
    for repeatable in [90, 50, 10] {
        let case = Case::new(Style::Reset, Pauses::Exponential, Duration::from_secs(5), repeatable);
        let case = Case { calls: 20_000, other: Some(Duration::from_secs(60)), ..case };
        let outcome = run(case, repeatable);
        assert!(outcome.failed.len() < 20, "{case:?}: {outcome:?}");
    }
}

/// Origins that become others: nothing fails after the first close of each.
#[test]
fn a_changed_timeout_is_learnt_like_the_first() {
    for (style, least) in STYLES.into_iter().zip([85, 80, 90]) {
        let mut sum = Sum::default();
        for seed in 0..40 {
            let mut rng = Rng::new(seed);
            let timeout = time_out(&mut rng);
            let mut case =
                Case::new(style, Pauses::Exponential, timeout, if seed % 2 == 0 { 100 } else { 50 });
            case.changes = Some(500);
            sum.add(case, seed);
        }
        assert!(sum.percent() >= least, "{style:?}: {} %", sum.percent());
        // Callers who can repeat nothing.
        let mut sum = Sum::default();
        for seed in 0..40 {
            let timeout = time_out(&mut Rng::new(seed));
            sum.add(Case { changes: Some(500), ..Case::new(style, Pauses::Powers, timeout, 0) }, seed);
        }
        assert!(style == Style::Reset || sum.percent() >= 80, "{style:?}: {} %", sum.percent());
    }
}

/// An origin that ends every three hundred calls, whatever way: connections are used again soon after.
#[test]
fn a_restart_of_an_origin_does_not_disable_pooling_for_long() {
    for (style, end, least) in [
        (Style::Fin, End::Closes, 80),
        (Style::Fin, End::Silent, 90),
        (Style::Stated, End::Closes, 85),
        (Style::Stated, End::Silent, 85),
        (Style::Reset, End::Closes, 60),
        (Style::Reset, End::Silent, 50),
    ] {
        for repeatable in [100, 50, 10, 0] {
            let mut sum = Sum::default();
            for seed in 0..16 {
                let timeout = time_out(&mut Rng::new(seed));
                let case = Case::new(style, Pauses::Exponential, timeout, repeatable);
                sum.add(Case { ends: Some((300, end)), ..case }, seed);
            }
            // An origin that closes silently, and callers with few or no repeatable calls.
            let blind = style == Style::Reset && repeatable < 50;
            assert!(blind || sum.percent() >= least, "{style:?} {end:?} {repeatable}: {} %", sum.percent());
        }
    }
}
