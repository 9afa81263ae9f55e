//! Files, what travels between them, and the events of virtual time.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rustix::io::Errno;
use tokio::io::Interest;
use tokio::time::{Instant, Sleep, sleep_until};

use super::Rng;
use crate::Endpoint;

/// How a world behaves.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Bytes that a pipe holds: drawn between these for each direction.
    pub capacity: (usize, usize),
    /// The longest time that a piece takes to arrive.
    pub latency: Duration,
    /// Pieces arrive whole, or in parts of any size.
    pub in_pieces: bool,
    /// What fails.
    pub faults: Faults,
    /// After the first time the clock is later by the second, all at once: a machine that was suspended.
    pub jump: Option<(Duration, Duration)>,
}

/// How many of a thousand calls fail, by kind.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// `ENOBUFS` of a send.
    pub no_buffers: u32,
    /// A send takes less than there is room for.
    pub short_send: u32,
    /// `EMFILE` of accept, connect, and the copy of a descriptor; `ENOSPC` of a registration.
    pub no_descriptor: u32,
    /// `EMFILE` of the copy of a descriptor that is watched already: who wants a second watch of the socket has the first.
    pub no_copy: u32,
    /// A connection is reset when it is written to or read.
    pub reset: u32,
    /// A task is woken, or a socket said to be ready, for nothing.
    pub spurious: u32,
    /// `ENOSPC` of a call to the disk.
    pub disk_full: u32,
    /// A connection is refused.
    pub refused: u32,
    /// A connect never comes to an end.
    pub silent: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            capacity: (64 * 1024, 64 * 1024),
            latency: Duration::ZERO,
            in_pieces: false,
            faults: Faults::default(),
            jump: None,
        }
    }
}

/// What a world has come to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Sockets that somebody holds.
    pub files: usize,
    /// Bytes between them.
    pub bytes: usize,
    /// Events that have happened.
    pub events: u64,
    /// A digest of everything that has happened: equal for equal runs.
    pub digest: u64,
}

/// Calls of the code under test between two turns of the reactor, or two moments, above which it spins.
const SPIN: u64 = 20_000;

#[derive(Debug)]
pub(super) struct Kernel {
    pub(super) rng: Rng,
    pub(super) settings: Settings,
    pub(super) files: BTreeMap<u64, File>,
    pub(super) watches: BTreeMap<u64, Registration>,
    pub(super) listeners: BTreeMap<Endpoint, u64>,
    events: BTreeMap<(Instant, u64), Event>,
    reactor: Option<Waker>,
    next: u64,
    turns: u64,
    turned: Option<Instant>,
    happened: u64,
    digest: u64,
}

#[derive(Debug)]
pub(super) struct File {
    /// Descriptors of it.
    pub(super) descriptors: usize,
    pub(super) kind: Kind,
    /// Scripts that wait for anything to change.
    pub(super) observers: Vec<Waker>,
}

#[derive(Debug)]
pub(super) enum Kind {
    Stream(Stream),
    Listener { queue: VecDeque<u64>, refuses: bool },
}

/// One end of a connection.
#[derive(Debug, Default)]
pub(super) struct Stream {
    pub(super) peer: u64,
    pub(super) unix: bool,
    /// What has arrived, and what is on its way.
    pub(super) incoming: VecDeque<u8>,
    pub(super) wire: VecDeque<u8>,
    pub(super) capacity: usize,
    /// FIN has arrived, or is behind what is on its way.
    pub(super) ended: bool,
    pub(super) end_comes: bool,
    pub(super) reset_comes: bool,
    /// Told once to a read or a write.
    pub(super) error: Option<Errno>,
    pub(super) shut: bool,
    pub(super) broken: bool,
    pub(super) peer_gone: bool,
    /// A send has found no room: the edge is owed.
    pub(super) no_room: bool,
    pub(super) resets: bool,
    pub(super) connecting: bool,
    coming: bool,
    /// Bytes that this end has sent, and how many of them had not arrived when the other closed.
    pub(super) sent: usize,
    pub(super) unarrived: usize,
}

#[derive(Debug)]
pub(super) struct Registration {
    pub(super) file: u64,
    pub(super) interest: Interest,
    pub(super) readable: bool,
    pub(super) writable: bool,
    pub(super) read_closed: bool,
    pub(super) write_closed: bool,
    pub(super) reader: Option<Waker>,
    pub(super) writer: Option<Waker>,
    pub(super) waiting: Vec<Waker>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Event {
    /// Something of what is on its way to this file arrives.
    Arrive(u64),
    /// There is room again for what this file sends.
    Room(u64),
    /// A new registration learns the state of its file.
    Registered(u64),
    /// A handshake is over: the second is what the listener will accept, if it was not refused.
    Connected(u64, Option<(u64, u64)>),
    /// Whoever waits for this registration is woken for nothing.
    Spurious(u64),
}

thread_local! {
    static KERNEL: RefCell<Option<Kernel>> = const { RefCell::new(None) };
}

/// Begins a world of this thread: what was there before is forgotten.
pub fn reset(seed: u64, settings: Settings) {
    let kernel = Kernel {
        rng: Rng::new(seed ^ 0x6b65_7270_7761_726d),
        settings,
        files: BTreeMap::new(),
        watches: BTreeMap::new(),
        listeners: BTreeMap::new(),
        events: BTreeMap::new(),
        reactor: None,
        next: 0,
        turns: 0,
        turned: None,
        happened: 0,
        digest: 0,
    };
    let before = KERNEL.with_borrow_mut(|it| it.replace(kernel));
    // Its wakers may drop sockets, which asks for the kernel.
    drop(before);
}

/// Changes how this thread's world behaves from now on.
pub fn settings(change: impl FnOnce(&mut Settings)) {
    with(|kernel| change(&mut kernel.settings));
}

/// What this thread's world has come to.
pub fn totals() -> Totals {
    with(|kernel| Totals {
        files: kernel.files.len(),
        bytes: kernel.files.values().map(File::bytes).sum(),
        events: kernel.happened,
        digest: kernel.digest,
    })
}

/// Every socket and registration, a line each: who holds bytes, and who waits for what.
pub fn describe() -> String {
    with(|kernel| {
        let mut lines = Vec::new();
        for (id, file) in &kernel.files {
            match &file.kind {
                Kind::Stream(it) => lines.push(format!(
                    "socket {id} to {}: {} of {} bytes here, {} on their way; ended {} shut {} broken {} peer gone {} owed room {}",
                    it.peer, it.incoming.len(), it.capacity, it.wire.len(), it.ended, it.shut, it.broken, it.peer_gone, it.no_room
                )),
                Kind::Listener { queue, .. } => lines.push(format!("listener {id}: {} wait", queue.len())),
            }
        }
        for (id, it) in &kernel.watches {
            lines.push(format!(
                "watch {id} of {} ({:?}): readable {} writable {}; waits to read {} to write {}",
                it.file,
                it.interest,
                it.readable,
                it.writable,
                it.reader.is_some(),
                it.writer.is_some()
            ));
        }
        lines.join("\n")
    })
}

/// The code under test has taken a step that could be one of a loop.
///
/// # Panics
/// It took too many without letting anything else happen.
pub fn turn() {
    let spins = KERNEL.with_borrow_mut(|kernel| {
        let Some(kernel) = kernel else { return false };
        let now = Instant::now();
        if kernel.turned.replace(now) != Some(now) {
            kernel.turns = 0;
        }
        kernel.turns += 1;
        kernel.turns > SPIN
    });
    // What is dropped because of the first panic takes steps, too.
    let spins = spins && !std::thread::panicking();
    assert!(!spins, "spin: {SPIN} steps without a turn of the reactor");
}

pub(super) fn with<T>(use_it: impl FnOnce(&mut Kernel) -> T) -> T {
    KERNEL.with_borrow_mut(|kernel| use_it(kernel.as_mut().expect("a world was begun on this thread")))
}

/// For what is dropped after the world.
pub(super) fn try_with<T>(use_it: impl FnOnce(&mut Kernel) -> T) -> Option<T> {
    KERNEL.try_with(|kernel| kernel.try_borrow_mut().ok()?.as_mut().map(use_it)).ok().flatten()
}

impl File {
    fn bytes(&self) -> usize {
        match &self.kind {
            Kind::Stream(stream) => stream.incoming.len() + stream.wire.len(),
            Kind::Listener { .. } => 0,
        }
    }
}

impl Stream {
    pub(super) fn room(&self) -> usize {
        self.capacity.saturating_sub(self.incoming.len() + self.wire.len())
    }

    /// What Linux asks of room before it tells of it.
    fn has_enough_room(&self) -> bool {
        self.room() * 3 >= self.capacity
    }

    pub(super) fn is_readable(&self) -> bool {
        !self.incoming.is_empty() || self.ended || self.error.is_some() || self.broken
    }
}

impl Kernel {
    pub(super) fn stream(&mut self, file: u64) -> Option<&mut Stream> {
        match &mut self.files.get_mut(&file)?.kind {
            Kind::Stream(stream) => Some(stream),
            Kind::Listener { .. } => None,
        }
    }

    pub(super) fn note(&mut self, what: u64) {
        self.digest = (self.digest ^ what).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(7);
    }

    pub(super) fn new_id(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub(super) fn new_file(&mut self, kind: Kind) -> u64 {
        let id = self.new_id();
        self.files.insert(id, File { descriptors: 1, kind, observers: Vec::new() });
        id
    }

    /// A connection, both of whose ends are open.
    pub(super) fn new_pair(&mut self, unix: bool) -> (u64, u64) {
        let (least, most) = self.settings.capacity;
        let mut ends = [0; 2];
        for end in &mut ends {
            let capacity = least + self.rng.size(most - least);
            *end = self.new_file(Kind::Stream(Stream { unix, capacity, ..Stream::default() }));
        }
        let [one, other] = ends;
        for (end, peer) in [(one, other), (other, one)] {
            if let Some(stream) = self.stream(end) {
                stream.peer = peer;
            }
        }
        (one, other)
    }

    pub(super) fn schedule(&mut self, event: Event) {
        let longest = self.settings.latency.as_millis() as usize;
        let after = Duration::from_millis(self.rng.below(longest + 1) as u64);
        self.schedule_after(after, event);
    }

    pub(super) fn schedule_after(&mut self, after: Duration, event: Event) {
        let id = self.new_id();
        self.events.insert((Instant::now() + after, id), event);
        if let Some(reactor) = self.reactor.take() {
            reactor.wake();
        }
    }

    /// Something is on its way to this file.
    pub(super) fn send_off(&mut self, to: u64) {
        if let Some(stream) = self.stream(to)
            && !std::mem::replace(&mut stream.coming, true)
        {
            self.schedule(Event::Arrive(to));
        }
    }

    fn happen(&mut self, event: Event) -> Vec<Waker> {
        self.happened += 1;
        self.turns = 0;
        match event {
            Event::Arrive(file) => self.arrive(file),
            Event::Room(file) => self.tell(file, Edge::Room),
            Event::Registered(watch) => self.tell_state(watch),
            Event::Connected(file, accepted) => self.connected(file, accepted),
            Event::Spurious(watch) => match self.watches.get_mut(&watch) {
                Some(watch) => {
                    watch.readable = true;
                    watch.wake_all()
                }
                None => Vec::new(),
            },
        }
    }

    fn arrive(&mut self, file: u64) -> Vec<Waker> {
        let in_pieces = self.settings.in_pieces;
        let mut rng = self.rng.fork();
        let Some(stream) = self.stream(file) else { return Vec::new() };
        stream.coming = false;
        let whole = stream.wire.len();
        let count = if in_pieces { 1 + rng.size(whole.saturating_sub(1)) } else { whole }.min(whole);
        stream.incoming.extend(stream.wire.drain(..count));
        let mut edge = Edge::Data;
        let more = !stream.wire.is_empty();
        if !more && std::mem::take(&mut stream.reset_comes) {
            stream.broken = true;
            stream.error = Some(Errno::CONNRESET);
            edge = Edge::Reset;
        } else if !more && std::mem::take(&mut stream.end_comes) {
            stream.ended = true;
            edge = Edge::End;
        }
        self.note(file << 32 | count as u64);
        if more {
            self.send_off(file);
        }
        self.tell(file, edge)
    }

    fn connected(&mut self, file: u64, accepted: Option<(u64, u64)>) -> Vec<Waker> {
        let mut wakers = Vec::new();
        let mut edge = Edge::Room;
        if let Some(stream) = self.stream(file) {
            stream.connecting = false;
        }
        match accepted {
            Some((listener, server)) => match self.files.get_mut(&listener).map(|file| &mut file.kind) {
                Some(Kind::Listener { queue, refuses: false }) => {
                    queue.push_back(server);
                    wakers = self.tell(listener, Edge::Data);
                }
                _ => {
                    self.close(server);
                    edge = Edge::Reset;
                }
            },
            None => edge = Edge::Reset,
        }
        if let (Edge::Reset, Some(stream)) = (edge, self.stream(file)) {
            stream.broken = true;
            stream.error = Some(Errno::CONNREFUSED);
        }
        wakers.extend(self.tell(file, edge));
        wakers
    }

    /// Sets what the registrations of a file are told by an edge.
    fn tell(&mut self, file: u64, edge: Edge) -> Vec<Waker> {
        let mut wakers = Vec::new();
        let hung_up = self.stream(file).is_some_and(|it| it.broken || (it.ended && it.shut));
        for watch in self.watches.values_mut().filter(|watch| watch.file == file) {
            watch.readable |= edge != Edge::Room && watch.interest.is_readable();
            watch.writable |= matches!(edge, Edge::Room | Edge::Reset) && watch.interest.is_writable();
            watch.read_closed |= matches!(edge, Edge::End | Edge::Reset);
            watch.write_closed |= hung_up;
            wakers.extend(watch.wake_ready());
        }
        if let Some(file) = self.files.get_mut(&file) {
            wakers.append(&mut file.observers);
        }
        wakers
    }

    /// Tells of every file that others change: its observers are scripts, which look again.
    pub(super) fn touch(&mut self, file: u64) {
        let observers = self.files.get_mut(&file).map(|file| std::mem::take(&mut file.observers));
        observers.into_iter().flatten().for_each(Waker::wake);
    }

    fn tell_state(&mut self, watch: u64) -> Vec<Waker> {
        let Some(file) = self.watches.get(&watch).map(|watch| watch.file) else { return Vec::new() };
        let waits = match self.files.get(&file).map(|file| &file.kind) {
            Some(Kind::Listener { queue, .. }) => !queue.is_empty(),
            _ => false,
        };
        let room = match self.stream(file) {
            Some(stream) if stream.connecting => false,
            Some(stream) if stream.broken => true,
            Some(stream) => {
                let peer = stream.peer;
                self.stream(peer).is_none_or(|peer| peer.has_enough_room())
            }
            None => false,
        };
        let (readable, ended, hung_up) = match self.stream(file) {
            Some(stream) => (
                stream.is_readable(),
                stream.ended || stream.broken,
                stream.broken || (stream.ended && stream.shut),
            ),
            None => (waits, false, false),
        };
        let Some(watch) = self.watches.get_mut(&watch) else { return Vec::new() };
        watch.readable |= readable && watch.interest.is_readable();
        watch.writable |= room && watch.interest.is_writable();
        watch.read_closed |= ended;
        watch.write_closed |= hung_up;
        watch.wake_ready()
    }

    /// What was sent to a closed end is met by a reset. That end lets go of what it still had to send, and so loses a part of what was not read here: how much of that
    /// had left it, nobody knows (RFC 9112 §9.6).
    pub(super) fn meet_closed(&mut self, file: u64) {
        let lost = self.rng.next() as usize;
        let Some(stream) = self.stream(file) else { return };
        if !std::mem::replace(&mut stream.reset_comes, true) {
            let here = stream.incoming.len();
            let kept = lost % (here + stream.wire.len() + 1);
            stream.incoming.truncate(kept);
            stream.wire.truncate(kept.saturating_sub(here));
        }
        self.send_off(file);
    }

    /// A read has made room for the sender.
    pub(super) fn made_room(&mut self, file: u64) {
        let Some(stream) = self.stream(file) else { return };
        let (peer, enough) = (stream.peer, stream.has_enough_room());
        if enough && self.stream(peer).is_some_and(|peer| std::mem::take(&mut peer.no_room)) {
            self.schedule(Event::Room(peer));
        }
        self.touch(peer);
    }

    /// The last descriptor is gone.
    pub(super) fn close(&mut self, file: u64) {
        let Some(closed) = self.files.remove(&file) else { return };
        closed.observers.into_iter().for_each(Waker::wake);
        self.note(file ^ 0xC105E);
        match closed.kind {
            Kind::Listener { queue, .. } => {
                self.listeners.retain(|_, listener| *listener != file);
                queue.into_iter().for_each(|waiting| self.close(waiting));
            }
            Kind::Stream(stream) => {
                let unread = !stream.incoming.is_empty() || !stream.wire.is_empty();
                let resets = (stream.resets || unread) && !stream.broken;
                let lost = self.rng.next() as usize;
                if let Some(peer) = self.stream(stream.peer) {
                    peer.peer_gone = true;
                    peer.unarrived = stream.wire.len();
                    if resets {
                        // What has not left yet never will.
                        if !peer.unix {
                            peer.wire.truncate(lost % (peer.wire.len() + 1));
                        }
                        peer.reset_comes = true;
                    } else {
                        peer.end_comes = !peer.ended;
                    }
                    self.send_off(stream.peer);
                }
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Edge {
    Data,
    Room,
    End,
    Reset,
}

impl Registration {
    fn wake_ready(&mut self) -> Vec<Waker> {
        let mut wakers = Vec::new();
        if self.readable || self.read_closed {
            wakers.extend(self.reader.take());
            wakers.append(&mut self.waiting);
        }
        if self.writable || self.write_closed {
            wakers.extend(self.writer.take());
            wakers.append(&mut self.waiting);
        }
        wakers
    }

    fn wake_all(&mut self) -> Vec<Waker> {
        let mut wakers: Vec<Waker> = self.reader.take().into_iter().chain(self.writer.take()).collect();
        wakers.append(&mut self.waiting);
        wakers
    }
}

/// Lets the events of this thread's world happen, each at its time, those of one moment in any order.
#[derive(Debug, Default)]
pub struct Reactor {
    until: Option<Pin<Box<Sleep>>>,
}

impl Future for Reactor {
    type Output = io::Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let now = Instant::now();
            let (wakers, next) = with(|kernel| {
                kernel.turns = 0;
                kernel.reactor = Some(cx.waker().clone());
                let due: Vec<_> = kernel.events.range(..=(now, u64::MAX)).map(|(key, _)| *key).collect();
                if due.is_empty() {
                    return (None, kernel.events.keys().next().map(|(at, _)| *at));
                }
                let key = *kernel.rng.pick(&due);
                let mut wakers = match kernel.events.remove(&key) {
                    Some(event) => kernel.happen(event),
                    None => Vec::new(),
                };
                let spurious = kernel.settings.faults.spurious;
                if kernel.rng.chance(spurious) && !kernel.watches.is_empty() {
                    let all: Vec<u64> = kernel.watches.keys().copied().collect();
                    let one = *kernel.rng.pick(&all);
                    wakers.extend(kernel.happen(Event::Spurious(one)));
                }
                (Some((wakers, kernel.rng.chance(300))), None)
            });
            match wakers {
                Some((wakers, more)) => {
                    wakers.into_iter().for_each(Waker::wake);
                    if !more {
                        // Whoever was woken has a turn before the next event.
                        cx.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                }
                None => {
                    let Some(next) = next else { return Poll::Pending };
                    let until = self.until.get_or_insert_with(|| Box::pin(sleep_until(next)));
                    until.as_mut().reset(next);
                    if until.as_mut().poll(cx).is_pending() {
                        return Poll::Pending;
                    }
                }
            }
        }
    }
}
