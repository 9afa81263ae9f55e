//! `keepwarm reload`.

use std::process::ExitCode;

use serde_json::Value;

use crate::find::{Instance, message};
use crate::{cli, complain, exit};

/// Asks the running Keepwarm to reload, waits until it has, and says how it went.
pub(crate) fn reload(selector: &cli::InstanceSelector) -> ExitCode {
    let instance = match Instance::meant(selector) {
        Ok(instance) => instance,
        Err(status) => return status,
    };
    match instance.ask("reload") {
        Ok(response) => {
            let message = message(&response);
            if response.get("ok") == Some(&Value::Bool(true)) {
                return crate::print(message);
            }
            complain(&format!("reload failed; the previous configuration stays active.\n{message}"));
        }
        Err(message) => complain(&message),
    }
    ExitCode::from(exit::FAILED)
}
