//! `keepwarm reload`.

use std::path::Path;
use std::process::ExitCode;

use crate::control::{self, Identity};
use crate::{cli, complain, exit};

/// Asks the running Keepwarm to reload, waits until it has, and says how it went.
pub(crate) fn reload(options: &cli::Reload) -> ExitCode {
    let pid = match options.pid_file.as_deref().map(read_pid) {
        Some(Ok(pid)) => Some(pid),
        Some(Err(message)) => {
            complain(&message);
            return ExitCode::from(exit::USAGE);
        }
        None => options.pid,
    };
    let identity = match (&options.config, pid) {
        (Some(config), _) => Some(vec![Identity::of_config(config)]),
        (None, Some(_)) => None,
        (None, None) => Some(vec![
            Identity::of_config(Path::new("keepwarm.toml")),
            Identity::of_directory(Path::new(".")),
        ]),
    };
    let found = match identity {
        None => control::find(None, pid),
        Some(all) => all.into_iter().map(|one| control::find(Some(one), None)).try_fold(
            Vec::new(),
            |mut found, more| {
                found.extend(more?);
                Ok(found)
            },
        ),
    };
    match found.as_deref() {
        Ok([(pid, name)]) => ask(*pid, name),
        Ok([]) => {
            let elsewhere = control::find(None, None).unwrap_or_default();
            let others: Vec<String> = elsewhere.iter().map(|(pid, _)| pid.to_string()).collect();
            let hint = match others.is_empty() {
                true => "none of yours is running".to_owned(),
                false => format!("running: process {}; name one with --pid or --config", others.join(", ")),
            };
            complain(&format!("there is no Keepwarm to reload that was started here ({hint})"));
            ExitCode::from(exit::FAILED)
        }
        Ok(several) => {
            let all: Vec<String> = several.iter().map(|(pid, _)| pid.to_string()).collect();
            complain(&format!(
                "several were started here (processes {}); name one with --pid",
                all.join(", ")
            ));
            ExitCode::from(exit::USAGE)
        }
        Err(error) => {
            complain(&format!("the running Keepwarms cannot be listed: {error}"));
            ExitCode::from(exit::FAILED)
        }
    }
}

fn read_pid(file: &Path) -> Result<u32, String> {
    let text =
        std::fs::read_to_string(file).map_err(|error| format!("the pid file {}: {error}", file.display()))?;
    text.trim()
        .parse()
        .map_err(|_| format!("the pid file {} holds no process id: {:?}", file.display(), text.trim()))
}

fn ask(pid: u32, name: &str) -> ExitCode {
    match control::ask_to_reload(name) {
        Ok(Ok(message)) => crate::print(&message),
        Ok(Err(message)) => {
            complain(&format!("not reloaded; what ran goes on running.\n{message}"));
            ExitCode::from(exit::FAILED)
        }
        Err(error) => {
            complain(&format!("process {pid} did not answer: {error}"));
            ExitCode::from(exit::FAILED)
        }
    }
}
