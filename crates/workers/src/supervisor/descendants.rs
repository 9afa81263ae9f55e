//! Processes that workers have started and that have left their process groups since (`setsid`, a daemon that forks twice): found by a mark in the environment that
//! the supervisor gives each worker and that every descendant inherits, whatever its parent, its group and its session are by now.
//!
//! It needs no privilege, no control group and no process between, and another process, the guardian, can find the rest when Keepwarm was killed. A process that
//! clears or overwrites its environment, or has become another user where Keepwarm is not root, is not found.
//!
//! While a program is being loaded (`execve`), its process shows no environment for a moment. So one that shows none is looked at again: for as long as it
//! shows no arguments either, which only such a process lacks, and which lasts where the machine is busy or the program's pages are not in memory.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::file_rights::with_rights;

/// The variable.
pub(super) const MARK: &str = "KEEPWARM_INSTANCE";
/// Maximum number of scans: a process may fork while it is killed. This number is arbitrary.
const ROUNDS: usize = 20;
/// So often one without an environment is looked at again, so often one without arguments too, and so long after. All three numbers are arbitrary.
const LOOKS: usize = 20;
const LOOKS_WHILE_LOADING: usize = 1000;
const PAUSE: Duration = Duration::from_millis(1);
/// So long are processes waited for that have been killed: one with much memory takes a while, and one that waits for a disk may never end. This number is
/// arbitrary.
const ENDING: Duration = Duration::from_secs(2);

/// A mark that no other supervisor has.
pub(super) fn new_mark(random: u64) -> String {
    format!("{}-{random:016x}", std::process::id())
}

/// Whether a process carries the mark of those to kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProcessMatch {
    Wanted,
    Other,
    /// It may be one whose program is being loaded.
    Unsure,
}

/// Kills all processes with this mark, of those only the ones that have all of these variables (`NAME=value`), and waits until they have ended.
pub(super) fn kill(mark: &str, variables: Vec<String>) {
    kill_with(mark, variables, || std::thread::sleep(PAUSE));
}

/// The variable of the workers of an app.
pub(super) fn of_app(app: &str) -> String {
    format!("KEEPWARM_APP={app}")
}

fn kill_with(mark: &str, variables: Vec<String>, mut pause: impl FnMut()) {
    let mut wanted = vec![format!("{MARK}={mark}")];
    wanted.extend(variables);
    let deadline = Instant::now() + ENDING;
    for _ in 0..ROUNDS {
        let mut killed = Vec::new();
        let mut look = |pid: Pid| match kill_if(pid, &wanted) {
            Ok((matched, pidfd)) => {
                killed.extend(pidfd);
                matched
            }
            // It has ended, or belongs to another user.
            Err(_) => ProcessMatch::Other,
        };
        let mut unsure = Vec::new();
        // An error: there is no /proc, and nothing is known.
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let number = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
            let Some(pid) = number.and_then(Pid::from_raw) else { continue };
            if look(pid) == ProcessMatch::Unsure {
                unsure.push(pid);
            }
        }
        for count in 0..LOOKS_WHILE_LOADING {
            if count >= LOOKS {
                unsure.retain(|pid| is_loading(*pid));
            }
            if unsure.is_empty() {
                break;
            }
            pause();
            unsure.retain(|pid| look(*pid) == ProcessMatch::Unsure);
        }
        if killed.is_empty() {
            return;
        }
        killed.iter().for_each(|pidfd| wait_end(pidfd, deadline));
    }
}

/// Waits until the process has ended: without an environment and a program already, it may still be seen, and hold its files.
fn wait_end(pidfd: &OwnedFd, deadline: Instant) {
    let left = deadline.saturating_duration_since(Instant::now());
    let left = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
    // An error, as an interruption is: it is not waited for any longer.
    let _ = poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&left));
}

/// Whether a process without an environment has no arguments either: the kernel sets both when the program is in place.
fn is_loading(pid: Pid) -> bool {
    std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero()))
        .is_ok_and(|arguments| arguments.is_empty())
}

/// With the process, if it was killed.
fn kill_if(pid: Pid, wanted: &[String]) -> io::Result<(ProcessMatch, Option<OwnedFd>)> {
    let matched = look(pid, wanted)?;
    if matched != ProcessMatch::Wanted {
        return Ok((matched, None));
    }
    let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
    // The number may have been given to another in between; from here on it is held.
    let matched = look(pid, wanted)?;
    if matched != ProcessMatch::Wanted {
        return Ok((matched, None));
    }
    pidfd_send_signal(&pidfd, Signal::KILL)?;
    Ok((matched, Some(pidfd)))
}

/// `Wanted`: the environment that the process was started with has all of these. That of a process that has ended is empty, and it has no program.
fn look(pid: Pid, wanted: &[String]) -> io::Result<ProcessMatch> {
    with_rights(pid.as_raw_nonzero().get().cast_unsigned(), || read(pid, wanted))
}

fn read(pid: Pid, wanted: &[String]) -> io::Result<ProcessMatch> {
    let folder = format!("/proc/{}", pid.as_raw_nonzero());
    let environment = std::fs::read(format!("{folder}/environ"))?;
    if environment.is_empty() {
        return std::fs::read_link(format!("{folder}/exe")).map(|_| ProcessMatch::Unsure);
    }
    let has = |variable: &String| environment.split(|&byte| byte == 0).any(|own| own == variable.as_bytes());
    Ok(if wanted.iter().all(has) { ProcessMatch::Wanted } else { ProcessMatch::Other })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::process::{Child, Command, Stdio};

    use super::*;

    fn start(mark: &str, app: &str) -> Child {
        Command::new("sleep").arg("1000").env(MARK, mark).env("KEEPWARM_APP", app).spawn().unwrap()
    }

    #[test]
    fn those_with_the_mark_are_killed_and_no_others() {
        let (ours, other) = (new_mark(1), new_mark(2));
        let mut shop = start(&ours, "shop");
        let mut chat = start(&ours, "chat");
        let mut stranger = start(&other, "shop");
        kill(&ours, vec![of_app("shop")]);
        assert!(!shop.wait().unwrap().success());
        assert_eq!(chat.try_wait().unwrap(), None);
        kill(&ours, Vec::new());
        assert!(!chat.wait().unwrap().success());
        assert_eq!(stranger.try_wait().unwrap(), None);
        stranger.kill().unwrap();
        stranger.wait().unwrap();
    }

    /// One with much memory loses its environment milliseconds before it has ended.
    #[test]
    fn those_that_are_killed_have_ended() {
        let mark = new_mark(4);
        // It keeps all that it is sent, since it ends no line.
        let mut large = Command::new("tail")
            .env(MARK, &mark)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        large.stdin.as_mut().unwrap().write_all(&vec![0; 256 << 20]).unwrap();
        kill(&mark, Vec::new());
        assert!(large.try_wait().unwrap().is_some_and(|status| !status.success()));
    }

    /// As one whose program is being loaded looks: it shows no environment, and has the mark a moment later.
    #[test]
    fn what_shows_no_environment_yet_is_looked_at_again() {
        let mark = new_mark(3);
        let script = format!("echo; read line; exec env {MARK}={mark} sh -c 'echo; exec sleep 1000'");
        let mut loading = Command::new("/bin/sh")
            .args(["-c", &script])
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut input, mut output) = (loading.stdin.take().unwrap(), loading.stdout.take().unwrap());
        let mut line = [0];
        output.read_exact(&mut line).unwrap();
        let mut paused = false;
        kill_with(&mark, Vec::new(), || {
            if !std::mem::replace(&mut paused, true) {
                input.write_all(b"go\n").unwrap();
                output.read_exact(&mut line).unwrap();
            }
            std::thread::sleep(PAUSE);
        });
        assert!(paused && !loading.wait().unwrap().success());
    }
}
