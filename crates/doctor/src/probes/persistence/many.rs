//! With `--slow`: how many requests a connection takes, and whether the last is announced. A limit is ordinary (Apache has 100, nginx 1,000), one that is not
//! announced closes under the next request (RFC 9112 §9.6).

use keepwarm_http1::ResponseHead;

use super::{light, within};
use crate::client::{Outcome, Request};
use crate::context::ProbeContext;
use crate::finding::{Finding, Verdict};

pub(super) const ID: &str = "persistence.requests";

/// Most requests sent: more than the lowest usual limit.
const REQUESTS: usize = 120;

/// A connection that takes fewer is hardly kept.
const FEW: usize = 10;

pub(super) async fn examine(context: &ProbeContext) -> Finding {
    let once = counted(context).await;
    let finding = judge(&once);
    if finding.verdict != Verdict::Bad {
        return finding;
    }
    // A worker that is replaced closes once, and anywhere.
    let again = counted(context).await;
    match again.responded == once.responded {
        true => judge(&again),
        false => {
            Finding::unknown(ID, format!("{}; the second time after {}", finding.evidence, again.responded))
        }
    }
}

/// How many requests one connection carried, and why it ended.
#[derive(Debug)]
struct RequestCount {
    asked: String,
    responded: usize,
    ended: SeriesEnd,
}

/// Why a connection carried no more requests.
#[derive(Debug, Clone, PartialEq, Eq)]
enum SeriesEnd {
    /// It did not, within the requests sent.
    No,
    /// The last response announced it.
    Announced,
    /// The next request met a close.
    Unannounced,
    /// Something else.
    Otherwise(String),
}

async fn counted(context: &ProbeContext) -> RequestCount {
    let request: Request = light(context);
    let mut counted = RequestCount { asked: request.line(), responded: 0, ended: SeriesEnd::No };
    let mut connection = match context.connect().await {
        Ok(connection) => connection,
        Err(failure) => return RequestCount { ended: SeriesEnd::Otherwise(failure.to_string()), ..counted },
    };
    while counted.responded < REQUESTS {
        let response = context.exchange_within(&mut connection, &request, within(context)).await;
        counted.ended = match (&response.outcome, &response.head) {
            (Outcome::Complete, Some(head)) if ResponseHead::is_persistent(head) => SeriesEnd::No,
            (Outcome::Complete, _) => SeriesEnd::Announced,
            (Outcome::Closed | Outcome::Reset, None) => SeriesEnd::Unannounced,
            _ => SeriesEnd::Otherwise(response.words()),
        };
        counted.responded += usize::from(response.is_complete());
        if counted.ended != SeriesEnd::No {
            break;
        }
    }
    counted
}

/// The last one is announced, and there are not few.
fn judge(counted: &RequestCount) -> Finding {
    let RequestCount { asked, responded, ended } = counted;
    let evidence = format!("{asked}, repeated on one connection: {responded} responses");
    match ended {
        SeriesEnd::No => Finding::good(ID, format!("{evidence}, and it stays open")),
        SeriesEnd::Announced if (2..FEW).contains(responded) => {
            Finding::warning(ID, format!("{evidence}, the last of which announces the close"))
                .costs(format!("a new connection for every {responded} requests"))
        }
        // Another finding reports the cost of connections that are never kept.
        SeriesEnd::Announced => {
            Finding::good(ID, format!("{evidence}, the last of which announces the close"))
        }
        SeriesEnd::Unannounced if *responded > 0 => {
            Finding::bad(ID, format!("{evidence}, then a close that the last of them did not announce"))
                .costs(format!(
                    "one request in {responded} meets a close: an error, or a retry where one is safe"
                ))
        }
        SeriesEnd::Unannounced => Finding::unknown(ID, evidence),
        SeriesEnd::Otherwise(why) => Finding::unknown(ID, format!("{evidence}, then {why}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_request_of_a_connection_is_announced() {
        for (responded, ended, verdict) in [
            (120, SeriesEnd::No, Verdict::Good),
            (100, SeriesEnd::Announced, Verdict::Good),
            (1, SeriesEnd::Announced, Verdict::Good),
            (5, SeriesEnd::Announced, Verdict::Warning),
            (100, SeriesEnd::Unannounced, Verdict::Bad),
            (0, SeriesEnd::Unannounced, Verdict::Unknown),
            (3, SeriesEnd::Otherwise("nothing".to_owned()), Verdict::Unknown),
        ] {
            let counted = RequestCount { asked: "GET / HTTP/1.1".to_owned(), responded, ended };
            assert_eq!(judge(&counted).verdict, verdict, "{counted:?}");
        }
    }
}
