//! Flow control of HTTP/2: windows of uploads grow where the path is long and the app reads, up to a bound; and an app or a client that does not read
//! is never worked around with memory.

use std::time::{Duration, Instant};

use keepwarm_tests::http2::{ACK, DATA, END_STREAM, HEADERS, Http2, PING, SETTINGS, WINDOW_UPDATE, frame};
use keepwarm_tests::{ASGI, Server, process};

const FIRST: u32 = 256 * 1024;
const MOST: u32 = 4 << 20;

fn number(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes.try_into().expect("four bytes"))
}

/// An upload by a client that acknowledges PING only when its window is used up, as on a path with a round trip that long.
struct Upload {
    client: Http2,
    /// Window of the stream, and of the connection.
    window: i64,
    connection: i64,
    sent: usize,
    /// PING to be acknowledged.
    ping: Option<Vec<u8>>,
    /// INITIAL_WINDOW_SIZE as announced.
    announced: Vec<u32>,
}

impl Upload {
    fn start(server: &Server, path: &str) -> Self {
        let mut client = Http2::connect(server.address());
        client.head(1, "POST", path, &[]);
        let (window, connection) = (65_535, 65_535);
        Self { client, window, connection, sent: 0, ping: None, announced: Vec::new() }
    }

    /// Sends as much as the windows allow.
    fn fill(&mut self) {
        const FRAME: i64 = 16_384;
        loop {
            let room = FRAME.min(self.window).min(self.connection);
            if room <= 0 {
                return;
            }
            self.client.send(&frame(DATA, 0, 1, &vec![b'x'; room as usize]));
            (self.window, self.connection) = (self.window - room, self.connection - room);
            self.sent += room as usize;
        }
    }

    /// Reads one frame.
    #[track_caller]
    fn read(&mut self) {
        let read = self.client.next_raw().expect("a frame");
        match read.kind {
            SETTINGS if read.flags & ACK == 0 => {
                for setting in read.payload.chunks(6).filter(|setting| setting[..2] == [0, 4]) {
                    let size = number(&setting[2..]);
                    self.window +=
                        i64::from(size) - i64::from(self.announced.last().copied().unwrap_or(65_535));
                    self.announced.push(size);
                }
                self.client.send(&frame(SETTINGS, ACK, 0, &[]));
            }
            WINDOW_UPDATE if read.stream == 0 => self.connection += i64::from(number(&read.payload)),
            WINDOW_UPDATE => self.window += i64::from(number(&read.payload)),
            PING if read.flags & ACK == 0 => self.ping = Some(read.payload),
            HEADERS => panic!("a response before the end: {}", read.status()),
            _ => {}
        }
    }

    fn pong(&mut self) {
        if let Some(payload) = self.ping.take() {
            self.client.send(&frame(PING, ACK, 0, &payload));
        }
    }
}

#[test]
fn windows_grow_on_a_long_path_up_to_their_bound() {
    let server = Server::start(
        &ASGI.replace("[[listen.main.route]]\n", "[[listen.main.route]]\nmax_body = \"1GiB\"\n"),
    )
    .warm("/pong");
    let mut upload = Upload::start(&server, "/digest");
    let mut at_ping = None;
    while upload.announced.last() != Some(&MOST) {
        upload.fill();
        upload.read();
        // The acknowledgement is as late as a whole window.
        let window = upload.announced.last().copied().unwrap_or(FIRST) as usize;
        if upload.ping.is_some() && upload.sent - *at_ping.get_or_insert(upload.sent) >= 2 * window {
            upload.pong();
            at_ping = None;
        }
        assert!(upload.sent < 600 << 20, "it does not grow: {:?}", upload.announced);
    }
    assert_eq!(upload.announced, [FIRST, 2 * FIRST, 4 * FIRST, 8 * FIRST, MOST]);
    upload.client.send(&frame(DATA, END_STREAM, 1, &[]));
    let length = upload.sent.to_string();
    let (status, body) = upload.client.response(1);
    assert!(
        status == 200 && String::from_utf8_lossy(&body).contains(&length),
        "{}",
        String::from_utf8_lossy(&body)
    );
}

#[test]
fn an_app_that_does_not_read_holds_the_client_back() {
    let server = Server::start(
        &ASGI.replace("[[listen.main.route]]\n", "[[listen.main.route]]\nmax_body = \"1GiB\"\n"),
    )
    .warm("/pong");
    let before = process::resident_kib(server.pid());
    let mut upload = Upload::start(&server, "/lull?ms=1500");
    // It reads the first piece, and then nothing for 1.5 s.
    loop {
        upload.fill();
        let (sent, begin) = (upload.sent, Instant::now());
        upload.read();
        upload.pong();
        // Nothing came for as long as the app read nothing.
        if begin.elapsed() > Duration::from_millis(1000) {
            assert!(sent < 4 << 20, "{sent} bytes were accepted for an app that read none of them");
            break;
        }
        assert!(upload.sent < 1 << 30, "it was never held back");
    }
    let grown = process::resident_kib(server.pid()).saturating_sub(before);
    assert!(grown < 24 << 10, "{grown} KiB");
    upload.client.send(&frame(DATA, END_STREAM, 1, &[]));
    assert_eq!(upload.client.response(1), (200, upload.sent.to_string().into_bytes()));
}

#[test]
fn a_client_that_reads_slowly_never_fills_memory() {
    let server = Server::start(
        &ASGI.replace("[[listen.main.route]]\n", "[[listen.main.route]]\nbuffer_response = false\n"),
    )
    .warm("/pong");
    let before = process::resident_kib(server.pid());
    // Windows without end: only the socket holds it back.
    let window = 0x7fff_ffff;
    let mut client = Http2::connect_with(server.address(), &[(4, window)]);
    client.give(0, window - 65_535);
    for stream in (1..40).step_by(2) {
        client.request(stream, "/big?bytes=50000000", &[]);
    }
    // Far less is read than the app has.
    for _ in 0..20 {
        for _ in 0..50 {
            client.until(|frame| frame.kind == DATA);
        }
        let grown = process::resident_kib(server.pid()).saturating_sub(before);
        assert!(grown < 48 << 10, "{grown} KiB");
    }
}
