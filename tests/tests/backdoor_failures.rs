//! The back door when its upstreams fail: what is retried, what is reported, and what is never done twice.

use std::io::{BufReader, Read, Write};
use std::net::{Shutdown, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use keepwarm_tests::origin::{After, Gate, Origin, ok, read_head, reset};
use keepwarm_tests::process::wait_until;
use keepwarm_tests::tools::nobody;
use keepwarm_tests::{Client, Failure, Response, Server};

/// A door to these addresses; the configuration may go on in the section.
fn door(addresses: &[std::net::SocketAddr], more: &str) -> Server {
    let endpoints: Vec<String> =
        addresses.iter().map(|address| format!("{{ url = \"http://{address}\" }}")).collect();
    Server::start(&format!(
        "[server]\nthreads = 1\n[upstream.search]\nendpoints = [{}]\nbind = \"127.0.0.1:0\"\n{more}",
        endpoints.join(", ")
    ))
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n\r\n")
}

fn post(path: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\nContent-Length: 2\r\n\r\nhi"
    )
}

fn reason(response: &Response) -> String {
    response.json()["reason"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn an_idle_connection_that_was_closed_costs_no_call() {
    // A reset upon the first byte of the second request of each connection, without a FIN before.
    let origin = Origin::raw(|_, mut stream| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        if read_head(&mut reader).is_some() {
            ok(&mut stream, b"first");
            let _ = reader.read(&mut [0; 1]);
            reset(stream);
        }
    });
    let server = door(&[origin.address()], "");
    let mut client = server.client();
    for _ in 0..3 {
        assert_eq!(client.ask(get("/")).text(), "first");
    }
    assert!(origin.connections() >= 3);
    let line = server.wait_for_log("retried on a new one: ok", Duration::from_secs(10));
    assert!(line.contains("closed an idle connection after"), "{line}");
    assert!(line.contains("cause=\"closed_idle\"") || line.contains("cause=closed_idle"), "{line}");
}

#[test]
fn a_post_is_not_sent_twice() {
    let seen = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&seen);
    let origin = Origin::start(move |request, stream| {
        if request.method() == "POST" {
            count.fetch_add(1, Ordering::SeqCst);
            return After::Reset;
        }
        ok(stream, b"got");
        After::Keep
    });
    let server = door(&[origin.address()], "");
    let response = server.ask(post("/"));
    assert_eq!((response.status, reason(&response).as_str()), (502, "closed_without_response"));
    // Even on a connection that was used a moment ago.
    let mut client = server.client();
    assert_eq!(client.ask(get("/")).status, 200);
    let response = client.ask(post("/"));
    assert_eq!(response.status, 502);
    assert_eq!(seen.load(Ordering::SeqCst), 2);
}

#[test]
fn an_idempotent_call_is_tried_again_with_its_body() {
    let tries = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&tries);
    let origin = Origin::start(move |request, stream| {
        if count.fetch_add(1, Ordering::SeqCst) == 0 {
            return After::Reset;
        }
        ok(stream, &request.body);
        After::Keep
    });
    let server = door(&[origin.address()], "");
    let body = "x".repeat(40_000);
    let put = format!("PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 40000\r\n\r\n{body}");
    assert_eq!(server.ask(put).text(), body);
    assert_eq!(tries.load(Ordering::SeqCst), 2);
    server.wait_for_log("retried on a new one: ok", Duration::from_secs(10));
}

#[test]
fn a_body_that_is_too_large_to_be_kept_is_not_tried_again() {
    let origin = Origin::raw(|_, stream| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        read_head(&mut reader).unwrap();
        reader.read_exact(&mut vec![0; 200_000]).unwrap();
        reset(stream);
    });
    let server = door(&[origin.address()], "");
    let mut client = server.client();
    client.send(
        "PUT / HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\nContent-Length: 200000\r\n\r\n",
    );
    client.send(vec![b'x'; 200_000]);
    let response = client.response("PUT");
    assert_eq!((response.status, reason(&response).as_str()), (502, "closed_without_response"));
    assert_eq!(origin.connections(), 1);
}

#[test]
fn an_endpoint_that_is_gone_is_left_for_another() {
    let origin = Origin::fixed("here");
    let server = door(&[nobody(), origin.address()], "");
    for at in 0..30 {
        let response = server.ask(if at % 2 == 0 { get("/") } else { post("/") });
        assert_eq!(response.status, 200, "{at}: {}", response.text());
    }
    assert_eq!(origin.requests().len(), 30);
}

#[test]
fn an_unreachable_upstream_is_502_and_then_opens_the_breaker() {
    let address = nobody();
    let server = door(&[address], "breaker = { failures = 3, open = \"1s\" }\n");
    let mut opened = None;
    for _ in 0..10 {
        let response = server.ask(get("/"));
        match response.status {
            502 => assert_eq!(reason(&response), "connect_refused"),
            503 => {
                assert_eq!(reason(&response), "breaker_open");
                opened = response.field("retry-after").map(ToOwned::to_owned);
                break;
            }
            other => panic!("{other}: {}", response.text()),
        }
    }
    assert!(opened.is_some_and(|seconds| seconds.parse::<u32>().unwrap() >= 1), "a breaker that opens");
    server.wait_for_log("breaker open", Duration::from_secs(10));
    // A listener is there now: a probe closes it.
    let listener = TcpListener::bind(address).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            while read_head(&mut reader).is_some() {
                ok(&mut stream, b"back");
            }
        }
    });
    wait_until("the breaker closes", Duration::from_secs(20), || server.ask(get("/")).status == 200);
}

#[test]
fn each_phase_has_its_time_out() {
    let origin = Origin::raw(|_, mut stream| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let Some(head) = read_head(&mut reader) else { return };
        if head.starts_with("GET /idle") {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf").unwrap();
        }
        if head.starts_with("GET /early") {
            stream.write_all(b"HTTP/1.1 102 Processing\r\n\r\n").unwrap();
        }
        if head.starts_with("GET /half-a-head") {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Le").unwrap();
        }
        if head.starts_with("GET /trickle") {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n");
            while stream.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        let _ = reader.read(&mut [0; 1]);
    });
    let server = door(
        &[origin.address()],
        "timeout = \"2s\"\ntimeouts = { first_byte = \"300ms\", idle = \"400ms\" }\nbreaker = \"off\"\n",
    );
    let response = server.ask(get("/first"));
    assert_eq!((response.status, reason(&response).as_str()), (504, "first_byte_timeout"));
    assert!(response.text().contains("did not start to respond within 300 ms"), "{}", response.text());
    let response = server.ask(get("/half-a-head"));
    assert_eq!((response.status, reason(&response).as_str()), (504, "first_byte_timeout"));
    assert!(response.text().contains("did not finish its response head"), "{}", response.text());
    let mut client = server.client();
    client.send(get("/early"));
    assert_eq!(client.head("GET").0, 102);
    let response = client.response("GET");
    assert_eq!((response.status, reason(&response).as_str()), (504, "idle_timeout"));
    for path in ["/idle", "/trickle"] {
        let mut client = server.client();
        client.send(get(path));
        assert_eq!(client.head("GET").0, 200);
        client.read_to_end();
    }
    let server = door(&[origin.address()], "timeout = \"300ms\"\nbreaker = \"off\"\n");
    let response = server.ask(get("/whole"));
    assert_eq!((response.status, reason(&response).as_str()), (504, "timeout"));
}

#[test]
fn a_full_accept_queue_is_a_time_out_of_connecting() {
    let listener = socket_that_accepts_nothing();
    let address = listener.local_addr().unwrap();
    // Until the kernel takes no more.
    let mut waiting = Vec::new();
    while let Ok(stream) = std::net::TcpStream::connect_timeout(&address, Duration::from_millis(300)) {
        waiting.push(stream);
        assert!(waiting.len() < 200, "a queue without end");
    }
    let server = door(&[address], "timeouts = { connect = \"300ms\" }\nretries = 0\n");
    let response = server.ask(post("/"));
    assert_eq!((response.status, reason(&response).as_str()), (504, "connect_timeout"));
}

fn socket_that_accepts_nothing() -> TcpListener {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    listener
}

#[test]
fn calls_above_the_limit_wait_and_then_get_503() {
    let gate = Gate::default();
    let held = gate.clone();
    let origin = Origin::start(move |request, stream| {
        if request.target() == "/slow" {
            held.wait();
        }
        ok(stream, b"done");
        After::Keep
    });
    let server = door(
        &[origin.address()],
        "[upstream.search.limits]\nin_flight = 1\nqueue = 1\nqueue_timeout = \"300ms\"\n",
    );
    let mut slow = server.client();
    slow.send(get("/slow"));
    origin.wait_until("the slow call is there", |origin| origin.requests().len() == 1);
    let mut waiting = server.client();
    waiting.send(get("/waits"));
    let response = waiting.response("GET");
    assert_eq!((response.status, reason(&response).as_str()), (503, "queue_timeout"));
    assert_eq!(response.field("retry-after"), Some("1"));
    let mut first = server.client();
    first.send(get("/waits"));
    let mut responses: Vec<(u16, String)> = Vec::new();
    for _ in 0..2 {
        let mut client = server.client();
        client.send(get("/too-many"));
        let response = client.response("GET");
        responses.push((response.status, reason(&response)));
    }
    assert!(
        responses.iter().any(|(status, reason)| *status == 503 && reason.starts_with("queue_")),
        "{responses:?}"
    );
    gate.open();
    assert_eq!(slow.response("GET").status, 200);
    assert_eq!(server.ask(get("/after")).status, 200);
}

#[test]
fn violations_in_a_response_are_502_with_the_reason() {
    let origin = Origin::raw(|_, mut stream| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let Some(head) = read_head(&mut reader) else { return };
        let response: &[u8] = match head.split(' ').nth(1).unwrap() {
            "/two-lengths" => b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
            "/no-http" => b"SSH-2.0-OpenSSH_9\r\n\r\n",
            "/unasked" => b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
            _ => b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        };
        stream.write_all(response).unwrap();
    });
    let server = door(&[origin.address()], "breaker = \"off\"\noutlier = \"off\"\n");
    for path in ["/two-lengths", "/no-http", "/unasked"] {
        let response = server.ask(get(path));
        assert_eq!(response.status, 502, "{path}: {}", response.text());
    }
    assert_eq!(server.ask(get("/fine")).text(), "ok");
}

/// A response that breaks off before its head has left is a 502; one that breaks off later is cut.
#[test]
fn a_response_truncated_before_anything_was_sent_is_a_502() {
    let (go, wait) = mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let origin = Origin::raw(move |_, mut stream| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        while let Some(head) = read_head(&mut reader) {
            let target = head.split(' ').nth(1).unwrap();
            let response: &[u8] = match target {
                "/short" => b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
                "/chunk" => b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n",
                "/late" => b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\nabc",
                _ => b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            };
            // With the FIN in the same segment, where one follows.
            rustix::net::sockopt::set_tcp_cork(&stream, true).unwrap();
            stream.write_all(response).unwrap();
            match target {
                "/short" | "/chunk" => return stream.shutdown(Shutdown::Write).unwrap(),
                "/late" => {
                    rustix::net::sockopt::set_tcp_cork(&stream, false).unwrap();
                    return wait.lock().unwrap().recv().unwrap();
                }
                _ => rustix::net::sockopt::set_tcp_cork(&stream, false).unwrap(),
            }
        }
    });
    let server = door(&[origin.address()], "breaker = \"off\"\noutlier = \"off\"\n");
    let mut client = server.client();
    for (path, name) in [("/short", "truncated"), ("/chunk", "bad_chunk_size")] {
        let response = client.ask(get(path));
        assert_eq!((response.status, reason(&response).as_str()), (502, name), "{path}: {}", response.text());
        assert_eq!(client.ask(get("/fine")).text(), "ok", "the client's connection is as good as before");
    }
    client.send(get("/late"));
    assert_eq!(client.head("GET").0, 200);
    assert_eq!(client.read_exact(3), b"abc");
    go.send(()).unwrap();
    // By a close and no reset, which could take an earlier response with it: the length shows that this one is not whole.
    let (bytes, orderly) = client.read_to_end();
    assert!(orderly && bytes.is_empty(), "it is cut");
}

#[test]
fn a_lost_idle_connection_is_no_failure_of_the_upstream() {
    let origin = Origin::start(|request, stream| match request.turn {
        0 => {
            ok(stream, b"fresh");
            After::Keep
        }
        _ => After::Reset,
    });
    let server = door(&[origin.address()], "breaker = { failures = 1 }\n");
    let mut client = server.client();
    for call in 0..4 {
        assert_eq!(client.ask(get("/")).text(), "fresh", "call {call}");
    }
}

/// Nothing shows which part was meant: 502 as long as nothing has left, and nothing of that connection is used again.
#[test]
fn bytes_after_a_response_discard_it() {
    const FORGED: &str = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged";
    let origin = Origin::raw(|_, mut stream| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        while let Some(head) = read_head(&mut reader) {
            let response = match head.split(' ').nth(1).unwrap() {
                "/length" => "200 OK\r\nContent-Length: 2\r\n\r\nok",
                "/chunked" => "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
                "/none" => "204 No Content\r\n\r\n",
                _ => {
                    ok(&mut stream, b"fine");
                    continue;
                }
            };
            // In one write: what comes once the next request has left is its response, for all that anybody can tell.
            let _ = stream.write_all(format!("HTTP/1.1 {response}{FORGED}").as_bytes());
        }
    });
    let server = door(&[origin.address()], "breaker = \"off\"\n");
    let mut client = server.client();
    for path in ["/length", "/chunked", "/none"] {
        let response = client.ask(get(path));
        assert_eq!((response.status, reason(&response).as_str()), (502, "unsolicited"), "{path}");
        assert!(response.text().contains("after the end of its response"), "{}", response.text());
        assert_eq!(client.ask(get("/fine")).text(), "fine", "after {path}");
    }
}

/// An empty line too many after the last chunk, as some servers send it, moves no boundary: it is dropped, with its connection.
#[test]
fn an_empty_line_after_the_last_chunk_is_dropped() {
    let origin = Origin::raw(|_, mut stream| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        while read_head(&mut reader).is_some() {
            let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n\r\n";
            let _ = stream.write_all(chunked.as_bytes());
        }
    });
    let server = door(&[origin.address()], "");
    let mut client = server.client();
    for asked in 1..=3 {
        assert_eq!(client.ask(get("/")).text(), "ok");
        assert_eq!(origin.connections(), asked, "a connection is not used again");
    }
}

/// The body of a response that has none is a mistake of many servers, and moves no boundary: it is dropped, with its connection.
#[test]
fn a_body_where_there_can_be_none_is_dropped() {
    let origin = Origin::raw(|_, mut stream| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        while let Some(head) = read_head(&mut reader) {
            let status = match head.split(' ').nth(1).unwrap() {
                "/204" => "204 No Content\r\n",
                "/304" => "304 Not Modified\r\nContent-Length: 4\r\n",
                _ => "200 OK\r\nContent-Length: 4\r\n",
            };
            let _ = stream.write_all(format!("HTTP/1.1 {status}\r\nbody").as_bytes());
        }
    });
    let server = door(&[origin.address()], "");
    let mut client = server.client();
    for (method, path, status) in [("HEAD", "/", 200), ("GET", "/204", 204), ("GET", "/304", 304)] {
        client.send(format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        assert_eq!(client.response(method).status, status, "{method} {path}");
        assert_eq!(client.ask(get("/")).text(), "body", "after {method} {path}");
    }
}

/// The end of a response that has begun to leave is held back; where its length shows that it is whole, there is nothing to hold back.
#[test]
fn bytes_after_a_response_truncate_it_if_it_was_already_forwarded() {
    let (go, wait) = mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let origin = Origin::raw(move |_, mut stream| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        while let Some(head) = read_head(&mut reader) {
            let (begin, end) = match head.split(' ').nth(1).unwrap() {
                "/chunked" => ("Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n", "0\r\n\r\nforged"),
                _ => ("Content-Length: 4\r\n\r\nok", "okforged"),
            };
            stream.write_all(format!("HTTP/1.1 200 OK\r\n{begin}").as_bytes()).unwrap();
            wait.lock().unwrap().recv().unwrap();
            let _ = stream.write_all(end.as_bytes());
        }
    });
    let server = door(&[origin.address()], "");
    let mut client = server.client();
    client.send(get("/length"));
    client.wait_for_something(Duration::from_secs(20));
    go.send(()).unwrap();
    assert_eq!(client.response("GET").text(), "okok");
    client.send(get("/chunked"));
    client.wait_for_something(Duration::from_secs(20));
    go.send(()).unwrap();
    assert!(matches!(client.try_response("GET"), Err(Failure::Cut(_) | Failure::Reset(_))), "{client}");
}

#[test]
fn a_storm_of_informational_responses_has_an_end_with_its_client() {
    let origin = Origin::raw(|_, mut stream| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        if read_head(&mut reader).is_some() {
            while stream.write_all(b"HTTP/1.1 102 Processing\r\n\r\n").is_ok() {}
        }
    });
    // There is no timeout for the whole of it.
    let server = door(&[origin.address()], "timeouts = { idle = \"1s\" }\n");
    // Not by the client that keeps a transcript.
    let mut client = std::net::TcpStream::connect(server.address()).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    client.write_all(get("/").as_bytes()).unwrap();
    let mut last = Vec::new();
    while !String::from_utf8_lossy(&last).contains("HTTP/1.1 504 Gateway Timeout") {
        let mut block = vec![0; 1 << 16];
        let got = client.read(&mut block).unwrap();
        assert!(got > 0, "an end without a response");
        last.drain(..last.len().saturating_sub(100));
        last.extend_from_slice(&block[..got]);
    }
    origin.wait_until("the storm is over", |origin| origin.open() == 0);
}

/// A flood of `100 Continue`, which the client never sees, ends, too.
#[test]
fn a_drizzle_of_continues_has_an_end() {
    let origin = Origin::raw(|_, mut stream| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        if read_head(&mut reader).is_some() {
            while stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").is_ok() {
                std::thread::sleep(Duration::from_millis(5)); // Each is read by itself.
            }
        }
    });
    let server = door(&[origin.address()], "timeouts = { first_byte = \"1s\" }\n");
    let response = server.ask(get("/"));
    assert_eq!((response.status, response.json()["reason"].as_str()), (504, Some("first_byte_timeout")));
    origin.wait_until("the call is called off", |origin| origin.open() == 0);
}

#[test]
fn a_client_that_leaves_calls_its_call_off() {
    let origin = Origin::raw(|_, stream| {
        let mut reader = BufReader::new(stream);
        read_head(&mut reader).unwrap();
        let _ = reader.read(&mut [0; 1]);
    });
    let server = door(&[origin.address()], "");
    let mut client: Client = server.client();
    client.send(get("/"));
    origin.wait_until("the call is there", |origin| origin.open() == 1);
    client.reset();
    origin.wait_until("it is called off", |origin| origin.open() == 0);
}

#[test]
fn a_slow_call_is_made_a_second_time_elsewhere() {
    let slow = Origin::start(|_, stream| {
        std::thread::sleep(Duration::from_secs(3));
        ok(stream, b"slow");
        After::Close
    });
    let quick = Origin::fixed("quick");
    let server = door(
        &[slow.address(), quick.address()],
        "hedge = { after = \"100ms\", budget = \"100%\" }\nbalance = \"round_robin\"\n",
    );
    let begin = Instant::now();
    for _ in 0..4 {
        assert_eq!(server.ask(get("/")).text(), "quick");
    }
    assert!(!slow.requests().is_empty(), "the slow one was asked first, once at least");
    assert!(begin.elapsed() < Duration::from_secs(3), "nobody has waited for it");
    slow.wait_until("its calls are called off", |origin| origin.open() == 0);
    // A request that must not be sent twice waits.
    let (before, mut posted) = (slow.requests().len() + quick.requests().len(), 0);
    while slow.requests().iter().all(|request| request.method() != "POST") {
        assert_eq!(server.ask(post("/")).status, 200);
        posted += 1;
    }
    assert_eq!(slow.requests().len() + quick.requests().len(), before + posted);
}

/// An endpoint's breaker takes the blame for what made it open: that of the upstream, which saw the same calls, lets the others be called.
#[test]
fn endpoints_that_fail_do_not_have_the_others_refused() {
    let failing = |name: &'static str| {
        Origin::start(move |_, stream| {
            let head = format!("HTTP/1.1 500 No\r\nContent-Length: {}\r\n\r\n", name.len());
            stream.write_all(format!("{head}{name}").as_bytes()).unwrap();
            After::Keep
        })
    };
    let (one, two, well) = (failing("one"), failing("two"), Origin::fixed("well"));
    let server = Server::start(&format!(
        "[server]\nthreads = 1\n[upstream.search]\nbind = \"127.0.0.1:0\"\noutlier = \"off\"\n\
         breaker = {{ open = \"1h\", max_open = \"1h\" }}\nendpoints = [\n\
         {{ url = \"http://{}\" }}, {{ url = \"http://{}\", priority = 1 }}, {{ url = \"http://{}\", priority = 2 }}]\n",
        one.address(),
        two.address(),
        well.address()
    ));
    let responses: Vec<String> = (0..20).map(|_| server.ask(get("/")).text()).collect();
    let expected = [["one"; 5], ["two"; 5], ["well"; 5], ["well"; 5]].concat();
    assert_eq!(responses, expected);
}

#[test]
fn a_request_that_runs_in_a_circle_is_stopped() {
    let origin = Origin::fixed("well");
    let server = door(&[origin.address()], "");
    let passed = |times: usize| {
        let via = "Via: 1.1 keepwarm, 1.1 another\r\n".repeat(times);
        format!("GET / HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n{via}\r\n")
    };
    assert_eq!(server.ask(passed(15)).text(), "well");
    let response = server.ask(passed(16));
    assert_eq!((response.status, reason(&response).as_str()), (508, "loop"));
    assert_eq!(origin.requests().len(), 1);
}

/// Each hop adds its `Via`: the circle ends after a few, where it took all places of the upstream.
#[test]
fn a_route_that_leads_back_to_its_own_listener_ends_in_a_508() {
    let address = nobody();
    let server = Server::start(&format!(
        "[server]\nthreads = 1\n[listen.main]\nbind = \"{address}\"\n[[listen.main.route]]\nupstream = \"circle\"\n\
         [upstream.circle]\nurl = \"http://{address}\"\n"
    ));
    let response = server.ask(get("/"));
    assert_eq!((response.status, reason(&response).as_str()), (508, "loop"), "{}", response.text());
}

/// A second attempt is a call in flight like any other: at the limit it is not made, and it does not queue.
#[test]
fn a_second_attempt_counts_among_the_calls_in_flight() {
    for (in_flight, attempts) in [(1, 1), (2, 2)] {
        let slow = || {
            Origin::start(|_, stream| {
                std::thread::sleep(Duration::from_millis(600));
                ok(stream, b"slow");
                After::Keep
            })
        };
        let (one, two) = (slow(), slow());
        let server = door(
            &[one.address(), two.address()],
            &format!(
                "hedge = {{ after = \"50ms\", budget = \"100%\" }}\nlimits = {{ in_flight = {in_flight} }}\n"
            ),
        );
        assert_eq!(server.ask(get("/")).text(), "slow");
        assert_eq!(one.requests().len() + two.requests().len(), attempts, "with {in_flight} in flight");
        // The place is given back.
        assert_eq!(server.ask(get("/")).text(), "slow");
    }
}

/// Quick to fail is not quicker: as long as the other attempt runs, that one is waited for.
#[test]
fn of_two_attempts_one_that_fails_leaves_the_call_to_the_other() {
    // How many calls have reached the second, and how many either has failed: the one that succeeds is the later one.
    let (came, failed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let origin = |first: bool| {
        let (came, failed) = (Arc::clone(&came), Arc::clone(&failed));
        Origin::start(move |request, stream| {
            let number = if request.target() == "/second-fails" { 1 } else { 2 };
            if !first {
                came.fetch_add(1, Ordering::SeqCst);
            }
            let reached = |count: &AtomicUsize| {
                wait_until("the other attempt", Duration::from_secs(20), || {
                    count.load(Ordering::SeqCst) >= number
                });
            };
            if request.target() == if first { "/first-fails" } else { "/second-fails" } {
                reached(&came);
                stream.write_all(b"HTTP/1.1 503 No\r\nContent-Length: 2\r\n\r\nno").unwrap();
                failed.fetch_add(1, Ordering::SeqCst);
            } else {
                reached(&failed);
                // So that the failure is met first.
                std::thread::sleep(Duration::from_millis(50));
                ok(stream, if first { b"first" } else { b"other" });
            }
            After::Keep
        })
    };
    let (first, second) = (origin(true), origin(false));
    let server = Server::start(&format!(
        "[server]\nthreads = 1\n[upstream.search]\nbind = \"127.0.0.1:0\"\nbalance = \"round_robin\"\n\
         endpoints = [{{ url = \"http://{}\", weight = 1000 }}, {{ url = \"http://{}\" }}]\n\
         hedge = {{ after = \"10ms\", budget = \"100%\" }}\n",
        first.address(),
        second.address()
    ));
    for (path, response) in
        [("/second-fails", "first"), ("/first-fails", "other"), ("/second-fails", "first")]
    {
        let got = server.ask(get(path));
        assert_eq!((got.status, got.text().as_str()), (200, response), "{path}");
    }
}

#[test]
fn an_endpoint_that_is_worse_than_the_others_is_ejected() {
    let bad = Origin::start(|_, stream| {
        stream.write_all(b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 3\r\n\r\nbad").unwrap();
        After::Keep
    });
    let (good, other) = (Origin::fixed("good"), Origin::fixed("good"));
    let server = door(
        &[bad.address(), good.address(), other.address()],
        "breaker = \"off\"\noutlier = { failures = 3 }\nbalance = \"round_robin\"\n",
    );
    let mut client = server.client();
    let statuses: Vec<u16> = (0..40).map(|_| client.ask(get("/")).status).collect();
    assert_eq!(bad.requests().len(), 3, "{statuses:?}");
    assert!(statuses.iter().rev().take(20).all(|status| *status == 200), "{statuses:?}");
    server.wait_for_log("endpoint ejected", Duration::from_secs(10));
}
