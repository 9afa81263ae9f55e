//! Watches the idle connections of one thread: closes those that were closed, or that have been idle for too long.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Weak;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use super::{Inner, Pool};
use crate::client::{Codec, Idleness};

/// The watcher of one thread, as the pool knows it.
#[derive(Debug, Default)]
pub(super) struct Slot {
    /// Its task; none until it has run once.
    waker: Option<Waker>,
    /// When it looks by itself.
    looks_at: Option<Instant>,
}

/// What a connection that was put back asks for.
pub(super) enum Wake {
    Nobody,
    Watcher(Waker),
    Start,
}

/// Runs as a task of the thread for as long as the pool lives.
pub(super) async fn run<C: Codec>(pool: Weak<Pool<C>>, thread: usize) {
    let mut timer: Option<Pin<Box<Sleep>>> = None;
    // Not bounded by the runtime's budget: a sweep that stopped in the middle would begin anew each time.
    tokio::task::unconstrained(poll_fn(|cx| {
        loop {
            let Some(pool) = pool.upgrade() else { return Poll::Ready(()) };
            let next = pool.lock().sweep(thread, cx);
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

impl Slot {
    pub(super) fn wake(&self) {
        if let Some(waker) = &self.waker {
            waker.wake_by_ref();
        }
    }
}

impl<C: Codec> Inner<C> {
    /// Who is to be woken when an idle connection of that thread says something.
    pub(super) fn watcher(&self, thread: usize) -> Option<Waker> {
        self.watchers.get(&thread)?.waker.clone()
    }

    /// A connection has come back on that thread.
    pub(super) fn watch(&mut self, thread: usize, now: Instant) -> Wake {
        let Some(slot) = self.watchers.get_mut(&thread) else {
            self.watchers.insert(thread, Slot::default());
            return Wake::Start;
        };
        match &slot.waker {
            // It is about to run for the first time, or to be late: a woken task looks at everything.
            None => Wake::Nobody,
            Some(_) if slot.looks_at.is_some_and(|at| at > now) => Wake::Nobody,
            Some(waker) => Wake::Watcher(waker.clone()),
        }
    }

    /// Closes what is over, has `cx` woken by what is not, and says when to look again.
    fn sweep(&mut self, thread: usize, cx: &mut Context<'_>) -> Option<Instant> {
        let now = Instant::now();
        let limit = self.settings.idle_timeout.min(self.keep_alive.keeps().unwrap_or(Duration::MAX));
        let mut next: Option<Instant> = None;
        for shelf in self.shelves.values_mut() {
            let before = shelf.idle.len();
            let keep_alive = &mut self.keep_alive;
            shelf.idle.retain_mut(|idle| {
                if idle.thread != thread {
                    return true;
                }
                let idled = now.saturating_duration_since(idle.since);
                if let Poll::Ready(noise) = idle.client.poll_noise(cx) {
                    if noise == Idleness::Closed {
                        keep_alive.handle_close(idled, now.into_std());
                    }
                    return false;
                }
                if idled >= limit {
                    keep_alive.handle_kept(idled, now.into_std());
                    return false;
                }
                next = next.into_iter().chain(idle.since.checked_add(limit)).min();
                true
            });
            for _ in shelf.idle.len()..before {
                shelf.left();
            }
        }
        self.shelves.retain(|_, shelf| shelf.open > 0 || !shelf.forgotten);
        let slot = self.watchers.entry(thread).or_default();
        slot.waker = Some(cx.waker().clone());
        slot.looks_at = next;
        next
    }
}
