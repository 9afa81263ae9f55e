//! What the kernel says of the machine and of processes: `/proc/stat`, `/proc/pressure/cpu`, `/proc/PID/stat`, `/proc/PID/schedstat`.
//!
//! In a container these are the host's; a limit of processor time (`cpu.max`) does not show in them.

use std::fs::read_to_string;
use std::time::Duration;

/// Totals since the start of the machine.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct MachineTotals {
    /// Of all cores, in ticks.
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
    let mut totals = read_stat(&read_to_string("/proc/stat").unwrap_or_default()).unwrap_or_default();
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

/// proc_stat(5): user, nice, system, idle, iowait, irq, softirq, steal; what follows is counted among the first two.
fn read_stat(text: &str) -> Option<MachineTotals> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line.split_whitespace().take(8).map_while(|field| field.parse().ok()).collect();
    let [.., idle, waiting, _, _, steal] = *ticks.as_slice() else { return None };
    let total: u64 = ticks.iter().sum();
    Some(MachineTotals { total, busy: total.saturating_sub(idle + waiting), steal, pressure: None })
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
    fn the_machine_is_read_from_its_first_line() {
        let text = "cpu  100 10 50 800 20 1 4 15 7 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
        let totals = read_stat(text).unwrap();
        assert_eq!((totals.total, totals.busy, totals.steal), (1000, 180, 15));
        assert_eq!(read_stat("cpu 1 2\n"), None);
        assert_eq!(read_stat(""), None);
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
        assert!(machine().total > 0);
    }
}
