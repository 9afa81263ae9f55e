//! CONNECT over HTTP/2: WebSockets by extended CONNECT (RFC 8441) to ASGI workers, and bridged to servers that speak HTTP/1.1; tunnels of a forward proxy.

use std::io::{Read, Write};
use std::net::TcpListener;

use keepwarm_tests::daemon::Daemon;
use keepwarm_tests::http2::{
    CANCEL, DATA, END_HEADERS, END_STREAM, Frame, HEADERS, Http2, NO_ERROR, RST_STREAM, SETTINGS, frame,
    literal,
};
use keepwarm_tests::{ASGI, Server, WSGI, websocket};

/// Opens stream 1 as a WebSocket.
fn open(server: &Server, path: &str, protocol: &str, fields: &[(&str, &str)]) -> Http2 {
    let mut client = Http2::connect(server.address());
    // RFC 8441 §3: only to a server that announces it.
    let settings = client.until(|frame| frame.kind == SETTINGS);
    assert!(settings.payload.chunks(6).any(|setting| setting == [0, 8, 0, 0, 0, 1]), "{settings:?}");
    let pseudo = [
        (":method", "CONNECT"),
        (":protocol", protocol),
        (":scheme", "http"),
        (":path", path),
        (":authority", "test.example"),
        ("sec-websocket-version", "13"),
    ];
    let block: Vec<u8> = pseudo.iter().chain(fields).flat_map(|(name, value)| literal(name, value)).collect();
    client.send(&frame(HEADERS, END_HEADERS, 1, &block));
    client
}

/// The next frames of the WebSocket, from DATA frames: opcode and payload, without fragments.
struct Messages {
    unread: Vec<u8>,
}

impl Messages {
    #[track_caller]
    fn next(&mut self, client: &mut Http2) -> (u8, Vec<u8>) {
        loop {
            if let [first, length, rest @ ..] = self.unread.as_slice() {
                assert!(*length < 126, "short messages only");
                if let Some((payload, _)) = rest.split_at_checked(usize::from(*length)) {
                    let message = (first & 0x0f, payload.to_vec());
                    self.unread.drain(..2 + message.1.len());
                    return message;
                }
            }
            let data = client.until(|frame| frame.stream == 1 && frame.kind == DATA);
            assert!(!data.ends() || !data.payload.is_empty(), "the end instead of a message");
            self.unread.extend(data.payload);
        }
    }
}

#[track_caller]
fn echoes(server: &Server, path: &str) {
    let mut client = open(server, path, "websocket", &[]);
    let head = client.until(|frame| frame.stream == 1);
    assert_eq!((head.kind, head.status(), head.ends()), (HEADERS, 200, false));
    let fields = String::from_utf8_lossy(&head.payload).to_ascii_lowercase();
    assert!(!fields.contains("sec-websocket-accept") && !fields.contains("upgrade"), "RFC 8441 §5: {fields}");
    let mut messages = Messages { unread: Vec::new() };
    for text in ["hello", "", "again"] {
        // A frame of WebSocket may be cut anywhere by frames of HTTP/2.
        for byte in websocket::frame(0x81, text.as_bytes()).chunks(3) {
            client.send(&frame(DATA, 0, 1, byte));
        }
        assert_eq!(messages.next(&mut client), (1, text.as_bytes().to_vec()));
    }
    // Other streams of the connection are served meanwhile.
    client.request(3, "/nothing-here", &[]);
    assert!(client.status(3) >= 400);
    client.send(&frame(DATA, 0, 1, &websocket::frame(0x88, &1000_u16.to_be_bytes())));
    assert_eq!(messages.next(&mut client).0, 8);
    let last = client.until(|frame| frame.stream == 1 && (frame.ends() || frame.kind == RST_STREAM));
    assert!(last.ends(), "RFC 8441 §5: an orderly end is END_STREAM: {last:?}");
    client.send(&frame(DATA, END_STREAM, 1, &[]));
    client.request(5, "/nothing-here", &[]);
    assert!(client.status(5) >= 400);
}

#[test]
fn an_asgi_app_echoes() {
    let server = Server::start(ASGI).warm("/pong");
    echoes(&server, "/ws");
    let log = server.wait_for_log("\"GET /ws HTTP/2.0\" 200", std::time::Duration::from_secs(20));
    assert!(!log.contains("ERROR"), "{log}");
}

#[test]
fn a_server_of_http_1_is_bridged() {
    let node = Server::start(
        "[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\napp = \"app\"\n\
         [app.app]\ncommand = [\"node\", \"@APPS@/node_app.js\"]\nworkers = 1\n",
    )
    .warm("/");
    echoes(&node, "/socket");
}

#[test]
fn an_upstream_is_bridged() {
    let behind = Server::start(ASGI).warm("/pong");
    let server = Server::start(&format!(
        "[listen.main]\nbind = \"127.0.0.1:0\"\nroute = [{{ upstream = \"chat\" }}]\n[upstream.chat]\nurl = \"http://{}\"\n",
        behind.address()
    ));
    echoes(&server, "/ws");
}

/// Extended CONNECT on both sides.
#[test]
fn an_upstream_of_http_2_is_bridged() {
    let behind = Server::start(ASGI).warm("/pong");
    let server = Server::start(&upstream_of_http2(&behind.address().to_string()));
    echoes(&server, "/ws");
    behind.wait_for_log("\"GET /ws HTTP/2.0\" 200", std::time::Duration::from_secs(20));
    let mut refused = open(&server, "/refuse", "websocket", &[]);
    assert_eq!(refused.status(1), 403);
}

#[test]
fn clients_of_http_1_reach_websockets_of_an_upstream_of_http_2() {
    let behind = Server::start(ASGI).warm("/pong");
    let server = Server::start(&upstream_of_http2(&behind.address().to_string()));
    let mut client = server.client();
    websocket::open(&mut client, "/ws", "");
    for text in ["hello", "again"] {
        client.send(websocket::frame(0x81, text.as_bytes()));
        assert_eq!(websocket::read(&mut client), (0x81, text.as_bytes().to_vec()));
    }
    // A client that leaves without a word resets the stream, and the other server hears of it.
    client.reset();
    behind.wait_for_log("\"GET /ws HTTP/2.0\" 200", std::time::Duration::from_secs(20));
}

/// nginx serves HTTP/2, and no extended CONNECT: neither a GET instead, nor a 2xx that would open it.
#[test]
fn an_upstream_without_extended_connect_takes_no_websocket() {
    let (_nginx, port) = Daemon::nginx("http2", "location / { return 200 seen; }");
    let server = Server::start(&upstream_of_http2(&format!("127.0.0.1:{port}")));
    assert_eq!(server.ask(keepwarm_tests::get("/ws")).text(), "seen");
    assert_eq!(server.ask(websocket::opening("/ws", "")).status, 502);
    let mut client = open(&server, "/ws", "websocket", &[]);
    assert_eq!(client.status(1), 502);
    server.wait_for_log("no_extended_connect", std::time::Duration::from_secs(20));
}

fn upstream_of_http2(address: &str) -> String {
    format!(
        "[listen.main]\nbind = \"127.0.0.1:0\"\nroute = [{{ upstream = \"chat\" }}]\n\
         [upstream.chat]\nurl = \"http://{address}\"\nprotocol = \"http2\"\n"
    )
}

#[test]
fn subprotocols_and_refusals_pass() {
    let server = Server::start(ASGI).warm("/pong");
    let mut client = open(&server, "/ws", "websocket", &[("sec-websocket-protocol", "chat, other")]);
    let head = client.until(|frame| frame.stream == 1);
    assert_eq!(head.status(), 200);
    let mut refused = open(&server, "/refuse", "websocket", &[]);
    assert_eq!(refused.status(1), 403);
    // The version is still that of RFC 6455.
    let mut old = Http2::connect(server.address());
    let fields = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "http"),
        (":path", "/ws"),
        (":authority", "a"),
        ("sec-websocket-version", "12"),
    ];
    let block: Vec<u8> = fields.iter().flat_map(|(name, value)| literal(name, value)).collect();
    old.send(&frame(HEADERS, END_HEADERS, 1, &block));
    assert_eq!(old.status(1), 426);
}

#[test]
fn a_resource_that_is_no_websocket_is_never_mistaken_for_one() {
    let server = Server::start(WSGI).warm("/pong");
    let mut client = open(&server, "/pong", "websocket", &[]);
    let status = client.status(1);
    assert!(status >= 400, "{status}: 2xx would accept the WebSocket");
    let mut fixed = open(
        &Server::start("[listen.main]\nbind = \"127.0.0.1:0\"\nroute = [{ respond = 204 }]\n"),
        "/",
        "websocket",
        &[],
    );
    assert!(fixed.status(1) >= 400);
}

#[test]
fn other_protocols_and_plain_connect_are_refused() {
    let server = Server::start(WSGI).warm("/pong");
    assert_eq!(open(&server, "/", "connect-udp", &[]).status(1), 501);
    let mut client = Http2::connect(server.address());
    let block: Vec<u8> = [(":method", "CONNECT"), (":authority", "127.0.0.1:1")]
        .iter()
        .flat_map(|(name, value)| literal(name, value))
        .collect();
    client.send(&frame(HEADERS, END_HEADERS, 1, &block));
    assert_eq!(client.status(1), 405);
    // RFC 9113 §8.5: without `:scheme` and `:path`.
    let block: Vec<u8> =
        [(":method", "CONNECT"), (":authority", "127.0.0.1:1"), (":scheme", "http"), (":path", "/")]
            .iter()
            .flat_map(|(name, value)| literal(name, value))
            .collect();
    client.send(&frame(HEADERS, END_HEADERS, 3, &block));
    let end = client.until(|frame| frame.stream == 3);
    assert_eq!(end.kind, RST_STREAM, "malformed");
    // `:protocol` belongs to CONNECT.
    let block: Vec<u8> = [
        (":method", "GET"),
        (":protocol", "websocket"),
        (":authority", "a"),
        (":scheme", "http"),
        (":path", "/"),
    ]
    .iter()
    .flat_map(|(name, value)| literal(name, value))
    .collect();
    client.send(&frame(HEADERS, END_HEADERS | END_STREAM, 5, &block));
    assert_eq!(client.until(|frame| frame.stream == 5).kind, RST_STREAM);
}

#[test]
fn a_client_that_cancels_is_gone_for_the_app() {
    let config = ASGI.replace("[app.app]\n", "[app.app]\nenv = { COUNT_FILE = \"@DIR@/count\" }\n");
    let server = Server::start(&config).warm("/pong");
    let mut client = open(&server, "/ws", "websocket", &[]);
    assert_eq!(client.status(1), 200);
    client.send(&frame(RST_STREAM, 0, 1, &CANCEL.to_be_bytes()));
    let count = server.folder().join("count");
    keepwarm_tests::process::wait_until("the app learns it", std::time::Duration::from_secs(20), || {
        std::fs::read_to_string(&count).is_ok_and(|text| text.contains("disconnect 1006"))
    });
}

/// A WebSocket that floods a client which does not read is held back, and one that is flooded holds the client back.
#[test]
fn a_forward_proxy_opens_tunnels() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let server = Server::start(&format!(
        "[listen.main]\nbind = \"127.0.0.1:0\"\nforward_proxy = {{ allow = [\"127.0.0.1\"], connect_ports = [{port}] }}\n"
    ));
    let mut client = Http2::connect(server.address());
    let authority = format!("127.0.0.1:{port}");
    let block: Vec<u8> = [(":method", "CONNECT"), (":authority", authority.as_str())]
        .iter()
        .flat_map(|(name, value)| literal(name, value))
        .collect();
    client.send(&frame(HEADERS, END_HEADERS, 1, &block));
    let (mut far, _) = listener.accept().expect("a connection");
    assert_eq!(client.status(1), 200);
    client.send(&frame(DATA, 0, 1, b"up"));
    let mut bytes = [0; 2];
    far.read_exact(&mut bytes).expect("bytes");
    assert_eq!(&bytes, b"up");
    far.write_all(b"down").expect("sent");
    let down: Frame = client.until(|frame| frame.stream == 1 && frame.kind == DATA);
    assert_eq!(down.payload, b"down");
    // RFC 9113 §8.5: END_STREAM is FIN, both ways.
    client.send(&frame(DATA, END_STREAM, 1, &[]));
    assert_eq!(far.read(&mut bytes).expect("the end"), 0);
    far.write_all(b"last").expect("sent");
    drop(far);
    assert_eq!(client.until(|frame| frame.stream == 1 && frame.kind == DATA).payload, b"last");
    let end = client.until(|frame| frame.stream == 1);
    assert!(end.ends() || (end.kind == RST_STREAM && end.code() == NO_ERROR), "{end:?}");
}
