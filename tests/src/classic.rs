//! The site of the classic kind (`apps/classic`), and the servers that run its scripts.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use crate::tools::run_ok;
use crate::{Server, process};

/// A bound for what a busy machine may need.
const LONG: Duration = Duration::from_secs(30);

const CONFIG: &str = r#"
[listen.main]
bind = "127.0.0.1:0"
[[listen.main.route]]
app = "site"
try_files = "@DIR@/site"
send_files = { "/protected/" = "@DIR@/vault" }
[app.site]
kind = "fastcgi"
entry = "index.php"
directory = "@DIR@/site"
interpreter = "@INTERPRETER@"
workers = @WORKERS@
env = { GENERATION = "1" }
"#;

/// The site, run by this server, with this many requests at once.
pub fn config(interpreter: &str, workers: usize) -> String {
    CONFIG.replace("@INTERPRETER@", interpreter).replace("@WORKERS@", &workers.to_string())
}

/// The same with a server that runs already.
pub fn config_at(address: &str, workers: usize) -> String {
    config("", workers)
        .replace("interpreter = \"\"\n", &format!("address = \"{address}\"\n"))
        .replace("env = { GENERATION = \"1\" }\n", "")
}

/// Starts Keepwarm with a copy of the site in its directory.
#[track_caller]
pub fn start_config(config: &str) -> Server {
    Server::start_with(config, |command| {
        let folder = command.get_current_dir().expect("a folder");
        let classic = crate::apps().join("classic");
        run_ok(Command::new("cp").arg("-r").arg(classic).arg(folder.join("site")), LONG);
        fs::create_dir(folder.join("vault")).expect("a folder");
        fs::write(folder.join("vault/a.bin"), "0123456789").expect("written");
        fs::write(folder.join("outside.php"), "<?php echo 'executed';").expect("written");
        symlink("../outside.php", folder.join("site/out.php")).expect("a link");
    })
}

/// The same of [`config`].
#[track_caller]
pub fn start(interpreter: &str, workers: usize) -> Server {
    start_config(&config(interpreter, workers))
}

/// The php-fpm of this machine: Debian names it after its version.
pub fn php_fpm() -> String {
    let found = run_ok(Command::new("sh").arg("-c").arg("ls /usr/sbin/php-fpm* | sort | tail -n 1"), LONG);
    found.trim().to_owned()
}

/// A php-fpm that the test has started. Stopped when dropped.
pub struct Fpm(Child);

impl Fpm {
    /// Starts one that listens there (`127.0.0.1:PORT`, or a path), and waits until it does. Its files are in `folder`.
    #[track_caller]
    pub fn start(folder: &Path, listen: &str, children: usize) -> Self {
        let file = folder.join("fpm.conf");
        let config = format!(
            "[global]\ndaemonize = no\nerror_log = {}\n[www]\nlisten = {listen}\nuser = root\npm = static\npm.max_children = {children}\n",
            folder.join("fpm.log").display()
        );
        fs::write(&file, config).expect("written");
        let mut command = Command::new(php_fpm());
        command.args(["--nodaemonize", "--allow-to-run-as-root", "--fpm-config"]).arg(&file);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let fpm = Self(command.spawn().expect("php-fpm"));
        process::wait_until("php-fpm listens", LONG, || match listen.starts_with('/') {
            true => std::os::unix::net::UnixStream::connect(listen).is_ok(),
            false => std::net::TcpStream::connect(listen).is_ok(),
        });
        fpm
    }
}

impl Drop for Fpm {
    fn drop(&mut self) {
        // Its children end with it only when it is asked.
        process::signal(self.0.id(), Signal::TERM);
        let _ = self.0.wait();
    }
}
