//! The one thread that starts processes.
//!
//! A worker's parent-death signal comes when the *thread* that started it ends, so this thread lives until the last order
//! is dropped, which is after the last worker was reaped. It also speaks to the guardian, so that a process group is
//! listed before anything else can happen to the worker.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::sync::oneshot;

use super::address::AddressBook;
use super::guardian::{GUARDIAN, READY};
use super::launcher::LAUNCH;
use super::{Addresses, AppSpec, Contact};

/// How long the guardian may take to say that it guards. This number is arbitrary; it takes milliseconds.
const GUARDIAN_BOOT: Duration = Duration::from_secs(10);

/// What a worker is started from.
pub(super) struct Launch {
    pub(super) spec: Arc<AppSpec>,
    pub(super) number: u32,
}

/// A process that was started.
pub(super) struct Spawned {
    pub(super) pid: Pid,
    pub(super) pidfd: OwnedFd,
    pub(super) line: Line,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
}

/// How to reach it.
pub(super) enum Line {
    /// Keepwarm's end of the wire: non-blocking, as all descriptors here close-on-exec.
    Wire(OwnedFd),
    /// It listens at one of these.
    Server(Addresses),
}

/// Orders to the thread.
pub(super) enum Order {
    /// Start a worker, tell how that went.
    Spawn(Launch, Box<dyn FnOnce(io::Result<Spawned>) + Send>),
    /// This process group has been killed and is about to be reaped.
    Forget(Pid),
    /// The guardian has died: start another.
    Guard(oneshot::Sender<io::Result<OwnedFd>>),
}

/// The thread, from outside. It ends when all clones of `orders` are dropped.
pub(super) struct Spawner {
    pub(super) orders: mpsc::Sender<Order>,
    /// Resolves when the thread has ended, and the guardian with it.
    pub(super) ended: oneshot::Receiver<()>,
    /// The guardian's process.
    pub(super) guardian: OwnedFd,
}

/// Starts the thread and the guardian.
pub(super) async fn start(executable: PathBuf) -> io::Result<Spawner> {
    let (orders, receiver) = mpsc::channel();
    let (started, guardian) = oneshot::channel();
    let (ending, ended) = oneshot::channel();
    std::thread::Builder::new().name("spawner".to_owned()).spawn(move || {
        let addresses = AddressBook::new(super::control::random());
        let mut thread = Thread { executable, guardian: None, groups: HashSet::new(), addresses };
        let pidfd = thread.start_guardian();
        let failed = pidfd.is_err();
        if started.send(pidfd).is_ok() && !failed {
            thread.run(&receiver);
        }
        thread.end_guardian();
        // Nobody waits for the end of a supervisor that was dropped.
        let _ = ending.send(());
    })?;
    let guardian = guardian.await.map_err(|_| io::Error::other("the spawner thread has died"))??;
    Ok(Spawner { orders, ended, guardian })
}

/// The thread, from inside.
struct Thread {
    executable: PathBuf,
    guardian: Option<Guardian>,
    /// The groups that the guardian must know; kept here for a guardian that takes over.
    groups: HashSet<Pid>,
    addresses: AddressBook,
}

struct Guardian {
    process: Child,
    socket: UnixStream,
}

impl Thread {
    fn run(&mut self, orders: &mpsc::Receiver<Order>) {
        while let Ok(order) = orders.recv() {
            match order {
                Order::Spawn(launch, reply) => reply(self.spawn(&launch)),
                Order::Forget(group) => {
                    self.groups.remove(&group);
                    self.tell_guardian('-', group);
                }
                Order::Guard(reply) => {
                    self.end_guardian();
                    // The receiver goes only when the supervisor does.
                    let _ = reply.send(self.start_guardian());
                }
            }
        }
    }

    fn spawn(&mut self, launch: &Launch) -> io::Result<Spawned> {
        let (line, stdin) = self.line(launch.spec.contact)?;
        let (stdout, their_stdout) = pipe_with(PipeFlags::CLOEXEC)?;
        let (stderr, their_stderr) = pipe_with(PipeFlags::CLOEXEC)?;
        let spec = &*launch.spec;
        let mut child = Command::new(&self.executable)
            .arg(LAUNCH)
            .arg(std::process::id().to_string())
            .arg(&spec.directory)
            .args(&spec.command)
            .envs(spec.env.iter().map(|(name, value)| (name, value)))
            .env("KEEPWARM_APP", OsString::from(&*spec.name))
            .env("KEEPWARM_WORKER", launch.number.to_string())
            .envs(line.env())
            .stdin(stdin)
            .stdout(Stdio::from(their_stdout))
            .stderr(Stdio::from(their_stderr))
            .spawn()?;
        // It has not been waited for, so the id is its own.
        let pid = Pid::from_child(&child);
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => {
                self.groups.insert(pid);
                self.tell_guardian('+', pid);
                Ok(Spawned { pid, pidfd, line, stdout, stderr })
            }
            Err(error) => {
                // Without a pidfd nobody would see it end. It has just been started: errors mean that it is gone.
                let _ = child.kill();
                let _ = child.wait();
                Err(error.into())
            }
        }
    }

    /// The way to reach a worker, and what it gets as standard input: its end of the wire, or nothing.
    fn line(&mut self, contact: Contact) -> io::Result<(Line, Stdio)> {
        match contact {
            Contact::Wire => {
                let (wire, theirs) = wire_pair()?;
                rustix::io::ioctl_fionbio(&wire, true)?;
                Ok((Line::Wire(wire), Stdio::from(theirs)))
            }
            Contact::Server => Ok((Line::Server(self.addresses.hand_out()?), Stdio::null())),
        }
    }

    /// An error means that the guardian has died; the one that takes over is told all groups.
    fn tell_guardian(&mut self, sign: char, group: Pid) {
        if let Some(guardian) = &mut self.guardian {
            let _ = guardian.tell(sign, group);
        }
    }

    /// Returns the process of a guardian that guards.
    fn start_guardian(&mut self) -> io::Result<OwnedFd> {
        let (ours, theirs) = wire_pair()?;
        let mut socket = UnixStream::from(ours);
        // In the socket before the guardian is there: it reads them even if this process is killed at once.
        let groups: String = self.groups.iter().map(|&group| guardian_line('+', group)).collect();
        socket.write_all(groups.as_bytes())?;
        let process = Command::new(&self.executable)
            .arg(GUARDIAN)
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
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

    /// Lets the guardian go: its input ends, with the list empty unless workers are still there.
    fn end_guardian(&mut self) {
        let Some(Guardian { mut process, socket }) = self.guardian.take() else { return };
        drop(socket);
        // It is our child and nobody else waits for it; an error leaves nothing to do.
        let _ = process.wait();
    }
}

impl Line {
    fn env(&self) -> Vec<(&'static str, OsString)> {
        match self {
            Self::Wire(_) => Vec::new(),
            Self::Server(addresses) => addresses.env().into(),
        }
    }
}

impl Guardian {
    fn wait_ready(&mut self) -> io::Result<()> {
        self.socket.set_read_timeout(Some(GUARDIAN_BOOT))?;
        let mut byte = [0];
        self.socket.read_exact(&mut byte)?;
        if byte == [READY] { Ok(()) } else { Err(io::Error::other("the guardian speaks nonsense")) }
    }

    fn tell(&mut self, sign: char, group: Pid) -> io::Result<()> {
        self.socket.write_all(guardian_line(sign, group).as_bytes())
    }
}

fn guardian_line(sign: char, group: Pid) -> String {
    format!("{sign}{}\n", group.as_raw_nonzero())
}

fn wire_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?)
}
