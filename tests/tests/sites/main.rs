//! Real sites of classic PHP, from Debian's packages, installed for real: log in, write a page, upload a file, read both back.

mod apache;
mod dokuwiki;
mod mariadb;
mod mediawiki;
mod phpmyadmin;
mod recipes;
mod roundcube;
mod wordpress;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use apache::Apache;
use keepwarm_tests::tools::run_ok;
use keepwarm_tests::{Server, apps, python};
use serde_json::Value;

/// These sites boot thousands of lines for a page, on a machine that runs the other tests too.
const PATIENCE: Duration = Duration::from_secs(120);
const PASSWORD: &str = "kept-Warm-1!";

/// A site in `site/` of the server's directory: files before scripts.
const CONFIG: &str = r#"
[listen.main]
bind = "127.0.0.1:0"
[[listen.main.route]]
app = "site"
try_files = "@DIR@/site"
[app.site]
kind = "fastcgi"
entry = "index.php"
directory = "@DIR@/site"
interpreter = "@INTERPRETER@"
workers = 2
request_timeout = "120s"
"#;

/// An image of one pixel.
const PIXEL: &[u8] = &[
    0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 0x0d, b'I', b'H', b'D', b'R', 0, 0, 0, 1, 0, 0,
    0, 1, 8, 6, 0, 0, 0, 0x1f, 0x15, 0xc4, 0x89, 0, 0, 0, 0x0d, b'I', b'D', b'A', b'T', 0x78, 0xda, 0x63,
    0x64, 0xf8, 0xcf, 0x50, 0x0f, 0, 0x03, 0x86, 0x01, 0x80, 0x5a, 0x34, 0x7d, 0x6b, 0, 0, 0, 0, b'I', b'E',
    b'N', b'D', 0xae, 0x42, 0x60, 0x82,
];

/// `curl` with a jar of cookies: what a person's browser does.
struct Browser<'s> {
    server: &'s Server,
    jar: PathBuf,
}

impl<'s> Browser<'s> {
    fn new(server: &'s Server) -> Self {
        Self { server, jar: server.folder().join("cookies") }
    }

    /// The body of the page that a request leads to, redirects followed.
    #[track_caller]
    fn open(&self, path: &str, arguments: &[&str]) -> String {
        let mut curl = Command::new("curl");
        curl.args(["-sS", "-L", "--max-time", "100"]).arg("-b").arg(&self.jar).arg("-c").arg(&self.jar);
        run_ok(curl.args(arguments).arg(self.server.url(path)), PATIENCE)
    }

    #[track_caller]
    fn json(&self, path: &str, arguments: &[&str]) -> Value {
        let text = self.open(path, arguments);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: not JSON ({error}): {text}"))
    }
}

/// Copies a package's site, the targets of its links in their place: a site may not lead out of its root.
#[track_caller]
fn copy_site(from: &str, leave_out: &[&str], to: &Path) {
    assert!(Path::new(from).is_dir(), "{from} is missing: scripts/setup test installs it");
    fs::create_dir_all(to).expect("a folder");
    let exclude: String = leave_out.iter().map(|name| format!(" --exclude='{name}'")).collect();
    // A link of the package that leads nowhere before it is configured is not a fault.
    let script = format!("tar -C {from} -chf -{exclude} . 2>/dev/null | tar -C {} -xf -", to.display());
    run_ok(Command::new("sh").arg("-c").arg(script), PATIENCE);
}

/// The server for scripts that an app has where none is configured: here a php-fpm.
const BY_DEFAULT: &str = "";

fn start(interpreter: &str, prepare: impl FnOnce(&Path)) -> Server {
    let config = match interpreter {
        BY_DEFAULT => CONFIG.replace("interpreter = \"@INTERPRETER@\"\n", ""),
        other => CONFIG.replace("@INTERPRETER@", other),
    };
    Server::start_with(&config, |command| prepare(command.get_current_dir().expect("a folder")))
}

/// A visitor's view of the site: method, path, status, headers and page of each request.
fn visit(script: &str, address: &str, part: &str, cookies: &Path) -> Vec<Value> {
    let mut command = Command::new(python());
    command
        .arg(apps().join("php_sites").join(script))
        .args([&format!("http://{address}"), part])
        .arg(cookies);
    serde_json::from_str(&run_ok(&mut command, PATIENCE)).expect("JSON")
}

/// A visitor sees the same of the site behind Keepwarm as behind its usual server, Apache, which has a copy of its own. The session outlives a reload.
fn compare(server: &Server, apache: &Apache, script: &str) {
    for part in ["before", "after"] {
        let ours = visit(script, &server.address().to_string(), part, &server.folder().join("cookies"));
        let theirs = visit(script, &apache.address(), part, &server.folder().join("apache-cookies"));
        assert_eq!(ours.len(), theirs.len(), "{part}");
        for (our, their) in ours.iter().zip(&theirs) {
            assert_eq!(our, their, "{part}");
        }
        server.reload();
    }
}
