//! `expect`: the response to `Expect: 100-continue`.
//!
//! A client that is about to send a large body announces it, and waits: for `100 Continue`, or for a final response that spares it the body. A server that
//! says nothing costs it that wait on every request; `curl` gives up after one second, so that a `POST` took almost exactly one second, without any error
//! (RFC 9110 §10.1.1). The request asked here is `OPTIONS` with a body, which is safe, or a `POST` to the path that was allowed.

mod ask;
mod fix;
mod rules;
#[cfg(test)]
mod tests;

use crate::context::ProbeContext;
use crate::finding::{Finding, Verdict};

pub(super) use fix::fix;

pub(super) async fn examine(context: &ProbeContext) -> Vec<Finding> {
    let plain = match ask::plain(context).await {
        Ok(plain) => plain,
        Err(failure) => return vec![Finding::unknown(rules::CONTINUE, failure.to_string())],
    };
    let Some(plain) = plain.responded() else {
        return vec![Finding::unknown(
            rules::CONTINUE,
            format!("{}, without Expect: {}", plain.asked, plain.words),
        )];
    };
    let mut findings = held(context, &plain).await;
    // Some never recover from what they could not handle: what they do now says nothing about the rest.
    if worst(&findings) > Verdict::Unknown && !still_responds(context).await {
        return findings;
    }
    findings.push(http10(context).await);
    findings.push(confirmed(context, &plain, rules::EMPTY, rules::empty).await);
    findings.push(confirmed(context, &plain, rules::OTHER, rules::other).await);
    findings
}

/// Whether the request without the expectation gets its response now.
async fn still_responds(context: &ProbeContext) -> bool {
    ask::plain(context).await.is_ok_and(|plain| plain.status.is_some())
}

/// The expectation with the body held back. A result that is not good is checked again, since one slow moment is not a verdict; but not a request that never
/// got a response: it may hold a worker of the server, and a repetition would hold another.
async fn held(context: &ProbeContext, plain: &ask::PlainExchange) -> Vec<Finding> {
    let mut best: Option<Vec<Finding>> = None;
    for _ in 0..2 {
        let (found, stuck) = match ask::held(context, plain).await {
            Ok(held) => (judged(context, &held, plain).await, held.is_stuck()),
            Err(failure) => (vec![Finding::unknown(rules::CONTINUE, failure.to_string())], false),
        };
        let worst = worst(&found);
        if best.as_ref().is_none_or(|best| worst < self::worst(best)) {
            best = Some(found);
        }
        if worst <= Verdict::Unknown || stuck {
            break;
        }
    }
    best.unwrap_or_default()
}

async fn judged(
    context: &ProbeContext,
    held: &ask::ExpectExchange,
    plain: &ask::PlainExchange,
) -> Vec<Finding> {
    let usual = context.first.status();
    let mut found = vec![rules::continued(held, plain)];
    found.extend(rules::once(held));
    if let Some(unread) = &held.unread {
        let without = match rules::is_misread(unread, usual) {
            true => ask::unread_without(context).await,
            false => None,
        };
        found.push(rules::unread(&held.asked, unread, without.as_ref(), usual));
    }
    found
}

fn worst(findings: &[Finding]) -> Verdict {
    findings.iter().map(|finding| finding.verdict).max().unwrap_or(Verdict::Good)
}

async fn http10(context: &ProbeContext) -> Finding {
    let asked = match ask::http10(context, true).await {
        Ok(asked) => asked,
        Err(failure) => return Finding::unknown(rules::HTTP10, failure.to_string()),
    };
    // A server that sends them to every client of 1.0 does not do so for the expectation: that is another probe's.
    let without = match asked.hundreds > 0 {
        true => ask::http10(context, false).await.ok(),
        false => None,
    };
    rules::http10(&asked, without.as_ref())
}

/// A result that is not good is checked again, and stands only if the request gets its response without the expectation.
async fn confirmed(
    context: &ProbeContext,
    plain: &ask::PlainExchange,
    id: &'static str,
    rule: fn(&ask::HeadExchange, &ask::PlainExchange) -> Finding,
) -> Finding {
    let mut finding = Finding::unknown(id, "");
    for _ in 0..2 {
        let asked = match id {
            rules::EMPTY => ask::empty(context).await,
            _ => ask::other(context).await,
        };
        finding = match asked {
            Ok(asked) => rule(&asked, plain),
            Err(failure) => Finding::unknown(id, failure.to_string()),
        };
        if finding.verdict <= Verdict::Unknown {
            return finding;
        }
    }
    match still_responds(context).await {
        true => finding,
        false => Finding::unknown(
            id,
            format!("{}; but now it gets no response without Expect either", finding.evidence),
        ),
    }
}
