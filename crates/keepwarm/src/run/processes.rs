//! Processes that serve no requests, as the serving process starts, reloads, hands over and stops them.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use keepwarm_egress::Upstream;
use keepwarm_workers::supervisor::{Dependency, ProcessSpec, Supervisor, TaskFailure, TaskSpec};
use tokio::io::Interest;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::handover::{self, HandoverMessage};
use super::server::Server;
use super::takeover::Takeover;
use crate::assemble;

/// Between two looks at an upstream that processes wait for.
const LOOK: Duration = Duration::from_millis(250);
/// How long a connection to one of its endpoints may take.
const CONNECT: Duration = Duration::from_secs(2);

/// Runs commands one after the other.
///
/// # Errors
/// The first that failed.
pub(super) async fn run_before(supervisor: &Supervisor, tasks: Vec<TaskSpec>) -> Result<(), TaskFailure> {
    for task in tasks {
        supervisor.run_task(task).await?;
    }
    Ok(())
}

/// How long these may take at most.
pub(super) fn longest(config: &keepwarm_config::Config) -> Duration {
    let of_apps = config.apps.iter().map(|app| (app.before_start.len(), app.before_start_timeout));
    let of_processes = config.processes.iter().map(|one| (one.before_start.len(), one.before_start_timeout));
    let times = of_apps
        .chain(of_processes)
        .map(|(count, time)| time.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX)));
    times.fold(Duration::ZERO, Duration::saturating_add)
}

impl Server {
    /// Starts the processes of the configuration; of those that run in the process before, each when that one has stopped it.
    pub(super) fn begin_processes(&mut self, specs: Vec<ProcessSpec>, takeover: Option<&Takeover>) {
        let held: BTreeSet<Arc<str>> = takeover
            .map(|takeover| takeover.rest.processes.iter().map(|name| Arc::from(name.as_str())).collect())
            .unwrap_or_default();
        self.supervisor.begin_processes(specs, held);
        if let Some(takeover) = takeover {
            let supervisor = self.supervisor.clone();
            let socket = takeover.try_clone();
            tokio::spawn(async move {
                if let Ok(socket) = socket {
                    receive_ended(&socket, &supervisor).await;
                }
                supervisor.release_processes(None);
            });
        }
        self.watch_dependencies();
    }

    /// Reports what processes come after and the supervisor does not know: upstreams, and apps that run by themselves.
    pub(super) fn watch_dependencies(&mut self) {
        // Those of the configuration before end with this.
        self.dependencies = JoinSet::new();
        for app in self.config.apps.iter().filter(|app| app.address.is_some()) {
            self.supervisor.set_ready(Dependency::App(app.name.as_str().into()));
        }
        let names: BTreeSet<&str> = assemble::dependencies(&self.config).collect();
        for upstream in self.upstreams.all().into_iter().filter(|upstream| names.contains(&**upstream.name()))
        {
            let supervisor = self.supervisor.clone();
            self.dependencies.spawn(async move {
                let name = Arc::clone(upstream.name());
                let upstream = Arc::downgrade(&upstream);
                // One that is gone is waited for by nobody.
                while let Some(it) = upstream.upgrade() {
                    if is_ready(&it).await {
                        return supervisor.set_ready(Dependency::Upstream(name));
                    }
                    drop(it);
                    tokio::time::sleep(LOOK).await;
                }
            });
        }
    }

    /// Gives the order to stop all processes. The successor, if there is one, learns of each when it has ended.
    pub(super) fn stop_processes(&mut self, grace: Duration) -> impl Future<Output = ()> + use<> {
        let ended = self.successor.take().map(|successor| {
            let (ended, mut names) = mpsc::unbounded_channel::<Arc<str>>();
            tokio::spawn(async move {
                while let Some(name) = names.recv().await {
                    let say = HandoverMessage::Ended { process: name.to_string() };
                    // An error: it has ended since.
                    let _ = handover::send(successor.socket(), &say, &[]);
                }
            });
            ended
        });
        self.supervisor.stop_processes(grace, ended)
    }
}

/// An endpoint that health checks do not rule out accepts connections.
async fn is_ready(upstream: &Upstream) -> bool {
    let set = upstream.endpoints();
    for entry in set.endpoints.iter().filter(|entry| entry.state.is_healthy()) {
        let connected = tokio::time::timeout(CONNECT, entry.endpoint.server().connect()).await;
        if matches!(connected, Ok(Ok(_))) {
            return true;
        }
    }
    false
}

/// Releases each process that the one before has stopped, until that one has ended.
async fn receive_ended(socket: &OwnedFd, supervisor: &Supervisor) {
    while let Ok(Some(HandoverMessage::Ended { process })) = receive(socket).await {
        supervisor.release_processes(Some(process.into()));
    }
}

async fn receive(socket: &OwnedFd) -> io::Result<Option<HandoverMessage>> {
    // Each watch reports again what is there to read.
    let watched = keepwarm_net::watch(socket.try_clone()?, Interest::READABLE).map_err(|(_, error)| error)?;
    let _ = watched.readable().await?;
    Ok(handover::receive(socket)?.map(|(say, _)| say))
}
