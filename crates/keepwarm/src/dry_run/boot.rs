//! `--dry-run --boot`: one worker of each app is started as the real start would start it, until it is ready or fails, and stopped again.
//!
//! It opens no listener and calls no upstream. Doors are not opened either: they may belong to the process that serves now, and a door that accepts
//! nothing would have an app that calls while it loads wait for its timeout. Such an app reaches the doors of a Keepwarm that runs, or none.

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use keepwarm_config::{App, Config};
use keepwarm_net::DataPlane;
use keepwarm_telemetry::panics;
use keepwarm_workers::dispatch::Links;
use keepwarm_workers::supervisor::{AppSpec, Options, StartFailure, Supervisor};

use crate::assemble::{self, DoorVariables};
use crate::run::signals::StopSignals;
use crate::run::system;
use crate::{complain, exit, file_limit, language, version};

/// Boots the apps one after another, so that each has the machine for itself and what it prints stands together. `name` is that of the configuration.
pub(crate) fn boot(name: &str, mut config: Config) -> ExitCode {
    // The log file is that of the service.
    config.server.log.file = None;
    let result = assemble::start_logging(&config).and_then(|logging| {
        panics::install();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime =
            runtime.map_err(|error| format!("cannot start the event loop of the control thread: {error}"))?;
        let failed = runtime.block_on(boot_all(&config));
        logging.finish();
        failed
    });
    let apps = config.apps.iter().filter(|app| app.address.is_none()).count();
    match result {
        Ok(0) => {
            crate::print(&format!("{name}: the configuration is valid; apps that load: {apps} of {apps}"))
        }
        Ok(failed) => {
            complain(&format!("{name}: apps that load: {} of {apps}", apps - failed));
            ExitCode::from(exit::FAILED)
        }
        Err(message) => {
            complain(&message);
            ExitCode::from(exit::FAILED)
        }
    }
}

/// Returns how many could not be started.
async fn boot_all(config: &Config) -> Result<usize, String> {
    system::check()?;
    let mut stop_signals = StopSignals::new().map_err(|error| format!("cannot receive signals: {error}"))?;
    file_limit::raise(false);
    let plane = DataPlane::start(1).map_err(|error| format!("cannot start a data-plane thread: {error}"))?;
    let doors =
        config.upstreams.iter().filter_map(|upstream| Some((upstream.variable(), upstream.door_url()?)));
    let doors: DoorVariables = doors.collect();
    let mut failed = 0;
    for app in &config.apps {
        match &app.address {
            Some(_) => say(&format!("app {:?}: not started, because it runs already", app.name)),
            None => failed += usize::from(!boot_one(config, app, &doors, &plane, &mut stop_signals).await?),
        }
    }
    plane.stop();
    Ok(failed)
}

/// Whether it could be started.
///
/// # Errors
/// In words: nothing was found out about the app.
async fn boot_one(
    config: &Config,
    app: &App,
    doors: &DoorVariables,
    plane: &DataPlane,
    stop_signals: &mut StopSignals,
) -> Result<bool, String> {
    let spec = assemble::spec(app, doors).map_err(|error| format!("cannot unpack an adapter: {error}"))?;
    // One try: the user who waits wants to read why it failed.
    let spec = AppSpec { workers: 1, scaling: None, start_retries: 0, ..spec };
    let links = Arc::new(Links::new(plane.remotes()));
    links.set_app(&app.name, assemble::policy(app));
    let options = Options { soft_files: file_limit::original(), ..Options::default() };
    let began = Instant::now();
    let supervisor = Supervisor::start(vec![spec], Arc::clone(&links) as _, options)
        .await
        .map_err(|error| format!("cannot start the supervisor: {error}"))?;
    let failures = tokio::select! {
        failures = supervisor.wait_first_boot() => Ok(failures),
        () = stop_signals.heard() => Err(format!("app {:?}: stopped by a signal before its worker was ready", app.name)),
    };
    let took = began.elapsed();
    if let Ok([]) = failures.as_deref() {
        say(&ready(app, &links, took));
    }
    let grace = if failures.is_ok() { config.server.shutdown_grace } else { Duration::ZERO };
    tokio::select! {
        () = supervisor.stop(grace) => {}
        () = stop_signals.heard() => supervisor.stop(Duration::ZERO).await,
    }
    let failures = failures?;
    let is_ready = failures.is_empty();
    for failure in failures {
        show(failure, config, took).await;
    }
    Ok(is_ready)
}

/// The report on an app whose worker is ready.
fn ready(app: &App, links: &Links, took: Duration) -> String {
    let about = links.app(&app.name).and_then(|app| app.description());
    let program = language::describe_interpreter(app).map(|program| format!("by {program}"));
    let title = assemble::title(app);
    let details: Vec<_> =
        [Some(title), about, program].into_iter().flatten().filter(|part| !part.is_empty()).collect();
    format!("app {:?}: worker ready after {:.2} s ({})", app.name, took.as_secs_f64(), details.join(", "))
}

/// Shows its output, and then why it failed.
async fn show(mut failure: StartFailure, config: &Config, took: Duration) {
    version::explain(&mut failure, config).await;
    failure.reason = format!("{}; after {:.2} s", failure.reason, took.as_secs_f64());
    // A closed standard error does not matter.
    let _ = failure.write_to(&mut std::io::stderr().lock());
}

/// A line of the report, at once: the next app may take long.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
