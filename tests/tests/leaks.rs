//! `keepwarm leaks`: what real workers keep between requests, by route.

use std::collections::BTreeSet;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use keepwarm_tests::process::{signal, wait_until};
use keepwarm_tests::{Server, get, keepwarm, tools};
use rustix::process::Signal;
use serde_json::Value;

const LONG: Duration = Duration::from_secs(120);

/// Keeps an object for each request below `/cart`, and nothing for others. ASGI and WSGI.
const PYTHON: (&str, &str) = (
    "leaky.py",
    "
import os
cache = {}
class Item:
    def __init__(self):
        self.data = bytearray(2000)
def view(path):
    if path.startswith('/cart'):
        cache[len(cache)] = Item()
    return str(os.getpid()).encode()
def application(environ, start_response):
    body = view(environ['PATH_INFO'])
    start_response('200 OK', [('Content-Type', 'text/plain')])
    return [body]
async def loop(scope, receive, send):
    if scope['type'] == 'lifespan':
        raise RuntimeError('there is nothing to start')
    if scope['type'] == 'websocket':
        await receive()
        await send({'type': 'websocket.accept'})
        while (await receive())['type'] != 'websocket.disconnect':
            await send({'type': 'websocket.send', 'text': 'heard'})
        return
    body = view(scope['path'])
    await send({'type': 'http.response.start', 'status': 200, 'headers': []})
    if scope['path'] == '/hold':
        await send({'type': 'http.response.body', 'body': b'more', 'more_body': True})
        while (await receive())['type'] != 'http.disconnect':
            pass
        return
    await send({'type': 'http.response.body', 'body': body})
",
);

fn start_app((file, code): (&str, &str), app: &str) -> Server {
    let config = format!(
        "[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\npath = \"/cart/*\"\napp = \"shop\"\n\
         [[listen.main.route]]\napp = \"shop\"\n[app.shop]\n{app}\n"
    );
    Server::start_with(&config, |command| {
        let folder = command.get_current_dir().expect("it has a directory");
        std::fs::write(folder.join(file), code).expect("written");
    })
    .warm("/")
}

/// `entry` of [`PYTHON`], with these keys.
fn python(entry: &str, keys: &str) -> Server {
    start_app(PYTHON, &format!("entry = \"leaky:{entry}\"\ninterpreter = \"@PYTHON@\"\n{keys}"))
}

fn command(server: &Server, arguments: &[&str]) -> Command {
    let mut command = Command::new(keepwarm());
    command.arg("leaks").args(arguments).current_dir(server.folder());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Does something while a client requests these paths in turn. Every request is responded to.
fn under_load<T>(server: &Server, paths: &[&str], action: impl FnOnce(&AtomicU32) -> T) -> T {
    let (over, served) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = server.client().patient(LONG);
            for path in paths.iter().cycle() {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                assert_eq!(client.ask(get(path)).status, 200, "{}", server.log());
                served.fetch_add(1, Ordering::Relaxed);
            }
        });
        let _over = Over(&over);
        action(&served)
    })
}

/// Ends the load, also where a test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A search under load: its output and what it said.
struct Searched {
    output: Output,
    said: String,
}

fn searched(server: &Server, paths: &[&str], arguments: &[&str]) -> Searched {
    let all = [&["shop"], arguments].concat();
    let output = under_load(server, paths, |_| tools::run(&mut command(server, &all), LONG));
    let said = text(&output.stdout) + &text(&output.stderr);
    Searched { output, said }
}

impl Searched {
    #[track_caller]
    fn ends_with(self, server: &Server, status: i32) -> Self {
        assert_eq!(self.output.status.code(), Some(status), "{}\n{}", self.said, server.log());
        self
    }

    #[track_caller]
    fn says(self, parts: &[&str]) -> Self {
        for part in parts {
            assert!(self.said.contains(part), "no {part:?} in {}", self.said);
        }
        self
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.output.stdout).expect("JSON")
    }
}

/// Of a route of a response in JSON: what is kept, by form and name.
fn kept(response: &Value, route: &str) -> Vec<String> {
    let routes = response["routes"].as_array().expect("routes");
    let found = routes.iter().find(|one| one["route"] == route).expect("the route");
    assert_eq!(found["enough"], true, "{response}");
    let kept = found["kept"].as_array().expect("a list").iter();
    kept.map(|one| format!("{} {}", one["form"].as_str().unwrap(), one["name"].as_str().unwrap())).collect()
}

#[test]
fn what_is_kept_is_named_with_the_route_that_keeps_it() {
    let server = python("application", "workers = 1");
    let worker = server.workers();
    searched(&server, &["/cart/a", "/"], &["--requests", "30"]).ends_with(&server, 3).says(&[
        "GET /cart/* keeps 1 leaky.Item and 2.",
        "a request: leaky.cache grows by 1, made at leaky.py:6\n",
        "GET /*  15 requests: nothing kept\n",
        "measured 30 requests of worker shop/1 in ",
        "app shop has one worker: while it is measured, its requests are served one at a time",
    ]);
    assert_eq!(server.workers(), worker, "it was not replaced");
}

#[test]
fn the_report_as_json_has_the_same() {
    let server = python("application", "workers = 1");
    let search = searched(&server, &["/cart/a", "/"], &["--requests", "30", "--json"]).ends_with(&server, 3);
    let response = search.json();
    let found = kept(&response, "GET /cart/*");
    for wanted in ["held leaky.cache", "object leaky.Item", "memory ", "made leaky.py:6"] {
        assert!(found.iter().any(|one| one == wanted), "{wanted}: {response:#}");
    }
    assert_eq!(kept(&response, "GET /*"), [""; 0], "{response:#}");
    assert_eq!((&response["app"], &response["requests"]), (&"shop".into(), &30.into()));
    assert_eq!(response["workers"], serde_json::json!(["shop/1"]));
}

#[test]
fn an_app_that_keeps_nothing_is_told_so() {
    for (entry, keys) in
        [("application", "workers = 1"), ("application", "workers = 1\nthreads = 3"), ("loop", "workers = 1")]
    {
        let server = python(entry, keys);
        searched(&server, &["/", "/a"], &["--requests", "25"])
            .ends_with(&server, 0)
            .says(&["app shop keeps nothing\n"]);
    }
}

#[test]
fn threads_and_loops_are_measured() {
    for (entry, keys) in [("application", "workers = 1\nthreads = 3"), ("loop", "workers = 1")] {
        let server = python(entry, keys);
        searched(&server, &["/cart/a", "/"], &["--requests", "40"]).ends_with(&server, 3).says(&[
            "GET /cart/* keeps 1 leaky.Item and ",
            "leaky.cache grows by 1",
            "GET /*  20 requests: nothing kept",
        ]);
    }
}

#[test]
fn a_route_is_reported_alone() {
    let server = python("application", "workers = 1");
    let search = searched(&server, &["/cart/a", "/"], &["--requests", "10", "--route", "/*"]);
    let search =
        search.ends_with(&server, 0).says(&["measured 10 requests, and ", " of other routes of worker"]);
    assert!(!search.said.contains("GET /cart/*"), "{}", search.said);
}

/// While one counts, the other has the next request; the measured one is asked again as soon as it can take one.
#[test]
fn other_workers_serve_meanwhile() {
    let server = python("application", "workers = 2");
    let mut child = spawn(&server, &["shop", "--requests", "30", "--seconds", "100"]);
    wait_for_search(&server);
    let mut responded = BTreeSet::new();
    while child.try_wait().expect("a child").is_none() {
        // A connection each: on a busy machine the search may take more requests than one connection may have.
        responded.insert(server.client().patient(LONG).ask(get("/pid")).text());
    }
    assert_eq!(child.wait().expect("it has ended").code(), Some(0));
    let workers: BTreeSet<String> = server.workers().iter().map(u32::to_string).collect();
    assert_eq!(responded, workers);
}

#[test]
fn ctrl_c_ends_it_early_and_reports_what_there_is() {
    let server = python("application", "workers = 1");
    let child = command(&server, &["shop", "--seconds", "600"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    under_load(&server, &["/cart/a"], |served| {
        wait_for_search(&server);
        let before = served.load(Ordering::Relaxed);
        // With one worker, each of them is measured before the next.
        wait_until("enough are measured", LONG, || served.load(Ordering::Relaxed) > before + 15);
        signal(child.id(), Signal::INT);
    });
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("leaky.cache grows by 1"), "{}", text(&output.stdout));
    // It has ended for the instance, too.
    searched(&server, &["/"], &["--requests", "10"]).ends_with(&server, 0);
}

fn spawn(server: &Server, arguments: &[&str]) -> Child {
    command(server, arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts")
}

/// Until a second search is refused for it, and not for its route.
fn wait_for_search(server: &Server) {
    wait_until("a search is under way", LONG, || {
        let output = tools::run(&mut command(server, &["shop", "--route", "/none"]), LONG);
        text(&output.stderr).contains("app shop is already being measured")
    });
}

/// The measured worker goes in the middle: its measurements count, and another is measured.
#[test]
fn a_worker_that_goes_is_followed_by_another() {
    type Remove = fn(&Server);
    let removals: [(&str, Remove); 3] = [
        ("recycle", |server| {
            tools::run_ok(
                Command::new(keepwarm()).args(["recycle", "shop/1"]).current_dir(server.folder()),
                LONG,
            );
        }),
        ("kill", |server| signal(server.workers()[0], Signal::KILL)),
        ("reload", |server| {
            tools::run_ok(Command::new(keepwarm()).arg("reload").current_dir(server.folder()), LONG);
        }),
    ];
    for (how, remove) in removals {
        let server = python("application", "workers = 1");
        let before = server.workers();
        let child = command(&server, &["shop", "--requests", "60", "--seconds", "100"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut client = server.client().patient(LONG);
        wait_for_search(&server);
        (0..10).for_each(|_| assert_eq!(client.ask(get("/cart/a")).status, 200));
        remove(&server);
        wait_until("it is replaced", LONG, || {
            let now = server.workers();
            !now.is_empty() && now.iter().all(|worker| !before.contains(worker))
        });
        let output = under_load(&server, &["/cart/a"], |_| child.wait_with_output().expect("it ends"));
        let (report, said) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(3), "{how}: {report}{said}\n{}", server.log());
        assert!(
            said.contains("was replaced, exited or got a WebSocket; its requests before that count"),
            "{how}: {said}"
        );
        assert!(report.contains("leaky.cache grows by 1"), "{how}: {report}");
        assert!(report.contains("measured 60 requests of worker"), "{how}: {report}");
    }
}

/// One that stays open does not hold up the others of the only worker.
#[test]
fn a_websocket_is_served_and_so_are_the_requests_after_it() {
    let server = python("loop", "workers = 1");
    let mut child = spawn(&server, &["shop", "--seconds", "100"]);
    wait_for_search(&server);
    let mut socket = server.client().patient(LONG);
    socket.send(
        "GET /socket HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    );
    let mut client = server.client().patient(LONG);
    (0..10).for_each(|_| assert_eq!(client.ask(get("/")).status, 200));
    signal(child.id(), Signal::INT);
    child.wait().expect("it ends");
}

/// It never comes to rest, so it is not held up for longer than its limit, and serves others all the time after.
#[test]
fn a_worker_with_a_request_that_does_not_end_serves_on() {
    let server = python("loop", "workers = 1");
    let mut held = server.client().patient(LONG);
    held.send(get("/hold"));
    held.read_through(b"more");
    let search = searched(&server, &["/"], &["--seconds", "5"]).ends_with(&server, 1);
    search.says(&[
        "had requests for longer than 3 s, and did not begin",
        "no requests: the measured worker of app shop got none in 5 s",
    ]);
}

#[track_caller]
fn refused(server: &Server, arguments: &[&str], status: i32, parts: &[&str]) {
    let output = tools::run(&mut command(server, arguments), LONG);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{said}");
    assert!(parts.iter().all(|part| said.contains(part)), "{said}");
}

#[test]
fn what_cannot_be_measured_is_said_at_once() {
    let server = python("application", "workers = 1");
    refused(&server, &["shp"], 1, &["there is no app \"shp\" (there are: shop); did you mean `shop`?"]);
    refused(
        &server,
        &["shop", "--route", "/crt/*"],
        1,
        &["app shop has no route \"/crt/*\"", "did you mean `/cart/*`?"],
    );
    for bad in [
        ["--seconds", "0"],
        ["--seconds", "3601"],
        ["--requests", "7"],
        ["--requests", "10001"],
        ["--requests", "x"],
    ] {
        refused(&server, &["shop", bad[0], bad[1]], 2, &["invalid value"]);
    }
    refused(&server, &[], 2, &["<APP>"]);
    refused(
        &server,
        &["shop", "--seconds", "1"],
        1,
        &["no requests: the measured worker of app shop got none in 1 s"],
    );
}

#[test]
fn of_few_requests_nothing_is_told() {
    let server = python("application", "workers = 1");
    let child = command(&server, &["shop", "--seconds", "100"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    wait_for_search(&server);
    let mut client = server.client().patient(LONG);
    (0..5).for_each(|_| assert_eq!(client.ask(get("/cart/a")).status, 200));
    signal(child.id(), Signal::INT);
    let output = child.wait_with_output().expect("it ends");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("too few requests: ") && said.contains("a route needs 8"), "{said}");
}

#[test]
fn a_server_without_an_adapter_is_named() {
    let code = (
        "server.py",
        "import http.server, os\nhttp.server.ThreadingHTTPServer(('127.0.0.1', int(os.environ['PORT'])), http.server.SimpleHTTPRequestHandler).serve_forever()\n",
    );
    let server = start_app(code, "kind = \"http\"\ncommand = [\"@PYTHON@\", \"server.py\"]\nworkers = 1");
    refused(&server, &["shop"], 1, &["app shop is a server of its own (kind http or fastcgi)"]);
}

#[test]
fn an_adapter_that_cannot_measure_is_named() {
    let server = start_app(
        ("none", ""),
        "command = [\"@PYTHON@\", \"@APPS@/liar.py\", \"1\"]\nkind = \"wsgi\"\nworkers = 1",
    );
    refused(&server, &["shop"], 1, &["adapter liar/1 does not tell what is kept", "`keepwarm restart shop`"]);
}

#[test]
fn ruby_is_measured() {
    let code = (
        "config.ru",
        "
class Item
  def initialize = @data = 'x' * 2000 + rand.to_s
end
module Shop
  CACHE = {}
end
run(lambda do |env|
  Shop::CACHE[Shop::CACHE.size] = Item.new if env['PATH_INFO'].start_with?('/cart')
  [200, {}, ['done']]
end)
",
    );
    for keys in ["workers = 1", "workers = 1\nthreads = 3"] {
        let server = start_app(code, &format!("entry = \"config.ru\"\n{keys}"));
        searched(&server, &["/cart/a", "/"], &["--requests", "40"]).ends_with(&server, 3).says(&[
            "GET /cart/* keeps 1 Item and ",
            "Shop::CACHE grows by 1, made at config.ru:",
            "GET /*  20 requests: nothing kept",
        ]);
    }
}

#[test]
fn php_is_measured() {
    let code = (
        "index.php",
        "<?php
class Item {
    public string $data;
    public function __construct() {
        $this->data = str_repeat('x', 2000) . rand();
    }
}
class Cart {
    public static array $all = [];
}
return function (Keepwarm\\Request $request) {
    if (str_starts_with($request->path, '/cart')) {
        Cart::$all[] = new Item();
    }
    return 'done';
};
",
    );
    let server = start_app(code, "entry = \"index.php\"\nworkers = 1");
    searched(&server, &["/cart/a", "/"], &["--requests", "40"]).ends_with(&server, 3).says(&[
        "GET /cart/* keeps 1 Item and ",
        "Cart::$all grows by 1\n",
        "GET /*  20 requests: nothing kept",
    ]);
}

/// The example applications, and a site of Django's: their caches fill, and then nothing is kept.
#[test]
fn frameworks_keep_nothing() {
    const PYTHON: &str = "interpreter = \"@PYTHON@\"\nenv = { COUNT_FILE = \"@DIR@/count\" }";
    const PHP: &str = "entry = \"public/index.php\"\noptions = [\"-d\", \"session.save_path=@DIR@\"]\n\
                       env = { APP_ENV = \"prod\", APP_CACHE_DIR = \"@DIR@/cache\" }";
    let applications = [
        ("wsgi-flask", format!("entry = \"shop.wsgi:application\"\n{PYTHON}")),
        ("wsgi-flask", format!("entry = \"shop.wsgi:application\"\nthreads = 2\n{PYTHON}")),
        ("asgi-starlette", format!("entry = \"chat.asgi:application\"\n{PYTHON}")),
        ("sinatra", "entry = \"config.ru\"\nenv = { COUNT_FILE = \"@DIR@/count\" }".to_owned()),
        ("symfony", PHP.to_owned()),
        ("slim", PHP.to_owned()),
    ];
    for (folder, keys) in applications {
        let app = format!("directory = \"@EXAMPLES@/{folder}\"\nworkers = 1\n{keys}");
        keeps_nothing(&start_app(("none", ""), &app), &["/", "/products", "/cookies"]);
    }
}

#[test]
fn django_keeps_nothing() {
    let config = "[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\napp = \"shop\"\n\
                  [app.shop]\nentry = \"manage.py\"\ndirectory = \"@APPS@/django_site\"\ninterpreter = \"@PYTHON@\"\n\
                  workers = 1\nuser = \"root\"\nenv = { DATA = \"@DIR@/data\" }\n";
    let server = Server::start_with(config, |command| {
        let data = command.get_current_dir().expect("a folder").join("data");
        std::fs::create_dir_all(&data).expect("a folder");
        let site = keepwarm_tests::apps().join("django_site");
        let mut prepare = Command::new(keepwarm_tests::python());
        tools::run_ok(prepare.arg("prepare.py").current_dir(site).env("DATA", data), LONG);
    })
    .warm("/admin/login/");
    keeps_nothing(&server, &["/admin/login/"]);
}

#[track_caller]
fn keeps_nothing(server: &Server, paths: &[&str]) {
    searched(server, paths, &["--requests", "40"])
        .ends_with(server, 0)
        .says(&["app shop keeps nothing\n", "GET /*  40 requests: nothing kept"]);
}

/// In development: the log says it, once, and `keepwarm leaks` has the precedence.
#[test]
fn an_app_that_wants_it_is_measured_without_being_asked() {
    const SAID: &str = "GET /cart/* keeps 1 leaky.Item and ";
    let server = python("application", "workers = 2\nleaks = true");
    let mut client = server.client().patient(LONG);
    let mut ask = |path: &str| assert_eq!(client.ask(get(path)).status, 200, "{}", server.log());
    wait_until("it is in the log", LONG, || {
        ask("/cart/a");
        server.log().contains(SAID)
    });
    (0..50).for_each(|_| ask("/cart/a"));
    searched(&server, &["/cart/a", "/"], &["--requests", "40"]).ends_with(&server, 3);
    (0..50).for_each(|_| ask("/cart/a"));
    let log = server.log();
    assert_eq!(log.matches(SAID).count(), 1, "{log}");
    let line = log.lines().find(|line| line.contains(SAID)).expect("the line");
    for part in
        ["WARN", "app=shop", "leaky.cache grows by 1, made at leaky.py:6", "`keepwarm leaks shop` shows more"]
    {
        assert!(line.contains(part), "no {part:?} in {line}");
    }
}

#[test]
fn a_reload_begins_and_ends_what_is_measured_without_being_asked() {
    let keys = |leaks: bool| {
        format!(
            "[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\napp = \"shop\"\n[app.shop]\n\
             entry = \"leaky:application\"\ninterpreter = \"@PYTHON@\"\nworkers = 1\nleaks = {leaks}\n"
        )
    };
    let server = Server::start_with(&keys(false), |command| {
        let folder = command.get_current_dir().expect("it has a directory");
        std::fs::write(folder.join(PYTHON.0), PYTHON.1).expect("written");
    })
    .warm("/");
    server.reload_with(&keys(true));
    let mut client = server.client().patient(LONG);
    wait_until("it is in the log", LONG, || {
        assert_eq!(client.ask(get("/cart/a")).status, 200);
        server.log().contains("GET /* keeps 1 leaky.Item and ")
    });
    server.reload_with(&keys(false));
    let worker = server.workers()[0];
    // Nothing is counted any more: what the worker traced with is not in use.
    let before = server.log().matches("keeps").count();
    (0..100).for_each(|_| assert_eq!(client.ask(get("/cart/a")).status, 200));
    assert_eq!((server.log().matches("keeps").count(), server.workers()), (before, vec![worker]));
}
