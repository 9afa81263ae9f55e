//! `spec/http.md` §2 over a real socket, for every kind of app of ours: the application decides, and the client never waits for nothing.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use keepwarm_tests::shared::{asgi, fastcgi, php, rack, wsgi};
use keepwarm_tests::{ASGI, Client, FASTCGI, Failure, PHP, RACK, Server, WSGI};

const LIMITED: &str = "max_body = 1000\n";

/// One test at a time: of two expecting clients on a server with one blocking worker, the edge responds to one itself, and rightly so
/// (`spec/http.md` §2: at most half of the workers wait for a body).
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The kinds whose applications read bodies.
fn kinds() -> [(&'static str, &'static Server); 4] {
    [("wsgi", wsgi()), ("rack", rack()), ("asgi", asgi()), ("php", php())]
}

/// And classic PHP, whose scripts get theirs read (`fastcgi.rs` has the rest).
fn all() -> impl Iterator<Item = (&'static str, &'static Server)> {
    kinds().into_iter().chain([("fastcgi", fastcgi())])
}

fn expecting(path: &str, framing: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n{framing}\r\n\r\n")
}

/// Sends a head, reads the 100, sends the body, reads the response: returns how long the 100 took.
#[track_caller]
fn continued(client: &mut Client, head: &str, body: &[u8]) -> (Duration, keepwarm_tests::Response) {
    let sent = client.send(head);
    let interim = client.response("POST");
    assert_eq!((interim.status, interim.fields.len()), (100, 0), "{client}");
    let took = interim.whole - sent;
    client.send(body);
    (took, client.response("POST"))
}

#[test]
fn an_app_that_reads_gets_the_body_and_the_client_its_100() {
    let _alone = alone();
    for (kind, server) in all() {
        let (_, response) =
            continued(&mut server.client(), &expecting("/digest", "Content-Length: 5"), b"hello");
        assert_eq!(response.status, 200, "{kind}");
        assert_eq!(response.json()["length"], 5, "{kind}");
        assert!(!response.says_close(), "{kind}: a connection on which the body was read is kept");
    }
}

#[test]
fn a_chunked_body_gets_its_100_too() {
    let _alone = alone();
    for (kind, server) in all() {
        let mut client = server.client();
        let (_, response) = continued(
            &mut client,
            &expecting("/digest", "Transfer-Encoding: chunked"),
            b"5\r\nhello\r\n0\r\n\r\n",
        );
        assert_eq!(response.json()["length"], 5, "{kind}");
        client.expect_kept("/pong");
    }
}

#[test]
fn the_100_comes_within_5_ms_when_the_app_reads() {
    let _alone = alone();
    for (kind, server) in all() {
        let mut client = server.client();
        let head = expecting("/digest", "Content-Length: 5");
        // Other load on the machine can only add to it.
        let mut median = || {
            let mut took: Vec<Duration> =
                (0..31).map(|_| continued(&mut client, &head, b"hello").0).collect();
            took.sort_unstable();
            took[15]
        };
        let medians: Vec<Duration> = (0..8).map(|_| median()).collect();
        assert!(medians.iter().any(|took| *took < Duration::from_millis(5)), "{kind}: medians {medians:?}");
    }
}

#[test]
fn an_app_that_responds_without_reading_sends_no_100_and_closes() {
    let _alone = alone();
    for (kind, server) in kinds() {
        let mut client = server.client();
        let sent = client.send(expecting("/unread", "Content-Length: 100000"));
        let response = client.response("POST");
        assert_eq!((response.status, response.text().as_str()), (403, "no"), "{kind}");
        assert!(response.says_close(), "{kind}: {:?}", response.fields);
        client.expect_eof();
        assert!(sent.elapsed() < Duration::from_secs(8), "{kind}: {:?}", sent.elapsed());
    }
}

#[test]
fn an_app_that_raises_before_reading_sends_no_100_and_closes() {
    let _alone = alone();
    for (kind, server) in kinds() {
        let mut client = server.client();
        client.send(expecting("/raise", "Content-Length: 100000"));
        let response = client.response("POST");
        assert_eq!(response.status, 500, "{kind}");
        assert!(response.says_close(), "{kind}");
        client.expect_eof();
    }
}

#[test]
fn a_body_that_came_along_gets_no_100() {
    let _alone = alone();
    for (kind, server) in all() {
        let mut client = server.client();
        let response = client.ask(expecting("/digest", "Content-Length: 5") + "hello");
        assert_eq!(response.status, 200, "{kind}: a response at once, no interim one");
        assert_eq!(response.json()["length"], 5, "{kind}");
        client.expect_kept("/pong");
    }
}

#[test]
fn one_byte_of_the_body_is_enough_to_get_no_100() {
    let _alone = alone();
    for (kind, server) in all() {
        let mut client = server.client();
        client.send(expecting("/digest", "Content-Length: 5") + "h");
        client.expect_silence(Duration::from_millis(30));
        client.send("ello");
        let response = client.response("POST");
        assert_eq!((response.status, &response.json()["length"]), (200, &5.into()), "{kind}");
    }
}

#[test]
fn without_a_body_the_expectation_is_ignored() {
    let _alone = alone();
    for (kind, server) in all() {
        for head in [
            expecting("/echo", "Content-Length: 0"),
            expecting("/echo", "Transfer-Encoding: chunked") + "0\r\n\r\n",
            "GET /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n".into(),
        ] {
            let mut client = server.client();
            let response = client.ask(&head);
            assert_eq!(response.status, 200, "{kind}: {head}");
            assert!(
                !response.text().to_lowercase().contains("100-continue"),
                "{kind}: the app sees it: {}",
                response.text()
            );
            client.expect_kept("/pong");
        }
    }
}

#[test]
fn a_1_0_client_never_gets_a_100() {
    let _alone = alone();
    for (kind, server) in all() {
        let mut client = server.client();
        client.send("POST /echo HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
        client.expect_silence(Duration::from_millis(40));
        client.send("hello");
        let response = client.response("POST");
        assert_eq!(response.status, 200, "{kind}");
        assert_eq!(response.json()["body"], "hello", "{kind}");
        assert!(
            !response.text().to_lowercase().contains("100-continue"),
            "{kind}: the app sees it: {}",
            response.text()
        );
        client.expect_eof();
    }
}

#[test]
fn other_expectations_are_417() {
    let _alone = alone();
    for (kind, server) in all() {
        for expect in ["200-ok", "100-continue, x-other", "100-continue=1", "x", "100-continue;q=1"] {
            let mut client = server.client();
            client.send(format!(
                "POST /digest HTTP/1.1\r\nHost: a\r\nExpect: {expect}\r\nContent-Length: 5\r\n\r\n"
            ));
            let response = client.response("POST");
            assert_eq!(response.status, 417, "{kind}: {expect}");
            if response.says_close() {
                client.expect_eof();
            }
        }
    }
}

#[test]
fn the_expectation_is_compared_without_case() {
    let _alone = alone();
    for (kind, server) in all() {
        let head = "POST /digest HTTP/1.1\r\nHost: a\r\nexpect: 100-Continue\r\nContent-Length: 5\r\n\r\n";
        let (_, response) = continued(&mut server.client(), head, b"hello");
        assert_eq!(response.json()["length"], 5, "{kind}");
    }
}

#[test]
fn a_length_above_the_limit_is_413_at_once() {
    let _alone = alone();
    for base in [WSGI, RACK, ASGI, PHP, FASTCGI] {
        let server = Server::start(&base.replace("app = \"app\"\n", &format!("app = \"app\"\n{LIMITED}")))
            .warm("/pong");
        let mut client = server.client();
        client.send(expecting("/digest", "Content-Length: 1001"));
        let response = client.response("POST");
        assert_eq!(response.status, 413, "{client}");
        assert!(response.says_close(), "{client}");
        client.expect_eof();
        let (_, response) =
            continued(&mut server.client(), &expecting("/digest", "Content-Length: 1000"), &[b'x'; 1000]);
        assert_eq!(response.json()["length"], 1000);
    }
}

#[test]
fn a_fixed_response_requests_no_body() {
    let _alone = alone();
    let server = Server::start(
        "[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\nrespond = { status = 200, body = \"pong\" }\n",
    );
    let mut client = server.client();
    client.send(expecting("/", "Content-Length: 100"));
    let response = client.response("POST");
    assert_eq!((response.status, response.text().as_str()), (200, "pong"));
    assert!(response.says_close());
    client.expect_eof();
}

#[test]
fn no_100_after_a_response_has_begun() {
    let _alone = alone();
    // The application responds, then reads: the client, without a 100, sends its body all the same.
    let mut client = asgi().client();
    client.send(expecting("/respond-then-read", "Content-Length: 5"));
    let (status, fields) = client.head("POST");
    assert_eq!(status, 200, "the final response comes first, not a 100: {client}");
    assert!(
        fields
            .iter()
            .any(|(name, value)| name.eq_ignore_ascii_case("connection")
                && value.eq_ignore_ascii_case("close")),
        "{client}"
    );
    client.send("hello");
    let (rest, _) = client.read_to_end();
    let rest = String::from_utf8_lossy(&rest).into_owned();
    assert!(rest.contains("begun,"), "{client}");
    assert!(!rest.contains("HTTP/1.1"), "a second head: {client}");
}

#[test]
fn the_unicorn_convention() {
    let _alone = alone();
    for (kind, server) in [("wsgi", wsgi()), ("rack", rack())] {
        let mut client = server.client();
        let (_, response) = continued(&mut client, &expecting("/unicorn", "Content-Length: 5"), b"hello");
        assert_eq!((response.status, response.text().as_str()), (200, "5"), "{kind}");
        client.expect_kept("/pong");
    }
}

#[test]
fn an_app_can_request_the_body_explicitly() {
    let _alone = alone();
    for (kind, server) in [("wsgi", wsgi()), ("rack", rack()), ("php", php())] {
        let (_, response) =
            continued(&mut server.client(), &expecting("/explicit", "Content-Length: 5"), b"hello");
        assert_eq!(response.json()["length"], 5, "{kind}");
    }
}

#[test]
fn a_large_body_after_the_100_arrives_whole() {
    let _alone = alone();
    let body = vec![b'z'; 3 << 20];
    for (kind, server) in all() {
        let mut client = server.client().patient(Duration::from_secs(10));
        let (_, response) =
            continued(&mut client, &expecting("/digest", &format!("Content-Length: {}", body.len())), &body);
        assert_eq!(response.json()["length"], body.len(), "{kind}");
        client.expect_kept("/pong");
    }
}

#[test]
fn a_client_that_goes_instead_of_sending_frees_the_worker() {
    let _alone = alone();
    for (kind, server) in all() {
        let mut client = server.client();
        client.send(expecting("/digest", "Content-Length: 5"));
        assert_eq!(client.response("POST").status, 100, "{kind}");
        drop(client);
        let begun = Instant::now();
        assert_eq!(server.ask(keepwarm_tests::get("/pong")).text(), "pong", "{kind}");
        assert!(begun.elapsed() < Duration::from_secs(8), "{kind}: {:?}", begun.elapsed());
    }
}

#[test]
fn expecting_clients_hold_at_most_half_of_the_blocking_workers() {
    let _alone = alone();
    let server = Server::start(&WSGI.replace("workers = 1", "workers = 4")).warm("/pong");
    // Six clients send an expectation, get their 100, and send nothing more.
    let mut waiting: Vec<Client> = (0..6).map(|_| server.client()).collect();
    for client in &mut waiting {
        client.send(expecting("/digest", "Content-Length: 5"));
        assert_eq!(client.response("POST").status, 100, "{client}");
    }
    // Two workers are left and work side by side. One after the other would never take less than both times.
    let two_at_once = || {
        let begun = Instant::now();
        let mut held: Vec<Client> = (0..2).map(|_| server.client()).collect();
        held.iter_mut().for_each(|client| _ = client.send("GET /sleep?ms=150 HTTP/1.1\r\nHost: a\r\n\r\n"));
        held.iter_mut().for_each(|client| assert_eq!(client.response("GET").status, 200));
        begun.elapsed() < Duration::from_millis(290)
    };
    assert!((0..10).any(|_| two_at_once()));
    for client in &mut waiting {
        client.send("hello");
        let response = client.response("POST");
        assert_eq!(response.json()["length"], 5, "{client}");
    }
}

#[test]
fn a_pipelined_request_after_an_expecting_one_gets_its_response_in_order() {
    let _alone = alone();
    for (kind, server) in all() {
        let mut client = server.client();
        client.send(expecting("/digest", "Content-Length: 5"));
        assert_eq!(client.response("POST").status, 100, "{kind}");
        client.send("helloGET /pong HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.response("POST").json()["length"], 5, "{kind}");
        assert_eq!(client.response("GET").text(), "pong", "{kind}");
    }
}

#[test]
fn the_body_of_a_refused_expectation_is_not_a_request() {
    let _alone = alone();
    // The client is impatient and sends its body without a 100: it must be discarded, not served.
    for (kind, server) in kinds() {
        let mut client = server.client();
        client.send(expecting("/unread", "Content-Length: 37"));
        let response = client.response("POST");
        assert_eq!(response.status, 403, "{kind}");
        let _ = client.try_send(b"GET /pong HTTP/1.1\r\nHost: smuggled\r\n\r\n");
        match client.try_response("GET") {
            Err(Failure::Closed | Failure::Reset(_)) => {}
            other => panic!("{kind}: {other:?}\n{client}"),
        }
    }
}
