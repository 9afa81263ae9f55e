//! How servers for classic PHP are started: `php-cgi`, a process for each request at once, or a `php-fpm` with a pool of them.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::Arc;

use keepwarm_config::{App, AppKind, Bind, Program};
use keepwarm_net::Endpoint;
use keepwarm_workers::dispatch::{Protocol, ScriptRoot, ServerPolicy};

use crate::adapter::Adapter;
use crate::language::{Start, interpreter};

/// What php-fpm is configured by.
const FPM: Adapter = Adapter {
    language: "fastcgi",
    marker: CONFIGURATION,
    files: &[(CONFIGURATION, include_str!("../../../adapters/fastcgi/php-fpm.conf"))],
};
const CONFIGURATION: &str = "php-fpm.conf";

/// Has a program listen at the socket that it is told of: `php-cgi` takes its path as an argument only.
const LISTEN: &str = r#"exec "$@" -b "$KEEPWARM_SOCKET""#;

/// How the servers of an app are started.
///
/// # Errors
/// The configuration of php-fpm could not be put in its place.
pub(crate) fn start(app: &App, requests: usize) -> io::Result<Start> {
    let program = interpreter(app);
    let mut command: Vec<OsString>;
    let mut env: Vec<(OsString, OsString)> = Vec::new();
    if is_fpm(&program) {
        command = vec![program.into_os_string()];
        command.extend(["--nodaemonize", "--allow-to-run-as-root", "--fpm-config"].map(OsString::from));
        command.push(FPM.folder()?.join(CONFIGURATION).into_os_string());
        let user = if rustix::process::geteuid().is_root() { "root" } else { "" };
        let timeout = app.request_timeout.as_secs().saturating_add(1).to_string();
        env.push(("KEEPWARM_FPM_USER".into(), user.into()));
        env.push(("KEEPWARM_FPM_CHILDREN".into(), requests.to_string().into()));
        env.push(("KEEPWARM_FPM_TIMEOUT".into(), timeout.into()));
        let catch = if app.watch.is_empty() { "no" } else { "yes" };
        let finish = app.drain_timeout.as_secs().saturating_add(1).to_string();
        env.push(("KEEPWARM_FPM_FINISH".into(), finish.into()));
        env.push(("KEEPWARM_FPM_CATCH".into(), catch.into()));
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
    Ok(Start { command, env })
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
            app,
            "php-apcu is installed, and processes of php-cgi do not share what it keeps: set app.{app}.interpreter to a php-fpm, or app.{app}.workers to 1"
        );
    }
}

/// Whether one process is enough, because it has others for the requests: php-fpm.
pub(crate) fn has_processes_of_its_own(app: &App) -> bool {
    app.kind == Some(AppKind::FastCgi) && app.address.is_none() && is_fpm(&interpreter(app))
}

/// How they are spoken to. `None`: the entry is no file of the file system, which was told before.
pub(crate) fn policy(app: &App, requests: usize) -> Option<ServerPolicy> {
    let Program::Entry(entry) = &app.program else { return None };
    let root = ScriptRoot::of_entry(&app.directory.join(entry)).ok()?;
    let address = app.address.as_ref().and_then(endpoint);
    let concurrency = if address.is_some() || is_fpm(&interpreter(app)) { requests } else { 1 };
    Some(ServerPolicy { protocol: Protocol::FastCgi(Arc::new(root)), concurrency, health: None, address })
}

/// Of a server that runs already. The configuration has refused names.
fn endpoint(address: &Bind) -> Option<Endpoint> {
    match address {
        Bind::Tcp(address) => Some(Endpoint::Tcp(*address)),
        Bind::Unix(path) => Some(Endpoint::Unix(std::path::absolute(path).unwrap_or_else(|_| path.clone()))),
        Bind::Host { .. } => None,
    }
}

/// `php-fpm`, `php-fpm8.2`.
fn is_fpm(program: &Path) -> bool {
    program.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("php-fpm"))
}
