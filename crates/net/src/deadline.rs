//! Coarse deadlines for many connections.
//!
//! A connection changes its deadlines several times a request and almost never meets one. A timer in the runtime's
//! wheel would be moved each time; here a deadline is a cell that is written, and one ticker per thread looks at
//! all of them every [`TICK`]. So a deadline costs a store, and is met up to one tick late.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::task::{Context, Waker};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

/// How often deadlines are looked at, and so how late one may be met.
const TICK: Duration = Duration::from_millis(100);

/// What the task of a connection waits for; each kind has its own deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitKind {
    /// For the client's bytes: idle, head or body.
    Read,
    /// For the client to take bytes.
    Write,
    /// For the response: the handler's own.
    Response,
    /// For a slower response: also the handler's own.
    Slow,
}

const WAITS: usize = 4;

/// The deadlines of one task.
#[derive(Debug, Clone)]
pub struct Deadlines(Rc<DeadlineSlots>);

#[derive(Debug)]
struct DeadlineSlots {
    at: [Cell<Option<Instant>>; WAITS],
    /// One bit per [`WaitKind`].
    passed: Cell<u8>,
    /// The ticker knows them.
    is_registered: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Deadlines {
    /// Deadlines on this thread's ticker, none set.
    pub fn new() -> Self {
        let slots = Rc::new(DeadlineSlots {
            at: [const { Cell::new(None) }; WAITS],
            passed: Cell::new(0),
            is_registered: Cell::new(false),
            waker: RefCell::new(None),
        });
        Self(slots)
    }

    /// Sets, moves or (with `None`) lifts a deadline.
    #[inline]
    pub fn set(&self, wait: WaitKind, at: Option<Instant>) {
        // Not before: most requests of HTTP/2 are served before any is set, and the ticker would keep the storage of each until its next look.
        if at.is_some() && !self.0.is_registered.get() {
            self.register();
        }
        if let Some(cell) = self.0.at.get(wait as usize) {
            cell.set(at);
        }
        self.0.passed.set(self.0.passed.get() & !(1 << wait as u8));
    }

    /// Tells the ticker. Once for each connection.
    #[cold]
    fn register(&self) {
        self.0.is_registered.set(true);
        REGISTERED.with_borrow_mut(|all| all.push(Rc::downgrade(&self.0)));
    }

    /// Sets a deadline `after` from now.
    pub fn set_after(&self, wait: WaitKind, after: Duration) {
        // The exact time: a deadline may be met late, never early.
        self.set(wait, Instant::now().checked_add(after));
    }

    /// Whether a deadline is running.
    pub fn is_set(&self, wait: WaitKind) -> bool {
        self.0.at.get(wait as usize).is_some_and(|cell| cell.get().is_some())
    }

    /// Whether a deadline has been met. Registers the task to be woken by each one met from now on, whatever the result: a caller that finds one
    /// met most likely sets another and may not poll again.
    pub fn poll_passed(&self, wait: WaitKind, cx: &Context<'_>) -> bool {
        let mut waker = self.0.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        self.passed(wait)
    }

    /// Whether a deadline has been met.
    pub fn passed(&self, wait: WaitKind) -> bool {
        self.0.passed.get() & (1 << wait as u8) != 0
    }
}

impl Default for Deadlines {
    fn default() -> Self {
        Self::new()
    }
}

/// Looks at every deadline of this thread, forever; a data-plane thread spawns it once.
pub async fn run_ticker() {
    let mut interval = tokio::time::interval(TICK);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let now = interval.tick().await;
        CLOCK.set(Some(now));
        crate::runtime::note_turn();
        refresh_date();
        REGISTERED.with_borrow_mut(|all| {
            all.retain(|slots| match slots.upgrade() {
                Some(slots) => {
                    slots.look(now);
                    true
                }
                None => false,
            });
        });
    }
}

impl DeadlineSlots {
    fn look(&self, now: Instant) {
        let mut passed = 0;
        for (bit, cell) in self.at.iter().enumerate() {
            if cell.get().is_some_and(|at| at <= now) {
                cell.set(None);
                passed |= 1 << bit;
            }
        }
        self.pass(passed);
    }

    fn pass(&self, bits: u8) {
        let passed = self.passed.get() | bits;
        if passed != self.passed.replace(passed)
            && let Some(waker) = &*self.waker.borrow()
        {
            waker.wake_by_ref();
        }
    }
}

/// The time of the latest tick: enough for deadlines, and no call to the clock.
pub fn now() -> Instant {
    CLOCK.get().unwrap_or_else(Instant::now)
}

/// Processor time of the calling thread.
#[cfg(not(feature = "simulation"))]
#[must_use]
pub fn thread_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(now).unwrap_or_default()
}

/// The `Date` of a response (RFC 9110 §6.6.1), formatted once a second.
pub fn http_date() -> [u8; 29] {
    if DATE.get().0 == 0 {
        refresh_date();
    }
    DATE.get().1
}

fn refresh_date() {
    let time = wall_clock();
    let second = time.duration_since(SystemTime::UNIX_EPOCH).map_or(1, |since| since.as_secs());
    if DATE.get().0 != second {
        let mut date = [b' '; 29];
        let text = httpdate::fmt_http_date(time);
        date.iter_mut().zip(text.bytes()).for_each(|(to, from)| *to = from);
        DATE.set((second, date));
    }
}

#[cfg(not(feature = "simulation"))]
fn wall_clock() -> SystemTime {
    SystemTime::now()
}

/// One moment: the length of a date differs under HPACK's Huffman code.
#[cfg(feature = "simulation")]
fn wall_clock() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)
}

thread_local! {
    static DATE: Cell<(u64, [u8; 29])> = const { Cell::new((0, [b' '; 29])) };
    static REGISTERED: RefCell<Vec<Weak<DeadlineSlots>>> = const { RefCell::new(Vec::new()) };
    static CLOCK: Cell<Option<Instant>> = const { Cell::new(None) };
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_deadline_wakes_its_task_and_can_be_moved_and_lifted() {
        let local = tokio::task::LocalSet::new();
        local.spawn_local(run_ticker());
        local
            .run_until(async {
                tokio::task::yield_now().await;
                let deadlines = Deadlines::new();
                deadlines.set_after(WaitKind::Write, Duration::from_secs(1));
                deadlines.set_after(WaitKind::Read, Duration::from_secs(5));
                deadlines.set(WaitKind::Write, None);
                let begin = Instant::now();
                std::future::poll_fn(|cx| match deadlines.poll_passed(WaitKind::Read, cx) {
                    true => Poll::Ready(()),
                    false => Poll::Pending,
                })
                .await;
                assert!(begin.elapsed() >= Duration::from_secs(5));
                assert!(begin.elapsed() <= Duration::from_secs(5) + TICK);
                assert!(!deadlines.passed(WaitKind::Write));
            })
            .await;
    }

    #[test]
    fn deadlines_that_are_never_set_leave_nothing_to_the_ticker() {
        let registered = || REGISTERED.with_borrow(Vec::len);
        let before = registered();
        let deadlines = Deadlines::new();
        deadlines.set(WaitKind::Write, None);
        assert_eq!(registered(), before);
        deadlines.set_after(WaitKind::Write, Duration::from_secs(1));
        deadlines.set_after(WaitKind::Read, Duration::from_secs(1));
        assert_eq!(registered(), before + 1);
    }

    /// Once, a hung worker was never timed out if `slow_log` was as long as the time in the queue.
    #[tokio::test(start_paused = true)]
    async fn of_two_that_are_met_at_once_both_can_be_set_again() {
        let local = tokio::task::LocalSet::new();
        local.spawn_local(run_ticker());
        local
            .run_until(async {
                tokio::task::yield_now().await;
                let deadlines = Deadlines::new();
                deadlines.set_after(WaitKind::Slow, Duration::from_secs(1));
                deadlines.set_after(WaitKind::Response, Duration::from_secs(1));
                let begin = Instant::now();
                let mut again = 0;
                let third = std::future::poll_fn(|cx| {
                    let slow = deadlines.poll_passed(WaitKind::Slow, cx);
                    let response = deadlines.poll_passed(WaitKind::Response, cx);
                    if slow && response {
                        again += 1;
                        deadlines.set_after(WaitKind::Slow, Duration::from_secs(1));
                        deadlines.set_after(WaitKind::Response, Duration::from_secs(1));
                    }
                    if again == 3 { Poll::Ready(()) } else { Poll::Pending }
                });
                tokio::time::timeout(Duration::from_secs(60), third).await.unwrap();
                assert!(begin.elapsed() <= Duration::from_secs(4));
            })
            .await;
    }
}
