//! Property: no bytes of a FastCGI server make our side panic, it says the same of them however they are cut, and nothing of another request is ever
//! part of a response.

#![no_main]

use keepwarm_fuzz::byte_source::ByteSource;
use keepwarm_wire::fastcgi::record::RecordHeader;
use keepwarm_wire::fastcgi::{CgiHead, CgiLimits, CgiResponse, Connection, Event};
use libfuzzer_sys::fuzz_target;

// The first byte says what is open and how many of the next are sizes of pieces.
fuzz_target!(|data: &[u8]| {
    let mut take = ByteSource(data);
    let choice = take.byte();
    let (sizes, bytes) = take.0.split_at(usize::from(choice >> 2 & 7).min(take.0.len()));
    let whole = decode_all(choice, &[bytes]);
    assert_eq!(whole, decode_all(choice, &bytes.chunks(1).collect::<Vec<_>>()));
    assert_eq!(whole, decode_all(choice, &ByteSource::pieces(bytes, sizes)));
    let allowed = naive_stdout(bytes);
    assert!(allowed.starts_with(&whole.stdout), "a response of bytes that were not its own");
});

/// What was understood.
#[derive(Debug, Default, PartialEq, Eq)]
struct Decoded {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    said: Vec<String>,
    /// The head, or why it is none, and how long it was.
    head: Option<String>,
}

const SMALL: CgiLimits = CgiLimits { bytes: 200, fields: 4 };

fn decode_all(choice: u8, pieces: &[&[u8]]) -> Decoded {
    let mut connection = Connection::new();
    match choice & 3 {
        0 => {}
        1 => assert!(connection.ask()),
        _ => assert_eq!(connection.begin(), Some(1)),
    }
    let mut decoded_output = Decoded::default();
    let mut head = CgiHead::new(SMALL);
    let mut buffer = Vec::new();
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            let decoded = match connection.decode(&buffer) {
                Ok(decoded) => decoded,
                Err(fault) => {
                    decoded_output.said.push(fault.to_string());
                    assert!(!connection.is_idle() && connection.begin().is_none());
                    return decoded_output;
                }
            };
            let more = decoded.event == Event::NeedMore;
            match decoded.event {
                Event::NeedMore => {}
                Event::Stdout(range) => {
                    let part = &buffer[range];
                    decoded_output.stdout.extend_from_slice(part);
                    if decoded_output.head.is_none() {
                        decoded_output.head = take_head(&mut head, part);
                    }
                }
                Event::Stderr(range) => decoded_output.stderr.extend_from_slice(&buffer[range]),
                other => decoded_output.said.push(format!("{other:?}")),
            }
            buffer.drain(..decoded.consumed);
            if more {
                break;
            }
        }
    }
    decoded_output
}

fn take_head(head: &mut CgiHead, part: &[u8]) -> Option<String> {
    match head.push(part) {
        Ok(None) => None,
        Ok(Some(_)) => {
            if let CgiResponse::Client(status) = head.response() {
                assert!((200..1000).contains(&status));
            }
            assert!(head.fields().count() <= SMALL.fields);
            assert!(head.fields().all(|(name, value)| !name.is_empty() && !value.contains(&b'\n')));
            Some(format!("{:?} {:?}", head.response(), head.fields().collect::<Vec<_>>()))
        }
        Err(fault) => Some(fault.to_string()),
    }
}

/// The content of every STDOUT record of request 1 up to the first that is another's, by the plainest reading.
fn naive_stdout(mut bytes: &[u8]) -> Vec<u8> {
    let mut found = Vec::new();
    while let Some(header) = RecordHeader::decode(bytes) {
        let rest = &bytes[8..];
        let content = &rest[..rest.len().min(header.content.into())];
        if header.type_byte == 6 {
            if header.request != 1 {
                break;
            }
            found.extend_from_slice(content);
        }
        let length = usize::from(header.content) + usize::from(header.padding);
        bytes = rest.get(length..).unwrap_or_default();
    }
    found
}
