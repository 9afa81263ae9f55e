//! Follows the frames that pass (RFC 9113 §4.1), without touching them.
//!
//! The `h2` crate does not tell what decides whether a request may be retried: which requests the socket took, and the last stream that
//! a GOAWAY promised to process. Nor does it know priorities.

use super::priority::PrioritySignal;

/// A client of HTTP/2 sends this first (RFC 9113 §3.4). It is not a frame.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The part of it that is unambiguous: a client that sends this speaks HTTP/2, whatever follows.
pub const PREFACE_LINE: &[u8] = b"PRI * HTTP/2.0\r\n";
const HEADER: usize = 9;
/// Bytes of a payload that are examined: GOAWAY's last stream and code, RST_STREAM's code.
const LOOKED_AT: usize = 8;
/// The same of PRIORITY_UPDATE: the stream and the field value.
const LOOKED_AT_PRIORITY: usize = 4 + PrioritySignal::LONGEST;

/// A frame whose header, and the examined part of its payload, has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameEvent {
    /// DATA.
    Data {
        /// Its stream.
        stream: u32,
        /// Bytes, padding included.
        length: usize,
    },
    /// HEADERS of this stream.
    Headers(u32),
    /// A further part of HEADERS.
    Continuation,
    /// RST_STREAM.
    Reset {
        /// Its stream.
        stream: u32,
        /// Why (RFC 9113 §7).
        code: u32,
    },
    /// PING that is not an acknowledgement.
    Ping,
    /// WINDOW_UPDATE.
    WindowUpdate,
    /// SETTINGS, not an acknowledgement of ours.
    Settings,
    /// GOAWAY: streams above the last were not processed.
    GoAway {
        /// The last stream that was, or may be, processed.
        last: u32,
        /// Why (RFC 9113 §7).
        code: u32,
    },
    /// PRIORITY_UPDATE (RFC 9218 §7.1).
    PriorityUpdate {
        /// The stream that it is about; 0: the frame is malformed.
        stream: u32,
        /// What it says.
        signal: PrioritySignal,
    },
    /// Any other.
    Other,
}

/// Follows one direction of a connection.
#[derive(Debug)]
pub(super) struct Frames {
    /// Bytes before the first frame.
    skip: usize,
    seen: [u8; HEADER + LOOKED_AT_PRIORITY],
    have: usize,
    /// The header of a first frame has passed.
    begun: bool,
    /// A head has begun, and the frame that ends it (END_HEADERS) has not come (RFC 9113 §4.3).
    in_block: bool,
}

impl Default for Frames {
    fn default() -> Self {
        Self::after(0)
    }
}

impl Frames {
    /// Frames that begin after `skip` bytes.
    pub(super) fn after(skip: usize) -> Self {
        Self { skip, seen: [0; HEADER + LOOKED_AT_PRIORITY], have: 0, begun: false, in_block: false }
    }

    /// Feeds further bytes, up to a frame after which `each` returns `false`. Returns how many passed.
    pub(super) fn feed(&mut self, bytes: &[u8], mut each: impl FnMut(FrameEvent) -> bool) -> usize {
        let mut rest = bytes;
        loop {
            let (skipped, behind) = rest.split_at(self.skip.min(rest.len()));
            self.skip -= skipped.len();
            if behind.is_empty() {
                return bytes.len();
            }
            let take = self.wanted().saturating_sub(self.have).min(behind.len());
            let (taken, behind) = behind.split_at(take);
            if let Some(room) = self.seen.get_mut(self.have..self.have + take) {
                room.copy_from_slice(taken);
            }
            self.have += take;
            rest = behind;
            if self.have >= HEADER && self.have == self.wanted() {
                self.note_header();
                let goes_on = each(self.passed());
                self.skip = self.length().saturating_sub(self.have - HEADER);
                self.have = 0;
                if !goes_on {
                    return bytes.len() - rest.len();
                }
            }
        }
    }

    /// Whether a head, or any other frame but DATA, has begun and is incomplete: the peer must send more. True also before the first frame.
    pub(super) fn is_in_head(&self) -> bool {
        let in_payload = self.skip > 0 && self.kind() != DATA;
        !self.begun || self.in_block || self.have > 0 || in_payload
    }

    fn note_header(&mut self) {
        self.begun = true;
        if matches!(self.kind(), HEADERS | CONTINUATION) {
            self.in_block = self.flags() & END_HEADERS == 0;
        }
    }

    /// Bytes of the current frame to collect.
    fn wanted(&self) -> usize {
        match self.kind() {
            _ if self.have < HEADER => HEADER,
            GOAWAY | RST_STREAM => HEADER + LOOKED_AT.min(self.length()),
            PRIORITY_UPDATE => HEADER + LOOKED_AT_PRIORITY.min(self.length()),
            _ => HEADER,
        }
    }

    fn passed(&self) -> FrameEvent {
        let [_, _, _, _, _, s0, s1, s2, s3, l0, l1, l2, l3, c0, c1, c2, c3, ..] = self.seen;
        let stream = u32::from_be_bytes([s0 & 0x7f, s1, s2, s3]);
        match self.kind() {
            DATA => FrameEvent::Data { stream, length: self.length() },
            HEADERS => FrameEvent::Headers(stream),
            // RST_STREAM has the code only. One of another length is a connection error.
            RST_STREAM => FrameEvent::Reset { stream, code: u32::from_be_bytes([l0, l1, l2, l3]) },
            PING if self.flags() & ACK == 0 => FrameEvent::Ping,
            WINDOW_UPDATE => FrameEvent::WindowUpdate,
            CONTINUATION => FrameEvent::Continuation,
            SETTINGS if self.flags() & ACK == 0 => FrameEvent::Settings,
            // A malformed one is a connection error, and names no stream (RFC 9113 §6.8).
            GOAWAY if self.length() >= LOOKED_AT && stream == 0 && !self.in_block => FrameEvent::GoAway {
                last: u32::from_be_bytes([l0 & 0x7f, l1, l2, l3]),
                code: u32::from_be_bytes([c0, c1, c2, c3]),
            },
            PRIORITY_UPDATE => {
                let value = self.seen.get(HEADER + 4..self.have).unwrap_or_default();
                let sound = stream == 0 && self.length() >= 4;
                FrameEvent::PriorityUpdate {
                    stream: if sound { u32::from_be_bytes([l0 & 0x7f, l1, l2, l3]) } else { 0 },
                    signal: PrioritySignal::parse(value),
                }
            }
            _ => FrameEvent::Other,
        }
    }

    fn length(&self) -> usize {
        let [a, b, c, ..] = self.seen;
        usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c)
    }

    fn kind(&self) -> u8 {
        let [_, _, _, kind, ..] = self.seen;
        kind
    }

    fn flags(&self) -> u8 {
        let [_, _, _, _, flags, ..] = self.seen;
        flags
    }
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const PRIORITY_UPDATE: u8 = 16;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
        bytes.extend([kind, flags]);
        bytes.extend(stream.to_be_bytes());
        bytes.extend(payload);
        bytes
    }

    #[test]
    fn frames_are_told_however_their_bytes_are_cut() {
        let mut bytes = vec![b'x'; PREFACE.len()];
        bytes.extend(frame(SETTINGS, 0, 0, &[0; 12]));
        bytes.extend(frame(SETTINGS, ACK, 0, &[]));
        bytes.extend(frame(HEADERS, 4, 5, &[1; 40]));
        bytes.extend(frame(DATA, 0, 5, &[2; 300]));
        bytes.extend(frame(DATA, 1, 5, &[]));
        bytes.extend(frame(GOAWAY, 0, 0, &[0x80, 0, 1, 3, 0, 0, 0, 11, b'b', b'y', b'e']));
        bytes.extend(frame(8, 0, 0, &[0; 4]));
        bytes.extend(frame(RST_STREAM, 0, 5, &[0, 0, 0, 8]));
        bytes.extend(frame(PRIORITY_UPDATE, 0, 0, b"\0\0\0\x07u=1, i"));
        bytes.extend(frame(PRIORITY_UPDATE, 0, 0, &[&[0, 0, 0, 9], [b' '; 200].as_slice()].concat()));
        bytes.extend(frame(PRIORITY_UPDATE, 0, 0, &[0, 0, 7]));
        bytes.extend(frame(DATA, 0, 3, b"x"));
        let expected = [
            FrameEvent::Settings,
            FrameEvent::Other,
            FrameEvent::Headers(5),
            FrameEvent::Data { stream: 5, length: 300 },
            FrameEvent::Data { stream: 5, length: 0 },
            FrameEvent::GoAway { last: 0x103, code: 11 },
            FrameEvent::WindowUpdate,
            FrameEvent::Reset { stream: 5, code: 8 },
            FrameEvent::PriorityUpdate {
                stream: 7,
                signal: PrioritySignal { urgency: Some(1), incremental: Some(true) },
            },
            FrameEvent::PriorityUpdate { stream: 9, signal: PrioritySignal::default() },
            FrameEvent::PriorityUpdate { stream: 0, signal: PrioritySignal::default() },
            FrameEvent::Data { stream: 3, length: 1 },
        ];
        for size in 1..bytes.len() {
            let (mut frames, mut seen) = (Frames::after(PREFACE.len()), Vec::new());
            for piece in bytes.chunks(size) {
                frames.feed(piece, |passed| {
                    seen.push(passed);
                    true
                });
            }
            assert_eq!(seen, expected, "cut to {size}");
        }
        let (mut frames, mut seen, mut rest) = (Frames::after(PREFACE.len()), Vec::new(), bytes.as_slice());
        while !rest.is_empty() {
            let passed = frames.feed(rest, |passed| {
                seen.push(passed);
                false
            });
            rest = &rest[passed..];
        }
        assert_eq!(seen, expected, "stopped after each");
    }

    #[test]
    fn what_is_not_whole_is_told_from_what_is() {
        let mut frames = Frames::after(PREFACE.len());
        let mut in_head_after = |bytes: &[u8]| {
            frames.feed(bytes, |_| true);
            frames.is_in_head()
        };
        assert!(in_head_after(&[b'x'; PREFACE.len()]), "SETTINGS are due");
        assert!(!in_head_after(&frame(SETTINGS, 0, 0, &[0; 6])));
        let head = frame(HEADERS, 0, 1, &[1; 40]);
        for at in 0..head.len() {
            assert!(
                in_head_after(&head[at..=at]),
                "{at}: more of it is due, and so is the frame that ends it"
            );
        }
        assert!(in_head_after(&frame(CONTINUATION, 0, 1, &[])));
        assert!(!in_head_after(&frame(CONTINUATION, END_HEADERS, 1, &[1; 9])));
        let body = frame(DATA, 0, 1, &[2; 300]);
        assert!(in_head_after(&body[..8]), "it may be anything");
        assert!(!in_head_after(&body[8..20]), "a body has a time of its own");
        assert!(!in_head_after(&body[20..]));
    }

    #[test]
    fn a_malformed_goaway_is_one_frame_and_promises_nothing() {
        let [short, on_a_stream] = [frame(GOAWAY, 0, 0, &[0; 7]), frame(GOAWAY, 0, 1, &[0; 8])];
        for bytes in [&frame(GOAWAY, 0, 0, &[]), &short, &on_a_stream] {
            let bytes =
                [bytes.as_slice(), &frame(HEADERS, 0, 1, &[]), &frame(GOAWAY, 0, 0, &[0; 8])].concat();
            let (mut frames, mut seen) = (Frames::default(), Vec::new());
            frames.feed(&bytes, |passed| {
                seen.push(passed);
                true
            });
            // The second comes before the head is whole.
            assert_eq!(seen, [FrameEvent::Other, FrameEvent::Headers(1), FrameEvent::Other]);
        }
    }
}
