//! `keepwarm recycle WORKER`: replaces a worker. One half runs in the command, the other in the Keepwarm that has the worker.

use std::process::ExitCode;

use serde_json::{Value, json};

use crate::cli;
use crate::find::Instance;
use crate::stack::{WorkerError, named_process};
use crate::status::view::View;

/// Has a worker replaced, and does not wait for that.
pub(crate) fn recycle(options: &cli::NamedWorker) -> ExitCode {
    Instance::command_and_tell(&options.selector, &format!("recycle {}", options.worker))
}

/// Responds to `recycle WORKER`.
pub(crate) async fn respond(view: &View, worker: &str) -> Value {
    match replace(view, worker).await {
        Ok(message) => json!({ "ok": true, "message": message }),
        Err(error) => error.json(),
    }
}

/// Has a worker replaced: `APP/NUMBER` or a process id. Returns what happens next.
pub(crate) async fn replace(view: &View, worker: &str) -> Result<String, WorkerError> {
    let (name, pid) = named_process(view, worker).await?;
    match view.supervisor.recycle_worker(pid).await {
        true => Ok(format!("{name} (process {pid}) leaves once its replacement is ready")),
        false => Err(WorkerError::Refused(format!(
            "{name} (process {pid}) is not replaced: it is not ready, or is being replaced already"
        ))),
    }
}
