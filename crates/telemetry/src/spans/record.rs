//! What is kept of a request or a call until it is sent: values, without the names that a protocol has for them.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::export::Exported;
use crate::{RequestId, TraceContext};

/// Bytes that are kept of a value of a peer: a target, a host, a user agent.
const LONGEST: usize = 1024;

/// What is kept of a request, or of a call to an upstream.
#[derive(Debug)]
pub enum SpanRecord {
    /// A request of a client.
    Request(Box<RequestSpan>),
    /// A call to an upstream.
    Call(Box<CallSpan>),
}

/// A request that a listener has served.
#[derive(Debug)]
pub struct RequestSpan {
    /// Its trace.
    pub context: TraceContext,
    /// Its span.
    pub span: u64,
    /// The span of its time in the app.
    pub app_span: u64,
    /// When its response had been written.
    pub end: SystemTime,
    /// From the first byte of the head to then.
    pub elapsed: Duration,
    /// Where the time went, if an app got it.
    pub phases: Option<SpanPhases>,
    /// The method.
    pub method: String,
    /// The target as the client sent it.
    pub target: Vec<u8>,
    /// The scheme that the client used.
    pub scheme: &'static str,
    /// Such as `1.1`.
    pub version: &'static str,
    /// The status sent; 0 when none was.
    pub status: u16,
    /// Bytes of the body of its response.
    pub body_bytes: u64,
    /// The app that responded, or the kind of route.
    pub app: Option<Arc<str>>,
    /// The pattern of its route.
    pub route: Option<Arc<str>>,
    /// The host that the client named, perhaps with a port.
    pub host: Vec<u8>,
    /// The client's address.
    pub client: Option<IpAddr>,
    /// The address of the other end of the connection.
    pub peer: Option<SocketAddr>,
    /// `User-Agent`
    pub user_agent: Vec<u8>,
    /// Why the response is not what it might have been; a stable name.
    pub reason: Option<&'static str>,
    /// It is an error of the server.
    pub failed: bool,
    /// Its id in the log.
    pub id: RequestId,
}

/// Where the time of a request went.
#[derive(Debug, Clone, Copy)]
pub struct SpanPhases {
    /// Reading it.
    pub read: Duration,
    /// Waiting for a worker.
    pub queue: Duration,
    /// In the worker.
    pub app: Duration,
}

impl SpanPhases {
    /// Whether a worker got it.
    #[must_use]
    pub fn reached_app(&self) -> bool {
        !self.app.is_zero()
    }
}

/// A call to an upstream, with all of its attempts.
#[derive(Debug)]
pub struct CallSpan {
    /// Its trace. Its parent is that of the call, whatever the context says.
    pub context: TraceContext,
    /// The span of the caller; none where the trace begins here.
    pub parent: Option<u64>,
    /// The upstream.
    pub upstream: Arc<str>,
    /// The method.
    pub method: String,
    /// The target.
    pub target: Vec<u8>,
    /// The scheme of the upstream.
    pub scheme: &'static str,
    /// Its attempts, in order.
    pub attempts: Vec<AttemptSpan>,
    /// Its id in the log.
    pub id: RequestId,
}

/// One attempt of a call.
#[derive(Debug)]
pub struct AttemptSpan {
    /// Its span, which the upstream was given as its parent.
    pub span: u64,
    /// When it began to look for a connection.
    pub start: SystemTime,
    /// Until the end of the response, or its failure.
    pub elapsed: Duration,
    /// Its endpoint; none where the call was refused.
    pub endpoint: Option<SpanEndpoint>,
    /// The status of its response; 0: none.
    pub status: u16,
    /// Why it failed; a stable name.
    pub failure: Option<&'static str>,
    /// Its connection was kept from before.
    pub reused: bool,
}

/// The endpoint of an attempt.
#[derive(Debug, Clone)]
pub struct SpanEndpoint {
    /// Where it is: `address:port`, or a path.
    pub address: Arc<str>,
    /// `host[:port]`, as in the URL of the upstream.
    pub authority: Arc<str>,
}

impl Exported for SpanRecord {
    /// The spans it makes.
    fn count(&self) -> usize {
        match self {
            Self::Request(request) => {
                1 + request.phases.map_or(0, |phases| 1 + usize::from(phases.reached_app()))
            }
            Self::Call(call) => call.attempts.len(),
        }
    }

    fn bytes(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::Request(request) => {
                    let RequestSpan { method, target, host, user_agent, .. } = &**request;
                    size_of::<RequestSpan>()
                        + method.capacity()
                        + target.capacity()
                        + host.capacity()
                        + user_agent.capacity()
                }
                Self::Call(call) => {
                    let CallSpan { method, target, attempts, .. } = &**call;
                    let attempts = attempts.capacity() * size_of::<AttemptSpan>();
                    size_of::<CallSpan>() + method.capacity() + target.capacity() + attempts
                }
            }
    }
}

/// The part of a peer's value that is kept.
#[must_use]
pub fn cut(value: &[u8]) -> Vec<u8> {
    value.get(..LONGEST).unwrap_or(value).to_vec()
}
