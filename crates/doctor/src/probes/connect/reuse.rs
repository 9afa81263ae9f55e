//! Calls on new connections, calls on a kept one, and the difference.

use std::time::Duration;

use keepwarm_http1::Version;
use keepwarm_net::thread_time;

use super::{bytes, median};
use crate::client::{Connection, Failure, Outcome, Request, Response, client_config};
use crate::context::ProbeContext;
use crate::finding::Finding;
use crate::report::time;

const ID: &str = "connect.reuse";

/// Calls of each kind.
const SAMPLES: usize = 5;
/// Responses that take this long get fewer calls, and those that take five times as long get one.
pub(super) const SLOW: Duration = Duration::from_millis(200);
const FEWER: usize = 2;

/// A client that connects in less than this loses next to nothing by it: the server is on this machine, or in the same rack.
const NEAR: Duration = Duration::from_millis(1);

/// The calls that were made.
#[derive(Debug)]
pub(super) struct Calls {
    pub(super) encrypted: bool,
    /// A socket of this machine, without TCP.
    pub(super) local: bool,
    pub(super) fresh: Vec<NewConnectionCall>,
    /// How long the responses took on a connection that was there.
    pub(super) kept: Vec<Duration>,
    pub(super) reuse: Reuse,
}

/// A call on a new connection.
#[derive(Debug, Clone, Default)]
pub(super) struct NewConnectionCall {
    pub(super) connect: Duration,
    pub(super) tls: Duration,
    pub(super) response: Duration,
    /// Our processor time, for connecting.
    pub(super) cpu: Duration,
    /// Bytes that the server sent for the handshake.
    pub(super) handshake: u64,
}

/// Whether a connection carries a second request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reuse {
    /// It does.
    Kept,
    /// The server closes after each response, and how that shows.
    Never(String),
    /// It closes only after the ordinary response, which has no length; another is kept.
    NotHere(String),
    /// Not known, and why.
    Unclear(String),
}

pub(super) async fn ask(context: &ProbeContext) -> Calls {
    let mut calls = Calls {
        encrypted: context.target.is_encrypted(),
        local: context.target.socket.is_some(),
        fresh: Vec::new(),
        kept: Vec::new(),
        reuse: Reuse::Unclear("no request was sent".to_owned()),
    };
    let samples = match context.first.took {
        quick if quick < SLOW => SAMPLES,
        slow if slow < SLOW * 5 => FEWER,
        _ => 1,
    };
    for sample in 0..samples {
        let connection = match fresh_line(context).await {
            Ok((connection, fresh)) => (connection, fresh),
            Err(failure) => {
                calls.reuse = Reuse::Unclear(failure.to_string());
                break;
            }
        };
        let (mut connection, mut fresh) = connection;
        let request = context.ordinary_request();
        let response = context.exchange(&mut connection, &request).await;
        if !response.is_complete() {
            calls.reuse = Reuse::Unclear(format!("{}: {}", request.line(), response.words()));
            break;
        }
        fresh.response = response.took;
        calls.fresh.push(fresh);
        // A result of the first connection counts when a second one shows it, too.
        if calls.kept.is_empty() && sample < FEWER {
            calls.reuse = again(context, &mut connection, &response, samples, &mut calls.kept).await;
        }
    }
    if let (Reuse::Never(how), Some(status @ 400..)) = (&calls.reuse, context.first.status()) {
        // Some servers close behind whatever went wrong, and keep the connection otherwise.
        calls.reuse = Reuse::Unclear(format!(
            "a response with {status} closes its connection ({how}); a path with a successful response may not"
        ));
    }
    if let Reuse::Never(how) = &calls.reuse
        && context.ordinary_request().method() != "HEAD"
        && bare_is_kept(context).await
    {
        calls.reuse = Reuse::NotHere(how.clone());
    }
    calls
}

/// A connection of a client without any earlier one: it has no session to resume.
async fn fresh_line(context: &ProbeContext) -> Result<(Connection, NewConnectionCall), Failure> {
    let config = match &context.tls_settings {
        Some(tls_settings) => Some(client_config(tls_settings)?),
        None => None,
    };
    let before = thread_time();
    let connection = context.connect_with(config).await?;
    let fresh = NewConnectionCall {
        connect: connection.times.connect,
        tls: connection.times.tls,
        response: Duration::ZERO,
        cpu: thread_time().saturating_sub(before),
        handshake: connection.handshake.as_ref().map_or(0, |handshake| handshake.received as u64),
    };
    Ok((connection, fresh))
}

/// Asks again on the same connection.
async fn again(
    context: &ProbeContext,
    connection: &mut Connection,
    first: &Response,
    samples: usize,
    kept: &mut Vec<Duration>,
) -> Reuse {
    if let Some(how) = announced(first) {
        return Reuse::Never(how);
    }
    let patience = context.settings.timeout.min(Duration::from_secs(2) + first.took * 4);
    for _ in 0..samples {
        let response = context.exchange_within(connection, &context.ordinary_request(), patience).await;
        if !response.is_complete() {
            if !kept.is_empty() {
                break;
            }
            return match response.outcome {
                Outcome::Closed | Outcome::Reset if response.head.is_none() => {
                    Reuse::Never("closed without announcement: the second request got no response".to_owned())
                }
                _ => Reuse::Unclear(format!("a second request on the connection: {}", response.words())),
            };
        }
        kept.push(response.took);
        if announced(&response).is_some() {
            break;
        }
    }
    Reuse::Kept
}

/// How a response announces that it is the last on its connection.
fn announced(response: &Response) -> Option<String> {
    let head = response.head.as_ref()?;
    match response.field("connection") {
        Some(field) if !head.is_persistent() => Some(format!("Connection: {field}")),
        None if !head.is_persistent() && head.version == Version::Http10 => {
            Some("an HTTP/1.0 response without Connection: keep-alive".to_owned())
        }
        _ if !head.is_persistent() => Some("a response without a length".to_owned()),
        _ => None,
    }
}

/// Whether a connection is kept after a response that has no body.
async fn bare_is_kept(context: &ProbeContext) -> bool {
    let request: Request = context.request_by("HEAD");
    let Ok((mut connection, first)) = context.once(&request).await else { return false };
    if !first.is_complete() || announced(&first).is_some() {
        return false;
    }
    context.exchange_within(&mut connection, &request, context.settings.timeout).await.is_complete()
}

/// Without TLS a server that closes costs a round trip, which matters only to those far away; with TLS it has every call pay for a handshake.
pub(super) fn judge(calls: &Calls) -> Finding {
    let evidence = measured(calls);
    let near = calls.fresh.iter().map(|fresh| fresh.connect).min().unwrap_or_default() < NEAR;
    match &calls.reuse {
        Reuse::Unclear(why) => Finding::unknown(ID, why.clone()),
        Reuse::Kept => Finding::good(ID, evidence).costs(format!("a persistent connection saves {}", saving(calls))),
        Reuse::Never(how) if calls.encrypted => {
            Finding::bad(ID, format!("every response closes its connection ({how}); {evidence}"))
                .costs(format!("each request costs {}", saving(calls)))
        }
        Reuse::NotHere(how) if calls.encrypted || !near => {
            Finding::warning(ID, format!("this response closes its connection ({how}), others do not; {evidence}"))
                .costs(format!("each request costs {}", saving(calls)))
        }
        Reuse::Never(how) if !near => {
            Finding::warning(ID, format!("every response closes its connection ({how}); {evidence}"))
                .costs(format!("each request costs {}", saving(calls)))
        }
        Reuse::Never(how) | Reuse::NotHere(how) => Finding::good(
            ID,
            format!("each response closes its connection ({how}), which costs little at this distance without TLS; {evidence}"),
        )
        .costs(format!("each request costs {}", saving(calls))),
    }
}

fn measured(calls: &Calls) -> String {
    let of = |part: fn(&NewConnectionCall) -> Duration| median(calls.fresh.iter().map(part));
    let whole = of(|fresh| fresh.connect + fresh.tls + fresh.response);
    let tls = match calls.encrypted {
        true => format!(", TLS {}", time(of(|fresh| fresh.tls))),
        false => String::new(),
    };
    let how = if calls.local { "connecting" } else { "TCP" };
    let kept = match calls.kept.is_empty() {
        true => String::new(),
        false => format!(", {} on a persistent one", time(median(calls.kept.iter().copied()))),
    };
    let of_how_many = match calls.fresh.len() {
        1 => "once".to_owned(),
        several => format!("medians of {several}"),
    };
    format!(
        "a request takes {} on a new connection ({how} {}{tls}, response {}){kept} ({of_how_many})",
        time(whole),
        time(of(|fresh| fresh.connect)),
        time(of(|fresh| fresh.response)),
    )
}

/// The time of connecting, for one call and for 1, 10 and 1,000 a second.
fn saving(calls: &Calls) -> String {
    let wait = median(calls.fresh.iter().map(|fresh| fresh.connect + fresh.tls));
    let rates = |of: &dyn Fn(u32) -> String| [1, 10, 1000].map(of).join(", ");
    let mut words = format!(
        "{} of waiting: at 1, 10 and 1,000 requests/s, {} in each second",
        time(wait),
        rates(&|rate| time(wait * rate)),
    );
    if calls.encrypted {
        let handshake = median(calls.fresh.iter().map(|fresh| fresh.handshake));
        let cpu = median(calls.fresh.iter().map(|fresh| fresh.cpu));
        let sent = rates(&|rate| bytes(handshake * u64::from(rate)));
        let spent = rates(&|rate| time(cpu * rate));
        words = format!("{words}, {sent} of certificates and keys, {spent} of the client's CPU time");
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict::{self, Bad, Good, Unknown, Warning};

    fn calls(encrypted: bool, connect: u64, reuse: Reuse) -> Calls {
        let ms = Duration::from_millis;
        let tls = if encrypted { ms(30) } else { Duration::ZERO };
        let fresh = NewConnectionCall {
            connect: Duration::from_micros(connect),
            tls,
            response: ms(2),
            cpu: Duration::from_micros(900),
            handshake: 2100,
        };
        Calls { encrypted, local: false, fresh: vec![fresh; 5], kept: vec![ms(2); 5], reuse }
    }

    #[test]
    fn with_tls_a_close_is_bad_and_in_clear_the_distance_decides() {
        let never = || Reuse::Never("Connection: close".to_owned());
        let not_here = || Reuse::NotHere("a response without a length".to_owned());
        for (encrypted, connect, reuse, verdict) in [
            (true, 100, Reuse::Kept, Good),
            (false, 100, Reuse::Kept, Good),
            (true, 100, never(), Bad),
            (true, 20_000, never(), Bad),
            (true, 100, not_here(), Warning),
            (false, 100, never(), Good),
            (false, 20_000, never(), Warning),
            (false, 100, not_here(), Good),
            (false, 20_000, not_here(), Warning),
            (true, 100, Reuse::Unclear("broken".to_owned()), Unknown),
        ] {
            let finding = judge(&calls(encrypted, connect, reuse));
            assert_eq!((finding.id, finding.verdict), (ID, verdict as Verdict), "{}", finding.evidence);
        }
    }

    #[test]
    fn the_cost_is_in_figures() {
        let finding = judge(&calls(true, 10_000, Reuse::Kept));
        assert_eq!(
            finding.evidence,
            "a request takes 42.0 ms on a new connection (TCP 10.0 ms, TLS 30.0 ms, response 2.00 ms), 2.00 ms on a persistent one (medians of 5)"
        );
        assert_eq!(
            finding.cost.unwrap(),
            "a persistent connection saves 40.0 ms of waiting: at 1, 10 and 1,000 requests/s, 40.0 ms, 400 ms, 40.00 s in each second, \
             2.1 kB, 21.0 kB, 2.1 MB of certificates and keys, 0.90 ms, 9.00 ms, 900 ms of the client's CPU time"
        );
    }
}
