//! `keepwarm run`: from the command line to a serving process, and to its end.
//!
//! The main thread is the control thread: it runs the supervisor, signals and reloads. The data plane has threads of its own.

mod connection_limit;
mod drain;
mod handover;
mod inherited;
mod listener_handler;
mod listeners;
mod occupant;
mod pid_file;
mod plan;
mod processes;
mod reloading;
mod screen;
mod server;
pub(crate) mod signals;
pub(crate) mod sockets;
mod starting;
pub(crate) mod system;
mod takeover;
mod upgrade;
mod watchdog;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use keepwarm_config::{Config, Report, Target};

use self::inherited::InheritedSockets;
use self::takeover::Takeover;
use crate::control::Identity;
use crate::sources::SystemSources;
use crate::{assemble, cli, colors, complain, dev_tls, dry_run, exit, init, language, puma, tls, upstreams};

/// The configuration file that is looked for.
const DEFAULT_FILE: &str = "keepwarm.toml";

/// Runs until a signal ends it.
pub(crate) fn run(options: &cli::Run) -> ExitCode {
    let source = match ConfigSource::of(options) {
        Ok(source) => source,
        Err(message) => {
            complain(&message);
            return ExitCode::from(exit::USAGE);
        }
    };
    let (takeover, inherited) = match if options.dry_run { Ok(None) } else { Takeover::receive() } {
        Ok(Some((takeover, inherited))) => (Some(takeover), Ok(inherited)),
        Ok(None) => (None, InheritedSockets::from_service_manager()),
        Err(message) => (None, Err(message)),
    };
    if takeover.is_none()
        && matches!(source.place, ConfigPlace::CommandLine(_))
        && Path::new(DEFAULT_FILE).exists()
    {
        complain(&format!(
            "{DEFAULT_FILE} in this directory is ignored, because the command line names what to run; to use the file, start `keepwarm run` alone"
        ));
    }
    let config = match source.load() {
        Ok((config, warnings)) => {
            warnings.iter().for_each(|warning| complain(warning));
            config
        }
        Err(report) => {
            crate::print_error(&report.colored(colors()).to_string());
            if let Some(takeover) = &takeover {
                takeover.fail(&report.to_string());
            }
            return ExitCode::from(exit::USAGE);
        }
    };
    if takeover.is_none() {
        complain_of_environment(&config);
    }
    if options.dry_run {
        if let Err(message) = check_files(&config) {
            complain(&message);
            return ExitCode::from(exit::USAGE);
        }
        let faults = dry_run::faults(&config);
        if !faults.is_empty() {
            faults.iter().for_each(|fault| complain(fault));
            return ExitCode::from(exit::USAGE);
        }
        if options.boot {
            return dry_run::boot(&source.name(), config);
        }
        let unchecked = dry_run::unchecked(&config);
        return crate::print(&format!("{}: the configuration is valid{unchecked}", source.name()));
    }
    match inherited {
        Ok(inherited) => server::serve(source, config, takeover, inherited),
        Err(message) => {
            complain(&message);
            ExitCode::from(exit::FAILED)
        }
    }
}

/// Whether the files that the configuration names can be used; for commands that start nothing.
fn check_files(config: &Config) -> Result<(), String> {
    upstreams::check(config)?;
    tls::check(config)?;
    assemble::check_logs(config)
}

/// Reports once that the configured virtual environment is missing: the packages installed in it will not be found.
fn complain_of_environment(config: &Config) {
    let gone = config.apps.iter().find_map(|app| Some((app, language::missing_environment(app)?)));
    if let Some((app, folder)) = gone {
        complain(&format!(
            "VIRTUAL_ENV={} is ignored: it has no bin/python; {} runs Python apps instead",
            folder.display(),
            language::interpreter(app).display()
        ));
    }
}

/// Where the configuration comes from, at the start and at every reload.
#[derive(Debug, Clone)]
pub(crate) struct ConfigSource {
    place: ConfigPlace,
    /// Listeners get certificates of a local authority.
    pub(crate) has_local_tls: bool,
}

#[derive(Debug, Clone)]
enum ConfigPlace {
    File(PathBuf),
    CommandLine(Target),
}

impl ConfigSource {
    fn of(options: &cli::Run) -> Result<Self, String> {
        Ok(Self { place: ConfigPlace::of(options)?, has_local_tls: options.tls_dev })
    }

    /// The configuration, with what Ruby apps have elsewhere, and warnings. May take as long as Ruby takes to start.
    pub(crate) fn load(&self) -> Result<(Config, Vec<String>), Report> {
        let (mut config, warnings) = match &self.place {
            ConfigPlace::File(file) => keepwarm_config::load(&SystemSources, &file.to_string_lossy()),
            ConfigPlace::CommandLine(target) => Config::for_target(&SystemSources, target),
        }?;
        let mut warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        warnings.extend(puma::settle(&mut config));
        if self.has_local_tls {
            dev_tls::apply(&mut config).map_err(|error| Report::of_message(format!("--tls-dev: {error}")))?;
        }
        Ok((config, warnings))
    }

    pub(crate) fn identity(&self) -> Identity {
        match &self.place {
            ConfigPlace::File(file) => Identity::of_config(file),
            ConfigPlace::CommandLine(_) => Identity::of_directory(Path::new(".")),
        }
    }

    /// Whether a TARGET on the command line is all there is.
    pub(crate) fn is_command_line(&self) -> bool {
        matches!(self.place, ConfigPlace::CommandLine(_))
    }

    fn name(&self) -> String {
        match &self.place {
            ConfigPlace::File(file) => file.display().to_string(),
            ConfigPlace::CommandLine(_) => "command line".to_owned(),
        }
    }
}

/// With what is here and could be run.
fn nothing_to_run() -> String {
    let nothing =
        format!("nothing to run: no TARGET was given, and there is no {DEFAULT_FILE} in this directory");
    match init::what_is_here() {
        Some(found) => format!("{nothing}\n{found}"),
        None => format!("{nothing}\nfor example: keepwarm run shop.wsgi:application"),
    }
}

impl ConfigPlace {
    fn of(options: &cli::Run) -> Result<Self, String> {
        if options.boot && !options.dry_run {
            return Err("--boot needs --dry-run: it starts one worker of each app to check that it loads, and serves nothing"
                .to_owned());
        }
        if let Some(file) = options.target.as_ref().filter(|target| target.ends_with(".toml")) {
            return Err(format!(
                "`{file}` is a configuration file, not an app: start `keepwarm run --config {file}`"
            ));
        }
        if options.target.is_some() || !options.command.is_empty() {
            let variables = cli::Variables::of_process();
            return Ok(Self::CommandLine(Target {
                entry: options.target.clone().unwrap_or_default(),
                command: options.command.clone(),
                bind: options.binds(&variables)?,
                domains: options.domain.clone(),
                workers: options.worker_count(&variables)?,
                watch: options.watch,
            }));
        }
        let has_file = options.config.is_some() || Path::new(DEFAULT_FILE).exists();
        let has_address = !options.bind.is_empty() || options.port.is_some() || options.host.is_some();
        let has_keys =
            has_address || !options.domain.is_empty() || options.workers.is_some() || options.watch;
        if has_keys && has_file {
            return Err("--bind, --port, --host, --domain, --workers and --watch need a TARGET; with a configuration file, set its \
                        keys `bind`, `domains`, `workers` and `watch`"
                .to_owned());
        }
        match &options.config {
            Some(file) => Ok(Self::File(file.clone())),
            None if Path::new(DEFAULT_FILE).exists() => Ok(Self::File(DEFAULT_FILE.into())),
            None => Err(nothing_to_run()),
        }
    }
}
