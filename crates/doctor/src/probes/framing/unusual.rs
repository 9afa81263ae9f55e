//! What is valid, and seldom sent: every server must take it, or say why not.

use std::time::Instant;

use super::Page;
use super::asking::{Bytes, Seen, Taken, Then, UNASKED, send, taken, with_lines};
use crate::finding::{Finding, Verdict};
use crate::patient::Patient;
use crate::probes::persistence::not_asked;
use crate::wire::Ask;

/// Names of fields have no case (RFC 9110 §5.1).
const NAMES: &str = "framing.field_names";

/// What ordinary servers fail, and nobody is hurt by: a warning only under `--intrusive`, which asks for strictness.
const STRICT: [&str; 2] = ["framing.empty_line", "framing.no_host"];

/// A message, and what is thought of what comes back.
struct Row {
    id: &'static str,
    /// For evidence.
    what: &'static str,
    bytes: Bytes,
    judge: fn(&Row, &Seen, Option<u16>) -> Finding,
}

/// Whether a response to the ordinary request comes as ever, and ends where it says: what all else is measured by.
pub(super) async fn control(page: &Page<'_>) -> Finding {
    let row = Row {
        id: "framing.behind_answer",
        what: "an ordinary request",
        bytes: Bytes::of(&page.ask, page.ask.bytes()).then(Then::Watch),
        judge: nothing_behind,
    };
    let once = asked(page, &row).await;
    match once.verdict {
        Verdict::Good => once,
        _ => asked(page, &row).await,
    }
}

pub(super) async fn examine(page: &Page<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for row in rows(page) {
        if Instant::now() > page.until {
            findings.push(Finding::unknown(row.id, not_asked(page.patient)));
            continue;
        }
        let once = asked(page, &row).await;
        findings.push(match once.verdict {
            // What is wrong is wrong again; a worker that was just replaced is not.
            Verdict::Bad => asked(page, &row).await,
            _ => once,
        });
    }
    if let Some(finding) = unread_names(page).await {
        findings.retain(|known| known.id != finding.id);
        findings.push(finding);
    }
    findings
}

/// Whether `Connection: close` is heard as it is usually written, and not in small letters.
async fn unread_names(page: &Page<'_>) -> Option<Finding> {
    let ask = page.ask.clone().field("Connection", "close");
    for _ in 0..2 {
        // Not only still open: good for another request.
        let small = send(page, &Bytes::of(&ask, in_small_letters(&ask))).await.ok()?;
        if !small.is_in_step(page.ordinary) {
            return None;
        }
        if !send(page, &Bytes::of(&ask, ask.bytes()).then(Then::Watch)).await.ok()?.ended {
            return None;
        }
    }
    let evidence =
        "Connection: close ends the connection, connection: close does not: header names are case-sensitive";
    Some(
        Finding::bad(NAMES, evidence).costs(
            "headers of clients that send lower-case names (many do, and every HTTP/2 proxy) are ignored",
        ),
    )
}

async fn asked(page: &Page<'_>, row: &Row) -> Finding {
    match send(page, &row.bytes).await {
        Ok(seen) => {
            let finding = (row.judge)(row, &seen, page.ordinary);
            match finding.verdict == Verdict::Warning
                && STRICT.contains(&row.id)
                && !page.patient.settings.intrusive
            {
                true => Finding::good(row.id, finding.evidence),
                false => finding,
            }
        }
        Err(failure) => Finding::unknown(row.id, format!("{}: {failure}", row.what)),
    }
}

fn rows(page: &Page<'_>) -> Vec<Row> {
    let ask = page.ask.clone();
    let mut rows = vec![
        Row {
            id: "framing.split_head",
            what: "a head in two parts, 80 ms apart",
            bytes: halves(&ask),
            judge: must_be_taken,
        },
        Row {
            id: NAMES,
            what: "all header names in lower case",
            bytes: Bytes::of(&ask, in_small_letters(&ask)).then(Then::Leave),
            judge: must_be_taken,
        },
        Row {
            id: "framing.unwanted_body",
            what: "an unneeded body of known length that looks like a request",
            bytes: with_lines(&ask, &format!("Content-Length: {}\r\n", ask.bytes().len()), &ask.bytes()),
            judge: body_is_body,
        },
        Row {
            id: "framing.chunked_body",
            what: "an unneeded chunked body that looks like a request",
            bytes: with_lines(&ask, "Transfer-Encoding: chunked\r\n", &chunked(&ask.bytes())),
            judge: body_is_body,
        },
    ];
    rows.extend(forms(page.patient, &ask));
    rows
}

/// The other forms of targets, lists, names and versions.
fn forms(patient: &Patient, ask: &Ask) -> Vec<Row> {
    let row = |id, what, ask: &Ask, judge| Row {
        id,
        what,
        bytes: Bytes::of(ask, ask.bytes()).then(Then::Leave),
        judge,
    };
    let (scheme, path) = (patient.target.scheme.name(), &patient.target.path);
    let absolute = ask.clone().target(&format!("{scheme}://{}{path}", patient.authority()));
    let asterisk = patient.ask_by("OPTIONS").target("*");
    let long = ask.clone().field("X-Keepwarm-Check", &"a".repeat(4000));
    let list = ask.clone().field("Accept", ", */*,,").field("Accept-Encoding", ",identity, ,");
    let line = Bytes::of(ask, [b"\r\n".as_slice(), &ask.bytes()].concat()).then(Then::Leave);
    let mut rows = vec![
        row("framing.absolute_form", "a target with scheme and host", &absolute, should_be_taken),
        row("framing.asterisk", "OPTIONS *", &asterisk, should_have_response),
        row("framing.long_field", "a header of 4,000 bytes", &long, should_be_taken),
        row("framing.empty_members", "lists with empty members", &list, should_be_taken),
        row("framing.no_host", "HTTP/1.1 without Host", &ask.clone().without("Host"), should_be_refused),
        Row {
            id: "framing.empty_line",
            what: "an empty line before the request",
            bytes: line,
            judge: should_be_taken,
        },
    ];
    // An application that takes all that is no GET for a POST would change something.
    if patient.settings.intrusive {
        let unknown = patient.ask_by("KEEPWARM-CHECK");
        rows.push(row(
            "framing.unknown_method",
            "a method that does not exist",
            &unknown,
            should_have_response,
        ));
    }
    if let Some(path) = percent_encoded(&patient.target.path) {
        let encoded = ask.clone().target(&path);
        rows.push(row("framing.percent_encoding", "a letter of the path as %XX", &encoded, should_be_taken));
    }
    rows
}

fn halves(ask: &Ask) -> Bytes {
    let bytes = ask.bytes();
    // In the middle of a field's name.
    let (first, second) = bytes.split_at(ask.line().len().saturating_add(4).min(bytes.len()));
    Bytes { parts: vec![first.to_vec(), second.to_vec()], method: ask.method().to_owned(), then: Then::Leave }
}

fn in_small_letters(ask: &Ask) -> Vec<u8> {
    let ask = ask.clone().field("Connection", "close");
    let head = ask.head();
    let mut in_name = false;
    head.iter()
        .scan(0_u8, |before, &byte| {
            in_name = (*before == b'\n' || in_name) && byte != b':';
            *before = byte;
            Some(if in_name { byte.to_ascii_lowercase() } else { byte })
        })
        .collect()
}

fn chunked(body: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", body.len()).as_bytes(), body, b"\r\n0\r\n\r\n"].concat()
}

/// The path with its first letter percent-encoded, which is the same path (RFC 3986 §6.2.2.2); nothing if there is no letter.
fn percent_encoded(path: &str) -> Option<String> {
    let end = path.find('?').unwrap_or(path.len());
    let at = path.get(..end)?.bytes().position(|byte| byte.is_ascii_alphabetic())?;
    // A letter of what is encoded already is none.
    if path.get(..at)?.contains('%') {
        return None;
    }
    let letter = path.as_bytes().get(at)?;
    Some(format!("{}%{letter:02X}{}", path.get(..at)?, path.get(at + 1..)?))
}

/// A response ends where its framing says.
fn nothing_behind(row: &Row, seen: &Seen, ordinary: Option<u16>) -> Finding {
    let words = seen.words(UNASKED);
    match (seen.first(ordinary), seen.second(ordinary), seen.behind) {
        (Taken::Dropped | Taken::Nothing | Taken::Refused(_), None, _) => Finding::unknown(
            row.id,
            format!("{}: {words}; there is nothing to compare with, so no more was sent", row.what),
        ),
        (_, None, 0) => Finding::good(row.id, format!("{}: {words}, and nothing after it", row.what)),
        (_, None, behind) => {
            Finding::bad(row.id, format!("{}: {words}, and {behind} bytes after its end", row.what))
                .costs("on a persistent connection the next response is misread, or the connection is lost")
        }
        _ => Finding::bad(row.id, format!("{}: {words}", row.what))
            .costs("the second response is taken for the response to the next request"),
    }
}

/// Servers that do not read this fail with ordinary clients.
fn must_be_taken(row: &Row, seen: &Seen, ordinary: Option<u16>) -> Finding {
    let evidence = format!("{}: {}", row.what, seen.words(UNASKED));
    match seen.first(ordinary) {
        Taken::Well => Finding::good(row.id, evidence),
        Taken::Otherwise(_) => Finding::unknown(row.id, evidence),
        Taken::Refused(_) | Taken::Dropped | Taken::Nothing => {
            Finding::bad(row.id, evidence).costs("clients that send this get an error, or no response")
        }
    }
}

/// The same, of what clients hardly ever send.
fn should_be_taken(row: &Row, seen: &Seen, ordinary: Option<u16>) -> Finding {
    let evidence = format!("{}: {}", row.what, seen.words(UNASKED));
    match seen.first(ordinary) {
        Taken::Well => Finding::good(row.id, evidence),
        Taken::Otherwise(_) => {
            Finding::unknown(row.id, format!("{evidence}: the application may treat it differently"))
        }
        Taken::Refused(_) | Taken::Dropped | Taken::Nothing => {
            Finding::warning(row.id, evidence).costs("clients that send this get an error, or no response")
        }
    }
}

/// Any response does.
fn should_have_response(row: &Row, seen: &Seen, ordinary: Option<u16>) -> Finding {
    let evidence = format!("{}: {}", row.what, seen.words(UNASKED));
    match seen.first(ordinary) {
        Taken::Nothing => {
            Finding::warning(row.id, evidence).costs("a client that sends it waits until it times out")
        }
        Taken::Dropped => Finding::warning(row.id, evidence).costs("a client that sends it cannot tell why"),
        Taken::Refused(500) => Finding::warning(row.id, evidence).costs("any client can fill the error log"),
        _ => Finding::good(row.id, evidence),
    }
}

/// RFC 9112 §3.2: a request of HTTP/1.1 without Host must be answered by 400.
fn should_be_refused(row: &Row, seen: &Seen, ordinary: Option<u16>) -> Finding {
    let evidence = format!("{}: {}", row.what, seen.words(UNASKED));
    match seen.first(ordinary) {
        Taken::Refused(400..=499) | Taken::Dropped => Finding::good(row.id, evidence),
        Taken::Well => {
            Finding::warning(row.id, format!("{evidence}: accepted, although RFC 9112 §3.2 requires 400"))
                .costs("a name-based proxy in front cannot tell which site the request is for")
        }
        _ => Finding::unknown(row.id, evidence),
    }
}

/// A body ends where its framing says, whether anybody reads it or not: what stands in it is no request (RFC 9112 §6).
fn body_is_body(row: &Row, seen: &Seen, ordinary: Option<u16>) -> Finding {
    let evidence = format!("{}: {}", row.what, seen.words(UNASKED));
    let smuggles = "any client that can send a body can hide a request in it, past every check in front (request smuggling)";
    match (seen.first(ordinary), seen.second(ordinary)) {
        // What is refused first may be followed by the close only.
        (_, Some(_)) => {
            Finding::bad(row.id, format!("{evidence}: the body was read as the next request")).costs(smuggles)
        }
        (Taken::Refused(_) | Taken::Dropped, None) if seen.ended => Finding::good(row.id, evidence),
        (Taken::Nothing, None) => {
            Finding::warning(row.id, evidence).costs("a client that sends it waits until it times out")
        }
        (_, None) => match &seen.next {
            Some(next) => {
                let evidence = format!("{evidence}; the ordinary request after it: {}", next.words());
                match taken(next, ordinary) {
                    // A close that was not announced loses a request, and lets none in.
                    Taken::Well | Taken::Dropped => Finding::good(row.id, evidence),
                    Taken::Otherwise(_) => Finding::unknown(row.id, evidence),
                    Taken::Refused(_) | Taken::Nothing => Finding::bad(row.id, evidence).costs(smuggles),
                }
            }
            None => Finding::good(row.id, evidence),
        },
    }
}
