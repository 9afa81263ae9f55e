#![expect(clippy::disallowed_methods, reason = "tests need some instant to count from")]

use std::collections::HashMap;
use std::time::Instant;

use super::*;
use crate::rng::Rng;

const SECOND: u64 = 1_000_000;

fn per_second(count: u64, burst: u64) -> Gcra {
    Gcra::new(Quota { count, period: Duration::from_secs(1), burst })
}

#[test]
fn a_burst_then_the_rate() {
    let gcra = per_second(10, 5);
    let (mut tat, mut remaining) = (0, Vec::new());
    for _ in 0..5 {
        let (next, decision) = gcra.decide(tat, SECOND);
        assert!(decision.allowed);
        tat = next;
        remaining.push(decision.remaining);
    }
    assert_eq!(remaining, [4, 3, 2, 1, 0]);
    let (kept, decision) = gcra.decide(tat, SECOND);
    assert_eq!((kept, decision.allowed, decision.remaining), (tat, false, 0));
    assert_eq!(decision.retry_after, Duration::from_millis(100));
    assert_eq!(decision.reset, Duration::from_millis(500));
    assert!(!gcra.decide(tat, SECOND + 99_999).1.allowed);
    assert!(gcra.decide(tat, SECOND + 100_000).1.allowed);
}

/// Over any span no more than the burst and what the rate gives is let through, and somebody who comes when he is told to is never refused twice.
#[test]
fn the_rate_holds_over_every_span_and_retry_after_is_true() {
    let mut rng = Rng::new(4);
    for _ in 0..300 {
        let quota = Quota {
            count: 1 + rng.below(2_000),
            period: Duration::from_millis(1 + rng.below(100_000)),
            burst: 1 + rng.below(50),
        };
        let gcra = Gcra::new(quota);
        let (mut tat, mut now, mut admitted) = (0, 1_u64 << 40, Vec::new());
        for _ in 0..500 {
            now += rng.below(2 * gcra.interval() + 1);
            let (next, decision) = gcra.decide(tat, now);
            tat = next;
            if decision.allowed {
                admitted.push(now);
                // What remains is what would be let through at once.
                let (mut ahead, mut count) = (tat, 0);
                while count <= quota.burst && gcra.decide(ahead, now).1.allowed {
                    (ahead, count) = (gcra.decide(ahead, now).0, count + 1);
                }
                assert_eq!(decision.remaining, count, "{quota:?}");
            } else {
                let wait = u64::try_from(decision.retry_after.as_micros()).unwrap();
                assert!(wait > 0 && !gcra.decide(tat, now + wait - 1).1.allowed);
                assert!(gcra.decide(tat, now + wait).1.allowed);
            }
            let reset = u64::try_from(decision.reset.as_micros()).unwrap();
            assert_eq!(gcra.decide(tat, now + reset).1.remaining, quota.burst - 1);
        }
        for (at, from) in admitted.iter().enumerate() {
            for (count, to) in admitted[at..].iter().enumerate() {
                assert!(count as u64 <= quota.burst + (to - from) / gcra.interval(), "{quota:?}");
            }
        }
    }
}

#[test]
fn odd_numbers_are_made_safe() {
    let zero = Gcra::new(Quota { count: 0, period: Duration::ZERO, burst: 0 });
    assert_eq!((zero.interval(), zero.tolerance()), (1, 0));
    let large = Gcra::new(Quota { count: 1, period: Duration::MAX, burst: u64::MAX });
    assert!(large.tolerance() < 1 << 53);
    let (tat, decision) = large.decide(0, u64::MAX >> 12);
    assert!(decision.allowed && tat < 1 << 53);
    assert!(!per_second(1, 1).decide(u64::MAX, u64::MAX - 1).1.allowed);
    // Rounded up: 3 a second are 333,334 µs apart.
    assert_eq!(per_second(3, 1).interval(), 333_334);
}

/// A store whose clock was set back by a year: nobody waits for a year.
#[test]
fn a_clock_that_was_set_back_does_not_block() {
    let gcra = per_second(10, 5);
    let (tat, decision) = gcra.decide(31_536_000 * SECOND, SECOND);
    assert!(!decision.allowed);
    assert_eq!(decision.retry_after, Duration::from_millis(100));
    assert_eq!(tat, SECOND + 500_000);
}

#[test]
fn a_store_s_reply_gives_the_same_decision() {
    let (gcra, mut rng) = (per_second(100, 7), Rng::new(8));
    let (mut tat, mut now) = (0_u64, SECOND);
    for _ in 0..10_000 {
        now += rng.below(20_000);
        // The script, as the module states it.
        let stored = tat.max(now);
        let refused = stored - now > gcra.tolerance();
        let kept = if refused { stored } else { stored + gcra.interval() };
        let reply = if refused { gcra.refused(kept - now) } else { gcra.admitted(kept - now) };
        assert_eq!(gcra.decide(tat, now), (kept, reply));
        tat = kept;
    }
}

#[test]
fn fields_are_written_as_in_the_draft() {
    let gcra = Gcra::new(Quota { count: 6000, period: Duration::from_secs(60), burst: 250 });
    assert_eq!(gcra.policy("search").to_string(), r#""search";q=250;w=3"#);
    let decision = gcra.admitted(10_000);
    assert_eq!(decision.field("search").to_string(), r#""search";r=249;t=1"#);
    let refused = gcra.refused(gcra.tolerance() + 1);
    assert_eq!(
        (refused.retry_after_seconds(), refused.field("search").to_string()),
        (1, r#""search";r=0;t=1"#.into())
    );
    assert_eq!(gcra.policy("a\"b\\c\nd\u{e9}").to_string(), r#""a\"b\\cd";q=250;w=3"#);
    assert_eq!(per_second(1000, 1).policy("p").to_string(), r#""p";q=1;w=1"#, "never a window of nothing");
}

mod table {
    use super::*;

    #[test]
    fn each_key_has_its_own_rate() {
        let now = Instant::now();
        let mut table = GcraTable::new(per_second(1, 3), 100, 7, now);
        for key in [b"one".as_slice(), b"two", b""] {
            let allowed = (0..5).filter(|_| table.decide(key, now).allowed).count();
            assert_eq!(allowed, 3, "{key:?}");
        }
        assert_eq!((table.owing(now), table.evicted()), (3, 0));
        assert_eq!(table.owing(now + Duration::from_secs(3)), 0);
        assert!(table.decide(b"one", now + Duration::from_secs(1)).allowed);
    }

    /// Against a map that forgets nothing: as long as there is room, the same decisions.
    #[test]
    fn the_table_decides_as_a_map_does() {
        let (gcra, now, mut rng) = (per_second(5, 4), Instant::now(), Rng::new(6));
        let mut table = GcraTable::new(gcra, 4_096, 1, now);
        let mut map: HashMap<u64, u64> = HashMap::new();
        let mut micros = 0;
        for _ in 0..100_000 {
            micros += rng.below(5_000);
            let key = rng.below(300);
            let stored = map.entry(key).or_default();
            let (tat, expected) = gcra.decide(*stored, micros);
            *stored = tat;
            assert_eq!(table.decide(&key.to_be_bytes(), now + Duration::from_micros(micros)), expected);
        }
        assert_eq!(table.evicted(), 0);
    }

    /// Somebody invents keys; a key that owes much keeps owing it.
    #[test]
    fn invented_keys_do_not_reset_the_debt_of_another() {
        let now = Instant::now();
        let mut table = GcraTable::new(per_second(1, 20), 64, 3, now);
        while table.decide(b"owes", now).allowed {}
        for invented in 0..100_000_u32 {
            assert!(table.decide(&invented.to_be_bytes(), now).allowed);
        }
        assert!(!table.decide(b"owes", now).allowed);
        assert!(table.evicted() > 90_000);
        assert!(table.owing(now) <= 64);
    }

    #[test]
    fn another_rate_counts_at_once() {
        let now = Instant::now();
        let mut table = GcraTable::new(per_second(1, 1), 8, 3, now);
        assert!(table.decide(b"key", now).allowed);
        assert!(!table.decide(b"key", now).allowed);
        table.set_gcra(per_second(1, 10));
        assert!(table.decide(b"key", now).allowed);
    }
}
