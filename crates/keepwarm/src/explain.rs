//! `keepwarm explain NAME`: keys of the configuration, reasons of error responses, verdicts, findings of `keepwarm check`, and events of the log, as the reference has
//! them.

mod events;
mod findings;

use std::process::ExitCode;

use keepwarm_config::suggestion;
use keepwarm_policy::why::RULES;

use crate::{complain, error_reference, exit, print, why};

/// One name may be that of a key, a reason and an event.
pub(crate) fn explain(name: &str) -> ExitCode {
    let keys = keepwarm_config::explain(name);
    let others =
        [why::explain(name), findings::explain(name), error_reference::explain(name), events::explain(name)];
    let known: Vec<String> =
        keys.as_ref().ok().cloned().into_iter().chain(others.into_iter().flatten()).collect();
    match keys {
        _ if !known.is_empty() => print(&known.join("\n")),
        Ok(text) => print(&text),
        Err(message) => {
            complain(&nearest(name).unwrap_or(message));
            ExitCode::from(exit::USAGE)
        }
    }
}

/// What may have been meant, of what is not a key.
fn nearest(name: &str) -> Option<String> {
    let rules = RULES.iter().map(|rule| rule.id);
    let known = rules.chain(findings::ids()).chain(error_reference::reasons()).chain(events::names());
    Some(format!("there is nothing named `{name}` to explain; {}", suggestion(name, known)?))
}
