//! Frames by the letter of RFC 6455, fed whole, byte by byte and cut anywhere; compression against the peer's.

mod compression;
mod negotiation;

use keepwarm_net::ReadBuffer;

use super::frame::Mask;
use super::negotiate::Compression;
use super::utf8::Utf8;
use super::{Incoming, IncomingEvent, PART, WebSocketFault, encode_close};

const FRAME: usize = 4 << 20;
const MESSAGE: usize = 16 << 20;

/// A client's frame.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let key = [0x37, 0xfa, 0x21, 0x3d];
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
    bytes.extend(key);
    bytes.extend(payload.iter().zip(key.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    bytes
}

/// The events of a client's bytes: messages, joined, with whether they are text; pings; the end.
#[derive(Debug, Default, PartialEq, Eq)]
struct ReceivedEvents {
    messages: Vec<(bool, Vec<u8>)>,
    pings: Vec<Vec<u8>>,
    close: Option<(u16, String)>,
    fault: Option<WebSocketFault>,
}

/// Feeds the bytes `step` at a time.
fn hear(incoming: &mut Incoming, bytes: &[u8], step: usize) -> ReceivedEvents {
    let mut heard = ReceivedEvents::default();
    let (mut read, mut begun) = (ReadBuffer::default(), Vec::new());
    for piece in bytes.chunks(step) {
        read.storage(piece.len()).extend_from_slice(piece);
        loop {
            match incoming.next(&mut read) {
                Ok(IncomingEvent::Part { text, bytes, end }) => {
                    assert!(bytes.len() <= PART, "{} bytes in a part", bytes.len());
                    assert!(end || !bytes.is_empty(), "a part of nothing");
                    begun.extend_from_slice(&bytes);
                    if end {
                        heard.messages.push((text, std::mem::take(&mut begun)));
                    }
                }
                Ok(IncomingEvent::Ping(payload)) => heard.pings.push(payload),
                Ok(IncomingEvent::Pong) => {}
                Ok(IncomingEvent::Close(code, reason)) => {
                    heard.close = Some((code, reason));
                    return heard;
                }
                Ok(IncomingEvent::More) => break,
                Err(fault) => {
                    heard.fault = Some(fault);
                    return heard;
                }
            }
        }
    }
    heard
}

fn plain() -> Incoming {
    Incoming::new(FRAME, MESSAGE, None)
}

fn deflating() -> Incoming {
    let agreed = super::negotiate([&b"permessage-deflate"[..]].into_iter()).unwrap().0;
    Incoming::new(FRAME, MESSAGE, Some(agreed))
}

const STEPS: [usize; 5] = [1, 2, 3, 7, usize::MAX];

#[test]
fn fragments_pings_and_pongs_in_any_cut() {
    let bytes = [
        frame(0x01, b"one "),
        frame(0x89, b"ping"),
        frame(0x00, b""),
        frame(0x8a, b"unasked"),
        frame(0x80, b"message"),
        frame(0x82, &[7; 300]),
        frame(0x81, b""),
        frame(0x88, b"\x03\xe8bye"),
        frame(0x81, b"behind the close"),
    ];
    for step in STEPS {
        let heard = hear(&mut plain(), &bytes.concat(), step);
        assert_eq!(
            heard.messages,
            [(true, b"one message".to_vec()), (false, vec![7; 300]), (true, Vec::new())]
        );
        assert_eq!(heard.pings, [b"ping"]);
        assert_eq!((heard.close, heard.fault), (Some((1000, "bye".to_owned())), None), "{step}");
    }
}

#[test]
fn every_breach_has_its_code_whatever_the_cut() {
    let unmasked = |first: u8, payload: &[u8]| [&[first, payload.len() as u8], payload].concat();
    let lengths = |short: u8, length: &[u8]| [&[0x82, 0x80 | short], length, &[0; 4]].concat();
    let close = |code: u16| frame(0x88, &code.to_be_bytes());
    let cases: Vec<(&str, u16, Vec<u8>)> = vec![
        ("unmasked text", 1002, unmasked(0x81, b"hi")),
        ("unmasked ping", 1002, unmasked(0x89, b"")),
        ("RSV1 that nobody agreed on", 1002, frame(0xc1, b"hi")),
        ("RSV2", 1002, frame(0xa1, b"hi")),
        ("RSV3", 1002, frame(0x91, b"hi")),
        ("all reserved bits", 1002, frame(0xf2, b"hi")),
        ("RSV1 on a ping", 1002, frame(0xc9, b"hi")),
        ("RSV2 on a close", 1002, frame(0xa8, b"")),
        ("opcode 3", 1002, frame(0x83, b"")),
        ("opcode 7", 1002, frame(0x87, b"x")),
        ("opcode 11", 1002, frame(0x8b, b"")),
        ("opcode 15", 1002, frame(0x8f, b"x")),
        ("a ping in pieces", 1002, frame(0x09, b"hi")),
        ("a close in pieces", 1002, frame(0x08, b"")),
        ("a ping of 126 bytes", 1002, frame(0x89, &[b'x'; 126])),
        ("a pong of 70,000 bytes", 1002, frame(0x8a, &[b'x'; 70_000])),
        ("a close of 126 bytes", 1002, frame(0x88, &[3; 126])),
        ("a continuation of nothing", 1002, frame(0x80, b"hi")),
        ("a first continuation of nothing", 1002, frame(0x00, b"")),
        ("text within text", 1002, [frame(0x01, b"a"), frame(0x81, b"b")].concat()),
        ("binary within text", 1002, [frame(0x01, b""), frame(0x02, b"b")].concat()),
        ("125 in two bytes", 1002, lengths(126, &125_u16.to_be_bytes())),
        ("65,535 in eight bytes", 1002, lengths(127, &65_535_u64.to_be_bytes())),
        ("a length with its first bit", 1002, lengths(127, &(1_u64 << 63).to_be_bytes())),
        ("a close of one byte", 1002, frame(0x88, &[3])),
        ("a close with code 0", 1002, close(0)),
        ("code 999", 1002, close(999)),
        ("code 1004", 1002, close(1004)),
        ("code 1005", 1002, close(1005)),
        ("code 1006", 1002, close(1006)),
        ("code 1015", 1002, close(1015)),
        ("code 1016", 1002, close(1016)),
        ("code 2999", 1002, close(2999)),
        ("code 5000", 1002, close(5000)),
        ("code 65535", 1002, close(65_535)),
        ("a reason that is not UTF-8", 1007, frame(0x88, &[0x03, 0xe8, 0xff])),
        ("a reason cut in a character", 1007, frame(0x88, &[0x03, 0xe8, b'a', 0xce])),
        ("text that is not UTF-8", 1007, frame(0x81, &[0xff, 0xfe])),
        ("text that ends in a character", 1007, frame(0x81, &[0xf0, 0x9f])),
        ("an overlong slash", 1007, frame(0x81, &[0xc0, 0xaf])),
        ("a surrogate", 1007, frame(0x81, &[0xed, 0xa0, 0x80])),
        ("above U+10FFFF", 1007, frame(0x81, &[0xf4, 0x90, 0x80, 0x80])),
        ("a character that does not go on", 1007, [frame(0x01, &[0xce]), frame(0x80, b"a")].concat()),
        ("a character that never ends", 1007, [frame(0x01, &[0xce]), frame(0x80, b"")].concat()),
        ("a frame above the limit", 1009, lengths(127, &(FRAME as u64 + 1).to_be_bytes())),
        ("the longest frame there can be", 1009, lengths(127, &((1_u64 << 63) - 1).to_be_bytes())),
    ];
    for (name, code, bytes) in cases {
        for step in STEPS {
            let bytes = [frame(0x81, b"before"), bytes.clone(), frame(0x81, b"behind")].concat();
            let heard = hear(&mut plain(), &bytes, step);
            assert_eq!(heard.fault.map(WebSocketFault::code), Some(code), "{name}, {step} bytes at a time");
            assert_eq!(heard.messages, [(true, b"before".to_vec())], "{name}");
        }
    }
    for code in [1000, 1001, 1002, 1003, 1007, 1008, 1010, 1011, 1012, 1014, 3000, 3999, 4000, 4999] {
        assert_eq!(hear(&mut plain(), &close(code), 1).close, Some((code, String::new())));
    }
    assert_eq!(hear(&mut plain(), &frame(0x88, b""), 1).close, Some((1005, String::new())));
    let longest = [&[0x03, 0xe8][..], "\u{e9}".repeat(61).as_bytes(), b"!"].concat();
    assert_eq!(hear(&mut plain(), &frame(0x88, &longest), 1).close.unwrap().1.len(), 123);
}

/// A fault that no further byte can fix is refused at once, without waiting for the rest of the frame, which may be long in coming.
#[test]
fn invalid_text_is_refused_at_the_byte_that_makes_it_so() {
    let bytes = frame(0x01, b"\xce\xba\xe1\xbd\xb9\xcf\x83\xf4\x90and so on");
    for cut in 0..=bytes.len() {
        let heard = hear(&mut plain(), &bytes[..cut], usize::MAX);
        // Six bytes of head; U+110000 begins with F4 90.
        assert_eq!(heard.fault.is_some(), cut >= 6 + 9, "{cut} bytes");
    }
}

#[test]
fn text_cut_anywhere_is_judged_as_when_it_is_whole() {
    let edges = [
        0x00_u8, b'a', 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xec,
        0xed, 0xee, 0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xff,
    ];
    let mut all = vec![Vec::new()];
    for length in 0..4 {
        let longer: Vec<Vec<u8>> = all
            .iter()
            .flat_map(|bytes: &Vec<u8>| edges.iter().map(move |edge| [&bytes[..], &[*edge]].concat()))
            .collect();
        // Prefixes of four bytes that could still become a character.
        let open = |bytes: &[u8]| std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none());
        for bytes in longer.iter().filter(|bytes| length < 3 || open(&bytes[..3])) {
            let valid = std::str::from_utf8(bytes).is_ok();
            for cut in 0..=bytes.len() {
                let (mut text, (one, other)) = (Utf8::default(), bytes.split_at(cut));
                let seen = text.push(one) && text.push(other) && text.is_whole();
                assert_eq!(seen, valid, "{bytes:02x?} cut at {cut}");
            }
            let mut text = Utf8::default();
            let seen = bytes.iter().all(|byte| text.push(&[*byte])) && text.is_whole();
            assert_eq!(seen, valid, "{bytes:02x?} byte by byte");
        }
        all = longer;
    }
}

#[test]
fn a_mask_goes_on_from_any_byte() {
    let plain: Vec<u8> = (0..100).collect();
    for (first, second) in [(0, 0), (1, 9), (3, 8), (8, 17), (16, 40), (5, 95)] {
        let masked = frame(0x82, &plain);
        let mut mask = super::frame::FrameHead::decode(&masked).unwrap().unwrap().mask;
        let mut bytes = masked[6..].to_vec();
        let (one, rest) = bytes.split_at_mut(first);
        let (two, three) = rest.split_at_mut(second);
        [one, two, three].into_iter().for_each(|part| Mask::remove(&mut mask, part));
        assert_eq!(bytes, plain, "{first}, {second}");
    }
}

/// The limits of a frame and a message, to the byte; one byte more is refused by the head alone.
#[test]
fn the_limits_are_met_to_the_byte() {
    let (most_frame, most) = (1000, 2500);
    let judge = |sizes: &[usize]| {
        let mut bytes = Vec::new();
        for (at, size) in sizes.iter().enumerate() {
            let first = if at == 0 { 0x02 } else { 0x00 } | if at + 1 == sizes.len() { 0x80 } else { 0 };
            bytes.extend(frame(first, &vec![b'x'; *size]));
            bytes.extend(frame(0x89, b"in between"));
        }
        let heard = hear(&mut Incoming::new(most_frame, most, None), &bytes, 97);
        match heard.fault {
            None => Ok(heard.messages.iter().map(|message| message.1.len()).sum::<usize>()),
            Some(fault) => Err(fault),
        }
    };
    assert_eq!(judge(&[999]), Ok(999));
    assert_eq!(judge(&[1000]), Ok(1000));
    assert_eq!(judge(&[1001]), Err(WebSocketFault::LongFrame));
    assert_eq!(judge(&[1000, 1000, 499]), Ok(2499));
    assert_eq!(judge(&[1000, 1000, 500]), Ok(2500));
    assert_eq!(judge(&[1000, 1000, 501]), Err(WebSocketFault::LongMessage));
    assert_eq!(judge(&[1000, 1000, 500, 0, 0]), Ok(2500));
    assert_eq!(judge(&[1000, 1000, 500, 0, 1]), Err(WebSocketFault::LongMessage));
}

/// A frame of 16 MiB needs no more memory than one of 64 KiB.
#[test]
fn a_large_frame_is_handed_on_in_parts() {
    let size = 16 << 20;
    let mut incoming = Incoming::new(size, size, None);
    let payload: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
    let bytes = frame(0x82, &payload);
    let (mut read, mut seen, mut ended) = (ReadBuffer::default(), 0, false);
    for piece in bytes.chunks(16 * 1024) {
        read.storage(piece.len()).extend_from_slice(piece);
        loop {
            match incoming.next(&mut read).unwrap() {
                IncomingEvent::Part { bytes, end, .. } => {
                    assert!(bytes.capacity() <= 2 * PART);
                    assert!(bytes.iter().eq(&payload[seen..seen + bytes.len()]), "at {seen}");
                    seen += bytes.len();
                    ended = end;
                }
                IncomingEvent::More => break,
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!((seen, ended), (size, true));
}

#[test]
fn closes_of_ours_fit_their_frame() {
    let mut out = Vec::new();
    encode_close(&mut out, 1005, "nobody reads this");
    assert_eq!(out, [0x88, 0]);
    out.clear();
    encode_close(&mut out, 1011, &"\u{e9}".repeat(100));
    assert_eq!(out[..4], [0x88, 2 + 122, 0x03, 0xf3]);
    assert!(std::str::from_utf8(&out[4..]).is_ok());
}

fn agreed(offer: &str) -> Compression {
    super::negotiate([offer.as_bytes()].into_iter()).unwrap().0
}
