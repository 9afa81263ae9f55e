//! Apps that are servers by themselves and are spoken to in HTTP/2 (`protocol = "http2"`): Node, gRPC's own server, and Hypercorn, as they are.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use keepwarm_tests::http2::{DATA, Http2, RST_STREAM};
use keepwarm_tests::load::{self, Load, Outcome};
use keepwarm_tests::process::wait_until;
use keepwarm_tests::{Server, apps, content, get, python, tools, websocket};
use rustix::process::Signal;

const LONG: Duration = Duration::from_secs(90);

const NODE: &str = r#"["node", "@APPS@/http2_app.js"]"#;

fn config(command: &str, workers: u32, more: &str) -> String {
    format!(
        "[server]\nthreads = 2\n[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\nmax_body = \"1GiB\"\napp = \"app\"\n\
         [app.app]\ncommand = {command}\nprotocol = \"http2\"\nworkers = {workers}\n{more}\n"
    )
}

/// A Node server, with `env` of its own beside the file that it counts in.
fn node(workers: u32, env: &str, more: &str) -> Server {
    let env = format!("env = {{ COUNT_FILE = \"@DIR@/count\", {env} }}\n{more}");
    Server::start(&config(NODE, workers, &env)).warm("/")
}

#[track_caller]
fn ask(server: &Server, request: impl AsRef<[u8]>) -> keepwarm_tests::Response {
    server.client().patient(LONG).ask(request)
}

/// How often each line stands in the count file.
fn counts(server: &Server) -> BTreeMap<String, u32> {
    load::counts(&server.folder().join("count"))
}

#[test]
fn a_request_arrives_as_http_2_has_it() {
    let server = node(1, "", "");
    let seen = ask(
        &server,
        "GET /echo?a=%2F&b HTTP/1.1\r\nHost: shop.example\r\nX-One: 1\r\nX-One: 2\r\nCookie: a=1\r\nConnection: X-Private, TE\r\n\
         X-Private: 1\r\nTE: trailers\r\nX-Forwarded-For: 6.6.6.6\r\n\r\n",
    )
    .json();
    let raw: Vec<&str> = seen.as_array().expect("a list").iter().filter_map(|text| text.as_str()).collect();
    let all = |name: &str| -> Vec<&str> {
        raw.chunks(2).filter(|pair| pair[0] == name).map(|pair| pair[1]).collect()
    };
    assert_eq!(
        (all(":method"), all(":scheme"), all(":authority"), all(":path")),
        (vec!["GET"], vec!["http"], vec!["shop.example"], vec!["/echo?a=%2F&b"])
    );
    assert_eq!(all("x-one"), ["1", "2"]);
    assert_eq!((all("x-forwarded-for"), all("te")), (vec!["127.0.0.1"], vec!["trailers"]));
    for gone in ["host", "connection", "x-private"] {
        assert!(all(gone).is_empty(), "{gone}: {raw:?}");
    }
}

#[test]
fn responses_of_every_kind_reach_clients_of_both_versions() {
    let server = node(1, "", "");
    let mut client = server.client().patient(LONG);
    let large = client.ask(get("/large?bytes=5000000"));
    assert!(large.body.len() == 5_000_000 && large.body.iter().all(|&byte| byte == b'x'));
    let head = client.ask("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((head.status, head.body.len()), (200, 0));
    let trailers = client.ask("GET /trailers HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE\r\n\r\n");
    assert_eq!(trailers.trailers, [("checksum".to_owned(), "abc".to_owned())]);
    client.send("GET /hints HTTP/1.1\r\nHost: a\r\nSec-Fetch-Mode: navigate\r\n\r\n");
    assert_eq!(client.head("GET").0, 103);
    assert_eq!(client.response("GET").text(), "with hints");
    assert_eq!(client.ask(get("/none")).status, 404);
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--http2-prior-knowledge", "--write-out", " %{http_version}", &server.url("/")]);
    assert_eq!(tools::run_ok(&mut curl, LONG), "hello from node\n 2");
}

#[test]
fn bodies_of_every_framing_arrive_whole() {
    let server = node(1, "", "");
    let body = vec![b'k'; 300_000];
    let mut client = server.client().patient(LONG);
    for length in [0, 5, 16 * 1024 + 1, body.len()] {
        let body = &body[..length];
        let sum = content::sha256("http2-apps", body);
        let mut request =
            format!("POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n").into_bytes();
        request.extend_from_slice(body);
        assert_eq!(client.ask(&request).text(), format!("{length} {sum} {{}}"), "declared");
        let mut request =
            b"POST /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: t\r\n\r\n".to_vec();
        for part in body.chunks(7_000) {
            request.extend(format!("{:x}\r\n", part.len()).bytes());
            request.extend_from_slice(part);
            request.extend(b"\r\n");
        }
        request.extend(b"0\r\nt: 1\r\n\r\n");
        assert_eq!(client.ask(&request).text(), format!("{length} {sum} {{\"t\":\"1\"}}"), "chunked");
    }
}

/// Each part is there before the next is sent.
#[test]
fn both_messages_flow_at_once() {
    let server = node(1, "", "");
    let mut client = server.client().patient(LONG);
    client.send("POST /both HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.send("3\r\none\r\n");
    client.read_through(b"3\r\nONE\r\n");
    client.send("3\r\ntwo\r\n");
    client.read_through(b"3\r\nTWO\r\n");
    client.send("0\r\n\r\n");
    client.read_through(b"0\r\n\r\n");
}

/// RFC 9113 §8.1: a response before the end of the request, then RST_STREAM with NO_ERROR.
#[test]
fn an_early_refusal_of_an_upload_reaches_its_client() {
    let server = node(1, "", "");
    let mut client = server.client().patient(LONG);
    client.send("POST /too-large HTTP/1.1\r\nHost: a\r\nContent-Length: 5000000\r\n\r\n");
    client.send(vec![b'x'; 100_000]);
    let response = client.response("POST");
    assert_eq!((response.status, response.text().as_str()), (413, "too large"));
    assert_eq!(ask(&server, get("/")).status, 200);
}

#[test]
fn resets_are_502_or_cut_the_response() {
    let server = node(1, "", "");
    assert_eq!(ask(&server, get("/reset")).status, 502);
    let mut client = server.client().patient(LONG);
    client.send(get("/half"));
    client.read_through(b"half\r\n");
    let mut h2 = Http2::connect(server.address());
    h2.request(1, "/half", &[]);
    h2.until(|frame| frame.stream == 1 && frame.kind == DATA);
    assert_eq!(ask(&server, get("/reset-held")).text(), "reset");
    assert_eq!(client.read_to_end().0, b"", "cut, without the last chunk");
    let end = h2.until(|frame| frame.stream == 1 && (frame.ends() || frame.kind == RST_STREAM));
    assert_eq!(end.kind, RST_STREAM, "not an end: {end:?}");
}

/// RFC 9113 §8.7: nothing of it was processed, so that even a POST may be sent again, its body included.
#[test]
fn a_refused_stream_is_sent_again() {
    let server = node(1, "", "");
    let response = ask(
        &server,
        "POST /refuse-once?id=r HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n",
    );
    assert_eq!((response.status, response.text().as_str()), (200, "second body"));
    assert_eq!(counts(&server)["r"], 1);
}

/// A lost client cancels its stream, and nothing else of the connection.
#[test]
fn a_lost_client_cancels_its_request() {
    let server = node(1, "", "");
    let mut client = server.client().patient(LONG);
    client.send(get("/wait-for-cancel?id=w"));
    wait_until("it was asked", LONG, || counts(&server).contains_key("w-begun"));
    client.reset();
    wait_until("it was cancelled", LONG, || counts(&server).contains_key("w-cancelled"));
}

/// A server that takes two streams at once gets no more on a connection, and all are served.
#[test]
fn the_servers_limit_of_streams_is_kept() {
    let server = node(1, "STREAMS = \"2\"", "concurrency = 4");
    let outcomes = Load::new(server.address(), "POST").with_work_ms(20).while_doing(12, 0, || {
        wait_until("requests were served", LONG, || counts(&server).len() > 60);
    });
    load::all_responded_once(&counts(&server), &outcomes);
    let most = ask(&server, get("/most")).text();
    let most: u32 = most.split(' ').next().expect("a number").parse().expect("a number");
    assert!((2..=4).contains(&most), "{most} at once, `concurrency` is 4");
    assert!(!server.log().contains("refused_stream"), "no stream was refused");
}

/// Flow control reaches from the app to the client: what the app does not read stays with the client.
#[test]
fn an_upload_that_nobody_reads_stops() {
    let server = node(1, "", "");
    let mut client = server.client().patient(LONG);
    let length = 64 * 1024 * 1024;
    client.send(format!("POST /hold HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n"));
    client.stream().set_write_timeout(Some(Duration::from_millis(500))).expect("a timeout");
    let block = vec![b'x'; 1 << 20];
    let mut sent = 0;
    let stopped = loop {
        if sent >= length {
            break false;
        }
        match client.try_send(&block) {
            Ok(()) => sent += block.len(),
            Err(_) => break true,
        }
    };
    assert!(stopped, "64 MiB were taken for an app that reads nothing");
    assert_eq!(ask(&server, get("/")).status, 200, "others are served meanwhile");
}

#[test]
fn a_goaway_of_the_app_loses_nothing() {
    let server = node(2, "", "");
    let outcomes = Load::new(server.address(), "POST").while_doing(6, 2, || {
        for round in 1..=10 {
            assert_eq!(ask(&server, get("/goaway")).text(), "going away");
            wait_until("more were served", LONG, || counts(&server).len() > round * 30);
        }
    });
    load::all_responded_once(&counts(&server), &outcomes);
}

#[test]
fn restarts_reloads_and_recycling_lose_nothing() {
    let server = node(2, "", "max_requests = 200");
    let outcomes = Load::new(server.address(), "POST").while_doing(6, 2, || {
        server.reload();
        wait_until("many were served", LONG, || counts(&server).len() > 1_000);
        server.reload();
    });
    load::all_responded_once(&counts(&server), &outcomes);
}

/// A death costs the requests that had begun, at most; the others are served by the next process.
#[test]
fn a_killed_app_is_replaced() {
    let server = node(1, "", "");
    let before = ask(&server, get("/pid")).text();
    let pid: u32 = before.parse().expect("a pid");
    let outcomes = Load::new(server.address(), "GET").while_doing(4, 0, || {
        wait_until("some were served", LONG, || counts(&server).len() > 50);
        keepwarm_tests::process::signal(pid, Signal::KILL);
        wait_until("it was replaced", LONG, || ask(&server, get("/pid")).text() != before);
    });
    let lost = outcomes.iter().filter(|(_, outcome)| *outcome != Outcome::Responded(200)).count();
    assert_eq!(lost, 0, "GETs are safe to repeat: {}", load::tally(&outcomes));
}

/// While the old workers drain, there are both.
#[test]
fn a_reload_changes_the_version() {
    let http1 = config(r#"["node", "@APPS@/node_app.js"]"#, 1, "env = { COUNT_FILE = \"@DIR@/count\" }")
        .replace("protocol = \"http2\"\n", "");
    let http2 = config(NODE, 1, "env = { COUNT_FILE = \"@DIR@/count\" }");
    let server = Server::start(&http1).warm("/");
    let outcomes = Load::new(server.address(), "POST").while_doing(4, 2, || {
        for config in [&http2, &http1, &http2] {
            server.reload_with(config);
            let before = counts(&server).len();
            wait_until("more were served", LONG, || counts(&server).len() > before + 50);
        }
    });
    load::all_responded_once(&counts(&server), &outcomes);
}

#[test]
fn a_unix_socket_does_as_well() {
    let server = node(1, "LISTEN = \"socket\"", "health = \"/pid\"");
    assert_eq!(ask(&server, get("/")).text(), "hello from node\n");
}

/// A server of HTTP/1 is told from one that does not listen.
#[test]
fn a_server_that_speaks_http_1_is_named_in_the_log() {
    let config = config(r#"["node", "@APPS@/node_app.js"]"#, 1, "boot_timeout = \"20s\"");
    let server = Server::spawn(&config, |_| {});
    server.wait_for_log("HTTP/1, not HTTP/2", LONG);
}

#[test]
fn websockets_are_bridged_from_both_versions() {
    let server = node(1, "", "");
    let mut client = server.client().patient(LONG);
    websocket::open(&mut client, "/socket", "");
    for text in ["hello", "", "again"] {
        client.send(websocket::frame(0x81, text.as_bytes()));
        assert_eq!(websocket::read(&mut client), (0x81, text.as_bytes().to_vec()));
    }
    client.send(websocket::frame(0x88, &1000_u16.to_be_bytes()));
    assert_eq!(websocket::read(&mut client).0, 0x88);
    client.expect_end();
    let refused = ask(&server, websocket::opening("/none", ""));
    assert_eq!((refused.status, refused.text().as_str()), (403, "no socket here"));
}

#[test]
fn a_server_without_extended_connect_takes_no_websocket() {
    let server = node(1, "WEBSOCKETS = \"0\"", "");
    let refused = ask(&server, websocket::opening("/socket", ""));
    assert_eq!(refused.status, 502);
    server.wait_for_log("does not offer extended CONNECT", LONG);
    assert_eq!(ask(&server, get("/")).status, 200);
}

#[test]
fn grpc_calls_of_every_kind_pass() {
    let server = Server::start(&config(r#"["@PYTHON@", "@APPS@/grpc_peer.py", "app"]"#, 1, ""));
    server.wait_for_log("worker ready", LONG);
    let mut client = Command::new(python());
    client.arg(apps().join("grpc_peer.py")).arg("client").arg(server.address().to_string());
    let said = tools::run_ok(&mut client, LONG);
    for kind in [
        "unary",
        "server stream",
        "client stream",
        "both streams",
        "late status",
        "deadline ends the call",
        "cancel",
    ] {
        assert!(said.lines().any(|line| line == kind), "{kind} is not among\n{said}");
    }
}

#[test]
fn hypercorn_serves_requests_and_websockets() {
    let command = r#"["sh", "-c", "exec @PYTHON@ -m hypercorn --bind 127.0.0.1:$PORT hypercorn_app:app"]"#;
    let server = Server::start(&config(command, 1, "directory = \"@APPS@\"")).warm("/");
    assert_eq!(ask(&server, get("/")).text(), "2 0");
    let mut client = server.client().patient(LONG);
    let mut upload = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n".to_vec();
    upload.extend(std::iter::repeat_n(b'x', 1_000_000));
    assert_eq!(client.ask(&upload).text(), "2 1000000");
    websocket::open(&mut client, "/socket", "");
    client.send(websocket::frame(0x81, b"hello"));
    assert_eq!(websocket::read(&mut client), (0x81, b"hello".to_vec()));
}
