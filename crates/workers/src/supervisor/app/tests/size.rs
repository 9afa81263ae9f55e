//! More and fewer workers, and how many start at once.

use super::*;

impl Bench {
    fn resize(&mut self, target: usize) {
        self.machine.set_target(target, self.now);
        self.collect();
    }

    fn numbers(&self) -> Vec<u32> {
        self.machine.view().iter().map(|view| view.number).collect()
    }
}

#[test]
fn more_workers_start_at_once_and_fewer_finish_what_they_hold() {
    let mut bench = Bench::serving(2);
    bench.resize(4);
    assert_eq!(bench.spawned.iter().map(|&(_, number)| number).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert!(bench.machine.is_starting());
    bench.ready(2);
    bench.ready(3);
    assert!(!bench.machine.is_starting());
    bench.resize(1);
    assert_eq!(bench.told(), ["retire 3", "retire 2", "retire 1"]);
    assert_eq!(bench.machine.tally().recycles.of(RecycleReason::Scale), 3);
    assert_eq!(bench.numbers(), [1, 2, 3, 4], "they are shown while they finish");
    for worker in 1..4 {
        bench.exit(worker, Exit::Status(0));
    }
    assert_eq!(bench.numbers(), [1]);
    assert_eq!(bench.told(), [""; 0], "nobody is missed");
    bench.resize(0);
    assert_eq!(bench.machine.target(), 1, "one always stays");
}

#[test]
fn a_place_that_is_taken_away_while_its_old_worker_finishes_can_come_back() {
    let mut bench = Bench::serving(2);
    bench.resize(1);
    bench.resize(2);
    assert_eq!(bench.spawned.len(), 3);
    bench.ready(2);
    bench.exit(1, Exit::Status(0));
    assert!(bench.machine.all_ready());
    assert_eq!(bench.spawned.len(), 3);
}

#[test]
fn what_serves_nobody_goes_first() {
    let mut bench = Bench::serving(3);
    bench.exit(0, CRASH);
    bench.told();
    bench.resize(2);
    bench.pass(secs(60));
    assert_eq!(bench.told(), [""; 0]);
    assert_eq!(bench.numbers(), [2, 3]);
    assert_eq!(bench.spawned.len(), 3, "no restart of a place that is not wanted");
    bench.resize(3);
    assert_eq!(bench.spawned.last().unwrap().1, 1);
}

#[test]
fn a_worker_that_starts_and_is_not_wanted_any_more_is_ended() {
    let mut bench = Bench::serving(1);
    bench.resize(2);
    bench.resize(1);
    assert_eq!(bench.told(), ["Term 1"]);
    bench.exit(1, KILLED);
    assert_eq!(bench.machine.tally().deaths.total(), 0);
    assert_eq!(bench.machine.tally().recycles.total(), 0, "it never served");
}

#[test]
fn a_worker_that_is_being_replaced_goes_with_its_replacement() {
    let mut bench = Bench::serving(2);
    bench.machine.handle_requests_reached(bench.id(1), bench.now);
    bench.collect();
    bench.told();
    bench.resize(1);
    let mut told = bench.told();
    told.sort();
    assert_eq!(told, ["Term 2", "retire 1"]);
}

#[test]
fn a_trial_and_a_generation_that_ends_keep_their_number() {
    let mut bench = Bench::new(2, Phase::Trial);
    bench.resize(3);
    assert_eq!(bench.machine.target(), 2);
    let mut bench = Bench::serving(2);
    bench.retire(secs(1));
    bench.resize(3);
    assert_eq!(bench.machine.target(), 2);
}

#[test]
fn beside_others_half_of_the_cores_start_workers_at_a_time() {
    for (cores, at_once) in [(1, 1), (2, 1), (4, 2), (8, 4)] {
        let mut bench =
            Bench::around(6, Phase::Trial, GenerationContext { seed: 1, cores, hurry: false }, |_| {});
        assert_eq!(bench.spawned.len(), at_once, "{cores} cores");
        assert!(bench.quiet.iter().all(|&quiet| quiet));
        for worker in 0..6 {
            bench.ready(worker);
            assert_eq!(bench.spawned.len(), (worker + 1 + at_once).min(6));
        }
        assert!(bench.machine.all_ready());
    }
    assert_eq!(Bench::new(6, Phase::First).spawned.len(), 6, "nobody to disturb");
}

#[test]
fn a_trial_in_a_hurry_takes_over_with_its_first_worker() {
    let mut bench =
        Bench::around(3, Phase::Trial, GenerationContext { seed: 1, cores: 8, hurry: true }, |_| {});
    assert_eq!(bench.quiet, [false], "the others would fail in the same way");
    assert!(!bench.machine.may_take_over());
    bench.ready(0);
    assert!(bench.machine.may_take_over() && !bench.machine.all_ready());
    bench.machine.commit(bench.now);
    bench.collect();
    assert_eq!(bench.quiet, [false, false, true]);
}

#[test]
fn beside_a_worker_of_a_trial_that_ends_none_is_started() {
    let mut bench =
        Bench::around(2, Phase::Trial, GenerationContext { seed: 1, cores: 1, hurry: true }, |_| {});
    bench.closed(0);
    assert_eq!(bench.spawned.len(), 1);
    bench.exit(0, CRASH);
    assert_eq!((bench.spawned.len(), bench.machine.is_over()), (1, true));
}

#[test]
fn what_gives_way_starts_nothing_while_somebody_serves() {
    let mut bench = Bench::new(3, Phase::First);
    bench.ready(0);
    bench.ready(1);
    bench.machine.give_way(bench.now);
    bench.collect();
    assert_eq!(bench.told(), ["Term 2"]);
    bench.exit(2, KILLED);
    bench.exit(1, CRASH);
    bench.pass(secs(60));
    assert_eq!(bench.spawned.len(), 3);
    bench.exit(0, CRASH);
    bench.pass(secs(60));
    assert_eq!(bench.spawned.len(), 6, "nobody serves");
}

#[test]
fn a_trial_that_takes_long_goes_on_in_a_hurry() {
    let mut bench =
        Bench::around(3, Phase::Trial, GenerationContext { seed: 1, cores: 1, hurry: false }, |_| {});
    bench.pass(secs(4));
    bench.ready(0);
    bench.pass(secs(4));
    bench.ready(1);
    assert_eq!(bench.quiet, [true, true, false]);
}

#[test]
fn the_boot_timeout_of_a_worker_begins_with_its_start() {
    let mut bench =
        Bench::around(2, Phase::Trial, GenerationContext { seed: 1, cores: 1, hurry: false }, |_| {});
    bench.pass(secs(50));
    bench.ready(0);
    bench.pass(secs(50));
    assert_eq!(bench.told(), [""; 0]);
    bench.ready(1);
    assert!(bench.machine.all_ready());
}

#[test]
fn a_trial_that_fails_starts_no_more() {
    let mut bench =
        Bench::around(4, Phase::Trial, GenerationContext { seed: 1, cores: 2, hurry: false }, |_| {});
    bench.ready(0);
    bench.exit(1, CRASH);
    bench.exit(0, Exit::Status(0));
    bench.pass(secs(60));
    assert_eq!(bench.spawned.len(), 2);
    assert!(bench.machine.is_over());
}

#[test]
fn only_what_starts_beside_a_ready_worker_is_started_quietly() {
    let mut bench = Bench::new(2, Phase::First);
    bench.exit(0, CRASH);
    bench.pass(secs(1));
    bench.ready(1);
    bench.exit(2, CRASH);
    bench.pass(secs(1));
    assert_eq!(bench.quiet, [false, false, false, true]);
    bench.exit(1, CRASH);
    bench.exit(3, CRASH);
    bench.pass(secs(1));
    assert_eq!(bench.quiet[4..], [false, false], "nobody serves");
}
