//! The PROXY protocol on a listener: who the client is, and which connections are closed.

use std::process::Command;
use std::time::Duration;

use keepwarm_tests::{Client, Failure, Server, admin, get, tools};

const CONFIG: &str = r#"
[server]
trusted_proxies = ["127.0.0.1"]
[admin]
bind = "127.0.0.1:0"
[listen.main]
bind = "127.0.0.1:0"
proxy_protocol = true
limits = { head_timeout = "1s", connections_per_client = 2 }
access_log = "json"
[[listen.main.route]]
path = "/inside"
allow = ["203.0.113.0/24"]
respond = { status = 200, body = "inside" }
[[listen.main.route]]
app = "app"
[listen.unix]
bind = "unix:@DIR@/app.sock"
proxy_protocol = true
[[listen.unix.route]]
app = "app"
[app.app]
entry = "wsgi_app:application"
directory = "@APPS@"
interpreter = "@PYTHON@"
workers = 1
"#;

const V1: &str = "PROXY TCP4 203.0.113.7 198.51.100.1 4711 443\r\n";
const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xcb\0\x71\x08\xc6\x33\x64\x01\x12\x67\x01\xbb";

/// A connection that has sent this header.
fn behind(server: &Server, header: impl AsRef<[u8]>) -> Client {
    let mut client = server.client();
    client.send(header);
    client
}

#[test]
fn the_app_the_log_and_the_routes_see_the_client_behind_the_proxy() {
    let server = Server::start(CONFIG);
    let mut client = behind(&server, V1);
    let environ = client.ask(get("/echo")).json();
    assert_eq!(environ["REMOTE_ADDR"], "203.0.113.7");
    assert_eq!(environ["HTTP_X_FORWARDED_FOR"], "203.0.113.7");
    // For every request of the connection, and what the client itself says about it is not believed.
    let forged = "GET /echo HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.99\r\n\r\n";
    assert_eq!(client.ask(forged).json()["REMOTE_ADDR"], "203.0.113.7");
    assert_eq!(client.ask(get("/inside")).text(), "inside");
    server.wait_for_log("\"client\":\"203.0.113.7\"", Duration::from_secs(10));
    assert_eq!(behind(&server, V2).ask(get("/echo")).json()["REMOTE_ADDR"], "203.0.113.8");
    // A health check of the proxy itself.
    let mut local = behind(&server, b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0");
    assert_eq!(local.ask(get("/echo")).json()["REMOTE_ADDR"], "127.0.0.1");
    assert_eq!(local.ask(get("/inside")).status, 403);
}

#[test]
fn a_header_may_come_in_any_pieces_and_with_its_request() {
    let server = Server::start(CONFIG).warm_with_header();
    for header in [V1.as_bytes(), V2] {
        let whole = [header, get("/pong").as_bytes()].concat();
        let mut at_once = server.client();
        at_once.send(&whole);
        assert_eq!(at_once.response("GET").text(), "pong");
        let mut byte_by_byte = server.client();
        byte_by_byte.send_bytewise(&whole);
        assert_eq!(byte_by_byte.response("GET").text(), "pong");
    }
}

#[test]
fn connections_without_a_valid_header_are_closed_and_counted() {
    let server = Server::start(CONFIG);
    let rejected = |reason: &str| {
        let name = format!("keepwarm_proxy_headers_rejected_total{{listener=\"main\",reason=\"{reason}\"}}");
        admin::metrics(&server).get(&name).copied().unwrap_or(0.0)
    };
    let closed = |bytes: &[u8], reason: &str| {
        let before = rejected(reason);
        let mut client = server.client();
        client.send(bytes);
        let failure = client.try_response("GET").expect_err("no response");
        assert!(matches!(&failure, Failure::Closed | Failure::Reset(_)), "{failure:?}");
        keepwarm_tests::process::wait_until("it is counted", Duration::from_secs(10), || {
            rejected(reason) > before
        });
    };
    closed(get("/pong").as_bytes(), "missing");
    closed(b"PROXY TCP4 nonsense\r\nGET / HTTP/1.1\r\n\r\n", "invalid");
    closed(b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff", "invalid");
    closed(b"PROXY TCP4 203", "timeout");
    let log = server.log();
    assert_eq!(
        log.matches("proxy_header_rejected").count() + log.matches("closed for their PROXY").count(),
        1
    );
}

#[test]
fn a_peer_that_is_not_a_trusted_proxy_is_closed() {
    let server = Server::start(&CONFIG.replace("[\"127.0.0.1\"]", "[\"192.0.2.1\"]"));
    let mut client = behind(&server, [V1, &get("/pong")].concat());
    let failure = client.try_response("GET").expect_err("no response");
    assert!(matches!(failure, Failure::Closed | Failure::Reset(_)), "{failure:?}");
    server.wait_for_log("untrusted_peer", Duration::from_secs(10));
    // The list applies from a reload on.
    server.reload_with(CONFIG);
    assert_eq!(behind(&server, V1).ask(get("/echo")).json()["REMOTE_ADDR"], "203.0.113.7");
}

#[test]
fn the_limit_of_connections_is_of_the_client_not_of_the_proxy() {
    let server = Server::start(CONFIG).warm_with_header();
    let mut first: Vec<Client> = (0..2).map(|_| behind(&server, V1)).collect();
    first.iter_mut().for_each(|client| assert_eq!(client.ask(get("/pong")).text(), "pong"));
    let mut third = behind(&server, [V1, &get("/pong")].concat());
    assert!(third.try_response("GET").is_err(), "the client has two");
    assert_eq!(behind(&server, V2).ask(get("/pong")).text(), "pong", "another client");
}

#[test]
fn curl_names_its_client_on_a_unix_socket_too() {
    let server = Server::start(CONFIG);
    let socket = server.folder().join("app.sock");
    let run = |extra: &[&str], url: &str| {
        let mut command = Command::new("curl");
        command.args(["-sS", "--haproxy-protocol"]).args(extra).arg(url);
        tools::run_ok(&mut command, Duration::from_secs(20))
    };
    assert!(run(&[], &server.url("/echo")).contains("\"REMOTE_ADDR\": \"127.0.0.1\""));
    // For a Unix socket curl writes UNKNOWN.
    let seen = run(&["--unix-socket", socket.to_str().expect("UTF-8")], "http://localhost/pong");
    assert_eq!(seen, "pong");
}

trait WarmWithHeader {
    fn warm_with_header(self) -> Self;
}

impl WarmWithHeader for Server {
    /// As [`Server::warm`].
    fn warm_with_header(self) -> Self {
        let mut client = behind(&self, "PROXY UNKNOWN\r\n").patient(Duration::from_secs(30));
        assert_eq!(client.ask(get("/pong")).text(), "pong");
        self
    }
}
