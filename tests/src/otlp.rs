//! A collector of the test's own: it remembers the spans and log records that it got, and responds as the test says. Its reader of protobuf shares no code with
//! Keepwarm: fields by their number, as `opentelemetry/proto/trace/v1/trace.proto` and `logs/v1/logs.proto` have them.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use flate2::read::MultiGzDecoder;

use crate::origin::{After, Origin, Request};
use crate::process::wait_until;

/// How long a test waits for spans.
const LONG: Duration = Duration::from_secs(60);

/// A running collector.
pub struct Collector {
    origin: Origin,
}

/// A span that was sent.
#[derive(Debug, Clone, Default)]
pub struct Span {
    /// In hexadecimal digits; so are the other ids.
    pub trace: String,
    pub id: String,
    /// Empty: none.
    pub parent: String,
    pub name: String,
    /// 1: internal, 2: server, 3: client.
    pub kind: u64,
    pub start: u64,
    pub end: u64,
    pub attributes: BTreeMap<String, String>,
    /// 2: error.
    pub status: u64,
    pub flags: u64,
    /// The attributes of its resource.
    pub resource: BTreeMap<String, String>,
}

/// A point of a counter that was sent.
#[derive(Debug, Clone, Default)]
pub struct CounterPoint {
    pub value: u64,
    pub attributes: BTreeMap<String, String>,
    /// The attributes of its resource.
    pub resource: BTreeMap<String, String>,
}

/// A record of a log that was sent.
#[derive(Debug, Clone, Default)]
pub struct LogRecord {
    pub time: u64,
    pub severity: u64,
    pub severity_text: String,
    pub body: String,
    pub event: String,
    pub attributes: BTreeMap<String, String>,
    /// The attributes of its resource.
    pub resource: BTreeMap<String, String>,
}

impl Collector {
    /// Accepts everything.
    pub fn start() -> Self {
        Self::responding(|_, _, stream| accept(stream))
    }

    /// Responds so; the number counts the requests from 0.
    pub fn responding(
        respond: impl Fn(usize, &Request, &mut TcpStream) -> After + Send + Sync + 'static,
    ) -> Self {
        let number = AtomicUsize::new(0);
        let origin = Origin::start(move |request, stream| {
            respond(number.fetch_add(1, Ordering::SeqCst), request, stream)
        });
        Self { origin }
    }

    pub fn address(&self) -> SocketAddr {
        self.origin.address()
    }

    /// The requests that it got.
    pub fn requests(&self) -> Vec<Request> {
        self.origin.requests()
    }

    /// All spans that it got, in order.
    pub fn spans(&self) -> Vec<Span> {
        let is_other = |request: &Request| ["/v1/logs", "/v1/metrics"].contains(&request.target());
        let requests = self.requests().into_iter().filter(|request| !is_other(request));
        requests.flat_map(|request| decode(&body(&request))).collect()
    }

    /// All records of logs that it got, in order.
    pub fn log_records(&self) -> Vec<LogRecord> {
        let requests = self.requests().into_iter().filter(|request| request.target() == "/v1/logs");
        requests.flat_map(|request| decode_logs(&body(&request))).collect()
    }

    /// Every point of this counter that it got, in order.
    pub fn counters(&self, name: &str) -> Vec<CounterPoint> {
        let requests = self.requests().into_iter().filter(|request| request.target() == "/v1/metrics");
        requests.flat_map(|request| decode_counter(&body(&request), name)).collect()
    }

    /// Waits for a record of a log, and gives it.
    #[track_caller]
    pub fn wait_for_record(&self, what: &str, holds: impl Fn(&LogRecord) -> bool) -> LogRecord {
        let found = || self.log_records().into_iter().find(|record| holds(record));
        wait_until(what, LONG, || found().is_some());
        found().expect("it stays")
    }

    /// Waits until `count` spans meet a condition, and gives them.
    #[track_caller]
    pub fn wait_for(&self, what: &str, count: usize, holds: impl Fn(&Span) -> bool) -> Vec<Span> {
        let found = || self.spans().into_iter().filter(|span| holds(span)).collect::<Vec<_>>();
        wait_until(what, LONG, || found().len() >= count);
        found()
    }

    /// Waits for the span of the request for this path.
    #[track_caller]
    pub fn request(&self, path: &str) -> Span {
        let is_it = |span: &Span| span.kind == 2 && span.attribute("url.path") == path;
        let mut spans = self.wait_for(path, 1, is_it);
        assert_eq!(spans.len(), 1, "{spans:#?}");
        spans.remove(0)
    }
}

impl Span {
    /// The value of an attribute; empty if there is none.
    #[track_caller]
    pub fn attribute(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }

    /// Those with this one as their parent.
    pub fn children<'s>(&self, spans: &'s [Self]) -> Vec<&'s Self> {
        spans.iter().filter(|span| span.parent == self.id && span.trace == self.trace).collect()
    }
}

/// 200 with an empty response of OTLP.
pub fn accept(stream: &mut TcpStream) -> After {
    respond(stream, "200 OK", "", b"")
}

/// A response with these further fields, each with its line end.
pub fn respond(stream: &mut TcpStream, status: &str, fields: &str, body: &[u8]) -> After {
    let mut response = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/x-protobuf\r\n{fields}Content-Length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    response.extend_from_slice(body);
    // The client may have gone.
    let _ = stream.write_all(&response);
    After::Keep
}

/// The body of a request, decompressed.
fn body(request: &Request) -> Vec<u8> {
    match request.field("content-encoding") {
        None => request.body.clone(),
        Some("gzip") => {
            let mut body = Vec::new();
            MultiGzDecoder::new(request.body.as_slice()).read_to_end(&mut body).expect("gzip");
            body
        }
        Some(other) => panic!("{other}"),
    }
}

/// The spans of an `ExportTraceServiceRequest`.
pub fn decode(request: &[u8]) -> Vec<Span> {
    each(request).into_iter().map(|(span, resource)| read_span(span, &resource)).collect()
}

/// The records of an `ExportLogsServiceRequest`.
fn decode_logs(request: &[u8]) -> Vec<LogRecord> {
    each(request).into_iter().map(|(record, resource)| read_record(record, resource)).collect()
}

/// What a request exports, each with the attributes of its resource: all kinds of messages have the same numbers down to there.
fn each(request: &[u8]) -> Vec<(&[u8], BTreeMap<String, String>)> {
    let mut all = Vec::new();
    for of_resource in messages(request, 1) {
        let resource: BTreeMap<_, _> =
            messages(of_resource, 1).into_iter().flat_map(|resource| attributes(resource, 1)).collect();
        for scope in messages(of_resource, 2) {
            all.extend(messages(scope, 2).into_iter().map(|one| (one, resource.clone())));
        }
    }
    all
}

/// The points of a sum with this name, of an `ExportMetricsServiceRequest` (`metrics/v1/metrics.proto`).
fn decode_counter(request: &[u8], name: &str) -> Vec<CounterPoint> {
    let mut points = Vec::new();
    for (metric, resource) in each(request) {
        if messages(metric, 1).first().map(|found| text(found)).as_deref() != Some(name) {
            continue;
        }
        for point in messages(metric, 7).into_iter().flat_map(|sum| messages(sum, 1)) {
            let value = fields(point).into_iter().find_map(|(number, value)| match value {
                Value::Number(value) if number == 6 => Some(value),
                _ => None,
            });
            let (value, attributes) = (value.unwrap_or(0), attributes(point, 7));
            points.push(CounterPoint { value, attributes, resource: resource.clone() });
        }
    }
    points
}

fn read_record(record: &[u8], resource: BTreeMap<String, String>) -> LogRecord {
    let mut read = LogRecord { resource, attributes: attributes(record, 6), ..LogRecord::default() };
    for (number, value) in fields(record) {
        match (number, value) {
            (1, Value::Number(time)) => read.time = time,
            (2, Value::Number(severity)) => read.severity = severity,
            (3, Value::Bytes(name)) => read.severity_text = text(name),
            (5, Value::Bytes(body)) => {
                read.body = messages(body, 1).first().map(|body| text(body)).unwrap_or_default();
            }
            (12, Value::Bytes(name)) => read.event = text(name),
            _ => {}
        }
    }
    read
}

fn read_span(span: &[u8], resource: &BTreeMap<String, String>) -> Span {
    let mut read = Span { resource: resource.clone(), attributes: attributes(span, 9), ..Span::default() };
    for (number, value) in fields(span) {
        match (number, value) {
            (1, Value::Bytes(id)) => read.trace = hex(id),
            (2, Value::Bytes(id)) => read.id = hex(id),
            (4, Value::Bytes(id)) => read.parent = hex(id),
            (5, Value::Bytes(name)) => read.name = text(name),
            (6, Value::Number(kind)) => read.kind = kind,
            (7, Value::Number(time)) => read.start = time,
            (8, Value::Number(time)) => read.end = time,
            (15, Value::Bytes(status)) => {
                let code = |(number, value)| match value {
                    Value::Number(code) if number == 3 => Some(code),
                    _ => None,
                };
                read.status = fields(status).into_iter().find_map(code).unwrap_or(0);
            }
            (16, Value::Number(flags)) => read.flags = flags,
            _ => {}
        }
    }
    assert_eq!((read.trace.len(), read.id.len()), (32, 16), "{read:?}");
    read
}

/// Attributes in the fields of this number; numbers as text.
fn attributes(message: &[u8], number: u64) -> BTreeMap<String, String> {
    let pair = |attribute: &[u8]| {
        let key = messages(attribute, 1).first().map(|key| text(key)).unwrap_or_default();
        let value = messages(attribute, 2).first().and_then(|value| fields(value).into_iter().next());
        let value = match value {
            Some((1, Value::Bytes(value))) => text(value),
            Some((2, Value::Number(value))) => (value == 1).to_string(),
            Some((3, Value::Number(value))) => value.to_string(),
            Some((4, Value::Number(value))) => f64::from_bits(value).to_string(),
            other => panic!("{key}: {other:?}"),
        };
        (key, value)
    };
    messages(message, number).into_iter().map(pair).collect()
}

#[derive(Debug, Clone, Copy)]
enum Value<'m> {
    Number(u64),
    Bytes(&'m [u8]),
}

/// The fields of this number that are messages, strings or bytes.
fn messages(message: &[u8], number: u64) -> Vec<&[u8]> {
    let is_it = |(found, value)| match value {
        Value::Bytes(bytes) if found == number => Some(bytes),
        _ => None,
    };
    fields(message).into_iter().filter_map(is_it).collect()
}

/// <https://protobuf.dev/programming-guides/encoding/>
fn fields(mut message: &[u8]) -> Vec<(u64, Value<'_>)> {
    let mut all = Vec::new();
    while !message.is_empty() {
        let key = varint(&mut message);
        let value = match key & 7 {
            0 => Value::Number(varint(&mut message)),
            1 => Value::Number(u64::from_le_bytes(take(&mut message, 8).try_into().expect("eight bytes"))),
            2 => {
                let length = usize::try_from(varint(&mut message)).expect("a length");
                Value::Bytes(take(&mut message, length))
            }
            5 => Value::Number(
                u32::from_le_bytes(take(&mut message, 4).try_into().expect("four bytes")).into(),
            ),
            other => panic!("wire type {other}"),
        };
        all.push((key >> 3, value));
    }
    all
}

fn varint(message: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(message, 1)[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return value;
        }
    }
    panic!("a number of more than ten bytes")
}

fn take<'m>(message: &mut &'m [u8], count: usize) -> &'m [u8] {
    let (taken, rest) = message.split_at_checked(count).expect("a whole message");
    *message = rest;
    taken
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("strings of protobuf are UTF-8")
}
