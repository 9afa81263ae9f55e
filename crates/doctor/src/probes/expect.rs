//! `expect`: is `Expect: 100-continue` answered?
//!
//! A client that is about to send a large body announces it, and waits: for `100 Continue`, or for a final answer that spares it the body. A server that
//! says nothing costs it that wait on every request; `curl` gives up after one second, so that a `POST` took almost exactly one second, without any error
//! (RFC 9110 §10.1.1). The request asked here is `OPTIONS` with a body, which is safe, or a `POST` to the path that was allowed.

mod ask;
mod fix;
mod rules;
#[cfg(test)]
mod tests;

use crate::finding::{Finding, Verdict};
use crate::patient::Patient;

pub(super) use fix::fix;

pub(super) async fn examine(patient: &Patient) -> Vec<Finding> {
    let plain = match ask::plain(patient).await {
        Ok(plain) => plain,
        Err(failure) => return vec![Finding::unknown(rules::CONTINUE, failure.to_string())],
    };
    let Some(plain) = plain.answered() else {
        return vec![Finding::unknown(
            rules::CONTINUE,
            format!("{}, without any expectation: {}", plain.asked, plain.words),
        )];
    };
    let mut findings = held(patient, &plain).await;
    findings.push(http10(patient).await);
    findings.push(empty(patient, &plain).await);
    findings.push(match ask::other(patient).await {
        Ok(asked) => rules::other(&asked, &plain),
        Err(failure) => Finding::unknown(rules::OTHER, failure.to_string()),
    });
    findings
}

/// The expectation with the body held back. What is not good is asked again: one slow moment is no verdict.
async fn held(patient: &Patient, plain: &ask::Plain) -> Vec<Finding> {
    let mut best: Option<Vec<Finding>> = None;
    for _ in 0..2 {
        let found = match ask::held(patient, plain).await {
            Ok(held) => {
                let mut found = vec![rules::continued(&held, plain)];
                found.extend(rules::once(&held));
                if let Some(unread) = &held.unread {
                    let without = match rules::is_misread(unread, patient.first.status()) {
                        true => ask::unread_without(patient).await,
                        false => None,
                    };
                    found.push(rules::unread(unread, without.as_ref(), patient.first.status()));
                }
                found
            }
            Err(failure) => vec![Finding::unknown(rules::CONTINUE, failure.to_string())],
        };
        let worst = worst(&found);
        if best.as_ref().is_none_or(|best| worst < self::worst(best)) {
            best = Some(found);
        }
        if worst <= Verdict::Unknown {
            break;
        }
    }
    best.unwrap_or_default()
}

fn worst(findings: &[Finding]) -> Verdict {
    findings.iter().map(|finding| finding.verdict).max().unwrap_or(Verdict::Good)
}

async fn http10(patient: &Patient) -> Finding {
    let asked = match ask::http10(patient, true).await {
        Ok(asked) => asked,
        Err(failure) => return Finding::unknown(rules::HTTP10, failure.to_string()),
    };
    // A server that sends them to every client of 1.0 does not do so for the expectation: that is another probe's.
    let without = match asked.hundreds > 0 {
        true => ask::http10(patient, false).await.ok(),
        false => None,
    };
    rules::http10(&asked, without.as_ref())
}

async fn empty(patient: &Patient, plain: &ask::Plain) -> Finding {
    let mut finding = Finding::unknown(rules::EMPTY, "");
    for _ in 0..2 {
        finding = match ask::empty(patient).await {
            Ok(asked) => rules::empty(&asked, plain),
            Err(failure) => Finding::unknown(rules::EMPTY, failure.to_string()),
        };
        if finding.verdict <= Verdict::Unknown {
            break;
        }
    }
    finding
}
