//! A serving process: its start, its signals, its reloads, its end.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use keepwarm_config::Config;
use keepwarm_net::DataPlane;
use keepwarm_workers::dispatch::Links;
use keepwarm_workers::supervisor::{Options, StartFailure, Supervisor};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::Source;
use super::listeners::Listeners;
use crate::control::{self, ReloadRequest};
use crate::watch::{self, Watch};
use crate::{assemble, complain, exit};

/// Serves until a signal ends it.
pub(super) fn serve(source: Source, config: Config) -> ExitCode {
    let logging = match assemble::start_logging(&config) {
        Ok(logging) => logging,
        Err(message) => {
            complain(&message);
            return ExitCode::from(exit::FAILED);
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let status = match runtime {
        Ok(runtime) => runtime.block_on(run(source, config)),
        Err(error) => {
            complain(&format!("no reactor for the control thread: {error}"));
            ExitCode::from(exit::FAILED)
        }
    };
    logging.finish();
    status
}

async fn run(source: Source, config: Config) -> ExitCode {
    // Before anything is started: a signal during the start ends it too.
    let signals = match Signals::new() {
        Ok(signals) => signals,
        Err(error) => {
            complain(&format!("signals cannot be received: {error}"));
            return ExitCode::from(exit::FAILED);
        }
    };
    let plane = match DataPlane::start(threads(&config)) {
        Ok(plane) => plane,
        Err(error) => {
            complain(&format!("no data-plane thread: {error}"));
            return ExitCode::from(exit::FAILED);
        }
    };
    let status = match Server::start(source, config, &plane).await {
        Ok(mut server) => server.until_signal(signals).await,
        Err(Failure::Message(message)) => {
            complain(&message);
            ExitCode::from(exit::FAILED)
        }
        Err(Failure::App(failure)) => {
            let _ = failure.write_to(&mut std::io::stderr().lock());
            ExitCode::from(exit::FAILED)
        }
    };
    plane.stop();
    status
}

/// As configured, or one for every two cores: the apps need the others.
fn threads(config: &Config) -> usize {
    let half = || std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).max(1));
    config.server.threads.map_or_else(half, |threads| threads as usize)
}

/// As configured, or what the limit of open files leaves room for: a connection is one descriptor.
fn connections(config: &Config) -> usize {
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let room = files.map_or(usize::MAX, |files| {
        usize::try_from(files).unwrap_or(usize::MAX).saturating_sub(RESERVED_FILES).max(16)
    });
    config
        .server
        .limits
        .connections
        .map_or(room, |limit| usize::try_from(limit).unwrap_or(usize::MAX).min(room))
}

/// Descriptors kept for workers, logs, listeners and spill files.
const RESERVED_FILES: usize = 256;

enum Failure {
    Message(String),
    App(StartFailure),
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self::Message(message)
    }
}

struct Server {
    source: Source,
    config: Config,
    links: Arc<Links>,
    listeners: Listeners,
    supervisor: Supervisor,
    watch: Option<Watch>,
    pid_file: Option<PathBuf>,
    reloads: mpsc::UnboundedReceiver<ReloadRequest>,
}

impl Server {
    async fn start(source: Source, config: Config, plane: &DataPlane) -> Result<Self, Failure> {
        raise_file_limit();
        let links = Arc::new(Links::new(plane.remotes()));
        let mut listeners = Listeners::new(plane.remotes(), connections(&config));
        let opened = listeners.open(&config)?;
        set_apps(&config, &links);
        let specs = assemble::specs(&config)
            .map_err(|error| format!("the Python adapter cannot be unpacked: {error}"))?;
        let supervisor = Supervisor::start(specs, Arc::clone(&links) as _, Options::default())
            .await
            .map_err(|error| format!("the supervisor cannot be started: {error}"))?;
        if let Err(failure) = supervisor.wait_first_ready().await {
            supervisor.stop(Duration::ZERO).await;
            return Err(Failure::App(failure));
        }
        if let Err(message) = listeners.apply(&config, opened, &links) {
            supervisor.stop(Duration::ZERO).await;
            return Err(message.into());
        }
        let (reload_requests, reloads) = mpsc::unbounded_channel();
        if let Err(error) = control::listen(source.identity(), reload_requests) {
            tracing::warn!(%error, "`keepwarm reload` will not find this process; SIGHUP does the same");
        }
        let pid_file = config.server.pid_file.clone();
        if let Some(file) = &pid_file {
            std::fs::write(file, format!("{}\n", std::process::id()))
                .map_err(|error| format!("the pid file {} cannot be written: {error}", file.display()))?;
        }
        let watch = watch::start(&config);
        let server = Self { source, config, links, listeners, supervisor, watch, pid_file, reloads };
        server.announce().await;
        Ok(server)
    }

    /// The first lines of a run: what is served, by what, where.
    async fn announce(&self) {
        let mut out = std::io::stdout().lock();
        let _ = writeln!(out, "keepwarm {} (process {})", env!("CARGO_PKG_VERSION"), std::process::id());
        for app in &self.config.apps {
            let about = self.links.app(&app.name).and_then(|app| app.about()).unwrap_or_default();
            let workers = match (assemble::workers(app), assemble::scaling(app)) {
                (_, Some(scaling)) => format!("{} to {} workers", scaling.min, scaling.max),
                (1, None) => "1 worker".to_owned(),
                (workers, None) => format!("{workers} workers"),
            };
            let _ = writeln!(out, "  serving   {} ({about}, {workers})", assemble::title(app));
        }
        for address in self.listeners.addresses() {
            let _ = writeln!(out, "  listening on {address}");
        }
        let _ = out.flush();
    }

    async fn until_signal(&mut self, mut signals: Signals) -> ExitCode {
        loop {
            tokio::select! {
                _ = signals.terminate.recv() => return self.stop(signals, Ending::Graceful).await,
                _ = signals.interrupt.recv() => return self.stop(signals, Ending::Interactive).await,
                _ = signals.hangup.recv() => self.reload(None).await,
                _ = signals.more.recv() => self.supervisor.shift_workers(1),
                _ = signals.fewer.recv() => self.supervisor.shift_workers(-1),
                Some(request) = self.reloads.recv() => self.reload(Some(request)).await,
                () = watch::changed(&mut self.watch) => self.reload(None).await,
            }
        }
    }

    /// Reads the configuration again and replaces the workers; on any error what ran goes on running.
    async fn reload(&mut self, request: Option<ReloadRequest>) {
        // A log that was moved away is opened anew, whatever becomes of the rest.
        keepwarm_telemetry::reopen_all();
        tracing::info!("reloading");
        let outcome = self.try_reload().await;
        match &outcome {
            Ok(message) => tracing::info!("{message}"),
            Err(message) => tracing::error!("not reloaded; what ran goes on running: {message}"),
        }
        if let Some(request) = request {
            let _ = request.send(outcome);
        }
    }

    async fn try_reload(&mut self) -> Result<String, String> {
        let (config, warnings) = self.source.load().map_err(|report| report.to_string())?;
        warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        let opened = self.listeners.open(&config)?;
        let specs = assemble::specs(&config).map_err(|error| error.to_string())?;
        // The new apps must be known before their workers come; how requests of the old ones are treated changes with the routes.
        for app in config.apps.iter().filter(|app| self.config.app(&app.name).is_none()) {
            self.links.set_app(&app.name, assemble::policy(app));
        }
        let report = self.supervisor.reload(specs).await.map_err(|failure| {
            let mut text = Vec::new();
            let _ = failure.write_to(&mut text);
            String::from_utf8_lossy(&text).trim_end().to_owned()
        })?;
        set_apps(&config, &self.links);
        self.listeners.apply(&config, opened, &self.links)?;
        if config.server.threads != self.config.server.threads {
            tracing::warn!("server.threads changes with a restart only");
        }
        self.watch = watch::start(&config);
        self.config = config;
        let apps: Vec<&str> = report.apps.iter().map(|app| &**app).collect();
        Ok(format!(
            "reloaded in {} ms: generation {} serves {}",
            report.took.as_millis(),
            report.generation,
            apps.join(", ")
        ))
    }

    async fn stop(&mut self, mut signals: Signals, ending: Ending) -> ExitCode {
        let grace = self.config.server.shutdown_grace;
        tracing::info!(connections = self.listeners.open.count(), ?grace, "stopping");
        tokio::select! {
            () = self.drain(ending, grace) => {}
            () = signals.another_end() => tracing::warn!("stopping at once"),
        }
        self.supervisor.stop(Duration::ZERO).await;
        if let Some(file) = &self.pid_file {
            remove_pid_file(file);
        }
        tracing::info!("stopped");
        ExitCode::SUCCESS
    }

    /// Lets what is under way end, in this order: new connections are refused, requests answered with `Connection: close`, workers drained.
    async fn drain(&mut self, ending: Ending, grace: Duration) {
        let end = Instant::now() + grace;
        tokio::time::sleep(self.config.server.drain_delay).await;
        self.listeners.draining.store(true, Ordering::Relaxed);
        self.listeners.end();
        let open = Arc::clone(&self.listeners.open);
        let quiet = async {
            match ending {
                // An idle connection lives until its next request or the end of the grace: no request meets a closing socket.
                Ending::Graceful => open.none().await,
                Ending::Interactive => open.none_busy().await,
            }
        };
        if tokio::time::timeout_at(end, quiet).await.is_err() {
            tracing::info!(connections = open.count(), "the grace is over; what is left is cut");
        }
        self.supervisor
            .stop(end.saturating_duration_since(Instant::now()).max(Duration::from_millis(500)))
            .await;
    }
}

/// How much an end waits for.
#[derive(Debug, Clone, Copy)]
enum Ending {
    /// SIGTERM: also for idle connections, up to the grace.
    Graceful,
    /// Ctrl-C: for requests only.
    Interactive,
}

fn set_apps(config: &Config, links: &Links) {
    for app in &config.apps {
        links.set_app(&app.name, assemble::policy(app));
    }
}

fn remove_pid_file(file: &Path) {
    let ours = std::fs::read_to_string(file).is_ok_and(|text| text.trim() == std::process::id().to_string());
    if ours {
        let _ = std::fs::remove_file(file);
    }
}

/// A connection is a descriptor: takes as many as the hard limit allows.
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    /// SIGTTIN: one worker more.
    more: Signal,
    /// SIGTTOU: one fewer.
    fewer: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            more: signal(SignalKind::from_raw(rustix::process::Signal::TTIN.as_raw()))?,
            fewer: signal(SignalKind::from_raw(rustix::process::Signal::TTOU.as_raw()))?,
        })
    }

    /// A second signal to end: now.
    async fn another_end(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
