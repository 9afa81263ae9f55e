//! Listening sockets, and accepting from them.

use std::cell::Cell;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use keepwarm_http1::Limits;
use keepwarm_telemetry::meters::{ListenerCells, ListenerMeter};
use rustix::net::SocketFlags;
use socket2::{Domain, Protocol, SockFilter, SockRef, Socket, Type};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Notify, watch};

use crate::{Handler, Io, Peer, Scheme, WebSocketLimits, h1, thread_index};

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

/// Counts the connections of the process against a limit.
#[derive(Debug)]
pub struct OpenConnections {
    count: AtomicUsize,
    /// Those that are reading or answering a request.
    busy: AtomicUsize,
    limit: usize,
    closed: Notify,
    by_client: Mutex<HashMap<IpAddr, usize>>,
}

impl OpenConnections {
    /// At most `limit` connections at once.
    pub fn new(limit: usize) -> Self {
        Self {
            count: AtomicUsize::new(0),
            busy: AtomicUsize::new(0),
            limit,
            closed: Notify::new(),
            by_client: Mutex::default(),
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Waits until there is none.
    pub async fn none(&self) {
        self.until(|| self.count() == 0).await;
    }

    /// Waits, while the process drains, until none has a request.
    pub async fn none_busy(&self) {
        self.until(|| self.busy.load(Ordering::Relaxed) == 0).await;
    }

    async fn until(&self, reached: impl Fn() -> bool) {
        loop {
            let mut changed = std::pin::pin!(self.closed.notified());
            // Before the look, or a change between the two would be missed.
            changed.as_mut().enable();
            if reached() {
                return;
            }
            changed.await;
        }
    }

    pub(crate) fn begin_request(&self) {
        self.busy.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn end_request(&self, draining: bool) {
        self.busy.fetch_sub(1, Ordering::Relaxed);
        if draining {
            self.closed.notify_waiters();
        }
    }

    /// Counts one more of this client, if that is within its limit.
    fn enter(
        self: &Arc<Self>,
        client: Option<IpAddr>,
        per_client: usize,
        cells: &'static ListenerCells,
    ) -> Option<Place> {
        let client = client.filter(|_| per_client > 0);
        if let Some(client) = client {
            let mut by_client = self.by_client.lock().unwrap_or_else(PoisonError::into_inner);
            let count = by_client.entry(client).or_default();
            if *count >= per_client {
                cells.refused.add(1);
                return None;
            }
            *count += 1;
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        cells.accepted.add(1);
        Some(Place { open: Arc::clone(self), client, cells })
    }
}

/// A counted connection; leaves the count when dropped.
struct Place {
    open: Arc<OpenConnections>,
    client: Option<IpAddr>,
    cells: &'static ListenerCells,
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
        self.cells.closed.add(1);
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
    /// A socket that somebody else has bound: the process before this one, or the service manager.
    ///
    /// # Errors
    /// It is not a listening stream socket.
    pub fn adopt(fd: OwnedFd) -> io::Result<Self> {
        let socket = SockRef::from(&fd);
        if !socket.is_listener()? || socket.r#type()? != Type::STREAM {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a listening stream socket"));
        }
        socket.set_nonblocking(true)?;
        socket.set_cloexec(true)?;
        let address = socket.local_addr()?.as_socket();
        if address.is_some() {
            socket.set_tcp_nodelay(true)?;
        }
        Ok(Self { fd, address })
    }

    /// The path of a Unix socket that has one.
    pub fn path(&self) -> Option<std::path::PathBuf> {
        SockRef::from(&self.fd).local_addr().ok()?.as_pathname().map(Path::to_path_buf)
    }

    /// Another descriptor of the same socket.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { fd: self.fd.try_clone()?, address: self.address })
    }

    /// From now on clients that would connect are ignored: their first packet is dropped, so that they try again and then learn that nobody
    /// listens. Closing the socket instead would reset those that are connected and not yet accepted.
    pub fn refuse_new(&self) {
        // Classic BPF on a TCP segment: byte 13 holds the flags, 0x02 is SYN. A listening socket sees no segment of accepted connections.
        const LOAD_BYTE: u16 = 0x30;
        const JUMP_IF_SET: u16 = 0x45;
        const RETURN: u16 = 0x06;
        let drop_syn = [
            SockFilter::new(LOAD_BYTE, 0, 0, 13),
            SockFilter::new(JUMP_IF_SET, 0, 1, 0x02),
            SockFilter::new(RETURN, 0, 0, 0),
            SockFilter::new(RETURN, 0, 0, u32::MAX),
        ];
        if self.address.is_some() {
            let _ = SockRef::from(&self.fd).attach_filter(&drop_syn);
        }
    }
}

impl AsFd for Bound {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
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
    if address.is_ipv6() {
        // `[::]` beside `0.0.0.0` is two listeners, wherever `net.ipv6.bindv6only` stands.
        socket.set_only_v6(true)?;
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
    let listener = match crate::watch(bound.fd, Interest::READABLE) {
        Ok(socket) => Listener { socket, address: bound.address, context },
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
    address: Option<SocketAddr>,
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
                Ok((fd, client)) => return begin(fd, client, self.address, &self.context),
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

fn begin(fd: OwnedFd, client: Option<SocketAddr>, local: Option<SocketAddr>, context: &Arc<ListenerContext>) {
    let cells = context.meter.of(thread_index());
    let client_address = client.map(|client| client.ip());
    let Some(place) = context.open.enter(client_address, context.limits.per_client, cells) else {
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
