//! Runs IN THE CHILD, the launcher: restores the default action of signals that the parent of Keepwarm had ignored (`nohup`, a shell's background jobs, a CI
//! runner). An ignored signal stays ignored over an exec, and the worker would not show its stack, or not exit on a signal.

use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

/// SIGPIPE, which every Rust program ignores, and which its exec restores.
const PIPE: u32 = 13;
const QUIT: u32 = 3;
const KILL: u32 = 9;
/// `PF_EXITING` of the kernel's `sched.h`.
const EXITING: u32 = 4;

/// Gives each ignored signal a handler, which an exec turns into the default action. The runtime is to live until then. `None`: there is nothing to do, as
/// there nearly never is.
pub(super) fn stop_ignoring() -> Option<Runtime> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let ignored = ignored(&status)?;
    if ignored.is_empty() {
        return None;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().ok()?;
    let inside = runtime.enter();
    for number in ignored {
        // An error: it is one that cannot have a handler, and nobody can ignore either.
        drop(signal(SignalKind::from_raw(number)));
    }
    drop(inside);
    Some(runtime)
}

/// Whether a process has a handler for SIGQUIT, so that asking it for its stack does not end it.
pub(super) fn catches_quit(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/status")).is_ok_and(|status| has_quit_handler(&status))
}

/// Whether a process has been killed and may still exist: the kernel frees its memory before its sockets, so that a large one still takes connections meanwhile.
pub(crate) fn is_killed(pid: u32) -> bool {
    let read = |file| std::fs::read_to_string(format!("/proc/{pid}/{file}"));
    match (read("status"), read("stat")) {
        (Ok(status), Ok(stat)) => has_kill_pending(&status) || is_exiting(&stat),
        // It is gone, which the supervisor knows too, or was never there.
        _ => false,
    }
}

/// By `/proc/PID/status`: a fatal signal is pending for every thread until the thread looks.
fn has_kill_pending(status: &str) -> bool {
    let pending = status.lines().filter(|line| line.starts_with("SigPnd:") || line.starts_with("ShdPnd:"));
    pending
        .filter_map(|line| u64::from_str_radix(line[7..].trim(), 16).ok())
        .any(|bits| bits >> (KILL - 1) & 1 == 1)
}

/// By `/proc/PID/stat`: behind the name, which may hold anything, the seventh word holds the flags of the main thread.
fn is_exiting(stat: &str) -> bool {
    let words = stat.rsplit_once(')').map(|(_, words)| words.split_ascii_whitespace());
    let flags = words.and_then(|mut words| words.nth(6)).and_then(|flags| flags.parse::<u32>().ok());
    flags.is_some_and(|flags| flags & EXITING != 0)
}

fn has_quit_handler(status: &str) -> bool {
    let line = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let bits = line.and_then(|line| u64::from_str_radix(line.trim(), 16).ok());
    bits.is_some_and(|bits| bits >> (QUIT - 1) & 1 == 1)
}

/// The ignored signals by `/proc/PID/status`, SIGPIPE aside.
fn ignored(status: &str) -> Option<Vec<i32>> {
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    let bits = u64::from_str_radix(line.trim(), 16).ok()?;
    Some(
        (1..=64_u32)
            .filter(|number| *number != PIPE && bits >> (number - 1) & 1 == 1)
            .map(u32::cast_signed)
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handler_for_quit_is_read_from_the_status() {
        assert!(has_quit_handler("SigIgn:\t0\nSigCgt:\t0000000000000004\n"));
        assert!(!has_quit_handler("SigIgn:\t0000000000000004\nSigCgt:\t0000000000000002\n"));
        assert!(!has_quit_handler("Name:\tx\n"));
    }

    #[test]
    fn who_is_killed_is_read_from_the_status() {
        assert!(has_kill_pending("SigPnd:\t0000000000000100\nShdPnd:\t0000000000000000\n"));
        assert!(has_kill_pending("SigPnd:\t0000000000000000\nShdPnd:\t0000000000004100\n"));
        assert!(!has_kill_pending(
            "SigPnd:\t0000000000000200\nShdPnd:\t0000000000000080\nSigCgt:\t0000000000000100\n"
        ));
        assert!(is_exiting("12 (a ) b) R 1 12 12 0 -1 4194564 105 0\n"));
        assert!(!is_exiting("12 (a ) b) R 1 12 12 0 -1 4194560 105 0\n"));
        assert!(!is_killed(std::process::id()));
    }

    #[test]
    fn ignored_signals_are_read_from_the_status() {
        assert_eq!(ignored("Name:\tx\nSigIgn:\t0000000000001004\nSigCgt:\t0\n"), Some(vec![3]));
        assert_eq!(ignored("SigIgn:\t0000000000001000\n"), Some(vec![]));
        assert_eq!(ignored("SigIgn:\t0000000000000001\n"), Some(vec![1]));
        assert_eq!(ignored("Name:\tx\n"), None);
    }
}
