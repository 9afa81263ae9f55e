//! Whether the kernel has killed a process for lack of memory. A SIGKILL does not say who sent it, but the kernel counts its own (`oom_kill`): for each
//! control group (`memory.events`, and `memory.oom_control` in version 1), and for the whole machine (`/proc/vmstat`).

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

#[cfg(not(feature = "simulation"))]
use {super::control_groups::control_groups, std::fs, std::path::PathBuf, std::sync::OnceLock};

/// A kill that was counted this long ago is not the one that has just ended a process. Counts are read once a second, and a process with much memory takes a moment
/// to end. This number is arbitrary.
const RECENT: Duration = Duration::from_secs(5);

/// The kills of the kernel, as its count was read.
#[derive(Debug, Default)]
struct Kills {
    count: u64,
    /// Of these no process is known yet, counted last at this time.
    unclaimed: Option<(u64, Instant)>,
}

impl Kills {
    fn handle_count(&mut self, count: u64, now: Instant) {
        self.unclaimed = self.unclaimed.filter(|(_, at)| now.saturating_duration_since(*at) < RECENT);
        let more = count.saturating_sub(std::mem::replace(&mut self.count, count));
        if more > 0 {
            let before = self.unclaimed.map_or(0, |(before, _)| before);
            self.unclaimed = Some((before.saturating_add(more), now));
        }
    }

    /// A process was killed, and not by Keepwarm. Whether that was the kernel.
    fn claim(&mut self) -> bool {
        let Some((unclaimed, _)) = &mut self.unclaimed else { return false };
        *unclaimed -= 1;
        if *unclaimed == 0 {
            self.unclaimed = None;
        }
        true
    }
}

static KILLS: Mutex<Option<Kills>> = Mutex::new(None);

/// Reads the count: to be called once a second, so that an old kill is not taken for a new one.
pub(super) fn look() {
    with_kills(|_| ());
}

/// A process has just been killed by a SIGKILL that Keepwarm did not send. Whether the kernel did, for lack of memory.
pub(super) fn claim() -> bool {
    with_kills(Kills::claim).unwrap_or(false)
}

/// `None`: nothing counts.
fn with_kills<T>(and: impl FnOnce(&mut Kills) -> T) -> Option<T> {
    let count = count()?;
    let mut kills = KILLS.lock().unwrap_or_else(PoisonError::into_inner);
    // Those of before this process do not matter.
    let kills = kills.get_or_insert_with(|| Kills { count, unclaimed: None });
    kills.handle_count(count, Instant::now());
    Some(and(kills))
}

#[cfg(feature = "simulation")]
fn count() -> Option<u64> {
    None
}

#[cfg(not(feature = "simulation"))]
fn count() -> Option<u64> {
    static FILE: OnceLock<Option<PathBuf>> = OnceLock::new();
    let read = |file: &PathBuf| oom_kill(&fs::read_to_string(file).ok()?);
    // The nearest group alone: those above count the kills of others, too.
    let of_group = || {
        let groups = control_groups("memory").into_iter();
        let files =
            groups.flat_map(|group| ["memory.events", "memory.oom_control"].map(|name| group.join(name)));
        files.chain([PathBuf::from("/proc/vmstat")]).find(|file| read(file).is_some())
    };
    read(FILE.get_or_init(of_group).as_ref()?)
}

/// All three files have lines of a name and a number.
fn oom_kill(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_found_in_the_files_of_both_versions() {
        assert_eq!(oom_kill("low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n"), Some(2));
        assert_eq!(oom_kill("oom_kill_disable 0\nunder_oom 0\noom_kill 7\n"), Some(7));
        assert_eq!(oom_kill("oom_kill_disable 0\nunder_oom 0\n"), None);
    }

    #[test]
    fn each_kill_is_of_one_process_and_an_old_one_of_none() {
        let begin = Instant::now();
        let mut kills = Kills { count: 40, unclaimed: None };
        kills.handle_count(40, begin);
        assert!(!kills.claim());
        kills.handle_count(42, begin + RECENT);
        assert_eq!([kills.claim(), kills.claim(), kills.claim()], [true, true, false]);
        // Of something that is not supervised: the next to be killed is killed by somebody else.
        kills.handle_count(43, begin + RECENT * 2);
        kills.handle_count(43, begin + RECENT * 3);
        assert!(!kills.claim());
        kills.handle_count(44, begin + RECENT * 4);
        kills.handle_count(45, begin + RECENT * 4);
        assert_eq!([kills.claim(), kills.claim(), kills.claim()], [true, true, false]);
    }
}
