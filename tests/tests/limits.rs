//! The h1 rows of `spec/http.md` §8, with values small enough for a test.

use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use keepwarm_tests::{ASGI, BOUND, Client, Failure, Server, WSGI, admin, get, websocket};

const FIXED: &str = r#"
[listen.main]
bind = "127.0.0.1:0"
[[listen.main.route]]
respond = { status = 200, body = "pong" }
"#;

fn limited(base: &str, limits: &str) -> Server {
    Server::start(&format!("{base}\n[listen.main.limits]\n{limits}\n"))
}

/// Expects this status, and a close after it.
#[track_caller]
fn refused(client: &mut Client, status: u16) {
    let response = client.response("GET");
    assert_eq!(response.status, status, "{client}");
    assert!(response.says_close(), "{client}");
    client.expect_eof();
}

/// Closed without a word.
#[track_caller]
fn closed_silently(client: &mut Client) {
    match client.try_response("GET") {
        Err(Failure::Closed) => {}
        other => panic!("a silent close wanted, not {other:?}\n{client}"),
    }
}

#[test]
fn a_long_request_line_is_414() {
    let server = limited(FIXED, "request_line = 512");
    assert_eq!(server.ask(get(&format!("/{}", "a".repeat(450)))).status, 200);
    let mut client = server.client();
    client.send(get(&format!("/{}", "a".repeat(600))));
    refused(&mut client, 414);
    // Refused without waiting for an end that may never come.
    let mut client = server.client();
    client.send(format!("GET /{}", "a".repeat(700)));
    refused(&mut client, 414);
}

#[test]
fn the_default_limits_of_the_head_stand() {
    let server = Server::start(FIXED);
    assert_eq!(server.ask(get(&format!("/{}", "a".repeat(8000)))).status, 200);
    assert_eq!(
        server.ask(format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "b".repeat(32_000))).status,
        200
    );
    assert_eq!(
        server.ask(format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(127))).status,
        200
    );
    for (request, status) in [
        (get(&format!("/{}", "a".repeat(8192))), 414),
        (format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "b".repeat(32_768)), 431),
        (format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(128)), 431),
        (format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(10_000)), 431),
        // Longer than any method that is served, wherever the line may end.
        (format!("{} / HTTP/1.1\r\nHost: a\r\n\r\n", "M".repeat(9000)), 501),
    ] {
        let mut client = server.client();
        let _ = client.try_send(request.as_bytes());
        refused(&mut client, status);
    }
}

#[test]
fn a_large_header_block_is_431() {
    let server = limited(FIXED, "header_block = 1024");
    assert_eq!(
        server.ask(format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "b".repeat(900))).status,
        200
    );
    for request in [
        format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "b".repeat(1100)),
        format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}", "b".repeat(2000)),
        format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(200)),
    ] {
        let mut client = server.client();
        client.send(request);
        refused(&mut client, 431);
    }
}

#[test]
fn too_many_fields_are_431() {
    let server = limited(FIXED, "header_fields = 10");
    assert_eq!(server.ask(format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(9))).status, 200);
    let mut client = server.client();
    client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(10)));
    refused(&mut client, 431);
}

/// More lines than a frame of the wire holds. Processing them once took seconds, in which idle workers were killed for their silence.
#[test]
fn a_head_of_sixty_thousand_lines_costs_no_worker() {
    for base in [WSGI, ASGI] {
        let server = limited(base, "header_block = \"4MiB\"\nheader_fields = 65_536").warm("/pong");
        let workers = server.workers();
        for (lines, status) in [(10_000, 200), (60_000, 431)] {
            let mut client = server.client().patient(BOUND);
            client.send(format!(
                "GET /pong HTTP/1.1\r\nHost: a\r\nConnection: x-none\r\n{}\r\n",
                "X-Many: 1\r\n".repeat(lines)
            ));
            assert_eq!(client.response("GET").status, status, "{lines} lines\n{}", server.log());
        }
        assert_eq!(server.ask(get("/pong")).text(), "pong");
        assert_eq!(server.workers(), workers);
    }
}

#[test]
fn a_slow_head_is_408_however_it_trickles() {
    let server = limited(FIXED, "head_timeout = \"300ms\"");
    let mut quiet = server.client();
    quiet.send("GET / HTTP/1.1\r\nHost: a\r\n");
    let begun = Instant::now();
    let mut trickling = server.client();
    // A byte now and then does not buy more time: the timeout counts from the first one.
    let head =
        b"GET / HTTP/1.1\r\nHost: a\r\nX: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy";
    for byte in head {
        if begun.elapsed() > Duration::from_millis(420) || trickling.try_send(&[*byte]).is_err() {
            break;
        }
        std::thread::sleep(Duration::from_millis(15));
    }
    refused(&mut trickling, 408);
    refused(&mut quiet, 408);
    assert!(
        begun.elapsed() > Duration::from_millis(190) && begun.elapsed() < Duration::from_secs(8),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn the_clock_of_a_head_starts_with_its_first_byte() {
    let server = limited(FIXED, "head_timeout = \"200ms\"");
    let mut client = server.client();
    client.expect_kept("/");
    client.expect_silence(Duration::from_millis(400));
    client.expect_kept("/");
    // The second head of a connection has its own clock.
    client.send("GET / HT");
    refused(&mut client, 408);
}

#[test]
fn an_idle_connection_is_closed_without_a_response() {
    let server = limited(FIXED, "idle_timeout = \"1s\"");
    let mut client = server.client();
    client.expect_kept("/");
    let begun = Instant::now();
    closed_silently(&mut client);
    assert!(
        begun.elapsed() > Duration::from_millis(850) && begun.elapsed() < Duration::from_secs(8),
        "{:?}",
        begun.elapsed()
    );
    let mut silent = server.client();
    closed_silently(&mut silent);
}

#[test]
fn an_empty_line_behind_a_request_is_no_head_that_is_late() {
    // RFC 9112 §2.2: old clients send one after a body. `Keep-Alive: timeout` was promised before it.
    let server = limited(FIXED, "head_timeout = \"200ms\"\nidle_timeout = \"1s\"");
    let mut client = server.client();
    client.expect_kept("/");
    client.send("\r\n");
    client.expect_silence(Duration::from_millis(500));
    client.expect_kept("/");
    client.send("\r\n");
    closed_silently(&mut client);
    // The head after it has its clock.
    let mut late = server.client();
    late.send("\r\n");
    late.send("GET / HT");
    refused(&mut late, 408);
}

#[test]
fn the_keep_alive_field_has_the_configured_timeout() {
    let server = limited(FIXED, "idle_timeout = \"20s\"");
    assert_eq!(server.ask(get("/")).field("keep-alive"), Some("timeout=20"));
}

#[test]
fn a_request_in_work_is_not_idle() {
    for base in [WSGI, ASGI] {
        let server = limited(base, "idle_timeout = \"1s\"\nhead_timeout = \"1s\"").warm("/pong");
        let mut client = server.client();
        assert_eq!(client.ask(get("/sleep?ms=1300")).text(), "pong");
        client.expect_kept("/pong");
    }
}

#[test]
fn a_body_above_the_limit_is_413() {
    for base in [WSGI, ASGI] {
        let server = limited(base, "body = 1000").warm("/pong");
        let ask = |length: usize| {
            format!(
                "POST /digest HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{}",
                "x".repeat(length)
            )
        };
        assert_eq!(server.ask(ask(1000)).json()["length"], 1000);
        let mut client = server.client();
        client.send(ask(1001));
        // A small rest of it may be read so that the connection is kept.
        let response = client.response("POST");
        assert_eq!(response.status, 413, "{client}");
        if response.says_close() {
            client.expect_end();
        } else {
            client.expect_kept("/pong");
        }
        // Refused by what it says, before it comes.
        let mut client = server.client();
        client.send("POST /digest HTTP/1.1\r\nHost: a\r\nContent-Length: 9223372036854775807\r\n\r\n");
        refused(&mut client, 413);
        // A chunked one by what has come.
        let mut client = server.client();
        client.send(format!(
            "POST /digest HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{}",
            format!("100\r\n{}\r\n", "x".repeat(256)).repeat(4)
        ));
        refused(&mut client, 413);
        assert_eq!(server.ask(get("/pong")).text(), "pong");
    }
}

#[test]
fn an_upload_above_the_limit_gets_its_413_while_it_sends() {
    // The lingering close: without it the bytes under way turn the response into a reset.
    let server = limited(WSGI, "body = 1000").warm("/pong");
    for _ in 0..10 {
        let mut client = server.client();
        client.send("POST /digest HTTP/1.1\r\nHost: a\r\nContent-Length: 50000\r\n\r\n");
        for _ in 0..5 {
            let _ = client.try_send(&[b'x'; 10_000]);
        }
        let response = client.response("POST");
        assert_eq!(response.status, 413);
    }
}

#[test]
fn a_body_below_the_rate_is_408() {
    for base in [WSGI, ASGI] {
        let server = limited(base, "body_rate = 10000\nbody_grace = \"200ms\"").warm("/pong");
        let mut client = server.client();
        client.send("POST /digest HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n");
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(700) && client.try_send(b"xxxxx").is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
        refused(&mut client, 408);
        // At more than the rate it passes, though it takes longer than the grace.
        let mut client = server.client();
        client.send("POST /digest HTTP/1.1\r\nHost: a\r\nContent-Length: 160000\r\n\r\n");
        for _ in 0..40 {
            client.send([b'x'; 4000]);
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(client.response("POST").json()["length"], 160_000);
    }
}

/// Only time in which the client is waited for is its own.
#[test]
fn an_app_that_reads_late_makes_no_client_slow() {
    let server = limited(ASGI, "body_rate = 1000000\nbody_grace = \"500ms\"").warm("/pong");
    let mut client = server.client();
    client.send("POST /lull?ms=1500 HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nx");
    server.wait_for_log("the lull begins", BOUND);
    client.send(vec![b'x'; 999_900]);
    server.wait_for_log("the lull is over", BOUND);
    // All but this has been read by now, and it is waited for: it has most of its grace.
    client.expect_silence(Duration::from_millis(150));
    client.send([b'x'; 99]);
    let response = client.response("POST");
    assert_eq!((response.status, response.text().as_str()), (200, "1000000"));
}

#[test]
fn a_client_that_takes_nothing_is_reset() {
    for limits in ["write_timeout = \"400ms\"", "drain_rate = 20000000\nbody_grace = \"300ms\""] {
        for base in [WSGI, ASGI] {
            let server = limited(base, limits).warm("/pong");
            let mut client = server.client();
            rustix::net::sockopt::set_socket_recv_buffer_size(client.stream(), 65_536).expect("SO_RCVBUF");
            client.send(get("/big?bytes=30000000"));
            client.head("GET");
            // A reset tells it at last that nothing more is sent.
            server.wait_for_log("/big", BOUND);
            let mut client = client.patient(Duration::from_secs(20));
            let (bytes, orderly) = client.read_to_end();
            assert!(
                !orderly && bytes.len() < 29_000_000,
                "{limits}: {} bytes, orderly: {orderly}",
                bytes.len()
            );
        }
    }
}

#[test]
fn a_connection_serves_so_many_requests() {
    for base in [FIXED, WSGI] {
        let server = limited(base, "connection_requests = 3");
        let mut client = server.client();
        assert!(!client.expect_kept("/pong").says_close());
        assert!(!client.expect_kept("/pong").says_close());
        assert!(client.expect_kept("/pong").says_close());
        client.expect_eof();
    }
}

#[test]
fn a_connection_lives_so_long() {
    let server = limited(FIXED, "connection_age = \"1s\"");
    let mut client = server.client();
    assert!(!client.expect_kept("/").says_close());
    std::thread::sleep(Duration::from_millis(1200));
    // Its last request gets a response with a close, or it was closed while it was idle.
    match client.try_send(get("/").as_bytes()).map(|()| client.try_response("GET")) {
        Ok(Ok(response)) => assert!(response.status == 200 && response.says_close(), "{client}"),
        Ok(Err(Failure::Closed | Failure::Reset(_))) | Err(_) => {}
        Ok(Err(other)) => panic!("{other:?}\n{client}"),
    }
}

#[test]
fn trailers_and_extensions_are_bounded() {
    let chunked =
        |rest: &str| format!("POST /digest HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{rest}");
    let trailers = |count: usize, size: usize| {
        chunked(&format!("0\r\n{}\r\n", format!("X: {}\r\n", "y".repeat(size)).repeat(count)))
    };
    let extensions = |count: usize, size: usize| {
        chunked(&format!("{}0\r\n\r\n", format!("1;{}\r\nx\r\n", "e".repeat(size)).repeat(count)))
    };
    for base in [WSGI, ASGI] {
        let server =
            limited(base, "trailer_block = 1000\ntrailer_fields = 10\nchunk_extensions = 1000").warm("/pong");
        for request in [trailers(10, 1), trailers(3, 200), extensions(3, 200)] {
            assert_eq!(server.ask(request).status, 200);
        }
        for request in
            [trailers(11, 1), trailers(1, 1200), trailers(8, 200), extensions(1, 1200), extensions(30, 50)]
        {
            let mut client = server.client();
            client.send(&request);
            refused(&mut client, 400);
        }
    }
}

#[test]
fn a_client_address_has_so_many_connections() {
    let server = limited(FIXED, "connections_per_client = 2\n[admin]\nbind = \"127.0.0.1:0\"");
    let mut first = server.client();
    first.expect_kept("/");
    let mut second = server.client();
    second.expect_kept("/");
    let mut third = server.client();
    let _ = third.try_send(get("/").as_bytes());
    match third.try_response("GET") {
        Err(Failure::Closed | Failure::Reset(_)) => {}
        Ok(response) if matches!(response.status, 429 | 503) => {}
        other => panic!("{other:?}\n{third}"),
    }
    first.expect_kept("/");
    let _ = server.client().try_response("GET");
    server.wait_for_log("connections refused: this client has", BOUND);
    assert_eq!(server.log().matches("connections refused").count(), 1, "{}", server.log());
    let refused = r#"keepwarm_connections_refused_total{listener="main"}"#;
    assert_eq!(admin::wait_for_metric(&server, refused, 2.0), 2.0);
    drop(second);
    keepwarm_tests::process::wait_until("a place is free again", BOUND, || {
        let mut client = server.client();
        client.try_send(get("/").as_bytes()).is_ok()
            && client.try_response("GET").is_ok_and(|response| response.status == 200)
    });
}

#[test]
fn at_the_limit_of_connections_the_longest_idle_goes_first() {
    // By any of the threads, whichever has it.
    for threads in [1, 3] {
        let server = Server::start(&full(threads, 4));
        let mut clients: Vec<Client> = (0..4).map(|_| server.client()).collect();
        for client in &mut clients {
            client.expect_kept("/");
            std::thread::sleep(Duration::from_millis(5)); // They differ in when they were last used.
        }
        let mut fifth = server.client();
        fifth.expect_kept("/");
        closed_silently(&mut clients[0]);
        for client in &mut clients[1..] {
            client.expect_kept("/");
        }
        let evicted = "keepwarm_connections_evicted_total{listener=\"main\"}";
        assert_eq!(admin::wait_for_metric(&server, evicted, 1.0), 1.0);
        admin::wait_for_metric(&server, "keepwarm_connection_limit_waits_total{listener=\"main\"}", 1.0);
    }
}

#[test]
fn more_clients_than_connections_lose_no_request() {
    const LIMIT: usize = 20;
    let server = Server::start(&full(2, LIMIT));
    let asked = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..LIMIT + 10 {
            scope.spawn(|| {
                for _ in 0..8 {
                    let mut client = server.client();
                    // Each keeps its connection as long as the server allows.
                    for _ in 0..100 {
                        client.send(get("/"));
                        let response = client.response("GET");
                        assert_eq!(response.status, 200, "{client}");
                        asked.fetch_add(1, Ordering::Relaxed);
                        if response.says_close() {
                            break;
                        }
                    }
                }
            });
        }
    });
    assert!(asked.into_inner() > 30, "somebody was served");
    let log = server.log();
    assert_eq!(log.matches("connection limit reached").count(), 1, "{log}");
    assert!(log.contains("limit=20") && log.contains("server.limits.connections"), "{log}");
    admin::wait_for_metric(&server, "keepwarm_connection_limit_waits_total{listener=\"main\"}", 10.0);
}

#[test]
fn busy_connections_are_closed_in_turn_at_the_limit() {
    let server = Server::start(&full(2, 2));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let busy = || {
            while !stop.load(Ordering::Relaxed) {
                let mut client = server.client();
                while !stop.load(Ordering::Relaxed) {
                    if client.ask(get("/")).says_close() {
                        break;
                    }
                }
            }
        };
        (0..2).for_each(|_| drop(scope.spawn(busy)));
        // Waits in the kernel with its request, until one of the others gets a close.
        for _ in 0..2 {
            let mut client = server.client().patient(BOUND);
            assert_eq!(client.ask(get("/")).status, 200);
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn connections_wait_while_none_can_end() {
    let server = Server::start(&full(2, 2).replace("workers = 1", "workers = 2")).warm("/slow/pong");
    let accepted = r#"keepwarm_connections_total{listener="main"}"#;
    let before = admin::metrics(&server)[accepted];
    let mut busy: Vec<Client> = (0..2).map(|_| server.client()).collect();
    for client in &mut busy {
        client.send(get("/slow/sleep?ms=1500"));
    }
    admin::wait_for_metric(&server, accepted, before + 2.0);
    let mut third = server.client().patient(BOUND);
    third.send(get("/"));
    for client in &mut busy {
        assert_eq!(client.response("GET").status, 200, "{client}");
    }
    drop(busy);
    assert_eq!(third.response("GET").status, 200, "{third}");
}

#[test]
fn a_small_limit_on_open_files_leaves_room_for_most_connections() {
    let server = with_files(FIXED, 256);
    let mut clients: Vec<Client> = (0..150).map(|_| server.client()).collect();
    for client in &mut clients {
        client.expect_kept("/");
    }
    clients.iter_mut().for_each(|client| drop(client.expect_kept("/")));
}

#[test]
fn without_descriptors_new_connections_wait_until_idle_ones_are_closed() {
    let server = with_files(&format!("[server]\nthreads = 2\n{FIXED}"), 48);
    let mut clients: Vec<Client> = (0..60).map(|_| server.client().patient(BOUND)).collect();
    for client in &mut clients {
        client.send(get("/"));
    }
    for client in &mut clients {
        assert_eq!(client.response("GET").status, 200, "{client}");
    }
    let log = server.log();
    assert!(log.contains("cannot accept connections; they wait"), "{log}");
}

/// May open this many files.
fn with_files(config: &str, files: u32) -> Server {
    Server::start_as(config, |folder| {
        let script = folder.join("limited");
        // Both limits: the soft one is raised.
        let text = format!(
            "#!/bin/sh\nulimit -n {files} && exec '{}' \"$@\"\n",
            keepwarm_tests::keepwarm().display()
        );
        std::fs::write(&script, text).expect("the script is written");
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("it is executable");
        script
    })
}

#[test]
fn a_reload_changes_the_limit_of_connections() {
    let server = Server::start(&full(1, 2));
    // Their bodies never come: neither is idle, nor does either end by itself.
    let mut two: Vec<Client> = (0..2).map(|_| server.client()).collect();
    two.iter_mut().for_each(|client| {
        client.send("POST /slow/digest HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n");
    });
    let mut third = server.client().patient(BOUND);
    third.send(get("/"));
    server.wait_for_log("connection limit reached", BOUND);
    server.reload_with(&full(1, 3));
    assert_eq!(third.response("GET").status, 200);
}

/// This many threads and connections; `/slow` is the test application, all else a fixed response.
fn full(threads: usize, connections: usize) -> String {
    let app = WSGI.split_once("[app.app]").expect("it has an app").1;
    format!(
        "[server]\nthreads = {threads}\nlimits = {{ connections = {connections} }}\n[admin]\nbind = \"127.0.0.1:0\"\n[listen.main]\nbind = \"127.0.0.1:0\"\n\
         [[listen.main.route]]\npath = \"/slow/*\"\nstrip_prefix = true\napp = \"app\"\n\
         [[listen.main.route]]\nrespond = {{ status = 200, body = \"pong\" }}\n[app.app]{app}"
    )
}

#[test]
fn messages_of_a_websocket_are_bounded() {
    let server = limited(ASGI, "websocket_frame = 1000\nwebsocket_message = 3000").warm("/pong");
    let mut client = server.client();
    websocket::open(&mut client, "/ws", "");
    client.send(websocket::frame(0x82, &[7; 1000]));
    assert_eq!(websocket::message(&mut client), (2, vec![7; 1000]));
    client.send(websocket::frame(0x82, &[7; 1001]));
    assert_eq!(close_code(&mut client), 1009);
    let mut client = server.client();
    websocket::open(&mut client, "/ws", "");
    client.send(websocket::frame(0x02, &[7; 900]));
    for _ in 0..3 {
        client.send(websocket::frame(0x00, &[7; 900]));
    }
    assert_eq!(close_code(&mut client), 1009);
}

#[test]
fn a_silent_websocket_is_pinged_and_then_closed() {
    let server = limited(ASGI, "websocket_idle = \"1s\"").warm("/pong");
    let mut client = server.client();
    websocket::open(&mut client, "/ws", "");
    let begun = Instant::now();
    let (first, payload) = websocket::read(&mut client);
    assert_eq!(first, 0x89, "a ping at half of the time\n{client}");
    assert!(begun.elapsed() > Duration::from_millis(200), "{:?}", begun.elapsed());
    client.send(websocket::frame(0x8a, &payload));
    let (first, _) = websocket::read(&mut client);
    assert_eq!(first, 0x89, "the pong bought time\n{client}");
    // This one is not responded to: the server closes.
    let (first, _) = websocket::read(&mut client);
    assert_eq!(first, 0x88, "{client}");
}

#[track_caller]
fn close_code(client: &mut Client) -> u16 {
    let (first, payload) = websocket::read(client);
    assert_eq!(first, 0x88, "{client}");
    u16::from_be_bytes([payload[0], payload[1]])
}
