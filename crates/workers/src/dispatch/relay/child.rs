//! The processes that a server manages itself, php-fpm's children: which one is at the other end of a connection, and how one of them is stopped.
//!
//! php-fpm's own limits (`pm.max_requests`, `request_terminate_timeout`) suit a server in front of it that connects for each request: on a persistent connection they count a
//! process's idle time as that of its next request, and stop the process while a request may be on its way. So the master starts processes, and Keepwarm decides which one stops.
//!
//! A connection belongs to one process for as long as it is open. Before its first request the process is pinged, and the kernel names the sender of the
//! response ([`Io::poll_sender`](keepwarm_net::Io::poll_sender)). A process that should leave gets SIGQUIT once it has no request, and its connection is closed: it exits
//! cleanly, and the master starts another.
//!
//! Nothing announces work after a response (`fastcgi_finish_request()`). But PHP leaves the empty record that ends a request's body in the socket until it is ready for the
//! next request: as long as that record is unread, the process is at work ([`Client::unread`](keepwarm_net::Client::unread)).

use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use keepwarm_net::{AcquireError, Client, ConnectionNeed, Lease};
use keepwarm_policy::Jitter;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::time::{Instant, timeout};

use super::super::activity::RequestSummary;
use super::super::app::App;
use super::super::fastcgi::FastCgi;
use super::server::Server;
use super::{Relay, ServerConnection, lock, none, reach_end};

/// How the processes of a server that keeps its own are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChildPolicy {
    /// A process is replaced after that number of requests.
    pub max_requests: Option<u64>,
    /// And after so long.
    pub max_age: Option<Duration>,
    /// One that has had no request for so long is let go: whether it ends is the server's choice. `None`: as any connection.
    pub idle: Option<Duration>,
}

/// One process.
#[derive(Debug)]
pub(in crate::dispatch) struct Child {
    pub(super) pid: u32,
    process: OwnedFd,
    /// Its own, a little lower than those of the configuration.
    max_requests: Option<u64>,
    ends_at: Option<Instant>,
    state: Mutex<ChildState>,
}

#[derive(Debug, Default)]
struct ChildState {
    requests: u64,
    /// It has a request, or works after a response.
    at_work: bool,
    /// It takes no request any more.
    leaving: bool,
    /// It is killed for the memory that it holds.
    took_memory: bool,
}

/// Ties a connection to its process for as long as it is open.
#[derive(Debug)]
pub(in crate::dispatch) struct ChildGuard(Arc<Child>);

/// So often a process is looked for that does not end before it has said who it is.
const TRIES: u32 = 4;
/// How long a process that has lost its connection may take to be seen as dead.
const DYING: Duration = Duration::from_millis(500);
/// So often it is looked after.
const LOOK: Duration = Duration::from_millis(5);

impl Child {
    fn new(pid: u32, policy: ChildPolicy) -> io::Result<Arc<Self>> {
        let id = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::NotFound)?;
        let process = pidfd_open(id, PidfdFlags::empty())?;
        // As good as random: no two processes of a pool have the same.
        let mut jitter = Jitter::new(u64::from(pid));
        Ok(Arc::new(Self {
            pid,
            process,
            max_requests: policy.max_requests.map(|most| jitter.lower(most)),
            ends_at: policy.max_age.and_then(|age| Instant::now().checked_add(jitter.lower_duration(age))),
            state: Mutex::default(),
        }))
    }

    /// Gives it a request. `false`: it takes none any more.
    fn take(&self) -> bool {
        let mut state = self.lock();
        state.at_work = !state.leaving;
        state.at_work
    }

    /// It has done its request, and all behind it.
    pub(super) fn give_back(&self) {
        let mut state = self.lock();
        state.at_work = false;
        state.requests += 1;
        let due = self.max_requests.is_some_and(|most| state.requests >= most)
            || self.ends_at.is_some_and(|at| Instant::now() >= at);
        state.leaving |= due;
        if state.leaving {
            // Its connection is closed after this (`ChildGuard::keeps`), and then it ends.
            self.signal(Signal::QUIT);
        }
    }

    /// Has it end once it has nothing to do. `true`: that is so, and it ends when its connection is closed.
    fn retire(&self) -> bool {
        let mut state = self.lock();
        state.leaving = true;
        if !state.at_work {
            self.signal(Signal::QUIT);
        }
        !state.at_work
    }

    /// Ends it, whatever it does.
    pub(super) fn kill(&self) {
        self.lock().leaving = true;
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        // An error: it has ended.
        let _ = pidfd_send_signal(&self.process, signal);
    }

    fn has_ended(&self) -> bool {
        let mut poll = [PollFd::new(&self.process, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut poll, Some(&now)).is_ok_and(|ready| ready > 0)
    }

    /// It is killed for that: perhaps because of what it was asked.
    pub(super) fn took_memory(&self) -> bool {
        self.lock().took_memory
    }

    fn lock(&self) -> MutexGuard<'_, ChildState> {
        lock(&self.state)
    }
}

impl ChildGuard {
    pub(super) fn child(&self) -> &Arc<Child> {
        &self.0
    }

    /// Whether the connection may carry another request.
    pub(in crate::dispatch) fn keeps(&self) -> bool {
        !self.0.lock().leaving
    }
}

impl Drop for ChildGuard {
    fn drop(&mut self) {
        self.0.lock().at_work = false;
    }
}

impl Server {
    /// The process of this id, which has just shown itself.
    fn child(&self, pid: u32, policy: ChildPolicy) -> io::Result<Arc<Child>> {
        let mut children = lock(&self.children);
        children.retain(|_, child| !child.has_ended());
        if let Some(child) = children.get(&pid) {
            return Ok(Arc::clone(child));
        }
        let child = Child::new(pid, policy)?;
        children.insert(pid, Arc::clone(&child));
        Ok(child)
    }

    /// Has one of its processes end, at once or (`gently`) after what it does. `false`: it is not known, or was told so.
    pub(super) fn end_child(&self, pid: u32, gently: bool, app: Option<&Arc<App>>) -> bool {
        let child = lock(&self.children).get(&pid).filter(|child| !child.has_ended()).cloned();
        let Some(child) = child else { return false };
        let is_new = match gently {
            true => !child.lock().leaving,
            false => !std::mem::replace(&mut child.lock().took_memory, true),
        };
        if !gently {
            child.kill();
        } else if child.retire() {
            // Which of the idle connections is its own, the pool does not know; the others' processes get new ones.
            self.forget(app);
        }
        is_new
    }
}

impl Relay<'_, '_, FastCgi> {
    /// A connection to this server; where that keeps processes of its own, to one of them that takes requests.
    pub(in crate::dispatch) async fn connect(
        &self,
        server: &Server,
        need: ConnectionNeed,
    ) -> Result<Lease<FastCgi>, AcquireError> {
        let (pool, endpoint) = (&self.app.servers.fastcgi, &server.endpoint);
        let Some(policy) = server.child_policy() else { return pool.acquire(endpoint, need).await };
        let mut failure = None;
        // Each that leaves is met at most once: there are no more than places.
        let most = self.app.policy().kind.server().map_or(1, |server| server.concurrency);
        for _ in 0..u32::try_from(most).unwrap_or(u32::MAX).saturating_add(TRIES) {
            let mut lease = pool.acquire(endpoint, need).await?;
            if lease.child_guard().is_none() {
                let meeting = Box::pin(meet(&mut lease, server, policy));
                match timeout(self.request_timeout(), meeting).await {
                    Ok(Ok(line)) => lease.codec().child_guard = Some(line),
                    Ok(Err(error)) => {
                        failure = Some(error);
                        continue;
                    }
                    Err(_) => return Err(AcquireError::Timeout),
                }
            }
            match lease.child_guard() {
                Some(line) if !line.child().take() => {
                    // One that was told so while it was between two connections is told again.
                    line.child().retire();
                }
                _ => return Ok(lease),
            }
        }
        Err(AcquireError::Connect(failure.unwrap_or_else(|| io::ErrorKind::ConnectionReset.into())))
    }
}

/// Enables or disables the sender's process id on what comes from the other end.
fn name_senders(client: &Client<FastCgi>, wanted: bool) -> io::Result<()> {
    client.transport().io().map_or(Ok(()), |io| io.name_senders(wanted))
}

/// Has the process at the other end show itself.
async fn meet(lease: &mut Lease<FastCgi>, server: &Server, policy: ChildPolicy) -> io::Result<ChildGuard> {
    let client: &mut Client<FastCgi> = lease;
    name_senders(client, true)?;
    client.begin(|codec, out| codec.ping(out));
    client.end(&none());
    let pid = poll_fn(|cx| {
        let _ = client.poll_flush(cx);
        client.poll_sender(cx)
    })
    .await?
    .ok_or(io::ErrorKind::UnexpectedEof)?;
    name_senders(client, false)?;
    reach_end(client).await.map_err(|error| io::Error::other(error.to_string()))?;
    match client.is_reusable() {
        true => Ok(ChildGuard(server.child(pid, policy)?)),
        false => Err(io::ErrorKind::ConnectionReset.into()),
    }
}

/// A request was lost with its connection: if that was the end of its process, the request may be to blame.
pub(super) fn blame_if_dead(child: Arc<Child>, app: Arc<App>, summary: RequestSummary) {
    drop(keepwarm_net::spawn_local(async move {
        let dies = async {
            while !child.has_ended() {
                tokio::time::sleep(LOOK).await;
            }
        };
        if timeout(DYING, dies).await.is_ok() {
            app.handle_death(&[summary]);
        }
    }));
}
