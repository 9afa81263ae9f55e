//! Where slow requests were in the code of their apps: in the log, and in `/recent` of `GET /events` (`slow_log`).

use std::time::Duration;

use keepwarm_tests::events::Events;
use keepwarm_tests::process::{self, wait_until};
use keepwarm_tests::{Server, get};
use rustix::process::Signal;
use serde_json::Value;

const LONG: Duration = Duration::from_secs(60);

/// Waits below `search`; computes elsewhere, unless it is asked for `/`.
const PYTHON: (&str, &str) = (
    "shop.py",
    "
import time
def compute(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(1000))
def search(seconds):
    time.sleep(seconds)
def application(environ, start_response):
    path = environ['PATH_INFO']
    if path == '/search':
        search(1.2)
    elif path != '/':
        compute(1.2)
    start_response('200 OK', [])
    return [b'']
",
);

const ASGI: (&str, &str) = (
    "shop.py",
    "
import asyncio
async def search(seconds):
    await asyncio.sleep(seconds)
async def application(scope, receive, send):
    if scope['type'] == 'lifespan':
        while (await receive())['type'] != 'lifespan.shutdown':
            await send({'type': 'lifespan.startup.complete'})
        return await send({'type': 'lifespan.shutdown.complete'})
    if scope['path'] == '/search':
        await search(1.2)
    await send({'type': 'http.response.start', 'status': 200, 'headers': []})
    await send({'type': 'http.response.body', 'body': b''})
",
);

const RUBY: (&str, &str) = (
    "config.ru",
    "
def search(seconds)
  sleep seconds
end
run(lambda do |env|
  search 1.2 if env['PATH_INFO'] == '/search'
  [200, {}, ['']]
end)
",
);

/// PHP handles a signal when the wait that it interrupts is over, and notes nothing at the first: it waits several times.
const PHP: (&str, &str) = (
    "index.php",
    "<?php
function search(float $seconds) {
    [$here, $there] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
    stream_set_timeout($here, 0, (int) ($seconds * 1e6));
    fread($here, 1);
    fclose($there);
}
return function (Keepwarm\\Request $request) {
    for ($times = 0; $request->path === '/search' && $times < 12; ++$times) {
        search(0.1);
    }
    return 'x';
};
",
);

fn start((file, code): (&str, &str), app: &str) -> Server {
    let config = format!(
        "[admin]\nbind = \"127.0.0.1:0\"\n[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\napp = \"shop\"\n[app.shop]\nslow_log = \"300ms\"\n{app}\n"
    );
    Server::start_with(&config, |command| {
        let folder = command.get_current_dir().expect("it has a directory");
        std::fs::write(folder.join(file), code).expect("written");
    })
    .warm("/")
}

const WSGI: &str = "entry = \"shop:application\"\ninterpreter = \"@PYTHON@\"\nworkers = 1";

/// The record of a request that has been sampled: its stacks, and its id.
#[track_caller]
fn sampled(server: &Server, mark: usize) -> (String, String) {
    let line = server.wait_for_log_after(mark, "where the slow request was", LONG);
    let value = |name: &str| {
        let rest = &line[line.find(name).unwrap_or_else(|| panic!("{name} {line}")) + name.len()..];
        rest.split('"')
            .nth(1)
            .filter(|_| rest.starts_with('"'))
            .unwrap_or_else(|| rest.split(' ').next().unwrap())
            .to_owned()
    };
    (value("stacks="), value(" id="))
}

/// The same request in the list of slow ones, once its samples are there.
#[track_caller]
fn recent(server: &Server, path: &str) -> Value {
    let of_path = |snapshot: &Value| -> Option<Value> {
        let all = snapshot["recent"]["slow"].as_array()?;
        all.iter().find(|request| request["path"] == path && request["stacks"][0].is_object()).cloned()
    };
    of_path(&Events::open(server).wait_for("samples", |snapshot| of_path(snapshot).is_some())).expect("found")
}

/// In every language, and in every way to serve requests.
#[test]
fn a_request_that_waits_shows_where() {
    let workers = [
        (PYTHON, WSGI.to_owned()),
        (PYTHON, format!("{WSGI}\nthreads = 4")),
        (ASGI, WSGI.to_owned()),
        (RUBY, "entry = \"config.ru\"\nworkers = 1".to_owned()),
        (PHP, "entry = \"index.php\"\nworkers = 1".to_owned()),
    ];
    for (code, keys) in workers {
        let server = start(code, &keys);
        let mark = server.mark();
        assert_eq!(server.ask(get("/search")).status, 200);
        let (stacks, id) = sampled(&server, mark);
        assert!(stacks.contains("search (") && stacks.contains(", waiting"), "{keys}: {stacks}");
        let request = recent(&server, "/search");
        assert_eq!(request["id"], id.as_str());
        let stack = &request["stacks"][0];
        assert_eq!(
            (&stack["phase"], &stack["waiting"]),
            (&"app".into(), &true.into()),
            "{keys}: {request:#}"
        );
        let calls = stack["calls"].as_array().expect("calls");
        let is_search = |call: &Value| call.as_str().is_some_and(|call| call.starts_with("search ("));
        assert!(calls.iter().any(is_search), "{keys}: {request:#}");
        let seconds = stack["seconds"].as_f64().expect("a number");
        // Signals begin the waits of PHP again, so its request takes longer than it asks for.
        let whole = request["seconds"].as_f64().expect("a number");
        assert!(seconds > 0.3 && seconds < whole, "{keys}: from 0.3 s on: {request:#}");
    }
}

#[test]
fn a_request_that_computes_shows_where() {
    let server = start(PYTHON, WSGI);
    let mark = server.mark();
    assert_eq!(server.ask(get("/compute")).status, 200);
    let (stacks, _) = sampled(&server, mark);
    assert!(stacks.contains("compute (shop.py:") && !stacks.contains("search"), "{stacks}");
    // The time until the next one is nobody's.
    let mark = server.mark();
    assert_eq!(server.ask(get("/search")).status, 200);
    let (stacks, _) = sampled(&server, mark);
    assert!(stacks.contains("search (shop.py:") && !stacks.contains("compute"), "{stacks}");
}

/// No signals, no record: it was not slow.
#[test]
fn a_quick_request_is_not_sampled() {
    let server = start(PYTHON, WSGI);
    for _ in 0..20 {
        assert_eq!(server.ask(get("/")).status, 200);
    }
    server.reload();
    assert!(!server.log().contains("where the slow request was"), "{}", server.log());
}

/// A worker that is killed meanwhile costs nothing but its own samples.
#[test]
fn a_worker_that_dies_is_no_longer_sampled() {
    let server = start(PYTHON, WSGI);
    let mut client = server.client();
    client.send(get("/compute"));
    server.wait_for_log("slow request; its worker prints its stack", LONG);
    let worker = server.workers()[0];
    process::signal(worker, Signal::KILL);
    wait_until("another serves", LONG, || server.workers().first().is_some_and(|&pid| pid != worker));
    let mark = server.mark();
    assert_eq!(server.ask(get("/search")).status, 200);
    let (stacks, _) = sampled(&server, mark);
    assert!(stacks.contains("search (shop.py:"), "{stacks}");
}
