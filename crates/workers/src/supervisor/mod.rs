//! The processes of the apps: spawn, ready, restart with back-off, reload by generations, drain, stop, no orphans.
//!
//! Threads and processes:
//!
//! * [`launcher_main`] and [`guardian_main`] are other processes: Keepwarm's own binary, started again under a hidden
//!   sub-command ([`LAUNCH`], [`GUARDIAN`]).
//! * `spawn` is one thread that starts every process and ends last, because a worker's parent-death signal follows the
//!   thread that started it.
//! * `output` is one thread that reads what workers print, so that a log that blocks never blocks anything else.
//! * `control` is a task on the caller's runtime; it owns all state, and everything reaches it as an event.
//! * `app` decides, sans-IO: events and `now` in, actions out.
//! * `processes` is another task, for what serves no requests, with the same spawner, guardian and output.
//!
//! What the supervisor decides goes to `tracing` under the target `keepwarm::supervisor`, what workers print under
//! `keepwarm::worker`.
#![cfg_attr(
    feature = "simulation",
    expect(
        dead_code,
        reason = "`simulation` stands in the place of what starts real processes and reads what they print"
    )
)]

/// From SIGTERM to SIGKILL.
const KILL_AFTER: std::time::Duration = std::time::Duration::from_secs(2);

mod address;
mod api;
mod app;
mod children;
mod control;
mod control_groups;
mod descendants;
mod descriptors;
mod exit;
mod file_rights;
mod guardian;
mod guardian_watch;
mod launcher;
mod link;
mod memory;
mod out_of_memory;
mod output;
mod priority;
mod processes;
mod profile;
#[cfg(not(feature = "simulation"))]
mod reap;
mod relatives;
mod rollups;
mod running;
mod sampler;
mod settings;
mod signals;
#[cfg(feature = "simulation")]
pub mod simulation;
mod single_request;
mod snapshot;
mod spawn;
mod spec;
mod stack;
mod tally;
mod template;

#[cfg(feature = "simulation")]
use simulation as reap;

pub use address::Addresses;
pub use api::{Options, Supervisor};
pub use control_groups::control_groups;
pub use exit::Exit;
pub use guardian::{GUARDIAN, guardian_main};
pub use launcher::{LAUNCH, launcher_main};
pub use link::{KillReason, LinkEvent, Requests, WorkerKey, WorkerLink, WorkerLinks};
pub use processes::{
    Dependency, Execution, ProcessEnd, ProcessFault, ProcessSetSnapshot, ProcessSnapshot, ProcessSpec,
    ProcessState, ReadyCheck, ReplaceReason, RestartPolicy, RunSchedule, TaskFailure, TaskSpec,
};
pub use profile::{Waits, WorkerProcessHandle};
pub use relatives::{listed_children, parent};
pub use settings::{Credentials, Limit, ProcessSettings};
pub(crate) use signals::is_killed;
pub use snapshot::{AppSnapshot, FailedApp, LastDeath, Memory, Snapshot, WorkerSnapshot, WorkerState};
pub use spawn::private_variables;
pub use spec::{AppSpec, ChildLimits, Recycling, ReloadReport, Scaling, StartFailure, WorkerInterface};
pub use tally::{Counts, Death, Reason, RecycleReason};
