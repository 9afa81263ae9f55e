//! Memory of a process, and available memory: read from `/proc` and the control group, on a thread that may block.
//!
//! What counts is anonymous memory: pages of files can be dropped, and are often shared. For a worker that was forked from a template, the kernel
//! counts the template's pages as the child's too, as long as neither has written to them; only the map of all its pages tells them apart
//! (`smaps_rollup`). That costs the kernel a walk over the pages, so it is read only where a worker has another parent than Keepwarm, and within a
//! budget ([`super::rollups`]).

use std::fs;
use std::path::Path;

use super::Memory;
use super::control_groups::control_groups;
use super::file_rights::with_rights;

/// Resident memory of a process, in bytes.
#[derive(Copy, Clone, Debug)]
pub(super) struct Resident {
    pub(super) anonymous: u64,
    /// Files and shared segments.
    pub(super) files: u64,
    /// It was started by another process than this one: from a template, whose pages it shares, or by a worker.
    pub(super) is_forked: bool,
}

impl Resident {
    /// With this much anonymous memory that is its alone.
    pub(super) fn with_own(self, own: u64) -> Memory {
        let own = own.min(self.anonymous);
        Memory { own, shared: self.anonymous.saturating_add(self.files).saturating_sub(own) }
    }
}

/// What this process holds; `None` when it has gone.
pub(super) fn of_process(pid: u32) -> Option<Memory> {
    let resident = resident(pid)?;
    let own = if resident.is_forked { private(pid) } else { None };
    Some(resident.with_own(own.unwrap_or(resident.anonymous)))
}

/// What the kernel counts of it; `None` when it has gone.
pub(super) fn resident(pid: u32) -> Option<Resident> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |name| kib_field(&status, name);
    // A zombie has no memory, and no such lines.
    let anonymous = field("RssAnon")?;
    let files = field("RssFile")?.saturating_add(field("RssShmem")?);
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok());
    Some(Resident { anonymous, files, is_forked: parent != Some(std::process::id()) })
}

/// Memory that can be had without anybody being pushed out: of the machine, or of the control groups that this process is in, whichever
/// has less. `None`: nobody says.
pub(super) fn available() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| kib_field(&text, "MemAvailable"));
    let group = control_groups("memory").iter().filter_map(|group| room_of_group(group)).min();
    [machine, group].into_iter().flatten().min()
}

/// Anonymous pages that no other process has mapped: a walk over all its pages.
pub(super) fn private(pid: u32) -> Option<u64> {
    let rollup = with_rights(pid, || fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))).ok()?;
    let field = |name| kib_field(&rollup, name);
    let private = field("Private_Clean")?.saturating_add(field("Private_Dirty")?);
    Some(private.min(field("Anonymous")?))
}

fn room_of_group(group: &Path) -> Option<u64> {
    let number = |file: &str| fs::read_to_string(group.join(file)).ok()?.trim().parse::<u64>().ok();
    // Version 2, where no limit is "max", which does not parse as a number; and version 1, where it is a number beyond all memory.
    let limit = number("memory.max").or_else(|| number("memory.limit_in_bytes"))?;
    let used = number("memory.current").or_else(|| number("memory.usage_in_bytes"))?;
    let stat = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let field =
        |name: &str| stat.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    // Pages of files that nobody has used lately go first.
    let reclaimable = field("inactive_file ").or_else(|| field("total_inactive_file "));
    Some(limit.saturating_sub(used).saturating_add(reclaimable.unwrap_or(0)))
}

/// `Name:   123 kB`, in bytes.
fn kib_field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib.saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "VmRSS:\t  10 kB\nRssAnon:\t     7 kB\nRssFile:\t     3 kB\nRssAnonX:\t 9 kB\n";
        assert_eq!(kib_field(text, "RssAnon"), Some(7 * 1024));
        assert_eq!(kib_field(text, "Rss"), None);
        assert_eq!(kib_field("RssAnon: many kB\n", "RssAnon"), None);
    }

    #[test]
    fn this_very_process_holds_what_it_has_touched() {
        let before = of_process(std::process::id()).unwrap();
        let block = vec![1_u8; 64 * 1024 * 1024];
        let after = of_process(std::process::id()).unwrap();
        assert!(after.own >= before.own + 48 * 1024 * 1024, "{before:?} {after:?} {}", block.len());
        assert!(after.shared > 0);
        assert!(available().unwrap() > 0);
        assert_eq!(of_process(u32::MAX), None);
    }

    #[test]
    fn the_tightest_group_counts() {
        let folder = std::env::temp_dir().join(format!("keepwarm-memory-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let write = |file: &str, text: &str| fs::write(folder.join(file), text).unwrap();
        write("memory.current", "700\n");
        write("memory.max", "max\n");
        assert_eq!(room_of_group(&folder), None);
        write("memory.max", "1000\n");
        assert_eq!(room_of_group(&folder), Some(300));
        write("memory.stat", "anon 500\ninactive_file 50\n");
        assert_eq!(room_of_group(&folder), Some(350));
        write("memory.current", "1200\n");
        assert_eq!(room_of_group(&folder), Some(50));
        for file in ["memory.max", "memory.current", "memory.stat"] {
            fs::remove_file(folder.join(file)).unwrap();
        }
        write("memory.limit_in_bytes", "1000\n");
        write("memory.usage_in_bytes", "100\n");
        write("memory.stat", "total_inactive_file 7\n");
        assert_eq!(room_of_group(&folder), Some(907), "version 1");
        fs::remove_dir_all(&folder).unwrap();
    }
}
