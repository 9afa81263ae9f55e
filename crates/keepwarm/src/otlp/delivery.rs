//! What the response of a collector means (OTLP/HTTP, "OTLP/HTTP Response").

use std::time::{Duration, SystemTime};

use keepwarm_serve::{FetchFault, FetchedResponse};
use prost::Message;

use super::messages::{ExportResponse, RpcStatus};

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Delivery {
    /// The collector has all of it.
    Accepted,
    /// The collector has some of it. Nothing of it is sent again.
    Partial { rejected: u64, message: String },
    /// The same request may succeed later, not before the time that the collector names.
    Retry { reason: String, after: Option<Duration> },
    /// The same request would fail again.
    Refused { reason: String },
}

/// The longest wait that a collector may ask for. This number is arbitrary.
const LONGEST_WAIT: Duration = Duration::from_secs(300);
/// Characters of a collector's message in the log.
const LONGEST_MESSAGE: usize = 200;

/// Judges the response to a request.
pub(super) fn judge(response: Result<FetchedResponse, FetchFault>, now: SystemTime) -> Delivery {
    let response = match response {
        Ok(response) => response,
        Err(fault) => return Delivery::Retry { reason: describe(fault).to_owned(), after: None },
    };
    match response.status {
        200..=299 => accepted(&response),
        429 | 502..=504 => Delivery::Retry { reason: reason(&response), after: retry_after(&response, now) },
        _ => Delivery::Refused { reason: reason(&response) },
    }
}

fn describe(fault: FetchFault) -> &'static str {
    match fault {
        FetchFault::None => "no response",
        FetchFault::Invalid => "invalid response",
        FetchFault::TooLarge => "response too large",
        FetchFault::Timeout => "timeout",
    }
}

/// A success says what was rejected of the request, or nothing.
fn accepted(response: &FetchedResponse) -> Delivery {
    let is_protobuf = response.body.is_empty() || content_type(response) == Some(PROTOBUF);
    let decoded = ExportResponse::decode(response.body.as_slice());
    match decoded {
        Ok(decoded) if is_protobuf => match decoded.partial_success {
            Some(partial) if partial.rejected > 0 || !partial.error_message.is_empty() => Delivery::Partial {
                rejected: u64::try_from(partial.rejected).unwrap_or(0),
                message: shorten(&partial.error_message),
            },
            _ => Delivery::Accepted,
        },
        // Some server that is not a collector.
        _ => Delivery::Refused { reason: format!("status {} without an OTLP response", response.status) },
    }
}

/// The media type of what is sent and received.
pub(super) const PROTOBUF: &[u8] = b"application/x-protobuf";

/// Without its parameters.
fn content_type(response: &FetchedResponse) -> Option<&[u8]> {
    let value = response.fields.first("content-type")?;
    value.split(|byte| *byte == b';').next().map(<[u8]>::trim_ascii)
}

/// The status, and what the collector says about it.
fn reason(response: &FetchedResponse) -> String {
    let status = response.status;
    let message = match content_type(response) {
        Some(PROTOBUF) => RpcStatus::decode(response.body.as_slice()).map(|status| status.message).ok(),
        Some(media) if media.starts_with(b"text/plain") => {
            Some(String::from_utf8_lossy(&response.body).into_owned())
        }
        _ => None,
    };
    match message.map(|message| shorten(message.trim())).filter(|message| !message.is_empty()) {
        Some(message) => format!("status {status}: {message}"),
        None => format!("status {status}"),
    }
}

fn shorten(message: &str) -> String {
    message.chars().take(LONGEST_MESSAGE).map(|char| if char.is_control() { ' ' } else { char }).collect()
}

/// Seconds, or a date (RFC 9110 §10.2.3).
fn retry_after(response: &FetchedResponse, now: SystemTime) -> Option<Duration> {
    let value = std::str::from_utf8(response.fields.first("retry-after")?).ok()?.trim();
    let wait = match value.parse::<u32>() {
        Ok(seconds) => Duration::from_secs(seconds.into()),
        Err(_) => httpdate::parse_http_date(value).ok()?.duration_since(now).unwrap_or_default(),
    };
    Some(wait.min(LONGEST_WAIT))
}

#[cfg(test)]
mod tests {
    use keepwarm_http1::Fields;

    use super::*;
    use crate::otlp::messages::PartialSuccess;

    fn response(status: u16, fields: &[(&str, &str)], body: &[u8]) -> Result<FetchedResponse, FetchFault> {
        let mut list = Fields::new();
        fields.iter().for_each(|(name, value)| list.push(name.as_bytes(), value.as_bytes()));
        Ok(FetchedResponse { status, fields: list, body: body.to_vec() })
    }

    fn judged(response: Result<FetchedResponse, FetchFault>) -> Delivery {
        judge(response, SystemTime::UNIX_EPOCH)
    }

    const PROTO: (&str, &str) = ("content-type", "application/x-protobuf");

    #[test]
    fn a_success_is_accepted_whole_or_in_part() {
        assert_eq!(judged(response(200, &[], b"")), Delivery::Accepted);
        assert_eq!(judged(response(200, &[PROTO], b"")), Delivery::Accepted);
        let partial = |rejected, message: &str| {
            let partial_success = Some(PartialSuccess { rejected, error_message: message.to_owned() });
            ExportResponse { partial_success }.encode_to_vec()
        };
        assert_eq!(judged(response(200, &[PROTO], &partial(0, ""))), Delivery::Accepted);
        let rejected = Delivery::Partial { rejected: 3, message: "too old".to_owned() };
        assert_eq!(judged(response(200, &[PROTO], &partial(3, "too old"))), rejected);
        // A warning: nothing was rejected.
        let warning = Delivery::Partial { rejected: 0, message: "soon".to_owned() };
        assert_eq!(judged(response(200, &[PROTO], &partial(0, "soon"))), warning);
    }

    #[test]
    fn a_success_of_another_server_is_none() {
        let refused = Delivery::Refused { reason: "status 200 without an OTLP response".to_owned() };
        let page = ("content-type", "text/html; charset=utf-8");
        assert_eq!(judged(response(200, &[page], b"<html>")), refused);
        assert_eq!(judged(response(200, &[PROTO], b"\xff\xff\xff")), refused);
    }

    #[test]
    fn only_four_statuses_are_sent_again() {
        for status in [429, 502, 503, 504] {
            let retry = Delivery::Retry { reason: format!("status {status}"), after: None };
            assert_eq!(judged(response(status, &[], b"")), retry);
        }
        for status in [301, 400, 401, 404, 413, 415, 500, 501] {
            let refused = Delivery::Refused { reason: format!("status {status}") };
            assert_eq!(judged(response(status, &[], b"")), refused);
        }
        for fault in [FetchFault::None, FetchFault::Invalid, FetchFault::TooLarge, FetchFault::Timeout] {
            assert!(matches!(judged(Err(fault)), Delivery::Retry { after: None, .. }), "{fault:?}");
        }
    }

    #[test]
    fn a_wait_is_in_seconds_or_a_date() {
        let after = |value: &str| match judged(response(503, &[("retry-after", value)], b"")) {
            Delivery::Retry { after, .. } => after,
            other => panic!("{other:?}"),
        };
        assert_eq!(after("7"), Some(Duration::from_secs(7)));
        assert_eq!(after("Thu, 01 Jan 1970 00:01:00 GMT"), Some(Duration::from_secs(60)));
        assert_eq!(after("86400"), Some(LONGEST_WAIT));
        assert_eq!(after("soon"), None);
        assert_eq!(after("-1"), None);
    }

    #[test]
    fn the_message_of_the_collector_is_in_the_reason() {
        let status = RpcStatus { message: "bad\nid".to_owned() }.encode_to_vec();
        let refused = |reason: &str| Delivery::Refused { reason: reason.to_owned() };
        assert_eq!(judged(response(400, &[PROTO], &status)), refused("status 400: bad id"));
        let plain = ("content-type", "text/plain");
        assert_eq!(judged(response(401, &[plain], b"no key\r\n")), refused("status 401: no key"));
        assert_eq!(judged(response(400, &[PROTO], b"\xff")), refused("status 400"));
        let long = "x".repeat(1000);
        let expected = format!("status 401: {}", "x".repeat(LONGEST_MESSAGE));
        assert_eq!(judged(response(401, &[plain], long.as_bytes())), refused(&expected));
    }
}
