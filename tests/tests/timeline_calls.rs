//! Which calls of an app are known to be those of which request (`calls` in `/recent` of `GET /events`).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use keepwarm_tests::events::Events;
use keepwarm_tests::origin::{After, Gate, Origin, ok};
use keepwarm_tests::otlp::Collector;
use keepwarm_tests::{Server, get};
use serde_json::Value;

const LONG: Duration = Duration::from_secs(60);

/// Fails each request after it has called `/DOOR/...?calls=N&with=HEADER`: what it is by then is seen in the list of failed requests. `DOOR` is `tcp` or `unix`.
const APP: &str = "import http.client, os, socket, urllib.parse
tcp = urllib.parse.urlsplit(os.environ['KEEPWARM_UPSTREAM_TCP'])
class Local(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect('door.sock')
def application(environ, start_response):
    asked = dict(urllib.parse.parse_qsl(environ['QUERY_STRING']))
    door = environ['PATH_INFO'].split('/')[1]
    headers = {}
    if asked.get('with') == 'id':
        headers['X-Request-Id'] = environ['HTTP_X_REQUEST_ID']
    elif asked.get('with') == 'trace':
        headers['traceparent'] = environ['HTTP_TRACEPARENT']
    elif asked.get('with') == 'span':
        version, trace, parent, flags = environ['HTTP_TRACEPARENT'].split('-')
        headers['traceparent'] = '-'.join([version, trace, '1111111111111111', flags])
    elif asked.get('with') == 'forged':
        # Of this process, and of a request that will never come.
        own = environ['HTTP_X_REQUEST_ID']
        headers['X-Request-Id'] = own[:16] + 'f' + own[17:]
    elif 'with' in asked:
        headers['X-Request-Id'] = asked['with']
    if asked.get('as') == 'child':
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            start_response('500 As The Test Wants It', [('Content-Length', '0')])
            return []
    connection = Local('door') if door == 'unix' else http.client.HTTPConnection(tcp.hostname, tcp.port)
    for call in range(int(asked.get('calls', 1))):
        connection.request('GET', '/' + environ['PATH_INFO'].split('/')[-1], headers=headers)
        connection.getresponse().read()
    if asked.get('as') == 'child':
        os._exit(0)
    start_response('500 As The Test Wants It', [('Content-Length', '0')])
    return []
";

fn config(origin: SocketAddr, more: &str) -> String {
    format!(
        "[server]\nthreads = 1\n[admin]\nbind = \"127.0.0.1:0\"\n[listen.main]\nbind = \"127.0.0.1:0\"\n\
         [[listen.main.route]]\nrequest_headers = {{ set = {{ X-Request-Id = \"$request_id\" }} }}\napp = \"app\"\n\
         [app.app]\nentry = \"calls:application\"\ninterpreter = \"@PYTHON@\"\nworkers = 1\n\
         [upstream.tcp]\nurl = \"http://{origin}\"\nbind = \"127.0.0.2:0\"\n\
         [upstream.unix]\nurl = \"http://{origin}\"\nbind = \"unix:@DIR@/door.sock\"\n{more}"
    )
}

fn start(origin: &Origin, more: &str) -> Server {
    start_with(&config(origin.address(), more))
}

fn start_with(config: &str) -> Server {
    let place = |command: &mut std::process::Command| {
        let folder = command.get_current_dir().expect("a folder");
        std::fs::write(folder.join("calls.py"), APP).expect("written");
    };
    Server::spawn(config, place).listening()
}

/// The failed request to this path.
fn failed(server: &Server, path: &str) -> Value {
    let of_path = |snapshot: &Value| {
        let failed = snapshot["recent"]["failed"].as_array().expect("a list");
        failed.iter().find(|request| request["path"] == *path).cloned()
    };
    let snapshot = Events::open(server).wait_for(path, |snapshot| of_path(snapshot).is_some());
    of_path(&snapshot).expect("waited for")
}

/// By what each of its calls is known.
fn known_by(request: &Value) -> Vec<&str> {
    let calls = request["calls"].as_array().expect("a list");
    calls.iter().map(|call| call["known_by"].as_str().expect("a name")).collect()
}

/// The apps that are known to have called this upstream.
fn apps_of(snapshot: &Value, upstream: &str) -> Value {
    let upstreams = snapshot["why"]["upstreams"].as_array().expect("a list");
    let of_name = upstreams.iter().find(|known| known["name"] == *upstream);
    of_name.map_or(Value::Null, |upstream| upstream["apps"].clone())
}

fn seconds(of: &Value, member: &str) -> f64 {
    of[member].as_f64().unwrap_or_else(|| panic!("{member}: {of:#}"))
}

#[test]
fn a_call_with_the_id_of_its_request_is_known_by_it() {
    let origin = Origin::fixed("found");
    let server = start(&origin, "");
    server.ask(get("/tcp/one?calls=3&with=id"));
    server.ask(get("/tcp/other?calls=1&with=id"));
    let request = failed(&server, "/tcp/one");
    assert_eq!(known_by(&request), ["request_id"; 3]);
    assert_eq!(request["call_count"], 3);
    let calls = request["calls"].as_array().expect("a list");
    let mut end = 0.0;
    for call in calls {
        assert_eq!(
            (&call["upstream"], &call["status"], &call["failure"]),
            (&"tcp".into(), &200.into(), &Value::Null)
        );
        assert_eq!(call["endpoint"], origin.address().to_string());
        assert!(seconds(call, "start_seconds") >= end, "one after the other: {request:#}");
        end = seconds(call, "start_seconds") + seconds(call, "seconds");
        let parts: f64 = ["queue", "connect", "first_byte", "body"]
            .iter()
            .map(|part| seconds(call, &format!("{part}_seconds")))
            .sum();
        assert!((parts - seconds(call, "seconds")).abs() < 1e-6, "{call:#}");
    }
    let app = seconds(&request["phases"], "read_seconds") + seconds(&request["phases"], "queue_seconds");
    assert!(seconds(&calls[0], "start_seconds") >= app, "it begins in the app: {request:#}");
    assert!(end <= seconds(&request, "seconds"), "{request:#}");
    assert_eq!(failed(&server, "/tcp/other")["call_count"], 1);
}

#[test]
fn a_call_in_the_trace_of_its_request_is_known_by_it() {
    let (origin, collector) = (Origin::fixed("found"), Collector::start());
    let otlp = format!(
        "[upstream.collector]\nurl = \"http://{}\"\n[otlp]\nupstream = \"collector\"\n[otlp.traces]\nsample = \"0%\"\n",
        collector.address()
    );
    let server = start(&origin, &otlp);
    for with in ["trace", "span"] {
        server.ask(get(&format!("/tcp/{with}?calls=2&with={with}")));
        let request = failed(&server, &format!("/tcp/{with}"));
        assert_eq!(known_by(&request), ["trace"; 2], "{request:#}");
        assert_eq!(request["trace_id"].as_str().map(str::len), Some(32));
    }
}

/// Two requests of one trace: whose the spans of an app are is not known then, and is not guessed.
#[test]
fn a_trace_of_several_requests_names_the_one_whose_span_a_call_carries() {
    let (origin, collector) = (Origin::fixed("found"), Collector::start());
    let otlp = format!(
        "[upstream.collector]\nurl = \"http://{}\"\n[otlp]\nupstream = \"collector\"\n[otlp.traces]\nsample = \"0%\"\n",
        collector.address()
    );
    let text = config(origin.address(), &otlp)
        .replace("threads = 1", "threads = 1\ntrusted_proxies = [\"127.0.0.1\"]");
    let server = start_with(&text);
    for (with, expected) in [("span", 0), ("trace", 1)] {
        let trace = "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        server.ask(format!("GET /tcp/{with}?with={with} HTTP/1.1\r\nHost: a\r\n{trace}\r\n\r\n"));
        assert_eq!(failed(&server, &format!("/tcp/{with}"))["call_count"], expected, "{with}");
    }
}

#[test]
fn a_call_over_a_unix_socket_is_known_by_the_process_of_a_worker_with_one_request() {
    let origin = Origin::fixed("found");
    let server = start(&origin, "");
    for number in 0..3 {
        server.ask(get(&format!("/unix/{number}?calls=2")));
    }
    for number in 0..3 {
        let request = failed(&server, &format!("/unix/{number}"));
        assert_eq!(known_by(&request), ["time"; 2], "{request:#}");
        assert_eq!(request["calls"][0]["upstream"], "unix");
    }
}

/// Which of its requests a worker calls for is not known then, and is not guessed; only its app is.
#[test]
fn a_worker_with_several_requests_at_once_is_not_known_by_time() {
    let origin = Origin::fixed("found");
    let text = config(origin.address(), "").replace("workers = 1\n", "workers = 1\nthreads = 2\n");
    let server = start_with(&text);
    let mut events = Events::open(&server);
    events.wait_for("a second has passed", |snapshot| snapshot["window_seconds"].as_u64() >= Some(1));
    server.ask(get("/unix/silent?calls=2"));
    server.ask(get("/unix/named?calls=3&with=id"));
    assert_eq!(failed(&server, "/unix/named")["call_count"], 3);
    assert_eq!(failed(&server, "/unix/silent")["call_count"], 0);
    // They are known to be its app's.
    events.wait_for("all are of the app", |snapshot| apps_of(snapshot, "unix")[0]["calls"] == 5);
}

/// TCP does not tell the process, and a process that the worker has started is not the worker. It is looked for while the call lasts.
#[test]
fn a_long_call_is_known_by_the_process_of_a_worker_with_one_request() {
    // An id that is not one of this process's requests names nobody.
    let foreign = ["&with=order-17", "&with=00000000000000000000000000000001"];
    for (door, process, with) in [
        ("tcp", "worker", ""),
        ("tcp", "foreign", foreign[0]),
        ("tcp", "foreign", foreign[1]),
        ("tcp", "child", ""),
        ("unix", "child", ""),
    ] {
        let gate = Arc::new(Gate::default());
        let held = Arc::clone(&gate);
        let origin = Origin::start(move |_, stream| {
            held.wait();
            ok(stream, b"found");
            After::Keep
        });
        let debug = "threads = 1\nlog = { level = \"debug\" }";
        let server = start_with(&config(origin.address(), "").replace("threads = 1", debug));
        let mut client = server.client().patient(LONG);
        client.send(get(&format!("/{door}/{process}?calls=2&as={process}{with}")));
        server.wait_for_log("workers behind calls wanted=1 found=1", LONG);
        gate.open();
        assert_eq!(client.response("GET").status, 500);
        let request = failed(&server, &format!("/{door}/{process}"));
        assert_eq!(
            known_by(&request),
            ["time"; 2],
            "the second call is over the same connection: {request:#}"
        );
    }
}

#[test]
fn a_call_with_the_name_of_another_request_is_of_no_request() {
    let origin = Origin::fixed("found");
    let server = start(&origin, "");
    server.ask(get("/tcp/forged?with=forged"));
    let request = failed(&server, "/tcp/forged");
    assert_eq!((&request["call_count"], known_by(&request).len()), (&0.into(), 0), "{request:#}");
    assert_eq!(origin.requests().len(), 1);
}

/// A request that is given up leaves its call behind: Keepwarm reads the response to its end, as of any client that has closed its side.
#[test]
fn a_request_that_times_out_has_the_call_that_it_waited_for() {
    let gate = Arc::new(Gate::default());
    let held = Arc::clone(&gate);
    let origin = Origin::start(move |request, stream| {
        if request.target() == "/stuck" {
            held.wait();
        }
        ok(stream, b"found");
        After::Keep
    });
    let text =
        config(origin.address(), "").replace("workers = 1\n", "workers = 1\nrequest_timeout = \"1s\"\n");
    let server = start_with(&text);
    let mut client = server.client().patient(LONG);
    client.send(get("/tcp/stuck?with=id"));
    assert_eq!(client.response("GET").status, 504);
    gate.open();
    let snapshot = Events::open(&server)
        .wait_for("its call has ended, too", |snapshot| snapshot["recent"]["failed"][0]["call_count"] == 1);
    let request = &snapshot["recent"]["failed"][0];
    assert_eq!((&request["reason"], known_by(request)), (&"request_timeout".into(), vec!["request_id"]));
    let phases = &request["phases"];
    assert!(seconds(&request["calls"][0], "start_seconds") >= seconds(phases, "read_seconds"), "{request:#}");
}

/// With several apps `keepwarm why` knows the share of an upstream from calls that name their requests.
#[test]
fn an_upstream_has_the_calls_of_each_app_that_are_known() {
    let origin = Origin::fixed("found");
    let other = "[app.other]\nentry = \"calls:application\"\ninterpreter = \"@PYTHON@\"\nworkers = 1\n";
    let text = config(origin.address(), other).replace(
        "[[listen.main.route]]",
        "[[listen.main.route]]\npath = \"/tcp/other\"\napp = \"other\"\n[[listen.main.route]]",
    );
    let server = start_with(&text);
    // What has come before the first sample is of no second.
    let mut events = Events::open(&server);
    events.wait_for("a second has passed", |snapshot| snapshot["window_seconds"].as_u64() >= Some(1));
    server.ask(get("/tcp/mine?calls=3&with=id"));
    server.ask(get("/tcp/other?calls=5&with=forged"));
    let snapshot = Events::open(&server)
        .wait_for("they are counted", |snapshot| apps_of(snapshot, "tcp") != Value::Array(vec![]));
    let apps = apps_of(&snapshot, "tcp");
    assert_eq!(apps.as_array().map(Vec::len), Some(1), "{apps:#}");
    assert_eq!((&apps[0]["name"], &apps[0]["calls"]), (&"app".into(), &3.into()));
    let share = seconds(&apps[0], "share");
    assert!(share > 0.0 && share <= 1.0, "{apps:#}");
}
