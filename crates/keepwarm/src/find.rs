//! Which of the running Keepwarms a command means, and asking it.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;

use serde_json::Value;

use crate::control::{self, Identity};
use crate::{cli, complain, exit};

/// A running Keepwarm.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) pid: u32,
    name: String,
}

impl Instance {
    /// The selected instance; without any option the one that was started here.
    ///
    /// # Errors
    /// None or several: already reported, with the matching exit code.
    pub(crate) fn meant(selector: &cli::InstanceSelector) -> Result<Self, ExitCode> {
        Self::search(selector).map_err(|(message, status)| {
            complain(&message);
            ExitCode::from(status)
        })
    }

    /// As [`Self::meant`].
    ///
    /// # Errors
    /// None or several: in words, and the exit code.
    pub(crate) fn search(selector: &cli::InstanceSelector) -> Result<Self, (String, u8)> {
        let pid = match selector.pid_file.as_deref().map(read_pid) {
            Some(Ok(pid)) => Some(pid),
            Some(Err(message)) => return Err((message, exit::USAGE)),
            None => selector.pid,
        };
        let identities = match (&selector.config, pid) {
            (Some(config), _) => vec![Some(Identity::of_config(config))],
            (None, Some(_)) => vec![None],
            (None, None) => vec![
                Some(Identity::of_config(Path::new("keepwarm.toml"))),
                Some(Identity::of_directory(Path::new("."))),
            ],
        };
        let mut found = Vec::new();
        for identity in identities {
            match control::find(identity, pid) {
                Ok(more) => found.extend(more),
                Err(error) => {
                    return Err((format!("cannot list the running instances: {error}"), exit::FAILED));
                }
            }
        }
        Self::only(found, selector.config.as_deref(), pid)
    }

    /// The one that was found, by this configuration, by this process id, or in this directory.
    fn only(
        mut found: Vec<(u32, String)>,
        config: Option<&Path>,
        pid: Option<u32>,
    ) -> Result<Self, (String, u8)> {
        match (found.pop(), found.is_empty()) {
            (Some((pid, name)), true) => Ok(Self { pid, name }),
            (None, _) => {
                let others = control::find(None, None).unwrap_or_default();
                if others.is_empty() {
                    return Err((format!("no Keepwarm{} is running", of_this_user()), exit::FAILED));
                }
                let none = match (config, pid) {
                    (Some(config), _) => {
                        format!(
                            "no Keepwarm was started with {}; select one with --pid or --config:",
                            config.display()
                        )
                    }
                    (None, Some(pid)) => {
                        format!("process {pid} is not a Keepwarm{}; select one with --pid:", of_this_user())
                    }
                    (None, None) => {
                        "no Keepwarm was started in this directory; select one with --pid or --config:"
                            .to_owned()
                    }
                };
                Err((none + &listed(&others), exit::FAILED))
            }
            (Some(last), false) => {
                found.push(last);
                let several = match (config, pid) {
                    (Some(config), _) => {
                        format!(
                            "several instances were started with {}; select one with --pid:",
                            config.display()
                        )
                    }
                    // They share the network namespace, in which they are found, but no PID namespace.
                    (None, Some(pid)) => format!(
                        "process {pid} is an instance in several PID namespaces; select one with --config:"
                    ),
                    (None, None) => {
                        "several instances were started in this directory; select one with --pid:".to_owned()
                    }
                };
                Err((several + &listed(&found), exit::USAGE))
            }
        }
    }

    /// Sends it a request; the caller reads its response.
    pub(crate) fn open(&self, request: &str) -> io::Result<UnixStream> {
        control::open(&self.name, request)
    }

    /// Has the selected instance do something; returns its response.
    ///
    /// # Errors
    /// The exit status, with the reason printed.
    pub(crate) fn command(selector: &cli::InstanceSelector, request: &str) -> Result<Value, ExitCode> {
        let refused = match Self::meant(selector)?.ask(request) {
            Ok(response) if response.get("ok") == Some(&Value::Bool(true)) => return Ok(response),
            Ok(response) => message(&response).to_owned(),
            Err(message) => message,
        };
        complain(&refused);
        Err(ExitCode::from(exit::FAILED))
    }

    /// As [`Self::command`]; prints what the instance says about it.
    pub(crate) fn command_and_tell(selector: &cli::InstanceSelector, request: &str) -> ExitCode {
        match Self::command(selector, request) {
            Ok(response) => crate::print(message(&response)),
            Err(status) => status,
        }
    }

    /// Sends it a request; returns its response, or in words why there is none.
    pub(crate) fn ask(&self, request: &str) -> Result<Value, String> {
        control::ask(&self.name, request)
            .map_err(|error| format!("process {} did not respond: {error}", self.pid))
    }
}

/// What an instance says in a response.
pub(crate) fn message(response: &Value) -> &str {
    response.get("message").and_then(Value::as_str).unwrap_or_default()
}

/// Root finds those of every user.
fn of_this_user() -> &'static str {
    match rustix::process::geteuid().is_root() {
        true => "",
        false => " of this user",
    }
}

/// A line for each process: its id, its directory, its command.
fn listed(found: &[(u32, String)]) -> String {
    let mut lines = String::new();
    for (pid, _) in found {
        let process = Path::new("/proc").join(pid.to_string());
        let folder = std::fs::read_link(process.join("cwd"))
            .map_or_else(|_| "?".to_owned(), |path| path.display().to_string());
        let command = std::fs::read(process.join("cmdline")).unwrap_or_default();
        let words: Vec<_> = command
            .split(|byte| *byte == 0)
            .filter(|word| !word.is_empty())
            .map(|word| String::from_utf8_lossy(word).escape_default().to_string())
            .collect();
        lines.push_str(&format!("\n  {pid}  {folder}  {}", words.join(" ")));
    }
    lines
}

fn read_pid(file: &Path) -> Result<u32, String> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| format!("cannot read the pid file {}: {error}", file.display()))?;
    text.trim()
        .parse()
        .map_err(|_| format!("the pid file {} contains no process id: {:?}", file.display(), text.trim()))
}
