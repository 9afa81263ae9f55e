//! The decisions in virtual time.

use super::*;
use crate::supervisor::Reason;
use crate::supervisor::stack::STACK_TIME;

mod finish;
mod random;
mod recycle;
mod reloads;
mod service;
mod size;

const AROUND: GenerationContext = GenerationContext { seed: 1, cores: 8, hurry: false };

/// A generation with a clock, and what it wants done.
struct Bench {
    machine: Generation,
    now: Instant,
    /// Workers by the order they were spawned in.
    spawned: Vec<(WorkerId, u32)>,
    /// Whether each was started quietly.
    quiet: Vec<bool>,
    /// Everything else that was asked for, in words.
    told: Vec<String>,
    /// Which were said to start slowly.
    slow: Vec<usize>,
}

impl Bench {
    fn new(workers: usize, phase: Phase) -> Self {
        Self::of(workers, phase, |_| {})
    }

    fn of(workers: usize, phase: Phase, adjust: impl FnOnce(&mut AppSpec)) -> Self {
        Self::around(workers, phase, AROUND, adjust)
    }

    fn around(
        workers: usize,
        phase: Phase,
        around: GenerationContext,
        adjust: impl FnOnce(&mut AppSpec),
    ) -> Self {
        let mut spec = AppSpec::new("shop", vec!["app".into()]);
        spec.workers = workers;
        adjust(&mut spec);
        let now = Instant::now();
        let mut bench = Self {
            machine: Generation::new(&spec, phase, around, now),
            now,
            spawned: Vec::new(),
            quiet: Vec::new(),
            told: Vec::new(),
            slow: Vec::new(),
        };
        bench.collect();
        bench
    }

    /// All workers ready, nothing told yet.
    fn serving(workers: usize) -> Self {
        let mut bench = Self::new(workers, Phase::First);
        for worker in 0..workers {
            bench.ready(worker);
        }
        bench
    }

    fn collect(&mut self) {
        while let Some(action) = self.machine.poll_action() {
            match action {
                Action::Spawn { id, number, quiet } => {
                    self.spawned.push((id, number));
                    self.quiet.push(quiet);
                }
                Action::Recycle { id, why, .. } => {
                    self.told.push(format!("recycle {} for {}", self.index(id), why.name()));
                }
                Action::NoRoom { id, .. } => self.told.push(format!("no room {}", self.index(id))),
                Action::Keep { id, reason, .. } => {
                    self.told.push(format!("keep {}: {reason}", self.index(id)))
                }
                Action::Retire { id } => self.told.push(format!("retire {}", self.index(id))),
                Action::Signal { id, signal, .. } => self.told.push(format!("{signal:?} {}", self.index(id))),
                Action::Restart { number, reason, wait, .. } => {
                    self.told.push(format!("restart {number} in {} ms: {reason}", wait.as_millis()));
                }
                Action::SlowBoot { id, .. } => self.slow.push(self.index(id)),
                Action::Abandon { id } => self.told.push(format!("abandon {}", self.index(id))),
                Action::Lost { number, .. } => self.told.push(format!("lost {number}")),
                Action::GiveUpSlot { number, .. } => self.told.push(format!("give up place {number}")),
                Action::GiveUp { reason, .. } => self.told.push(format!("give up: {reason}")),
            }
        }
    }

    fn index(&self, id: WorkerId) -> usize {
        self.spawned.iter().position(|&(spawned, _)| spawned == id).unwrap()
    }

    fn id(&self, worker: usize) -> WorkerId {
        self.spawned[worker].0
    }

    fn ready(&mut self, worker: usize) {
        self.machine.handle_ready(self.id(worker), self.now);
        self.collect();
    }

    /// The longest wait of the back-off's jitter.
    fn exit(&mut self, worker: usize, exit: Exit) {
        self.machine.handle_end(self.id(worker), &WorkerEnd::Exited(exit), self.now, u64::MAX);
        self.collect();
    }

    fn closed(&mut self, worker: usize) {
        self.machine.handle_closed(self.id(worker), "the wire has ended", self.now);
        self.collect();
    }

    fn kill(&mut self, worker: usize) {
        self.machine.handle_kill(self.id(worker), Death::Wire, "request timed out", self.now);
        self.collect();
    }

    fn wants_drain(&mut self, worker: usize) {
        self.machine.handle_wants_drain(self.id(worker), self.now);
        self.collect();
    }

    fn retire(&mut self, drain: Duration) {
        self.machine.retire(drain, None, self.now);
        self.collect();
    }

    /// Lets time pass as the driver would, deadline by deadline.
    fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        while let Some(due) = self.machine.poll_timeout().filter(|&due| due <= end) {
            self.now = self.now.max(due);
            self.machine.handle_timeout(self.now);
            self.collect();
        }
        self.now = end;
    }

    fn told(&mut self) -> Vec<String> {
        std::mem::take(&mut self.told)
    }

    fn state(&self, worker: usize) -> WorkerState {
        self.machine.state(self.id(worker))
    }
}

const CRASH: Exit = Exit::Status(3);
const KILLED: Exit = Exit::Signal { number: 9, core_dumped: false };

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn a_start_that_takes_long_is_said_once() {
    let mut bench = Bench::new(2, Phase::First);
    bench.pass(Duration::from_secs(4));
    bench.ready(1);
    bench.pass(Duration::from_secs(20));
    assert_eq!(bench.slow, [0]);
    // One that is given no more time than that is ended instead, which is said too.
    let mut bench = Bench::of(1, Phase::First, |spec| spec.boot_timeout = Duration::from_secs(5));
    bench.pass(Duration::from_secs(5));
    assert_eq!(bench.slow, [0_usize; 0]);
    assert_eq!(bench.told, ["Term 0"]);
}

#[test]
fn all_places_start_and_the_first_ready_worker_ends_the_first_boot() {
    let mut bench = Bench::new(3, Phase::First);
    assert_eq!(bench.spawned.iter().map(|&(_, number)| number).collect::<Vec<_>>(), [1, 2, 3]);
    bench.ready(1);
    assert_eq!(*bench.machine.phase(), Phase::Serving);
    assert!(!bench.machine.all_ready());
    assert_eq!(bench.machine.awaited(), Some(1));
    bench.ready(0);
    bench.ready(2);
    assert!(bench.machine.all_ready());
    assert_eq!(bench.machine.poll_timeout(), None, "nothing to wake up for");
}

#[test]
fn a_status_that_says_no_retry_gives_up_the_first_boot_at_once() {
    for code in [1, 126, 127] {
        let mut bench = Bench::new(2, Phase::First);
        bench.exit(0, Exit::Status(code));
        assert_eq!(bench.told(), ["Term 1".to_owned(), format!("give up: exited with status {code}")]);
        assert!(matches!(bench.machine.phase(), Phase::Failed(_)));
        bench.exit(1, Exit::Signal { number: 15, core_dumped: false });
        assert!(bench.machine.is_over());
        assert_eq!(bench.spawned.len(), 2);
    }
}

#[test]
fn a_crash_loop_backs_off_and_gives_up_after_start_retries() {
    let mut bench = Bench::new(1, Phase::First);
    for (try_number, wait) in [(0, 100), (1, 200), (2, 400)] {
        bench.exit(try_number, CRASH);
        assert_eq!(bench.told(), [format!("restart 1 in {wait} ms: exited with status 3")]);
        bench.pass(millis(wait - 1));
        assert_eq!(bench.spawned.len(), try_number + 1, "not before its time");
        bench.pass(millis(1));
        assert_eq!(bench.spawned.len(), try_number + 2);
    }
    bench.exit(3, CRASH);
    assert_eq!(bench.told(), ["give up: exited with status 3"]);
    bench.pass(secs(3600));
    assert_eq!(bench.spawned.len(), 4);
    assert!(bench.machine.is_over());
}

#[test]
fn workers_that_die_young_after_they_were_ready_are_a_crash_loop_too() {
    let mut bench = Bench::new(1, Phase::First);
    for worker in 0..4 {
        bench.ready(worker);
        bench.pass(secs(9));
        bench.exit(worker, KILLED);
        bench.pass(millis(400));
    }
    assert_eq!(bench.told().last().unwrap(), "give up: killed by signal 9 (SIGKILL)");
}

#[test]
fn a_worker_that_dies_after_a_healthy_life_is_replaced_at_once() {
    let mut bench = Bench::serving(1);
    for worker in 0..20 {
        bench.pass(secs(10));
        bench.exit(worker, KILLED);
        assert_eq!(bench.told(), ["restart 1 in 0 ms: killed by signal 9 (SIGKILL)"]);
        assert_eq!(bench.spawned.len(), worker + 2, "started in the same moment");
        bench.ready(worker + 1);
    }
    assert_eq!(bench.machine.view()[0].restarts, 20);
}

#[test]
fn health_forgets_earlier_failures() {
    let mut bench = Bench::serving(1);
    for worker in 0..9 {
        if worker % 3 == 2 {
            bench.pass(secs(10));
        }
        bench.exit(worker, CRASH);
        bench.pass(millis(200));
        bench.ready(worker + 1);
    }
    assert_eq!(bench.told().iter().filter(|line| line.starts_with("restart")).count(), 9);
}

#[test]
fn a_place_is_given_up_alone_while_others_serve() {
    let mut bench = Bench::new(2, Phase::First);
    bench.ready(1);
    for worker in [0, 2, 3, 4] {
        bench.exit(worker, CRASH);
        bench.pass(secs(1));
    }
    assert_eq!(bench.told().last().unwrap(), "give up place 1");
    assert_eq!(*bench.machine.phase(), Phase::Serving);
    let states: Vec<_> = bench.machine.view().iter().map(|view| view.state).collect();
    assert_eq!(states, [WorkerState::Dead, WorkerState::Ready]);
    // And when the last place goes the same way, the app does.
    for worker in [1, 5, 6, 7] {
        bench.exit(worker, CRASH);
        bench.pass(secs(1));
    }
    assert_eq!(bench.told().last().unwrap(), "give up: exited with status 3");
}

#[test]
fn kills_for_slow_requests_back_off_but_never_give_up() {
    let mut bench = Bench::serving(1);
    for worker in 0..20 {
        bench.pass(secs(5));
        bench.kill(worker);
        assert_eq!(bench.told(), [format!("Kill {worker}")]);
        bench.exit(worker, KILLED);
        assert!(bench.told()[0].ends_with("request timed out; killed by signal 9 (SIGKILL)"));
        bench.pass(secs(30));
        bench.ready(worker + 1);
    }
}

#[test]
fn a_kill_before_ready_is_a_failed_boot() {
    let mut bench = Bench::new(1, Phase::First);
    for worker in 0..4 {
        bench.kill(worker);
        bench.exit(worker, KILLED);
        bench.pass(secs(1));
    }
    assert!(matches!(bench.machine.phase(), Phase::Failed(_)));
}

#[test]
fn a_boot_that_takes_too_long_is_ended_and_told() {
    let mut bench = Bench::new(1, Phase::First);
    bench.pass(secs(60));
    assert_eq!(bench.told(), ["Term 0"]);
    assert_eq!(bench.state(0), WorkerState::Stopping);
    bench.pass(secs(2));
    assert_eq!(bench.told(), ["Kill 0"]);
    bench.exit(0, KILLED);
    assert_eq!(bench.told(), ["restart 1 in 100 ms: was not ready within 60s; killed by signal 9 (SIGKILL)"]);
}

#[test]
fn a_worker_whose_wire_has_ended_may_end_by_itself_and_is_killed_if_not() {
    let mut bench = Bench::serving(2);
    bench.closed(0);
    bench.closed(1);
    bench.exit(0, CRASH);
    assert_eq!(bench.told(), ["restart 1 in 100 ms: exited with status 3"]);
    bench.pass(secs(2));
    assert_eq!(bench.told(), ["Kill 1"]);
    bench.exit(1, KILLED);
    let reason = "the wire has ended and did not exit; killed by signal 9 (SIGKILL)";
    assert_eq!(bench.told(), [format!("restart 2 in 100 ms: {reason}")]);
}

#[test]
fn a_replacement_is_ready_before_the_old_worker_is_retired() {
    let mut bench = Bench::serving(1);
    bench.wants_drain(0);
    bench.wants_drain(0);
    assert_eq!(bench.spawned.len(), 2, "one replacement");
    assert_eq!(bench.told(), [""; 0]);
    bench.ready(1);
    assert_eq!(bench.told(), ["retire 0"]);
    assert_eq!(bench.state(0), WorkerState::Draining);
    bench.exit(0, Exit::Status(0));
    assert_eq!(bench.told(), [""; 0]);
    assert_eq!(bench.spawned.len(), 2);
}

#[test]
fn a_leaving_worker_that_dies_early_is_not_replaced_twice() {
    let mut bench = Bench::serving(1);
    bench.wants_drain(0);
    bench.exit(0, KILLED);
    assert_eq!(bench.told(), ["lost 1"]);
    bench.ready(1);
    assert!(bench.machine.all_ready());
    assert_eq!(bench.spawned.len(), 2);
}

#[test]
fn a_replacement_that_fails_is_tried_again_and_the_old_worker_goes_when_it_is_given_up() {
    let mut bench = Bench::serving(1);
    bench.wants_drain(0);
    for worker in 1..5 {
        assert_eq!(bench.state(0), WorkerState::Ready);
        bench.exit(worker, CRASH);
        bench.pass(secs(1));
    }
    let told = bench.told();
    assert_eq!(told[3..], ["retire 0", "give up: exited with status 3"]);
}

#[test]
fn a_trial_fails_with_its_first_failure_and_is_not_retried() {
    let mut bench = Bench::new(3, Phase::Trial);
    bench.ready(0);
    bench.exit(1, CRASH);
    // The one that may have requests already finishes them, the other one is of no use.
    assert_eq!(bench.told(), ["retire 0", "Term 2", "give up: exited with status 3"]);
    bench.exit(0, Exit::Status(0));
    bench.exit(2, KILLED);
    assert!(bench.machine.is_over());
    assert_eq!(bench.spawned.len(), 3);
}

#[test]
fn a_trial_that_is_committed_restarts_like_any_other() {
    let mut bench = Bench::new(1, Phase::Trial);
    bench.ready(0);
    assert_eq!(*bench.machine.phase(), Phase::Trial);
    bench.machine.commit(bench.now);
    bench.exit(0, CRASH);
    assert_eq!(bench.told(), ["restart 1 in 100 ms: exited with status 3"]);
}

#[test]
fn a_worker_that_cannot_be_spawned_is_tried_again() {
    let mut bench = Bench::new(1, Phase::First);
    let end = WorkerEnd::NotSpawned("too many processes".to_owned());
    bench.machine.handle_end(bench.id(0), &end, bench.now, 0);
    bench.collect();
    assert_eq!(bench.told(), ["restart 1 in 50 ms: could not be spawned: too many processes"]);
}

#[test]
fn retired_workers_get_their_time_then_sigterm_then_sigkill() {
    let mut bench = Bench::serving(1);
    bench.retire(Duration::MAX);
    assert_eq!(bench.told(), ["retire 0"]);
    bench.pass(secs(29));
    assert_eq!(bench.told(), [""; 0]);
    bench.pass(secs(1));
    assert_eq!(bench.told(), ["Term 0"]);
    bench.pass(secs(2));
    assert_eq!(bench.told(), ["Kill 0"]);
    bench.exit(0, KILLED);
    assert!(bench.machine.is_over());
    assert_eq!(bench.machine.poll_timeout(), None);
}

#[test]
fn a_stop_waits_for_its_grace_and_another_may_shorten_it() {
    let mut bench = Bench::serving(2);
    bench.retire(secs(20));
    bench.retire(secs(25));
    bench.pass(secs(5));
    bench.retire(secs(1));
    bench.told();
    bench.pass(secs(1));
    assert_eq!(bench.told(), ["Term 0", "Term 1"]);
    bench.retire(Duration::ZERO);
    assert_eq!(bench.told(), ["Kill 0", "Kill 1"]);
}

#[test]
fn nothing_is_started_after_a_stop() {
    let mut bench = Bench::serving(2);
    bench.exit(0, CRASH);
    bench.retire(secs(1));
    bench.exit(1, CRASH);
    bench.pass(secs(60));
    assert_eq!(bench.spawned.len(), 2);
    assert!(bench.machine.is_over());
}

#[test]
fn a_stuck_worker_is_killed_when_it_has_shown_its_stack_or_has_had_the_time() {
    let mut bench = Bench::serving(2);
    for worker in 0..2 {
        bench.machine.handle_stuck(bench.id(worker), Death::Hang, "hangs", bench.now);
    }
    bench.machine.handle_stack(bench.id(0), bench.now);
    bench.collect();
    assert_eq!(bench.told, ["Quit 0", "Quit 1", "Kill 0"]);
    bench.now += STACK_TIME;
    bench.machine.handle_timeout(bench.now);
    // Late words change nothing.
    bench.machine.handle_stack(bench.id(1), bench.now);
    bench.collect();
    assert_eq!(bench.told, ["Quit 0", "Quit 1", "Kill 0", "Kill 1"]);
}
