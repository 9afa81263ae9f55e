//! The template of an app with `preload`: a process that has loaded the app once and forks its workers (`spec/wire.md` §9).
//!
//! A task manages it: starts it, orders forks, one at a time, and requests the status of workers that have
//! ended, whose parent it is. When it ends, tasks that wait for a worker get the reason; the next order starts another.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use keepwarm_wire::template::{EndStatus, FromTemplate, LINE_MAX, ToTemplate};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recv, sendmsg};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{mpsc, oneshot};

use super::app::WorkerEnd;
use super::output::{BootOutput, Capture, OutputSource};
use super::priority::{self, LowPriority};
use super::running::Context;
use super::spawn::{
    Launch, Program, SpawnedProcess, SpawnerCommand, WorkerConnection, WorkerPipes, spawn_fault,
};
use super::{AppSpec, Exit, reap};

/// How long a template may take to tell a worker's status before that is unknown.
const STATUS: Duration = Duration::from_secs(2);

/// Receives the result of starting a worker.
pub(super) type SpawnReply = Box<dyn FnOnce(Result<SpawnedProcess, WorkerEnd>) + Send>;

/// The template, from outside. It ends when this is dropped.
pub(super) struct Template {
    commands: mpsc::UnboundedSender<TemplateCommand>,
    /// What it prints while it loads.
    pub(super) boot_output: BootOutput,
    /// It was started at a low priority, which its workers have from it.
    pub(super) quiet: bool,
}

/// A command to the template.
enum TemplateCommand {
    Fork { number: u32, reply: SpawnReply },
    Kill,
}

/// Asks the template, whose children the workers are, how one of them has ended.
#[derive(Clone)]
pub(super) struct TemplateReaper(mpsc::UnboundedSender<(Pid, oneshot::Sender<Exit>)>);

impl TemplateReaper {
    /// The status of a worker that has ended; unknown when its template has ended before it.
    pub(super) async fn reap(&self, pid: Pid) -> Exit {
        let (sender, receiver) = oneshot::channel();
        if self.0.send((pid, sender)).is_err() {
            return Exit::Unknown;
        }
        match tokio::time::timeout(STATUS, receiver).await {
            Ok(Ok(exit)) => exit,
            _ => Exit::Unknown,
        }
    }
}

impl Template {
    /// Starts it. `hold`: what it prints while it loads is kept for a failure's report.
    pub(super) fn start(
        spec: &Arc<AppSpec>,
        generation: u64,
        hold: bool,
        quiet: bool,
        context: &Context,
    ) -> Self {
        let boot_output = BootOutput::new(hold);
        let (commands, queue) = mpsc::unbounded_channel();
        let (tx, rx) = oneshot::channel();
        let reply = Box::new(move |result: io::Result<SpawnedProcess>| drop(tx.send(result)));
        // The thread ends only after the last clone of `orders`.
        let launch = Launch {
            program: Program::Worker(Arc::clone(spec)),
            number: 0,
            quiet: quiet.then_some(context.quiet),
        };
        let _ = context.orders.send(SpawnerCommand::Spawn(launch, reply));
        let quiet = quiet.then_some(context.quiet);
        let output = context.output.clone();
        let (orders, started) = (context.orders.clone(), Instant::now());
        let (spec, of_task) = (Arc::clone(spec), boot_output.clone());
        tokio::spawn(async move {
            let spawned = match rx.await {
                Ok(Ok(spawned)) => spawned,
                Ok(Err(error)) => return refuse_all(queue, &WorkerEnd::NotSpawned(spawn_fault(&error))),
                Err(_) => {
                    return refuse_all(queue, &WorkerEnd::NotSpawned("Keepwarm is stopping".to_owned()));
                }
            };
            let pid = spawned.pid.as_raw_nonzero().get().cast_unsigned();
            let source = OutputSource::worker(spec.name.clone(), 0, pid);
            let SpawnedProcess { pid, pidfd, line: WorkerConnection::Wire(wire), pipes, .. } = spawned else {
                return refuse_all(queue, &WorkerEnd::NotSpawned("a server has no template".to_owned()));
            };
            let last_words =
                output.attach(source.clone(), pipes.stdout, pipes.stderr, Capture::Boot(of_task.clone()));
            let (reaps, to_reap) = mpsc::unbounded_channel();
            let keeper = TemplateTask {
                source,
                generation,
                started,
                boot_output: of_task,
                pid,
                pidfd: Arc::new(pidfd),
                orders,
                ready: false,
                quiet,
                in_flight: None,
                reaps: TemplateReaper(reaps),
                awaited: HashMap::new(),
            };
            keeper.run(wire, queue, to_reap, last_words, priority::LONGEST.min(spec.boot_timeout / 2)).await;
        });
        Self { commands, boot_output, quiet: quiet.is_some() }
    }

    /// Has a worker forked as soon as the app is loaded; gives the reply back when the template has ended.
    pub(super) fn fork(&self, number: u32, reply: SpawnReply) -> Result<(), SpawnReply> {
        self.commands.send(TemplateCommand::Fork { number, reply }).map_err(|refused| match refused.0 {
            TemplateCommand::Fork { reply, .. } => reply,
            TemplateCommand::Kill => unreachable!("a fork was sent"),
        })
    }

    /// Ends it at once: a worker that it should long have forked is not wanted any more.
    pub(super) fn kill(&self) {
        // An error: it has ended.
        let _ = self.commands.send(TemplateCommand::Kill);
    }
}

fn refuse_all(mut queue: mpsc::UnboundedReceiver<TemplateCommand>, end: &WorkerEnd) {
    queue.close();
    while let Ok(ask) = queue.try_recv() {
        if let TemplateCommand::Fork { reply, .. } = ask {
            reply(Err(end.clone()));
        }
    }
}

/// The template, from inside its task.
struct TemplateTask {
    source: OutputSource,
    generation: u64,
    started: Instant,
    boot_output: BootOutput,
    pid: Pid,
    pidfd: Arc<OwnedFd>,
    orders: mpsc::UnboundedSender<SpawnerCommand>,
    ready: bool,
    /// It has a low priority until it is ready.
    quiet: Option<LowPriority>,
    /// The worker that is being forked, with Keepwarm's ends of what it gets.
    in_flight: Option<PendingFork>,
    reaps: TemplateReaper,
    awaited: HashMap<u32, oneshot::Sender<Exit>>,
}

/// The worker that is being forked, with Keepwarm's ends of its descriptors.
struct PendingFork {
    wire: OwnedFd,
    pipes: WorkerPipes,
    reply: SpawnReply,
}

impl TemplateTask {
    async fn run(
        mut self,
        socket: OwnedFd,
        mut queue: mpsc::UnboundedReceiver<TemplateCommand>,
        mut to_reap: mpsc::UnboundedReceiver<(Pid, oneshot::Sender<Exit>)>,
        last_words: oneshot::Receiver<()>,
        long: Duration,
    ) {
        let mut long = Box::pin(tokio::time::sleep(long));
        let spares = AtomicBool::new(false);
        let mut ended =
            Box::pin(reap::reap(self.pid, Arc::clone(&self.pidfd), self.orders.downgrade(), None, &spares));
        let Ok(mut socket) = TemplateSocket::new(socket) else {
            reap::send_signal(self.pid, &self.pidfd, Signal::KILL);
            return refuse_all(queue, &WorkerEnd::Exited(ended.await));
        };
        let mut waiting = VecDeque::new();
        let exit = loop {
            tokio::select! {
                exit = &mut ended => break exit,
                () = &mut long, if self.quiet.is_some() => self.end_quiet(),
                line = socket.next() => if let Err(error) = line.and_then(|line| self.handle(line)) {
                    tracing::error!(
                        name: "template_killed", target: "keepwarm::supervisor",
                        app = %self.source.name, pid = self.source.pid, "killing the template: {error}"
                    );
                    reap::send_signal(self.pid, &self.pidfd, Signal::KILL);
                    break (&mut ended).await;
                },
                ask = queue.recv() => match ask {
                    Some(TemplateCommand::Fork { number, reply }) => waiting.push_back((number, reply)),
                    // Nobody wants it any more.
                    Some(TemplateCommand::Kill) | None => {
                        reap::send_signal(self.pid, &self.pidfd, Signal::KILL);
                        break (&mut ended).await;
                    }
                },
                Some((pid, reply)) = to_reap.recv() => {
                    let pid = pid.as_raw_nonzero().get().cast_unsigned();
                    self.awaited.insert(pid, reply);
                    // An error: it has ended, which is learnt in the next turn.
                    let _ = socket.send(&ToTemplate::Reap { pid }.encode(), &[]);
                }
            }
            if self.ready {
                self.end_quiet();
            }
            while self.ready
                && self.in_flight.is_none()
                && let Some((number, reply)) = waiting.pop_front()
            {
                self.fork(number, reply, &socket);
            }
        };
        self.finish(exit, waiting, queue, last_words).await;
    }

    fn end_quiet(&mut self) {
        if let Some(quiet) = self.quiet.take() {
            // Workers are sessions of their own, and given their priority when they are ready: what is left here does not touch them.
            let _ = quiet.end(self.source.pid);
        }
    }

    async fn finish(
        self,
        exit: Exit,
        waiting: VecDeque<(u32, SpawnReply)>,
        mut queue: mpsc::UnboundedReceiver<TemplateCommand>,
        last_words: oneshot::Receiver<()>,
    ) {
        // Closed first: from now on the next order starts another template.
        queue.close();
        // Why it ended stands in what it printed last.
        let _ = tokio::time::timeout(super::running::LAST_WORDS, last_words).await;
        if self.ready && !queue.is_empty() | !waiting.is_empty() {
            tracing::warn!(
                name: "template_lost",
                target: "keepwarm::supervisor", app = %self.source.name, "the template {exit}"
            );
        }
        let end = WorkerEnd::Exited(exit);
        if let Some(PendingFork { reply, .. }) = self.in_flight {
            reply(Err(end.clone()));
        }
        for (_, reply) in waiting {
            reply(Err(end.clone()));
        }
        refuse_all(queue, &end);
        self.boot_output.release(&self.source);
    }

    fn handle(&mut self, message: FromTemplate) -> io::Result<()> {
        match message {
            FromTemplate::Ready => {
                self.ready = true;
                self.boot_output.finish_boot(&self.source);
                let took = self.started.elapsed().as_millis();
                tracing::info!(
                    name: "template_ready", target: "keepwarm::supervisor",
                    app = %self.source.name, pid = self.source.pid, generation = self.generation,
                    boot_ms = took,
                    "template ready: the app is loaded, workers fork from it"
                );
            }
            FromTemplate::Forked { pid } => {
                let PendingFork { wire, pipes, reply } =
                    self.in_flight.take().ok_or_else(|| nonsense("a worker that was not requested"))?;
                let pid = i32::try_from(pid)
                    .ok()
                    .and_then(Pid::from_raw)
                    .ok_or_else(|| nonsense("an invalid process id"))?;
                // The id is the worker's own until the template is told to take its status.
                reply(match pidfd_open(pid, PidfdFlags::empty()) {
                    Ok(pidfd) => {
                        // An error: the thread has ended, and everything with it.
                        let _ = self.orders.send(SpawnerCommand::Remember(pid));
                        Ok(SpawnedProcess {
                            pid,
                            pidfd,
                            line: WorkerConnection::Wire(wire),
                            pipes,
                            parent: Some(self.reaps.clone()),
                        })
                    }
                    Err(error) => Err(WorkerEnd::NotSpawned(format!("the forked worker is gone: {error}"))),
                });
            }
            FromTemplate::Refused(reason) => {
                let PendingFork { reply, .. } =
                    self.in_flight.take().ok_or_else(|| nonsense("a refusal without a request"))?;
                reply(Err(WorkerEnd::NotSpawned(reason)));
            }
            FromTemplate::Ended { pid, status } => {
                if let Some(reply) = self.awaited.remove(&pid) {
                    // An error: the status came too late.
                    let _ = reply.send(match status {
                        EndStatus::Exited(code) => Exit::Status(code),
                        EndStatus::Signalled { number, core_dumped } => Exit::Signal { number, core_dumped },
                    });
                }
            }
        }
        Ok(())
    }

    fn fork(&mut self, number: u32, reply: SpawnReply, socket: &TemplateSocket) {
        let made = super::spawn::worker_ends().and_then(|(ours, theirs)| {
            let descriptors = [theirs.wire.as_fd(), theirs.stdout.as_fd(), theirs.stderr.as_fd()];
            socket.send(&ToTemplate::Fork { number }.encode(), &descriptors)?;
            Ok(ours)
        });
        match made {
            Ok((wire, pipes)) => self.in_flight = Some(PendingFork { wire, pipes, reply }),
            Err(error) => {
                reply(Err(WorkerEnd::NotSpawned(format!("cannot tell the template to fork: {error}"))))
            }
        }
    }
}

fn nonsense(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("it sent an unexpected message: {what}"))
}

/// The socket to the template.
struct TemplateSocket {
    socket: AsyncFd<OwnedFd>,
    bytes: Vec<u8>,
    ended: bool,
}

impl TemplateSocket {
    fn new(socket: OwnedFd) -> io::Result<Self> {
        Ok(Self {
            #[expect(
                deprecated,
                reason = "unsound only for types that lie about their descriptor; an `OwnedFd` does not, and the alternative is unsafe"
            )]
            socket: AsyncFd::try_with_interest(socket, Interest::READABLE).map_err(io::Error::from)?,
            bytes: Vec::new(),
            ended: false,
        })
    }

    /// The next line. After the end of the socket it waits for ever: the end of the process tells the rest.
    async fn next(&mut self) -> io::Result<FromTemplate> {
        loop {
            let decoded = FromTemplate::decode(&self.bytes);
            if let Some((message, length)) =
                decoded.map_err(|fault| io::Error::new(io::ErrorKind::InvalidData, fault))?
            {
                self.bytes.drain(..length);
                return Ok(message);
            }
            if self.ended {
                return std::future::pending().await;
            }
            let mut guard = self.socket.readable().await?;
            let mut read = [0; LINE_MAX];
            match recv(guard.get_inner(), &mut read, RecvFlags::empty()) {
                Ok((0, _)) | Err(Errno::CONNRESET) => self.ended = true,
                Ok((got, _)) => self.bytes.extend_from_slice(read.get(..got).unwrap_or_default()),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => guard.clear_ready(),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// A line and its descriptors, in one message: far less than the socket's buffer holds.
    fn send(&self, line: &str, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(io::Error::other("no room for the descriptors"));
        }
        let slices = [io::IoSlice::new(line.as_bytes())];
        let sent = sendmsg(self.socket.get_ref(), &slices, &mut ancillary, SendFlags::NOSIGNAL)?;
        if sent == line.len() { Ok(()) } else { Err(io::Error::other("its socket is full")) }
    }
}
