//! Two requests sent at once: RFC 9112 §9.3.2 requires both responses, in order. Clients seldom do that on purpose; proxies and one-shot scripts do. A server
//! that reads more than one request from its socket and drops the bytes it does not use loses requests of others, too.

use super::{light, within};
use crate::client::{Outcome, Response};
use crate::context::ProbeContext;
use crate::finding::{Finding, Verdict};

pub(super) const ID: &str = "persistence.pipelined";

pub(super) async fn examine(context: &ProbeContext) -> Finding {
    let once = asked(context).await;
    match once.verdict {
        Verdict::Bad => asked(context).await,
        _ => once,
    }
}

async fn asked(context: &ProbeContext) -> Finding {
    let mut connection = match context.connect().await {
        Ok(connection) => connection,
        Err(failure) => return Finding::unknown(ID, failure.to_string()),
    };
    let request = light(context);
    context.budget.request().await;
    context.budget.request().await;
    connection.begin(&request);
    // A server may respond to the first and close before it has read the second.
    let _ = connection.send(&[request.bytes(), request.bytes()].concat()).await;
    let first = connection.read_response(within(context)).await;
    if !first.is_complete() || !first.head.as_ref().is_some_and(keepwarm_http1::ResponseHead::is_persistent) {
        return judge(&request.line(), &first, None);
    }
    connection.begin(&request);
    let second = connection.read_response(within(context)).await;
    judge(&request.line(), &first, Some(&second))
}

/// Both get a response, unless the first response announces that it is the last.
fn judge(asked: &str, first: &Response, second: Option<&Response>) -> Finding {
    let evidence = format!("{asked} twice at once: {}", first.words());
    match (&first.outcome, second) {
        (Outcome::Complete, None) => Finding::good(ID, format!("{evidence}, which announces the close")),
        (Outcome::Complete, Some(second)) => {
            let evidence = format!("{evidence}; then {}", second.words());
            match second.outcome {
                Outcome::Complete => Finding::good(ID, evidence),
                Outcome::Silence if second.head.is_none() => Finding::bad(ID, evidence)
                    .costs("a client or proxy that pipelines requests waits for a response that never comes"),
                _ => Finding::unknown(ID, evidence),
            }
        }
        _ => Finding::unknown(ID, evidence),
    }
}
