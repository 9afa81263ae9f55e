use super::*;

fn limited(counters: &OnDemandCounters) -> u64 {
    counters.counts().iter().find(|(result, _)| *result == OnDemandResult::Limited).unwrap().1
}

/// Let's Encrypt: 300 new orders of an account in three hours, for renewals and configured names, too.
#[test]
fn orders_stay_below_what_authorities_allow() {
    let begun = Instant::now();
    let mut rate = Rate::new(ORDERS, begun);
    let window = Duration::from_secs(3 * 60 * 60);
    // A client that asks each second gets all that there is.
    let taken: Vec<Instant> =
        (0..8 * 3600).map(|at| begun + Duration::from_secs(at)).filter(|now| rate.take(*now)).collect();
    assert!(taken.iter().take(50).all(|at| *at < begun + Duration::from_secs(60)), "a burst goes at once");
    for (at, first) in taken.iter().enumerate() {
        let within = taken[at..].iter().take_while(|one| **one < *first + window).count();
        assert!(within <= 200, "{within} in three hours");
    }
    assert!(taken.len() > 400, "and they go on: {}", taken.len());
}

#[test]
fn a_look_at_a_rate_takes_nothing() {
    let now = Instant::now();
    let mut rate = Rate::new(Quota { count: 1, period: Duration::from_secs(1), burst: 1 }, now);
    assert!(rate.has_room(now) && rate.has_room(now));
    assert!(rate.take(now));
    assert!(!rate.has_room(now) && !rate.take(now));
    assert!(rate.has_room(now + Duration::from_secs(1)));
}

#[tokio::test]
async fn requests_beyond_the_bound_are_dropped_at_once() {
    let (sender, mut receiver) = mpsc::channel(WAITING);
    let requests =
        NameRequests { sender, waiting: Arc::new(Semaphore::new(WAITING)), counters: Arc::default() };
    let waits: Vec<CertificateWait> = (0..WAITING).map(|_| requests.request("a.test").unwrap()).collect();
    assert!(requests.request("a.test").is_none());
    assert_eq!(limited(&requests.counters), 1);
    // One that leaves makes room for another, and each hears what became of its own.
    drop(waits);
    let mut received = Vec::new();
    while let Ok(request) = receiver.try_recv() {
        received.push(request);
    }
    let (first, second) = (requests.request("b.test").unwrap(), requests.request("c.test").unwrap());
    assert!(receiver.recv().await.unwrap().ready.send(()).is_ok());
    drop(receiver.recv().await.unwrap());
    assert_eq!((first.await, second.await), (true, false));
}

#[test]
fn waiters_that_left_are_forgotten() {
    let mut pending = PendingName::default();
    for _ in 0..10 * WAITING {
        let (waiter, left) = oneshot::channel();
        pending.add(waiter);
        drop(left);
    }
    assert!(pending.waiters.len() <= WAITING, "{}", pending.waiters.len());
}
