//! `spec/http.md` §3: early hints, upgrades that are not to be, and clients that close their half.

use std::sync::OnceLock;
use std::time::Duration;

use keepwarm_tests::{ASGI, Failure, Response, Server, WSGI};

fn auto() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Server::start(WSGI).warm("/pong"))
}

fn with(route: &str) -> Server {
    Server::start(&WSGI.replace("app = \"app\"\n", &format!("app = \"app\"\n{route}\n"))).warm("/pong")
}

/// The interim responses and the final one to a request for hints.
fn hinted(server: &Server, version: &str, fields: &str) -> (Vec<Response>, Response) {
    let mut client = server.client();
    client.send(format!("GET /hints HTTP/{version}\r\nHost: a\r\n{fields}\r\n"));
    let mut interim = Vec::new();
    for _ in 0..5 {
        let response = client.response("GET");
        if response.status >= 200 {
            return (interim, response);
        }
        interim.push(response);
    }
    panic!("no final response\n{client}");
}

#[test]
fn early_hints_go_to_clients_that_navigate() {
    let (interim, last) = hinted(auto(), "1.1", "Sec-Fetch-Mode: navigate\r\n");
    assert_eq!(interim.len(), 1);
    assert_eq!(
        (interim[0].status, interim[0].field("link")),
        (103, Some("</style.css>; rel=preload; as=style"))
    );
    assert_eq!(interim[0].fields.len(), 1, "nothing but what the app gave: {:?}", interim[0].fields);
    assert_eq!((last.status, last.text().as_str()), (200, "pong"));
}

#[test]
fn early_hints_go_to_no_other_clients() {
    for (version, fields) in [
        ("1.1", ""),
        ("1.1", "Sec-Fetch-Mode: cors\r\n"),
        ("1.0", ""),
        ("1.0", "Sec-Fetch-Mode: navigate\r\n"),
        ("1.0", "Sec-Fetch-Mode: navigate\r\nConnection: keep-alive\r\n"),
    ] {
        let (interim, last) = hinted(auto(), version, fields);
        assert!(interim.is_empty(), "HTTP/{version} {fields:?}");
        assert_eq!(last.text(), "pong");
    }
}

#[test]
fn early_hints_can_be_sent_always_or_never() {
    let always = with("early_hints = \"always\"");
    assert_eq!(hinted(&always, "1.1", "").0.len(), 1);
    assert_eq!(hinted(&always, "1.0", "").0.len(), 0, "never to a 1.0 client (RFC 9110 §15.2)");
    let never = with("early_hints = \"never\"");
    assert_eq!(hinted(&never, "1.1", "Sec-Fetch-Mode: navigate\r\n").0.len(), 0);
}

#[test]
fn an_upgrade_on_1_0_and_to_unknown_protocols_is_ignored() {
    for request in [
        "GET /pong HTTP/1.0\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        "GET /pong HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n",
        "GET /pong HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: TLS/1.0, x/2\r\n\r\n",
        "GET /pong HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\r\n",
        "POST /pong HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: x\r\nContent-Length: 2\r\n\r\nhi",
    ] {
        let mut client = auto().client();
        let response = client.ask(request);
        assert_eq!((response.status, response.text().as_str()), (200, "pong"), "{request}");
        assert!(response.field("upgrade").is_none());
        if response.says_close() {
            client.expect_eof();
        } else {
            client.expect_kept("/pong");
        }
    }
}

#[test]
fn abort_on_half_close_turns_a_half_closed_client_into_one_that_has_gone() {
    let server = with("abort_on_half_close = true");
    let mut client = server.client();
    client.send("GET /sleep?ms=3000 HTTP/1.1\r\nHost: a\r\n\r\n");
    client.half_close();
    match client.try_response("GET") {
        Err(Failure::Closed | Failure::Reset(_)) => {}
        other => panic!("{other:?}\n{client}"),
    }
    // Without a half-close nothing is different.
    assert_eq!(server.ask("GET /sleep?ms=20 HTTP/1.1\r\nHost: a\r\n\r\n").text(), "pong");
}

#[test]
fn an_application_that_gives_up_since_its_client_has_closed_has_not_failed() {
    let config = ASGI.replace("[app.app]\n", "[app.app]\nenv = { COUNT_FILE = \"@DIR@/count\" }\n");
    let server = Server::start(&config).warm("/pong");
    let mut client = server.client();
    client.send("GET /waits HTTP/1.1\r\nHost: a\r\n\r\n");
    client.half_close();
    client.expect_end();
    let log = server.wait_for_log("client_closed", Duration::from_secs(20));
    assert!(!log.contains("ERROR") && !log.contains("app_error"), "{log}");
}

#[test]
fn a_client_that_resets_during_its_request_affects_no_other() {
    for _ in 0..20 {
        let mut client = auto().client();
        client.send("GET /sleep?ms=5 HTTP/1.1\r\nHost: a\r\n\r\n");
        client.reset();
        let mut client = auto().client();
        client.send("POST /digest HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf");
        client.reset();
    }
    let mut client = auto().client().patient(Duration::from_secs(20));
    client.expect_kept("/pong");
}
