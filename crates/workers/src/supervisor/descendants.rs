//! What workers have started, and what has left their process groups since (`setsid`, a daemon that forks twice): found by a mark in the environment that
//! the supervisor gives each worker and that every descendant inherits, whatever its parent, its group and its session are by now.
//!
//! It needs no right, no control group and no process between, and what is left can be found by another process, the guardian, when Keepwarm was killed. What
//! clears or overwrites its environment, and what has become another user where Keepwarm is not root, is not found.

use std::io;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// The variable.
pub(super) const MARK: &str = "KEEPWARM_INSTANCE";
/// What is found may fork while it is killed: so often everything is looked at again. This number is arbitrary.
const ROUNDS: usize = 20;

/// A mark that no other supervisor has.
pub(super) fn new_mark(random: u64) -> String {
    format!("{}-{random:016x}", std::process::id())
}

/// Kills all processes with this mark; with `app` those of the app only.
pub(super) fn kill(mark: &str, app: Option<&str>) {
    let mut wanted = vec![format!("{MARK}={mark}")];
    wanted.extend(app.map(|app| format!("KEEPWARM_APP={app}")));
    for _ in 0..ROUNDS {
        let mut found = false;
        // An error: there is no /proc, and nothing is known.
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let number = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
            if let Some(pid) = number.and_then(Pid::from_raw) {
                found |= kill_if(pid, &wanted).unwrap_or(false);
            }
        }
        if !found {
            return;
        }
    }
}

/// `true`: it was one of them. An error: it has ended, or is somebody else's.
fn kill_if(pid: Pid, wanted: &[String]) -> io::Result<bool> {
    if !has(pid, wanted)? {
        return Ok(false);
    }
    let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
    // The number may have been given to another in between; from here on it is held.
    if !has(pid, wanted)? {
        return Ok(false);
    }
    pidfd_send_signal(pidfd, Signal::KILL)?;
    Ok(true)
}

/// Whether these are in the environment that the process was started with. That of one that has ended is empty.
fn has(pid: Pid, wanted: &[String]) -> io::Result<bool> {
    let environment = std::fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero()))?;
    let has = |variable: &String| environment.split(|&byte| byte == 0).any(|own| own == variable.as_bytes());
    Ok(wanted.iter().all(has))
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

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
        kill(&ours, Some("shop"));
        assert!(!shop.wait().unwrap().success());
        assert_eq!(chat.try_wait().unwrap(), None);
        kill(&ours, None);
        assert!(!chat.wait().unwrap().success());
        assert_eq!(stranger.try_wait().unwrap(), None);
        stranger.kill().unwrap();
        stranger.wait().unwrap();
    }
}
