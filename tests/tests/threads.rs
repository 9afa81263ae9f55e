//! Workers that take several requests at once: threads of a WSGI worker, the cap of an ASGI worker.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use keepwarm_tests::process::{self, wait_until};
use keepwarm_tests::{Client, Server, get, python};
use rustix::process::Signal;

const LONG: Duration = Duration::from_secs(90);

fn config(entry: &str, workers: u32, more: &str) -> String {
    format!(
        "[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\napp = \"app\"\n\
         [app.app]\nentry = \"{entry}:application\"\ndirectory = \"@APPS@\"\ninterpreter = \"@PYTHON@\"\nworkers = {workers}\n\
         env = {{ DIR = \"@DIR@\" }}\nqueue_timeout = \"80s\"\nstart_retries = 50\n{more}\n"
    )
}

fn start(entry: &str, workers: u32, more: &str) -> Server {
    Server::start(&config(entry, workers, more)).warm("/who")
}

fn sent(server: &Server, request: &str) -> Client {
    let mut client = server.client().patient(LONG);
    client.send(request);
    client
}

/// How often each id was begun.
fn counts(server: &Server) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for line in std::fs::read_to_string(server.folder().join("count")).unwrap_or_default().lines() {
        let id = line.split(' ').nth(1).expect("PID ID");
        *counts.entry(id.to_owned()).or_default() += 1;
    }
    counts
}

fn open_gate(server: &Server, name: &str) {
    std::fs::write(server.folder().join(name), "").expect("a gate");
}

#[test]
fn a_worker_serves_as_many_requests_as_it_has_threads() {
    let server = start("hard_app", 1, "threads = 4");
    let mut clients: Vec<Client> = (0..4).map(|_| sent(&server, &get("/meet?n=4"))).collect();
    let mut threads = BTreeSet::new();
    for client in &mut clients {
        let response = client.response("GET");
        assert_eq!(response.status, 200, "{client}");
        let who = response.json();
        assert_eq!(who["multithread"], true);
        threads.insert(who["thread"].as_str().expect("a name").to_owned());
    }
    assert_eq!(threads.len(), 4, "{threads:?}");
    assert_eq!(server.workers().len(), 1);
    server.wait_for_log("streams=4", LONG);
}

#[test]
fn further_ones_wait_in_the_queue() {
    let server = start("hard_app", 1, "threads = 2");
    let mut held: Vec<Client> =
        (0..2).map(|number| sent(&server, &get(&format!("/gate?name=gate&id=held{number}")))).collect();
    wait_until("both are in work", LONG, || counts(&server).len() == 2);
    let mut third = sent(&server, &get("/work?id=third"));
    third.expect_silence(Duration::from_millis(200));
    assert_eq!(counts(&server).get("third"), None);
    open_gate(&server, "gate");
    assert_eq!(third.response("GET").text(), "third");
    held.iter_mut().for_each(|client| assert_eq!(client.response("GET").status, 200, "{client}"));
}

#[test]
fn bodies_come_to_their_own_thread_however_long_and_however_slowly() {
    let server = start("hard_app", 1, "threads = 4");
    let bodies: Vec<Vec<u8>> = (0_usize..4)
        .map(|number| {
            let length = [10, 70_000, 300_000, 1_500_000][number];
            (0..length).map(|at| ((at * (number + 3)) % 251) as u8).collect()
        })
        .collect();
    // The right digests, each from an upload that is alone.
    let alone: Vec<String> = bodies.iter().map(|body| upload(&server, body, body.len())).collect();
    std::thread::scope(|scope| {
        for (body, expected) in bodies.iter().zip(&alone) {
            for piece in [1000, 65_536, 1 << 20] {
                let server = &server;
                scope.spawn(move || {
                    assert_eq!(&upload(server, body, piece), expected, "{} by {piece}", body.len())
                });
            }
        }
    });
}

fn upload(server: &Server, body: &[u8], piece: usize) -> String {
    let mut client = server.client().patient(LONG);
    client.send(format!("POST /digest HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len()));
    for part in body.chunks(piece) {
        client.send(part);
    }
    client.response("POST").text()
}

/// Half of the slots may wait for clients whose bodies the application requests (`spec/http.md` §2); the others are free for those that send.
#[test]
fn clients_that_expect_cannot_hold_all_threads() {
    let server = start("hard_app", 1, "threads = 4");
    let expecting = "POST /digest HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";
    let mut clients: Vec<Client> = (0..6).map(|_| sent(&server, expecting)).collect();
    for client in &mut clients {
        assert_eq!(client.head("POST").0, 100, "{client}");
    }
    // All six got a 100, and none has sent its body: two threads at least are free.
    let mut two: Vec<Client> = (0..2).map(|_| sent(&server, &get("/meet?n=2"))).collect();
    two.iter_mut().for_each(|client| assert_eq!(client.response("GET").status, 200, "{client}"));
    for client in &mut clients {
        client.send("01234");
        assert!(client.response("POST").text().starts_with("5 "), "{client}");
    }
}

#[test]
fn reloads_under_load_lose_and_repeat_nothing() {
    let server = start("hard_app", 2, "threads = 4");
    let load = Load::new(&server, "POST");
    let responses = load.run(10, || {
        for _ in 0..3 {
            load.wait_for(100);
            let mark = server.mark();
            server.signal(Signal::HUP);
            server.wait_for_log_after(mark, "reloaded", LONG);
        }
        load.wait_for(100);
    });
    let counts = counts(&server);
    for (id, status) in responses {
        assert_eq!((status, counts.get(&id)), (200, Some(&1)), "request {id}");
    }
}

#[test]
fn a_death_costs_the_posts_that_were_in_its_threads_and_no_get() {
    const KILLS: usize = 4;
    const THREADS: usize = 4;
    for method in ["POST", "GET"] {
        let server = start("hard_app", 2, "threads = 4");
        let load = Load::new(&server, method);
        let responses = load.run(10, || {
            for number in 0..KILLS {
                load.wait_for(60);
                wait_until("both serve", LONG, || server.workers().len() == 2);
                process::signal(server.workers()[number % 2], Signal::KILL);
            }
            load.wait_for(100);
        });
        let counts = counts(&server);
        let mut lost = 0;
        for (id, status) in &responses {
            let count = counts.get(id).copied().unwrap_or(0);
            match (method, status) {
                ("POST", 200) => assert_eq!(count, 1, "request {id}"),
                ("POST", 502) => {
                    assert!(count <= 1, "request {id} was given twice");
                    lost += 1;
                }
                ("GET", 200) => assert!((1..=2).contains(&count), "request {id}: {count}"),
                other => panic!("request {id}: {other:?}"),
            }
        }
        assert!(lost <= KILLS * THREADS, "{lost} lost by {KILLS} deaths");
    }
}

#[test]
fn an_asgi_worker_takes_no_more_than_it_is_allowed() {
    let server = start("hard_asgi_app", 1, "concurrency = 2");
    let mut held: Vec<Client> = Vec::new();
    for name in ["one", "two"] {
        held.push(sent(&server, &get(&format!("/gate?{name}"))));
        wait_until("it is in work", LONG, || server.folder().join(format!("at-{name}")).exists());
    }
    let mut third = sent(&server, &get("/gate?three"));
    third.expect_silence(Duration::from_millis(200));
    assert!(!server.folder().join("at-three").exists());
    open_gate(&server, "one");
    assert_eq!(held[0].response("GET").status, 200);
    wait_until("now it is", LONG, || server.folder().join("at-three").exists());
    open_gate(&server, "three");
    assert_eq!(third.response("GET").status, 200);
    open_gate(&server, "two");
    assert_eq!(held[1].response("GET").status, 200);
}

#[test]
fn uvloop_is_used_where_it_is_installed() {
    let server = start("hard_asgi_app", 1, "");
    let mut import = std::process::Command::new(python());
    let installed = import.args(["-c", "import uvloop"]).output().expect("python").status.success();
    let expected = if installed { "uvloop" } else { "asyncio" };
    assert_eq!(server.ask(get("/who")).json()["loop"], expected);
}

#[test]
fn an_invalid_application_ends_the_start_with_a_clear_error() {
    for (entry, more, part) in [
        ("hard_asgi_app", "threads = 4", "`threads` is for WSGI"),
        ("hard_app", "concurrency = 4", "`concurrency` is for ASGI"),
    ] {
        let server = Server::spawn(&config(entry, 1, more), |_| {});
        assert_eq!(server.wait_for_exit(LONG).code(), Some(1), "{}", server.log());
        assert!(server.log().contains(part), "{}", server.log());
    }
}

/// Clients on kept connections that go on until `stop`.
struct Load<'a> {
    server: &'a Server,
    method: &'static str,
    stop: AtomicBool,
    next: AtomicU64,
}

impl<'a> Load<'a> {
    fn new(server: &'a Server, method: &'static str) -> Self {
        Self { server, method, stop: AtomicBool::new(false), next: AtomicU64::new(0) }
    }

    /// Runs the clients while `act` runs in this thread; returns each request's id and status.
    fn run(&self, clients: usize, act: impl FnOnce()) -> Vec<(String, u16)> {
        std::thread::scope(|scope| {
            let clients: Vec<_> = (0..clients).map(|_| scope.spawn(|| self.client())).collect();
            act();
            self.stop.store(true, Ordering::Relaxed);
            clients.into_iter().flat_map(|client| client.join().expect("a client")).collect()
        })
    }

    /// Waits until this many further requests have been sent.
    #[track_caller]
    fn wait_for(&self, more: u64) {
        let from = self.next.load(Ordering::Relaxed);
        wait_until("the load goes on", LONG, || self.next.load(Ordering::Relaxed) >= from + more);
    }

    fn client(&self) -> Vec<(String, u16)> {
        let mut responses = Vec::new();
        while !self.stop.load(Ordering::Relaxed) {
            let mut client = self.server.client().patient(LONG);
            loop {
                let id = self.next.fetch_add(1, Ordering::Relaxed).to_string();
                let response = client.ask(format!(
                    "{} /work?ms=3&id={id} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
                    self.method
                ));
                if response.status == 200 {
                    assert_eq!(response.text(), id, "somebody else's response");
                }
                responses.push((id, response.status));
                if response.says_close() || self.stop.load(Ordering::Relaxed) {
                    break;
                }
            }
        }
        responses
    }
}
