//! The handle that the rest of Keepwarm holds.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::control::{self, Command};
use super::processes::ProcessCommand;
use super::spawn::SpawnerCommand;
use super::{
    AppSpec, Dependency, ProcessSetSnapshot, ProcessSpec, ReloadReport, ReplaceReason, Snapshot,
    StartFailure, TaskFailure, TaskSpec, WorkerLinks, WorkerProcessHandle,
};

/// Keeps the workers of all apps. A cheap handle: clones speak to the same supervisor.
///
/// When the last handle is dropped, every worker is killed; [`stop`](Self::stop) is how to end in peace.
#[derive(Clone, Debug)]
pub struct Supervisor {
    commands: mpsc::UnboundedSender<Command>,
    processes: mpsc::UnboundedSender<ProcessCommand>,
}

/// How the supervisor itself is run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// The binary that knows the commands [`LAUNCH`](super::LAUNCH) and [`GUARDIAN`](super::GUARDIAN).
    pub executable: PathBuf,
    /// Files that are about to be created: see [`Supervisor::expect_files`].
    pub expected_files: Vec<PathBuf>,
    /// The soft limit of open files that workers get which have none configured. `None`: that of this process.
    pub soft_files: Option<u64>,
}

impl Default for Options {
    /// This very binary, also when its file has been replaced since.
    fn default() -> Self {
        Self { executable: PathBuf::from("/proc/self/exe"), expected_files: Vec::new(), soft_files: None }
    }
}

impl Supervisor {
    /// Starts the guardian, and begins to start the apps; does not wait for the apps. Names must differ. To be called
    /// inside a tokio runtime with IO and time enabled: the control thread's.
    ///
    /// # Errors
    ///
    /// The guardian or one of the two threads could not be started, or two apps have one name.
    pub async fn start(
        apps: Vec<AppSpec>,
        links: Arc<dyn WorkerLinks>,
        options: Options,
    ) -> io::Result<Self> {
        let (commands, receiver) = mpsc::unbounded_channel();
        let (processes, of_processes) = mpsc::unbounded_channel();
        control::start(apps, links, options, receiver, (processes.downgrade(), of_processes)).await?;
        Ok(Self { commands, processes })
    }

    /// Begins to start these apps, as [`start`](Self::start) does with its own: for a supervisor that was started without any, because commands have to
    /// run first. Names must differ.
    pub fn begin(&self, apps: Vec<AppSpec>) {
        self.send(Command::Begin(apps));
    }

    /// Returns when every app of [`start`](Self::start) has all its workers (except those given up beside a ready one), or was given up: the latter, in that
    /// order. An app is given up when one of its workers ended with a status that rules out a retry, or when all retries failed. That
    /// worker's standard error is in the failure and not in the log: see [`StartFailure::write_to`].
    pub async fn wait_first_boot(&self) -> Vec<StartFailure> {
        let (reply, response) = oneshot::channel();
        self.send(Command::WaitFirstBoot(reply));
        response.await.unwrap_or_else(|_| vec![gone()])
    }

    /// Starts a new generation of every app beside the old one, and retires the old one when every new worker of every
    /// app is ready. Returns then, while the old workers drain. A reload during a reload waits for its turn.
    ///
    /// # Errors
    ///
    /// The first new worker that failed (nothing is retried). The new generation is stopped, the old one of every app
    /// keeps serving.
    pub async fn reload(&self, apps: Vec<AppSpec>) -> Result<ReloadReport, StartFailure> {
        let (reply, response) = oneshot::channel();
        self.send(Command::Reload(apps, reply));
        response.await.unwrap_or_else(|_| Err(gone()))
    }

    /// As [`reload`](Self::reload), of one app only: the others go on as they are. The app must be one of those that run.
    ///
    /// # Errors
    ///
    /// As those of a reload.
    pub async fn recycle(&self, app: AppSpec) -> Result<ReloadReport, StartFailure> {
        let (reply, response) = oneshot::channel();
        self.send(Command::Recycle(Box::new(app), reply));
        response.await.unwrap_or_else(|_| Err(gone()))
    }

    /// Returns when no worker of a generation before this one is left.
    pub async fn wait_over(&self, generation: u64) {
        let (reply, response) = oneshot::channel();
        self.send(Command::WaitOver(generation, reply));
        // An error: the supervisor has stopped, and with it every worker.
        let _ = response.await;
    }

    /// Has the guardian remove these files, given by their absolute paths, when Keepwarm dies: if they were changed after this call. Returns when the
    /// guardian has been told, so that no moment is left in which a file is there and would stay. Next, guard what has been created
    /// ([`guard_file`](Self::guard_file)) and forget what has not: another process may create it later.
    pub async fn expect_files(&self, paths: Vec<PathBuf>) {
        let (done, told) = oneshot::channel();
        self.send(Command::Spawner(SpawnerCommand::ExpectFiles(paths, done)));
        // It ends by an error: the sender is dropped.
        let _ = told.await;
    }

    /// Has the guardian remove this file, given by its absolute path, when Keepwarm dies: if it still is the file it is now.
    pub fn guard_file(&self, path: &Path) {
        self.send(Command::Spawner(SpawnerCommand::GuardFile(path.to_path_buf())));
    }

    /// The file no longer belongs to this process.
    pub fn forget_file(&self, path: &Path) {
        self.send(Command::Spawner(SpawnerCommand::ForgetFile(path.to_path_buf())));
    }

    /// Ends everything: processes are stopped, workers drain for at most `grace` (or their `drain_timeout`, if that is shorter), then SIGTERM,
    /// and SIGKILL two seconds later; a grace of zero is SIGKILL at once. Returns when every process has been reaped.
    /// A second call may shorten the grace of the first.
    pub async fn stop(&self, grace: Duration) {
        self.send_to_processes(ProcessCommand::Stop { grace, ended: None, reply: None });
        let (reply, response) = oneshot::channel();
        self.send(Command::Stop(grace, reply));
        // An error means that the control task has ended, which it does only when nothing runs any more.
        let _ = response.await;
    }

    /// Adds `by` workers to every app, or removes them (`by` below 0): within 1 and the maximum of its configuration. It holds until the next
    /// reload; for an app whose number of workers follows its load it sets the minimum.
    pub fn shift_workers(&self, by: i32) {
        self.send(Command::Shift(by));
    }

    /// What runs at this moment; empty after a stop.
    pub async fn snapshot(&self) -> Snapshot {
        let (reply, response) = oneshot::channel();
        self.send(Command::Snapshot(reply));
        response.await.unwrap_or_default()
    }

    /// Has a worker print the stack of what it is doing, which also goes to the log, and gives what it printed: nothing when it said nothing
    /// within half a second. `None`: no worker has this process id.
    pub async fn stack(&self, pid: u32) -> Option<Vec<u8>> {
        let (reply, response) = oneshot::channel();
        self.send(Command::Stack(pid, reply));
        response.await.ok().flatten()
    }

    /// The processes of an app's workers.
    pub async fn worker_processes(&self, app: &str) -> Vec<WorkerProcessHandle> {
        let (reply, response) = oneshot::channel();
        self.send(Command::WorkerProcesses(app.to_owned(), reply));
        response.await.unwrap_or_default()
    }

    /// Replaces the worker with this process id: it leaves when its replacement is ready, after the other workers of its app that wait for that.
    /// `false`: it is not ready, is being replaced already, or there is none.
    pub async fn recycle_worker(&self, pid: u32) -> bool {
        let (reply, response) = oneshot::channel();
        self.send(Command::RecycleWorker(pid, reply));
        response.await.unwrap_or(false)
    }

    /// Begins to start processes; each waits for what it comes after. `held`: the names of those that another instance still
    /// runs. Each of these waits for its [`release_processes`](Self::release_processes), all others for that of all.
    pub fn begin_processes(&self, specs: Vec<ProcessSpec>, held: BTreeSet<Arc<str>>) {
        self.send_to_processes(ProcessCommand::Begin { specs, held });
    }

    /// The other instance has stopped its processes of this name; `None`: all of them.
    pub fn release_processes(&self, name: Option<Arc<str>>) {
        self.send_to_processes(ProcessCommand::Release(name));
    }

    /// These are all processes that are to run. Those that run are replaced one after the other, in the order of what they come after, or get their
    /// `reload_signal`; does not wait for that.
    pub fn reload_processes(&self, specs: Vec<ProcessSpec>) {
        self.send_to_processes(ProcessCommand::Reload(specs));
    }

    /// Replaces the processes of this name, one after the other; does not wait for that. `false`: there are none.
    pub async fn replace_processes(&self, name: &str, why: ReplaceReason) -> bool {
        let (reply, response) = oneshot::channel();
        self.send_to_processes(ProcessCommand::Replace(name.into(), why, reply));
        response.await.unwrap_or(false)
    }

    /// Something that processes may come after is ready: an upstream, or an app whose workers are not this supervisor's.
    pub fn set_ready(&self, dependency: Dependency) {
        self.send_to_processes(ProcessCommand::SetReady(dependency));
    }

    /// Runs a command to its end.
    ///
    /// # Errors
    /// It failed, or was stopped because it took too long or because the supervisor stops.
    pub async fn run_task(&self, task: TaskSpec) -> Result<(), TaskFailure> {
        let (section, command) = (Arc::clone(&task.section), String::new());
        let (reply, response) = oneshot::channel();
        self.send_to_processes(ProcessCommand::RunTask(task, reply));
        let gone = || TaskFailure {
            section,
            command,
            reason: "was not started: Keepwarm is stopping".to_owned(),
            output: Vec::new(),
        };
        response.await.unwrap_or_else(|_| Err(gone()))
    }

    /// Stops all processes within this time, those first that come after others. The order is given at once; the future resolves when all have ended. The names of
    /// those that have ended go to `ended`.
    pub fn stop_processes(
        &self,
        grace: Duration,
        ended: Option<mpsc::UnboundedSender<Arc<str>>>,
    ) -> impl Future<Output = ()> + Send + use<> {
        let (reply, response) = oneshot::channel();
        self.send_to_processes(ProcessCommand::Stop { grace, ended, reply: Some(reply) });
        async move {
            // An error means that the task has ended, which it does only when nothing runs any more.
            let _ = response.await;
        }
    }

    /// All processes at this moment; empty after a stop.
    pub async fn processes(&self) -> Vec<ProcessSetSnapshot> {
        let (reply, response) = oneshot::channel();
        self.send_to_processes(ProcessCommand::Snapshot(reply));
        response.await.unwrap_or_default()
    }

    /// As [`send`](Self::send).
    fn send_to_processes(&self, command: ProcessCommand) {
        let _ = self.processes.send(command);
    }

    /// A closed channel drops the command and with it its reply, which the caller sees.
    fn send(&self, command: Command) {
        let _ = self.commands.send(command);
    }
}

fn gone() -> StartFailure {
    StartFailure {
        app: Arc::from(""),
        worker: 0,
        reason: "the supervisor has stopped".to_owned(),
        exit: None,
        stderr: Vec::new(),
    }
}
