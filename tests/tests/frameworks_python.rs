//! A real Python application: Django with its admin, visited as its user would, and compared with what gunicorn makes of the same site.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use keepwarm_tests::{Server, apps, get, process, python, tools};
use rustix::process::Signal;
use serde_json::Value;

/// The limit on what a busy machine may take.
const BOUND: Duration = Duration::from_secs(60);

/// gunicorn, which ends with its test, however that ends.
struct Gunicorn(Child);

impl Gunicorn {
    fn start(data: &Path, port: u16) -> Self {
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "TERM"])
            .arg(python())
            .args(["-m", "gunicorn", "-w", "1", "-b", &format!("127.0.0.1:{port}"), "mysite.wsgi"])
            .current_dir(apps().join("django_site"))
            .env("DATA", data)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("setpriv starts");
        process::wait_until("gunicorn listens", BOUND, || {
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Self(child)
    }
}

impl Drop for Gunicorn {
    fn drop(&mut self) {
        process::signal(self.0.id(), Signal::TERM);
        let _ = self.0.wait();
    }
}

/// The site with an empty database and its static files collected.
fn prepare(data: &Path) {
    std::fs::create_dir_all(data).expect("a folder");
    let site = apps().join("django_site");
    tools::run_ok(Command::new(python()).arg("prepare.py").current_dir(site).env("DATA", data), BOUND);
}

fn start(entry: &str) -> Server {
    let config = format!(
        "[listen.main]\nbind = \"127.0.0.1:0\"\n\
         [[listen.main.route]]\npath = \"/static/*\"\nfiles = \"@DIR@/data/static\"\n\
         [[listen.main.route]]\napp = \"site\"\n\
         [app.site]\nentry = \"{entry}\"\ndirectory = \"@APPS@/django_site\"\ninterpreter = \"@PYTHON@\"\n\
         workers = 1\nuser = \"root\"\nenv = {{ DATA = \"@DIR@/data\" }}\n"
    );
    Server::start_with(&config, |command| {
        prepare(&command.get_current_dir().expect("a folder").join("data"));
    })
    .warm("/admin/")
}

/// The user's view: method, path, status, headers and page of each request.
fn visit(address: &str, part: &str, cookies: &Path) -> Vec<Value> {
    let seen = tools::run_ok(
        Command::new(python())
            .arg(apps().join("django_site/visit.py"))
            .args([&format!("http://{address}"), part])
            .arg(cookies),
        BOUND,
    );
    serde_json::from_str(&seen).expect("JSON")
}

#[test]
fn django_admin_serves_the_same_site_as_under_gunicorn() {
    let server = start("manage.py");
    let peer_data = server.folder().join("peer");
    prepare(&peer_data);
    let port = tools::free_port();
    let _gunicorn = Gunicorn::start(&peer_data, port);
    for part in ["before", "after"] {
        let ours = visit(&server.address().to_string(), part, &server.folder().join("cookies"));
        let theirs = visit(&format!("127.0.0.1:{port}"), part, &server.folder().join("peer-cookies"));
        assert_eq!(ours.len(), theirs.len(), "{part}");
        for (our, their) in ours.iter().zip(&theirs) {
            assert_eq!(our, their, "{part}");
        }
        server.reload(); // the session outlives it
    }
    assert!(server.log().contains("RuntimeError: broken on purpose"), "{}", server.log());
}

#[test]
fn the_admin_of_django_works_as_an_asgi_application() {
    let server = start("mysite.asgi:application");
    for part in ["before", "after"] {
        visit(&server.address().to_string(), part, &server.folder().join("cookies"));
        server.reload();
    }
}

#[test]
fn the_styles_of_djangos_admin_are_served_as_files() {
    let server = start("manage.py");
    let styles = server.ask(get("/static/admin/css/base.css"));
    assert_eq!(styles.status, 200);
    assert_eq!(styles.field("content-type"), Some("text/css; charset=utf-8"));
    assert!(styles.text().contains("body {"));
    let page = server.ask(get("/admin/login/")).text().to_string();
    assert!(page.contains("href=\"/static/admin/css/base.css\""), "{page}");
    assert_eq!(server.ask(get("/static/../db.sqlite3")).status / 100, 4, "only what was collected");
    assert_eq!(server.ask(get("/static/admin/nothing.css")).status, 404);
}
