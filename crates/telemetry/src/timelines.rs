//! The last slow and the last failed requests, with where their time went: for `GET /events`, the page and `keepwarm top`.
//!
//! A request that is neither costs three comparisons where its end is counted (`edge/src/notable.rs`). One that is kept costs an allocation or two and a short
//! lock, which a server whose requests all fail can afford as well. Each list is a ring, so memory is bounded whatever happens: [`KEPT`] requests, each with at
//! most [`CALLS_SHOWN`] calls.

mod app_calls;
mod calls;
mod processes;
mod registry;
mod stacks;

use std::collections::VecDeque;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

pub use self::app_calls::{AppCalls, AppUpstream, app_calls, note_app_calls};
pub use self::calls::{Attribution, CALLS_SHOWN, CallTimeline, RequestCalls};
pub use self::processes::{EnteredProcess, is_worker, worker_processes};
pub use self::registry::{
    Caller, OwnTrace, ProcessTime, RequestNames, Taken, are_calls_held, forget_old_calls, note_call,
    take_calls,
};
pub use self::stacks::{SampledStack, note_stacks};
use crate::RequestId;

/// Requests of each list. This number is arbitrary: more than a person reads.
pub const KEPT: usize = 50;
/// Bytes of a path that are kept.
pub const LONGEST_PATH: usize = 256;

/// Why a request is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notable {
    /// It took longer than requests of its route may.
    Slow,
    /// It got a 5xx, or a response that was cut. Whether it was slow as well does not matter.
    Failed,
}

/// A request that has ended.
#[derive(Debug, Clone)]
pub struct RequestTimeline {
    /// When it had.
    pub end: SystemTime,
    /// When the first byte of its head was read.
    pub received: Instant,
    /// From then to its end.
    pub elapsed: Duration,
    /// Its id in the log.
    pub id: RequestId,
    /// Its trace, where requests are traced.
    pub trace: Option<OwnTrace>,
    /// The method; empty when the head could not be read.
    pub method: Box<str>,
    /// Its path, without its query, as the client sent it: see [`kept_path`].
    pub path: Box<str>,
    /// The status sent; 0 when none was.
    pub status: u16,
    /// Why the response is not what it might have been; a stable name.
    pub reason: Option<&'static str>,
    /// The app that responded, or the kind of route.
    pub app: Option<Arc<str>>,
    /// The pattern of its route.
    pub route: Option<Arc<str>>,
    /// From which duration on requests of its route are slow.
    pub slow: Duration,
    /// Where the time went, if an app got it.
    pub phases: Option<TimelinePhases>,
    /// The worker that had it last.
    pub worker: Option<TimelineWorker>,
    /// Its calls to upstreams, as far as they are known to be its.
    pub calls: RequestCalls,
    /// Where it was in the code of its app when it took long, the longest first. Only of apps with `slow_log`.
    pub stacks: Vec<SampledStack>,
}

/// Where the time of a request went. The rest of its duration is writing the rest of its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimelinePhases {
    /// Reading its head, and its body if that comes before the app is called.
    pub read: Duration,
    /// With workers that were lost or did not take it, until it began to wait for the last one.
    pub retry: Duration,
    /// Waiting for that one.
    pub queue: Duration,
    /// In the worker, until the response began; all of its time there if none did.
    pub head: Duration,
    /// In the worker after that, until the response was complete.
    pub body: Duration,
}

/// A worker of an app.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimelineWorker {
    /// Its slot, from 1.
    pub number: u32,
    /// Its process; 0: a server that Keepwarm has not started.
    pub pid: u32,
    /// It has one request at a time.
    pub is_in_order: bool,
}

impl TimelineWorker {
    /// Its process and when it had a request that was received at this instant, reached it so much later, and left it after so much more. `None`: it may have
    /// had others at that time, or is not ours.
    #[must_use]
    pub fn process(&self, received: Instant, (before, within): (Duration, Duration)) -> Option<ProcessTime> {
        let begin = received.checked_add(before)?;
        let end = begin.checked_add(within)?;
        (self.is_in_order && self.pid != 0).then_some(ProcessTime { pid: self.pid, begin, end })
    }
}

/// The lists, the newest last.
#[derive(Debug, Clone, Default)]
pub struct Timelines {
    /// Samples that came before their requests were here: a response was still being sent.
    early: VecDeque<(RequestId, Vec<SampledStack>)>,
    /// The last slow requests.
    pub slow: VecDeque<RequestTimeline>,
    /// The last failed ones.
    pub failed: VecDeque<RequestTimeline>,
    /// Slow requests since the start.
    pub slow_total: u64,
    /// Failed ones.
    pub failed_total: u64,
}

static TIMELINES: LazyLock<Mutex<Timelines>> = LazyLock::new(Mutex::default);

impl Timelines {
    fn keep(&mut self, notable: Notable, mut request: RequestTimeline) {
        if !self.early.is_empty() {
            request.stacks = self.take_early(request.id);
        }
        let (list, total) = match notable {
            Notable::Slow => (&mut self.slow, &mut self.slow_total),
            Notable::Failed => (&mut self.failed, &mut self.failed_total),
        };
        if list.len() == KEPT {
            list.pop_front();
        }
        list.push_back(request);
        *total += 1;
    }
}

impl RequestTimeline {
    /// What its calls call it.
    fn names(&self) -> RequestNames {
        let process = self.worker.zip(self.phases).and_then(|(worker, phases)| {
            let spent = (phases.read + phases.retry + phases.queue, phases.head + phases.body);
            worker.process(self.received, spent)
        });
        RequestNames { id: self.id, trace: self.trace, process }
    }

    /// Adds calls that ended after it: a request that is given up leaves some behind.
    fn take_late_calls(&mut self) {
        self.calls.merge(take_calls(&self.names(), Taken::Late));
    }
}

/// Keeps a request, in place of the oldest of its list.
pub fn keep_timeline(notable: Notable, request: RequestTimeline) {
    lock(&TIMELINES).keep(notable, request);
}

/// The lists as they are now.
#[must_use]
pub fn timelines() -> Timelines {
    let mut lists = lock(&TIMELINES);
    if are_calls_held() {
        let Timelines { slow, failed, .. } = &mut *lists;
        slow.iter_mut().chain(failed).for_each(RequestTimeline::take_late_calls);
    }
    lists.clone()
}

/// Every state of what is locked here is a valid one.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The part of a target that is kept and shown: the path without the query, which may hold what only the client should know, cut at 256 bytes. Bytes
/// that are not UTF-8 become U+FFFD.
#[must_use]
pub fn kept_path(target: &[u8]) -> Box<str> {
    let path = target.split(|&byte| byte == b'?').next().unwrap_or_default();
    match path.get(..LONGEST_PATH) {
        Some(cut) if path.len() > LONGEST_PATH => format!("{}…", String::from_utf8_lossy(cut)).into(),
        _ => String::from_utf8_lossy(path).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn request(number: u64) -> RequestTimeline {
        RequestTimeline {
            end: SystemTime::UNIX_EPOCH,
            received: Instant::now(),
            elapsed: Duration::from_secs(1),
            id: RequestId::new(number),
            trace: None,
            method: "GET".into(),
            path: "/".into(),
            status: 500,
            reason: None,
            app: None,
            route: None,
            slow: Duration::from_secs(1),
            phases: None,
            worker: None,
            calls: RequestCalls::default(),
            stacks: Vec::new(),
        }
    }

    #[test]
    fn each_list_has_the_last_fifty_and_counts_all() {
        let mut lists = Timelines::default();
        for number in 0..120 {
            lists.keep(Notable::Failed, request(number));
        }
        lists.keep(Notable::Slow, request(7));
        let numbers: Vec<u64> = lists.failed.iter().map(|request| request.id.number()).collect();
        assert_eq!(numbers, (70..120).collect::<Vec<_>>());
        assert_eq!((lists.failed_total, lists.slow_total, lists.slow.len()), (120, 1, 1));
    }

    #[test]
    fn a_path_is_kept_without_its_query_and_not_longer_than_its_limit() {
        assert_eq!(&*kept_path(b"/reset?token=secret"), "/reset");
        assert_eq!(&*kept_path(b"/a?b?c"), "/a");
        assert_eq!(&*kept_path(b""), "");
        assert_eq!(&*kept_path(&[b'a'; 256]), "a".repeat(256));
        assert_eq!(&*kept_path(&[b'a'; 257]), format!("{}…", "a".repeat(256)));
        assert_eq!(&*kept_path(b"/\xff\xc3\xa4"), "/\u{fffd}ä");
    }

    #[test]
    fn a_call_that_ends_after_its_request_is_added_to_it() {
        let mut request = request(u64::MAX - 1);
        note_call(Caller::Request(request.id), CallTimeline::of_test(3, Instant::now()));
        request.take_late_calls();
        assert_eq!((request.calls.count, request.calls.shown.len()), (1, 1));
        request.take_late_calls();
        assert_eq!(request.calls.count, 1);
    }
}
