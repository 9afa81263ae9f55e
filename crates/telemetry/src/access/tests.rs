use std::time::UNIX_EPOCH;

use super::*;

fn record() -> AccessRecord<'static> {
    AccessRecord {
        time: UNIX_EPOCH + Duration::from_millis(1_767_225_600_042),
        client: "203.0.113.7",
        user: None,
        method: "GET",
        target: b"/a?b=c",
        version: "HTTP/1.1",
        status: 200,
        body_bytes: 5,
        elapsed: Duration::from_micros(1_000_213),
        route: Some("shop"),
        id: RequestId::new(1),
        reason: None,
        referer: None,
        user_agent: Some(b"curl/8.5.0"),
        trace_id: None,
    }
}

fn written(record: &AccessRecord<'_>, format: Format) -> String {
    let mut out = Vec::new();
    record.write(format, &mut out);
    String::from_utf8(out).unwrap().replace(&record.id.to_string(), "ID")
}

#[test]
fn a_line_of_text() {
    assert_eq!(
        written(&record(), Format::Text),
        "203.0.113.7 - - [2026-01-01T00:00:00.042Z] \"GET /a?b=c HTTP/1.1\" 200 5 \"-\" \"curl/8.5.0\" \
         1.000213 shop - ID\n"
    );
    let refused = AccessRecord {
        client: "",
        target: b"",
        status: 0,
        body_bytes: 0,
        elapsed: Duration::from_micros(7),
        route: None,
        reason: Some("head_timeout"),
        user_agent: None,
        trace_id: None,
        ..record()
    };
    assert_eq!(
        written(&refused, Format::Text),
        "- - - [2026-01-01T00:00:00.042Z] \"-\" - 0 \"-\" \"-\" 0.000007 - head_timeout ID\n"
    );
}

#[test]
fn a_user_is_one_column() {
    let named = AccessRecord { user: Some("Jo \"X\" Doe"), ..record() };
    let line = written(&named, Format::Text);
    assert!(line.starts_with("203.0.113.7 - Jo\\x20\\\"X\\\"\\x20Doe [2026"), "{line}");
    let line = written(&named, Format::Json);
    assert!(line.contains(",\"user\":\"Jo \\\"X\\\" Doe\",\"method\""), "{line}");
}

#[test]
fn a_line_of_json() {
    assert_eq!(
        written(&record(), Format::Json),
        "{\"time\":\"2026-01-01T00:00:00.042Z\",\"client\":\"203.0.113.7\",\"method\":\"GET\",\"target\":\"/a?b=c\",\
         \"version\":\"HTTP/1.1\",\"status\":200,\"bytes\":5,\"seconds\":1.000213,\"user_agent\":\"curl/8.5.0\",\
         \"route\":\"shop\",\"request_id\":\"ID\"}\n"
    );
}

#[test]
fn no_byte_of_a_client_forges_a_line() {
    let every_byte: Vec<u8> = (0..=255).collect();
    let hostile = AccessRecord {
        target: &every_byte,
        referer: Some(b"\" 200 0 \"forged\"\n{}"),
        user_agent: Some(b"\x1b]0;title\x07"),
        ..record()
    };
    let text = written(&hostile, Format::Text);
    assert!(text.bytes().all(|b| matches!(b, b' '..=b'~' | b'\n')), "{text}");
    assert_eq!(text.matches('\n').count(), 1);
    assert!(text.contains(r#""\" 200 0 \"forged\"\x0a{}""#), "{text}");

    let json = written(&hostile, Format::Json);
    assert_eq!(json.matches('\n').count(), 1);
    assert!(!json.contains('\x1b'));
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["target"], String::from_utf8_lossy(&every_byte).as_ref());
    assert_eq!(value["referer"], "\" 200 0 \"forged\"\n{}");
    assert_eq!(value["status"], 200);
    assert_eq!(value["seconds"], 1.000_213);
}

#[test]
fn a_record_that_fits_the_buffer_allocates_nothing() {
    let mut out = Vec::with_capacity(4096);
    let at = out.as_ptr();
    for format in [Format::Text, Format::Json] {
        record().write(format, &mut out);
    }
    assert_eq!((out.as_ptr(), out.capacity()), (at, 4096));
}

#[test]
fn seconds_have_six_places() {
    for (micros, text) in [
        (0, "0.000000"),
        (12_300, "0.012300"),
        (9_999_999, "9.999999"),
        (10_000_000, "10.000000"),
        (86_400_000_001, "86400.000001"),
    ] {
        let mut out = Vec::new();
        push_seconds(&mut out, Duration::from_micros(micros));
        assert_eq!(out, text.as_bytes());
    }
}

#[test]
fn a_line_for_a_person() {
    let line = |record: &AccessRecord<'_>, color: bool| written(record, Format::Terminal { color });
    let after_clock = |line: String| line.get(9..).unwrap().to_owned();
    let quick = AccessRecord { elapsed: Duration::from_micros(1_234), ..record() };
    assert_eq!(after_clock(line(&quick, false)), "200 GET /a?b=c 1.2 ms\n");
    assert_eq!(after_clock(line(&record(), false)), "200 GET /a?b=c 1.00 s slow\n");
    let refused = AccessRecord {
        target: b"",
        status: 0,
        elapsed: Duration::from_micros(7),
        reason: Some("head_timeout"),
        ..record()
    };
    assert_eq!(after_clock(line(&refused, false)), "--- - 0.0 ms head_timeout\n");
    for (status, color) in [(200, 32), (304, 36), (404, 33), (502, 31)] {
        let shown = line(&AccessRecord { status, ..quick.clone() }, true);
        let (_, rest) = shown.split_once("\x1b[0m ").unwrap();
        assert_eq!(rest, format!("\x1b[{color}m{status}\x1b[0m GET /a?b=c \x1b[2m1.2 ms\x1b[0m\n"));
    }
    let slow = line(&record(), true);
    assert!(slow.ends_with("\x1b[33m1.00 s slow\x1b[0m\n"), "{slow:?}");
    let hostile = AccessRecord { target: b"/\x1b[31m\n", ..quick };
    assert_eq!(after_clock(line(&hostile, false)), "200 GET /\\x1b[31m\\x0a 1.2 ms\n");
}
