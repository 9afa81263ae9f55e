//! A connection over a socket pair, served to a client that writes its bytes by hand.

mod body;
mod closing;
mod compression;
mod informational;
mod tls;
mod tunnel;
mod websocket;

use std::future::Future;
use std::net::{TcpListener, TcpStream as StdTcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdStream;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use keepwarm_net::{Io, Scheme};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::LocalSet;

use crate::{
    ConnectionInfo, ConnectionLimits, Exchange, Frontend, Handler, ListenerContext, LocalAddress,
    OpenConnections, Refusal,
};

const BOUND: Duration = Duration::from_secs(10);

/// The end of a connection that is the test's.
pub(crate) type Stream = Box<dyn Duplex>;

pub(crate) trait Duplex: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Duplex for T {}

/// Handles the only request of a connection, and reports its result.
pub(crate) trait ExchangeScript: Send + Sync + 'static {
    fn act<'a>(&'a self, exchange: &'a mut Exchange<'_>) -> Pin<Box<dyn Future<Output = ()> + 'a>>;
}

struct ScriptHandler<A>(A);

impl<A: ExchangeScript> Handler for ScriptHandler<A> {
    fn handle<'a>(&'a self, exchange: &'a mut Exchange<'_>) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        self.0.act(exchange)
    }
}

impl<A: ExchangeScript> Frontend for ScriptHandler<A> {
    fn refuse(&self, exchange: &mut Exchange<'_>, refusal: &Refusal) {
        exchange.head(refusal.status, Some(0), true, std::iter::empty()).unwrap();
        exchange.end();
    }
}

/// Runs a test whose tasks belong to this thread.
pub(crate) async fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::time::timeout(BOUND, LocalSet::new().run_until(test)).await.expect("in time")
}

/// Serves a connection; gives the client's end.
pub(crate) fn connect(act: impl ExchangeScript, limits: ConnectionLimits) -> Stream {
    connect_over(small_pair(), act, limits)
}

/// Serves the near end of a pair; gives the far one.
pub(crate) fn connect_over(
    (ours, theirs): (OwnedFd, Stream),
    act: impl ExchangeScript,
    limits: ConnectionLimits,
) -> Stream {
    let context = Arc::new(ListenerContext {
        handler: Arc::new(ScriptHandler(act)),
        limits,
        proxy_protocol: None,
        draining: Arc::new(AtomicBool::new(false)),
        open: Arc::new(OpenConnections::new(100)),
        meter: keepwarm_telemetry::meters::listener("test"),
        tls: None,
    });
    tokio::task::spawn_local(keepwarm_net::run_ticker());
    let peer = ConnectionInfo::new(None, LocalAddress::Unix(None), Scheme::Http);
    tokio::task::spawn_local(super::serve(Io::new(ours).into(), peer, context));
    theirs
}

/// Two ends of a socket that takes little at a time.
pub(crate) fn small_pair() -> (OwnedFd, Stream) {
    let (ours, theirs) = StdStream::pair().unwrap();
    for end in [&ours, &theirs] {
        end.set_nonblocking(true).unwrap();
        rustix::net::sockopt::set_socket_send_buffer_size(end, 4096).unwrap();
    }
    (ours.into(), Box::new(UnixStream::from_std(theirs).unwrap()))
}

/// Two ends of a socket that takes all waiting bytes at once, when it takes any.
pub(crate) fn large_pair() -> (OwnedFd, Stream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let theirs = StdTcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let ours = listener.accept().unwrap().0;
    [&ours, &theirs].into_iter().for_each(|end| end.set_nonblocking(true).unwrap());
    (ours.into(), Box::new(TcpStream::from_std(theirs).unwrap()))
}

/// Writes a request's bytes.
pub(crate) async fn write(client: &mut Stream, bytes: &[u8]) {
    client.write_all(bytes).await.unwrap();
}
