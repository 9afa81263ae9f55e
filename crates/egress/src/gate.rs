//! How many calls may be in work at once, and how many wait for that.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use keepwarm_net::{Queue, QueueGuard};
use tokio::sync::oneshot;

use crate::CallLimits;
use crate::endpoints::lock;

/// Lets calls through, in the order they came.
#[derive(Debug)]
pub(crate) struct Gate {
    state: Mutex<GateState>,
    /// Those who wait, here and for connections.
    queue: Arc<Queue>,
}

/// The limits, and the calls in flight and queued.
#[derive(Debug)]
struct GateState {
    limits: CallLimits,
    in_work: u32,
    /// The oldest first. A notified waiter has its slot.
    waiting: VecDeque<oneshot::Sender<()>>,
}

/// The right of a call to be in flight; dropping it frees the slot.
#[derive(Debug)]
pub(crate) struct Permit<'g>(&'g Gate);

/// Why the gate rejects a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GateError {
    /// As many wait as may.
    QueueFull,
    /// It has waited this long.
    Waited(Duration),
    /// The time for all of it is over before that.
    OutOfTime,
}

impl Gate {
    pub(crate) fn new(limits: CallLimits, queue: Arc<Queue>) -> Self {
        queue.set(limits.queue as usize, limits.queue_timeout);
        Self { state: Mutex::new(GateState { limits, in_work: 0, waiting: VecDeque::new() }), queue }
    }

    /// Other limits from now on. Calls above a lower one end in their own time.
    pub(crate) fn set_limits(&self, limits: CallLimits) {
        self.queue.set(limits.queue as usize, limits.queue_timeout);
        let mut state = lock(&self.state);
        state.limits = limits;
        while state.has_place() && state.admit_next() {}
    }

    /// Calls that are in work, and that wait.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let state = lock(&self.state);
        // Those who have given up are swept out when the next comes.
        (state.in_work as usize, state.waiting.iter().filter(|waiting| !waiting.is_closed()).count())
    }

    /// A place at once, or `None`: it has to be waited for.
    pub(crate) fn try_enter(&self) -> Option<Permit<'_>> {
        let mut state = lock(&self.state);
        // Those who wait were here first.
        if !state.has_place() || !state.waiting.is_empty() {
            return None;
        }
        state.in_work += 1;
        Some(Permit(self))
    }

    /// A place; waits for one if need be, for at most `most`.
    pub(crate) async fn enter(&self, most: Option<Duration>) -> Result<Permit<'_>, GateError> {
        let (mut waiter, limit) = {
            let mut state = lock(&self.state);
            state.waiting.retain(|waiting| !waiting.is_closed());
            if state.has_place() && state.waiting.is_empty() {
                state.in_work += 1;
                return Ok(Permit(self));
            }
            let queued = self.queue.join().ok_or(GateError::QueueFull)?;
            let (sender, permit) = oneshot::channel();
            state.waiting.push_back(sender);
            let limit = state.limits.queue_timeout;
            (Waiter { gate: self, permit, _queued: queued }, most.map_or(limit, |most| most.min(limit)))
        };
        match tokio::time::timeout(limit, &mut waiter.permit).await {
            Ok(_) => Ok(Permit(self)),
            Err(_) if most.is_some_and(|most| most <= limit) => Err(GateError::OutOfTime),
            Err(_) => Err(GateError::Waited(limit)),
        }
    }

    fn leave(&self) {
        let mut state = lock(&self.state);
        state.in_work -= 1;
        if state.has_place() {
            state.admit_next();
        }
    }
}

impl GateState {
    fn has_place(&self) -> bool {
        self.limits.in_flight.is_none_or(|most| self.in_work < most)
    }

    /// Gives the oldest waiter a slot. `false`: no call waits.
    fn admit_next(&mut self) -> bool {
        while let Some(first) = self.waiting.pop_front() {
            if first.send(()).is_ok() {
                self.in_work += 1;
                return true;
            }
        }
        false
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// A queued call. Dropping it after it received a slot returns the slot.
struct Waiter<'g> {
    gate: &'g Gate,
    permit: oneshot::Receiver<()>,
    _queued: QueueGuard,
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.permit.close();
        // Not one that was received already: `Permit` has that.
        if self.permit.try_recv().is_ok() {
            self.gate.leave();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(in_flight: u32, queue: u32) -> CallLimits {
        CallLimits { in_flight: Some(in_flight), queue, queue_timeout: Duration::from_secs(1) }
    }

    fn gate(in_flight: u32, queue: u32) -> Gate {
        Gate::new(limits(in_flight, queue), Arc::default())
    }

    #[tokio::test(start_paused = true)]
    async fn places_are_given_in_order_and_the_queue_has_an_end() {
        let gate = gate(1, 1);
        let first = gate.try_enter().unwrap();
        assert!(gate.try_enter().is_none());
        let second = gate.enter(None);
        tokio::pin!(second);
        assert!(
            std::future::poll_fn(|cx| std::task::Poll::Ready(second.as_mut().poll(cx).is_pending())).await
        );
        assert_eq!(gate.counts(), (1, 1));
        assert_eq!(gate.enter(None).await.unwrap_err(), GateError::QueueFull);
        drop(first);
        let second = second.await.unwrap();
        assert_eq!(gate.counts(), (1, 0));
        let waited = gate.enter(None).await.unwrap_err();
        assert_eq!(waited, GateError::Waited(Duration::from_secs(1)));
        drop(second);
        assert_eq!(gate.counts(), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_gives_up_as_its_place_comes_gives_it_back() {
        let gate = gate(1, 4);
        let first = gate.try_enter().unwrap();
        {
            let second = gate.enter(None);
            tokio::pin!(second);
            std::future::poll_fn(|cx| std::task::Poll::Ready(second.as_mut().poll(cx).is_pending())).await;
            drop(first);
            assert_eq!(gate.counts(), (1, 0));
        }
        assert_eq!(gate.counts(), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_higher_limit_lets_those_in_who_wait() {
        let gate = gate(1, 4);
        let _first = gate.try_enter().unwrap();
        let second = gate.enter(None);
        tokio::pin!(second);
        std::future::poll_fn(|cx| std::task::Poll::Ready(second.as_mut().poll(cx).is_pending())).await;
        gate.set_limits(limits(2, 4));
        let _second = second.await.unwrap();
        assert_eq!(gate.counts(), (2, 0));
    }

    /// Calls come, go, give up and are dropped in any order, while limits change: no place is lost, none is given twice, and nobody waits beside a free one.
    #[tokio::test(start_paused = true)]
    async fn in_any_order_no_place_is_lost_and_nobody_waits_beside_a_free_one() {
        use std::pin::Pin;
        type PermitFuture<'g> = Pin<Box<dyn Future<Output = Result<Permit<'g>, GateError>> + 'g>>;
        for seed in 0..300_u64 {
            let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
            let mut draw = |below: usize| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                usize::try_from(state % below as u64).unwrap()
            };
            let gate = gate(2, 4);
            let mut limit = 2;
            let mut waiters: Vec<PermitFuture<'_>> = Vec::new();
            let mut inside: Vec<Permit<'_>> = Vec::new();
            for _ in 0..200 {
                match draw(7) {
                    0..3 => waiters.push(Box::pin(gate.enter(None))),
                    3 if !waiters.is_empty() => drop(waiters.swap_remove(draw(waiters.len()))),
                    4 if !inside.is_empty() => drop(inside.swap_remove(draw(inside.len()))),
                    5 => {
                        limit = 1 + u32::try_from(draw(4)).unwrap();
                        gate.set_limits(limits(limit, 4));
                    }
                    6 => inside.extend(gate.try_enter()),
                    _ => tokio::time::advance(Duration::from_millis(300)).await,
                }
                // Not all look at once: some have their place, and have not heard of it.
                let (mut at, skipped) = (0, draw(4));
                while at < waiters.len() {
                    let polled = std::future::poll_fn(|cx| {
                        let waiter = waiters[at].as_mut();
                        std::task::Poll::Ready(if at == skipped { None } else { Some(waiter.poll(cx)) })
                    });
                    match polled.await {
                        Some(std::task::Poll::Ready(entered)) => {
                            inside.extend(entered.ok());
                            drop(waiters.remove(at));
                        }
                        _ => at += 1,
                    }
                }
                let (in_work, waiting) = gate.counts();
                assert!(in_work >= inside.len() && in_work <= inside.len() + waiters.len(), "seed {seed}");
                assert!(
                    waiting == 0 || in_work >= limit as usize,
                    "seed {seed}: {waiting} wait beside a free place"
                );
            }
            drop((waiters, inside));
            assert_eq!(gate.counts(), (0, 0), "seed {seed}");
        }
    }
}
