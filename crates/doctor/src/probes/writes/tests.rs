use std::time::Duration;

use super::observe::{BodyEnd, Sample, WriteObservation};
use super::rules;
use crate::client::{Response, TimedRead};
use crate::finding::Verdict;
use crate::probes::mock::{MockResponse, serve};
use crate::probes::scripted::context_of;
use crate::settings::Settings;

const HEAD: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nX-One: 1\r\nX-Two: 2\r\nContent-Length: 5\r\n\r\n";

fn sample(segments: u32) -> Sample {
    Sample {
        bytes: 205,
        head: 200,
        lines: 6,
        body: BodyEnd::Length,
        segments: Some(segments),
        at_least: None,
        largest: 536,
        reads: 1,
        head_reads: 1,
        pause: Duration::ZERO,
        took: Duration::from_millis(1),
        more: false,
    }
}

fn with(change: impl Fn(&mut Sample)) -> Sample {
    let mut one = sample(1);
    change(&mut one);
    one
}

fn paused(milliseconds: &[u64]) -> Vec<Sample> {
    milliseconds.iter().map(|&ms| with(|one| one.pause = Duration::from_millis(ms))).collect()
}

fn took(milliseconds: &[u64]) -> Vec<Sample> {
    milliseconds.iter().map(|&ms| with(|one| one.took = Duration::from_millis(ms))).collect()
}

/// Whether it is encrypted, how long responses took (at first; further ones; at first again, acknowledged as usual; and at once), whether that is suspicious,
/// and the verdict.
type TicketsCase =
    (&'static str, bool, &'static [u64], &'static [u64], &'static [u64], &'static [u64], bool, Verdict);

/// Over TLS, what goes before the first response of a connection are tickets.
#[test]
fn a_first_response_that_waits_for_the_acknowledgement_of_tickets_is_bad() {
    let (slow, quick): (&'static [u64], &'static [u64]) = (&[44, 42, 41], &[2, 1, 1]);
    let (page, kept): (&'static [u64], &'static [u64]) = (&[60, 61, 62], &[1, 1, 1, 1, 1]);
    let cases: &[TicketsCase] = &[
        ("waits", true, slow, kept, slow, quick, true, Verdict::Bad),
        ("waits, and nothing is kept", true, slow, &[], slow, quick, true, Verdict::Bad),
        ("waits, but for one", true, slow, kept, &[44, 1, 42], &[2, 50, 1], true, Verdict::Bad),
        ("a slow page", true, page, page, &[], &[], false, Verdict::Good),
        ("a slow page, and nothing is kept", true, page, &[], page, page, true, Verdict::Unknown),
        ("slow only at first", true, page, kept, page, page, true, Verdict::Good),
        ("a busy moment", true, slow, kept, quick, quick, true, Verdict::Good),
        ("once", true, &[44, 2, 3], kept, &[], &[], false, Verdict::Good),
        ("unencrypted", false, slow, kept, &[], &[], false, Verdict::Good),
        ("promptly", true, quick, kept, &[], &[], false, Verdict::Good),
    ];
    for &(name, encrypted, fresh, kept, usual, prompt, suspicious, verdict) in cases {
        let mut seen = WriteObservation {
            encrypted,
            fresh: took(fresh),
            late: took(kept),
            at_once: took(kept),
            ..WriteObservation::default()
        };
        assert_eq!(rules::may_wait_for_tickets(&seen), suspicious, "{name}");
        (seen.usual, seen.prompt) = (took(usual), took(prompt));
        let finding = rules::nagle(&seen);
        assert_eq!(finding.verdict, verdict, "{name}: {finding:?}");
    }
}

#[test]
fn a_head_in_pieces_is_bad() {
    let whole = with(|one| one.body = BodyEnd::None);
    let cases: &[(&str, Vec<Sample>, Vec<Sample>, Verdict)] = &[
        ("one segment", vec![whole; 3], vec![sample(2); 3], Verdict::Good),
        ("a segment for each line", vec![with(|one| one.segments = Some(7)); 3], vec![], Verdict::Bad),
        ("once, by a lost packet", vec![whole, sample(2), whole], vec![], Verdict::Good),
        (
            "large, and in as many as it needs",
            vec![with(|one| (one.head, one.segments) = (4000, Some(3))); 3],
            vec![],
            Verdict::Good,
        ),
        (
            "large, by lines",
            vec![with(|one| (one.head, one.segments) = (4000, Some(30))); 3],
            vec![],
            Verdict::Bad,
        ),
        (
            "on a path of small segments",
            vec![with(|one| (one.head, one.segments) = (1000, Some(2))); 3],
            vec![],
            Verdict::Good,
        ),
        (
            "among tickets of TLS",
            vec![with(|one| (one.segments, one.at_least) = (None, Some(6))); 3],
            vec![],
            Verdict::Bad,
        ),
        (
            "with tickets of TLS",
            vec![with(|one| (one.segments, one.at_least) = (None, Some(1))); 3],
            vec![],
            Verdict::Good,
        ),
        ("torn reads", vec![], vec![with(|one| one.head_reads = 3); 2], Verdict::Bad),
        ("one torn read", vec![], vec![with(|one| one.head_reads = 2), sample(1), sample(1)], Verdict::Good),
        (
            "HEAD with a body, and a body in a segment of its own",
            vec![with(|one| (one.more, one.segments) = (true, Some(5))); 3],
            vec![with(|one| (one.bytes, one.largest, one.segments) = (2800, 2600, Some(5))); 3],
            Verdict::Bad,
        ),
        (
            "HEAD with a body, head and body apart",
            vec![with(|one| (one.more, one.segments) = (true, Some(2))); 3],
            vec![sample(2); 3],
            Verdict::Good,
        ),
        (
            "nothing counted, read at once",
            vec![with(|one| one.segments = None)],
            vec![with(|one| one.segments = None); 3],
            Verdict::Good,
        ),
        ("no response", vec![], vec![], Verdict::Unknown),
    ];
    for (name, heads, fresh, verdict) in cases {
        let seen =
            WriteObservation { heads: heads.clone(), fresh: fresh.clone(), ..WriteObservation::default() };
        let found = rules::head(&seen);
        assert_eq!(found.verdict, *verdict, "{name}: {found:?}");
    }
}

#[test]
fn two_segments_are_ordinary_and_many_small_ones_are_not() {
    let cases: &[(&str, Sample, Verdict, bool)] = &[
        ("one", sample(1), Verdict::Good, false),
        ("head and body apart", sample(2), Verdict::Good, true),
        ("a body in parts", sample(3), Verdict::Warning, true),
        (
            "head, chunk, end",
            with(|one| (one.body, one.segments) = (BodyEnd::Chunked, Some(3))),
            Verdict::Good,
            true,
        ),
        (
            "many small chunks",
            with(|one| (one.body, one.segments) = (BodyEnd::Chunked, Some(20))),
            Verdict::Warning,
            true,
        ),
        (
            "a large page in full segments",
            with(|one| (one.bytes, one.largest, one.segments) = (60_000, 1448, Some(42))),
            Verdict::Good,
            false,
        ),
        (
            "a large page by lines",
            with(|one| (one.bytes, one.largest, one.segments) = (60_000, 1448, Some(600))),
            Verdict::Warning,
            true,
        ),
        ("not counted", with(|one| one.segments = None), Verdict::Unknown, false),
    ];
    for (name, one, verdict, costs) in cases {
        let found =
            rules::segments(&WriteObservation { fresh: vec![*one; 3], ..WriteObservation::default() });
        assert_eq!((found.verdict, found.cost.is_some()), (*verdict, *costs), "{name}: {found:?}");
    }
    // Under TLS those of the first response on a connection cannot be counted, those of later ones can.
    let seen = WriteObservation {
        fresh: vec![with(|one| one.segments = None); 3],
        at_once: vec![sample(2); 5],
        ..WriteObservation::default()
    };
    assert_eq!(rules::segments(&seen).verdict, Verdict::Good);
}

#[test]
fn a_write_that_waits_for_an_acknowledgement_is_bad() {
    let cases: &[(&str, &[u64], &[u64], Verdict)] = &[
        ("the 40 ms", &[41, 40, 44, 41, 40], &[0, 0, 1, 0, 0], Verdict::Bad),
        ("on a long way", &[141, 140, 144, 141, 140], &[100, 99, 100, 101, 100], Verdict::Bad),
        ("interrupted once each", &[41, 0, 44, 41, 40], &[0, 0, 60, 0, 0], Verdict::Bad),
        ("nothing waits", &[0, 0, 1, 0, 0], &[0, 0, 1, 0, 0], Verdict::Good),
        ("one interruption", &[0, 45, 0, 0, 0], &[0, 0, 0, 0, 0], Verdict::Good),
        ("a page that is made in two halves", &[50, 51, 50, 50, 53], &[50, 50, 52, 50, 50], Verdict::Good),
        ("uneven pauses", &[80, 31, 0, 60, 45], &[40, 10, 50, 80, 0], Verdict::Good),
        ("two of each", &[41, 40], &[0, 1], Verdict::Bad),
    ];
    for (name, late, at_once, verdict) in cases {
        let seen =
            WriteObservation { late: paused(late), at_once: paused(at_once), ..WriteObservation::default() };
        let found = rules::nagle(&seen);
        assert_eq!(found.verdict, *verdict, "{name}: {found:?}");
    }
    let not_kept = WriteObservation { fresh: vec![sample(2); 3], ..WriteObservation::default() };
    assert_eq!(rules::nagle(&not_kept).verdict, Verdict::Unknown);
}

#[test]
fn a_stream_that_is_held_back_is_bad() {
    let at = |ms: &[u64]| -> Vec<TimedRead> {
        ms.iter().map(|&ms| TimedRead { at: Duration::from_millis(ms), bytes: 100 }).collect()
    };
    let events = "data: 1\n\ndata: 2\n\ndata: 3\n\n";
    let cases: &[(&str, &str, &[u64], &str, Verdict)] = &[
        ("events as they are made", "text/event-stream", &[1, 501, 1001], events, Verdict::Good),
        ("all at the end", "text/event-stream; charset=utf-8", &[1001], events, Verdict::Bad),
        ("a single event", "text/event-stream", &[1001], "data: 1\n\n", Verdict::Unknown),
        ("soon over", "text/event-stream", &[3], events, Verdict::Unknown),
        ("lines at the end", "application/x-ndjson", &[700], "{}\n{}\n{}\n", Verdict::Bad),
        ("a slow page", "text/html", &[1001], "<p>", Verdict::Unknown),
        ("a page in parts", "text/html", &[10, 200], "<p>", Verdict::Good),
    ];
    for (name, kind, reads, body, verdict) in cases {
        let mut response = Response::for_tests(200, &[("Content-Type", kind)]);
        response.reads = at(reads);
        response.body = body.as_bytes().to_vec();
        let found = super::stream::stream(&response);
        assert_eq!(found.verdict, *verdict, "{name}: {found:?}");
    }
}

async fn verdicts(
    nagle: bool,
    reply: impl Fn(&str) -> MockResponse + Send + Sync + 'static,
) -> Vec<(&'static str, Verdict)> {
    let target = serve(nagle, reply).await;
    let context = context_of(&target, Settings { rate: 200, ..Settings::default() }).await;
    let found = super::examine(&context).await;
    found.iter().filter(|one| one.verdict != Verdict::Unknown).map(|one| (one.id, one.verdict)).collect()
}

#[tokio::test]
async fn a_server_that_writes_line_by_line_is_found() {
    let found = verdicts(false, |asked| {
        let mut lines: Vec<&str> = HEAD.split_inclusive("\r\n").collect();
        if !asked.starts_with("HEAD") {
            lines.push("pong\n");
        }
        MockResponse::of(&lines)
    });
    let found = found.await;
    assert!(found.contains(&(rules::HEAD, Verdict::Bad)), "{found:?}");
    assert!(found.contains(&(rules::NAGLE, Verdict::Good)), "{found:?}");
}

#[tokio::test]
async fn a_server_that_waits_for_acknowledgements_is_found() {
    let found = verdicts(true, |asked| match asked.starts_with("HEAD") {
        true => MockResponse::of(&[HEAD]),
        false => MockResponse::of(&[HEAD, "pong\n"]),
    });
    let found = found.await;
    assert!(found.contains(&(rules::NAGLE, Verdict::Bad)), "{found:?}");
    assert!(found.contains(&(rules::HEAD, Verdict::Good)), "{found:?}");
    assert!(found.contains(&(rules::SEGMENTS, Verdict::Good)), "{found:?}");
}

#[tokio::test]
async fn servers_with_other_faults_are_good() {
    // Closes each time; says a body for HEAD; boots; has a page of a megabyte.
    let good = |found: &[(&str, Verdict)]| found.iter().all(|(_, verdict)| *verdict == Verdict::Good);
    let whole = format!("{HEAD}pong\n");
    let text = whole.clone();
    let found = verdicts(false, move |_| MockResponse::of(&[&text]).closing()).await;
    assert!(good(&found), "{found:?}");
    let text = whole.clone();
    let found = verdicts(false, move |_| MockResponse::of(&[HEAD, &text[HEAD.len()..]])).await;
    assert!(good(&found), "{found:?}");
    let text = whole.clone();
    let found = verdicts(false, move |asked| match asked.starts_with("HEAD") {
        true => MockResponse::of(&[HEAD]).after(50),
        false => MockResponse::of(&[&text]).after(50),
    });
    let found = found.await;
    assert!(good(&found), "{found:?}");
    let page = format!("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n{}", "x".repeat(1_000_000));
    let found = verdicts(true, move |asked| match asked.split(' ').collect::<Vec<_>>()[..] {
        ["HEAD", ..] => MockResponse::of(&["HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"]),
        ["GET", "/page", _] => MockResponse::of(&[&page]),
        _ => MockResponse::of(&[&whole]),
    });
    let found = found.await;
    assert!(good(&found) && found.len() == 3, "{found:?}");
}
