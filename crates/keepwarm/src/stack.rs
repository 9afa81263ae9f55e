//! `keepwarm stack WORKER`: where a worker stands, in its own language's words. One half runs in the command, the other in the Keepwarm that has the worker.

use std::fmt::Write as _;
use std::io::IsTerminal;
use std::process::ExitCode;

use keepwarm_workers::supervisor::{Snapshot, WorkerSnapshot, WorkerState};
use serde_json::{Value, json};

use crate::cli;
use crate::find::Instance;
use crate::status::view::View;

/// Asks for the stack of a worker and prints it.
pub(crate) fn stack(options: &cli::NamedWorker) -> ExitCode {
    let response = match Instance::command(&options.selector, &format!("stack {}", options.worker)) {
        Ok(response) => response,
        Err(status) => return status,
    };
    let stack = response.get("stack").and_then(Value::as_str).unwrap_or_default();
    match std::io::stdout().is_terminal() {
        true => crate::print(&tame(stack)),
        false => crate::print(stack),
    }
}

/// What an app prints must not steer a terminal.
fn tame(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => out.push(c),
            c if c.is_control() => {
                let _ = write!(out, "\\x{:02x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

/// Responds to `stack WORKER`.
pub(crate) async fn respond(view: &View, worker: &str) -> Value {
    match print(view, worker).await {
        Ok(printed) => json!({ "ok": true, "pid": printed.pid, "stack": printed.text }),
        Err(error) => error.json(),
    }
}

/// What a worker has printed.
#[derive(Debug)]
pub(crate) struct PrintedStack {
    pub(crate) pid: u32,
    pub(crate) text: String,
}

/// Why nothing was done with a worker, in words.
#[derive(Debug)]
pub(crate) enum WorkerError {
    UnknownWorker(String),
    Refused(String),
}

impl WorkerError {
    pub(crate) fn json(&self) -> Value {
        let (Self::UnknownWorker(message) | Self::Refused(message)) = self;
        json!({ "ok": false, "message": message })
    }
}

/// Has a worker print its stacks: `APP/NUMBER` or a process id.
pub(crate) async fn print(view: &View, worker: &str) -> Result<PrintedStack, WorkerError> {
    let (name, pid) = named_process(view, worker).await?;
    let refused = |why: &str| Err(WorkerError::Refused(format!("{name} (process {pid}) {why}")));
    if !catches_quit(pid) {
        return refused("cannot print its stack: it has no handler for SIGQUIT, which would kill it");
    }
    match view.supervisor.stack(pid).await {
        Some(printed) if !printed.is_empty() => {
            Ok(PrintedStack { pid, text: String::from_utf8_lossy(&printed).into_owned() })
        }
        Some(_) => refused("printed no stack in time; what it prints later is in the log"),
        None => refused(
            "cannot print its stack: it has just exited, or SIGQUIT would stop it, as it stops a php-fpm",
        ),
    }
}

/// The name and the process of a worker.
pub(crate) async fn named_process(view: &View, worker: &str) -> Result<(String, u32), WorkerError> {
    let snapshot = view.supervisor.snapshot().await;
    let found = find(&snapshot, worker).map_err(WorkerError::UnknownWorker)?;
    let name = format!("worker {}/{}", found.app, found.number);
    match found.pid {
        Some(pid) => Ok((name, pid)),
        None => Err(WorkerError::Refused(format!("{name} has no process: it is {}", found.state))),
    }
}

/// `APP/NUMBER` or a process id.
fn find<'s>(snapshot: &'s Snapshot, wanted: &str) -> Result<&'s WorkerSnapshot, String> {
    let workers = &snapshot.workers;
    let by_pid =
        wanted.parse().ok().and_then(|pid: u32| workers.iter().find(|worker| worker.pid == Some(pid)));
    if let Some(found) = by_pid {
        return Ok(found);
    }
    let place = wanted.rsplit_once('/').and_then(|(app, number)| Some((app, number.parse::<u32>().ok()?)));
    let here = |worker: &&WorkerSnapshot| {
        place.is_some_and(|(app, number)| *worker.app == *app && worker.number == number)
    };
    // During a reload a number has two workers: choose the one that serves, or the newer one.
    if let Some(found) = workers
        .iter()
        .filter(here)
        .max_by_key(|worker| (worker.state == WorkerState::Ready, worker.generation))
    {
        return Ok(found);
    }
    let known: Vec<String> =
        workers.iter().map(|worker| format!("{}/{}", worker.app, worker.number)).collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    Err(format!("there is no worker {wanted:?}: use APP/NUMBER or a process id (workers: {known})"))
}

/// Whether the process has a handler for SIGQUIT: it ends one that has none (signal(7)).
fn catches_quit(pid: u32) -> bool {
    const QUIT: u64 = 1 << (3 - 1);
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & QUIT != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_not_steered() {
        assert_eq!(tame("a\tb\nc\x1b[2Jd\u{9b}"), "a\tb\nc\\x1b[2Jd\\x9b");
    }
}
