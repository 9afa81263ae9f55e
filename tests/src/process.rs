//! Processes, seen through `/proc`.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

/// The id of no process: Linux gives at most 2^22 (`PID_MAX_LIMIT`). Process 1 may be a Keepwarm, in the PID namespace of another test.
pub const NOBODY: &str = "4194305";

/// Sends a signal; a process that is already gone is not an error.
pub fn signal(pid: u32, signal: Signal) {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { panic!("pid {pid}") };
    let _ = rustix::process::kill_process(pid, signal);
}

/// Stops a process, and returns when no thread of it runs any more: until then it may still respond.
#[track_caller]
pub fn stop(pid: u32) {
    signal(pid, Signal::STOP);
    wait_until("every thread is stopped", Duration::from_secs(10), || {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("the threads of the process");
        tasks.flatten().all(|task| {
            let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['T', 't']))
        })
    });
}

/// Whether the process runs (a zombie does not).
pub fn alive(pid: u32) -> bool {
    state(pid).is_some_and(|(state, _)| state != 'Z' && state != 'X')
}

/// The processes whose parent is `pid`, oldest first.
pub fn children(pid: u32) -> Vec<u32> {
    let mut found: Vec<u32> = all()
        .filter(|&child| state(child).is_some_and(|(state, parent)| parent == pid && state != 'Z'))
        .collect();
    found.sort_unstable();
    found
}

/// Children, their children, and so on.
pub fn descendants(pid: u32) -> Vec<u32> {
    let mut found = children(pid);
    let mut at = 0;
    while at < found.len() {
        found.extend(children(found[at]));
        at += 1;
    }
    found
}

/// Zombies whose parent is `pid`.
pub fn zombies(pid: u32) -> Vec<u32> {
    all().filter(|&child| state(child).is_some_and(|(state, parent)| parent == pid && state == 'Z')).collect()
}

/// The command line, blanks between the arguments.
pub fn command(pid: u32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}

/// Resident anonymous memory in KiB: what a process itself holds, without the pages of its binary.
pub fn anonymous_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap_or("0 kB");
    line.trim().trim_end_matches(" kB").parse().expect("RssAnon in kB")
}

/// All resident memory in KiB.
pub fn resident_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0 kB");
    line.trim().trim_end_matches(" kB").parse().expect("VmRSS in kB")
}

/// Waits until the condition holds.
#[track_caller]
pub fn wait_until(what: &str, bound: Duration, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + bound;
    while !condition() {
        assert!(Instant::now() < deadline, "not within {bound:?}: {what}");
        // The process table of other processes has no event to wait for.
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// State letter and parent, from the fields after the last `)` of `/proc/PID/stat`.
fn state(pid: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let rest = &stat[stat.rfind(')')? + 1..];
    let mut parts = rest.split_whitespace();
    Some((parts.next()?.chars().next()?, parts.next()?.parse().ok()?))
}

fn all() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").expect("/proc");
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}
