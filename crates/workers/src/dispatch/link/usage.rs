//! What a worker's process has used, for the slow log: read where a request begins, of apps that have one, and where a slow one ends.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::time::Duration;

/// What a process has used so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::dispatch) struct Usage {
    /// Processor time of all its threads, in steps of the system's clock (10 ms).
    pub(in crate::dispatch) cpu: Duration,
    /// Bytes of memory that belong to no file.
    pub(in crate::dispatch) memory: u64,
}

/// Where to read it; the files are opened at the first use and stay open.
#[derive(Debug)]
pub(super) struct ProcessUsage {
    pid: u32,
    files: OnceLock<Option<[File; 2]>>,
}

impl ProcessUsage {
    pub(super) fn new(pid: u32) -> Self {
        Self { pid, files: OnceLock::new() }
    }

    /// `None`: it has ended, or the system does not say.
    pub(super) fn read(&self) -> Option<Usage> {
        // The ids of simulated processes are those of others.
        if cfg!(feature = "simulation") {
            return None;
        }
        let open = |name| File::open(format!("/proc/{}/{name}", self.pid));
        let files = self.files.get_or_init(|| Some([open("stat").ok()?, open("statm").ok()?]));
        let [stat, statm] = files.as_ref()?;
        Some(Usage { cpu: cpu(&text(stat)?)?, memory: memory(&text(statm)?)? })
    }
}

/// All of a file that fits into one read, as these do.
fn text(file: &File) -> Option<String> {
    let mut bytes = [0; 1024];
    let size = file.read_at(&mut bytes, 0).ok()?;
    Some(String::from_utf8_lossy(bytes.get(..size)?).into_owned())
}

/// `utime` and `stime` of `/proc/PID/stat`.
fn cpu(stat: &str) -> Option<Duration> {
    // The name before may contain anything; the first field after it is the third (proc_pid_stat(5)).
    let mut fields = stat.rsplit_once(") ")?.1.split(' ').skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    let ticks = ticks()? + ticks()?;
    Some(Duration::from_secs(ticks) / u32::try_from(rustix::param::clock_ticks_per_second()).ok()?)
}

/// Resident pages of `/proc/PID/statm` without those of files.
fn memory(statm: &str) -> Option<u64> {
    let mut fields = statm.split(' ').skip(1);
    let mut pages = || fields.next()?.parse::<u64>().ok();
    let (resident, shared) = (pages()?, pages()?);
    Some(resident.saturating_sub(shared) * rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_says_is_read() {
        let hertz = rustix::param::clock_ticks_per_second();
        let stat = "7 (a) R 1) S 1 7 7 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 1 0 1 1 1";
        assert_eq!(cpu(stat), Some(Duration::from_secs(200) / u32::try_from(hertz).unwrap()));
        assert_eq!(memory("1000 300 100 1 0 200 0"), Some(200 * rustix::param::page_size() as u64));
        assert_eq!((cpu("7 (a) S 1"), memory("1000")), (None, None));
    }

    #[cfg(not(feature = "simulation"))]
    #[test]
    fn this_process_uses_something_and_one_that_is_not_there_nothing() {
        let usage = ProcessUsage::new(std::process::id());
        assert!(usage.read().unwrap().memory > 0);
        assert_eq!(ProcessUsage::new(u32::MAX).read(), None);
    }
}
