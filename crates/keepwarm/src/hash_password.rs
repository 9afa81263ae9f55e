//! `keepwarm hash-password`: the hash of a password, for `basic_auth`.

use std::io::{self, BufRead, IsTerminal, Write};
use std::process::ExitCode;

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::cli::HashPassword;
use crate::{complain, exit, print};

pub(crate) fn hash_password(options: &HashPassword) -> ExitCode {
    let hashed = read_password().and_then(|password| keepwarm_edge::hash_password(&password, options.bcrypt));
    match hashed {
        Ok(hash) => match &options.user {
            Some(user) => print(&format!("{user}:{hash}")),
            None => print(&hash),
        },
        Err(why) => {
            complain(&format!("no hash made: {why}"));
            ExitCode::from(exit::USAGE)
        }
    }
}

/// A line from standard input; from a terminal twice, and without an echo.
fn read_password() -> Result<Vec<u8>, String> {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        return read_line();
    }
    let _echo = NoEcho::begin()?;
    let first = prompt("Password: ")?;
    match prompt("Password again: ")? == first {
        true => Ok(first),
        false => Err("the two passwords differ; try again".to_owned()),
    }
}

fn prompt(text: &str) -> Result<Vec<u8>, String> {
    let mut err = io::stderr();
    let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
    let line = read_line();
    // The line end that was typed is not shown.
    let _ = err.write_all(b"\n");
    line
}

fn read_line() -> Result<Vec<u8>, String> {
    let mut line = Vec::new();
    let read = io::stdin().lock().read_until(b'\n', &mut line);
    read.map_err(|error| format!("standard input cannot be read: {error}"))?;
    while matches!(line.last(), Some(b'\n' | b'\r')) {
        line.pop();
    }
    Ok(line)
}

/// Turns the echo of the terminal off, until it is dropped.
struct NoEcho(Termios);

impl NoEcho {
    fn begin() -> Result<Self, String> {
        let before =
            tcgetattr(io::stdin()).map_err(|error| format!("the terminal cannot be asked: {error}"))?;
        let mut quiet = before.clone();
        quiet.local_modes.remove(LocalModes::ECHO);
        tcsetattr(io::stdin(), OptionalActions::Flush, &quiet)
            .map_err(|error| format!("the terminal's echo cannot be turned off: {error}"))?;
        Ok(Self(before))
    }
}

impl Drop for NoEcho {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.0);
    }
}
