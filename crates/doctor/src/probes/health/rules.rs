//! From a checker's observations to verdicts.

use std::time::Duration;

use super::PATIENCE;
use super::checkers::{CheckResult, Checker};
use crate::client::Response;
use crate::finding::Finding;
use crate::report::time;

pub(super) const ONE_READ: &str = "health.one_read";

/// An ordinary request that takes longer than this leaves no room to tell a stall from a slow page.
const SLOW: Duration = Duration::from_millis(500);

const DOWN: &str = "such a check takes a healthy server out of service";

/// The response to an ordinary request.
#[derive(Debug, Clone, Copy)]
pub(super) struct OrdinaryResponse {
    pub(super) status: u16,
    pub(super) after: Duration,
    /// The status of a request of HTTP/1.0 with another name in `Host`, once that is known.
    pub(super) elsewhere: Option<u16>,
}

impl OrdinaryResponse {
    pub(super) fn of(response: &Response) -> Self {
        Self {
            status: response.status().unwrap_or(0),
            after: response.head_at.unwrap_or(response.took),
            elsewhere: None,
        }
    }
}

/// The findings of a check. `authority` is what a browser sends as `Host`.
pub(super) fn check(
    checker: Checker,
    seen: &CheckResult,
    usual: OrdinaryResponse,
    authority: &str,
) -> Finding {
    let id = checker.id();
    if let Some(failure) = &seen.failure {
        return Finding::unknown(id, failure.clone());
    }
    let evidence = format!("{}: {}", seen.asked, seen.words);
    let Some(status) = seen.status else { return without_response(id, seen, usual, evidence) };
    if checker.passes(status) {
        let again = match seen.again {
            Some(again) => format!(", then {again} on the same connection"),
            None => String::new(),
        };
        return Finding::good(id, format!("{evidence}: healthy{again}"));
    }
    match reason(checker, status, seen, usual, authority) {
        CheckFailure::Itself => Finding::unknown(
            id,
            format!(
                "{evidence}: unhealthy, but a browser gets no better response; a check needs another path"
            ),
        ),
        CheckFailure::Proper(words) => Finding::good(
            id,
            format!("{evidence}: unhealthy, {words}; configure the request of such a check"),
        ),
        CheckFailure::Busy => Finding::unknown(id, format!("{evidence}: too many requests")),
        // RFC 9112 §3.2 wants a Host of HTTP/1.1 alone: a valid request is called a bad one.
        CheckFailure::None if status == 400 && seen.host.is_none() => {
            Finding::bad(id, format!("{evidence}: unhealthy, although a browser gets {}", usual.status))
                .costs(DOWN)
        }
        CheckFailure::None => {
            Finding::warning(id, format!("{evidence}: unhealthy, although a browser gets {}", usual.status))
                .costs(DOWN)
        }
    }
}

/// Why a check does not pass.
enum CheckFailure {
    /// The page responds no better to other requests.
    Itself,
    /// The response is a proper one to this request.
    Proper(&'static str),
    /// Too many requests.
    Busy,
    /// There is none.
    None,
}

fn reason(
    checker: Checker,
    status: u16,
    seen: &CheckResult,
    usual: OrdinaryResponse,
    authority: &str,
) -> CheckFailure {
    if !checker.passes(usual.status) && (status == usual.status || !(200..400).contains(&usual.status)) {
        return CheckFailure::Itself;
    }
    let options = checker == Checker::HaProxyDefault;
    match status {
        429 => CheckFailure::Busy,
        200..=399 => CheckFailure::Proper("because it requires 200"),
        // HTTP/1.0 must get a response, and needs no Host.
        426 | 505 => CheckFailure::None,
        // Unless it is the name that is not liked: then it is none of the version's business.
        400 if seen.host.is_none() && usual.elsewhere != Some(400) => CheckFailure::None,
        401..=499 | 501 if options => CheckFailure::Proper("because support for OPTIONS is optional"),
        400..=499 if seen.host.as_deref() != Some(authority) => {
            CheckFailure::Proper("because that is not the name of the site")
        }
        _ => CheckFailure::None,
    }
}

fn without_response(
    id: &'static str,
    seen: &CheckResult,
    usual: OrdinaryResponse,
    evidence: String,
) -> Finding {
    let browser = time(usual.after);
    match seen.silent {
        true if usual.after >= PATIENCE => Finding::warning(
            id,
            format!("{evidence}: too late for a check, and a browser waits for {browser}, too"),
        )
        .costs(DOWN),
        true if usual.after >= SLOW => {
            Finding::unknown(id, format!("{evidence}; a browser waits for {browser}"))
        }
        _ => {
            Finding::bad(id, format!("{evidence}, although a browser gets {} after {browser}", usual.status))
                .costs(DOWN)
        }
    }
}

/// A checker that reads once needs the status line in its first read. It is not this probe that judges how a response is written.
pub(super) fn one_read(asked: &str, reads: &[Vec<u8>]) -> Finding {
    let first = |read: &&Vec<u8>| !read.is_empty();
    let Some(least) = reads.iter().filter(first).min_by_key(|read| (has_status_line(read), read.len()))
    else {
        return Finding::unknown(ONE_READ, format!("{asked}: nothing received within {}", time(PATIENCE)));
    };
    let evidence = format!("{asked}, read once: {} bytes", least.len());
    if !has_status_line(least) {
        let shown: String = least.iter().take(40).map(|byte| byte.escape_ascii().to_string()).collect();
        return Finding::warning(ONE_READ, format!("{evidence}, not even a status line: \"{shown}\""))
            .costs("a check that reads once takes a healthy server out of service");
    }
    match least.windows(4).any(|four| four == b"\r\n\r\n") {
        true => Finding::good(ONE_READ, format!("{evidence}, the whole head")),
        false => Finding::good(ONE_READ, format!("{evidence}, the status line, but not the whole head")),
    }
}

fn has_status_line(read: &[u8]) -> bool {
    read.starts_with(b"HTTP/") && read.contains(&b'\n')
}
