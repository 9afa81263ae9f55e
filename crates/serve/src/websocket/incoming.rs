//! A client's frames in, parts of messages out.
//!
//! State: the frame whose payload is being read (`payload`), its message (`message`), and the part of it not handed on yet (`part`). Control
//! frames come between the frames of a message and are read whole; they touch none of these.

use keepwarm_net::ReadBuffer;

use super::deflate::{Inflater, TAIL};
use super::frame::{CLOSE, CONTINUATION, FrameHead, Mask, PING, TEXT};
use super::negotiate::Compression;
use super::utf8::Utf8;
use super::window::Window;
use super::{PART, WebSocketFault};

/// The next event.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum IncomingEvent {
    /// The next bytes of a message, nearly always all of it; only the last part (`end`) may be empty.
    Part { text: bool, bytes: Vec<u8>, end: bool },
    /// A PING, to be returned with this payload as a PONG.
    Ping(Vec<u8>),
    /// A PONG: no action.
    Pong,
    /// The client's close: code, 1005 for none, and reason. Nothing follows it.
    Close(u16, String),
    /// More bytes are needed.
    More,
}

/// The input of a client.
#[derive(Debug)]
pub(crate) struct Incoming {
    /// Largest frame and message.
    limits: (u64, u64),
    payload: Option<Payload>,
    message: Option<IncomingMessage>,
    part: Vec<u8>,
    /// Set if compression was negotiated.
    inflate: Option<Inflate>,
    /// Bytes into and out of inflation.
    worked: usize,
}

/// The payload of a data frame.
#[derive(Debug)]
struct Payload {
    left: u64,
    mask: Mask,
    fin: bool,
}

#[derive(Debug)]
struct IncomingMessage {
    text: bool,
    /// Bytes so far, inflated.
    size: u64,
    utf8: Utf8,
    inflater: Option<Inflater>,
    /// Bytes fed so far of the tail that ends every compressed message and is not sent.
    tail: usize,
}

#[derive(Debug)]
struct Inflate {
    window: Window,
    takeover: bool,
}

/// How a payload was consumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PayloadProgress {
    /// All available bytes.
    All,
    /// To the end of the frame.
    Frame,
    /// To the end of the message.
    Message,
    /// Until the part was full.
    Part,
}

/// Bytes to unmask, and to inflate into, at once.
const STEP: usize = 4 * 1024;
const ROOM: usize = 16 * 1024;

impl Incoming {
    pub(crate) fn new(frame: usize, message: usize, compression: Option<Compression>) -> Self {
        let inflate = compression.map(|agreed| Inflate {
            window: Window::of_bits(agreed.theirs.bits),
            takeover: agreed.theirs.takeover,
        });
        Self {
            limits: (frame as u64, message as u64),
            payload: None,
            message: None,
            part: Vec::new(),
            inflate,
            worked: 0,
        }
    }

    /// Takes the next step with the bytes read. After an error, or a close, nothing more may be read.
    pub(crate) fn next(&mut self, read: &mut ReadBuffer) -> Result<IncomingEvent, WebSocketFault> {
        loop {
            if self.payload.is_none() {
                let Some(head) = FrameHead::decode(read.unread())? else { return Ok(IncomingEvent::More) };
                if head.is_control() {
                    return control(&head, read);
                }
                self.begin(&head)?;
                read.consume(head.size);
            }
            match self.take(read)? {
                PayloadProgress::All => return Ok(IncomingEvent::More),
                PayloadProgress::Frame => self.payload = None,
                PayloadProgress::Message => {
                    self.payload = None;
                    return self.end_message();
                }
                PayloadProgress::Part => {
                    let text = self.message.as_ref().is_some_and(|message| message.text);
                    return Ok(IncomingEvent::Part {
                        text,
                        bytes: std::mem::take(&mut self.part),
                        end: false,
                    });
                }
            }
        }
    }

    /// Bytes of inflation work since the last query.
    pub(crate) fn worked(&mut self) -> usize {
        std::mem::take(&mut self.worked)
    }

    /// A data frame (RFC 6455 §5.4).
    fn begin(&mut self, head: &FrameHead) -> Result<(), WebSocketFault> {
        use WebSocketFault::Protocol;
        match (&self.message, head.opcode) {
            (None, CONTINUATION) => return Err(Protocol("continuation frame without a message")),
            (Some(_), CONTINUATION) if head.rsv1 => return Err(Protocol("reserved bits are set")),
            (Some(_), CONTINUATION) => {}
            (Some(_), _) => return Err(Protocol("message inside another")),
            (None, opcode) => {
                let inflater = match (&self.inflate, head.rsv1) {
                    (None, true) => return Err(Protocol("reserved bits are set")),
                    (Some(inflate), true) => {
                        Some(Inflater::take(&inflate.window).ok_or(WebSocketFault::Deflate)?)
                    }
                    (_, false) => None,
                };
                let (text, utf8) = (opcode == TEXT, Utf8::default());
                self.message = Some(IncomingMessage { text, size: 0, utf8, inflater, tail: 0 });
            }
        }
        let plain = self.message.as_ref().filter(|message| message.inflater.is_none());
        // Incompressible data gets a little longer.
        let spare = if plain.is_some() { 0 } else { self.limits.0 / 256 + 64 };
        if head.length > self.limits.0 + spare {
            return Err(WebSocketFault::LongFrame);
        }
        if plain.is_some_and(|message| message.size + head.length > self.limits.1) {
            return Err(WebSocketFault::LongMessage);
        }
        self.payload = Some(Payload { left: head.length, mask: head.mask, fin: head.fin });
        Ok(())
    }

    fn take(&mut self, read: &mut ReadBuffer) -> Result<PayloadProgress, WebSocketFault> {
        match &self.message {
            Some(IncomingMessage { inflater: Some(_), .. }) => self.take_compressed(read),
            _ => self.take_plain(read),
        }
    }

    fn take_plain(&mut self, read: &mut ReadBuffer) -> Result<PayloadProgress, WebSocketFault> {
        let (Some(payload), Some(message)) = (&mut self.payload, &mut self.message) else {
            return Ok(PayloadProgress::Frame);
        };
        let left = usize::try_from(payload.left).unwrap_or(usize::MAX);
        let bytes = read.unread();
        let count = left.min(bytes.len()).min(PART - self.part.len().min(PART));
        let old = self.part.len();
        self.part.extend_from_slice(bytes.get(..count).unwrap_or_default());
        read.consume(count);
        let new = self.part.get_mut(old..).unwrap_or_default();
        payload.mask.remove(new);
        payload.left -= count as u64;
        message.size += count as u64;
        if message.text && !message.utf8.push(new) {
            return Err(WebSocketFault::Utf8);
        }
        Ok(match payload.left {
            0 if payload.fin => PayloadProgress::Message,
            _ if self.part.len() >= PART => PayloadProgress::Part,
            0 => PayloadProgress::Frame,
            _ => PayloadProgress::All,
        })
    }

    fn take_compressed(&mut self, read: &mut ReadBuffer) -> Result<PayloadProgress, WebSocketFault> {
        let (Some(payload), Some(message), Some(inflate)) =
            (&mut self.payload, &mut self.message, &mut self.inflate)
        else {
            return Ok(PayloadProgress::Frame);
        };
        let Some(inflater) = &mut message.inflater else { return Ok(PayloadProgress::Frame) };
        loop {
            let mut plain = [0; STEP];
            let bytes: &[u8] = match usize::try_from(payload.left).unwrap_or(usize::MAX) {
                0 if payload.fin => TAIL.get(message.tail..).unwrap_or_default(),
                0 => return Ok(PayloadProgress::Frame),
                _ if read.is_empty() => return Ok(PayloadProgress::All),
                left => {
                    let masked = read.unread();
                    let masked = masked.get(..left.min(STEP)).unwrap_or(masked);
                    let masked = masked.get(..STEP).unwrap_or(masked);
                    let plain = plain.get_mut(..masked.len()).unwrap_or_default();
                    plain.copy_from_slice(masked);
                    // How many of them are consumed is known afterwards.
                    let mut mask = payload.mask;
                    mask.remove(plain);
                    plain
                }
            };
            // One byte above the limit is enough to know.
            let allowed = usize::try_from(self.limits.1 - message.size + 1).unwrap_or(usize::MAX);
            // The output of few bytes mostly fits: no more is cleared for them.
            let wanted = (bytes.len() * 16).clamp(512, ROOM);
            let room = wanted.min(PART - self.part.len()).min(allowed);
            let old = self.part.len();
            self.part.resize(old + room, 0);
            let new = self.part.get_mut(old..).unwrap_or_default();
            let done = inflater.step(bytes, new, &mut inflate.window).ok_or(WebSocketFault::Deflate)?;
            self.part.truncate(old + done.made);
            self.worked += done.taken + done.made;
            message.size += done.made as u64;
            if message.size > self.limits.1 {
                return Err(WebSocketFault::LongMessage);
            }
            if message.text && !message.utf8.push(self.part.get(old..).unwrap_or_default()) {
                return Err(WebSocketFault::Utf8);
            }
            if payload.left > 0 {
                read.consume(done.taken);
                payload.mask.pass(done.taken);
                payload.left -= done.taken as u64;
            } else {
                message.tail += done.taken;
            }
            // With room left over, the consumed bytes have no more output.
            if payload.left == 0 && payload.fin && message.tail == TAIL.len() && done.made < room {
                return Ok(PayloadProgress::Message);
            }
            if self.part.len() >= PART {
                return Ok(PayloadProgress::Part);
            }
        }
    }

    fn end_message(&mut self) -> Result<IncomingEvent, WebSocketFault> {
        let Some(message) = self.message.take() else { return Ok(IncomingEvent::More) };
        if let (Some(inflater), Some(inflate)) = (message.inflater, &mut self.inflate) {
            inflater.put_back();
            if !inflate.takeover {
                inflate.window.clear();
            }
        }
        if message.text && !message.utf8.is_whole() {
            return Err(WebSocketFault::Utf8);
        }
        Ok(IncomingEvent::Part { text: message.text, bytes: std::mem::take(&mut self.part), end: true })
    }
}

/// A control frame, once it is whole (§5.5).
fn control(head: &FrameHead, read: &mut ReadBuffer) -> Result<IncomingEvent, WebSocketFault> {
    let length = usize::try_from(head.length).unwrap_or(usize::MAX);
    let Some(payload) = read.unread().get(head.size..).and_then(|bytes| bytes.get(..length)) else {
        return Ok(IncomingEvent::More);
    };
    let mut payload = payload.to_vec();
    let mut mask = head.mask;
    mask.remove(&mut payload);
    read.consume(head.size + length);
    match head.opcode {
        CLOSE => close(&payload),
        PING => Ok(IncomingEvent::Ping(payload)),
        _ => Ok(IncomingEvent::Pong),
    }
}

/// §5.5.1, and the codes of §7.4 that a frame may carry.
fn close(payload: &[u8]) -> Result<IncomingEvent, WebSocketFault> {
    let (code, reason) = match payload {
        [] => return Ok(IncomingEvent::Close(1005, String::new())),
        [one, other, reason @ ..] => (u16::from_be_bytes([*one, *other]), reason),
        _ => return Err(WebSocketFault::Protocol("close frame with one byte")),
    };
    if !matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999) {
        return Err(WebSocketFault::Protocol("invalid close code"));
    }
    let reason = std::str::from_utf8(reason).map_err(|_| WebSocketFault::Utf8)?;
    Ok(IncomingEvent::Close(code, reason.to_owned()))
}
