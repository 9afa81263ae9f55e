//! `persistence`: keep-alive and close of connections: does either side wait for the other, for how long, and is it announced?
//!
//! The stall it looks for: a response that is whole, a connection that neither side closes, and nothing in the response that says who will. A client of HTTP/1.0 that
//! did not request `keep-alive` waits for the close (RFC 9112 §9.3); `ab` without `-k` did so for five seconds a request. Its counterparts: an unannounced close
//! meets the client's next request (§9.6), and bytes after a response that has no body are taken for the next response (§6.3).
//!
//! One connection at a time, so that a server which serves one client after the other is not slowed by us and then blamed for it. A bad result is checked
//! again before it is reported.

mod bodiless;
mod close;
mod fixes;
mod http10;
mod idle;
mod keep_alive;
mod many;
mod pipelined;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use keepwarm_http1::{ResponseBody, ResponseHead};

use crate::client::{Connection, Failure, Outcome, Read, Request, Response};
use crate::context::ProbeContext;
use crate::finding::Finding;
use crate::report::time;

pub(super) use fixes::fix;

/// A close that was due comes at once; what takes longer than this waits for something.
const AT_ONCE: Duration = Duration::from_millis(250);

/// How long to wait for a close that was due: a bit longer than Envoy's delay, which is a second.
const PATIENCE: Duration = Duration::from_millis(1200);

/// The same with `--slow`: longer than the idle timeout of every server known.
pub(super) const SLOW_PATIENCE: Duration = Duration::from_secs(130);

/// How long a connection is watched between two requests: a server that closes after a response does it sooner.
const LOOK: Duration = Duration::from_millis(50);

/// When this much time is used up (the page is slow, or everything stalls), the rest is not asked.
const ENOUGH: Duration = Duration::from_secs(10);

/// Bytes: a page longer than this is not fetched where its head does as well.
const LARGE: u64 = 256 * 1024;

/// The checks that always run, in this order.
const ALL: [&str; 10] = [
    http10::PLAIN,
    http10::KEPT,
    http10::CHUNKED,
    keep_alive::REUSE,
    keep_alive::ANNOUNCED,
    close::ID,
    bodiless::HEAD,
    bodiless::NOT_MODIFIED,
    pipelined::ID,
    idle::ID,
];

pub(super) async fn examine(context: &ProbeContext) -> Vec<Finding> {
    let begun = Instant::now();
    let enough = ENOUGH + turns(context, 20);
    let tired = || begun.elapsed() > enough && !context.settings.slow;
    let keep_alive = keep_alive::examine(context).await;
    if let Some(why) = keep_alive.without_response {
        // Nothing to compare with. Two in a row, the second with all the time that a step may take: there will be nothing for the other probes either.
        if keep_alive.silent && is_silent(context).await {
            context.give_up();
        }
        return ALL.into_iter().map(|id| Finding::unknown(id, why.clone())).collect();
    }
    let mut findings = http10::examine(context).await;
    findings.extend(keep_alive.findings);
    let rest: [(&[&'static str], _); 4] = [
        (&[close::ID], Step::Close),
        (&[bodiless::HEAD, bodiless::NOT_MODIFIED], Step::Bodiless),
        (&[pipelined::ID], Step::Pipelined),
        (&[idle::ID], Step::Idle),
    ];
    for (ids, step) in rest {
        if tired() {
            findings.extend(ids.iter().map(|&id| Finding::unknown(id, not_asked(context))));
            continue;
        }
        if keep_alive.stalls && ids.contains(&pipelined::ID) {
            findings.push(Finding::unknown(
                pipelined::ID,
                "the server accepts no second request on a connection",
            ));
            continue;
        }
        findings.extend(match step {
            Step::Close => close::examine(context).await,
            Step::Bodiless => bodiless::examine(context).await,
            Step::Pipelined => vec![pipelined::examine(context).await],
            Step::Idle => vec![idle::examine(context, keep_alive.promised).await],
        });
    }
    if context.settings.slow {
        findings.push(many::examine(context).await);
    }
    findings
}

async fn is_silent(context: &ProbeContext) -> bool {
    let asked = context.once(&context.ordinary_request()).await;
    asked.is_ok_and(|(_, response)| response.outcome == Outcome::Silence)
}

#[derive(Clone, Copy)]
enum Step {
    Close,
    Bodiless,
    Pipelined,
    Idle,
}

/// The ordinary request; of a large page only its head, where all that counts is that there is a response.
pub(super) fn light(context: &ProbeContext) -> Request {
    match context.first.body_len > LARGE {
        true => context.request_by("HEAD"),
        false => context.ordinary_request(),
    }
}

/// How long this many requests wait for their turns: with a low `--rate` that is not a fault of the server.
pub(super) fn turns(context: &ProbeContext, requests: u32) -> Duration {
    Duration::from_secs(1) * requests / context.settings.rate.max(1)
}

/// Why something was not asked.
pub(super) fn not_asked(context: &ProbeContext) -> String {
    format!(
        "skipped: an ordinary response takes {}, and the time for this probe is used up",
        time(context.first.took)
    )
}

/// How long a response may take here: three times the first one's and a bit, so that what stalls is left soon.
pub(super) fn within(context: &ProbeContext) -> Duration {
    (context.first.took * 3 + Duration::from_secs(2)).min(context.settings.timeout)
}

/// How long to wait for a close.
fn patience(context: &ProbeContext) -> Duration {
    if context.settings.slow { SLOW_PATIENCE } else { PATIENCE }
}

/// The state of a connection after its last response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionState {
    /// The server closed or reset it, this long after the last byte of the response.
    Closed(Duration),
    /// It stayed open for this long.
    Open(Duration),
}

/// The result of some requests on one connection, sent one after the other.
#[derive(Debug, Clone)]
pub(super) struct Series {
    /// The request line.
    pub(super) asked: String,
    /// The responses; only the last can be incomplete.
    pub(super) responses: Vec<Response>,
    /// Bytes that came after the end of the last response.
    pub(super) behind: usize,
    /// The state of the connection after that.
    pub(super) state: ConnectionState,
    /// The time to open the connection.
    pub(super) opening: Duration,
}

impl Series {
    /// The last response.
    pub(super) fn last(&self) -> Option<&Response> {
        self.responses.last()
    }

    /// Whether the last response lets the connection live on (RFC 9112 §9.3).
    pub(super) fn is_kept(&self) -> bool {
        self.last().and_then(|response| response.head.as_ref()).is_some_and(ResponseHead::is_persistent)
    }
}

/// Sends these requests on one connection, as long as `goes_on` allows it by the response; a connection that does not continue is watched for `patience`.
pub(super) async fn series(
    context: &ProbeContext,
    asks: &[Request],
    goes_on: fn(&ResponseHead) -> bool,
    patience: Duration,
) -> Result<Series, Failure> {
    let mut connection = context.connect().await?;
    let mut series = Series {
        asked: asks.first().map(Request::line).unwrap_or_default(),
        responses: Vec::new(),
        behind: 0,
        state: ConnectionState::Open(Duration::ZERO),
        opening: connection.times.connect + connection.times.tls,
    };
    for request in asks {
        let response = context.exchange_within(&mut connection, request, within(context)).await;
        let complete = response.is_complete();
        let goes_on = response.head.as_ref().is_some_and(goes_on);
        series.state = unfinished(&response);
        series.responses.push(response);
        if !complete {
            break;
        }
        (series.state, series.behind) =
            watch(&mut connection, &series, if goes_on { LOOK } else { patience }).await;
        if !goes_on || series.behind > 0 || matches!(series.state, ConnectionState::Closed(_)) {
            break;
        }
    }
    Ok(series)
}

/// Asks where a close is due. Twice if it is not closed at once, for the machine may be busy: the quicker counts.
async fn quickest_close(
    context: &ProbeContext,
    asks: &[Request],
    patience: Duration,
) -> Result<Series, Failure> {
    let waited = |series: &Series| match series.state {
        ConnectionState::Closed(after) => after,
        ConnectionState::Open(_) => Duration::MAX,
    };
    let once = series(context, asks, |_| false, patience).await?;
    if waited(&once) <= at_once(context) || context.settings.slow || refuses_version(&once) {
        return Ok(once);
    }
    let again = series(context, asks, |_| false, patience).await?;
    Ok(if waited(&again) < waited(&once) { again } else { once })
}

/// Whether the version is what the response refuses.
fn refuses_version(series: &Series) -> bool {
    matches!(series.last().and_then(Response::status), Some(426 | 505))
}

/// A response that did not end: what that says of the connection.
fn unfinished(response: &Response) -> ConnectionState {
    let quiet = response.took.saturating_sub(response.reads.last().map_or(Duration::ZERO, |seen| seen.at));
    match response.outcome {
        Outcome::Closed | Outcome::Reset | Outcome::Complete => ConnectionState::Closed(quiet),
        _ => ConnectionState::Open(quiet),
    }
}

/// Watches a connection whose response is whole: the bytes after it, and whether it is closed.
async fn watch(connection: &mut Connection, series: &Series, within: Duration) -> (ConnectionState, usize) {
    // A response that the close ends: what counts is how long after its last byte that was.
    if let Some(response) = series.last().filter(|response| ends_by_close(response)) {
        return (unfinished(response), 0);
    }
    let begun = Instant::now();
    loop {
        match connection.read(within.saturating_sub(begun.elapsed())).await {
            // A flood is not read for long.
            Read::Bytes(_) if connection.left_over().len() < 64 * 1024 => {}
            Read::Bytes(_) | Read::Silence => {
                return (ConnectionState::Open(begun.elapsed()), connection.left_over().len());
            }
            Read::Closed | Read::Reset | Read::Broken(_) => {
                return (ConnectionState::Closed(begun.elapsed()), connection.left_over().len());
            }
        }
    }
}

/// Whether only the close says where the response's body ends.
fn ends_by_close(response: &Response) -> bool {
    response.head.as_ref().is_some_and(|head| head.body == ResponseBody::UntilClose)
}

/// The longest silence within a response: an application that pauses may pause before the end, too.
fn longest_pause(response: &Response) -> Duration {
    response.reads.windows(2).fold(Duration::ZERO, |longest, pair| match pair {
        [one, next] => longest.max(next.at.saturating_sub(one.at)),
        _ => longest,
    })
}

/// A prompt close for this server: it may take as long as anything in its ordinary response did.
fn at_once(context: &ProbeContext) -> Duration {
    AT_ONCE + longest_pause(&context.first) * 2
}
