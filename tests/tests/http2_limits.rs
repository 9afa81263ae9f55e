//! Attacks on HTTP/2 (`spec/http.md` §8 and §9): each is cut by its limit, with the right code, and counted. The same over the door of an upstream.

use std::io::Write;
use std::process::Command;
use std::time::Duration;

use keepwarm_tests::http2::{
    self, CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, FLOW_CONTROL_ERROR, GOAWAY,
    HEADERS, Http2, NO_ERROR, PING, PRIORITY, RST_STREAM, SETTINGS, WINDOW_UPDATE, block, frame, literal,
};
use keepwarm_tests::origin::{After, Gate, Origin};
use keepwarm_tests::{ASGI, Server, WSGI, admin, process, tools};

const LONG: Duration = Duration::from_secs(60);

/// A listener with a route to an upstream, or that upstream's door. `/hang` waits for the end of the test.
struct Target {
    server: Server,
    listener: &'static str,
    gate: Gate,
    origin: Origin,
}

impl Target {
    #[track_caller]
    fn start(door: bool) -> Self {
        let gate = Gate::default();
        let held = gate.clone();
        let origin = Origin::start(move |request, stream| {
            if request.target() == "/hang" {
                held.wait();
            }
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
            After::Keep
        });
        let (listener, listen) = match door {
            true => ("upstream.plain", "bind = \"127.0.0.1:0\"\npublic = true\n"),
            false => {
                ("main", "\n[listen.main]\nbind = \"127.0.0.1:0\"\nroute = [{ upstream = \"plain\" }]\n")
            }
        };
        let server = Server::start(&format!(
            "[server]\nthreads = 1\nlimits = {{ head_timeout = \"1s\", write_timeout = \"2s\" }}\n[admin]\nbind = \"127.0.0.1:0\"\n\
             [upstream.plain]\nurl = \"http://{}\"\n{listen}",
            origin.address()
        ));
        Self { server, listener, gate, origin }
    }

    fn client(&self) -> Http2 {
        Http2::connect(self.server.address())
    }

    /// Another client is served as always, on a new connection and on one from before.
    #[track_caller]
    fn expect_service(&self, other: &mut Http2, stream: u32) {
        other.request(stream, "/", &[]);
        assert_eq!(other.response(stream), (200, b"hello".to_vec()));
        let mut new = self.client();
        new.request(1, "/", &[]);
        assert_eq!(new.response(1), (200, b"hello".to_vec()));
    }

    #[track_caller]
    fn expect_fault(&self, reason: &str, least: f64) {
        let name = format!(
            "keepwarm_http2_connections_ended_total{{listener=\"{}\",reason=\"{reason}\"}}",
            self.listener
        );
        admin::wait_for_metric(&self.server, &name, least);
    }

    #[track_caller]
    fn expect_resets(&self, by: &str, least: f64) {
        let name =
            format!("keepwarm_http2_streams_reset_total{{listener=\"{}\",by=\"{by}\"}}", self.listener);
        admin::wait_for_metric(&self.server, &name, least);
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.gate.open();
    }
}

/// An attack: its bytes after the preface, the name of its limit, and the code of the GOAWAY.
type Attack = (&'static str, fn() -> Vec<u8>, &'static str, u32);

fn hang(stream: u32, flags: u8) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | flags, stream, &block("GET", "/hang", &[]))
}

/// Client streams, in order.
fn streams(count: u32) -> impl Iterator<Item = u32> {
    (0..count).map(|number| 2 * number + 1)
}

const ATTACKS: [Attack; 13] = [
    (
        "rapid reset",
        || {
            let cancel =
                |stream| [hang(stream, END_STREAM), frame(RST_STREAM, 0, stream, &[0, 0, 0, 8])].concat();
            streams(200).flat_map(cancel).collect()
        },
        "http2_resets",
        ENHANCE_YOUR_CALM,
    ),
    (
        "made you reset",
        || {
            // A window above 2^31-1 is an error of the stream (RFC 9113 §6.9.1): we have to reset it, with its request under way.
            let provoke = |stream| {
                [hang(stream, END_STREAM), frame(WINDOW_UPDATE, 0, stream, &[0x7f, 0xff, 0xff, 0xff])]
                    .concat()
            };
            streams(700).flat_map(provoke).collect()
        },
        "http2_made_resets",
        ENHANCE_YOUR_CALM,
    ),
    (
        "CONTINUATION flood",
        || {
            let mut bytes = frame(HEADERS, END_STREAM, 1, &block("GET", "/", &[]));
            bytes.extend(frame(CONTINUATION, 0, 1, &literal("x", "y")).repeat(50));
            bytes
        },
        "http2_continuations",
        ENHANCE_YOUR_CALM,
    ),
    (
        "empty CONTINUATION flood",
        || [frame(HEADERS, END_STREAM, 1, &[]), frame(CONTINUATION, 0, 1, &[]).repeat(50)].concat(),
        "http2_continuations",
        ENHANCE_YOUR_CALM,
    ),
    ("PING flood", || frame(PING, 0, 0, &[7; 8]).repeat(200), "http2_chatter", ENHANCE_YOUR_CALM),
    ("SETTINGS flood", || frame(SETTINGS, 0, 0, &[]).repeat(200), "http2_chatter", ENHANCE_YOUR_CALM),
    (
        "windows that jump",
        || {
            let both = [
                frame(SETTINGS, 0, 0, &http2::setting(4, 0)),
                frame(SETTINGS, 0, 0, &http2::setting(4, 0x7fff_0000)),
            ];
            [hang(1, END_STREAM), both.concat().repeat(100)].concat()
        },
        "http2_chatter",
        ENHANCE_YOUR_CALM,
    ),
    (
        "WINDOW_UPDATE flood",
        || frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]).repeat(200),
        "http2_chatter",
        ENHANCE_YOUR_CALM,
    ),
    (
        "PRIORITY flood",
        || frame(PRIORITY, 0, 3, &[0, 0, 0, 1, 15]).repeat(1200),
        "http2_chatter",
        ENHANCE_YOUR_CALM,
    ),
    ("unknown frames", || frame(0xbe, 0, 0, b"?").repeat(1200), "http2_chatter", ENHANCE_YOUR_CALM),
    (
        "a window above the limit",
        || frame(WINDOW_UPDATE, 0, 0, &[0x7f, 0xff, 0xff, 0xff]).repeat(2),
        "http2_protocol_error",
        FLOW_CONTROL_ERROR,
    ),
    (
        "invalid HPACK",
        || frame(HEADERS, END_HEADERS | END_STREAM, 1, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        "http2_protocol_error",
        // RFC 9113 §4.3 has COMPRESSION_ERROR: the `h2` crate says PROTOCOL_ERROR for every error of a head.
        http2::PROTOCOL_ERROR,
    ),
    ("half of a head", || frame(HEADERS, END_STREAM, 1, &[0x82]), "http2_head_timeout", ENHANCE_YOUR_CALM),
];

#[track_caller]
fn withstands(door: bool) {
    let target = Target::start(door);
    let mut other = target.client();
    let mut expected = std::collections::BTreeMap::new();
    for (round, (name, bytes, reason, code)) in ATTACKS.into_iter().enumerate() {
        let mut attacker = target.client();
        attacker.try_send(&bytes());
        assert_eq!(attacker.goodbye(), Some(code), "{name}");
        let count = expected.entry(reason).or_insert(0.0);
        *count += 1.0;
        target.expect_fault(reason, *count);
        target.expect_service(&mut other, 2 * round as u32 + 1);
    }
    target.expect_resets("client", 100.0);
    target.expect_resets("server", 500.0);
}

#[test]
fn a_listener_withstands_each_attack_and_counts_it() {
    withstands(false);
}

#[test]
fn a_door_withstands_each_attack_and_counts_it() {
    withstands(true);
}

#[test]
fn empty_data_frames_are_limited_and_data_is_not() {
    let target = Target::start(false);
    let mut attacker = target.client();
    attacker.head(1, "POST", "/hang", &[]);
    attacker.try_send(&frame(DATA, 0, 1, &[]).repeat(200));
    assert_eq!(attacker.goodbye(), Some(ENHANCE_YOUR_CALM));
    target.expect_fault("http2_chatter", 1.0);
    // Small ones that carry something are a body, and a last empty one ends it.
    let mut client = target.client();
    client.head(1, "POST", "/", &[]);
    client.send(&frame(DATA, 0, 1, b"x").repeat(5000));
    client.send(&frame(DATA, END_STREAM, 1, &[]));
    assert_eq!(client.response(1), (200, b"hello".to_vec()));
}

/// Eighty requests, half of which their client resets at once; the others it has us reset.
fn reset_at_once(ask: impl Fn(u32) -> Vec<u8>) -> Vec<u8> {
    streams(80)
        .enumerate()
        .flat_map(|(at, stream)| match at {
            ..40 => [ask(stream), frame(RST_STREAM, 0, stream, &[0, 0, 0, 8])].concat(),
            _ => [ask(stream), frame(WINDOW_UPDATE, 0, stream, &[0x7f, 0xff, 0xff, 0xff])].concat(),
        })
        .collect()
}

/// What a client resets together with its request, or has us reset, never reaches a server: below the limits of resets, too.
#[track_caller]
fn keeps_reset_requests(door: bool) {
    let target = Target::start(door);
    let mut client = target.client();
    let good = frame(HEADERS, END_HEADERS | END_STREAM, 161, &block("GET", "/", &[]));
    client.send(&[reset_at_once(|stream| hang(stream, END_STREAM)), good].concat());
    let response = client.until(|frame| frame.stream == 161 && frame.kind == HEADERS);
    assert_eq!(response.status(), 200);
    let asked: Vec<String> =
        target.origin.requests().iter().map(|request| request.target().to_owned()).collect();
    assert_eq!(asked, ["/"]);
}

#[test]
fn a_request_that_was_reset_at_once_is_not_served() {
    keeps_reset_requests(false);
}

#[test]
fn a_call_that_was_reset_at_once_is_not_made() {
    keeps_reset_requests(true);
}

/// A worker is written to at once: nothing but the reset says that it need not be.
#[test]
fn a_request_that_was_reset_at_once_reaches_no_worker() {
    let server = Server::start(ASGI).warm("/pong");
    let mut client = Http2::connect(server.address());
    let ask = |stream| frame(HEADERS, END_HEADERS | END_STREAM, stream, &block("GET", "/raise", &[]));
    client.send(&[reset_at_once(ask), ask(161)].concat());
    let response = client.until(|frame| frame.stream == 161 && frame.kind == HEADERS);
    assert_eq!(response.status(), 500);
    server.wait_for_log("\"GET /raise HTTP/2.0\" 500", LONG);
    server.wait_for_log("ValueError: before the response", LONG);
    // What the app did for the others came before that.
    assert_eq!(server.log().matches("Traceback (most recent call last)").count(), 1, "{}", server.log());
    // They are recorded, with the route that they would have had, and with the side that reset them.
    for reason in ["app client_reset", "app http2_refused"] {
        assert_eq!(server.log().matches(reason).count(), 40, "{reason}: {}", server.log());
    }
}

/// A field of 3,900 bytes in the dynamic table, and references of one byte to it.
/// `request_line` and `header_block` are those of HTTP/1.
#[test]
fn the_configured_limits_of_a_head_apply() {
    let start = |limits: &str| {
        Server::start(&format!(
            "[listen.main]\nbind = \"127.0.0.1:0\"\nroute = [{{ respond = {{ body = \"pong\" }} }}]\nlimits = {{ {limits} }}\n"
        ))
    };
    let status = |server: &Server, path: &str, field: &str| {
        let mut client = Http2::connect(server.address());
        let head = block("GET", path, &[("x-field", field)]);
        let mut parts = head.chunks(16_384).peekable();
        let (mut kind, mut ends) = (HEADERS, END_STREAM);
        while let Some(part) = parts.next() {
            let last = if parts.peek().is_none() { END_HEADERS } else { 0 };
            client.send(&frame(kind, last | ends, 1, part));
            (kind, ends) = (CONTINUATION, 0);
        }
        client.status(1)
    };
    let path = |length| format!("/{}", "x".repeat(length - "GET / HTTP/1.1".len()));
    let server = start("request_line = \"100B\", header_block = \"200B\"");
    let field = |length: usize| "y".repeat(length - "x-field: \r\n".len());
    assert_eq!(status(&server, &path(100), &field(200)), 200);
    assert_eq!(status(&server, &path(101), &field(20)), 414);
    assert_eq!(status(&server, &path(20), &field(201)), 431);
    let server = start("request_line = \"40KiB\", header_block = \"64KiB\"");
    assert_eq!(status(&server, &path(30_000), &field(60_000)), 200);
}

#[test]
fn heads_that_grow_by_hpack_take_no_memory() {
    let target = Target::start(false);
    let before = process::resident_kib(target.server.pid());
    let mut attacker = target.client();
    let mut insert = vec![0x40];
    insert.extend(&literal("x", &"y".repeat(3900))[1..]);
    let bomb = |times| [block("GET", "/", &[]), vec![0xbe; times]].concat();
    // Above the limit of 32 KiB: this request alone is refused, and the table stays right.
    attacker.send(&frame(
        HEADERS,
        END_HEADERS | END_STREAM,
        1,
        &[block("GET", "/", &[]), insert, vec![0xbe; 12]].concat(),
    ));
    let end = attacker.until(|frame| frame.stream == 1);
    assert!(end.kind == RST_STREAM || end.status() == 431, "{end:?}");
    attacker.send(&frame(HEADERS, END_HEADERS | END_STREAM, 3, &bomb(2)));
    assert_eq!(attacker.response(3), (200, b"hello".to_vec()));
    let refused = format!("keepwarm_http2_requests_refused_total{{listener=\"{}\"}}", target.listener);
    admin::wait_for_metric(&target.server, &refused, 1.0);
    // 42 MB.
    attacker.send(&frame(HEADERS, END_HEADERS | END_STREAM, 5, &bomb(11_000)));
    assert_eq!(attacker.goodbye(), Some(ENHANCE_YOUR_CALM));
    target.expect_fault("http2_excess", 1.0);
    let grown = process::resident_kib(target.server.pid()).saturating_sub(before);
    assert!(grown < 16 << 10, "{grown} KiB");
}

#[test]
fn a_body_in_tiny_frames_that_nobody_reads_is_bounded() {
    let server = Server::start(&format!(
        "[server]\nthreads = 1\n{}",
        WSGI.replace("[[listen.main.route]]\n", "[[listen.main.route]]\nbuffer_request = false\n")
    ))
    .warm("/pong");
    let before = process::resident_kib(server.pid());
    let mut attacker = Http2::connect(server.address());
    // All streams that are allowed, each with as many frames as its window has bytes.
    'attack: for stream in streams(100) {
        attacker.head(stream, "POST", "/sleep?ms=20000", &[]);
        for _ in 0..128 {
            if !attacker.try_send(&frame(DATA, 0, stream, b"x").repeat(2000)) {
                break 'attack;
            }
        }
    }
    assert!(matches!(attacker.goodbye(), None | Some(ENHANCE_YOUR_CALM)));
    let grown = process::resident_kib(server.pid()).saturating_sub(before);
    assert!(grown < 128 << 10, "{grown} KiB");
}

#[test]
fn a_client_that_reads_nothing_is_cut() {
    let target = Server::start(&format!(
        "[server]\nlimits = {{ write_timeout = \"1s\" }}\n[admin]\nbind = \"127.0.0.1:0\"\n{WSGI}"
    ))
    .warm("/pong");
    let window = 0x7fff_ffff;
    let mut client = Http2::connect_with(target.address(), &[(4, window)]);
    client.give(0, window - 65_535);
    // Each response is cut after the same time, and the system may find room for the little that is left then: so there is always another.
    let mut requests = streams(400);
    let mut ask = |client: &mut Http2| {
        let stream = requests.next().expect("cut by now");
        client.try_send(&frame(
            HEADERS,
            END_HEADERS | END_STREAM,
            stream,
            &block("GET", "/big?bytes=4000000", &[]),
        ));
    };
    (0..20).for_each(|_| ask(&mut client));
    let name = "keepwarm_http2_connections_ended_total{listener=\"main\",reason=\"http2_write_timeout\"}";
    process::wait_until("it is cut", LONG, || {
        ask(&mut client);
        std::thread::sleep(Duration::from_millis(100)); // Its pace.
        admin::metrics(&target)[name] >= 1.0
    });
    // Or the system would keep for it what it does not take.
    assert!(client.is_reset(LONG), "the connection was closed, and not reset");
}

#[test]
fn an_upload_that_is_refused_early_sees_its_response() {
    let server = Server::start(
        &WSGI.replace("[[listen.main.route]]\n", "[[listen.main.route]]\nmax_body = \"1KiB\"\n"),
    )
    .warm("/pong");
    let mut client = Http2::connect(server.address());
    // Once with a length, once found out on the way.
    for (stream, length) in [(1, Some("5000000")), (5, None)] {
        let fields: Vec<_> = length.map(|length| ("content-length", length)).into_iter().collect();
        client.head(stream, "POST", "/digest", &fields);
        client.send(&frame(DATA, 0, stream, &[b'x'; 4000]));
        let head = client.until(|frame| frame.stream == stream && frame.kind == HEADERS);
        assert_eq!(head.status(), 413);
        assert!(!head.ends(), "it has a page");
        let last = client.until(|frame| frame.stream == stream && frame.ends());
        assert_eq!(last.kind, DATA);
        // RFC 9113 §8.1: the response is whole, and the rest of the request is not wanted.
        let reset = client.until(|frame| frame.stream == stream && frame.kind == RST_STREAM);
        assert_eq!(reset.code(), NO_ERROR);
        // What the client had already sent costs neither the stream's error nor the connection.
        for _ in 0..10 {
            client.send(&frame(DATA, 0, stream, &[b'x'; 4000]));
        }
        client.send(&frame(DATA, END_STREAM, stream, b"x"));
        client.request(stream + 2, "/pong", &[]);
        let next = client.until(|frame| frame.kind == GOAWAY || frame.stream == stream + 2);
        assert_eq!((next.kind, next.status()), (HEADERS, 200));
    }
    // As programs see it, in the middle of a long upload.
    let body = server.folder().join("body");
    std::fs::write(&body, vec![b'x'; 20_000_000]).expect("a file");
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--http2-prior-knowledge", "--max-time", "60", "--data-binary"])
        .arg(format!("@{}", body.display()))
        .args(["--write-out", " %{http_version} %{http_code}", &server.url("/digest")]);
    let said = tools::run_ok(&mut curl, LONG);
    assert!(said.ends_with(" 2 413") && said.len() > 20, "{said}");
}
