//! `health`: health checks of load balancers.
//!
//! A balancer takes a server out by a request of its own, which is unlike a browser's: HTTP/1.0 without `Host`, `OPTIONS`, the name of a cluster or an
//! address as `Host`, over TLS no server name (SNI), one second of patience. A healthy server that responds to such a check with an error, late or in pieces is marked down. In 2011 HAProxy
//! read the response once, and of a response written field by field it saw the first line alone. (RFC 9110 §3.1 and RFC 9112 §3.2: HTTP/1.0 needs no `Host`.)

mod checkers;
mod rules;
#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::client::{Connection, Failure, Outcome, Read, Response, nameless_client_config};
use crate::context::ProbeContext;
use crate::finding::{Finding, Verdict};
use crate::server::Server;
use checkers::{CheckResult, Checker};

/// How long Kubernetes waits, and most others no longer.
const PATIENCE: Duration = Duration::from_secs(1);

/// A checker that reads once is tried so often: what it sees is a matter of chance.
const READS: usize = 3;

pub(super) async fn examine(context: &ProbeContext) -> Vec<Finding> {
    let mut usual = rules::OrdinaryResponse::of(&context.first);
    let mut findings = Vec::new();
    for checker in Checker::ALL {
        match judged(context, checker, usual).await {
            Some((finding, status)) => {
                findings.push(finding);
                if checker == Checker::Nginx {
                    usual.elsewhere = status;
                }
            }
            None => {
                // The server has another fault: nothing more can be learnt about checks.
                let words = "an ordinary request gets no response at present, either";
                findings.push(Finding::unknown(checker.id(), words));
                return findings;
            }
        }
    }
    findings.push(one_read(context).await);
    findings
}

/// A check, and the status it got; one that is not good is repeated before it is reported. `None` if the server responds to no request now.
async fn judged(
    context: &ProbeContext,
    checker: Checker,
    usual: rules::OrdinaryResponse,
) -> Option<(Finding, Option<u16>)> {
    let mut seen = checked(context, checker).await;
    let mut finding = rules::check(checker, &seen, usual, context.authority().as_str());
    if finding.verdict > Verdict::Unknown {
        seen = checked(context, checker).await;
        finding = rules::check(checker, &seen, usual, context.authority().as_str());
    }
    let without_response = finding.verdict == Verdict::Bad && seen.status.is_none();
    match without_response && !still_responds(context).await {
        true => None,
        false => Some((finding, seen.status)),
    }
}

/// Whether an ordinary request gets its response now, within the timeout of a check.
async fn still_responds(context: &ProbeContext) -> bool {
    let Ok(mut connection) = context.connect().await else { return false };
    let request = context.ordinary_request();
    context.budget.request().await;
    connection.begin(&request);
    let _ = connection.send(&request.bytes()).await;
    connection.read_response_until(PATIENCE, |response| response.head.is_some()).await.head.is_some()
}

async fn checked(context: &ProbeContext, checker: Checker) -> CheckResult {
    let request = checker.ask(context);
    let within = context.settings.timeout.min(PATIENCE);
    let host = checker.host(context);
    let mut seen =
        CheckResult { asked: checker.shown(&request, host.as_deref()), host, ..CheckResult::default() };
    let mut connection = match connect(context, checker).await {
        Ok(connection) => connection,
        Err(failure) => {
            seen.failure = Some(match failure {
                Failure::Tls(_) if !checker.names_server() => {
                    format!(
                        "{}: {failure}; unless configured, this check sends no server name (SNI)",
                        seen.asked
                    )
                }
                failure => failure.to_string(),
            });
            return seen;
        }
    };
    for turn in 0..checker.turns() {
        context.budget.request().await;
        connection.begin(&request);
        let _ = connection.send(&request.bytes()).await;
        let response = connection.read_response_until(within, |response| response.head.is_some()).await;
        match turn {
            0 => seen.first(&response),
            _ => seen.again(&response),
        }
        if turn + 1 == checker.turns() || !keeps(&response) {
            break;
        }
        let rest = match response.outcome {
            Outcome::Silence => connection.read_response(within).await.outcome,
            ended => ended,
        };
        if rest != Outcome::Complete {
            break;
        }
    }
    seen
}

/// A connection as the checker opens it.
async fn connect(context: &ProbeContext, checker: Checker) -> Result<Connection, Failure> {
    match &context.tls_settings {
        Some(tls_settings) if !checker.names_server() => {
            context.connect_with(Some(nameless_client_config(tls_settings)?)).await
        }
        _ => context.connect().await,
    }
}

/// Whether the connection may be used again.
fn keeps(response: &Response) -> bool {
    use keepwarm_http1::{ResponseBody, Version};
    response.head.as_ref().is_some_and(|head| {
        let kept = head.version == Version::Http11 || head.connection.keep_alive;
        kept && !head.connection.close && head.body != ResponseBody::UntilClose
    })
}

/// How much one read of the response returns, several times.
async fn one_read(context: &ProbeContext) -> Finding {
    let request = context.ordinary_request().http10();
    let mut reads = Vec::new();
    for _ in 0..READS {
        let Ok(mut connection) = context.connect().await else { break };
        context.budget.request().await;
        connection.begin(&request);
        let _ = connection.send(&request.bytes()).await;
        let within = context.settings.timeout.min(PATIENCE);
        let bytes = match connection.read(within).await {
            Read::Bytes(_) => connection.left_over().to_vec(),
            _ => Vec::new(),
        };
        reads.push(bytes);
    }
    rules::one_read(&request.line(), &reads)
}

pub(super) fn fix(finding: &str, server: Server) -> Option<&'static str> {
    if finding == rules::ONE_READ {
        return Some(
            "Write the head in one piece: buffer the response (in Python wbufsize = -1 on the request handler), or put a server in front that does.",
        );
    }
    let checker = Checker::ALL.into_iter().find(|checker| checker.id() == finding)?;
    Some(match (checker, server) {
        (Checker::HaProxyDefault | Checker::Nginx, Server::Envoy) => {
            "Set http_protocol_options: {accept_http_10: true, default_host_for_http_10: …}, so that Envoy accepts HTTP/1.0; or check with HTTP/1.1."
        }
        _ => checker.fix(),
    })
}
