//! Sends requests, and counts the segments received.

use std::time::{Duration, Instant};

use keepwarm_http1::ResponseBody;

use super::rules;
use crate::client::{Acks, Connection, Failure, Read, Request, Response, client_config};
use crate::context::ProbeContext;

/// New connections to send requests on.
const FRESH: usize = 3;

/// Responses of each kind on a kept connection: enough for a median that one interruption does not move.
const KEPT: usize = 5;

/// Responses to HEAD.
const HEADS: usize = 3;

/// A page that is larger, or slower, is requested no more than needed: an error response of the same server stands in for it.
const LARGE: u64 = 64 * 1024;
const SLOW: Duration = Duration::from_millis(300);

/// After this no more than the least is asked.
const ENOUGH: Duration = Duration::from_millis(1500);

/// How long a response on a new connection is polled without sleeping, so that its segments are read one by one.
const WATCHED: Duration = Duration::from_millis(15);

/// Bytes that fit one segment on any path: IPv6's least of 1,280 bytes, less 60 of headers and some options.
pub(super) const ROOM: usize = 1200;

/// Tickets that servers send, each in a segment at most.
const TICKETS: u32 = 2;

/// Bytes that belong to no response come within this, if the server wrote them with the response.
const SETTLE: Duration = Duration::from_millis(4);

/// A path that no server has.
pub(super) const MISSING: &str = "/keepwarm-check-no-such-path";

/// The measurements for the rules of this probe.
#[derive(Debug, Default)]
pub(super) struct WriteObservation {
    /// The request line.
    pub(super) asked: String,
    /// On new connections.
    pub(super) fresh: Vec<Sample>,
    /// On a kept connection, acknowledged late.
    pub(super) late: Vec<Sample>,
    /// On the same, acknowledged at once.
    pub(super) at_once: Vec<Sample>,
    /// On new connections with TLS, acknowledged as usual: where those of `fresh` took so long that they may have waited for that.
    pub(super) usual: Vec<Sample>,
    /// On others, acknowledged at once.
    pub(super) prompt: Vec<Sample>,
    /// Whether the connections are encrypted.
    pub(super) encrypted: bool,
    /// Responses to HEAD.
    pub(super) heads: Vec<Sample>,
    /// Why there is not more.
    pub(super) failure: Option<String>,
}

/// One response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sample {
    /// Bytes, head and body.
    pub(super) bytes: usize,
    /// The head's bytes, give or take the reason phrase.
    pub(super) head: usize,
    /// The head's lines, with the status line.
    pub(super) lines: usize,
    /// How the body ends.
    pub(super) body: BodyEnd,
    /// Segments with data, without those of 1xx responses; nothing where the kernel does not tell, or counted others with them.
    pub(super) segments: Option<u32>,
    /// The least they were, where tickets of TLS came among them.
    pub(super) at_least: Option<u32>,
    /// The largest segment that came on this connection, if it was larger than the 536 bytes that are taken for granted.
    pub(super) largest: usize,
    /// Reads that brought bytes.
    pub(super) reads: usize,
    /// Those until the head was whole.
    pub(super) head_reads: usize,
    /// The longest pause between two reads.
    pub(super) pause: Duration,
    /// From the request to the end of the response.
    pub(super) took: Duration,
    /// Whether something came after the response.
    pub(super) more: bool,
}

impl Sample {
    /// Bytes that a segment of this connection holds at least.
    pub(super) fn room(&self) -> usize {
        self.largest.max(ROOM)
    }
}

/// How a body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyEnd {
    /// There is none.
    None,
    /// At an announced length.
    Length,
    /// With the last chunk.
    Chunked,
    /// With the connection.
    Close,
}

/// Asks.
pub(super) async fn observe(context: &ProbeContext) -> WriteObservation {
    let begun = Instant::now();
    let (request, head) = subject(context).await;
    let mut seen = WriteObservation {
        asked: request.line(),
        encrypted: context.target.is_encrypted(),
        ..WriteObservation::default()
    };
    for _ in 0..FRESH {
        let one = match connect_anew(context).await {
            Ok(mut line) => sample(context, &mut line, &request, true).await,
            Err(failure) => {
                seen.failure = Some(failure.to_string());
                None
            }
        };
        // A server that no longer responds is not waited for again.
        let Some((one, _)) = one else { return seen };
        seen.fresh.push(one);
        if begun.elapsed() > ENOUGH {
            break;
        }
    }
    kept(context, &request, begun, &mut seen).await;
    if rules::may_wait_for_tickets(&seen) {
        tickets(context, &request, &mut seen).await;
    }
    heads(context, &head, begun, &mut seen).await;
    seen
}

/// A connection of a client without any earlier one: most programs resume no session, and a server sends more tickets then.
async fn connect_anew(context: &ProbeContext) -> Result<Connection, Failure> {
    match &context.tls_settings {
        Some(tls_settings) => context.connect_with(Some(client_config(tls_settings)?)).await,
        None => context.connect().await,
    }
}

/// The page, or an error response of the same server if the page is large or slow, and the error is not; and its head alone.
async fn subject(context: &ProbeContext) -> (Request, Request) {
    let page = context.ordinary_request();
    let head = context.request_by("HEAD");
    let heavy =
        |response: &Response| response.body_len > LARGE || response.took > SLOW || !response.is_complete();
    if !heavy(&context.first) {
        return (page, head);
    }
    let missing = context.request_by("GET").target(MISSING);
    match context.once(&missing).await {
        Ok((_, response)) if !heavy(&response) => (missing, head.target(MISSING)),
        _ if context.first.body_len > LARGE => (head.clone(), head),
        _ => (page, head),
    }
}

/// Acknowledges late and at once, in turns, on one connection.
async fn kept(context: &ProbeContext, request: &Request, begun: Instant, seen: &mut WriteObservation) {
    let mut connection = match context.connect().await {
        Ok(connection) => connection,
        Err(failure) => {
            seen.failure = Some(failure.to_string());
            return;
        }
    };
    // The first response warms the connection, and tells whether it is kept.
    let Some((_, true)) = sample(context, &mut connection, request, true).await else { return };
    for turn in 0..KEPT {
        if turn >= 2 && begun.elapsed() > ENOUGH {
            return;
        }
        for acks in [Acks::Late, Acks::AtOnce] {
            connection.acknowledge(acks);
            let Some((one, keeps)) = sample(context, &mut connection, request, false).await else { return };
            match acks {
                Acks::Late => seen.late.push(one),
                _ => seen.at_once.push(one),
            }
            if !keeps {
                return;
            }
        }
    }
}

/// Acknowledges the tickets of TLS, which come before the first response of a connection, as usual and at once, in turns.
async fn tickets(context: &ProbeContext, request: &Request, seen: &mut WriteObservation) {
    for _ in 0..FRESH {
        for acks in [Acks::AsUsual, Acks::AtOnce] {
            let Ok(mut connection) = connect_anew(context).await else { return };
            connection.acknowledge(acks);
            let Some((one, _)) = sample(context, &mut connection, request, true).await else { return };
            match acks {
                Acks::AtOnce => seen.prompt.push(one),
                _ => seen.usual.push(one),
            }
        }
    }
}

/// Asks for heads alone, on connections of their own: what a server sends with them in error would be counted with the next response.
async fn heads(context: &ProbeContext, request: &Request, begun: Instant, seen: &mut WriteObservation) {
    let mut open: Option<Connection> = None;
    for turn in 0..HEADS {
        if turn >= 1 && begun.elapsed() > ENOUGH {
            return;
        }
        let first = open.is_none();
        let mut connection = match open.take() {
            Some(connection) => connection,
            None => match context.connect().await {
                Ok(connection) => connection,
                Err(failure) => {
                    seen.failure = Some(failure.to_string());
                    return;
                }
            },
        };
        connection.acknowledge(Acks::AtOnce);
        let Some((one, keeps)) = sample(context, &mut connection, request, first).await else { return };
        seen.heads.push(one);
        if keeps {
            open = Some(connection);
        }
    }
}

/// Sends a request, and counts; with whether the connection can be used again. `None` if no whole response came.
async fn sample(
    context: &ProbeContext,
    connection: &mut Connection,
    request: &Request,
    first: bool,
) -> Option<(Sample, bool)> {
    let patience = context.settings.timeout.min(Duration::from_secs(2).max(context.first.took * 3));
    let before = connection.facts();
    context.send_request(connection, request).await;
    let sent = Instant::now();
    let watched = if first { watch(connection).await } else { 0 };
    let response = context.read_response_until(connection, patience, |_| false).await;
    let (took, after) = (sent.elapsed(), connection.facts());
    let head = response.head.as_ref().filter(|_| response.is_complete())?;
    let behind = !connection.left_over().is_empty();
    let keeps = head.is_persistent();
    let more = behind || matches!(connection.read(SETTLE).await, Read::Bytes(_));
    let counted = before.zip(after).map(|(before, after)| {
        let all = after.data_segments_in.wrapping_sub(before.data_segments_in);
        all.saturating_sub(response.informational.len() as u32).max(1)
    });
    // Tickets of TLS come with the first response.
    let mixed = first && connection.handshake.is_some();
    let head_len = head.fields.iter().map(|(name, value)| name.len() + value.len() + 4).sum::<usize>() + 19;
    let one = Sample {
        bytes: head_len + response.body_len as usize,
        head: head_len,
        lines: head.fields.len() + 1,
        body: match head.body {
            ResponseBody::Length(_) => BodyEnd::Length,
            ResponseBody::Chunked => BodyEnd::Chunked,
            ResponseBody::UntilClose => BodyEnd::Close,
            _ => BodyEnd::None,
        },
        segments: counted.filter(|_| !mixed),
        at_least: counted.filter(|_| mixed).map(|count| count.saturating_sub(TICKETS).max(1)),
        largest: after.map_or(0, |facts| facts.receive_mss as usize),
        reads: watched + response.reads.len(),
        head_reads: head_reads(watched, &response),
        pause: pause(&response),
        took,
        more,
    };
    Some((one, keeps && !more))
}

/// Reads what comes, segment by segment where it can, until a head is whole; says in how many reads.
async fn watch(connection: &mut Connection) -> usize {
    let (mut reads, begun) = (0, Instant::now());
    while begun.elapsed() < WATCHED && !connection.left_over().windows(4).any(|four| four == b"\r\n\r\n") {
        match connection.read(Duration::ZERO).await {
            Read::Bytes(_) => reads += 1,
            Read::Silence => tokio::task::yield_now().await,
            _ => break,
        }
    }
    reads
}

/// Reads until the head was whole. After 1xx responses it is not known which read belongs to which response.
fn head_reads(watched: usize, response: &Response) -> usize {
    let whole = response.head_at.unwrap_or_default();
    match response.informational.is_empty() {
        true => (watched + response.reads.iter().filter(|read| read.at <= whole).count()).max(1),
        false => 1,
    }
}

fn pause(response: &Response) -> Duration {
    let pauses = response.reads.windows(2).filter_map(|pair| match pair {
        [earlier, later] => Some(later.at.saturating_sub(earlier.at)),
        _ => None,
    });
    pauses.max().unwrap_or_default()
}
