//! A command that runs to its end before the section that it belongs to starts.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use rustix::process::Signal;
use tokio::sync::{mpsc, oneshot, watch};

use super::TaskSpec;
use super::running::kill_left;
use crate::supervisor::output::{BootOutput, Capture, Output, OutputSource};
use crate::supervisor::running::LAST_WORDS;
use crate::supervisor::spawn::{Launch, Program, SpawnedProcess, SpawnerCommand};
use crate::supervisor::{Exit, KILL_AFTER, reap};

/// A command failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskFailure {
    /// The section that it belongs to.
    pub section: Arc<str>,
    /// The command.
    pub command: String,
    /// What happened, in words.
    pub reason: String,
    /// What it printed, as it printed it: the last 64 KiB at most.
    pub output: Vec<u8>,
}

impl fmt::Display for TaskFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "before_start of {} failed: `{}` {}", self.section, self.command, self.reason)
    }
}

/// Runs it; `killing` says that nothing may run any more.
pub(super) async fn run(
    task: &TaskSpec,
    orders: mpsc::UnboundedSender<SpawnerCommand>,
    output: &Output,
    mut killing: watch::Receiver<bool>,
) -> Result<(), TaskFailure> {
    let command: Vec<_> = task.execution.command.iter().map(|word| word.to_string_lossy()).collect();
    let command = command.join(" ");
    let fail = |reason: String, output: Vec<u8>| TaskFailure {
        section: Arc::clone(&task.section),
        command: command.clone(),
        reason,
        output,
    };
    tracing::info!(
        name: "before_start", target: "keepwarm::supervisor",
        section = %task.section, command, "running a command before the start"
    );
    let begun = Instant::now();
    let variable = ("KEEPWARM_BEFORE_START", task.section.to_string());
    let left = vec![format!("{}={}", variable.0, variable.1)];
    let spawned = spawn(task, variable, &orders).await.map_err(|reason| fail(reason, Vec::new()))?;
    let SpawnedProcess { pid, pidfd, pipes, .. } = spawned;
    let pidfd = Arc::new(pidfd);
    let source = OutputSource::task(Arc::clone(&task.section), pid.as_raw_nonzero().get().cast_unsigned());
    let printed = BootOutput::new(false);
    let last_words = output.attach(source, pipes.stdout, pipes.stderr, Capture::All(printed.clone()));
    let never = AtomicBool::new(false);
    let mut end = std::pin::pin!(reap::reap(pid, Arc::clone(&pidfd), orders.downgrade(), None, &never));
    let mut stopped = None;
    let exit = tokio::select! {
        exit = &mut end => exit,
        why = time_is_up(task, &mut killing) => {
            stopped = Some(why);
            reap::send_signal(pid, &pidfd, Signal::TERM);
            match tokio::time::timeout(KILL_AFTER, &mut end).await {
                Ok(exit) => exit,
                Err(_elapsed) => {
                    reap::send_signal(pid, &pidfd, Signal::KILL);
                    end.await
                }
            }
        }
    };
    kill_left(&orders, left).await;
    let _ = tokio::time::timeout(LAST_WORDS, last_words).await;
    match (stopped, exit) {
        (None, Exit::Status(0)) => {
            tracing::info!(
                name: "before_start_done", target: "keepwarm::supervisor",
                section = %task.section, command, took_ms = begun.elapsed().as_millis(), "command finished"
            );
            Ok(())
        }
        (None, exit) => Err(fail(exit.to_string(), printed.take_bytes())),
        (Some(why), exit) => Err(fail(format!("{why}; {exit}"), printed.take_bytes())),
    }
}

async fn spawn(
    task: &TaskSpec,
    variable: (&'static str, String),
    orders: &mpsc::UnboundedSender<SpawnerCommand>,
) -> Result<SpawnedProcess, String> {
    let (reply, spawned) = oneshot::channel();
    let program = Program::Other { execution: Arc::clone(&task.execution), variables: vec![variable] };
    let launch = Launch { program, number: 0, quiet: None };
    // The thread ends only after the last clone of `orders`.
    let _ = orders.send(SpawnerCommand::Spawn(launch, Box::new(move |result| drop(reply.send(result)))));
    match spawned.await {
        Ok(Ok(spawned)) => Ok(spawned),
        Ok(Err(error)) => Err(format!("could not be started: {error}")),
        Err(_) => Err("could not be started: Keepwarm is stopping".to_owned()),
    }
}

/// Waits until it has run too long, or must not run any more; says why.
async fn time_is_up(task: &TaskSpec, killing: &mut watch::Receiver<bool>) -> String {
    tokio::select! {
        () = tokio::time::sleep(task.timeout) => {
            format!("did not finish within before_start_timeout ({:?})", task.timeout)
        }
        // An error: the supervisor has gone.
        _ = killing.wait_for(|kill| *kill) => "was stopped with Keepwarm".to_owned(),
    }
}
