//! Reads or changes parts of a frame's header after the frame was written (spec §2): a request is written before it has a stream, and before its
//! worker is known.

use super::HEADER_LEN;

/// Offset of a frame's flags.
const FLAGS: usize = 5;
/// Range of its stream id.
const STREAM: std::ops::Range<usize> = 6..HEADER_LEN;

/// The flags of the first frame in `frame`; 0 when its header is incomplete.
#[inline]
pub fn frame_flags(frame: &[u8]) -> u8 {
    frame.get(FLAGS).copied().unwrap_or(0)
}

/// Clears these flags of the first frame in `frame`.
#[inline]
pub fn clear_frame_flags(frame: &mut [u8], flags: u8) {
    if let Some(bits) = frame.get_mut(FLAGS) {
        *bits &= !flags;
    }
}

/// Sets the stream id of the first frame in `frame`.
#[inline]
pub fn set_frame_stream(frame: &mut [u8], stream: u32) {
    if let Some(id) = frame.get_mut(STREAM) {
        id.copy_from_slice(&stream.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FrameHeader, FrameType, Sender, flags};
    use super::*;

    #[test]
    fn they_are_where_a_header_has_them() {
        let bits = flags::END | flags::WEBSOCKET;
        let header = FrameHeader { length: 14, frame_type: FrameType::Request, flags: bits, stream: 1 };
        let mut frame = header.to_bytes();
        assert_eq!(frame_flags(&frame), bits);
        clear_frame_flags(&mut frame, flags::WEBSOCKET);
        set_frame_stream(&mut frame, 0x0102_0304);
        let changed = FrameHeader { flags: flags::END, stream: 0x0102_0304, ..header };
        assert_eq!(FrameHeader::decode(&frame, Sender::Keepwarm), Ok(Some(changed)));
    }

    #[test]
    fn less_than_a_header_is_left_as_it_is() {
        let mut short = [0xff; FLAGS];
        assert_eq!(frame_flags(&short), 0);
        clear_frame_flags(&mut short, 0xff);
        set_frame_stream(&mut short, 7);
        assert_eq!(short, [0xff; FLAGS]);
    }
}
