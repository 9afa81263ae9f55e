//! Healthy workers that are replaced.

use super::*;

const MIB: u64 = 1024 * 1024;

fn recycling(workers: usize, recycling: Recycling) -> Bench {
    let mut bench = Bench::of(workers, Phase::First, |spec| {
        spec.recycling = recycling;
        spec.hang_timeout = Some(secs(30));
        spec.boot_timeout = secs(500);
    });
    for worker in 0..workers {
        bench.ready(worker);
    }
    bench
}

fn aged(workers: usize) -> Bench {
    recycling(workers, Recycling { max_age: Some(secs(1000)), ..Recycling::default() })
}

fn limited() -> Bench {
    let memory =
        Recycling { max_memory: Some(100 * MIB), kill_memory: Some(200 * MIB), ..Recycling::default() };
    recycling(2, memory)
}

impl Bench {
    fn holds(&mut self, worker: usize, mib: u64, available: u64) {
        self.machine.handle_memory(self.id(worker), mib * MIB, Some(available * MIB), self.now);
        self.collect();
    }

    fn reached(&mut self, worker: usize) {
        self.machine.handle_requests_reached(self.id(worker), self.now);
        self.collect();
    }

    fn credit(&mut self, worker: usize, withheld: bool) {
        self.machine.handle_credit(self.id(worker), withheld, self.now);
        self.collect();
    }

    fn silence(&mut self, worker: usize, silent: bool) {
        self.machine.handle_silence(self.id(worker), silent, self.now);
        self.collect();
    }
}

#[test]
fn each_worker_draws_limits_of_its_own() {
    let limits = Recycling { max_requests: Some(1000), ..Recycling::default() };
    let bench = recycling(8, limits);
    let drawn: Vec<u64> =
        (0..8).map(|worker| bench.machine.max_requests(bench.id(worker)).unwrap()).collect();
    assert!(drawn.iter().all(|limit| (900..=1000).contains(limit)), "{drawn:?}");
    let mut different = drawn.clone();
    different.sort_unstable();
    different.dedup();
    assert!(different.len() > 4, "{drawn:?}");
    let again = recycling(8, limits);
    assert!((0..8).all(|worker| again.machine.max_requests(again.id(worker)) == Some(drawn[worker])));
    assert_eq!(Bench::serving(1).machine.max_requests(Bench::serving(1).id(0)), None);
}

#[test]
fn a_worker_that_has_taken_its_requests_goes_on_until_its_replacement_is_ready() {
    let mut bench = Bench::serving(2);
    bench.reached(1);
    bench.reached(1);
    assert_eq!(bench.told(), ["recycle 1 for requests"]);
    assert_eq!(bench.spawned.len(), 3, "one replacement");
    assert_eq!(bench.state(1), WorkerState::Ready);
    bench.ready(2);
    assert_eq!(bench.told(), ["retire 1"]);
    assert_eq!(bench.machine.tally().recycles.of(RecycleReason::Requests), 1);
    bench.exit(1, Exit::Status(0));
    assert_eq!(bench.told(), [""; 0]);
    assert_eq!(bench.machine.tally().deaths.total(), 0);
}

#[test]
fn one_worker_is_replaced_at_a_time_and_the_others_wait_in_order() {
    let mut bench = Bench::serving(3);
    for worker in [2, 0, 1] {
        bench.reached(worker);
        bench.pass(millis(1));
    }
    assert_eq!(bench.told(), ["recycle 2 for requests"]);
    bench.pass(secs(20));
    assert_eq!(bench.told(), [""; 0], "the replacement takes its time");
    bench.ready(3);
    assert_eq!(bench.told(), ["retire 2", "recycle 0 for requests"]);
    // One that dies while it waits for its replacement lets the next have its turn, too.
    bench.exit(0, KILLED);
    assert_eq!(bench.told(), ["lost 1", "recycle 1 for requests"]);
    bench.ready(4);
    bench.ready(5);
    assert_eq!(bench.told(), ["retire 1"]);
    assert!(bench.machine.all_ready());
}

#[test]
fn an_operator_replaces_ready_workers_one_by_one() {
    let mut bench = recycling(2, Recycling::default());
    let recycle = |bench: &mut Bench, worker: usize| {
        let is_taken = bench.machine.handle_recycle(bench.id(worker), bench.now);
        bench.collect();
        is_taken
    };
    assert!(recycle(&mut bench, 0));
    assert!(!recycle(&mut bench, 0), "it is being replaced");
    assert_eq!(bench.told(), ["recycle 0 for operator"]);
    assert!(recycle(&mut bench, 1), "it waits for its turn");
    assert_eq!(bench.told(), [""; 0]);
    assert!(!recycle(&mut bench, 2), "a worker that starts");
    bench.ready(2);
    assert_eq!(bench.told(), ["retire 0", "recycle 1 for operator"]);
    bench.ready(3);
    assert_eq!(bench.told(), ["retire 1"]);
    assert_eq!(bench.machine.tally().recycles.of(RecycleReason::Operator), 2);
}

#[test]
fn age_is_counted_from_ready_and_workers_that_started_together_go_one_by_one() {
    let mut bench = aged(3);
    bench.pass(secs(899));
    assert_eq!(bench.told(), [""; 0]);
    bench.pass(secs(101));
    let told = bench.told();
    assert_eq!(told.len(), 1, "{told:?}");
    for next in 3..6 {
        bench.ready(next);
        let told = bench.told();
        assert!(told[0].starts_with("retire "), "{told:?}");
        assert_eq!(told.len(), if next < 5 { 2 } else { 1 }, "{told:?}");
    }
    assert_eq!(bench.machine.tally().recycles.of(RecycleReason::Age), 3);
    bench.pass(secs(800));
    assert_eq!(bench.spawned.len(), 6, "the new ones are young");
}

#[test]
fn nobody_is_replaced_before_a_trial_serves_or_after_the_end() {
    let mut bench = Bench::of(2, Phase::Trial, |spec| spec.recycling.max_age = Some(secs(10)));
    bench.ready(0);
    bench.pass(secs(20));
    bench.reached(0);
    assert_eq!(bench.told(), [""; 0]);
    bench.ready(1);
    bench.machine.commit(bench.now);
    bench.collect();
    assert_eq!(bench.told(), ["recycle 0 for age"]);
    bench.retire(secs(5));
    bench.told();
    bench.reached(1);
    bench.pass(secs(1));
    assert_eq!(bench.told(), [""; 0]);
}

#[test]
fn a_worker_that_keeps_the_credit_of_requests_that_are_over_is_replaced_after_ten_seconds() {
    let mut bench = limited();
    for _ in 0..5 {
        bench.credit(0, true);
        bench.pass(secs(8));
        bench.credit(0, false);
        bench.pass(secs(8));
    }
    assert_eq!(bench.told(), [""; 0], "it was late, each time, and gave it back");
    bench.credit(0, true);
    bench.credit(1, true);
    bench.pass(secs(9));
    bench.credit(0, true);
    assert_eq!(bench.told(), [""; 0], "not yet");
    bench.pass(secs(1));
    bench.credit(0, true);
    bench.credit(1, true);
    assert_eq!(bench.told(), ["recycle 0 for credit"], "one at a time");
    bench.pass(secs(1));
    bench.credit(0, true);
    bench.credit(1, true);
    assert_eq!(bench.told(), [""; 0], "its replacement starts");
}

#[test]
fn memory_over_the_soft_limit_replaces_and_over_the_hard_one_kills() {
    let mut bench = limited();
    bench.holds(0, 100, 1000);
    assert_eq!(bench.told(), [""; 0], "as much as it may");
    bench.holds(0, 101, 1000);
    assert_eq!(bench.told(), ["recycle 0 for memory"]);
    bench.holds(1, 101, 1000);
    assert_eq!(bench.told(), [""; 0], "one at a time");
    bench.holds(0, 201, 1000);
    assert_eq!(bench.told(), ["Kill 0"]);
    bench.exit(0, KILLED);
    assert_eq!(bench.told(), ["lost 1"], "its replacement is on its way");
    bench.ready(2);
    bench.holds(1, 201, 0);
    assert_eq!(bench.told(), ["Kill 1"]);
    bench.exit(1, KILLED);
    let reason = "holds 201 MiB of memory, above kill_memory (200 MiB); killed by signal 9 (SIGKILL)";
    assert_eq!(bench.told(), [format!("restart 2 in 100 ms: {reason}")]);
    let tally = bench.machine.tally();
    assert_eq!((tally.deaths.of(Death::Memory), tally.deaths.total()), (2, 2));
    assert_eq!(tally.last.as_ref().unwrap().reason, reason);
}

#[test]
fn a_worker_is_not_replaced_while_there_is_no_memory_for_another_and_that_is_said_once() {
    let mut bench = limited();
    for _ in 0..5 {
        bench.holds(0, 150, 149);
        bench.pass(secs(1));
    }
    assert_eq!(bench.told(), ["no room 0"]);
    assert_eq!(bench.spawned.len(), 2);
    bench.holds(0, 150, 150);
    assert_eq!(bench.told(), ["recycle 0 for memory"]);
}

#[test]
fn a_draining_worker_over_the_hard_limit_is_killed_and_counted() {
    let mut bench = limited();
    bench.reached(0);
    bench.ready(2);
    bench.told();
    bench.holds(0, 201, 1000);
    assert_eq!(bench.told(), ["Kill 0"]);
    bench.exit(0, KILLED);
    assert_eq!(bench.told(), [""; 0], "nobody misses it");
    assert_eq!(bench.machine.tally().deaths.of(Death::Memory), 1);
}

#[test]
fn kills_for_memory_back_off_but_never_give_up() {
    let mut bench = limited();
    let mut worker = 0;
    for next in 2..20 {
        bench.holds(worker, 300, 0);
        bench.exit(worker, KILLED);
        bench.pass(secs(30));
        bench.ready(next);
        worker = next;
    }
    assert_eq!(*bench.machine.phase(), Phase::Serving);
    assert!(bench.machine.all_ready());
}

#[test]
fn a_worker_whose_replacements_fail_goes_on_and_is_tried_again_later() {
    let mut bench = Bench::serving(1);
    bench.reached(0);
    bench.told();
    for worker in 1..5 {
        bench.exit(worker, CRASH);
        bench.pass(secs(1));
    }
    let told = bench.told();
    assert_eq!(told.last().unwrap(), "keep 0: exited with status 3");
    assert_eq!(bench.state(0), WorkerState::Ready);
    assert!(bench.machine.all_ready(), "it serves as before");
    bench.pass(secs(58));
    assert_eq!(bench.spawned.len(), 5);
    bench.pass(secs(2));
    assert_eq!(bench.told(), ["recycle 0 for requests"]);
    bench.ready(5);
    assert_eq!(bench.told(), ["retire 0"]);
}

#[test]
fn memory_that_is_still_too_much_is_not_tried_again_at_once() {
    let mut bench = limited();
    bench.holds(0, 150, 1000);
    for worker in 2..6 {
        bench.exit(worker, CRASH);
        bench.pass(secs(1));
    }
    assert!(bench.told().last().unwrap().starts_with("keep 0"));
    bench.holds(0, 150, 1000);
    bench.holds(1, 150, 1000);
    assert_eq!(bench.told(), ["recycle 1 for memory"], "the other one is");
    bench.ready(6);
    bench.pass(secs(60));
    bench.told();
    bench.holds(0, 150, 1000);
    assert_eq!(bench.told(), ["recycle 0 for memory"]);
}

#[test]
fn a_worker_that_takes_no_more_requests_is_not_kept() {
    let mut bench = Bench::serving(1);
    bench.reached(0);
    bench.wants_drain(0);
    for worker in 1..5 {
        bench.exit(worker, CRASH);
        bench.pass(secs(1));
    }
    let told = bench.told();
    assert_eq!(told[told.len() - 2..], ["retire 0", "give up: exited with status 3"]);
}

/// It has nothing left to do and goes: no death, and nobody waits longer for its replacement because of it.
#[test]
fn a_worker_that_has_asked_may_end_before_its_replacement_is_ready() {
    let mut bench = Bench::serving(1);
    for worker in 0..20 {
        bench.wants_drain(worker);
        bench.told();
        bench.exit(worker, CRASH);
        assert_eq!(bench.told(), [""; 0]);
        bench.ready(worker + 1);
    }
    assert_eq!(bench.machine.tally().deaths.of(Death::Exit), 0);
    assert_eq!(bench.machine.tally().recycles.of(RecycleReason::Requested), 20);
}

#[test]
fn silence_is_forgiven_when_it_ends_and_ends_in_a_kill_when_it_does_not() {
    let mut bench = recycling(1, Recycling::default());
    bench.silence(0, true);
    bench.pass(secs(29));
    bench.silence(0, false);
    bench.pass(secs(29));
    bench.silence(0, true);
    bench.pass(secs(29));
    bench.silence(0, true);
    assert_eq!(bench.told(), [""; 0]);
    bench.pass(secs(1));
    bench.silence(0, true);
    assert_eq!(bench.told(), ["Quit 0"]);
    bench.pass(secs(1));
    assert_eq!(bench.told(), ["Kill 0"]);
    bench.exit(0, KILLED);
    assert_eq!(
        bench.told(),
        ["restart 1 in 0 ms: was idle and did not respond within 30s; killed by signal 9 (SIGKILL)"]
    );
    assert_eq!(bench.machine.tally().deaths.of(Death::Hang), 1);
}

#[test]
fn deaths_are_counted_by_kind_and_planned_ends_are_not() {
    let mut bench = Bench::serving(2);
    bench.exit(0, CRASH);
    bench.pass(secs(1));
    bench.ready(2);
    bench.exit(2, KILLED);
    bench.kill(1);
    bench.exit(1, KILLED);
    bench.pass(secs(61));
    bench.exit(3, KILLED);
    bench.pass(secs(1));
    bench.machine.handle_end(bench.id(4), &WorkerEnd::NotSpawned("no".to_owned()), bench.now, 0);
    bench.collect();
    let deaths = bench.machine.tally().deaths;
    for (death, count) in
        [(Death::Exit, 1), (Death::Signal, 1), (Death::Wire, 1), (Death::BootTimeout, 1), (Death::Spawn, 1)]
    {
        assert_eq!(deaths.of(death), count, "{deaths:?}");
    }
    bench.retire(secs(1));
    let total = bench.machine.tally().deaths.total();
    for worker in 0..bench.spawned.len() {
        bench.exit(worker, KILLED);
    }
    assert_eq!(bench.machine.tally().deaths.total(), total);
}

#[test]
fn one_that_did_not_finish_in_time_is_counted() {
    let mut bench = Bench::serving(1);
    bench.reached(0);
    bench.ready(1);
    bench.pass(secs(31));
    bench.exit(0, KILLED);
    assert_eq!(bench.machine.tally().deaths.of(Death::Drain), 1);
}

/// Found by the simulation: `max_age` below the time of a boot, three workers, and a first boot that was never over.
#[test]
fn a_first_boot_is_over_although_a_worker_is_being_replaced() {
    let memory = Recycling { max_memory: Some(100 * MIB), ..Recycling::default() };
    let mut bench = Bench::of(2, Phase::First, |spec| spec.recycling = memory);
    bench.ready(0);
    bench.holds(0, 150, 1000);
    assert_eq!(bench.told, ["recycle 0 for memory"]);
    assert!(!bench.machine.is_settled(), "the second is still starting");
    bench.ready(1);
    assert!(bench.machine.is_settled());
}
