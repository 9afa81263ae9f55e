//! The orders to the guardian, one per line: what to kill and to remove when Keepwarm ends.
//!
//! | line | meaning |
//! |---|---|
//! | `+PGID` | kill this process group |
//! | `-PGID` | forget it |
//! | `=DEVICE INODE SECONDS NANOSECONDS PATH` | remove this file, if it still is that one, by inode and time of change |
//! | `>SECONDS NANOSECONDS PATH` | remove this file, if it was changed at this time or later: it is about to be created |
//! | `~PATH` | forget it |
//! | `!MARK` | kill all processes with this mark (`descendants`), whatever their group is |
//! | `/PATH` | remove this directory, which Keepwarm created, and its contents |

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::Pid;
use rustix::time::{ClockId, clock_gettime};

/// Inode numbers are given away again; together with the time of its last change, one is a file for certain.
type FileIdentity = [i64; 4];

/// How the guardian knows that a file is Keepwarm's.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KnownBy {
    Identity(FileIdentity),
    /// It had not been created yet: only one that was changed at this time or later is.
    Since(FileTime),
}

/// Seconds and nanoseconds, as file systems note them.
pub(in super::super) type FileTime = [i64; 2];

/// The time that a file gets which is changed now.
pub(in super::super) fn file_time() -> FileTime {
    // Not the precise clock: file systems use this one, which is some milliseconds behind.
    let now = clock_gettime(ClockId::RealtimeCoarse);
    [now.tv_sec, now.tv_nsec]
}

pub(in super::super) fn add_group(group: Pid) -> Vec<u8> {
    format!("+{}\n", group.as_raw_nonzero()).into_bytes()
}

pub(in super::super) fn remove_group(group: Pid) -> Vec<u8> {
    format!("-{}\n", group.as_raw_nonzero()).into_bytes()
}

/// A file that is not there is forgotten. Nothing for a name that does not fit a line.
pub(in super::super) fn add_file(file: &Path) -> Vec<u8> {
    match identity(file) {
        Some([device, inode, seconds, nanos]) => {
            with_path(format!("={device} {inode} {seconds} {nanos} "), file)
        }
        None => remove_file(file),
    }
}

/// Nothing for a name that does not fit a line.
pub(in super::super) fn add_expected_file(file: &Path, [seconds, nanos]: FileTime) -> Vec<u8> {
    with_path(format!(">{seconds} {nanos} "), file)
}

pub(in super::super) fn add_folder(folder: &Path) -> Vec<u8> {
    match folder.is_absolute() {
        true => with_path(String::new(), folder),
        false => Vec::new(),
    }
}

pub(in super::super) fn add_mark(mark: &str) -> Vec<u8> {
    format!("!{mark}\n").into_bytes()
}

pub(in super::super) fn remove_file(file: &Path) -> Vec<u8> {
    with_path("~".to_owned(), file)
}

fn with_path(start: String, file: &Path) -> Vec<u8> {
    let path = file.as_os_str().as_bytes();
    if path.contains(&b'\n') {
        return Vec::new();
    }
    let mut line = start.into_bytes();
    line.extend_from_slice(path);
    line.push(b'\n');
    line
}

fn identity(file: &Path) -> Option<FileIdentity> {
    let about = std::fs::symlink_metadata(file).ok()?;
    Some([about.dev().cast_signed(), about.ino().cast_signed(), about.mtime(), about.mtime_nsec()])
}

/// The groups to kill, the files to remove, and the line that is still incomplete.
#[derive(Default)]
pub(super) struct CleanupList {
    pub(super) groups: HashSet<Pid>,
    files: HashMap<Vec<u8>, KnownBy>,
    folders: HashSet<Vec<u8>>,
    pub(super) marks: HashSet<String>,
    line: Vec<u8>,
}

impl CleanupList {
    pub(super) fn handle_bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if byte == b'\n' {
                self.handle_line();
                self.line.clear();
            } else {
                self.line.push(byte);
            }
        }
    }

    /// Removes the files that are still those that were named.
    pub(super) fn remove_files(&self) {
        for (path, known) in &self.files {
            let path = Path::new(OsStr::from_bytes(path));
            let Some(found) = identity(path) else { continue };
            let is_ours = match *known {
                KnownBy::Identity(known) => found == known,
                KnownBy::Since(since) => [found[2], found[3]] >= since,
            };
            if is_ours {
                // An error: somebody else was faster, or it may not be removed.
                let _ = std::fs::remove_file(path);
            }
        }
        for folder in &self.folders {
            // An error: Keepwarm has removed it, as it does when it has the time.
            let _ = std::fs::remove_dir_all(Path::new(OsStr::from_bytes(folder)));
        }
    }

    /// Lines come from Keepwarm itself; one that is none is ignored rather than the guard given up.
    fn handle_line(&mut self) {
        let Some((&sign, rest)) = self.line.split_first() else { return };
        match sign {
            b'+' => drop(group(rest).map(|group| self.groups.insert(group))),
            b'-' => drop(group(rest).map(|group| self.groups.remove(&group))),
            b'=' => drop(file(rest).map(|(path, known)| self.files.insert(path, KnownBy::Identity(known)))),
            b'>' => drop(file(rest).map(|(path, since)| self.files.insert(path, KnownBy::Since(since)))),
            b'~' => drop(self.files.remove(rest)),
            b'!' => drop(std::str::from_utf8(rest).map(|mark| self.marks.insert(mark.to_owned()))),
            b'/' => drop(self.folders.insert(self.line.clone())),
            _ => {}
        }
    }
}

/// 0 and 1 are not groups of workers: signals to them would reach this group, or everything.
fn group(number: &[u8]) -> Option<Pid> {
    let number = std::str::from_utf8(number).ok()?.parse::<u32>().ok()?;
    Pid::from_raw(number.cast_signed()).filter(|_| number > 1)
}

/// `N` numbers and a path.
fn file<const N: usize>(rest: &[u8]) -> Option<(Vec<u8>, [i64; N])> {
    let mut parts = rest.splitn(N + 1, |&byte| byte == b' ');
    let mut numbers = [0; N];
    for number in &mut numbers {
        *number = std::str::from_utf8(parts.next()?).ok()?.parse().ok()?;
    }
    let path = parts.next().filter(|path| path.first() == Some(&b'/'))?;
    Some((path.to_vec(), numbers))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(lines: &[Vec<u8>]) -> CleanupList {
        let mut list = CleanupList::default();
        lines.iter().for_each(|line| list.handle_bytes(line));
        list
    }

    #[test]
    fn a_folder_is_removed_with_what_is_in_it() {
        let folder = std::env::temp_dir().join(format!("keepwarm guardian folder {}", std::process::id()));
        std::fs::create_dir_all(folder.join("0")).unwrap();
        std::fs::write(folder.join("0/app.sock"), "").unwrap();
        list(&[add_folder(&folder), add_folder(Path::new("relative"))]).remove_files();
        assert!(!folder.exists());
    }

    #[test]
    fn a_file_is_removed_only_while_it_is_the_one_that_was_named() {
        let folder = std::env::temp_dir().join(format!("keepwarm guardian {}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let [kept, forgotten, replaced] = ["kept", "forgotten", "replaced"].map(|name| folder.join(name));
        for file in [&kept, &forgotten, &replaced] {
            std::fs::write(file, "").unwrap();
        }
        let list = list(&[
            add_file(&kept),
            add_file(&forgotten),
            add_file(&replaced),
            remove_file(&forgotten),
            add_file(&folder.join("missing")),
        ]);
        std::fs::remove_file(&replaced).unwrap();
        let later = std::time::SystemTime::now() + std::time::Duration::from_secs(1);
        std::fs::File::create(&replaced).unwrap().set_modified(later).unwrap();
        list.remove_files();
        assert!(!kept.exists() && forgotten.exists() && replaced.exists());
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn an_expected_file_is_removed_only_if_it_was_created_since() {
        let folder = std::env::temp_dir().join(format!("keepwarm guardian expects {}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let [old, new, forgotten, known] = ["old", "new", "forgotten", "known"].map(|name| folder.join(name));
        let since = file_time();
        for file in [&old, &new, &forgotten, &known] {
            std::fs::write(file, "").unwrap();
        }
        let before = std::time::SystemTime::now() - std::time::Duration::from_secs(1);
        for file in [&old, &known] {
            std::fs::File::options().write(true).open(file).unwrap().set_modified(before).unwrap();
        }
        let expected = [&old, &new, &forgotten, &known].map(|file| add_expected_file(file, since));
        // What is there by now is known exactly; what is not is forgotten, with what comes later.
        let missing = folder.join("missing");
        let later = [
            remove_file(&forgotten),
            add_file(&known),
            add_expected_file(&missing, since),
            add_file(&missing),
        ];
        let list = list(&[expected.as_slice(), later.as_slice()].concat());
        std::fs::write(&missing, "").unwrap();
        list.remove_files();
        assert!(old.exists() && !new.exists() && forgotten.exists() && !known.exists() && missing.exists());
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn nonsense_about_files_is_ignored() {
        let list = list(&[
            b"=1 2 3 relative\n".to_vec(),
            b"=1 2 /a\n".to_vec(),
            b"=x 2 3 4 /a\n~\n".to_vec(),
            b">1 relative\n>1 /a\n>\n".to_vec(),
        ]);
        assert!(list.files.is_empty());
    }
}
