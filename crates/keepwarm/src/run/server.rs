//! A serving process: its start, what it does at each signal, its end.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use keepwarm_config::Config;
use keepwarm_net::DataPlane;
use keepwarm_workers::dispatch::Links;
use keepwarm_workers::supervisor::{Options, StartFailure, Supervisor};
use tokio::sync::mpsc;

use super::Source;
use super::drain::Ending;
use super::inherited::Inherited;
use super::listeners::Listeners;
use super::pid_file::PidFile;
use super::signals::Signals;
use super::sockets::Opened;
use super::takeover::{self, Takeover};
use super::upgrade::{self, Successor};
use crate::admin::Admin;
use crate::assemble::{DoorVariables, Parts};
use crate::control::{self, Door, ReloadRequest};
use crate::readiness::Readiness;
use crate::service_manager::ServiceManager;
use crate::upstreams::Upstreams;
use crate::view::{Served, View};
use crate::watch::{self, Watch};
use crate::{assemble, complain, exit, subjects};

/// Serves until a signal ends it. With a `takeover` this process is to take the place of another.
pub(super) fn serve(
    source: Source,
    config: Config,
    takeover: Option<Takeover>,
    inherited: Inherited,
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
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let status = match runtime {
        Ok(runtime) => match runtime.block_on(run(source, config, takeover.as_ref(), inherited)) {
            Ok(status) => status,
            Err(Failure::Message(message)) => failed(&message),
            Err(Failure::App(failure)) => {
                let _ = failure.write_to(&mut std::io::stderr().lock());
                if let Some(takeover) = &takeover {
                    takeover.fail(&failure.to_string());
                }
                ExitCode::from(exit::FAILED)
            }
        },
        Err(error) => failed(&format!("no reactor for the control thread: {error}")),
    };
    logging.finish();
    status
}

async fn run(
    source: Source,
    config: Config,
    takeover: Option<&Takeover>,
    inherited: Inherited,
) -> Result<ExitCode, Failure> {
    // Before anything is started: a signal during the start ends it too.
    let mut signals =
        Signals::new().map_err(|error| Failure::Message(format!("signals cannot be received: {error}")))?;
    let plane = DataPlane::start(threads(&config))
        .map_err(|error| Failure::Message(format!("no data-plane thread: {error}")))?;
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

/// Why a start failed.
pub(super) enum Failure {
    Message(String),
    App(StartFailure),
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self::Message(message)
    }
}

/// Everything that serves.
pub(super) struct Server {
    pub(super) source: Source,
    pub(super) config: Config,
    pub(super) links: Arc<Links>,
    pub(super) upstreams: Upstreams,
    /// What workers are told about doors.
    pub(super) door_variables: DoorVariables,
    pub(super) listeners: Listeners,
    pub(super) supervisor: Supervisor,
    pub(super) watch: Option<Watch>,
    pub(super) pid_file: Option<PidFile>,
    pub(super) readiness: Readiness,
    pub(super) view: Arc<View>,
    pub(super) admin: Admin,
    pub(super) service_manager: ServiceManager,
    /// Closed as soon as another process has taken over: what is asked of the service is asked of that one then.
    door: Option<Door>,
    reloads: mpsc::UnboundedReceiver<ReloadRequest>,
    reload_requests: mpsc::UnboundedSender<ReloadRequest>,
}

/// What a serving process is asked to do.
enum Work {
    Reload(Option<ReloadRequest>),
    /// Source files of these apps have changed.
    Recycle(Vec<String>),
    Upgrade,
}

impl Server {
    /// `None`: it was told to end before it served.
    async fn start(
        source: Source,
        config: Config,
        plane: &DataPlane,
        inherited: Inherited,
        takeover: Option<&Takeover>,
        signals: &mut Signals,
    ) -> Result<Option<Self>, Failure> {
        raise_file_limit();
        let links = Arc::new(Links::new(plane.remotes()));
        let mut upstreams = Upstreams::new(plane.remotes());
        let mut listeners = Listeners::new(plane.remotes(), connections(&config), inherited);
        let mut opened_admin = Some(listeners.open_admin(&config, None)?);
        let mut opened = listeners.open(&config)?;
        let door_variables = listeners.door_variables(&config, &opened);
        set_apps(&config, &links);
        let watch = watch::start(&config);
        let specs = assemble::specs(&config, &door_variables)
            .map_err(|error| format!("an adapter cannot be unpacked: {error}"))?;
        // Guarded from the first moment: also a start that is killed leaves nothing.
        let made = opened.files().chain(opened_admin.iter().flat_map(Opened::files));
        let options = Options { files: made.map(absolute).collect(), ..Options::default() };
        // Before the workers: they may call while they boot.
        let mut prepared = upstreams.prepare(&config)?;
        upstreams.apply(&config, &mut prepared);
        listeners.serve_new_doors(&config, &mut opened, &upstreams)?;
        let supervisor = Supervisor::start(specs, Arc::clone(&links) as _, options)
            .await
            .map_err(|error| format!("the supervisor cannot be started: {error}"))?;
        let readiness = Readiness::default();
        let view = Arc::new(View::new(&links, &supervisor, plane.remotes(), &readiness));
        view.set_served(Served { apps: app_names(&config), ..Served::default() });
        let (reload_requests, reloads) = mpsc::unbounded_channel();
        let mut admin = Admin::new(&view, &reload_requests);
        // A start that takes long can be looked at; beside another process that one answers until it has gone.
        if takeover.is_none()
            && let Some(opened) = opened_admin.take()
            && let Err(message) = admin.apply(config.admin.as_ref(), opened)
        {
            supervisor.stop(Duration::ZERO).await;
            return Err(message.into());
        }
        let served = match boot(&supervisor, takeover, signals).await {
            Ok(true) => {
                let parts = Parts { links: &links, upstreams: &upstreams };
                listeners.apply(&config, opened, parts).map(|()| true).map_err(Failure::from)
            }
            other => other,
        };
        if !matches!(served, Ok(true)) {
            listeners.abandon();
            supervisor.stop(Duration::ZERO).await;
            return served.map(|_| None);
        }
        let mut server = Self {
            source,
            config,
            links,
            upstreams,
            door_variables,
            listeners,
            supervisor,
            watch,
            pid_file: None,
            readiness,
            view,
            admin,
            service_manager: ServiceManager,
            door: None,
            reloads,
            reload_requests,
        };
        server.show();
        if let Err(failure) = server.become_the_service(takeover, opened_admin).await {
            server.listeners.abandon();
            server.supervisor.stop(Duration::ZERO).await;
            return Err(failure);
        }
        server.service_manager.start_watchdog(plane.remotes());
        server.announce();
        Ok(Some(server))
    }

    /// Everything is served: says so to whoever waits for it.
    async fn become_the_service(
        &mut self,
        takeover: Option<&Takeover>,
        admin: Option<Opened>,
    ) -> Result<(), Failure> {
        if let Some(file) = &self.config.server.pid_file {
            self.pid_file = Some(PidFile::write(file)?);
        }
        if let Some(takeover) = takeover {
            let mut taken = self.listeners.binds();
            taken.extend(Admin::binds(self.config.admin.as_ref()));
            takeover.finish(taken).await.map_err(|error| error.to_string())?;
        }
        if let Some(admin) = admin {
            self.admin.apply(self.config.admin.as_ref(), admin)?;
        }
        self.guard_files();
        self.open_door();
        self.readiness.set(true);
        self.service_manager.ready("serving");
        Ok(())
    }

    fn open_door(&mut self) {
        match control::listen(self.source.identity(), self.reload_requests.clone(), Arc::clone(&self.view)) {
            Ok(door) => self.door = Some(door),
            Err(error) => {
                tracing::warn!(%error, "`keepwarm reload` will not find this process; SIGHUP does the same");
            }
        }
    }

    /// Files that would outlive this process if it were killed.
    fn files(&self) -> Vec<std::path::PathBuf> {
        let pid_file = self.pid_file.as_ref().map(|file| file.path().to_path_buf());
        self.listeners.files().into_iter().chain(self.admin.files()).chain(pid_file).collect()
    }

    /// Has the guardian remove the files that would be left when this process is killed.
    pub(super) fn guard_files(&self) {
        self.files().iter().for_each(|file| self.supervisor.guard_file(&absolute(file)));
    }

    fn forget_files(&self) {
        self.files().iter().for_each(|file| self.supervisor.forget_file(&absolute(file)));
    }

    /// Tells those who look what is served.
    pub(super) fn show(&self) {
        let listeners = self.listeners.by_name(&self.config);
        self.view.set_served(Served {
            apps: app_names(&self.config),
            subjects: subjects::of(&self.config, &listeners, &self.listeners.doors(&self.config)),
            listeners,
            upstreams: self.upstreams.all(),
        });
    }

    /// The first lines of a run: what is served, by what, where.
    fn announce(&self) {
        let mut out = std::io::stdout().lock();
        let _ = writeln!(out, "keepwarm {} (process {})", env!("CARGO_PKG_VERSION"), std::process::id());
        for app in &self.config.apps {
            let about = self.links.app(&app.name).and_then(|app| app.about()).unwrap_or_default();
            let workers = match (assemble::workers(app), assemble::scaling(app)) {
                (1, _) if app.address.is_some() => "1 request at once".to_owned(),
                (requests, _) if app.address.is_some() => format!("{requests} requests at once"),
                (_, Some(scaling)) => format!("{} to {} workers", scaling.min, scaling.max),
                (1, None) => "1 worker".to_owned(),
                (workers, None) => format!("{workers} workers"),
            };
            let _ = writeln!(out, "  serving   {} ({about}, {workers})", assemble::title(app));
        }
        for address in self.listeners.addresses() {
            let _ = writeln!(out, "  listening on {address}");
        }
        for (name, addresses) in self.listeners.doors(&self.config) {
            let _ = writeln!(out, "  upstream {name} on {}", addresses.join(", "));
        }
        for address in self.admin.addresses() {
            let _ = writeln!(out, "  admin on {address}");
        }
        let _ = out.flush();
    }

    async fn until_end(&mut self, signals: &mut Signals) -> ExitCode {
        loop {
            let work = tokio::select! {
                ending = signals.ends.next() => return self.stop(&mut signals.ends, ending).await,
                _ = signals.hangup.recv() => Work::Reload(None),
                _ = signals.upgrade.recv() => Work::Upgrade,
                _ = signals.more.recv() => {
                    self.supervisor.shift_workers(1);
                    continue;
                }
                _ = signals.fewer.recv() => {
                    self.supervisor.shift_workers(-1);
                    continue;
                }
                Some(request) = self.reloads.recv() => Work::Reload(Some(request)),
                apps = watch::changed(&mut self.watch) => Work::Recycle(apps),
            };
            // What takes long is given up for the end: a worker that does not boot must not hold it up.
            let ending = tokio::select! {
                ending = signals.ends.next() => Some(ending),
                ending = self.perform(work) => ending,
            };
            if let Some(ending) = ending {
                return self.stop(&mut signals.ends, ending).await;
            }
        }
    }

    /// `Some`: this process is to end.
    async fn perform(&mut self, work: Work) -> Option<Ending> {
        match work {
            Work::Reload(request) => self.reload(request).await,
            Work::Recycle(apps) => self.recycle(&apps).await,
            Work::Upgrade => return self.upgrade().await,
        }
        None
    }

    async fn upgrade(&mut self) -> Option<Ending> {
        self.service_manager.status("upgrading");
        match upgrade::upgrade(&self.listeners, &self.admin, &self.config).await {
            Ok(successor) => Some(self.hand_over(&successor)),
            Err(message) => {
                tracing::error!("not upgraded; this process goes on: {message}");
                if let Some(file) = &self.pid_file {
                    file.restore();
                }
                self.service_manager.status("serving");
                None
            }
        }
    }

    fn hand_over(&mut self, successor: &Successor) -> Ending {
        tracing::info!(
            pid = successor.pid,
            "upgraded: another process serves, this one finishes what it has"
        );
        self.service_manager.main_process(successor.pid);
        self.forget_files();
        self.door = None;
        self.admin.hand_over(&successor.taken);
        successor.go();
        Ending::HandedOver(successor.taken.clone())
    }
}

/// Waits until every worker is ready. `false`: the process was told to end before.
async fn boot(
    supervisor: &Supervisor,
    takeover: Option<&Takeover>,
    signals: &mut Signals,
) -> Result<bool, Failure> {
    tokio::select! {
        booted = supervisor.wait_first_ready() => booted.map_err(Failure::App).map(|()| true),
        _ = signals.ends.next() => Ok(false),
        () = old_is_gone(takeover) => Err(Failure::Message(takeover::gone().to_string())),
    }
}

async fn old_is_gone(takeover: Option<&Takeover>) {
    match takeover {
        Some(takeover) => takeover.old_is_gone().await,
        None => std::future::pending().await,
    }
}

fn app_names(config: &Config) -> Vec<String> {
    config.apps.iter().map(|app| app.name.clone()).collect()
}

pub(super) fn set_apps(config: &Config, links: &Links) {
    for app in &config.apps {
        links.set_app(&app.name, assemble::policy(app));
    }
}

fn absolute(file: &Path) -> std::path::PathBuf {
    std::path::absolute(file).unwrap_or_else(|_| file.to_path_buf())
}

/// A connection is a descriptor: takes as many as the hard limit allows.
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
