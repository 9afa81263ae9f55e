//! A server that writes its frames by hand.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;

pub(super) const MAX_CONCURRENT_STREAMS: u16 = 3;

/// END_STREAM, or ACK.
pub(super) const END: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;

/// `:status: 200`, of HPACK's static table.
pub(super) const OK: &[u8] = &[0x88];

#[derive(Debug)]
pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
    pub(super) payload: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct Peer {
    stream: TcpStream,
}

impl Peer {
    /// The next connection, with the preface read and our settings sent.
    pub(super) async fn accept(listener: &TcpListener, settings: &[(u16, u32)]) -> Self {
        let mut peer = Self::accept_silently(listener).await;
        let payload: Vec<u8> = settings
            .iter()
            .flat_map(|(id, value)| id.to_be_bytes().into_iter().chain(value.to_be_bytes()))
            .collect();
        peer.write(SETTINGS, 0, 0, &payload).await;
        peer
    }

    /// The next connection, with the preface read.
    pub(super) async fn accept_silently(listener: &TcpListener) -> Self {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut preface = [0; 24];
        stream.read_exact(&mut preface).await.unwrap();
        assert_eq!(&preface, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        Self { stream }
    }

    pub(super) async fn write(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
        bytes.extend([kind, flags]);
        bytes.extend(stream.to_be_bytes());
        bytes.extend(payload);
        // The client may have gone.
        let _ = self.stream.write_all(&bytes).await;
    }

    pub(super) async fn goaway(&mut self, last: u32, code: u32) {
        let payload = [last.to_be_bytes(), code.to_be_bytes()].concat();
        self.write(GOAWAY, 0, 0, &payload).await;
    }

    pub(super) async fn reset(&mut self, stream: u32, code: u32) {
        self.write(RST_STREAM, 0, stream, &code.to_be_bytes()).await;
    }

    /// Closes its side.
    pub(super) async fn shutdown(&mut self) {
        let _ = self.stream.shutdown().await;
    }

    /// `None`: the client has closed.
    pub(super) async fn read(&mut self) -> Option<Frame> {
        let mut header = [0; 9];
        self.stream.read_exact(&mut header).await.ok()?;
        let [a, b, c, kind, flags, s0, s1, s2, s3] = header;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        self.stream.read_exact(&mut payload).await.ok()?;
        Some(Frame { kind, flags, stream: u32::from_be_bytes([s0, s1, s2, s3]), payload })
    }

    /// The next frame of a kind; settings are acknowledged on the way.
    pub(super) async fn next(&mut self, kind: u8) -> Option<Frame> {
        loop {
            let frame = self.read().await?;
            if frame.kind == SETTINGS && frame.flags & END == 0 {
                self.write(SETTINGS, END, 0, &[]).await;
            }
            if frame.kind == kind {
                return Some(frame);
            }
        }
    }

    /// The stream of the next request.
    pub(super) async fn request(&mut self) -> u32 {
        self.next(HEADERS).await.expect("a request").stream
    }

    /// Responds with 200 without a body.
    pub(super) async fn respond(&mut self, stream: u32) {
        self.write(HEADERS, END | END_HEADERS, stream, OK).await;
    }
}
