//! The control groups that this process is in, see cgroups(7).

use std::fs;
use std::path::{Path, PathBuf};

/// Where they are.
const GROUPS: &str = "/sys/fs/cgroup";

/// The directories of the groups of a controller (`memory`, `cpu`) that this process is in: its own, and those above it, whose limits count, too.
/// Version 2 has one tree for all controllers, and in version 1 each has its own. One that does not exist may be among them: a container sees its
/// own group at the top, and may read the path that it has outside.
#[must_use]
pub fn control_groups(controller: &str) -> Vec<PathBuf> {
    listed(&fs::read_to_string("/proc/self/cgroup").unwrap_or_default(), controller)
}

/// `groups`: `/proc/self/cgroup`, of lines `4:cpu,cpuacct:/path` and, in version 2, `0::/path`.
fn listed(groups: &str, controller: &str) -> Vec<PathBuf> {
    let group = |line: &str| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let top = match controllers {
            "" => PathBuf::from(GROUPS),
            _ if controllers.split(',').any(|name| name == controller) => Path::new(GROUPS).join(controller),
            _ => return None,
        };
        let group = match path.trim_start_matches('/') {
            "" => top.clone(),
            below => top.join(below),
        };
        Some((group, top))
    };
    let above = |(group, top): (PathBuf, PathBuf)| {
        group.ancestors().take_while(|above| above.starts_with(&top)).map(Path::to_owned).collect::<Vec<_>>()
    };
    groups.lines().filter_map(group).flat_map(above).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_groups_of_both_versions_are_found_up_to_the_top() {
        let found = |text, controller| {
            listed(text, controller).iter().map(|path| path.display().to_string()).collect::<Vec<_>>()
        };
        let text = "12:memory:/web/a\n4:cpu,cpuacct:/\n0::/system.slice\n";
        assert_eq!(
            found(text, "memory"),
            [
                "/sys/fs/cgroup/memory/web/a",
                "/sys/fs/cgroup/memory/web",
                "/sys/fs/cgroup/memory",
                "/sys/fs/cgroup/system.slice",
                "/sys/fs/cgroup"
            ]
        );
        assert_eq!(found("4:cpu,cpuacct:/\n", "cpu"), ["/sys/fs/cgroup/cpu"]);
        assert_eq!(found("12:cpu:/x\n", "memory"), [""; 0], "no memory is counted there");
        assert_eq!(found("nonsense\n", "cpu"), [""; 0]);
    }
}
