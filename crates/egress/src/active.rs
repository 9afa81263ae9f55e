//! The calls in flight of an upstream, for those who look: routed requests and calls through doors alike.
//!
//! Each thread keeps those of its own, so that its lock is free but for the moments in which somebody looks. A slot and its buffer are used again.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Method;
use keepwarm_net::thread_index;
use keepwarm_serve::Request;
use keepwarm_telemetry::RequestId;
use keepwarm_telemetry::per_thread::PerThread;
use keepwarm_telemetry::timelines::{LONGEST_PATH, kept_path};
use tokio::time::Instant;

use crate::endpoints::lock;

/// A call in flight at one moment.
#[derive(Debug, Clone)]
pub struct ActiveCall {
    /// Its id: of the request that is routed here, or of the call itself.
    pub id: RequestId,
    /// Its method.
    pub method: Method,
    /// The path that was requested, without the query.
    pub path: Box<str>,
    /// The pattern of the route; none for a call through a door.
    pub route: Option<Arc<str>>,
    /// How long ago its head was received.
    pub age: Duration,
    /// What it waits for.
    pub phase: CallPhase,
    /// The endpoint of its attempt.
    pub endpoint: Option<Arc<str>>,
}

/// What a call waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallPhase {
    /// The body of its request, a place among the calls in flight, or an endpoint.
    Queue,
    /// A connection.
    Connect,
    /// The beginning of the response.
    Upstream,
    /// The rest of the response.
    Responds,
}

impl CallPhase {
    /// As the status has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Connect => "connect",
            Self::Upstream => "upstream",
            Self::Responds => "responds",
        }
    }
}

/// Those of an upstream.
#[derive(Debug, Default)]
pub(crate) struct ActiveCalls(PerThread<Mutex<Slots>>);

#[derive(Debug, Default)]
struct Slots {
    all: Vec<Slot>,
    /// Those of `all` without a call.
    free: Vec<usize>,
}

#[derive(Debug)]
struct Slot {
    /// None: without a call.
    received: Option<Instant>,
    number: u64,
    method: Method,
    /// The target as far as it is shown.
    target: Vec<u8>,
    route: Option<Arc<str>>,
    phase: CallPhase,
    endpoint: Option<Arc<str>>,
}

/// The entry of a call, which ends with it.
#[derive(Debug)]
pub(crate) struct ActiveEntry<'u> {
    slots: &'u Mutex<Slots>,
    at: usize,
}

impl ActiveCalls {
    /// A call has begun.
    pub(crate) fn enter(&self, request: &Request) -> ActiveEntry<'_> {
        self.add(request.received(), |slot| slot.fill(request))
    }

    fn add(&self, received: Instant, fill: impl FnOnce(&mut Slot)) -> ActiveEntry<'_> {
        let slots = self.0.of(thread_index());
        let mut locked = lock(slots);
        let at = match locked.free.pop() {
            Some(at) => at,
            None => locked.add(),
        };
        if let Some(slot) = locked.all.get_mut(at) {
            slot.received = Some(received);
            slot.phase = CallPhase::Queue;
            fill(slot);
        }
        drop(locked);
        ActiveEntry { slots, at }
    }

    /// The oldest ones, up to a limit.
    pub(crate) fn oldest(&self, limit: usize) -> Vec<ActiveCall> {
        let now = Instant::now();
        let mut calls: Vec<ActiveCall> = Vec::new();
        for slots in self.0.iter() {
            let slots = lock(slots);
            let mut of_thread: Vec<(Instant, &Slot)> =
                slots.all.iter().filter_map(|slot| Some((slot.received?, slot))).collect();
            if of_thread.len() > limit {
                of_thread.select_nth_unstable_by_key(limit, |(received, _)| *received);
                of_thread.truncate(limit);
            }
            calls.extend(of_thread.into_iter().map(|(received, slot)| slot.look(received, now)));
        }
        calls.sort_by_key(|call| std::cmp::Reverse(call.age));
        calls.truncate(limit);
        calls
    }
}

impl Slots {
    fn add(&mut self) -> usize {
        self.all.push(Slot {
            received: None,
            number: 0,
            method: Method::GET,
            target: Vec::new(),
            route: None,
            phase: CallPhase::Queue,
            endpoint: None,
        });
        self.all.len() - 1
    }
}

impl Slot {
    fn fill(&mut self, request: &Request) {
        let (method, target) = request.asked();
        // One byte more than is shown tells that it was cut.
        let shown = target.get(..=LONGEST_PATH).unwrap_or(target);
        self.target.clear();
        self.target.extend_from_slice(shown);
        self.method = method.clone();
        self.number = request.number();
        self.route.clone_from(&request.notes.route);
    }

    fn look(&self, received: Instant, now: Instant) -> ActiveCall {
        ActiveCall {
            id: RequestId::new(self.number),
            method: self.method.clone(),
            path: kept_path(&self.target),
            route: self.route.clone(),
            age: now.saturating_duration_since(received),
            phase: self.phase,
            endpoint: self.endpoint.clone(),
        }
    }
}

impl ActiveEntry<'_> {
    /// It waits for something else.
    pub(crate) fn set(&self, phase: CallPhase) {
        if let Some(slot) = lock(self.slots).all.get_mut(self.at) {
            slot.phase = phase;
        }
    }

    /// An attempt at this endpoint waits for something.
    pub(crate) fn set_at(&self, phase: CallPhase, endpoint: &Arc<str>) {
        if let Some(slot) = lock(self.slots).all.get_mut(self.at) {
            slot.phase = phase;
            slot.endpoint = Some(Arc::clone(endpoint));
        }
    }
}

impl Drop for ActiveEntry<'_> {
    fn drop(&mut self) {
        let mut slots = lock(self.slots);
        if let Some(slot) = slots.all.get_mut(self.at) {
            (slot.received, slot.route, slot.endpoint) = (None, None, None);
        }
        slots.free.push(self.at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(calls: &ActiveCalls, limit: usize) -> Vec<(String, CallPhase, Option<Arc<str>>)> {
        let calls = calls.oldest(limit).into_iter();
        calls.map(|call| (call.path.into(), call.phase, call.endpoint)).collect()
    }

    #[test]
    fn the_oldest_are_shown_and_a_slot_is_used_again() {
        let calls = ActiveCalls::default();
        let now = Instant::now();
        let add = |seconds: u64, target: &'static [u8]| {
            let received =
                now.checked_sub(Duration::from_secs(seconds)).expect("the machine runs for longer");
            calls.add(received, |slot| slot.target.extend_from_slice(target))
        };
        let (newest, oldest, middle) = (add(1, b"/newest"), add(3, b"/oldest?token"), add(2, b"/middle"));
        middle.set_at(CallPhase::Upstream, &"10.0.0.1:80".into());
        let queue = |path: &str| (path.to_owned(), CallPhase::Queue, None);
        let upstream = ("/middle".to_owned(), CallPhase::Upstream, Some("10.0.0.1:80".into()));
        assert_eq!(shown(&calls, 2), [queue("/oldest"), upstream.clone()]);
        drop(oldest);
        assert_eq!(shown(&calls, 20), [upstream.clone(), queue("/newest")]);
        middle.set(CallPhase::Responds);
        drop(newest);
        assert_eq!(shown(&calls, 20), [(upstream.0, CallPhase::Responds, upstream.2)]);
        drop(middle);
        let again = calls.add(now, |slot| slot.target.clear());
        assert_eq!(shown(&calls, 20), [queue("")], "nothing is left of the call before it");
        drop(again);
        assert_eq!((shown(&calls, 20), lock(calls.0.of(thread_index())).all.len()), (vec![], 3));
    }
}
