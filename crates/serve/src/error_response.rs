//! Error responses of Keepwarm itself: short, in the client's format, with an id that is also in the log.

mod format;
mod table;
#[cfg(test)]
mod tests;

use std::io::Write;
use std::sync::Arc;

use http::{Method, StatusCode};
use keepwarm_http1::RequestHead;
use keepwarm_telemetry::{RequestId, counters, escape};

use self::format::Format;
pub use self::table::{ErrorMessage, ErrorResponse};
use crate::error_pages::is_of_page;
use crate::exchange::{FieldList, FieldRef};
use crate::{BodyError, Exchange, PageError, PageSource, PendingPage, Refusal};

/// Responds to a request with a whole error response: `status`, its reason phrase, the sentence `detail` and the request's id, as JSON (the members of RFC 9457),
/// HTML or text by the client's `Accept`. `reason` is the stable name of the cause, for the log, the counter and the access record; `fields` go into the head.
///
/// Counts and logs the error, once. If a response has already begun, it cannot be taken back: the connection is cut instead.
pub fn respond_with_error(
    exchange: &mut Exchange<'_>,
    status: u16,
    reason: &'static str,
    detail: &str,
    fields: &[(&str, &[u8])],
) {
    respond(exchange, (status, reason, detail), None, fields);
}

/// Responds to the app's developer with the app's output in `printed`, as an HTML page.
pub fn respond_with_printed(exchange: &mut Exchange<'_>, response: &'static ErrorResponse, printed: &str) {
    respond(exchange, (response.status, response.reason, response.sentence), Some(printed), &[]);
}

/// Whether a browser requested a page for its user, not a script, image or call (<https://www.w3.org/TR/fetch-metadata/>), and HTML is preferred.
pub fn wants_page(head: &RequestHead) -> bool {
    let is_document = |dest: &[u8]| matches!(dest, b"document" | b"iframe" | b"frame");
    (head.method == Method::GET || head.method == Method::HEAD)
        && head.fields.all("sec-fetch-dest").all(is_document)
        && Format::accepted(head.fields.all("accept")) == Format::Html
}

/// Whether a client prefers JSON to HTML and text.
pub fn prefers_json(head: &RequestHead) -> bool {
    matches!(Format::accepted(head.fields.all("accept")), Format::Json | Format::ProblemJson)
}

fn respond(
    exchange: &mut Exchange<'_>,
    (status, reason, detail): (u16, &'static str, &str),
    printed: Option<&str>,
    fields: &[(&str, &[u8])],
) {
    note(exchange, status, reason, detail);
    // A response in progress that is cut is none of ours.
    if !exchange.responded() {
        counters::REFUSALS.count(exchange.request().notes.counted_app(), reason);
    }
    // An error of the app, whose page does not depend on what the app says further.
    if let Some(pending) = exchange.pending_page() {
        pending.is_over = true;
        return;
    }
    if exchange.responded() {
        exchange.abort(reason);
        return;
    }
    exchange.request_mut().notes.reason = Some(reason);
    let request = exchange.request();
    let pages = request.notes.routed.error_pages.clone().filter(|_| printed.is_none());
    let page = pages.as_ref().and_then(|pages| pages.page(status, &request.head));
    let theirs = fields.iter().map(|(name, value)| (name.as_bytes(), *value));
    if let Some(PageSource::App(app)) = page {
        let is_waiting = exchange.wait_for_page(PendingPage {
            error: PageError { status, reason },
            app: Arc::clone(app),
            detail: detail.to_owned(),
            fields: theirs.clone().map(|(name, value)| (name.into(), value.into())).collect(),
            close: false,
            is_over: true,
        });
        if is_waiting {
            return;
        }
    }
    match page {
        Some(PageSource::Fixed(page)) => {
            send(exchange, (status, reason), false, page.content_type.as_bytes(), &page.body, theirs);
        }
        _ => send_own(exchange, (status, reason, detail), printed, false, theirs),
    }
}

/// Sends Keepwarm's own short response.
fn send_own<'a>(
    exchange: &mut Exchange<'_>,
    (status, reason, detail): (u16, &'static str, &str),
    printed: Option<&str>,
    close: bool,
    fields: impl Iterator<Item = FieldRef<'a>>,
) {
    let request = exchange.request();
    let format = match printed {
        Some(_) => Format::Html,
        None => Format::accepted(request.head.fields.all("accept")),
    };
    let body = render(format, (status, reason, detail), printed, RequestId::new(request.number));
    send(exchange, (status, reason), close, format.content_type(), &body, fields);
}

fn send<'a>(
    exchange: &mut Exchange<'_>,
    (status, reason): (u16, &'static str),
    close: bool,
    content_type: &'a [u8],
    body: &[u8],
    fields: impl Iterator<Item = FieldRef<'a>>,
) {
    let ours: [FieldRef<'_>; 2] = [(b"Content-Type", content_type), (b"Cache-Control", b"no-store")];
    let length = Some(body.len() as u64);
    let all: FieldList<'_> = ours.into_iter().chain(fields).collect();
    if exchange.plain_head(status, length, close, &all).is_err() {
        // A header of the caller or of the route's edits is invalid: the error itself matters more.
        exchange.request_mut().notes.routed.response_edits = None;
        if exchange.plain_head(status, length, close, &ours).is_err() {
            exchange.abort(reason);
            return;
        }
    }
    exchange.data(body);
    exchange.end();
}

/// Responds with the page that [`Exchange::awaits_page`], or without it if its app fails.
pub async fn respond_with_page(exchange: &mut Exchange<'_>) {
    let Some(pending) = exchange.take_pending_page() else { return };
    let PendingPage { error, app, detail, fields, close, .. } = *pending;
    let page = app.page(exchange, error).await;
    if exchange.over() {
        return;
    }
    let own = fields.iter().map(|(name, value)| (&**name, &**value));
    let Some(page) = page else {
        return send_own(exchange, (error.status, error.reason, &detail), None, close, own);
    };
    // What the response says about itself counts; `Set-Cookie` adds up.
    let is_own = |name: &[u8]| {
        !name.eq_ignore_ascii_case(b"set-cookie")
            && fields.iter().any(|(own, _)| own.eq_ignore_ascii_case(name))
    };
    let of_page = page.fields.iter().filter(|(name, _)| is_of_page(name) && !is_own(name));
    let no_store: (&[u8], &[u8]) = (b"Cache-Control", b"no-store");
    let all = of_page.chain(own.filter(|(name, _)| !name.eq_ignore_ascii_case(b"cache-control")));
    let all: FieldList<'_> = all.chain(std::iter::once(no_store)).collect();
    if exchange.plain_head(error.status, Some(page.body.len() as u64), close, &all).is_err() {
        return send_own(exchange, (error.status, error.reason, &detail), None, close, std::iter::empty());
    }
    exchange.data(&page.body);
    exchange.end();
}

/// Responds to a request that is malformed or came too slowly (see [`crate::Frontend::refuse`]).
pub fn respond_with_refusal(exchange: &mut Exchange<'_>, refusal: &Refusal) {
    respond_with_error(exchange, refusal.status, refusal.name, &sentence(&refusal.detail), &[]);
}

/// Responds to a request whose body stays incomplete, or cuts the response in progress.
pub fn respond_with_body_error(exchange: &mut Exchange<'_>, error: BodyError) {
    match error.refusal() {
        Some(refusal) if !exchange.responded() => {
            respond_with_error(exchange, refusal.status, refusal.name, &refusal.detail, &[]);
        }
        Some(refusal) => exchange.abort(refusal.name),
        None => exchange.abandon(error.client_loss()),
    }
}

/// The text of a fault as a sentence.
fn sentence(fault: &str) -> String {
    let mut chars = fault.trim_end_matches('.').chars();
    chars.next().map_or_else(String::new, |first| format!("{}{}.", first.to_uppercase(), chars.as_str()))
}

/// One log line: 5xx need the operator's attention, 4xx are the client's.
fn note(exchange: &Exchange<'_>, status: u16, reason: &'static str, detail: &str) {
    let request = exchange.request();
    let id = RequestId::new(request.number);
    let app = request.notes.target.as_deref();
    let client = request.client_address().map(tracing::field::display);
    // During maintenance every request has it, as intended.
    if status >= 500 && reason != "maintenance" {
        tracing::warn!(name: "error_response", app, status, reason, client, %id, "{detail}");
    } else {
        tracing::info!(name: "error_response", app, status, reason, client, %id, "{detail}");
    }
}

/// `printed` is for HTML only.
fn render(
    format: Format,
    (status, reason, detail): (u16, &str, &str),
    printed: Option<&str>,
    id: RequestId,
) -> Vec<u8> {
    let title = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
    let title = title.unwrap_or("Error");
    // Writing into memory cannot fail: hence the ignored results.
    let mut out = Vec::with_capacity(512);
    match format {
        Format::Text => {
            let _ = writeln!(out, "{status} {title}");
            escape::push_readable(&mut out, detail);
            let _ = writeln!(out, "\nRequest id: {id}");
        }
        Format::Json | Format::ProblemJson => {
            let _ = write!(out, "{{\"status\":{status},\"title\":\"{title}\",\"detail\":\"");
            escape::push_json(&mut out, detail.as_bytes());
            let _ = writeln!(out, "\",\"reason\":\"{reason}\",\"request_id\":\"{id}\"}}");
        }
        Format::Html => {
            let _ = write!(
                out,
                "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>{status} {title}</title>\n\
                 <h1>{status} {title}</h1>\n<p>"
            );
            push_html(&mut out, detail);
            out.extend_from_slice(b"</p>\n");
            if let Some(printed) = printed {
                out.extend_from_slice(b"<pre>");
                push_html(&mut out, printed);
                out.extend_from_slice(b"</pre>\n");
            }
            let _ = writeln!(out, "<p>Request id: <code>{id}</code></p>\n</html>");
        }
    }
    out
}

fn push_html(out: &mut Vec<u8>, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'&' => out.extend_from_slice(b"&amp;"),
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            b'"' => out.extend_from_slice(b"&quot;"),
            _ => out.push(byte),
        }
    }
}
