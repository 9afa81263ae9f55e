//! Why an attempt failed: for the retry policy, for logs, and as a response where no other attempt follows.

use std::fmt::Display;
use std::io::ErrorKind;
use std::time::Duration;

use keepwarm_net::{AcquireError, ClientError};
use keepwarm_policy::retry::FailureCause;
use keepwarm_policy::timeout::Phase;
use keepwarm_serve::{ErrorMessage, ErrorResponse};

// Each sentence continues "Upstream NAME".
keepwarm_serve::error_responses! {
    /// Nothing listens at the endpoint's address.
    CONNECT_REFUSED = 502 "connect_refused", "could not be connected to: {}";

    /// The connection could not be made; the sentence has the system's error.
    CONNECT_FAILED = 502 "connect_failed", "could not be connected to: {}";

    /// Keepwarm's machine has no descriptor or memory for another connection: raise the limit of open files.
    NO_DESCRIPTOR = 503 "no_descriptor",
        "could not be connected to: this machine lacks descriptors or memory: {}", retry after 1 s;

    /// The endpoint did not accept the connection within `timeouts.connect`.
    CONNECT_TIMEOUT = 504 "connect_timeout", "accepted no connection within {}";

    /// The endpoint did not finish the TLS handshake within `timeouts.connect`.
    TLS_TIMEOUT = 504 "tls_timeout", "did not finish the TLS handshake within {}";

    /// The TLS handshake failed; the sentence has the cause, and the reason is one of those in `docs/guide/encrypted-upstreams.md`.
    TLS_FAILED = 502 "tls_failed", "could not be connected to over TLS: {}";

    /// `protocol = "http2"`, and the endpoint did not choose `h2` (ALPN).
    NOT_HTTP2 = 502 "not_http2", "did not select HTTP/2 in the TLS handshake";

    /// A client opens a WebSocket, `protocol = "http2"`, and the endpoint does not offer extended CONNECT (RFC 8441).
    NO_EXTENDED_CONNECT = 502 "no_extended_connect", "takes no WebSockets over HTTP/2";

    /// The endpoint ended an HTTP/2 connection before a request was sent on it: a load balancer without a server behind it does, and so does a server that stops. The sentence has the cause.
    CONNECTION_ENDED = 502 "connection_ended", "{}";

    /// The endpoint allows no stream on its HTTP/2 connections (`SETTINGS_MAX_CONCURRENT_STREAMS` of 0), and did not change that within `limits.queue_timeout`.
    NO_STREAMS = 503 "no_streams",
        "allows no HTTP/2 stream on its connections, and did not change that within {}", retry after 1 s;

    /// `limits.connections` or `pool.max` connections are open, and `limits.queue` calls wait for one.
    QUEUE_FULL = 503 "queue_full", "is at its connection limit, and its queue is full", retry after 1 s;

    /// `limits.connections` or `pool.max` connections are open, and none became free within `limits.queue_timeout`.
    NO_CONNECTION_FREE = 503 "no_connection_free", "had no free connection within {}", retry after 1 s;

    /// The response did not begin within `timeouts.first_byte`.
    FIRST_BYTE_TIMEOUT = 504 "first_byte_timeout", "did not start to respond within {}";

    /// A part of the response head came, and the rest did not within `timeouts.first_byte`.
    HEAD_TIMEOUT = 504 "first_byte_timeout", "did not finish its response head within {}";

    /// No byte moved for `timeouts.idle` while it was the upstream's turn.
    IDLE_TIMEOUT = 504 "idle_timeout", "transferred no data for {}";

    /// The call took longer than `timeout`, with all its attempts.
    TIMEOUT = 504 "timeout", "did not finish within {}";

    /// The upstream responded with a status that is retried, and a retry was decided.
    STATUS = 502 "status", "responded with {}";

    /// The upstream closed a kept connection while the request was on its way, and the request is not safe to repeat.
    CLOSED_IDLE = 502 "closed_idle", "closed an idle connection after {}";

    /// The upstream closed an HTTP/2 connection that had other calls, and the request is not safe to repeat.
    CLOSED_IN_USE = 502 "closed_idle", "closed a connection in use";

    /// A kept connection was given up: the upstream sent no response and did not answer a ping, and the request is not safe to repeat. The sentence has the cause.
    CONNECTION_SILENT = 502 "connection_silent", "did not respond on a kept connection: {}";

    /// The upstream closed the connection before it responded. Where TLS 1.3 was the cause (the server learns of a client certificate after the handshake), the reason is that of the TLS fault.
    CLOSED_WITHOUT_RESPONSE = 502 "closed_without_response",
        "closed the connection without a response{}";

    /// The upstream refused the HTTP/2 stream, or closed the connection before it was processed (GOAWAY).
    NOT_PROCESSED = 502 "refused_stream", "{}";

    /// The response breaks the rules of HTTP; the sentence says which. The reason is one of the faults below.
    BAD_RESPONSE = 502 "bad_response", "{}";
}

/// Why an attempt failed: the cause for the retry policy, and a sentence for people.
#[derive(Debug)]
pub(super) struct AttemptFailure {
    pub(super) cause: FailureCause,
    /// The response, where no other attempt follows.
    pub(super) response: &'static ErrorResponse,
    /// A stable name, for counters and logs.
    pub(super) name: &'static str,
    /// Continues "upstream".
    pub(super) sentence: String,
    /// A byte of the request was sent.
    pub(super) sent: bool,
    /// A byte of a response came.
    pub(super) response_started: bool,
    /// Another attempt is useless.
    pub(super) is_final: bool,
}

impl AttemptFailure {
    fn of(cause: FailureCause, response: &'static ErrorResponse, details: &[&dyn Display]) -> Self {
        let sentence = response.about(details).sentence().to_owned();
        Self {
            cause,
            response,
            name: response.reason,
            sentence,
            sent: false,
            response_started: false,
            is_final: false,
        }
    }

    /// The response, where no other attempt follows.
    pub(super) fn message(&self, upstream: &str) -> ErrorMessage<'static> {
        self.response.with_sentence(format!("Upstream {upstream} {}.", self.sentence)).reason(self.name)
    }

    /// Whether it counts against the upstream.
    pub(super) fn is_upstreams(&self) -> bool {
        !(self.is_final && self.cause == FailureCause::Connect)
    }

    pub(super) fn not_connected(error: &AcquireError, limit: Duration) -> Self {
        let limit = seconds(limit);
        match error {
            AcquireError::QueueFull => {
                Self { is_final: true, ..Self::of(FailureCause::Connect, &QUEUE_FULL, &[]) }
            }
            AcquireError::NoneFree(waited) => Self::no_connection(*waited),
            AcquireError::NoStreams(waited) => {
                Self { is_final: true, ..Self::of(FailureCause::Connect, &NO_STREAMS, &[&seconds(*waited)]) }
            }
            AcquireError::Ended(fault) => Self {
                name: fault.name,
                ..Self::of(FailureCause::Connect, &CONNECTION_ENDED, &[&fault.sentence])
            },
            AcquireError::Connect(_) if error.is_local() => {
                Self { is_final: true, ..Self::of(FailureCause::Connect, &NO_DESCRIPTOR, &[error]) }
            }
            AcquireError::Connect(_) if error.is_refused() => {
                Self::of(FailureCause::Connect, &CONNECT_REFUSED, &[error])
            }
            AcquireError::Connect(_) => Self::of(FailureCause::Connect, &CONNECT_FAILED, &[error]),
            AcquireError::Timeout => Self::of(FailureCause::ConnectTimeout, &CONNECT_TIMEOUT, &[&limit]),
            AcquireError::HandshakeTimeout => Self::of(FailureCause::ConnectTimeout, &TLS_TIMEOUT, &[&limit]),
            AcquireError::Tls(failure) => {
                Self { name: error.name(), ..Self::of(FailureCause::Connect, &TLS_FAILED, &[failure]) }
            }
            // Only this one offers less than the client wants: no fault of the endpoint.
            AcquireError::NoExtendedConnect => {
                Self { is_final: true, ..Self::of(FailureCause::Connect, &NO_EXTENDED_CONNECT, &[]) }
            }
            AcquireError::NotHttp2 => Self::of(FailureCause::Connect, &NOT_HTTP2, &[]),
        }
    }

    pub(super) fn no_connection(waited: Duration) -> Self {
        Self { is_final: true, ..Self::of(FailureCause::Connect, &NO_CONNECTION_FREE, &[&seconds(waited)]) }
    }

    pub(super) fn whole(limit: Option<Duration>) -> Self {
        Self::timed_out(Phase::Whole, limit.unwrap_or_default(), false, false)
    }

    pub(super) fn timed_out(phase: Phase, limit: Duration, sent: bool, response_started: bool) -> Self {
        let response = match phase {
            Phase::Connect => &CONNECT_TIMEOUT,
            Phase::FirstByte if response_started => &HEAD_TIMEOUT,
            Phase::FirstByte => &FIRST_BYTE_TIMEOUT,
            Phase::Idle => &IDLE_TIMEOUT,
            Phase::Whole => &TIMEOUT,
        };
        let is_final = phase != Phase::FirstByte;
        Self {
            sent,
            response_started,
            is_final,
            ..Self::of(FailureCause::FirstByteTimeout, response, &[&seconds(limit)])
        }
    }

    pub(super) fn status(status: u16, sent: bool) -> Self {
        let cause = FailureCause::Status(status);
        Self { sent, name: cause.name(), ..Self::of(cause, &STATUS, &[&status]) }
    }

    /// `idle`: how long its connection had lain idle before.
    pub(super) fn lost(error: &ClientError, idle: Option<Duration>, sent: bool) -> Self {
        match (error, idle) {
            // Nobody closed it: of HTTP/2, given up without an answer to a ping; or the system's acknowledgements did not come.
            (ClientError::NoResponse(Some(lost)), Some(_)) if lost.kind() == ErrorKind::TimedOut => {
                Self { sent, ..Self::of(FailureCause::LostIdle, &CONNECTION_SILENT, &[lost]) }
            }
            (ClientError::NoResponse(_), Some(Duration::ZERO)) => {
                // Of HTTP/2, which other calls were using.
                Self { sent, ..Self::of(FailureCause::LostIdle, &CLOSED_IN_USE, &[]) }
            }
            (ClientError::NoResponse(_), Some(idle)) => {
                Self { sent, ..Self::of(FailureCause::LostIdle, &CLOSED_IDLE, &[&seconds(idle)]) }
            }
            (ClientError::NoResponse(lost), None) => {
                let how = lost.as_ref().map_or_else(String::new, |error| format!(" ({error})"));
                let name = error.name();
                Self { sent, name, ..Self::of(FailureCause::Reset, &CLOSED_WITHOUT_RESPONSE, &[&how]) }
            }
            (ClientError::NotProcessed(fault), _) => Self {
                name: fault.name,
                ..Self::of(FailureCause::RefusedStream, &NOT_PROCESSED, &[&fault.sentence])
            },
            (ClientError::Fault(fault), _) => Self {
                sent,
                response_started: true,
                name: fault.name,
                ..Self::of(FailureCause::BadResponse, &BAD_RESPONSE, &[&fault.sentence])
            },
        }
    }
}

/// A time as a person reads it: `5.0 s`, `250 ms`.
fn seconds(time: Duration) -> String {
    match time.as_millis() {
        millis @ ..1000 => format!("{millis} ms"),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn a_lack_of_descriptors_says_nothing_of_the_upstream() {
        let failure = |errno: Errno| {
            let error = AcquireError::Connect(std::io::Error::from_raw_os_error(errno.raw_os_error()));
            AttemptFailure::not_connected(&error, Duration::from_secs(1))
        };
        assert!(!failure(Errno::MFILE).is_upstreams());
        assert!(failure(Errno::CONNREFUSED).is_upstreams() && failure(Errno::HOSTUNREACH).is_upstreams());
        assert!(AttemptFailure::not_connected(&AcquireError::Timeout, Duration::from_secs(1)).is_upstreams());
        assert!(
            !AttemptFailure::not_connected(&AcquireError::QueueFull, Duration::from_secs(1)).is_upstreams()
        );
    }

    #[test]
    fn a_connection_that_was_given_up_was_not_closed_by_the_upstream() {
        let lost = |kind| ClientError::NoResponse(Some(std::io::Error::new(kind, "no answer to a ping")));
        for idle in [Duration::ZERO, Duration::from_secs(5)] {
            let silent = AttemptFailure::lost(&lost(ErrorKind::TimedOut), Some(idle), true);
            assert_eq!((silent.name, silent.cause), ("connection_silent", FailureCause::LostIdle));
            assert_eq!(silent.sentence, "did not respond on a kept connection: no answer to a ping");
            let closed = AttemptFailure::lost(&lost(ErrorKind::ConnectionReset), Some(idle), true);
            assert_eq!((closed.name, closed.cause), ("closed_idle", FailureCause::LostIdle));
        }
    }
}
