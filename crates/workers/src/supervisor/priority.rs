//! The priority of workers that start while others serve.
//!
//! Starting a worker takes a processor for a good part of a second. While others serve, it is started at a lower priority, and given the ordinary one
//! when it is ready. Lowering is free; raising again needs the right CAP_SYS_NICE, or a limit of niceness (RLIMIT_NICE) that allows it. Where neither is
//! there, the priority is not lowered at all.
//!
//! Each worker is a session of its own. Where the kernel groups processes by session (`sched_autogroup_enabled`), niceness counts within a
//! session only, and what counts between them is the niceness of the group, which may be raised again to 0 without any right.

use std::fs;
use std::io;
use std::time::Duration;

use rustix::process::{Pid, Resource, getpriority_process, getrlimit, setpriority_process};
use rustix::thread::CapabilitySet;

/// How much nicer a worker is while it starts: it has a quarter of a processor against one that wants all of it.
const NICER: i32 = 5;
/// For how long at most, of a worker and of a whole reload: on a machine that is busy with other things as well, little is left for the nice, and what takes
/// long is in need of the processor more than it disturbs. This number is arbitrary: most apps are loaded by then.
pub(super) const LONGEST: Duration = Duration::from_secs(5);
/// The least priority there is.
const NICEST: i32 = 19;
/// Threads can be born at the low priority while the others are raised; the next pass finds them. One that has as many is left to the next look.
const PASSES: usize = 4;

/// Starts processes at a low priority, where it can be raised again.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct LowPriority {
    /// The ordinary niceness, that of Keepwarm; `None`: it could not be given back.
    nice: Option<i32>,
}

impl LowPriority {
    /// Looks at what this process may do.
    pub(super) fn new() -> Self {
        let nice = getpriority_process(None).ok();
        Self { nice: nice.filter(|&nice| may_raise_to(nice)) }
    }

    /// The niceness that the launcher sets for itself.
    pub(super) fn nice(self) -> Option<i32> {
        Some(self.nice?.saturating_add(NICER).min(NICEST))
    }

    /// Gives all threads of a worker the ordinary priority. `false`: incomplete, call it again.
    pub(super) fn end(self, pid: u32) -> bool {
        let group = end_group(pid);
        let (Some(nice), Some(low)) = (self.nice, self.nice()) else { return group };
        group && (0..PASSES).any(|_| raise_threads(pid, low, low - nice) == 0)
    }
}

/// Runs IN THE CHILD, in its own session: lowers the priority of the future worker. Errors leave it as it was.
pub(super) fn begin(nice: Option<i32>) {
    if let Some(nice) = nice {
        let _ = setpriority_process(None, nice);
    }
    let _ = write_group("self", NICER);
}

/// The kernel allows it with the right, or down to 20 less the limit (`getrlimit(2)`).
fn may_raise_to(nice: i32) -> bool {
    let sets = rustix::thread::capabilities(None);
    let has_right = sets.is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_NICE));
    let limit = getrlimit(Resource::Nice).current.map_or(40, |limit| i32::try_from(limit).unwrap_or(0));
    has_right || 20 - limit <= nice
}

/// Takes away what was put on, also from a thread that has made itself nicer meanwhile; gives how many there were.
fn raise_threads(pid: u32, low: i32, by: i32) -> usize {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let ids = threads.filter_map(|entry| entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw));
    // A thread that has ended meanwhile has no priority. On Linux the calls take the id of any thread.
    let nice = ids.filter_map(|id| Some((id, getpriority_process(Some(id)).ok()?)));
    nice.filter(|&(id, nice)| nice >= low && setpriority_process(Some(id), nice - by).is_ok()).count()
}

/// `false`: not now. The kernel allows one such change in a tenth of a second, unless one has the right CAP_SYS_ADMIN.
fn end_group(pid: u32) -> bool {
    let lowered = fs::read_to_string(format!("/proc/{pid}/autogroup"))
        .is_ok_and(|text| text.trim_end().ends_with(&format!("nice {NICER}")));
    !lowered
        || !write_group(&pid.to_string(), 0).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

fn write_group(process: &str, nice: i32) -> io::Result<()> {
    // Not created where the kernel has no such thing.
    let mut file = fs::OpenOptions::new().write(true).open(format!("/proc/{process}/autogroup"))?;
    io::Write::write_all(&mut file, nice.to_string().as_bytes())
}
