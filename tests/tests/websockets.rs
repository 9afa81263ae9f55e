//! WebSocket to an ASGI application: the opening (RFC 6455 §4.2), messages, and what a strict peer must refuse.

use std::sync::OnceLock;
use std::time::Duration;

use keepwarm_tests::{ASGI, Client, Server, WSGI, get, websocket};
use websocket::{frame, message, open, opening, read};

fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Server::start(ASGI).warm("/pong"))
}

fn opened() -> Client {
    let mut client = server().client().patient(Duration::from_secs(10));
    open(&mut client, "/ws", "");
    client
}

/// The server closes with this code, gets a response, and ends the connection.
#[track_caller]
fn closes_with(client: &mut Client, code: u16) -> String {
    let (first, payload) = read(client);
    assert_eq!(first, 0x88, "{client}");
    assert_eq!(u16::from_be_bytes([payload[0], payload[1]]), code, "{client}");
    let _ = client.try_send(&frame(0x88, &code.to_be_bytes()));
    client.expect_end();
    String::from_utf8_lossy(&payload[2..]).into_owned()
}

#[test]
fn text_and_binary_are_echoed() {
    let mut client = opened();
    for length in [0, 1, 125, 126, 127, 65_535, 65_536, 65_537, 300_000] {
        let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
        client.send(frame(0x82, &bytes));
        let (opcode, echoed) = message(&mut client);
        assert_eq!(opcode, 2, "{length}");
        assert!(echoed == bytes, "{length}");
        let text: String = "\u{e9}\u{1f600}a".chars().cycle().take(length / 3).collect();
        client.send(frame(0x81, text.as_bytes()));
        let (opcode, echoed) = message(&mut client);
        assert_eq!((opcode, String::from_utf8(echoed).expect("UTF-8") == text), (1, true), "{length}");
    }
}

#[test]
fn fragments_are_one_message_with_pings_between_them() {
    let mut client = opened();
    client.send(frame(0x01, b"one "));
    client.send(frame(0x89, b"are you there"));
    client.send(frame(0x00, b"message"));
    client.send(frame(0x80, b""));
    assert_eq!(read(&mut client), (0x8a, b"are you there".to_vec()), "the pong comes at once");
    assert_eq!(message(&mut client), (1, b"one message".to_vec()));
    // A character cut between two fragments is whole again.
    client.send(frame(0x01, &[0xf0, 0x9f]));
    client.send(frame(0x80, &[0x98, 0x80]));
    assert_eq!(message(&mut client), (1, "\u{1f600}".as_bytes().to_vec()));
}

#[test]
fn frames_cut_anywhere_and_many_in_one_segment() {
    let mut client = opened();
    client.send_bytewise(frame(0x81, b"slowly"));
    assert_eq!(message(&mut client), (1, b"slowly".to_vec()));
    client.send([frame(0x81, b"a"), frame(0x82, b"b"), frame(0x81, b"c")].concat());
    for (opcode, text) in [(1, b"a"), (2, b"b"), (1, b"c")] {
        assert_eq!(message(&mut client), (opcode, text.to_vec()));
    }
}

#[test]
fn frames_sent_with_the_opening_are_held_for_it() {
    let mut client = server().client();
    let mut bytes = opening("/ws", "").into_bytes();
    bytes.extend(frame(0x81, b"early"));
    client.send(bytes);
    assert_eq!(client.head("GET").0, 101);
    assert_eq!(message(&mut client), (1, b"early".to_vec()));
}

#[test]
fn frames_sent_with_a_refused_opening_are_never_a_message() {
    let mut client = server().client();
    let mut bytes = opening("/ws/refuse", "").into_bytes();
    bytes.extend(get("/pong").into_bytes());
    client.send(bytes);
    let response = client.response("GET");
    assert_eq!(response.status, 403);
    // The bytes belong to the next request, or to none.
    if response.says_close() {
        client.expect_end();
    } else {
        assert_eq!(client.response("GET").text(), "pong");
    }
}

#[test]
fn the_client_closes() {
    let mut client = opened();
    let mut payload = 1000_u16.to_be_bytes().to_vec();
    payload.extend(b"bye");
    client.send(frame(0x88, &payload));
    let (first, payload) = read(&mut client);
    assert_eq!((first, u16::from_be_bytes([payload[0], payload[1]])), (0x88, 1000));
    client.expect_end();
}

#[test]
fn the_application_closes_with_its_code_and_reason() {
    let mut client = opened();
    client.send(frame(0x81, b"close"));
    assert_eq!(closes_with(&mut client, 4001), "asked");
}

#[test]
fn messages_right_after_the_acceptance_arrive() {
    let opened = |query: &str| {
        let mut client = server().client().patient(Duration::from_secs(10));
        open(&mut client, &format!("/ws/at-once?{query}"), "");
        client
    };
    let mut client = opened("greet");
    assert_eq!(message(&mut client), (1, b"hello".to_vec()));
    assert_eq!(message(&mut client), (2, b"there".to_vec()));
    client.send(frame(0x81, b"hi"));
    assert_eq!(message(&mut client), (1, b"hi".to_vec()));
    assert_eq!(closes_with(&mut opened("close4002"), 4002), "at once");
    closes_with(&mut opened("return"), 1000);
    closes_with(&mut opened("raise"), 1011);
}

#[test]
fn an_incomplete_message_does_not_delay_the_close_of_the_application() {
    let mut client = server().client().patient(Duration::from_secs(10));
    open(&mut client, "/ws/at-once?close4003", "");
    let _ = read(&mut client);
    let behind = [frame(0x81, b"on its way"), frame(0x81, b"and more"), frame(0x88, &4003_u16.to_be_bytes())];
    client.send(behind.concat());
    client.expect_end();
    // The handshake was completed, and not given up after its five seconds.
    let line = server().wait_for_log("/ws/at-once?close4003 ", Duration::from_secs(20));
    assert!(!line.contains("client_closed"), "{line}");
}

#[test]
fn an_application_cannot_close_with_a_code_that_stands_for_something_else() {
    // RFC 6455 §7.4.1 and §7.4.2. 1005 is a close without a code.
    for (code, sent) in
        [(1001, 1001), (3000, 3000), (0, 1011), (999, 1011), (1006, 1011), (1015, 1011), (5000, 1011)]
    {
        let mut client = server().client().patient(Duration::from_secs(10));
        open(&mut client, &format!("/ws/at-once?close{code}"), "");
        closes_with(&mut client, sent);
    }
    let mut client = server().client().patient(Duration::from_secs(10));
    open(&mut client, "/ws/at-once?close1005", "");
    assert_eq!(read(&mut client), (0x88, Vec::new()));
}

#[test]
fn faults_of_the_client_end_it_with_the_right_code() {
    let unmasked = |first: u8, payload: &[u8]| {
        let mut bytes = vec![first, payload.len() as u8];
        bytes.extend(payload);
        bytes
    };
    let cases: Vec<(&str, u16, Vec<u8>)> = vec![
        ("unmasked", 1002, unmasked(0x81, b"hi")),
        ("a reserved bit", 1002, frame(0xc1, b"hi")),
        ("a reserved opcode", 1002, frame(0x83, b"hi")),
        ("a reserved control opcode", 1002, frame(0x8b, b"hi")),
        ("a fragmented ping", 1002, frame(0x09, b"hi")),
        ("a long ping", 1002, frame(0x89, &[b'x'; 126])),
        ("a continuation of nothing", 1002, frame(0x80, b"hi")),
        ("a message inside another", 1002, [frame(0x01, b"a"), frame(0x81, b"b")].concat()),
        ("text that is not UTF-8", 1007, frame(0x81, &[0xff, 0xfe])),
        ("text cut inside a character", 1007, frame(0x81, &[0xf0, 0x9f])),
        ("a surrogate", 1007, frame(0x81, &[0xed, 0xa0, 0x80])),
        ("a close of one byte", 1002, frame(0x88, &[3])),
        ("a close code nobody may send", 1002, frame(0x88, &1005_u16.to_be_bytes())),
        ("a close code below 1000", 1002, frame(0x88, &999_u16.to_be_bytes())),
        ("a close reason that is not UTF-8", 1007, frame(0x88, &[0x03, 0xe8, 0xff])),
    ];
    let mut faults = Vec::new();
    for (name, code, bytes) in cases {
        let mut client = opened();
        client.send(bytes);
        let (first, payload) = read(&mut client);
        let got = payload.get(..2).map(|code| u16::from_be_bytes([code[0], code[1]]));
        if first != 0x88 || got != Some(code) {
            faults.push(format!("{name}: {first:#x} {got:?}, not a close with {code}"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// A close on top of unread bytes is a reset, which takes the close frame with it.
#[test]
fn a_client_that_is_still_sending_learns_of_its_fault() {
    for _ in 0..10 {
        let mut client = opened();
        client.send([frame(0x83, b"hi"), vec![0; 48 * 1024]].concat());
        std::thread::sleep(std::time::Duration::from_millis(50)); // a reset would have come by then
        let (first, payload) = read(&mut client);
        assert_eq!((first, payload.get(..2)), (0x88, Some(&1002_u16.to_be_bytes()[..])));
    }
}

#[test]
fn faulty_openings_are_refused() {
    let good = opening("/ws", "");
    for (name, request, statuses) in [
        ("version 12", good.replace("Version: 13", "Version: 12"), [426, 400]),
        ("no version", good.replace("Sec-WebSocket-Version: 13\r\n", ""), [426, 400]),
        ("no key", good.replace("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", ""), [400, 400]),
        ("a short key", good.replace("dGhlIHNhbXBsZSBub25jZQ==", "dGhl"), [400, 400]),
        (
            "a key that is not base64",
            good.replace("dGhlIHNhbXBsZSBub25jZQ==", "!!!!!!!!!!!!!!!!!!!!!!=="),
            [400, 400],
        ),
        ("two keys", opening("/ws", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"), [400, 400]),
        ("two versions", opening("/ws", "Sec-WebSocket-Version: 13\r\n"), [426, 400]),
        ("a body", opening("/ws", "Content-Length: 2\r\n") + "hi", [400, 400]),
        ("a chunked body", opening("/ws", "Transfer-Encoding: chunked\r\n") + "0\r\n\r\n", [400, 400]),
    ] {
        let mut client = server().client();
        client.send(&request);
        let response = client.response("GET");
        assert!(statuses.contains(&response.status), "{name}: {}", response.status);
        if response.status == 426 {
            // RFC 6455 §4.4
            assert_eq!(response.field("sec-websocket-version"), Some("13"), "{name}");
        }
    }
}

#[test]
fn a_subprotocol_is_chosen_by_the_application() {
    let mut client = server().client();
    let fields = open(&mut client, "/ws", "Sec-WebSocket-Protocol: chat.v2, chat.v1\r\n");
    assert!(
        fields.contains(&("sec-websocket-protocol".into(), "chat.v2".into()))
            || fields.iter().any(|(n, v)| n.eq_ignore_ascii_case("sec-websocket-protocol") && v == "chat.v2"),
        "{fields:?}"
    );
    let mut client = server().client();
    let fields = open(&mut client, "/ws", "");
    assert!(
        !fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("sec-websocket-protocol")),
        "{fields:?}"
    );
    assert!(
        !fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("sec-websocket-extensions")),
        "none is spoken: {fields:?}"
    );
}

#[test]
fn the_application_learns_how_it_ended() {
    let server = Server::start(&format!("{ASGI}env = {{ COUNT_FILE = \"@DIR@/count\" }}\n")).warm("/pong");
    let lines = || std::fs::read_to_string(server.folder().join("count")).unwrap_or_default();
    let mut client = server.client();
    open(&mut client, "/ws", "");
    client.send(frame(0x88, &4002_u16.to_be_bytes()));
    keepwarm_tests::process::wait_until("a close by the client", Duration::from_secs(20), || {
        lines().contains("disconnect 4002")
    });
    let mut client = server.client();
    open(&mut client, "/ws", "");
    client.reset();
    keepwarm_tests::process::wait_until("a lost connection", Duration::from_secs(20), || {
        lines().contains("disconnect 1006")
    });
}

#[test]
fn many_at_once_on_one_worker() {
    let mut clients: Vec<Client> = (0..50).map(|_| opened()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(frame(0x81, format!("to {number}").as_bytes()));
    }
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(message(client), (1, format!("to {number}").into_bytes()));
    }
    assert_eq!(server().ask(get("/pong")).text(), "pong");
}

#[test]
fn a_flood_that_is_not_read_back_is_held_back() {
    // The client sends and never reads: back-pressure must stop it, not memory.
    let mut client = opened();
    client.stream().set_write_timeout(Some(Duration::from_millis(300))).expect("a time-out");
    let before = keepwarm_tests::process::anonymous_kib(server().pid());
    let block = frame(0x82, &[7; 60_000]);
    let mut sent = 0;
    while sent < 200 << 20 {
        match client.try_send(&block) {
            Ok(()) => sent += block.len(),
            Err(_) => break,
        }
    }
    assert!(sent < 100 << 20, "it took {} MiB and went on", sent >> 20);
    let after = keepwarm_tests::process::anonymous_kib(server().pid());
    assert!(after.saturating_sub(before) < 32 << 10, "{} KiB held", after - before);
}

#[test]
fn wsgi_has_no_websockets() {
    let server = Server::start(WSGI).warm("/pong");
    let response = server.ask(opening("/pong", ""));
    assert_eq!(
        (response.status, response.text().as_str()),
        (200, "pong"),
        "ignored: an Upgrade may always be (RFC 9110 §7.8)"
    );
}

#[test]
fn a_drain_closes_websockets() {
    let server =
        Server::start(&format!("[server]\nshutdown_grace = \"5s\"\n{ASGI}drain_timeout = \"500ms\"\n"))
            .warm("/pong");
    let mut client = server.client().patient(Duration::from_secs(20));
    open(&mut client, "/ws", "");
    server.signal(rustix::process::Signal::TERM);
    let (first, payload) = read(&mut client);
    assert_eq!(first, 0x88, "{client}");
    let code = u16::from_be_bytes([payload[0], payload[1]]);
    assert!(matches!(code, 1001 | 1012), "going away, or a restart: {code}");
    let _ = client.try_send(&frame(0x88, &payload));
    server.wait_for_exit(Duration::from_secs(30));
}
