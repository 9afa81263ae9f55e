//! Keepwarm under its own doctor: `keepwarm check --self` before every adapter, a server of an app's own, files, fixed responses, a door and its upstream. All
//! of it is good: nothing bad, and no warning.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use keepwarm_tests::{ASGI, FASTCGI, PHP, RACK, Server, WSGI, keepwarm, process, tools};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use serde_json::Value;

/// An examination has many seconds of its own, and others run beside it.
const BOUND: Duration = Duration::from_secs(300);

fn check_self(server: &Server, more: &[&str]) -> Output {
    let config = server.folder().join("keepwarm.toml");
    let mut command = Command::new(keepwarm());
    command.args(["check", "--self", "--config"]).arg(config).args(more);
    tools::run(&mut command, BOUND)
}

/// Everything that this server serves and calls is good; returns what was examined.
///
/// Times are judged, too, and other suites run beside this one: a finding counts only if it repeats.
#[track_caller]
fn is_well(server: &Server) -> Vec<String> {
    let (mut report, mut said) = examined(server);
    if !complaints(&report).is_empty() {
        (report, said) = examined(server);
    }
    let complaints = complaints(&report);
    assert!(complaints.is_empty(), "{complaints:#?}\n{said}");
    report.iter().map(|one| format!("{} {}", text(&one["label"]), text(&one["server"]))).collect()
}

/// The report, and the messages beside it.
#[track_caller]
fn examined(server: &Server) -> (Vec<Value>, String) {
    let output = check_self(server, &["--json", "--fail-on", "warning"]);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}\n{out}\n{err}"));
    let report = report.as_array().expect("an array, also of one").clone();
    let status = if complaints(&report).is_empty() { 0 } else { 1 };
    assert_eq!(output.status.code(), Some(status), "{out}\n{err}");
    (report, err.into_owned())
}

fn complaints(report: &[Value]) -> Vec<&Value> {
    report
        .iter()
        .flat_map(|one| one["probes"].as_array().expect("probes"))
        .flat_map(|probe| probe["findings"].as_array().expect("findings"))
        .filter(|finding| ["bad", "warning"].iter().any(|verdict| finding["verdict"] == *verdict))
        .collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("-")
}

#[test]
fn before_wsgi() {
    assert_eq!(is_well(&Server::start(WSGI).warm("/pong")), ["listen.main Keepwarm"]);
}

#[test]
fn before_asgi() {
    is_well(&Server::start(ASGI).warm("/pong"));
}

#[test]
fn before_rack() {
    is_well(&Server::start(RACK).warm("/pong"));
}

#[test]
fn before_php() {
    is_well(&Server::start(PHP).warm("/pong"));
}

#[test]
fn before_classic_php() {
    is_well(&Server::start(FASTCGI).warm("/pong"));
}

#[test]
fn before_a_server_of_its_own() {
    let config = r#"
[listen.main]
bind = "127.0.0.1:0"
[[listen.main.route]]
app = "app"
[app.app]
command = ["node", "-e", "require('http').createServer((request, response) => response.end('hello')).listen(process.env.PORT)"]
workers = 1
"#;
    is_well(&Server::start(config).warm("/pong"));
}

/// Files, a fixed response and a redirect, each behind a listener of its own, one of them on a Unix socket and one under a name.
#[test]
fn files_and_fixed_responses() {
    let config = r#"
[listen.files]
bind = "127.0.0.1:0"
[[listen.files.route]]
files = "@DIR@/public"
[listen.fixed]
bind = ["127.0.0.2:0", "unix:@DIR@/fixed.sock"]
[[listen.fixed.route]]
host = "shop.example"
respond = { status = 200, body = "hello" }
[[listen.fixed.route]]
respond = { status = 200, body = "whoever you mean" }
[listen.moved]
bind = "127.0.0.3:0"
[[listen.moved.route]]
redirect = { status = 308, to = "https://shop.invalid$path" }
"#;
    let server = Server::spawn(config, |command| {
        let folder = command.get_current_dir().expect("a folder of its own").join("public");
        std::fs::create_dir(&folder).expect("a folder");
        std::fs::write(folder.join("index.html"), "<p>hello</p>").expect("a file");
    })
    .listening();
    let examined = is_well(&server);
    let labels: Vec<&str> = examined.iter().filter_map(|one| one.split(' ').next()).collect();
    assert_eq!(labels, ["listen.files", "listen.fixed", "listen.fixed", "listen.moved"]);
}

/// A plaintext door, and the server behind it: another Keepwarm.
#[test]
fn a_door_and_its_upstream() {
    let upstream = Server::start(WSGI).warm("/pong");
    let server = Server::start(&format!(
        "[upstream.shop]\nurl = \"http://{}\"\nbind = \"127.0.0.1:0\"\n",
        upstream.address()
    ))
    .warm("/");
    let examined = is_well(&server);
    assert_eq!(examined.len(), 2, "{examined:?}");
    assert!(
        examined[0].starts_with("upstream.shop door ") && examined[1].starts_with("upstream.shop "),
        "{examined:?}"
    );
}

/// A door over TLS to an nginx whose certificate an authority of its own has signed, and which wants one of that authority from its clients.
#[test]
fn a_door_to_an_encrypted_upstream() {
    let nginx = Nginx::start();
    let config = format!(
        "[upstream.site]\nurl = \"https://localhost:{}\"\nca = \"{folder}/ca.pem\"\ncert = \"{folder}/cert.pem\"\nkey = \"{folder}/key.pem\"\nbind = \"127.0.0.1:0\"\n",
        nginx.port,
        folder = nginx.folder.display()
    );
    assert_eq!(is_well(&Server::start(&config).warm("/"))[1], "upstream.site nginx");
}

/// An nginx behind TLS; ends with the test.
struct Nginx {
    process: Child,
    folder: PathBuf,
    port: u16,
}

impl Nginx {
    #[track_caller]
    fn start() -> Self {
        let port = tools::free_port();
        let folder = std::env::temp_dir().join(format!("keepwarm-check-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        certificates(&folder);
        let config = format!(
            "daemon off; master_process off; pid nginx.pid; error_log stderr crit;
             events {{ worker_connections 64; }}
             http {{
               access_log off; client_body_temp_path b; proxy_temp_path p; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
               server {{
                 listen 127.0.0.1:{port} ssl; ssl_protocols TLSv1.2 TLSv1.3; ssl_certificate cert.pem; ssl_certificate_key key.pem;
                 ssl_client_certificate ca.pem; ssl_verify_client on;
                 location / {{ return 200 \"hello\"; }}
               }}
             }}"
        );
        std::fs::write(folder.join("nginx.conf"), config).expect("a file");
        let process = Command::new("nginx")
            .args(["-p", &format!("{}/", folder.display()), "-c", "nginx.conf", "-e", "stderr"])
            .stdin(Stdio::null())
            .spawn()
            .expect("nginx");
        let nginx = Self { process, folder, port };
        process::wait_until("nginx listens", BOUND, || TcpStream::connect(("127.0.0.1", port)).is_ok());
        nginx
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A certificate for `localhost`, its key, and the certificate of the authority that signed it, in this directory.
fn certificates(folder: &Path) {
    let mut authority = CertificateParams::new(Vec::new()).expect("a certificate");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.distinguished_name.push(DnType::CommonName, "an authority of a test");
    let authority =
        CertifiedIssuer::self_signed(authority, KeyPair::generate().expect("a key")).expect("an authority");
    let key = KeyPair::generate().expect("a key");
    let leaf = CertificateParams::new(vec!["localhost".to_owned()]).expect("a certificate");
    let leaf = leaf.signed_by(&key, &authority).expect("a certificate");
    for (file, pem) in
        [("ca.pem", authority.pem()), ("cert.pem", leaf.pem()), ("key.pem", key.serialize_pem())]
    {
        std::fs::write(folder.join(file), pem).expect("a file");
    }
}

#[test]
fn what_cannot_be_checked_is_reported() {
    let config = r#"
[listen.main]
bind = "127.0.0.1:0"
[[listen.main.route]]
respond = { status = 200, body = "hello" }
[listen.proxy]
bind = "127.0.0.2:0"
forward_proxy = { allow = ["*"] }
[upstream.new]
url = "http://127.0.0.1:1"
protocol = "http2"
[upstream.found]
url = "http://found.invalid"
dns = { srv = "_http._tcp.found.invalid" }
"#;
    let output = check_self(&Server::start(config), &["--only", "ladder"]);
    let err = String::from_utf8_lossy(&output.stderr);
    for part in ["listen.proxy (", "forward proxy", "upstream.new (", "HTTP/2", "upstream.found (", "SRV"] {
        assert!(err.contains(part), "{part}: {err}");
    }
    assert_eq!(output.status.code(), Some(0), "{err}");
}

#[test]
fn the_instance_is_found_and_shown() {
    let server = Server::start(WSGI).warm("/pong");
    let output = check_self(&server, &["--only", "persistence,ladder"]);
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    let port = server.address().port();
    assert!(shown.contains(&format!("listen.main: http://127.0.0.1:{port}/   Keepwarm")), "{shown}");

    let nobody = std::env::temp_dir().join("no-such-keepwarm.toml");
    let output =
        tools::run(Command::new(keepwarm()).args(["check", "--self", "--config"]).arg(&nobody), BOUND);
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no Keepwarm"), "{output:?}");
}
