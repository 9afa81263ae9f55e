//! What the tests of dispatch share.

use keepwarm_wire::encode::encode_hello;
use keepwarm_wire::frame::{FrameHeader, FrameType, Hello, Strings};

/// HELLO of a worker that takes `streams` concurrent requests.
pub(super) fn hello(streams: u32, summary: &[(&str, &str)]) -> Vec<u8> {
    let (stream_credit, connection_credit) = (65_536, 65_536);
    let said = Hello { version: 1, streams, stream_credit, connection_credit, about: Strings::default() };
    let mut bytes = Vec::new();
    let summary = summary.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    encode_hello(&mut bytes, &said, summary).unwrap();
    bytes
}

/// A REQUEST with these flags, of `length` bytes that nobody reads.
pub(super) fn request(flags: u8, length: usize) -> Vec<u8> {
    let header = FrameHeader { length: length as u32, frame_type: FrameType::Request, flags, stream: 1 };
    let mut bytes = header.to_bytes().to_vec();
    bytes.resize(bytes.len() + length, 0);
    bytes
}
