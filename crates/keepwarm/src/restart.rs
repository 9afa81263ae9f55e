//! `keepwarm restart NAME...`: replaces the workers of apps and the processes of sections, without a look at the configuration. One half runs in the command, the
//! other in the Keepwarm that has them.

use std::process::ExitCode;

use keepwarm_config::{App, Config};
use serde_json::Value;

use crate::find::{Instance, message};
use crate::{cli, complain, exit};

/// What is replaced, of the configuration.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target<'c> {
    App(&'c App),
    /// The processes of this name.
    Process(&'c str),
}

impl Target<'_> {
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::App(one), Self::App(other)) => one.name == other.name,
            (Self::Process(one), Self::Process(other)) => one == other,
            _ => false,
        }
    }
}

/// What a caller gets: what was done, in lines.
#[derive(Debug)]
pub(crate) enum RestartError {
    /// There is none of this name: nothing was replaced.
    Unknown(String),
    /// Some were not replaced.
    Failed(String),
}

/// Asks the running Keepwarm, waits until the new workers serve, and prints what was done.
pub(crate) fn restart(options: &cli::Restart) -> ExitCode {
    let instance = match Instance::meant(&options.selector) {
        Ok(instance) => instance,
        Err(status) => return status,
    };
    let response = match instance.ask(&format!("restart {}", options.names.join(" "))) {
        Ok(response) => response,
        Err(message) => {
            complain(&message);
            return ExitCode::from(exit::FAILED);
        }
    };
    let message = message(&response);
    if response.get("ok") == Some(&Value::Bool(true)) {
        return crate::print(message);
    }
    complain(message);
    let is_unknown = response.get("unknown") == Some(&Value::Bool(true));
    ExitCode::from(if is_unknown { exit::USAGE } else { exit::FAILED })
}

/// What these names stand for, each once: `shop`, or `app.shop` where a process has that name, too.
pub(crate) fn targets<'c>(names: &[String], config: &'c Config) -> Result<Vec<Target<'c>>, RestartError> {
    let mut found: Vec<Target<'_>> = Vec::new();
    for name in names {
        let target = target(name, config).map_err(RestartError::Unknown)?;
        if !found.iter().any(|other| other.is(&target)) {
            found.push(target);
        }
    }
    Ok(found)
}

fn target<'c>(name: &str, config: &'c Config) -> Result<Target<'c>, String> {
    let app = |name: &str| config.apps.iter().find(|app| app.name == name).map(Target::App);
    let process = |name: &str| {
        let found = config.processes.iter().find(|process| process.name == name);
        found.map(|process| Target::Process(&process.name))
    };
    let of_section = match name.split_once('.') {
        Some(("app", name)) => app(name),
        Some(("process", name)) => process(name),
        _ => None,
    };
    match (of_section, app(name), process(name)) {
        (Some(target), None, None) | (None, Some(target), None) | (None, None, Some(target)) => Ok(target),
        (_, Some(_), Some(_)) => {
            Err(format!("both an app and a process are named {name:?}: app.{name} or process.{name}?"))
        }
        _ => {
            let apps = config.apps.iter().map(|app| app.name.as_str());
            let processes = config.processes.iter().map(|process| process.name.as_str());
            let known: Vec<_> = apps.chain(processes).collect();
            Err(format!("no app or process {name:?}; there are: {}", known.join(", ")))
        }
    }
}
