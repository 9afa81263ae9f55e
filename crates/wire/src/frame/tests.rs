//! Cases beyond the vectors: the string block alone, and the words of faults.

use super::*;

/// A block of `count` strings with this text, in a TRAILERS frame.
fn trailers(count: u16, text: &[u8]) -> Vec<u8> {
    let length = (6 + text.len()) as u32;
    let header = FrameHeader { length, frame_type: FrameType::Trailers, flags: 0, stream: 1 };
    let mut frame = header.to_bytes().to_vec();
    frame.extend_from_slice(&count.to_be_bytes());
    frame.extend_from_slice(&(text.len() as u32).to_be_bytes());
    frame.extend_from_slice(text);
    frame
}

fn strings(count: u16, text: &[u8]) -> Option<Strings<'_>> {
    Strings::checked(count, text)
}

#[test]
fn a_block_is_taken_apart_at_its_nuls() {
    for (text, parts) in [
        (&b""[..], vec![&b""[..]]),
        (b"a", vec![b"a"]),
        (b"\0", vec![b"", b""]),
        (b"a\0\0b", vec![b"a", b"", b"b"]),
        (b"\0\0\0", vec![b"", b"", b"", b""]),
        (b"name\0value\0", vec![b"name", b"value", b""]),
    ] {
        let block = strings(parts.len() as u16, text).expect("the count fits");
        assert_eq!(block.len(), parts.len());
        assert_eq!(block.iter().len(), parts.len());
        assert_eq!(block.iter().collect::<Vec<_>>(), parts);
        assert_eq!(block.text(), text);
        for wrong in [0, parts.len() as u16 - 1, parts.len() as u16 + 1, u16::MAX] {
            assert_eq!(strings(wrong, text).is_some(), wrong == 0 && text.is_empty(), "{wrong} in {text:?}");
        }
    }
}

#[test]
fn an_empty_block_is_not_a_block_of_an_empty_string() {
    let (none, one) = (strings(0, b"").unwrap(), strings(1, b"").unwrap());
    assert_ne!(none, one);
    assert!(none.is_empty() && !one.is_empty());
    assert_eq!(none.iter().next(), None);
    assert_eq!(one.iter().collect::<Vec<_>>(), [b""]);
    assert_eq!(one.pairs().next(), None, "a name without a value is no pair");
}

#[test]
fn the_most_strings_there_can_be() {
    let text = vec![0; 65_534];
    let block = strings(65_535, &text).expect("65535 empty strings");
    assert_eq!(block.iter().filter(|string| string.is_empty()).count(), 65_535);
    // As names and values there is one too many.
    let fault = FromWorker::decode(&trailers(65_535, &text)).unwrap_err();
    assert_eq!(fault.kind, FaultKind::Fields);
    let even = trailers(65_534, &text[1..]);
    let Ok(Some((FromWorker::Trailers { fields, .. }, _))) = FromWorker::decode(&even) else {
        panic!("65534 strings are 32767 fields");
    };
    assert_eq!(fields.pairs().len(), 32_767);
    assert_eq!(fields.pairs().count(), 32_767);
}

#[test]
fn pairs_go_on_from_where_an_iterator_is() {
    let block = strings(5, b"x\0a\x001\0b\x002").unwrap();
    let mut iter = block.iter();
    assert_eq!(iter.next(), Some(&b"x"[..]));
    let pairs: Vec<_> = iter.pairs().collect();
    assert_eq!(pairs, [(&b"a"[..], &b"1"[..]), (b"b", b"2")]);
}

#[test]
fn an_owned_block_is_the_one_that_was_decoded() {
    for (count, text, rest) in [
        (0, &b""[..], &b""[..]),
        (0, b"", b"body"),
        (1, b"", b"body\0with a NUL"),
        (2, b"name\0value", b""),
        (4, b"a\0\0\0d", b"\0"),
    ] {
        let block = strings(count, text).unwrap();
        let owned = OwnedStrings::new(block, rest);
        assert_eq!(owned.strings(), block);
        assert_eq!(owned.rest(), rest);
    }
}

#[test]
fn a_frame_borrows_its_input() {
    let frame = trailers(2, b"name\0value");
    let Ok(Some((FromWorker::Trailers { fields, .. }, _))) = FromWorker::decode(&frame) else { panic!() };
    let (name, _) = fields.pairs().next().unwrap();
    assert_eq!(name.as_ptr(), frame[HEADER_LEN + 6..].as_ptr());
}

#[test]
fn every_byte_is_one_type_or_none() {
    let known: Vec<u8> = (0..=255).filter(|byte| FrameType::from_byte(*byte).is_some()).collect();
    let all: Vec<u8> = FrameType::ALL.iter().map(|known| *known as u8).collect();
    assert_eq!(known, all);
    for byte in known {
        assert_eq!(FrameType::from_byte(byte).map(|known| known as u8), Some(byte));
    }
}

#[test]
fn a_header_is_written_as_it_is_read() {
    for frame_type in FrameType::ALL {
        let rules = frame_type.rules();
        let stream = u32::from(rules.stream.allows(1)) * 0x0102_0304;
        let header =
            FrameHeader { length: rules.max as u32, frame_type: *frame_type, flags: rules.flags, stream };
        let sender = rules.from.unwrap_or(Sender::Worker);
        assert_eq!(FrameHeader::decode(&header.to_bytes(), sender), Ok(Some(header)));
        assert!(header.frame_len() <= HEADER_LEN + MAX_PAYLOAD);
    }
}

#[test]
fn a_fault_says_what_was_seen_and_where() {
    let header = FrameHeader { length: 70_000, frame_type: FrameType::Data, flags: 0, stream: 7 };
    let fault = FromWorker::decode(&header.to_bytes()).unwrap_err();
    let words = "DATA on stream 7: the payload is longer than its type allows (bytes 70000)";
    assert_eq!(fault.to_string(), words);
    assert_eq!((fault.name(), fault.stream, fault.seen), ("too_long", 7, 70_000));
    assert_eq!(fault.frame_type(), Some(FrameType::Data));

    let fault = FromWorker::decode(&[0, 0, 0, 0, 0xee, 0, 0, 0, 0, 0]).unwrap_err();
    assert_eq!(fault.to_string(), "type 0xee: there is no such frame type");
    assert_eq!(fault.frame_type(), None);
}

#[test]
fn names_of_faults_are_distinct_and_stable_in_form() {
    let mut names: Vec<_> = FaultKind::ALL.iter().map(|kind| kind.name()).collect();
    assert!(
        names
            .iter()
            .all(|name| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_' || byte == b'8'))
    );
    names.sort_unstable();
    let before = names.len();
    names.dedup();
    assert_eq!(names.len(), before);
}

#[test]
fn reset_codes_have_their_names() {
    assert_eq!(ResetCode::REFUSED.to_string(), "REFUSED");
    assert_eq!(ResetCode(6), ResetCode::REFUSED);
    assert_eq!(ResetCode(700).to_string(), "code 700");
}

#[test]
fn hello_tells_about_the_worker() {
    let mut bytes = Vec::new();
    let hello = Hello {
        version: 1,
        streams: 1,
        stream_credit: MIN_INITIAL_CREDIT,
        connection_credit: MIN_INITIAL_CREDIT,
        about: Strings::default(),
    };
    let about = [(&b"adapter"[..], &b"php/1"[..]), (b"kind", b"php")];
    crate::encode::encode_hello(&mut bytes, &hello, about).unwrap();
    let Ok(Some((FromWorker::Hello(hello), _))) = FromWorker::decode(&bytes) else { panic!() };
    assert_eq!(hello.about("kind"), Some(&b"php"[..]));
    assert_eq!(hello.about("language"), None);
}

#[test]
fn hello_tells_what_the_worker_can_do() {
    let none = Capabilities::default();
    let blocking = Capabilities { blocking: true, ..none };
    for (streams, name, value, capabilities) in [
        (2, "kind", "rack", none),
        (1, "kind", "asgi", blocking),
        (2, "blocking", "1", blocking),
        (2, "cgi_names", "1", Capabilities { cgi_names: true, ..none }),
        (2, "websocket", "1", Capabilities { websocket: true, ..none }),
        (2, "half_close", "1", Capabilities { half_close: true, ..none }),
        (2, "hijack", "1", Capabilities { hijack: true, ..none }),
        (2, "user", "1", Capabilities { user: true, ..none }),
        (2, "profile", "1", Capabilities { profile: true, ..none }),
        (2, "late_signals", "1", Capabilities { late_signals: true, ..none }),
        (2, "leaks", "1", Capabilities { leaks: true, ..none }),
        // As always for `hijack`: another value means nothing.
        (2, "hijack", "0", none),
        (2, "blocking", "", none),
        (1, "blocking", "0", blocking),
    ] {
        let credit = MIN_INITIAL_CREDIT;
        let about = Strings::default();
        let hello = Hello { version: 1, streams, stream_credit: credit, connection_credit: credit, about };
        let mut bytes = Vec::new();
        crate::encode::encode_hello(&mut bytes, &hello, [(name.as_bytes(), value.as_bytes())]).unwrap();
        let Ok(Some((FromWorker::Hello(hello), _))) = FromWorker::decode(&bytes) else { panic!() };
        assert_eq!(hello.capabilities(), capabilities, "{streams} streams, {name}={value}");
    }
}
