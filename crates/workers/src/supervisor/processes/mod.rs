//! Processes that serve no requests (`[process.NAME]`): queue workers, schedulers, daemons; and the commands that run before
//! a section starts. They share with workers all that makes a process: launcher, session, mark, guardian, output, reaping.
//! They have no wire, and no generations: see `set` for how they are replaced.
//!
//! * `set` and `slot` decide, sans-IO: the processes of one section.
//! * `running` performs for one section; `control` is the task that owns all of them and knows what waits for what.
//! * `task` runs a command to its end.

mod action;
mod control;
mod logging;
mod report;
mod running;
mod schedule;
mod set;
mod slot;
mod spec;
mod task;
#[cfg(test)]
mod tests;

pub(super) use control::{ProcessCommand, start};
pub use report::{ProcessEnd, ProcessFault, ProcessSetSnapshot, ProcessSnapshot, ReplaceReason};
pub use schedule::RunSchedule;
pub use slot::ProcessState;
pub use spec::{Dependency, Execution, ProcessSpec, ReadyCheck, RestartPolicy, TaskSpec};
pub use task::TaskFailure;
