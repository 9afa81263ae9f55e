//! Reload: a new configuration, new workers; and the recycling of apps whose source files have changed.

use std::path::PathBuf;

use keepwarm_config::{App as AppConfig, Config};
use keepwarm_workers::supervisor::{ReloadReport, ReplaceReason, StartFailure, TaskFailure};

use super::listeners;
use super::plan::ListenPlan;
use super::processes;
use super::server::{Server, absolute, set_apps};
use crate::admin::PreparedAdmin;
use crate::assemble::{DoorVariables, Maps, RouteTargets, StartPlan};
use crate::otlp::Tracing;
use crate::restart::{self, RestartError, Target};
use crate::tls::PreparedTls;
use crate::upstreams::PreparedUpstreams;
use crate::watch::Watch;
use crate::{assemble, version, watch};

/// The parts of a reload that can fail, prepared before anything changes.
struct PreparedReload {
    upstreams: PreparedUpstreams,
    admin: PreparedAdmin,
    plan: ListenPlan,
    /// `None`: the watch does not change.
    watch: Option<Option<Watch>>,
    doors: DoorVariables,
    start: StartPlan,
    tracing: Option<Tracing>,
}

impl Server {
    /// Reads the configuration again and replaces the workers; on any error the previous configuration stays active.
    pub(super) async fn reload(&mut self) -> Result<String, String> {
        // A log that was moved away is reopened, whether or not the reload succeeds.
        keepwarm_telemetry::reopen_all();
        tracing::info!(name: "reloading", "reloading");
        self.service_manager.reloading();
        let outcome = self.try_reload().await;
        match &outcome {
            Ok(message) => {
                tracing::info!(name: "reloaded", "{message}");
                self.service_manager.ready("serving");
            }
            Err(ReloadError { message, .. }) => {
                // The output of a worker is in the log already.
                tracing::error!(
                    name: "reload_failed",
                    "reload failed; the previous configuration stays active: {message}"
                );
                self.service_manager.ready("serving; the last reload failed, see the log");
            }
        }
        outcome.map_err(|failure| failure.whole())
    }

    async fn try_reload(&mut self) -> Result<String, ReloadError> {
        // Not on this thread, which looks after the workers: a Ruby app's configuration is evaluated.
        let source = self.source.clone();
        let loaded = tokio::task::spawn_blocking(move || source.load().map_err(|report| report.to_string()));
        let (config, warnings) =
            loaded.await.unwrap_or_else(|error| Err(error.to_string())).map_err(ReloadError::from)?;
        warnings.iter().for_each(|warning| tracing::warn!(name: "configuration_warning", "{warning}"));
        let prepare = self.listeners.tls.preparation(&config, false);
        let tls = match config.listeners.iter().any(|listen| listen.tls.is_some()) {
            // Thousands of certificates take seconds.
            true => {
                tokio::task::spawn_blocking(prepare).await.unwrap_or_else(|error| Err(error.to_string()))?
            }
            false => prepare()?,
        };
        // None of these is there yet: what listens now is known to the guardian.
        let known = self.files();
        let new_files =
            listeners::socket_files(&config).filter(|file| !known.iter().any(|known| known == file));
        let new_files: Vec<PathBuf> = new_files.map(absolute).collect();
        self.supervisor.expect_files(new_files.clone()).await;
        let ready = self.make_ready(&config, tls);
        if ready.is_ok() {
            new_files.iter().for_each(|file| self.supervisor.guard_file(file));
        }
        let tried = match ready {
            Ok(mut next) => match self.replace_workers(&mut next.start, &config).await {
                Ok(report) => Ok((next, report)),
                Err(failure) => Err(failure),
            },
            Err(message) => Err(message.into()),
        };
        match tried {
            Ok((next, report)) => {
                self.commit(config, next, report.generation);
                let serves = match report.apps.as_slice() {
                    [] => String::new(),
                    apps => format!(": generation {} serves {}", report.generation, apps.join(", ")),
                };
                let processes = match self.config.processes.is_empty() {
                    true => "",
                    false => "; processes are replaced one after the other",
                };
                Ok(format!("reloaded in {} ms{serves}{processes}", report.took.as_millis()))
            }
            Err(failure) => {
                self.take_back();
                new_files.iter().for_each(|file| self.supervisor.forget_file(file));
                Err(failure)
            }
        }
    }

    /// Runs the commands that come before, then a new generation of workers.
    async fn replace_workers(
        &mut self,
        start: &mut StartPlan,
        config: &Config,
    ) -> Result<ReloadReport, ReloadError> {
        processes::run_before(&self.supervisor, std::mem::take(&mut start.before)).await?;
        match self.supervisor.reload(std::mem::take(&mut start.apps)).await {
            Ok(report) => Ok(report),
            Err(mut failure) => {
                version::explain(&mut failure, config).await;
                Err(failure.into())
            }
        }
    }

    /// All that can fail, except the workers. It does not change how a request is served; [`Self::take_back`] removes what it adds.
    fn make_ready(&mut self, config: &Config, tls: PreparedTls) -> Result<PreparedReload, String> {
        let maps = Maps::of(config)?;
        let mut upstreams = self.upstreams.prepare(config)?;
        let admin = self.listeners.open_admin(config, Some(&self.admin))?;
        let admin = self.admin.prepare(config.admin.as_ref(), admin)?;
        let opened = self.listeners.open(config, Some(&self.admin))?;
        // Before the workers load the watched files. A watch that stays keeps what it has seen: it may be newer than what the workers have loaded.
        let watch = (!watch::is_same(self.watch.as_ref(), config)).then(|| watch::start(config));
        let doors = self.listeners.door_variables(config, &opened);
        let start = StartPlan::new(config, &doors)?;
        // The new apps must be known before their workers come; how requests of the old ones are treated changes with the routes.
        config.apps.iter().for_each(|app| self.links.add_app(&app.name, assemble::policy(app)));
        self.prepare(config);
        let tracing = self.otlp.prepare(config);
        self.upstreams.set_tracing(tracing.clone());
        self.upstreams.add(config, &mut upstreams);
        let targets = RouteTargets {
            links: &self.links,
            upstreams: &self.upstreams,
            maps: &maps,
            tracing: tracing.as_ref(),
        };
        let mut plan = self.listeners.plan(config, opened, targets, tls)?;
        self.listeners.serve_new_doors(&mut plan);
        Ok(PreparedReload { upstreams, admin, plan, watch, doors, start, tracing })
    }

    /// The configuration was not applied: removes everything it added.
    fn take_back(&mut self) {
        self.prepare(&self.config);
        self.listeners.end_new_doors(&self.config);
        self.upstreams.keep_only(&self.config);
        self.links.keep_only(|name| self.config.app(name).is_some());
    }

    /// The new workers serve, and from now on all else is as the configuration says. Nothing here can fail.
    fn commit(&mut self, config: Config, next: PreparedReload, generation: u64) {
        let PreparedReload { mut upstreams, admin, plan, watch, doors, start, tracing } = next;
        set_apps(&config, &self.links);
        self.links.keep_only(|name| config.app(name).is_some());
        self.upstreams.apply(&config, &mut upstreams);
        self.listeners.apply(&config, plan, generation);
        self.otlp.apply(&config, tracing, &self.upstreams, &self.view);
        self.listeners.tls.authority.apply(&config);
        self.await_over(generation);
        self.door_variables = doors;
        self.admin.apply(config.admin.as_ref(), admin);
        assemble::set_process_limits(&config.server.limits);
        for key in self.config.restart_keys(&config) {
            tracing::warn!(name: "restart_needed", "{key} has changed and needs a restart");
        }
        if let Some(watch) = watch {
            self.watch = watch;
        }
        self.leak_watch.apply(&config, &self.links);
        self.config = config;
        // Behind the apps, which they may come after.
        self.supervisor.reload_processes(start.processes);
        self.watch_dependencies();
        self.show();
        self.guard_files();
    }

    /// Doors that are gone stay until the workers that knew of them have ended.
    fn await_over(&self, generation: u64) {
        if self.listeners.has_leaving() {
            let (supervisor, over) = (self.supervisor.clone(), self.over_news.clone());
            tokio::spawn(async move {
                supervisor.wait_over(generation).await;
                // An error: the process ends, and all doors with it.
                let _ = over.send(generation);
            });
        }
    }

    /// The workers that come may be of another kind than those that serve.
    fn prepare(&self, config: &Config) {
        config.apps.iter().for_each(|app| self.links.prepare(&app.name, assemble::worker_kind(app)));
    }

    /// Replaces the workers of these apps and these processes, whose source files have changed.
    pub(super) async fn recycle(&mut self, names: &[String]) {
        for process in names.iter().filter_map(|name| name.strip_prefix(watch::PROCESS)) {
            self.supervisor.replace_processes(process, ReplaceReason::Watch).await;
        }
        for app in self.config.apps.iter().filter(|app| names.contains(&app.name)) {
            if let Ok(report) = self.replace_workers_of(app).await {
                tracing::info!(
                    name: "workers_replaced",
                    app = %app.name, took_ms = report.took.as_millis(), generation = report.generation,
                    "workers replaced: they run the changed files"
                );
            }
        }
    }

    /// Replaces what has these names, one after the other. What follows on one that fails is replaced all the same.
    ///
    /// # Errors
    /// A name is unknown, and nothing was replaced; or workers do not start.
    pub(super) async fn restart(&self, names: &[String]) -> Result<String, RestartError> {
        let (mut lines, mut failed) = (Vec::new(), false);
        for target in restart::targets(names, &self.config)? {
            let outcome = match target {
                Target::App(app) => self.restart_app(app).await,
                Target::Process(name) => self.restart_process(name).await,
            };
            failed |= outcome.is_err();
            lines.push(outcome.unwrap_or_else(|message| message));
        }
        let whole = lines.join("\n");
        if failed { Err(RestartError::Failed(whole)) } else { Ok(whole) }
    }

    async fn restart_app(&self, app: &AppConfig) -> Result<String, String> {
        let name = &app.name;
        if let Some(address) = &app.address {
            return Err(format!("app {name}: Keepwarm does not start its server, {address}"));
        }
        match self.replace_workers_of(app).await {
            Ok(report) => {
                tracing::info!(
                    name: "app_restarted",
                    app = %app.name, took_ms = report.took.as_millis(), generation = report.generation,
                    "app restarted: new workers serve"
                );
                let took = report.took.as_secs_f64();
                Ok(format!(
                    "app {name}: new workers serve, generation {}, after {took:.1} s",
                    report.generation
                ))
            }
            Err(message) => {
                Err(format!("app {name}: workers not replaced; the previous ones keep serving\n{message}"))
            }
        }
    }

    async fn restart_process(&self, name: &str) -> Result<String, String> {
        match self.supervisor.replace_processes(name, ReplaceReason::Requested).await {
            true => Ok(format!("process {name}: each of its processes is replaced, one after the other")),
            false => Err(format!("process {name}: it is being stopped")),
        }
    }

    /// The workers of an app that does not start go on, and its pages show why.
    ///
    /// # Errors
    /// Already logged; in words.
    async fn replace_workers_of(&self, app: &AppConfig) -> Result<ReloadReport, String> {
        let outcome = match assemble::spec(app, &self.door_variables) {
            Ok(spec) => self.supervisor.recycle(spec).await.map_err(ReloadError::from),
            Err(error) => Err(error.to_string().into()),
        };
        if let Some(links) = self.links.app(&app.name) {
            links.set_unstarted(outcome.as_ref().err().map(ReloadError::whole).as_deref());
        }
        outcome.map_err(|failure| {
            tracing::error!(
                name: "workers_not_replaced",
                app = %app.name, "workers not replaced; the previous ones keep serving: {}", failure.message
            );
            failure.whole()
        })
    }
}

/// Why a reload failed; the previous configuration stays active.
#[derive(Debug)]
pub(super) struct ReloadError {
    message: String,
    /// The output of the worker that did not start.
    printed: String,
}

impl ReloadError {
    /// For a caller who does not read the log.
    pub(super) fn whole(&self) -> String {
        match self.printed.is_empty() {
            true => self.message.clone(),
            false => format!("{}\n{}", self.printed, self.message),
        }
    }
}

impl From<String> for ReloadError {
    fn from(message: String) -> Self {
        Self { message, printed: String::new() }
    }
}

impl From<TaskFailure> for ReloadError {
    fn from(failure: TaskFailure) -> Self {
        let printed = String::from_utf8_lossy(&failure.output).trim_end().to_owned();
        Self { message: failure.to_string(), printed }
    }
}

impl From<StartFailure> for ReloadError {
    fn from(failure: StartFailure) -> Self {
        let printed = String::from_utf8_lossy(&failure.stderr).trim_end().to_owned();
        Self { message: failure.to_string(), printed }
    }
}
