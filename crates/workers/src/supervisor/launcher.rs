//! Runs IN THE CHILD, between the fork and the worker's own program: Keepwarm's binary, started again as
//! `keepwarm __launch PARENT SETTINGS DIRECTORY COMMAND...`.
//!
//! What would otherwise be unsafe code between fork and exec is ordinary code here. It gets the wire's socket, if the worker is to have one, as standard
//! input, and pipes to the log as standard output and error; it leaves by becoming the command.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::IntoRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, exit};

use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal, setsid};

use super::ProcessSettings;
use super::descriptors::close_inherited;
use super::priority;
use super::signals;

/// The hidden sub-command that calls [`launcher_main`].
pub const LAUNCH: &str = "__launch";

/// In the launcher's environment, and not in the worker's: start at a low priority, with this niceness; without a number, with what needs no right.
pub(super) const QUIET: &str = "KEEPWARM_QUIET";

/// The command could not be executed, as a shell says it.
const CANNOT_EXECUTE: i32 = 126;
/// The command does not exist, as a shell says it.
const NOT_FOUND: i32 = 127;

/// Prepares this process and becomes the worker's command. `args`: what follows [`LAUNCH`] on the command line.
///
/// On failure one line goes to standard error, and the status is 127 when the command does not exist, otherwise 126.
pub fn launcher_main(args: impl Iterator<Item = OsString>) -> ! {
    let failure = launch(args);
    // Standard error is all there is to complain to.
    let _ = writeln!(io::stderr(), "keepwarm: {}", failure.message);
    exit(failure.status)
}

/// Why the command was not executed.
struct LaunchError {
    message: String,
    status: i32,
}

impl LaunchError {
    fn new(what: impl std::fmt::Display, error: impl Into<io::Error>) -> Self {
        Self { message: format!("{what}: {}", error.into()), status: CANNOT_EXECUTE }
    }
}

/// Returns only when it failed.
fn launch(mut args: impl Iterator<Item = OsString>) -> LaunchError {
    let parent = args.next().and_then(|pid| pid.to_str()?.parse().ok()).and_then(Pid::from_raw);
    let settings = args.next().and_then(|settings| ProcessSettings::parse(settings.to_str()?));
    let (Some(parent), Some(settings), Some(directory), Some(program)) =
        (parent, settings, args.next(), args.next())
    else {
        return LaunchError { message: format!("{LAUNCH} is for internal use only"), status: CANNOT_EXECUTE };
    };
    close_inherited();
    let wire = match prepare(&settings, parent) {
        Ok(wire) => wire,
        Err(failure) => return failure,
    };
    // As the worker's user, who may enter less, or more.
    if let Err(error) = std::env::set_current_dir(&directory) {
        return LaunchError::new(format_args!("cannot enter the directory {}", directory.display()), error);
    }
    // `exec` gives the command an empty signal mask and the default action for SIGPIPE, which Rust programs ignore.
    let _handlers = signals::stop_ignoring();
    let mut command = Command::new(&program);
    command.args(args).env_remove(QUIET);
    match wire {
        Some(wire) => command.env("KEEPWARM_FD", wire.to_string()),
        None => command.env_remove("KEEPWARM_FD"),
    };
    let error = command.exec();
    let status = if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { CANNOT_EXECUTE };
    LaunchError {
        status,
        ..LaunchError::new(format_args!("cannot execute the command {}", program.display()), error)
    }
}

/// Makes this process what a worker is, and gives the number of the wire, if it has one.
fn prepare(settings: &ProcessSettings, parent: Pid) -> Result<Option<i32>, LaunchError> {
    // A session and process group of its own: no terminal signal comes here, and the whole group can be killed.
    setsid().map_err(|error| LaunchError::new("cannot create a session", error))?;
    if let Some(nice) = std::env::var_os(QUIET) {
        priority::begin(nice.to_str().and_then(|nice| nice.parse().ok()));
    }
    let wire = has_wire().then(move_wire).transpose()?;
    settings.apply().map_err(|(what, error)| LaunchError::new(what, error))?;
    end_with(parent)?;
    Ok(wire)
}

/// An end with the parent. After the last change of the user, which would undo it.
fn end_with(parent: Pid) -> Result<(), LaunchError> {
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| LaunchError::new("cannot set the parent-death signal", error))?;
    // The parent may have died before the signal was asked for; then it will never come.
    if getppid() != Some(parent) {
        return Err(LaunchError { message: "Keepwarm has exited".to_owned(), status: CANNOT_EXECUTE });
    }
    Ok(())
}

/// Whether standard input is a wire. A server is started without one: what it has there, nothing or a socket to accept from, stays.
fn has_wire() -> bool {
    rustix::net::sockopt::socket_acceptconn(rustix::stdio::stdin()).is_ok_and(|listens| !listens)
}

/// Moves the socket from standard input to a descriptor that the command inherits, and gives its number.
fn move_wire() -> Result<i32, LaunchError> {
    let failed = |error| LaunchError::new("cannot move the wire from standard input", error);
    let wire = fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)
        .and_then(|wire| fcntl_setfd(&wire, FdFlags::empty()).map(|()| wire))
        .map_err(|error| failed(error.into()))?;
    let null = File::open("/dev/null").map_err(failed)?;
    rustix::stdio::dup2_stdin(&null).map_err(|error| failed(error.into()))?;
    Ok(wire.into_raw_fd())
}
