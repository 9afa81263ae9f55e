//! What is left when a whole supervisor is killed: the example runs as a process of its own here.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::harness::{BOUND, Process, SERVE, supervised};

/// A supervisor of its own, killed at the end of the test.
struct Supervised {
    process: Child,
    lines: BufReader<ChildStdout>,
    /// Lines that were read before somebody waited for them.
    skipped: Vec<String>,
}

impl Supervised {
    fn start(script: &str) -> Self {
        let mut process = Command::new(supervised())
            .args(["sh", "-c", script])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap());
        Self { process, lines, skipped: Vec::new() }
    }

    /// The rest of the first line that begins like this and was not given yet.
    fn wait_line(&mut self, beginning: &str) -> String {
        let found = self.skipped.iter().position(|line| line.starts_with(beginning));
        let line = found.map(|index| self.skipped.remove(index)).unwrap_or_else(|| {
            loop {
                let line = self.read_line();
                if line.starts_with(beginning) {
                    break line;
                }
                self.skipped.push(line);
            }
        });
        line[beginning.len()..].trim().to_owned()
    }

    fn read_line(&mut self) -> String {
        if self.lines.buffer().is_empty() {
            let mut fds = [PollFd::new(self.lines.get_ref(), PollFlags::IN)];
            let time = Timespec { tv_sec: BOUND.as_secs().cast_signed(), tv_nsec: 0 };
            assert_eq!(poll(&mut fds, Some(&time)).unwrap(), 1, "silence after {:?}", self.skipped);
        }
        let mut line = String::new();
        assert_ne!(self.lines.read_line(&mut line).unwrap(), 0, "it ended after {:?}", self.skipped);
        line
    }

    fn wait_process(&mut self, beginning: &str) -> Process {
        Process::new(self.wait_line(beginning).parse().unwrap())
    }

    fn guardian(&self) -> u32 {
        let pid = self.process.id();
        let mut children = Vec::new();
        for task in std::fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
            let list = std::fs::read_to_string(task.unwrap().path().join("children")).unwrap();
            children.extend(list.split_whitespace().map(|child| child.parse::<u32>().unwrap()));
        }
        let is_guardian = |child: &u32| {
            let command = std::fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
            command.ends_with(b"\0__guardian\0")
        };
        children.into_iter().find(is_guardian).expect("a guardian")
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A worker with a child and a grandchild, none of which listens to anybody.
const FAMILY: &str = r#"trap '' TERM HUP INT
    sh -c 'sh -c "echo grandchild \$\$; exec sleep 1000" & echo child $$; exec sleep 1000' &
    echo worker $$
    printf HELLO >&"$KEEPWARM_FD"
    while :; do sleep 1000; done"#;

#[test]
fn kill_9_of_the_supervisor_leaves_neither_worker_nor_grandchild() {
    let mut supervised = Supervised::start(FAMILY);
    let mut family = Vec::new();
    for _ in 0..3 {
        let line = supervised.wait_line("stdout: ");
        family.push(Process::new(line.split_once(' ').unwrap().1.parse().unwrap()));
    }
    supervised.wait_line("ready");
    let guardian = Process::new(supervised.guardian());
    assert!(!family.iter().any(Process::has_ended));
    supervised.kill();
    for process in &family {
        process.wait_end();
    }
    guardian.wait_end();
}

#[test]
fn kill_9_of_the_supervisor_leaves_nothing_that_has_left_its_workers_session() {
    let script = format!("(setsid sh -c '(setsid sh -c \"echo \\$\\$; exec sleep 1000\" &)' &); {SERVE}");
    let mut supervised = Supervised::start(&script);
    let daemon = supervised.wait_process("stdout: ");
    supervised.wait_line("ready");
    supervised.kill();
    daemon.wait_end();
}

#[test]
fn kill_9_during_the_boot_leaves_nothing_either() {
    let mut supervised = Supervised::start("sleep 1000 & echo $!; wait");
    let child = supervised.wait_process("stdout: ");
    supervised.kill();
    child.wait_end();
}

#[test]
fn a_guardian_that_is_killed_is_replaced_by_one_that_knows_the_old_groups() {
    let mut supervised = Supervised::start(&format!("sleep 1000 & echo $!; {SERVE}"));
    let child = supervised.wait_process("stdout: ");
    supervised.wait_line("ready");
    let old = supervised.guardian();
    kill(old, Signal::KILL);
    let deadline = std::time::Instant::now() + BOUND;
    // Nothing tells the outside that the new one guards: a look at the process list does.
    while !guards_anew(&supervised, old) {
        assert!(std::time::Instant::now() < deadline, "no new guardian");
        std::thread::yield_now();
    }
    supervised.kill();
    child.wait_end();
}

#[test]
fn the_guardian_outlives_the_signals_that_end_services() {
    let mut supervised = Supervised::start(&format!("sleep 1000 & echo $!; {SERVE}"));
    let child = supervised.wait_process("stdout: ");
    supervised.wait_line("ready");
    let pid = supervised.guardian();
    let guardian = Process::new(pid);
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT] {
        kill(pid, signal);
    }
    // Ctrl-C reaches the group of the terminal: the guardian is not in ours.
    let group = Pid::from_raw(pid.cast_signed()).unwrap();
    kill_process_group(group, Signal::TERM).unwrap();
    assert_eq!(rustix::process::getsid(Some(group)).unwrap(), group, "its own session");
    assert!(!guardian.has_ended());
    supervised.kill();
    child.wait_end();
    guardian.wait_end();
}

#[test]
fn the_guardian_holds_no_descriptor_of_a_worker() {
    let mut supervised = Supervised::start(SERVE);
    supervised.wait_line("ready");
    let guardian = supervised.guardian();
    for fd in std::fs::read_dir(format!("/proc/{guardian}/fd")).unwrap() {
        let target = std::fs::read_link(fd.unwrap().path()).unwrap();
        let target = target.to_string_lossy();
        assert!(!target.starts_with("pipe:"), "{target}");
    }
}

fn kill(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
}

/// Another guardian than `old` runs, in its own session already: it has been told the groups before it said so.
fn guards_anew(supervised: &Supervised, old: u32) -> bool {
    let pid = supervised.process.id();
    let list = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let mut children = String::new();
    for task in list {
        children += &std::fs::read_to_string(task.unwrap().path().join("children")).unwrap_or_default();
    }
    children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()).any(|child| {
        let command = std::fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
        child != old && command.ends_with(b"\0__guardian\0") && signals_are_caught(child)
    })
}

/// The guardian catches SIGTERM just before it says that it guards.
fn signals_are_caught(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0").trim();
    u64::from_str_radix(caught, 16).is_ok_and(|mask| mask & (1 << 14) != 0)
}
