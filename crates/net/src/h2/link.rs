//! The state of one connection, shared by the pool, the task that drives it and its calls.
//!
//! All of them run on the connection's thread. Other threads may query the pool, so nothing here is in a `Cell`; and none of it is ever contended.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::Instant;

use super::frame_transport::FrameObserver;
use super::frames::FrameEvent;
use crate::client::IdleState;
use crate::pool::Meter;
use crate::socket::{self, Socket};
use crate::transport::Transport;
use crate::{Endpoint, ServerFault};

/// Heads of one stream that its call has not taken, trailers included; above this, the connection is not read until the call takes one. Bounds the memory that a server can use by 1xx responses
/// to a client that reads slowly: flow control is for DATA only. 64 heads of at most 32 KiB, where one or two is usual.
const HEADS_WAITING: u32 = 64;
/// Last stream of a GOAWAY that has not come.
const NONE: u32 = u32::MAX;

/// One connection.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) endpoint: Endpoint,
    pub(super) thread: usize,
    pub(super) opened: Instant,
    /// Size of the server's certificates, which another TLS handshake would transfer; `None`: plaintext.
    pub(super) certificate_bytes: Option<usize>,
    /// The meter of the connection.
    pub(super) meter: Meter,
    /// The socket, for inspection, while the connection lasts.
    socket: Mutex<Option<Socket>>,
    /// The last stream whose head the socket took. Streams are opened in the order of their numbers (RFC 9113 §5.1.1).
    sent: AtomicU32,
    /// The last stream that GOAWAY promises to process.
    last_processed: AtomicU32,
    /// The code of the last GOAWAY; 0 is NO_ERROR.
    goodbye: AtomicU32,
    /// The server's SETTINGS have come: its stream limit is known.
    settled: AtomicBool,
    /// The call that waits for them. Until they come, a connection has one call at most.
    settling: Mutex<Option<Waker>>,
    /// Reads that brought something.
    reads: AtomicU64,
    /// Heads received and not taken, by stream.
    heads: Mutex<HashMap<u32, u32>>,
    /// The stream that has too many, and since when: as nothing is read, there is only one.
    crowded: Mutex<Option<(u32, Instant)>>,
    is_crowded: AtomicBool,
    /// What the server did wrong, where the `h2` crate does not see it.
    fault: OnceLock<ServerFault>,
    /// Calls in progress.
    open: AtomicUsize,
    /// Calls in total.
    begun: AtomicU64,
    idle_since: Mutex<Instant>,
    /// Wakes the task that drives it.
    driver: Mutex<Option<Waker>>,
    /// Callers wait for the pending event of an idle connection.
    expected: AtomicBool,
    /// A call was given up without any response: is the server still alive?
    doubted: AtomicBool,
    /// It did not acknowledge a PING.
    silent: AtomicBool,
    /// No further call may use it.
    retired: AtomicBool,
}

impl Link {
    pub(super) fn new(endpoint: Endpoint, thread: usize, transport: &Transport, meter: Meter) -> Self {
        let now = Instant::now();
        Self {
            endpoint,
            thread,
            opened: now,
            certificate_bytes: transport.handshake().map(|facts| facts.certificate_bytes),
            meter,
            socket: Mutex::new(transport.io().and_then(|io| io.fd().try_clone().ok())),
            sent: AtomicU32::new(0),
            last_processed: AtomicU32::new(NONE),
            goodbye: AtomicU32::new(0),
            settled: AtomicBool::new(false),
            settling: Mutex::default(),
            reads: AtomicU64::new(0),
            heads: Mutex::default(),
            crowded: Mutex::default(),
            is_crowded: AtomicBool::new(false),
            fault: OnceLock::new(),
            open: AtomicUsize::new(0),
            begun: AtomicU64::new(0),
            idle_since: Mutex::new(now),
            driver: Mutex::default(),
            expected: AtomicBool::new(false),
            doubted: AtomicBool::new(false),
            silent: AtomicBool::new(false),
            retired: AtomicBool::new(false),
        }
    }

    /// Bytes came. The first must be of a frame.
    fn note_read(&self, bytes: &[u8]) -> io::Result<()> {
        let first = self.reads.fetch_add(u64::from(!bytes.is_empty()), Relaxed) == 0;
        if first && bytes.starts_with(b"HTTP/1.") {
            self.blame("not_http2", "speaks HTTP/1, not HTTP/2");
        }
        match self.fault() {
            Some(fault) => Err(io::Error::other(fault.sentence.clone())),
            None => Ok(()),
        }
    }

    /// A frame passes to the `h2` crate. `false`: hold back what follows it.
    fn note_received(&self, passed: FrameEvent) -> bool {
        match passed {
            FrameEvent::Settings => {
                self.settled.store(true, Relaxed);
                lock(&self.settling).take().into_iter().for_each(Waker::wake);
            }
            // A second one only ever lowers it (RFC 9113 §6.8).
            FrameEvent::GoAway { last, code } => {
                self.last_processed.fetch_min(last, Relaxed);
                self.goodbye.store(code, Relaxed);
            }
            FrameEvent::Headers(stream) => return self.count_head(stream),
            _ => {}
        }
        true
    }

    fn count_head(&self, stream: u32) -> bool {
        let mut heads = lock(&self.heads);
        let Some(waiting) = heads.get_mut(&stream) else { return true };
        *waiting += 1;
        if *waiting < HEADS_WAITING {
            return true;
        }
        *lock(&self.crowded) = Some((stream, Instant::now()));
        self.is_crowded.store(true, Relaxed);
        false
    }

    /// Whether reading is paused because a call does not take its heads.
    pub(super) fn is_crowded(&self) -> bool {
        self.is_crowded.load(Relaxed)
    }

    /// The time since when it is paused.
    pub(super) fn crowded_since(&self) -> Option<Instant> {
        lock(&self.crowded).filter(|_| self.is_crowded()).map(|(_, since)| since)
    }

    fn uncrowd(&self, stream: u32) {
        if self.is_crowded() && lock(&self.crowded).take_if(|(crowded, _)| *crowded == stream).is_some() {
            self.is_crowded.store(false, Relaxed);
            self.wake_driver();
        }
    }

    /// The server caused the end of the connection.
    pub(super) fn blame(&self, name: &'static str, sentence: &str) {
        let _ = self.fault.set(ServerFault { name, sentence: sentence.to_owned() });
    }

    /// What the server did wrong, where the `h2` crate does not see it.
    pub(super) fn fault(&self) -> Option<&ServerFault> {
        self.fault.get()
    }

    /// A stream is open: its heads are counted.
    pub(super) fn open_stream(&self, stream: u32) {
        lock(&self.heads).insert(stream, 0);
    }

    /// A head of it was taken.
    pub(super) fn take_head(&self, stream: u32) {
        if let Some(waiting) = lock(&self.heads).get_mut(&stream) {
            *waiting = waiting.saturating_sub(1);
        }
        self.uncrowd(stream);
    }

    pub(super) fn close_stream(&self, stream: u32) {
        lock(&self.heads).remove(&stream);
        self.uncrowd(stream);
    }

    /// Whether the socket took the stream's head.
    pub(super) fn has_sent(&self, stream: u32) -> bool {
        self.sent.load(Relaxed) >= stream
    }

    /// Whether the server has declared the stream unprocessed, now and later (RFC 9113 §6.8).
    pub(super) fn excludes(&self, stream: u32) -> bool {
        let last = self.last_processed.load(Relaxed);
        last != NONE && stream > last
    }

    /// Whether the server accepts no further streams.
    pub(super) fn goes_away(&self) -> bool {
        self.last_processed.load(Relaxed) != NONE
    }

    /// The code of its GOAWAY.
    pub(super) fn goodbye(&self) -> u32 {
        self.goodbye.load(Relaxed)
    }

    pub(super) fn is_settled(&self) -> bool {
        self.settled.load(Relaxed)
    }

    /// Waits until the server's SETTINGS have come, or the connection has ended.
    pub(super) fn poll_settled(&self, cx: &Context<'_>) -> Poll<()> {
        if self.is_settled() || lock(&self.socket).is_none() {
            return Poll::Ready(());
        }
        *lock(&self.settling) = Some(cx.waker().clone());
        Poll::Pending
    }

    /// How many reads brought something.
    pub(super) fn reads(&self) -> u64 {
        self.reads.load(Relaxed)
    }

    /// A call takes it: how long it had been idle (`None`: it is new).
    pub(super) fn begin_call(&self, now: Instant) -> Option<Duration> {
        let others = self.open.fetch_add(1, Relaxed);
        match self.begun.fetch_add(1, Relaxed) {
            0 => None,
            _ if others > 0 => Some(Duration::ZERO),
            _ => Some(self.idled(now)),
        }
    }

    /// A call has ended.
    pub(super) fn end_call(&self) {
        if self.open.fetch_sub(1, Relaxed) == 1 {
            *lock(&self.idle_since) = Instant::now();
        }
    }

    pub(super) fn open(&self) -> usize {
        self.open.load(Relaxed)
    }

    pub(super) fn begun(&self) -> u64 {
        self.begun.load(Relaxed)
    }

    /// Since when it has no call; only meaningful with none [`open`](Self::open).
    pub(super) fn idle_since(&self) -> Instant {
        *lock(&self.idle_since)
    }

    /// How long it has been idle.
    pub(super) fn idled(&self, now: Instant) -> Duration {
        match self.open() {
            0 => now.saturating_duration_since(self.idle_since()),
            _ => Duration::ZERO,
        }
    }

    /// Whether an idle connection has no pending event: with one, it most likely closes, and its task has not read it yet.
    pub(super) fn is_quiet(&self) -> bool {
        let used = self.open() == 0 && self.begun() > 0;
        !used || lock(&self.socket).as_ref().is_none_or(|fd| socket::look(fd) == IdleState::Quiet)
    }

    /// A caller waits until the task has read the pending event.
    pub(super) fn expect(&self) {
        self.expected.store(true, Relaxed);
    }

    /// Whether a caller has waited since the last query.
    pub(super) fn take_expected(&self) -> bool {
        self.expected.load(Relaxed) && self.expected.swap(false, Relaxed)
    }

    /// The connection has ended: calls that still hold the link do not keep the socket open.
    pub(super) fn close(&self) {
        *lock(&self.socket) = None;
        lock(&self.settling).take().into_iter().for_each(Waker::wake);
    }

    /// Gives it no further calls, and has the driving task notice.
    pub(super) fn retire(&self) {
        self.retired.store(true, Relaxed);
        self.wake_driver();
    }

    pub(super) fn is_retired(&self) -> bool {
        self.retired.load(Relaxed)
    }

    /// A call was given up while nothing came: a peer that has vanished would swallow further calls, too.
    pub(super) fn doubt(&self) {
        self.doubted.store(true, Relaxed);
        self.wake_driver();
    }

    /// Whether it was doubted since the last query.
    pub(super) fn take_doubt(&self) -> bool {
        self.doubted.swap(false, Relaxed)
    }

    /// The connection is given up because the server is silent.
    pub(super) fn give_up(&self) {
        self.silent.store(true, Relaxed);
    }

    pub(super) fn was_given_up(&self) -> bool {
        self.silent.load(Relaxed)
    }

    pub(super) fn set_driver(&self, waker: &Waker) {
        let mut driver = lock(&self.driver);
        if !driver.as_ref().is_some_and(|driver| driver.will_wake(waker)) {
            *driver = Some(waker.clone());
        }
    }

    fn wake_driver(&self) {
        if let Some(waker) = &*lock(&self.driver) {
            waker.wake_by_ref();
        }
    }
}

impl FrameObserver for Link {
    fn handle_read(&self, bytes: &[u8]) -> io::Result<()> {
        self.note_read(bytes)
    }

    fn handle_received(&self, passed: FrameEvent) -> bool {
        self.note_received(passed)
    }

    fn handle_sent(&self, passed: FrameEvent) {
        if let FrameEvent::Headers(stream) = passed {
            self.sent.fetch_max(stream, Relaxed);
        }
    }

    fn holds_back(&self) -> bool {
        // The caller that takes a head wakes the driver.
        self.is_crowded()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
