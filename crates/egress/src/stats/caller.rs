//! Whose request a call is a part of, as far as it says so or the system does.
//!
//! * `X-Request-Id` with the id of a request of this process, which an app has from its route (`request_headers`).
//! * `traceparent` with a span of a request that is traced, or one beneath it.
//! * Else the worker at the other end of its connection. A Unix socket tells; for TCP, and for processes that workers have started, it is looked for while the call
//!   lasts ([`callers`](crate::callers)).
//!
//! Only what comes from this machine counts: an address of another has no workers, and a request id is not a secret.

use std::sync::atomic::Ordering;

use keepwarm_serve::{ConnectionInfo, Request};
use keepwarm_telemetry::RequestId;
use keepwarm_telemetry::timelines::{Caller, is_worker};

use super::Trace;
use crate::callers;

/// A call begins. If it does not say whose it is, and no worker is known to have connected, it is looked for.
pub(crate) fn look_for_caller(request: &Request, trace: &Trace, is_traced: bool) {
    let peer = request.peer();
    let Some(process) = &peer.process else { return };
    let is_known = process.is_sought.load(Ordering::Relaxed) || process.pid.is_some_and(is_worker);
    if !is_known && is_local(peer) && named_caller(request, trace, is_traced).is_none() {
        callers::look_for(peer, process);
    }
}

/// The caller of a call that ends. `is_traced`: requests are.
pub(crate) fn caller(request: &Request, trace: &Trace, is_traced: bool) -> Option<Caller> {
    let peer = request.peer();
    if !is_local(peer) {
        return None;
    }
    named_caller(request, trace, is_traced).or_else(|| process_of(peer).map(Caller::Process))
}

/// The process of the worker at the other end, else that which is there.
fn process_of(peer: &ConnectionInfo) -> Option<u32> {
    let process = peer.process.as_ref()?;
    match process.worker.load(Ordering::Relaxed) {
        0 => process.pid,
        worker => Some(worker),
    }
}

/// The caller that a call names.
fn named_caller(request: &Request, trace: &Trace, is_traced: bool) -> Option<Caller> {
    let id = request.head.fields.first("x-request-id").and_then(RequestId::parse);
    let span = || trace.caller().filter(|_| is_traced);
    id.map(Caller::Request).or_else(span)
}

fn is_local(peer: &ConnectionInfo) -> bool {
    peer.client.is_none_or(|client| client.ip().to_canonical().is_loopback())
}
