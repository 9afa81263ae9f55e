#![expect(clippy::disallowed_methods, reason = "tests need some instant to count from")]

use super::*;
use crate::rng::Rng;

const SECOND: Duration = Duration::from_secs(1);

/// Times that are easy to read.
fn settings() -> BreakerSettings {
    BreakerSettings { open: SECOND, open_most: SECOND * 30, ..BreakerSettings::default() }
}

struct Bench {
    breaker: Breaker,
    now: Instant,
}

impl Bench {
    fn new(settings: BreakerSettings) -> Self {
        let now = Instant::now();
        Self { breaker: Breaker::new(settings, now), now }
    }

    fn pass(&mut self) -> Permit {
        self.breaker.try_acquire(self.now).expect("lets it through").0
    }

    /// One call, at once.
    fn call(&mut self, outcome: Outcome) -> Option<BreakerChange> {
        let permit = self.pass();
        self.breaker.handle_result(permit, outcome, self.now, 0)
    }

    fn fail(&mut self, times: usize) -> Option<BreakerChange> {
        (0..times).filter_map(|_| self.call(Outcome::Failure)).last()
    }

    fn state(&self) -> BreakerState {
        self.breaker.state(self.now)
    }
}

#[test]
fn failures_in_a_row_trip_it_and_a_success_breaks_the_row() {
    let mut bench = Bench::new(settings());
    assert_eq!(bench.fail(4), None);
    assert_eq!(bench.call(Outcome::Success), None);
    assert_eq!(bench.call(Outcome::Unknown), None);
    assert_eq!(bench.fail(4), None);
    assert_eq!(bench.fail(1), Some(BreakerChange::Opened(OpenCause::Consecutive(5), SECOND)));
    assert_eq!((bench.state(), bench.state().name()), (BreakerState::Open, "open"));
    bench.now += SECOND / 4;
    assert_eq!(
        bench.breaker.try_acquire(bench.now),
        Err(Rejection { retry_after: SECOND * 3 / 4, is_probing: false })
    );
    assert!(!bench.breaker.would_permit(bench.now));
    assert_eq!(bench.breaker.open_until(), Some(bench.now + SECOND * 3 / 4));
}

#[test]
fn shorter_times_count_for_one_that_is_open() {
    let hour = SECOND * 3600;
    let mut bench = Bench::new(BreakerSettings { open: hour, open_most: hour, ..settings() });
    assert!(bench.fail(5).is_some());
    bench.breaker.set_settings(BreakerSettings { open: hour, open_most: hour * 2, ..settings() }, bench.now);
    assert_eq!(bench.breaker.open_until(), Some(bench.now + hour));
    bench.breaker.set_settings(BreakerSettings { open_most: SECOND * 4, ..settings() }, bench.now);
    assert_eq!(bench.breaker.open_until(), Some(bench.now + SECOND * 5));
}

/// A page that hangs fails in rows, whenever its calls began together; meanwhile the others are served.
#[test]
fn failures_overtaken_by_a_success_do_not_count_as_a_row() {
    let mut bench = Bench::new(settings());
    for _ in 0..100 {
        let hanging: Vec<Permit> = (0..20).map(|_| bench.pass()).collect();
        bench.now += SECOND;
        assert_eq!(bench.call(Outcome::Success), None);
        bench.now += SECOND;
        for permit in hanging {
            let change = bench.breaker.handle_result(permit, Outcome::Failure, bench.now, 0);
            assert!(
                matches!(change, None | Some(BreakerChange::Opened(OpenCause::SuccessRate(_), _))),
                "{change:?}"
            );
        }
        bench = Bench { breaker: Breaker::new(settings(), bench.now), ..bench };
    }
    let silent: Vec<Permit> = (0..5).map(|_| bench.pass()).collect();
    let change = silent
        .into_iter()
        .filter_map(|permit| bench.breaker.handle_result(permit, Outcome::Failure, bench.now, 0))
        .last();
    assert_eq!(
        change,
        Some(BreakerChange::Opened(OpenCause::Consecutive(5), SECOND)),
        "nothing was last_success since"
    );
}

#[test]
fn a_low_success_rate_trips_it_after_the_minimum_of_calls() {
    let mut bench = Bench::new(BreakerSettings { consecutive: 0, ..settings() });
    for call in 0..19 {
        let outcome = if call % 5 < 2 { Outcome::Success } else { Outcome::Failure };
        assert_eq!(bench.call(outcome), None, "{call}");
    }
    assert_eq!(bench.call(Outcome::Failure), Some(BreakerChange::Opened(OpenCause::SuccessRate(40), SECOND)));
}

#[test]
fn old_calls_leave_the_window() {
    let mut bench = Bench::new(BreakerSettings { consecutive: 0, ..settings() });
    bench.fail(19);
    bench.now += 11 * SECOND;
    assert_eq!(bench.fail(19), None);
    assert!(bench.fail(1).is_some());
    let mut off = Bench::new(BreakerSettings { consecutive: 0, success_rate: 0, ..settings() });
    assert_eq!(off.fail(1000), None);
}

#[test]
fn half_open_lets_one_through_then_some_and_closes_when_they_succeed() {
    let mut bench = Bench::new(settings());
    bench.fail(5);
    bench.now += SECOND;
    assert_eq!(bench.state(), BreakerState::HalfOpen);
    assert!(bench.breaker.would_permit(bench.now));
    let (first, change) = bench.breaker.try_acquire(bench.now).unwrap();
    assert_eq!(change, Some(BreakerChange::HalfOpened));
    let refused = Rejection { retry_after: 2 * SECOND, is_probing: true };
    assert_eq!(bench.breaker.try_acquire(bench.now), Err(refused), "the first goes alone");
    assert_eq!(bench.breaker.handle_result(first, Outcome::Success, bench.now, 0), None);
    let others = [bench.pass(), bench.pass()];
    assert!(bench.breaker.try_acquire(bench.now).is_err(), "two under way and one done are three");
    let changes = others.map(|permit| bench.breaker.handle_result(permit, Outcome::Success, bench.now, 0));
    assert_eq!(changes, [None, Some(BreakerChange::Closed)]);
    assert_eq!(bench.fail(4), None, "the failures are forgotten");
}

#[test]
fn a_probe_that_fails_opens_it_for_twice_as_long_up_to_the_most() {
    let mut bench = Bench::new(settings());
    bench.fail(5);
    let mut lengths = Vec::new();
    for _ in 0..7 {
        bench.now = bench.breaker.open_until().unwrap();
        match bench.call(Outcome::Failure) {
            Some(BreakerChange::Opened(OpenCause::Probe, length)) => lengths.push(length.as_secs()),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(lengths, [2, 4, 8, 16, 30, 30, 30]);
}

#[test]
fn jitter_adds_up_to_a_quarter() {
    let mut bench = Bench::new(BreakerSettings { consecutive: 1, ..settings() });
    let permit = bench.pass();
    let change = bench.breaker.handle_result(permit, Outcome::Failure, bench.now, u64::MAX);
    assert_eq!(change, Some(BreakerChange::Opened(OpenCause::Consecutive(1), SECOND * 5 / 4)));
}

#[test]
fn the_length_is_forgotten_when_it_stayed_closed() {
    let mut bench = Bench::new(BreakerSettings { consecutive: 1, probes: 1, ..settings() });
    for (closed, length) in [(0, 1), (0, 2), (1, 4), (4, 1), (1, 1), (0, 2), (2, 1)] {
        bench.now += SECOND * closed;
        assert_eq!(
            bench.call(Outcome::Failure),
            Some(BreakerChange::Opened(OpenCause::Consecutive(1), SECOND * length))
        );
        bench.now = bench.breaker.open_until().unwrap();
        assert_eq!(bench.call(Outcome::Success), Some(BreakerChange::Closed));
    }
}

/// What was under way when it opened ends late, and says nothing of how the server is now.
#[test]
fn a_result_of_an_earlier_state_does_not_count() {
    let mut bench = Bench::new(settings());
    let (early, late) = (bench.pass(), bench.pass());
    bench.fail(5);
    assert_eq!(bench.breaker.handle_result(early, Outcome::Success, bench.now, 0), None);
    bench.now += SECOND;
    let probe = bench.pass();
    assert_eq!(bench.breaker.handle_result(late, Outcome::Failure, bench.now, 0), None);
    assert_eq!(bench.state(), BreakerState::HalfOpen);
    assert_eq!(bench.breaker.handle_result(probe, Outcome::Unknown, bench.now, 0), None);
    let _ = bench.pass();
}

/// A probe that meets a page which takes a minute would have all others wait for it.
#[test]
fn a_silent_probe_is_followed_by_others_at_growing_intervals() {
    let mut bench = Bench::new(settings());
    bench.fail(5);
    bench.now += SECOND;
    let mut silent = vec![bench.pass()];
    let mut waits = Vec::new();
    for _ in 0..6 {
        let refused = bench.breaker.try_acquire(bench.now).unwrap_err();
        assert!(refused.is_probing);
        waits.push(refused.retry_after.as_secs());
        bench.now += refused.retry_after;
        silent.push(bench.pass());
    }
    assert_eq!(waits, [2, 4, 8, 16, 30, 30]);
    // One of them gets a response: silent probes still block no other, and their failures do not count.
    let responded = silent.pop().unwrap();
    bench.now += SECOND;
    assert_eq!(bench.breaker.handle_result(responded, Outcome::Success, bench.now, 0), None);
    let others = [bench.pass(), bench.pass()];
    for permit in silent {
        assert_eq!(bench.breaker.handle_result(permit, Outcome::Failure, bench.now, 0), None);
    }
    let changes = others.map(|permit| bench.breaker.handle_result(permit, Outcome::Success, bench.now, 0));
    assert_eq!(changes, [None, Some(BreakerChange::Closed)]);
}

#[test]
fn settings_change_without_forgetting() {
    let mut bench = Bench::new(settings());
    bench.fail(4);
    let settings = BreakerSettings { consecutive: 10, window: SECOND, ..settings() };
    bench.breaker.set_settings(settings, bench.now);
    assert_eq!(bench.fail(5), None);
    assert!(bench.fail(1).is_some());
}

/// Whatever comes: an open breaker lets nothing through, a half-open one no more than its probes, and every opening ends.
#[test]
fn random_calls_never_break_the_rules() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let probes = 1 + u32::try_from(rng.below(4)).unwrap();
        let mut bench = Bench::new(BreakerSettings { probes, ..settings() });
        let (mut passes, mut half_open) = (Vec::new(), 0);
        for _ in 0..2_000 {
            bench.now += Duration::from_millis(rng.below(400));
            let before = bench.state();
            match bench.breaker.try_acquire(bench.now) {
                Ok((permit, change)) => {
                    assert_ne!(before, BreakerState::Open);
                    if change == Some(BreakerChange::HalfOpened) {
                        half_open = 0;
                    }
                    half_open += 1;
                    passes.push(permit);
                }
                Err(refused) => {
                    assert_ne!(before, BreakerState::Closed);
                    assert!(refused.retry_after <= Duration::from_millis(37_500));
                }
            }
            if bench.state() == BreakerState::HalfOpen {
                // Unknown ones are given back, and only after a long time others are let in.
                assert!(passes.len() as u32 <= 40 + probes || half_open > 0);
            }
            while passes.len() > 3 || (!passes.is_empty() && rng.below(3) == 0) {
                let at = usize::try_from(rng.below(passes.len() as u64)).unwrap();
                let outcome = match rng.below(10) {
                    0..5 => Outcome::Failure,
                    5..9 => Outcome::Success,
                    _ => Outcome::Unknown,
                };
                let before = bench.state();
                let change =
                    bench.breaker.handle_result(passes.swap_remove(at), outcome, bench.now, rng.next());
                match change {
                    Some(BreakerChange::Opened(..)) => assert_eq!(bench.state(), BreakerState::Open),
                    Some(BreakerChange::Closed) => {
                        assert_eq!((before, bench.state()), (BreakerState::HalfOpen, BreakerState::Closed))
                    }
                    Some(BreakerChange::HalfOpened) => panic!("only a call can do that"),
                    None => assert_eq!(before, bench.state()),
                }
            }
        }
    }
}
