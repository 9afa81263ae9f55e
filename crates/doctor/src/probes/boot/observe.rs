//! Asking for several things in turns, and taking the time of each.

use std::time::{Duration, Instant};

use crate::client::{Acks, Connection, Request, Response};
use crate::context::ProbeContext;

/// Rounds, each of which requests everything once.
const ROUNDS: usize = 8;

/// This many rounds are enough after this time: few where a round takes some hundred milliseconds, fewer where it takes more.
const ENOUGH: (Duration, usize) = (Duration::from_millis(1500), 4);
const TOO_MUCH: (Duration, usize) = (Duration::from_secs(3), 2);

/// Larger responses, and those that come in parts for longer, are read only at the beginning.
const LARGE: u64 = 64 * 1024;
const LONG: Duration = Duration::from_millis(100);

/// A path that no server has, and one that many servers have as a file.
const MISSING: &str = "/keepwarm-check-no-such-path";
const FILE: &str = "/robots.txt";

/// Fields that an application says, and a server in front of it does not.
const MARKS: &[&str] = &["x-powered-by", "x-runtime", "x-generator", "x-debug-token", "x-aspnet-version"];

/// Header fields that PHP sends unless configured otherwise.
const PHP: &[(&str, &str)] = &[("x-powered-by", "php"), ("set-cookie", "phpsessid")];

/// Fields that show a cache or a proxy in front, which may be far from the application.
const HOPS: &[&str] = &["via", "age", "x-cache", "x-served-by", "cf-ray", "x-amz-cf-id", "x-varnish"];

/// The measurements for the rules of this probe.
#[derive(Debug, Default)]
pub(super) struct BootObservation {
    /// The least time a connection took: a round trip.
    pub(super) network: Duration,
    /// How long the very first response took to begin.
    pub(super) first: Duration,
    /// The page first.
    pub(super) kinds: Vec<Samples>,
    /// Whether the page says that PHP made it.
    pub(super) php: bool,
    /// A field that shows a cache or a proxy in front.
    pub(super) hop: Option<String>,
    /// Why there is not more.
    pub(super) failure: Option<String>,
}

/// The responses to one kind of request.
#[derive(Debug, Clone)]
pub(super) struct Samples {
    /// The request.
    pub(super) asked: String,
    /// Which question it is.
    pub(super) question: BootRequest,
    /// The status of the first; responses with another do not count.
    pub(super) status: u16,
    /// Whether it bears a mark of the application that made the page.
    pub(super) by_app: bool,
    /// The length of the body, if it was read to its end.
    pub(super) length: Option<u64>,
    /// How long each took to begin, the least first.
    pub(super) times: Vec<Duration>,
}

/// A kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BootRequest {
    /// The page that is examined.
    Page,
    /// A path that no server has.
    Missing,
    /// The methods of the page.
    Options,
    /// The page's head.
    Head,
    /// A file.
    File,
}

/// Asks.
pub(super) async fn observe(context: &ProbeContext) -> BootObservation {
    let mut seen = BootObservation {
        network: Duration::MAX,
        first: begins(&context.first).unwrap_or(context.first.took),
        php: PHP.iter().any(|(name, part)| {
            context.first.field(name).is_some_and(|value| value.to_ascii_lowercase().contains(part))
        }),
        hop: HOPS.iter().find_map(|name| Some(format!("{name}: {}", context.first.field(name)?))),
        ..BootObservation::default()
    };
    let mut asks = asks(context);
    let mut open = None;
    let begun = Instant::now();
    for round in 0..ROUNDS {
        if [ENOUGH, TOO_MUCH].iter().any(|(after, rounds)| begun.elapsed() > *after && round >= *rounds) {
            break;
        }
        let mut silent = Vec::new();
        for (question, request) in &asks {
            let Some(response) = read_response(context, &mut open, request, &mut seen).await else {
                if *question == BootRequest::Page {
                    return seen.sorted();
                }
                silent.push(*question);
                continue;
            };
            note(&mut seen, context, *question, request, &response);
        }
        // A request that got no response once is not repeated.
        asks.retain(|(question, _)| !silent.contains(question));
    }
    seen.sorted()
}

impl BootObservation {
    fn sorted(mut self) -> Self {
        self.kinds.iter_mut().for_each(|kind| kind.times.sort_unstable());
        self
    }
}

fn asks(context: &ProbeContext) -> Vec<(BootRequest, Request)> {
    let all = [
        (BootRequest::Page, context.ordinary_request()),
        (BootRequest::Missing, context.request_by("GET").target(MISSING)),
        (BootRequest::Options, context.request_by("OPTIONS")),
        (BootRequest::Head, context.request_by("HEAD")),
        (BootRequest::File, context.request_by("GET").target(FILE)),
    ];
    // Where a response takes a second the first three say enough.
    let slow = context.first.took > Duration::from_secs(1);
    all.into_iter().take(if slow { 3 } else { 5 }).collect()
}

/// Asks on the connection that is open, or on a new one; once more where a kept one had been closed meanwhile.
async fn read_response(
    context: &ProbeContext,
    open: &mut Option<Connection>,
    request: &Request,
    seen: &mut BootObservation,
) -> Option<Response> {
    let patience = context.settings.timeout.min(Duration::from_secs(1).max(context.first.took * 3));
    // The head is enough where the page is long, or takes long to come.
    let first = &context.first;
    let heavy = first.body_len > LARGE || first.took > begins(first).unwrap_or_default() + LONG;
    for _ in 0..2 {
        let (mut connection, kept) = match open.take() {
            Some(connection) => (connection, true),
            None => match context.connect().await {
                Ok(connection) => (connection, false),
                Err(failure) => {
                    seen.failure = Some(failure.to_string());
                    return None;
                }
            },
        };
        seen.network = seen.network.min(connection.times.connect);
        // A head in pieces must not wait for us.
        connection.acknowledge(Acks::AtOnce);
        context.send_request(&mut connection, request).await;
        let enough = |response: &Response| heavy && response.head.is_some();
        let response = context.read_response_until(&mut connection, patience, enough).await;
        let Some(head) = &response.head else {
            if kept && response.reads.is_empty() && response.took < patience {
                continue;
            }
            return None;
        };
        if response.is_complete() && head.is_persistent() && connection.left_over().is_empty() {
            *open = Some(connection);
        }
        return Some(response);
    }
    None
}

fn note(
    seen: &mut BootObservation,
    context: &ProbeContext,
    question: BootRequest,
    request: &Request,
    response: &Response,
) {
    let (Some(status), Some(begins)) = (response.status(), begins(response)) else { return };
    match seen.kinds.iter_mut().find(|kind| kind.question == question) {
        Some(kind) if kind.status == status => kind.times.push(begins),
        Some(_) => {}
        None => seen.kinds.push(Samples {
            asked: request.line().trim_end_matches(" HTTP/1.1").to_owned(),
            question,
            status,
            by_app: MARKS
                .iter()
                .any(|mark| response.field(mark).is_some() && context.first.field(mark).is_some()),
            length: response.is_complete().then_some(response.body_len),
            times: vec![begins],
        }),
    }
}

/// When the final response began. A 1xx response says nothing about it.
fn begins(response: &Response) -> Option<Duration> {
    match response.informational.is_empty() {
        true => response.first_byte(),
        false => response.head_at,
    }
}
