//! permessage-deflate against a peer that keeps its states as RFC 7692 §7.2 requires, and no windows of plain text.

use flate2::{Compress, Decompress, FlushCompress, FlushDecompress};

use super::{FRAME, MESSAGE, ReceivedEvents, STEPS, agreed, deflating, frame, hear};
use crate::websocket::{Incoming, Outgoing, PART, WebSocketFault};

/// A reproducible generator.
struct RandomNumbers(u64);

impl RandomNumbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }

    /// A message that repeats, within itself and from one to the next; or does not at all.
    fn message(&mut self) -> Vec<u8> {
        let size = match self.below(24) {
            0..4 => self.below(3),
            4..18 => self.below(400),
            18..23 => self.below(10_000),
            _ => self.below(150_000),
        };
        if self.below(4) == 0 {
            return (0..size).map(|_| self.below(256) as u8).collect();
        }
        let mut text = Vec::new();
        while text.len() < size {
            let number = self.below(1000);
            text.extend(
                format!("{{\"type\":\"message\",\"user\":{number},\"text\":\"h\u{e9}llo {number}\"}}\n")
                    .bytes(),
            );
        }
        text.truncate(size);
        while std::str::from_utf8(&text).is_err() {
            text.pop();
        }
        text
    }
}

/// A peer's side.
struct ConnectionInfo {
    compress: Compress,
    decompress: Decompress,
    takeover: (bool, bool),
}

const TAIL: [u8; 4] = [0, 0, 0xff, 0xff];

impl ConnectionInfo {
    fn new(theirs_bits: u8, takeover: (bool, bool)) -> Self {
        let compress = Compress::new_with_window_bits(flate2::Compression::new(6), false, theirs_bits.max(9));
        Self { compress, decompress: Decompress::new(false), takeover }
    }

    fn deflate(&mut self, message: &[u8]) -> Vec<u8> {
        if message.is_empty() {
            // One byte (§7.2.3.6): a compressor that was just flushed has no output.
            return vec![0];
        }
        if !self.takeover.1 {
            self.compress.reset();
        }
        let mut out = Vec::with_capacity(message.len() + message.len() / 100 + 100);
        self.compress.compress_vec(message, &mut out, FlushCompress::Sync).unwrap();
        assert_eq!(out.split_off(out.len() - 4), TAIL);
        out
    }

    fn inflate(&mut self, compressed: &[u8]) -> Vec<u8> {
        if !self.takeover.0 {
            self.decompress.reset(false);
        }
        let mut out = Vec::with_capacity(2 << 20);
        for bytes in [compressed, &TAIL] {
            let before = self.decompress.total_in();
            self.decompress.decompress_vec(bytes, &mut out, FlushDecompress::Sync).unwrap();
            assert_eq!(self.decompress.total_in() - before, bytes.len() as u64);
        }
        out
    }
}

const OFFERS: [(&str, u8, (bool, bool)); 5] = [
    ("permessage-deflate", 15, (true, true)),
    ("permessage-deflate; client_max_window_bits", 12, (true, true)),
    ("permessage-deflate; server_no_context_takeover; client_no_context_takeover", 15, (false, false)),
    ("permessage-deflate; server_max_window_bits=9; client_max_window_bits=9", 9, (true, true)),
    ("permessage-deflate; client_no_context_takeover; server_max_window_bits=10", 15, (true, false)),
];

#[test]
fn what_a_client_compresses_is_inflated() {
    for (offer, bits, takeover) in OFFERS {
        let (mut draws, mut peer) = (RandomNumbers(4711), ConnectionInfo::new(bits, takeover));
        let mut incoming = Incoming::new(FRAME, MESSAGE, Some(agreed(offer)));
        for number in 0..40 {
            let message = draws.message();
            let (text, compressed) = (std::str::from_utf8(&message).is_ok(), draws.below(5) > 0);
            let payload = if compressed { peer.deflate(&message) } else { message.clone() };
            let (opcode, rsv1) = (if text { 1 } else { 2 }, if compressed { 0x40 } else { 0 });
            let piece = 1 + draws.below(payload.len() + 1).max(payload.len() / 20);
            let pieces: Vec<&[u8]> =
                if payload.is_empty() { vec![&[]] } else { payload.chunks(piece).collect() };
            let mut bytes = Vec::new();
            for (at, piece) in pieces.iter().enumerate() {
                let first = if at == 0 { opcode | rsv1 } else { 0 };
                bytes.extend(frame(if at + 1 == pieces.len() { first | 0x80 } else { first }, piece));
                bytes.extend(frame(0x89, b"between"));
            }
            let step = *[1, 5, 1000, usize::MAX].get(draws.below(4)).unwrap();
            let heard = hear(&mut incoming, &bytes, step);
            assert_eq!(heard.fault, None, "{offer}: message {number}");
            assert!(heard.messages == [(text, message)], "{offer}: message {number}");
            assert_eq!(heard.pings.len(), pieces.len());
        }
    }
}

/// Decodes the frames written: their messages.
fn sent(peer: &mut ConnectionInfo, mut bytes: &[u8]) -> Vec<(u8, bool, Vec<u8>)> {
    let (mut messages, mut begun) = (Vec::new(), None::<(u8, bool, Vec<u8>)>);
    while let [first, short, rest @ ..] = bytes {
        assert_eq!(short & 0x80, 0, "a server masks nothing");
        let (length, rest) = match short {
            126 => (u16::from_be_bytes(rest[..2].try_into().unwrap()) as usize, &rest[2..]),
            127 => (u64::from_be_bytes(rest[..8].try_into().unwrap()) as usize, &rest[8..]),
            short => (usize::from(*short), rest),
        };
        let (payload, rest) = rest.split_at(length);
        bytes = rest;
        let message = match (&mut begun, first & 0x0f) {
            (Some(message), 0) => {
                assert_eq!(first & 0x70, 0, "RSV1 is of the first frame");
                message
            }
            (None, opcode @ 1..=2) => begun.insert((opcode, first & 0x40 != 0, Vec::new())),
            (_, opcode) => panic!("opcode {opcode}"),
        };
        message.2.extend_from_slice(payload);
        if first & 0x80 != 0 {
            let (opcode, compressed, payload) = begun.take().unwrap();
            let payload = if compressed { peer.inflate(&payload) } else { payload };
            messages.push((opcode, compressed, payload));
        }
    }
    assert!(begun.is_none() && bytes.is_empty());
    messages
}

fn push(outgoing: &mut Outgoing, text: bool, message: &[u8], part: usize, out: &mut Vec<u8>) {
    let parts: Vec<&[u8]> = if message.is_empty() { vec![&[]] } else { message.chunks(part).collect() };
    for (at, bytes) in parts.iter().enumerate() {
        outgoing.push(text, bytes, at + 1 == parts.len(), out).unwrap();
    }
}

/// Many WebSockets at once: more than there are compressors, so that each sometimes meets its own again.
#[test]
fn what_is_compressed_can_be_inflated_by_the_client() {
    for (offer, bits, takeover) in OFFERS {
        let mut draws = RandomNumbers(815);
        let mut all: Vec<(Outgoing, ConnectionInfo)> = (0..40)
            .map(|_| (Outgoing::new(Some(agreed(offer))), ConnectionInfo::new(bits, takeover)))
            .collect();
        let (mut whole, mut wire, mut compressed) = (0, 0, 0);
        for number in 0..250 {
            // Some send much more.
            let socket = if draws.below(2) == 0 { draws.below(3) } else { draws.below(40) };
            let (outgoing, peer) = &mut all[socket];
            let message = draws.message();
            let text = std::str::from_utf8(&message).is_ok();
            let (part, mut out) = (1 + draws.below(PART), Vec::new());
            let part = part.max(message.len() / 10);
            push(outgoing, text, &message, part, &mut out);
            let messages = sent(peer, &out);
            let [(opcode, was_compressed, inflated)] = &messages[..] else {
                panic!("{} messages", messages.len())
            };
            assert_eq!(*opcode, if text { 1 } else { 2 });
            assert!(*inflated == message, "{offer}: message {number} of socket {socket}");
            whole += message.len();
            wire += out.len();
            compressed += usize::from(*was_compressed);
        }
        assert!(
            compressed > 50 && wire < whole * 2 / 3,
            "{offer}: {compressed} compressed, {wire} of {whole}"
        );
    }
}

#[test]
fn what_repeats_from_message_to_message_is_pointed_back_at_also_when_others_had_their_turn() {
    let mut draws = RandomNumbers(1);
    let noise: Vec<u8> = (0..200).map(|_| draws.below(256) as u8).collect();
    for others in [0, 100] {
        let mut outgoing = Outgoing::new(Some(agreed("permessage-deflate")));
        let mut peer = ConnectionInfo::new(15, (true, true));
        for again in 0..5 {
            let mut out = Vec::new();
            outgoing.push(false, &noise, true, &mut out).unwrap();
            // An incompressible message is sent as it is, and is not referred back to: so it is sent twice.
            let message = [&noise[..], &noise[..]].concat();
            outgoing.push(false, &message, true, &mut out).unwrap();
            let messages = sent(&mut peer, &out);
            assert!(!messages[0].1 || again > 0, "noise was compressed");
            assert_eq!((&messages[0].2, &messages[1].2), (&noise, &message));
            if again > 0 {
                assert!(out.len() < 60, "{} bytes with {others} others", out.len());
            }
            for _ in 0..others {
                Outgoing::new(Some(agreed("permessage-deflate")))
                    .push(true, &[b'x'; 100], true, &mut Vec::new())
                    .unwrap();
            }
        }
    }
}

#[test]
fn short_messages_and_those_that_do_not_get_smaller_leave_as_they_are() {
    let mut outgoing = Outgoing::new(Some(agreed("permessage-deflate")));
    let mut out = Vec::new();
    outgoing.push(true, b"", true, &mut out).unwrap();
    outgoing.push(true, &[b'a'; 63], true, &mut out).unwrap();
    assert_eq!(out[..4], [0x81, 0, 0x81, 63]);
    out.clear();
    outgoing.push(true, &[b'a'; 64], true, &mut out).unwrap();
    assert_eq!(out[0], 0xc1);
    out.clear();
    Outgoing::new(None).push(true, &[b'a'; 64], true, &mut out).unwrap();
    assert_eq!(out[..2], [0x81, 64]);
}

#[test]
fn text_of_the_app_that_is_none_is_refused() {
    let mut out = Vec::new();
    let mut outgoing = Outgoing::new(None);
    assert_eq!(outgoing.push(true, &[0xc3], false, &mut out), Ok(()));
    assert_eq!(outgoing.push(true, &[0xa9], true, &mut out), Ok(()));
    assert_eq!(outgoing.push(true, &[0xc3], true, &mut out), Err(WebSocketFault::Utf8));
}

/// The examples of RFC 7692 §7.2.3.
#[test]
fn the_examples_of_the_rfc() {
    let hello = |bytes: &[u8], incoming: &mut Incoming, step: usize| {
        assert_eq!(hear(incoming, bytes, step).messages, [(true, b"Hello".to_vec())], "{bytes:02x?}");
    };
    for step in STEPS {
        let one = frame(0xc1, &[0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00]);
        hello(&one, &mut deflating(), step);
        let fragments = [frame(0x41, &[0xf2, 0x48, 0xcd]), frame(0x80, &[0xc9, 0xc9, 0x07, 0x00])].concat();
        hello(&fragments, &mut deflating(), step);
        let shared = &mut deflating();
        hello(&one, shared, step);
        hello(&frame(0xc1, &[0xf2, 0x00, 0x11, 0x00, 0x00]), shared, step);
        let stored = [0x00, 0x05, 0x00, 0xfa, 0xff, 0x48, 0x65, 0x6c, 0x6c, 0x6f, 0x00];
        hello(&frame(0xc1, &stored), &mut deflating(), step);
        let last = frame(0xc1, &[0xf3, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00, 0x00]);
        let shared = &mut deflating();
        hello(&last, shared, step);
        hello(&frame(0xc1, &[0xf2, 0x00, 0x11, 0x00, 0x00]), shared, step);
        let two_blocks = [0xf2, 0x48, 0x05, 0x00, 0x00, 0x00, 0xff, 0xff, 0xca, 0xc9, 0xc9, 0x07, 0x00];
        hello(&frame(0xc1, &two_blocks), &mut deflating(), step);
        let empty = hear(&mut deflating(), &frame(0xc2, &[0x00]), step);
        assert_eq!(empty.messages, [(false, Vec::new())]);
        // An empty last frame, as left by a compressor that was flushed before.
        let flushed = [frame(0x41, &[0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00]), frame(0x80, &[])].concat();
        hello(&flushed, &mut deflating(), step);
    }
}

fn fault(heard: &ReceivedEvents) -> Option<u16> {
    heard.fault.map(WebSocketFault::code)
}

#[test]
fn breaches_of_compression() {
    for step in STEPS {
        for (name, code, bytes) in [
            ("RSV1 on a continuation", 1002, [frame(0x41, &[0xf2]), frame(0xc0, &[0x48])].concat()),
            ("RSV1 on a continuation of plain text", 1002, [frame(0x01, b"a"), frame(0xc0, b"b")].concat()),
            ("RSV1 on a ping", 1002, frame(0xc9, &[0])),
            ("RSV1 on a close", 1002, frame(0xc8, &[])),
            ("RSV2 beside it", 1002, frame(0xe1, &[0])),
            ("no DEFLATE", 1007, frame(0xc1, &[0xff, 0xff, 0xff])),
            ("a distance beyond the beginning", 1007, frame(0xc1, &[0xf2, 0x00, 0x11, 0x00, 0x00])),
            ("text that is not UTF-8", 1007, frame(0xc1, &[0x00, 0x02, 0x00, 0xfd, 0xff, 0xff, 0xfe, 0x00])),
            ("streams without end", 1007, frame(0xc2, &[0x03, 0x00].repeat(10_000))),
        ] {
            assert_eq!(fault(&hear(&mut deflating(), &bytes, step)), Some(code), "{name}");
        }
    }
}

/// Each hardly shrinks by itself.
#[test]
fn short_texts_are_compressed_for_those_that_follow() {
    let mut outgoing = Outgoing::new(Some(agreed("permessage-deflate")));
    let mut peer = ConnectionInfo::new(15, (true, true));
    for number in 0..20 {
        let (message, mut out) = (
            format!(
                "{{\"id\":{number},\"kind\":\"quark\",\"vex\":\"jumpy\",\"bow\":\"dwarf\",\"fly\":1,\"sphinx\":0}}"
            ),
            Vec::new(),
        );
        outgoing.push(true, message.as_bytes(), true, &mut out).unwrap();
        assert_eq!(sent(&mut peer, &out), [(1, true, message.clone().into_bytes())]);
        let most = if number == 0 { message.len() + 10 } else { message.len() / 2 };
        assert!(out.len() < most, "message {number}: {} bytes for {}", out.len(), message.len());
    }
}

/// The limit of a frame applies to the message in it: an incompressible one is a little longer then.
#[test]
fn a_message_at_the_limit_that_cannot_be_compressed_passes() {
    let (mut draws, mut peer) = (RandomNumbers(99), ConnectionInfo::new(9, (false, false)));
    let most = 100_000;
    for (size, fits) in [(most, true), (most + 1, false)] {
        let message: Vec<u8> = (0..size).map(|_| draws.below(256) as u8).collect();
        let payload = peer.deflate(&message);
        assert!(payload.len() > most);
        let mut incoming = Incoming::new(most, most, Some(agreed("permessage-deflate")));
        let heard = hear(&mut incoming, &frame(0xc2, &payload), usize::MAX);
        assert_eq!(fault(&heard), (!fits).then_some(1009), "{size}");
    }
    let endless = frame(0xc2, &vec![0; most + most / 256 + 65]);
    let mut incoming = Incoming::new(most, most, Some(agreed("permessage-deflate")));
    assert_eq!(hear(&mut incoming, &endless, usize::MAX).fault, Some(WebSocketFault::LongFrame));
}

/// The limit of a message applies to its inflated size, and nothing is inflated beyond it.
#[test]
fn a_bomb_is_not_inflated() {
    let mut peer = ConnectionInfo::new(15, (false, false));
    let most = 1 << 20;
    for (size, fits) in [(most - 1, true), (most, true), (most + 1, false), (8 << 20, false)] {
        let payload = peer.deflate(&vec![b'a'; size]);
        let limited = || Incoming::new(FRAME, most, Some(agreed("permessage-deflate")));
        for step in [1, usize::MAX] {
            let mut incoming = limited();
            let heard = hear(&mut incoming, &frame(0xc2, &payload), step);
            assert_eq!(fault(&heard), (!fits).then_some(1009), "{size} bytes");
            assert!(incoming.worked() <= most + payload.len() + 8, "{size} bytes");
            if fits {
                assert_eq!(heard.messages[0].1.len(), size);
            }
        }
    }
}
