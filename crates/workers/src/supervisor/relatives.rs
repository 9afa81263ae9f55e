//! The parent and the children of a process, as `/proc` has them.

use std::fs;

/// The children of a process that has one thread.
pub(super) fn children(pid: u32) -> Vec<u32> {
    listed_children(pid).unwrap_or_else(|| search_children(pid))
}

/// The processes that the main thread of a process has started. `None`: it has ended, or the kernel does not list them.
#[must_use]
pub fn listed_children(pid: u32) -> Option<Vec<u32>> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    Some(list.split_whitespace().filter_map(|child| child.parse().ok()).collect())
}

/// Of a kernel that does not list them.
fn search_children(pid: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|child| parent(*child) == Some(pid)).collect()
}

/// The parent of a process; `None`: it has ended.
#[must_use]
pub fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Behind the name, which may hold anything: the state, and the parent.
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_are_found_with_and_without_the_kernels_list() {
        use std::io::BufRead;
        use std::process::{Command, Stdio};
        // The kernel lists the children of one thread: those of a test are not its main thread's.
        let mut shell = Command::new("sh")
            .args(["-c", "sleep 60 & echo $!; read end; kill $!; wait"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        std::io::BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let child: u32 = line.trim().parse().unwrap();
        assert_eq!(search_children(shell.id()), [child]);
        assert_eq!(children(shell.id()), [child]);
        assert!(!search_children(1).contains(&child));
        drop(shell.stdin.take());
        shell.wait().unwrap();
    }
}
