//! Slow requests and timeouts: which worker reports its stack, which is killed, and what happens to the requests beside it.

use std::time::Duration;

use keepwarm_tests::process::wait_until;
use keepwarm_tests::{Client, Failure, Server, get};

const LONG: Duration = Duration::from_secs(90);

fn config(entry: &str, workers: u32, more: &str) -> String {
    format!(
        "[listen.main]\nbind = \"127.0.0.1:0\"\naccess_log = \"text\"\n[[listen.main.route]]\npath = \"/hang\"\napp = \"app\"\n\
         [[listen.main.route]]\napp = \"app\"\n\
         [app.app]\nentry = \"{entry}:application\"\ndirectory = \"@APPS@\"\ninterpreter = \"@PYTHON@\"\nworkers = {workers}\n\
         env = {{ DIR = \"@DIR@\" }}\nqueue_timeout = \"80s\"\nstart_retries = 20\n{more}\n"
    )
}

fn start(entry: &str, workers: u32, more: &str) -> Server {
    Server::start(&config(entry, workers, more)).warm("/who")
}

/// Sends, and leaves the response for later.
fn sent(server: &Server, request: &str) -> Client {
    let mut client = server.client().patient(LONG);
    client.send(request);
    client
}

fn patient(server: &Server, path: &str) -> u16 {
    server.client().patient(LONG).ask(get(path)).status
}

/// How often a request with this id was begun.
fn begun(server: &Server, id: &str) -> usize {
    let lines = std::fs::read_to_string(server.folder().join("count")).unwrap_or_default();
    lines.lines().filter(|line| line.split(' ').nth(1) == Some(id)).count()
}

#[track_caller]
fn wait_begun(server: &Server, id: &str) {
    wait_until(&format!("{id} is in work"), LONG, || begun(server, id) > 0);
}

fn open_gate(server: &Server, name: &str) {
    std::fs::write(server.folder().join(name), "").expect("a gate");
}

#[track_caller]
fn pid(client: &mut Client) -> u64 {
    let response = client.response("GET");
    assert_eq!(response.status, 200, "{client}");
    response.json()["pid"].as_u64().expect("a pid")
}

/// When the first line with this part was logged. The order of lines says less: several threads write them.
#[track_caller]
fn time(server: &Server, part: &str) -> String {
    let line = server.wait_for_log(part, LONG);
    line.split(' ').next().expect("a time").to_owned()
}

/// An app of each kind that passes streams on, with one second for a request.
fn with_streams(limits: &str) -> Vec<Server> {
    let node = "kind = \"http\"\ncommand = [\"node\", \"@APPS@/node_app.js\"]";
    let asgi = "entry = \"hard_asgi_app:application\"\ndirectory = \"@APPS@\"\ninterpreter = \"@PYTHON@\"";
    let start = |app: &str| {
        Server::start(&format!(
            "[listen.main]\nbind = \"127.0.0.1:0\"\nlimits = {{ {limits} }}\n[[listen.main.route]]\napp = \"app\"\n\
             [app.app]\n{app}\nworkers = 1\nqueue_timeout = \"80s\"\nenv = {{ DIR = \"@DIR@\" }}\nrequest_timeout = \"1s\"\n"
        ))
    };
    vec![start(asgi), start(node)]
}

/// A response of this media type that has begun.
fn begun_stream(server: &Server, kind: &str) -> Client {
    let mut client = sent(server, &get(&format!("/quiet?type={kind}")));
    client.read_through(b"first,\r\n");
    client
}

#[test]
fn a_stream_may_be_silent_for_longer_than_a_request_may_take() {
    for server in with_streams("") {
        let mut streams: Vec<Client> = ["text/event-stream", "application/grpc+proto"]
            .into_iter()
            .map(|kind| begun_stream(&server, kind))
            .collect();
        // It begins later, and is cut for its silence while they are not.
        begun_stream(&server, "text/plain").expect_end();
        server.wait_for_log("request timed out", LONG);
        assert_eq!(patient(&server, "/release"), 200);
        for stream in &mut streams {
            stream.read_through(b"last");
        }
    }
}

#[test]
fn a_stream_whose_client_may_have_left_may_not() {
    for server in with_streams("") {
        let mut stream = begun_stream(&server, "text/event-stream");
        stream.half_close();
        stream.expect_end();
        server.wait_for_log("limit=1s", LONG);
    }
}

#[test]
fn a_stream_may_not_be_silent_for_longer_than_a_websocket() {
    for server in with_streams("websocket_idle = \"2s\"") {
        begun_stream(&server, "text/event-stream").expect_end();
        server.wait_for_log("limit=2s", LONG);
        assert_eq!(patient(&server, "/release"), 200, "its worker stays");
    }
}

#[test]
fn the_stack_of_a_stuck_worker_is_logged_and_it_is_killed() {
    // Asleep, and in C with the interpreter's lock in its hand: neither runs a line of Python.
    for (path, function) in [("/hang", "in hang"), ("/hold", "in hold_the_lock")] {
        let server = start("hard_app", 1, "request_timeout = \"2s\"");
        let before = server.workers();
        let mut client = sent(
            &server,
            &format!("GET {path}?id=x HTTP/1.1\r\nHost: a\r\nAccept: application/json\r\n\r\n"),
        );
        let response = client.response("GET");
        assert_eq!(response.status, 504, "{client}");
        assert_eq!(response.json()["reason"], "request_timeout", "{client}");
        let stack = time(&server, function);
        let killed = time(&server, "killed by signal 9");
        assert!(stack <= killed, "the stack comes first\n{}", server.log());
        server.wait_for_log("request timed out", LONG);
        assert_eq!(patient(&server, "/who"), 200);
        assert!(server.workers().iter().all(|pid| !before.contains(pid)), "another worker");
        assert_eq!(begun(&server, "x"), 1, "never given again, though its method is safe");
    }
}

/// An application's `close` runs after its response.
#[test]
fn no_request_waits_for_a_close() {
    let server = start("hard_app", 2, "");
    for round in 0..3 {
        let name = format!("go-{round}");
        let mark = server.mark();
        let response = server.client().patient(LONG).ask(get(&format!("/behind?name={name}")));
        for _ in 0..5 {
            let who = sent(&server, &get("/who"));
            assert_ne!(pid(&mut { who }).to_string(), response.text());
        }
        open_gate(&server, &name);
        server.wait_for_log_after(mark, "done behind the response", LONG);
    }
}

/// No client waits for it, so that only Keepwarm can notice.
#[test]
fn a_worker_that_never_comes_back_from_after_a_response_is_replaced() {
    let server = start("hard_app", 1, "request_timeout = \"2s\"");
    let before = server.workers();
    // It is quick, so that it is given requests ahead.
    (0..30).for_each(|_| assert_eq!(patient(&server, "/who"), 200));
    let response = server.client().patient(LONG).ask(get("/behind?name=never"));
    assert_eq!(response.text(), before[0].to_string());
    // A request after it was not begun, and waits for the worker that comes.
    let mut waiting = sent(&server, "POST /who?id=waits HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi");
    assert_ne!(pid(&mut waiting).to_string(), response.text());
    assert_eq!(begun(&server, "waits"), 1);
    server.wait_for_log("still busy after its response", LONG);
    let stack = time(&server, "in close");
    assert!(stack <= time(&server, "killed by signal 9"), "{}", server.log());
}

#[test]
fn a_time_out_ends_only_the_request_in_a_worker_of_many() {
    let server = start("hard_asgi_app", 1, "request_timeout = \"2s\"");
    let before = server.workers();
    let mut hanging = sent(&server, &get("/hang"));
    assert_eq!(hanging.response("GET").status, 504, "{hanging}");
    // The log shows where it hung, down to the last await.
    server.wait_for_log("GET /hang timed out; it is cancelled here", LONG);
    server.wait_for_log("in deeper", LONG);
    assert_eq!(patient(&server, "/who"), 200);
    assert_eq!(server.workers(), before);
}

/// Its time stood still while it waited for its client, and never ran again.
#[test]
fn an_application_that_hangs_once_its_client_has_caught_up_is_timed_out() {
    let server = start("hard_asgi_app", 1, "request_timeout = \"2s\"");
    let mut slow = server.client().patient(LONG);
    rustix::net::sockopt::set_socket_recv_buffer_size(slow.stream(), 65_536).expect("SO_RCVBUF");
    slow.send(get("/late"));
    server.wait_for_log("it waits for its client", LONG);
    assert!(matches!(slow.try_response("GET"), Err(Failure::Cut(_) | Failure::Reset(_))), "{slow}");
    server.wait_for_log("request timed out", LONG);
    // The same for a request's body: there is no credit for the client's bytes.
    let mut upload = server.client().patient(LONG);
    upload.send("POST /gate?shut HTTP/1.1\r\nHost: a\r\nContent-Length: 4000000\r\n\r\n");
    wait_until("the app has the request", LONG, || server.folder().join("at-shut").exists());
    upload.send(vec![b'x'; 1_000_000]);
    assert_eq!(upload.response("POST").status, 504, "{upload}");
}

#[test]
fn a_worker_of_many_that_does_not_turn_any_more_is_killed() {
    let server = start("hard_asgi_app", 1, "request_timeout = \"2s\"");
    let before = server.workers();
    let mut blocking = sent(&server, &get("/block"));
    assert_eq!(blocking.response("GET").status, 504, "{blocking}");
    let stack = time(&server, "in block");
    assert!(stack <= time(&server, "killed by signal 9"), "{}", server.log());
    server.wait_for_log("responds to nothing any more", LONG);
    wait_until("another worker serves", LONG, || {
        server.client().patient(LONG).ask(get("/who")).status == 200
    });
    assert!(server.workers().iter().all(|pid| !before.contains(pid)), "another worker");
}

#[test]
fn a_time_out_in_one_thread_costs_the_others_no_more_than_a_death() {
    let server = start("hard_app", 2, "threads = 4\nrequest_timeout = \"10s\"");
    let mut hanging = sent(&server, &get("/hang?id=hangs"));
    wait_begun(&server, "hangs");
    // The others begin later, so that their own time is not over with it.
    std::thread::sleep(Duration::from_secs(5));
    let mut safe = beside(&server, "GET", "hangs");
    let mut others = beside(&server, "POST", "hangs");
    assert_eq!(hanging.response("GET").status, 504, "{hanging}");
    server.wait_for_log("killed by signal 9", LONG);
    open_gate(&server, "gate");
    // Without a response so far, and safe: retried.
    let (id, client) = &mut safe;
    assert_ne!(pid(client).to_string(), worker_of(&server, "hangs"));
    assert_eq!(begun(&server, id), 2);
    // Not safe: the truth.
    let (id, client) = &mut others;
    assert_eq!(client.response("POST").status, 502, "{client}");
    assert_eq!(begun(&server, id), 1);
    server.wait_for_log("reason=worker_timed_out", LONG);
}

/// A request that waits at the gate, in the worker that has the other one.
#[track_caller]
fn beside(server: &Server, method: &str, other: &str) -> (String, Client) {
    let mut elsewhere = Vec::new();
    for number in 0..8 {
        let id = format!("{method}{number}");
        let line =
            format!("{method} /gate?name=gate&id={id} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
        let client = sent(server, &line);
        wait_begun(server, &id);
        if worker_of(server, &id) == worker_of(server, other) {
            return (id, client);
        }
        elsewhere.push(client);
    }
    panic!("the workers are chosen in turn\n{}", server.log());
}

/// The process that began the request of this id first.
#[track_caller]
fn worker_of(server: &Server, id: &str) -> String {
    let lines = std::fs::read_to_string(server.folder().join("count")).expect("counted");
    let line = lines.lines().find(|line| line.split(' ').nth(1) == Some(id)).expect("it has begun");
    line.split(' ').next().expect("a pid").to_owned()
}

#[test]
fn a_slow_request_is_logged_with_its_workers_stack_and_continues() {
    let server = start("hard_app", 1, "slow_log = \"300ms\"");
    let mut slow = sent(&server, &get("/gate?name=gate&id=slow"));
    let line = server.wait_for_log("slow request", LONG);
    for part in ["app=app", "worker=1", "route=\"GET /*\"", "id="] {
        assert!(line.contains(part), "{part} in {line}");
    }
    server.wait_for_log("in gate", LONG);
    // Once for a request, however long it runs.
    let ticks = get("/who");
    std::thread::sleep(Duration::from_millis(900));
    open_gate(&server, "gate");
    assert_eq!(slow.response("GET").status, 200, "{slow}");
    assert_eq!(server.ask(ticks).status, 200);
    assert_eq!(server.log().matches("slow request").count(), 1, "{}", server.log());
    assert_eq!(begun(&server, "slow"), 1);
}

/// The two thirds of a second that it computes are its own, and so is the memory; the wait is not.
#[test]
fn a_slow_request_that_has_finished_says_what_it_took() {
    let server = start("hard_app", 1, "slow_log = \"200ms\"");
    assert_eq!(server.ask(get("/take?cpu=0.66&mib=40&wait=0.5")).status, 200);
    let line = server.wait_for_log("request finished; it was slow", LONG);
    let field = |name: &str| -> f64 {
        let (_, rest) = line.split_once(&format!(" {name}=")).unwrap_or_else(|| panic!("{name} in {line}"));
        rest.split(' ').next().expect("a value").parse().expect("a number")
    };
    assert!(line.contains("route=\"GET /*\"") && line.contains("id=") && line.contains("worker=1"), "{line}");
    assert!(field("seconds") > 1.1, "{line}");
    assert!((0.5..1.0).contains(&field("cpu_seconds")), "{line}");
    let mib = field("memory_gained") / f64::from(1 << 20);
    assert!((35.0..60.0).contains(&mib), "{line}");
    // One that is quick says nothing.
    assert_eq!(server.ask(get("/who")).status, 200);
    assert_eq!(server.log().matches("it was slow").count(), 1, "{}", server.log());
}

#[test]
fn the_clients_time_makes_no_request_slow() {
    // More than the app takes on a busy machine.
    let server = start("hard_app", 1, "slow_log = \"2s\"");
    let mut client = server.client();
    client.send("POST /digest HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n01234");
    std::thread::sleep(Duration::from_millis(2500)); // The client's time: longer than `slow_log`.
    client.send("56789");
    assert_eq!(client.response("POST").status, 200, "{client}");
    assert!(!server.log().contains("slow request"), "{}", server.log());
}

#[test]
fn a_worker_that_was_killed_over_memory_takes_its_requests_with_it() {
    let server = start("hard_app", 2, "kill_memory = \"150MiB\"");
    // A safe one, too: it may be what takes the memory, and would take it again.
    let mut client = sent(&server, &get("/grow?mib=200&id=grows"));
    let response = client.response("GET");
    assert_eq!(response.status, 502, "{client}");
    assert_eq!(begun(&server, "grows"), 1);
    server.wait_for_log("worker_memory", LONG);
    assert_eq!(patient(&server, "/who"), 200);
}
