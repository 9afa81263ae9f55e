//! Frames of RFC 6455 as a client sends and reads them. Shares no code with Keepwarm.

use crate::pattern;
use crate::response::{Broken, Reader};

pub(super) const CONTINUATION: u8 = 0;
pub(super) const TEXT: u8 = 1;
pub(super) const BINARY: u8 = 2;
pub(super) const CLOSE: u8 = 8;
pub(super) const PING: u8 = 9;
pub(super) const PONG: u8 = 10;

/// A masked frame: FIN and reserved bits with the opcode in `first`.
pub(super) fn masked(first: u8, mask: [u8; 4], payload: impl ExactSizeIterator<Item = u8>) -> Vec<u8> {
    let length = payload.len();
    let mut frame = Vec::with_capacity(length + 14);
    frame.push(first);
    match length {
        0..=125 => frame.push(0x80 | length as u8),
        126..=0xffff => {
            frame.push(0x80 | 126);
            frame.extend_from_slice(&(length as u16).to_be_bytes());
        }
        _ => {
            frame.push(0x80 | 127);
            frame.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    frame.extend_from_slice(&mask);
    frame.extend(payload.zip(mask.into_iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

/// A close frame's payload: empty without a code.
pub(super) fn close_payload(code: Option<u16>, reason: &str) -> Vec<u8> {
    match code {
        None => Vec::new(),
        Some(code) => [&code.to_be_bytes(), reason.as_bytes()].concat(),
    }
}

/// The beginning of a server's frame.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    pub(super) fin: bool,
    /// Compressed (RFC 7692 §6): on the first frame of a message.
    pub(super) rsv1: bool,
    pub(super) opcode: u8,
    pub(super) length: usize,
}

impl Head {
    pub(super) fn is_control(self) -> bool {
        self.opcode >= 8
    }
}

/// The next frame's head, as strictly as RFC 6455 §5.2 allows, with RSV1 where that was agreed on; `None`: the connection has ended between frames.
pub(super) async fn head(reader: &mut Reader<'_>, deflate: bool) -> Result<Option<Head>, Broken> {
    if !reader.has_more().await {
        return Ok(None);
    }
    let two = reader.take(2, "frame").await?;
    let (fin, opcode, short) = (two[0] & 0x80 != 0, two[0] & 0x0f, two[1] & 0x7f);
    let wrong = |what: &str| Err(Broken::Wrong(format!("{what}: frame {two:02x?}")));
    let rsv1 = two[0] & 0x40 != 0;
    if two[0] & 0x30 != 0 || (rsv1 && !(deflate && matches!(opcode, TEXT | BINARY))) {
        return wrong("an extension that nobody agreed on");
    }
    if two[1] & 0x80 != 0 {
        return wrong("a masked frame of a server");
    }
    if !matches!(opcode, CONTINUATION | TEXT | BINARY | CLOSE | PING | PONG) {
        return wrong("an opcode that is none");
    }
    let length = match short {
        126 => u64::from(u16::from_be_bytes(
            reader.take(2, "length").await?.try_into().expect("two bytes were taken"),
        )),
        127 => {
            u64::from_be_bytes(reader.take(8, "length").await?.try_into().expect("eight bytes were taken"))
        }
        short => u64::from(short),
    };
    if (short == 126 && length < 126) || (short == 127 && length < 0x1_0000) {
        return wrong("a length that is longer than it has to be");
    }
    let head = Head { fin, rsv1, opcode, length: length as usize };
    if head.is_control() && (!fin || length > 125) {
        return wrong("a control frame that is long or in pieces");
    }
    Ok(Some(head))
}

/// A message's byte: text has characters of one to four bytes, and repeats itself.
pub(super) fn byte(id: u64, text: bool, size: usize, at: usize) -> u8 {
    const CYCLE: &[u8] = "a\u{20ac}\u{e9}\u{1f600}".as_bytes();
    if !text {
        // Noise; in the middle of each block, that of all messages of this side, which compression points back at.
        let shared = (128..384).contains(&(at % 512));
        return pattern::byte(if shared { id >> 32 } else { id }, at);
    }
    let (block, offset) = (at / CYCLE.len(), at % CYCLE.len());
    if offset == 0 || (block + 1) * CYCLE.len() > size {
        return b'!' + pattern::byte(id, at) % 90;
    }
    CYCLE[offset]
}

/// Where these bytes, which have come after `from` others, are not the message's.
pub(super) fn check(id: u64, text: bool, size: usize, from: usize, bytes: &[u8]) -> Result<(), String> {
    match bytes.iter().enumerate().find(|(at, seen)| **seen != byte(id, text, size, from + at)) {
        Some((at, _)) => Err(format!("message {id:x} is wrong at {}", from + at)),
        None => Ok(()),
    }
}
