//! Keepwarm: the server in front of and behind an application.

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod acme;
mod adapter;
mod admin;
mod assemble;
mod callers;
mod check;
mod cli;
mod control;
mod convert;
mod dev_tls;
mod dry_run;
mod endpoint;
mod error_reference;
mod explain;
mod fastcgi;
#[cfg(feature = "fault-injection")]
mod faults;
mod file_limit;
mod find;
mod hash_password;
mod init;
mod language;
mod leaks;
mod live;
mod maintenance;
mod named;
mod otlp;
mod php_fpm;
mod process_sockets;
mod profile;
mod program_output;
mod puma;
mod rate_limits;
mod readiness;
mod recycle;
mod reload;
mod restart;
mod run;
mod run_as;
mod service_manager;
mod sources;
mod stack;
mod status;
mod subjects;
mod tls;
mod top;
mod upstreams;
mod users;
mod version;
mod watch;
mod why;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use cli::{Cli, Command};
use keepwarm_workers::supervisor::{GUARDIAN, LAUNCH, guardian_main, launcher_main};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Exit statuses; the table for operators is in `docs/operate/`.
mod exit {
    /// An app could not be started, or a reload failed.
    pub(crate) const FAILED: u8 = 1;
    /// The command line or the configuration is wrong.
    pub(crate) const USAGE: u8 = 2;
    /// `keepwarm leaks`: the app keeps something.
    pub(crate) const KEPT: u8 = 3;
}

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    // Other processes of ours, which are this binary again.
    match arguments.next() {
        Some(first) if first == LAUNCH => launcher_main(arguments),
        Some(first) if first == GUARDIAN => guardian_main(),
        _ => {}
    }
    match Cli::read().command {
        Command::Run(options) => run::run(&options),
        Command::Init(options) => init::init(&options),
        Command::Reload(selector) => reload::reload(&selector),
        Command::Restart(options) => restart::restart(&options),
        Command::Status(options) => status::command::status(&options),
        Command::Why(options) => why::command::why(&options),
        Command::Top(options) => top::top(&options),
        Command::Maintenance { command } => maintenance::maintenance(&command),
        Command::Endpoint { command } => endpoint::endpoint(&command),
        Command::Stack(options) => stack::stack(&options),
        Command::Recycle(options) => recycle::recycle(&options),
        Command::Profile(options) => profile::profile(&options),
        Command::Leaks(options) => leaks::leaks(&options),
        Command::Check(options) => check::check(&options),
        Command::Convert(options) => convert::convert(&options),
        Command::HashPassword(options) => hash_password::hash_password(&options),
        Command::Explain { name } => explain::explain(name.as_deref().unwrap_or_default()),
        Command::Reference { schema: true, .. } => print(&keepwarm_config::json_schema()),
        Command::Reference { errors: true, .. } => print(&error_reference::markdown()),
        Command::Reference { .. } => print(&keepwarm_config::reference_markdown()),
    }
}

/// Writes to standard output; a reader that has left early (`| head`) is not an error.
fn print(text: &str) -> ExitCode {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes());
    if !text.ends_with('\n') {
        let _ = out.write_all(b"\n");
    }
    let _ = out.flush();
    ExitCode::SUCCESS
}

/// Reports an error.
pub(crate) fn complain(message: &str) {
    print_error(&format!("keepwarm: {}", message.trim_end()));
}

/// Writes to standard error. `eprintln!` would panic where it is closed.
pub(crate) fn print_error(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Whether standard error takes colors: a terminal, and no wish against them (`NO_COLOR`).
pub(crate) fn colors() -> bool {
    std::io::stderr().is_terminal() && wants_colors()
}

/// Whether colors are not disabled.
pub(crate) fn wants_colors() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
