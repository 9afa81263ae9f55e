//! What the tests share: a supervisor with its fake links, and waits that end with the event.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use keepwarm_workers::supervisor::{AppSpec, Options, StartFailure, Supervisor, WorkerSnapshot, WorkerState};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::fake::{FakeLinks, LinkCall, Record, changed, record_to};

/// The longest any wait may take; none comes near it.
pub(crate) const BOUND: Duration = Duration::from_secs(20);

/// Says HELLO and serves until Keepwarm's side of the wire ends.
pub(crate) const SERVE: &str = r#"printf HELLO >&"$KEEPWARM_FD"; cat <&"$KEEPWARM_FD" >/dev/null"#;

/// Where cargo puts examples: beside the directory of this test's binary.
pub(crate) fn supervised() -> PathBuf {
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    path.push("examples/supervised");
    assert!(path.exists(), "build {} first: cargo build --examples", path.display());
    path
}

pub(crate) fn sh(app: &str, script: &str) -> AppSpec {
    AppSpec::new(app, ["sh", "-c", script].map(OsString::from).to_vec())
}

pub(crate) struct Bench {
    pub(crate) supervisor: Supervisor,
    pub(crate) links: Arc<FakeLinks>,
}

impl Bench {
    pub(crate) async fn start(apps: Vec<AppSpec>) -> Self {
        start_recording();
        let links = Arc::new(FakeLinks::default());
        let options = Options { executable: supervised(), ..Options::default() };
        let supervisor = Supervisor::start(apps, links.clone(), options).await.unwrap();
        Self { supervisor, links }
    }

    pub(crate) async fn start_ready(apps: Vec<AppSpec>) -> Self {
        let bench = Self::start(apps).await;
        assert_eq!(bench.supervisor.wait_first_boot().await, []);
        bench
    }

    /// Why the one app that does not start is given up.
    pub(crate) async fn start_failure(&self) -> StartFailure {
        let [failure] = self.supervisor.wait_first_boot().await.try_into().expect("one app is given up");
        failure
    }

    /// The workers of `app` in this state.
    pub(crate) async fn workers(&self, app: &str, state: WorkerState) -> Vec<WorkerSnapshot> {
        let mut workers = self.supervisor.snapshot().await.workers;
        workers.retain(|worker| &*worker.app == app && worker.state == state);
        workers
    }

    /// Waits until `app` has this many workers that are ready.
    pub(crate) async fn wait_ready(&self, app: &str, count: usize) -> Vec<WorkerSnapshot> {
        until(&format!("{count} ready workers of {app}"), async || {
            let workers = self.workers(app, WorkerState::Ready).await;
            (workers.len() == count).then_some(workers)
        })
        .await
    }

    pub(crate) async fn wait_told(&self, what: &str, test: impl Fn(&LinkCall) -> bool) {
        until(what, async || self.links.told().iter().any(&test).then_some(())).await;
    }

    pub(crate) fn adopted(&self, app: &str) -> usize {
        let of_app = |told: &&LinkCall| matches!(told, LinkCall::Adopted(worker) if &*worker.app == app);
        self.links.told().iter().filter(of_app).count()
    }

    pub(crate) async fn stop(self) {
        self.supervisor.stop(Duration::from_secs(10)).await;
    }
}

/// Waits until `test` gives something; it is asked again after every change.
pub(crate) async fn until<T>(what: &str, mut test: impl AsyncFnMut() -> Option<T>) -> T {
    let search = async {
        loop {
            let changed = changed().notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Some(found) = test().await {
                return found;
            }
            changed.await;
        }
    };
    match tokio::time::timeout(BOUND, search).await {
        Ok(found) => found,
        Err(_) => panic!("never: {what}; the log:\n{:#?}", *RECORDS.lock().unwrap()),
    }
}

static RECORDS: Mutex<Vec<Record>> = Mutex::new(Vec::new());

fn start_recording() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| record_to(|record| RECORDS.lock().unwrap().push(record)));
}

/// The records about `app` so far; the names of apps differ between tests.
pub(crate) fn records(app: &str) -> Vec<Record> {
    RECORDS.lock().unwrap().iter().filter(|record| record.field("app") == Some(app)).cloned().collect()
}

/// What the workers of `app` printed.
pub(crate) fn printed(app: &str) -> Vec<String> {
    let lines = records(app).into_iter().filter(|record| record.target == "keepwarm::worker");
    lines.map(|record| record.message().to_owned()).collect()
}

/// The rest of the first line that a worker of `app` printed with this beginning.
pub(crate) async fn wait_printed(app: &str, beginning: &str) -> String {
    until(&format!("a line {beginning:?} of {app}"), async || {
        printed(app).iter().find_map(|line| line.strip_prefix(beginning).map(str::to_owned))
    })
    .await
}

/// A process whose end can be awaited, also by a process that is not its parent.
pub(crate) struct Process(OwnedFd);

impl Process {
    pub(crate) fn new(pid: u32) -> Self {
        let pid = Pid::from_raw(pid.cast_signed()).unwrap();
        Self(pidfd_open(pid, PidfdFlags::empty()).unwrap())
    }

    /// Blocks until it has ended.
    pub(crate) fn wait_end(&self) {
        assert!(self.ends_within(BOUND), "a process lives on");
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ends_within(Duration::ZERO)
    }

    fn ends_within(&self, time: Duration) -> bool {
        let time = Timespec { tv_sec: time.as_secs().cast_signed(), tv_nsec: 0 };
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        poll(&mut fds, Some(&time)).unwrap() == 1
    }
}
