//! The breaker of an upstream as a whole, and the calls that wait for it.
//!
//! A call that is not admitted waits, within its limits (`limits.queue_timeout`, the time of the whole call) and while there is room in the queue: for a probe in
//! flight, or for the next one if that comes early enough. So a restart is a delay. If the next one is too late, the call is refused at once, since waiting would be in vain.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use keepwarm_net::Queue;
use keepwarm_policy::breaker::{Outcome, Permit, Rejection};
use keepwarm_policy::{Breaker, BreakerSettings, BreakerState};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::endpoints::{lock, set_breaker};

/// The breaker of an upstream.
#[derive(Debug)]
pub(crate) struct UpstreamBreaker {
    upstream: Arc<str>,
    /// `None`: off.
    breaker: Mutex<Option<Breaker>>,
    /// Another call may be let through, or fewer.
    changed: Notify,
}

/// An admitted call. Dropped without a result, it does not count, and leaves its slot to another.
#[derive(Debug)]
pub(crate) struct Admission<'b> {
    of: &'b UpstreamBreaker,
    /// None without a breaker.
    permit: Option<Permit>,
}

impl UpstreamBreaker {
    pub(crate) fn new(upstream: Arc<str>, settings: Option<BreakerSettings>) -> Self {
        let it = Self { upstream, breaker: Mutex::default(), changed: Notify::new() };
        it.set_settings(settings);
        it
    }

    pub(crate) fn set_settings(&self, settings: Option<BreakerSettings>) {
        // Rates are for comparing endpoints. Where there is no other, a few responses are better than none.
        let settings = settings.map(|settings| BreakerSettings { success_rate: 0, ..settings });
        set_breaker(&mut lock(&self.breaker), settings);
        self.changed.notify_waiters();
    }

    /// What it does with calls; closed without one.
    pub(crate) fn state(&self) -> BreakerState {
        let now = Instant::now().into_std();
        lock(&self.breaker).as_ref().map_or(BreakerState::Closed, |breaker| breaker.state(now))
    }

    /// Whether it lets a call through now.
    pub(crate) fn try_admit(&self, now: Instant) -> Result<Admission<'_>, Rejection> {
        let mut slot = lock(&self.breaker);
        let Some(breaker) = slot.as_mut() else { return Ok(Admission { of: self, permit: None }) };
        let (permit, change) = breaker.try_acquire(now.into_std())?;
        drop(slot);
        if let Some(change) = &change {
            crate::events::breaker(&self.upstream, change);
        }
        Ok(Admission { of: self, permit: Some(permit) })
    }

    /// Waits until it lets a call through, for at most `most`.
    pub(crate) async fn admit(&self, queue: &Arc<Queue>, most: Duration) -> Result<Admission<'_>, Rejection> {
        let began = Instant::now();
        let mut queued = None;
        loop {
            // Before the check: a change in between is not missed.
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            let now = Instant::now();
            let refused = match self.try_admit(now) {
                Ok(admission) => return Ok(admission),
                Err(refused) => refused,
            };
            let left = most.saturating_sub(now.saturating_duration_since(began));
            let is_late = !refused.is_probing && refused.retry_after > left;
            if left.is_zero() || is_late {
                return Err(refused);
            }
            if queued.is_none() {
                queued = Some(queue.join().ok_or(refused)?);
            }
            let _ = tokio::time::timeout(left.min(refused.retry_after), changed).await;
        }
    }

    fn handle_result(&self, permit: Permit, outcome: Outcome, now: Instant) {
        let mut slot = lock(&self.breaker);
        let Some(breaker) = slot.as_mut() else { return };
        let change = breaker.handle_result(permit, outcome, now.into_std(), crate::random());
        let is_awaited = change.is_some() || !breaker.is_closed();
        drop(slot);
        if let Some(change) = &change {
            crate::events::breaker(&self.upstream, change);
        }
        if is_awaited {
            self.changed.notify_waiters();
        }
    }
}

impl Admission<'_> {
    /// How the call has ended.
    pub(crate) fn finish(mut self, outcome: Outcome, now: Instant) {
        if let Some(permit) = self.permit.take() {
            self.of.handle_result(permit, outcome, now);
        }
    }
}

impl Drop for Admission<'_> {
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take() {
            self.of.handle_result(permit, Outcome::Unknown, Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::Poll;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn breaker() -> UpstreamBreaker {
        UpstreamBreaker::new("search".into(), Some(BreakerSettings::default()))
    }

    fn finish(breaker: &UpstreamBreaker, outcome: Outcome) {
        breaker.try_admit(Instant::now()).unwrap().finish(outcome, Instant::now());
    }

    /// Opens it as often.
    async fn open(breaker: &UpstreamBreaker, times: u32) {
        (0..5).for_each(|_| finish(breaker, Outcome::Failure));
        for _ in 1..times {
            let admission = breaker.admit(&Arc::default(), Duration::MAX).await.unwrap();
            admission.finish(Outcome::Failure, Instant::now());
        }
        assert_eq!(breaker.state(), BreakerState::Open);
    }

    async fn is_pending<T>(future: impl Future<Output = T> + Unpin) -> bool {
        let mut future = future;
        std::future::poll_fn(|cx| Poll::Ready(pin!(&mut future).poll(cx).is_pending())).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_waits_for_an_opening_that_ends_early_enough_and_for_the_probe() {
        let (breaker, queue) = (breaker(), Arc::default());
        open(&breaker, 1).await;
        let began = Instant::now();
        let probe = breaker.admit(&queue, SECOND).await.unwrap();
        assert!(began.elapsed() >= Duration::from_millis(100), "not before it ends");
        let mut waiter = pin!(breaker.admit(&queue, SECOND));
        assert!(is_pending(waiter.as_mut()).await, "one probe at first");
        probe.finish(Outcome::Success, Instant::now());
        let passed = Instant::now();
        waiter.await.unwrap().finish(Outcome::Success, Instant::now());
        assert_eq!(passed.elapsed(), Duration::ZERO, "the result of the probe wakes it");
        finish(&breaker, Outcome::Success);
        assert_eq!(breaker.state(), BreakerState::Closed);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_is_refused_at_once_when_the_next_probe_comes_too_late() {
        let (breaker, queue) = (breaker(), Arc::default());
        open(&breaker, 6).await;
        let began = Instant::now();
        let refused = breaker.admit(&queue, SECOND).await.unwrap_err();
        assert!(refused.retry_after > SECOND && began.elapsed().is_zero());
    }

    #[tokio::test(start_paused = true)]
    async fn a_probe_that_says_nothing_is_waited_for_no_longer_than_a_call_may() {
        let (breaker, queue) = (breaker(), Arc::default());
        open(&breaker, 5).await;
        let _silent = breaker.admit(&queue, Duration::MAX).await.unwrap();
        let began = Instant::now();
        assert!(breaker.admit(&queue, SECOND).await.unwrap_err().is_probing);
        assert_eq!(began.elapsed(), SECOND);
    }

    /// A task that is dropped in the middle of its probe, as one of HTTP/2 is when its client resets the stream.
    #[tokio::test(start_paused = true)]
    async fn a_probe_that_is_dropped_leaves_its_place_to_one_who_waits() {
        let (breaker, queue) = (breaker(), Arc::default());
        open(&breaker, 1).await;
        let probe = breaker.admit(&queue, SECOND).await.unwrap();
        let mut waiter = pin!(breaker.admit(&queue, SECOND));
        assert!(is_pending(waiter.as_mut()).await);
        let dropped = Instant::now();
        drop(probe);
        waiter.await.unwrap().finish(Outcome::Success, Instant::now());
        assert_eq!(dropped.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_wait_are_bounded_by_the_queue_and_leave_it() {
        let (breaker, queue) = (breaker(), Arc::<Queue>::default());
        queue.set(1, SECOND);
        open(&breaker, 1).await;
        {
            let mut waiter = pin!(breaker.admit(&queue, SECOND));
            assert!(is_pending(waiter.as_mut()).await);
            assert!(breaker.admit(&queue, SECOND).await.is_err(), "no room in the queue");
        }
        breaker.admit(&queue, SECOND).await.unwrap().finish(Outcome::Success, Instant::now());
        assert!(queue.join().is_some(), "nobody is left in it");
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_passes_when_the_breaker_is_switched_off() {
        let (breaker, queue) = (breaker(), Arc::default());
        open(&breaker, 1).await;
        let mut waiter = pin!(breaker.admit(&queue, SECOND));
        assert!(is_pending(waiter.as_mut()).await);
        breaker.set_settings(None);
        let off = Instant::now();
        assert!(waiter.await.unwrap().permit.is_none());
        assert_eq!(off.elapsed(), Duration::ZERO);
    }
}
