//! The rules, from tables; and a few servers, each with one fault, on the wire.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;
use crate::probes::scripted::listen;
use crate::{Examination, Probe, Settings, SilentWatcher, Verdict};

/// Some responses on one connection.
pub(crate) fn series_of(responses: &[(u16, &[(&str, &str)])], state: ConnectionState) -> Series {
    let response = |&(status, fields): &(u16, &[(&str, &str)])| {
        let mut response = Response::for_tests(status, fields);
        if let Some(head) = &mut response.head {
            head.connection.close = head.fields.has_token("connection", "close");
            head.connection.keep_alive = head.fields.has_token("connection", "keep-alive");
        }
        response
    };
    Series {
        asked: "GET / HTTP/1.1".to_owned(),
        responses: responses.iter().map(response).collect(),
        behind: 0,
        state,
        opening: Duration::from_micros(100),
    }
}

/// The fault of a server of these tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PersistenceFault {
    None,
    NeverClosesOn10,
    IgnoresClose,
    CloseInSmallLetters,
    ClosesUnannounced,
    AnnouncesCloseAndStays,
    AnnouncesKeepAliveAndCloses,
    KeepsSilently,
    ChunkedTo10,
    HeadWithBody,
    NotModifiedWithBody,
    ClosesIdleEarly,
    LosesPipelined,
    RespondsOnce,
    NeverKeeps,
    UntilClose,
    UntilCloseNeverCloses,
}

async fn serve(mut stream: TcpStream, fault: PersistenceFault) -> Option<()> {
    let mut inbox = Vec::new();
    let mut served = 0;
    loop {
        let end = loop {
            if let Some(at) = inbox.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            let idle = match fault == PersistenceFault::ClosesIdleEarly && served > 0 {
                true => Duration::from_millis(300),
                false => Duration::from_secs(60),
            };
            inbox.reserve(8192);
            let read = tokio::time::timeout(idle, stream.read_buf(&mut inbox)).await.ok()?.ok()?;
            if read == 0 {
                return None;
            }
        };
        let request = String::from_utf8_lossy(&inbox[..end]).into_owned();
        inbox.drain(..end);
        if fault == PersistenceFault::LosesPipelined {
            inbox.clear();
        }
        if fault == PersistenceFault::RespondsOnce && served > 0 {
            continue;
        }
        served += 1;
        let (response, stays) = respond(&request, fault);
        stream.write_all(&response).await.ok()?;
        if !stays {
            return None;
        }
    }
}

/// The response, and whether the connection stays open.
fn respond(request: &str, fault: PersistenceFault) -> (Vec<u8>, bool) {
    let line = request.lines().next().unwrap_or_default().to_owned();
    let option = |name: &str| {
        let lower = request.to_ascii_lowercase();
        lower.lines().any(|line| line.starts_with("connection:") && line.contains(name))
    };
    let old = line.ends_with("1.0");
    let close = match fault {
        PersistenceFault::IgnoresClose => false,
        PersistenceFault::CloseInSmallLetters => request.contains("close"),
        _ => option("close"),
    };
    let keep = if old { option("keep-alive") && !close } else { !close };
    let says_close =
        !keep || matches!(fault, PersistenceFault::AnnouncesCloseAndStays | PersistenceFault::NeverKeeps);
    let connection = match (says_close, old) {
        _ if old && matches!(fault, PersistenceFault::NeverClosesOn10 | PersistenceFault::KeepsSilently) => {
            ""
        }
        (true, _) => "Connection: close\r\n",
        (false, true) => "Connection: keep-alive\r\n",
        (false, false) if fault == PersistenceFault::ClosesIdleEarly => "Keep-Alive: timeout=75\r\n",
        (false, false) => "",
    };
    let known = request.contains("If-None-Match");
    let status = if known { "304 Not Modified" } else { "200 OK" };
    let until_close =
        matches!(fault, PersistenceFault::UntilClose | PersistenceFault::UntilCloseNeverCloses if old);
    let (framing, body) = match fault {
        PersistenceFault::ChunkedTo10 if old => ("Transfer-Encoding: chunked\r\n", "4\r\npong\r\n0\r\n\r\n"),
        _ if until_close => ("", "pong"),
        _ if known => ("", ""),
        _ => ("Content-Length: 4\r\n", "pong"),
    };
    let body = match fault {
        PersistenceFault::HeadWithBody => body,
        PersistenceFault::NotModifiedWithBody if known => "pong",
        _ if line.starts_with("HEAD") || known => "",
        _ => body,
    };
    let stays = match fault {
        PersistenceFault::NeverClosesOn10 | PersistenceFault::KeepsSilently if old => true,
        PersistenceFault::AnnouncesCloseAndStays => true,
        PersistenceFault::UntilCloseNeverCloses if old => true,
        PersistenceFault::ClosesUnannounced => false,
        PersistenceFault::AnnouncesKeepAliveAndCloses if old => false,
        PersistenceFault::UntilClose if old => false,
        _ => !says_close,
    };
    (format!("HTTP/1.1 {status}\r\nETag: \"1\"\r\n{connection}{framing}\r\n{body}").into_bytes(), stays)
}

async fn examined(fault: PersistenceFault) -> Examination {
    let target = listen(move |stream| serve(stream, fault)).await;
    // Longer than the silence that makes a verdict, which is a second.
    let timeout = Duration::from_millis(1500);
    let settings = Settings { probes: vec![Probe::Persistence], rate: 1000, timeout, ..Settings::default() };
    crate::examine(&target, &settings, Arc::new(SilentWatcher)).await
}

/// The ids of bad findings, and of warnings.
fn blamed(examination: &Examination, verdict: Verdict) -> Vec<&'static str> {
    let findings = examination.results.iter().flat_map(|result| &result.findings);
    findings.filter(|finding| finding.verdict == verdict).map(|finding| finding.id).collect()
}

#[tokio::test]
async fn each_fault_is_found_and_nothing_else_is_blamed() {
    let faults: &[(PersistenceFault, &[&str])] = &[
        (PersistenceFault::None, &[]),
        (PersistenceFault::NeverKeeps, &[]),
        (PersistenceFault::UntilClose, &[]),
        (PersistenceFault::NeverClosesOn10, &["persistence.http10", "persistence.http10_keep_alive"]),
        (PersistenceFault::KeepsSilently, &["persistence.http10", "persistence.http10_keep_alive"]),
        (PersistenceFault::UntilCloseNeverCloses, &["persistence.http10"]),
        (PersistenceFault::IgnoresClose, &["persistence.close"]),
        (PersistenceFault::CloseInSmallLetters, &["persistence.close_in_capitals"]),
        (PersistenceFault::ClosesUnannounced, &["persistence.http10_keep_alive", "persistence.announced"]),
        (PersistenceFault::AnnouncesKeepAliveAndCloses, &["persistence.http10_keep_alive"]),
        (PersistenceFault::ChunkedTo10, &["persistence.http10_chunked"]),
        (PersistenceFault::HeadWithBody, &["persistence.head"]),
        (PersistenceFault::NotModifiedWithBody, &["persistence.not_modified"]),
        (PersistenceFault::ClosesIdleEarly, &["persistence.idle"]),
        (PersistenceFault::LosesPipelined, &["persistence.pipelined"]),
        (PersistenceFault::RespondsOnce, &["persistence.http10_keep_alive", "persistence.reuse"]),
    ];
    let running: Vec<_> =
        faults.iter().map(|&(fault, expected)| (fault, expected, tokio::spawn(examined(fault)))).collect();
    for (fault, expected, examination) in running {
        let examination = examination.await.expect("no panic");
        assert_eq!(blamed(&examination, Verdict::Bad), expected, "{fault:?}: {examination:#?}");
        let mut warned = blamed(&examination, Verdict::Warning);
        // What a connection costs, which decides whether this is a warning, is the machine's.
        warned.retain(|id| fault != PersistenceFault::NeverKeeps || *id != "persistence.reuse");
        assert_eq!(warned, Vec::<&str>::new(), "{fault:?}: {examination:#?}");
        let findings = examination.results.iter().flat_map(|result| &result.findings);
        for finding in findings.filter(|finding| finding.verdict == Verdict::Bad) {
            assert!(finding.fix.is_some() && finding.cost.is_some(), "{finding:?}");
        }
    }
}

#[tokio::test]
async fn a_close_that_is_announced_and_does_not_come_is_found() {
    let examination = examined(PersistenceFault::AnnouncesCloseAndStays).await;
    let bad = blamed(&examination, Verdict::Bad);
    for id in ["persistence.http10", "persistence.announced", "persistence.close"] {
        assert!(bad.contains(&id), "{id}: {examination:#?}");
    }
}

/// Series, the state after them, and the verdict of the rule.
type SeriesCase<'a> = (&'a [(u16, &'a [(&'a str, &'a str)])], ConnectionState, Verdict);

const SOON: ConnectionState = ConnectionState::Closed(Duration::from_millis(3));
const LATE: ConnectionState = ConnectionState::Closed(Duration::from_secs(5));
const NEVER: ConnectionState = ConnectionState::Open(PATIENCE);

#[test]
fn a_client_of_http10_waits_for_the_close() {
    let rows: &[SeriesCase<'_>] = &[
        (&[(200, &[("Content-Length", "4")])], SOON, Verdict::Good),
        (&[(200, &[("Content-Length", "4")])], LATE, Verdict::Bad),
        (&[(200, &[("Content-Length", "4")])], NEVER, Verdict::Bad),
        (&[(404, &[("Connection", "close")])], NEVER, Verdict::Bad),
        (&[(200, &[("Connection", "keep-alive")])], NEVER, Verdict::Bad),
    ];
    for (responses, then, verdict) in rows {
        let finding = http10::without_keep_alive(&series_of(responses, *then), AT_ONCE);
        assert_eq!(finding.verdict, *verdict, "{responses:?} {then:?}: {finding:?}");
    }
}

#[test]
fn a_client_of_http10_with_keep_alive_goes_by_what_it_is_told() {
    let granted: &[(&str, &str)] = &[("Connection", "keep-alive"), ("Content-Length", "4")];
    let rows: &[SeriesCase<'_>] = &[
        (&[(200, granted), (200, granted)], NEVER, Verdict::Good),
        (&[(200, granted), (200, granted)], SOON, Verdict::Good),
        (&[(200, granted)], SOON, Verdict::Bad),
        (&[(200, &[("Content-Length", "4")])], SOON, Verdict::Good),
        (&[(200, &[("Content-Length", "4")])], NEVER, Verdict::Bad),
        (&[(200, &[("Connection", "close")])], SOON, Verdict::Good),
        (&[(200, &[("Connection", "close")])], LATE, Verdict::Bad),
    ];
    for (responses, then, verdict) in rows {
        let finding = http10::with_keep_alive(&series_of(responses, *then), AT_ONCE);
        assert_eq!(finding.verdict, *verdict, "{responses:?} {then:?}: {finding:?}");
    }
}

#[test]
fn what_is_announced_is_done() {
    let plain: &[(&str, &str)] = &[("Content-Length", "4")];
    let last: &[(&str, &str)] = &[("Content-Length", "4"), ("Connection", "close")];
    let rows: &[SeriesCase<'_>] = &[
        (&[(200, plain), (200, plain), (200, plain)], NEVER, Verdict::Good),
        (&[(200, plain)], SOON, Verdict::Bad),
        (&[(200, plain), (200, plain)], SOON, Verdict::Bad),
        (&[(200, last)], SOON, Verdict::Good),
        (&[(200, last)], NEVER, Verdict::Bad),
        (&[(200, plain), (200, last)], SOON, Verdict::Good),
    ];
    for (responses, then, verdict) in rows {
        let finding = keep_alive::announced(&series_of(responses, *then));
        assert_eq!(finding.verdict, *verdict, "{responses:?} {then:?}: {finding:?}");
    }
}

#[test]
fn a_connection_for_every_call_is_told_by_what_it_costs() {
    let last: &[(&str, &str)] = &[("Content-Length", "4"), ("Connection", "close")];
    let series = series_of(&[(200, last)], SOON);
    for (opening, encrypted, verdict) in [
        (Duration::from_micros(90), false, Verdict::Good),
        (Duration::from_millis(20), false, Verdict::Warning),
        (Duration::from_micros(900), true, Verdict::Warning),
    ] {
        let finding = keep_alive::reuse(&series, opening, encrypted);
        assert_eq!(finding.verdict, verdict, "{finding:?}");
        assert!(finding.cost.is_some_and(|cost| cost.contains(&time(opening))));
    }
}

#[test]
fn what_is_after_a_response_without_a_body_is_bad_where_the_connection_lives_on() {
    let plain: &[(&str, &str)] = &[("Content-Length", "4")];
    let last: &[(&str, &str)] = &[("Content-Length", "4"), ("Connection", "close")];
    for (fields, behind, verdict) in [
        (plain, 0, Verdict::Good),
        (plain, 4, Verdict::Bad),
        (last, 4, Verdict::Warning),
        (last, 0, Verdict::Good),
    ] {
        let series = Series { behind, ..series_of(&[(200, fields)], SOON) };
        assert_eq!(bodiless::judge(bodiless::HEAD, "", &series).verdict, verdict);
    }
}
