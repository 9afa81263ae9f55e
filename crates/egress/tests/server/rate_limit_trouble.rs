//! Stores that hang, die, come back, and send unexpected messages.

use std::time::Duration;

use keepwarm_egress::{OnStoreFailure, StoreFailure};

use crate::harness::{status, wait_until};
use crate::limited::{Keepwarm, Limit, hourly};
use crate::redis_server::RedisServer;

/// Short, as it would be.
const TIMEOUT: Duration = Duration::from_millis(50);

/// Requests until the store is given up. Any response will do.
fn until_given_up(keepwarm: &Keepwarm) {
    wait_until(
        || {
            keepwarm.status("somebody");
            !keepwarm.store().is_up()
        },
        "the store to be given up",
    );
}

#[test]
fn a_store_that_hangs_is_asked_no_more_and_each_process_counts_by_itself() {
    let redis = RedisServer::start();
    let keepwarm = Keepwarm::start(Limit { timeout: TIMEOUT, ..hourly(3) }, Some(&redis.url()));
    redis.hang();
    until_given_up(&keepwarm);
    let before = keepwarm.store().counts();
    assert_eq!(keepwarm.statuses("a", 5), [200, 200, 200, 429, 429], "the limit holds here");
    assert_eq!(keepwarm.statuses("b", 20).iter().filter(|status| **status == 200).count(), 3);
    assert_eq!(keepwarm.store().counts(), before, "nobody waited for it");
    redis.go_on();
    keepwarm.wait_for_store(true);
    let all: i64 = redis.ask(&["EXISTS", "keepwarm:rate:probe"]);
    assert!(all <= 1, "it was tried with a key of its own");
}

#[test]
fn where_the_store_decides_nothing_passes_without_it() {
    let redis = RedisServer::start();
    let closed = Limit { timeout: TIMEOUT, on_store_failure: OnStoreFailure::Closed, ..hourly(3) };
    let keepwarm = Keepwarm::start(closed, Some(&redis.url()));
    redis.hang();
    until_given_up(&keepwarm);
    let response = keepwarm.get("X-Key: a\r\nAccept: application/json\r\n");
    assert_eq!(status(&response), 503, "{response}");
    assert!(response.contains("\r\nRetry-After: 1\r\n"), "{response}");
    assert!(response.contains("\"reason\":\"store_timeout\""), "{response}");
    assert!(response.contains("did not respond in time"), "{response}");
    redis.go_on();
    keepwarm.wait_for_store(true);
    wait_until(|| keepwarm.status("a") == 200, "a count of the store");
}

#[test]
fn a_store_that_dies_is_found_again_when_it_is_back() {
    let mut redis = RedisServer::start();
    let keepwarm = Keepwarm::start(hourly(1), Some(&redis.url()));
    assert_eq!(keepwarm.statuses("a", 2), [200, 429]);
    redis.kill();
    until_given_up(&keepwarm);
    assert_eq!(keepwarm.store().failure(), StoreFailure::Unreachable);
    assert_eq!(
        keepwarm.statuses("a", 2),
        [200, 429],
        "by itself, and it knows nothing of the store's counts"
    );
    redis.start_again();
    keepwarm.wait_for_store(true);
    assert_eq!(keepwarm.statuses("c", 2), [200, 429], "which has neither script nor counts");
    let counted: Vec<String> = redis.ask(&["KEYS", "keepwarm:rate:api:*"]);
    assert_eq!(counted.len(), 1, "{counted:?}");
}

#[test]
fn a_store_that_refuses_to_write_is_not_asked() {
    let redis = RedisServer::start();
    let keepwarm = Keepwarm::start(hourly(2), Some(&redis.url()));
    // A replica of nobody, as after a failover that the configuration did not follow.
    redis.ask::<()>(&["REPLICAOF", "127.0.0.1", "1"]);
    until_given_up(&keepwarm);
    assert_eq!(keepwarm.store().failure(), StoreFailure::Refused);
    assert_eq!(keepwarm.status("a"), 200);
    redis.ask::<()>(&["REPLICAOF", "NO", "ONE"]);
    keepwarm.wait_for_store(true);
}

#[test]
fn a_key_that_holds_something_else_spoils_no_other() {
    let redis = RedisServer::start();
    let keepwarm = Keepwarm::start(hourly(1), Some(&redis.url()));
    // The key of requests without the field.
    redis.ask::<()>(&["LPUSH", "keepwarm:rate:api:-", "1"]);
    assert_eq!([status(&keepwarm.get("")), status(&keepwarm.get(""))], [200, 429], "counted here");
    assert!(keepwarm.store().is_up());
    assert_eq!(keepwarm.statuses("a", 2), [200, 429]);
}

#[test]
fn a_store_that_is_away_from_the_start_holds_nothing_up() {
    let mut redis = RedisServer::start();
    let url = redis.url();
    redis.kill();
    let patient = std::thread::spawn(move || Keepwarm::start(hourly(1), Some(&url)));
    redis.start_again();
    assert_eq!(patient.join().unwrap().statuses("a", 2), [200, 429]);
}
