//! Valid messages that are seldom sent: every server must accept them, or say why not.

use std::time::Instant;

use super::Page;
use super::exchange::{Exchange, FollowUp, Interpretation, RawMessage, UNASKED, send, taken, with_lines};
use crate::client::Request;
use crate::context::ProbeContext;
use crate::finding::{Finding, Verdict};
use crate::probes::persistence::not_asked;

/// Names of fields have no case (RFC 9110 §5.1).
const NAMES: &str = "framing.field_names";

/// Checks that ordinary servers fail without harm: a warning only under `--intrusive`, which asks for strictness.
const STRICT: [&str; 2] = ["framing.empty_line", "framing.no_host"];

/// An unusual but valid message, and the rule for what comes back.
struct UnusualMessage {
    id: &'static str,
    /// For evidence.
    what: &'static str,
    bytes: RawMessage,
    judge: fn(&UnusualMessage, &Exchange, Option<u16>) -> Finding,
}

/// Whether a response to the ordinary request comes as ever, and ends where it says: what all else is measured by.
pub(super) async fn control(page: &Page<'_>) -> Finding {
    let row = UnusualMessage {
        id: "framing.bytes_after_response",
        what: "an ordinary request",
        bytes: RawMessage::of(&page.request, page.request.bytes()).then(FollowUp::Watch),
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
            findings.push(Finding::unknown(row.id, not_asked(page.context)));
            continue;
        }
        let once = asked(page, &row).await;
        findings.push(match once.verdict {
            // A real fault repeats; a worker that was just replaced does not.
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

/// Whether `Connection: close` works as it is usually written, and not in small letters.
async fn unread_names(page: &Page<'_>) -> Option<Finding> {
    let request = page.request.clone().field("Connection", "close");
    for _ in 0..2 {
        // Not only still open: good for another request.
        let small = send(page, &RawMessage::of(&request, in_small_letters(&request))).await.ok()?;
        if !small.is_in_step(page.ordinary) {
            return None;
        }
        if !send(page, &RawMessage::of(&request, request.bytes()).then(FollowUp::Watch)).await.ok()?.ended {
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

async fn asked(page: &Page<'_>, row: &UnusualMessage) -> Finding {
    match send(page, &row.bytes).await {
        Ok(seen) => {
            let finding = (row.judge)(row, &seen, page.ordinary);
            match finding.verdict == Verdict::Warning
                && STRICT.contains(&row.id)
                && !page.context.settings.intrusive
            {
                true => Finding::good(row.id, finding.evidence),
                false => finding,
            }
        }
        Err(failure) => Finding::unknown(row.id, format!("{}: {failure}", row.what)),
    }
}

fn rows(page: &Page<'_>) -> Vec<UnusualMessage> {
    let request = page.request.clone();
    let mut rows = vec![
        UnusualMessage {
            id: "framing.split_head",
            what: "a head in two parts, 80 ms apart",
            bytes: halves(&request),
            judge: must_be_taken,
        },
        UnusualMessage {
            id: NAMES,
            what: "all header names in lower case",
            bytes: RawMessage::of(&request, in_small_letters(&request)).then(FollowUp::Leave),
            judge: must_be_taken,
        },
        UnusualMessage {
            id: "framing.unwanted_body",
            what: "an unneeded body of known length that looks like a request",
            bytes: with_lines(
                &request,
                &format!("Content-Length: {}\r\n", request.bytes().len()),
                &request.bytes(),
            ),
            judge: body_is_body,
        },
        UnusualMessage {
            id: "framing.chunked_body",
            what: "an unneeded chunked body that looks like a request",
            bytes: with_lines(&request, "Transfer-Encoding: chunked\r\n", &chunked(&request.bytes())),
            judge: body_is_body,
        },
    ];
    rows.extend(forms(page.context, &request));
    rows
}

/// The other forms of targets, lists, names and versions.
fn forms(context: &ProbeContext, request: &Request) -> Vec<UnusualMessage> {
    let row = |id, what, request: &Request, judge| UnusualMessage {
        id,
        what,
        bytes: RawMessage::of(request, request.bytes()).then(FollowUp::Leave),
        judge,
    };
    let (scheme, path) = (context.target.scheme.name(), &context.target.path);
    let absolute = request.clone().target(&format!("{scheme}://{}{path}", context.authority()));
    let asterisk = context.request_by("OPTIONS").target("*");
    let long = request.clone().field("X-Keepwarm-Check", &"a".repeat(4000));
    let list = request.clone().field("Accept", ", */*,,").field("Accept-Encoding", ",identity, ,");
    let line = RawMessage::of(request, [b"\r\n".as_slice(), &request.bytes()].concat()).then(FollowUp::Leave);
    let mut rows = vec![
        row("framing.absolute_form", "a target with scheme and host", &absolute, should_be_taken),
        row("framing.asterisk", "OPTIONS *", &asterisk, should_have_response),
        row("framing.long_field", "a header of 4,000 bytes", &long, should_be_taken),
        row("framing.empty_members", "lists with empty members", &list, should_be_taken),
        row("framing.no_host", "HTTP/1.1 without Host", &request.clone().without("Host"), should_be_refused),
        UnusualMessage {
            id: "framing.empty_line",
            what: "an empty line before the request",
            bytes: line,
            judge: should_be_taken,
        },
    ];
    // An application that treats every other method than GET as POST would change something.
    if context.settings.intrusive {
        let unknown = context.request_by("KEEPWARM-CHECK");
        rows.push(row(
            "framing.unknown_method",
            "a method that does not exist",
            &unknown,
            should_have_response,
        ));
    }
    if let Some(path) = percent_encoded(&context.target.path) {
        let encoded = request.clone().target(&path);
        rows.push(row("framing.percent_encoding", "a letter of the path as %XX", &encoded, should_be_taken));
    }
    rows
}

fn halves(request: &Request) -> RawMessage {
    let bytes = request.bytes();
    // In the middle of a field's name.
    let (first, second) = bytes.split_at(request.line().len().saturating_add(4).min(bytes.len()));
    RawMessage {
        parts: vec![first.to_vec(), second.to_vec()],
        method: request.method().to_owned(),
        then: FollowUp::Leave,
    }
}

fn in_small_letters(request: &Request) -> Vec<u8> {
    let request = request.clone().field("Connection", "close");
    let head = request.head();
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

/// The path with its first letter percent-encoded, which is the same path (RFC 3986 §6.2.2.2); `None` if there is no letter.
fn percent_encoded(path: &str) -> Option<String> {
    let end = path.find('?').unwrap_or(path.len());
    let at = path.get(..end)?.bytes().position(|byte| byte.is_ascii_alphabetic())?;
    // A hexadecimal digit of an encoded byte is not a letter.
    if path.get(..at)?.contains('%') {
        return None;
    }
    let letter = path.as_bytes().get(at)?;
    Some(format!("{}%{letter:02X}{}", path.get(..at)?, path.get(at + 1..)?))
}

/// A response ends where its framing says.
fn nothing_behind(row: &UnusualMessage, seen: &Exchange, ordinary: Option<u16>) -> Finding {
    let words = seen.words(UNASKED);
    match (seen.first(ordinary), seen.second(ordinary), seen.behind) {
        (Interpretation::Dropped | Interpretation::Nothing | Interpretation::Refused(_), None, _) => {
            Finding::unknown(
                row.id,
                format!("{}: {words}; there is nothing to compare with, so no more was sent", row.what),
            )
        }
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
fn must_be_taken(row: &UnusualMessage, seen: &Exchange, ordinary: Option<u16>) -> Finding {
    let evidence = format!("{}: {}", row.what, seen.words(UNASKED));
    match seen.first(ordinary) {
        Interpretation::Well => Finding::good(row.id, evidence),
        Interpretation::Otherwise(_) => Finding::unknown(row.id, evidence),
        Interpretation::Refused(_) | Interpretation::Dropped | Interpretation::Nothing => {
            Finding::bad(row.id, evidence).costs("clients that send this get an error, or no response")
        }
    }
}

/// The same, of what clients hardly ever send.
fn should_be_taken(row: &UnusualMessage, seen: &Exchange, ordinary: Option<u16>) -> Finding {
    let evidence = format!("{}: {}", row.what, seen.words(UNASKED));
    match seen.first(ordinary) {
        Interpretation::Well => Finding::good(row.id, evidence),
        Interpretation::Otherwise(_) => {
            Finding::unknown(row.id, format!("{evidence}: the application may treat it differently"))
        }
        Interpretation::Refused(_) | Interpretation::Dropped | Interpretation::Nothing => {
            Finding::warning(row.id, evidence).costs("clients that send this get an error, or no response")
        }
    }
}

/// Any response does.
fn should_have_response(row: &UnusualMessage, seen: &Exchange, ordinary: Option<u16>) -> Finding {
    let evidence = format!("{}: {}", row.what, seen.words(UNASKED));
    match seen.first(ordinary) {
        Interpretation::Nothing => {
            Finding::warning(row.id, evidence).costs("a client that sends it waits until it times out")
        }
        Interpretation::Dropped => {
            Finding::warning(row.id, evidence).costs("a client that sends it cannot tell why")
        }
        Interpretation::Refused(500) => {
            Finding::warning(row.id, evidence).costs("any client can fill the error log")
        }
        _ => Finding::good(row.id, evidence),
    }
}

/// RFC 9112 §3.2: an HTTP/1.1 request without Host must get 400.
fn should_be_refused(row: &UnusualMessage, seen: &Exchange, ordinary: Option<u16>) -> Finding {
    let evidence = format!("{}: {}", row.what, seen.words(UNASKED));
    match seen.first(ordinary) {
        Interpretation::Refused(400..=499) | Interpretation::Dropped => Finding::good(row.id, evidence),
        Interpretation::Well => {
            Finding::warning(row.id, format!("{evidence}: accepted, although RFC 9112 §3.2 requires 400"))
                .costs("a name-based proxy in front cannot tell which site the request is for")
        }
        _ => Finding::unknown(row.id, evidence),
    }
}

/// A body ends where its framing says, whether or not it is read: its content is not a request (RFC 9112 §6).
fn body_is_body(row: &UnusualMessage, seen: &Exchange, ordinary: Option<u16>) -> Finding {
    let evidence = format!("{}: {}", row.what, seen.words(UNASKED));
    let smuggles = "any client that can send a body can hide a request in it, past every check in front (request smuggling)";
    match (seen.first(ordinary), seen.second(ordinary)) {
        // A request that is refused first may be followed by the close only.
        (_, Some(_)) => {
            Finding::bad(row.id, format!("{evidence}: the body was read as the next request")).costs(smuggles)
        }
        (Interpretation::Refused(_) | Interpretation::Dropped, None) if seen.ended => {
            Finding::good(row.id, evidence)
        }
        (Interpretation::Nothing, None) => {
            Finding::warning(row.id, evidence).costs("a client that sends it waits until it times out")
        }
        (_, None) => match &seen.next {
            Some(next) => {
                let evidence = format!("{evidence}; the ordinary request after it: {}", next.words());
                match taken(next, ordinary) {
                    // A close that was not announced loses a request, and lets none in.
                    Interpretation::Well | Interpretation::Dropped => Finding::good(row.id, evidence),
                    Interpretation::Otherwise(_) => Finding::unknown(row.id, evidence),
                    Interpretation::Refused(_) | Interpretation::Nothing => {
                        Finding::bad(row.id, evidence).costs(smuggles)
                    }
                }
            }
            None => Finding::good(row.id, evidence),
        },
    }
}
