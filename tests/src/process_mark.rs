//! Everything that a server has started, however far from it: each process carries a variable in its environment, which it cannot lose.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::{Server, process};

/// A mark that a server's processes have in common. Those that are left are killed when this is dropped.
pub struct ProcessMark(String);

impl ProcessMark {
    #[expect(clippy::new_without_default, reason = "each is another")]
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Self(format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    /// Makes the command, and whatever it starts, carry the mark.
    pub fn apply_to(&self, command: &mut Command) {
        command.env("TEST_MARK", &self.0);
    }

    /// The processes that carry it, with their command lines.
    pub fn processes(&self) -> BTreeMap<u32, String> {
        let wanted = format!("TEST_MARK={}", self.0);
        let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
        entries
            .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
            .filter(|pid| {
                let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
                environment.split(|&byte| byte == 0).any(|variable| variable == wanted.as_bytes())
            })
            .filter(|&pid| process::alive(pid))
            .map(|pid| (pid, process::command(pid)))
            .collect()
    }
}

impl Drop for ProcessMark {
    fn drop(&mut self) {
        for pid in self.processes().into_keys() {
            process::signal(pid, Signal::KILL);
        }
    }
}

/// Every file in a directory and below, by its path in there.
pub fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(&next).into_iter().flatten().flatten() {
            let path = entry.path();
            match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                true => folders.push(path),
                false => found.push(path.strip_prefix(folder).unwrap_or(&path).display().to_string()),
            }
        }
    }
    found.sort();
    found
}

/// The descriptors of a process, by their targets, numbers left out.
pub fn descriptors(pid: u32) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten() {
        // It may be closed meanwhile.
        let Ok(to) = std::fs::read_link(entry.path()) else { continue };
        let to = to.to_string_lossy().into_owned();
        let kind = to.split(['[', ':']).next().unwrap_or_default().to_owned();
        *found.entry(kind).or_default() += 1;
    }
    found
}

/// Everything of a server that could grow, but for memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceUsage {
    pub descriptors: BTreeMap<String, usize>,
    pub threads: usize,
    pub processes: usize,
    pub files: Vec<String>,
}

impl ResourceUsage {
    pub fn of(server: &Server, mark: &ProcessMark) -> Self {
        Self {
            descriptors: descriptors(server.pid()),
            threads: std::fs::read_dir(format!("/proc/{}/task", server.pid())).expect("threads").count(),
            processes: mark.processes().len(),
            files: files(server.folder()),
        }
    }

    /// Waits until there is no more than this: a count in between two steps is none. There may be less, for the first count may have had a connection of a client
    /// that was about to close.
    #[track_caller]
    pub fn wait_for(&self, server: &Server, mark: &ProcessMark, bound: Duration) {
        let deadline = Instant::now() + bound;
        loop {
            let now = Self::of(server, mark);
            if now.is_within(self) {
                return;
            }
            assert!(Instant::now() < deadline, "before {self:#?}\nafter {now:#?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn is_within(&self, bound: &Self) -> bool {
        let is_known =
            |(kind, count): (&String, &usize)| bound.descriptors.get(kind).is_some_and(|most| count <= most);
        self.descriptors.iter().all(is_known)
            && self.threads <= bound.threads
            && self.processes <= bound.processes
            && self.files == bound.files
    }
}
