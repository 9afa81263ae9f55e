//! The start of a serving process, until it is the service.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use keepwarm_config::{App, Config, Process, Program, Schedule};
use keepwarm_net::DataPlane;
use keepwarm_workers::dispatch::Links;
use keepwarm_workers::supervisor::{AppSpec, Options, ProcessSpec, StartFailure, Supervisor, TaskSpec};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::ConfigSource;
use super::connection_limit;
use super::inherited::InheritedSockets;
use super::listeners::{self, Listeners};
use super::plan::ListenPlan;
use super::processes;
use super::reloading::ReloadError;
use super::screen::{self, Banner};
use super::server::{Server, StartError, absolute, set_apps, shown_apps};
use super::signals::Signals;
use super::sockets::OpenedSockets;
use super::system;
use super::takeover::{self, Takeover};
use super::watchdog::Watchdog;
use crate::admin::Admin;
use crate::assemble::{self, DoorVariables, Maps, RouteTargets, StartPlan};
use crate::leaks::LeakWatch;
use crate::otlp::{Otlp, Tracing};
use crate::readiness::Readiness;
use crate::service_manager::ServiceManager;
use crate::status::view::{ServedConfig, View};
use crate::tls::ListenersTls;
use crate::upstreams::Upstreams;
use crate::version;
use crate::wants_colors;
use crate::watch::{self, Watch};
use crate::{callers, dev_tls, endpoint};
use crate::{file_limit, language, why};

impl Server {
    /// `None`: it was stopped before it served.
    pub(super) async fn start(
        source: ConfigSource,
        config: Config,
        plane: &DataPlane,
        inherited: InheritedSockets,
        takeover: Option<&Takeover>,
        signals: &mut Signals,
    ) -> Result<Option<Self>, StartError> {
        file_limit::raise(takeover.is_some());
        let links = Arc::new(Links::new(plane.remotes()));
        let mut upstreams = Upstreams::new(plane.remotes());
        assemble::set_process_limits(&config.server.limits);
        let mut listeners = Listeners::new(
            plane.remotes(),
            connection_limit::derive(&config),
            inherited,
            ListenersTls::new(takeover.map(|takeover| takeover.rest.tickets.clone()).unwrap_or_default()),
        );
        let mut otlp = Otlp::default();
        // Before the sockets, whose files it removes: also a start that is killed leaves nothing.
        let supervisor = start_supervisor(&links, &config).await?;
        let opening = open(&config, takeover, &supervisor, &links, &mut listeners, &mut upstreams, &mut otlp);
        let Opening { admin, plan, door_variables, watch, tracing, start } = match opening {
            Ok(opening) => opening,
            Err(failure) => {
                supervisor.stop(Duration::ZERO).await;
                return Err(failure);
            }
        };
        let mut opened_admin = Some(admin);
        let readiness = Readiness::default();
        let view = Arc::new(View::new(&links, &supervisor, plane.remotes(), &readiness));
        view.set_served(ServedConfig { apps: shown_apps(&config), ..ServedConfig::default() });
        why::observe(&view);
        callers::look_for_workers();
        otlp.apply(&config, tracing, &upstreams, &view);
        let (requester, requests) = mpsc::unbounded_channel();
        let (over_news, over) = mpsc::unbounded_channel();
        let admin = Admin::new(&view, &requester);
        let watched = Arc::clone(&links);
        let mut leak_watch = LeakWatch::default();
        leak_watch.apply(&config, &links);
        let mut server = Self {
            source,
            config,
            links,
            upstreams,
            otlp,
            door_variables,
            listeners,
            supervisor,
            watch,
            leak_watch,
            pid_file: None,
            readiness,
            view,
            admin,
            service_manager: ServiceManager,
            control_socket: None,
            successor: None,
            dependencies: JoinSet::new(),
            requests,
            requester,
            over,
            over_news,
            watchdog: Watchdog::start(plane.remotes(), &watched),
            is_broken: false,
        };
        let StartPlan { apps, processes, before } = start;
        let workers = (before, apps);
        // Beside a process that serves, they wait until that one stops its own.
        let (now, later) = if takeover.is_none() { (processes, None) } else { (Vec::new(), Some(processes)) };
        let served = match server.boot(plan, workers, now, &mut opened_admin, takeover, signals).await {
            Ok(true) => server.become_the_service(takeover, opened_admin, later).await.map(|()| true),
            other => other,
        };
        if !matches!(served, Ok(true)) {
            server.listeners.abandon();
            // They may have begun a job.
            let grace = server.config.server.shutdown_grace;
            tokio::select! {
                () = server.supervisor.stop_processes(grace, None) => {}
                () = signals.stop_signals.again() => {}
            }
            server.supervisor.stop(Duration::ZERO).await;
            return served.map(|_| None);
        }
        server.service_manager.start_watchdog(plane.remotes());
        server.announce();
        Ok(Some(server))
    }

    /// Waits until every worker is ready, then serves: the other apps too if some could not be started. `false`: the process was stopped before.
    async fn boot(
        &mut self,
        plan: ListenPlan,
        (before, apps): (Vec<TaskSpec>, Vec<AppSpec>),
        processes: Vec<ProcessSpec>,
        admin: &mut Option<OpenedSockets>,
        takeover: Option<&Takeover>,
        signals: &mut Signals,
    ) -> Result<bool, StartError> {
        // A start that takes long can be looked at; beside another process, that one responds until it has gone.
        if takeover.is_none()
            && let Some(opened) = admin.take()
        {
            self.serve_admin(opened)?;
        }
        tokio::select! {
            outcome = processes::run_before(&self.supervisor, before) => outcome?,
            _ = signals.stop_signals.next() => return Ok(false),
            () = old_is_gone(takeover) => return Err(StartError::Message(takeover::gone().to_string())),
        }
        self.supervisor.begin(apps);
        if takeover.is_none() {
            self.begin_processes(processes, None);
        }
        tokio::select! {
            failures = self.supervisor.wait_first_boot() => self.go_on_without(failures, takeover).await?,
            _ = signals.stop_signals.next() => return Ok(false),
            () = screen::report_progress(&self.supervisor) => {}
            () = old_is_gone(takeover) => return Err(StartError::Message(takeover::gone().to_string())),
        }
        // Nothing was served before: no generation has to end first.
        self.listeners.apply(&self.config, plan, 0);
        self.show();
        Ok(true)
    }

    fn serve_admin(&mut self, opened: OpenedSockets) -> Result<(), String> {
        let settings = self.config.admin.as_ref();
        let prepared = self.admin.prepare(settings, opened)?;
        self.admin.apply(settings, prepared);
        Ok(())
    }

    /// Some apps could not be started: the others serve, unless there are none, or the process that this one would replace serves them all.
    async fn go_on_without(
        &self,
        mut failures: Vec<StartFailure>,
        takeover: Option<&Takeover>,
    ) -> Result<(), StartError> {
        for failure in &mut failures {
            version::explain(failure, &self.config).await;
        }
        // The next change of a watched app may fix it.
        let waits =
            |failure: &StartFailure| self.config.app(&failure.app).is_some_and(|app| !app.watch.is_empty());
        let serves =
            takeover.is_none() && (failures.len() < self.config.apps.len() || failures.iter().any(waits));
        let last = if serves { None } else { failures.pop() };
        for failure in failures.iter().filter(|failure| waits(failure)) {
            let app = self.links.app(&failure.app);
            app.into_iter()
                .for_each(|app| app.set_unstarted(Some(&ReloadError::from(failure.clone()).whole())));
        }
        for failure in failures {
            // A closed standard error does not matter.
            let _ = failure.write_to(&mut std::io::stderr().lock());
        }
        last.map_or(Ok(()), |failure| Err(StartError::App(failure)))
    }

    /// Everything is served: notifies the service manager, the process before, and other waiters.
    async fn become_the_service(
        &mut self,
        takeover: Option<&Takeover>,
        admin: Option<OpenedSockets>,
        processes: Option<Vec<ProcessSpec>>,
    ) -> Result<(), StartError> {
        let pid_file = match self.config.server.pid_file.as_deref() {
            Some(path) => Some(self.prepare_pid_file(path).await?),
            None => None,
        };
        if let Some(takeover) = takeover {
            let mut taken = self.listeners.binds();
            taken.extend(Admin::binds(self.config.admin.as_ref()));
            let passed = takeover.finish(taken).await.map_err(|error| error.to_string())?;
            self.view.diagnosis.inherit(passed);
        }
        // Not before: it is the other process's as long as that one may still be the service.
        match pid_file.map(|prepared| self.put_pid_file(prepared)).transpose() {
            Ok(file) => self.pid_file = file,
            Err(message) if takeover.is_some() => tracing::error!(name: "pid_file_failed", "{message}"),
            Err(message) => return Err(message.into()),
        }
        if let Some(admin) = admin {
            self.serve_admin(admin)?;
        }
        if let Some(processes) = processes {
            self.begin_processes(processes, takeover);
        }
        // An authority reaches this process from now on.
        self.listeners.tls.authority.apply(&self.config);
        self.show();
        self.guard_files();
        self.open_control_socket();
        self.readiness.set(true);
        self.service_manager.ready("serving");
        Ok(())
    }

    /// The same for a person, with what to do next.
    fn show_banner(&self) {
        let mut banner = Banner::default();
        for app in &self.config.apps {
            let title = assemble::title(app);
            let link = self.links.app(&app.name);
            if link.as_ref().is_some_and(|app| app.is_given_up()) {
                let until = if app.watch.is_empty() { "the next reload" } else { "one of its files changes" };
                banner.row("failed", format!("{title}: it responds with 503 until {until}"));
                continue;
            }
            let about = link.and_then(|app| app.description()).unwrap_or_default();
            banner.row("serving", if about.is_empty() { title } else { format!("{title} ({about})") });
            let program = language::describe_interpreter(app).map(|program| format!(", by {program}"));
            banner.row("with", format!("{}{}", at_once(app), program.unwrap_or_default()));
            app.external_settings.iter().for_each(|setting| banner.row("with", format!("by {setting}")));
        }
        for address in self.listeners.addresses() {
            banner.row("listening", address.to_string());
        }
        if self.source.has_local_tls {
            dev_tls::advice().iter().for_each(|line| banner.row("listening", line.to_string()));
        }
        for (name, addresses) in self.listeners.doors(&self.config) {
            banner.row("upstream", format!("{name} on {}", addresses.join(", ")));
        }
        for address in self.admin.addresses() {
            banner.row("admin", address.to_string());
        }
        banner.row("config", self.source.name());
        self.suggest(&mut banner);
        crate::print(&banner.text(wants_colors()));
    }

    /// What a person may want to do next.
    fn suggest(&self, banner: &mut Banner) {
        let is_command_line = self.source.is_command_line();
        if is_command_line && self.config.apps.iter().all(|app| app.watch.is_empty()) {
            banner.next("--reload", "replace the workers when a file changes");
        }
        if is_command_line && !self.config.apps.iter().any(|app| matches!(app.program, Program::Command(_))) {
            banner.next("keepwarm init", "write a keepwarm.toml");
        }
        banner.next("keepwarm status", "show workers and requests");
        if !is_command_line {
            banner.next("keepwarm reload", "load new code and configuration, losing no request");
        }
        banner.next("Ctrl-C", "stop");
    }

    /// The first lines of a run: what is served, by what, where.
    fn announce(&self) {
        if screen::is_terminal() {
            return self.show_banner();
        }
        let mut out = std::io::stdout().lock();
        let _ = writeln!(out, "keepwarm {} (process {})", env!("CARGO_PKG_VERSION"), std::process::id());
        for app in &self.config.apps {
            if self.links.app(&app.name).is_some_and(|app| app.is_given_up()) {
                let title = assemble::title(app);
                let until = if app.watch.is_empty() { "the next reload" } else { "one of its files changes" };
                let _ = writeln!(out, "  failed    {title}: it responds with 503 until {until}");
                continue;
            }
            let about = self.links.app(&app.name).and_then(|app| app.description()).unwrap_or_default();
            let program = language::describe_interpreter(app).map(|program| format!(", by {program}"));
            let (title, at_once) = (assemble::title(app), at_once(app));
            let _ = writeln!(out, "  serving   {title} ({about}, {at_once}{})", program.unwrap_or_default());
            for setting in &app.external_settings {
                let _ = writeln!(out, "    by {setting}");
            }
        }
        for process in &self.config.processes {
            let _ = writeln!(out, "  process   {} ({})", process.name, about(process));
        }
        for address in self.listeners.addresses() {
            let _ = writeln!(out, "  listening on {address}");
        }
        if self.source.has_local_tls {
            dev_tls::advice().iter().for_each(|line| drop(writeln!(out, "  {line}")));
        }
        for (name, addresses) in self.listeners.doors(&self.config) {
            let _ = writeln!(out, "  upstream {name} on {}", addresses.join(", "));
        }
        for address in self.admin.addresses() {
            let _ = writeln!(out, "  admin on {address}");
        }
        let _ = out.flush();
    }
}

/// Of a command that is a whole script only the beginning is shown.
const LONGEST_COMMAND: usize = 80;

/// A process as the first lines of a run name it.
fn about(process: &Process) -> String {
    let how = match (&process.schedule, process.count) {
        (Some(Schedule::Every(interval)), _) => format!("every {interval:?}"),
        (Some(Schedule::Cron(pattern)), _) => format!("at {pattern}"),
        (None, 1) => "1 process".to_owned(),
        (None, count) => format!("{count} processes"),
    };
    let command = process.command.join(" ");
    let first = command.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let shown: String = first.chars().take(LONGEST_COMMAND).collect();
    let more = if shown.len() < command.len() { " …" } else { "" };
    format!("{shown}{more}, {how}")
}

/// How much an app can work on at once, in words.
fn at_once(app: &App) -> String {
    match (assemble::workers(app), assemble::scaling(app)) {
        (1, _) if app.address.is_some() => "1 request at once".to_owned(),
        (requests, _) if app.address.is_some() => format!("{requests} requests at once"),
        (_, Some(scaling)) => format!("{} to {} workers", scaling.min, scaling.max),
        (1, None) => "1 worker".to_owned(),
        (workers, None) => format!("{workers} workers"),
    }
}

/// All that will be started, with as many workers as the process before had.
fn start_plan(
    config: &Config,
    door_variables: &DoorVariables,
    sizes: &BTreeMap<String, usize>,
) -> Result<StartPlan, StartError> {
    let mut start = StartPlan::new(config, door_variables)?;
    for spec in &mut start.apps {
        if let (Some(&workers), Some(scaling)) = (sizes.get(&*spec.name), spec.scaling) {
            spec.workers = workers.clamp(scaling.min.max(1), scaling.max.max(1).max(scaling.min));
        }
    }
    Ok(start)
}

/// What a start has opened and prepared before anything runs.
struct Opening {
    admin: OpenedSockets,
    plan: ListenPlan,
    door_variables: DoorVariables,
    watch: Option<Watch>,
    tracing: Option<Tracing>,
    start: StartPlan,
}

/// Opens the sockets, and serves doors: workers may call while they boot.
fn open(
    config: &Config,
    takeover: Option<&Takeover>,
    supervisor: &Supervisor,
    links: &Arc<Links>,
    listeners: &mut Listeners,
    upstreams: &mut Upstreams,
    otlp: &mut Otlp,
) -> Result<Opening, StartError> {
    let admin = listeners.open_admin(config, None)?;
    let opened = listeners.open(config, None)?;
    let created: Vec<PathBuf> = opened.files().chain(admin.files()).map(absolute).collect();
    for file in listeners::socket_files(config).map(absolute) {
        match created.contains(&file) {
            true => supervisor.guard_file(&file),
            // It was inherited, and is guarded once this process is the service.
            false => supervisor.forget_file(&file),
        }
    }
    let door_variables = listeners.door_variables(config, &opened);
    set_apps(config, links);
    let watch = watch::start(config);
    // Before the workers: they may call while they boot.
    let mut prepared = upstreams.prepare(config)?;
    let tracing = otlp.prepare(config);
    upstreams.set_tracing(tracing.clone());
    upstreams.apply(config, &mut prepared);
    if let Some(takeover) = takeover {
        endpoint::restore(&takeover.rest.drained, &upstreams.all());
    }
    let maps = Maps::of(config)?;
    let targets = RouteTargets { links, upstreams, maps: &maps, tracing: tracing.as_ref() };
    let tls = listeners.tls.preparation(config, false)()?;
    let mut plan = listeners.plan(config, opened, targets, tls)?;
    listeners.serve_new_doors(&mut plan);
    // The number of workers that the load of the process before required.
    let none = BTreeMap::new();
    let sizes = takeover.map_or(&none, |takeover| &takeover.rest.sizes);
    let start = start_plan(config, &door_variables, sizes)?;
    Ok(Opening { admin, plan, door_variables, watch, tracing, start })
}

/// Starts nothing yet: commands may have to run before the apps start.
async fn start_supervisor(links: &Arc<Links>, config: &Config) -> Result<Supervisor, StartError> {
    system::check()?;
    let expected_files = listeners::socket_files(config).map(absolute).collect();
    let options = Options { expected_files, soft_files: file_limit::original(), ..Options::default() };
    let started = Supervisor::start(Vec::new(), Arc::clone(links) as _, options).await;
    Ok(started.map_err(|error| format!("cannot start the supervisor: {error}"))?)
}

async fn old_is_gone(takeover: Option<&Takeover>) {
    match takeover {
        Some(takeover) => takeover.old_is_gone().await,
        None => std::future::pending().await,
    }
}
