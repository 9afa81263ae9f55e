//! Records as spans, with the names that OpenTelemetry's semantic conventions for HTTP have (1.27 and later, stable).

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use keepwarm_telemetry::TraceContext;
use keepwarm_telemetry::counters::{self, Family};
use keepwarm_telemetry::export::ExportQueue;
use keepwarm_telemetry::spans::{AttemptSpan, CallSpan, RequestSpan, SpanRecord, Tracer};

use super::exporter::Batched;
use super::messages::{
    ExportTraceServiceRequest, KeyValue, Resource, ResourceSpans, ScopeSpans, Span, SpanKind, Status,
    StatusCode, nanos,
};
use super::resource::{SCHEMA, scope};

/// What a tracer keeps.
pub(super) struct Spans(pub(super) Arc<Tracer>);

impl Batched for Spans {
    type Record = SpanRecord;
    type Message = ExportTraceServiceRequest;

    fn queue(&self) -> &ExportQueue<SpanRecord> {
        self.0.queue()
    }

    fn outcomes(&self) -> &'static Family {
        &counters::SPANS_EXPORTED
    }

    fn message(&self, records: &[SpanRecord], resource: Resource) -> ExportTraceServiceRequest {
        ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(resource),
                scope_spans: vec![ScopeSpans {
                    scope: Some(scope()),
                    spans: records.iter().flat_map(spans).collect(),
                }],
                schema_url: SCHEMA.to_owned(),
            }],
        }
    }
}

/// The spans of a record.
fn spans(record: &SpanRecord) -> Vec<Span> {
    match record {
        SpanRecord::Request(request) => of_request(request),
        SpanRecord::Call(call) => {
            call.attempts.iter().enumerate().map(|(at, attempt)| of_attempt(call, attempt, at)).collect()
        }
    }
}

/// The request, the wait for a worker, and the worker's time.
fn of_request(request: &RequestSpan) -> Vec<Span> {
    let start = request.end.checked_sub(request.elapsed).unwrap_or(request.end);
    let mut spans = vec![Span {
        attributes: attributes(request),
        status: request.failed.then(|| error(request.reason)),
        ..span(&request.context, request.span, request.context.parent(), true)
            .named(request_name(request), SpanKind::Server)
            .between(start, request.elapsed)
    }];
    if let Some(phases) = request.phases {
        let part = |id, name: &str, begin: Duration, time| {
            let named = span(&request.context, id, Some(request.span), false)
                .named(name.to_owned(), SpanKind::Internal);
            named.between(start + begin, time)
        };
        // Nothing has the queue as its parent, so its name need only be another one.
        spans.push(part(request.app_span ^ request.span, "queue", phases.read, phases.queue));
        if phases.reached_app() {
            let mut app = part(request.app_span, "app", phases.read + phases.queue, phases.app);
            app.attributes.extend(request.app.as_deref().map(|app| KeyValue::string("keepwarm.app", app)));
            spans.push(app);
        }
    }
    spans
}

/// Methods that the conventions name; others would give names without an end.
const METHODS: [&str; 10] =
    ["CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE", "QUERY"];

fn known_method(method: &str) -> Option<&str> {
    METHODS.contains(&method).then_some(method)
}

/// Few names: the path is not in them.
fn request_name(request: &RequestSpan) -> String {
    let method = known_method(&request.method).unwrap_or("HTTP");
    match request.route.as_deref().filter(|route| !route.is_empty()) {
        Some(route) => format!("{method} {route}"),
        None => method.to_owned(),
    }
}

fn attributes(request: &RequestSpan) -> Vec<KeyValue> {
    let mut all = method_attributes(&request.method);
    let (path, query) = path_and_query(&request.target);
    all.push(KeyValue::string("url.scheme", request.scheme));
    all.push(KeyValue::string("url.path", path));
    all.extend(query.map(|query| KeyValue::string("url.query", redacted(&query))));
    all.extend(request.route.as_deref().map(|route| KeyValue::string("http.route", route)));
    if request.status != 0 {
        all.push(KeyValue::int("http.response.status_code", request.status.into()));
    }
    all.push(KeyValue::int("http.response.body.size", i64::try_from(request.body_bytes).unwrap_or(i64::MAX)));
    if request.failed {
        all.push(KeyValue::string("error.type", error_type(request.status, request.reason)));
    }
    all.push(KeyValue::string("network.protocol.version", request.version));
    push_server(&mut all, &text(&request.host));
    all.extend(request.client.map(|client| KeyValue::string("client.address", client.to_string())));
    if let Some(peer) = request.peer {
        all.push(KeyValue::string("network.peer.address", peer.ip().to_canonical().to_string()));
        all.push(KeyValue::int("network.peer.port", peer.port().into()));
    }
    if !request.user_agent.is_empty() {
        all.push(KeyValue::string("user_agent.original", text(&request.user_agent)));
    }
    all.extend(request.app.as_deref().map(|app| KeyValue::string("keepwarm.app", app)));
    all.extend(request.reason.map(|reason| KeyValue::string("keepwarm.reason", reason)));
    all.push(KeyValue::string("keepwarm.request_id", request.id.to_string()));
    all
}

/// One attempt of a call, `at` in their order.
fn of_attempt(call: &CallSpan, attempt: &AttemptSpan, at: usize) -> Span {
    let is_error = attempt.failure.is_some() || attempt.status >= 400;
    let name = known_method(&call.method).unwrap_or("HTTP").to_owned();
    Span {
        attributes: attempt_attributes(call, attempt, at),
        status: is_error.then(|| error(attempt.failure)),
        // The caller is another process, or a request of this one.
        ..span(&call.context, attempt.span, call.parent, call.parent == call.context.parent())
            .named(name, SpanKind::Client)
            .between(attempt.start, attempt.elapsed)
    }
}

fn attempt_attributes(call: &CallSpan, attempt: &AttemptSpan, at: usize) -> Vec<KeyValue> {
    let mut all = method_attributes(&call.method);
    let authority = attempt.endpoint.as_ref().map(|endpoint| &*endpoint.authority);
    let (path, query) = path_and_query(&call.target);
    let query = query.map_or_else(String::new, |query| format!("?{}", redacted(&query)));
    let url = format!("{}://{}{path}{query}", call.scheme, authority.unwrap_or(&call.upstream));
    all.push(KeyValue::string("url.full", url));
    push_server(&mut all, authority.unwrap_or(&call.upstream));
    if let Some(endpoint) = &attempt.endpoint {
        push_address(&mut all, &endpoint.address);
    }
    if attempt.status != 0 {
        all.push(KeyValue::int("http.response.status_code", attempt.status.into()));
    }
    if attempt.failure.is_some() || attempt.status >= 400 {
        all.push(KeyValue::string("error.type", error_type(attempt.status, attempt.failure)));
    }
    if at > 0 {
        all.push(KeyValue::int("http.request.resend_count", i64::try_from(at).unwrap_or(i64::MAX)));
    }
    all.push(KeyValue::string("keepwarm.upstream", &*call.upstream));
    if attempt.endpoint.is_some() {
        let connection = if attempt.reused { "reused" } else { "new" };
        all.push(KeyValue::string("keepwarm.connection", connection));
    }
    all.push(KeyValue::string("keepwarm.request_id", call.id.to_string()));
    all
}

fn method_attributes(method: &str) -> Vec<KeyValue> {
    match known_method(method) {
        Some(method) => vec![KeyValue::string("http.request.method", method)],
        None => vec![
            KeyValue::string("http.request.method", "_OTHER"),
            KeyValue::string("http.request.method_original", method),
        ],
    }
}

/// The host and port of an authority.
fn push_server(all: &mut Vec<KeyValue>, authority: &str) {
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, port.parse::<u16>().ok()),
        _ => (authority, None),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if !host.is_empty() {
        all.push(KeyValue::string("server.address", host));
        all.extend(port.map(|port| KeyValue::int("server.port", port.into())));
    }
}

/// Where a connection leads to: `address:port`, or the path of a Unix socket.
fn push_address(all: &mut Vec<KeyValue>, endpoint: &str) {
    match endpoint.parse::<std::net::SocketAddr>() {
        Ok(address) => {
            let ip: IpAddr = address.ip().to_canonical();
            all.push(KeyValue::string("network.peer.address", ip.to_string()));
            all.push(KeyValue::int("network.peer.port", address.port().into()));
        }
        Err(_) => all.push(KeyValue::string("network.peer.address", endpoint)),
    }
}

/// A stable name: of Keepwarm's own reason, or the status.
fn error_type(status: u16, reason: Option<&'static str>) -> String {
    match reason {
        Some("status") | None if status != 0 => status.to_string(),
        Some(reason) => reason.to_owned(),
        None => "_OTHER".to_owned(),
    }
}

/// The status of a span. What an error is has its place in the attributes: the description is for what is not there.
fn error(reason: Option<&'static str>) -> Status {
    Status { message: reason.unwrap_or_default().to_owned(), code: StatusCode::Error.into() }
}

/// Of a target in any form (RFC 9112 §3.2).
fn path_and_query(target: &[u8]) -> (String, Option<String>) {
    let target = text(target);
    let local = match target.split_once("://") {
        Some((scheme, rest)) if !scheme.contains('/') => match rest.find(['/', '?']) {
            Some(at) => rest.get(at..).unwrap_or_default().to_owned(),
            None => "/".to_owned(),
        },
        _ => target,
    };
    match local.split_once('?') {
        Some((path, query)) => (path.to_owned(), Some(query.to_owned())),
        None => (local, None),
    }
}

/// Parameters whose values are credentials, by the conventions for `url.query`.
const CREDENTIALS: [&str; 4] = ["AWSAccessKeyId", "Signature", "sig", "X-Goog-Signature"];

fn redacted(query: &str) -> String {
    if !CREDENTIALS.iter().any(|name| query.contains(name)) {
        return query.to_owned();
    }
    let parameter = |parameter: &str| match parameter.split_once('=') {
        Some((name, _)) if CREDENTIALS.contains(&name) => format!("{name}=REDACTED"),
        _ => parameter.to_owned(),
    };
    query.split('&').map(parameter).collect::<Vec<_>>().join("&")
}

/// Strings of protobuf are UTF-8.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The parent's context is known to be local or remote: bits 8 and 9 of `flags`.
const HAS_IS_REMOTE: u32 = 0x100;
const IS_REMOTE: u32 = 0x200;

fn span(context: &TraceContext, id: u64, parent: Option<u64>, is_remote: bool) -> Span {
    let remote = if is_remote && parent.is_some() { IS_REMOTE } else { 0 };
    Span {
        trace_id: context.trace_bytes().to_vec(),
        span_id: id.to_be_bytes().to_vec(),
        parent_span_id: parent.map(|parent| parent.to_be_bytes().to_vec()).unwrap_or_default(),
        flags: u32::from(context.flags()) | HAS_IS_REMOTE | remote,
        ..Span::default()
    }
}

impl Span {
    fn named(self, name: String, kind: SpanKind) -> Self {
        Self { name, kind: kind.into(), ..self }
    }

    fn between(self, start: SystemTime, time: Duration) -> Self {
        Self { start_time_unix_nano: nanos(start), end_time_unix_nano: nanos(start + time), ..self }
    }
}

#[cfg(test)]
mod tests;
