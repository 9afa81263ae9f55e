//! Traces: `traceparent` on its way (W3C Trace Context, level 2), and the spans that a collector gets (OTLP/HTTP, semantic conventions for HTTP).

use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use keepwarm_tests::origin::{After, Gate, Origin, ok};
use keepwarm_tests::otlp::{Collector, Span, accept, respond};
use keepwarm_tests::process::wait_until;
use keepwarm_tests::tools::{nobody, run_ok};
use keepwarm_tests::{Server, admin, get};
use rustix::process::Signal;
use serde_json::Value;

const LONG: Duration = Duration::from_secs(60);
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

/// What the app gets of its request, as JSON; `/call` calls the door as an instrumented app does, `/slow` takes its time, `/fail` is an error.
const APP: &str = "import json, os, time, urllib.request
door = os.environ.get('KEEPWARM_UPSTREAM_SEARCH')
def application(environ, start_response):
    path = environ['PATH_INFO']
    seen = {name: value for name, value in environ.items() if name.startswith('HTTP_TRACE')}
    if path == '/call':
        trace = seen['HTTP_TRACEPARENT'].split('-')
        header = '-'.join([trace[0], trace[1], '1111111111111111', trace[3]])
        request = urllib.request.Request(door + '/found?q=1&sig=secret', headers={'traceparent': header})
        urllib.request.urlopen(request, timeout=20).read()
    if path == '/slow':
        time.sleep(2.1)
    start_response('500 Oh' if path == '/fail' else '200 OK', [('Content-Type', 'application/json')])
    return [json.dumps(seen).encode()]
";

/// A server whose response is the head that it got.
const SERVER: &str = "import os, http.server
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        body = str(self.headers).encode()
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    do_HEAD = do_OPTIONS = do_GET
http.server.ThreadingHTTPServer(('127.0.0.1', int(os.environ['PORT'])), Handler).serve_forever()
";

const SCRIPT: &str = "<?php echo json_encode(array_filter($_SERVER, fn($name) => str_starts_with($name, 'HTTP_TRACE'), ARRAY_FILTER_USE_KEY));
";

const OTLP: &str = "[otlp]\nupstream = \"collector\"\nservice_name = \"shop-edge\"\nresource = { \"deployment.environment.name\" = \"test\" }\n\
                    headers = { Api-Key = \"k-123\" }\n";

/// The app behind a listener that trusts its peers, and a collector; `more` continues `[otlp.traces]`.
fn config(collector: SocketAddr, traces: &str, more: &str) -> String {
    format!(
        "[server]\nthreads = 1\ntrusted_proxies = [\"127.0.0.1\"]\n[admin]\nbind = \"127.0.0.1:0\"\n\
         [listen.main]\nbind = \"127.0.0.1:0\"\naccess_log = {{ format = \"json\", file = \"@DIR@/requests\" }}\n\
         [app.app]\nentry = \"traced:application\"\ninterpreter = \"@PYTHON@\"\nworkers = 1\n\
         [upstream.collector]\nurl = \"http://{collector}\"\n\
         {OTLP}[otlp.traces]\ninterval = \"20ms\"\n{traces}\n{more}"
    )
}

fn start(config: &str) -> Server {
    Server::spawn(config, |command| {
        let folder = command.get_current_dir().expect("a folder");
        std::fs::write(folder.join("traced.py"), APP).expect("written");
        std::fs::write(folder.join("server.py"), SERVER).expect("written");
        std::fs::create_dir(folder.join("site")).expect("a folder");
        std::fs::write(folder.join("site/index.php"), SCRIPT).expect("written");
    })
    .listening()
}

fn with(path: &str, fields: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: shop.example:8080\r\nUser-Agent: test/1\r\n{fields}\r\n")
}

/// What the app got.
fn seen(server: &Server, path: &str, fields: &str) -> (Option<String>, Option<String>) {
    let response = server.ask(with(path, fields));
    let seen: Value = serde_json::from_str(&response.text()).expect("JSON");
    let value = |name: &str| seen[name].as_str().map(str::to_owned);
    (value("HTTP_TRACEPARENT"), value("HTTP_TRACESTATE"))
}

fn parts(traceparent: &str) -> (String, String, String) {
    let parts: Vec<&str> = traceparent.split('-').collect();
    let [version, trace, parent, flags] = parts.as_slice() else { panic!("{traceparent}") };
    assert_eq!((*version, trace.len(), parent.len()), ("00", 32, 16), "{traceparent}");
    ((*trace).to_owned(), (*parent).to_owned(), (*flags).to_owned())
}

#[test]
fn an_app_gets_the_trace_of_a_trusted_peer_with_a_span_of_keepwarm_as_its_parent() {
    let collector = Collector::start();
    let server = start(&config(collector.address(), "", ""));
    let fields = format!(
        "traceparent: 00-{TRACE}-{PARENT}-01\r\ntracestate: rojo=1, congo=t61\r\ntracestate: other=x\r\n"
    );
    let (parent, state) = seen(&server, "/came", &fields);
    let (trace, parent, flags) = parts(&parent.unwrap());
    assert_eq!((trace.as_str(), flags.as_str()), (TRACE, "01"));
    assert_ne!(parent, PARENT);
    assert_eq!(state.as_deref(), Some("rojo=1,congo=t61,other=x"));
    let request = collector.request("/came");
    assert_eq!((request.trace.as_str(), request.parent.as_str()), (TRACE, PARENT));
    let spans = collector.spans();
    let app = request.children(&spans).into_iter().find(|span| span.name == "app").expect("the app's time");
    assert_eq!(app.id, parent, "the parent of what the app does is its time in Keepwarm");
}

#[test]
fn a_trace_begins_where_none_comes_or_it_is_malformed() {
    let collector = Collector::start();
    let server = start(&config(collector.address(), "", ""));
    let mut traces = vec![TRACE.to_owned()];
    for (number, fields) in [
        String::new(),
        format!("traceparent: 00-{TRACE}-{PARENT}\r\ntracestate: a=1\r\n"),
        format!("traceparent: 00-{TRACE}-{PARENT}-01\r\ntraceparent: 00-{TRACE}-{PARENT}-01\r\n"),
        "tracestate: a=1\r\n".to_owned(),
    ]
    .iter()
    .enumerate()
    {
        let path = format!("/new/{number}");
        let (parent, state) = seen(&server, &path, fields);
        let (trace, _, flags) = parts(&parent.unwrap());
        // Sampled, and with an id chosen at random (level 2).
        assert_eq!((flags.as_str(), state), ("03", None), "{fields}");
        assert!(!traces.contains(&trace), "{trace}");
        let request = collector.request(&path);
        assert_eq!((&request.trace, request.parent.as_str()), (&trace, ""));
        traces.push(trace);
    }
    // A list that is not valid is dropped, and its trace is continued.
    let fields = format!("traceparent: 00-{TRACE}-{PARENT}-01\r\ntracestate: a=1,A=2\r\n");
    let (parent, state) = seen(&server, "/state", &fields);
    assert_eq!((parts(&parent.unwrap()).0.as_str(), state), (TRACE, None));
}

#[test]
fn a_client_that_is_not_trusted_cannot_choose_a_trace() {
    let collector = Collector::start();
    let config = config(collector.address(), "", "").replace("trusted_proxies = [\"127.0.0.1\"]\n", "");
    let server = start(&config);
    let fields = format!("traceparent: 00-{TRACE}-{PARENT}-01\r\ntracestate: a=1\r\n");
    let (parent, state) = seen(&server, "/mine", &fields);
    assert_ne!(parts(&parent.unwrap()).0, TRACE);
    assert_eq!(state, None);
    assert_eq!(collector.request("/mine").parent, "");
}

#[test]
fn without_otlp_an_app_gets_what_the_client_sent() {
    let collector = Collector::start();
    let whole = config(collector.address(), "", "");
    let off = whole.split("[upstream.collector]").next().unwrap();
    let server = start(off);
    let field = format!("00-{TRACE}-{PARENT}-01");
    let (parent, state) = seen(&server, "/", &format!("traceparent: {field}\r\ntracestate: a=1\r\n"));
    assert_eq!((parent, state), (Some(field), Some("a=1".to_owned())));
    assert_eq!(seen(&server, "/", ""), (None, None));
}

/// Every kind of app, and an upstream: the client's header never arrives, and there is one.
#[test]
fn servers_and_upstreams_get_one_traceparent() {
    let collector = Collector::start();
    // The head that it got is its response.
    let origin = Origin::start(|request, stream| {
        ok(stream, request.head.as_bytes());
        After::Keep
    });
    let more = format!(
        "[[listen.main.route]]\npath = \"/up/*\"\nupstream = \"search\"\n[[listen.main.route]]\npath = \"/server/*\"\napp = \"server\"\n\
         [app.server]\ncommand = [\"@PYTHON@\", \"server.py\"]\nworkers = 1\n[upstream.search]\nurl = \"http://{}\"\n\
         [[listen.main.route]]\napp = \"app\"\n",
        origin.address()
    );
    let server = start(&config(collector.address(), "", &more));
    let fields = format!("traceparent: 00-{TRACE}-{PARENT}-01\r\ntracestate: a=1\r\n");
    for path in ["/up/a", "/server/a"] {
        let got = server.ask(with(path, &fields)).text().to_ascii_lowercase();
        let values = |name: &str| got.lines().filter_map(|line| line.strip_prefix(name)).collect::<Vec<_>>();
        let [parent] = values("traceparent: ")[..] else { panic!("{got}") };
        let (trace, parent, _) = parts(parent);
        assert_eq!(trace, TRACE);
        assert_eq!(values("tracestate: "), ["a=1"], "{got}");
        let request = collector.request(path);
        assert_eq!(request.parent, PARENT);
        let spans = collector.wait_for("its child", 1, |span| span.id == parent);
        assert_eq!(spans[0].parent, request.id, "{path}");
    }
}

/// FastCGI has it as a variable, once.
#[test]
fn classic_php_gets_the_trace() {
    let collector = Collector::start();
    let more = "[[listen.main.route]]\npath = \"/site/*\"\napp = \"site\"\n[[listen.main.route]]\napp = \"app\"\n\
                [app.site]\nkind = \"fastcgi\"\nentry = \"site/index.php\"\nworkers = 1\n";
    let server = start(&config(collector.address(), "", more));
    let fields = format!("traceparent: 00-{TRACE}-{PARENT}-01\r\ntracestate: a=1\r\n");
    let (parent, state) = seen(&server, "/site/", &fields);
    let (trace, parent, _) = parts(&parent.unwrap());
    assert_eq!((trace.as_str(), state.as_deref()), (TRACE, Some("a=1")));
    let spans = collector.wait_for("its time in the app", 1, |span| span.id == parent);
    assert_eq!((spans[0].name.as_str(), spans[0].attribute("keepwarm.app")), ("app", "site"));
}

#[test]
fn a_request_of_http2_is_traced() {
    let collector = Collector::start();
    let server = start(&config(collector.address(), "", ""));
    let mut curl = Command::new("curl");
    curl.args(["-s", "--http2-prior-knowledge", "-H", &format!("traceparent: 00-{TRACE}-{PARENT}-01")]);
    let text = run_ok(curl.arg(server.url("/two")), LONG);
    let seen: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(parts(seen["HTTP_TRACEPARENT"].as_str().unwrap()).0, TRACE);
    let request = collector.request("/two");
    assert_eq!((request.parent.as_str(), request.attribute("network.protocol.version")), (PARENT, "2"));
}

/// What the route sets itself counts, and is not doubled.
#[test]
fn a_route_may_set_its_own_traceparent() {
    let collector = Collector::start();
    let own = format!("00-{TRACE}-{PARENT}-00");
    let more = format!(
        "[[listen.main.route]]\napp = \"app\"\nrequest_headers = {{ set = {{ traceparent = \"{own}\" }} }}\n"
    );
    let server = start(&config(collector.address(), "", &more));
    assert_eq!(seen(&server, "/", "").0, Some(own));
}

/// The service that decides about a request, and the target of its copies.
#[test]
fn subrequests_and_copies_are_part_of_the_trace() {
    let collector = Collector::start();
    let (auth, copy) = (Origin::fixed("yes"), Origin::fixed("copied"));
    let more = format!(
        "[[listen.main.route]]\napp = \"app\"\nauth_request = {{ upstream = \"auth\", path = \"/verify\" }}\nmirror = {{ upstream = \"copy\" }}\n\
         [upstream.auth]\nurl = \"http://{}\"\n[upstream.copy]\nurl = \"http://{}\"\n",
        auth.address(),
        copy.address()
    );
    let server = start(&config(collector.address(), "", &more));
    let (parent, _) =
        seen(&server, "/a", &format!("traceparent: 00-{TRACE}-{PARENT}-01\r\ntracestate: a=1\r\n"));
    assert_eq!(parts(&parent.unwrap()).0, TRACE);
    let request = collector.request("/a");
    copy.wait_until("the copy", |copy| !copy.requests().is_empty());
    for (name, origin) in [("auth", auth), ("copy", copy)] {
        let got = origin.last();
        let count = |name: &str| got.head.to_ascii_lowercase().matches(&format!("\n{name}: ")).count();
        assert_eq!((count("traceparent"), count("tracestate")), (1, 1), "{name}: {}", got.head);
        let (trace, parent, _) = parts(got.field("traceparent").unwrap());
        assert_eq!(trace, TRACE);
        let spans = collector.wait_for("its call", 1, |span| span.id == parent);
        assert_eq!((&spans[0].parent, spans[0].attribute("keepwarm.upstream")), (&request.id, name));
    }
}

/// One trace: the request, its time in the app, the app's own span, and the attempts of its call, of which the first fails.
#[test]
fn a_call_of_the_app_is_part_of_its_trace_attempt_by_attempt() {
    let collector = Collector::start();
    let first = AtomicBool::new(true);
    let origin = Origin::start(move |_, stream| match first.swap(false, Ordering::SeqCst) {
        true => respond(stream, "503 Busy", "", b""),
        false => {
            ok(stream, b"found");
            After::Keep
        }
    });
    let more = format!(
        "[upstream.search]\nurl = \"http://{}\"\nbind = \"127.0.0.2:0\"\nretries = 1\nretry_on = [\"503\"]\n",
        origin.address()
    );
    let server = start(&config(collector.address(), "", &more));
    assert_eq!(server.ask(with("/call", "")).status, 200);
    let request = collector.request("/call");
    let attempts = collector.wait_for("two attempts", 2, |span| span.kind == 3);
    assert_eq!(attempts.len(), 2, "{attempts:#?}");
    for attempt in &attempts {
        assert_eq!((&attempt.trace, attempt.parent.as_str()), (&request.trace, "1111111111111111"));
        assert_eq!(attempt.name, "GET");
        let address = origin.address();
        assert_eq!(attempt.attribute("url.full"), format!("http://{address}/found?q=1&sig=REDACTED"));
        assert_eq!(attempt.attribute("server.address"), "127.0.0.1");
        assert_eq!(attempt.attribute("server.port"), address.port().to_string());
        assert_eq!(attempt.attribute("network.peer.port"), address.port().to_string());
        assert_eq!(attempt.attribute("keepwarm.upstream"), "search");
        assert!(attempt.start >= request.start && attempt.end <= request.end, "{attempt:?}\n{request:?}");
    }
    let [failed, second] = attempts.as_slice() else { unreachable!() };
    assert_eq!((failed.attribute("http.response.status_code"), failed.status), ("503", 2));
    assert_eq!((failed.attribute("error.type"), failed.attribute("keepwarm.connection")), ("503", "new"));
    assert_eq!((second.attribute("http.response.status_code"), second.status), ("200", 0));
    assert_eq!(second.attribute("http.request.resend_count"), "1");
    let sent: Vec<String> = origin
        .requests()
        .iter()
        .map(|request| parts(request.field("traceparent").expect("a parent")).1)
        .collect();
    assert_eq!(sent, [failed.id.clone(), second.id.clone()], "each attempt is the parent of what it causes");
}

#[test]
fn a_request_has_the_attributes_of_the_conventions() {
    let collector = Collector::start();
    let more =
        "[[listen.main.route]]\npath = \"/a/*\"\napp = \"app\"\n[[listen.main.route]]\nrespond = 404\n";
    let server = start(&config(collector.address(), "", more));
    let before = nanos();
    assert_eq!(server.ask(with("/a/b?c=d&Signature=s", "")).status, 200);
    let request = collector.request("/a/b");
    assert_eq!((request.name.as_str(), request.kind, request.status), ("GET /a/*", 2, 0));
    for (name, value) in [
        ("http.request.method", "GET"),
        ("http.route", "/a/*"),
        ("url.scheme", "http"),
        ("url.query", "c=d&Signature=REDACTED"),
        ("http.response.status_code", "200"),
        ("network.protocol.version", "1.1"),
        ("server.address", "shop.example"),
        ("server.port", "8080"),
        ("client.address", "127.0.0.1"),
        ("network.peer.address", "127.0.0.1"),
        ("user_agent.original", "test/1"),
        ("keepwarm.app", "app"),
        ("error.type", ""),
    ] {
        assert_eq!(request.attribute(name), value, "{name}\n{request:#?}");
    }
    let resource = |name: &str| request.resource.get(name).cloned().unwrap_or_default();
    assert_eq!(resource("service.name"), "shop-edge");
    assert_eq!(resource("deployment.environment.name"), "test");
    assert_eq!(resource("process.pid"), server.pid().to_string());
    assert!(before <= request.start && request.start <= request.end && request.end <= nanos(), "{request:?}");
    let spans = collector.spans();
    let mut phases = request.children(&spans);
    phases.sort_by_key(|span| span.start);
    let names: Vec<(&str, u64)> = phases.iter().map(|span| (span.name.as_str(), span.kind)).collect();
    assert_eq!(names, [("queue", 1), ("app", 1)]);
    assert!(phases.iter().all(|span| span.start >= request.start && span.end <= request.end), "{phases:#?}");
    // Its trace is found by the log, and its line of the log by the trace.
    let log = || std::fs::read_to_string(server.folder().join("requests")).unwrap_or_default();
    wait_until("the request is recorded", LONG, || log().contains('\n'));
    let line: Value = serde_json::from_str(log().lines().next().unwrap()).unwrap();
    assert_eq!(line["trace_id"], request.trace);
    assert_eq!(line["request_id"], request.attribute("keepwarm.request_id"));
    // What the collector was told.
    let sent = collector.requests().remove(0);
    assert_eq!((sent.method(), sent.target()), ("POST", "/v1/traces"));
    assert_eq!(sent.field("content-type"), Some("application/x-protobuf"));
    assert_eq!(sent.field("api-key"), Some("k-123"));
    assert_eq!(sent.field("host"), Some(collector.address().to_string().as_str()));
}

fn nanos() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    u64::try_from(since.as_nanos()).unwrap()
}

/// All of its time is reading: it has waited for no worker, and its client has failed.
#[test]
fn a_request_whose_body_never_came_has_not_waited() {
    let collector = Collector::start();
    let server = start(&config(collector.address(), "", ""));
    let mut client = server.client();
    client.send("POST /left HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc");
    client.half_close();
    let request = collector.request("/left");
    assert_eq!((request.status, request.attribute("keepwarm.reason")), (0, "client_closed"));
    let spans = collector.spans();
    let phases = request.children(&spans);
    assert!(phases.iter().all(|span| span.start >= request.start && span.end <= request.end), "{phases:#?}");
    assert!(phases.iter().all(|span| span.name == "queue" && span.start == span.end), "{phases:#?}");
}

/// RFC 3986: what the upstream is asked for, which may be another path than the client's.
#[test]
fn an_attempt_has_the_url_that_its_upstream_gets() {
    let collector = Collector::start();
    let origin = Origin::fixed("hello");
    let more = format!(
        "[[listen.main.route]]\npath = \"/search/*\"\nupstream = \"search\"\nstrip_prefix = true\n\
         [upstream.search]\nurl = \"http://{}\"\n",
        origin.address()
    );
    let server = start(&config(collector.address(), "", &more));
    assert_eq!(server.ask(with("/search/a?b=c", "")).status, 200);
    let attempt = collector.wait_for("an attempt", 1, |span| span.kind == 3).remove(0);
    assert_eq!(origin.requests()[0].target(), "/a?b=c");
    assert_eq!(attempt.attribute("url.full"), format!("http://{}/a?b=c", origin.address()));
}

#[test]
fn an_unknown_method_makes_no_new_name() {
    let collector = Collector::start();
    let server = start(&config(collector.address(), "", ""));
    server.ask("BREW /pot HTTP/1.1\r\nHost: a\r\n\r\n");
    let request = collector.request("/pot");
    assert_eq!(request.attribute("http.request.method"), "_OTHER");
    assert_eq!(request.attribute("http.request.method_original"), "BREW");
    assert!(request.name.starts_with("HTTP"), "{}", request.name);
}

/// Without a share of its own: errors and slow ones only, and those that a peer has sampled.
#[test]
fn errors_and_slow_ones_are_always_sent() {
    let collector = Collector::start();
    let server = start(&config(collector.address(), "sample = \"0%\"\nslow = \"2s\"", ""));
    let (parent, _) = seen(&server, "/quick", "");
    assert_eq!(parts(&parent.unwrap()).2, "02", "not sampled");
    server.ask(with("/fail", ""));
    server.ask(with("/slow", ""));
    let not_sampled = format!("traceparent: 00-{TRACE}-{PARENT}-00\r\n");
    server.ask(with("/not-sampled", &not_sampled));
    server.ask(with("/sampled", &not_sampled.replace("-00\r", "-01\r")));
    collector.request("/sampled");
    let mut paths: Vec<String> = collector
        .spans()
        .iter()
        .filter(|span| span.kind == 2)
        .map(|span| span.attribute("url.path").to_owned())
        .collect();
    paths.sort();
    assert_eq!(paths, ["/fail", "/sampled", "/slow"]);
    let failed = collector.request("/fail");
    assert_eq!((failed.status, failed.attribute("error.type")), (2, "500"));
    assert_eq!(failed.flags & 1, 0, "it was not sampled");
}

#[test]
fn a_refused_call_is_a_span_of_its_trace() {
    let collector = Collector::start();
    let more = format!(
        "[[listen.main.route]]\nupstream = \"search\"\n[upstream.search]\nurl = \"http://{}\"\nretries = 0\n",
        nobody()
    );
    let server = start(&config(collector.address(), "", &more));
    assert_eq!(server.ask(with("/gone", "")).status, 502);
    let request = collector.request("/gone");
    assert_eq!((request.status, request.attribute("keepwarm.reason")), (2, "connect_refused"));
    let calls = collector.wait_for("an attempt", 1, |span| span.kind == 3);
    assert_eq!((&calls[0].parent, calls[0].status), (&request.id, 2));
    assert_eq!(calls[0].attribute("error.type"), "connect_refused");
    assert_eq!(calls[0].attribute("http.response.status_code"), "");
}

/// A request is not slower for it, and memory is bounded: what has no room is dropped and counted.
#[test]
fn a_collector_that_is_silent_costs_requests_nothing() {
    let gate = Gate::default();
    let held = gate.clone();
    let collector = Collector::responding(move |_, _, stream| {
        held.wait();
        accept(stream)
    });
    let more = "[[listen.main.route]]\nrespond = 200\n";
    let server = start(&config(collector.address(), "buffer = \"64KiB\"\nbatch = 10", more));
    let mut client = server.client();
    let begun = Instant::now();
    for _ in 0..500 {
        assert_eq!(client.ask(get("/fixed")).status, 200);
    }
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(15), "{took:?} with a collector that does not respond");
    let dropped = admin::wait_for_metric(&server, "keepwarm_spans_dropped_total", 1.0);
    gate.open();
    let count = || collector.spans().iter().filter(|span| span.kind == 2).count();
    wait_until("the rest is sent", LONG, || count() as f64 + dropped >= 500.0);
    assert_eq!(count() as f64 + dropped, 500.0);
}

#[test]
fn what_may_succeed_later_is_sent_again_and_nothing_else() {
    for (status, again) in [("503 Busy", true), ("429 Wait", true), ("500 Oh", false), ("400 Bad", false)] {
        let collector = Collector::responding(move |number, _, stream| match number {
            0 => respond(stream, status, "Retry-After: 1\r\n", b""),
            _ => accept(stream),
        });
        let server = start(&config(collector.address(), "", ""));
        let begun = Instant::now();
        server.ask(with("/one", ""));
        let log = server.wait_for_log("collector did not accept telemetry", LONG);
        assert!(log.contains(status.split(' ').next().unwrap()), "{log}");
        server.ask(with("/two", ""));
        wait_until("the second", LONG, || {
            collector.spans().iter().any(|span| span.attribute("url.path") == "/two")
        });
        let bodies: Vec<Vec<u8>> = collector.requests().into_iter().map(|request| request.body).collect();
        assert_eq!(bodies[1] == bodies[0], again, "{status}");
        if again {
            assert!(begun.elapsed() >= Duration::from_secs(1), "it was told to wait");
            server.wait_for_log("collector accepts telemetry again", LONG);
        }
        let outcome = if again { "sent" } else { "refused" };
        admin::wait_for_metric(
            &server,
            &format!("keepwarm_spans_exported_total{{outcome=\"{outcome}\"}}"),
            3.0,
        );
    }
}

#[test]
fn a_partial_success_is_counted_and_said() {
    // ExportTracePartialSuccess: two rejected, "too old".
    let body = b"\x0a\x0b\x08\x02\x12\x07too old";
    let collector = Collector::responding(move |_, _, stream| respond(stream, "200 OK", "", body));
    let server = start(&config(collector.address(), "", ""));
    server.ask(with("/one", ""));
    let line = server.wait_for_log("rejected a part", LONG);
    assert!(line.contains("too old") && line.contains("count=2"), "{line}");
    let exported = |outcome| format!("keepwarm_spans_exported_total{{outcome=\"{outcome}\"}}");
    assert_eq!(admin::wait_for_metric(&server, &exported("rejected"), 2.0), 2.0);
    assert_eq!(admin::wait_for_metric(&server, &exported("sent"), 1.0), 1.0);
    assert_eq!(collector.requests().len(), 1, "it is not sent again");
}

/// Garbage, a closed connection, and a page of another server.
#[test]
fn a_collector_that_is_none_is_named_and_harms_nothing() {
    type Talk = fn(&mut std::net::TcpStream) -> After;
    let cases: [(Talk, &str); 3] = [
        (
            |stream| {
                use std::io::Write;
                let _ = stream.write_all(b"garbage\r\n\r\n");
                After::Close
            },
            "status 502",
        ),
        (|_| After::Close, "status 502"),
        (
            |stream| {
                ok(stream, b"<html>");
                After::Keep
            },
            "without an OTLP response",
        ),
    ];
    for (talk, said) in cases {
        let collector = Collector::responding(move |number, _, stream| match number {
            0 => talk(stream),
            _ => accept(stream),
        });
        let server = start(&config(collector.address(), "", ""));
        assert_eq!(server.ask(with("/one", "")).status, 200);
        let line = server.wait_for_log("collector did not accept telemetry", LONG);
        assert!(line.contains(said), "{line}");
        assert_eq!(server.ask(with("/two", "")).status, 200);
        wait_until("the next spans arrive", LONG, || {
            collector.spans().iter().any(|span| span.attribute("url.path") == "/two")
        });
    }
}

#[test]
fn what_is_left_is_sent_at_the_end() {
    let collector = Collector::start();
    let server = start(&config(collector.address(), "", "").replace("\"20ms\"", "\"60s\""));
    server.ask(with("/last", ""));
    server.signal(Signal::TERM);
    assert!(server.wait_for_exit(LONG).success());
    assert_eq!(collector.request("/last").attribute("http.response.status_code"), "200");
}

#[test]
fn the_end_does_not_wait_for_a_silent_collector() {
    let gate = Gate::default();
    let held = gate.clone();
    let collector = Collector::responding(move |_, _, stream| {
        held.wait();
        accept(stream)
    });
    let server = start(&config(collector.address(), "", ""));
    server.ask(with("/lost", ""));
    wait_until("the collector has it", LONG, || !collector.requests().is_empty());
    let begun = Instant::now();
    server.signal(Signal::TERM);
    assert!(server.wait_for_exit(LONG).success());
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    assert!(server.log().contains("last telemetry"), "{}", server.log());
    gate.open();
}

#[test]
fn a_reload_begins_moves_and_ends_tracing() {
    let (first, second) = (Collector::start(), Collector::start());
    let on = config(first.address(), "", "");
    let off = on.split("[upstream.collector]").next().unwrap().to_owned();
    let server = start(&off);
    server.ask(with("/before", ""));
    server.reload_with(&on);
    server.ask(with("/one", ""));
    first.request("/one");
    server.reload_with(&config(second.address(), "", ""));
    server.ask(with("/two", ""));
    second.request("/two");
    server.reload_with(&off);
    assert_eq!(seen(&server, "/after", ""), (None, None));
    let paths = |collector: &Collector| -> Vec<String> {
        let of = |span: &Span| (span.kind == 2).then(|| span.attribute("url.path").to_owned());
        collector.spans().iter().filter_map(of).collect()
    };
    assert_eq!((paths(&first), paths(&second)), (vec!["/one".to_owned()], vec!["/two".to_owned()]));
}

/// Calls to the collector are not traced: each would cause another.
#[test]
fn sending_spans_makes_no_spans() {
    let collector = Collector::start();
    let server = start(&config(collector.address(), "", ""));
    server.ask(with("/one", ""));
    collector.request("/one");
    server.ask(with("/two", ""));
    collector.request("/two");
    let spans = collector.spans();
    assert!(spans.iter().all(|span| span.kind != 3), "{spans:#?}");
    let flags = |request: &keepwarm_tests::origin::Request| {
        request.field("traceparent").is_none_or(|parent| parent.ends_with("-00"))
    };
    assert!(collector.requests().iter().all(flags));
}

#[test]
fn what_is_sent_can_be_compressed() {
    let collector = Collector::start();
    let config = config(collector.address(), "", "").replace("[otlp]\n", "[otlp]\ncompression = \"gzip\"\n");
    let server = start(&config);
    server.ask(with("/small", ""));
    collector.request("/small");
    assert_eq!(collector.requests()[0].field("content-encoding"), Some("gzip"));
}

/// The first attempt is slow, and the second one beside it wins: both are spans.
#[test]
fn a_hedged_call_has_a_span_for_each_attempt() {
    let collector = Collector::start();
    let gate = Gate::default();
    let (held, first) = (gate.clone(), AtomicBool::new(true));
    let origin = Origin::start(move |_, stream| {
        if first.swap(false, Ordering::SeqCst) {
            held.wait();
        }
        ok(stream, b"found");
        After::Keep
    });
    let more = format!(
        "[upstream.search]\nendpoints = [{{ url = \"http://{0}\" }}, {{ url = \"http://localhost:{1}\" }}]\nbind = \"127.0.0.2:0\"\n\
         hedge = {{ after = \"50ms\", budget = \"100%\" }}\nbalance = \"round_robin\"\n",
        origin.address(),
        origin.address().port()
    );
    let server = start(&config(collector.address(), "", &more));
    assert_eq!(server.ask(with("/call", "")).status, 200);
    let attempts = collector.wait_for("two attempts", 2, |span| span.kind == 3);
    gate.open();
    assert_eq!(attempts.len(), 2, "{attempts:#?}");
    let outcome = |span: &Span| {
        (span.attribute("error.type").to_owned(), span.attribute("http.response.status_code").to_owned())
    };
    let outcomes: Vec<_> = attempts.iter().map(outcome).collect();
    assert_eq!(outcomes, [("hedged".to_owned(), String::new()), (String::new(), "200".to_owned())]);
    assert_eq!(attempts[0].parent, attempts[1].parent);
    let sent: Vec<String> =
        origin.requests().iter().map(|request| parts(request.field("traceparent").unwrap()).1).collect();
    assert_eq!(sent, [attempts[0].id.clone(), attempts[1].id.clone()]);
}

/// A host that is not an upstream, called through a forward proxy.
#[test]
fn a_call_through_a_forward_proxy_is_traced() {
    let collector = Collector::start();
    let origin = Origin::fixed("found");
    let more = "[listen.proxy]\nbind = \"127.0.0.2:0\"\nforward_proxy = { allow = [\"127.0.0.1\"] }\nroute = [{ respond = 404 }]\n";
    let server = start(&config(collector.address(), "", more));
    let line = server.wait_for_log("listening on http://127.0.0.2:", LONG);
    let port: u16 = line.rsplit(':').next().and_then(|port| port.trim().parse().ok()).expect("a port");
    let mut client = keepwarm_tests::Client::connect(SocketAddr::from(([127, 0, 0, 2], port)));
    let request = format!(
        "GET http://{0}/x HTTP/1.1\r\nHost: {0}\r\ntraceparent: 00-{TRACE}-{PARENT}-01\r\n\r\n",
        origin.address()
    );
    assert_eq!(client.ask(request).text(), "found");
    let calls = collector.wait_for("the call", 1, |span| span.kind == 3);
    assert_eq!((calls[0].trace.as_str(), calls[0].parent.as_str()), (TRACE, PARENT));
    assert_eq!(calls[0].attribute("keepwarm.upstream"), "forward_proxy");
    assert_eq!(calls[0].attribute("url.full"), format!("http://{}/x", origin.address()));
}
