//! HTTP/2 of clients on listeners (`spec/http.md` §9): every kind of route, bodies both ways, 1xx, trailers, the off switch, and the records.

use std::fs;
use std::io::Write;
use std::process::Command;
use std::time::Duration;

use keepwarm_tests::http2::{self, Http2, PREFACE};
use keepwarm_tests::origin::Origin;
use keepwarm_tests::{ASGI, Server, WSGI, admin, get, root, tools};

const LONG: Duration = Duration::from_secs(90);

/// One route of each kind, by host.
const EVERY_KIND: &str = r#"
[admin]
bind = "127.0.0.1:0"
[listen.main]
bind = "127.0.0.1:0"
route = [
    { host = "respond.test", respond = { status = 200, body = "pong" } },
    { host = "redirect.test", redirect = "https://example.com/" },
    { host = "files.test", files = "@DIR@/files" },
    { host = "wsgi.test", app = "wsgi" },
    { host = "asgi.test", app = "asgi" },
    { host = "rack.test", app = "rack" },
    { host = "php.test", app = "php" },
    { host = "fastcgi.test", app = "fastcgi" },
    { host = "http.test", app = "http" },
    { host = "upstream.test", upstream = "origin" },
]
[upstream.origin]
url = "http://@ORIGIN@"
[app.wsgi]
entry = "wsgi_app:application"
directory = "@APPS@"
interpreter = "@PYTHON@"
workers = 1
[app.asgi]
entry = "asgi_app:application"
directory = "@APPS@"
interpreter = "@PYTHON@"
workers = 1
[app.rack]
entry = "rack_app.ru"
directory = "@APPS@"
workers = 1
[app.php]
kind = "php"
entry = "php_app.php"
directory = "@APPS@"
workers = 1
[app.fastcgi]
kind = "fastcgi"
entry = "web/index.php"
directory = "@APPS@"
workers = 1
[app.http]
command = ["node", "@APPS@/node_app.js"]
workers = 1
"#;

/// curl with prior knowledge: what it prints, then the version and the status.
#[track_caller]
fn curl(server: &Server, path: &str, options: &[&str]) -> String {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--http2-prior-knowledge", "--max-time", "60"])
        .args(["--write-out", " %{http_version} %{http_code}", &server.url(path)])
        .args(options);
    tools::run_ok(&mut curl, LONG)
}

#[test]
fn every_kind_of_route_is_served() {
    let origin = Origin::fixed("pong");
    let server =
        Server::start_with(&EVERY_KIND.replace("@ORIGIN@", &origin.address().to_string()), |command| {
            let folder = command.get_current_dir().expect("a directory of its own").join("files");
            fs::create_dir(&folder).expect("a folder");
            fs::write(folder.join("pong"), "pong").expect("a file");
        });
    let body = server.folder().join("upload");
    let mut file = fs::File::create(&body).expect("a file");
    for number in 0..40_000 {
        writeln!(file, "{number:09}").expect("written");
    }
    let upload = format!("@{}", body.display());
    for kind in ["respond", "files", "wsgi", "asgi", "rack", "php", "fastcgi", "http", "upstream"] {
        let host = format!("host: {kind}.test");
        let path = if kind == "http" { "/count?id=pong" } else { "/pong" };
        // An app may still be starting.
        let said = curl(&server, path, &["--header", &host, "--retry", "20", "--retry-delay", "1"]);
        assert!(said.ends_with("pong 2 200"), "{kind}: {said}");
        if ["wsgi", "asgi", "rack", "php", "fastcgi"].contains(&kind) {
            let said = curl(&server, "/digest", &["--header", &host, "--data-binary", &upload]);
            assert!(said.contains("400000") && said.ends_with(" 2 200"), "{kind}: {said}");
        }
    }
    assert!(
        curl(&server, "/body", &["--header", "host: http.test", "--data-binary", &upload])
            .contains("400000 ")
    );
    assert!(curl(&server, "/", &["--header", "host: redirect.test"]).contains(" 2 30"));
    assert_eq!(origin.last().field("host"), Some("upstream.test"), "an authority towards HTTP/1.1 is Host");
    // Each request has its own record and its own count.
    server.wait_for_log("\"POST /body HTTP/2.0\" 200", LONG);
    let log = server.log();
    for line in ["\"GET /pong HTTP/2.0\" 200 4", "\"POST /digest HTTP/2.0\" 200"] {
        assert!(log.contains(line), "{line} is not in\n{log}");
    }
    let requests = "keepwarm_requests_total{app=\"rack\",route=\"rack.test/*\",code=\"2xx\"}";
    admin::wait_for_metric(&server, requests, 2.0);
}

#[test]
fn the_switch_turns_it_off() {
    let on = Server::start("[listen.main]\nbind = \"127.0.0.1:0\"\nroute = [{ respond = 204 }]\n");
    let mut client = Http2::connect(on.address());
    client.request(1, "/", &[]);
    assert_eq!(client.status(1), 204);
    assert_eq!(on.ask(get("/")).status, 204, "and HTTP/1.1 on the same address");

    let off =
        Server::start("[listen.main]\nbind = \"127.0.0.1:0\"\nhttp2 = false\nroute = [{ respond = 204 }]\n");
    assert_eq!(off.ask(PREFACE).status, 505);
    // A reload turns it on for new connections.
    off.reload_with("[listen.main]\nbind = \"127.0.0.1:0\"\nroute = [{ respond = 204 }]\n");
    let mut client = Http2::connect(off.address());
    client.request(1, "/", &[]);
    assert_eq!(client.status(1), 204);
}

#[test]
fn many_streams_of_many_connections_are_served() {
    let server = Server::start(&WSGI.replace("workers = 1", "workers = 2")).warm("/pong");
    let mut h2load = Command::new("h2load");
    h2load.args(["-n", "2000", "-c", "4", "-m", "20", "-t", "1", &server.url("/pong")]);
    let said = tools::run_ok(&mut h2load, LONG);
    assert!(said.contains("2000 succeeded, 0 failed, 0 errored, 0 timeout"), "{said}");
    assert!(said.contains("Application protocol: h2c"), "{said}");
}

/// By another implementation's eyes: nghttp prints each frame.
#[track_caller]
fn nghttp(server: &Server, path: &str, options: &[&str]) -> String {
    let mut nghttp = Command::new("nghttp");
    nghttp.args(["--verbose", "--no-dep", "--timeout=60"]).args(options).arg(server.url(path));
    tools::run_ok(&mut nghttp, LONG)
}

#[test]
fn interim_responses_and_trailers_go_to_clients() {
    let server = Server::start(WSGI).warm("/pong");
    let said = nghttp(&server, "/hints", &[]);
    let (hint, last) = (said.find(":status: 103"), said.find(":status: 200"));
    assert!(hint.is_some() && hint < last, "{said}");

    let server = Server::start(ASGI).warm("/pong");
    let said = nghttp(&server, "/trailers?bytes=100000", &["-H", "te: trailers"]);
    assert!(said.contains("x-sum: 7"), "{said}");
    let said = nghttp(&server, "/trailers?bytes=100000", &[]);
    assert!(!said.contains("x-sum: 7"), "RFC 9110 §6.5.1: not to a client that does not accept them\n{said}");
}

/// RFC 9113 §8.2.1: such a value is malformed. Node drops the field; Python's h2 ends the connection.
#[test]
fn no_white_space_at_the_ends_of_a_value_is_passed_on() {
    let server = Server::start(WSGI).warm("/pong");
    let said = nghttp(&server, "/blanks", &[]);
    let value = said.lines().find_map(|line| line.split_once("x-blanks: ")).map(|(_, value)| value);
    assert_eq!(value, Some("in blanks"), "{said}");
}

#[test]
fn trailers_of_requests_reach_apps_that_speak_http() {
    let server = Server::start(
        "[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\napp = \"app\"\n\
         [app.app]\ncommand = [\"node\", \"@APPS@/node_app.js\"]\nworkers = 1\n",
    )
    .warm("/");
    let body = server.folder().join("body");
    fs::write(&body, "abc").expect("a file");
    let said = nghttp(
        &server,
        "/body",
        &[
            "--data",
            &body.display().to_string(),
            "--no-content-length",
            "--trailer",
            "x-sum: 9",
            "-H",
            "trailer: x-sum",
        ],
    );
    assert!(said.contains("3 ba7816bf") && said.contains("\"x-sum\":\"9\""), "{said}");
}

#[test]
fn a_drain_says_goodbye_twice() {
    let server = Server::start(WSGI).warm("/pong");
    let mut client = Http2::connect(server.address());
    client.request(1, "/sleep?ms=1500", &[]);
    client.until(|frame| frame.kind == http2::SETTINGS && frame.flags & http2::ACK != 0);
    server.signal(rustix::process::Signal::TERM);
    let first = client.until(|frame| frame.kind == http2::GOAWAY);
    assert_eq!((first.last(), first.code()), (0x7fff_ffff, http2::NO_ERROR), "RFC 9113 §6.8");
    // On its way before the client saw that.
    client.request(3, "/pong", &[]);
    let second = client.until(|frame| frame.kind == http2::GOAWAY);
    assert_eq!((second.last(), second.code()), (3, http2::NO_ERROR));
    let mut open = vec![1, 3];
    while !open.is_empty() {
        let frame = client.until(http2::Frame::ends);
        open.retain(|stream| *stream != frame.stream);
    }
    assert!(client.goodbye().is_none_or(|code| code == http2::NO_ERROR));
}

/// Over TLS, HTTP/2 is agreed on by ALPN, or not at all; then no case of the suite fails.
#[test]
fn the_conformance_suite_h2spec_finds_nothing_over_tls() {
    let config = |more: &str| {
        WSGI.replace(
            "bind = \"127.0.0.1:0\"\n",
            &format!("bind = \"127.0.0.1:0\"\ntls = {{ cert = \"@DIR@/cert.pem\", key = \"@DIR@/key.pem\" }}\n{more}"),
        )
    };
    let start = |more: &str| {
        Server::start_with(&config(more), |command| {
            let mut openssl = Command::new("openssl");
            openssl
                .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"])
                .args(["-keyout", "key.pem", "-out", "cert.pem", "-days", "30", "-subj", "/CN=localhost"])
                .args(["-addext", "subjectAltName=IP:127.0.0.1"])
                .current_dir(command.get_current_dir().expect("a directory of its own"));
            tools::run_ok(&mut openssl, LONG);
        })
    };
    let ask = |server: &Server| {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--insecure", "--max-time", "60", "--retry", "20", "--retry-delay", "1"])
            .args(["--write-out", " %{http_version}"])
            .arg(format!("https://{}/pong", server.address()));
        tools::run_ok(&mut curl, LONG)
    };
    let server = start("");
    assert_eq!(ask(&server), "pong 2");
    let mut suite = Command::new(root().join("scripts/h2spec"));
    suite.args([&server.address().to_string(), "/pong", "-t", "-k"]);
    let said = tools::run_ok(&mut suite, Duration::from_secs(300));
    assert!(said.contains("145 cases, 0 failed"), "{said}");
    assert_eq!(ask(&start("http2 = false\n")), "pong 1.1");
}

#[test]
fn the_conformance_suite_h2spec_finds_nothing() {
    let server = Server::start(WSGI).warm("/pong");
    let mut suite = Command::new(root().join("scripts/h2spec"));
    suite.args([&server.address().to_string(), "/pong"]);
    let said = tools::run_ok(&mut suite, Duration::from_secs(300));
    assert!(said.contains("145 cases") && said.contains("0 of them not known"), "{said}");
}
