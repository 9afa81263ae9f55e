#![expect(clippy::disallowed_methods, reason = "tests need some instant to count from")]

use super::*;
use crate::rng::Rng;

struct Bench {
    records: Vec<EndpointRecord>,
    outlier: Outlier,
    now: Instant,
}

impl Bench {
    fn new(hosts: usize, settings: OutlierSettings) -> Self {
        let now = Instant::now();
        let records = (0..hosts).map(|_| EndpointRecord::new(now)).collect();
        Self { records, outlier: Outlier::new(settings, now), now }
    }

    fn fail(&mut self, index: usize) -> Option<Ejection> {
        let row = self.records[index].handle_failure(self.now);
        let records: Vec<&EndpointRecord> = self.records.iter().collect();
        self.outlier.handle_consecutive(&records, index, row, self.now, 0)
    }

    /// Failures in a thousand calls of each; then the interval ends.
    fn interval(&mut self, failures: &[u32]) -> Vec<Ejection> {
        for (record, failures) in self.records.iter().zip(failures) {
            (0..1000 - failures).for_each(|_| record.handle_success());
            for _ in 0..*failures {
                let _ = record.handle_failure(self.now);
            }
        }
        self.now = self.now.max(self.outlier.due().unwrap());
        let records: Vec<&EndpointRecord> = self.records.iter().collect();
        self.outlier.handle_interval(&records, self.now, 0)
    }

    fn ejected(&self) -> Vec<usize> {
        (0..self.records.len()).filter(|at| self.records[*at].is_ejected(self.now)).collect()
    }
}

/// Only rates.
fn rates() -> OutlierSettings {
    OutlierSettings { consecutive: 0, ..OutlierSettings::default() }
}

/// However short a row is.
fn at_once() -> OutlierSettings {
    OutlierSettings { lasting: Duration::ZERO, ..OutlierSettings::default() }
}

#[test]
fn a_short_row_of_failures_is_no_reason() {
    let mut bench = Bench::new(2, OutlierSettings::default());
    for _ in 0..3 {
        assert!((0..50).all(|_| bench.fail(0).is_none()));
        bench.now += Duration::from_secs(4);
        assert_eq!(bench.fail(0), None, "not yet");
        bench.records[0].handle_success();
        bench.now += Duration::from_secs(4);
    }
    assert!((0..5).all(|_| bench.fail(0).is_none()), "a row of its own");
    bench.now += Duration::from_secs(5);
    assert_eq!(bench.fail(0).unwrap().cause, EjectionCause::Consecutive(6));
}

#[test]
fn failures_in_a_row_eject_for_longer_each_time() {
    let mut bench = Bench::new(5, at_once());
    for length in [30, 60, 90, 120, 150, 180, 210, 240, 270, 300, 300] {
        assert!((0..4).all(|_| bench.fail(2).is_none()));
        let length = Duration::from_secs(length);
        assert_eq!(bench.fail(2), Some(Ejection { index: 2, cause: EjectionCause::Consecutive(5), length }));
        assert_eq!(bench.ejected(), [2]);
        assert_eq!(bench.fail(2), None, "it is already");
        bench.records[2].handle_success();
        bench.now += length;
        assert_eq!(bench.ejected(), []);
    }
}

#[test]
fn a_success_breaks_the_row_and_quiet_intervals_shorten_the_next_ejection() {
    let mut bench = Bench::new(5, at_once());
    for _ in 0..4 {
        let _ = bench.fail(0);
    }
    bench.records[0].handle_success();
    assert!((0..4).all(|_| bench.fail(0).is_none()));
    assert_eq!(bench.fail(0).unwrap().length.as_secs(), 30);
    bench.now += Duration::from_secs(31);
    assert_eq!((0..5).filter_map(|_| bench.fail(0)).next().unwrap().length.as_secs(), 60);
    bench.now += Duration::from_secs(61);
    bench.interval(&[0; 5]);
    bench.interval(&[0; 5]);
    assert_eq!((0..5).filter_map(|_| bench.fail(0)).next().unwrap().length.as_secs(), 30);
}

#[test]
fn no_more_than_the_ceiling_are_ejected_and_a_single_endpoint_never() {
    for (hosts, most) in [(1, 0), (2, 1), (3, 1), (6, 1), (7, 2), (10, 3), (100, 33)] {
        let mut bench = Bench::new(hosts, at_once());
        for index in 0..hosts {
            for _ in 0..20 {
                let _ = bench.fail(index);
            }
        }
        assert_eq!(bench.ejected().len(), most, "{hosts}");
    }
}

#[test]
fn the_last_one_is_never_ejected() {
    for hosts in [2, 3, 10] {
        let mut bench = Bench::new(hosts, OutlierSettings { percent: 100, ..at_once() });
        for index in 0..hosts {
            for _ in 0..20 {
                let _ = bench.fail(index);
            }
        }
        assert_eq!(bench.ejected().len(), hosts - 1);
    }
}

#[test]
fn a_worse_endpoint_is_ejected_and_equal_ones_are_not() {
    let mut bench = Bench::new(6, rates());
    let ejections = bench.interval(&[10, 12, 9, 11, 300, 10]);
    assert_eq!(ejections.len(), 1);
    assert_eq!(ejections[0].index, 4);
    assert_eq!(ejections[0].cause, EjectionCause::SuccessRate { rate: 700, mean: 941 });
    assert_eq!(bench.ejected(), [4]);
    let mut bench = Bench::new(6, rates());
    assert_eq!(bench.interval(&[0, 0, 0, 0, 0, 59]), [], "a few in a hundred are nothing");
    for all in [0, 10, 500, 1000] {
        let mut bench = Bench::new(6, rates());
        assert_eq!(bench.interval(&[all; 6]), [], "{all}");
    }
}

#[test]
fn few_calls_or_few_endpoints_are_not_compared() {
    let mut bench = Bench::new(4, rates());
    assert_eq!(bench.interval(&[0, 0, 0, 900]), [], "four are too few");
    let mut bench = Bench::new(6, OutlierSettings { minimum: 1001, ..rates() });
    assert_eq!(bench.interval(&[0, 0, 0, 0, 0, 900]), []);
    let mut bench = Bench::new(6, OutlierSettings { interval: Duration::ZERO, ..rates() });
    let records: Vec<&EndpointRecord> = bench.records.iter().collect();
    assert_eq!(bench.outlier.due(), None);
    assert_eq!(bench.outlier.handle_interval(&records, bench.now, 0), []);
}

#[test]
fn each_interval_starts_new_counts_and_ejects_the_worst_first() {
    let mut bench = Bench::new(10, OutlierSettings { percent: 10, deviations: 1000, ..rates() });
    let ejections = bench.interval(&[0, 0, 0, 0, 0, 0, 0, 0, 200, 210]);
    assert_eq!(ejections.iter().map(|it| it.index).collect::<Vec<_>>(), [9]);
    bench.now += Duration::from_secs(60);
    assert_eq!(bench.interval(&[0; 10]), []);
}

#[test]
fn shorter_times_count_for_one_that_is_ejected() {
    let mut bench = Bench::new(3, at_once());
    for _ in 0..5 {
        let _ = bench.fail(1);
    }
    assert_eq!(bench.ejected(), [1]);
    let second = Duration::from_secs(1);
    bench.records[1].shorten(bench.now + second);
    assert_eq!(bench.ejected(), [1]);
    bench.now += second;
    assert_eq!(bench.ejected(), []);
}

/// Whatever happens, the ceiling holds and every ejection ends.
#[test]
fn random_failures_never_eject_more_than_the_ceiling() {
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let hosts = 1 + usize::try_from(rng.below(30)).unwrap();
        let percent = u32::try_from(rng.below(101)).unwrap();
        let mut bench =
            Bench::new(hosts, OutlierSettings { percent, minimum: 10, ..OutlierSettings::default() });
        let most = (hosts * percent as usize / 100).max(1).min(hosts - 1);
        for _ in 0..3_000 {
            let index = usize::try_from(rng.below(hosts as u64)).unwrap();
            match rng.below(2 + index as u64) {
                0 => {
                    let _ = bench.fail(index);
                }
                _ => bench.records[index].handle_success(),
            }
            bench.now += Duration::from_millis(rng.below(10));
            let records: Vec<&EndpointRecord> = bench.records.iter().collect();
            bench.outlier.handle_interval(&records, bench.now, rng.next());
            assert!(bench.ejected().len() <= most);
        }
        bench.now += Duration::from_secs(331);
        assert_eq!(bench.ejected(), []);
    }
}
