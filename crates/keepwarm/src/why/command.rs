//! `keepwarm why`: asks the running instance, and prints what it responds.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use serde_json::Value;

use super::screen;
use crate::find::Instance;
use crate::{cli, complain, exit};

/// Prints the verdicts. 0: healthy, 1: something is wrong, 2: nobody knows.
pub(crate) fn why(options: &cli::Why) -> ExitCode {
    const UNKNOWN: u8 = exit::USAGE;
    let Ok(instance) = Instance::meant(&options.selector) else { return ExitCode::from(UNKNOWN) };
    let request =
        options.subject.as_ref().map_or_else(|| "why".to_owned(), |subject| format!("why {subject}"));
    let response = match instance.ask(&request) {
        Ok(response) => response,
        Err(message) => {
            complain(&message);
            return ExitCode::from(UNKNOWN);
        }
    };
    // An older Keepwarm does not know the request, and says so in the same form.
    if let Some(message) = response.get("message").and_then(Value::as_str) {
        complain(message);
        return ExitCode::from(UNKNOWN);
    }
    show(&response, options.json);
    let is_healthy = response.get("healthy") == Some(&Value::Bool(true));
    ExitCode::from(if is_healthy { 0 } else { exit::FAILED })
}

/// A reader that has left early is not an error.
fn show(response: &Value, json: bool) {
    let mut out = std::io::stdout().lock();
    let _ = match json {
        true => writeln!(out, "{response:#}"),
        false => {
            let colors = out.is_terminal() && crate::wants_colors();
            out.write_all(screen::text(response, colors).as_bytes())
        }
    };
    let _ = out.flush();
}
