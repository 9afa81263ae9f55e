//! A client of HTTP/2 that sends frames exactly as a test writes them, also invalid ones, and reads the frames of the response. Shares no code with Keepwarm.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};

/// Every read is bounded.
const BOUND: Duration = Duration::from_secs(20);

pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const PRIORITY: u8 = 2;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;
pub const PRIORITY_UPDATE: u8 = 16;

pub const END_STREAM: u8 = 1;
pub const ACK: u8 = 1;
pub const END_HEADERS: u8 = 4;

pub const NO_ERROR: u32 = 0;
pub const PROTOCOL_ERROR: u32 = 1;
pub const FLOW_CONTROL_ERROR: u32 = 3;
pub const CANCEL: u32 = 8;
pub const COMPRESSION_ERROR: u32 = 9;
pub const ENHANCE_YOUR_CALM: u32 = 11;

/// A frame, as read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

impl Frame {
    /// The error code of RST_STREAM or GOAWAY.
    pub fn code(&self) -> u32 {
        let at = if self.kind == GOAWAY { 4 } else { 0 };
        number(&self.payload[at..at + 4])
    }

    /// The last stream of GOAWAY.
    pub fn last(&self) -> u32 {
        number(&self.payload[..4]) & 0x7fff_ffff
    }

    pub fn ends(&self) -> bool {
        matches!(self.kind, DATA | HEADERS) && self.flags & END_STREAM != 0
    }

    /// `:status` of HEADERS from a server whose dynamic table is off.
    pub fn status(&self) -> u16 {
        let at = self.payload.iter().position(|byte| !(0x20..0x40).contains(byte)).expect("a field");
        match &self.payload[at..] {
            [index @ 0x88..=0x8e, ..] => [200, 204, 206, 304, 400, 404, 500][usize::from(index - 0x88)],
            [0x08 | 0x18 | 0x48, length, value @ ..] if length & 0x80 == 0 => {
                std::str::from_utf8(&value[..3]).expect("digits").parse().expect("a status")
            }
            [0x08 | 0x18 | 0x48, length, value @ ..] => digits(&value[..usize::from(length & 0x7f)]),
            other => panic!("not a status: {other:?}"),
        }
    }
}

/// Three digits by HPACK's Huffman code (RFC 7541, Appendix B).
fn digits(bytes: &[u8]) -> u16 {
    let bits: Vec<u8> = bytes.iter().flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1)).collect();
    let take = |at: usize, count: usize| {
        bits[at..at + count].iter().fold(0_u16, |all, bit| all << 1 | u16::from(*bit))
    };
    let (mut at, mut status) = (0, 0);
    for _ in 0..3 {
        let digit = match take(at, 5) {
            short @ 0..=2 => short,
            _ => {
                at += 1;
                take(at - 1, 6) - 0x19 + 3
            }
        };
        at += 5;
        status = status * 10 + digit;
    }
    status
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes.try_into().expect("four bytes"))
}

/// A frame's bytes.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = u32::try_from(payload.len()).expect("a frame's length").to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// One setting.
pub fn setting(id: u16, value: u32) -> [u8; 6] {
    let ([a, b], [c, d, e, f]) = (id.to_be_bytes(), value.to_be_bytes());
    [a, b, c, d, e, f]
}

/// A field as HPACK's literal without indexing. Lengths above 126 take several bytes (RFC 7541 §5.1).
pub fn literal(name: &str, value: &str) -> Vec<u8> {
    let mut bytes = vec![0];
    for text in [name, value] {
        match text.len() {
            short @ ..127 => bytes.push(short as u8),
            long => {
                bytes.push(127);
                let mut rest = long - 127;
                while rest >= 128 {
                    bytes.push((rest % 128 + 128) as u8);
                    rest /= 128;
                }
                bytes.push(rest as u8);
            }
        }
        bytes.extend(text.as_bytes());
    }
    bytes
}

/// The block of a request's head.
pub fn block(method: &str, path: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    let pseudo = [(":method", method), (":scheme", "http"), (":authority", "a.example"), (":path", path)];
    pseudo.iter().chain(fields).flat_map(|(name, value)| literal(name, value)).collect()
}

/// A connection.
pub struct Http2 {
    stream: TcpStream,
    unread: Vec<u8>,
}

impl Http2 {
    /// Connects and sends the preface; the dynamic table of the server is off, so that [`Frame::status`] can read its heads.
    #[track_caller]
    pub fn connect(address: SocketAddr) -> Self {
        Self::connect_with(address, &[])
    }

    /// The same with further settings.
    #[track_caller]
    pub fn connect_with(address: SocketAddr, settings: &[(u16, u32)]) -> Self {
        let mut client = Self::silent(address);
        let mut payload = setting(1, 0).to_vec();
        payload.extend(settings.iter().flat_map(|(id, value)| setting(*id, *value)));
        client.send(&[PREFACE, &frame(SETTINGS, 0, 0, &payload)].concat());
        client
    }

    /// Connects and sends nothing.
    #[track_caller]
    pub fn silent(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the server accepts");
        stream.set_read_timeout(Some(BOUND)).expect("a timeout");
        stream.set_write_timeout(Some(BOUND)).expect("a timeout");
        stream.set_nodelay(true).expect("an option");
        Self { stream, unread: Vec::new() }
    }

    #[track_caller]
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the server takes it");
    }

    /// As [`Self::send`]; `false`: the server has closed the connection.
    pub fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// Sends a whole request without a body.
    #[track_caller]
    pub fn request(&mut self, stream: u32, path: &str, fields: &[(&str, &str)]) {
        self.send(&frame(HEADERS, END_HEADERS | END_STREAM, stream, &block("GET", path, fields)));
    }

    /// Sends the head of a request whose body follows.
    #[track_caller]
    pub fn head(&mut self, stream: u32, method: &str, path: &str, fields: &[(&str, &str)]) {
        self.send(&frame(HEADERS, END_HEADERS, stream, &block(method, path, fields)));
    }

    /// Lets the server send more.
    #[track_caller]
    pub fn give(&mut self, stream: u32, bytes: u32) {
        self.send(&frame(WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes()));
    }

    pub fn end(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// The next frame; `None`: the connection has ended. SETTINGS and PING of the server are acknowledged and returned.
    #[track_caller]
    pub fn next_frame(&mut self) -> Option<Frame> {
        let frame = self.next_raw()?;
        if matches!(frame.kind, SETTINGS | PING) && frame.flags & ACK == 0 {
            let echo: &[u8] = if frame.kind == PING { &frame.payload } else { &[] };
            self.try_send(&self::frame(frame.kind, ACK, 0, echo));
        }
        Some(frame)
    }

    /// The next frame, without an acknowledgement.
    #[track_caller]
    pub fn next_raw(&mut self) -> Option<Frame> {
        loop {
            if let Some((head, rest)) = self.unread.split_at_checked(9) {
                let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
                if rest.len() >= length {
                    let frame = Frame {
                        kind: head[3],
                        flags: head[4],
                        stream: number(&head[5..9]) & 0x7fff_ffff,
                        payload: rest[..length].to_vec(),
                    };
                    self.unread.drain(..9 + length);
                    return Some(frame);
                }
            }
            let mut bytes = [0; 64 * 1024];
            match self.stream.read(&mut bytes) {
                Ok(0) => return None,
                Ok(got) => self.unread.extend(&bytes[..got]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("{error}: no frame within {BOUND:?}; half of one: {:?}", self.unread),
            }
        }
    }

    /// Reads up to a frame that fits; panics at the end of the connection.
    #[track_caller]
    pub fn until(&mut self, fits: impl Fn(&Frame) -> bool) -> Frame {
        let mut before = Vec::new();
        while let Some(frame) = self.next_frame() {
            if fits(&frame) {
                return frame;
            }
            before.push((frame.kind, frame.flags, frame.stream, frame.payload.len()));
        }
        panic!("the connection ended before; frames: {before:?}");
    }

    /// The status of a stream's response, past informational ones.
    #[track_caller]
    pub fn status(&mut self, stream: u32) -> u16 {
        self.until(|frame| frame.kind == HEADERS && frame.stream == stream && frame.status() >= 200).status()
    }

    /// The status and the body of a stream's whole response; room is given for all of it.
    #[track_caller]
    pub fn response(&mut self, stream: u32) -> (u16, Vec<u8>) {
        let (mut status, mut body) = (0, Vec::new());
        loop {
            let frame = self.until(|frame| frame.stream == stream && frame.kind != WINDOW_UPDATE);
            match frame.kind {
                HEADERS if status < 200 => status = frame.status(),
                HEADERS => {}
                DATA => {
                    body.extend(&frame.payload);
                    let got = frame.payload.len() as u32;
                    if got > 0 && !frame.ends() {
                        self.give(stream, got);
                    }
                    if got > 0 {
                        self.give(0, got);
                    }
                }
                _ => panic!("{frame:?} before the end of the response"),
            }
            if frame.ends() {
                return (status, body);
            }
        }
    }

    /// Waits until the server has reset the connection, without reading a byte.
    pub fn is_reset(&self, bound: Duration) -> bool {
        let mut fds = [PollFd::new(&self.stream, PollFlags::empty())];
        let bound = rustix::event::Timespec::try_from(bound).expect("a short time");
        poll(&mut fds, Some(&bound)).expect("poll") > 0
    }

    /// Reads to the end of the connection, and sends nothing more; returns the code of the last GOAWAY.
    #[track_caller]
    pub fn goodbye(&mut self) -> Option<u32> {
        let mut code = None;
        while let Some(frame) = self.next_raw() {
            if frame.kind == GOAWAY {
                code = Some(frame.code());
            }
        }
        code
    }
}
