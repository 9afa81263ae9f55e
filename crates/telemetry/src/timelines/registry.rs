//! Calls to upstreams, held until the request that made them ends.
//!
//! A call is over before its request, so what it was is kept under the name of its caller: the id or the trace that it carries, or the process at the other end of
//! its connection. The end of a request takes what is held under its names. Without calls that name anybody, that is one comparison.
//!
//! Bounded: calls that nobody takes (an id of a request that has ended, or of none) give way to newer ones. There are two generations; when the newer one is full,
//! the older one is dropped.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

use super::calls::{Attribution, CallTimeline, RequestCalls};
use super::{lock, processes};
use crate::RequestId;

/// Calls of a generation that are held one by one. Bounds memory: two generations take 2 MB at most, each call under a name of its own.
const GENERATION: usize = 2048;
/// Calls that nobody has taken for so long are dropped: their request has ended, or never was.
const OLD: Duration = Duration::from_secs(3600);

/// The caller that a call names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Caller {
    /// The request of this id (`X-Request-Id`).
    Request(RequestId),
    /// A span (`traceparent`): that of a request in its app, or one that the app has made beneath it.
    Span {
        /// Its trace.
        trace: [u8; 32],
        /// Its own id.
        span: u64,
    },
    /// The process at the other end of its connection.
    Process(u32),
}

/// What a request is called by those of its calls that name it.
#[derive(Debug, Clone, Copy)]
pub struct RequestNames {
    /// Its id.
    pub id: RequestId,
    /// Its trace, where requests are traced.
    pub trace: Option<OwnTrace>,
    /// The process of its worker, if that had no other request.
    pub process: Option<ProcessTime>,
}

/// When a process had a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessTime {
    /// Its id.
    pub pid: u32,
    /// From then.
    pub begin: Instant,
    /// Until then.
    pub end: Instant,
}

/// When a request asks for its calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// It ends: what its process has called before is of no request any more.
    AtItsEnd,
    /// Later: some may have ended after it.
    Late,
}

/// The trace of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnTrace {
    /// Its id.
    pub trace: [u8; 32],
    /// It began with this request. One that came with it may have other requests, whose spans cannot be told from those of this one.
    pub began_here: bool,
    /// The span of its time in the app.
    pub app_span: u64,
}

/// The calls under one name.
#[derive(Debug)]
struct HeldCalls {
    calls: RequestCalls,
    /// When the last of them was added.
    at: Instant,
}

/// The calls whose requests have not ended.
#[derive(Debug, Default)]
struct CallRegistry {
    newer: Generation,
    older: Generation,
}

/// A part of them that is dropped as a whole.
#[derive(Debug, Default)]
struct Generation {
    held: HashMap<Caller, HeldCalls>,
    /// By trace: the spans that have made calls.
    spans: HashMap<[u8; 32], Vec<u64>>,
    /// Calls that are held one by one.
    count: usize,
}

impl CallRegistry {
    fn add(&mut self, caller: Caller, call: CallTimeline) {
        if self.newer.count >= GENERATION {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.add(caller, call);
    }

    fn take(&mut self, names: &RequestNames, taken: Taken) -> RequestCalls {
        let mut all = RequestCalls::default();
        for generation in [&mut self.older, &mut self.newer] {
            for caller in generation.callers(names) {
                all.merge(generation.take(caller).unwrap_or_default());
            }
            if let Some(process) = &names.process {
                all.merge(generation.take_of_process(process, taken));
            }
        }
        all
    }

    fn len(&self) -> usize {
        self.newer.held.len() + self.older.held.len()
    }
}

impl Generation {
    fn add(&mut self, caller: Caller, call: CallTimeline) {
        let attribution = match caller {
            Caller::Request(_) => Attribution::RequestId,
            Caller::Span { .. } => Attribution::Trace,
            Caller::Process(_) => Attribution::Time,
        };
        let at = call.start.checked_add(call.elapsed).unwrap_or(call.start);
        let held = self.held.entry(caller).or_insert_with(|| {
            if let Caller::Span { trace, span } = caller {
                self.spans.entry(trace).or_default().push(span);
            }
            HeldCalls { calls: RequestCalls::default(), at }
        });
        held.at = at;
        let before = held.calls.shown.len();
        held.calls.add(attribution, call);
        self.count += held.calls.shown.len() - before;
    }

    /// The names under which there may be calls.
    fn callers(&self, names: &RequestNames) -> Vec<Caller> {
        let mut all = vec![Caller::Request(names.id)];
        if let Some(OwnTrace { trace, began_here, app_span }) = names.trace {
            let spans = self.spans.get(&trace).filter(|_| began_here);
            let spans = spans.map_or(std::slice::from_ref(&app_span), Vec::as_slice);
            all.extend(spans.iter().map(|&span| Caller::Span { trace, span }));
        }
        all
    }

    /// Those that began while the process had the request. What began later is of its next one.
    fn take_of_process(&mut self, process: &ProcessTime, taken: Taken) -> RequestCalls {
        let caller = Caller::Process(process.pid);
        let Some(calls) = self.take(caller) else { return RequestCalls::default() };
        let is_before = |call: &CallTimeline| call.start < process.begin;
        let is_after = |call: &CallTimeline| call.start > process.end;
        if !calls.shown.iter().any(|(_, call)| is_before(call) || is_after(call)) {
            return calls;
        }
        // Of more calls than are shown, only those that are shown are known one by one.
        let mut its = RequestCalls::default();
        for (attribution, call) in calls.shown {
            match taken {
                Taken::AtItsEnd if is_before(&call) => {}
                _ if is_before(&call) || is_after(&call) => self.add(caller, call),
                _ => its.add(attribution, call),
            }
        }
        its
    }

    fn take(&mut self, caller: Caller) -> Option<RequestCalls> {
        let calls = self.held.remove(&caller)?.calls;
        self.count -= calls.shown.len();
        self.forget_span(caller);
        Some(calls)
    }

    fn forget_span(&mut self, caller: Caller) {
        let Caller::Span { trace, span } = caller else { return };
        let Some(spans) = self.spans.get_mut(&trace) else { return };
        spans.retain(|one| *one != span);
        if spans.is_empty() {
            self.spans.remove(&trace);
        }
    }

    fn forget_old(&mut self, now: Instant) {
        let is_old = |held: &HeldCalls| now.saturating_duration_since(held.at) >= OLD;
        let old: Vec<Caller> =
            self.held.iter().filter(|(_, held)| is_old(held)).map(|(caller, _)| *caller).collect();
        for caller in old {
            drop(self.take(caller));
        }
    }
}

static REGISTRY: LazyLock<Mutex<CallRegistry>> = LazyLock::new(Mutex::default);
/// Names in the registry: what a request looks at before it takes the lock.
static HELD: AtomicUsize = AtomicUsize::new(0);

/// Holds a call until its caller takes it. One of a process that is not a worker's has no caller.
pub fn note_call(caller: Caller, call: CallTimeline) {
    let left = match caller {
        Caller::Process(pid) => processes::left_to_request(pid, call),
        Caller::Request(_) | Caller::Span { .. } => Some(call),
    };
    let Some(call) = left else { return };
    let mut registry = lock(&REGISTRY);
    registry.add(caller, call);
    HELD.store(registry.len(), Ordering::Relaxed);
}

/// Whether any calls are held.
#[inline]
#[must_use]
pub fn are_calls_held() -> bool {
    HELD.load(Ordering::Relaxed) != 0
}

/// Takes the calls of a request.
#[must_use]
pub fn take_calls(names: &RequestNames, taken: Taken) -> RequestCalls {
    let mut registry = lock(&REGISTRY);
    let calls = registry.take(names, taken);
    HELD.store(registry.len(), Ordering::Relaxed);
    calls
}

/// Drops calls that nobody has taken for an hour.
pub fn forget_old_calls() {
    if !are_calls_held() {
        return;
    }
    let now = Instant::now();
    let mut registry = lock(&REGISTRY);
    registry.older.forget_old(now);
    registry.newer.forget_old(now);
    HELD.store(registry.len(), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::super::calls::CALLS_SHOWN;
    use super::*;

    fn call(milliseconds: u64, start: Instant) -> CallTimeline {
        CallTimeline::of_test(milliseconds, start)
    }

    fn id(number: u64) -> Caller {
        Caller::Request(RequestId::new(number))
    }

    fn names(number: u64) -> RequestNames {
        RequestNames { id: RequestId::new(number), trace: None, process: None }
    }

    #[test]
    fn a_request_takes_the_calls_that_name_it_once() {
        let (mut registry, now) = (CallRegistry::default(), Instant::now());
        registry.add(id(1), call(5, now));
        registry.add(id(2), call(7, now));
        registry.add(id(1), call(11, now));
        let taken = registry.take(&names(1), Taken::AtItsEnd);
        assert_eq!((taken.count, taken.total), (2, Duration::from_millis(16)));
        assert!(taken.shown.iter().all(|(attribution, _)| attribution.name() == "request_id"));
        assert_eq!((registry.take(&names(1), Taken::AtItsEnd).count, registry.len()), (0, 1));
    }

    #[test]
    fn calls_of_a_trace_are_those_of_a_request_if_nobody_else_is_in_it() {
        let (trace, now) = ([b'a'; 32], Instant::now());
        for (began_here, expected) in [(true, 3), (false, 1)] {
            let mut registry = CallRegistry::default();
            for span in [7, 8, 9] {
                registry.add(Caller::Span { trace, span }, call(1, now));
            }
            registry.add(Caller::Span { trace: [b'b'; 32], span: 7 }, call(1, now));
            let own = Some(OwnTrace { trace, began_here, app_span: 8 });
            let taken = registry.take(&RequestNames { trace: own, ..names(1) }, Taken::AtItsEnd);
            assert_eq!(taken.count, expected, "began here: {began_here}");
            assert!(taken.shown.iter().all(|(attribution, _)| attribution.name() == "trace"));
            assert_eq!(registry.newer.spans.values().map(Vec::len).sum::<usize>(), registry.len());
        }
    }

    #[test]
    fn calls_of_a_process_are_those_that_began_while_it_had_the_request() {
        let (mut registry, begin) = (CallRegistry::default(), Instant::now());
        let at = |ms| begin + Duration::from_millis(ms);
        for start in [5, 10, 15, 20, 25] {
            registry.add(Caller::Process(7), call(1, at(start)));
        }
        let process = |from, to| Some(ProcessTime { pid: 7, begin: at(from), end: at(to) });
        let names = RequestNames { process: process(10, 20), ..names(1) };
        let taken = registry.take(&names, Taken::AtItsEnd);
        assert_eq!((taken.count, taken.total), (3, Duration::from_millis(3)));
        let next = RequestNames { process: process(21, 30), ..names };
        assert_eq!(registry.take(&next, Taken::AtItsEnd).count, 1, "that of the next one is left");
        assert_eq!(registry.len(), 0, "and what came before is of no request");
        registry.add(Caller::Process(8), call(1, at(15)));
        assert_eq!(registry.take(&names, Taken::AtItsEnd).count, 0);
    }

    /// Found by a test that looked at the list while another request was at work: the look threw its calls away.
    #[test]
    fn a_late_look_leaves_the_calls_of_others() {
        let (mut registry, begin) = (CallRegistry::default(), Instant::now());
        let at = |ms| begin + Duration::from_millis(ms);
        for start in [5, 15, 25] {
            registry.add(Caller::Process(7), call(1, at(start)));
        }
        for (from, to, late) in [(10, 20, 1), (0, 9, 1), (10, 20, 0), (21, 30, 1)] {
            let process = Some(ProcessTime { pid: 7, begin: at(from), end: at(to) });
            let names = RequestNames { process, ..names(1) };
            assert_eq!(registry.take(&names, Taken::Late).count, late, "{from} to {to}");
        }
        assert_eq!((registry.len(), registry.newer.count), (0, 0));
    }

    #[test]
    fn what_nobody_takes_is_bounded_and_gives_way_to_newer_calls() {
        let (mut registry, now) = (CallRegistry::default(), Instant::now());
        for number in 0..10 * GENERATION as u64 {
            registry.add(id(number), call(1, now));
            assert!(registry.len() <= 2 * GENERATION);
        }
        assert_eq!(registry.take(&names(10 * GENERATION as u64 - 1), Taken::AtItsEnd).count, 1);
        assert_eq!(registry.take(&names(0), Taken::AtItsEnd).count, 0);
    }

    #[test]
    fn calls_that_are_taken_make_room_and_one_name_holds_few() {
        let (mut registry, now) = (CallRegistry::default(), Instant::now());
        registry.add(id(0), call(1, now));
        for number in 1..10 * GENERATION as u64 {
            registry.add(id(number), call(1, now));
            assert_eq!(registry.take(&names(number), Taken::AtItsEnd).count, 1);
            registry.add(id(0), call(1, now));
        }
        let first = registry.take(&names(0), Taken::AtItsEnd);
        assert_eq!(first.count as usize, 10 * GENERATION, "a long request keeps its calls");
        assert_eq!(first.shown.len(), CALLS_SHOWN);
        assert_eq!((registry.len(), registry.newer.count), (0, 0));
    }
}
