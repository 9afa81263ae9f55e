//! How a process ended, in words.

use std::fmt;

use rustix::process::WaitIdStatus;

use super::out_of_memory;

/// How a process ended.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Exit {
    /// It exited with this status.
    Status(i32),
    /// This signal ended it.
    Signal {
        /// The signal's number.
        number: i32,
        /// Whether it left a core file.
        core_dumped: bool,
    },
    /// The kernel ended it by SIGKILL, because the machine or its control group had no more memory.
    OutOfMemory,
    /// The kernel did not say: something else had waited for it.
    Unknown,
}

impl Exit {
    pub(super) fn from_wait(status: Option<&WaitIdStatus>) -> Self {
        let Some(status) = status else { return Self::Unknown };
        if let Some(code) = status.exit_status() {
            return Self::Status(code);
        }
        match status.terminating_signal() {
            Some(number) => Self::Signal { number, core_dumped: status.dumped() },
            None => Self::Unknown,
        }
    }

    /// For a process that Keepwarm has not killed: a SIGKILL may be the kernel's own.
    pub(super) fn with_killer(self) -> Self {
        match self {
            Self::Signal { number: 9, .. } if out_of_memory::claim() => Self::OutOfMemory,
            exit => exit,
        }
    }

    /// Whether a signal ended it.
    pub(super) fn is_by_signal(self) -> bool {
        matches!(self, Self::Signal { .. } | Self::OutOfMemory)
    }

    /// A status that another try cannot change: the app could not be loaded (1, `spec/wire.md` §3), or the launcher could
    /// not execute the command (126, 127).
    pub(super) fn is_fatal_at_boot(self) -> bool {
        matches!(self, Self::Status(1 | 126 | 127))
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Status(code) => write!(f, "exited with status {code}"),
            Self::Signal { number, core_dumped } => {
                write!(f, "killed by signal {number}")?;
                if let Some(name) = signal_name(number) {
                    write!(f, " ({name})")?;
                }
                if core_dumped { f.write_str(", core dumped") } else { Ok(()) }
            }
            Self::OutOfMemory => f.write_str("killed by the kernel: out of memory (SIGKILL)"),
            Self::Unknown => f.write_str("exited, status unknown"),
        }
    }
}

/// The names of `signal(7)` for the numbers that x86, ARM and most others share.
pub(super) fn signal_name(number: i32) -> Option<&'static str> {
    Some(match number {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        10 => "SIGUSR1",
        11 => "SIGSEGV",
        12 => "SIGUSR2",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        25 => "SIGXFSZ",
        29 => "SIGIO",
        31 => "SIGSYS",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exits_are_told_in_words() {
        for (exit, words) in [
            (Exit::Status(1), "exited with status 1"),
            (Exit::Signal { number: 9, core_dumped: false }, "killed by signal 9 (SIGKILL)"),
            (Exit::Signal { number: 11, core_dumped: true }, "killed by signal 11 (SIGSEGV), core dumped"),
            (Exit::Signal { number: 40, core_dumped: false }, "killed by signal 40"),
            (Exit::OutOfMemory, "killed by the kernel: out of memory (SIGKILL)"),
        ] {
            assert_eq!(exit.to_string(), words);
        }
    }

    #[test]
    fn only_statuses_that_a_retry_cannot_change_are_fatal() {
        for code in [1, 126, 127] {
            assert!(Exit::Status(code).is_fatal_at_boot());
        }
        assert!(!Exit::Status(0).is_fatal_at_boot());
        assert!(!Exit::Signal { number: 1, core_dumped: false }.is_fatal_at_boot());
    }
}
