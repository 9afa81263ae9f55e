//! Limits of processor time of the control groups that this process is in (`cpu.max`; `cpu.cfs_quota_us` in version 1), and how often they have stopped it
//! (`cpu.stat`). A group that has used up what it may have in a period, usually of 100 ms, stands still until the next one.

use std::fs::read_to_string;
use std::path::{Path, PathBuf};
use std::time::Duration;

use keepwarm_workers::supervisor::control_groups;

/// The totals of one group that has a limit.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LimitedGroup {
    path: PathBuf,
    /// Cores that it may use.
    cores: f64,
    period: Duration,
    /// Periods in which it was stopped.
    stopped: u64,
}

/// What a limit did in one second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Throttling {
    /// The share of the time in periods in which the group was stopped.
    pub(super) share: f64,
    /// Cores that it may use; 0 without a limit.
    pub(super) cores: f64,
}

/// This process's groups with a limit, its own first.
pub(super) fn limited_groups() -> Vec<LimitedGroup> {
    control_groups("cpu").iter().filter_map(|path| limited(path)).collect()
}

/// The group that was stopped the most; of those that were not, the one that may use the least.
pub(super) fn throttling(before: &[LimitedGroup], now: &[LimitedGroup], elapsed: Duration) -> Throttling {
    let of = |group: &LimitedGroup| {
        let known = before.iter().find(|known| known.path == group.path);
        let stopped = known.map_or(0, |known| group.stopped.saturating_sub(known.stopped));
        let time = group.period.as_secs_f64() * stopped as f64;
        Throttling { share: (time / elapsed.as_secs_f64().max(0.001)).min(1.0), cores: group.cores }
    };
    let most = |a: &Throttling, b: &Throttling| a.share.total_cmp(&b.share).then(b.cores.total_cmp(&a.cores));
    now.iter().map(of).max_by(most).unwrap_or_default()
}

fn limited(path: &Path) -> Option<LimitedGroup> {
    let read = |file: &str| read_to_string(path.join(file)).ok();
    let (quota, period) = match read("cpu.max") {
        Some(text) => read_max(&text)?,
        None => (number(&read("cpu.cfs_quota_us")?)?, number(&read("cpu.cfs_period_us")?)?),
    };
    let stat = read("cpu.stat")?;
    let stopped = stat.lines().find_map(|line| number(line.strip_prefix("nr_throttled ")?))?;
    (period > 0).then(|| LimitedGroup {
        path: path.to_owned(),
        cores: quota as f64 / period as f64,
        period: Duration::from_micros(period),
        stopped,
    })
}

/// `50000 100000`: microseconds of processor time in each period, and the period's own; none where the first is `max`.
fn read_max(text: &str) -> Option<(u64, u64)> {
    let (quota, period) = text.trim().split_once(' ')?;
    Some((number(quota)?, number(period)?))
}

/// -1, which in version 1 says that there is no limit, is none.
fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn group(name: &str, cores: f64, stopped: u64) -> LimitedGroup {
        LimitedGroup { path: name.into(), cores, period: Duration::from_millis(100), stopped }
    }

    #[test]
    fn limits_of_both_versions_are_read() {
        let folder = std::env::temp_dir().join(format!("keepwarm-cpu-limit-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let write = |file: &str, text: &str| fs::write(folder.join(file), text).unwrap();
        assert_eq!(limited(&folder), None);
        write("cpu.cfs_quota_us", "-1\n");
        write("cpu.cfs_period_us", "50000\n");
        write("cpu.stat", "nr_periods 20\nnr_throttled 7\nthrottled_time 123\n");
        assert_eq!(limited(&folder), None);
        write("cpu.cfs_quota_us", "25000\n");
        let expected =
            LimitedGroup { path: folder.clone(), cores: 0.5, period: Duration::from_millis(50), stopped: 7 };
        assert_eq!(limited(&folder), Some(expected));
        write("cpu.max", "max 100000\n");
        assert_eq!(limited(&folder), None);
        write("cpu.max", "150000 100000\n");
        write("cpu.stat", "usage_usec 5\nnr_periods 20\nnr_throttled 9\nthrottled_usec 3\n");
        let found = limited(&folder).unwrap();
        assert_eq!((found.cores, found.period, found.stopped), (1.5, Duration::from_millis(100), 9));
        write("cpu.max", "150000 0\n");
        assert_eq!(limited(&folder), None);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_group_that_is_stopped_the_most_counts_and_else_the_tightest() {
        let before = [group("/a/b", 2.0, 100), group("/a", 1.0, 10)];
        let now = [group("/a/b", 2.0, 105), group("/a", 1.0, 12)];
        assert_eq!(throttling(&before, &now, SECOND), Throttling { share: 0.5, cores: 2.0 });
        assert_eq!(throttling(&now, &now, SECOND), Throttling { share: 0.0, cores: 1.0 });
        assert_eq!(throttling(&[], &[], SECOND), Throttling::default());
        // What a group has counted before this process came is not of this second.
        assert_eq!(throttling(&[], &now, SECOND).share, 0.0);
        let much = [group("/a", 1.0, 1000)];
        assert_eq!(throttling(&before, &much, SECOND).share, 1.0);
    }
}
