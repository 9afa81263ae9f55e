use std::time::UNIX_EPOCH;

use super::*;

const NONE: [CallFailure<'static>; 0] = [];

fn record<'a, const N: usize>(
    failures: [CallFailure<'a>; N],
) -> CallAccessRecord<'a, std::array::IntoIter<CallFailure<'a>, N>> {
    let micros = Duration::from_micros;
    CallAccessRecord {
        time: UNIX_EPOCH + Duration::from_millis(1_767_225_600_042),
        upstream: "search",
        endpoint: Some("10.0.0.7:9243"),
        method: "GET",
        target: b"/a?b=c",
        status: 200,
        sent: 0,
        received: 5,
        elapsed: micros(1_000_213),
        phases: Some(CallPhases {
            queue: micros(1),
            connect: micros(2),
            first_byte: micros(3),
            body: micros(4),
        }),
        reused: Some(true),
        idle: Some(micros(1_200_000)),
        attempts: 1,
        hedged: false,
        failures: failures.into_iter(),
        reason: None,
        id: RequestId::new(1),
        app_request_id: None,
        trace_id: Some(*b"4bf92f3577b34da6a3ce929d0e0e4736"),
    }
}

fn written<'f>(
    record: CallAccessRecord<'_, impl Iterator<Item = CallFailure<'f>>>,
    format: Format,
) -> String {
    let (mut out, id) = (Vec::new(), record.id);
    record.write(format, &mut out);
    String::from_utf8(out).unwrap().replace(&id.to_string(), "ID")
}

const FAILURES: [CallFailure<'static>; 2] = [
    CallFailure {
        endpoint: "10.0.0.7:9243",
        cause: "closed_idle",
        sentence: "closed an idle connection after 5.0 s",
    },
    CallFailure { endpoint: "[::1]:9243", cause: "connect", sentence: "said \"no\"\n" },
];

#[test]
fn a_line_of_text() {
    assert_eq!(
        written(record(NONE), Format::Text),
        "search 10.0.0.7:9243 [2026-01-01T00:00:00.042Z] \"GET /a?b=c\" 200 0 5 1.000213 0.000001 0.000002 0.000003 \
         0.000004 reused/1.200000 1 \"-\" - ID - 4bf92f3577b34da6a3ce929d0e0e4736\n"
    );
    let failed = CallAccessRecord {
        status: 502,
        reused: Some(false),
        idle: None,
        attempts: 2,
        hedged: true,
        reason: Some("connect"),
        app_request_id: Some(b"r\"1"),
        ..record(FAILURES)
    };
    let line = written(failed, Format::Text);
    let failures = "\"10.0.0.7:9243 closed_idle: upstream closed an idle connection after 5.0 s; [::1]:9243 connect: upstream said \
                    \\\"no\\\"\\x0a\"";
    assert!(
        line.contains(&format!(
            " new 2+hedge {failures} connect ID r\\\"1 4bf92f3577b34da6a3ce929d0e0e4736\n"
        )),
        "{line}"
    );
    let refused = CallAccessRecord {
        endpoint: None,
        phases: None,
        reused: None,
        status: 0,
        attempts: 0,
        trace_id: None,
        ..record(NONE)
    };
    let line = written(refused, Format::Text);
    assert!(
        line.starts_with("search - [") && line.ends_with(" - 0 5 1.000213 - - - - - 0 \"-\" - ID - -\n"),
        "{line}"
    );
}

#[test]
fn a_line_of_json() {
    assert_eq!(
        written(record(NONE), Format::Json),
        "{\"time\":\"2026-01-01T00:00:00.042Z\",\"upstream\":\"search\",\"endpoint\":\"10.0.0.7:9243\",\"method\":\"GET\",\
         \"target\":\"/a?b=c\",\"status\":200,\"sent_bytes\":0,\"received_bytes\":5,\"seconds\":1.000213,\"queue_seconds\":0.000001,\
         \"connect_seconds\":0.000002,\"first_byte_seconds\":0.000003,\"body_seconds\":0.000004,\"reused\":true,\
         \"idle_seconds\":1.200000,\"attempts\":1,\"request_id\":\"ID\",\"trace_id\":\"4bf92f3577b34da6a3ce929d0e0e4736\"}\n"
    );
}

#[test]
fn failures_are_objects_and_nothing_of_a_stranger_ends_the_line() {
    let hostile = CallAccessRecord {
        target: b"/\"\r\n\x1b[2J",
        app_request_id: Some(b"a\"},{\n"),
        hedged: true,
        attempts: 3,
        reason: Some("connect"),
        ..record(FAILURES)
    };
    let line = written(hostile, Format::Json);
    assert_eq!(line.matches('\n').count(), 1);
    let read: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(read["failures"][0]["cause"], "closed_idle");
    assert_eq!(read["failures"][1]["sentence"], "upstream said \"no\"\n");
    assert_eq!(read["failures"].as_array().unwrap().len(), 2);
    assert_eq!(
        (&read["hedged"], &read["attempts"], &read["reason"]),
        (&true.into(), &3.into(), &"connect".into())
    );
    assert_eq!(read["app_request_id"], "a\"},{\n");
}
