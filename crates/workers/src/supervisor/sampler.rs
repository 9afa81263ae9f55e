//! Periodic samples, off the data plane: memory, signs of life, priorities, and how long requests wait.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;

use super::Memory;
use super::app::WorkerId;
use super::rollups::Rollups;

/// Between two looks at every worker.
pub(super) const EVERY: Duration = Duration::from_secs(1);
/// Between two looks at the queues of apps whose number of workers follows them.
pub(super) const LOAD_EVERY: Duration = Duration::from_millis(100);
/// An idle worker is pinged once every this many looks.
pub(super) const PING_LOOKS: u64 = 5;

/// A process to sample.
pub(super) struct SampleTarget {
    pub(super) app: Arc<str>,
    pub(super) generation: u64,
    pub(super) id: WorkerId,
    pub(super) pid: u32,
    /// It manages processes of its own, which are sampled, too.
    pub(super) has_children: bool,
}

/// The memory of a process and of those that it manages.
pub(super) struct WorkerSample {
    pub(super) subject: SampleTarget,
    pub(super) memory: Memory,
    pub(super) children: Vec<(u32, Memory)>,
}

/// The samples of one round.
pub(super) struct MemorySamples {
    pub(super) workers: Vec<WorkerSample>,
    /// The memory that is available, in bytes.
    pub(super) available: Option<u64>,
    pub(super) rollups: Rollups,
}

/// There is no memory to look at.
#[cfg(feature = "simulation")]
pub(super) fn start(_: Vec<SampleTarget>, rollups: Rollups, samples: UnboundedSender<MemorySamples>) {
    // An error: the supervisor has gone.
    let _ = samples.send(MemorySamples { workers: Vec::new(), available: None, rollups });
}

/// Samples these on a thread that may block: the kernel makes a reader wait for a process that is changing its memory.
#[cfg(not(feature = "simulation"))]
pub(super) fn start(
    subjects: Vec<SampleTarget>,
    mut rollups: Rollups,
    samples: UnboundedSender<MemorySamples>,
) {
    tokio::task::spawn_blocking(move || {
        let workers = sample(subjects, &mut rollups);
        super::out_of_memory::look();
        // An error: the supervisor has gone.
        let _ = samples.send(MemorySamples { workers, available: super::memory::available(), rollups });
    });
}

#[cfg(not(feature = "simulation"))]
fn sample(subjects: Vec<SampleTarget>, rollups: &mut Rollups) -> Vec<WorkerSample> {
    use super::memory::{Resident, private, resident};
    use super::relatives::children;
    use keepwarm_net::thread_time;

    let look = |subject: SampleTarget| {
        let own = resident(subject.pid)?;
        let managed = if subject.has_children { children(subject.pid) } else { Vec::new() };
        let managed: Vec<(u32, Resident)> =
            managed.into_iter().filter_map(|child| Some((child, resident(child)?))).collect();
        Some((subject, own, managed))
    };
    let found: Vec<_> = subjects.into_iter().filter_map(look).collect();
    let forked: Vec<(u32, u64)> = found
        .iter()
        .flat_map(|(subject, own, managed)| [(subject.pid, *own)].into_iter().chain(managed.iter().copied()))
        .filter_map(|(pid, resident)| resident.is_forked.then_some((pid, resident.anonymous)))
        .collect();
    rollups.refresh(&forked, |pid| {
        let before = thread_time();
        let own = private(pid);
        (own, thread_time().saturating_sub(before))
    });
    let memory = |pid, resident: Resident| {
        let own = if resident.is_forked { rollups.own(pid, resident.anonymous) } else { resident.anonymous };
        resident.with_own(own)
    };
    found
        .into_iter()
        .map(|(subject, own, managed)| WorkerSample {
            memory: memory(subject.pid, own),
            children: managed.into_iter().map(|(pid, resident)| (pid, memory(pid, resident))).collect(),
            subject,
        })
        .collect()
}
