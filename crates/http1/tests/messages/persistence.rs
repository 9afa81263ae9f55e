//! `spec/http.md` §1 as a full product: version x Connection x length x status x method x app's close x listener x trailers, each combination from the
//! bytes of a request to the bytes of its response, which a client then reads. Judged by an oracle written as the table reads.

use http::Method;
use keepwarm_http1::{
    CHUNK_TAIL, Event, LAST_CHUNK, Limits, ListenerKind, Plan, RequestDecoder, RequestFacts, RequestHead,
    ResponseDecoder, ResponseFacts, ResponseFraming, ResponseHead, ResponseLength, encode_chunk_head,
    encode_response_head, plan,
};

const BODY: &[u8] = b"hello";
const STATUSES: [u16; 12] = [100, 101, 103, 200, 201, 204, 205, 206, 304, 404, 500, 599];
const LENGTHS: [ResponseLength; 6] = [
    ResponseLength::Known(0),
    ResponseLength::Known(5),
    ResponseLength::Upstream(0),
    ResponseLength::Upstream(5),
    ResponseLength::Unknown,
    ResponseLength::Absent,
];
const CONNECTIONS: [&str; 10] = [
    "",
    "close",
    "Close",
    "foo, CLOSE ,bar",
    "keep-alive",
    "Keep-Alive",
    "keep-alive, close",
    "close, keep-alive",
    "upgrade",
    "keep-alive, upgrade",
];

#[derive(Copy, Clone, Debug)]
struct Combination {
    version: &'static str,
    connection: &'static str,
    length: ResponseLength,
    status: u16,
    method: &'static str,
    app_closes: bool,
    forward_proxy: bool,
    trailers: bool,
}

#[test]
fn no_combination_waits() {
    let mut count = 0;
    for_each(|combination| {
        count += 1;
        let row = oracle(&combination);
        let head = request(&combination);
        let plan = planned(&combination, &head);
        check_against_table(&combination, &row, &plan);
        check_on_the_wire(&combination, &row, &plan);
    });
    assert_eq!(count, 2 * 10 * 6 * 12 * 4 * 2 * 2 * 2);
}

/// The table's last two columns.
#[derive(PartialEq, Debug)]
struct Row {
    carries: Option<&'static str>,
    keeps: bool,
    /// `None`: no body; `Some`: framed like that.
    body: Option<ResponseFraming>,
}

/// Top to bottom in the order of the page, bullets under the table first.
fn oracle(c: &Combination) -> Row {
    let old = c.version == "HTTP/1.0";
    let has = |member: &str| c.connection.split(',').any(|m| m.trim().eq_ignore_ascii_case(member));
    let tunnel = c.method == "CONNECT" && (200..300).contains(&c.status);
    if c.status == 101 {
        return Row { carries: Some("upgrade"), keeps: true, body: None };
    }
    if c.status < 200 || tunnel {
        return Row { carries: None, keeps: true, body: None };
    }
    let has_body = c.method != "HEAD" && !matches!(c.status, 204 | 205 | 304);
    let known = !has_body || c.length != ResponseLength::Unknown;
    let body = has_body.then_some(match c.length {
        ResponseLength::Absent => ResponseFraming::Length(0),
        _ if c.trailers && !old => ResponseFraming::Chunked,
        ResponseLength::Known(length) | ResponseLength::Upstream(length) => ResponseFraming::Length(length),
        ResponseLength::Unknown if old => ResponseFraming::UntilClose,
        ResponseLength::Unknown => ResponseFraming::Chunked,
    });
    let (carries, keeps) = match (old, has("keep-alive"), has("close"), known) {
        _ if c.app_closes => (Some("close"), false),
        (false, _, false, _) => (None, true),
        (false, _, true, _) => (Some("close"), false),
        _ if c.forward_proxy => (Some("close"), false),
        (true, false, _, _) => (Some("close"), false),
        (true, true, true, _) => (Some("close"), false),
        (true, true, false, true) => (Some("keep-alive"), true),
        (true, true, false, false) => (Some("close"), false),
    };
    Row { carries, keeps, body }
}

fn check_against_table(c: &Combination, row: &Row, plan: &Plan) {
    assert_eq!(plan.keep, row.keeps, "{c:?}");
    if c.version == "HTTP/1.0" {
        assert_ne!(plan.framing, ResponseFraming::Chunked, "never chunked: {c:?}");
    }
    match row.body {
        Some(framing) => assert_eq!(plan.framing, framing, "{c:?}"),
        None => assert!(!plan.send_body, "{c:?}"),
    }
    let expected = match (c.status, c.length, c.method) {
        (100..=199 | 204, _, _) => ResponseFraming::None,
        (200..=299, _, "CONNECT") => ResponseFraming::None,
        (205, _, _) => ResponseFraming::Length(0),
        // Frameworks send 0; only the 200's length would be right, and only an upstream knows it.
        (304, ResponseLength::Upstream(length), _) => ResponseFraming::Length(length),
        (304, _, _) => ResponseFraming::None,
        (_, ResponseLength::Known(length) | ResponseLength::Upstream(length), "HEAD") => {
            ResponseFraming::Length(length)
        }
        // Never computed.
        (_, _, "HEAD") => ResponseFraming::None,
        _ => return,
    };
    assert_eq!(plan.framing, expected, "{c:?}");
}

/// The client either sees the end without waiting for anything, or sees the close, and never a byte too many.
fn check_on_the_wire(c: &Combination, row: &Row, plan: &Plan) {
    let mut wire = Vec::new();
    let app = [
        (b"connection".as_slice(), b"whatever".as_slice()),
        (b"content-length", b"77"),
        (b"keep-alive", b"x"),
    ];
    let switch = (c.status == 101).then_some((b"upgrade".as_slice(), b"websocket".as_slice()));
    encode_response_head(&mut wire, c.status, plan, app.into_iter().chain(switch), None);
    write_body(&mut wire, c, plan);

    let mut decoder = ResponseDecoder::new(Limits::default());
    decoder.begin(&Method::try_from(c.method).unwrap_or_default());
    decoder.allow_upgrade(Some(b"websocket"));
    let mut head = ResponseHead::default();
    let mut body = Vec::new();
    let mut rest = wire.as_slice();
    let ended = loop {
        let decoded = decoder.decode(rest, &mut head).unwrap_or_else(|fault| panic!("{fault}: {c:?}"));
        if let Event::Data { start, end } = decoded.event {
            body.extend_from_slice(rest.get(start..end).unwrap_or_default());
        }
        rest = rest.get(decoded.consumed..).unwrap_or_default();
        match decoded.event {
            Event::End | Event::Informational => break true,
            Event::NeedMore => break false,
            _ => {}
        }
    };
    assert!(rest.is_empty(), "{c:?}");
    assert!(ended || !plan.keep, "the client would wait: {c:?}");
    assert!(ended || decoder.handle_eof() == Ok(Some(Event::End)), "the close ends it: {c:?}");
    assert_eq!(body, expected_body(c, row), "{c:?}");
    check_fields(c, row, &head);
}

fn check_fields(c: &Combination, row: &Row, head: &ResponseHead) {
    let connections: Vec<_> = head.fields.all("connection").collect();
    assert_eq!(connections, row.carries.iter().map(|c| c.as_bytes()).collect::<Vec<_>>(), "{c:?}");
    let lengths = head.fields.all("content-length").count();
    assert!(lengths <= 1, "{c:?}");
    if c.status < 200 || c.status == 204 {
        assert_eq!(lengths, 0, "{c:?}");
    }
    let tells = row.keeps && c.status >= 200 && !(c.method == "CONNECT" && c.status < 300);
    let timeout = tells.then_some(75);
    assert_eq!(head.keep_alive_timeout(), timeout, "{c:?}");
    if c.status >= 200 {
        assert_eq!(head.is_persistent(), row.keeps, "both sides agree: {c:?}");
    }
}

fn write_body(wire: &mut Vec<u8>, c: &Combination, plan: &Plan) {
    let produced = match c.length {
        ResponseLength::Known(0) | ResponseLength::Upstream(0) | ResponseLength::Absent => b"",
        _ => BODY,
    };
    if !plan.send_body {
        return;
    }
    match plan.framing {
        ResponseFraming::Chunked => {
            if !produced.is_empty() {
                encode_chunk_head(wire, produced.len());
                wire.extend_from_slice(produced);
                wire.extend_from_slice(CHUNK_TAIL);
            }
            wire.extend_from_slice(LAST_CHUNK);
        }
        _ => wire.extend_from_slice(produced),
    }
}

fn expected_body(c: &Combination, row: &Row) -> &'static [u8] {
    match (row.body, c.length) {
        (None, _) => b"",
        (_, ResponseLength::Known(0) | ResponseLength::Upstream(0) | ResponseLength::Absent) => b"",
        _ => BODY,
    }
}

fn request(c: &Combination) -> RequestHead {
    let listener = if c.forward_proxy { ListenerKind::ForwardProxy } else { ListenerKind::Origin };
    let target = if c.method == "CONNECT" { "h:1" } else { "/" };
    let connection = match c.connection {
        "" => String::new(),
        value => format!("Connection: {value}\r\n"),
    };
    let bytes = format!("{} {target} {}\r\nHost: h\r\n{connection}\r\n", c.method, c.version);
    let mut head = RequestHead::default();
    let decoded = RequestDecoder::with_kind(Limits::default(), listener).decode(bytes.as_bytes(), &mut head);
    assert_eq!(decoded.map(|decoded| decoded.event), Ok(Event::Head), "{c:?}");
    head
}

fn planned(c: &Combination, head: &RequestHead) -> Plan {
    let facts = ResponseFacts {
        status: c.status,
        length: c.length,
        close: c.app_closes,
        first_on_connection: true,
        idle_timeout_secs: 75,
        trailers: c.trailers,
    };
    let decided = plan(RequestFacts::of(head), facts);
    let later = plan(RequestFacts::of(head), ResponseFacts { first_on_connection: false, ..facts });
    assert_eq!(
        later,
        Plan { keep_alive_timeout: None, ..decided },
        "only the first tells the timeout: {c:?}"
    );
    decided
}

fn for_each(mut check: impl FnMut(Combination)) {
    for version in ["HTTP/1.0", "HTTP/1.1"] {
        for connection in CONNECTIONS {
            for length in LENGTHS {
                for status in STATUSES {
                    for method in ["GET", "HEAD", "POST", "CONNECT"] {
                        for bits in 0..8 {
                            let [app_closes, forward_proxy, trailers] = [1, 2, 4].map(|bit| bits & bit != 0);
                            check(Combination {
                                version,
                                connection,
                                length,
                                status,
                                method,
                                app_closes,
                                forward_proxy,
                                trailers,
                            });
                        }
                    }
                }
            }
        }
    }
}
