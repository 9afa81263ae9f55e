//! From observations to verdicts.

use std::time::Duration;

use super::ask::{EarlyResponse, ExpectExchange, HeadExchange, PlainExchange, UnreadBody};
use crate::finding::Finding;
use crate::report::time;

pub(super) const CONTINUE: &str = "expect.continue";
pub(super) const ONCE: &str = "expect.once";
pub(super) const UNREAD: &str = "expect.unread";
pub(super) const HTTP10: &str = "expect.http10";
pub(super) const EMPTY: &str = "expect.empty";
pub(super) const OTHER: &str = "expect.other";

/// How long `curl` waits, and most clients after it.
const CLIENT_WAITS: Duration = Duration::from_secs(1);

/// A `100` may come this much later than the response to the same request without the expectation: a proxy gives the server behind it a moment.
const LATE: Duration = Duration::from_millis(500);

/// A request that takes longer than this by itself hides whether the expectation is waited for.
const SLOW: Duration = Duration::from_millis(800);

const FAILS: &str = "every such POST fails";

/// Whether the client gets a word before it sends its body.
pub(super) fn continued(held: &ExpectExchange, plain: &PlainExchange) -> Finding {
    let asked = format!("{}, body held back", held.asked);
    match &held.first {
        EarlyResponse::Continue(at) => hundred(held, plain, *at, &asked),
        EarlyResponse::Final { status, after, .. } => {
            let evidence =
                format!("{asked}: {status} after {}, before the body{}", time(*after), hint(held, *status));
            failed(evidence.clone(), *status, *after, plain)
                .unwrap_or_else(|| Finding::good(CONTINUE, evidence))
        }
        EarlyResponse::Nothing(waited) => nothing(held, plain, *waited, &asked),
        EarlyResponse::Lost(words) => Finding::bad(
            CONTINUE,
            format!("{asked}: {words}; without Expect: {} after {}", plain.status, time(plain.after)),
        )
        .costs(FAILS),
    }
}

fn hundred(held: &ExpectExchange, plain: &PlainExchange, at: Duration, asked: &str) -> Finding {
    let Some(then) = &held.then else {
        return Finding::unknown(CONTINUE, format!("{asked}: 100 after {}", time(at)));
    };
    let evidence = format!("{asked}: 100 after {}; with the body sent: {}", time(at), then.words);
    let decided = if then.status >= Some(400) { ", decided only then" } else { "" };
    let evidence = format!("{evidence}{decided}");
    let Some(status) = then.status else {
        return Finding::bad(CONTINUE, evidence).costs(FAILS);
    };
    if let Some(finding) = failed(evidence.clone(), status, then.after, plain) {
        return finding;
    }
    match at {
        late if late >= CLIENT_WAITS + plain.after => {
            Finding::bad(CONTINUE, evidence).costs(format!("{} on every such POST", time(CLIENT_WAITS)))
        }
        late if late > LATE + plain.after => {
            Finding::warning(CONTINUE, evidence).costs(format!("{} on every such POST", time(late)))
        }
        _ => Finding::good(CONTINUE, evidence),
    }
}

fn nothing(held: &ExpectExchange, plain: &PlainExchange, waited: Duration, asked: &str) -> Finding {
    let mut evidence = format!("{asked}: nothing within {}", time(waited));
    let Some(then) = &held.then else { return Finding::unknown(CONTINUE, evidence) };
    let late = if held.hundreds > 0 { "100, too late, and " } else { "" };
    evidence.push_str(&format!("; with the body sent: {late}{}", then.words));
    if plain.after > SLOW {
        return Finding::unknown(
            CONTINUE,
            format!("{evidence}; but without Expect it takes {}, too", time(plain.after)),
        );
    }
    let cost = match then.status {
        Some(_) => format!("{} on every such POST", time(CLIENT_WAITS)),
        None => FAILS.to_owned(),
    };
    Finding::bad(CONTINUE, evidence).costs(cost)
}

/// A request that fails only because of the expectation.
fn failed(evidence: String, status: u16, after: Duration, plain: &PlainExchange) -> Option<Finding> {
    if status < 400 || status == plain.status {
        return None;
    }
    let evidence = format!("{evidence}; without Expect: {}", plain.status);
    Some(match status {
        // Clients repeat the request without the expectation (RFC 9110 §15.5.18), at the price of an exchange.
        417 => Finding::warning(CONTINUE, evidence).costs(format!(
            "one more exchange on every such POST: {} here, and perhaps a new connection",
            time(after)
        )),
        429 | 503 => Finding::unknown(CONTINUE, evidence),
        _ if plain.status >= 400 => Finding::warning(CONTINUE, evidence),
        _ => Finding::bad(CONTINUE, evidence).costs(FAILS),
    })
}

/// A response to `OPTIONS` that says nothing about those to `POST`.
fn hint(held: &ExpectExchange, status: u16) -> &'static str {
    match held.method == "OPTIONS" && status >= 400 {
        true => " (--post PATH shows the response to a POST)",
        false => "",
    }
}

/// A client gets the `100` once. Nothing where none came.
pub(super) fn once(held: &ExpectExchange) -> Option<Finding> {
    let evidence = |words: &str| format!("{}: {words}", held.asked);
    match held.hundreds {
        0 => None,
        1 => Some(Finding::good(ONCE, evidence("one 100"))),
        many => Some(
            Finding::bad(ONCE, evidence(&format!("{many} responses with 100")))
                .costs("a client that skips only one takes the second for the response"),
        ),
    }
}

/// Whether the body may have been taken for the next request.
pub(super) fn is_misread(unread: &UnreadBody, usual: Option<u16>) -> bool {
    match unread {
        // No such method, no such version, or no request at all.
        UnreadBody::Responded(status) => matches!(status, 400 | 405 | 501 | 505) && usual != Some(*status),
        UnreadBody::Garbled(_) => true,
        UnreadBody::Nothing(_) | UnreadBody::Closed => false,
    }
}

/// A server that responds before the body, and does not announce a close, must read the body past (RFC 9110 §10.1.1).
///
/// `without` is what happens to a body without the expectation, where that matters.
pub(super) fn unread(
    asked: &str,
    unread: &UnreadBody,
    without: Option<&UnreadBody>,
    usual: Option<u16>,
) -> Finding {
    let begun = format!(
        "{asked}: response before the body, without Connection: close; then the body and another request were sent"
    );
    let misread = is_misread(unread, usual);
    if misread && without.is_some_and(|without| is_misread(without, usual)) {
        return Finding::unknown(
            UNREAD,
            format!("{begun}: that fails, but it also fails after a body without Expect"),
        );
    }
    match unread {
        UnreadBody::Responded(status) if misread => Finding::bad(
            UNREAD,
            format!("{begun}: {status}; the body was read as the beginning of the next request"),
        )
        .costs("the next request on that connection fails, or is not the one that the client sent"),
        UnreadBody::Responded(status) => Finding::good(UNREAD, format!("{begun}: {status}")),
        UnreadBody::Garbled(why) => Finding::bad(UNREAD, format!("{begun}: no valid response ({why})"))
            .costs("the next request on that connection fails"),
        UnreadBody::Nothing(waited) => {
            Finding::unknown(UNREAD, format!("{begun}: nothing within {}", time(*waited)))
        }
        UnreadBody::Closed => Finding::warning(UNREAD, format!("{begun}: the connection was closed"))
            .costs("the next request on that connection may be lost, and must be retried on another"),
    }
}

/// No client of HTTP/1.0 gets a `100` (RFC 9110 §15.2).
pub(super) fn http10(asked: &HeadExchange, without: Option<&HeadExchange>) -> Finding {
    match (asked.hundreds, asked.status) {
        (0, Some(_)) => Finding::good(HTTP10, format!("{}: {}, and no 100", asked.asked, asked.words)),
        (0, None) => Finding::unknown(HTTP10, format!("{}: {}", asked.asked, asked.words)),
        _ if without.is_some_and(|without| without.hundreds > 0) => {
            Finding::unknown(HTTP10, format!("{}: 100, but also without Expect", asked.asked))
        }
        // Few clients of HTTP/1.0 expect anything, but a proxy may pass the field on: then the 100 is its response (RFC 9110 §15.2).
        _ => Finding::bad(HTTP10, format!("{}: 100, which HTTP/1.0 does not define", asked.asked))
            .costs("an HTTP/1.0 client takes the 100 for the response"),
    }
}

/// There is no body to wait for.
pub(super) fn empty(asked: &HeadExchange, plain: &PlainExchange) -> Finding {
    let evidence = format!("{}: {}", asked.asked, asked.words);
    match asked.status {
        Some(_) => Finding::good(EMPTY, evidence),
        None if asked.silent && plain.after <= SLOW => {
            Finding::bad(EMPTY, evidence).costs("a request without a body waits for one, until a timeout")
        }
        None => Finding::unknown(EMPTY, evidence),
    }
}

/// An unknown expectation may be refused by 417, or ignored (RFC 9110 §10.1.1).
pub(super) fn other(asked: &HeadExchange, plain: &PlainExchange) -> Finding {
    let evidence = format!("{}: {}", asked.asked, asked.words);
    match asked.status {
        Some(417) => Finding::good(OTHER, evidence),
        Some(status) if status >= 500 && status != plain.status => {
            Finding::warning(OTHER, format!("{evidence}, instead of 417; without Expect: {}", plain.status))
        }
        Some(_) => Finding::good(OTHER, format!("{evidence}: ignored, which is allowed")),
        None if plain.after > SLOW => Finding::unknown(OTHER, evidence),
        None => Finding::warning(OTHER, format!("{evidence}, instead of 417 or the ordinary response")),
    }
}
