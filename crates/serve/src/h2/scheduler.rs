//! Which stream of a connection sends DATA next (RFC 9218).
//!
//! The `h2` crate sends the frames of all streams in turn, and does not know priorities. So a stream hands its bytes to the crate only in its turn, and the crate
//! never holds more than [`QUEUED`] of them that the socket has not taken. The order: urgency first; then, of one urgency, responses that are of use only when whole
//! one after another, in the order of their requests, and incremental ones in equal shares. A client that signals nothing gets equal shares: the defaults of RFC 9218
//! would let one endless response hold up all others.
//!
//! What this cannot do: bytes that the socket has taken are in order, and so is what the crate has assigned of a window of the whole connection
//! that is exhausted. Heads are not subject to it.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use keepwarm_net::h2::{PrioritySignal, SendTurn};

/// Bytes of DATA that the `h2` crate holds for the socket. Enough that a write fills a socket's buffer; less than a round trip of most networks.
const QUEUED: usize = 128 * 1024;
/// Below this, the next stream is woken.
const LOW: usize = QUEUED / 2;
/// Bytes for one stream while others wait: one frame.
const TURN: usize = 16 * 1024;
/// Signals kept for streams that have not begun (RFC 9218 §7.1).
const EARLY_SIGNALS: usize = 128;
/// RFC 9218 §4.1.
const DEFAULT_URGENCY: u8 = 3;

/// The place of a stream that waits: urgency, bytes that it has had (the same for all that are not incremental), stream.
type Position = (u8, u64, u32);

/// The order of one connection's streams.
#[derive(Debug, Default)]
pub(super) struct Scheduler(Mutex<SchedulerState>);

#[derive(Debug, Default)]
struct SchedulerState {
    /// Bytes handed to the `h2` crate that the socket has not taken.
    queued: usize,
    streams: HashMap<u32, StreamTurn, BuildHasherDefault<StreamHasher>>,
    waiting: BTreeMap<Position, Waker>,
    /// For each urgency, where the last stream stood: new ones begin there.
    clocks: [u64; 8],
    /// The last stream that has begun.
    last: u32,
    /// The client uses priorities.
    has_signals: bool,
    early: usize,
    /// DATA that the socket took, of all streams.
    sent: u64,
}

/// Spreads stream ids. The client chooses them, but never has more than some hundred of them here: it can gain nothing by collisions.
#[derive(Debug, Default)]
struct StreamHasher(u64);

impl Hasher for StreamHasher {
    fn finish(&self) -> u64 {
        // The low bits of a product depend on the low bits alone, and ids of clients are odd.
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32((*byte).into());
        }
    }

    #[inline]
    fn write_u32(&mut self, stream: u32) {
        self.0 = (self.0 ^ u64::from(stream)).wrapping_mul(0x9e37_79b9_7f4a_7c15); // 2^64 / the golden ratio
    }
}

#[derive(Debug)]
struct StreamTurn {
    urgency: u8,
    incremental: bool,
    had: u64,
    /// Bytes of it with the `h2` crate.
    queued: usize,
    waiting: Option<Position>,
    /// It hands over nothing more.
    over: bool,
    /// A PRIORITY_UPDATE came: it outweighs the field of the request (RFC 9218 §7).
    updated: bool,
}

impl Scheduler {
    fn lock(&self) -> MutexGuard<'_, SchedulerState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request with this value of its `priority` field.
    pub(super) fn begin(&self, stream: u32, field: Option<&[u8]>) {
        let mut state = self.lock();
        let signal = field.map(PrioritySignal::parse).unwrap_or_default();
        state.has_signals |= !signal.is_empty();
        state.last = state.last.max(stream);
        if state.streams.contains_key(&stream) {
            state.early = state.early.saturating_sub(1);
        }
        let incremental = !state.has_signals;
        let turn = state.streams.entry(stream).or_insert_with(|| StreamTurn::new(incremental));
        if !turn.updated {
            turn.apply(signal);
        }
        let urgency = turn.urgency;
        let clock = state.clocks.get(usize::from(urgency)).copied().unwrap_or_default();
        if let Some(turn) = state.streams.get_mut(&stream) {
            turn.had = clock;
        }
    }

    /// PRIORITY_UPDATE.
    pub(super) fn update(&self, stream: u32, signal: PrioritySignal) {
        let mut state = self.lock();
        state.has_signals = true;
        let is_new = !state.streams.contains_key(&stream);
        if is_new && (stream <= state.last || state.early >= EARLY_SIGNALS) {
            // It is over; or the client may say so again when it has begun.
            return;
        }
        state.early += usize::from(is_new);
        let turn = state.streams.entry(stream).or_insert_with(|| StreamTurn::new(false));
        // RFC 9218 §7: the frame has the whole priority.
        (turn.urgency, turn.incremental, turn.updated) = (DEFAULT_URGENCY, false, true);
        turn.apply(signal);
        state.replace(stream);
    }

    /// The response of the app says it better (RFC 9218 §8).
    pub(super) fn amend(&self, stream: u32, field: &[u8]) {
        let mut state = self.lock();
        if let Some(turn) = state.streams.get_mut(&stream) {
            turn.apply(PrioritySignal::parse(field));
            state.replace(stream);
        }
    }

    /// The socket took this much of a stream's DATA.
    pub(super) fn handle_sent(&self, stream: u32, bytes: usize) {
        let mut state = self.lock();
        state.sent += bytes as u64;
        if let Some(turn) = state.streams.get_mut(&stream) {
            let taken = bytes.min(turn.queued);
            turn.queued -= taken;
            state.queued = state.queued.saturating_sub(taken);
            state.forget_if_over(stream);
        }
        if state.queued <= LOW {
            state.wake_next();
        }
    }

    /// The stream was reset, by either side: the `h2` crate has dropped what it held.
    pub(super) fn handle_reset(&self, stream: u32) {
        let mut state = self.lock();
        if let Some(turn) = state.streams.get_mut(&stream) {
            let dropped = std::mem::take(&mut turn.queued);
            state.queued = state.queued.saturating_sub(dropped);
            state.forget_if_over(stream);
        }
        state.wake_next();
    }

    /// The connection has nothing more to write and the socket would take it: what is left with the `h2` crate is held back by windows that the client has made smaller
    /// since, and must not hold up other streams.
    pub(super) fn handle_idle(&self) {
        let mut state = self.lock();
        if state.queued == 0 {
            return;
        }
        state.queued = 0;
        state.streams.values_mut().for_each(|turn| turn.queued = 0);
        state.streams.retain(|_, turn| !turn.over);
        state.wake_next();
    }

    /// DATA that the socket took so far, of all streams.
    pub(super) fn sent(&self) -> u64 {
        self.lock().sent
    }

    /// Waits for the stream's turn. Ready: how many bytes it may hand over.
    pub(super) fn poll_turn(&self, stream: u32, cx: &mut Context<'_>) -> Poll<usize> {
        let mut state = self.lock();
        let Some(position) = state.leave(stream) else { return Poll::Ready(TURN) };
        let is_first = state.waiting.keys().next().is_none_or(|first| position < *first);
        if is_first && state.queued < QUEUED {
            let others = !state.waiting.is_empty();
            return Poll::Ready(if others { TURN } else { QUEUED - state.queued });
        }
        state.waiting.insert(position, cx.waker().clone());
        if let Some(turn) = state.streams.get_mut(&stream) {
            turn.waiting = Some(position);
        }
        if state.queued < QUEUED {
            state.wake_next();
        }
        Poll::Pending
    }

    /// It was its turn, and it handed this much over. The next one may follow.
    pub(super) fn handle_handed(&self, stream: u32, bytes: usize) {
        let mut state = self.lock();
        let Some(turn) = state.streams.get_mut(&stream) else { return };
        let urgency = usize::from(turn.urgency);
        turn.queued += bytes;
        let before = turn.had;
        if turn.incremental {
            turn.had += bytes as u64;
        }
        state.queued += bytes;
        if let Some(clock) = state.clocks.get_mut(urgency) {
            *clock = before.max(*clock);
        }
        if state.queued < QUEUED {
            state.wake_next();
        }
    }

    /// The stream cannot use its turn now: flow control holds it back, or it has nothing to send.
    pub(super) fn pass(&self, stream: u32) {
        let mut state = self.lock();
        state.leave(stream);
        if state.queued < QUEUED {
            state.wake_next();
        }
    }

    /// The stream's task has ended.
    pub(super) fn end(&self, stream: u32) {
        let mut state = self.lock();
        state.leave(stream);
        if let Some(turn) = state.streams.get_mut(&stream) {
            turn.over = true;
            state.forget_if_over(stream);
        }
        if state.queued < QUEUED {
            state.wake_next();
        }
    }

    /// Whether the stream waits for its turn, and not for its client.
    pub(super) fn is_waiting(&self, stream: u32) -> bool {
        self.lock().streams.get(&stream).is_some_and(|turn| turn.waiting.is_some())
    }
}

/// The turns of one stream. On drop, it hands over nothing more.
#[derive(Debug)]
pub(super) struct StreamTurns {
    scheduler: Arc<Scheduler>,
    stream: u32,
    /// What others had sent at the last look.
    seen: u64,
}

impl StreamTurns {
    /// For a new request with this `priority`.
    pub(super) fn new(scheduler: Arc<Scheduler>, stream: u32, field: Option<&[u8]>) -> Self {
        scheduler.begin(stream, field);
        Self { scheduler, stream, seen: 0 }
    }

    /// What the response's own `priority` says.
    pub(super) fn amend(&self, field: &[u8]) {
        self.scheduler.amend(self.stream, field);
    }

    /// If it waits for its turn, and so not for its client: bytes that the client took of other responses meanwhile.
    pub(super) fn taken_of_others(&mut self) -> usize {
        let sent = self.scheduler.sent();
        let taken = sent.saturating_sub(std::mem::replace(&mut self.seen, sent));
        match self.scheduler.is_waiting(self.stream) {
            true => usize::try_from(taken).unwrap_or(usize::MAX),
            false => 0,
        }
    }
}

impl SendTurn for StreamTurns {
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<usize> {
        self.scheduler.poll_turn(self.stream, cx)
    }

    fn handle_handed(&mut self, bytes: usize) {
        self.scheduler.handle_handed(self.stream, bytes);
    }

    fn pass(&mut self) {
        self.scheduler.pass(self.stream);
    }
}

impl Drop for StreamTurns {
    fn drop(&mut self) {
        self.scheduler.end(self.stream);
    }
}

impl SchedulerState {
    /// Takes it out of the queue. Returns its position; none: it is unknown.
    fn leave(&mut self, stream: u32) -> Option<Position> {
        let turn = self.streams.get_mut(&stream)?;
        if let Some(position) = turn.waiting.take() {
            self.waiting.remove(&position);
        }
        Some((turn.urgency, turn.had, stream))
    }

    /// Its priority has changed.
    fn replace(&mut self, stream: u32) {
        let Some(turn) = self.streams.get_mut(&stream) else { return };
        let Some(old) = turn.waiting else { return };
        let new = (turn.urgency, turn.had, stream);
        turn.waiting = Some(new);
        if let Some(waker) = self.waiting.remove(&old) {
            self.waiting.insert(new, waker);
        }
        self.wake_next();
    }

    fn wake_next(&self) {
        if let Some(waker) = self.waiting.values().next() {
            waker.wake_by_ref();
        }
    }

    fn forget_if_over(&mut self, stream: u32) {
        if self.streams.get(&stream).is_some_and(|turn| turn.over && turn.queued == 0) {
            self.streams.remove(&stream);
        }
    }
}

impl StreamTurn {
    fn new(incremental: bool) -> Self {
        Self {
            urgency: DEFAULT_URGENCY,
            incremental,
            had: 0,
            queued: 0,
            waiting: None,
            over: false,
            updated: false,
        }
    }

    fn apply(&mut self, signal: PrioritySignal) {
        self.urgency = signal.urgency.unwrap_or(self.urgency);
        self.incremental = signal.incremental.unwrap_or(self.incremental);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hands over as long as the crate takes something, always for the stream whose turn it is; returns the order of the turns.
    fn turns(scheduler: &Scheduler, streams: &mut BTreeMap<u32, usize>, most: usize) -> Vec<u32> {
        let mut cx = Context::from_waker(Waker::noop());
        let mut order = Vec::new();
        while order.len() < most && streams.values().any(|left| *left > 0) {
            // A stream continues as long as it has bytes; when it has to wait, the others are polled, in no particular order.
            let ready = streams.iter().filter(|(_, left)| **left > 0).map(|(stream, _)| *stream);
            let again = order.last().copied().filter(|last| streams.get(last).is_some_and(|left| *left > 0));
            let mut polled = again.into_iter().chain(ready.rev());
            let turn = polled.find_map(|stream| match scheduler.poll_turn(stream, &mut cx) {
                Poll::Ready(room) => Some((stream, room)),
                Poll::Pending => None,
            });
            let (stream, room) = turn.expect("it is the turn of one");
            let left = streams.get_mut(&stream).unwrap();
            let bytes = room.min(*left).min(TURN);
            *left -= bytes;
            scheduler.handle_handed(stream, bytes);
            scheduler.handle_sent(stream, bytes);
            if *left == 0 {
                scheduler.end(stream);
            }
            order.push(stream);
        }
        order
    }

    /// All begin to wait while the connection is full.
    fn waiting(fields: &[(u32, Option<&str>)]) -> Scheduler {
        let scheduler = Scheduler::default();
        scheduler.begin(99, None);
        scheduler.handle_handed(99, QUEUED);
        let mut cx = Context::from_waker(Waker::noop());
        for (stream, field) in fields {
            scheduler.begin(*stream, field.map(str::as_bytes));
            assert!(scheduler.poll_turn(*stream, &mut cx).is_pending());
        }
        scheduler.handle_sent(99, QUEUED);
        scheduler.end(99);
        scheduler
    }

    fn lengths(streams: &[u32]) -> BTreeMap<u32, usize> {
        streams.iter().map(|stream| (*stream, 2 * TURN)).collect()
    }

    #[test]
    fn urgent_ones_come_first() {
        let scheduler = waiting(&[(1, Some("u=5")), (3, Some("u=0")), (5, None), (7, Some("u=1"))]);
        assert_eq!(turns(&scheduler, &mut lengths(&[1, 3, 5, 7]), 99), [3, 3, 7, 7, 5, 5, 1, 1]);
        assert!(scheduler.lock().streams.is_empty());
    }

    #[test]
    fn of_one_urgency_whole_ones_follow_one_another_and_incremental_ones_share() {
        let scheduler = waiting(&[(1, Some("u=2")), (3, Some("u=2"))]);
        assert_eq!(turns(&scheduler, &mut lengths(&[1, 3]), 99), [1, 1, 3, 3]);
        let scheduler = waiting(&[(1, Some("u=2, i")), (3, Some("u=2, i"))]);
        assert_eq!(turns(&scheduler, &mut lengths(&[1, 3]), 99), [1, 3, 1, 3]);
    }

    #[test]
    fn a_client_without_signals_gets_equal_shares() {
        let scheduler = waiting(&[(1, None), (3, None), (5, None)]);
        assert_eq!(turns(&scheduler, &mut lengths(&[1, 3, 5]), 99), [1, 3, 5, 1, 3, 5]);
    }

    #[test]
    fn a_priority_can_change_on_the_way_and_before_the_request() {
        let scheduler = waiting(&[(1, Some("u=1")), (3, Some("u=2"))]);
        let mut left = lengths(&[1, 3]);
        assert_eq!(turns(&scheduler, &mut left, 1), [1]);
        scheduler.update(3, PrioritySignal::parse(b"u=0"));
        assert_eq!(turns(&scheduler, &mut left, 99), [3, 3, 1]);

        let scheduler = Scheduler::default();
        scheduler.update(5, PrioritySignal::parse(b"u=0"));
        scheduler.begin(3, Some(b"u=1"));
        scheduler.begin(5, Some(b"u=7"));
        assert_eq!(scheduler.lock().streams[&5].urgency, 0, "RFC 9218 §7: it outweighs the field");
        scheduler.amend(3, b"u=6, i");
        let state = scheduler.lock();
        assert_eq!((state.streams[&3].urgency, state.streams[&3].incremental), (6, true));
    }

    #[test]
    fn signals_for_streams_that_never_begin_are_bounded() {
        let scheduler = Scheduler::default();
        for stream in 0..10_000 {
            scheduler.update(2 * stream + 1, PrioritySignal::parse(b"u=0"));
        }
        assert_eq!(scheduler.lock().streams.len(), EARLY_SIGNALS);
    }

    #[test]
    fn bytes_that_a_smaller_window_holds_back_hold_up_no_other_stream() {
        let scheduler = Scheduler::default();
        let mut cx = Context::from_waker(Waker::noop());
        scheduler.begin(1, None);
        scheduler.handle_handed(1, QUEUED);
        scheduler.begin(3, None);
        assert!(scheduler.poll_turn(3, &mut cx).is_pending());
        scheduler.handle_idle();
        assert_eq!(scheduler.poll_turn(3, &mut cx), Poll::Ready(QUEUED));
        // They leave later, and count no more.
        scheduler.handle_handed(3, 10);
        scheduler.handle_sent(1, QUEUED);
        assert_eq!(scheduler.lock().queued, 10);
    }

    #[test]
    fn a_stream_that_is_reset_gives_its_room_back() {
        let scheduler = Scheduler::default();
        let mut cx = Context::from_waker(Waker::noop());
        scheduler.begin(1, None);
        scheduler.begin(3, None);
        scheduler.handle_handed(1, QUEUED);
        assert!(scheduler.poll_turn(3, &mut cx).is_pending() && scheduler.is_waiting(3));
        scheduler.end(1);
        scheduler.handle_reset(1);
        assert_eq!(scheduler.poll_turn(3, &mut cx), Poll::Ready(QUEUED));
        assert_eq!(scheduler.lock().streams.len(), 1);
        // DATA of a stream that is not known any more changes nothing.
        scheduler.handle_sent(1, 5);
        assert_eq!(scheduler.lock().queued, 0);
    }
}
