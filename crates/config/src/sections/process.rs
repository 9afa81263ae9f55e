//! `[process.NAME]` as a whole: checks that involve several keys, and several processes.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::process_limits::check_memory;
use super::run_as::RunAsDraft;
use crate::checker::Checker;
use crate::model::{Dependency, Process, Restart, Server};
use crate::raw::{Span, Table};
use crate::report::Problem;

mod keys;

pub(crate) use keys::PROCESS;

/// `[process.NAME]` before the checks.
pub(crate) struct ProcessDraft {
    /// The span of NAME.
    pub(crate) span: Span,
    pub(crate) process: Process,
    pub(crate) after: Vec<(Dependency, Span)>,
    env_file: BTreeMap<String, String>,
    run_as: RunAsDraft,
}

impl ProcessDraft {
    pub(crate) fn new(name: &str, span: Span, directory: PathBuf, server: &Server) -> ProcessDraft {
        ProcessDraft {
            span,
            process: Process::new(name.to_owned(), directory),
            after: Vec::new(),
            env_file: BTreeMap::new(),
            run_as: RunAsDraft::new(server),
        }
    }

    /// Checks that involve several keys.
    pub(crate) fn finish(&mut self, table: &Table, server: &Server, cx: &mut Checker<'_>) {
        if table.entry("command").is_none() {
            cx.missing(self.span, "command = [\"celery\", \"-A\", \"shop\", \"worker\"]").report(cx);
        }
        let runs = format!("`{}`", cx.name());
        self.process.run_as = self.run_as.resolve(&runs, &self.process.directory, self.span, table, cx);
        check_memory((self.process.max_memory, self.process.kill_memory), "a process is replaced", table, cx);
        self.check_schedule(table, cx);
        self.check_restart(table, cx);
        self.warn_of_grace(table, server, cx);
        self.process.after = self.after.iter().map(|(dependency, _)| dependency.clone()).collect();
        // `env` overrides `env_file`.
        let mut env = std::mem::take(&mut self.env_file);
        env.append(&mut self.process.env);
        self.process.env = env;
    }

    /// A process with a schedule is one at a time, runs to its end, and is started by nothing else.
    fn check_schedule(&self, table: &Table, cx: &mut Checker<'_>) {
        let Some(schedule) = table.entry("schedule") else { return };
        let others = [
            ("count", "at each time one process runs"),
            ("restart", "a run that failed is followed by the run of the next time"),
            ("ready", "nothing waits for a run"),
            ("reload_signal", "a run that is in progress at a reload ends as it began"),
        ];
        for (key, help) in others {
            if let Some(entry) = table.entry(key) {
                cx.both(schedule, entry)
                    .expected(format!("no `{key}` with `schedule`"))
                    .help(help)
                    .report(cx);
            }
        }
    }

    /// A process that is not restarted always ends, and has nothing that a running one needs.
    fn check_restart(&self, table: &Table, cx: &mut Checker<'_>) {
        let (Some(restart), Some(ready)) = (table.entry("restart"), table.entry("ready")) else { return };
        if self.process.restart != Restart::Always {
            cx.both(restart, ready)
                .expected("no `ready` with a process that ends by itself")
                .help("such a process is ready once it has exited with a status of `exit_codes`")
                .report(cx);
        }
    }

    /// At a shutdown all time is part of `shutdown_grace`.
    fn warn_of_grace(&self, table: &Table, server: &Server, cx: &mut Checker<'_>) {
        let Some(entry) = table.entry("stop_timeout") else { return };
        if self.process.stop_timeout <= server.shutdown_grace {
            return;
        }
        let name = cx.name();
        cx.problem(
            entry.key_span,
            format!(
                "`{name}.stop_timeout` is longer than `server.shutdown_grace` ({:?}): a shutdown gives less",
                server.shutdown_grace
            ),
        )
        .help("raise server.shutdown_grace to the longest job, and the time limit of what stops Keepwarm (systemd: TimeoutStopSec)")
        .warn(cx);
    }
}

/// Processes that wait for themselves, and for processes that are never ready.
pub(crate) fn check_processes(processes: &[ProcessDraft], cx: &mut Checker<'_>) {
    let find = |name: &str| processes.iter().find(|draft| draft.process.name == name);
    for draft in processes {
        for (dependency, span) in &draft.after {
            let Dependency::Process(name) = dependency else { continue };
            if find(name).is_some_and(|other| other.process.schedule.is_some()) {
                let message = format!(
                    "`process.{}` waits for `process.{name}`, which has a `schedule`",
                    draft.process.name
                );
                problem(message, *span, cx)
                    .expected("a process that runs all the time, or one with `restart`")
                    .help("a command that must have run before is a `before_start`")
                    .report(cx);
            }
        }
    }
    let mut reported: Vec<&str> = Vec::new();
    for draft in processes {
        let Some((chain, span)) = cycle(draft, processes) else { continue };
        if chain.iter().any(|name| reported.contains(name)) {
            continue;
        }
        let shown: Vec<String> = chain.iter().map(|name| format!("process.{name}")).collect();
        problem(format!("processes wait for one another: {}", shown.join(" -> ")), span, cx)
            .expected("`after` without a cycle: each arrow is one of its values")
            .report(cx);
        reported.extend(chain);
    }
}

fn problem(message: String, span: Span, cx: &Checker<'_>) -> Problem {
    Problem::new(message).key("process.NAME.after").at(cx.source_map.location(span))
}

/// The shortest chain from a process to itself, and the span of its first step.
fn cycle<'d>(start: &'d ProcessDraft, processes: &'d [ProcessDraft]) -> Option<(Vec<&'d str>, Span)> {
    let name = start.process.name.as_str();
    let mut chains: Vec<(Vec<&str>, Option<Span>)> = vec![(vec![name], None)];
    let mut seen = Vec::new();
    let mut next = 0;
    while let Some((chain, first)) = chains.get(next).cloned() {
        next += 1;
        let last = chain.last().copied().unwrap_or(name);
        let Some(draft) = processes.iter().find(|draft| draft.process.name == last) else { continue };
        for (dependency, span) in &draft.after {
            let Dependency::Process(other) = dependency else { continue };
            let mut longer = chain.clone();
            longer.push(other);
            let first = first.unwrap_or(*span);
            if other == name {
                return Some((longer, first));
            }
            if !seen.contains(other) {
                seen.push(other.clone());
                chains.push((longer, Some(first)));
            }
        }
    }
    None
}
