//! `keepwarm status`.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use serde_json::Value;

use super::table;
use crate::find::Instance;
use crate::{cli, complain, exit};

/// From one look to the next.
const EACH: Duration = Duration::from_secs(1);

/// Shows what the running Keepwarm does, once or again and again.
pub(crate) fn status(options: &cli::Status) -> ExitCode {
    let instance = match Instance::meant(&options.selector) {
        Ok(instance) => instance,
        Err(status) => return status,
    };
    let outcome = match options.watch {
        true => watch(&instance, options.json),
        false => instance.ask("status").map(|status| show(&status, options.json, false)).map(drop),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            complain(&message);
            ExitCode::from(exit::FAILED)
        }
    }
}

/// Until a key, a signal, the end of Keepwarm, or that of the reader.
fn watch(instance: &Instance, json: bool) -> Result<(), String> {
    let keys = Keys::take();
    let clears = std::io::stdout().is_terminal() && !json;
    loop {
        let status = instance.ask("status")?;
        if clears {
            let _ = std::io::stdout().write_all(b"\x1b[H\x1b[2J");
        }
        if show(&status, json, true).is_err() || keys.end_within(EACH) {
            return Ok(());
        }
    }
}

/// Writes a status; JSON in one line when more will follow.
fn show(status: &Value, json: bool, more: bool) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    match (json, more) {
        (true, true) => writeln!(out, "{status}")?,
        (true, false) => writeln!(out, "{status:#}")?,
        (false, _) => {
            let colors = out.is_terminal() && crate::wants_colors();
            out.write_all(table::text(status, colors).as_bytes())?;
            if more && !out.is_terminal() {
                writeln!(out)?;
            }
        }
    }
    out.flush()
}

/// Keys as they are pressed, on a terminal. Dropping it restores the terminal.
struct Keys(Option<Termios>);

impl Keys {
    fn take() -> Self {
        let stdin = std::io::stdin();
        let Ok(before) = tcgetattr(&stdin) else { return Self(None) };
        let mut modes = before.clone();
        // Also Ctrl-C comes as a key: as a signal it would end us with the terminal as it is now.
        modes.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
        modes.special_codes[SpecialCodeIndex::VMIN] = 0;
        modes.special_codes[SpecialCodeIndex::VTIME] = 0;
        match tcsetattr(&stdin, OptionalActions::Now, &modes) {
            Ok(()) => Self(Some(before)),
            Err(_) => Self(None),
        }
    }

    /// Waits; `true`: a key that ends was pressed.
    fn end_within(&self, time: Duration) -> bool {
        if self.0.is_none() {
            std::thread::sleep(time);
            return false;
        }
        let stdin = std::io::stdin();
        let end = Instant::now() + time;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let mut ready = [PollFd::new(&stdin, PollFlags::IN)];
            let left = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: 0, tv_nsec: 0 });
            if poll(&mut ready, Some(&left)).is_ok_and(|ready| ready == 0) {
                return false;
            }
            let mut keys = [0; 64];
            match rustix::io::read(&stdin, &mut keys) {
                // The terminal is gone.
                Ok(0) | Err(_) => return true,
                Ok(count) if keys.iter().take(count).any(|key| ENDS.contains(key)) => return true,
                Ok(_) => {}
            }
        }
    }
}

/// q, Q, Ctrl-C, Ctrl-D.
const ENDS: [u8; 4] = [b'q', b'Q', 3, 4];

impl Drop for Keys {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, before);
        }
    }
}
