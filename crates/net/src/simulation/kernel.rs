//! The world of a thread: its files, the events to come, and the reactor that lets them happen in virtual time.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use super::events::Event;
use super::file::{File, Kind, Registration, Stream};
use super::{Rng, Settings, Totals};
use crate::Endpoint;

/// Calls of the code under test between two turns of the reactor, or two moments; above this it spins.
const SPIN: u64 = 20_000;

pub(super) struct Kernel {
    pub(super) rng: Rng,
    /// The source of decisions of the code under test.
    choices: Rng,
    numbers: u64,
    pub(super) settings: Settings,
    pub(super) files: BTreeMap<u64, File>,
    pub(super) watches: BTreeMap<u64, Registration>,
    pub(super) listeners: BTreeMap<Endpoint, u64>,
    /// Registrations of Unix sockets that are still to be refused.
    pub(super) refuses: u32,
    pub(super) on_disk: BTreeMap<PathBuf, Rc<dyn Fn() -> Vec<u8>>>,
    events: BTreeMap<(Instant, u64), Event>,
    reactor: Option<Waker>,
    next: u64,
    pub(super) turns: u64,
    turned: Option<Instant>,
    pub(super) happened: u64,
    pub(super) digest: u64,
}

thread_local! {
    static KERNEL: RefCell<Option<Kernel>> = const { RefCell::new(None) };
}

/// Starts a new world of this thread: the previous one is forgotten.
pub fn reset(seed: u64, settings: Settings) {
    let kernel = Kernel {
        rng: Rng::new(seed ^ 0x6b65_7270_7761_726d),
        choices: Rng::new(!seed),
        numbers: 0,
        settings,
        files: BTreeMap::new(),
        watches: BTreeMap::new(),
        listeners: BTreeMap::new(),
        refuses: 0,
        on_disk: BTreeMap::new(),
        events: BTreeMap::new(),
        reactor: None,
        next: 0,
        turns: 0,
        turned: None,
        happened: 0,
        digest: 0,
    };
    let before = KERNEL.with_borrow_mut(|it| it.replace(kernel));
    // Its wakers may drop sockets, which access the kernel.
    drop(before);
}

/// Changes how this thread's world behaves from now on.
pub fn settings(change: impl FnOnce(&mut Settings)) {
    with(|kernel| change(&mut kernel.settings));
}

/// The reactor of this thread's world refuses the next `count` registrations of Unix sockets (`ENOSPC`).
pub fn refuse_watches(count: u32) {
    with(|kernel| kernel.refuses = count);
}

/// Randomness for the code under test: the same in each run of a seed.
pub fn random() -> u64 {
    with(|kernel| kernel.choices.next())
}

/// The next request's number in this thread's world.
pub fn next_number() -> u64 {
    with(|kernel| {
        kernel.numbers += 1;
        kernel.numbers
    })
}

/// The totals of this thread's world.
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

/// Counts a step of the code under test that could be part of a loop.
///
/// # Panics
/// There were too many steps without another event.
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
    // Drops after the first panic take steps, too.
    let spins = spins && !std::thread::panicking();
    assert!(!spins, "spin: {SPIN} steps without a turn of the reactor");
}

pub(super) fn with<T>(use_it: impl FnOnce(&mut Kernel) -> T) -> T {
    KERNEL.with_borrow_mut(|kernel| use_it(kernel.as_mut().expect("a world was begun on this thread")))
}

/// For drops after the end of the world.
pub(super) fn try_with<T>(use_it: impl FnOnce(&mut Kernel) -> T) -> Option<T> {
    KERNEL.try_with(|kernel| kernel.try_borrow_mut().ok()?.as_mut().map(use_it)).ok().flatten()
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

    /// Schedules bytes in flight to this file.
    pub(super) fn send_off(&mut self, to: u64) {
        if let Some(stream) = self.stream(to)
            && !std::mem::replace(&mut stream.coming, true)
        {
            self.schedule(Event::Arrive(to));
        }
    }
}

/// Runs the events of this thread's world, each at its time, those of one moment in any order.
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
                        // The woken tasks get a turn before the next event.
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
