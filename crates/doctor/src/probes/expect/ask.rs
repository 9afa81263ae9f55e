//! What is asked, and what was seen: no verdict here.

use std::time::Duration;

use crate::patient::Patient;
use crate::report::time;
use crate::wire::{Ask, Failure, Line, Outcome, Response};

/// So long a body is held back, longer than the second that `curl` waits.
const HELD: Duration = Duration::from_millis(1200);

/// No step waits longer than this.
const LONGEST: Duration = Duration::from_secs(2);

/// A client of HTTP/1.0 waits so long for the `100` that must not come.
const HELD_HTTP10: Duration = Duration::from_millis(200);

/// What is sent where no body was given.
const BODY: &[u8] = b"keepwarm check";

/// A request whose response was looked at as far as its head.
pub(super) struct Asked {
    /// What was sent.
    pub(super) asked: String,
    /// What came, in words.
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

/// The request without the expectation, answered.
pub(super) struct Plain {
    pub(super) status: u16,
    pub(super) after: Duration,
}

/// The request with the expectation, its body held back.
pub(super) struct Held {
    /// What was sent.
    pub(super) asked: String,
    pub(super) method: String,
    /// What came before the body was sent.
    pub(super) first: First,
    /// How many `100` came in all.
    pub(super) hundreds: usize,
    /// What came once the body was sent, where it was.
    pub(super) then: Option<Asked>,
    /// What became of the body that the server had answered without, where it had and did not say that it would close.
    pub(super) unread: Option<Unread>,
}

/// What came before the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum First {
    /// `100`.
    Continue(Duration),
    /// A final response, and whether it says that the connection closes.
    Final { status: u16, after: Duration, closes: bool },
    /// Nothing, for so long.
    Nothing(Duration),
    /// The end of the connection, or no HTTP.
    Lost(String),
}

/// What became of a body that the server had answered without.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unread {
    /// The connection was closed, though the response had not said so.
    Closed,
    /// The next request was answered so.
    Responded(u16),
    /// The next request was answered by something that is no HTTP.
    Garbled(String),
    /// The next request was not answered.
    Nothing(Duration),
}

impl Held {
    /// Whether nothing came even once the body was sent.
    pub(super) fn is_stuck(&self) -> bool {
        self.then.as_ref().is_some_and(|then| then.silent)
    }
}

impl Asked {
    fn of(asked: String, response: &Response) -> Self {
        let after = response.head_at.unwrap_or(response.took);
        let words = match response.status() {
            Some(status) => format!("{status} after {}", time(after)),
            None => response.words(),
        };
        let silent = response.head.is_none() && response.outcome == Outcome::Silence;
        Self { asked, words, status: response.status(), hundreds: hundreds(response), silent, after }
    }

    pub(super) fn responded(&self) -> Option<Plain> {
        Some(Plain { status: self.status?, after: self.after })
    }
}

/// The request without the expectation, head and body together: what everything else is compared with.
pub(super) async fn plain(patient: &Patient) -> Result<Asked, Failure> {
    let ask = request(patient);
    let asked = described(&ask, "");
    whole(patient, &ask, asked).await
}

/// The request with an expectation that nobody knows.
pub(super) async fn other(patient: &Patient) -> Result<Asked, Failure> {
    let ask = request(patient).field("Expect", "keepwarm-check");
    let asked = described(&ask, ", Expect: keepwarm-check");
    whole(patient, &ask, asked).await
}

/// The request with the expectation, and no body.
pub(super) async fn empty(patient: &Patient) -> Result<Asked, Failure> {
    let ask = request(patient).body(b"").field("Expect", "100-continue");
    let asked = format!("{} with Expect: 100-continue and Content-Length: 0", ask.line());
    whole(patient, &ask, asked).await
}

async fn whole(patient: &Patient, ask: &Ask, asked: String) -> Result<Asked, Failure> {
    let mut line = patient.line().await?;
    let response = exchange(patient, &mut line, ask).await;
    Ok(Asked::of(asked, &response))
}

/// The same as HTTP/1.0, its body held back for a moment.
pub(super) async fn http10(patient: &Patient, expecting: bool) -> Result<Asked, Failure> {
    let (mut ask, note) = (request(patient).http10(), if expecting { EXPECTING } else { "" });
    if expecting {
        ask = ask.field("Expect", "100-continue");
    }
    let asked = described(&ask, note);
    let mut line = patient.line().await?;
    patient.budget.request().await;
    line.begin(&ask);
    let _ = line.send(&ask.head()).await;
    let before = line.read_response_until(HELD_HTTP10, any_word).await;
    if before.head.is_some() || before.outcome != Outcome::Silence {
        return Ok(Asked::of(asked, &before));
    }
    let _ = line.send(ask.content()).await;
    let mut all = Asked::of(asked, &head(patient, &mut line).await);
    all.hundreds += hundreds(&before);
    Ok(all)
}

const EXPECTING: &str = ", Expect: 100-continue";

/// The request with the expectation. The body is held back until something comes, or for longer than the request takes without the expectation.
pub(super) async fn held(patient: &Patient, plain: &Plain) -> Result<Held, Failure> {
    let ask = request(patient).field("Expect", "100-continue");
    let mut line = patient.line().await?;
    patient.budget.request().await;
    line.begin(&ask);
    // What a server says to half of a request counts, whether or not it takes all of it.
    let _ = line.send(&ask.head()).await;
    let before = line.read_response_until((HELD + plain.after).min(LONGEST), any_word).await;
    let first = first(&before);
    let mut held = Held {
        asked: described(&ask, EXPECTING),
        method: ask.method().to_owned(),
        hundreds: hundreds(&before),
        then: None,
        unread: None,
        first,
    };
    match &held.first {
        // Both at once: the body is not waited for.
        First::Continue(_) if before.head.is_some() => held.then = Some(Asked::of(String::new(), &before)),
        First::Continue(_) | First::Nothing(_) => {
            let _ = line.send(ask.content()).await;
            let then = Asked::of(String::new(), &head(patient, &mut line).await);
            held.hundreds += then.hundreds;
            held.then = Some(then);
        }
        First::Final { closes: false, .. } => {
            held.unread = Some(unread(patient, &mut line, &ask, before).await);
        }
        First::Final { .. } | First::Lost(_) => {}
    }
    Ok(held)
}

/// What becomes of the body of a request that is answered before it, and has no expectation.
pub(super) async fn unread_without(patient: &Patient) -> Option<Unread> {
    let ask = request(patient);
    let mut line = patient.line().await.ok()?;
    patient.budget.request().await;
    line.begin(&ask);
    let _ = line.send(&ask.bytes()).await;
    let response = head(patient, &mut line).await;
    match response.head.is_some() && !closes(&response) {
        true => {
            let ended = rest(patient, &mut line, response).await;
            Some(next(patient, &mut line, ended).await)
        }
        false => None,
    }
}

/// Reads the rest of the response, sends the body all the same, and asks again on that connection.
async fn unread(patient: &Patient, line: &mut Line, ask: &Ask, response: Response) -> Unread {
    let ended = rest(patient, line, response).await;
    if ended == Outcome::Complete {
        let _ = line.send(ask.content()).await;
    }
    next(patient, line, ended).await
}

/// How a response ends of which the head is known.
async fn rest(patient: &Patient, line: &mut Line, response: Response) -> Outcome {
    match response.outcome {
        Outcome::Silence => line.read_response(longest(patient)).await.outcome,
        ended => ended,
    }
}

/// Asks once more, after a response that ended so.
async fn next(patient: &Patient, line: &mut Line, ended: Outcome) -> Unread {
    match ended {
        Outcome::Complete => {}
        Outcome::Closed | Outcome::Reset => return Unread::Closed,
        _ => return Unread::Nothing(longest(patient)),
    }
    let response = exchange(patient, line, &patient.ask()).await;
    match (response.status(), &response.outcome) {
        (Some(status), _) => Unread::Responded(status),
        (None, Outcome::Silence) => Unread::Nothing(response.took),
        (None, Outcome::Malformed(fault)) => Unread::Garbled(fault.to_string()),
        (None, _) => Unread::Closed,
    }
}

fn first(response: &Response) -> First {
    let continued = response.informational.iter().find(|informational| informational.status == 100);
    match (continued, response.status(), &response.outcome) {
        (Some(continued), ..) => First::Continue(continued.at),
        (None, Some(status), _) => First::Final {
            status,
            after: response.head_at.unwrap_or(response.took),
            closes: closes(response),
        },
        (None, None, Outcome::Silence) => First::Nothing(response.took),
        (None, None, _) => First::Lost(response.words()),
    }
}

/// Whether the response says that the connection closes behind it, in any of the ways there are (RFC 9112 §9.3, §6.3).
fn closes(response: &Response) -> bool {
    use keepwarm_http1::{ResponseBody, Version};
    let Some(head) = &response.head else { return true };
    let old = head.version == Version::Http10 && !head.wants.keep_alive;
    old || head.wants.close || head.body == ResponseBody::UntilClose
}

async fn exchange(patient: &Patient, line: &mut Line, ask: &Ask) -> Response {
    patient.budget.request().await;
    line.begin(ask);
    let _ = line.send(&ask.bytes()).await;
    head(patient, line).await
}

/// Waits for the final head.
async fn head(patient: &Patient, line: &mut Line) -> Response {
    line.read_response_until(longest(patient), |response| response.head.is_some()).await
}

fn any_word(response: &Response) -> bool {
    response.head.is_some() || hundreds(response) > 0
}

fn hundreds(response: &Response) -> usize {
    response.informational.iter().filter(|informational| informational.status == 100).count()
}

fn longest(patient: &Patient) -> Duration {
    patient.settings.timeout.min(LONGEST)
}

/// `OPTIONS`, or `POST` where it is allowed, with a body.
fn request(patient: &Patient) -> Ask {
    let ask = match &patient.settings.post {
        Some(path) => patient.ask_by("POST").target(path),
        None => patient.ask_by("OPTIONS"),
    };
    let body = &patient.settings.body;
    ask.without("Expect").body(if body.is_empty() { BODY } else { body })
}

fn described(ask: &Ask, note: &str) -> String {
    format!("{} with a body of {} bytes{note}", ask.line(), ask.content().len())
}
