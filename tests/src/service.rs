//! A [`Server`] that other processes succeed: after an upgrade the service is another process, which is not a child of the test.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;

use crate::process::{self, alive, wait_until};
use crate::{Server, tools};

const LONG: Duration = Duration::from_secs(60);

/// A binary in a directory of its own, which a test can replace, and the processes that follow one another in serving. Its configuration names `@DIR@/pid` as the pid file.
pub struct Service {
    /// The first process.
    pub server: Server,
    pub binary: PathBuf,
}

impl Service {
    /// Starts a copy of `program`.
    #[track_caller]
    pub fn start(program: &Path, config: &str) -> Self {
        Self::start_with(program, config, |_| {})
    }

    /// The same, after `prepare` has changed the directory that it starts in.
    #[track_caller]
    pub fn start_with(program: &Path, config: &str, prepare: impl FnOnce(&Path)) -> Self {
        let mut binary = PathBuf::new();
        let server = Server::start_as(config, |folder| {
            prepare(folder);
            binary = folder.join("keepwarm");
            tools::place_executable(program, &binary);
            binary.clone()
        });
        let service = Self { server, binary };
        wait_until("the pid file", LONG, || service.pid() == Some(service.server.pid()));
        service
    }

    /// The process that is the service now.
    pub fn pid(&self) -> Option<u32> {
        std::fs::read_to_string(self.server.folder().join("pid")).ok()?.trim().parse().ok()
    }

    /// The output of all of them to `@DIR@/log`, where the configuration names it.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.server.folder().join("log")).unwrap_or_default()
    }

    #[track_caller]
    pub fn wait_for_log(&self, part: &str) {
        wait_until(part, LONG, || self.log().contains(part));
    }

    /// Waits until another process than `old` is the service.
    #[track_caller]
    pub fn wait_for_successor(&self, old: u32) -> u32 {
        wait_until("another process is the service", LONG, || self.pid().is_some_and(|pid| pid != old));
        self.pid().expect("another")
    }

    /// Upgrades, and waits until the other process is the service and has taken the control socket.
    #[track_caller]
    pub fn upgrade(&self) -> u32 {
        let old = self.pid().expect("a process");
        process::signal(old, Signal::USR2);
        let new = self.wait_for_successor(old);
        // The old one has let go when it reports that.
        self.wait_for_log(&format!("pid={new}"));
        new
    }

    /// Every process that runs its binary, whatever the file is now.
    pub fn processes(&self) -> Vec<u32> {
        let name = self.binary.to_string_lossy().into_owned();
        let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
        entries
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(|&pid| {
                let exe = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
                exe.to_string_lossy().starts_with(&name) && alive(pid)
            })
            .collect()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        for pid in self.processes() {
            process::signal(pid, Signal::KILL);
        }
        if std::thread::panicking() {
            eprintln!("---- log of the service\n{}", self.log());
        }
    }
}
