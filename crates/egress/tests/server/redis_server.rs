//! The test's own redis-server, on a Unix socket in its own directory.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use redis::{Connection, FromRedisValue, ToRedisArgs};
use rustix::process::{Pid, Signal, kill_process};

use crate::harness::wait_until;

pub(crate) struct RedisServer {
    folder: PathBuf,
    process: Child,
}

impl RedisServer {
    pub(crate) fn start() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("keepwarm-redis-{}-{number}", std::process::id()));
        // Of a process of the same number that was killed.
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).unwrap();
        let process = spawn(&folder);
        let it = Self { folder, process };
        it.wait();
        it
    }

    /// What a configuration would say.
    pub(crate) fn url(&self) -> String {
        format!("redis+unix://{}", self.socket().display())
    }

    pub(crate) fn ask<T: FromRedisValue>(&self, command: &[&str]) -> T {
        let (name, arguments) = command.split_first().unwrap();
        let mut command = redis::cmd(name);
        arguments.iter().for_each(|argument| argument.write_redis_args(&mut command));
        command.query(&mut self.connect().unwrap()).unwrap()
    }

    /// Makes it hang: it takes connections and queries, and sends no response.
    pub(crate) fn hang(&self) {
        self.signal(Signal::STOP);
        // Until then it may still respond.
        let stat = format!("/proc/{}/stat", self.process.id());
        while !std::fs::read_to_string(&stat).unwrap().contains(") T ") {
            std::thread::yield_now();
        }
    }

    pub(crate) fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Once more, at the same place, with nothing in it.
    pub(crate) fn start_again(&mut self) {
        self.process = spawn(&self.folder);
        self.wait();
    }

    fn wait(&self) {
        let ping =
            || self.connect().is_some_and(|mut connection| redis::cmd("PING").exec(&mut connection).is_ok());
        wait_until(ping, "redis-server");
    }

    fn connect(&self) -> Option<Connection> {
        redis::Client::open(self.url()).unwrap().get_connection().ok()
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn spawn(folder: &Path) -> Child {
    let mut command = Command::new("redis-server");
    command.args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket", "socket"]);
    // Its terminal is nobody's.
    command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null());
    command.spawn().expect("redis-server is installed by scripts/setup test")
}
