use super::*;

const SECOND: u64 = 1_000_000;

fn per_second(count: u64, burst: u64) -> Gcra {
    Gcra::new(Quota { count, period: Duration::from_secs(1), burst })
}

#[test]
fn a_burst_then_the_rate() {
    let gcra = per_second(10, 5);
    let (mut tat, mut remaining) = (0, Vec::new());
    for _ in 0..5 {
        let (next, verdict) = gcra.decide(tat, SECOND);
        assert!(verdict.allowed);
        (tat, _) = (next, remaining.push(verdict.remaining));
    }
    assert_eq!(remaining, [4, 3, 2, 1, 0]);
    let (kept, verdict) = gcra.decide(tat, SECOND);
    assert_eq!((kept, verdict.allowed, verdict.remaining), (tat, false, 0));
    assert_eq!(verdict.retry_after, Duration::from_millis(100));
    assert_eq!(verdict.reset, Duration::from_millis(500));
    assert!(!gcra.decide(tat, SECOND + 99_999).1.allowed);
    assert!(gcra.decide(tat, SECOND + 100_000).1.allowed);
}
