//! Heads of frames, and masks (RFC 6455 §5.2, §5.3).

use super::WebSocketFault;

pub(super) const CONTINUATION: u8 = 0x0;
pub(super) const TEXT: u8 = 0x1;
pub(super) const BINARY: u8 = 0x2;
pub(super) const CLOSE: u8 = 0x8;
pub(crate) const PING: u8 = 0x9;
pub(crate) const PONG: u8 = 0xa;

pub(super) const FIN: u8 = 0x80;
/// Reserved bits: the first says "compressed" once that was negotiated (RFC 7692 §6).
pub(super) const RSV1: u8 = 0x40;
const RSV2_RSV3: u8 = 0x30;

/// Payload of a control frame, at most (RFC 6455 §5.5).
pub(super) const MAX_CONTROL: usize = 125;

/// The head of a client's frame.
#[derive(Debug)]
pub(super) struct FrameHead {
    pub(super) fin: bool,
    pub(super) rsv1: bool,
    pub(super) opcode: u8,
    /// Length of the payload.
    pub(super) length: u64,
    pub(super) mask: Mask,
    /// Bytes of the head.
    pub(super) size: usize,
}

impl FrameHead {
    /// `None`: its bytes are incomplete. A fault is reported at the first bytes that show it.
    pub(super) fn decode(bytes: &[u8]) -> Result<Option<Self>, WebSocketFault> {
        use WebSocketFault::Protocol;
        let &[first, second, ref rest @ ..] = bytes else { return Ok(None) };
        let (fin, opcode, short) = (first & FIN != 0, first & 0x0f, second & 0x7f);
        if first & RSV2_RSV3 != 0 {
            return Err(Protocol("reserved bits are set"));
        }
        if !matches!(opcode, CONTINUATION | TEXT | BINARY | CLOSE | PING | PONG) {
            return Err(Protocol("reserved opcode"));
        }
        if second & 0x80 == 0 {
            return Err(Protocol("client frame without a mask"));
        }
        let is_control = opcode >= CLOSE;
        if is_control && first & RSV1 != 0 {
            return Err(Protocol("reserved bits are set"));
        }
        if is_control && (!fin || usize::from(short) > MAX_CONTROL) {
            return Err(Protocol("control frame fragmented, or above 125 bytes"));
        }
        let (length, rest, size) = match (short, rest) {
            (126, [a, b, rest @ ..]) => (u64::from(u16::from_be_bytes([*a, *b])), rest, 8),
            (127, [a, b, c, d, e, f, g, h, rest @ ..]) => {
                (u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]), rest, 14)
            }
            (126 | 127, _) => return Ok(None),
            _ => (u64::from(short), rest, 6),
        };
        // "the minimal number of bytes MUST be used", and "the most significant bit MUST be 0".
        if (short == 126 && length < 126) || (short == 127 && !(0x1_0000..1 << 63).contains(&length)) {
            return Err(Protocol("frame length in an invalid form"));
        }
        let &[a, b, c, d, ..] = rest else { return Ok(None) };
        let mask = Mask { key: [a, b, c, d] };
        Ok(Some(Self { fin, rsv1: first & RSV1 != 0, opcode, length, mask, size }))
    }

    pub(super) fn is_control(&self) -> bool {
        self.opcode >= CLOSE
    }
}

/// A mask, rotated to the position in the payload.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mask {
    key: [u8; 4],
}

impl Mask {
    /// Takes the mask off the next bytes of the payload.
    pub(super) fn remove(&mut self, bytes: &mut [u8]) {
        let [a, b, c, d] = self.key;
        let wide = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
        let (blocks, rest) = bytes.as_chunks_mut::<8>();
        for block in blocks {
            *block = (u64::from_ne_bytes(*block) ^ wide).to_ne_bytes();
        }
        rest.iter_mut().zip([a, b, c, d].iter().cycle()).for_each(|(byte, key)| *byte ^= key);
        self.pass(rest.len());
    }

    /// Advances by `count` bytes.
    pub(super) fn pass(&mut self, count: usize) {
        self.key.rotate_left(count % 4);
    }
}

/// Adds a frame of ours; FIN and reserved bits are in `first`.
pub(super) fn encode_frame(out: &mut Vec<u8>, first: u8, payload: &[u8]) {
    out.push(first);
    match payload.len() {
        length @ ..126 => out.push(length as u8),
        length @ ..0x1_0000 => {
            out.push(126);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
        length => {
            out.push(127);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(payload);
}

/// Adds a control frame of ours.
pub(crate) fn encode_control(out: &mut Vec<u8>, opcode: u8, payload: &[u8]) {
    encode_frame(out, FIN | opcode, payload);
}

/// Adds a close. 1005 stands for a close without a code; a reason that is too long is cut.
pub(crate) fn encode_close(out: &mut Vec<u8>, code: u16, reason: &str) {
    if code == 1005 {
        return encode_control(out, CLOSE, &[]);
    }
    let reason = reason.get(..reason.floor_char_boundary(MAX_CONTROL - 2)).unwrap_or_default();
    let payload = [&code.to_be_bytes(), reason.as_bytes()].concat();
    encode_control(out, CLOSE, &payload);
}
