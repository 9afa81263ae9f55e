//! The progress of a running examination: a line that is rewritten, on a terminal, or a transcript of the wire.

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use keepwarm_doctor::{Probe, ProbeResult, Watcher};
use rustix::termios::tcgetwinsize;

/// Shows an examination's progress to the person at the terminal.
pub(super) struct Progress {
    wire: bool,
    /// Whether there is a line to rewrite.
    line: bool,
    probes: usize,
    state: Mutex<ProgressState>,
}

#[derive(Default)]
struct ProgressState {
    subject: String,
    begun: usize,
}

impl Progress {
    /// With a transcript of the wire or without, over `probes` probes.
    pub(super) fn new(wire: bool, probes: usize) -> Self {
        let line = !wire && std::io::stderr().is_terminal();
        Self { wire, line, probes, state: Mutex::default() }
    }

    /// Another server is examined.
    pub(super) fn subject(&self, name: &str) {
        let mut state = self.state();
        *state = ProgressState { subject: clean(name), begun: 0 };
        if self.wire {
            say(&format!("* {}\n", state.subject));
        }
        self.show(&format!("{}: connecting", state.subject));
    }

    /// Nothing is left of the line.
    pub(super) fn clear(&self) {
        if self.line {
            say("\r\x1b[2K");
        }
    }

    fn show(&self, words: &str) {
        if self.line {
            let columns = tcgetwinsize(std::io::stderr()).map_or(0, |size| usize::from(size.ws_col));
            // A terminal that does not say how wide it is has the usual width. The last column stays free: some wrap as soon as it is written.
            let columns = if columns == 0 { 80 } else { columns };
            let shown: String = words.chars().take(columns - 1).collect();
            say(&format!("\r\x1b[2K{shown}"));
        }
    }

    fn state(&self) -> MutexGuard<'_, ProgressState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watcher for Progress {
    fn begins(&self, probe: Probe) {
        let mut state = self.state();
        state.begun += 1;
        if self.wire {
            say(&format!("* {}: {}\n", probe.id(), probe.title()));
        }
        let (subject, begun, all) = (&state.subject, state.begun, self.probes);
        self.show(&format!("{subject}: {begun}/{all} {}: {}", probe.id(), probe.title()));
    }

    fn ended(&self, _: &ProbeResult) {}

    fn wants_wire(&self) -> bool {
        self.wire
    }

    fn wire(&self, connection: u64, line: &str) {
        if self.wire {
            say(&format!("[{connection}] {}\n", clean(line)));
        }
    }
}

/// The reader may have left; that is not an error.
fn say(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}
