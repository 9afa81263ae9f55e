//! Keepwarm under its own doctor: `keepwarm check --self` before every adapter, a server of an app's own, files, fixed answers, a door and its upstream. All
//! of it is good: nothing bad, and no warning.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use keepwarm_tests::{ASGI, FASTCGI, PHP, RACK, Server, WSGI, keepwarm, tools};
use serde_json::Value;

/// An examination has many seconds of its own, and others run beside it.
const BOUND: Duration = Duration::from_secs(300);

fn check_self(server: &Server, more: &[&str]) -> Output {
    let config = server.folder().join("keepwarm.toml");
    let mut command = Command::new(keepwarm());
    command.args(["check", "--self", "--config"]).arg(config).args(more);
    tools::run(&mut command, BOUND)
}

/// Everything that this server serves and calls is good; gives what was examined.
#[track_caller]
fn is_well(server: &Server) -> Vec<String> {
    let output = check_self(server, &["--json", "--fail-on", "warning"]);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}\n{out}\n{err}"));
    let examined = report.as_array().expect("an array, also of one");
    let complaints: Vec<&Value> = examined
        .iter()
        .flat_map(|one| one["probes"].as_array().expect("probes"))
        .flat_map(|probe| probe["findings"].as_array().expect("findings"))
        .filter(|finding| ["bad", "warning"].iter().any(|verdict| finding["verdict"] == *verdict))
        .collect();
    assert!(complaints.is_empty(), "{complaints:#?}\n{err}");
    assert_eq!(output.status.code(), Some(0), "{out}\n{err}");
    examined.iter().map(|one| format!("{} {}", text(&one["label"]), text(&one["server"]))).collect()
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
    let config = "[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\napp = \"app\"\n\
                  [app.app]\ncommand = [\"node\", \"@APPS@/node_app.js\"]\nworkers = 1\nenv = { COUNT_FILE = \"@DIR@/count\" }\n";
    is_well(&Server::start(config).warm("/pong"));
}

/// Files, a fixed answer and a redirect, each behind a listener of its own, one of them on a Unix socket and one under a name.
#[test]
fn files_and_fixed_answers() {
    let config = r#"
[listen.files]
bind = "127.0.0.1:0"
[[listen.files.route]]
files = "@DIR@/public"
[listen.fixed]
bind = ["127.0.0.1:0", "unix:@DIR@/fixed.sock"]
[[listen.fixed.route]]
host = "shop.example"
respond = { status = 200, body = "hello" }
[listen.moved]
bind = "127.0.0.1:0"
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

/// A door in clear, and what is behind it: another Keepwarm.
#[test]
fn a_door_and_its_upstream() {
    let upstream = Server::start(WSGI).warm("/pong");
    let server = Server::start(&format!(
        "[upstream.shop]\nurl = \"http://{}\"\nbind = \"127.0.0.1:0\"\n",
        upstream.address()
    ));
    let examined = is_well(&server);
    assert_eq!(examined.len(), 2, "{examined:?}");
    assert!(
        examined[0].starts_with("upstream.shop door ") && examined[1].starts_with("upstream.shop "),
        "{examined:?}"
    );
}

/// An authority that nobody else knows, a certificate of it, and its key, in this folder.
fn certificates(folder: &Path) {
    let mut authority = rcgen::CertificateParams::new(Vec::new()).expect("a certificate");
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    authority.distinguished_name.push(rcgen::DnType::CommonName, "Keepwarm tests");
    let issuer_key = rcgen::KeyPair::generate().expect("a key");
    let issuer_certificate = authority.self_signed(&issuer_key).expect("a certificate");
    let issuer = rcgen::Issuer::new(authority, issuer_key);
    let key = rcgen::KeyPair::generate().expect("a key");
    let leaf = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).expect("a certificate");
    let leaf = leaf.signed_by(&key, &issuer).expect("a certificate");
    for (file, pem) in
        [("ca.pem", issuer_certificate.pem()), ("cert.pem", leaf.pem()), ("key.pem", key.serialize_pem())]
    {
        std::fs::write(folder.join(file), pem).expect("a file");
    }
}

#[test]
fn what_is_meant_is_found_and_shown() {
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
