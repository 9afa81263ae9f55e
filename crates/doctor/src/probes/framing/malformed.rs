//! Malformed messages, with `--intrusive`: each on a connection of its own; the request hidden in it is the ordinary request for the same page.

use std::time::Instant;

use super::Page;
use super::exchange::{Exchange, FollowUp, Interpretation, RawMessage, UNASKED, send, with_lines};
use crate::client::{Request, Response};
use crate::context::ProbeContext;
use crate::finding::{Finding, Verdict};
use crate::probes::persistence::not_asked;

/// A malformed message.
struct MalformedMessage {
    id: &'static str,
    /// For evidence.
    what: String,
    bytes: RawMessage,
    rule: Rule,
}

/// How to see whether it was accepted, and the verdict then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// The fault is in the head: any ordinary response took it. It must be refused.
    Head,
    /// The same, but it is permitted, or fixes nothing that matters: a risk only.
    LaxHead,
    /// The fault is in the body, and an ordinary request follows it: if that gets a response, the body was accepted. It must be refused.
    Body,
    /// The same; many take it.
    LaxBody,
    /// It moves the message's end, and a request hides where readers disagree.
    Boundary,
    /// The same, but accepting it and then closing is permitted.
    BoundaryUnlessClosed,
    /// The same, but if the hidden request gets a response, the faulty line was harmless.
    BoundaryUnlessSplit,
    /// The request itself comes back.
    Trace,
}

impl Rule {
    /// Whether an ordinary request follows the malformed one, in the same piece.
    fn has_more(self) -> bool {
        !matches!(self, Self::Head | Self::LaxHead | Self::Trace)
    }

    /// The cause of a second response.
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
    let baseline = Baseline { goes_on: goes_on_behind_chunks(page).await, drops: drops_two(page).await };
    for row in rows(&page.request, page.context) {
        let exchange = match Instant::now() > page.until {
            true => None,
            false => Some(send(page, &row.bytes).await),
        };
        let finding = match exchange {
            None => Finding::unknown(row.id, not_asked(page.context)),
            Some(Ok(seen)) => judge(&row, &seen, page.ordinary, baseline),
            Some(Err(failure)) => Finding::unknown(row.id, format!("{}: {failure}", row.what)),
        };
        // The worst of several variants counts.
        match findings.iter_mut().find(|known| known.id == finding.id) {
            Some(known) if finding.verdict > known.verdict => *known = finding,
            Some(_) => {}
            None => findings.push(finding),
        }
    }
    findings
}

/// The server's behavior where nothing is malformed, for comparison.
#[derive(Debug, Clone, Copy, Default)]
struct Baseline {
    /// A request after a valid chunked body gets its response.
    goes_on: bool,
    /// Two valid requests in one piece get no response at all: the connection is closed. `php -S` does so.
    drops: bool,
}

async fn drops_two(page: &Page<'_>) -> bool {
    let two = RawMessage::of(&page.request, page.request.bytes().repeat(2)).then(FollowUp::Leave);
    let seen = send(page, &two).await;
    seen.is_ok_and(|seen| seen.first(page.ordinary) == Interpretation::Dropped)
}

/// Whether a request after a valid chunked body gets its response.
async fn goes_on_behind_chunks(page: &Page<'_>) -> bool {
    let proper = chunked(&page.request, "5\r\nhello\r\n0\r\n\r\n");
    let seen = send(page, &proper).await;
    seen.is_ok_and(|seen| seen.second(page.ordinary) == Some(Interpretation::Well))
}

/// A request with this for its body in chunks, and an ordinary one after it.
fn chunked(request: &Request, body: &str) -> RawMessage {
    with_lines(request, "Transfer-Encoding: chunked\r\n", &[body.as_bytes(), &request.bytes()].concat())
}

fn rows(request: &Request, context: &ProbeContext) -> Vec<MalformedMessage> {
    let mut rows = lengths(request);
    rows.extend(codings(request));
    rows.extend(chunks(request));
    rows.extend(lines(request));
    rows.extend(heads(request, context));
    rows
}

/// Two responses to where the message ends, in its lengths.
fn lengths(request: &Request) -> Vec<MalformedMessage> {
    let hidden = request.bytes();
    let length = hidden.len();
    let row = |id, line: String, rule| MalformedMessage {
        id,
        what: line.trim_end().replace("\r\n", " and "),
        bytes: with_lines(request, &line, &hidden),
        rule,
    };
    let both = format!("Content-Length: {}\r\nTransfer-Encoding: chunked\r\n", length + 5);
    vec![
        MalformedMessage {
            id: "framing.both_lengths",
            what: "Content-Length with Transfer-Encoding: chunked".to_owned(),
            bytes: with_lines(request, &both, &behind_last_chunk(&hidden)),
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
fn codings(request: &Request) -> Vec<MalformedMessage> {
    let row = |id, request: &Request, line: &str, rule| MalformedMessage {
        id,
        what: format!("{} with {}", request.line(), line.trim_end().escape_debug()),
        bytes: with_lines(request, line, &behind_last_chunk(&request.bytes())),
        rule,
    };
    let old = request.clone().http10().field("Connection", "keep-alive");
    vec![
        row("framing.transfer_coding", request, "Transfer-Encoding: chunked, identity\r\n", Rule::Boundary),
        row("framing.transfer_coding", request, "Transfer-Encoding: xchunked\r\n", Rule::Boundary),
        row("framing.transfer_coding", request, "Transfer-Encoding: \x0bchunked\r\n", Rule::Boundary),
        row("framing.space_before_colon", request, "Transfer-Encoding : chunked\r\n", Rule::Boundary),
        row("framing.http10_coding", &old, "Transfer-Encoding: chunked\r\n", Rule::BoundaryUnlessClosed),
    ]
}

/// Chunks with invalid sizes or ends.
fn chunks(request: &Request) -> Vec<MalformedMessage> {
    let row = |id, what: &str, body: &str, rule| MalformedMessage {
        id,
        what: format!("a chunk {what}"),
        bytes: chunked(request, body),
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

/// Invalid line ends, with a length after them.
fn lines(request: &Request) -> Vec<MalformedMessage> {
    let hidden = request.bytes();
    let length = hidden.len();
    let row = |id, what: &str, line: String| MalformedMessage {
        id,
        what: what.to_owned(),
        bytes: with_lines(request, &line, &hidden),
        rule: Rule::BoundaryUnlessSplit,
    };
    let bare: Vec<u8> = request.head().into_iter().filter(|&byte| byte != b'\r').collect();
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
        MalformedMessage {
            id: "framing.bare_lf",
            what: "a head whose lines end with LF alone".to_owned(),
            bytes: RawMessage::of(request, bare).then(FollowUp::Leave),
            rule: Rule::LaxHead,
        },
    ]
}

/// Faults that move no boundary.
fn heads(request: &Request, context: &ProbeContext) -> Vec<MalformedMessage> {
    let row = |id, what: &str, bytes: RawMessage, rule| MalformedMessage {
        id,
        what: what.to_owned(),
        bytes: bytes.then(FollowUp::Leave),
        rule,
    };
    let whole = |request: &Request| RawMessage::of(request, request.bytes());
    let other_version =
        String::from_utf8_lossy(&request.bytes()).replacen("HTTP/1.1\r\n", "HTTP/9.9\r\n", 1).into_bytes();
    vec![
        row(
            "framing.two_hosts",
            "two different Host headers",
            with_lines(request, "Host: keepwarm-check.invalid\r\n", b""),
            Rule::Head,
        ),
        row(
            "framing.bad_host",
            "Host: keepwarm check/",
            whole(&request.clone().field("Host", "keepwarm check/")),
            Rule::LaxHead,
        ),
        row(
            "framing.control_byte",
            "a NUL in a header value",
            with_lines(request, "X-Keepwarm-Check: a\0b\r\n", b""),
            Rule::LaxHead,
        ),
        row(
            "framing.name_syntax",
            "a space within a header name",
            with_lines(request, "X Keepwarm Check: a\r\n", b""),
            Rule::LaxHead,
        ),
        row("framing.version", "HTTP/9.9", RawMessage::of(request, other_version), Rule::LaxHead),
        row("framing.trace", "TRACE", whole(&context.request_by("TRACE")), Rule::Trace),
    ]
}

/// The verdict on the responses.
fn judge(row: &MalformedMessage, seen: &Exchange, ordinary: Option<u16>, baseline: Baseline) -> Finding {
    if row.rule == Rule::Trace {
        return trace(row, seen);
    }
    let evidence = format!("{}: {}", row.what, seen.words(row.rule.behind()));
    let (first, second) = (seen.first(ordinary), seen.second(ordinary));
    match first {
        Interpretation::Dropped if baseline.drops && row.rule.has_more() => {
            let why = "but so are two valid requests sent together";
            return Finding::unknown(row.id, format!("{evidence}, {why}"));
        }
        Interpretation::Refused(_) | Interpretation::Dropped => {
            return Finding::good(row.id, format!("{evidence}: rejected"));
        }
        Interpretation::Otherwise(status @ 400..=499) => {
            return Finding::good(row.id, format!("{evidence}: rejected with {status}"));
        }
        Interpretation::Nothing | Interpretation::Otherwise(_) => return Finding::unknown(row.id, evidence),
        Interpretation::Well => {}
    }
    let (verdict, why) = match row.rule {
        Rule::Head => (Verdict::Bad, "accepted, although it must be rejected"),
        Rule::LaxHead => (Verdict::Warning, "accepted"),
        Rule::Body | Rule::LaxBody => in_body(row.rule, seen, second, baseline.goes_on),
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

/// The first response may have been sent before the body was looked at: the request after it tells.
fn in_body(
    rule: Rule,
    seen: &Exchange,
    second: Option<Interpretation>,
    goes_on: bool,
) -> (Verdict, &'static str) {
    match second {
        Some(Interpretation::Well) if rule == Rule::LaxBody => (Verdict::Warning, "accepted"),
        Some(Interpretation::Well) => (Verdict::Bad, "accepted, and the request after it got a response"),
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
    seen: &Exchange,
    second: Option<Interpretation>,
    ordinary: Option<u16>,
) -> (Verdict, &'static str) {
    match (second, rule) {
        (Some(Interpretation::Well), Rule::BoundaryUnlessSplit) => {
            (Verdict::Warning, "accepted, and what looks like a length was not read as one")
        }
        (Some(Interpretation::Well), _) => {
            (Verdict::Bad, "accepted, and the request hidden in it got a response")
        }
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

/// The response repeats the request: a script that may not read a cookie reads it there.
fn trace(row: &MalformedMessage, seen: &Exchange) -> Finding {
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
