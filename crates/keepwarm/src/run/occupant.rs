//! The process that listens on an address already in use.

use std::net::SocketAddr;
use std::path::Path;

use crate::process_sockets::sockets_of;

/// `by process 123 (keepwarm)`, if `/proc` tells: other users' processes show their descriptors to root only.
pub(super) fn of_tcp(address: SocketAddr) -> Option<String> {
    const LISTEN: &str = "0A";
    let port = format!("{:04X}", address.port());
    let sockets =
        ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| std::fs::read_to_string(table).unwrap_or_default());
    let inodes: Vec<u64> = sockets
        .iter()
        .flat_map(|table| table.lines().skip(1))
        .filter_map(|line| {
            let columns: Vec<&str> = line.split_whitespace().collect();
            let (local, state, inode) = (columns.get(1)?, columns.get(3)?, columns.get(9)?);
            let is_it = *state == LISTEN && local.rsplit(':').next() == Some(port.as_str());
            inode.parse().ok().filter(|_| is_it)
        })
        .collect();
    holder(&inodes)
}

/// The same for a Unix socket.
pub(super) fn of_unix(path: &Path) -> Option<String> {
    let wanted = std::path::absolute(path).ok()?;
    let sockets = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let inodes: Vec<u64> = sockets
        .lines()
        .skip(1)
        .filter_map(|line| {
            let columns: Vec<&str> = line.split_whitespace().collect();
            let (inode, path) = (columns.get(6)?, columns.get(7)?);
            let is_it = std::path::absolute(path).ok()? == wanted;
            inode.parse().ok().filter(|_| is_it)
        })
        .collect();
    holder(&inodes)
}

fn holder(inodes: &[u64]) -> Option<String> {
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    let mut pids: Vec<u32> = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    // A process is older than those it has started, which may hold its sockets for a moment.
    pids.sort_unstable();
    let holds = |pid: &&u32| sockets_of(**pid).any(|socket| inodes.contains(&socket));
    let pid = *pids.iter().find(holds)?;
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    Some(format!("by process {pid} ({})", name.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_of_this_process_is_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let found = of_tcp(listener.local_addr().unwrap()).unwrap();
        assert!(found.starts_with(&format!("by process {} (", std::process::id())), "{found}");
    }

    #[test]
    fn a_unix_listener_of_this_process_is_found() {
        let path = std::env::temp_dir().join(format!("keepwarm-occupant-{}", std::process::id()));
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let found = of_unix(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(found.starts_with(&format!("by process {} (", std::process::id())), "{found}");
    }
}
