//! A database of the test's own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use keepwarm_tests::tools::{run, run_ok};

use crate::PATIENCE;

/// A database of the test's own, on a Unix socket; ended when dropped.
pub struct MariaDb {
    child: Child,
    pub socket: PathBuf,
}

impl MariaDb {
    #[track_caller]
    pub fn start(folder: &Path) -> Self {
        fs::create_dir_all(folder).expect("a folder");
        // It does not run as root.
        let user: &[&str] = if rustix::process::geteuid().is_root() { &["--user=nobody"] } else { &[] };
        if !user.is_empty() {
            run_ok(Command::new("chown").arg("nobody").arg(folder), PATIENCE);
        }
        let data = format!("--datadir={}", folder.display());
        let mut install = Command::new("mariadb-install-db");
        install.arg("--no-defaults").args(user).arg(&data);
        run_ok(install.args(["--auth-root-authentication-method=normal", "--skip-test-db"]), PATIENCE);
        let socket = folder.join("db.sock");
        // A shell that ends it when this process dies, however it does: then its standard input ends.
        let mut server = Command::new("sh");
        server.args(["-c", "\"$@\" </dev/null & read line; kill $!; wait $!", "sh", "/usr/sbin/mariadbd"]);
        server.arg("--no-defaults").args(user).arg(&data).arg(format!("--socket={}", socket.display()));
        server.arg(format!("--pid-file={}", folder.join("pid").display()));
        server.args([
            "--skip-networking",
            "--innodb-buffer-pool-size=16M",
            "--innodb-flush-log-at-trx-commit=0",
        ]);
        server.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let running = Self { child: server.spawn().expect("mariadbd"), socket };
        let deadline = Instant::now() + PATIENCE;
        while !run(&mut running.client("mariadb-admin", &["ping"]), PATIENCE).status.success() {
            assert!(Instant::now() < deadline, "mariadbd does not respond");
            std::thread::sleep(Duration::from_millis(50));
        }
        running
    }

    #[track_caller]
    pub fn run(&self, statements: &str) {
        run_ok(&mut self.client("mariadb", &["-e", statements]), PATIENCE);
    }

    fn client(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(["--no-defaults", "-uroot", "-S"]).arg(&self.socket).args(arguments);
        command
    }
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.child.try_wait().is_ok_and(|status| status.is_none()) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
