//! Requests in flight with their paths, and whether their responses have begun (`active_requests` and `active_calls` of the status), whatever
//! a worker speaks.

use std::io::Write;
use std::path::Path;

use keepwarm_tests::origin::{After, Gate, Origin};
use keepwarm_tests::{Server, admin, get};
use serde_json::Value;

/// Begins its response for `/begun`, and waits for the file `go` in any case.
const WSGI: &str = "import os, time
def application(environ, start_response):
    def wait():
        while not os.path.exists('go'):
            time.sleep(0.01)
    if environ['PATH_INFO'] != '/begun':
        wait()
    start_response('200 OK', [])
    def blocks():
        yield b'begun'
        wait()
        yield b'over'
    return blocks()
";

/// The same as a server.
const SERVER: &str = "import http.server, os, time
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        def wait():
            while not os.path.exists('go'):
                time.sleep(0.01)
        if self.path.startswith('/held'):
            wait()
        self.send_response(200)
        self.send_header('Content-Length', '9')
        self.end_headers()
        self.wfile.write(b'begun')
        self.wfile.flush()
        if self.path.startswith('/begun'):
            wait()
        self.wfile.write(b'over')
    do_HEAD = do_OPTIONS = do_GET
    def log_message(self, *arguments):
        pass
http.server.ThreadingHTTPServer(('127.0.0.1', int(os.environ['PORT'])), Handler).serve_forever()
";

fn start(app: &str) -> Server {
    let config = format!(
        "[admin]\nbind = \"127.0.0.1:0\"\n[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\npath = \"/below/*\"\n\
         strip_prefix = true\napp = \"app\"\n[[listen.main.route]]\napp = \"app\"\n[app.app]\n{app}\n"
    );
    Server::start_with(&config, |command| {
        let folder = command.get_current_dir().expect("a folder");
        std::fs::write(folder.join("waiting.py"), WSGI).expect("written");
        std::fs::write(folder.join("server.py"), SERVER).expect("written");
    })
}

fn go(folder: &Path) {
    std::fs::write(folder.join("go"), "").expect("written");
}

fn active(status: &Value) -> Vec<&Value> {
    let workers = status["workers"].as_array().expect("a list");
    workers.iter().flat_map(|worker| worker["active_requests"].as_array().expect("a list")).collect()
}

/// A request whose response has begun, one whose has not, and for an app of one worker one that waits.
fn shown(server: &Server) {
    let mut begun = server.client();
    begun.send(get("/begun?token=secret"));
    let status = admin::wait_for_status(server, "it responds", |status| {
        active(status).first().is_some_and(|request| request["responding"] == true)
    });
    assert_eq!(active(&status)[0]["path"], "/begun");
    let mut held = server.client();
    held.send(get("/below/held"));
    let status = admin::wait_for_status(server, "the other one is there", |status| {
        active(status).len() == 2 || status["apps"][0]["queue"] == 1
    });
    assert!(!status.to_string().contains("secret"), "{status:#}");
    let held_at_worker = active(&status).into_iter().find(|request| request["path"] == "/below/held");
    match held_at_worker {
        Some(held) => assert_eq!(held["responding"], false),
        None => assert_eq!(status["apps"][0]["waiting_requests"][0]["path"], "/below/held"),
    }
    go(server.folder());
    assert_eq!(begun.response("GET").text(), "begunover");
    assert_eq!(held.response("GET").text(), "begunover");
    admin::wait_for_status(server, "none is left", |status| active(status).is_empty());
}

/// The upstream takes one call at a time: the other one waits for a slot.
#[test]
fn of_a_route_to_an_upstream() {
    let (head, rest) = (Gate::default(), Gate::default());
    let gates = (head.clone(), rest.clone());
    let origin = Origin::start(move |_, stream| {
        gates.0.wait();
        let written = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nbegun");
        gates.1.wait();
        // The test may have failed, and closed it.
        let _ = written.and_then(|()| stream.write_all(b"over"));
        After::Keep
    });
    let server = Server::start(&format!(
        "[admin]\nbind = \"127.0.0.1:0\"\n[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\npath = \"/shop/*\"\n\
         strip_prefix = true\nupstream = \"shop\"\n[upstream.shop]\nurl = \"http://{}\"\nlimits = {{ in_flight = 1, queue_timeout = \"60s\" }}\n",
        origin.address()
    ));
    let wait = |what: &str, phases: &[&str]| -> Vec<Value> {
        let calls =
            |status: &Value| status["upstreams"][0]["active_calls"].as_array().expect("a list").clone();
        let are = |status: &Value| {
            calls(status).iter().map(|call| call["phase"].clone()).eq(phases.iter().copied())
        };
        calls(&admin::wait_for_status(&server, what, are))
    };
    let mut first = server.client();
    first.send(get("/shop/first?token=secret"));
    wait("it waits for the upstream", &["upstream"]);
    let mut second = server.client();
    second.send(get("/shop/second"));
    let calls = wait("the other one waits for it", &["upstream", "queue"]);
    let paths: Vec<&Value> = calls.iter().map(|call| &call["path"]).collect();
    assert_eq!(paths, ["/shop/first", "/shop/second"]);
    let endpoint = Value::from(origin.address().to_string());
    let at = |call: &Value| (call["route"].clone(), call["endpoint"].clone());
    assert_eq!(
        (at(&calls[0]), at(&calls[1])),
        (("/shop/*".into(), endpoint), ("/shop/*".into(), Value::Null))
    );
    head.open();
    wait("it responds", &["responds", "queue"]);
    rest.open();
    for client in [&mut first, &mut second] {
        assert_eq!(client.response("GET").text(), "begunover");
    }
    wait("none is left", &[]);
}

#[test]
fn of_a_worker_with_one_request_at_a_time() {
    shown(&start("entry = \"waiting:application\"\ninterpreter = \"@PYTHON@\"\nworkers = 1"));
}

#[test]
fn of_two_workers() {
    shown(&start("entry = \"waiting:application\"\ninterpreter = \"@PYTHON@\"\nworkers = 2"));
}

#[test]
fn of_a_server() {
    shown(&start("command = [\"@PYTHON@\", \"server.py\"]\nworkers = 1"));
}
