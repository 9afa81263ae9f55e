//! With `--slow`: how many requests a connection takes, and whether the last is announced. A limit is ordinary (Apache has 100, nginx 1,000), one that is not
//! announced closes under the next request (RFC 9112 §9.6).

use keepwarm_http1::ResponseHead;

use super::{light, within};
use crate::finding::{Finding, Verdict};
use crate::patient::Patient;
use crate::wire::{Ask, Outcome};

pub(super) const ID: &str = "persistence.requests";

/// So many are sent, at most: more than the lowest limit that is usual.
const REQUESTS: usize = 120;

/// A connection that takes fewer is hardly kept.
const FEW: usize = 10;

pub(super) async fn examine(patient: &Patient) -> Finding {
    let once = counted(patient).await;
    let finding = judge(&once);
    if finding.verdict != Verdict::Bad {
        return finding;
    }
    // A worker that is replaced closes once, and anywhere.
    let again = counted(patient).await;
    match again.responded == once.responded {
        true => judge(&again),
        false => {
            Finding::unknown(ID, format!("{}; the second time after {}", finding.evidence, again.responded))
        }
    }
}

/// How far it went.
#[derive(Debug)]
struct Counted {
    asked: String,
    responded: usize,
    ended: Ended,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Ended {
    /// It did not, as far as was asked.
    No,
    /// The last response said so.
    Announced,
    /// The next request met a close.
    Unannounced,
    /// Something else.
    Otherwise(String),
}

async fn counted(patient: &Patient) -> Counted {
    let ask: Ask = light(patient);
    let mut counted = Counted { asked: ask.line(), responded: 0, ended: Ended::No };
    let mut line = match patient.line().await {
        Ok(line) => line,
        Err(failure) => return Counted { ended: Ended::Otherwise(failure.to_string()), ..counted },
    };
    while counted.responded < REQUESTS {
        let response = patient.exchange_within(&mut line, &ask, within(patient)).await;
        counted.ended = match (&response.outcome, &response.head) {
            (Outcome::Complete, Some(head)) if ResponseHead::keeps_connection(head) => Ended::No,
            (Outcome::Complete, _) => Ended::Announced,
            (Outcome::Closed | Outcome::Reset, None) => Ended::Unannounced,
            _ => Ended::Otherwise(response.words()),
        };
        counted.responded += usize::from(response.is_complete());
        if counted.ended != Ended::No {
            break;
        }
    }
    counted
}

/// The last one is announced, and there are not few.
fn judge(counted: &Counted) -> Finding {
    let Counted { asked, responded, ended } = counted;
    let evidence = format!("{asked}, repeated on one connection: {responded} responses");
    match ended {
        Ended::No => Finding::good(ID, format!("{evidence}, and it stays open")),
        Ended::Announced if (2..FEW).contains(responded) => {
            Finding::warning(ID, format!("{evidence}, the last of which announces the close"))
                .costs(format!("a new connection for every {responded} requests"))
        }
        // What is never kept is told by what it costs, elsewhere.
        Ended::Announced => Finding::good(ID, format!("{evidence}, the last of which announces the close")),
        Ended::Unannounced if *responded > 0 => {
            Finding::bad(ID, format!("{evidence}, then a close that the last of them did not announce"))
                .costs(format!(
                    "one request in {responded} meets a close: an error, or a retry where one is safe"
                ))
        }
        Ended::Unannounced => Finding::unknown(ID, evidence),
        Ended::Otherwise(why) => Finding::unknown(ID, format!("{evidence}, then {why}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_request_of_a_connection_is_announced() {
        for (responded, ended, verdict) in [
            (120, Ended::No, Verdict::Good),
            (100, Ended::Announced, Verdict::Good),
            (1, Ended::Announced, Verdict::Good),
            (5, Ended::Announced, Verdict::Warning),
            (100, Ended::Unannounced, Verdict::Bad),
            (0, Ended::Unannounced, Verdict::Unknown),
            (3, Ended::Otherwise("nothing".to_owned()), Verdict::Unknown),
        ] {
            let counted = Counted { asked: "GET / HTTP/1.1".to_owned(), responded, ended };
            assert_eq!(judge(&counted).verdict, verdict, "{counted:?}");
        }
    }
}
