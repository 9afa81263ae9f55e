//! A WebSocket client of a few lines (RFC 6455): enough to be a strict peer.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};

use crate::Client;

/// The request that opens one, with the key of RFC 6455 §1.3, whose response is known.
pub fn opening(path: &str, extra: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nHost: test.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{extra}\r\n"
    )
}

/// The server's response to [`opening`]'s key.
pub const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

/// Opens one and checks the response.
#[track_caller]
pub fn open(client: &mut Client, path: &str, extra: &str) -> Vec<(String, String)> {
    client.send(opening(path, extra));
    let (status, fields) = client.head("GET");
    assert_eq!(status, 101, "{client}");
    let field =
        |name: &str| fields.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.clone());
    assert_eq!(field("sec-websocket-accept").as_deref(), Some(ACCEPT), "{client}");
    assert!(field("upgrade").is_some_and(|value| value.eq_ignore_ascii_case("websocket")), "{client}");
    assert!(field("connection").is_some_and(|value| value.eq_ignore_ascii_case("upgrade")), "{client}");
    fields
}

/// A masked frame from a client.
pub fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];
    let mut bytes = vec![first];
    match payload.len() {
        length @ ..126 => bytes.push(0x80 | length as u8),
        length @ ..65_536 => {
            bytes.push(0x80 | 126);
            bytes.extend((length as u16).to_be_bytes());
        }
        length => {
            bytes.push(0x80 | 127);
            bytes.extend((length as u64).to_be_bytes());
        }
    }
    bytes.extend(MASK);
    bytes.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    bytes
}

/// One frame from the server: first byte and payload. It must not be masked.
#[track_caller]
pub fn read(client: &mut Client) -> (u8, Vec<u8>) {
    let head = client.read_exact(2);
    assert_eq!(head[1] & 0x80, 0, "a masked frame from a server\n{client}");
    let length = match head[1] {
        126 => u64::from(u16::from_be_bytes(client.read_exact(2).try_into().expect("2 bytes"))),
        127 => u64::from_be_bytes(client.read_exact(8).try_into().expect("8 bytes")),
        length => u64::from(length),
    };
    (head[0], client.read_exact(usize::try_from(length).expect("fits")))
}

/// A whole message, its frames joined; pings in between get a PONG.
#[track_caller]
pub fn message(client: &mut Client) -> (u8, Vec<u8>) {
    let (mut opcode, mut whole) = (0, Vec::new());
    for _ in 0..10_000 {
        let (first, payload) = read(client);
        match first & 0x0f {
            0x9 => {
                client.send(frame(0x8a, &payload));
                continue;
            }
            0x0 => {}
            other => opcode = other,
        }
        whole.extend(payload);
        if first & 0x80 != 0 {
            return (opcode, whole);
        }
    }
    panic!("no end of a message\n{client}");
}

/// permessage-deflate as a peer speaks it (RFC 7692): a state for each direction, for as long as the WebSocket lives.
pub struct Deflate {
    compress: Compress,
    decompress: Decompress,
}

const TAIL: [u8; 4] = [0, 0, 0xff, 0xff];

impl Deflate {
    /// With the largest windows, and context takeover.
    #[expect(clippy::new_without_default, reason = "it begins a WebSocket, which is more than a default")]
    pub fn new() -> Self {
        Self { compress: Compress::new(Compression::new(6), false), decompress: Decompress::new(false) }
    }

    /// A message's payload.
    pub fn compress(&mut self, message: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(message.len() + message.len() / 64 + 64);
        self.compress.compress_vec(message, &mut out, FlushCompress::Sync).expect("it compresses");
        assert!(out.ends_with(&TAIL));
        out.truncate(out.len() - TAIL.len());
        out
    }

    /// A message of at most this many bytes.
    #[track_caller]
    pub fn inflate(&mut self, payload: &[u8], most: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(most + 1);
        for bytes in [payload, &TAIL] {
            self.decompress.decompress_vec(bytes, &mut out, FlushDecompress::Sync).expect("it inflates");
        }
        out
    }

    /// A whole message of the server: whether it was compressed, and what it says.
    #[track_caller]
    pub fn message(&mut self, client: &mut Client, most: usize) -> (bool, Vec<u8>) {
        let (mut compressed, mut payload) = (None, Vec::new());
        loop {
            let (first, bytes) = read(client);
            let rsv1 = first & 0x40 != 0;
            let compressed = *compressed.get_or_insert(rsv1);
            payload.extend(bytes);
            if first & 0x80 != 0 {
                return (compressed, if compressed { self.inflate(&payload, most) } else { payload });
            }
        }
    }
}
