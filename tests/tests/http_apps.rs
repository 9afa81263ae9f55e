//! Apps that are servers by themselves (`kind = "http"`): Node and Puma as they are, and a server that does everything wrong.
//!
//! The site stays up whatever they do, and Keepwarm fixes what it can.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use keepwarm_tests::load::{self, Load, Outcome};
use keepwarm_tests::process::{self, alive, descendants, wait_until};
use keepwarm_tests::{Failure, Framing, Server, get, websocket};
use rustix::process::Signal;

const LONG: Duration = Duration::from_secs(90);

fn config(command: &str, workers: u32, more: &str) -> String {
    format!(
        "[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\napp = \"app\"\n\
         [app.app]\ncommand = {command}\nworkers = {workers}\n{more}\n"
    )
}

const NODE: &str = r#"["node", "@APPS@/node_app.js"]"#;
const HOSTILE: &str = r#"["@PYTHON@", "@APPS@/hostile_server.py"]"#;

/// A Node server, with `env` of its own beside the file that it counts in.
fn node(workers: u32, env: &str, more: &str) -> Server {
    let env = format!("env = {{ COUNT_FILE = \"@DIR@/count\", {env} }}\n{more}");
    Server::start(&config(NODE, workers, &env))
}

fn hostile(more: &str) -> Server {
    Server::start(&config(HOSTILE, 1, more))
}

/// A response that may take as long as a process needs to start.
#[track_caller]
fn ask(server: &Server, request: impl AsRef<[u8]>) -> keepwarm_tests::Response {
    server.client().patient(LONG).ask(request)
}

/// The processes of the app: those whose command line contains `part`.
fn processes(server: &Server, part: &str) -> Vec<u32> {
    let mut found = descendants(server.pid());
    found.retain(|&pid| process::command(pid).contains(part) && !process::command(pid).contains("__launch"));
    found.sort_unstable();
    found
}

#[track_caller]
fn wait_for_processes(server: &Server, part: &str, count: usize) -> Vec<u32> {
    wait_until("as many processes as workers", LONG, || processes(server, part).len() == count);
    processes(server, part)
}

/// How often each line stands in the count file.
fn counts(server: &Server) -> BTreeMap<String, u32> {
    load::counts(&server.folder().join("count"))
}

#[test]
fn a_request_reaches_node_unchanged_with_its_client_address() {
    let server = node(1, "", "");
    let response = ask(
        &server,
        "GET /echo?a=%2F&b HTTP/1.1\r\nHost: shop.example\r\nX-One: 1\r\nX-One: 2\r\nX_Alias: 1\r\nProxy: evil\r\n\
         Connection: X-Private\r\nX-Private: 1\r\nX-Forwarded-For: 6.6.6.6\r\nTE: trailers\r\nKeep-Alive: 5\r\n\r\n",
    );
    assert_eq!(response.status, 200);
    let seen = response.json();
    assert_eq!((seen["method"].as_str(), seen["url"].as_str()), (Some("GET"), Some("/echo?a=%2F&b")));
    let raw: Vec<&str> =
        seen["rawHeaders"].as_array().expect("a list").iter().filter_map(|v| v.as_str()).collect();
    let fields: Vec<(String, &str)> =
        raw.chunks(2).map(|pair| (pair[0].to_ascii_lowercase(), pair[1])).collect();
    let all =
        |name: &str| -> Vec<&str> { fields.iter().filter(|(n, _)| n == name).map(|(_, v)| *v).collect() };
    assert_eq!(all("host"), ["shop.example"]);
    assert_eq!(all("x-one"), ["1", "2"]);
    assert_eq!(all("x-forwarded-for"), ["127.0.0.1"]);
    assert_eq!(all("x-forwarded-proto"), ["http"]);
    assert_eq!(all("x-forwarded-host"), ["shop.example"]);
    assert_eq!(all("te"), ["trailers"]);
    for gone in ["x_alias", "proxy", "x-private", "keep-alive"] {
        assert!(all(gone).is_empty(), "{gone}: {fields:?}");
    }
    assert_eq!(all("via"), ["1.1 keepwarm"]);
}

/// RFC 9110 §7.6.2.
#[test]
fn an_options_goes_no_further_than_it_may() {
    let server = node(1, "", "");
    let options = |left: &str| {
        ask(&server, format!("OPTIONS /echo HTTP/1.1\r\nHost: a\r\nMax-Forwards: {left}\r\n\r\n"))
    };
    assert_eq!(options("3").json()["method"].as_str(), Some("OPTIONS"));
    assert!(options("3").text().contains("\"max-forwards\",\"2\""));
    let ours = options("0");
    assert_eq!((ours.status, ours.text().as_str()), (200, ""));
    assert!(ours.field("allow").is_some_and(|allow| allow.contains("OPTIONS")));
}

#[test]
fn a_stripped_prefix_is_forwarded() {
    let config = config(NODE, 1, "")
        .replace("app = \"app\"", "path = \"/shop/*\"\nstrip_prefix = true\napp = \"app\"");
    let server = Server::start(&config);
    let seen = ask(&server, get("/shop/echo?x=1")).json();
    assert_eq!(seen["url"].as_str(), Some("/echo?x=1"));
    assert!(seen["rawHeaders"].to_string().contains("\"x-forwarded-prefix\",\"/shop\""), "{seen}");
}

#[test]
fn bodies_of_every_framing_arrive_whole() {
    // sha256 of 300,000 times "k" and of nothing, by another program.
    let body = vec![b'k'; 300_000];
    let sum = |bytes: &[u8]| {
        let file = std::env::temp_dir().join(format!("keepwarm-http-{}-{}", std::process::id(), bytes.len()));
        std::fs::write(&file, bytes).expect("a file");
        let told = keepwarm_tests::tools::run_ok(Command::new("sha256sum").arg(&file), LONG);
        let _ = std::fs::remove_file(&file);
        told.split_whitespace().next().expect("a sum").to_owned()
    };
    let server = node(1, "", "");
    let mut client = server.client().patient(LONG);
    for length in [0, 5, 16 * 1024, 16 * 1024 + 1, body.len()] {
        let body = &body[..length];
        let mut request =
            format!("POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n").into_bytes();
        request.extend_from_slice(body);
        assert_eq!(client.ask(&request).text(), format!("{length} {} {{}}", sum(body)), "declared");
        let mut request =
            b"POST /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: t\r\n\r\n".to_vec();
        for part in body.chunks(7_000) {
            request.extend(format!("{:x}\r\n", part.len()).bytes());
            request.extend_from_slice(part);
            request.extend(b"\r\n");
        }
        request.extend(b"0\r\nt: 1\r\n\r\n");
        assert_eq!(client.ask(&request).text(), format!("{length} {} {{\"t\":\"1\"}}", sum(body)), "chunked");
    }
    // One that comes byte by byte.
    let mut slow = server.client().patient(LONG);
    slow.send_bytewise("POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nkkkkk");
    assert_eq!(slow.response("POST").text(), format!("5 {} {{}}", sum(&body[..5])));
}

#[test]
fn responses_of_every_kind_reach_the_client() {
    let server = node(1, "", "");
    let mut client = server.client().patient(LONG);
    let stream = client.ask(get("/stream"));
    assert_eq!((stream.text().as_str(), stream.framing), ("one,two,three", Framing::Chunked));
    let large = client.ask(get("/large?bytes=5000000"));
    assert!(large.body.len() == 5_000_000 && large.body.iter().all(|&byte| byte == b'x'));
    let head = client.ask("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((head.status, head.body.len()), (200, 0));
    let trailers = client.ask("GET /trailers HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE\r\n\r\n");
    assert_eq!(trailers.trailers, [("checksum".to_owned(), "abc".to_owned())]);
    let closed = client.ask(get("/close"));
    assert!(closed.field("keep-alive").is_none() && !closed.says_close(), "that is between node and us");
    assert_eq!(client.ask(get("/none")).status, 404);
    client.send("GET /hints HTTP/1.1\r\nHost: a\r\nSec-Fetch-Mode: navigate\r\n\r\n");
    assert_eq!(client.head("GET").0, 103);
    assert_eq!(client.response("GET").text(), "with hints");
    assert_eq!(client.ask(get("/hints")).text(), "with hints", "not to one that does not navigate");
}

#[test]
fn a_client_of_http_1_0_never_waits() {
    let server = node(1, "", "");
    for path in ["/", "/stream", "/none"] {
        let mut client = server.client().patient(LONG);
        client.send(format!("GET {path} HTTP/1.0\r\n\r\n"));
        let response = client.response("GET");
        assert!(response.says_close(), "{path}: {client}");
        client.expect_eof();
    }
    let mut kept = server.client().patient(LONG);
    let response = kept.ask("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_eq!(response.framing, Framing::Length(16));
    assert_eq!(kept.ask("GET / HTTP/1.0\r\n\r\n").text(), "hello from node\n");
}

/// As WEBrick and Python's `http.server`: the head and the body in two writes, without `TCP_NODELAY`. The second waits for the acknowledgement of
/// the first, and the kernel delays that by 40 ms.
#[test]
fn a_body_written_behind_its_head_is_not_delayed() {
    let script = "import http.server, os\n\
                  class Handler(http.server.BaseHTTPRequestHandler):\n\
                  \x20   protocol_version = 'HTTP/1.1'\n\
                  \x20   def do_GET(self):\n\
                  \x20       self.send_response(200)\n\
                  \x20       self.send_header('Content-Length', '4')\n\
                  \x20       self.end_headers()\n\
                  \x20       self.wfile.write(b'body')\n\
                  \x20   def log_message(self, *args): pass\n\
                  http.server.ThreadingHTTPServer(('127.0.0.1', int(os.environ['PORT'])), Handler).serve_forever()\n";
    let server = Server::start(&config(&format!("[\"@PYTHON@\", \"-c\", {script:?}]"), 1, ""));
    let mut client = server.client().patient(LONG);
    client.ask(get("/"));
    // Where the kernel delays it, it delays each.
    let fastest = (0..20)
        .map(|_| {
            let begun = Instant::now();
            assert_eq!(client.ask(get("/")).text(), "body");
            begun.elapsed()
        })
        .min();
    assert!(fastest < Some(Duration::from_millis(40)), "{fastest:?}");
}

#[test]
fn the_application_decides_on_an_expectation() {
    let server = node(1, "", "");
    let expecting = |path: &str| {
        format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n")
    };
    // Where the machine is so busy that it takes a quarter of a second, Keepwarm does not wait for it any longer.
    let refused = (0..20).find_map(|_| {
        let mut client = server.client().patient(LONG);
        client.send(expecting("/refuse"));
        let response = client.response("POST");
        (response.status != 100).then(|| (response.status, response.says_close()))
    });
    assert_eq!(refused, Some((403, true)));
    let mut accepted = server.client().patient(LONG);
    accepted.send(expecting("/body"));
    assert_eq!(accepted.head("POST").0, 100, "{accepted}");
    accepted.send("body");
    assert!(accepted.response("POST").text().starts_with("4 "));
    // One that does not wait is not kept waiting.
    let mut hasty = server.client().patient(LONG);
    hasty.send(expecting("/body") + "body");
    while {
        let (status, _) = hasty.head("POST");
        assert!(matches!(status, 100 | 200), "{hasty}");
        status == 100
    } {}
}

#[test]
fn a_server_that_ignores_expectations_delays_no_client_for_ever() {
    let server = hostile("");
    // The first ones wait a moment for it, the others do not wait.
    for _ in 0..6 {
        let mut client = server.client().patient(LONG);
        client.send("POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n");
        assert_eq!(client.head("POST").0, 100, "{client}");
        client.send("body");
        assert_eq!(client.response("POST").text(), "body");
    }
}

/// The server may have its say before the end of a body, a small one as any other.
#[test]
fn a_small_body_that_does_not_come_holds_up_no_response() {
    let server = hostile("");
    assert_eq!(ask(&server, get("/")).text(), "hello");
    let mut client = server.client();
    client.send("POST /early HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nhalf");
    let response = client.response("POST");
    assert_eq!((response.status, response.text().as_str()), (403, "no"));
    // The bytes before the server was called, and those after it, are one body.
    let mut client = server.client();
    client.send("POST /body HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nhalf ");
    client.expect_silence(Duration::from_millis(100));
    client.send("other");
    assert_eq!(client.response("POST").text(), "half other");
}

/// A server that works on one request at a time is not to wait for a client.
#[test]
fn a_slow_small_body_holds_no_server_of_one_at_a_time() {
    let server = hostile("concurrency = 1");
    assert_eq!(ask(&server, get("/")).text(), "hello");
    let mut slow = server.client().patient(LONG);
    slow.send("POST /body HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nhalf ");
    slow.expect_silence(Duration::from_millis(100));
    assert_eq!(ask(&server, get("/")).text(), "hello");
    slow.send("other");
    assert_eq!(slow.response("POST").text(), "half other");
}

/// A server with a fixed number of threads may serve only the connections that it has, and ignore further ones.
#[test]
fn a_process_gets_no_more_connections_than_requests_at_once() {
    let server = hostile("concurrency = 2");
    assert_eq!(ask(&server, get("/")).text(), "hello");
    let two = |method: &str| {
        let mut clients = [server.client().patient(LONG), server.client().patient(LONG)];
        for client in &mut clients {
            client.send(format!("{method} /marked HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"));
        }
        clients.each_mut().map(|client| client.response(method).text().parse::<u32>().expect("a number"))
    };
    assert_eq!(two("GET").into_iter().max(), Some(2));
    // Kept connections that have rested for a second are not for what cannot be sent twice.
    std::thread::sleep(Duration::from_millis(1200));
    two("POST");
    wait_until("the others are closed", Duration::from_secs(20), || two("GET").into_iter().max() == Some(2));
}

#[test]
fn a_websocket_is_passed_through() {
    let server = node(1, "", "");
    let mut client = server.client().patient(LONG);
    // The first message comes with the opening: it is the tunnel's.
    let mut opening = websocket::opening("/socket", "").into_bytes();
    opening.extend(websocket::frame(0x81, b"early"));
    client.send(opening);
    let (status, fields) = client.head("GET");
    assert_eq!(status, 101, "{client}");
    let accept = fields.iter().find(|(name, _)| name.eq_ignore_ascii_case("sec-websocket-accept"));
    assert_eq!(accept.map(|(_, value)| value.as_str()), Some(websocket::ACCEPT));
    assert_eq!(websocket::message(&mut client), (1, b"early".to_vec()));
    for text in ["one", "two", "three"] {
        client.send(websocket::frame(0x81, text.as_bytes()));
        assert_eq!(websocket::message(&mut client), (1, text.as_bytes().to_vec()));
    }
    client.send(websocket::frame(0x88, &1000_u16.to_be_bytes()));
    assert_eq!(websocket::message(&mut client).0, 8);
    client.expect_end();
    assert_eq!(ask(&server, get("/")).text(), "hello from node\n");
}

#[test]
fn a_websocket_may_be_silent_for_longer_than_a_request_may_take() {
    let server = node(1, "", "request_timeout = \"1s\"");
    let mut client = server.client().patient(LONG);
    client.send(websocket::opening("/socket", ""));
    assert_eq!(client.head("GET").0, 101, "{client}");
    // One after the other, so that the second began after the opening.
    for _ in 0..2 {
        assert_eq!(ask(&server, get("/slow?ms=60000")).status, 504);
    }
    client.send(websocket::frame(0x81, b"still here"));
    assert_eq!(websocket::message(&mut client), (1, b"still here".to_vec()));
}

#[test]
fn a_server_may_listen_at_a_unix_socket() {
    let server = node(2, "LISTEN = \"socket\"", "");
    assert_eq!(ask(&server, get("/")).text(), "hello from node\n");
    server.wait_for_log("a server at unix:", LONG);
    assert!(ask(&server, get("/large?bytes=1000000")).body.len() == 1_000_000);
}

#[test]
fn requests_are_shared_out_over_the_processes() {
    let server = node(3, "", "");
    wait_for_processes(&server, "node_app.js", 3);
    wait_until("each of them has responded", LONG, || {
        let mut seen: Vec<String> = (0..12).map(|_| ask(&server, get("/pid")).text()).collect();
        seen.sort();
        seen.dedup();
        seen.len() == 3
    });
}

#[test]
fn the_output_of_a_server_is_logged() {
    let server = node(1, "", "");
    assert_eq!(ask(&server, get("/print")).text(), "ok");
    assert!(server.wait_for_log("printed by node", LONG).contains("stream=stdout"));
    assert!(server.wait_for_log("complained by node", LONG).contains("stream=stderr"));
}

#[test]
fn a_command_line_needs_no_configuration() {
    let args = ["--bind", "127.0.0.1:0", "--workers", "1", "--", "node", "node_app.js"];
    let server = Server::run(&args, &keepwarm_tests::apps());
    assert_eq!(ask(&server, get("/")).text(), "hello from node\n");
}

#[test]
fn a_dead_process_is_replaced_and_a_get_given_to_another() {
    let server = node(2, "", "start_retries = 50\nqueue_timeout = \"60s\"");
    let before = wait_for_processes(&server, "node_app.js", 2);
    for &pid in &before {
        process::signal(pid, Signal::KILL);
        assert_eq!(ask(&server, get("/")).text(), "hello from node\n");
    }
    wait_until("two others", LONG, || {
        let now = processes(&server, "node_app.js");
        now.len() == 2 && now.iter().all(|pid| !before.contains(pid))
    });
    assert_eq!(ask(&server, get("/")).text(), "hello from node\n");
}

#[test]
fn a_request_that_kills_is_not_given_to_all_of_them() {
    let server = node(3, "", "start_retries = 50\nqueue_timeout = \"60s\"");
    let post = "POST /die?id=post HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(ask(&server, post).status, 502);
    assert_eq!(ask(&server, get("/die?id=get")).status, 502);
    let counts = counts(&server);
    assert_eq!(counts.get("post"), Some(&1), "a POST is given once");
    assert!(matches!(counts.get("get"), Some(1 | 2)), "a GET at most once more: {counts:?}");
    // A response in between: else the route is refused after the third death.
    assert_eq!(ask(&server, get("/")).text(), "hello from node\n");
    let mut cut = server.client().patient(LONG);
    cut.send(get("/die-in-response"));
    match cut.try_response("GET") {
        Err(Failure::Cut(_) | Failure::Reset(_)) => {}
        Ok(response) if response.status == 502 => {}
        other => panic!("{other:?}\n{cut}"),
    }
    assert_eq!(ask(&server, get("/")).text(), "hello from node\n");
}

#[test]
fn a_route_that_kills_again_and_again_is_refused_for_a_while() {
    let server = node(1, "", "start_retries = 50\nqueue_timeout = \"60s\"");
    let post = "POST /die HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
    wait_until("it is refused", LONG, || match ask(&server, post).status {
        502 => false,
        503 => true,
        other => panic!("{other}"),
    });
    server.wait_for_log("route_quarantined", LONG);
    assert_eq!(ask(&server, get("/")).text(), "hello from node\n", "another method is another route");
}

#[test]
fn a_request_that_times_out_is_504_and_others_continue() {
    let server = node(1, "", "request_timeout = \"1s\"");
    let before = wait_for_processes(&server, "node_app.js", 1);
    assert_eq!(ask(&server, get("/slow?ms=60000")).status, 504);
    assert_eq!(ask(&server, get("/slow?ms=100")).text(), "slow");
    assert_eq!(processes(&server, "node_app.js"), before, "it responds: it stays");
    // One whose event loop hangs does not respond, and goes.
    assert_eq!(ask(&server, get("/block")).status, 504);
    wait_until("another process", LONG, || {
        let now = processes(&server, "node_app.js");
        now.len() == 1 && now != before
    });
    wait_until("the site is back", LONG, || ask(&server, get("/")).status == 200);
}

#[test]
fn with_one_request_at_a_time_others_wait_or_are_refused() {
    let server = node(1, "", "concurrency = 1\nqueue = 1\nqueue_timeout = \"500ms\"");
    ask(&server, get("/"));
    let mut first = server.client().patient(LONG);
    first.send(get("/count?id=first&ms=2000"));
    wait_until("it is at work", LONG, || counts(&server).contains_key("first"));
    let mut second = server.client().patient(LONG);
    second.send(get("/count?id=second"));
    let refused = second.response("GET");
    assert_eq!(refused.status, 503);
    assert!(refused.field("retry-after").is_some());
    assert_eq!(first.response("GET").text(), "first");
    assert!(!counts(&server).contains_key("second"));
}

#[test]
fn faults_of_syntax_are_normalized_and_faults_of_framing_are_refused() {
    let server = hostile("");
    for path in
        ["/ok", "/bytes", "/chunk-bytes", "/closes", "/until-close", "/bare-lf", "/folded", "/blank-colon"]
    {
        for _ in 0..2 {
            let response =
                ask(&server, format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
            assert_eq!((response.status, response.text().as_str()), (200, "hello"), "{path}");
        }
    }
    for path in
        ["/garbage", "/two-lengths", "/both", "/unasked-switch", "/half-head", "/endless-head", "/nothing"]
    {
        let mut client = server.client().patient(LONG);
        assert_eq!(client.ask(get(path)).status, 502, "{path}");
        assert_eq!(client.ask(get("/ok")).text(), "hello", "after {path}");
    }
    for path in ["/bad-chunk", "/short"] {
        let mut client = server.client().patient(LONG);
        client.send(get(path));
        match client.try_response("GET") {
            Err(Failure::Cut(_) | Failure::Reset(_)) => {}
            Ok(response) if response.status == 502 => {}
            other => panic!("{path}: {other:?}\n{client}"),
        }
    }
    server.wait_for_log("fixed syntax faults", LONG);
}

/// Bytes that were not requested are never part of a response, and put the one before it in doubt.
#[test]
fn bytes_after_a_response_reach_no_client() {
    let server = hostile("");
    let mut client = server.client().patient(LONG);
    for _ in 0..20 {
        let refused = client.ask(get("/trailing"));
        assert_eq!(refused.status, 502, "{}", refused.text());
        assert_eq!(client.ask(get("/ok")).text(), "hello", "after it");
    }
    server.wait_for_log("sent bytes after the end of its response", LONG);
    client.send("HEAD /ok HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response("HEAD").status, 200, "a body where there can be none is dropped");
    assert_eq!(client.ask(get("/ok")).text(), "hello", "after it");
}

#[test]
fn any_number_of_early_responses_is_passed_on() {
    let server = hostile("");
    let mut client = server.client().patient(LONG);
    client.send(get("/many-early"));
    for _ in 0..50 {
        assert_eq!(client.head("GET").0, 102, "{client}");
    }
    assert_eq!(client.response("GET").text(), "hello");
}

#[test]
fn fields_of_the_servers_connection_do_not_reach_the_client() {
    let server = hostile("");
    let mut client = server.client().patient(LONG);
    let response = client.ask(get("/hop-by-hop"));
    assert_eq!(response.text(), "hello");
    assert!(!response.says_close());
    for name in ["x-private", "proxy-connection"] {
        assert_eq!(response.field(name), None);
    }
    client.expect_kept("/ok");
}

/// Each response is followed by an unannounced close: kept connections are tested before they are used.
#[test]
fn idle_connections_that_the_server_closes_cost_no_request() {
    let server = hostile("");
    let mut client = server.client().patient(LONG);
    for _ in 0..100 {
        assert_eq!(client.ask(get("/closes")).text(), "hello");
    }
}

/// A connection closed as idle while the request was on its way says nothing about its process, which need not be waited for.
#[test]
fn a_request_that_meets_an_idle_close_is_sent_again_at_once() {
    let server = hostile("");
    let mut client = server.client().patient(LONG);
    assert_eq!(client.ask(get("/once")).text(), "hello");
    let delete = "DELETE /once HTTP/1.1\r\nHost: a\r\n\r\n";
    // More than a budget for retries has: these are none.
    let times: Vec<_> = (0..40)
        .map(|_| {
            let asked = Instant::now();
            assert_eq!(client.ask(get("/once")).text(), "hello");
            assert_eq!(client.ask(delete).text(), "hello");
            asked.elapsed()
        })
        .collect();
    server.wait_for_log("closed_idle", LONG);
    // A busy machine may delay some of them.
    assert!(times.iter().any(|time| *time < Duration::from_millis(400)), "{times:?}");
}

#[test]
fn a_process_that_hangs_or_leaves_is_replaced() {
    let server = hostile("request_timeout = \"1s\"\nqueue_timeout = \"60s\"\nstart_retries = 50");
    let post = |path: &str| format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    for (path, status) in [("/leave", 502), ("/stop", 504)] {
        let before = ask(&server, get("/pid")).text();
        assert_eq!(ask(&server, post(path)).status, status, "{path}");
        wait_until("another process", LONG, || {
            let response = ask(&server, get("/pid"));
            response.status == 200 && response.text() != before
        });
    }
}

/// The front page hangs, and is the health check of a server without a health path when a request has timed out. The other pages are served all the time.
#[test]
fn a_page_that_hangs_does_not_take_its_server_away() {
    let script = "import http.server, os, time\n\
        class H(http.server.BaseHTTPRequestHandler):\n\
        \x20   def do_GET(self):\n\
        \x20       open('asked', 'a').write(self.path + '\\n')\n\
        \x20       while self.path == '/' and os.path.exists('flag'): time.sleep(0.1)\n\
        \x20       body = str(os.getpid()).encode()\n\
        \x20       self.send_response(200)\n\
        \x20       self.send_header('Content-Length', str(len(body)))\n\
        \x20       self.end_headers()\n\
        \x20       self.wfile.write(body)\n\
        http.server.ThreadingHTTPServer(('127.0.0.1', int(os.environ['PORT'])), H).serve_forever()\n";
    let command = format!("[\"@PYTHON@\", \"-c\", {script:?}]");
    let server = Server::start(&config(&command, 1, "request_timeout = \"1s\"\ndirectory = \"@DIR@\""));
    let before = ask(&server, get("/pid")).text();
    std::fs::write(server.folder().join("flag"), "").expect("a file");
    assert_eq!(ask(&server, get("/")).status, 504);
    // Longer than it has for its response, and than the distance of questions to one that has nothing to do.
    let until = Instant::now() + Duration::from_secs(8);
    while Instant::now() < until {
        let response = ask(&server, get("/pid"));
        assert_eq!((response.status, response.text()), (200, before.clone()), "{}", server.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    let asked = std::fs::read_to_string(server.folder().join("asked")).expect("a file");
    let front = asked.lines().filter(|line| *line == "/").count();
    // At the start, by the client, and once in suspicion.
    assert!(front <= 4, "the front page is no health check of an idle server: {front}");
}

/// Others on the network would reach it past Keepwarm.
#[test]
fn a_server_that_listens_on_all_interfaces_is_warned_of() {
    let serving = |host: &str| {
        let script = format!(
            "import http.server, os\nhttp.server.HTTPServer(({host:?}, int(os.environ['PORT'])), http.server.SimpleHTTPRequestHandler).serve_forever()"
        );
        let server = Server::start(&config(&format!("[\"@PYTHON@\", \"-c\", {script:?}]"), 1, ""));
        ask(&server, get("/"));
        server
    };
    let open = serving("");
    let line = open.wait_for_log("worker listens on all interfaces", LONG);
    assert!(line.contains("WARN") && line.contains("address=0.0.0.0:"), "{line}");
    let closed = serving("127.0.0.1");
    assert!(!closed.log().contains("all interfaces"), "{}", closed.log());
}

#[test]
fn a_server_is_ready_when_its_health_check_succeeds() {
    // It listens from the beginning, and refuses as long as there is no flag.
    let script = "import http.server, os\n\
        class H(http.server.BaseHTTPRequestHandler):\n\
        \x20   def do_GET(self):\n\
        \x20       open('asked', 'a').write(self.path + '\\n')\n\
        \x20       self.send_response(200 if os.path.exists('flag') else 503)\n\
        \x20       self.send_header('Content-Length', '4')\n\
        \x20       self.end_headers()\n\
        \x20       self.wfile.write(b'well')\n\
        http.server.ThreadingHTTPServer(('127.0.0.1', int(os.environ['PORT'])), H).serve_forever()\n";
    let command = format!("[\"@PYTHON@\", \"-c\", {script:?}]");
    let server = Server::spawn(&config(&command, 1, "health = \"/healthz\"\ndirectory = \"@DIR@\""), |_| {});
    let asked = server.folder().join("asked");
    wait_until("it was asked more than once", LONG, || {
        std::fs::read_to_string(&asked).is_ok_and(|lines| lines.lines().count() > 1)
    });
    assert!(!server.log().contains("worker ready"));
    std::fs::write(server.folder().join("flag"), "").expect("a file");
    let server = server.listening();
    assert_eq!(ask(&server, get("/")).text(), "well");
    assert!(std::fs::read_to_string(&asked).expect("a file").starts_with("/healthz\n/healthz\n"));
}

#[test]
fn a_command_that_does_not_listen_gets_the_expected_address() {
    let server = Server::spawn(
        &config("[\"sleep\", \"1000\"]", 1, "boot_timeout = \"500ms\"\nstart_retries = 0"),
        |_| {},
    );
    assert!(!server.wait_for_exit(LONG).success());
    let log = server.log();
    assert!(log.contains("was not ready within 500ms"), "{log}");
}

#[test]
fn a_socket_path_that_is_too_long_is_refused_in_words() {
    let mut long = std::env::temp_dir();
    long.push(format!("keepwarm-{}-{}", std::process::id(), "x".repeat(90)));
    std::fs::create_dir_all(&long).expect("a folder");
    let server = Server::spawn(&config(NODE, 1, "start_retries = 0"), |command| {
        command.env("TMPDIR", &long).env("XDG_RUNTIME_DIR", &long);
    });
    assert!(!server.wait_for_exit(LONG).success());
    let log = server.log();
    assert!(log.contains("the path of its Unix socket has") && log.contains("TMPDIR"), "{log}");
    let _ = std::fs::remove_dir_all(&long);
}

#[track_caller]
fn reload_under_load(server: &Server, part: &str, workers: usize, times: usize) {
    let load = Load::new(server.address(), "POST").with_work_ms(2);
    let outcomes = load.while_doing(6, 0, || {
        for _ in 0..times {
            load.wait_for(100);
            let old = processes(server, part);
            server.signal(Signal::HUP);
            wait_until("other processes", 2 * LONG, || {
                let now = processes(server, part);
                now.len() == workers && now.iter().all(|pid| !old.contains(pid))
            });
        }
        load.wait_for(100);
    });
    assert_eq!(load.refused(), 0, "somebody always listens");
    load::all_responded_once(&counts(server), &outcomes);
}

#[test]
fn node_is_reloaded_under_load_without_a_loss() {
    let server = node(2, "", "");
    ask(&server, get("/"));
    reload_under_load(&server, "node_app.js", 2, 3);
}

#[test]
fn a_get_is_not_given_to_the_second_of_two_that_are_killed() {
    let server = node(2, "", "start_retries = 50\nqueue_timeout = \"60s\"");
    let before = wait_for_processes(&server, "node_app.js", 2);
    let mut large = Vec::new();
    wait_until("both are large, and long in dying", LONG, || {
        let pid = ask(&server, get("/grow?mb=200")).text();
        if !large.contains(&pid) {
            large.push(pid);
        }
        large.len() == 2
    });
    for pid in before {
        process::signal(pid, Signal::KILL);
    }
    assert_eq!(ask(&server, get("/")).text(), "hello from node\n");
}

#[test]
fn killed_processes_lose_no_get() {
    let server = node(2, "", "start_retries = 100\nqueue_timeout = \"60s\"");
    ask(&server, get("/"));
    let load = Load::new(server.address(), "GET").with_work_ms(2);
    let mut killed = 0;
    let outcomes = load.while_doing(4, 0, || {
        for round in 0..5 {
            load.wait_for(30);
            let now = wait_for_processes(&server, "node_app.js", 2);
            process::signal(now[round % 2], Signal::KILL);
            killed += 1;
            wait_until("it is gone", LONG, || !alive(now[round % 2]));
            // Both serve again before the next goes: else a request can meet two deaths, which is one more than it may.
            wait_until("another", LONG, || server.log().matches("worker ready").count() >= 2 + killed);
        }
        load.wait_for(30);
    });
    assert_eq!(load.refused(), 0, "somebody always listens");
    let counts = counts(&server);
    for (id, outcome) in &outcomes {
        assert_eq!(*outcome, Outcome::Responded(200), "request {id}");
        assert!(matches!(counts.get(id), Some(1 | 2)), "request {id}: {:?}", counts.get(id));
    }
}

const PUMA_APP: &str = r##"
run lambda { |env|
  case env["PATH_INFO"]
  when "/count"
    id = env["QUERY_STRING"][/id=(\d+)/, 1]
    File.write(ENV.fetch("COUNT_FILE"), "#{id}\n", mode: "a")
    [200, { "content-type" => "text/plain" }, [id]]
  when "/body" then [200, {}, [env["rack.input"].read.bytesize.to_s]]
  when "/stream" then [200, {}, Enumerator.new { |out| %w[one, two, three].each { |part| out << part } }]
  else [200, { "content-type" => "text/plain" }, ["hello from puma, #{env["HTTP_X_FORWARDED_FOR"]}\n"]]
  end
}
"##;

#[test]
fn puma_is_served_as_it_is_and_reloaded_without_a_loss() {
    // Its output names its own port, which is not ours.
    let command = r#"["sh", "-c", "exec puma -q -t 1:4 -b tcp://127.0.0.1:$PORT @DIR@/app.ru >/dev/null"]"#;
    let more = "concurrency = 8\nenv = { COUNT_FILE = \"@DIR@/count\" }";
    let server = Server::spawn(&config(command, 2, more), |command| {
        let file = command.get_args().nth(2).map(std::path::PathBuf::from).expect("the configuration");
        std::fs::write(file.with_file_name("app.ru"), PUMA_APP).expect("the application");
    });
    let server = server.listening();
    assert_eq!(ask(&server, get("/")).text(), "hello from puma, 127.0.0.1\n");
    assert_eq!(ask(&server, get("/stream")).text(), "one,two,three");
    let mut upload = b"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n".to_vec();
    upload.extend(vec![b'x'; 100_000]);
    assert_eq!(ask(&server, &upload).text(), "100000");
    reload_under_load(&server, "puma", 2, 1);
}
