//! What is malformed, with `--intrusive`: each message on a connection of its own, and whatever hides in it is the ordinary request for the same page.

use std::time::Instant;

use super::Page;
use super::asking::{Bytes, Seen, Taken, Then, UNASKED, send, with_lines};
use crate::finding::{Finding, Verdict};
use crate::patient::Patient;
use crate::probes::persistence::not_asked;
use crate::wire::{Ask, Response};

/// A malformed message.
struct Row {
    id: &'static str,
    /// For evidence.
    what: String,
    bytes: Bytes,
    rule: Rule,
}

/// What tells whether it was taken, and what is thought of that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// The fault is in the head: any ordinary response took it. It must be refused.
    Head,
    /// The same, but it is permitted, or mends nothing that anybody relies on: a risk only.
    LaxHead,
    /// The fault is in the body, and an ordinary request stands behind it: if that is answered, the body was taken. It must be refused.
    Body,
    /// The same; many take it.
    LaxBody,
    /// It moves the message's end, and a request hides where readers disagree.
    Boundary,
    /// The same, but taking it and closing behind it is permitted.
    BoundaryUnlessClosed,
    /// The same, but where the hidden request is answered, the faulty line was harmless.
    BoundaryUnlessSplit,
    /// The request itself comes back.
    Trace,
}

impl Rule {
    /// Whether an ordinary request stands behind the malformed one, in the same piece.
    fn has_more(self) -> bool {
        !matches!(self, Self::Head | Self::LaxHead | Self::Trace)
    }

    /// What a second response is to.
    fn behind(self) -> &'static str {
        match self {
            Self::Body | Self::LaxBody | Self::BoundaryUnlessSplit => "to the request after it:",
            _ => UNASKED,
        }
    }
}

const SMUGGLES: &str = "behind or in front of a server that reads it the other way, one request hides another (request smuggling)";

const MISROUTES: &str = "a server that chooses by one host and one that responds for the other can be played off against each other (caches, access rules)";

pub(super) async fn examine(page: &Page<'_>) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    let habits = Habits { goes_on: goes_on_behind_chunks(page).await, drops: drops_two(page).await };
    for row in rows(&page.ask, page.patient) {
        let asking = match Instant::now() > page.until {
            true => None,
            false => Some(send(page, &row.bytes).await),
        };
        let finding = match asking {
            None => Finding::unknown(row.id, not_asked(page.patient)),
            Some(Ok(seen)) => judge(&row, &seen, page.ordinary, habits),
            Some(Err(failure)) => Finding::unknown(row.id, format!("{}: {failure}", row.what)),
        };
        // Of the variants of one thing the worst counts.
        match findings.iter_mut().find(|known| known.id == finding.id) {
            Some(known) if finding.verdict > known.verdict => *known = finding,
            Some(_) => {}
            None => findings.push(finding),
        }
    }
    findings
}

/// What the server does where nothing is malformed.
#[derive(Debug, Clone, Copy, Default)]
struct Habits {
    /// A request behind a body of proper chunks is answered.
    goes_on: bool,
    /// Two proper requests in one piece are not answered at all: the connection is closed. `php -S` does so.
    drops: bool,
}

async fn drops_two(page: &Page<'_>) -> bool {
    let two = Bytes::of(&page.ask, page.ask.bytes().repeat(2)).then(Then::Leave);
    let seen = send(page, &two).await;
    seen.is_ok_and(|seen| seen.first(page.ordinary) == Taken::Dropped)
}

/// Whether a request behind a body of proper chunks is answered.
async fn goes_on_behind_chunks(page: &Page<'_>) -> bool {
    let proper = chunked(&page.ask, "5\r\nhello\r\n0\r\n\r\n");
    let seen = send(page, &proper).await;
    seen.is_ok_and(|seen| seen.second(page.ordinary) == Some(Taken::Well))
}

/// A request with this for its body in chunks, and an ordinary one behind it.
fn chunked(ask: &Ask, body: &str) -> Bytes {
    with_lines(ask, "Transfer-Encoding: chunked\r\n", &[body.as_bytes(), &ask.bytes()].concat())
}

fn rows(ask: &Ask, patient: &Patient) -> Vec<Row> {
    let mut rows = lengths(ask);
    rows.extend(codings(ask));
    rows.extend(chunks(ask));
    rows.extend(lines(ask));
    rows.extend(heads(ask, patient));
    rows
}

/// Two responses to where the message ends, in its lengths.
fn lengths(ask: &Ask) -> Vec<Row> {
    let hidden = ask.bytes();
    let length = hidden.len();
    let row = |id, line: String, rule| Row {
        id,
        what: line.trim_end().replace("\r\n", " and "),
        bytes: with_lines(ask, &line, &hidden),
        rule,
    };
    let both = format!("Content-Length: {}\r\nTransfer-Encoding: chunked\r\n", length + 5);
    vec![
        Row {
            id: "framing.both_lengths",
            what: "Content-Length with Transfer-Encoding: chunked".to_owned(),
            bytes: with_lines(ask, &both, &behind_last_chunk(&hidden)),
            rule: Rule::BoundaryUnlessClosed,
        },
        row(
            "framing.differing_lengths",
            format!("Content-Length: 0\r\nContent-Length: {length}\r\n"),
            Rule::Boundary,
        ),
        row("framing.differing_lengths", format!("Content-Length: 0, {length}\r\n"), Rule::Boundary),
        row("framing.length_syntax", format!("Content-Length: +{length}\r\n"), Rule::Boundary),
        row("framing.length_syntax", format!("Content-Length: {length}a\r\n"), Rule::Boundary),
        row("framing.space_before_colon", format!("Content-Length : {length}\r\n"), Rule::Boundary),
    ]
}

fn behind_last_chunk(hidden: &[u8]) -> Vec<u8> {
    [b"0\r\n\r\n".as_slice(), hidden].concat()
}

/// Transfer codings that do not end in `chunked`, or hide it.
fn codings(ask: &Ask) -> Vec<Row> {
    let row = |id, ask: &Ask, line: &str, rule| Row {
        id,
        what: format!("{} with {}", ask.line(), line.trim_end().escape_debug()),
        bytes: with_lines(ask, line, &behind_last_chunk(&ask.bytes())),
        rule,
    };
    let old = ask.clone().http10().field("Connection", "keep-alive");
    vec![
        row("framing.transfer_coding", ask, "Transfer-Encoding: chunked, identity\r\n", Rule::Boundary),
        row("framing.transfer_coding", ask, "Transfer-Encoding: xchunked\r\n", Rule::Boundary),
        row("framing.transfer_coding", ask, "Transfer-Encoding: \x0bchunked\r\n", Rule::Boundary),
        row("framing.space_before_colon", ask, "Transfer-Encoding : chunked\r\n", Rule::Boundary),
        row("framing.http10_coding", &old, "Transfer-Encoding: chunked\r\n", Rule::BoundaryUnlessClosed),
    ]
}

/// Chunks whose sizes or ends are none.
fn chunks(ask: &Ask) -> Vec<Row> {
    let row = |id, what: &str, body: &str, rule| Row {
        id,
        what: format!("a chunk {what}"),
        bytes: chunked(ask, body),
        rule,
    };
    vec![
        row("framing.chunk_size", "of size 0x5", "0x5\r\nhello\r\n0\r\n\r\n", Rule::Body),
        row("framing.chunk_size", "of size +5", "+5\r\nhello\r\n0\r\n\r\n", Rule::Body),
        row(
            "framing.chunk_size",
            "of size 10000000000000005",
            "10000000000000005\r\nhello\r\n0\r\n\r\n",
            Rule::Body,
        ),
        row(
            "framing.chunk_end",
            "with two other bytes instead of its last CRLF",
            "5\r\nhelloXY0\r\n\r\n",
            Rule::Body,
        ),
        row(
            "framing.chunk_line_end",
            "whose size ends with LF alone",
            "5\nhello\r\n0\r\n\r\n",
            Rule::LaxBody,
        ),
    ]
}

/// Ends of lines that are none, with a length behind them.
fn lines(ask: &Ask) -> Vec<Row> {
    let hidden = ask.bytes();
    let length = hidden.len();
    let row = |id, what: &str, line: String| Row {
        id,
        what: what.to_owned(),
        bytes: with_lines(ask, &line, &hidden),
        rule: Rule::BoundaryUnlessSplit,
    };
    let bare: Vec<u8> = ask.head().into_iter().filter(|&byte| byte != b'\r').collect();
    vec![
        row(
            "framing.bare_cr",
            "a bare CR in a header value",
            format!("X-Keepwarm-Check: a\rContent-Length: {length}\r\n"),
        ),
        row(
            "framing.folding",
            "a folded header",
            format!("X-Keepwarm-Check: a\r\n Content-Length: {length}\r\n"),
        ),
        Row {
            id: "framing.bare_lf",
            what: "a head whose lines end with LF alone".to_owned(),
            bytes: Bytes::of(ask, bare).then(Then::Leave),
            rule: Rule::LaxHead,
        },
    ]
}

/// Faults that move no boundary.
fn heads(ask: &Ask, patient: &Patient) -> Vec<Row> {
    let row = |id, what: &str, bytes: Bytes, rule| Row {
        id,
        what: what.to_owned(),
        bytes: bytes.then(Then::Leave),
        rule,
    };
    let whole = |ask: &Ask| Bytes::of(ask, ask.bytes());
    let other_version =
        String::from_utf8_lossy(&ask.bytes()).replacen("HTTP/1.1\r\n", "HTTP/9.9\r\n", 1).into_bytes();
    vec![
        row(
            "framing.two_hosts",
            "two different Host headers",
            with_lines(ask, "Host: keepwarm-check.invalid\r\n", b""),
            Rule::Head,
        ),
        row(
            "framing.bad_host",
            "Host: keepwarm check/",
            whole(&ask.clone().field("Host", "keepwarm check/")),
            Rule::LaxHead,
        ),
        row(
            "framing.control_byte",
            "a NUL in a header value",
            with_lines(ask, "X-Keepwarm-Check: a\0b\r\n", b""),
            Rule::LaxHead,
        ),
        row(
            "framing.name_syntax",
            "a space within a header name",
            with_lines(ask, "X Keepwarm Check: a\r\n", b""),
            Rule::LaxHead,
        ),
        row("framing.version", "HTTP/9.9", Bytes::of(ask, other_version), Rule::LaxHead),
        row("framing.trace", "TRACE", whole(&patient.ask_by("TRACE")), Rule::Trace),
    ]
}

/// What is thought of what came back.
fn judge(row: &Row, seen: &Seen, ordinary: Option<u16>, habits: Habits) -> Finding {
    if row.rule == Rule::Trace {
        return trace(row, seen);
    }
    let evidence = format!("{}: {}", row.what, seen.words(row.rule.behind()));
    let (first, second) = (seen.first(ordinary), seen.second(ordinary));
    match first {
        Taken::Dropped if habits.drops && row.rule.has_more() => {
            let why = "but so are two valid requests sent together";
            return Finding::unknown(row.id, format!("{evidence}, {why}"));
        }
        Taken::Refused(_) | Taken::Dropped => return Finding::good(row.id, format!("{evidence}: rejected")),
        Taken::Otherwise(status @ 400..=499) => {
            return Finding::good(row.id, format!("{evidence}: rejected with {status}"));
        }
        Taken::Nothing | Taken::Otherwise(_) => return Finding::unknown(row.id, evidence),
        Taken::Well => {}
    }
    let (verdict, why) = match row.rule {
        Rule::Head => (Verdict::Bad, "accepted, although it must be rejected"),
        Rule::LaxHead => (Verdict::Warning, "accepted"),
        Rule::Body | Rule::LaxBody => in_body(row.rule, seen, second, habits.goes_on),
        Rule::Boundary | Rule::BoundaryUnlessClosed | Rule::BoundaryUnlessSplit => {
            at_boundary(row.rule, seen, second, ordinary)
        }
        Rule::Trace => (Verdict::Unknown, "response"),
    };
    let evidence = format!("{evidence}: {why}");
    match verdict {
        Verdict::Bad if row.rule == Rule::Head => Finding::bad(row.id, evidence).costs(MISROUTES),
        Verdict::Bad => Finding::bad(row.id, evidence).costs(SMUGGLES),
        Verdict::Warning => Finding::warning(row.id, evidence)
            .costs("nothing here; behind a server that reads it differently, a security hole"),
        Verdict::Unknown => Finding::unknown(row.id, evidence),
        Verdict::Good => Finding::good(row.id, evidence),
    }
}

/// The first response may have been given before the body was looked at: the request behind it tells.
fn in_body(rule: Rule, seen: &Seen, second: Option<Taken>, goes_on: bool) -> (Verdict, &'static str) {
    match second {
        Some(Taken::Well) if rule == Rule::LaxBody => (Verdict::Warning, "accepted"),
        Some(Taken::Well) => (Verdict::Bad, "accepted, and the request after it got a response"),
        Some(_) => (Verdict::Good, "response before the body was read, then rejected"),
        None if seen.ended && goes_on => (
            Verdict::Good,
            "response before the body was read, then a close, which does not follow a valid chunk",
        ),
        None if seen.ended => (Verdict::Unknown, "response and close, perhaps before the body was read"),
        None => (Verdict::Unknown, "response, then nothing"),
    }
}

fn at_boundary(
    rule: Rule,
    seen: &Seen,
    second: Option<Taken>,
    ordinary: Option<u16>,
) -> (Verdict, &'static str) {
    match (second, rule) {
        (Some(Taken::Well), Rule::BoundaryUnlessSplit) => {
            (Verdict::Warning, "accepted, and what looks like a length was not read as one")
        }
        (Some(Taken::Well), _) => (Verdict::Bad, "accepted, and the request hidden in it got a response"),
        (Some(_), _) => (Verdict::Bad, "accepted, and the bytes after it were read as a request"),
        (None, Rule::BoundaryUnlessClosed) if seen.ended => {
            (Verdict::Warning, "accepted, and the connection closed, which RFC 9112 §6.3 permits")
        }
        (None, Rule::BoundaryUnlessSplit) if seen.ended => {
            (Verdict::Warning, "accepted, and the connection closed")
        }
        // Nothing can hide where the connection ends.
        (None, _) if seen.ended => {
            (Verdict::Warning, "accepted, although it must be rejected, and the connection closed after it")
        }
        (None, _) if seen.is_in_step(ordinary) => {
            (Verdict::Bad, "accepted, and the request hidden in it swallowed as its body")
        }
        (None, _) => (Verdict::Unknown, "accepted, then nothing"),
    }
}

/// What came back is what was sent: a script that may not read a cookie reads it there.
fn trace(row: &Row, seen: &Seen) -> Finding {
    let evidence = format!("{}: {}", row.what, seen.words(UNASKED));
    let is_echo = |response: &Response| response.body.windows(6).any(|six| six == b"TRACE ");
    match seen.responses.first() {
        Some(response) if response.is_complete() && is_echo(response) => {
            Finding::warning(row.id, format!("{evidence}, which echoes the request"))
                .costs("a script can read there what it must not see: cookies, headers that proxies add")
        }
        Some(response) if response.is_complete() => Finding::good(row.id, evidence),
        _ => Finding::unknown(row.id, evidence),
    }
}
