//! Calls that wait because a limit is reached: how many, and how long.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Sleep, sleep};

use crate::connect::AcquireError;

/// The queue of an upstream: for its calls in flight, and for its connections. One count covers both: the reason of a wait does not matter.
#[derive(Debug)]
pub struct Queue {
    most: AtomicUsize,
    /// In microseconds.
    patience: AtomicU64,
    waiting: AtomicUsize,
}

/// A waiter, until it is dropped.
#[derive(Debug)]
pub struct QueueGuard(Arc<Queue>);

/// A caller that waits for a connection, once a limit is the reason.
#[derive(Debug, Default)]
pub(crate) struct QueueWait(Option<LimitWait>);

#[derive(Debug)]
struct LimitWait {
    _queued: QueueGuard,
    patience: Duration,
    /// `None`: without a limit.
    time: Option<Pin<Box<Sleep>>>,
}

impl Default for Queue {
    /// Without limits.
    fn default() -> Self {
        Self {
            most: AtomicUsize::new(usize::MAX),
            patience: AtomicU64::new(u64::MAX),
            waiting: AtomicUsize::new(0),
        }
    }
}

impl Queue {
    /// Changes the limits. Callers already waiting keep the old ones.
    pub fn set(&self, most: usize, patience: Duration) {
        self.most.store(most, Relaxed);
        self.patience.store(u64::try_from(patience.as_micros()).unwrap_or(u64::MAX), Relaxed);
    }

    /// Adds a waiter; `None`: the queue is full.
    #[must_use]
    pub fn join(self: &Arc<Self>) -> Option<QueueGuard> {
        let one_more = |waiting| (waiting < self.most.load(Relaxed)).then_some(waiting + 1);
        self.waiting.fetch_update(Relaxed, Relaxed, one_more).ok()?;
        Some(QueueGuard(Arc::clone(self)))
    }

    /// How long each may wait.
    #[must_use]
    pub fn patience(&self) -> Duration {
        match self.patience.load(Relaxed) {
            u64::MAX => Duration::MAX,
            micros => Duration::from_micros(micros),
        }
    }
}

impl Drop for QueueGuard {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Relaxed);
    }
}

impl QueueWait {
    /// Waits because of a limit, from the first poll on. Ready: the wait is over, because the queue is full or the time is up.
    pub(crate) fn poll(&mut self, queue: &Arc<Queue>, cx: &mut Context<'_>) -> Poll<AcquireError> {
        let waiting = match &mut self.0 {
            Some(waiting) => waiting,
            none => {
                let Some(queued) = queue.join() else { return Poll::Ready(AcquireError::QueueFull) };
                let patience = queue.patience();
                let time = (patience < Duration::MAX).then(|| Box::pin(sleep(patience)));
                none.insert(LimitWait { _queued: queued, patience, time })
            }
        };
        let Some(time) = &mut waiting.time else { return Poll::Pending };
        ready!(time.as_mut().poll(cx));
        Poll::Ready(AcquireError::NoneFree(waiting.patience))
    }

    /// It waits for something else, or has stopped waiting.
    pub(crate) fn stop(&mut self) {
        self.0 = None;
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn so_many_wait_and_each_for_so_long() {
        let queue = Arc::new(Queue::default());
        queue.set(1, Duration::from_secs(2));
        let (mut first, mut second) = (QueueWait::default(), QueueWait::default());
        assert!(poll_fn(|cx| Poll::Ready(first.poll(&queue, cx).is_pending())).await);
        let refused = poll_fn(|cx| second.poll(&queue, cx)).await;
        assert!(matches!(refused, AcquireError::QueueFull), "{refused}");
        first.stop();
        let waited = poll_fn(|cx| second.poll(&queue, cx)).await;
        assert!(matches!(waited, AcquireError::NoneFree(time) if time.as_secs() == 2), "{waited}");
        drop(second);
        assert_eq!(queue.waiting.load(Relaxed), 0);
    }
}
