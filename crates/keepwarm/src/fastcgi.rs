//! How servers for classic PHP are started: a `php-fpm` with a pool of processes, or `php-cgi`, a process for each request at once.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use keepwarm_config::{App, AppKind, Bind, Program};
use keepwarm_net::Endpoint;
use keepwarm_workers::dispatch::{ChildPolicy, Protocol, ScriptRoot, ServerPolicy, WorkerKind};
use keepwarm_workers::supervisor::ChildLimits;

use crate::adapter::Adapter;
use crate::assemble::scaling;
use crate::language::{StartCommand, interpreter};
use crate::php_fpm::{self, is_fpm};

/// The configuration of php-fpm.
const FPM: Adapter = Adapter {
    language: "fastcgi",
    marker: CONFIGURATION,
    files: &[(CONFIGURATION, include_str!("../../../adapters/fastcgi/php-fpm.conf"))],
};
const CONFIGURATION: &str = "php-fpm.conf";

/// Starts a program that listens at the configured socket: `php-cgi` takes its path as an argument only.
const LISTEN: &str = r#"exec "$@" -b "$KEEPWARM_SOCKET""#;

/// How the servers of an app are started.
///
/// # Errors
/// The configuration of php-fpm could not be put in its place.
pub(crate) fn start(app: &App, requests: usize) -> io::Result<StartCommand> {
    let program = interpreter(app);
    let mut command: Vec<OsString>;
    let mut env: Vec<(OsString, OsString)> = Vec::new();
    if is_fpm(&program) {
        command = vec![program.into_os_string()];
        command.extend(["--nodaemonize", "--allow-to-run-as-root", "--fpm-config"].map(OsString::from));
        command.push(FPM.folder()?.join(CONFIGURATION).into_os_string());
        let user = if rustix::process::geteuid().is_root() { "root" } else { "" };
        env.push(("KEEPWARM_FPM_USER".into(), user.into()));
        let (pm, least) = match scaling(app) {
            Some(scaling) => ("dynamic", scaling.min),
            None => ("static", requests),
        };
        env.push(("KEEPWARM_FPM_PM".into(), pm.into()));
        env.push(("KEEPWARM_FPM_LEAST".into(), least.to_string().into()));
        env.push(("KEEPWARM_FPM_CHILDREN".into(), requests.to_string().into()));
        let finish = app.drain_timeout.as_secs().saturating_add(1).to_string();
        env.push(("KEEPWARM_FPM_FINISH".into(), finish.into()));
        command.extend(app.options.iter().map(OsString::from));
    } else {
        if requests > 1 {
            warn_of_apcu(app, Path::new("/etc/php"));
        }
        command = ["/bin/sh", "-c", LISTEN, "sh"].map(OsString::from).into();
        command.push(program.into_os_string());
        command.extend(app.options.iter().map(OsString::from));
        // It has no children and does not end by itself: both are the supervisor's business.
        env.push(("PHP_FCGI_CHILDREN".into(), "0".into()));
        env.push(("PHP_FCGI_MAX_REQUESTS".into(), "0".into()));
    }
    Ok(StartCommand { command, env })
}

/// A site that keeps its sessions in APCu, as MediaWiki does where it finds it, logs its visitors out at random when each process has an APCu of its own.
fn warn_of_apcu(app: &App, configuration: &Path) {
    let folders =
        |path: &Path| std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_on = folders(configuration)
        .flat_map(|version| folders(&version.join("cgi/conf.d")).collect::<Vec<_>>())
        .any(|file| file.file_name().is_some_and(|name| name.to_string_lossy().ends_with("apcu.ini")));
    if is_on {
        let app = &app.name;
        tracing::warn!(
            name: "apcu_not_shared",
            app,
            "php-apcu is installed, but php-cgi processes do not share its cache; install php-fpm (it is then the default), set app.{app}.interpreter to a php-fpm, or set app.{app}.workers to 1"
        );
    }
}

/// Reports which server runs an app's scripts, where the configuration leaves that open.
pub(crate) fn announce(app: &App) {
    if app.kind == Some(AppKind::FastCgi) && app.address.is_none() && app.interpreter.is_none() {
        let (name, server) = (&app.name, interpreter(app));
        tracing::info!(
            name: "fastcgi_server_chosen",
            app = %name, server = %server.display(),
            "classic PHP: app.{name}.interpreter is not set; this server runs its scripts"
        );
    }
}

/// The server that runs scripts where no interpreter is configured: a php-fpm, where one is installed.
pub(crate) fn default_server(app: &App) -> PathBuf {
    let path = app.env.get("PATH").map(OsString::from).or_else(|| std::env::var_os("PATH"));
    php_fpm::find(path.as_deref()).unwrap_or_else(|| "php-cgi".into())
}

/// When one of its processes is ended, if it has others for the requests.
pub(crate) fn child_limits(app: &App) -> Option<ChildLimits> {
    let App { max_memory, kill_memory, .. } = *app;
    has_processes_of_its_own(app).then_some(ChildLimits { max_memory, kill_memory })
}

/// Whether one process is enough, because it has others for the requests: php-fpm.
pub(crate) fn has_processes_of_its_own(app: &App) -> bool {
    app.kind == Some(AppKind::FastCgi) && app.address.is_none() && is_fpm(&interpreter(app))
}

/// Their protocol.
pub(crate) fn worker_kind(app: &App, requests: usize) -> WorkerKind {
    let root = match &app.program {
        Program::Entry(entry) => ScriptRoot::of_entry(&app.directory.join(entry)).ok(),
        _ => None,
    };
    // The entry is not a file of the file system, which was reported before.
    let Some(root) = root else { return WorkerKind::Wire };
    let address = app.address.as_ref().and_then(endpoint);
    let is_fpm = has_processes_of_its_own(app);
    let children = is_fpm.then(|| ChildPolicy {
        max_requests: app.max_requests.map(u64::from),
        max_age: app.max_age,
        idle: scaling(app).map(|scaling| scaling.idle),
    });
    let server = ServerPolicy {
        proxy: None,
        protocol: Protocol::FastCgi(Arc::new(root)),
        concurrency: if address.is_some() || is_fpm { requests } else { 1 },
        health: None,
        works_behind: is_fpm || matches!(address, Some(Endpoint::Unix(_))),
        children,
    };
    match address {
        Some(address) => WorkerKind::External(address, server),
        None => WorkerKind::Server(server),
    }
}

/// The address of a server that runs already. The configuration has refused names.
fn endpoint(address: &Bind) -> Option<Endpoint> {
    match address {
        Bind::Tcp(address) => Some(Endpoint::Tcp(*address)),
        Bind::Unix(path) => Some(Endpoint::Unix(std::path::absolute(path).unwrap_or_else(|_| path.clone()))),
        Bind::Host { .. } => None,
    }
}
