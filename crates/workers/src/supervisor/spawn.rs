//! The one thread that starts processes.
//!
//! A worker's parent-death signal comes when the *thread* that started it ends, so this thread lives until the last order
//! is dropped, which is after the last worker was reaped. It also speaks to the guardian, so that a process group is
//! listed before anything else can happen to the worker.

use std::collections::{BTreeMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use keepwarm_telemetry::panics::abort_on_panic;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::sync::{mpsc, oneshot};

use super::address::AddressBook;
use super::children;
use super::descendants::{self, MARK};
use super::guardian::{GUARDIAN, READY, list, list::FileTime};
use super::launcher::{LAUNCH, QUIET};
use super::priority::LowPriority;
use super::template::TemplateReaper;
use super::{Addresses, AppSpec, Execution, Options, ProcessSettings, WorkerInterface};

/// How long the guardian may take to say that it guards. This number is arbitrary; it takes milliseconds.
const GUARDIAN_BOOT: Duration = Duration::from_secs(10);

/// Variables that are for Keepwarm alone, from systemd and from another Keepwarm: a worker that used them would be believed.
const PRIVATE: [&str; 9] = [
    "KEEPWARM_UPGRADE",
    "KEEPWARM_SOFT_FILES",
    "KEEPWARM_SOCKET",
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
    "LISTEN_FDS",
    "LISTEN_PID",
    "LISTEN_FDNAMES",
];

/// Variables that tell a process what it is.
const OWN: [&str; 5] = [
    "KEEPWARM_APP",
    "KEEPWARM_WORKER",
    "KEEPWARM_PROCESS",
    "KEEPWARM_PROCESS_NUMBER",
    "KEEPWARM_BEFORE_START",
];

/// Whether a variable of Keepwarm's own environment is kept from workers. Settings of the configuration (`KEEPWARM_SECTION__KEY`) are: they hold secrets, as
/// `KEEPWARM_ADMIN__TOKEN` and the variables of other apps. A worker has its own app's from the app's environment.
fn is_private(name: &OsStr) -> bool {
    let setting = |name: &str| name.strip_prefix("KEEPWARM_").is_some_and(|rest| rest.contains("__"));
    PRIVATE.iter().any(|private| name == *private) || setting(&name.to_string_lossy())
}

/// The variables of Keepwarm's environment that no program of an app may see.
pub fn private_variables() -> impl Iterator<Item = OsString> {
    std::env::vars_os().map(|(name, _)| name).filter(|name| is_private(name))
}

/// What a process is started from.
pub(super) struct Launch {
    pub(super) program: Program,
    pub(super) number: u32,
    /// `Some`: it must not disturb others, which serve meanwhile.
    pub(super) quiet: Option<LowPriority>,
}

/// The program of a process.
pub(super) enum Program {
    /// A worker of this app.
    Worker(Arc<AppSpec>),
    /// It serves no requests. These variables say what it is.
    Other { execution: Arc<Execution>, variables: Vec<(&'static str, String)> },
}

impl Program {
    fn command(&self) -> &[OsString] {
        match self {
            Self::Worker(spec) => &spec.command,
            Self::Other { execution, .. } => &execution.command,
        }
    }

    fn directory(&self) -> &Path {
        match self {
            Self::Worker(spec) => &spec.directory,
            Self::Other { execution, .. } => &execution.directory,
        }
    }

    fn env(&self) -> &[(OsString, OsString)] {
        match self {
            Self::Worker(spec) => &spec.env,
            Self::Other { execution, .. } => &execution.env,
        }
    }

    fn settings(&self) -> &ProcessSettings {
        match self {
            Self::Worker(spec) => &spec.process,
            Self::Other { execution, .. } => &execution.process,
        }
    }

    /// What it is, for itself and for those that look for what it has left behind.
    fn variables(&self, number: u32) -> Vec<(&'static str, OsString)> {
        match self {
            Self::Worker(spec) => vec![
                ("KEEPWARM_APP", OsString::from(&*spec.name)),
                ("KEEPWARM_WORKER", number.to_string().into()),
            ],
            Self::Other { variables, .. } => {
                variables.iter().map(|(name, value)| (*name, value.into())).collect()
            }
        }
    }
}

/// A process that was started.
pub(super) struct SpawnedProcess {
    pub(super) pid: Pid,
    pub(super) pidfd: OwnedFd,
    pub(super) line: WorkerConnection,
    pub(super) pipes: WorkerPipes,
    /// Whose child it is, if it is not Keepwarm's own.
    pub(super) parent: Option<TemplateReaper>,
}

/// How to reach a worker.
pub(super) enum WorkerConnection {
    /// Keepwarm's end of the wire: non-blocking, as all descriptors here close-on-exec.
    Wire(OwnedFd),
    /// It listens at one of these.
    Server(Addresses),
    /// It serves no requests.
    None,
    #[cfg(feature = "simulation")]
    Simulated(keepwarm_net::Socket),
}

/// What a worker prints.
pub(super) struct WorkerPipes {
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
}

/// The descriptors that a worker inherits.
pub(super) struct WorkerDescriptors {
    pub(super) wire: OwnedFd,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
}

/// A wire and two pipes: Keepwarm's ends, the wire's non-blocking, and the worker's.
pub(super) fn worker_ends() -> io::Result<((OwnedFd, WorkerPipes), WorkerDescriptors)> {
    let (wire, their_wire) = wire()?;
    let (pipes, stdout, stderr) = worker_pipes()?;
    Ok(((wire, pipes), WorkerDescriptors { wire: their_wire, stdout, stderr }))
}

/// Keepwarm's end of a wire, and the worker's.
fn wire() -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = wire_pair()?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok((ours, theirs))
}

/// Keepwarm's ends of the pipes, and the worker's standard output and error.
fn worker_pipes() -> io::Result<(WorkerPipes, OwnedFd, OwnedFd)> {
    let (stdout, their_stdout) = pipe_with(PipeFlags::CLOEXEC)?;
    let (stderr, their_stderr) = pipe_with(PipeFlags::CLOEXEC)?;
    Ok((WorkerPipes { stdout, stderr }, their_stdout, their_stderr))
}

/// Orders to the thread.
pub(super) enum SpawnerCommand {
    /// Start a worker and report the result.
    Spawn(Launch, Box<dyn FnOnce(io::Result<SpawnedProcess>) + Send>),
    /// A template has forked this worker: kill its group when Keepwarm ends.
    Remember(Pid),
    /// This process group has been killed and is about to be reaped.
    Forget(Pid),
    /// Kill the processes whose environment has all of these (`NAME=value`): what an app that has been removed, or a process that has ended, has left behind.
    /// The sender is dropped when it is done.
    KillLeft(Vec<String>, Option<oneshot::Sender<()>>),
    /// The guardian is to remove these files when Keepwarm dies; they are about to be created. The sender is dropped when it has been told.
    ExpectFiles(Vec<PathBuf>, oneshot::Sender<()>),
    /// The guardian is to remove this file when Keepwarm dies.
    GuardFile(PathBuf),
    /// It is not to remove this file.
    ForgetFile(PathBuf),
    /// The guardian has died: start another.
    Guard(oneshot::Sender<io::Result<OwnedFd>>),
}

/// The thread, from outside. It ends when all clones of `orders` are dropped.
pub(super) struct Spawner {
    pub(super) orders: mpsc::UnboundedSender<SpawnerCommand>,
    /// Resolves when the thread has ended, and the guardian with it.
    pub(super) ended: oneshot::Receiver<()>,
    /// The guardian's process.
    pub(super) guardian: OwnedFd,
}

/// Starts the thread and the guardian.
pub(super) async fn start(options: Options) -> io::Result<Spawner> {
    let Options { executable, expected_files, soft_files } = options;
    let (orders, mut receiver) = mpsc::unbounded_channel();
    let (started, guardian) = oneshot::channel();
    let (ending, ended) = oneshot::channel();
    std::thread::Builder::new().name("spawner".to_owned()).spawn(move || {
        let mut thread = SpawnerThread {
            executable,
            soft_files,
            mark: descendants::new_mark(super::control::random()),
            guardian: None,
            groups: HashSet::new(),
            files: expected_since_now(expected_files).collect(),
            addresses: AddressBook::new(super::control::random()),
            folder: None,
        };
        let pidfd = thread.start_guardian();
        let failed = pidfd.is_err();
        if started.send(pidfd).is_ok() && !failed {
            // Its end is the end of every worker, by their parent-death signal.
            abort_on_panic("the spawner of workers", || thread.run(&mut receiver));
        }
        thread.end_guardian();
        // Nobody waits for the end of a supervisor that was dropped.
        let _ = ending.send(());
    })?;
    let guardian = guardian.await.map_err(|_| io::Error::other("the spawner thread has died"))??;
    Ok(Spawner { orders, ended, guardian })
}

/// Why a process could not be started, in words: what it means that a resource is unavailable is not in the system's.
pub(super) fn spawn_fault(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock => format!(
            "{error}: the system allows no more processes (`pids.max` of the control group, `TasksMax=` of the unit, or `ulimit -u`)"
        ),
        _ => error.to_string(),
    }
}

/// The spawner thread, from inside.
struct SpawnerThread {
    executable: PathBuf,
    soft_files: Option<u64>,
    /// Of everything that is started here, and of what that starts.
    mark: String,
    guardian: Option<Guardian>,
    /// The groups that the guardian must know; kept here for a guardian that takes over.
    groups: HashSet<Pid>,
    /// The files that it must know, too; those that are about to be created with the time since when.
    files: BTreeMap<PathBuf, Option<FileTime>>,
    addresses: AddressBook,
    /// Of the sockets that workers listen at; it must know that too.
    folder: Option<PathBuf>,
}

struct Guardian {
    process: Child,
    socket: UnixStream,
}

impl SpawnerThread {
    fn run(&mut self, orders: &mut mpsc::UnboundedReceiver<SpawnerCommand>) {
        while let Some(order) = orders.blocking_recv() {
            match order {
                SpawnerCommand::Spawn(launch, reply) => reply(self.spawn(&launch)),
                SpawnerCommand::Remember(group) => self.remember(group),
                SpawnerCommand::Forget(group) => {
                    self.groups.remove(&group);
                    self.tell_guardian(&list::remove_group(group));
                }
                SpawnerCommand::KillLeft(variables, _done) => descendants::kill(&self.mark, variables),
                SpawnerCommand::ExpectFiles(files, _done) => {
                    self.files.extend(expected_since_now(files.clone()));
                    files.iter().for_each(|file| self.tell_guardian_of(file));
                }
                SpawnerCommand::GuardFile(file) => {
                    self.files.insert(file.clone(), None);
                    self.tell_guardian_of(&file);
                }
                SpawnerCommand::ForgetFile(file) => {
                    self.tell_guardian(&list::remove_file(&file));
                    self.files.remove(&file);
                }
                SpawnerCommand::Guard(reply) => {
                    self.end_guardian();
                    // The receiver goes only when the supervisor does.
                    let _ = reply.send(self.start_guardian());
                }
            }
        }
    }

    fn spawn(&mut self, launch: &Launch) -> io::Result<SpawnedProcess> {
        let program = &launch.program;
        let (line, stdin) = self.line(program)?;
        let (pipes, stdout, stderr) = worker_pipes()?;
        let quiet = launch.quiet.map(|quiet| quiet.nice().map_or_else(String::new, |nice| nice.to_string()));
        let mut command = Command::new(&self.executable);
        // A Keepwarm that another one runs has its own for itself.
        for name in private_variables().chain(OWN.map(OsString::from)) {
            command.env_remove(name);
        }
        let process = ProcessSettings { soft_files: self.soft_files, ..program.settings().clone() };
        command
            .arg(LAUNCH)
            .arg(std::process::id().to_string())
            .arg(process.to_string())
            .arg(program.directory())
            .args(program.command())
            .envs(program.env().iter().map(|(name, value)| (name, value)))
            .env(MARK, &self.mark)
            .envs(program.variables(launch.number))
            .envs(quiet.map(|nice| (QUIET, nice)))
            .envs(line.env())
            .stdin(stdin)
            .stdout(Stdio::from(stdout))
            .stderr(Stdio::from(stderr));
        let mut child = children::start(&mut command)?;
        // It has not been waited for, so the id is its own.
        let pid = Pid::from_child(&child);
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => {
                self.remember(pid);
                Ok(SpawnedProcess { pid, pidfd, line, pipes, parent: None })
            }
            Err(error) => {
                // Without a pidfd nobody would see it end. It has just been started: errors mean that it is gone.
                let _ = child.kill();
                children::wait(&mut child);
                Err(error.into())
            }
        }
    }

    /// The way to reach a worker, and what it gets as standard input: its end of the wire, or nothing.
    fn line(&mut self, program: &Program) -> io::Result<(WorkerConnection, Stdio)> {
        let Program::Worker(spec) = program else {
            return Ok((WorkerConnection::None, Stdio::null()));
        };
        match spec.interface {
            WorkerInterface::Wire => {
                wire().map(|(ours, theirs)| (WorkerConnection::Wire(ours), Stdio::from(theirs)))
            }
            WorkerInterface::Server => {
                let owner = spec.process.credentials.as_ref().map(|owner| (owner.uid, owner.gid));
                if self.folder.is_none() {
                    let folder = self.addresses.folder()?.to_owned();
                    self.tell_guardian(&list::add_folder(&folder));
                    self.folder = Some(folder);
                }
                let addresses = self.addresses.hand_out(owner)?;
                Ok((WorkerConnection::Server(addresses), Stdio::null()))
            }
        }
    }

    fn remember(&mut self, group: Pid) {
        self.groups.insert(group);
        self.tell_guardian(&list::add_group(group));
    }

    fn tell_guardian_of(&mut self, file: &Path) {
        let since = self.files.get(file).copied().flatten();
        self.tell_guardian(&guard_line(file, since));
    }

    /// An error means that the guardian has died; the one that takes over is told everything.
    fn tell_guardian(&mut self, line: &[u8]) {
        if let Some(guardian) = &mut self.guardian {
            let _ = guardian.socket.write_all(line);
        }
    }

    /// Returns the process of a guardian that guards.
    fn start_guardian(&mut self) -> io::Result<OwnedFd> {
        let (ours, theirs) = wire_pair()?;
        let mut socket = UnixStream::from(ours);
        // In the socket before the guardian is there: it reads them even if this process is killed at once.
        let mut all: Vec<u8> = self.groups.iter().flat_map(|&group| list::add_group(group)).collect();
        all.extend(list::add_mark(&self.mark));
        all.extend(self.files.iter().flat_map(|(file, since)| guard_line(file, *since)));
        all.extend(self.folder.iter().flat_map(|folder| list::add_folder(folder)));
        socket.write_all(&all)?;
        let mut command = Command::new(&self.executable);
        // A Keepwarm that is itself a descendant of another's worker: its guardian outlives it by what it has to do.
        command.env_remove(MARK);
        command.arg(GUARDIAN).stdin(Stdio::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null());
        let process = children::start(&mut command)?;
        // Its end of the socket is the guardian's alone: the command holds it, too.
        drop(command);
        let pidfd = pidfd_open(Pid::from_child(&process), PidfdFlags::empty());
        let mut guardian = Guardian { process, socket };
        let guards = guardian.wait_ready();
        let pidfd = guards.and(pidfd.map_err(io::Error::from));
        self.guardian = Some(guardian);
        if pidfd.is_err() {
            self.end_guardian();
        }
        pidfd
    }

    /// Lets the guardian go: its input ends, with nothing listed but the mark, unless workers are still there.
    fn end_guardian(&mut self) {
        let Some(Guardian { mut process, socket }) = self.guardian.take() else { return };
        drop(socket);
        children::wait(&mut process);
    }
}

impl WorkerConnection {
    fn env(&self) -> Vec<(&'static str, OsString)> {
        match self {
            Self::Wire(_) | Self::None => Vec::new(),
            Self::Server(addresses) => addresses.env().into(),
            #[cfg(feature = "simulation")]
            Self::Simulated(_) => Vec::new(),
        }
    }
}

impl Guardian {
    fn wait_ready(&mut self) -> io::Result<()> {
        self.socket.set_read_timeout(Some(GUARDIAN_BOOT))?;
        let mut byte = [0];
        self.socket.read_exact(&mut byte)?;
        if byte == [READY] {
            Ok(())
        } else {
            Err(io::Error::other("the guardian sent an unexpected message"))
        }
    }
}

/// These files, of which none is there that is meant.
fn expected_since_now(files: Vec<PathBuf>) -> impl Iterator<Item = (PathBuf, Option<FileTime>)> {
    let now = list::file_time();
    files.into_iter().map(move |file| (file, Some(now)))
}

fn guard_line(file: &Path, expected_since: Option<FileTime>) -> Vec<u8> {
    match expected_since {
        Some(time) => list::add_expected_file(file, time),
        None => list::add_file(file),
    }
}

fn wire_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_the_configuration_are_kept_from_workers_and_what_they_need_is_not() {
        for name in [
            "KEEPWARM_ADMIN__TOKEN",
            "KEEPWARM_APP__OTHER__ENV__PASSWORD",
            "NOTIFY_SOCKET",
            "KEEPWARM_UPGRADE",
        ] {
            assert!(is_private(OsStr::new(name)), "{name}");
        }
        for name in [
            "KEEPWARM_UPSTREAM_SEARCH",
            "KEEPWARM_ADAPTERS",
            "KEEPWARM_TEST",
            "PATH",
            "DJANGO__KEY",
            "KEEPWARMER__X",
        ] {
            assert!(!is_private(OsStr::new(name)), "{name}");
        }
    }
}
