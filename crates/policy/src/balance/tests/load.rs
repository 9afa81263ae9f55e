use super::*;

#[test]
fn it_rises_at_once_and_falls_slowly() {
    let start = Instant::now();
    let load = EndpointLoad::new(start);
    assert_eq!(load.average(start), Duration::ZERO);
    load.handle_response(Duration::from_millis(10), false, start);
    assert_eq!(load.average(start), Duration::from_millis(10));
    load.handle_response(Duration::from_secs(1), false, start + Duration::from_millis(1));
    assert!(load.average(start + Duration::from_millis(1)) > Duration::from_millis(999));
    // Halved after its half-life without a response, and with quick ones nearer to them.
    let later = start + Duration::from_millis(8_591);
    assert_eq!(load.average(later).as_millis(), 499);
    let mut now = start + Duration::from_millis(1);
    for _ in 0..8_590 {
        now += Duration::from_millis(1);
        load.handle_response(Duration::from_millis(10), false, now);
    }
    let average = load.average(now).as_millis();
    assert!((500..525).contains(&average), "{average}");
    for _ in 0..100_000 {
        now += Duration::from_millis(1);
        load.handle_response(Duration::from_millis(10), false, now);
    }
    assert_eq!(load.average(now).as_millis(), 10);
}

/// At ten thousand responses a second each step is less than a nanosecond.
#[test]
fn it_falls_however_many_responses_come() {
    let start = Instant::now();
    let (load, mut now) = (EndpointLoad::new(start), start);
    load.handle_response(Duration::from_millis(1), false, now);
    for _ in 0..600_000 {
        now += Duration::from_micros(100);
        load.handle_response(Duration::from_micros(50), false, now);
    }
    let average = load.average(now).as_micros();
    assert!((50..150).contains(&average), "{average}");
}

#[test]
fn a_quick_failure_does_not_make_it_look_quick() {
    let start = Instant::now();
    let load = EndpointLoad::new(start);
    load.handle_response(Duration::from_millis(50), false, start);
    let later = start + Duration::from_secs(1);
    let before = load.average(later);
    load.handle_response(Duration::from_micros(10), true, later);
    assert_eq!(load.average(later), before);
    load.handle_response(Duration::from_secs(5), true, later);
    assert_eq!(load.average(later), Duration::from_secs(5), "a slow one counts");
}

#[test]
fn requests_in_flight_are_counted_by_all_threads() {
    let load = EndpointLoad::new(Instant::now());
    (0..3).for_each(|_| load.handle_begin());
    load.handle_end();
    assert_eq!(load.outstanding(), 2);
}
