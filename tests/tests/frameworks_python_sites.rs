//! Two applications of Python that bring a server of their own: Datasette (ASGI, on uvicorn) and Radicale (WSGI, with methods of WebDAV), visited as their users
//! would, and compared with their responses there.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use keepwarm_tests::{Server, apps, process, python, tools};
use rustix::process::Signal;
use serde_json::Value;

/// The limit on what a busy machine may take.
const BOUND: Duration = Duration::from_secs(60);

/// The application on its own server; ends with its test, however that ends.
struct Alone(Child);

impl Alone {
    fn start(arguments: &[&str], folder: &Path, port: u16) -> Self {
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "TERM"])
            .arg(python())
            .args(arguments)
            .current_dir(folder)
            .env("DATA", folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("setpriv starts");
        process::wait_until("it listens", BOUND, || {
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Self(child)
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        process::signal(self.0.id(), Signal::TERM);
        let _ = self.0.wait();
    }
}

/// A copy of the site, for one server.
fn lay_out(site: &str, folder: &Path) {
    tools::run_ok(Command::new("cp").arg("-r").arg(apps().join(site)).arg(folder), BOUND);
}

fn start(site: &str, entry: &str, env: &str) -> Server {
    let config = format!(
        "[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\napp = \"site\"\nvia = false\n\
         [app.site]\nentry = \"{entry}\"\ndirectory = \"@DIR@/site\"\ninterpreter = \"@PYTHON@\"\nworkers = 1\nuser = \"root\"\nenv = {{ {env} }}\n"
    );
    let lay =
        |command: &mut Command| lay_out(site, &command.get_current_dir().expect("a folder").join("site"));
    Server::spawn(&config, lay).listening().warm("/")
}

/// The user's view: method, path, status, headers and page of each request.
fn visit(site: &str, address: &str, part: &str, cookies: &Path) -> Vec<Value> {
    let mut command = Command::new(python());
    command.arg(apps().join(site).join("visit.py")).args([&format!("http://{address}"), part]).arg(cookies);
    serde_json::from_str(&tools::run_ok(&mut command, BOUND)).expect("JSON")
}

fn compare(site: &str, server: &Server, port: u16) {
    for part in ["before", "after"] {
        let ours = visit(site, &server.address().to_string(), part, &server.folder().join("cookies"));
        let theirs = visit(site, &format!("127.0.0.1:{port}"), part, &server.folder().join("alone-cookies"));
        assert_eq!(ours.len(), theirs.len(), "{part}");
        for (our, their) in ours.iter().zip(&theirs) {
            assert_eq!(our, their, "{part}");
        }
        server.reload();
    }
}

#[test]
fn datasette_serves_the_same_site_as_on_uvicorn() {
    let server = start("datasette_site", "app:app", "DATA = \"@DIR@/site\"");
    let (folder, port) = (server.folder().join("alone"), tools::free_port());
    lay_out("datasette_site", &folder);
    let port_text = port.to_string();
    let _alone = Alone::start(
        &["-m", "uvicorn", "--port", &port_text, "--no-server-header", "app:app"],
        &folder,
        port,
    );
    compare("datasette_site", &server, port);
}

#[test]
fn radicale_serves_the_same_site_as_on_its_own_server() {
    let server = start("radicale_site", "radicale:application", "RADICALE_CONFIG = \"config\"");
    let (folder, port) = (server.folder().join("alone"), tools::free_port());
    lay_out("radicale_site", &folder);
    let hosts = format!("127.0.0.1:{port}");
    let _alone =
        Alone::start(&["-m", "radicale", "--config", "config", "--server-hosts", &hosts], &folder, port);
    compare("radicale_site", &server, port);
}
