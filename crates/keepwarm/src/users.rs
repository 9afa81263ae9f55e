//! The users and groups of the system, and what this process may do about them.

use std::ffi::CString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use keepwarm_config::{Account, Credentials, Resource};
use nix::unistd::{Gid, Group, Uid, User, getgrouplist};
use rustix::process::{getegid, geteuid, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};

/// The user of this name or number; a number that no user has is one without a name.
pub(crate) fn user(name: &str) -> Option<Account> {
    let number = name.parse::<u32>().ok();
    let found = match number {
        Some(uid) => User::from_uid(Uid::from_raw(uid)).ok().flatten(),
        None => User::from_name(name).ok().flatten(),
    };
    match (found, number) {
        (Some(user), _) => Some(account(user)),
        // The largest number stands for none.
        (None, Some(uid)) if uid < u32::MAX => Some(Account::from_uid(uid)),
        (None, _) => None,
    }
}

fn account(user: User) -> Account {
    let groups = CString::new(user.name.as_str())
        .ok()
        .and_then(|name| getgrouplist(&name, user.gid).ok())
        .unwrap_or_else(|| vec![user.gid]);
    Account {
        name: user.name,
        uid: user.uid.as_raw(),
        gid: user.gid.as_raw(),
        groups: groups.into_iter().map(Gid::as_raw).collect(),
        home: user.dir,
    }
}

/// The name of a user by its id.
pub(crate) fn name_of(uid: u32) -> Option<String> {
    User::from_uid(Uid::from_raw(uid)).ok().flatten().map(|user| user.name)
}

/// The group of this name or number.
pub(crate) fn group(name: &str) -> Option<u32> {
    match name.parse::<u32>() {
        Ok(gid) => Some(gid).filter(|&gid| gid < u32::MAX),
        Err(_) => Group::from_name(name).ok().flatten().map(|group| group.gid.as_raw()),
    }
}

/// The user and group of this process, and what it may do about others.
pub(crate) fn credentials() -> Credentials {
    let both = CapabilitySet::SETUID | CapabilitySet::SETGID;
    Credentials {
        uid: geteuid().as_raw(),
        gid: getegid().as_raw(),
        may_change: has_right(both) && may_set_groups(),
        may_signal: has_right(CapabilitySet::KILL),
    }
}

/// Not in a user namespace whose maker had no rights outside it, such as that of `unshare --map-root-user` (user_namespaces(7)).
fn may_set_groups() -> bool {
    std::fs::read_to_string("/proc/self/setgroups").map_or(true, |may| may.trim() != "deny")
}

/// Whether the user and its groups are those of the user namespace too: a namespace maps some numbers, and no process in it can have others.
pub(crate) fn is_mapped(account: &Account) -> bool {
    let all_in = |map: &str, ids: &[u32]| {
        // Without the file there are no namespaces.
        std::fs::read_to_string(map).map_or(true, |map| ids.iter().all(|&id| maps(&map, id)))
    };
    all_in("/proc/self/uid_map", &[account.uid])
        && all_in("/proc/self/gid_map", &[&account.groups[..], &[account.gid]].concat())
}

/// Whether a line of the map has this number: each has the first inside, the first outside, and how many.
fn maps(map: &str, id: u32) -> bool {
    map.lines().any(|line| {
        let mut numbers = line.split_ascii_whitespace().map(|number| number.parse::<u64>().ok());
        match (numbers.next().flatten(), numbers.nth(1).flatten()) {
            (Some(first), Some(count)) => (first..first.saturating_add(count)).contains(&u64::from(id)),
            _ => false,
        }
    })
}

/// In a container also root may do less.
fn has_right(what: CapabilitySet) -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.contains(what))
}

/// An access to a file or a directory.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub(crate) enum Access {
    /// To use a directory's entries.
    Enter,
    /// To read a file.
    Read,
    /// To change a file, or a directory's entries.
    Write,
}

/// Whether a user may enter a directory and those above it (see [`may`]).
pub(crate) fn may_enter(directory: &Path, user: &Account) -> bool {
    may(directory, user, Access::Enter)
}

/// Whether a user may do this, and may enter all directories above, by their modes. Where more than the modes decides, the result is `true`: the attempt
/// shows the truth.
pub(crate) fn may(path: &Path, user: &Account, access: Access) -> bool {
    if user.uid == 0 {
        return true;
    }
    let whole = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    whole.ancestors().enumerate().all(|(above, step)| {
        let Ok(about) = std::fs::metadata(step) else { return true };
        let shift = match () {
            () if about.uid() == user.uid => 6,
            () if about.gid() == user.gid || user.groups.contains(&about.gid()) => 3,
            () => 0,
        };
        let wanted = match (access, above) {
            (Access::Read, 0) => 4,
            (Access::Write, 0) if about.is_dir() => 3,
            (Access::Write, 0) => 2,
            _ => 1,
        };
        about.mode() >> shift & wanted == wanted || has_access_list(step)
    })
}

fn has_access_list(path: &Path) -> bool {
    let mut none: [u8; 0] = [];
    rustix::fs::getxattr(path, "system.posix_acl_access", &mut none).is_ok_and(|size| size > 0)
}

/// The highest that this process may set a limit to.
pub(crate) fn hard_limit(resource: Resource) -> Option<u64> {
    let kind = match resource {
        Resource::Files => rustix::process::Resource::Nofile,
        Resource::Memory => rustix::process::Resource::As,
        Resource::Processes => rustix::process::Resource::Nproc,
        Resource::Core => rustix::process::Resource::Core,
        Resource::Cpu => rustix::process::Resource::Cpu,
    };
    if !has_right(CapabilitySet::SYS_RESOURCE) {
        return getrlimit(kind).maximum;
    }
    // The kernel's own bound, which holds for everybody.
    let bound = PathBuf::from("/proc/sys/fs/nr_open");
    match resource {
        Resource::Files => std::fs::read_to_string(bound).ok()?.trim().parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_by_name_and_by_number() {
        let root = user("root").unwrap();
        assert_eq!((root.uid, root.gid, root.name.as_str()), (0, 0, "root"));
        assert_eq!(user("0").unwrap(), root);
        assert_eq!(user("no-user-of-that-name"), None);
        assert_eq!(user("3999999999").unwrap().gid, 3_999_999_999);
        assert_eq!(group("root"), Some(0));
        assert_eq!(group("no-group-of-that-name"), None);
    }

    #[test]
    fn numbers_of_a_user_namespace() {
        let all = "         0          0 4294967295\n";
        let rootless = "         0       1000          1\n         1     100000      65536\n";
        for (map, id, has) in [
            (all, 0, true),
            (all, u32::MAX - 1, true),
            (rootless, 0, true),
            (rootless, 1, true),
            (rootless, 65_536, true),
            (rootless, 65_537, false),
            ("         0       1000          1\n", 65_534, false),
            ("", 0, false),
        ] {
            assert_eq!(maps(map, id), has, "{id} in {map:?}");
        }
    }

    #[test]
    fn who_may_enter_a_directory() {
        use std::os::unix::fs::PermissionsExt;
        let directory = std::env::temp_dir().join(format!("keepwarm-enter-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let about = std::fs::metadata(&directory).unwrap();
        let owner = Account { gid: about.gid(), groups: vec![], ..Account::from_uid(about.uid()) };
        let member = Account { groups: vec![about.gid()], ..Account::from_uid(3_999_999_998) };
        let stranger = Account::from_uid(3_999_999_999);
        for (mode, of_owner, of_member, of_stranger) in [
            (0o700, true, false, false),
            (0o710, true, true, false),
            (0o711, true, true, true),
            (0o701, true, false, true),
        ] {
            std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(mode)).unwrap();
            for (who, may) in [(&owner, of_owner), (&member, of_member), (&stranger, of_stranger)] {
                assert_eq!(may_enter(&directory, who), may, "{mode:o} {who:?}");
            }
        }
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn who_may_read_a_file_and_write_to_it_or_beside_it() {
        use std::os::unix::fs::PermissionsExt;
        let directory = std::env::temp_dir().join(format!("keepwarm-access-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let file = directory.join("file");
        std::fs::write(&file, "").unwrap();
        let stranger = Account::from_uid(3_999_999_999);
        let set = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap()
        };
        for (above, mode, reads, writes, makes) in [
            (0o755, 0o644, true, false, false),
            (0o755, 0o600, false, false, false),
            (0o777, 0o666, true, true, true),
            (0o700, 0o666, false, false, false),
            (0o776, 0o666, false, false, false),
        ] {
            set(&directory, above);
            set(&file, mode);
            assert_eq!(may(&file, &stranger, Access::Read), reads, "{above:o} {mode:o}");
            assert_eq!(may(&file, &stranger, Access::Write), writes, "{above:o} {mode:o}");
            assert_eq!(may(&directory, &stranger, Access::Write), makes, "{above:o} {mode:o}");
        }
        std::fs::remove_dir_all(directory).unwrap();
    }
}
