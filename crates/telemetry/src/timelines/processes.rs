//! The processes of workers, by which calls are attributed that say nothing else of their caller.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use super::app_calls::note_app_calls;
use super::calls::{Attribution, CallTimeline, RequestCalls};
use super::lock;

/// What is known of a worker.
#[derive(Debug)]
struct WorkerProcess {
    app: Arc<str>,
    is_in_order: bool,
    /// The id of a process may be that of a later worker before its own has been left.
    number: u64,
}

/// The workers that are at work, by the id of their process.
#[derive(Debug, Default)]
struct WorkerProcesses {
    workers: HashMap<u32, WorkerProcess>,
    entered: u64,
}

static WORKERS: LazyLock<Mutex<WorkerProcesses>> = LazyLock::new(Mutex::default);

/// A worker, for as long as its calls are attributed.
#[derive(Debug)]
pub struct EnteredProcess {
    pid: u32,
    number: u64,
}

impl EnteredProcess {
    /// The worker of this app whose process is `pid`. `is_in_order`: it has one request at a time.
    #[must_use]
    pub fn enter(pid: u32, app: &Arc<str>, is_in_order: bool) -> Self {
        let mut all = lock(&WORKERS);
        all.entered += 1;
        let number = all.entered;
        all.workers.insert(pid, WorkerProcess { app: Arc::clone(app), is_in_order, number });
        Self { pid, number }
    }
}

impl Drop for EnteredProcess {
    fn drop(&mut self) {
        let mut all = lock(&WORKERS);
        if all.workers.get(&self.pid).is_some_and(|worker| worker.number == self.number) {
            all.workers.remove(&self.pid);
        }
    }
}

/// The processes of all workers.
#[must_use]
pub fn worker_processes() -> Vec<u32> {
    lock(&WORKERS).workers.keys().copied().collect()
}

/// Whether this is the process of a worker.
#[must_use]
pub fn is_worker(pid: u32) -> bool {
    lock(&WORKERS).workers.contains_key(&pid)
}

/// A call that is left to the request that its worker has. Gives it back if there is such a worker. A worker that has several requests at once has its calls
/// counted for its app; those of other processes are of no request.
pub(super) fn left_to_request(pid: u32, call: CallTimeline) -> Option<CallTimeline> {
    let app = match lock(&WORKERS).workers.get(&pid)? {
        worker if worker.is_in_order => return Some(call),
        worker => Arc::clone(&worker.app),
    };
    let mut calls = RequestCalls::default();
    calls.add(Attribution::Time, call);
    note_app_calls(&app, &calls);
    None
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::super::app_calls::app_calls;
    use super::*;

    #[test]
    fn calls_of_a_worker_with_several_requests_are_counted_for_its_app() {
        let app: Arc<str> = "of processes::tests".into();
        let call = || CallTimeline::of_test(5, Instant::now());
        let counted =
            || app_calls().into_iter().find(|((name, _), _)| *name == app).map(|(_, calls)| calls.count);
        let pid = u32::MAX;
        assert!(left_to_request(pid, call()).is_none(), "of no worker");
        let one_at_a_time = EnteredProcess::enter(pid, &app, true);
        assert!(left_to_request(pid, call()).is_some());
        // The id is used again before the worker that had it has been left.
        let several = EnteredProcess::enter(pid, &app, false);
        drop(one_at_a_time);
        assert!(is_worker(pid) && worker_processes().contains(&pid));
        assert_eq!(counted(), None);
        assert!(left_to_request(pid, call()).is_none());
        assert_eq!(counted(), Some(1));
        drop(several);
        assert!(!is_worker(pid));
        assert!(left_to_request(pid, call()).is_none());
        assert_eq!(counted(), Some(1));
    }
}
