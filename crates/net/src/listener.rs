//! Accepting from listening sockets, and what a client may do on a connection.

mod open;
mod socket;

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use keepwarm_http1::Limits;
use keepwarm_telemetry::meters::ListenerMeter;
use rustix::net::SocketFlags;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;

pub use self::open::OpenConnections;
pub use self::socket::{BindTo, Bound, bind};
use crate::{Handler, Io, Local, Peer, Scheme, WebSocketLimits, h1, thread_index};

/// What connections of a listener share.
pub struct ListenerContext {
    /// Answers their requests.
    pub handler: Arc<dyn Handler>,
    /// Bounds what clients may do.
    pub limits: ConnectionLimits,
    /// The process is about to end: connections end with their next answer.
    pub draining: Arc<AtomicBool>,
    /// How many connections the process has.
    pub open: Arc<OpenConnections>,
    /// What counts them.
    pub meter: &'static ListenerMeter,
}

/// What a client may do on a connection (`http-rules` §8, which gives the defaults).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConnectionLimits {
    /// Sizes of heads, trailers and chunk extensions.
    pub syntax: Limits,
    /// For a whole head from its first byte. Bounds slow heads ("slowloris").
    pub head_timeout: Duration,
    /// Least average rate of a body, in bytes a second; 0: none.
    pub body_rate: u32,
    /// Waited for a peer in all before a rate counts.
    pub body_grace: Duration,
    /// Least average rate at which a client takes its answer, in bytes a second; 0: none.
    pub drain_rate: u32,
    /// Without a request.
    pub idle: Duration,
    /// Requests on a connection.
    pub requests: u64,
    /// Age of a connection at which its next answer is the last.
    pub age: Duration,
    /// Without a byte taken by a client that is being answered.
    pub write_timeout: Duration,
    /// Connections of one client address; 0: no limit.
    pub per_client: usize,
    /// Bytes of an answer held for a slow client before its app has to wait.
    pub response_buffer: u64,
    /// Of WebSockets.
    pub websocket: WebSocketLimits,
    /// Whether HTTP/2 is spoken with clients that begin with it.
    pub http2: bool,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            syntax: Limits::default(),
            head_timeout: Duration::from_secs(10),
            body_rate: 500,
            body_grace: Duration::from_secs(5),
            drain_rate: 500,
            idle: Duration::from_secs(75),
            requests: 10_000,
            age: Duration::from_secs(3600),
            write_timeout: Duration::from_secs(30),
            per_client: 0,
            response_buffer: 1 << 30,
            websocket: WebSocketLimits::default(),
            http2: false,
        }
    }
}

impl ListenerContext {
    pub(crate) fn next_request_number(&self) -> u64 {
        REQUESTS.fetch_add(1, Ordering::Relaxed)
    }
}

static REQUESTS: AtomicU64 = AtomicU64::new(1);

/// A way to end one [`serve`].
#[derive(Debug)]
pub struct StopListening(watch::Sender<Stop>);

/// What [`StopListening`] says, for [`serve`].
#[derive(Debug)]
pub struct StopSignal(watch::Receiver<Stop>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    NotYet,
    HandOver,
    AcceptRest,
}

/// A pair: one end for who stops, one for who serves.
pub fn stop_listening() -> (StopListening, StopSignal) {
    let (sender, receiver) = watch::channel(Stop::NotYet);
    (StopListening(sender), StopSignal(receiver))
}

impl StopListening {
    /// Stop at once: somebody else accepts from this socket.
    pub fn hand_over(&self) {
        self.0.send_replace(Stop::HandOver);
    }

    /// Accept what has connected before, then stop (see [`Bound::refuse_new`]).
    pub fn accept_rest(&self) {
        self.0.send_replace(Stop::AcceptRest);
    }
}

/// Without a new connection for this long, those that had connected before are all accepted.
const REST: Duration = Duration::from_millis(50);

/// Accepts on this thread until it is told to stop. All threads share one socket: with `SO_REUSEPORT` each would have a
/// queue of its own, which a busy thread leaves waiting and a closed one resets.
pub async fn serve(bound: Bound, context: Arc<ListenerContext>, mut stop: StopSignal) {
    let local = match bound.address {
        Some(address) => Local::Tcp(address),
        None => Local::Unix(bound.path().and_then(|path| path.to_str().map(Into::into))),
    };
    let listener = match crate::watch(bound.fd, Interest::READABLE) {
        Ok(socket) => Listener { socket, local, context },
        Err((_, error)) => {
            tracing::error!(%error, "a listening socket cannot be watched");
            return;
        }
    };
    tokio::select! {
        () = listener.accept_all() => {}
        stopped = stop.0.wait_for(|stop| *stop != Stop::NotYet) => {
            if !stopped.is_ok_and(|stop| *stop == Stop::AcceptRest) {
                return;
            }
        }
    }
    while tokio::time::timeout(REST, listener.accept_one()).await.is_ok() {}
}

struct Listener {
    socket: AsyncFd<OwnedFd>,
    local: Local,
    context: Arc<ListenerContext>,
}

impl Listener {
    async fn accept_all(&self) {
        let open = &self.context.open;
        loop {
            if open.count() >= open.limit {
                // Only for one that really comes is another given up: the longest idle. Without an idle one it waits its turn.
                if let Err(error) = self.somebody_waits().await {
                    recover(&error).await;
                    continue;
                }
                if open.count() >= open.limit {
                    crate::deadline::evict_longest_idle();
                    open.until(|| open.count() < open.limit).await;
                }
            }
            self.accept_one().await;
        }
    }

    /// Waits until a connection could be accepted. An accept that finds none, as the last of a burst would, and each of the threads that came too late,
    /// takes nine times as long as this look: Linux makes the new socket before it looks for a connection.
    async fn somebody_waits(&self) -> io::Result<()> {
        loop {
            let mut guard = self.socket.readable().await?;
            let mut poll = [rustix::event::PollFd::new(self.socket.get_ref(), rustix::event::PollFlags::IN)];
            let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
            if rustix::event::poll(&mut poll, Some(&now)) != Ok(0) {
                return Ok(());
            }
            guard.clear_ready();
        }
    }

    async fn accept_one(&self) {
        loop {
            let accepted = match self.somebody_waits().await {
                Ok(()) => accept(self.socket.get_ref()),
                Err(error) => Err(error),
            };
            match accepted {
                Ok((fd, client)) => return begin(fd, client, &self.local, &self.context),
                Err(error) => recover(&error).await,
            }
        }
    }
}

fn accept(fd: &OwnedFd) -> io::Result<(OwnedFd, Option<SocketAddr>)> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (socket, client) = rustix::net::acceptfrom_with(fd, flags)?;
    Ok((socket, client.and_then(|client| SocketAddr::try_from(client).ok())))
}

fn begin(fd: OwnedFd, client: Option<SocketAddr>, local: &Local, context: &Arc<ListenerContext>) {
    let cells = context.meter.of(thread_index());
    let client_address = client.map(|client| client.ip());
    let Some(place) = context.open.enter(client_address, context.limits.per_client, cells) else {
        return;
    };
    let (local, context) = (local_of(&fd, local), Arc::clone(context));
    tokio::task::spawn_local(async move {
        let _place = place;
        h1::serve(Io::new(fd), Peer::new(client, local, Scheme::Http), context).await;
    });
}

/// Of a listener on all addresses, the one that this client connected to.
fn local_of(fd: &OwnedFd, listener: &Local) -> Local {
    match listener {
        Local::Tcp(address) if address.ip().is_unspecified() => {
            let own = rustix::net::getsockname(fd).ok().and_then(|own| SocketAddr::try_from(own).ok());
            Local::Tcp(own.unwrap_or(*address))
        }
        local => local.clone(),
    }
}

/// A client that left before it was accepted is nothing; without descriptors or memory only time helps.
async fn recover(error: &io::Error) {
    const PAUSE: Duration = Duration::from_millis(50);
    // `WouldBlock`: another thread was faster.
    if matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock
    ) {
        return;
    }
    if LAST_WARNING.get().is_none_or(|at| at.elapsed() > Duration::from_secs(10)) {
        LAST_WARNING.set(Some(tokio::time::Instant::now()));
        tracing::warn!(%error, "connections cannot be accepted; pausing");
    }
    tokio::time::sleep(PAUSE).await;
}

thread_local! {
    static LAST_WARNING: Cell<Option<tokio::time::Instant>> = const { Cell::new(None) };
}
