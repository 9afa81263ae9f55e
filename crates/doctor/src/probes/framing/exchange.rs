//! Bytes, sent as they are on a connection of their own, and the response.

use std::time::Duration;

use keepwarm_http1::ResponseHead;

use super::Page;
use crate::client::{Connection, Failure, Outcome, Read, Request, Response};
use crate::probes::persistence::within;

/// After a response a second one, if any, follows within this.
const SOON: Duration = Duration::from_millis(60);

/// Between the parts of a request that is sent in parts.
const PAUSE: Duration = Duration::from_millis(80);

/// A message, as the bytes that are sent.
#[derive(Debug, Clone)]
pub(super) struct RawMessage {
    /// The parts: sent one by one, with a pause between.
    pub(super) parts: Vec<Vec<u8>>,
    /// Whether it begins with a response to `HEAD`.
    pub(super) method: String,
    /// What to do after the first response.
    pub(super) then: FollowUp,
}

/// What to do after a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FollowUp {
    /// It tells everything.
    Leave,
    /// Whatever follows by itself is looked at.
    Watch,
    /// That, and whether an ordinary request gets its response.
    AskAgain,
}

/// The responses to one message.
#[derive(Debug, Clone)]
pub(super) struct Exchange {
    /// The responses, two at most.
    pub(super) responses: Vec<Response>,
    /// Whether the connection was closed after them, or was announced to be.
    pub(super) ended: bool,
    /// Bytes after the last response, which was whole.
    pub(super) behind: usize,
    /// The response to an ordinary request that was sent after a single response, on the same connection.
    pub(super) next: Option<Response>,
}

/// How a server took a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interpretation {
    /// It got the same response as the ordinary request.
    Well,
    /// It got another status.
    Otherwise(u16),
    /// It got a status that means that it was not understood, or not accepted in this form.
    Refused(u16),
    /// The connection ended without a response.
    Dropped,
    /// No complete response came.
    Nothing,
}

impl RawMessage {
    pub(super) fn of(request: &Request, bytes: Vec<u8>) -> Self {
        Self { parts: vec![bytes], method: request.method().to_owned(), then: FollowUp::AskAgain }
    }

    pub(super) fn then(self, then: FollowUp) -> Self {
        Self { then, ..self }
    }
}

/// The head of a request with these lines added before its end, and the body.
pub(super) fn with_lines(request: &Request, lines: &str, body: &[u8]) -> RawMessage {
    let mut bytes = request.head();
    bytes.truncate(bytes.len().saturating_sub(2));
    bytes.extend_from_slice(lines.as_bytes());
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(body);
    RawMessage::of(request, bytes)
}

/// Sends, and reads what comes: the first response, a second one if it comes, else the response to one more request.
pub(super) async fn send(page: &Page<'_>, bytes: &RawMessage) -> Result<Exchange, Failure> {
    let context = page.context;
    let mut connection = context.connect().await?;
    let mut seen = Exchange { responses: Vec::new(), ended: false, behind: 0, next: None };
    context.budget.request().await;
    connection.begin(&Request::new(&bytes.method, "/", Vec::new()));
    for (index, part) in bytes.parts.iter().enumerate() {
        if index > 0 {
            tokio::time::sleep(PAUSE).await;
        }
        if connection.send(part).await.is_err() {
            break;
        }
    }
    let first = connection.read_response(within(context)).await;
    let goes_on = stays(&first);
    seen.responses.push(first);
    if !goes_on {
        seen.behind = behind(seen.responses.first(), connection.left_over());
        seen.ended = true;
        return Ok(seen);
    }
    if bytes.then == FollowUp::Leave {
        return Ok(seen);
    }
    let (then, second) = follows(&mut connection, &page.request, SOON, context.first.took * 2).await;
    match then {
        Read::Silence if bytes.then == FollowUp::Watch => return Ok(seen),
        Read::Silence => {}
        Read::Bytes(count) => {
            seen.behind = count;
            seen.ended = second.as_ref().is_none_or(|response| !stays(response));
            seen.responses.extend(second);
            return Ok(seen);
        }
        _ => {
            seen.ended = true;
            return Ok(seen);
        }
    }
    seen.next = Some(context.exchange_within(&mut connection, &page.request, within(context)).await);
    // A response to what was hidden, which came late.
    let took = context.first.took * 2;
    if let (Read::Bytes(_), Some(late)) = follows(&mut connection, &page.request, SOON + took, took).await {
        seen.responses.push(late);
    }
    Ok(seen)
}

/// Reads what comes after a response, and begins soon: nothing, bytes (and the response in them, if there is one), or the close.
async fn follows(
    connection: &mut Connection,
    request: &Request,
    soon: Duration,
    more: Duration,
) -> (Read, Option<Response>) {
    if connection.left_over().is_empty() {
        match connection.read(soon).await {
            Read::Bytes(_) => {}
            other => return (other, None),
        }
    }
    let behind = connection.left_over().len();
    connection.begin(request);
    let response = connection.read_response(SOON + more).await;
    match response.head.is_some() {
        true => (Read::Bytes(0), Some(response)),
        false => (Read::Bytes(behind), None),
    }
}

fn stays(response: &Response) -> bool {
    response.is_complete() && response.head.as_ref().is_some_and(ResponseHead::is_persistent)
}

fn behind(response: Option<&Response>, left: &[u8]) -> usize {
    if response.is_some_and(Response::is_complete) { left.len() } else { 0 }
}

impl Exchange {
    /// How the first message was read.
    pub(super) fn first(&self, ordinary: Option<u16>) -> Interpretation {
        self.responses.first().map_or(Interpretation::Nothing, |response| taken(response, ordinary))
    }

    /// How the bytes after it were read, if they got a response.
    pub(super) fn second(&self, ordinary: Option<u16>) -> Option<Interpretation> {
        self.responses.get(1).map(|response| taken(response, ordinary))
    }

    /// Whether an ordinary request after it got its usual response.
    pub(super) fn is_in_step(&self, ordinary: Option<u16>) -> bool {
        self.next.as_ref().is_some_and(|response| taken(response, ordinary) == Interpretation::Well)
    }

    /// For evidence: `200 after 1.2 ms, then unrequested: 400 after 0.1 ms`.
    pub(super) fn words(&self, then: &str) -> String {
        let responses: Vec<String> = self.responses.iter().map(Response::words).collect();
        responses.join(&format!(", then {then} "))
    }
}

/// Where nothing else was asked.
pub(super) const UNASKED: &str = "unrequested:";

pub(super) fn taken(response: &Response, ordinary: Option<u16>) -> Interpretation {
    match (&response.outcome, response.status()) {
        (Outcome::Complete | Outcome::Endless, status) if status == ordinary => Interpretation::Well,
        (Outcome::Complete | Outcome::Endless, Some(status)) => match status {
            // 502, 503 and 504 depend on the moment, 401, 403 and 429 on the client.
            400 | 411 | 413 | 414 | 417 | 421 | 426 | 431 | 500 | 501 | 505 => {
                Interpretation::Refused(status)
            }
            _ => Interpretation::Otherwise(status),
        },
        (Outcome::Closed | Outcome::Reset, None) => Interpretation::Dropped,
        _ => Interpretation::Nothing,
    }
}
