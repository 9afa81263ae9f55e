//! `GET /events`: a snapshot each second for each client that may read it, at a bounded cost.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use keepwarm_tests::events::Events;
use keepwarm_tests::process::{self, wait_until};
use keepwarm_tests::{Client, Server, admin, get};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use serde_json::Value;

const LONG: Duration = Duration::from_secs(60);
const TOKEN: &str = "0123456789abcdef-secret";
const LOCAL: &str = "bind = [\"127.0.0.1:0\", \"unix:@DIR@/admin.sock\"]";

fn config(admin: &str, more: &str) -> String {
    format!(
        "[admin]\n{admin}\n[listen.main]\nbind = \"127.0.0.1:0\"\n[app.app]\nentry = \"wsgi_app:application\"\n\
         directory = \"@APPS@\"\ninterpreter = \"@PYTHON@\"\nworkers = 1\n{more}\n"
    )
}

fn start(more: &str) -> Server {
    Server::start(&config(LOCAL, more)).warm("/pong")
}

/// All totals of a snapshot, by where they stand.
fn totals(snapshot: &Value) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    let mut add = |of: &Value, names: &[&str], path: &str| {
        let name: Vec<String> = names.iter().map(|name| of[name].to_string()).collect();
        if let Some(total) = of.pointer(path).and_then(Value::as_u64) {
            all.insert(format!("{} {path}", name.join(" ")), total);
        }
    };
    let list = |path: &str| snapshot.pointer(path).and_then(Value::as_array).expect("a list");
    for app in list("/status/apps") {
        add(app, &["name"], "/requests/total");
    }
    for listener in list("/status/listeners") {
        for path in ["/accepted_connections", "/received_bytes", "/sent_bytes"] {
            add(listener, &["name"], path);
        }
    }
    for route in list("/routes") {
        add(route, &["app", "route"], "/requests/total");
        add(route, &["app", "route"], "/requests/2xx");
    }
    for upstream in list("/status/upstreams") {
        add(upstream, &["name"], "/connections/made");
        add(upstream, &["name"], "/connections/failed");
    }
    all
}

#[test]
fn it_is_an_event_stream_with_a_snapshot_each_second() {
    let server = start("");
    let mut client = Client::connect(admin::address(&server)).patient(LONG);
    client.send("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let (status, fields) = client.head("GET");
    let field = |name: &str| {
        fields.iter().find(|(seen, _)| seen.eq_ignore_ascii_case(name)).map(|(_, value)| &**value)
    };
    assert_eq!((status, field("content-type")), (200, Some("text/event-stream")));
    assert_eq!((field("cache-control"), field("connection")), (Some("no-store"), Some("close")));
    let mut events = Events(client);
    assert_eq!(events.line(), "retry: 1000");
    assert_eq!(events.line(), "event: snapshot");
    // At once, whenever the last second was.
    events.snapshot();
    assert_eq!(events.line(), "event: snapshot");
    let first = events.snapshot();
    assert_eq!(events.line(), "event: snapshot");
    let second = events.snapshot();
    let uptime = |snapshot: &Value| snapshot["status"]["uptime_seconds"].as_f64().expect("a number");
    let apart = uptime(&second) - uptime(&first);
    // A tick that is late on a busy machine is not made up for.
    assert!((0.5..10.0).contains(&apart), "{apart} s apart");
    assert_eq!(first["status"]["apps"][0]["name"], "app");
    assert_eq!(first["status"]["pid"], server.pid());
}

/// Every member that docs/operate/events.md names is there.
#[test]
fn the_members_match_the_documentation() {
    let text = config(LOCAL, "[upstream.nobody]\nurl = \"http://127.0.0.1:1\"\nbind = \"127.0.0.2:0\"\n");
    let route = "[[listen.main.route]]\npath = \"/nobody\"\nupstream = \"nobody\"\n\
                 [[listen.main.route]]\napp = \"app\"\n[app.app]";
    let server = Server::start(&text.replace("[app.app]", route)).warm("/pong");
    let mut client = server.client();
    assert_eq!(client.ask(get("/nobody")).status, 502);
    assert_eq!(client.ask(get("/raise")).status, 500);
    let mut client = server.client();
    let mut events = Events::open(&server);
    let mut snapshot = Value::Null;
    wait_until("a request and memory are seen", LONG, || {
        client.ask(get("/pong"));
        snapshot = events.snapshot();
        let is_counted = |route: &Value| route["route"] == "/*" && !route["now"].is_null();
        snapshot["routes"].as_array().expect("a list").iter().any(is_counted)
            && snapshot["memory"].as_array().is_some_and(|memory| !memory.is_empty())
    });
    // The route that has had requests stands first in what is compared.
    let routes = snapshot["routes"].as_array_mut().expect("a list");
    routes.sort_by_key(|route| route["now"].is_null());
    // The newest failed request is the app's, the one before has a call.
    let calls = snapshot["recent"]["failed"][1]["calls"].clone();
    snapshot["recent"]["failed"][0]["calls"] = calls;
    let page =
        std::fs::read_to_string(keepwarm_tests::root().join("docs/operate/events.md")).expect("the page");
    let named: Vec<&str> =
        page.lines().filter_map(|line| line.strip_prefix("| `/")?.split('`').next()).collect();
    for path in &named {
        assert!(snapshot.pointer(&format!("/{path}")).is_some(), "/{path}\n{snapshot:#}");
    }
    let members: Vec<&String> = snapshot.as_object().expect("an object").keys().collect();
    assert!(members.iter().all(|member| named.contains(&member.as_str())), "{members:?} {named:?}");
    for member in snapshot["now"].as_object().expect("an object").keys() {
        assert!(named.contains(&&*format!("now/{member}")), "{member} is not described");
    }
    assert!(snapshot["now"]["per_second"].as_f64() >= snapshot["routes"][0]["now"]["per_second"].as_f64());
    for member in snapshot["routes"][0]["now"].as_object().expect("an object").keys() {
        assert!(named.contains(&&*format!("routes/0/now/{member}")), "{member} is not described");
    }
    for path in ["recent", "recent/failed/0", "recent/failed/0/phases", "recent/failed/0/calls/0"] {
        for member in
            snapshot.pointer(&format!("/{path}")).and_then(Value::as_object).expect("an object").keys()
        {
            let is_named = named.contains(&&*format!("{path}/{member}"));
            assert!(is_named || member == "phases" || member == "calls", "{path}/{member} is not described");
        }
    }
    let route = &snapshot["routes"][0];
    assert_eq!((&route["app"], &route["route"]), (&"app".into(), &"/*".into()));
    let now = |member: &str| route["now"][member].as_f64().expect("a number");
    assert!(now("per_second") > 0.0 && now("p50_seconds") <= now("p90_seconds"), "{route:#}");
    assert_eq!(snapshot["memory"][0]["pid"], server.workers()[0]);
    assert_eq!(snapshot["why"]["healthy"], true);
}

#[test]
fn the_rules_of_access_hold() {
    let local = start("");
    let remote =
        Server::start(&config(&format!("bind = \"0.0.0.0:0\"\ntoken = \"{TOKEN}\""), "")).warm("/pong");
    let ask = |server: &Server, host: &str, fields: &str| {
        let address = ([127, 0, 0, 1], admin::address(server).port()).into();
        let mut client = Client::connect(address).patient(LONG);
        client.send(format!("GET /events HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n"));
        client.head("GET").0
    };
    assert_eq!(ask(&local, "evil.example", ""), 403);
    assert_eq!(ask(&local, "localhost", "Origin: http://evil.example\r\n"), 403);
    assert_eq!(ask(&local, "localhost", "Origin: null\r\n"), 403);
    assert_eq!(ask(&local, "localhost", "Sec-Fetch-Site: cross-site\r\n"), 403);
    assert_eq!(ask(&local, "localhost", "Sec-Fetch-Site: same-origin\r\n"), 200);
    assert_eq!(ask(&remote, "localhost", ""), 401);
    assert_eq!(ask(&remote, "localhost", "Authorization: Bearer wrong-0123456789\r\n"), 401);
    assert_eq!(ask(&remote, "any.example", &format!("Authorization: Bearer {TOKEN}\r\n")), 200);
    let mut client = Client::connect(admin::address(&local)).patient(LONG);
    let post = client.ask("POST /events HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    assert_eq!((post.status, post.field("allow")), (405, Some("GET, HEAD")));
    let head = client.ask("HEAD /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(
        (head.status, head.field("content-type"), head.body.len()),
        (200, Some("text/event-stream"), 0)
    );
}

#[test]
fn totals_never_fall_over_reloads() {
    let upstream = "[upstream.nobody]\nurl = \"http://127.0.0.1:1\"\nbind = \"127.0.0.2:0\"\n";
    let server = start(upstream);
    let mut events = Events::open(&server);
    let mut client = server.client();
    let mut before = totals(&events.snapshot());
    assert!(before.contains_key("\"app\" \"/*\" /requests/total"), "{before:?}");
    for _ in 0..3 {
        client.ask(get("/pong"));
        server.reload();
        client.ask(get("/pong"));
        for _ in 0..2 {
            let now = totals(&events.snapshot());
            for (name, total) in &before {
                assert!(now.get(name) >= Some(total), "{name}: {total}, then {:?}", now.get(name));
            }
            before = now;
        }
    }
    assert!(before["\"app\" /requests/total"] >= 6, "{before:?}");
}

#[test]
fn a_reload_that_takes_the_right_ends_the_stream() {
    let with_token = |token: &str| config(&format!("bind = \"127.0.0.1:0\"\ntoken = \"{token}\""), "");
    let server = Server::start(&with_token(TOKEN)).warm("/pong");
    let mut events = Events::with(&server, &format!("Authorization: Bearer {TOKEN}\r\n"));
    events.snapshot();
    server.reload();
    events.snapshot();
    server.reload_with(&with_token("another-0123456789abcdef"));
    let (rest, is_orderly) = events.0.read_to_end();
    assert!(rest.ends_with(b"0\r\n\r\n") && is_orderly, "it ends as a whole response");

    let server = start("");
    let mut events = Events::open(&server);
    events.snapshot();
    server.reload_with(&config("bind = \"unix:@DIR@/admin.sock\"", ""));
    let (rest, is_orderly) = events.0.read_to_end();
    assert!(rest.ends_with(b"0\r\n\r\n") && is_orderly, "its address is not served any more");
}

#[test]
fn a_stop_is_seen_and_ends_the_stream() {
    let server = start("");
    server.configure(&config(LOCAL, ""));
    let mut events = Events::open(&server);
    let mut waiting = server.client().patient(LONG);
    waiting.send(get("/sleep?ms=5000"));
    admin::wait_for_status(&server, "the worker is at work", |status| {
        status["workers"][0]["active_requests"][0]["route"] == "/*"
    });
    server.signal(Signal::TERM);
    wait_until("the stream shows the stop", LONG, || events.snapshot()["status"]["ready"] == false);
    assert_eq!(waiting.response("GET").status, 200);
    events.0.read_to_end();
    assert!(server.wait_for_exit(LONG).success());
}

#[test]
fn an_upgrade_ends_the_stream_and_the_next_one_is_of_the_new_process() {
    let server = start("");
    let mut events = Events::open(&server);
    assert_eq!(events.snapshot()["status"]["pid"], server.pid());
    server.signal(Signal::USR2);
    let (rest, is_orderly) = events.0.read_to_end();
    assert!(rest.ends_with(b"0\r\n\r\n") && is_orderly, "it ends as a whole response");
    // The new process has the same sockets.
    let next = Events::open(&server).snapshot();
    assert_ne!(next["status"]["pid"], server.pid());
    admin::end_successor(&server);
}

/// A snapshot that many streams read is one, and a client that reads nothing is cut; the others do not notice.
#[test]
fn clients_that_do_not_read_cost_bounded_memory_and_are_cut() {
    // Names make the snapshot large: half a megabyte.
    let routes: String = (0..300)
        .map(|at| format!("[[listen.main.route]]\npath = \"/{at}/{}\"\nrespond = 204\n", "x".repeat(1500)))
        .collect();
    let text = config(LOCAL, "")
        .replace("[app.app]", &format!("{routes}[[listen.main.route]]\napp = \"app\"\n[app.app]"));
    let server = Server::start(&text).warm("/pong");
    let mut reading = Events::open(&server);
    let size = reading.snapshot().to_string().len();
    assert!(size > 400_000, "{size}");
    let before = process::resident_kib(server.pid());

    let silent: Vec<UnixStream> = (0..12).map(|_| silent_stream(&server)).collect();
    for _ in 0..8 {
        reading.snapshot();
    }
    let growth = process::resident_kib(server.pid()).saturating_sub(before) * 1024;
    // 12 clients missed 8 snapshots: 48 MB if they added up.
    assert!(growth < 16 * size as u64 + 8_000_000, "{growth} bytes for snapshots of {size}");
    for stream in &silent {
        // Without reading: a client that reads is not cut.
        let mut ended = [PollFd::new(stream, PollFlags::RDHUP)];
        let bound = Timespec { tv_sec: 60, tv_nsec: 0 };
        assert_eq!(poll(&mut ended, Some(&bound)), Ok(1), "it is cut");
    }
    reading.snapshot();
}

/// Asks for the stream over the Unix socket and reads the head only.
fn silent_stream(server: &Server) -> UnixStream {
    let mut stream = UnixStream::connect(server.folder().join("admin.sock")).expect("connected");
    stream.write_all(b"GET /events HTTP/1.1\r\nHost: any\r\n\r\n").expect("sent");
    stream.set_read_timeout(Some(LONG)).expect("a timeout");
    let mut line = String::new();
    BufReader::with_capacity(1, &stream).read_line(&mut line).expect("a head");
    assert!(line.starts_with("HTTP/1.1 200"), "{line}");
    stream
}

#[test]
fn streams_are_limited_and_a_closed_one_makes_room() {
    let server = start("");
    let mut all: Vec<Events> = (0..16).map(|_| Events::open(&server)).collect();
    let refused = admin::get(&server, "/events", "Accept: application/json\r\n");
    assert_eq!((refused.status, refused.field("retry-after")), (503, Some("1")));
    assert_eq!(refused.json()["reason"], "too_many_streams");
    assert_eq!(admin::get(&server, "/status", "").status, 200);
    all.pop();
    wait_until("a slot is free", LONG, || {
        let mut client = Client::connect(admin::address(&server)).patient(LONG);
        client.send("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
        client.head("GET").0 == 200
    });
}
