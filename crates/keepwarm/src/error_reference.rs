//! The reference of the error responses: `docs/reference/errors.md`, and `keepwarm explain REASON`.

use keepwarm_http1::{FaultKind, PathFault};
use keepwarm_serve::ErrorResponse;

/// The responder, the prefix of each sentence, and the table.
type Section = (&'static str, &'static str, &'static [&'static ErrorResponse]);

const SECTIONS: [Section; 5] = [
    ("Every address", "", keepwarm_serve::ERROR_RESPONSES),
    ("Listeners, routes and files", "", keepwarm_edge::ERROR_RESPONSES),
    ("Apps", "", keepwarm_workers::dispatch::ERROR_RESPONSES),
    ("Upstreams, doors, the forward proxy and rate limits", "", keepwarm_egress::ERROR_RESPONSES),
    ("Calls to an endpoint of an upstream", "Upstream {} ", keepwarm_egress::FAILURES),
];

/// Whether an error response with this reason has a status of 5xx.
pub(crate) fn is_server_error(reason: &str) -> bool {
    let all = SECTIONS.iter().flat_map(|(_, _, responses)| responses.iter());
    all.into_iter().any(|response| response.reason == reason && response.status >= 500)
}

const HEAD: &str = "# Error responses

Generated from the definitions in the code by `make docs`; `keepwarm explain REASON` prints an entry.

These are the responses that Keepwarm makes itself. Each has a reason: it is in the body of the response, in the log, in
the access log and in `keepwarm_refusals_total`. `{}` stands for a detail of the case. Once a part of the response has
been sent, the connection is cut instead, with the same reason, and counted in `keepwarm_incomplete_responses_total`.
[Requests](../operate/requests.md) and [calls to upstreams](../operate/upstream-failures.md) that fail are described in
the guide for operators.
";

const FAULTS: &str = "
## Requests and responses with invalid syntax

The status is that of the response to the client that sent such a request, and the connection is closed. An app's server
or an upstream that sends a response with the same fault is the cause of a 502. [TLS
faults](../guide/encrypted-upstreams.md) have reasons of their own.

| reason | status | the client, the app's server or the upstream |
|---|---|---|
";

/// Reasons of requests that ended without an error response, and when that is.
const ENDINGS: [(&str, &str); 14] = [
    ("auth_denied", "The service of `auth_request` denied the request; its response was passed on."),
    (
        "body_too_long",
        "The app sent more than its `Content-Length`: what was too much has been dropped. Correct the app.",
    ),
    (
        "client_closed",
        "The client closed its side before its request was complete, or while it waited for the response. If that is frequent, responses take longer than clients wait.",
    ),
    (
        "client_reset",
        "The client reset the connection or its HTTP/2 stream: a browser does, when its user leaves the page. If that is frequent, responses take longer than clients wait.",
    ),
    (
        "client_too_slow",
        "The client took nothing of its response for `limits.write_timeout`, and the connection was reset.",
    ),
    ("compression_failed", "The response could not be compressed to its end, and was cut. Please report it."),
    ("cut", "The response was cut after it had begun; a log record with the same request id has the cause."),
    ("drained", "A WebSocket or another tunnel was closed, because its process was replaced or stopped."),
    ("draining", "The response was cut: it was not complete when its worker reached `drain_timeout`."),
    (
        "handler_gave_up",
        "The work on the request ended without a response: a bug in Keepwarm. Please report it.",
    ),
    (
        "head_incomplete",
        "The client left in the midst of the request's head. The record has neither request nor status.",
    ),
    (
        "http2_refused",
        "The request, its body (another length than `content-length`) or a frame of its stream violates HTTP/2 (RFC 9113): it got 431, or its stream was reset.",
    ),
    (
        "not_a_websocket",
        "A request over HTTP/2 opened a WebSocket, and the response was a page of 2xx: the client got it with 501, as 2xx would open the WebSocket (RFC 8441 §5).",
    ),
    (
        "tunnel_idle",
        "A WebSocket or another tunnel moved no byte for `limits.websocket_idle`, and was closed.",
    ),
];

const WITHOUT_RESPONSE: &str = "
## Requests that end without an error response

These reasons are in the access log.

| reason | when, and what to do |
|---|---|
";

/// The page.
pub(crate) fn markdown() -> String {
    let mut page = HEAD.to_owned();
    for (title, subject, table) in SECTIONS {
        page.push_str(&format!(
            "\n## {title}\n\n| reason | status | response | when, and what to do |\n|---|---|---|---|\n"
        ));
        for error in sorted(table) {
            let ErrorResponse { status, reason, .. } = error;
            page.push_str(&format!(
                "| `{reason}` | {status} | {subject}{} | {} |\n",
                error.sentence,
                help(error)
            ));
        }
    }
    page.push_str(FAULTS);
    for (status, reason, sentence) in faults() {
        page.push_str(&format!("| `{reason}` | {status} | {sentence} |\n"));
    }
    page.push_str(WITHOUT_RESPONSE);
    for (reason, when) in ENDINGS {
        page.push_str(&format!("| `{reason}` | {when} |\n"));
    }
    page
}

/// What a reason means, as plain text.
pub(crate) fn explain(reason: &str) -> Option<String> {
    let mut text = String::new();
    for (title, subject, table) in SECTIONS {
        for error in table.iter().filter(|error| error.reason == reason) {
            text.push_str(&format!("{reason}: status {} ({title})\n", error.status));
            text.push_str(&format!("  response: {subject}{}\n  when:     {}\n", error.sentence, help(error)));
        }
    }
    for (status, name, sentence) in faults() {
        if name == reason {
            let of_server = "502 when the app's server or an upstream";
            text.push_str(&format!(
                "{reason}: status {status} when the client {sentence}, {of_server} did\n"
            ));
        }
    }
    for (_, when) in ENDINGS.iter().filter(|(name, _)| *name == reason) {
        text.push_str(&format!(
            "{reason}: a request that ended without an error response\n  when:     {when}\n"
        ));
    }
    Some(text).filter(|text| !text.is_empty())
}

/// Every reason.
pub(crate) fn reasons() -> impl Iterator<Item = &'static str> {
    let errors = SECTIONS.iter().flat_map(|(_, _, table)| table.iter().map(|error| error.reason));
    errors.chain(faults().map(|(_, reason, _)| reason)).chain(ENDINGS.map(|(reason, _)| reason))
}

/// Status, reason, and what was done wrong.
fn faults() -> impl Iterator<Item = (u16, &'static str, String)> {
    let kinds = FaultKind::ALL.iter().map(|kind| {
        let (status, reason, sentence) = kind.facts();
        (status, reason, sentence.to_owned())
    });
    let paths = PathFault::ALL.iter().map(|fault| {
        let sentence = fault.to_string();
        (fault.status(), fault.name(), sentence.trim_start_matches("the client ").to_owned())
    });
    kinds.chain(paths)
}

fn sorted(table: &'static [&'static ErrorResponse]) -> Vec<&'static ErrorResponse> {
    let mut table = table.to_vec();
    table.sort_by_key(|error| (error.reason, error.status));
    table
}

/// Advice for an operator, with the client's time to wait.
fn help(error: &ErrorResponse) -> String {
    let retry = error.retry_after.map_or_else(String::new, |seconds| format!(" `Retry-After: {seconds}`."));
    format!("{}{retry}", error.help.trim())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_committed_page_is_fresh() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/errors.md");
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        assert!(committed == markdown(), "docs/reference/errors.md is out of date: `make docs` writes it");
    }

    #[test]
    fn each_error_is_complete() {
        for (title, _, table) in SECTIONS {
            for error in table {
                let ErrorResponse { status, reason, sentence, .. } = error;
                assert!((400..600).contains(status), "{title}: {reason}");
                assert!(help(error).ends_with('.'), "{title}: {reason}: {}", error.help);
                assert!(
                    reason.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_')),
                    "{reason}"
                );
                assert!(!sentence.contains('|') && !error.help.contains('|'), "{title}: {reason}");
                let is_failure = title.starts_with("Calls to an endpoint");
                assert!(is_failure || sentence.ends_with('.'), "{title}: {reason}: {sentence}");
            }
        }
    }

    #[test]
    fn a_reason_is_explained_wherever_it_occurs() {
        let text = explain("queue_full").unwrap();
        assert!(text.contains("(Apps)") && text.contains("(Calls to an endpoint of an upstream)"), "{text}");
        assert!(explain("bare_lf").unwrap().starts_with("bare_lf: status 400 when the client"));
        assert_eq!(explain("no_such_reason"), None);
        let text = explain("client_reset").unwrap();
        assert!(text.starts_with("client_reset: a request that ended without an error response"), "{text}");
    }

    #[test]
    fn an_end_without_an_error_response_is_none_of_the_errors() {
        let sorted = ENDINGS.is_sorted_by_key(|(reason, _)| *reason);
        assert!(sorted);
        let errors: Vec<&str> = reasons().take(reasons().count() - ENDINGS.len()).collect();
        for (reason, when) in ENDINGS {
            assert!(!errors.contains(&reason) && when.ends_with('.') && !when.contains('|'), "{reason}");
        }
    }
}
