//! The command line.

mod check;
mod hint;

use std::path::PathBuf;

pub(crate) use check::{Check, FailOn};
use clap::{Args, Parser, Subcommand};

/// What was asked for.
#[derive(Debug, Parser)]
#[command(
    name = "keepwarm",
    version,
    about = "Serves an application from long-lived workers, with HTTP exactly right.",
    after_help = "Examples:\n  keepwarm run shop.wsgi:application            serve a Python app (WSGI or ASGI) on 127.0.0.1:8080\n  \
                  keepwarm run shop.wsgi:application --bind 0.0.0.0:80 --workers 4\n  \
                  keepwarm run                                  serve what keepwarm.toml says\n  \
                  keepwarm run --dry-run                        only check the configuration\n  \
                  keepwarm run --dry-run --boot                 also whether each app loads\n  \
                  keepwarm reload                               new configuration, new workers, no request lost\n  \
                  keepwarm status                               what runs, and what it does\n  \
                  keepwarm check https://shop.example/          which of the known stalls a server has, and what to do\n  \
                  keepwarm explain app.workers                  what a key of the configuration means",
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
    /// Have the running Keepwarm read its configuration again and replace its workers, losing no request
    Reload(InstanceSelector),
    /// Show what the running Keepwarm does: apps, workers, listeners
    Status(Status),
    /// Show where a worker stands: the stack of its threads, which also goes to the log
    Stack(Stack),
    /// Examine any HTTP server for the known stalls: what it does, what that costs, what to do about it
    #[command(long_about = check::ABOUT)]
    Check(Box<Check>),
    /// Explain a key of the configuration, or list the keys of a section
    Explain {
        /// The key, for example `app.workers`, `queue_timeout` or `listen`
        key: Option<String>,
    },
    /// Write the reference of the configuration: a page or a JSON schema
    Reference {
        /// Print the JSON schema instead of the page
        #[arg(long)]
        schema: bool,
    },
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Run {
    /// What to serve: `module:attribute` or `path/file.py:attribute` (Python; WSGI and ASGI are told apart), `config.ru` (Ruby),
    /// `public/index.php` (PHP). Without it, the configuration file says
    pub(crate) target: Option<String>,
    /// The configuration file
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "target",
        help = "The configuration file [default: keepwarm.toml]"
    )]
    pub(crate) config: Option<PathBuf>,
    /// Where to listen: HOST:PORT or unix:PATH; may be given several times
    #[arg(
        long,
        value_name = "ADDRESS",
        help = "Where to listen: HOST:PORT or unix:PATH; may be repeated [default: 127.0.0.1:8080]"
    )]
    pub(crate) bind: Vec<String>,
    /// How many worker processes
    #[arg(long, value_name = "N", help = "How many worker processes [default: one per core]")]
    pub(crate) workers: Option<String>,
    /// Replace the workers when a source file of the app changes (for development)
    #[arg(long)]
    pub(crate) watch: bool,
    /// Check the configuration and the files it names, and exit
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// With --dry-run: also start one worker of each app, until it is ready or fails, and stop it
    #[arg(long)]
    pub(crate) boot: bool,
    /// A program that serves HTTP on the port in the variable PORT
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Status {
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Again each second, until q or Ctrl-C
    #[arg(long)]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) selector: InstanceSelector,
}

#[derive(Debug, Args)]
pub(crate) struct Stack {
    /// The worker: APP/NUMBER as `keepwarm status` shows it, or its process id
    pub(crate) worker: String,
    #[command(flatten)]
    pub(crate) selector: InstanceSelector,
}

/// Which of the running Keepwarms is meant.
#[derive(Debug, Args)]
pub(crate) struct InstanceSelector {
    /// The configuration file of the Keepwarm that is meant
    #[arg(
        long,
        value_name = "FILE",
        help = "The configuration file of the Keepwarm that is meant [default: the one started in this directory]"
    )]
    pub(crate) config: Option<PathBuf>,
    /// The process id of the Keepwarm that is meant
    #[arg(long, value_name = "PID", conflicts_with = "config")]
    pub(crate) pid: Option<u32>,
    /// The file that its `server.pid_file` names
    #[arg(long, value_name = "FILE", conflicts_with_all = ["config", "pid"])]
    pub(crate) pid_file: Option<PathBuf>,
}
