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
    let is_known = peer.found_worker.get().is_some() || peer.process.is_some_and(is_worker);
    if !is_known && is_local(peer) && named_caller(request, trace, is_traced).is_none() {
        callers::look_for(peer);
    }
}

/// The caller of a call that ends. `is_traced`: requests are.
pub(crate) fn caller(request: &Request, trace: &Trace, is_traced: bool) -> Option<Caller> {
    let peer = request.peer();
    if !is_local(peer) {
        return None;
    }
    let found = || Some(peer.found_worker.get()?.load(Ordering::Relaxed)).filter(|pid| *pid != 0);
    let process = || found().or(peer.process).map(Caller::Process);
    named_caller(request, trace, is_traced).or_else(process)
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
