#![expect(clippy::disallowed_methods, reason = "tests need some instant to count from")]

use super::*;
use crate::RetryBudgetSettings;

const CAUSES: [FailureCause; 12] = [
    FailureCause::Connect,
    FailureCause::ConnectTimeout,
    FailureCause::RefusedStream,
    FailureCause::LostIdle,
    FailureCause::Reset,
    FailureCause::FirstByteTimeout,
    FailureCause::Status(500),
    FailureCause::Status(502),
    FailureCause::Status(503),
    FailureCause::Status(504),
    FailureCause::Status(429),
    FailureCause::BadResponse,
];

const ALL: RetryOn = RetryOn {
    connect: true,
    refused_stream: true,
    reset: true,
    first_byte_timeout: true,
    bad_gateway: true,
    unavailable: true,
    gateway_timeout: true,
};

fn failure(cause: FailureCause) -> Failure {
    Failure {
        cause,
        idempotent: true,
        sent: true,
        heard: false,
        body_kept: true,
        lost_before: false,
        retries: 0,
    }
}

fn decide(settings: RetrySettings, failure: Failure) -> Decision {
    let mut budget = RetryBudget::new(RetryBudgetSettings::default());
    settings.decide(&failure, &mut budget, Instant::now(), 0)
}

#[test]
fn by_default_cheap_failures_are_retried() {
    let retried: Vec<&str> = CAUSES
        .into_iter()
        .filter(|cause| matches!(decide(RetrySettings::default(), failure(*cause)), Decision::Retry(_)))
        .map(FailureCause::name)
        .collect();
    assert_eq!(retried, ["connect", "connect_timeout", "refused_stream", "reset"]);
    let all = RetrySettings { on: ALL, ..RetrySettings::default() };
    let not: Vec<FailureCause> = CAUSES
        .into_iter()
        .filter(|cause| !matches!(decide(all, failure(*cause)), Decision::Retry(_)))
        .collect();
    assert_eq!(
        not,
        [
            FailureCause::LostIdle,
            FailureCause::Status(500),
            FailureCause::Status(429),
            FailureCause::BadResponse
        ]
    );
}

/// RFC 9110 §9.2.2. Every combination: what is not idempotent is repeated only when none of it was processed for certain.
#[test]
fn non_idempotent_requests_are_retried_only_if_unprocessed() {
    let settings = RetrySettings { on: ALL, ..RetrySettings::default() };
    for cause in CAUSES {
        for (sent, heard, body_kept) in [false, true]
            .iter()
            .flat_map(|a| [false, true].map(|b| [false, true].map(|c| (*a, b, c))))
            .flatten()
        {
            let call = Failure { idempotent: false, sent, heard, body_kept, ..failure(cause) };
            let unprocessed = !sent
                || matches!(
                    cause,
                    FailureCause::Connect | FailureCause::ConnectTimeout | FailureCause::RefusedStream
                );
            let again = !matches!(decide(settings, call), Decision::GiveUp(_));
            assert!(!again || (unprocessed && !heard && body_kept), "{call:?}");
            if !unprocessed && !heard {
                assert_eq!(decide(settings, call), Decision::GiveUp(GiveUpReason::NotIdempotent));
            }
            let call = Failure { idempotent: true, ..call };
            if heard {
                assert_eq!(decide(settings, call), Decision::GiveUp(GiveUpReason::Begun));
            } else if !body_kept {
                assert_eq!(decide(settings, call), Decision::GiveUp(GiveUpReason::BodyGone));
            }
        }
    }
}

#[test]
fn a_lost_idle_connection_is_replaced_once_and_costs_nothing() {
    let none = RetrySettings { retries: 0, ..RetrySettings::default() };
    let mut empty = RetryBudget::new(RetryBudgetSettings { per_second: 0, ..RetryBudgetSettings::default() });
    let lost = failure(FailureCause::LostIdle);
    let now = Instant::now();
    assert_eq!(none.decide(&lost, &mut empty, now, 0), Decision::NewConnection);
    let again = Failure { lost_before: true, ..lost };
    assert_eq!(none.decide(&again, &mut empty, now, 0), Decision::GiveUp(GiveUpReason::Exhausted));
    let post = Failure { idempotent: false, ..lost };
    assert_eq!(decide(none, post), Decision::GiveUp(GiveUpReason::NotIdempotent));
    assert_eq!(decide(none, Failure { sent: false, ..post }), Decision::NewConnection);
}

#[test]
fn the_number_and_the_budget_end_it() {
    let settings = RetrySettings { retries: 2, ..RetrySettings::default() };
    let call = |retries| Failure { retries, ..failure(FailureCause::Reset) };
    assert!(matches!(decide(settings, call(1)), Decision::Retry(_)));
    assert_eq!(decide(settings, call(2)), Decision::GiveUp(GiveUpReason::Exhausted));
    let mut budget =
        RetryBudget::new(RetryBudgetSettings { per_second: 1, ..RetryBudgetSettings::default() });
    let now = Instant::now();
    assert!(matches!(settings.decide(&call(0), &mut budget, now, 0), Decision::Retry(_)));
    assert_eq!(settings.decide(&call(0), &mut budget, now, 0), Decision::GiveUp(GiveUpReason::Budget));
    assert_eq!(GiveUpReason::Budget.name(), "budget");
}

#[test]
fn a_refused_retry_costs_no_budget() {
    let settings = RetrySettings::default();
    let mut budget =
        RetryBudget::new(RetryBudgetSettings { per_second: 1, ..RetryBudgetSettings::default() });
    let now = Instant::now();
    for _ in 0..100 {
        let asked = settings.decide(&failure(FailureCause::Status(503)), &mut budget, now, 0);
        assert_eq!(asked, Decision::GiveUp(GiveUpReason::NotConfigured));
        let exhausted = Failure { retries: 1, ..failure(FailureCause::Reset) };
        assert_eq!(
            settings.decide(&exhausted, &mut budget, now, 0),
            Decision::GiveUp(GiveUpReason::Exhausted)
        );
    }
    assert!(matches!(
        settings.decide(&failure(FailureCause::Reset), &mut budget, now, 0),
        Decision::Retry(_)
    ));
}

#[test]
fn waits_double_up_to_the_cap_and_are_random_from_nothing_on() {
    let settings = RetrySettings { retries: u32::MAX, ..RetrySettings::default() };
    let wait = |retries, random| {
        let mut budget = RetryBudget::default();
        let call = Failure { retries, ..failure(FailureCause::Connect) };
        match settings.decide(&call, &mut budget, Instant::now(), random) {
            Decision::Retry(wait) => wait.as_millis(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(
        [0, 1, 2, 3, 4, 31, 32, 1000].map(|at| wait(at, u64::MAX)),
        [25, 50, 100, 200, 250, 250, 250, 250]
    );
    assert_eq!([0, 5].map(|at| wait(at, 0)), [0, 0]);
}

#[test]
fn methods_are_those_of_the_rfc() {
    let idempotent = ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"];
    assert!(idempotent.into_iter().all(is_idempotent));
    assert!(!["POST", "PATCH", "CONNECT", "get", "", "PURGE"].into_iter().any(is_idempotent));
}
