//! Certificates from a real authority (Pebble): obtained, presented, renewed, kept over restarts, and waited for.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use keepwarm_tests::pebble::{Pebble, PebbleSettings};
use keepwarm_tests::process::wait_until;
use keepwarm_tests::{BOUND, Client, Server, admin};
use rustix::process::Signal;
use serde_json::Value;

/// An order takes seconds, and a busy machine makes several of each.
const LONG: Duration = Duration::from_secs(40);

/// Listeners on the ports that the authority looks at, with a maintenance page and a redirect that it must not meet.
fn config(pebble: &Pebble, names: &str, more: &str) -> String {
    format!(
        r#"
[acme]
email = "ops@shop.test"
directory = "{}"
ca = "{}"
storage = "@DIR@/acme"
{more}

[admin]
bind = "127.0.0.1:0"

[listen.main]
bind = "127.0.0.1:{}"
tls = {{ acme = {names} }}
[[listen.main.route]]
respond = {{ status = 200, body = "hello" }}

[listen.http]
bind = "127.0.0.1:{}"
redirect_to_https = {}
"#,
        pebble.directory(),
        pebble.ca().display(),
        pebble.tls_port(),
        pebble.http_port(),
        pebble.tls_port()
    )
}

/// What `keepwarm status` shows of a name.
fn certificate(status: &Value, name: &str) -> Value {
    let all = status["certificates"].as_array().expect("certificates");
    all.iter().find(|one| one["acme"]["name"] == name).cloned().unwrap_or(Value::Null)
}

/// Waits until what is shown of a name is as wanted.
fn wait_shown(server: &Server, name: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let mut shown = Value::Null;
    wait_until(&format!("what is shown of {name} is as wanted"), LONG, || {
        shown = certificate(&admin::status(server), name);
        wanted(&shown)
    });
    shown
}

fn wait_issued(server: &Server, name: &str) -> Value {
    wait_shown(server, name, |shown| shown["acme"]["issued"] == true)
}

/// The issuer of the certificate that a client gets.
fn issuer(port: u16, name: &str) -> String {
    let output = Command::new("openssl")
        .args(["s_client", "-connect", &format!("127.0.0.1:{port}"), "-servername", name])
        .stdin(std::process::Stdio::null())
        .output()
        .expect("openssl");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().find_map(|line| line.trim().strip_prefix("issuer=")).unwrap_or_default().to_owned()
}

fn plain(pebble: &Pebble) -> Client {
    Client::connect(SocketAddr::from(([127, 0, 0, 1], pebble.http_port())))
}

fn stored(server: &Server, kind: &str) -> Vec<String> {
    let authority = fs::read_dir(server.folder().join("acme")).unwrap().next().unwrap().unwrap().path();
    let mut files: Vec<String> = fs::read_dir(authority.join(kind))
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    files
}

#[test]
fn names_get_certificates_by_either_challenge() {
    for challenge in ["http-01", "tls-alpn-01"] {
        let pebble = Pebble::start(PebbleSettings { bad_nonces: 40, ..PebbleSettings::default() });
        let names = r#"["shop.test", "www.shop.test"]"#;
        let server = Server::start(&config(&pebble, names, &format!("challenges = [\"{challenge}\"]")));
        for name in ["shop.test", "www.shop.test"] {
            let shown = wait_issued(&server, name);
            assert_eq!(shown["names"], serde_json::json!([name]), "{challenge}: {shown}");
            assert!(shown["issuer"].as_str().unwrap().contains("Pebble"), "{challenge}: {shown}");
            assert!(issuer(pebble.tls_port(), name).contains("Pebble"), "{challenge}");
        }
        assert_eq!(stored(&server, "certificates"), ["shop.test.pem", "www.shop.test.pem"]);
        assert_eq!(stored(&server, "orders"), Vec::<String>::new());
        wait_until("it is counted", LONG, || {
            admin::metrics(&server).iter().any(|(name, value)| {
                name.starts_with("keepwarm_acme_certificates_obtained_total{name=\"shop.test\"")
                    && *value > 0.0
            })
        });
    }
}

#[test]
fn http_is_redirected_but_for_challenges() {
    let pebble = Pebble::start(PebbleSettings::default());
    let server = Server::start(&config(&pebble, r#""shop.test""#, ""));
    let response = plain(&pebble).ask("GET /a/b?c=d HTTP/1.1\r\nHost: shop.test:8080\r\n\r\n");
    assert_eq!(response.status, 308);
    let https = format!("https://shop.test:{}/a/b?c=d", pebble.tls_port());
    assert_eq!(response.field("Location"), Some(https.as_str()));
    // A token that was never published is nothing special.
    let response =
        plain(&pebble).ask("GET /.well-known/acme-challenge/none HTTP/1.1\r\nHost: shop.test\r\n\r\n");
    assert_eq!(response.status, 308);
    drop(server);
}

/// An authority that is down keeps nobody from starting, and one name's failure delays no other.
#[test]
fn what_cannot_be_issued_yet_is_served_with_a_certificate_of_our_own() {
    let mut pebble =
        Pebble::prepare(PebbleSettings { blocked: &["blocked.test"], ..PebbleSettings::default() });
    let server = Server::start(&config(&pebble, r#"["blocked.test", "shop.test"]"#, ""));
    assert!(issuer(pebble.tls_port(), "shop.test").contains("waiting for a certificate"));
    server.wait_for_log("there is no certificate of the authority", BOUND);
    server.wait_for_log("cannot obtain a certificate", LONG);
    pebble.run();
    wait_issued(&server, "shop.test");
    let blocked = wait_shown(&server, "blocked.test", |shown| {
        shown["acme"]["error"].as_str().is_some_and(|error| error.contains("forbidden by policy"))
    });
    assert_eq!(blocked["acme"]["issued"], false, "{blocked}");
    assert!(blocked["acme"]["next_attempt"].is_string(), "{blocked}");
    assert!(issuer(pebble.tls_port(), "blocked.test").contains("waiting for a certificate"));
}

/// What is stored is used at once after a restart, and nothing is ordered again.
#[test]
fn certificates_outlive_reloads_upgrades_and_restarts() {
    let mut pebble = Pebble::start(PebbleSettings::default());
    let text = config(&pebble, r#""shop.test""#, "");
    let server = Server::start(&text);
    wait_issued(&server, "shop.test");
    let serial = served_serial(pebble.tls_port(), "shop.test");
    server.reload_with(&text.replace("\"hello\"", "\"again\""));
    assert_eq!(served_serial(pebble.tls_port(), "shop.test"), serial);
    let elsewhere = std::env::temp_dir().join(format!("keepwarm-acme-kept-{}", std::process::id()));
    copy(&server.folder().join("acme"), &elsewhere);
    drop(server);
    // The authority is gone: only what is stored can be presented.
    pebble.stop();
    let server = Server::start(&text.replace("@DIR@/acme", &elsewhere.display().to_string()));
    assert_eq!(served_serial(pebble.tls_port(), "shop.test"), serial);
    let before = server.mark();
    server.signal(Signal::USR2);
    server.wait_for_log_after(before, "upgraded: the new process serves", BOUND);
    assert_eq!(served_serial(pebble.tls_port(), "shop.test"), serial);
    admin::end_successor(&server);
    drop(server);
    fs::remove_dir_all(elsewhere).unwrap();
}

/// With a lifetime of seconds, certificates are renewed while they are presented.
#[test]
fn certificates_are_renewed_in_time() {
    let pebble = Pebble::start(PebbleSettings { validity_seconds: 20, ..PebbleSettings::default() });
    let server = Server::start(&config(&pebble, r#""shop.test""#, ""));
    wait_issued(&server, "shop.test");
    let first = served_serial(pebble.tls_port(), "shop.test");
    wait_until("the certificate is another", LONG, || served_serial(pebble.tls_port(), "shop.test") != first);
}

/// A certificate of another authority, which was asked before, is better than one of our own.
#[test]
fn a_change_of_the_authority_keeps_the_certificate_until_there_is_another() {
    let first = Pebble::start(PebbleSettings::default());
    let text = config(&first, r#""shop.test""#, "");
    let server = Server::start(&text);
    wait_issued(&server, "shop.test");
    let serial = served_serial(first.tls_port(), "shop.test");
    let other = text.replace(&first.directory(), "https://localhost:1/dir");
    server.reload_with(&other);
    server.wait_for_log("cannot connect to localhost", LONG);
    assert_eq!(served_serial(first.tls_port(), "shop.test"), serial);
}

fn served_serial(port: u16, name: &str) -> String {
    let connect = format!("127.0.0.1:{port}");
    let chain = Command::new("openssl")
        .args(["s_client", "-connect", &connect, "-servername", name])
        .stdin(std::process::Stdio::null())
        .output()
        .expect("openssl");
    let mut decode = Command::new("openssl")
        .args(["x509", "-noout", "-serial"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("openssl");
    std::io::Write::write_all(&mut decode.stdin.take().unwrap(), &chain.stdout).unwrap();
    String::from_utf8_lossy(&decode.wait_with_output().unwrap().stdout).trim().to_owned()
}

fn copy(from: &Path, to: &Path) {
    let done = Command::new("cp").arg("-a").arg(from).arg(to).status().expect("cp");
    assert!(done.success());
}
