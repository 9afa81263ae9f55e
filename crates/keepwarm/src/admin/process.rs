//! The system's figures about this process.

use rustix::process::{Resource, getrlimit};

/// As the metrics give it. 0 where the system does not say.
#[derive(Debug, Default)]
pub(super) struct Process {
    /// Seconds on processors.
    pub(super) cpu: f64,
    /// Bytes.
    pub(super) resident: u64,
    /// Bytes.
    pub(super) virtual_memory: u64,
    pub(super) threads: u64,
    pub(super) files: u64,
    pub(super) most_files: u64,
}

/// Looks now.
pub(super) fn look() -> Process {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let mut process = read_stat(&stat).unwrap_or_default();
    // The descriptor that reads the directory is one of them.
    process.files =
        std::fs::read_dir("/proc/self/fd").map_or(0, |files| files.count().saturating_sub(1) as u64);
    process.most_files = getrlimit(Resource::Nofile).current.unwrap_or(0);
    process
}

/// proc_pid_stat(5). The name, in brackets, may hold anything.
fn read_stat(stat: &str) -> Option<Process> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    // `state`, the third of the manual, is the first after the name.
    let field = |number: usize| -> Option<u64> { fields.get(number - 3)?.parse().ok() };
    let ticks = (field(14)? + field(15)?) as f64;
    Some(Process {
        cpu: ticks / rustix::param::clock_ticks_per_second() as f64,
        threads: field(20)?,
        virtual_memory: field(23)?,
        resident: field(24)? * rustix::param::page_size() as u64,
        ..Process::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_threads_and_files() {
        let process = look();
        assert!(process.resident > 100_000 && process.virtual_memory >= process.resident);
        assert!(process.threads >= 1 && process.files >= 3 && process.most_files >= process.files);
    }

    #[test]
    fn a_name_may_hold_brackets_and_blanks() {
        let stat = "1 (a ) b (c) S 0 1 1 0 -1 4194560 5 6 7 8 300 200 0 0 20 0 9 0 5 4096 2 0";
        let process = read_stat(stat).unwrap();
        assert_eq!((process.threads, process.virtual_memory), (9, 4096));
        assert!(process.cpu > 0.0);
    }
}
