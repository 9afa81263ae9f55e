//! Keepwarm's side of one connection with a worker (`spec/wire.md` §3-§8, §11).
//!
//! State held here: the open streams, the frames that the worker may send on each now, and the credit of both
//! directions. Not held: bytes (the caller keeps those it was given, and returns them with
//! [`Session::release`]), time, the fields' syntax, `Content-Length` against the body, UTF-8 of whole messages.

mod event;
mod measuring;
mod stream;
#[cfg(test)]
mod tests;
mod window;

pub use event::SessionEvent;

use crate::encode::{
    EncodeError, encode_credit, encode_drain, encode_half_close, encode_leaks, encode_ping, encode_reset,
    encode_welcome,
};
use crate::frame::{
    FromWorker, Hello, MAX_CREDIT, MIN_INITIAL_CREDIT, MIN_MESSAGE_COST, ResetCode, Strings, Welcome,
};
use crate::{FaultKind, VERSION, WireFault};
use measuring::Measuring;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};
use stream::Stream;
use window::Window;

/// The initial capacity of the table of streams, so that opening one allocates nothing. A worker that
/// takes more makes it grow, once. The number is arbitrary: 32 KiB.
const FIRST_PLACES: u32 = 512;

/// The limits for a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionConfig {
    /// Bytes that the worker may send on one stream ahead of [`Session::release`]. Bounds the bytes that a client that
    /// reads slowly can make Keepwarm hold.
    pub stream_credit: u32,
    /// The same for all streams of the worker together.
    pub connection_credit: u32,
}

impl Default for SessionConfig {
    /// 256 KiB a stream: four largest frames, so that a worker writes while Keepwarm does. 1 MiB in all.
    fn default() -> Self {
        Self { stream_credit: 256 * 1024, connection_credit: 1024 * 1024 }
    }
}

/// The state of one connection, seen from Keepwarm.
///
/// 1. [`Self::welcome`] writes the first frame.
/// 2. [`Self::handle_frame`] takes each frame that [`FromWorker::decode`] finds, and returns its meaning; after a
///    batch, [`Self::poll_credit`] writes what is owed to the worker.
/// 3. From [`SessionEvent::Hello`] on, [`Self::open`] gives ids for requests; the caller encodes REQUEST.
/// 4. Before DATA [`Self::send_credit`], before TEXT or BINARY [`Self::message_credit`] gives the limit, and
///    [`Self::spent`] records the bytes sent.
/// 5. The cost of a [`SessionEvent::Data`], `Text` or `Binary` ([`SessionEvent::held`]) is returned with
///    [`Self::release`] exactly once, whatever has become of its stream.
///
/// After a fault every further frame is the same fault.
#[derive(Debug)]
pub struct Session {
    config: SessionConfig,
    /// The limits in HELLO; `None` before it.
    worker: Option<WorkerLimits>,
    /// The next stream's id; above `u32::MAX` when all are used.
    next: u64,
    /// The open streams. Each id is below `next`; an id below `next` that is missing here is over.
    streams: HashMap<u32, Stream, BuildHasherDefault<IdHasher>>,
    /// Keepwarm's credit on the connection.
    send: u32,
    /// The worker's credit on the connection.
    receive: Window,
    /// The PING whose PONG has not arrived.
    ping: Option<[u8; 8]>,
    measuring: Measuring,
    drain_sent: bool,
    drain_received: bool,
    fault: Option<WireFault>,
}

/// Keepwarm's limits from HELLO.
#[derive(Debug, Clone, Copy)]
struct WorkerLimits {
    /// Slots for requests: those in progress, and those that may wait after the one in progress.
    streams: u32,
    stream_credit: u32,
    connection_credit: u32,
}

impl Session {
    /// A new connection. Credits outside 65,536 to 2^31-1 (spec §3) are clamped.
    pub fn new(config: SessionConfig) -> Self {
        let within = |credit: u32| credit.clamp(MIN_INITIAL_CREDIT, MAX_CREDIT);
        let config = SessionConfig {
            stream_credit: within(config.stream_credit),
            connection_credit: within(config.connection_credit),
        };
        Self {
            config,
            worker: None,
            next: 1,
            streams: HashMap::default(),
            send: 0,
            receive: Window::new(config.connection_credit),
            ping: None,
            measuring: Measuring::default(),
            drain_sent: false,
            drain_received: false,
            fault: None,
        }
    }

    /// Whether HELLO has come.
    pub fn is_ready(&self) -> bool {
        self.worker.is_some()
    }

    /// Whether either side has sent DRAIN: no stream can be opened any more.
    pub fn is_draining(&self) -> bool {
        self.drain_sent || self.drain_received
    }

    /// Whether every stream id was used (after 2^32-1 requests): the worker must be drained and replaced.
    pub fn is_exhausted(&self) -> bool {
        self.next > u32::MAX.into()
    }

    /// The number of open streams, including those that Keepwarm has reset and the worker has not yet ended.
    pub fn open_streams(&self) -> usize {
        self.streams.len()
    }

    /// The number of streams that could be opened now.
    pub fn free_places(&self) -> usize {
        match self.worker {
            Some(worker) if !self.is_draining() && !self.is_exhausted() && self.fault.is_none() => {
                // spec §11: one at a time, each after the GROWTH of the one before.
                let most = match self.measuring.is_on() {
                    true => usize::from(!self.measuring.is_awaited()),
                    false => worker.streams as usize,
                };
                most.saturating_sub(self.streams.len())
            }
            _ => 0,
        }
    }

    /// Whether an older stream than this one is still open.
    #[must_use]
    pub fn is_open_before(&self, stream: u32) -> bool {
        self.streams.keys().any(|&open| open < stream)
    }

    /// Whether this stream was opened and the worker has ended it. Further frames of Keepwarm on it would be
    /// ignored.
    pub fn is_over(&self, stream: u32) -> bool {
        stream != 0 && u64::from(stream) < self.next && !self.streams.contains_key(&stream)
    }

    /// Whether a PING waits for its PONG.
    pub fn is_ping_pending(&self) -> bool {
        self.ping.is_some()
    }

    /// Writes WELCOME with these names and values (spec §3: `app`, `worker`, `workers`, `software`).
    ///
    /// # Errors
    ///
    /// A name or value with a NUL.
    pub fn welcome<'f>(
        &mut self,
        about: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let SessionConfig { stream_credit, connection_credit } = self.config;
        let welcome = Welcome {
            version_min: VERSION,
            version_max: VERSION,
            stream_credit,
            connection_credit,
            about: Strings::default(),
        };
        encode_welcome(out, &welcome, about)
    }

    /// Returns the meaning of a frame.
    ///
    /// # Errors
    ///
    /// A frame that a worker may not send now. The connection is dead.
    #[inline]
    pub fn handle_frame<'a>(&mut self, frame: FromWorker<'a>) -> Result<SessionEvent<'a>, WireFault> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let (type_byte, stream) = (frame.frame_type() as u8, frame.stream());
        self.judge(frame).map_err(|(kind, seen)| {
            let fault = WireFault { kind, type_byte, stream, seen };
            self.fault = Some(fault);
            fault
        })
    }

    /// A new stream's id, for a REQUEST that the caller sends. `None`: not ready, all slots taken, draining, or out
    /// of ids.
    #[inline]
    pub fn open(&mut self) -> Option<u32> {
        self.open_stream(false)
    }

    /// As [`Self::open`], for a REQUEST with WEBSOCKET: only then may the worker respond with 101 (spec §7).
    pub fn open_websocket(&mut self) -> Option<u32> {
        self.open_stream(true)
    }

    /// How many bytes of DATA, TEXT and BINARY may be sent on this stream now; 0 when it is over or was reset.
    #[inline]
    pub fn send_credit(&self, stream: u32) -> u32 {
        match self.streams.get(&stream) {
            Some(open) if !open.was_reset() => open.send.min(self.send),
            _ => 0,
        }
    }

    /// How many bytes a TEXT or BINARY frame on this stream may carry now; `None`: not even an empty one may go.
    #[inline]
    pub fn message_credit(&self, stream: u32) -> Option<usize> {
        let credit = self.send_credit(stream) as usize;
        (credit >= MIN_MESSAGE_COST).then_some(credit)
    }

    /// Whether the connection's credit is used up, and more than half of it for bytes of streams that are over: the worker MUST have returned those, in
    /// steps of at most a half (spec §6). A worker may be late with that; if it stays so for long, it has lost count, and nothing can ever be sent to it again.
    #[must_use]
    pub fn is_credit_withheld(&self) -> bool {
        let Some(worker) = self.worker.filter(|_| (self.send as usize) < MIN_MESSAGE_COST) else {
            return false;
        };
        let held = |open: &Stream| u64::from(worker.stream_credit.saturating_sub(open.send));
        let held: u64 = self.streams.values().map(held).sum();
        let spent = u64::from(worker.connection_credit.saturating_sub(self.send));
        spent.saturating_sub(held) > u64::from(worker.connection_credit / 2)
    }

    /// Notes that `bytes` (of a message: [`message_cost`](crate::frame::message_cost)) were sent on this stream; at most [`Self::send_credit`]. If the stream has ended
    /// since, only the connection's credit is spent.
    #[inline]
    pub fn spent(&mut self, stream: u32, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        if let Some(open) = self.streams.get_mut(&stream) {
            debug_assert!(bytes <= open.send, "more sent than the stream's credit");
            open.send = open.send.saturating_sub(bytes);
        }
        debug_assert!(bytes <= self.send, "more sent than the connection's credit");
        self.send = self.send.saturating_sub(bytes);
    }

    /// Takes back `bytes` that an event of this stream cost and the caller no longer holds; writes CREDIT when at
    /// least a quarter of the initial credit has accumulated (spec §6). Bytes beyond those held do not count.
    #[inline]
    pub fn release(&mut self, stream: u32, bytes: usize, out: &mut Vec<u8>) {
        if let Some(open) = self.streams.get_mut(&stream) {
            open.receive.release(bytes);
            // A stream that was reset needs no more credit.
            if let Some(amount) = open.receive.due().filter(|_| !open.was_reset()) {
                open.receive.give(amount);
                write_credit(out, stream, amount);
            }
        }
        self.receive.release(bytes);
        self.poll_credit(out);
    }

    /// Writes the connection's CREDIT when enough has accumulated; after each batch of frames, since dropped
    /// bytes are released without the caller.
    #[inline]
    pub fn poll_credit(&mut self, out: &mut Vec<u8>) {
        if let Some(amount) = self.receive.due() {
            self.receive.give(amount);
            write_credit(out, 0, amount);
        }
    }

    /// Writes RESET: this response is no longer wanted. Further frames of the worker on the stream become
    /// [`SessionEvent::Dropped`]; its slot is free when the worker has ended it. False, and nothing is written, when
    /// the stream is not open or was reset before.
    pub fn reset(&mut self, stream: u32, code: ResetCode, reason: &str, out: &mut Vec<u8>) -> bool {
        let Some(open) = self.streams.get_mut(&stream) else {
            return false;
        };
        if open.was_reset() {
            return false;
        }
        open.set_reset();
        encode_reset(out, stream, code, reason).is_ok()
    }

    /// Writes HALF_CLOSE: the client has closed its writing side. Nothing is written when the stream is not open or was reset.
    pub fn half_close(&mut self, stream: u32, out: &mut Vec<u8>) {
        if self.streams.get(&stream).is_some_and(|open| !open.was_reset()) {
            // No encoder refuses the id of an open stream.
            let _ = encode_half_close(out, stream);
        }
    }

    /// Writes PING. False, and nothing is written, before HELLO or while another is unanswered.
    pub fn ping(&mut self, payload: [u8; 8], out: &mut Vec<u8>) -> bool {
        if self.worker.is_none() || self.ping.is_some() {
            return false;
        }
        self.ping = Some(payload);
        encode_ping(out, payload);
        true
    }

    /// Writes LEAKS: the worker begins to measure what its requests leave behind, and takes one at a time. False, and nothing is written: it is not ready
    /// or drains, has a request, measures already, or has not responded to the last LEAKS.
    pub fn begin_leaks(&mut self, out: &mut Vec<u8>) -> bool {
        let is_idle = self.worker.is_some() && self.streams.is_empty() && !self.is_draining();
        let begun = is_idle && self.fault.is_none() && self.measuring.begin();
        if begun {
            encode_leaks(out, false);
        }
        begun
    }

    /// Writes LEAKS with END, at any time: the worker stops measuring. GROWTH may still come for what is on its way. False, and nothing is written: it does not
    /// measure.
    pub fn end_leaks(&mut self, out: &mut Vec<u8>) -> bool {
        let ended = self.measuring.end();
        if ended {
            encode_leaks(out, true);
        }
        ended
    }

    /// Whether the worker measures what its requests leave behind.
    #[must_use]
    pub fn is_measuring(&self) -> bool {
        self.measuring.is_on()
    }

    /// Whether the worker measures, and a GROWTH must come before its next request.
    #[must_use]
    pub fn is_growth_awaited(&self) -> bool {
        self.measuring.is_awaited()
    }

    /// Writes DRAIN, once: no request will follow.
    pub fn drain(&mut self, out: &mut Vec<u8>) {
        if !self.drain_sent {
            self.drain_sent = true;
            encode_drain(out);
        }
    }

    fn open_stream(&mut self, websocket: bool) -> Option<u32> {
        if self.free_places() == 0 {
            return None;
        }
        let stream = u32::try_from(self.next).ok()?;
        let send = self.worker?.stream_credit;
        self.next += 1;
        self.streams.insert(stream, Stream::new(websocket, send, self.config.stream_credit));
        self.measuring.open(stream);
        Some(stream)
    }

    fn judge<'a>(&mut self, frame: FromWorker<'a>) -> Result<SessionEvent<'a>, (FaultKind, u64)> {
        if self.worker.is_none() {
            return match frame {
                FromWorker::Hello(hello) => self.handle_hello(hello),
                _ => Err((FaultKind::BeforeHello, 0)),
            };
        }
        match frame {
            FromWorker::Hello(_) => Err((FaultKind::SecondHello, 0)),
            FromWorker::Pong { payload } if self.ping == Some(payload) => {
                self.ping = None;
                Ok(SessionEvent::Pong { payload })
            }
            FromWorker::Pong { .. } => Err((FaultKind::Pong, 0)),
            FromWorker::Drain => {
                self.drain_received = true;
                Ok(SessionEvent::Drain)
            }
            FromWorker::Busy { end } => Ok(SessionEvent::Busy { end }),
            FromWorker::Samples(samples) if u64::from(samples.request) >= self.next => {
                Err((FaultKind::UnknownStream, samples.request.into()))
            }
            FromWorker::Samples(samples) => Ok(SessionEvent::Samples(samples)),
            FromWorker::Growth(growth) => {
                let is_open = self.streams.contains_key(&growth.request);
                self.measuring.take(growth.request, is_open)?;
                Ok(SessionEvent::Growth(growth))
            }
            FromWorker::Credit { stream: 0, amount } => {
                add_credit(&mut self.send, amount)?;
                Ok(SessionEvent::Credit { stream: 0 })
            }
            _ => self.handle_stream_frame(frame),
        }
    }

    fn handle_hello<'a>(&mut self, hello: Hello<'a>) -> Result<SessionEvent<'a>, (FaultKind, u64)> {
        if hello.version != VERSION {
            return Err((FaultKind::Version, hello.version.into()));
        }
        let streams = hello.streams.saturating_add(hello.ahead());
        self.worker = Some(WorkerLimits {
            streams,
            stream_credit: hello.stream_credit,
            connection_credit: hello.connection_credit,
        });
        self.send = hello.connection_credit;
        self.streams.reserve(hello.streams.min(FIRST_PLACES) as usize);
        Ok(SessionEvent::Hello(hello))
    }

    #[inline]
    fn handle_stream_frame<'a>(
        &mut self,
        frame: FromWorker<'a>,
    ) -> Result<SessionEvent<'a>, (FaultKind, u64)> {
        let stream = frame.stream();
        if u64::from(stream) >= self.next {
            return Err((FaultKind::UnknownStream, 0));
        }
        let Entry::Occupied(mut open) = self.streams.entry(stream) else {
            return Err((FaultKind::StreamOver, 0));
        };
        let before = *open.get();
        let step = open.get_mut().handle(&frame)?;
        if step.bytes != 0 {
            // spec §6: a sender spends both.
            open.get_mut().receive.take(step.bytes)?;
            self.receive.take(step.bytes)?;
        }
        if step.over {
            open.remove();
        }
        if before.was_reset() {
            self.receive.release(step.bytes as usize);
            return Ok(SessionEvent::Dropped { stream, bytes: step.bytes as usize, over: step.over });
        }
        Ok(SessionEvent::of_stream(frame, &before))
    }
}

/// Adds to Keepwarm's credit (spec §6: never above 2^31-1).
fn add_credit(credit: &mut u32, amount: u32) -> Result<(), (FaultKind, u64)> {
    let sum = u64::from(*credit) + u64::from(amount);
    if sum > MAX_CREDIT.into() {
        return Err((FaultKind::CreditOverflow, sum));
    }
    *credit += amount;
    Ok(())
}

/// CREDIT of an amount that a [`Window`] owes: 1 to its initial value, which is a legal credit.
fn write_credit(out: &mut Vec<u8>, stream: u32, amount: u32) {
    let written = encode_credit(out, stream, amount);
    debug_assert!(written.is_ok(), "a window owes a legal credit");
}

/// Spreads stream ids. They are ours and increase by one: a multiplication by an odd constant keeps neighbours
/// apart, and no worker can choose them to collide.
#[derive(Debug, Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32((*byte).into());
        }
    }

    #[inline]
    fn write_u32(&mut self, id: u32) {
        self.0 = (self.0 ^ u64::from(id)).wrapping_mul(0x9e37_79b9_7f4a_7c15); // 2^64 / the golden ratio
    }
}
