//! Requests and observations, without a verdict.

use std::time::Duration;

use crate::client::{Connection, Failure, Outcome, Request, Response};
use crate::context::ProbeContext;
use crate::report::time;

/// So long a body is held back, longer than the second that `curl` waits.
const HELD: Duration = Duration::from_millis(1200);

/// No step waits longer than this.
const LONGEST: Duration = Duration::from_secs(2);

/// How long a client of HTTP/1.0 waits for the `100` that must not come.
const HELD_HTTP10: Duration = Duration::from_millis(200);

/// The body to send where none was given.
const BODY: &[u8] = b"keepwarm check";

/// A request and its response up to the end of the head.
pub(super) struct HeadExchange {
    /// The request.
    pub(super) asked: String,
    /// The response, in words.
    pub(super) words: String,
    /// The final status.
    pub(super) status: Option<u16>,
    /// How many `100` came.
    pub(super) hundreds: usize,
    /// Whether nothing final came in the time, on a connection that stayed open.
    pub(super) silent: bool,
    /// When the final head was whole, or when waiting ended.
    pub(super) after: Duration,
}

/// The request without the expectation got its response.
pub(super) struct PlainExchange {
    pub(super) status: u16,
    pub(super) after: Duration,
}

/// The request with the expectation, its body held back.
pub(super) struct ExpectExchange {
    /// The request.
    pub(super) asked: String,
    pub(super) method: String,
    /// The outcome before the body was sent.
    pub(super) first: EarlyResponse,
    /// How many `100` came in all.
    pub(super) hundreds: usize,
    /// The outcome after the body was sent, where it was.
    pub(super) then: Option<HeadExchange>,
    /// What the server did with the body, if it had responded without it and did not announce a close.
    pub(super) unread: Option<UnreadBody>,
}

/// The outcome before the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum EarlyResponse {
    /// `100`.
    Continue(Duration),
    /// A final response, and whether it announces a close.
    Final { status: u16, after: Duration, closes: bool },
    /// Nothing, for this long.
    Nothing(Duration),
    /// The end of the connection, or no HTTP.
    Lost(String),
}

/// What the server did with a body that it had not waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum UnreadBody {
    /// The connection was closed, though the response had not announced it.
    Closed,
    /// The next request got this status.
    Responded(u16),
    /// The next request got something that is not HTTP.
    Garbled(String),
    /// The next request got no response.
    Nothing(Duration),
}

impl ExpectExchange {
    /// Whether nothing came even once the body was sent.
    pub(super) fn is_stuck(&self) -> bool {
        self.then.as_ref().is_some_and(|then| then.silent)
    }
}

impl HeadExchange {
    fn of(asked: String, response: &Response) -> Self {
        let after = response.head_at.unwrap_or(response.took);
        let words = match response.status() {
            Some(status) => format!("{status} after {}", time(after)),
            None => response.words(),
        };
        let silent = response.head.is_none() && response.outcome == Outcome::Silence;
        Self { asked, words, status: response.status(), hundreds: hundreds(response), silent, after }
    }

    pub(super) fn responded(&self) -> Option<PlainExchange> {
        Some(PlainExchange { status: self.status?, after: self.after })
    }
}

/// The request without the expectation, head and body together: what everything else is compared with.
pub(super) async fn plain(context: &ProbeContext) -> Result<HeadExchange, Failure> {
    let request = request(context);
    let asked = described(&request, "");
    whole(context, &request, asked).await
}

/// The request with an unknown expectation.
pub(super) async fn other(context: &ProbeContext) -> Result<HeadExchange, Failure> {
    let request = request(context).field("Expect", "keepwarm-check");
    let asked = described(&request, ", Expect: keepwarm-check");
    whole(context, &request, asked).await
}

/// The request with the expectation, and no body.
pub(super) async fn empty(context: &ProbeContext) -> Result<HeadExchange, Failure> {
    let request = request(context).body(b"").field("Expect", "100-continue");
    let asked = format!("{} with Expect: 100-continue and Content-Length: 0", request.line());
    whole(context, &request, asked).await
}

async fn whole(context: &ProbeContext, request: &Request, asked: String) -> Result<HeadExchange, Failure> {
    let mut connection = context.connect().await?;
    let response = exchange(context, &mut connection, request).await;
    Ok(HeadExchange::of(asked, &response))
}

/// The same as HTTP/1.0, its body held back for a moment.
pub(super) async fn http10(context: &ProbeContext, expecting: bool) -> Result<HeadExchange, Failure> {
    let (mut request, note) = (request(context).http10(), if expecting { EXPECTING } else { "" });
    if expecting {
        request = request.field("Expect", "100-continue");
    }
    let asked = described(&request, note);
    let mut connection = context.connect().await?;
    context.budget.request().await;
    connection.begin(&request);
    let _ = connection.send(&request.head()).await;
    let before = connection.read_response_until(HELD_HTTP10, any_word).await;
    if before.head.is_some() || before.outcome != Outcome::Silence {
        return Ok(HeadExchange::of(asked, &before));
    }
    let _ = connection.send(request.content()).await;
    let mut all = HeadExchange::of(asked, &head(context, &mut connection).await);
    all.hundreds += hundreds(&before);
    Ok(all)
}

const EXPECTING: &str = ", Expect: 100-continue";

/// The request with the expectation. The body is held back until something comes, or for longer than the request takes without the expectation.
pub(super) async fn held(context: &ProbeContext, plain: &PlainExchange) -> Result<ExpectExchange, Failure> {
    let request = request(context).field("Expect", "100-continue");
    let mut connection = context.connect().await?;
    context.budget.request().await;
    connection.begin(&request);
    // A response to half of a request counts, whether or not the server takes all of it.
    let _ = connection.send(&request.head()).await;
    let before = connection.read_response_until((HELD + plain.after).min(LONGEST), any_word).await;
    let first = first(&before);
    let mut held = ExpectExchange {
        asked: described(&request, EXPECTING),
        method: request.method().to_owned(),
        hundreds: hundreds(&before),
        then: None,
        unread: None,
        first,
    };
    match &held.first {
        // Both at once: the body is not waited for.
        EarlyResponse::Continue(_) if before.head.is_some() => {
            held.then = Some(HeadExchange::of(String::new(), &before))
        }
        EarlyResponse::Continue(_) | EarlyResponse::Nothing(_) => {
            let _ = connection.send(request.content()).await;
            let then = HeadExchange::of(String::new(), &head(context, &mut connection).await);
            held.hundreds += then.hundreds;
            held.then = Some(then);
        }
        EarlyResponse::Final { closes: false, .. } => {
            held.unread = Some(unread(context, &mut connection, &request, before).await);
        }
        EarlyResponse::Final { .. } | EarlyResponse::Lost(_) => {}
    }
    Ok(held)
}

/// What the server does with the body of a request that gets its response before it, and has no expectation.
pub(super) async fn unread_without(context: &ProbeContext) -> Option<UnreadBody> {
    let request = request(context);
    let mut connection = context.connect().await.ok()?;
    context.budget.request().await;
    connection.begin(&request);
    let _ = connection.send(&request.bytes()).await;
    let response = head(context, &mut connection).await;
    match response.head.is_some() && !closes(&response) {
        true => {
            let ended = rest(context, &mut connection, response).await;
            Some(next(context, &mut connection, ended).await)
        }
        false => None,
    }
}

/// Reads the rest of the response, sends the body all the same, and sends another request on that connection.
async fn unread(
    context: &ProbeContext,
    connection: &mut Connection,
    request: &Request,
    response: Response,
) -> UnreadBody {
    let ended = rest(context, connection, response).await;
    if ended == Outcome::Complete {
        let _ = connection.send(request.content()).await;
    }
    next(context, connection, ended).await
}

/// How a response ends whose head is already read.
async fn rest(context: &ProbeContext, connection: &mut Connection, response: Response) -> Outcome {
    match response.outcome {
        Outcome::Silence => connection.read_response(longest(context)).await.outcome,
        ended => ended,
    }
}

/// Asks once more, after a response that ended so.
async fn next(context: &ProbeContext, connection: &mut Connection, ended: Outcome) -> UnreadBody {
    match ended {
        Outcome::Complete => {}
        Outcome::Closed | Outcome::Reset => return UnreadBody::Closed,
        _ => return UnreadBody::Nothing(longest(context)),
    }
    let response = exchange(context, connection, &context.ordinary_request()).await;
    match (response.status(), &response.outcome) {
        (Some(status), _) => UnreadBody::Responded(status),
        (None, Outcome::Silence) => UnreadBody::Nothing(response.took),
        (None, Outcome::Malformed(fault)) => UnreadBody::Garbled(fault.to_string()),
        (None, _) => UnreadBody::Closed,
    }
}

fn first(response: &Response) -> EarlyResponse {
    let continued = response.informational.iter().find(|informational| informational.status == 100);
    match (continued, response.status(), &response.outcome) {
        (Some(continued), ..) => EarlyResponse::Continue(continued.at),
        (None, Some(status), _) => EarlyResponse::Final {
            status,
            after: response.head_at.unwrap_or(response.took),
            closes: closes(response),
        },
        (None, None, Outcome::Silence) => EarlyResponse::Nothing(response.took),
        (None, None, _) => EarlyResponse::Lost(response.words()),
    }
}

/// Whether the response announces a close, in any of the ways there are (RFC 9112 §9.3, §6.3).
fn closes(response: &Response) -> bool {
    use keepwarm_http1::{ResponseBody, Version};
    let Some(head) = &response.head else { return true };
    let old = head.version == Version::Http10 && !head.connection.keep_alive;
    old || head.connection.close || head.body == ResponseBody::UntilClose
}

async fn exchange(context: &ProbeContext, connection: &mut Connection, request: &Request) -> Response {
    context.budget.request().await;
    connection.begin(request);
    let _ = connection.send(&request.bytes()).await;
    head(context, connection).await
}

/// Waits for the final head.
async fn head(context: &ProbeContext, connection: &mut Connection) -> Response {
    connection.read_response_until(longest(context), |response| response.head.is_some()).await
}

fn any_word(response: &Response) -> bool {
    response.head.is_some() || hundreds(response) > 0
}

fn hundreds(response: &Response) -> usize {
    response.informational.iter().filter(|informational| informational.status == 100).count()
}

fn longest(context: &ProbeContext) -> Duration {
    context.settings.timeout.min(LONGEST)
}

/// `OPTIONS`, or `POST` where it is allowed, with a body.
fn request(context: &ProbeContext) -> Request {
    let request = match &context.settings.post {
        Some(path) => context.request_by("POST").target(path),
        None => context.request_by("OPTIONS"),
    };
    let body = &context.settings.body;
    request.without("Expect").body(if body.is_empty() { BODY } else { body })
}

fn described(request: &Request, note: &str) -> String {
    format!("{} with a body of {} bytes{note}", request.line(), request.content().len())
}
