//! A client that says `Connection: close`: RFC 9112 §9.6 wants the close from the server, whatever the case of the word (RFC 9110 §7.6.1) and wherever it
//! stands in the list.

use std::time::Duration;

use super::{ConnectionState, Series, at_once, light, patience, quickest_close};
use crate::client::Response;
use crate::context::ProbeContext;
use crate::finding::{Finding, Verdict};
use crate::report::time;

pub(super) const ID: &str = "persistence.close";

/// The word in capitals.
const CASE: &str = "persistence.close_in_capitals";

/// The word in a list. Ordinary servers do not hear it there (Puma 5, WEBrick, gunicorn's threads), and hardly any client sends it so (Perl's LWP does): asked
/// only under `--intrusive`, where strictness is looked at.
const LIST: &str = "persistence.close_in_a_list";

pub(super) async fn examine(context: &ProbeContext) -> Vec<Finding> {
    let plain = asked(context, ID, "close", Finding::bad).await;
    if plain.verdict != Verdict::Good {
        // The spelling of the word does not matter where it has no effect.
        return vec![plain];
    }
    let mut findings = vec![plain, asked(context, CASE, "CLOSE", Finding::bad).await];
    if context.settings.intrusive {
        findings.push(asked(context, LIST, "x-keepwarm-check, close", Finding::warning).await);
    }
    findings
}

async fn asked(
    context: &ProbeContext,
    id: &'static str,
    value: &str,
    otherwise: fn(&'static str, String) -> Finding,
) -> Finding {
    let request = light(context).field("Connection", value);
    // Where the close is prompt as a rule, one that does not come is known soon.
    let patience = if id == ID { patience(context) } else { 2 * at_once(context) };
    match quickest_close(context, &[request], patience).await {
        Ok(series) => judge(id, value, &series, at_once(context), otherwise),
        Err(failure) => Finding::unknown(id, failure.to_string()),
    }
}

/// A client that requests the close gets it.
fn judge(
    id: &'static str,
    value: &str,
    series: &Series,
    prompt: Duration,
    otherwise: fn(&'static str, String) -> Finding,
) -> Finding {
    let words = series.last().map(Response::words).unwrap_or_default();
    let evidence = format!("{} with Connection: {value}: {words}", series.asked);
    if series.behind > 0 || !series.last().is_some_and(Response::is_complete) {
        return Finding::unknown(id, evidence);
    }
    let announced = if series.is_kept() { "" } else { " although it announces Connection: close" };
    match series.state {
        ConnectionState::Closed(after) if after <= prompt => {
            Finding::good(id, format!("{evidence}, closed {} later", time(after)))
        }
        ConnectionState::Closed(after) => {
            otherwise(id, format!("{evidence}, closed only {} later", time(after)))
                .costs(format!("{} for every client that waits for the close that it requested", time(after)))
        }
        ConnectionState::Open(after) => otherwise(
            id,
            match announced {
                "" => format!("{evidence}, and still open {} later", time(after)),
                _ => format!("{evidence}, not closed{announced}: still open {} later", time(after)),
            },
        )
        .costs("a client that waits for the close that it requested waits until the server's idle timeout"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probes::persistence::tests::series_of;

    #[test]
    fn who_asks_for_the_close_gets_it() {
        let prompt = Duration::from_millis(250);
        for (then, verdict) in [
            (ConnectionState::Closed(Duration::from_millis(2)), Verdict::Good),
            (ConnectionState::Closed(Duration::from_secs(1)), Verdict::Bad),
            (ConnectionState::Open(Duration::from_secs(1)), Verdict::Bad),
        ] {
            let series = series_of(&[(200, &[("Connection", "close"), ("Content-Length", "0")])], then);
            assert_eq!(judge(ID, "close", &series, prompt, Finding::bad).verdict, verdict, "{then:?}");
        }
    }
}
