//! The command line.

mod check;
mod convert;
mod endpoint;
#[cfg(test)]
mod generated;
mod hint;
mod leaks;
mod maintenance;
mod place;
mod profile;
mod why;

use std::path::PathBuf;

pub(crate) use check::{Check, FailOn};
use clap::{Args, Parser, Subcommand};
pub(crate) use convert::Convert;
pub(crate) use endpoint::Endpoint;
pub(crate) use leaks::Leaks;
pub(crate) use maintenance::{Maintenance, MaintenanceOn, MaintenanceSubject};
pub(crate) use place::Variables;
pub(crate) use profile::Profile;
pub(crate) use why::Why;

/// What was asked for.
#[derive(Debug, Parser)]
#[command(
    name = "keepwarm",
    version,
    about = "Serve an app from long-lived workers, with correct HTTP",
    after_help = "Examples:\n  keepwarm run shop.wsgi:application            serve a Python app (WSGI or ASGI) on 127.0.0.1:8080\n  \
                  keepwarm run shop.wsgi:application --bind 0.0.0.0:80 --workers 4\n  \
                  keepwarm run shop.wsgi:application --tls-dev  the same over HTTPS and HTTP/2, for development\n  \
                  keepwarm run shop.wsgi:application --domain shop.example   on the internet, with a certificate\n  \
                  keepwarm init                                 find the app here and write keepwarm.toml\n  \
                  keepwarm run                                  serve what keepwarm.toml configures\n  \
                  keepwarm run --dry-run                        check the configuration only\n  \
                  keepwarm run --dry-run --boot                 also check that each app loads\n  \
                  keepwarm reload                               load new configuration and code, losing no request\n  \
                  keepwarm restart shop                         replace the workers of one app\n  \
                  keepwarm status                               show apps, workers and listeners\n  \
                  keepwarm why                                  say what is slow right now, and why\n  \
                  keepwarm top                                  show all of it live on a screen\n  \
                  keepwarm profile shop                         show where the time of the app goes, as a flame graph\n  \
                  keepwarm leaks shop                           show what the app keeps between requests\n  \
                  keepwarm maintenance on --allow 203.0.113.7   respond with 503 to all other clients\n  \
                  keepwarm check https://shop.example/          check a server for known stalls, with fixes\n  \
                  keepwarm convert nginx.conf > keepwarm.toml   convert the configuration of another server\n  \
                  keepwarm explain app.workers                  explain a configuration key\n  \
                  keepwarm explain queue_full                   explain the reason of an error response",
    disable_help_subcommand = true
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// Reads the command line; ends the process where it is wrong, or asks for help only.
    pub(crate) fn read() -> Self {
        Self::try_parse().unwrap_or_else(|error| {
            let arguments: Vec<String> =
                std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
            if let Some(hint) = hint::of(&error, &arguments) {
                crate::complain(&hint);
                std::process::exit(crate::exit::USAGE.into());
            }
            error.exit()
        })
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve an application
    Run(Run),
    /// Find the application in a directory and write keepwarm.toml
    ///
    /// Says what was found and which files and lines show it, writes keepwarm.toml, and prints the command that serves it. Reads files only: nothing of the
    /// application runs. Existing files are never replaced; then the exit status is 1 and nothing is written.
    Init(Init),
    /// Reload configuration and workers without losing a request
    Reload(InstanceSelector),
    /// Replace the workers of apps, or processes, without losing a request
    ///
    /// An app gets new workers beside the old ones, which leave once the new ones serve; if those do not start, the old ones keep serving. Processes of
    /// `[process.NAME]` are stopped and started again, one after the other. The configuration is not read again: `keepwarm reload` does that.
    Restart(Restart),
    /// Show apps, workers and listeners of the running instance
    Status(Status),
    /// Say what slows the running instance down, with evidence
    #[command(long_about = why::ABOUT)]
    Why(Why),
    /// Show apps, workers, routes and upstreams live on a screen
    ///
    /// The verdict of `keepwarm why` stands first; lists of apps, workers, routes, upstreams, listeners and certificates follow, new each second. Keys: Tab
    /// shows the next list, arrows and PgUp/PgDn move, s sorts, / filters, ? shows help, q quits. Without a terminal use `keepwarm why --json`.
    Top(Top),
    /// Print the stacks of a worker's threads, and log them
    Stack(NamedWorker),
    /// Replace a worker: it leaves once its replacement is ready
    Recycle(NamedWorker),
    /// Show where an app's time goes: a flame graph of its requests
    #[command(long_about = profile::ABOUT)]
    Profile(Profile),
    /// Show what an app keeps between requests, and by which route
    #[command(long_about = leaks::ABOUT)]
    Leaks(Leaks),
    /// Begin or end maintenance: new requests get 503 and a page
    Maintenance {
        #[command(subcommand)]
        command: Maintenance,
    },
    /// Take an endpoint of an upstream out of use, or put it back
    Endpoint {
        #[command(subcommand)]
        command: Endpoint,
    },
    /// Check any HTTP server for known stalls
    #[command(long_about = check::ABOUT)]
    Check(Box<Check>),
    /// Convert the configuration of another server to keepwarm.toml
    #[command(long_about = convert::ABOUT)]
    Convert(Convert),
    /// Hash a password for `basic_auth`
    ///
    /// Reads the password from standard input (from a terminal without showing it) and prints its hash, by argon2id.
    HashPassword(HashPassword),
    /// Explain a configuration key, an error response, a verdict, a finding or an event of the log
    Explain {
        /// Key, section, reason, verdict, finding or event, for example `app.workers`, `listen`, `queue_full`, `too_few_workers`, `expect.continue` or
        /// `slow_request`
        #[arg(value_name = "NAME")]
        name: Option<String>,
    },
    /// Print a page of the reference: the configuration's keys, or the error responses
    Reference {
        /// Print the keys as a JSON schema
        #[arg(long)]
        schema: bool,
        /// Print the error responses
        #[arg(long, conflicts_with = "schema")]
        errors: bool,
    },
}

#[derive(Debug, Clone, Args)]
pub(crate) struct HashPassword {
    /// Print `USER:HASH`, a line of the file of `basic_auth.file`
    #[arg(long, value_name = "USER")]
    pub(crate) user: Option<String>,
    /// Hash by bcrypt, for files that other programs read too
    #[arg(long)]
    pub(crate) bcrypt: bool,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Init {
    /// Directory to look in
    #[arg(value_name = "DIR", help = "Directory to look in [default: the current one]")]
    pub(crate) directory: Option<PathBuf>,
    /// Which application to serve, where several are found: a framework, a target or a directory
    #[arg(long, value_name = "NAME")]
    pub(crate) app: Option<String>,
    /// Also write a systemd unit
    #[arg(long)]
    pub(crate) systemd: bool,
    /// Also write a Containerfile
    #[arg(long)]
    pub(crate) container: bool,
    /// Also write a compose file, and a Containerfile if there is none
    #[arg(long)]
    pub(crate) compose: bool,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Run {
    /// App to serve: `module:attribute` or `path/file.py:attribute` (Python; WSGI or ASGI is detected), `config.ru` (Ruby),
    /// `public/index.php` (PHP) or the directory of one of them [default: the apps of the configuration file]
    pub(crate) target: Option<String>,
    /// Configuration file
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "target",
        help = "Configuration file [default: keepwarm.toml]"
    )]
    pub(crate) config: Option<PathBuf>,
    /// Address to listen on: HOST:PORT or unix:PATH; may be repeated
    #[arg(
        long,
        value_name = "ADDRESS",
        help = "Address to listen on: HOST:PORT or unix:PATH; may be repeated [default: 127.0.0.1:8080]"
    )]
    pub(crate) bind: Vec<String>,
    /// Port to listen on, in place of --bind
    #[arg(
        long,
        short,
        value_name = "PORT",
        conflicts_with = "bind",
        help = "Port to listen on, in place of --bind [default: the variable PORT, else 8080]"
    )]
    pub(crate) port: Option<u16>,
    /// Host to listen on, in place of --bind
    #[arg(
        long,
        value_name = "HOST",
        conflicts_with = "bind",
        help = "Host to listen on, in place of --bind [default: 127.0.0.1; 0.0.0.0 if only the variable PORT is set]"
    )]
    pub(crate) host: Option<String>,
    /// Serve these names over HTTPS, with certificates from Let's Encrypt; may be repeated
    #[arg(
        long,
        value_name = "NAME",
        help = "Serve this name over HTTPS, with a certificate from Let's Encrypt; may be repeated [default address: port 443, with 80 for redirects]"
    )]
    pub(crate) domain: Vec<String>,
    /// Serve over HTTPS and HTTP/2 with a certificate of a local authority (for development)
    #[arg(long)]
    pub(crate) tls_dev: bool,
    /// Number of worker processes
    #[arg(
        long,
        value_name = "N",
        help = "Number of worker processes [default: the variable WEB_CONCURRENCY, else one per core, or one for a command]"
    )]
    pub(crate) workers: Option<String>,
    /// Replace workers when a source file of the app changes (for development)
    #[arg(long, visible_alias = "reload")]
    pub(crate) watch: bool,
    /// Check the configuration and the files it names, then exit
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// With --dry-run: also start one worker of each app, and stop it when it is ready or has failed
    #[arg(long)]
    pub(crate) boot: bool,
    /// Command to run: a program that serves HTTP on the port in the variable PORT
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Status {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Refresh every second, until q or Ctrl-C
    #[arg(long)]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) selector: InstanceSelector,
}

#[derive(Debug, Args)]
pub(crate) struct Top {
    #[command(flatten)]
    pub(crate) selector: InstanceSelector,
}

#[derive(Debug, Args)]
pub(crate) struct NamedWorker {
    /// Worker: APP/NUMBER as `keepwarm status` shows it, or its process id
    pub(crate) worker: String,
    #[command(flatten)]
    pub(crate) selector: InstanceSelector,
}

#[derive(Debug, Args)]
pub(crate) struct Restart {
    /// App or process: NAME, or app.NAME and process.NAME where both have that name
    #[arg(value_name = "NAME", required = true)]
    pub(crate) names: Vec<String>,
    #[command(flatten)]
    pub(crate) selector: InstanceSelector,
}

/// The running instance to control.
#[derive(Debug, Args)]
pub(crate) struct InstanceSelector {
    /// Configuration file of the instance to control
    #[arg(
        long,
        value_name = "FILE",
        help = "Configuration file of the instance to control [default: the one started in this directory]"
    )]
    pub(crate) config: Option<PathBuf>,
    /// Process id of the instance to control
    #[arg(long, value_name = "PID", conflicts_with = "config")]
    pub(crate) pid: Option<u32>,
    /// Pid file of the instance to control (its `server.pid_file`)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["config", "pid"])]
    pub(crate) pid_file: Option<PathBuf>,
}
