//! Rate limits of doors and routes, by themselves and shared through a redis-server.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use keepwarm_tests::origin::{After, Origin, ok};
use keepwarm_tests::process::wait_until;
use keepwarm_tests::{Response, Server, admin, get_local as get, tools};

const BOUND: Duration = Duration::from_secs(30);

fn statuses(server: &Server, path: &str, count: usize) -> Vec<u16> {
    (0..count).map(|_| server.ask(get(path)).status).collect()
}

#[test]
fn a_door_is_held_to_its_limit_and_a_reload_gives_nothing_back() {
    let origin = Origin::fixed("ok");
    let config = |burst: u32| {
        format!(
            "[server]\nthreads = 1\n[upstream.search]\nurl = \"http://{}\"\nbind = \"127.0.0.1:0\"\n\
             rate_limit = \"calls\"\n[rate_limit.calls]\nrate = \"1/h\"\nburst = {burst}\n",
            origin.address()
        )
    };
    let server = Server::start(&config(2));
    assert_eq!(statuses(&server, "/", 2), [200, 200]);
    let refused = server.ask(get("/"));
    assert_eq!(refused.status, 429);
    let retry: u64 = refused.field("retry-after").unwrap().parse().unwrap();
    assert!((3500..=3600).contains(&retry), "{retry}");
    assert_eq!(refused.field("ratelimit-policy"), Some("\"calls\";q=2;w=7200"));
    assert!(refused.field("ratelimit").unwrap().starts_with("\"calls\";r=0;t="));
    assert_eq!(origin.requests().len(), 2);
    server.reload_with(&config(3));
    assert_eq!(statuses(&server, "/", 2), [200, 429], "one more than before");
}

#[test]
fn a_route_is_held_to_its_limit() {
    let origin = Origin::fixed("ok");
    let server = Server::start(&format!(
        "[server]\nthreads = 1\n[listen.main]\nbind = \"127.0.0.1:0\"\n\
         [[listen.main.route]]\npath = \"/api/*\"\nupstream = \"search\"\nrate_limit = \"api\"\n\
         [[listen.main.route]]\nupstream = \"search\"\n\
         [upstream.search]\nurl = \"http://{}\"\n\
         [rate_limit.api]\nrate = \"2/h\"\nburst = 2\nkey = \"header:X-Key\"\n",
        origin.address()
    ));
    assert_eq!(statuses(&server, "/api/a", 3), [200, 200, 429]);
    assert_eq!(statuses(&server, "/other", 3), [200, 200, 200]);
    let keyed = "GET /api/a HTTP/1.1\r\nHost: localhost\r\nX-Key: k\r\n\r\n";
    assert_eq!(server.ask(keyed).status, 200);
}

#[test]
fn two_keepwarms_share_a_limit_and_outlive_its_store() {
    let origin = Origin::fixed("ok");
    let mut redis = Redis::start();
    let config = format!(
        "[server]\nthreads = 1\n[upstream.search]\nurl = \"http://{}\"\nbind = \"127.0.0.1:0\"\n\
         rate_limit = \"calls\"\n[rate_limit.calls]\nrate = \"3/h\"\nburst = 3\n\
         store = \"redis+unix:{}\"\nstore_timeout = \"10s\"\n",
        origin.address(),
        redis.socket().display()
    );
    let (one, two) = (Server::start(&config), Server::start(&config));
    // Either may count by itself until it is connected; from then on they count together.
    let deadline = Instant::now() + BOUND;
    while redis.owed() == 0 {
        one.ask(get("/"));
        two.ask(get("/"));
        assert!(Instant::now() < deadline, "nothing is counted in the store");
    }
    let until_refused = |server: &Server| {
        while server.ask(get("/")).status != 429 {
            assert!(Instant::now() < deadline, "never refused");
        }
    };
    until_refused(&one);
    until_refused(&two);
    redis.stop();
    let line = one.wait_for_log("rate limit store failed", BOUND);
    assert!(line.contains("store_unreachable"), "{line}");
    assert!(statuses(&one, "/", 10).contains(&429), "it counts by itself");
    redis.start_again();
    one.wait_for_log("rate limit store in use again", BOUND);
    two.wait_for_log("rate limit store in use again", BOUND);
    let all = [statuses(&one, "/", 3), statuses(&two, "/", 3)].concat();
    assert_eq!(all, [200, 200, 200, 429, 429, 429], "it has forgotten, and both ask it");
}

/// With a login, over TLS, with an authority of its own; a certificate for another name is reported with both names, and rejected; a wrong password is a refusal.
#[test]
fn a_store_is_reached_over_tls_and_only_the_right_one() {
    let origin = Origin::fixed("ok");
    let redis = Redis::encrypted("localhost");
    let config = |password: &str, host: &str| {
        format!(
            "[server]\nthreads = 1\n[upstream.search]\nurl = \"http://{}\"\nbind = \"127.0.0.1:0\"\n\
             rate_limit = \"calls\"\n[rate_limit.calls]\nrate = \"3/h\"\nburst = 3\nstore_timeout = \"10s\"\n\
             store = \"rediss://:{password}@{host}:{}/1\"\nstore_ca = \"{}\"\non_store_failure = \"closed\"\n",
            origin.address(),
            redis.port.unwrap(),
            redis.folder.join("cert.pem").display()
        )
    };
    let start = |password: &str, host: &str| Server::start(&config(password, host));
    let (one, two) = (start(PASSWORD, "localhost"), start(PASSWORD, "localhost"));
    // Until they are connected they refuse.
    let deadline = Instant::now() + BOUND;
    let mut seen = Vec::new();
    while seen.len() < 5 {
        let server = if seen.len() % 2 == 0 { &one } else { &two };
        seen.extend(Some(server.ask(get("/")).status).filter(|status| *status != 503));
        assert!(Instant::now() < deadline, "{seen:?}\n{}", one.log());
    }
    assert_eq!(seen, [200, 200, 200, 429, 429], "they count together");
    let wrong = start(PASSWORD, "127.0.0.1");
    let line = wrong.wait_for_log("rate limit store failed", BOUND);
    assert!(
        line.contains("store_unreachable") && line.contains("127.0.0.1") && line.contains("localhost"),
        "{line}"
    );
    assert!(!line.contains(PASSWORD), "{line}");
    assert_eq!(wrong.ask(get("/")).status, 503);
    // It is there, and refuses.
    let strange = start("guess", "localhost");
    let line = strange.wait_for_log("rate limit store failed", BOUND);
    assert!(line.contains("store_refused") && line.contains("Password"), "{line}");
}

#[test]
fn a_store_that_cannot_be_used_is_refused_before_anything_starts() {
    let server = Server::spawn(
        "[upstream.search]\nurl = \"http://127.0.0.1:9\"\nbind = \"127.0.0.1:0\"\nrate_limit = \"calls\"\n\
         [rate_limit.calls]\nrate = \"3/h\"\nstore = \"http://127.0.0.1\"\n",
        |_| {},
    );
    assert!(!server.wait_for_exit(BOUND).success());
    assert!(server.log().contains("store"), "{}", server.log());
}

const PASSWORD: &str = "hunter2";

/// A redis-server on a Unix socket in a directory of its own.
struct Redis {
    folder: PathBuf,
    process: Child,
    /// Its TLS port, if it has one.
    port: Option<u16>,
}

impl Redis {
    fn start() -> Self {
        let folder = Self::folder();
        let process = Self::spawn(&folder, &[]);
        let it = Self { folder, process, port: None };
        it.wait();
        it
    }

    /// One with TLS as well, with a certificate for this name, that requires a password.
    fn encrypted(name: &str) -> Self {
        let folder = Self::folder();
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        std::fs::write(folder.join("cert.pem"), made.cert.pem()).unwrap();
        std::fs::write(folder.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
        // It ends if another process takes the port meanwhile: then try another.
        loop {
            let free = tools::free_port();
            let port = free.to_string();
            let tls = ["--tls-port", &port, "--tls-cert-file", "cert.pem", "--tls-key-file", "key.pem"];
            let more = ["--tls-auth-clients", "no", "--bind", "127.0.0.1", "--requirepass", PASSWORD];
            let mut process = Self::spawn(&folder, &[tls, more].concat());
            let deadline = Instant::now() + BOUND;
            while process.try_wait().unwrap().is_none() {
                if TcpStream::connect(("127.0.0.1", free)).is_ok() {
                    return Self { folder, process, port: Some(free) };
                }
                assert!(Instant::now() < deadline, "redis-server does not listen");
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }

    fn folder() -> PathBuf {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::SeqCst);
        let folder = std::env::temp_dir().join(format!("keepwarm-limits-{}-{number}", std::process::id()));
        // Left by a process with the same id that was killed.
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).unwrap();
        folder
    }

    fn spawn(folder: &std::path::Path, more: &[&str]) -> Child {
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket", "socket"]);
        command.args(more);
        command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null());
        command.spawn().expect("redis-server is installed by scripts/setup test")
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    fn wait(&self) {
        wait_until("redis-server responds", BOUND, || self.cli(&["PING"]).contains("PONG"));
    }

    /// Keys of the limit.
    fn owed(&self) -> usize {
        self.cli(&["KEYS", "keepwarm:rate:calls:*"]).lines().filter(|line| !line.is_empty()).count()
    }

    fn cli(&self, arguments: &[&str]) -> String {
        let output = Command::new("redis-cli").arg("-s").arg(self.socket()).args(arguments).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn stop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    fn start_again(&mut self) {
        self.process = Self::spawn(&self.folder, &[]);
        self.wait();
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Two endpoints and two threads: never more calls with the upstream than it may have connections, and every call gets one.
#[test]
fn connections_to_all_endpoints_together_are_bounded() {
    const MOST: usize = 3;
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let origin = || {
        let (now, most) = (Arc::clone(&now), Arc::clone(&most));
        Origin::start(move |_, stream| {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            // So that they meet, where they can.
            std::thread::sleep(Duration::from_millis(2));
            now.fetch_sub(1, Ordering::SeqCst);
            ok(stream, b"ok");
            After::Keep
        })
    };
    let origins = [origin(), origin()];
    let server = Server::start(&format!(
        "[server]\nthreads = 2\n[upstream.search]\nbind = \"127.0.0.1:0\"\nbalance = \"round_robin\"\n\
         endpoints = [{{ url = \"http://{}\" }}, {{ url = \"http://{}\" }}]\nlimits = {{ connections = {MOST}, queue_timeout = \"30s\" }}\n",
        origins[0].address(),
        origins[1].address()
    ));
    std::thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(|| {
                let mut client = server.client();
                for _ in 0..20 {
                    assert_eq!(client.ask(get("/")).status, 200);
                }
            });
        }
    });
    assert!(most.load(Ordering::SeqCst) <= MOST, "{} at once", most.load(Ordering::SeqCst));
    assert!(origins.iter().all(|origin| origin.requests().len() >= 60), "both are called");
    // The origin notices a close for others in its own time.
    let open = || origins.iter().map(Origin::open).sum::<usize>();
    origins[0].wait_until("as many as there may be", |_| open() <= MOST);
}

/// An origin that responds to `/slow` on command, and to everything else at once.
fn slow_origin() -> (Origin, std::sync::mpsc::Sender<()>) {
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let origin = Origin::start(move |request, stream| {
        if request.target() == "/slow" {
            let _ = wait.lock().unwrap().recv();
        }
        ok(stream, b"done");
        After::Keep
    });
    (origin, go)
}

fn limited(origin: &Origin, keys: &str) -> Server {
    Server::start(&format!(
        "[server]\nthreads = 1\n[admin]\nbind = \"127.0.0.1:0\"\n\
         [upstream.search]\nurl = \"http://{}\"\nbind = \"127.0.0.1:0\"\n{keys}",
        origin.address()
    ))
}

fn reason(response: &Response) -> (u16, String) {
    let text = response.text();
    let known = ["queue_full", "queue_timeout", "no_connection_free", "timeout"];
    let reason = known.into_iter().find(|it| text.contains(&format!("\"reason\":\"{it}\"")));
    (response.status, reason.unwrap_or(&text).to_owned())
}

fn ask_for_json(server: &Server) -> (u16, String) {
    reason(&server.ask("GET / HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n\r\n"))
}

/// For either limit: once the queue is full, the next call is refused at once; a call that waits too long learns which limit it waited for.
#[test]
fn calls_that_wait_for_a_connection_are_bounded_in_number_and_time() {
    for limit in ["limits.connections = 1", "pool.max = 1"] {
        let (origin, go) = slow_origin();
        let server =
            limited(&origin, &format!("limits.queue = 1\nlimits.queue_timeout = \"20s\"\n{limit}\n"));
        let (mut slow, mut waits) = (server.client(), server.client());
        slow.send(get("/slow"));
        origin.wait_until("the slow call is there", |origin| origin.requests().len() == 1);
        waits.send(get("/"));
        let waits_there = |(name, value): (&String, &f64)| name.contains("pool_waiting") && *value == 1.0;
        wait_until("a call waits", BOUND, || admin::metrics(&server).iter().any(waits_there));
        for _ in 0..3 {
            assert_eq!(ask_for_json(&server), (503, "queue_full".to_owned()), "{limit}");
        }
        go.send(()).unwrap();
        assert_eq!(slow.response("GET").text(), "done", "{limit}");
        assert_eq!(waits.response("GET").text(), "done", "{limit}");

        let server = limited(
            &origin,
            &format!("limits.queue_timeout = \"100ms\"\ntimeouts.connect = \"1h\"\n{limit}\n"),
        );
        let mut slow = server.client();
        slow.send(get("/slow"));
        origin.wait_until("the slow call is there", |origin| origin.requests().len() == 3);
        assert_eq!(ask_for_json(&server), (503, "no_connection_free".to_owned()), "{limit}");
        go.send(()).unwrap();
        assert_eq!(slow.response("GET").text(), "done", "{limit}");
        assert_eq!(ask_for_json(&server).0, 200, "{limit}");
    }
}

/// The timeout of the whole call includes the wait for any limit. It waits for a tunnel, which may last.
#[test]
fn a_call_whose_time_ends_in_the_queue_has_timed_out() {
    const SWITCHED: &[u8] =
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: chat\r\n\r\n";
    for limit in ["limits.connections = 1", "pool.max = 1", "limits.in_flight = 1"] {
        let origin = Origin::raw(|_, mut stream| {
            stream.write_all(SWITCHED).unwrap();
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let keys = format!("limits.queue_timeout = \"1h\"\ntimeout = \"200ms\"\n{limit}\n");
        let server = limited(&origin, &keys);
        let mut tunnel = server.client();
        tunnel.send("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: chat\r\n\r\n");
        tunnel.read_through(b"\r\n\r\n");
        assert_eq!(ask_for_json(&server), (504, "timeout".to_owned()), "{limit}");
    }
}

/// A client that has left holds no place in the queue, and its call is not made.
#[test]
fn a_client_that_left_frees_its_position_in_the_queue() {
    for limit in ["limits.connections = 1", "pool.max = 1", "limits.in_flight = 1"] {
        let (origin, go) = slow_origin();
        let keys = format!("limits.queue = 1\nlimits.queue_timeout = \"20s\"\n{limit}\n");
        let server = limited(&origin, &keys);
        let waiting = || {
            let of = |(name, value): (&String, &f64)| {
                (name.contains("pool_waiting") || name.contains("queue_length")).then_some(*value)
            };
            admin::metrics(&server).iter().filter_map(of).sum::<f64>()
        };
        let (mut slow, mut gone, mut waits) = (server.client(), server.client(), server.client());
        slow.send(get("/slow"));
        origin.wait_until("the slow call is there", |origin| origin.requests().len() == 1);
        gone.send(get("/gone"));
        wait_until("a call waits", BOUND, || waiting() == 1.0);
        gone.reset();
        wait_until("nobody waits", BOUND, || waiting() == 0.0);
        waits.send(get("/waits"));
        wait_until("another call waits", BOUND, || waiting() == 1.0);
        go.send(()).unwrap();
        assert_eq!(slow.response("GET").status, 200, "{limit}");
        assert_eq!(waits.response("GET").status, 200, "{limit}");
        assert!(origin.requests().iter().all(|request| request.target() != "/gone"), "{limit}");
    }
}
