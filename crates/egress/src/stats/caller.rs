//! Whose request a call is a part of, as far as it says so or the system does.
//!
//! * `X-Request-Id` with the id of a request of this process, which an app has from its route (`request_headers`).
//! * `traceparent` with a span of a request that is traced, or one beneath it.
//! * Else the process at the other end of a Unix socket. TCP does not tell: the system could be asked for each connection, by way of its list of all sockets and
//!   the descriptors of all workers, which takes longer than most calls.
//!
//! Only what comes from this machine counts: an address of another has no workers, and a request id is not a secret.

use keepwarm_serve::Request;
use keepwarm_telemetry::RequestId;
use keepwarm_telemetry::timelines::Caller;

use super::Trace;

/// The caller. `is_traced`: requests are.
pub(crate) fn caller(request: &Request, trace: &Trace, is_traced: bool) -> Option<Caller> {
    let peer = request.peer();
    if peer.client.is_some_and(|client| !client.ip().to_canonical().is_loopback()) {
        return None;
    }
    let id = request.head.fields.first("x-request-id").and_then(RequestId::parse);
    let span = || trace.caller().filter(|_| is_traced);
    id.map(Caller::Request).or_else(span).or(peer.process.map(Caller::Process))
}
