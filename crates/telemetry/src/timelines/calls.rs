//! A call of a request, and all calls of one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::access::CallPhases;

/// Calls of a request that are shown one by one, the longest of them. This number is arbitrary: more do not fit a waterfall.
pub const CALLS_SHOWN: usize = 20;
/// Upstreams of one request that have sums of their own. A forward proxy has as many as an app names.
const UPSTREAMS: usize = 32;

/// How it is known that a call was made for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attribution {
    /// It carries its id.
    RequestId,
    /// It carries its trace.
    Trace,
    /// Its worker made it while it had no other request.
    Time,
    /// The route of the request is the call.
    Route,
}

impl Attribution {
    /// A stable name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::RequestId => "request_id",
            Self::Trace => "trace",
            Self::Time => "time",
            Self::Route => "route",
        }
    }
}

/// A call that is over.
#[derive(Debug, Clone)]
pub struct CallTimeline {
    /// The name of the upstream.
    pub upstream: Arc<str>,
    /// The endpoint of the last attempt; none when there was no attempt.
    pub endpoint: Option<Arc<str>>,
    /// When its head was received.
    pub start: Instant,
    /// From then to the end of its response.
    pub elapsed: Duration,
    /// Where the time went; none if it came to no endpoint.
    pub phases: Option<CallPhases>,
    /// The status that the caller got; 0: none.
    pub status: u16,
    /// Why it or its last failed attempt failed, or why it was refused; a stable name.
    pub failure: Option<&'static str>,
    /// Attempts at an endpoint.
    pub attempts: u32,
}

#[cfg(test)]
impl CallTimeline {
    pub(super) fn of_test(milliseconds: u64, start: Instant) -> Self {
        Self {
            upstream: "search".into(),
            endpoint: Some("127.0.0.1:9".into()),
            start,
            elapsed: Duration::from_millis(milliseconds),
            phases: None,
            status: 200,
            failure: None,
            attempts: 1,
        }
    }
}

/// The calls of a request.
#[derive(Debug, Clone, Default)]
pub struct RequestCalls {
    /// The longest, in the order in which they began.
    pub shown: Vec<(Attribution, CallTimeline)>,
    /// All of them.
    pub count: u32,
    /// The sum of their durations. Calls that were made at the same time count each.
    pub total: Duration,
    /// Sums by upstream, of up to `UPSTREAMS`: a forward proxy has as many as an app names.
    pub by_upstream: BTreeMap<Arc<str>, (u32, Duration)>,
}

impl RequestCalls {
    /// Adds a call.
    pub fn add(&mut self, attribution: Attribution, call: CallTimeline) {
        self.count += 1;
        self.total += call.elapsed;
        self.add_to_upstream(&call.upstream, (1, call.elapsed));
        self.show(attribution, call);
    }

    fn add_to_upstream(&mut self, upstream: &Arc<str>, (count, time): (u32, Duration)) {
        if self.by_upstream.len() < UPSTREAMS || self.by_upstream.contains_key(upstream) {
            let sum = self.by_upstream.entry(Arc::clone(upstream)).or_default();
            *sum = (sum.0 + count, sum.1 + time);
        }
    }

    fn show(&mut self, attribution: Attribution, call: CallTimeline) {
        if self.shown.len() == CALLS_SHOWN {
            let shortest = self.shown.iter().enumerate().min_by_key(|(_, (_, call))| call.elapsed);
            match shortest.map(|(at, (_, shortest))| (at, shortest.elapsed)) {
                Some((at, shortest)) if shortest < call.elapsed => drop(self.shown.remove(at)),
                _ => return,
            }
        }
        let at = self.shown.partition_point(|(_, before)| before.start <= call.start);
        self.shown.insert(at, (attribution, call));
    }

    /// Adds those of `more`.
    pub fn merge(&mut self, more: Self) {
        self.count += more.count;
        self.total += more.total;
        more.by_upstream.iter().for_each(|(upstream, sums)| self.add_to_upstream(upstream, *sums));
        more.shown.into_iter().for_each(|(attribution, call)| self.show(attribution, call));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(milliseconds: u64, start: Instant) -> CallTimeline {
        CallTimeline::of_test(milliseconds, start)
    }

    #[test]
    fn the_longest_calls_are_shown_in_their_order_and_all_are_counted() {
        let (mut calls, begin) = (RequestCalls::default(), Instant::now());
        for number in 0..100_u64 {
            calls.add(Attribution::Trace, call((number * 37) % 100, begin + Duration::from_millis(number)));
        }
        assert_eq!((calls.count, calls.total), (100, Duration::from_millis(4950)));
        assert_eq!(calls.by_upstream["search"], (100, Duration::from_millis(4950)));
        assert_eq!(calls.shown.len(), CALLS_SHOWN);
        assert!(calls.shown.iter().all(|(_, call)| call.elapsed >= Duration::from_millis(80)));
        assert!(calls.shown.is_sorted_by_key(|(_, call)| call.start));
    }

    /// An app may call any number of hosts through a forward proxy.
    #[test]
    fn names_of_upstreams_are_bounded() {
        let mut calls = RequestCalls::default();
        for number in 0..100 {
            let upstream = format!("host{number}").into();
            calls.add(Attribution::Trace, CallTimeline { upstream, ..call(1, Instant::now()) });
        }
        assert_eq!((calls.by_upstream.len(), calls.count), (UPSTREAMS, 100));
    }
}
