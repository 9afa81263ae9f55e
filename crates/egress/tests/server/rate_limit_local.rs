//! Limits that a Keepwarm keeps by itself.

use keepwarm_egress::{LimitKey, RateLimitSettings};
use keepwarm_policy::gcra::Quota;

use crate::harness::status;
use crate::limited::{Keepwarm, Limit, hourly};

#[test]
fn what_is_too_much_is_answered_with_when_to_come_again() {
    let keepwarm = Keepwarm::start(hourly(2), None);
    assert_eq!(keepwarm.statuses("one", 2), [200, 200]);
    let response = keepwarm.get("X-Key: one\r\nAccept: application/json\r\n");
    assert_eq!(status(&response), 429, "{response}");
    assert!(response.contains("\r\nRateLimit-Policy: \"api\";q=2;w=3600\r\n"), "{response}");
    assert!(response.contains("\"reason\":\"rate_limited\""), "{response}");
    let seconds = |name: &str, before: &str| -> u64 {
        let line = response.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.strip_prefix(before).unwrap().parse().unwrap()
    };
    // One of two an hour comes back in half an hour.
    let (retry, until) = (seconds("Retry-After: ", ""), seconds("RateLimit: ", "\"api\";r=0;t="));
    assert!(retry == until && (1700..=1800).contains(&retry), "{response}");
    assert_eq!(keepwarm.status("two"), 200, "another key");
}

#[test]
fn keys_are_addresses_fields_cookies_or_none() {
    let limit = |key: LimitKey| Limit { key, ..hourly(1) };
    let by_address = Keepwarm::start(limit(LimitKey::Client), None);
    assert_eq!([by_address.status("a"), by_address.status("b")], [200, 429]);
    let by_nothing = Keepwarm::start(limit(LimitKey::All), None);
    assert_eq!([by_nothing.status("a"), by_nothing.status("b")], [200, 429]);
    let by_field = Keepwarm::start(hourly(1), None);
    assert_eq!([by_field.status("a"), by_field.status("a"), by_field.status("b")], [200, 429, 200]);
    let without = [by_field.get(""), by_field.get("")].map(|response| status(&response));
    assert_eq!(without, [200, 429], "those without are counted together");
    let by_cookie = Keepwarm::start(limit(LimitKey::Cookie("id".to_owned())), None);
    let cookie = |line: &str| status(&by_cookie.get(&format!("Cookie: {line}\r\n")));
    let statuses = [cookie("xid=1; id=1"), cookie("id=1;xid=2"), cookie("id=2"), cookie("xid=2")];
    assert_eq!(statuses, [200, 429, 200, 200]);
}

#[test]
fn other_settings_count_from_now_on_and_what_was_used_stays_used() {
    let keepwarm = Keepwarm::start(hourly(2), None);
    assert_eq!(keepwarm.statuses("one", 3), [200, 200, 429]);
    let hour = std::time::Duration::from_secs(3600);
    let settings = |burst| RateLimitSettings {
        quota: Quota { count: 2, period: hour, burst },
        key: LimitKey::Header("x-key".to_owned()),
        on_store_failure: Default::default(),
    };
    keepwarm.limiter.set_settings(settings(3), None);
    assert_eq!(keepwarm.statuses("one", 2), [200, 429], "one more than before");
}

#[test]
fn a_flood_of_keys_takes_no_memory_and_displaces_those_that_owe_least() {
    let keepwarm = Keepwarm::start(hourly(2), None);
    assert_eq!(keepwarm.statuses("regular", 3), [200, 200, 429]);
    for number in 0..500 {
        assert_eq!(keepwarm.status(&number.to_string()), 200);
    }
    assert_eq!(keepwarm.limiter.displaced(), 0, "there is room for many more");
    assert_eq!(keepwarm.status("regular"), 429);
}
