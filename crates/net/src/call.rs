//! One request to a server, whatever version of HTTP carries it: what [`crate::Client`] is for one connection, [`Call`] is for one upstream.
//!
//! Order of calls: one [`begin`](Call::begin), any number of [`send`](Call::send), one [`end`](Call::end), written by [`poll_flush`](Call::poll_flush); the answer
//! comes from [`poll_answer`](Call::poll_answer). [`finish`](Call::finish) keeps the connection; a call that is dropped is called off.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Method;
use keepwarm_http1::{Fields, RequestBody, RequestOptions, ResponseHead};

use crate::{
    AcquireError, Answer, ClientError, ClientTls, Endpoint, FarEnd, Http1, Lease, Need, Pool, PoolSettings,
    RequestLine, Scheme,
};

/// Which version of HTTP an upstream is spoken to in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// What ALPN gives; HTTP/1.1 in clear.
    #[default]
    Auto,
    /// HTTP/1.1.
    Http1,
    /// HTTP/2: by ALPN, and in clear without asking ("prior knowledge", RFC 9113 §3.3).
    Http2,
}

/// The connections to one upstream, of every version. Shared by all threads.
#[derive(Debug)]
pub struct Calls {
    http1: Arc<Pool<Http1>>,
    protocol: Protocol,
}

impl Calls {
    /// No connection yet.
    pub fn new(settings: PoolSettings, protocol: Protocol) -> Arc<Self> {
        Arc::new(Self { http1: Pool::new(settings), protocol })
    }

    /// Changes the settings, for what comes from now on.
    pub fn set_settings(&self, settings: PoolSettings) {
        self.http1.set_settings(settings);
    }

    /// Changes what new connections are encrypted with. What is open stays open.
    pub fn set_tls(&self, tls: Option<Arc<ClientTls>>) {
        self.http1.set_tls(tls);
    }

    /// Which version of HTTP is spoken.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// A connection for one request: see [`Pool::acquire`].
    ///
    /// # Errors
    /// No connection could be made.
    pub async fn acquire(self: &Arc<Self>, endpoint: &Endpoint, need: Need) -> Result<Call, AcquireError> {
        self.http1.acquire(endpoint, need).await.map(Call::Http1)
    }

    /// A connection that is there, if one will do: [`Self::acquire`] without waiting.
    pub fn take(self: &Arc<Self>, endpoint: &Endpoint, need: Need) -> Option<Call> {
        self.http1.take(endpoint, need).map(Call::Http1)
    }

    /// Closes what is kept to an endpoint, which is gone. What is in use is closed when it is finished.
    pub fn forget(&self, endpoint: &Endpoint) {
        self.http1.forget(endpoint);
    }

    /// The pool of HTTP/1.1 connections, for those who count.
    pub fn http1(&self) -> &Arc<Pool<Http1>> {
        &self.http1
    }
}

/// The head of a request.
#[derive(Debug, Clone)]
pub struct CallHead<'a, F> {
    /// The method.
    pub method: &'a Method,
    /// Of the upstream.
    pub scheme: Scheme,
    /// For `Host` or `:authority`.
    pub authority: &'a [u8],
    /// Path and query.
    pub target: &'a [u8],
    /// The fields, hop-by-hop ones left out.
    pub fields: F,
    /// How the body follows.
    pub framing: RequestBody,
    /// The body is held back until the server says that it wants it.
    pub expect: bool,
    /// Trailers are taken, and passed on.
    pub te_trailers: bool,
    /// The protocols offered to switch to.
    pub upgrade: Option<&'a [u8]>,
}

/// One request, and its answer.
#[derive(Debug)]
pub enum Call {
    /// On a connection of HTTP/1.1.
    Http1(Lease<Http1>),
}

impl Call {
    /// Begins the request.
    pub fn begin<'f>(&mut self, head: CallHead<'_, impl Iterator<Item = (&'f [u8], &'f [u8])>>) {
        let CallHead { method, authority, target, fields, framing, .. } = head;
        let options = RequestOptions {
            keep_alive: true,
            expect_continue: head.expect,
            te_trailers: head.te_trailers,
            upgrade: head.upgrade,
        };
        let line = RequestLine { method, target, authority };
        match self {
            Self::Http1(lease) => {
                lease.begin(|codec, out| codec.encode_head(out, line, fields, framing, options));
            }
        }
    }

    /// Bytes of the request's body.
    pub fn send(&mut self, bytes: &[u8]) {
        match self {
            Self::Http1(lease) => lease.send(bytes),
        }
    }

    /// The request is complete.
    pub fn end(&mut self, trailers: &Fields) {
        match self {
            Self::Http1(lease) => lease.end(trailers),
        }
    }

    /// Bytes given and not yet taken.
    pub fn unsent(&self) -> usize {
        match self {
            Self::Http1(lease) => lease.unsent(),
        }
    }

    /// Writes what was given. Ready when all of it was taken, or nothing more is: what became of the request then shows in its answer.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::Http1(lease) => lease.poll_flush(cx),
        }
    }

    /// The next part of the answer. After [`Answer::End`] and after an error there is none.
    pub fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<Result<Answer<'_>, ClientError>> {
        match self {
            Self::Http1(lease) => lease.poll_answer(cx),
        }
    }

    /// The head that came last.
    pub fn head(&self) -> &ResponseHead {
        match self {
            Self::Http1(lease) => lease.head(),
        }
    }

    /// Whether a byte of the request was taken. If not, it is certain that nobody has begun with it.
    pub fn has_sent(&self) -> bool {
        match self {
            Self::Http1(lease) => lease.has_sent(),
        }
    }

    /// Whether a byte of the answer came.
    pub fn has_heard(&self) -> bool {
        match self {
            Self::Http1(lease) => lease.has_heard(),
        }
    }

    /// How long its connection had been idle; `None`: it is new.
    pub fn idle(&self) -> Option<Duration> {
        match self {
            Self::Http1(lease) => lease.idle(),
        }
    }

    /// Whether several reads were needed for a small head.
    pub fn head_came_in_pieces(&self) -> bool {
        match self {
            Self::Http1(lease) => lease.head_came_in_pieces(),
        }
    }

    /// The use is over: the connection is kept if it can be.
    pub fn finish(self) {
        match self {
            Self::Http1(lease) => lease.finish(),
        }
    }
}

impl FarEnd for Call {
    fn poll_tunnel(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        match self {
            Self::Http1(lease) => lease.poll_tunnel(cx),
        }
    }

    fn send_tunnel(&mut self, bytes: &[u8]) {
        match self {
            Self::Http1(lease) => lease.send_tunnel(bytes),
        }
    }

    fn unsent(&self) -> usize {
        self.unsent()
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_flush(cx)
    }

    fn shutdown_write(&mut self) {
        match self {
            Self::Http1(lease) => (**lease).shutdown_write(),
        }
    }
}
