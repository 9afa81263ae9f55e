use std::sync::Arc;
use std::time::UNIX_EPOCH;

use keepwarm_telemetry::RequestId;
use keepwarm_telemetry::export::Exported;
use keepwarm_telemetry::spans::{SpanEndpoint, SpanPhases};

use super::*;
use crate::otlp::messages::AnyKind;

const PARENT: &[u8] = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const END: Duration = Duration::from_secs(1_000_000);

fn request() -> RequestSpan {
    RequestSpan {
        context: TraceContext::parse(PARENT).unwrap(),
        span: 1,
        app_span: 2,
        end: UNIX_EPOCH + END,
        elapsed: Duration::from_millis(100),
        phases: None,
        method: "GET".to_owned(),
        target: b"/a?b=c".to_vec(),
        scheme: "https",
        version: "2",
        status: 200,
        body_bytes: 5,
        app: Some("shop".into()),
        route: Some("/a/*".into()),
        host: b"shop.example".to_vec(),
        client: None,
        peer: None,
        user_agent: Vec::new(),
        reason: None,
        failed: false,
        id: RequestId::new(7),
    }
}

fn call(attempts: Vec<AttemptSpan>) -> CallSpan {
    CallSpan {
        context: TraceContext::parse(PARENT).unwrap(),
        parent: Some(9),
        upstream: "search".into(),
        method: "POST".to_owned(),
        target: b"/q".to_vec(),
        scheme: "https",
        attempts,
        id: RequestId::new(8),
    }
}

fn attempt(authority: &str, address: &str, status: u16, failure: Option<&'static str>) -> AttemptSpan {
    AttemptSpan {
        span: 3,
        start: UNIX_EPOCH,
        elapsed: Duration::from_nanos(1),
        endpoint: Some(SpanEndpoint { address: address.into(), authority: Arc::from(authority) }),
        status,
        failure,
        reused: true,
    }
}

fn value(span: &Span, name: &str) -> Option<String> {
    let attribute = span.attributes.iter().find(|attribute| attribute.key == name)?;
    Some(match attribute.value.clone()?.value? {
        AnyKind::String(text) => text,
        AnyKind::Int(number) => number.to_string(),
        AnyKind::Bool(_) | AnyKind::Double(_) => return None,
    })
}

fn only(record: SpanRecord) -> Span {
    let mut all = spans(&record);
    assert_eq!(all.len(), record.count());
    all.remove(0)
}

#[test]
fn phases_are_children_within_the_request() {
    let millis = Duration::from_millis;
    let phases = SpanPhases { read: millis(10), queue: millis(20), app: millis(30) };
    let record = SpanRecord::Request(Box::new(RequestSpan { phases: Some(phases), ..request() }));
    let all = spans(&record);
    assert_eq!(all.len(), record.count());
    let times: Vec<(&str, u128, u128)> = all
        .iter()
        .map(|span| {
            let start = u128::from(span.start_time_unix_nano) / 1_000_000;
            (span.name.as_str(), start, u128::from(span.end_time_unix_nano) / 1_000_000 - start)
        })
        .collect();
    let begin = END.as_millis() - 100;
    assert_eq!(times, [("GET /a/*", begin, 100), ("queue", begin + 10, 20), ("app", begin + 30, 30)]);
    let [server, queue, app] = all.as_slice() else { panic!("{all:?}") };
    assert_eq!(server.parent_span_id, 0x00f0_67aa_0ba9_02b7_u64.to_be_bytes());
    assert_eq!((&queue.parent_span_id, &app.parent_span_id), (&server.span_id, &server.span_id));
    assert_eq!(app.span_id, 2_u64.to_be_bytes());
    assert!(queue.span_id != app.span_id && queue.span_id != server.span_id);
    // The parent of the request is in another process, that of its phases is not.
    assert_eq!((server.flags, queue.flags), (0x301, 0x101));
}

#[test]
fn a_request_that_no_worker_got_has_no_time_in_the_app() {
    let phases = SpanPhases { read: Duration::ZERO, queue: Duration::from_secs(5), app: Duration::ZERO };
    let record = SpanRecord::Request(Box::new(RequestSpan { phases: Some(phases), ..request() }));
    let all = spans(&record);
    assert_eq!(all.iter().map(|span| span.name.as_str()).collect::<Vec<_>>(), ["GET /a/*", "queue"]);
    assert_eq!(all.len(), record.count());
}

#[test]
fn names_are_few() {
    for (method, route, name) in [
        ("GET", Some("/a/*"), "GET /a/*"),
        ("GET", None, "GET"),
        ("GET", Some(""), "GET"),
        ("get", Some("/a/*"), "HTTP /a/*"),
        ("BREW", None, "HTTP"),
    ] {
        let (method, route) = (method.to_owned(), route.map(Arc::from));
        let span = only(SpanRecord::Request(Box::new(RequestSpan { method, route, ..request() })));
        assert_eq!(span.name, name);
    }
}

#[test]
fn what_an_error_is_has_a_stable_name() {
    for (status, reason, expected) in [
        (500, None, "500"),
        (504, Some("request_timeout"), "request_timeout"),
        (200, Some("cut"), "cut"),
        (0, None, "_OTHER"),
    ] {
        let span =
            only(SpanRecord::Request(Box::new(RequestSpan { status, reason, failed: true, ..request() })));
        assert_eq!(value(&span, "error.type").as_deref(), Some(expected));
        assert_eq!(span.status.unwrap().code, i32::from(StatusCode::Error));
    }
    // 4xx is the client's, for a server; for a client it is an error.
    let span = only(SpanRecord::Request(Box::new(RequestSpan { status: 404, ..request() })));
    assert_eq!((value(&span, "error.type"), span.status), (None, None));
    let span = only(SpanRecord::Call(Box::new(call(vec![attempt("s", "10.0.0.7:80", 404, None)]))));
    assert_eq!(value(&span, "error.type").as_deref(), Some("404"));
}

#[test]
fn a_target_of_any_form_has_a_path() {
    for (target, path, query) in [
        ("/", "/", None),
        ("/a?b=c?d", "/a", Some("b=c?d")),
        ("/a?", "/a", Some("")),
        ("http://h/a?u=http://x/", "/a", Some("u=http://x/")),
        ("http://h", "/", None),
        ("http://h?a", "", Some("a")),
        ("/a/http://h", "/a/http://h", None),
        ("*", "*", None),
    ] {
        let query = query.map(str::to_owned);
        assert_eq!(path_and_query(target.as_bytes()), (path.to_owned(), query), "{target}");
    }
    assert_eq!(path_and_query(b"/\xff").0, "/\u{fffd}");
}

#[test]
fn credentials_in_a_query_are_not_sent() {
    for (query, shown) in [
        ("a=1&sig=abc&b=2", "a=1&sig=REDACTED&b=2"),
        ("Signature=x", "Signature=REDACTED"),
        ("AWSAccessKeyId=x&X-Goog-Signature=y", "AWSAccessKeyId=REDACTED&X-Goog-Signature=REDACTED"),
        ("design=1&sig", "design=1&sig"),
    ] {
        assert_eq!(redacted(query), shown);
    }
}

#[test]
fn an_attempt_names_its_server_and_its_peer() {
    for (authority, address, server, peer) in [
        (
            "search.internal:9243",
            "10.0.0.7:9243",
            ("search.internal", Some("9243")),
            ("10.0.0.7", Some("9243")),
        ),
        ("search.internal", "[::1]:443", ("search.internal", None), ("::1", Some("443"))),
        ("[::1]:8080", "[::1]:8080", ("::1", Some("8080")), ("::1", Some("8080"))),
        ("[::1]", "/run/search.sock", ("::1", None), ("/run/search.sock", None)),
    ] {
        let span = only(SpanRecord::Call(Box::new(call(vec![attempt(authority, address, 200, None)]))));
        let both = |address: &str, port: &str| (value(&span, address), value(&span, port));
        let owned =
            |(address, port): (&str, Option<&str>)| (Some(address.to_owned()), port.map(str::to_owned));
        assert_eq!(both("server.address", "server.port"), owned(server));
        assert_eq!(both("network.peer.address", "network.peer.port"), owned(peer));
        assert_eq!(value(&span, "url.full"), Some(format!("https://{authority}/q")));
        assert_eq!(span.parent_span_id, 9_u64.to_be_bytes());
    }
}

#[test]
fn a_refused_call_has_no_peer() {
    let refused = AttemptSpan { endpoint: None, ..attempt("", "", 503, Some("breaker_open")) };
    let span = only(SpanRecord::Call(Box::new(call(vec![refused]))));
    assert_eq!(value(&span, "error.type").as_deref(), Some("breaker_open"));
    assert_eq!(value(&span, "server.address").as_deref(), Some("search"));
    assert_eq!((value(&span, "network.peer.address"), value(&span, "keepwarm.connection")), (None, None));
}
