//! Workers that die while they serve: an app that has served is never given up, and is never away for long.

use super::*;

const CRASHED: Exit = Exit::Signal { number: 11, core_dumped: false };

impl Bench {
    /// A worker dies of a request.
    fn crash(&mut self, worker: usize) {
        self.machine.handle_request_given(self.id(worker));
        self.exit(worker, CRASHED);
    }

    /// How long the worker of this place waits for its start, in milliseconds.
    fn wait_of_restart(&mut self) -> u64 {
        let told = self.told();
        let line = told.last().unwrap();
        line.strip_prefix("restart ").unwrap().split(' ').nth(2).unwrap().parse().unwrap()
    }
}

#[test]
fn an_app_of_one_worker_that_dies_of_requests_is_back_at_once_and_never_given_up() {
    let mut bench = Bench::serving(1);
    for worker in 0..200 {
        bench.pass(millis(300));
        bench.crash(worker);
        let wait = bench.wait_of_restart();
        assert!(wait <= 100, "death {worker}: {wait} ms");
        bench.pass(millis(wait));
        bench.ready(worker + 1);
    }
    assert_eq!(*bench.machine.phase(), Phase::Serving);
}

#[test]
fn of_several_workers_that_die_of_requests_one_lives_or_starts_at_once() {
    let mut bench = Bench::serving(4);
    let mut alive: Vec<usize> = (0..4).collect();
    for death in 0..400 {
        let Some(worker) = alive.pop() else { panic!("nobody is left at death {death}") };
        bench.crash(worker);
        let wait = bench.wait_of_restart();
        assert!(wait <= 2000, "death {death}: {wait} ms");
        if alive.is_empty() {
            assert!(wait <= 100, "death {death}: {wait} ms with nobody else");
            bench.pass(millis(wait));
        }
        let started = bench.spawned.len();
        for next in 0..started {
            if bench.state(next) == WorkerState::Starting {
                bench.ready(next);
                alive.push(next);
            }
        }
    }
    assert_eq!(*bench.machine.phase(), Phase::Serving);
    assert!(bench.machine.slots.iter().all(|slot| !slot.given_up));
}

#[test]
fn time_outs_in_a_row_leave_an_app_of_one_worker_away_for_no_longer_than_its_start() {
    let mut bench = Bench::serving(1);
    for worker in 0..20 {
        bench.machine.handle_request_given(bench.id(worker));
        bench.machine.handle_stuck(bench.id(worker), Death::Timeout, "request timed out", bench.now);
        bench.machine.handle_stack(bench.id(worker), bench.now);
        bench.exit(worker, KILLED);
        let wait = bench.wait_of_restart();
        assert!(wait <= 100, "time-out {worker}: {wait} ms");
        bench.pass(millis(wait));
        bench.ready(worker + 1);
    }
}

#[test]
fn a_worker_that_was_given_requests_resets_the_count_of_failed_starts() {
    let mut bench = Bench::new(2, Phase::First);
    bench.ready(1);
    // As many failed starts as there may be, twice, with one that served between them.
    for worker in [0, 2, 3] {
        bench.exit(worker, CRASH);
        bench.pass(secs(1));
    }
    bench.ready(4);
    bench.crash(4);
    bench.pass(secs(1));
    for worker in [5, 6, 7] {
        bench.exit(worker, CRASH);
        bench.pass(secs(1));
    }
    assert!(!bench.told().iter().any(|line| line.starts_with("give up")));
}

#[test]
fn starts_that_fail_after_the_app_has_served_are_tried_again_for_ever() {
    let mut bench = Bench::serving(2);
    bench.crash(0);
    bench.crash(1);
    let mut tried = 2;
    for _ in 0..100 {
        bench.pass(secs(2));
        while tried < bench.spawned.len() {
            bench.exit(tried, CRASH);
            tried += 1;
        }
    }
    assert!(!bench.told().iter().any(|line| line.starts_with("give up")));
    // With nobody left the next start is never more than seconds away.
    assert!(tried > 50, "{tried} starts in 200 s");
    let next = bench.machine.poll_timeout().unwrap();
    assert!(next <= bench.now + secs(2));
}

#[test]
fn one_that_takes_no_more_requests_goes_when_its_replacements_fail_though_the_app_is_kept() {
    let mut bench = Bench::serving(1);
    bench.machine.handle_request_given(bench.id(0));
    bench.wants_drain(0);
    for worker in 1..5 {
        bench.exit(worker, CRASH);
        bench.pass(secs(1));
    }
    let told = bench.told();
    assert!(told.contains(&"retire 0".to_owned()), "{told:?}");
    assert!(!told.iter().any(|line| line.starts_with("give up")), "{told:?}");
}

#[test]
fn a_worker_that_the_kernel_does_not_let_end_loses_its_place_to_another() {
    let mut bench = Bench::serving(1);
    bench.kill(0);
    bench.pass(secs(4));
    assert_eq!(bench.told(), ["Kill 0"]);
    bench.pass(secs(1));
    assert_eq!(bench.told(), ["restart 1 in 0 ms: was killed but does not exit"]);
    bench.ready(1);
    assert!(bench.machine.all_ready());
    bench.pass(secs(3600));
    assert_eq!(bench.spawned.len(), 2, "once");
    // Much later it does.
    bench.exit(0, KILLED);
    assert_eq!(bench.told(), ["lost 1"]);
    assert_eq!(bench.spawned.len(), 2);
}

#[test]
fn a_reload_does_not_wait_for_a_worker_that_the_kernel_does_not_let_end() {
    let mut bench = Bench::new(1, Phase::Trial);
    bench.pass(secs(62));
    assert_eq!(bench.told(), ["Term 0", "Kill 0"]);
    bench.pass(secs(5));
    assert_eq!(bench.told(), ["give up: was killed but does not exit"]);
    bench.pass(secs(5));
    assert_eq!(bench.told(), ["abandon 0"]);
    assert_eq!(bench.machine.poll_timeout(), None);
}

#[test]
fn the_end_does_not_wait_for_a_worker_that_does_not_end() {
    for at_once in [false, true] {
        let mut bench = Bench::serving(2);
        bench.kill(1);
        bench.pass(secs(6));
        bench.told();
        let drain = if at_once { Duration::ZERO } else { secs(1) };
        bench.retire(drain);
        // Its replacement, which was starting.
        bench.exit(2, KILLED);
        bench.exit(0, KILLED);
        assert!(!bench.machine.is_over(), "{at_once}");
        bench.pass(secs(30));
        assert!(bench.told().contains(&"abandon 1".to_owned()), "{at_once}");
        assert!(bench.machine.is_over(), "{at_once}");
        assert_eq!(bench.machine.poll_timeout(), None);
        // Much later it does end.
        bench.exit(1, KILLED);
        assert!(bench.machine.is_over());
    }
}

#[test]
fn a_worker_that_was_to_go_and_does_not_end_is_replaced_by_nobody() {
    let mut bench = Bench::serving(1);
    assert!(bench.machine.handle_recycle(bench.id(0), bench.now));
    bench.collect();
    bench.pass(secs(1));
    bench.ready(1);
    bench.pass(secs(3600));
    assert_eq!(bench.spawned.len(), 2);
    assert!(bench.machine.all_ready());
}
