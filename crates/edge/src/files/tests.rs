//! Tables of RFC 9110 §13 and §14.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::Method;
use keepwarm_http1::Fields;

use super::conditions::{ConditionResult, Validators};
use super::ranges::{RangeRequest, parse_range};

#[test]
fn ranges() {
    let parts =
        |parts: &[(u64, u64)]| RangeRequest::Parts(parts.iter().map(|&(from, to)| from..to).collect());
    let cases = [
        ("bytes=0-4", parts(&[(0, 5)])),
        ("bytes=0-0", parts(&[(0, 1)])),
        ("bytes=5-", parts(&[(5, 10)])),
        ("bytes=-3", parts(&[(7, 10)])),
        ("bytes=-30", parts(&[(0, 10)])),
        ("bytes=0-99", parts(&[(0, 10)])),
        ("bytes=0-99999999999999999999999", parts(&[(0, 10)])),
        ("BYTES=0-4", parts(&[(0, 5)])),
        ("bytes= 0-1 , 3-4 ", parts(&[(0, 2), (3, 5)])),
        ("bytes=5-6,0-1", parts(&[(5, 7), (0, 2)])),
        ("bytes=0-1,20-30", parts(&[(0, 2)])),
        ("bytes=10-", RangeRequest::Nothing),
        ("bytes=10-20,30-", RangeRequest::Nothing),
        ("bytes=-0", RangeRequest::Nothing),
        ("bytes=0-5,3-7", RangeRequest::Whole),
        ("bytes=0-5,0-5", RangeRequest::Whole),
        ("bytes=4-0", RangeRequest::Whole),
        ("bytes=a-b", RangeRequest::Whole),
        ("bytes=-", RangeRequest::Whole),
        ("bytes=1", RangeRequest::Whole),
        ("bytes=", RangeRequest::Whole),
        ("bytes=0-1,x", RangeRequest::Whole),
        ("bytes=+1-2", RangeRequest::Whole),
        ("bytes=0x1-2", RangeRequest::Whole),
        ("lines=0-4", RangeRequest::Whole),
        ("bytes", RangeRequest::Whole),
        ("", RangeRequest::Whole),
    ];
    for (field, expected) in cases {
        assert_eq!(parse_range(Some(field.as_bytes()), 10), expected, "{field}");
    }
    assert_eq!(parse_range(None, 10), RangeRequest::Whole);
    assert_eq!(parse_range(Some(b"bytes=0-"), 0), RangeRequest::Nothing);
    let many: Vec<String> = (0..17).map(|n| format!("{n}-{n}")).collect();
    assert_eq!(parse_range(Some(format!("bytes={}", many.join(",")).as_bytes()), 100), RangeRequest::Whole);
}

const TAG: &str = "\"3e8.5-7\"";

fn validators() -> Validators {
    Validators::new(1000, 5, 7, UNIX_EPOCH + Duration::from_secs(5000))
}

fn fields(lines: &[(&str, &str)]) -> Fields {
    let mut fields = Fields::new();
    lines.iter().for_each(|(name, value)| fields.push(name.as_bytes(), value.as_bytes()));
    fields
}

fn at(seconds: u64) -> String {
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds))
}

#[test]
fn conditions() {
    use ConditionResult::{Failed, NotModified, Send};
    let (before, same, after) = (at(999), at(1000), at(1001));
    let weak = format!("W/{TAG}");
    let listed = format!("\"a\", \"b,c\" ,{TAG}");
    let cases: [(&[(&str, &str)], ConditionResult); 24] = [
        (&[], Send),
        (&[("if-none-match", TAG)], NotModified),
        (&[("if-none-match", &weak)], NotModified),
        (&[("if-none-match", &listed)], NotModified),
        (&[("if-none-match", "\"a\""), ("if-none-match", TAG)], NotModified),
        (&[("if-none-match", "*")], NotModified),
        (&[("if-none-match", "\"other\"")], Send),
        (&[("if-none-match", "nonsense")], Send),
        (&[("if-none-match", "\"other\""), ("if-modified-since", &after)], Send),
        (&[("if-modified-since", &same)], NotModified),
        (&[("if-modified-since", &after)], NotModified),
        (&[("if-modified-since", &before)], Send),
        (&[("if-modified-since", "yesterday")], Send),
        (&[("if-match", TAG)], Send),
        (&[("if-match", "*")], Send),
        (&[("if-match", &listed)], Send),
        (&[("if-match", &weak)], Failed),
        (&[("if-match", "\"other\"")], Failed),
        (&[("if-match", TAG), ("if-unmodified-since", &before)], Send),
        (&[("if-unmodified-since", &same)], Send),
        (&[("if-unmodified-since", &before)], Failed),
        (&[("if-unmodified-since", "never")], Send),
        (&[("if-match", TAG), ("if-none-match", TAG)], NotModified),
        (&[("if-unmodified-since", &before), ("if-none-match", TAG)], Failed),
    ];
    for (lines, expected) in cases {
        assert_eq!(validators().judge(&Method::GET, &fields(lines)), expected, "{lines:?}");
    }
}

#[test]
fn a_range_is_sent_of_the_state_it_was_asked_of() {
    let same = at(1000);
    let (later, weak) = (at(1001), format!("W/{TAG}"));
    for (value, expected) in
        [(TAG, true), (&same, true), (&weak, false), ("\"other\"", false), (&later, false), ("x", false)]
    {
        assert_eq!(validators().range_is_current(&fields(&[("if-range", value)])), expected, "{value}");
    }
    assert!(validators().range_is_current(&fields(&[])));
    // Changed within this second: the date could stand for two states.
    let fresh = Validators::new(1000, 5, 7, UNIX_EPOCH + Duration::from_millis(1_000_500));
    assert!(!fresh.range_is_current(&fields(&[("if-range", &same)])));
}

#[test]
fn a_file_from_the_future_is_from_now() {
    let now: SystemTime = UNIX_EPOCH + Duration::from_secs(500);
    assert_eq!(Validators::new(1000, 0, 1, now).modified, now);
    assert_eq!(Validators::new(-5, 0, 1, now).modified, UNIX_EPOCH);
}
