//! A client that says `Connection: close`: RFC 9112 §9.6 wants the close from the server, whatever the case of the word (RFC 9110 §7.6.1) and wherever it
//! stands in the list.

use std::time::Duration;

use super::{Series, Then, at_once, light, patience, quickest_close};
use crate::finding::{Finding, Verdict};
use crate::patient::Patient;
use crate::report::time;
use crate::wire::Response;

pub(super) const ID: &str = "persistence.close";

/// The word in capitals.
const CASE: &str = "persistence.close_in_capitals";

/// The word in a list. Ordinary servers do not hear it there (Puma 5, WEBrick, gunicorn's threads), and hardly any client sends it so (Perl's LWP does): asked
/// only under `--intrusive`, where strictness is looked at.
const LIST: &str = "persistence.close_in_a_list";

pub(super) async fn examine(patient: &Patient) -> Vec<Finding> {
    let plain = asked(patient, ID, "close", Finding::bad).await;
    if plain.verdict != Verdict::Good {
        // How the word is written does not matter where it is not heard.
        return vec![plain];
    }
    let mut findings = vec![plain, asked(patient, CASE, "CLOSE", Finding::bad).await];
    if patient.settings.intrusive {
        findings.push(asked(patient, LIST, "x-keepwarm-check, close", Finding::warning).await);
    }
    findings
}

async fn asked(
    patient: &Patient,
    id: &'static str,
    value: &str,
    otherwise: fn(&'static str, String) -> Finding,
) -> Finding {
    let ask = light(patient).field("Connection", value);
    // Where the close is prompt as a rule, one that does not come is known soon.
    let patience = if id == ID { patience(patient) } else { 2 * at_once(patient) };
    match quickest_close(patient, &[ask], patience).await {
        Ok(series) => judge(id, value, &series, at_once(patient), otherwise),
        Err(failure) => Finding::unknown(id, failure.to_string()),
    }
}

/// Who asks for the close gets it.
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
    match series.then {
        Then::Closed(after) if after <= prompt => {
            Finding::good(id, format!("{evidence}, closed {} later", time(after)))
        }
        Then::Closed(after) => otherwise(id, format!("{evidence}, closed only {} later", time(after)))
            .costs(format!("{} for every client that waits for the close that it requested", time(after))),
        Then::Open(after) => otherwise(
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
            (Then::Closed(Duration::from_millis(2)), Verdict::Good),
            (Then::Closed(Duration::from_secs(1)), Verdict::Bad),
            (Then::Open(Duration::from_secs(1)), Verdict::Bad),
        ] {
            let series = series_of(&[(200, &[("Connection", "close"), ("Content-Length", "0")])], then);
            assert_eq!(judge(ID, "close", &series, prompt, Finding::bad).verdict, verdict, "{then:?}");
        }
    }
}
