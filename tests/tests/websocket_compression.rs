//! permessage-deflate (RFC 7692) between clients and an ASGI application.

use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use keepwarm_tests::{ASGI, Client, Server, process, websocket};
use websocket::{Deflate, frame, open, read};

const OFFER: &str = "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n";

fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Server::start(ASGI).warm("/pong"))
}

fn agreed(client: &mut Client, extra: &str) -> Option<String> {
    let fields = open(client, "/ws", extra);
    fields.into_iter().find(|(name, _)| name.eq_ignore_ascii_case("sec-websocket-extensions")).map(|(_, v)| v)
}

fn opened() -> Client {
    let mut client = server().client().patient(Duration::from_secs(30));
    // With the largest windows on our side, which the server can do nothing about.
    assert_eq!(
        agreed(&mut client, "Sec-WebSocket-Extensions: permessage-deflate\r\n").as_deref(),
        Some("permessage-deflate; server_max_window_bits=12")
    );
    client
}

#[test]
fn valid_offers_are_accepted_and_invalid_ones_declined() {
    let both = "permessage-deflate; server_max_window_bits=12; client_max_window_bits=12";
    for (offer, said) in [
        ("", None),
        (OFFER, Some(both)),
        ("Sec-WebSocket-Extensions: permessage-deflate; unknown=1\r\n", None),
        ("Sec-WebSocket-Extensions: permessage-deflate; server_max_window_bits=16\r\n", None),
        ("Sec-WebSocket-Extensions: ;;;\r\n", None),
        (
            "Sec-WebSocket-Extensions: x-other\r\nSec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n",
            Some(both),
        ),
        (
            "Sec-WebSocket-Extensions: permessage-deflate; a=b, permessage-deflate; server_no_context_takeover\r\n",
            Some("permessage-deflate; server_no_context_takeover; server_max_window_bits=12"),
        ),
    ] {
        let mut client = server().client();
        assert_eq!(agreed(&mut client, offer).as_deref(), said, "{offer}");
        client.send(frame(0x81, b"plain"));
        assert_eq!(websocket::message(&mut client), (1, b"plain".to_vec()), "{offer}");
    }
}

#[test]
fn it_can_be_turned_off() {
    let limits = "bind = \"127.0.0.1:0\"\nlimits = { websocket_compression = false }";
    let config = ASGI.replacen("bind = \"127.0.0.1:0\"", limits, 1);
    assert_ne!(config, ASGI);
    let server = Server::start(&config).warm("/pong");
    let mut client = server.client();
    assert_eq!(agreed(&mut client, OFFER), None);
    client.send(frame(0xc1, &[0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00]));
    let (first, payload) = read(&mut client);
    assert_eq!((first, &payload[..2]), (0x88, &1002_u16.to_be_bytes()[..]), "RSV1 that nobody agreed on");
}

#[test]
fn messages_are_echoed_compressed_where_that_is_worth_it() {
    let (mut client, mut deflate) = (opened(), Deflate::new());
    let (mut whole, mut wire) = (0, 0);
    for number in 0..100 {
        let message = format!(
            "{{\"type\":\"message\",\"room\":\"lobby\",\"user\":{number},\"text\":\"h\u{e9}llo number {number}\"}}"
        );
        client.send(frame(0xc1, &deflate.compress(message.as_bytes())));
        let (first, payload) = read(&mut client);
        assert_eq!(first, 0xc1, "compressed");
        wire += payload.len();
        whole += message.len();
        assert_eq!(deflate.inflate(&payload, 1000), message.as_bytes());
    }
    assert!(wire * 3 < whole, "{wire} of {whole} bytes");
    client.send(frame(0xc1, &deflate.compress(b"short")));
    assert_eq!(read(&mut client), (0x81, b"short".to_vec()), "not worth it");
    client.send(frame(0x82, b"plain"));
    assert_eq!(read(&mut client), (0x82, b"plain".to_vec()), "a client need not compress");
    client.send(frame(0xc1, &[0]));
    assert_eq!(read(&mut client), (0x81, Vec::new()), "a message of nothing");
    // In fragments, with a ping between them.
    let message = "one message in parts ".repeat(50);
    let payload = deflate.compress(message.as_bytes());
    let (one, other) = payload.split_at(payload.len() / 2);
    client.send([frame(0x41, one), frame(0x89, b"?"), frame(0x80, other)].concat());
    assert_eq!(read(&mut client), (0x8a, b"?".to_vec()));
    assert_eq!(deflate.message(&mut client, 2000), (true, message.into_bytes()));
}

#[test]
fn large_messages_pass_and_a_bomb_does_not() {
    let (mut client, mut deflate) = (opened(), Deflate::new());
    let most = 16 << 20;
    let line = b"what repeats again and again, with a number that does not: ";
    let message: Vec<u8> =
        (0..).flat_map(|number: u32| [&line[..], &number.to_be_bytes()].concat()).take(most).collect();
    client.send(frame(0xc2, &deflate.compress(&message)));
    let (compressed, echoed) = deflate.message(&mut client, most);
    assert!(compressed && echoed == message);
    let before = process::anonymous_kib(server().pid());
    let bomb = deflate.compress(&vec![0; most + 1]);
    assert!(bomb.len() < 32 << 10, "{}", bomb.len());
    client.send(frame(0xc2, &bomb));
    let (first, payload) = read(&mut client);
    assert_eq!((first, &payload[..2]), (0x88, &1009_u16.to_be_bytes()[..]));
    let after = process::anonymous_kib(server().pid());
    assert!(after.saturating_sub(before) < 4 << 10, "{} KiB held", after - before);
}

#[test]
fn breaches_of_compression_have_their_codes() {
    let cases: Vec<(&str, u16, Vec<u8>)> = vec![
        ("RSV1 on a continuation", 1002, [frame(0x41, &[0xf2]), frame(0xc0, &[0x48])].concat()),
        ("RSV1 on a ping", 1002, frame(0xc9, b"")),
        ("RSV1 on a close", 1002, frame(0xc8, b"")),
        ("RSV2 beside it", 1002, frame(0xe1, &[0])),
        ("RSV3", 1002, frame(0x91, b"x")),
        ("no DEFLATE", 1007, frame(0xc2, &[0xff; 3])),
        ("a distance beyond the beginning", 1007, frame(0xc1, &[0xf2, 0x00, 0x11, 0x00, 0x00])),
        ("text that is not UTF-8", 1007, frame(0xc1, &[0x00, 0x02, 0x00, 0xfd, 0xff, 0xff, 0xfe, 0x00])),
    ];
    for (name, code, bytes) in cases {
        let mut client = opened();
        client.send(bytes);
        let (first, payload) = read(&mut client);
        assert_eq!((first, &payload[..2]), (0x88, &code.to_be_bytes()[..]), "{name}");
    }
}

/// The compression state of a WebSocket takes some KiB, however many there are.
#[test]
fn idle_websockets_keep_little() {
    let server = Server::start(ASGI).warm("/pong");
    let talk = |count: usize| -> Vec<Client> {
        (0..count)
            .map(|_| {
                let (mut client, mut deflate) =
                    (server.client().patient(Duration::from_secs(30)), Deflate::new());
                assert!(agreed(&mut client, OFFER).is_some());
                let message = "x\u{e9}".repeat(2000);
                client.send(frame(0xc1, &deflate.compress(message.as_bytes())));
                assert_eq!(deflate.message(&mut client, 6000), (true, message.into_bytes()));
                client
            })
            .collect()
    };
    // The threads have their compressors, and the allocator its arenas.
    let first = talk(100);
    let before = process::anonymous_kib(server.pid());
    let more = talk(200);
    let each = process::anonymous_kib(server.pid()).saturating_sub(before) / 200;
    assert!(each < 80, "{each} KiB for each WebSocket");
    drop((first, more));
}

#[test]
fn clients_of_other_hands() {
    let address = server().address();
    let output = Command::new(keepwarm_tests::python())
        .arg(keepwarm_tests::apps().join("websocket_peers.py"))
        .args([address.ip().to_string(), address.port().to_string(), "/ws".to_owned()])
        .output()
        .expect("python runs");
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(said.lines().filter(|line| line.contains("permessage-deflate")).count(), 6, "{said}");
}
