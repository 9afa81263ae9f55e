//! What the kernel says of the machine and of processes: `/proc/stat`, `/proc/pressure/cpu`, `/proc/PID/stat`, `/proc/PID/schedstat`.
//!
//! In a container these are the host's, so only the cores count that this process may use; a limit of processor time (`cpu.max`) does not show in them.

use std::fs::read_to_string;
use std::time::Duration;

use rustix::thread::CpuSet;

/// Totals since the start of the machine.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct MachineTotals {
    /// Cores that this process may use: all, unless it was given some of them (`taskset`, `AllowedCPUs=`, `--cpuset-cpus`).
    pub(super) cores: u32,
    /// Of these cores, in ticks.
    pub(super) total: u64,
    /// Neither idle nor waiting for a disk.
    pub(super) busy: u64,
    /// Part of `busy`.
    pub(super) steal: u64,
    /// Time in which some task waited for a processor.
    pub(super) pressure: Option<Duration>,
}

/// Processor time of a process since its start, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct ProcessTotals {
    pub(super) computing: f64,
    /// Ready to run, without a processor; of its first thread.
    pub(super) delayed: f64,
}

pub(super) fn machine() -> MachineTotals {
    let usable = rustix::thread::sched_getaffinity(None).ok();
    let is_usable = |core| usable.as_ref().is_none_or(|set| core < CpuSet::MAX_CPU && set.is_set(core));
    let mut totals = read_stat(&read_to_string("/proc/stat").unwrap_or_default(), is_usable);
    totals.pressure = read_to_string("/proc/pressure/cpu").ok().and_then(|pressure| read_pressure(&pressure));
    totals
}

/// `None`: it has gone.
pub(super) fn process(pid: u32) -> Option<ProcessTotals> {
    let stat = read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let computing = read_process(&stat)?;
    let schedule = read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
    let delayed = schedule.split_whitespace().nth(1).and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0);
    Some(ProcessTotals { computing, delayed: delayed as f64 / 1e9 })
}

/// proc_stat(5), a line for each core: user, nice, system, idle, iowait, irq, softirq, steal; what follows is counted among the first two.
fn read_stat(text: &str, is_usable: impl Fn(usize) -> bool) -> MachineTotals {
    let mut totals = MachineTotals::default();
    for line in text.lines() {
        let Some((core, ticks)) = line.strip_prefix("cpu").and_then(|rest| rest.split_once(' ')) else {
            continue;
        };
        // The first line, of all, has no number.
        if !core.parse().is_ok_and(&is_usable) {
            continue;
        }
        let ticks: Vec<u64> =
            ticks.split_whitespace().take(8).map_while(|field| field.parse().ok()).collect();
        let [.., idle, waiting, _, _, steal] = *ticks.as_slice() else { continue };
        let total: u64 = ticks.iter().sum();
        totals.cores += 1;
        totals.total += total;
        totals.busy += total.saturating_sub(idle + waiting);
        totals.steal += steal;
    }
    totals
}

/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=123`, in microseconds.
fn read_pressure(text: &str) -> Option<Duration> {
    let some = text.lines().find(|line| line.starts_with("some "))?;
    let total = some.split(' ').find_map(|field| field.strip_prefix("total="))?;
    Some(Duration::from_micros(total.parse().ok()?))
}

/// proc_pid_stat(5): utime and stime, the 14th and 15th. The name, in brackets, may hold anything.
fn read_process(stat: &str) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    Some((ticks()? + ticks()?) as f64 / rustix::param::clock_ticks_per_second() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_the_cores_that_may_be_used() {
        let text = "cpu  999 9 9 9 9 9 9 9 7 0\ncpu0 100 10 50 800 20 1 4 15 7 0\ncpu1 1 1 1 90 4 1 1 1 0 0\ncpu12 1 2\nintr 5\n";
        let both = read_stat(text, |_| true);
        assert_eq!((both.cores, both.total, both.busy, both.steal), (2, 1100, 186, 16));
        let one = read_stat(text, |core| core == 0);
        assert_eq!((one.cores, one.total, one.busy, one.steal), (1, 1000, 180, 15));
        assert_eq!(read_stat("", |_| true), MachineTotals::default());
    }

    #[test]
    fn pressure_is_that_of_some_task() {
        let text = "some avg10=1.00 avg60=0.00 avg300=0.00 total=1500\nfull avg10=0.00 total=7\n";
        assert_eq!(read_pressure(text), Some(Duration::from_micros(1500)));
        assert_eq!(read_pressure("full total=7\n"), None);
    }

    #[test]
    fn this_process_has_computed() {
        let stat = "1 (a ) b (c) S 0 1 1 0 -1 4194560 5 6 7 8 300 200 0 0 20 0 9 0 5 4096 2 0";
        assert_eq!(read_process(stat), Some(500.0 / rustix::param::clock_ticks_per_second() as f64));
        assert!(process(std::process::id()).is_some());
        assert_eq!(process(u32::MAX), None);
        assert!(machine().total > 0 && machine().cores > 0);
    }
}
