//! Workers that have responded to all requests they were given.

use super::*;

#[test]
fn one_that_ends_at_sigterm_has_two_seconds() {
    let mut bench = Bench::serving(1);
    bench.retire(secs(30));
    bench.machine.handle_drained(bench.id(0), bench.now);
    bench.collect();
    assert_eq!(bench.told(), ["retire 0", "Term 0"]);
    bench.pass(secs(3));
    assert_eq!(bench.told(), ["Kill 0"]);
}

/// php-fpm, whose scripts may keep running after their responses.
#[test]
fn one_that_ends_at_sigquit_has_the_time_that_its_responses_might_have_taken() {
    let mut bench = Bench::of(1, Phase::First, |spec| spec.ends_at_quit = true);
    bench.ready(0);
    bench.retire(secs(20));
    bench.machine.handle_drained(bench.id(0), bench.now);
    bench.collect();
    assert_eq!(bench.told(), ["retire 0", "Finish 0"]);
    bench.pass(secs(19));
    assert_eq!(bench.told(), Vec::<String>::new());
    bench.pass(secs(2));
    assert_eq!(bench.told(), ["Kill 0"]);
}

#[test]
fn a_stop_shortens_the_time_of_one_that_finishes() {
    let mut bench = Bench::of(1, Phase::First, |spec| spec.ends_at_quit = true);
    bench.ready(0);
    bench.retire(secs(20));
    bench.machine.handle_drained(bench.id(0), bench.now);
    bench.retire(secs(5));
    assert_eq!(bench.told(), ["retire 0", "Finish 0"]);
    bench.pass(secs(6));
    assert_eq!(bench.told(), ["Kill 0"]);
}
