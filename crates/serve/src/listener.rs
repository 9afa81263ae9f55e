//! Accepts connections, and defines the limits of a client on one.

mod activity;
pub(crate) mod encrypted;
mod open;
mod proxied;

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use keepwarm_http1::Limits;
#[cfg(feature = "simulation")]
use keepwarm_net::simulation::next_number;
use keepwarm_net::{
    Io, ListeningSocket, Scheme, Socket, WatchedSocket, accept, has_waiting, local_address, peer_process,
    thread_index, watch as watch_socket,
};
use keepwarm_telemetry::meters::ListenerMeter;
use tokio::io::Interest;
use tokio::sync::watch;

pub(crate) use self::activity::Activity;
pub use self::encrypted::ListenerTls;
use self::open::ConnectionGuard;
pub use self::open::OpenConnections;
pub use self::proxied::ProxyProtocol;
use crate::{ConnectionInfo, Frontend, LocalAddress, PeerProcess, WebSocketLimits, h1};

/// The state that connections of a listener share.
pub struct ListenerContext {
    /// Handles their requests.
    pub handler: Arc<dyn Frontend>,
    /// Limits on clients.
    pub limits: ConnectionLimits,
    /// Connections begin with a PROXY header. `None`: with the client's bytes.
    pub proxy_protocol: Option<ProxyProtocol>,
    /// The process is draining: connections end with their next response.
    pub draining: Arc<AtomicBool>,
    /// The open connections of the process.
    pub open: Arc<OpenConnections>,
    /// Its meter.
    pub meter: &'static ListenerMeter,
    /// Its TLS; `None`: plaintext.
    pub tls: Option<ListenerTls>,
}

/// Limits of a client on a connection (`spec/http.md` §8, which gives the defaults).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConnectionLimits {
    /// Sizes of heads, trailers and chunk extensions.
    pub syntax: Limits,
    /// For a whole head from its first byte. Bounds slow heads ("slowloris").
    pub head_timeout: Duration,
    /// Least average rate of a body, in bytes a second; 0: none.
    pub body_rate: u32,
    /// Total wait for a peer before a rate applies.
    pub body_grace: Duration,
    /// Least average rate at which a client takes its response, in bytes a second; 0: none.
    pub drain_rate: u32,
    /// Without a request.
    pub idle: Duration,
    /// Requests on a connection.
    pub requests: u64,
    /// Age of a connection at which its next response is the last.
    pub age: Duration,
    /// How long a client may take no byte of its response.
    pub write_timeout: Duration,
    /// Connections of one client address; 0: no limit.
    pub per_client: usize,
    /// Bytes of a response held for a slow client before its app has to wait.
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
        next_number()
    }
}

#[cfg(not(feature = "simulation"))]
fn next_number() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};

    static REQUESTS: AtomicU64 = AtomicU64::new(1);
    REQUESTS.fetch_add(1, Ordering::Relaxed)
}

/// A handle to stop one [`serve`].
#[derive(Debug)]
pub struct StopListening(watch::Sender<StopState>);

/// The messages of [`StopListening`] to [`serve`].
#[derive(Debug)]
pub struct StopSignal(watch::Receiver<StopState>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StopState {
    NotYet,
    HandOver,
    AcceptRest,
    AcceptWaiting,
}

/// A pair: one end to stop, one for [`serve`].
pub fn stop_listening() -> (StopListening, StopSignal) {
    let (sender, receiver) = watch::channel(StopState::NotYet);
    (StopListening(sender), StopSignal(receiver))
}

impl StopListening {
    /// Stop at once: another process accepts from this socket.
    pub fn hand_over(&self) {
        self.0.send_replace(StopState::HandOver);
    }

    /// Accept earlier connections, then stop. `refuses`: the socket takes no new ones (see [`ListeningSocket::refuse_new`]); otherwise only those are
    /// accepted that wait now.
    pub fn accept_rest(&self, refuses: bool) {
        self.0.send_replace(if refuses { StopState::AcceptRest } else { StopState::AcceptWaiting });
    }
}

/// Pause before a retry of what the system has refused.
const PAUSE: Duration = Duration::from_millis(50);
/// Accepts that may fail in a row, each for its connection, without a pause. This number is arbitrary.
const MAX_FAILURES: u32 = 16;
/// Without a new connection for this long, all earlier ones are accepted.
const REST: Duration = Duration::from_millis(50);
/// Where new clients cannot be refused, connections are accepted for this long at most: clients that keep coming must not keep the process from its end.
const LONGEST_REST: Duration = Duration::from_secs(2);

/// Accepts on this thread until stopped. All threads share one socket: with `SO_REUSEPORT` each would have a
/// queue of its own, which a busy thread leaves waiting and a closed one resets.
pub async fn serve(bound: ListeningSocket, context: Arc<ListenerContext>, mut stop: StopSignal) {
    let local = match bound.address {
        Some(address) => LocalAddress::Tcp(address),
        None => LocalAddress::Unix(bound.path().and_then(|path| path.to_str().map(Into::into))),
    };
    let listener = Listener {
        socket: watch_listening(bound.into_socket()).await,
        local,
        context,
        burst: AcceptBurst::default(),
        failures: Cell::new(0),
    };
    let refuses = tokio::select! {
        biased;
        stopped = stop.0.wait_for(|stop| *stop != StopState::NotYet) => {
            match stopped.as_deref() {
                Ok(StopState::AcceptRest) => true,
                Ok(StopState::AcceptWaiting) => false,
                Ok(StopState::HandOver | StopState::NotYet) | Err(_) => return,
            }
        }
        // A panic cannot break the listener's state.
        () = keepwarm_net::restarted("accept", || listener.accept_all()) => true,
    };
    if refuses {
        listener.accept_earlier(REST).await;
    } else {
        let _ = tokio::time::timeout(LONGEST_REST, listener.accept_earlier(Duration::ZERO)).await;
    }
}

/// A listening socket that is not watched serves nobody: without memory for that, only time helps.
async fn watch_listening(mut socket: Socket) -> WatchedSocket {
    loop {
        match watch_socket(socket, Interest::READABLE) {
            Ok(watch) => return watch,
            Err((back, error)) => {
                tracing::error!(
                    name: "listener_failed",
                    %error, "cannot watch a listening socket; will retry"
                );
                socket = back;
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

struct Listener {
    socket: WatchedSocket,
    local: LocalAddress,
    context: Arc<ListenerContext>,
    burst: AcceptBurst,
    /// How many accepts in a row have failed with an error of one connection.
    failures: Cell<u32>,
}

/// Clients that were accepted one after another without waiting. A burst is expected to be as long as the previous one: until then nothing
/// checks whether another client waits.
#[derive(Debug, Default)]
struct AcceptBurst {
    accepted: Cell<u32>,
    before: Cell<u32>,
}

impl AcceptBurst {
    fn note_accepted(&self) {
        self.accepted.set(self.accepted.get().saturating_add(1));
    }

    fn expects_another(&self) -> bool {
        (1..self.before.get()).contains(&self.accepted.get())
    }

    fn expect_no_more(&self) {
        self.before.set(self.accepted.get());
    }

    /// No client waits.
    fn end(&self) {
        self.before.set(self.accepted.take());
    }
}

impl Listener {
    async fn accept_all(&self) {
        loop {
            self.wait_for_client().await;
            self.accept_within_limit().await;
            // The tasks of accepted connections get their turn, too.
            tokio::task::coop::consume_budget().await;
        }
    }

    /// Accepts what has waited since before the end of the listening, until nothing comes for as long as `rest`.
    async fn accept_earlier(&self, rest: Duration) {
        while tokio::time::timeout(rest, self.wait_for_client()).await.is_ok() && !self.is_failing() {
            self.accept_within_limit().await;
            tokio::task::coop::consume_budget().await;
        }
    }

    /// Waits until a connection could be accepted. An accept that finds none, at the end of a burst and on each thread that came too late,
    /// takes nine times as long as this check: Linux makes the new socket before it looks for a connection.
    async fn wait_for_client(&self) {
        loop {
            match self.socket.readable().await {
                Ok(_) if self.burst.expects_another() || has_waiting(self.socket.get_ref()) => return,
                Ok(mut guard) => {
                    guard.clear_ready();
                    self.burst.end();
                }
                Err(error) => self.recover(&error).await,
            }
        }
    }

    /// Accepts a waiting connection, if it still waits once there is room for it. Until then the kernel keeps it, with its bytes.
    async fn accept_within_limit(&self) {
        let open = &self.context.open;
        let mut waited = false;
        while open.is_full() {
            if !has_waiting(self.socket.get_ref()) {
                self.burst.expect_no_more();
                return;
            }
            if !std::mem::replace(&mut waited, true) {
                open.note_full(&self.context.meter.name);
                self.context.meter.of(thread_index()).waited.add(1);
            }
            let blocked = open.make_room(|| !open.is_full()).await.as_micros();
            let cells = self.context.meter.of(thread_index());
            cells.blocked_us.add(u64::try_from(blocked).unwrap_or(u64::MAX));
        }
        match accept(self.socket.get_ref()) {
            Ok((fd, client)) => {
                self.failures.set(0);
                self.burst.note_accepted();
                begin(fd, client, &self.local, &self.context);
            }
            Err(error) => {
                self.burst.expect_no_more();
                self.recover(&error).await;
            }
        }
    }

    /// Whether these are no longer errors of single connections: with that many in a row, each will fail.
    fn is_failing(&self) -> bool {
        self.failures.get() >= MAX_FAILURES
    }

    /// Recovers from a failed accept. Without descriptors or memory only the end of another connection helps.
    async fn recover(&self, error: &io::Error) {
        if is_transient(error) {
            return;
        }
        let of_one_connection = concerns_one_connection(error);
        if of_one_connection {
            self.failures.set(self.failures.get().saturating_add(1));
            if !self.failures.get().is_multiple_of(MAX_FAILURES) {
                return;
            }
        }
        if LAST_WARNING.get().is_none_or(|at| at.elapsed() > Duration::from_secs(10)) {
            LAST_WARNING.set(Some(tokio::time::Instant::now()));
            tracing::warn!(
                name: "accept_failed",
                %error, listener = &*self.context.meter.name,
                "cannot accept connections; they wait, will retry; if too many files are open, raise that limit (systemd: LimitNOFILE), \
                 or lower `server.limits.connections`"
            );
        }
        if of_one_connection {
            return tokio::time::sleep(PAUSE).await;
        }
        let count = self.context.open.count();
        self.context.open.make_room(|| self.context.open.count() < count).await;
    }
}

/// Whether another thread was faster, or a signal came.
fn is_transient(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(Errno::from_io_error(error), Some(Errno::AGAIN | Errno::INTR))
}

/// Whether an error of an accept is unrelated to the listening socket and this process: the client has left, or its network is gone, which Linux reports here (accept(2)).
/// So are refusals of a firewall; but those of a filter of system calls or of a security module concern every connection, and leave it waiting.
fn concerns_one_connection(error: &io::Error) -> bool {
    use rustix::io::Errno;
    const SUCH: [Errno; 10] = [
        Errno::CONNABORTED,
        Errno::PERM,
        Errno::PROTO,
        Errno::NOPROTOOPT,
        Errno::NETDOWN,
        Errno::NETUNREACH,
        Errno::HOSTDOWN,
        Errno::HOSTUNREACH,
        Errno::NONET,
        Errno::OPNOTSUPP,
    ];
    Errno::from_io_error(error).is_some_and(|errno| SUCH.contains(&errno))
}

fn begin(fd: Socket, client: Option<SocketAddr>, local: &LocalAddress, context: &Arc<ListenerContext>) {
    let cells = context.meter.of(thread_index());
    // Behind a proxy the client is not known yet.
    let client_address = client.map(|client| client.ip()).filter(|_| context.proxy_protocol.is_none());
    let limit = context.limits.per_client;
    let Some(place) = context.open.enter(client_address, limit, cells) else {
        if let Some(client) = client_address {
            context.open.note_refused(client, limit, &context.meter.name);
        }
        return;
    };
    #[cfg(test)]
    assert!(!PANIC_ON_ACCEPT.take(), "as the test wants it");
    let (local, context) = (local_of(&fd, local), Arc::clone(context));
    let ends = Ends { client, local, scheme: Scheme::Http };
    if context.proxy_protocol.is_some() {
        keepwarm_net::spawn_local(Box::pin(serve_proxied(Io::new(fd), ends, place, context)));
        return;
    }
    keepwarm_net::spawn_local(async move {
        let _place = place;
        // In a box: the runtime copies a task's future several times, and this is one of kilobytes. One of its own in plaintext: with TLS it is larger.
        match context.tls {
            None => {
                let mut peer = ConnectionInfo::new(ends.client, ends.local, ends.scheme);
                if context.handler.names_processes() {
                    let pid = if peer.client.is_none() { peer_process(&fd) } else { None };
                    peer.process = Some(Arc::new(PeerProcess { pid, ..PeerProcess::default() }));
                }
                Box::pin(h1::serve(Io::new(fd).into(), peer, context)).await;
            }
            Some(_) => Box::pin(serve_client(Io::new(fd), ends, context)).await,
        }
    });
}

/// The two ends of a connection, as far as they are known before its client has said anything.
struct Ends {
    client: Option<SocketAddr>,
    local: LocalAddress,
    scheme: Scheme,
}

/// A connection that begins with a PROXY header.
async fn serve_proxied(mut io: Io, ends: Ends, mut place: ConnectionGuard, context: Arc<ListenerContext>) {
    let Some(protocol) = &context.proxy_protocol else { return };
    if let Some(ends) = protocol.receive(&mut io, ends, &mut place, &context).await {
        serve_client(io, ends, context).await;
    }
}

/// A connection, from the client's first byte on.
async fn serve_client(io: Io, ends: Ends, context: Arc<ListenerContext>) {
    let Ends { client, local, scheme } = ends;
    match &context.tls {
        None => h1::serve(io.into(), ConnectionInfo::new(client, local, scheme), context).await,
        Some(_) => encrypted::serve(io, client, local, context).await,
    }
}

/// For a listener on all addresses, the address that this client connected to.
fn local_of(fd: &Socket, listener: &LocalAddress) -> LocalAddress {
    match listener {
        LocalAddress::Tcp(address) if address.ip().is_unspecified() => {
            LocalAddress::Tcp(local_address(fd).unwrap_or(*address))
        }
        local => local.clone(),
    }
}

thread_local! {
    static LAST_WARNING: Cell<Option<tokio::time::Instant>> = const { Cell::new(None) };
}

#[cfg(test)]
thread_local! {
    static PANIC_ON_ACCEPT: Cell<bool> = const { Cell::new(false) };
}

#[cfg(test)]
mod panics;
#[cfg(test)]
mod tests;
