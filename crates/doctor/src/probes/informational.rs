//! `informational`: 103 Early Hints, several 1xx, and trailers.
//!
//! A hop that drops `103 Early Hints` costs a browser the time the app thinks, one that sends 1xx to a client of HTTP/1.0 breaks it (RFC 9110 §15.2, RFC
//! 8297), one that drops trailers breaks gRPC and digests, and trailers that frame or authenticate are a way to smuggle (RFC 9110 §6.5.1). From outside it is
//! seen only whether any come; with the servers behind (`--via`) what they send is compared with what passes.

mod fix;
mod rules;
#[cfg(test)]
mod tests;
mod via;

use std::time::Duration;

use http::StatusCode;
use keepwarm_http1::{FaultKind, ResponseBody, trailer_allowed};

use crate::client::{Failure, Outcome, Request, Response};
use crate::context::ProbeContext;
use crate::finding::Finding;

pub(super) use fix::fix;

/// A page is read for this long at most, in search of its trailers.
const LONGEST: Duration = Duration::from_secs(2);

/// A protocol that does not exist.
const UNKNOWN_PROTOCOL: &str = "keepwarm-check";

pub(super) async fn examine(context: &ProbeContext) -> Vec<Finding> {
    let page = match page(context).await {
        Ok(page) => page,
        Err(failure) => return vec![Finding::unknown(rules::EARLY_HINTS, failure.to_string())],
    };
    let mut findings = vec![rules::early_hints(&page), rules::trailers(&page)];
    if page.silent {
        return findings;
    }
    let old = navigating(context.ordinary_request().http10());
    findings.push(match head(context, &old).await {
        Ok(response) => rules::http10(&InformationalExchange::of(&old, "", &response)),
        Err(failure) => Finding::unknown(rules::HTTP10, failure.to_string()),
    });
    let upgrade =
        context.ordinary_request().field("Connection", "Upgrade").field("Upgrade", UNKNOWN_PROTOCOL);
    findings.push(match head(context, &upgrade).await {
        Ok(response) => {
            rules::upgrade(&InformationalExchange::of(&upgrade, " with Upgrade: keepwarm-check", &response))
        }
        Err(failure) => Finding::unknown(rules::UPGRADE, failure.to_string()),
    });
    findings.extend(via::examine(context, page).await);
    findings
}

/// The response, as far as it matters here.
#[derive(Debug, Clone, Default)]
struct InformationalExchange {
    /// The request.
    asked: String,
    /// The response, in words.
    words: String,
    /// The 1xx responses, and when.
    hints: Vec<(u16, Duration)>,
    /// Whether one of them had `Content-Length` or `Transfer-Encoding`.
    framed_hint: bool,
    /// The final status, and when.
    last: Option<(u16, Duration)>,
    /// Whether it was `101`, which was not requested.
    switched: bool,
    /// Whether nothing final came, on a connection that stayed open.
    silent: bool,
    /// Whether it came in chunks, and all of it.
    chunked: bool,
    whole: bool,
    /// The names in `Trailer`.
    announced: Vec<String>,
    /// The names in the trailer section, in the order they came.
    trailers: Vec<String>,
    /// The names in the head.
    names: Vec<String>,
}

impl InformationalExchange {
    fn of(request: &Request, note: &str, response: &Response) -> Self {
        let head = response.head.as_ref();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).to_ascii_lowercase();
        let announced = head.into_iter().flat_map(|head| head.fields.all("trailer")).map(text);
        let framing = |name: &[u8]| matches!(name, b"content-length" | b"transfer-encoding");
        Self {
            asked: format!("{}{note}", request.line()),
            words: response.words(),
            hints: response.informational.iter().map(|hint| (hint.status.as_u16(), hint.at)).collect(),
            framed_hint: response
                .informational
                .iter()
                .any(|hint| hint.fields.iter().any(|(name, _)| framing(name))),
            last: response.status().map(|status| (status, response.head_at.unwrap_or(response.took))),
            switched: matches!(&response.outcome, Outcome::Malformed(fault) if fault.kind == FaultKind::UnofferedUpgrade),
            silent: head.is_none() && response.outcome == Outcome::Silence,
            chunked: head.is_some_and(|head| head.body == ResponseBody::Chunked),
            whole: response.is_complete(),
            announced: announced
                .flat_map(|list| list.split(',').map(|name| name.trim().to_owned()).collect::<Vec<_>>())
                .filter(|name| !name.is_empty())
                .collect(),
            trailers: trailer_names(&response.trailer_block),
            names: head
                .map_or_else(Vec::new, |head| head.fields.iter().map(|(name, _)| text(name)).collect()),
        }
    }
}

/// The names in a trailer section as it came; the line of the last chunk has no colon before its end.
fn trailer_names(block: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(block);
    let lines = text.lines().filter(|line| !line.starts_with('0'));
    lines.filter_map(|line| line.split_once(':')).map(|(name, _)| name.trim().to_ascii_lowercase()).collect()
}

/// The page as a browser requests it when it navigates there, and takes trailers.
async fn page(context: &ProbeContext) -> Result<InformationalExchange, Failure> {
    let request = navigating(context.ordinary_request()).field("TE", "trailers").field("Connection", "TE");
    let mut connection = context.connect().await?;
    let within = context.settings.timeout.min(LONGEST);
    let response = context.exchange_within(&mut connection, &request, within).await;
    Ok(InformationalExchange::of(&request, " as a browser that accepts trailers", &response))
}

/// Sends a request on a new connection, and reads the head of the response.
async fn head(context: &ProbeContext, request: &Request) -> Result<Response, Failure> {
    let mut connection = context.connect().await?;
    context.budget.request().await;
    connection.begin(request);
    let _ = connection.send(&request.bytes()).await;
    let within = context.settings.timeout.min(LONGEST);
    Ok(connection.read_response_until(within, |response| response.head.is_some()).await)
}

/// Servers send 103 only to a client that navigates to a page (RFC 8297 §3 has them be careful with HTTP/1.1).
fn navigating(request: Request) -> Request {
    request.field("Sec-Fetch-Mode", "navigate").field("Sec-Fetch-Dest", "document")
}

/// Whether a trailer of that name can move a boundary, or bypass access control.
fn is_dangerous(name: &str) -> bool {
    const DANGEROUS: &[&str] = &[
        "transfer-encoding",
        "content-length",
        "content-encoding",
        "content-type",
        "content-range",
        "host",
        "connection",
        "trailer",
        "te",
        "upgrade",
        "authorization",
        "www-authenticate",
        "proxy-authenticate",
        "proxy-authorization",
        "set-cookie",
        "cookie",
    ];
    DANGEROUS.contains(&name)
}

fn is_allowed(name: &str) -> bool {
    trailer_allowed(name.as_bytes())
}

fn is_early_hints(status: u16) -> bool {
    status == StatusCode::EARLY_HINTS.as_u16()
}
