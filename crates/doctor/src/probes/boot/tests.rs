use std::time::Duration;

use super::observe::{BootObservation, BootRequest, Samples};
use super::rules;
use crate::finding::Verdict;
use crate::probes::mock::{MockResponse, serve};
use crate::probes::scripted::context_of;
use crate::settings::Settings;

fn tenths(times: &[u64]) -> Vec<Duration> {
    let mut times: Vec<Duration> = times.iter().map(|&tenth| Duration::from_micros(tenth * 100)).collect();
    times.sort_unstable();
    times
}

fn kind(question: BootRequest, status: u16, times: &[u64]) -> Samples {
    Samples {
        asked: format!("{question:?}"),
        question,
        status,
        by_app: false,
        length: Some(u64::from(status)),
        times: tenths(times),
    }
}

/// Page, missing path, `OPTIONS`, in tenths of a millisecond. A round trip is a tenth.
fn seen(page: &[u64], missing: &[u64], options: &[u64]) -> BootObservation {
    BootObservation {
        network: Duration::from_micros(100),
        first: Duration::from_micros(page.iter().max().copied().unwrap_or_default() * 100),
        kinds: vec![
            kind(BootRequest::Page, 200, page),
            kind(BootRequest::Missing, 404, missing),
            kind(BootRequest::Options, 405, options),
            kind(BootRequest::Head, 200, page),
        ],
        ..BootObservation::default()
    }
}

fn with(mut seen: BootObservation, change: impl Fn(&mut BootObservation)) -> BootObservation {
    change(&mut seen);
    seen
}

const FAST: &[u64] = &[3, 4, 3, 5, 60, 3, 4, 3];
const STEADY: &[u64] = &[503, 502, 503, 504, 502, 503, 530, 503];
const VARYING: &[u64] = &[503, 702, 853, 404, 602, 1003, 530, 903];

#[test]
fn what_every_response_pays_is_a_boot_and_a_slow_page_is_not() {
    let cases: Vec<(&str, BootObservation, Verdict)> = vec![
        ("all fast", seen(FAST, FAST, FAST), Verdict::Good),
        ("every response pays", seen(STEADY, STEADY, STEADY), Verdict::Bad),
        (
            "a proxy waits for bodies",
            with(seen(STEADY, STEADY, FAST), |seen| seen.kinds[3].times = tenths(FAST)),
            Verdict::Unknown,
        ),
        ("OPTIONS is answered in front", seen(STEADY, STEADY, FAST), Verdict::Bad),
        ("errors are answered in front", seen(STEADY, FAST, STEADY), Verdict::Bad),
        ("a boot and work", seen(&[3503, 3702, 3853, 3404], STEADY, FAST), Verdict::Bad),
        ("a page that works", seen(VARYING, FAST, FAST), Verdict::Unknown),
        ("a page that takes the same time again and again", seen(STEADY, FAST, FAST), Verdict::Warning),
        (
            "a page that works, and an error of the same application",
            with(seen(STEADY, FAST, FAST), |seen| {
                seen.kinds.iter_mut().for_each(|kind| kind.by_app = true);
            }),
            Verdict::Good,
        ),
        (
            "a page that works, by a handler that does not look at the method",
            with(seen(VARYING, FAST, VARYING), |seen| {
                (seen.kinds[2].status, seen.kinds[2].length) = (200, Some(190));
            }),
            Verdict::Unknown,
        ),
        (
            "one page for everything, each time as slow",
            with(seen(STEADY, STEADY, STEADY), |seen| {
                seen.kinds.iter_mut().for_each(|kind| (kind.status, kind.length) = (200, Some(2)));
            }),
            Verdict::Bad,
        ),
        (
            "one page for everything, with work",
            with(seen(VARYING, VARYING, VARYING), |seen| {
                seen.kinds.iter_mut().for_each(|kind| (kind.status, kind.length) = (200, Some(2)));
            }),
            Verdict::Unknown,
        ),
        (
            "12 ms, but for what is answered in front",
            seen(&[129, 128, 130, 130], &[129, 128, 130, 130], FAST),
            Verdict::Warning,
        ),
        (
            "12 ms for anything",
            seen(&[129, 128, 130, 130], &[129, 128, 130, 130], &[127, 128, 129, 128]),
            Verdict::Good,
        ),
        (
            "far away",
            with(seen(STEADY, STEADY, STEADY), |seen| seen.network = Duration::from_millis(48)),
            Verdict::Good,
        ),
        (
            "behind a cache",
            with(seen(STEADY, STEADY, STEADY), |seen| seen.hop = Some("via: 1.1 cache".to_owned())),
            Verdict::Warning,
        ),
        (
            "throttled",
            with(seen(STEADY, STEADY, STEADY), |seen| seen.first = Duration::from_millis(1)),
            Verdict::Unknown,
        ),
        (
            "PHP, 6 ms for anything",
            with(seen(&[61, 60, 62, 63], &[60, 61, 60, 60], FAST), |seen| seen.php = true),
            Verdict::Warning,
        ),
        ("6 ms for an error, too", seen(&[61, 60, 62, 63], &[60, 61, 60, 60], FAST), Verdict::Good),
        (
            "nobody is let in",
            with(seen(FAST, FAST, FAST), |seen| seen.kinds[0].status = 401),
            Verdict::Unknown,
        ),
        ("answered once", seen(&[503], STEADY, STEADY), Verdict::Unknown),
        ("nothing", BootObservation::default(), Verdict::Unknown),
    ];
    for (name, seen, verdict) in cases {
        let found = rules::every(&seen);
        assert_eq!(found.verdict, verdict, "{name}: {found:?}");
        assert_eq!(found.cost.is_some(), verdict >= Verdict::Warning, "{name}: {found:?}");
    }
}

#[test]
fn a_first_response_that_is_much_later_is_a_cold_start() {
    for (first, page, verdict) in [
        (1900, FAST, Verdict::Warning),
        (300, FAST, Verdict::Good),
        (540, STEADY, Verdict::Good),
        (1, FAST, Verdict::Good),
    ] {
        let found =
            rules::first(&with(seen(page, FAST, FAST), |seen| seen.first = Duration::from_millis(first)));
        assert_eq!(found.verdict, verdict, "{found:?}");
    }
}

async fn verdict(reply: impl Fn(&str) -> MockResponse + Send + Sync + 'static) -> Verdict {
    let target = serve(false, reply).await;
    let context = context_of(&target, Settings { rate: 500, ..Settings::default() }).await;
    let found = super::examine(&context).await;
    assert_eq!(found[0].id, rules::EVERY);
    found[0].verdict
}

const PAGE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n";
const MISSING: &str = "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n";

fn reply(asked: &str) -> MockResponse {
    let head = if asked.contains("/page") { PAGE } else { MISSING };
    match asked.starts_with("HEAD") {
        true => MockResponse::of(&[head]),
        false => MockResponse::of(&[&format!("{head}ok")]),
    }
}

#[tokio::test]
async fn a_server_that_boots_is_found() {
    assert_eq!(verdict(|asked| reply(asked).after(50)).await, Verdict::Bad);
    // Each time on a new connection.
    assert_eq!(verdict(|asked| reply(asked).after(50).closing()).await, Verdict::Bad);
    // Only pages reach the application; everything else is served in front of it.
    let boots = |asked: &str| match asked.starts_with("OPTIONS") {
        true => MockResponse::of(&["HTTP/1.1 204 No Content\r\nAllow: GET\r\n\r\n"]).after(50),
        false => reply(asked).after(if asked.contains("/page") { 50 } else { 0 }),
    };
    assert_eq!(verdict(boots).await, Verdict::Bad);
    // The same, but an application that ignores the method may as well work for 50 ms.
    let works = |asked: &str| reply(asked).after(if asked.contains("/page") { 50 } else { 0 });
    assert_eq!(verdict(works).await, Verdict::Warning);
}

#[tokio::test]
async fn a_server_that_does_not_boot_is_good() {
    assert_eq!(verdict(reply).await, Verdict::Good);
    // Leaves OPTIONS unanswered, and closes behind each of the others.
    let stalls = |asked: &str| match asked.starts_with("OPTIONS") {
        true => MockResponse::default(),
        false => reply(asked).closing(),
    };
    assert_eq!(verdict(stalls).await, Verdict::Good);
    // Pauses between head and body.
    assert_eq!(verdict(|_| MockResponse::of(&[PAGE, "ok"])).await, Verdict::Good);
}
