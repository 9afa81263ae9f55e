//! A serving process: what it consists of, what it does at each signal, its end.

use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use keepwarm_config::{App, AppKind, Config};
use keepwarm_net::{DataPlane, Remote};
use keepwarm_telemetry::panics::{self, abort_on_panic};
use keepwarm_workers::dispatch::Links;
use keepwarm_workers::supervisor::{StartFailure, Supervisor, TaskFailure};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::ConfigSource;
use super::connection_limit;
use super::drain::ShutdownMode;
use super::handover::HandoverRest;
use super::inherited::InheritedSockets;
use super::listeners::Listeners;
use super::pid_file::{PidFile, PreparedPidFile};
use super::signals::{self, Signals, StopSignals};
use super::takeover::Takeover;
use super::upgrade::{self, Successor};
use super::watchdog::{self, Watchdog};
use crate::admin::Admin;
use crate::assemble::DoorVariables;
use crate::control::{self, ControlRequest, ControlSocket};
use crate::leaks::LeakWatch;
use crate::otlp::Otlp;
use crate::readiness::Readiness;
use crate::restart::RestartError;
use crate::service_manager::ServiceManager;
use crate::status::view::{ServedConfig, View};
use crate::upstreams::Upstreams;
use crate::watch::{self, Watch};
use crate::{assemble, complain, exit, subjects};
use crate::{endpoint, maintenance};

/// Serves until a signal ends it. With a `takeover` this process is to take the place of another.
pub(super) fn serve(
    source: ConfigSource,
    config: Config,
    takeover: Option<Takeover>,
    inherited: InheritedSockets,
) -> ExitCode {
    let failed = |message: &str| {
        complain(message);
        if let Some(takeover) = &takeover {
            takeover.fail(message);
        }
        ExitCode::from(exit::FAILED)
    };
    let logging = match assemble::start_logging(&config) {
        Ok(logging) => logging,
        Err(message) => return failed(&message),
    };
    panics::install();
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = keepwarm_net::keep_blocking_threads(&mut runtime).enable_all().build();
    let status = match runtime {
        // Without the thread that receives signals and decides, nothing would end the process in order any more.
        Ok(runtime) => match abort_on_panic("the control thread", || {
            runtime.block_on(async {
                keepwarm_net::start_blocking_thread();
                run(source, config, takeover.as_ref(), inherited).await
            })
        }) {
            Ok(status) => status,
            Err(StartError::Message(message)) => failed(&message),
            Err(StartError::Before(failure)) => {
                // A closed standard error does not matter.
                let _ = std::io::stderr().lock().write_all(&failure.output);
                failed(&failure.to_string())
            }
            Err(StartError::App(failure)) => {
                let _ = failure.write_to(&mut std::io::stderr().lock());
                if let Some(takeover) = &takeover {
                    takeover.fail(&failure.to_string());
                }
                ExitCode::from(exit::FAILED)
            }
        },
        Err(error) => failed(&format!("cannot start the event loop of the control thread: {error}")),
    };
    logging.finish();
    status
}

async fn run(
    source: ConfigSource,
    config: Config,
    takeover: Option<&Takeover>,
    inherited: InheritedSockets,
) -> Result<ExitCode, StartError> {
    // Before anything is started: a signal during the start ends it too.
    let mut signals =
        Signals::new().map_err(|error| StartError::Message(format!("cannot receive signals: {error}")))?;
    let plane = DataPlane::start(threads(&config))
        .map_err(|error| StartError::Message(format!("cannot start a data-plane thread: {error}")))?;
    let result = match Server::start(source, config, &plane, inherited, takeover, &mut signals).await {
        Ok(Some(mut server)) => Ok(server.until_end(&mut signals).await),
        Ok(None) => Ok(ExitCode::SUCCESS),
        Err(failure) => Err(failure),
    };
    plane.stop();
    result
}

/// As configured, or one for every two cores: the apps need the others.
fn threads(config: &Config) -> usize {
    let half = || std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).max(1));
    config.server.threads.map_or_else(half, |threads| threads as usize)
}

/// Why a start failed.
pub(super) enum StartError {
    Message(String),
    App(StartFailure),
    Before(TaskFailure),
}

impl From<TaskFailure> for StartError {
    fn from(failure: TaskFailure) -> Self {
        Self::Before(failure)
    }
}

impl From<String> for StartError {
    fn from(message: String) -> Self {
        Self::Message(message)
    }
}

/// Everything that serves.
pub(super) struct Server {
    pub(super) source: ConfigSource,
    pub(super) config: Config,
    pub(super) links: Arc<Links>,
    pub(super) upstreams: Upstreams,
    pub(super) otlp: Otlp,
    /// The variables for workers about doors.
    pub(super) door_variables: DoorVariables,
    pub(super) listeners: Listeners,
    pub(super) supervisor: Supervisor,
    pub(super) watch: Option<Watch>,
    /// Of apps with `leaks = true`.
    pub(super) leak_watch: LeakWatch,
    pub(super) watchdog: Watchdog,
    /// It exits because of its own fault, with a status that shows it.
    pub(super) is_broken: bool,
    pub(super) pid_file: Option<PidFile>,
    pub(super) readiness: Readiness,
    pub(super) view: Arc<View>,
    pub(super) admin: Admin,
    pub(super) service_manager: ServiceManager,
    /// Closed as soon as another process has taken over: requests to the service then go to that one.
    pub(super) control_socket: Option<ControlSocket>,
    /// The process that has taken over, until the processes are stopped.
    pub(super) successor: Option<Successor>,
    /// What waits for upstreams that processes come after.
    pub(super) dependencies: JoinSet<()>,
    /// Of the control socket and of the admin listener.
    pub(super) requests: mpsc::UnboundedReceiver<ControlRequest>,
    pub(super) requester: mpsc::UnboundedSender<ControlRequest>,
    /// The generations of workers before this one are over.
    pub(super) over: mpsc::UnboundedReceiver<u64>,
    pub(super) over_news: mpsc::UnboundedSender<u64>,
}

/// A command to the serving process.
enum ServerCommand {
    /// SIGHUP.
    Reload,
    Request(ControlRequest),
    /// Source files of these apps have changed.
    Recycle(Vec<String>),
    Upgrade,
    /// A data-plane thread does not turn: this process should be replaced.
    LeaveBehind(usize),
}

impl Server {
    pub(super) fn open_control_socket(&mut self) {
        match control::listen(self.source.identity(), self.requester.clone(), Arc::clone(&self.view)) {
            Ok(socket) => self.control_socket = Some(socket),
            Err(error) => {
                tracing::warn!(
                    name: "control_socket_failed",
                    %error, "`keepwarm reload` cannot find this process; use SIGHUP"
                );
            }
        }
    }

    /// Files that would outlive this process if it were killed.
    pub(super) fn files(&self) -> Vec<std::path::PathBuf> {
        let pid_file = self.pid_file.as_ref().map(|file| file.path().to_path_buf());
        self.listeners.files().into_iter().chain(self.admin.files()).chain(pid_file).collect()
    }

    /// Makes the guardian remove the files that would be left when this process is killed.
    pub(super) fn guard_files(&self) {
        self.files().iter().for_each(|file| self.supervisor.guard_file(&absolute(file)));
    }

    /// Does what can fail of writing the pid file. From here on no moment is left in which it would outlive a process that is killed.
    pub(super) async fn prepare_pid_file(&self, path: &Path) -> Result<PreparedPidFile, String> {
        let files = PidFile::files(path).map(|file| absolute(&file));
        self.supervisor.expect_files(files.to_vec()).await;
        let prepared = PidFile::prepare(path);
        if prepared.is_err() {
            files.iter().for_each(|file| self.supervisor.forget_file(file));
        }
        prepared
    }

    pub(super) fn put_pid_file(&self, prepared: PreparedPidFile) -> Result<PidFile, String> {
        let [path, beside] = PidFile::files(prepared.path()).map(|file| absolute(&file));
        let put = prepared.put();
        match put.is_ok() {
            true => self.supervisor.guard_file(&path),
            false => self.supervisor.forget_file(&path),
        }
        self.supervisor.forget_file(&beside);
        put
    }

    /// Writes it once more: a process that was to take over may have left its own id.
    async fn restore_pid_file(&self) {
        let Some(file) = self.pid_file.as_ref().filter(|file| !file.is_ours()) else { return };
        let prepared = self.prepare_pid_file(file.path()).await;
        if let Err(message) = prepared.and_then(|prepared| self.put_pid_file(prepared)) {
            tracing::warn!(name: "pid_file_failed", "{message}");
        }
    }

    fn forget_files(&self) {
        self.files().iter().for_each(|file| self.supervisor.forget_file(&absolute(file)));
    }

    /// Updates what `status` and the metrics show.
    pub(super) fn show(&self) {
        let listeners = self.listeners.by_name(&self.config);
        self.view.set_served(ServedConfig {
            apps: shown_apps(&self.config),
            subjects: subjects::of(&self.config, &listeners, &self.listeners.doors(&self.config)),
            listeners,
            connections: connection_limit::derive(&self.config),
            upstreams: self.upstreams.all(),
            certificates: self.listeners.tls.all(),
            authority: self.listeners.tls.authority.names(),
        });
    }

    async fn until_end(&mut self, signals: &mut Signals) -> ExitCode {
        loop {
            let work = tokio::select! {
                mode = signals.stop_signals.next() => return self.leave(&mut signals.stop_signals, mode).await,
                thread = self.watchdog.given_up() => ServerCommand::LeaveBehind(thread),
                _ = signals.hangup.recv() => ServerCommand::Reload,
                _ = signals.upgrade.recv() => ServerCommand::Upgrade,
                _ = signals.more.recv() => {
                    self.supervisor.shift_workers(1);
                    continue;
                }
                _ = signals.fewer.recv() => {
                    self.supervisor.shift_workers(-1);
                    continue;
                }
                Some(generation) = self.over.recv() => {
                    self.listeners.end_left(generation);
                    continue;
                }
                Some(request) = self.requests.recv() => ServerCommand::Request(request),
                apps = watch::changed(&mut self.watch) => ServerCommand::Recycle(apps),
            };
            // Long work is given up for the end: a worker that does not boot must not hold it up.
            let mode = tokio::select! {
                mode = signals.stop_signals.next() => Some(mode),
                mode = self.perform(work) => mode,
            };
            if let Some(mode) = mode {
                if let ShutdownMode::HandedOver { successor, .. } = mode {
                    self.pass_on_reloads(signals, successor);
                }
                return self.leave(&mut signals.stop_signals, mode).await;
            }
        }
    }

    /// Stops serving, within the grace even where a thread that does not turn holds what the end waits for.
    async fn leave(&mut self, stop_signals: &mut StopSignals, mode: ShutdownMode) -> ExitCode {
        let grace = self.config.server.shutdown_grace;
        if self.view.remotes.iter().any(Remote::is_stuck) {
            watchdog::end_within(grace + HELD_UP);
        }
        let status = self.stop(stop_signals, mode).await;
        let _ = tokio::time::timeout(grace, self.watchdog.reported()).await;
        if self.is_broken { ExitCode::from(exit::FAILED) } else { status }
    }

    /// `Some`: this process is to end.
    async fn perform(&mut self, work: ServerCommand) -> Option<ShutdownMode> {
        match work {
            ServerCommand::Reload => drop(self.reload().await),
            // Somebody who does not wait any more.
            ServerCommand::Request(ControlRequest::Reload(reply)) => drop(reply.send(self.reload().await)),
            ServerCommand::Request(ControlRequest::Restart(names, reply)) => {
                drop(reply.send(self.restart(&names).await));
            }
            ServerCommand::Recycle(apps) => self.recycle(&apps).await,
            ServerCommand::Upgrade => return self.upgrade().await,
            ServerCommand::LeaveBehind(thread) => return self.leave_behind(thread).await,
        }
        None
    }

    async fn upgrade(&mut self) -> Option<ShutdownMode> {
        self.service_manager.status("upgrading");
        let scaled = self.supervisor.snapshot().await.apps.into_iter().filter(|app| app.scaling.is_some());
        let sizes = scaled.map(|app| (app.app.to_string(), app.target)).collect();
        let rest = HandoverRest {
            sizes,
            tickets: self.listeners.tls.ticket_secrets(),
            maintenance: maintenance::saved(),
            drained: endpoint::saved(&self.upstreams.all()),
            processes: self.supervisor.processes().await.iter().map(|set| set.name.to_string()).collect(),
        };
        match upgrade::upgrade(&self.listeners, &self.admin, &self.config, rest).await {
            Ok(successor) => {
                let histories = match successor.reads_histories {
                    true => self.view.diagnosis.bequeath().await,
                    false => None,
                };
                Some(self.hand_over(successor, histories))
            }
            Err(message) => {
                tracing::error!(
                    name: "upgrade_failed",
                    "upgrade failed; this process keeps serving: {message}"
                );
                self.restore_pid_file().await;
                self.service_manager.status("serving");
                None
            }
        }
    }

    /// Makes a fresh process of itself take over, since a thread of this one is lost.
    async fn leave_behind(&mut self, thread: usize) -> Option<ShutdownMode> {
        let thread = watchdog::name(thread);
        if std::process::id() == 1 {
            tracing::error!(
                name: "thread_stuck",
                thread,
                "stuck thread does not respond again, and process 1 cannot be replaced; the other threads finish their requests, then \
                Keepwarm exits with status 1 to be restarted"
            );
            self.is_broken = true;
            return Some(ShutdownMode::Graceful);
        }
        tracing::error!(
            name: "thread_stuck",
            thread,
            "stuck thread does not respond again; a new process takes over, as for SIGUSR2"
        );
        self.upgrade().await
    }

    fn hand_over(&mut self, successor: Successor, histories: Option<OwnedFd>) -> ShutdownMode {
        tracing::info!(
            name: "upgraded",
            pid = successor.pid, "upgraded: the new process serves, this one drains"
        );
        self.service_manager.main_process(successor.pid);
        self.forget_files();
        self.control_socket = None;
        self.listeners.tls.authority.stop();
        self.admin.hand_over(&successor.taken);
        successor.go(histories);
        let mode = ShutdownMode::HandedOver { taken: successor.taken.clone(), successor: successor.pid };
        self.successor = Some(successor);
        mode
    }

    /// A reload that was requested during the upgrade, or is requested of this process from now on, is the successor's.
    fn pass_on_reloads(&mut self, signals: &mut Signals, successor: u32) {
        let mut asked = signals.pass_on_hangups(successor);
        while let Ok(request) = self.requests.try_recv() {
            let upgraded = format!("an upgrade was in progress: process {successor} serves now");
            match request {
                ControlRequest::Reload(reply) => {
                    asked = true;
                    let _ = reply.send(Ok(format!("{upgraded} and reloads; see its log for the result")));
                }
                ControlRequest::Restart(_, reply) => {
                    let message = format!("{upgraded}, with new workers; nothing was restarted");
                    let _ = reply.send(Err(RestartError::Failed(message)));
                }
            }
        }
        if asked {
            tracing::info!(
                name: "reload_forwarded",
                pid = successor, "reload forwarded to the process that serves now"
            );
            signals::hang_up(successor);
        }
    }
}

/// How long an end may take beyond its grace: workers that are killed, logs that are written.
const HELD_UP: Duration = Duration::from_secs(5);

/// The apps as `status` and the metrics show them.
pub(super) fn shown_apps(config: &Config) -> Vec<(String, Option<usize>)> {
    let threads = |app: &App| (app.kind == Some(AppKind::Rack)).then_some(app.threads as usize);
    config.apps.iter().map(|app| (app.name.clone(), threads(app))).collect()
}

pub(super) fn set_apps(config: &Config, links: &Links) {
    for app in &config.apps {
        links.set_app(&app.name, assemble::policy(app)).set_unstarted(None);
    }
}

pub(super) fn absolute(file: &Path) -> std::path::PathBuf {
    std::path::absolute(file).unwrap_or_else(|_| file.to_path_buf())
}
