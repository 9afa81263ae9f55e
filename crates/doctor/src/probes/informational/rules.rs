//! From responses to verdicts.

use std::time::Duration;

use super::{InformationalExchange, is_allowed, is_dangerous, is_early_hints};
use crate::finding::Finding;
use crate::report::time;

pub(super) const EARLY_HINTS: &str = "informational.early_hints";
pub(super) const HTTP10: &str = "informational.http10";
pub(super) const UPGRADE: &str = "informational.upgrade";
pub(super) const TRAILERS: &str = "informational.trailers";
pub(super) const LOST_TRAILERS: &str = "informational.lost_trailers";
pub(super) const VIA_HINTS: &str = "informational.via_hints";
pub(super) const VIA_TRAILERS: &str = "informational.via_trailers";

const SWITCHED: &str = "101 Switching Protocols";

/// A lead shorter than this does not show which side holds the response back.
const NOTICEABLE: Duration = Duration::from_millis(10);

/// The responses before the page.
pub(super) fn early_hints(page: &InformationalExchange) -> Finding {
    let asked = &page.asked;
    if page.switched {
        return Finding::bad(EARLY_HINTS, format!("{asked}: {SWITCHED}, which was not requested"))
            .costs("the client reads a protocol that it does not speak");
    }
    let Some((status, at)) = page.last else {
        return Finding::unknown(EARLY_HINTS, format!("{asked}: {}", page.words));
    };
    let seen = format!("{asked}: {}, then {status} after {}", hints(page), time(at));
    if page.framed_hint {
        return Finding::warning(
            EARLY_HINTS,
            format!("{seen}; one 1xx has Content-Length or Transfer-Encoding, although no 1xx has a body"),
        )
        .costs("a client that trusts it waits for a body");
    }
    if page.hints.iter().any(|(status, _)| *status == 100) {
        return Finding::warning(EARLY_HINTS, format!("{seen}; the 100 was not expected"))
            .costs("a client that does not know 1xx takes it for the response");
    }
    match page.hints.iter().find(|(status, _)| is_early_hints(*status)) {
        Some((_, first)) => Finding::good(
            EARLY_HINTS,
            format!("{seen}: a browser starts {} earlier", time(at.saturating_sub(*first))),
        ),
        None if page.hints.is_empty() => Finding::unknown(
            EARLY_HINTS,
            format!(
                "{asked}: {status} after {}, and no 103: the app sends none, or a hop drops it (--via URL shows which)",
                time(at)
            ),
        ),
        None => Finding::good(EARLY_HINTS, seen),
    }
}

/// No 1xx for HTTP/1.0 (RFC 9110 §15.2).
pub(super) fn http10(old: &InformationalExchange) -> Finding {
    let asked = &old.asked;
    match (old.switched, old.hints.is_empty(), old.last) {
        (true, ..) => Finding::bad(HTTP10, format!("{asked}: {SWITCHED}, which was not requested"))
            .costs("the client reads a protocol that it does not speak"),
        (_, false, _) => {
            Finding::bad(HTTP10, format!("{asked}: {}, which HTTP/1.0 does not define", hints(old)))
                .costs("an HTTP/1.0 client takes it for the response")
        }
        (_, _, Some((status, _))) => Finding::good(HTTP10, format!("{asked}: {status}, and no 1xx")),
        (_, _, None) => Finding::unknown(HTTP10, format!("{asked}: {}", old.words)),
    }
}

/// An upgrade to an unknown protocol is ignored, or refused (RFC 9110 §7.8).
pub(super) fn upgrade(heard: &InformationalExchange) -> Finding {
    let asked = &heard.asked;
    match (heard.switched, heard.last) {
        (true, _) => Finding::bad(UPGRADE, format!("{asked}: {SWITCHED}, to a protocol that does not exist"))
            .costs("whatever a client sends next counts as another protocol, and bypasses every HTTP check"),
        (_, Some((status, at))) => {
            Finding::good(UPGRADE, format!("{asked}: {status} after {}, and no 101", time(at)))
        }
        (_, None) => Finding::unknown(UPGRADE, format!("{asked}: {}", heard.words)),
    }
}

/// The trailers of the page.
pub(super) fn trailers(page: &InformationalExchange) -> Finding {
    let asked = &page.asked;
    let Some((status, _)) = page.last else {
        return Finding::unknown(TRAILERS, format!("{asked}: {}", page.words));
    };
    let came = page.trailers.join(", ");
    let find = |test: fn(&str) -> bool| page.trailers.iter().find(|name| test(name));
    if let Some(name) = find(is_dangerous) {
        return Finding::bad(TRAILERS, format!("{asked}: {status} with {name} among the trailers ({came})"))
            .costs("a recipient that merges it into the head reads another message");
    }
    if let Some(name) = find(|name| !is_allowed(name)) {
        return Finding::warning(
            TRAILERS,
            format!("{asked}: {status} with {name} among the trailers ({came})"),
        )
        .costs("it comes too late to take effect, and is dropped");
    }
    let announced = page.announced.join(", ");
    match (came.as_str(), announced.as_str()) {
        ("", "") => {
            Finding::unknown(TRAILERS, format!("{asked}: {status}, and no trailers announced or sent"))
        }
        ("", _) if !page.whole => Finding::unknown(
            TRAILERS,
            format!("{asked}: {status} announces {announced}, but was not read to its end"),
        ),
        ("", _) => {
            let why =
                if page.chunked { "none came" } else { "a response that is not chunked cannot have any" };
            Finding::warning(
                LOST_TRAILERS,
                format!("{asked}: {status} announces the trailers {announced}, but {why}"),
            )
            .costs("a client that waits for them (a digest, a gRPC status) never gets them")
        }
        (came, "") => {
            Finding::good(TRAILERS, format!("{asked}: {status} with the trailers {came}, not announced"))
        }
        (came, _) => {
            Finding::good(TRAILERS, format!("{asked}: {status} with the trailers {came}, announced"))
        }
    }
}

/// What the hop `outer` does with the 1xx of `inner`, the server behind it.
pub(super) fn via_hints(
    inner: &InformationalExchange,
    outer: &InformationalExchange,
    names: (&str, &str),
) -> Finding {
    let (behind, front) = names;
    let told = |heard: &InformationalExchange| -> Vec<u16> {
        heard.hints.iter().map(|(status, _)| *status).filter(|status| *status != 100).collect()
    };
    let (sent, passed) = (told(inner), told(outer));
    let (Some((_, responded)), Some(_)) = (inner.last, outer.last) else {
        return Finding::unknown(VIA_HINTS, format!("{behind} and {front} did not both respond"));
    };
    let Some((_, first)) = inner.hints.iter().find(|(status, _)| *status != 100) else {
        return Finding::unknown(VIA_HINTS, format!("{behind} sends no 1xx that {front} could pass on"));
    };
    let evidence = format!("{behind} sends {}; through {front}: {}", hints(inner), hints(outer));
    let mut rest = passed.iter();
    let all = sent.iter().all(|status| rest.any(|passed| passed == status));
    let gain = responded.saturating_sub(*first);
    let left = lead(outer);
    match all {
        true if gain >= NOTICEABLE && left < gain / 4 => {
            Finding::warning(VIA_HINTS, format!("{evidence}, which leaves {} until the response", time(left)))
                .costs(format!("{} in which a browser could have started", time(gain - left)))
        }
        true => Finding::good(VIA_HINTS, evidence),
        false => Finding::warning(VIA_HINTS, evidence)
            .costs(format!("{} in which a browser could have started", time(gain))),
    }
}

/// How long the first 1xx came before the response.
fn lead(heard: &InformationalExchange) -> Duration {
    let first = heard.hints.iter().find(|(status, _)| *status != 100);
    first.zip(heard.last).map_or(Duration::ZERO, |((_, first), (_, last))| last.saturating_sub(*first))
}

/// What the hop `outer` does with the trailers of `inner`.
pub(super) fn via_trailers(
    inner: &InformationalExchange,
    outer: &InformationalExchange,
    names: (&str, &str),
) -> Finding {
    let (behind, front) = names;
    if inner.trailers.is_empty() {
        return Finding::unknown(
            VIA_TRAILERS,
            format!("{behind} sends no trailers that {front} could pass on"),
        );
    }
    if outer.last.is_none() || !outer.whole {
        return Finding::unknown(VIA_TRAILERS, format!("through {front}: {}", outer.words));
    }
    let sent = inner.trailers.join(", ");
    let merged = |name: &&String| {
        outer.names.contains(name) && !inner.names.contains(name) && !outer.trailers.contains(name)
    };
    if let Some(name) = inner.trailers.iter().find(merged) {
        return Finding::bad(
            VIA_TRAILERS,
            format!("{behind} sends the trailers {sent}; {front} puts {name} into the head"),
        )
        .costs("headers are trusted, and any sender of a trailer can set one");
    }
    let lost: Vec<&str> = inner
        .trailers
        .iter()
        .filter(|name| is_allowed(name) && !outer.trailers.contains(name))
        .map(String::as_str)
        .collect();
    match lost.is_empty() {
        true => {
            Finding::good(VIA_TRAILERS, format!("{behind} sends the trailers {sent}; {front} passes them on"))
        }
        false => Finding::warning(
            VIA_TRAILERS,
            format!("{behind} sends the trailers {sent}; {front} drops {}", lost.join(", ")),
        )
        .costs("a client that waits for them (a digest, a gRPC status) never gets them"),
    }
}

/// `103 after 3.2 ms, 103 after 7.0 ms`
fn hints(heard: &InformationalExchange) -> String {
    const SHOWN: usize = 4;
    if heard.hints.is_empty() {
        return "no 1xx".to_owned();
    }
    let mut shown: Vec<String> =
        heard.hints.iter().take(SHOWN).map(|(status, at)| format!("{status} after {}", time(*at))).collect();
    if heard.hints.len() > SHOWN {
        shown.push(format!("{} more", heard.hints.len() - SHOWN));
    }
    shown.join(", ")
}
