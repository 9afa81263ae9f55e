//! Other servers that tests run: nginx, HAProxy.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::tools;

const BOUND: Duration = Duration::from_secs(20);

/// Another server, stopped when dropped.
pub struct Daemon {
    child: Child,
    directory: PathBuf,
}

impl Daemon {
    /// `config` becomes a file, whose path is `@CONF@` in the arguments; `@DIR@` is a directory of its own.
    #[track_caller]
    pub fn start(name: &str, config: &str, arguments: &[&str]) -> Self {
        Self::start_with(name, config, arguments, |_| {})
    }

    /// The same; `prepare` gets the directory before.
    #[track_caller]
    pub fn start_with(name: &str, config: &str, arguments: &[&str], prepare: impl FnOnce(&Path)) -> Self {
        let short = Path::new(name).file_name().and_then(|name| name.to_str()).expect("a program");
        let directory = std::env::temp_dir().join(format!(
            "keepwarm-{short}-{}-{}",
            std::process::id(),
            tools::free_port()
        ));
        std::fs::create_dir_all(&directory).expect("a directory");
        prepare(&directory);
        let file = directory.join("conf");
        let directory_text = directory.to_str().expect("UTF-8");
        std::fs::write(&file, config.replace("@DIR@", directory_text)).expect("a configuration");
        let mut command = Command::new(name);
        let arguments = arguments.iter().map(|argument| {
            argument.replace("@CONF@", file.to_str().expect("UTF-8")).replace("@DIR@", directory_text)
        });
        let errors = std::fs::File::create(directory.join("stderr")).expect("a file");
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
        let child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{name}: {error} (what the tests need is in CONTRIBUTING.md)"));
        Self { child, directory }
    }

    /// An nginx whose only server has this at `listen` behind its address, and this in its block; and the port it listens on.
    #[track_caller]
    pub fn nginx(listen: &str, server: &str) -> (Self, u16) {
        let port = tools::free_port();
        let config = format!(
            "daemon off; worker_processes 1; user root; pid @DIR@/pid; error_log stderr warn;\n\
             events {{ worker_connections 256; }}\n\
             http {{ access_log @DIR@/access; client_body_temp_path @DIR@/body; proxy_temp_path @DIR@/proxy; fastcgi_temp_path @DIR@/f; uwsgi_temp_path @DIR@/u; scgi_temp_path @DIR@/s;\n\
             server {{ listen 127.0.0.1:{port} {listen}; {server} }} }}\n"
        );
        let daemon = Self::start("nginx", &config, &["-p", "@DIR@", "-c", "@CONF@", "-e", "stderr"]);
        daemon.wait_for_port(port);
        (daemon, port)
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    #[track_caller]
    pub fn wait_for_port(&self, port: u16) {
        crate::process::wait_until("the peer listens", BOUND, || {
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "---- peer: {}",
                std::fs::read_to_string(self.directory.join("stderr")).unwrap_or_default()
            );
        }
        crate::process::signal(self.child.id(), rustix::process::Signal::TERM);
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.child.try_wait().is_ok_and(|status| status.is_none()) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
