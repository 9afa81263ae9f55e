//! Listening sockets, and accepting from them.

use std::cell::Cell;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use keepwarm_http1::Limits;
use rustix::net::SocketFlags;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::Interest;
use tokio::sync::Notify;

use crate::{Handler, Io, Peer, Scheme, h1};

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
        }
    }
}

impl ListenerContext {
    pub(crate) fn next_request_number(&self) -> u64 {
        REQUESTS.fetch_add(1, Ordering::Relaxed)
    }
}

static REQUESTS: AtomicU64 = AtomicU64::new(1);

/// Counts the connections of the process against a limit.
#[derive(Debug)]
pub struct OpenConnections {
    count: AtomicUsize,
    limit: usize,
    closed: Notify,
    by_client: Mutex<HashMap<IpAddr, usize>>,
}

impl OpenConnections {
    /// At most `limit` connections at once.
    pub fn new(limit: usize) -> Self {
        Self { count: AtomicUsize::new(0), limit, closed: Notify::new(), by_client: Mutex::default() }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Waits until there is none.
    pub async fn none(&self) {
        self.below(1).await;
    }

    async fn below(&self, limit: usize) {
        loop {
            let closed = self.closed.notified();
            if self.count() < limit {
                return;
            }
            closed.await;
        }
    }

    /// Counts one more of this client, if that is within its limit.
    fn enter(self: &Arc<Self>, client: Option<IpAddr>, per_client: usize) -> Option<Place> {
        let client = client.filter(|_| per_client > 0);
        if let Some(client) = client {
            let mut by_client = self.by_client.lock().unwrap_or_else(PoisonError::into_inner);
            let count = by_client.entry(client).or_default();
            if *count >= per_client {
                return None;
            }
            *count += 1;
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        Some(Place { open: Arc::clone(self), client })
    }
}

/// A counted connection; leaves the count when dropped.
struct Place {
    open: Arc<OpenConnections>,
    client: Option<IpAddr>,
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(client) = self.client {
            let mut by_client = self.open.by_client.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(count) = by_client.get_mut(&client) {
                *count -= 1;
                if *count == 0 {
                    by_client.remove(&client);
                }
            }
        }
        self.open.count.fetch_sub(1, Ordering::Relaxed);
        self.open.closed.notify_waiters();
    }
}

/// A bound, listening socket.
#[derive(Debug)]
pub struct Bound {
    fd: OwnedFd,
    /// Where, for TCP: with the real port when 0 was asked for.
    pub address: Option<SocketAddr>,
}

impl Bound {
    /// Another descriptor of the same socket.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { fd: self.fd.try_clone()?, address: self.address })
    }
}

/// Connections waiting to be accepted; the kernel bounds it by `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// Where to listen.
#[derive(Debug, Clone, Copy)]
pub enum BindTo<'a> {
    /// A TCP address.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(&'a Path),
}

/// Binds and listens.
///
/// # Errors
/// What the system says; `AddrInUse` also for a Unix socket that somebody serves.
pub fn bind(to: BindTo<'_>) -> io::Result<Bound> {
    match to {
        BindTo::Tcp(address) => bind_tcp(address),
        BindTo::Unix(path) => bind_unix(path),
    }
}

fn bind_tcp(address: SocketAddr) -> io::Result<Bound> {
    let socket =
        Socket::new(Domain::for_address(address), Type::STREAM.nonblocking().cloexec(), Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    // Accepted sockets inherit it: one system call less for each.
    socket.set_tcp_nodelay(true)?;
    if let SocketAddr::V6(v6) = address {
        socket.set_only_v6(!v6.ip().is_unspecified())?;
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    let address = socket.local_addr()?.as_socket();
    Ok(Bound { fd: socket.into(), address })
}

fn bind_unix(path: &Path) -> io::Result<Bound> {
    match UnixListener::bind(path) {
        Ok(listener) => Ok(unix_bound(listener)?),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            // A socket that a dead process left behind refuses; one that is served does not.
            match UnixStream::connect(path) {
                Err(refused) if refused.kind() == io::ErrorKind::ConnectionRefused => {
                    std::fs::remove_file(path)?;
                    Ok(unix_bound(UnixListener::bind(path)?)?)
                }
                _ => Err(error),
            }
        }
        Err(error) => Err(error),
    }
}

fn unix_bound(listener: UnixListener) -> io::Result<Bound> {
    listener.set_nonblocking(true)?;
    // The standard library listens with a backlog of its own; listening again only changes that.
    rustix::net::listen(&listener, BACKLOG)?;
    Ok(Bound { fd: listener.into(), address: None })
}

/// Accepts on this thread until `stop` says so. All threads share one socket: with `SO_REUSEPORT` each would have a
/// queue of its own, which a busy thread leaves waiting and a closed one resets.
pub async fn serve(bound: Bound, context: Arc<ListenerContext>, stop: Arc<Notify>) {
    let address = bound.address;
    let socket = match crate::watch(bound.fd, Interest::READABLE) {
        Ok(socket) => socket,
        Err((_, error)) => {
            tracing::error!(%error, "a listening socket cannot be watched");
            return;
        }
    };
    let accepting = async {
        loop {
            context.open.below(context.open.limit).await;
            match socket.readable().await {
                Ok(mut guard) => match guard.try_io(|socket| accept(socket.get_ref())) {
                    Ok(Ok((fd, client))) => begin(fd, client, address, &context),
                    Ok(Err(error)) => recover(&error).await,
                    Err(_would_block) => {}
                },
                Err(error) => recover(&error).await,
            }
        }
    };
    tokio::select! {
        () = accepting => {}
        () = stop.notified() => {}
    }
}

fn accept(fd: &OwnedFd) -> io::Result<(OwnedFd, Option<SocketAddr>)> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (socket, client) = rustix::net::acceptfrom_with(fd, flags)?;
    Ok((socket, client.and_then(|client| SocketAddr::try_from(client).ok())))
}

fn begin(fd: OwnedFd, client: Option<SocketAddr>, local: Option<SocketAddr>, context: &Arc<ListenerContext>) {
    let Some(place) = context.open.enter(client.map(|client| client.ip()), context.limits.per_client) else {
        return;
    };
    let context = Arc::clone(context);
    tokio::task::spawn_local(async move {
        let _place = place;
        h1::serve(Io::new(fd), Peer::new(client, local, Scheme::Http), context).await;
    });
}

/// A client that left before it was accepted is nothing; without descriptors or memory only time helps.
async fn recover(error: &io::Error) {
    const PAUSE: Duration = Duration::from_millis(50);
    if matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted) {
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
