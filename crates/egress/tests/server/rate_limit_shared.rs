//! Limits that several Keepwarms share.

use std::time::Duration;

use keepwarm_egress::{Store, StoreSettings};

use crate::harness::wait_until;
use crate::limited::{Keepwarm, Limit, hourly};
use crate::redis_server::RedisServer;

#[test]
fn two_keepwarms_count_together() {
    let redis = RedisServer::start();
    let url = redis.url();
    let (one, two) = (Keepwarm::start(hourly(4), Some(&url)), Keepwarm::start(hourly(4), Some(&url)));
    let statuses: Vec<u16> = (0..3).flat_map(|_| [one.status("a"), two.status("a")]).collect();
    assert_eq!(statuses, [200, 200, 200, 200, 429, 429]);
    assert_eq!([one.status("b"), two.status("b")], [200, 200]);
    let other_name = Keepwarm::start(Limit { name: "pages", ..hourly(4) }, Some(&url));
    assert_eq!(other_name.status("a"), 200, "a limit of another name");
    assert_eq!((one.store().counts(), two.store().counts()), ((4, 0), (4, 0)), "one question a request");
}

#[test]
fn not_one_too_many_passes_when_all_come_at_once() {
    let redis = RedisServer::start();
    let url = redis.url();
    let pair = [(); 2].map(|()| Keepwarm::start(hourly(20), Some(&url)));
    let passed: usize = std::thread::scope(|scope| {
        let clients: Vec<_> =
            pair.iter().chain(&pair).map(|keepwarm| scope.spawn(|| keepwarm.statuses("a", 20))).collect();
        let all = clients.into_iter().flat_map(|client| client.join().unwrap());
        all.filter(|status| *status == 200).count()
    });
    assert_eq!(passed, 20);
    assert!(pair.iter().all(|keepwarm| keepwarm.store().counts().1 == 0));
}

#[test]
fn what_clients_say_does_not_lie_in_the_store_and_what_is_paid_for_expires() {
    let redis = RedisServer::start();
    let keepwarm = Keepwarm::start(hourly(1), Some(&redis.url()));
    assert_eq!(keepwarm.status("secret-token"), 200);
    let keys: Vec<String> = redis.ask(&["KEYS", "keepwarm:rate:api:*"]);
    assert!(keys.len() == 1 && !keys[0].contains("secret"), "{keys:?}");
    let left: u64 = redis.ask(&["PTTL", &keys[0]]);
    assert!((3_500_000..=3_600_000).contains(&left), "an hour is owed: {left} ms");
    redis.ask::<()>(&["PEXPIRE", &keys[0], "1"]);
    wait_until(|| keepwarm.status("secret-token") == 200, "it is forgotten");
}

#[test]
fn a_store_that_forgot_the_script_gets_it_again_and_one_that_forgot_all_starts_anew() {
    let redis = RedisServer::start();
    let keepwarm = Keepwarm::start(hourly(2), Some(&redis.url()));
    assert_eq!(keepwarm.status("a"), 200);
    redis.ask::<()>(&["SCRIPT", "FLUSH"]);
    assert_eq!(keepwarm.statuses("a", 2), [200, 429], "still counted");
    redis.ask::<()>(&["FLUSHALL"]);
    assert_eq!(keepwarm.statuses("a", 3), [200, 200, 429]);
    assert_eq!(keepwarm.store().counts().1, 0, "none of it is a failure");
}

#[test]
fn a_url_that_cannot_be_used_is_refused_in_words() {
    for (url, expected) in [("http://here", "did not parse"), ("rediss://here", "TLS")] {
        let timeout = Duration::from_millis(50);
        let settings = StoreSettings { url: url.to_owned(), tls: None, address: "here".to_owned(), timeout };
        let message = Store::open(settings).err().unwrap_or_default();
        assert!(message.contains(expected) && message.contains("redis://HOST"), "{url}: {message:?}");
    }
}
