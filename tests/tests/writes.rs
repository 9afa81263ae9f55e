//! `spec/http.md` §6: head and body leave in one write and one segment, and a stream is never held back.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use keepwarm_tests::content::post;
use keepwarm_tests::process::{self, wait_until};
use keepwarm_tests::process_mark;
use keepwarm_tests::{ASGI, Client, Server, WSGI, get, python, tools};
use rustix::process::Signal;

const LONG: Duration = Duration::from_secs(30);

const FIXED: &str = r#"
[listen.main]
bind = "127.0.0.1:0"
[[listen.main.route]]
path = "/fifteen"
respond = { status = 200, body = "pong", content_type = "text/plain", headers = { X-Field-1 = "value-1", X-Field-2 = "value-2", X-Field-3 = "value-3", X-Field-4 = "value-4", X-Field-5 = "value-5", X-Field-6 = "value-6", X-Field-7 = "value-7", X-Field-8 = "value-8", X-Field-9 = "value-9", X-Field-10 = "value-10", X-Field-11 = "value-11", X-Field-12 = "value-12" } }
[[listen.main.route]]
respond = { status = 200, body = "pong" }
"#;

/// `strace` on a running server; returns the calls that wrote to a TCP socket.
struct Trace {
    child: Child,
    lines: BufReader<std::process::ChildStderr>,
}

impl Trace {
    #[track_caller]
    fn attach(server: &Server) -> Self {
        let mut command = Command::new("strace");
        command.args([
            "-f",
            "-yy",
            "-qq",
            "-s",
            // A head and a small body, which leave in one buffer.
            "1024",
            "-e",
            "trace=write,writev,pwritev2,sendto,sendmsg,sendmmsg,sendfile,splice",
        ]);
        command
            .args(["-p", &server.pid().to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("strace (what the tests need is in CONTRIBUTING.md)");
        let lines = BufReader::new(child.stderr.take().expect("piped"));
        let status = format!("/proc/{}/status", server.pid());
        // Attached as soon as the kernel reports it, for every thread of the process.
        keepwarm_tests::process::wait_until("strace attaches", Duration::from_secs(10), || {
            let tasks = std::fs::read_dir(format!("/proc/{}/task", server.pid())).expect("tasks");
            let traced = |path: std::path::PathBuf| {
                std::fs::read_to_string(path).is_ok_and(|text| !text.contains("TracerPid:\t0"))
            };
            traced(status.clone().into()) && tasks.flatten().all(|task| traced(task.path().join("status")))
        });
        Self { child, lines }
    }

    /// Detaches; the lines of calls on TCP sockets that wrote something.
    fn finish(mut self) -> Vec<String> {
        keepwarm_tests::process::signal(self.child.id(), Signal::INT);
        let lines: Vec<String> = self.lines.by_ref().lines().map_while(Result::ok).collect();
        let _ = self.child.wait();
        // A call that another thread's output interrupts is shown twice: as unfinished, and as resumed.
        lines
            .into_iter()
            .filter(|line| {
                line.contains("<TCP:[") && !line.contains("resumed>") && !line.contains("= -1 EAGAIN")
            })
            .collect()
    }
}

#[track_caller]
fn one_write_each(server: &Server, path: &str) {
    let mut client = server.client();
    client.expect_kept(path);
    let trace = Trace::attach(server);
    for _ in 0..5 {
        let response = client.expect_kept(path);
        assert_eq!(response.text(), "pong");
        // Date, Content-Length, Content-Type and 12 of the application's.
        assert!(response.fields.len() >= 15, "{:?}", response.fields);
    }
    let calls = trace.finish();
    assert_eq!(calls.len(), 5, "one write for each response:\n{}", calls.join("\n"));
}

#[test]
fn fifteen_fields_and_pong_are_one_write_of_a_fixed_response() {
    one_write_each(&Server::start(FIXED), "/fifteen");
}

#[test]
fn fifteen_fields_and_pong_are_one_write_of_wsgi() {
    one_write_each(&Server::start(WSGI).warm("/pong"), "/fifteen");
}

#[test]
fn fifteen_fields_and_pong_are_one_write_of_asgi() {
    one_write_each(&Server::start(ASGI).warm("/pong"), "/fifteen");
}

#[test]
fn a_head_waits_for_a_short_body_of_known_length() {
    for base in [WSGI, ASGI] {
        let server = Server::start(base).warm("/pong");
        let mut client = server.client();
        let trace = Trace::attach(&server);
        for _ in 0..15 {
            assert_eq!(client.expect_kept("/in-two").text(), "pong");
        }
        let calls = trace.finish();
        // Head, "po" and "ng" would be three. The head never leaves alone; whether "ng" makes it is a matter of microseconds.
        assert!(calls.len() <= 2 * 15, "{} writes for 15 responses:\n{}", calls.len(), calls.join("\n"));
        // In a buffer of its own, or after the head.
        let with_body = |call: &str| call.contains("\"po") || call.contains("\\r\\n\\r\\npo");
        let alone = |call: &&String| call.contains("HTTP/1.1 200") && !with_body(call);
        assert_eq!(calls.iter().filter(alone).count(), 0, "a head left alone:\n{}", calls.join("\n"));
    }
}

/// A network namespace, joined to this one by a pair of interfaces with an MTU of 1,500.
struct Link {
    name: String,
    here: String,
    address: String,
}

impl Link {
    #[track_caller]
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = (std::process::id() * 8 + NEXT.fetch_add(1, Ordering::Relaxed)) % 60_000;
        let (name, here, there) = (format!("kw{number}"), format!("kwh{number}"), format!("kwt{number}"));
        let network = format!("10.{}.{}", 200 + number / 250 % 50, number % 250);
        let link = Self { name, here, address: format!("{network}.1") };
        let Self { name, here, address } = &link;
        for words in [
            format!("netns add {name}"),
            format!("link add {here} mtu 1500 type veth peer name {there} netns {name}"),
            format!("addr add {address}/24 dev {here}"),
            format!("link set {here} up"),
            format!("-n {name} addr add {network}.2/24 dev {there}"),
            format!("-n {name} link set {there} mtu 1500"),
            format!("-n {name} link set {there} up"),
        ] {
            tools::run_ok(Command::new("ip").args(words.split(' ')), Duration::from_secs(10));
        }
        link
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["link", "del", &self.here]).status();
        let _ = Command::new("ip").args(["netns", "del", &self.name]).status();
    }
}

/// Asks `count` times on one connection and prints MSS and data segments received, as TCP_INFO counts them (tcpi_data_segs_in at byte 152).
const COUNT_SEGMENTS: &str = r#"
import socket, struct, sys
address, port, path, count = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
peer = socket.create_connection((address, port), 5)
read = 0
for _ in range(count):
    peer.sendall(f"GET {path} HTTP/1.1\r\nHost: test.example\r\n\r\n".encode())
    received = b""
    while not received.endswith(b"\r\n\r\npong"):
        part = peer.recv(65536)
        if not part:
            sys.exit("closed after " + repr(received))
        received += part
    read += len(received)
info = peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
mss = struct.unpack_from("I", info, 20)[0]
print(mss, struct.unpack_from("I", info, 152)[0], read)
"#;

#[track_caller]
fn one_segment_each(config: &str) {
    let link = Link::new();
    let port = tools::free_port();
    let bind = format!("bind = [\"127.0.0.1:0\", \"{}:{port}\"]", link.address);
    let server = Server::start(&config.replacen("bind = \"127.0.0.1:0\"", &bind, 1)).warm("/fifteen");
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &link.name]).arg(python()).args([
        "-c",
        COUNT_SEGMENTS,
        &link.address,
        &port.to_string(),
        "/fifteen",
        "10",
    ]);
    let printed = tools::run_ok(&mut command, Duration::from_secs(20));
    let numbers: Vec<u64> = printed.split_whitespace().map(|word| word.parse().expect("a number")).collect();
    assert!(numbers[0] <= 1460, "the link's MTU is 1,500: MSS {}", numbers[0]);
    assert_eq!(
        numbers[1],
        10,
        "one segment for each of 10 responses of {} bytes\n{}",
        numbers[2] / 10,
        server.log()
    );
}

#[test]
fn fifteen_fields_and_pong_are_one_segment_of_a_fixed_response() {
    one_segment_each(FIXED);
}

#[test]
fn fifteen_fields_and_pong_are_one_segment_of_wsgi() {
    one_segment_each(WSGI);
}

#[test]
fn fifteen_fields_and_pong_are_one_segment_of_asgi() {
    one_segment_each(ASGI);
}

#[test]
fn a_stream_is_never_held_back() {
    for base in [WSGI, ASGI] {
        let server = Server::start(base).warm("/pong");
        for version in ["1.1", "1.0"] {
            // 30 ms lie between them in the application. A server that holds the first back never shows that; a machine that
            // is busy hides it now and then.
            let came_apart = (0..20).any(|_| {
                let mut client = server.client();
                client.send(format!("GET /silent HTTP/{version}\r\nHost: a\r\n\r\n"));
                client.read_through(b"first,");
                let first = std::time::Instant::now();
                client.read_through(b"second");
                first.elapsed() > Duration::from_millis(15)
            });
            assert!(came_apart, "both came together, {version}");
        }
    }
}

#[test]
fn a_large_response_arrives_whole() {
    for base in [WSGI, ASGI] {
        let server = Server::start(base).warm("/pong");
        let mut client = server.client().patient(Duration::from_secs(10));
        for length in [1, 16_383, 16_384, 16_385, 65_535, 65_536, 65_537, 131_072, 1 << 20, 20_000_003] {
            let response = client.ask(get(&format!("/big?bytes={length}")));
            assert_eq!(response.body.len(), length);
            let tail = length % 65_536 % 16;
            let (blocks, rest) = response.body.split_at(length - tail);
            assert!(
                blocks.chunks(16).all(|block| block == b"0123456789abcdef")
                    && rest.iter().all(|&byte| byte == b'x'),
                "{length}"
            );
        }
    }
}

/// Watched on, it would wake its thread each time the worker reads.
#[test]
fn a_wire_that_was_full_once_is_watched_for_room_no_longer() {
    let server = Server::start(
        "[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\napp = \"app\"\n\
         [app.app]\nentry = \"hard_app:application\"\ndirectory = \"@APPS@\"\ninterpreter = \"@PYTHON@\"\nworkers = 1\n\
         threads = 4\nenv = { DIR = \"@DIR@\" }\n",
    );
    let sockets = || process_mark::descriptors(server.pid()).get("socket").copied();
    let mut clients: Vec<Client> = (0..4).map(|_| server.client().patient(LONG)).collect();
    clients.iter_mut().for_each(|client| assert_eq!(client.ask(get("/who")).status, 200, "{client}"));
    let before = sockets();
    // More than a socket holds, to a worker that stands still.
    let worker = server.workers()[0];
    process::stop(worker);
    for client in &mut clients {
        client.send(post("/who", "text/plain", &[b'x'; 300_000]));
    }
    wait_until("the wire is full", LONG, || sockets() > before);
    process::signal(worker, Signal::CONT);
    clients.iter_mut().for_each(|client| assert_eq!(client.response("POST").status, 200, "{client}"));
    wait_until("no more sockets than before", LONG, || sockets() == before);
}
