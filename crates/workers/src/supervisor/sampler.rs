//! Periodic samples, off the data plane: memory, signs of life, priorities, and how long requests wait.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;

use super::Memory;
use super::app::WorkerId;

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
}

/// There is no memory to look at.
#[cfg(feature = "simulation")]
pub(super) fn start(_: Vec<SampleTarget>, samples: UnboundedSender<MemorySamples>) {
    // An error: the supervisor has gone.
    let _ = samples.send(MemorySamples { workers: Vec::new(), available: None });
}

/// Samples these on a thread that may block: the kernel makes a reader wait for a process that is changing its memory.
#[cfg(not(feature = "simulation"))]
pub(super) fn start(subjects: Vec<SampleTarget>, samples: UnboundedSender<MemorySamples>) {
    tokio::task::spawn_blocking(move || {
        let look = |subject: SampleTarget| {
            let memory = super::memory::of_process(subject.pid)?;
            let children = match subject.has_children {
                true => super::memory::of_children(subject.pid),
                false => Vec::new(),
            };
            Some(WorkerSample { subject, memory, children })
        };
        let workers = subjects.into_iter().filter_map(look).collect();
        // An error: the supervisor has gone.
        let _ = samples.send(MemorySamples { workers, available: super::memory::available() });
    });
}
