//! `persistence`: does either side wait for the other, for how long, and is it announced?
//!
//! The stall it looks for: an answer that is whole, a connection that neither side closes, and nothing in the answer that says who will. A client of HTTP/1.0 that
//! did not ask for `keep-alive` waits for the close (RFC 9112 §9.3); `ab` without `-k` did so for five seconds a request.

use std::time::Duration;

use crate::finding::Finding;
use crate::patient::Patient;
use crate::report::time;
use crate::server::Server;
use crate::wire::{Answer, Ask, Line, Read};

/// A close that was due comes at once; what takes longer than this waits for something.
const AT_ONCE: Duration = Duration::from_millis(250);

/// For so long a close that was due is waited for.
const PATIENCE: Duration = Duration::from_millis(1500);

pub(super) async fn examine(patient: &Patient) -> Vec<Finding> {
    vec![http10(&ending(patient, &patient.ask().http10()).await)]
}

/// What became of a connection after the answer to a request.
struct Ending {
    asked: String,
    answer: Option<Answer>,
    /// What came behind the answer, and how long that took.
    then: Read,
    after: Duration,
}

async fn ending(patient: &Patient, ask: &Ask) -> Ending {
    let asked = ask.line();
    let Ok((mut line, answer)) = patient.once(ask).await else {
        return Ending { asked, answer: None, then: Read::Reset, after: Duration::ZERO };
    };
    let (then, after) = closes(&mut line, PATIENCE).await;
    Ending { asked, answer: Some(answer), then, after }
}

/// What comes on a connection whose answer is whole, and when.
async fn closes(line: &mut Line, within: Duration) -> (Read, Duration) {
    let begun = std::time::Instant::now();
    let read = line.read(within).await;
    (read, begun.elapsed())
}

/// A client of HTTP/1.0 that says nothing is closed on.
fn http10(ending: &Ending) -> Finding {
    const ID: &str = "persistence.http10";
    let Some(answer) = &ending.answer else {
        return Finding::unknown(ID, format!("{}: no connection", ending.asked));
    };
    let evidence = format!("{}: {}", ending.asked, answer.words());
    match (&ending.then, answer.is_complete()) {
        (_, false) => Finding::unknown(ID, evidence),
        (Read::Closed | Read::Reset, true) if ending.after <= AT_ONCE => {
            Finding::good(ID, format!("{evidence}, closed {} later", time(ending.after)))
        }
        (Read::Closed | Read::Reset, true) => {
            Finding::bad(ID, format!("{evidence}, and closed only {} later", time(ending.after)))
                .costs(format!("{} on every request of such a client", time(ending.after)))
        }
        (_, true) => Finding::bad(ID, format!("{evidence}, and still open {} later", time(ending.after)))
            .costs(format!("more than {} on every request of such a client", time(ending.after))),
    }
}

pub(super) fn fix(finding: &str, _server: Server) -> Option<&'static str> {
    match finding {
        "persistence.http10" => Some(
            "Close the connection after an answer to HTTP/1.0 without keep-alive, and say Connection: close.",
        ),
        _ => None,
    }
}
