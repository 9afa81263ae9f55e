//! The outcome of a failed call.

use std::io;

use h2::Reason;

use super::head::fault;
use super::link::Link;
use crate::client::{ClientError, ServerFault};

/// The state of the call when it fails.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallProgress {
    /// 0: it has no stream.
    pub(super) stream: u32,
    /// Something of its response came.
    pub(super) heard: bool,
    /// Bytes of the response's body, and how many were announced.
    pub(super) received: u64,
    pub(super) announced: Option<u64>,
}

/// Converts an error of the `h2` crate to ours.
pub(super) fn told(error: h2::Error, link: &Link, known: CallProgress) -> ClientError {
    if let Some(fault) = link.fault() {
        return ClientError::Fault(fault.clone());
    }
    // If the `h2` crate ended the connection because of received bytes, a GOAWAY may be part of them.
    let excluded = link.excludes(known.stream) && !error.is_library();
    if (known.stream == 0 || excluded) && !known.heard {
        return ClientError::NotProcessed(fault("goaway", "accepts no further requests on this connection"));
    }
    let reason = error.reason();
    if error.is_reset() {
        return reset(reason.unwrap_or(Reason::NO_ERROR), error.is_remote(), known);
    }
    if error.is_go_away() && error.is_library() {
        return ClientError::Fault(violation(&error));
    }
    match known.heard {
        true => ClientError::Fault(fault("truncated", "broke off in the middle of its response")),
        false => ClientError::NoResponse(lost(error, link)),
    }
}

/// Why a connection ended that carried no request.
pub(super) fn ended(error: Option<h2::Error>, link: &Link) -> ServerFault {
    if let Some(fault) = link.fault() {
        return fault.clone();
    }
    match error {
        Some(error) if error.is_go_away() && error.is_library() => violation(&error),
        _ if link.goodbye() == 0 && link.goes_away() => {
            fault("goaway", "accepts no further requests on this connection")
        }
        error => {
            let lost = ClientError::NoResponse(error.and_then(|error| lost(error, link)));
            let why = match &lost {
                ClientError::NoResponse(Some(error)) => format!(" ({error})"),
                _ => String::new(),
            };
            let sentence = format!("closed the connection before a request was sent{why}");
            ServerFault { name: lost.name(), sentence }
        }
    }
}

fn violation(error: &h2::Error) -> ServerFault {
    let sentence = format!("violated HTTP/2: {}", error.reason().unwrap_or(Reason::PROTOCOL_ERROR));
    ServerFault { name: "http2_fault", sentence }
}

/// Why the connection ended before the response began.
fn lost(error: h2::Error, link: &Link) -> Option<io::Error> {
    if link.was_given_up() {
        let silent = "the server sends nothing, and does not answer a ping";
        return Some(io::Error::new(io::ErrorKind::TimedOut, silent));
    }
    match Reason::from(link.goodbye()) {
        Reason::NO_ERROR => error.into_io().filter(|error| error.kind() != io::ErrorKind::BrokenPipe),
        code => Some(io::Error::new(
            io::ErrorKind::ConnectionAborted,
            format!("the server sent GOAWAY with {code:?}"),
        )),
    }
}

fn reset(reason: Reason, remote: bool, known: CallProgress) -> ClientError {
    let fault = match (remote, reason) {
        // RFC 9113 §8.7: the server processed nothing of it, whatever was sent.
        (true, Reason::REFUSED_STREAM) if !known.heard => {
            return ClientError::NotProcessed(fault(
                "refused_stream",
                "refused the request (REFUSED_STREAM)",
            ));
        }
        (true, _) => ServerFault { name: name(reason), sentence: format!("reset the request: {reason}") },
        // The `h2` crate rejects a message without giving the reason.
        (false, Reason::PROTOCOL_ERROR) if known.announced.is_some() => {
            let (received, announced) = (known.received, known.announced.unwrap_or(0));
            let sentence = format!(
                "announced a body of {announced} bytes, and sent another length ({received} bytes were read), or a body where there is none (HEAD, 204, 304)"
            );
            ServerFault { name: "length_mismatch", sentence }
        }
        (false, _) => ServerFault {
            name: "malformed",
            sentence: format!("sent a message that is malformed or too large: {reason}"),
        },
    };
    ClientError::Fault(fault)
}

/// A stable name for each code (RFC 9113 §7).
fn name(reason: Reason) -> &'static str {
    match reason {
        Reason::NO_ERROR => "reset_no_error",
        Reason::PROTOCOL_ERROR => "reset_protocol_error",
        Reason::INTERNAL_ERROR => "reset_internal_error",
        Reason::FLOW_CONTROL_ERROR => "reset_flow_control_error",
        Reason::SETTINGS_TIMEOUT => "reset_settings_timeout",
        Reason::STREAM_CLOSED => "reset_stream_closed",
        Reason::FRAME_SIZE_ERROR => "reset_frame_size_error",
        Reason::REFUSED_STREAM => "reset_refused_stream",
        Reason::CANCEL => "reset_cancel",
        Reason::COMPRESSION_ERROR => "reset_compression_error",
        Reason::CONNECT_ERROR => "reset_connect_error",
        Reason::ENHANCE_YOUR_CALM => "reset_enhance_your_calm",
        Reason::INADEQUATE_SECURITY => "reset_inadequate_security",
        Reason::HTTP_1_1_REQUIRED => "reset_http_1_1_required",
        _ => "reset_unknown_code",
    }
}
