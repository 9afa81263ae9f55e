//! Watches the idle connections of one thread: removes those that the server closed, or that have been idle too long.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Weak;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use keepwarm_telemetry::panics::catch_future;
use tokio::time::{Instant, Sleep};

use super::dial::spawn_spare;
use super::endpoint_pool::{IdleConnection, SHORT_LIFE};
use super::{Pool, PoolCounters, PoolInner};
use crate::Endpoint;
use crate::client::{Codec, IdleState};

/// The pool's state of one thread's watcher.
#[derive(Debug, Default)]
pub(super) struct ThreadWatcher {
    /// Its task; none until its first run.
    waker: Option<Waker>,
    /// When it looks on its own.
    looks_at: Option<Instant>,
}

/// How a returned connection wakes the watcher.
pub(super) enum WatcherWake {
    Nobody,
    Watcher(Waker),
    Start,
}

/// Runs as a task of the thread for as long as the pool lives. After a panic the next returned connection starts another.
pub(super) async fn run<C: Codec>(pool: Weak<Pool<C>>, thread: usize) {
    let watching = pin!(watch(pool.clone(), thread));
    if let Err(panic) = catch_future(watching).await {
        panic.report("pool_watcher", None, None);
        if let Some(pool) = pool.upgrade() {
            pool.lock().watchers.remove(&thread);
        }
    }
}

async fn watch<C: Codec>(pool: Weak<Pool<C>>, thread: usize) {
    let mut timer: Option<Pin<Box<Sleep>>> = None;
    // Not bounded by the runtime's budget: a sweep that stopped in the middle would start over each time.
    tokio::task::unconstrained(poll_fn(|cx| {
        loop {
            let Some(pool) = pool.upgrade() else { return Poll::Ready(()) };
            let SweepResult { next, over, lacking } = pool.lock().sweep(thread, &pool.metering, cx);
            drop(over);
            lacking.iter().for_each(|endpoint| spawn_spare(&pool, endpoint));
            match (next, &mut timer) {
                (None, _) => timer = None,
                (Some(at), Some(timer)) => timer.as_mut().reset(at),
                (Some(at), None) => timer = Some(Box::pin(tokio::time::sleep_until(at))),
            }
            let Some(timer) = &mut timer else { return Poll::Pending };
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }))
    .await;
}

/// One sweep of the watcher; returns what it has closed.
#[cfg(test)]
pub(super) fn sweep_once<C: Codec>(
    pool: &Pool<C>,
    thread: usize,
    cx: &mut Context<'_>,
) -> Vec<IdleConnection<C>> {
    pool.lock().sweep(thread, &pool.metering, cx).over
}

/// The result of a sweep.
struct SweepResult<C> {
    /// When to look again.
    next: Option<Instant>,
    /// Expired connections, to be closed outside of the lock.
    over: Vec<IdleConnection<C>>,
    /// Endpoints that need a dial, each once.
    lacking: Vec<Endpoint>,
}

impl ThreadWatcher {
    pub(super) fn wake(&self) {
        if let Some(waker) = &self.waker {
            waker.wake_by_ref();
        }
    }
}

impl<C: Codec> PoolInner<C> {
    /// The waker for events of that thread's idle connections.
    pub(super) fn watcher(&self, thread: usize) -> Option<Waker> {
        self.watchers.get(&thread)?.waker.clone()
    }

    /// A connection was returned on that thread.
    pub(super) fn watch(&mut self, thread: usize, now: Instant) -> WatcherWake {
        let Some(slot) = self.watchers.get_mut(&thread) else { return self.wake_now(thread) };
        match &slot.waker {
            // It is about to run for the first time, or to be late: a woken task looks at everything.
            None => WatcherWake::Nobody,
            Some(_) if slot.looks_at.is_some_and(|at| at > now) => WatcherWake::Nobody,
            Some(waker) => WatcherWake::Watcher(waker.clone()),
        }
    }

    /// Wakes that thread's watcher in any case.
    pub(super) fn wake_now(&mut self, thread: usize) -> WatcherWake {
        match self.watchers.get(&thread) {
            None => {
                self.watchers.insert(thread, ThreadWatcher::default());
                WatcherWake::Start
            }
            Some(slot) => slot.waker.clone().map_or(WatcherWake::Nobody, WatcherWake::Watcher),
        }
    }

    /// Removes expired connections, registers `cx` with the others, and counts what is lacking.
    fn sweep(&mut self, thread: usize, metering: &PoolCounters, cx: &mut Context<'_>) -> SweepResult<C> {
        let now = Instant::now();
        let settings = self.settings;
        let mut swept = SweepResult { next: None, over: Vec::new(), lacking: Vec::new() };
        for (endpoint, entry) in &mut self.entries {
            let (keep_alive, prewarm) = (&mut entry.keep_alive, &mut entry.prewarm);
            let counts = metering.counts(entry.meter);
            let limit = settings.idle_timeout.min(keep_alive.keep_for().unwrap_or(Duration::MAX));
            let over = entry.idle.extract_if(.., |idle| {
                if idle.thread != thread {
                    return false;
                }
                let idled = now.saturating_duration_since(idle.since);
                if idled >= SHORT_LIFE {
                    prewarm.handle_success();
                }
                if let Poll::Ready(noise) = idle.client.poll_noise(cx) {
                    if noise == IdleState::Closed {
                        counts.closed_idle();
                        keep_alive.handle_close(idled, now.into_std());
                        if idle.client.requests() == 0 && idled < SHORT_LIFE {
                            prewarm.handle_failure(now);
                        }
                    }
                    return true;
                }
                if idled >= limit {
                    keep_alive.handle_open(idled, now.into_std());
                    return true;
                }
                swept.next = swept.next.into_iter().chain(idle.since.checked_add(limit)).min();
                false
            });
            let before = swept.over.len();
            swept.over.extend(over);
            for _ in before..swept.over.len() {
                entry.left(settings.max);
            }
            let (lacks, later) = entry.lacks(settings.kept(), settings.max, now);
            for _ in 0..lacks {
                entry.begin_spare();
                swept.lacking.push(endpoint.clone());
            }
            swept.next = swept.next.into_iter().chain(later).min();
        }
        self.entries.retain(|_, entry| !entry.is_stale(now));
        let slot = self.watchers.entry(thread).or_default();
        slot.waker = Some(cx.waker().clone());
        slot.looks_at = swept.next;
        swept
    }
}
