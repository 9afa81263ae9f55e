//! The processes of a section over time, without any.

use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

use super::action::{Clocks, ProcessAction, ProcessNews, RunId};
use super::set::{ProcessSet, SETTLED};
use super::{
    Execution, ProcessEnd, ProcessFault, ProcessSpec, ProcessState, ReadyCheck, ReplaceReason, RestartPolicy,
    RunSchedule,
};
use crate::supervisor::Exit;

const SECOND: Duration = Duration::from_secs(1);

fn spec(count: u32) -> ProcessSpec {
    let mut spec = ProcessSpec::new("mail", Execution::default());
    spec.count = count;
    spec
}

fn scheduled(seconds: u64) -> ProcessSpec {
    let mut spec = spec(1);
    spec.schedule = Some(RunSchedule::Every(Duration::from_secs(seconds)));
    spec
}

fn with_check(mut spec: ProcessSpec) -> ProcessSpec {
    spec.ready = Some(ReadyCheck::Prints("ready".into()));
    spec
}

fn status(code: i32) -> ProcessEnd {
    ProcessEnd::Exited(Exit::Status(code))
}

/// A set in virtual time. Processes run as soon as they are started, and end when told to here.
struct Bench {
    set: ProcessSet,
    clocks: Clocks,
    begun: Instant,
    actions: Vec<ProcessAction>,
    /// How many ever ran at once.
    most: usize,
    running: Vec<(RunId, u32)>,
}

impl Bench {
    fn new(spec: ProcessSpec) -> Self {
        let begun = Instant::now();
        // A whole number of hours.
        let clocks = Clocks { now: begun, wall: UNIX_EPOCH + Duration::from_secs(3600 * 500_000) };
        let set = ProcessSet::new(Arc::new(spec), 1, begun);
        Self { set, clocks, begun, actions: Vec::new(), most: 0, running: Vec::new() }
    }

    fn released(spec: ProcessSpec) -> Self {
        let mut bench = Self::new(spec);
        bench.set.release(bench.clocks);
        bench.drive();
        bench
    }

    fn drive(&mut self) {
        while let Some(action) = self.set.poll_action() {
            if let ProcessAction::Start { id, number, spec } = &action {
                assert!(self.running.iter().all(|(_, other)| other != number), "two in one slot");
                self.running.push((*id, *number));
                self.most = self.most.max(self.running.len());
                if spec.ready.is_none() {
                    self.set.handle_ready(*id, self.clocks);
                }
            }
            self.actions.push(action);
        }
    }

    /// Time passes, with every deadline in it.
    fn pass(&mut self, time: Duration) {
        let end = self.clocks.now + time;
        for _ in 0..10_000 {
            let next = self.set.poll_timeout(self.clocks).filter(|&at| at <= end);
            self.move_to(next.map_or(end, |at| at.max(self.clocks.now)));
            if next.is_none() {
                return;
            }
            self.set.handle_timeout(self.clocks);
            self.drive();
        }
        panic!("it does not come to rest");
    }

    fn move_to(&mut self, at: Instant) {
        self.clocks.wall += at - self.clocks.now;
        self.clocks.now = at;
    }

    fn id(&self, number: u32) -> RunId {
        self.running.iter().find(|(_, own)| *own == number).expect("it runs").0
    }

    fn end(&mut self, number: u32, end: &ProcessEnd) {
        let id = self.id(number);
        self.running.retain(|(own, _)| *own != id);
        self.set.handle_end(id, end, self.clocks, u64::MAX);
        self.drive();
    }

    fn states(&self) -> Vec<ProcessState> {
        self.set.slots().iter().map(|slot| slot.state).collect()
    }

    /// The actions since the last call, of this kind.
    fn took<T>(&mut self, pick: impl FnMut(&ProcessAction) -> Option<T>) -> Vec<T> {
        let found = self.actions.iter().filter_map(pick).collect();
        self.actions.clear();
        found
    }

    fn starts(&mut self) -> usize {
        self.took(|action| matches!(action, ProcessAction::Start { .. }).then_some(())).len()
    }

    /// The numbers of those that were told to stop.
    fn stops(&mut self) -> Vec<u32> {
        let running = self.running.clone();
        self.took(|action| match action {
            ProcessAction::Stop { id, .. } => {
                running.iter().find(|(own, _)| own == id).map(|(_, number)| *number)
            }
            _ => None,
        })
    }

    fn waits(&mut self) -> Vec<u128> {
        self.took(|action| match action {
            ProcessAction::Log(ProcessNews::Restarting { wait, .. }) => Some(wait.as_millis()),
            _ => None,
        })
    }
}

#[test]
fn nothing_starts_before_it_is_released() {
    let mut bench = Bench::new(spec(2));
    bench.pass(SECOND * 60);
    assert_eq!((bench.starts(), bench.set.waits()), (0, true));
    bench.set.release(bench.clocks);
    bench.drive();
    assert_eq!((bench.starts(), bench.states()), (2, vec![ProcessState::Running; 2]));
    assert!(bench.set.is_ready());
}

#[test]
fn a_process_that_dies_in_a_loop_backs_off_up_to_half_a_minute() {
    let mut bench = Bench::released(spec(1));
    for _ in 0..12 {
        bench.end(1, &status(3));
        let wait = bench.set.poll_timeout(bench.clocks).expect("a start") - bench.clocks.now;
        bench.pass(wait);
    }
    assert_eq!(bench.waits(), [100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000, 30000]);
    bench.pass(SECOND * 10);
    bench.end(1, &status(3));
    assert_eq!(
        (bench.waits(), bench.states()),
        (vec![0], vec![ProcessState::Running]),
        "ten seconds are healthy"
    );
    assert_eq!(bench.set.slots()[0].faults.of(ProcessFault::Exit), 13);
}

#[test]
fn a_process_that_exits_well_after_a_second_is_followed_at_once() {
    let mut bench = Bench::released(spec(1));
    for _ in 0..100 {
        bench.pass(SECOND);
        bench.end(1, &status(0));
        assert_eq!(bench.states(), [ProcessState::Running]);
    }
    bench.end(1, &status(0));
    assert_eq!(bench.states(), [ProcessState::BackingOff], "but not one that ends at once");
    assert_eq!(bench.set.slots()[0].faults.total(), 0);
}

#[test]
fn restarts_depend_on_the_policy_and_on_what_exits_are_fine() {
    use ProcessState::{BackingOff, Failed, Finished};
    for (restart, code, expected) in [
        (RestartPolicy::Always, 0, BackingOff),
        (RestartPolicy::OnFailure, 0, Finished),
        (RestartPolicy::OnFailure, 7, Finished),
        (RestartPolicy::OnFailure, 1, BackingOff),
        (RestartPolicy::Never, 7, Finished),
        (RestartPolicy::Never, 1, Failed),
    ] {
        let mut bench = Bench::released(ProcessSpec { restart, exit_codes: vec![0, 7], ..spec(1) });
        bench.end(1, &status(code));
        assert_eq!(bench.states(), [expected], "{restart:?} {code}");
        assert_eq!(bench.set.is_ready(), expected == Finished, "what comes after may start");
    }
    let mut bench = Bench::released(ProcessSpec { restart: RestartPolicy::OnFailure, ..spec(1) });
    bench.end(1, &ProcessEnd::Exited(Exit::Signal { number: 15, core_dumped: false }));
    assert_eq!(bench.states(), [BackingOff], "a signal is never fine");
}

#[test]
fn a_reload_replaces_one_after_the_other_and_the_old_one_ends_first() {
    let mut bench = Bench::released(spec(3));
    bench.pass(SECOND * 60);
    bench.actions.clear();
    let next = ProcessSpec { stop_timeout: SECOND * 7, ..spec(3) };
    bench.set.reload(next, bench.clocks);
    bench.drive();
    for number in 1..=3 {
        assert_eq!(bench.stops(), [number]);
        bench.pass(SECOND * 5);
        assert_eq!(bench.starts(), 0, "the old one works on its last job");
        bench.end(number, &status(0));
        assert_eq!(bench.starts(), 1);
        bench.pass(SETTLED / 2);
        assert_eq!(bench.stops(), [], "not before it has been up for a second");
        bench.pass(SETTLED);
    }
    assert_eq!(bench.most, 3, "never two in a slot");
    assert!(bench.set.is_settled(bench.clocks.now));
    assert_eq!(
        bench.set.slots().iter().map(|slot| slot.replacements.of(ReplaceReason::Reload)).sum::<u64>(),
        3
    );
}

/// Found by deploys under load: the next replacement never came.
#[test]
fn an_event_that_comes_when_a_process_has_settled_does_not_lose_the_next_replacement() {
    let mut bench = Bench::released(spec(2));
    bench.pass(SECOND * 60);
    bench.set.reload(spec(2), bench.clocks);
    bench.drive();
    bench.end(1, &status(0));
    bench.stops();
    bench.move_to(bench.clocks.now + SETTLED);
    bench.set.allow_replacing(true, bench.clocks.now);
    bench.drive();
    assert_eq!(bench.stops(), [2]);
}

#[test]
fn a_broken_deploy_stops_one_process_only_and_the_next_reload_goes_on() {
    let mut bench = Bench::released(spec(3));
    bench.pass(SECOND * 60);
    bench.set.reload(ProcessSpec { max_memory: Some(1), ..spec(3) }, bench.clocks);
    bench.drive();
    bench.end(1, &status(0));
    bench.stops();
    for _ in 0..5 {
        bench.pass(SETTLED / 2);
        bench.end(1, &status(1));
        let wait = bench.set.poll_timeout(bench.clocks).expect("a start") - bench.clocks.now;
        bench.pass(wait);
    }
    bench.end(1, &status(1));
    assert_eq!(bench.stops(), []);
    assert!(!bench.set.is_settled(bench.clocks.now));
    assert_eq!(bench.states()[1..], [ProcessState::Running; 2]);
    bench.set.reload(spec(3), bench.clocks);
    bench.drive();
    assert_eq!(bench.running.len(), 3, "the one that backed off starts at once");
    bench.pass(SETTLED);
    assert_eq!(bench.stops(), [2]);
}

#[test]
fn a_process_that_does_not_stop_is_killed_and_its_successor_waits_for_its_end() {
    let mut bench = Bench::released(spec(1));
    bench.set.replace_all(ReplaceReason::Requested, "restart requested", bench.clocks);
    bench.drive();
    bench.pass(SECOND * 29);
    let kills = |action: &ProcessAction| matches!(action, ProcessAction::Kill { .. }).then_some(());
    assert_eq!(bench.took(kills), []);
    bench.pass(SECOND);
    assert_eq!(bench.took(kills), [()]);
    bench.pass(SECOND * 60);
    assert_eq!(bench.starts(), 0, "the kernel does not let it go");
    bench.end(1, &ProcessEnd::Exited(Exit::Signal { number: 9, core_dumped: false }));
    assert_eq!(bench.starts(), 1);
    assert_eq!(bench.set.slots()[0].faults.of(ProcessFault::Stop), 1);
}

#[test]
fn a_process_that_is_not_ready_in_time_is_stopped_and_backs_off() {
    let mut bench = Bench::released(with_check(spec(1)));
    bench.pass(SECOND * 59);
    assert_eq!((bench.states(), bench.set.is_ready()), (vec![ProcessState::Starting], false));
    bench.pass(SECOND);
    assert_eq!(bench.stops(), [1]);
    bench.end(1, &status(0));
    assert_eq!(bench.states(), [ProcessState::BackingOff]);
    assert_eq!(bench.set.slots()[0].faults.of(ProcessFault::BootTimeout), 1);
    bench.pass(SECOND);
    bench.set.handle_ready(bench.id(1), bench.clocks);
    assert!(bench.set.is_ready());
    bench.pass(SECOND * 3600);
    assert_eq!(bench.states(), [ProcessState::Running], "no deadline is left");
}

#[test]
fn limits_of_memory_and_age_replace_and_kill() {
    let limits = ProcessSpec { max_memory: Some(100), kill_memory: Some(200), ..spec(2) };
    let mut bench = Bench::released(limits);
    for number in [1, 2] {
        bench.set.handle_memory(bench.id(number), 150, bench.clocks.now);
    }
    bench.drive();
    assert_eq!(bench.stops(), [1], "one at a time");
    bench.end(1, &status(0));
    bench.pass(SETTLED);
    assert_eq!(bench.stops(), [2]);
    bench.end(2, &status(0));
    bench.set.handle_memory(bench.id(1), 201, bench.clocks.now);
    bench.drive();
    let kills = |action: &ProcessAction| matches!(action, ProcessAction::Kill { .. }).then_some(());
    assert_eq!(bench.took(kills), [()]);
    bench.end(1, &ProcessEnd::Exited(Exit::Signal { number: 9, core_dumped: false }));
    assert_eq!(bench.states()[0], ProcessState::BackingOff);
    assert_eq!(bench.set.slots()[0].faults.of(ProcessFault::Memory), 1);

    let mut bench = Bench::released(ProcessSpec { max_age: Some(SECOND * 100), ..spec(1) });
    bench.pass(SECOND * 89);
    assert_eq!(bench.stops(), []);
    bench.pass(SECOND * 12);
    assert_eq!(bench.stops(), [1]);
}

#[test]
fn a_reload_signal_stands_for_a_restart_unless_something_has_changed() {
    let own = ProcessSpec { reload_signal: Some(1), ..spec(2) };
    let mut bench = Bench::released(own.clone());
    bench.pass(SECOND * 2);
    bench.actions.clear();
    bench.set.reload(own.clone(), bench.clocks);
    bench.drive();
    let signals = |action: &ProcessAction| match action {
        ProcessAction::Signal { signal, .. } => Some(*signal),
        ProcessAction::Stop { .. } => Some(-1),
        _ => None,
    };
    assert_eq!(bench.took(signals), [1, 1]);
    bench.set.reload(ProcessSpec { stop_timeout: SECOND, ..own }, bench.clocks);
    bench.drive();
    assert_eq!(bench.took(signals), [-1]);
}

#[test]
fn the_count_follows_the_configuration() {
    let mut bench = Bench::released(spec(1));
    bench.pass(SECOND * 2);
    bench.set.reload(spec(3), bench.clocks);
    bench.drive();
    assert_eq!(bench.running.len(), 3);
    bench.end(1, &status(0));
    bench.pass(SECOND * 2);
    bench.actions.clear();
    bench.set.reload(spec(1), bench.clocks);
    bench.drive();
    assert_eq!(bench.stops(), [2, 3], "those that are too many go first");
    bench.end(3, &status(0));
    bench.end(2, &status(0));
    assert_eq!(bench.stops(), [1]);
    bench.end(1, &status(0));
    assert_eq!((bench.running.len(), bench.set.slots().len()), (1, 1));
}

#[test]
fn a_schedule_runs_one_at_a_time_and_skips_what_does_not_fit() {
    let mut bench = Bench::released(scheduled(60));
    assert_eq!(bench.states(), [ProcessState::Scheduled]);
    bench.pass(SECOND * 59);
    assert_eq!(bench.starts(), 0);
    bench.pass(SECOND);
    assert_eq!((bench.starts(), bench.states()), (1, vec![ProcessState::Running]));
    bench.pass(SECOND * 121);
    let skipped = |action: &ProcessAction| {
        matches!(action, ProcessAction::Log(ProcessNews::RunSkipped { .. })).then_some(())
    };
    assert_eq!(bench.took(skipped), [(), ()]);
    bench.end(1, &status(1));
    assert_eq!(bench.states(), [ProcessState::Scheduled]);
    bench.pass(SECOND * 58);
    assert_eq!(bench.starts(), 0, "a run that failed is not repeated before its time");
    bench.pass(SECOND);
    assert_eq!(bench.starts(), 1);
    bench.end(1, &status(0));
    let slot = &bench.set.slots()[0];
    assert_eq!((slot.succeeded, slot.failed, slot.skipped), (1, 1, 2));
    assert_eq!(bench.most, 1);
}

#[test]
fn a_reload_lets_a_run_end_as_it_began() {
    let mut bench = Bench::released(scheduled(60));
    bench.pass(SECOND * 60);
    bench.actions.clear();
    bench.set.reload(scheduled(30), bench.clocks);
    bench.drive();
    assert_eq!(bench.stops(), []);
    bench.pass(SECOND * 10);
    bench.end(1, &status(0));
    bench.pass(SECOND * 20);
    assert_eq!(bench.starts(), 1, "at the times of the new schedule");
}

#[test]
fn a_run_longer_than_max_age_is_stopped_and_has_failed() {
    let mut bench = Bench::released(ProcessSpec { max_age: Some(SECOND * 10), ..scheduled(60) });
    bench.pass(SECOND * 60);
    bench.pass(SECOND * 9);
    assert_eq!(bench.stops(), []);
    bench.pass(SECOND);
    assert_eq!(bench.stops(), [1]);
    bench.end(1, &status(0));
    assert_eq!(bench.set.slots()[0].failed, 1);
}

#[test]
fn times_that_have_passed_are_not_made_up_for() {
    let mut bench = Bench::released(scheduled(60));
    // The machine sleeps: only the wall clock moves.
    bench.clocks.wall += SECOND * 3600 + SECOND * 5;
    bench.pass(SECOND * 30);
    let missed = |action: &ProcessAction| {
        matches!(action, ProcessAction::Log(ProcessNews::RunMissed { .. })).then_some(())
    };
    assert_eq!(bench.took(missed), [()]);
    bench.pass(SECOND * 30);
    assert_eq!(bench.starts(), 1, "the next time is one of the new clock");
    bench.end(1, &status(0));
    bench.clocks.wall -= SECOND * 7200;
    bench.pass(SECOND * 90);
    assert_eq!(bench.starts(), 1, "a clock that is set back does not hold up the schedule");
}

#[test]
fn a_stop_does_not_wait_for_one_that_the_kernel_does_not_let_end() {
    for killed_before in [false, true] {
        let mut bench = Bench::released(spec(1));
        bench.pass(SECOND);
        if killed_before {
            bench.set.kill_all("an operator requested it", bench.clocks.now);
            bench.drive();
            bench.pass(SECOND * 3600);
        }
        bench.set.stop(Some(bench.clocks.now + SECOND), "Keepwarm is stopping", bench.clocks.now);
        bench.drive();
        bench.pass(SECOND * 5);
        assert!(killed_before || !bench.set.is_over());
        bench.pass(SECOND);
        assert!(bench.set.is_over(), "{killed_before}");
        let abandoned = |action: &ProcessAction| {
            matches!(action, ProcessAction::Log(ProcessNews::Abandoned { .. })).then_some(())
        };
        assert_eq!(bench.took(abandoned), [()]);
        // Much later it does end.
        bench.end(1, &ProcessEnd::Exited(Exit::Signal { number: 9, core_dumped: false }));
        assert_eq!((bench.set.is_over(), bench.starts()), (true, 0));
    }
}

#[test]
fn a_stop_gives_each_its_time_but_none_beyond_the_grace() {
    let mut bench = Bench::released(spec(2));
    bench.pass(SECOND);
    bench.actions.clear();
    bench.set.stop(Some(bench.clocks.now + SECOND * 5), "Keepwarm is stopping", bench.clocks.now);
    bench.drive();
    assert_eq!(bench.stops(), [1, 2]);
    bench.end(2, &status(0));
    bench.pass(SECOND * 4);
    assert!(!bench.set.is_over());
    let kills = |action: &ProcessAction| matches!(action, ProcessAction::Kill { .. }).then_some(());
    assert_eq!(bench.took(kills), []);
    bench.pass(SECOND);
    assert_eq!(bench.took(kills), [()]);
    bench.end(1, &ProcessEnd::Exited(Exit::Signal { number: 9, core_dumped: false }));
    assert!(bench.set.is_over());
    bench.pass(SECOND * 3600);
    assert_eq!((bench.starts(), bench.states()), (0, vec![ProcessState::Stopped; 2]));
}

#[test]
fn one_that_was_removed_and_comes_back_waits_for_its_own_end() {
    let mut bench = Bench::released(spec(1));
    bench.set.stop(None, "was removed from the configuration", bench.clocks.now);
    bench.drive();
    bench.set.reload(spec(1), bench.clocks);
    bench.set.release(bench.clocks);
    bench.drive();
    bench.starts();
    bench.pass(SECOND * 3);
    assert_eq!(bench.starts(), 0);
    bench.end(1, &status(0));
    assert_eq!((bench.starts(), bench.states()), (1, vec![ProcessState::Running]));
}

/// Whatever happens in whatever order: no slot has two processes, a stopped set ends, and a set that is left alone comes up again.
#[test]
fn random_lives_keep_the_rules() {
    for seed in 0..300_u64 {
        let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut next = move |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % below
        };
        let mut bench = Bench::released(spec(1 + u32::try_from(next(3)).expect("small")));
        for _ in 0..60 {
            match next(7) {
                0 => {
                    let count = 1 + u32::try_from(next(4)).expect("small");
                    bench.set.reload(ProcessSpec { max_age: Some(SECOND * 60), ..spec(count) }, bench.clocks);
                    bench.set.release(bench.clocks);
                }
                1 => bench.set.replace_all(ReplaceReason::Watch, "a file has changed", bench.clocks),
                2 => bench.set.stop(None, "was removed from the configuration", bench.clocks.now),
                3 | 4 if !bench.running.is_empty() => {
                    let at = usize::try_from(next(bench.running.len() as u64)).expect("small");
                    let number = bench.running[at].1;
                    bench.end(number, &status(i32::from(next(2) == 0)));
                }
                5 => bench.pass(Duration::from_millis(next(40_000))),
                _ => bench.pass(Duration::from_millis(next(1500))),
            }
            bench.drive();
        }
        bench.set.reload(spec(2), bench.clocks);
        bench.set.release(bench.clocks);
        bench.drive();
        for _ in 0..40 {
            let stopping: Vec<u32> = bench
                .set
                .slots()
                .iter()
                .filter(|slot| slot.state == ProcessState::Stopping)
                .map(|slot| slot.number)
                .collect();
            stopping.into_iter().for_each(|number| bench.end(number, &status(0)));
            bench.pass(SECOND * 2);
        }
        assert_eq!(bench.states(), [ProcessState::Running; 2], "seed {seed}");
        bench.set.stop(None, "Keepwarm is stopping", bench.clocks.now);
        bench.drive();
        for number in bench.running.clone().into_iter().map(|(_, number)| number) {
            bench.end(number, &status(0));
        }
        assert!(bench.set.is_over(), "seed {seed} after {:?}", bench.clocks.now - bench.begun);
    }
}
