//! `keepwarm check`: the command line of the doctor.

use std::process::ExitCode;
use std::sync::Arc;

use keepwarm_doctor::report::{Style, json, text};
use keepwarm_doctor::{Probe, Quiet, Settings, Target, examine};

use crate::cli::Check;
use crate::{complain, exit, print};

/// Examines what was asked for, and reports.
pub(crate) fn check(options: &Check) -> ExitCode {
    let mut settings = Settings::default();
    if !options.only.is_empty() {
        settings.probes = options.only.iter().filter_map(|id| Probe::named(id)).collect();
    }
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(&format!("the reactor could not be started: {error}"));
            return ExitCode::from(exit::FAILED);
        }
    };
    for url in &options.urls {
        let target = match Target::parse(url) {
            Ok(target) => target,
            Err(error) => {
                complain(&error.to_string());
                return ExitCode::from(exit::USAGE);
            }
        };
        let examination = runtime.block_on(examine(&target, &settings, Arc::new(Quiet)));
        match options.json {
            true => print(&format!("{:#}", json(&examination))),
            false => print(&text(&examination, Style::default())),
        };
    }
    ExitCode::SUCCESS
}
