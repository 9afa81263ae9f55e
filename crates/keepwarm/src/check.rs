//! `keepwarm check`: the command line of the doctor.

mod options;
mod own;
mod progress;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;

use keepwarm_doctor::report::{Style, json, table, text};
use keepwarm_doctor::{Examination, Settings, Verdict, examine};
use serde_json::Value;
use tokio::runtime::Runtime;

use self::options::CheckTarget;
use self::progress::Progress;
use crate::cli::{Check, FailOn};
use crate::{complain, print, wants_colors};

/// Exit statuses of its own; the table for operators is in `docs/operate/`.
mod status {
    /// Findings that `--fail-on` covers.
    pub(super) const FOUND: u8 = 1;
    /// There was nothing to examine: no server, or no Keepwarm.
    pub(super) const UNREACHED: u8 = 3;
}

/// Examines the targets, and reports.
pub(crate) fn check(options: &Check) -> ExitCode {
    let (settings, mut subjects) = match options::read(options) {
        Ok(read) => read,
        Err(message) => {
            complain(&message);
            return ExitCode::from(crate::exit::USAGE);
        }
    };
    if options.own {
        subjects = match own::subjects(options, &settings) {
            Ok(own) => own,
            Err(status) => return status,
        };
    }
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(&format!("cannot start the event loop: {error}"));
            return ExitCode::from(status::UNREACHED);
        }
    };
    announce(&settings, options.json, subjects.len());
    let examinations = examine_all(&runtime, &subjects, &settings, options.verbose);
    // A pending name lookup must not delay the exit.
    runtime.shutdown_background();
    match options.json {
        true => print(&format!("{:#}", machine(&examinations, options.own))),
        false => print(&human(&examinations, options.verbose)),
    };
    ExitCode::from(outcome(&examinations, options.fail_on))
}

/// Announces the work before it begins.
fn announce(settings: &Settings, json: bool, subjects: usize) {
    let promise = format!("{}\n", settings.promise(subjects));
    match json {
        true => drop(std::io::stderr().lock().write_all(promise.as_bytes())),
        false => drop(print(&format!("{promise}\n"))),
    }
}

/// One after the other, so that none disturbs the measurements of another.
fn examine_all(
    runtime: &Runtime,
    subjects: &[CheckTarget],
    settings: &Settings,
    verbose: bool,
) -> Vec<Examination> {
    let progress = Arc::new(Progress::new(verbose, settings.probes.len()));
    let examine_one = |subject: &CheckTarget| {
        progress.subject(&subject.name());
        let settings = subject.settings.as_ref().unwrap_or(settings);
        let mut examination = runtime.block_on(examine(&subject.target, settings, progress.clone()));
        examination.label.clone_from(&subject.label);
        examination
    };
    let examinations = subjects.iter().map(examine_one).collect();
    progress.clear();
    examinations
}

fn machine(examinations: &[Examination], always_array: bool) -> Value {
    match examinations {
        [only] if !always_array => json(only),
        several => several.iter().map(json).collect(),
    }
}

fn human(examinations: &[Examination], verbose: bool) -> String {
    let style = Style { colors: std::io::stdout().is_terminal() && wants_colors(), all: verbose };
    let texts: Vec<String> = examinations.iter().map(|examination| text(examination, style)).collect();
    match texts.as_slice() {
        [only] => only.clone(),
        several => format!("{}\n\n{}", table(examinations, style), several.join("\n\n")),
    }
}

/// A target that could not be examined outranks findings: its own are unknown.
fn outcome(examinations: &[Examination], fail_on: Option<FailOn>) -> u8 {
    let worst = match fail_on {
        None => None,
        Some(FailOn::Warning) => Some(Verdict::Warning),
        Some(FailOn::Bad) => Some(Verdict::Bad),
    };
    if examinations.iter().any(|examination| !examination.reached) {
        return status::UNREACHED;
    }
    let found = worst.is_some_and(|worst| examinations.iter().any(|one| one.verdict() >= worst));
    if found { status::FOUND } else { 0 }
}
