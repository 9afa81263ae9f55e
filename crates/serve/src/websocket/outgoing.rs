//! Messages of the app in parts, frames out.

use super::WebSocketFault;
use super::deflate::{CompressorOwner, Deflater};
use super::frame::{BINARY, CONTINUATION, FIN, RSV1, TEXT, encode_frame};
use super::negotiate::Compression;
use super::utf8::Utf8;
use super::window::Window;

/// The output to a client.
#[derive(Debug)]
pub(crate) struct Outgoing {
    message: Option<OutgoingMessage>,
    /// Set if compression was negotiated.
    deflate: Option<Deflate>,
    /// Bytes compressed.
    worked: usize,
}

#[derive(Debug, Default)]
struct OutgoingMessage {
    utf8: Utf8,
    /// Set if it is compressed.
    deflater: Option<Deflater>,
    /// A frame of it has left.
    begun: bool,
}

#[derive(Debug)]
struct Deflate {
    owner: CompressorOwner,
    window: Window,
    takeover: bool,
    bits: u8,
}

/// Below this many bytes compression saves less than it costs. The number is arbitrary: a packet has about as many bytes of overhead.
const WORTH_IT: usize = 64;

impl Outgoing {
    pub(crate) fn new(compression: Option<Compression>) -> Self {
        let deflate = compression.map(|agreed| Deflate {
            owner: CompressorOwner::new(),
            window: Window::of_bits(agreed.ours.bits),
            takeover: agreed.ours.takeover,
            bits: agreed.ours.bits,
        });
        Self { message: None, deflate, worked: 0 }
    }

    /// Bytes of compression work since the last query.
    pub(crate) fn worked(&mut self) -> usize {
        std::mem::take(&mut self.worked)
    }

    /// Adds the next part of a message to `out`: one frame, or none while compression holds it back.
    ///
    /// # Errors
    /// The app's text is not UTF-8: only a close can follow.
    pub(crate) fn push(
        &mut self,
        text: bool,
        bytes: &[u8],
        end: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), WebSocketFault> {
        let begins = self.message.is_none();
        let message = self.message.get_or_insert_default();
        if text && (!message.utf8.push(bytes) || (end && !message.utf8.is_whole())) {
            return Err(WebSocketFault::Utf8);
        }
        if let Some(deflate) = self.deflate.as_ref().filter(|_| begins && (!end || bytes.len() >= WORTH_IT)) {
            let first = if end { bytes.len() } else { usize::MAX };
            message.deflater = Some(Deflater::take(&deflate.owner, deflate.bits, first, &deflate.window));
        }
        let opcode = match (message.begun, text) {
            (true, _) => CONTINUATION,
            (false, true) => TEXT,
            (false, false) => BINARY,
        };
        let first = if end { FIN | opcode } else { opcode };
        match (&mut message.deflater, &mut self.deflate) {
            (Some(deflater), Some(deflate)) => {
                self.worked += bytes.len();
                let mut made = Vec::new();
                let done = deflater.push(bytes, end, &mut made);
                let is_worth_it = done && made.len() < worth(text && deflate.takeover, bytes.len());
                if begins && end && !is_worth_it {
                    // Not worth it. The compressor has seen bytes that the client will not have inflated.
                    encode_frame(out, first, bytes);
                    if let Some(deflater) = message.deflater.take() {
                        deflater.put_back(false);
                    }
                } else if !done {
                    return Err(WebSocketFault::Deflate);
                } else {
                    if deflate.takeover {
                        deflate.window.push(bytes);
                    }
                    if end || !made.is_empty() {
                        let rsv1 = if message.begun { 0 } else { RSV1 };
                        encode_frame(out, first | rsv1, &made);
                        message.begun = true;
                    }
                }
            }
            _ => {
                encode_frame(out, first, bytes);
                message.begun = true;
            }
        }
        if end && let Some(OutgoingMessage { deflater: Some(deflater), .. }) = self.message.take() {
            deflater.put_back(self.deflate.as_ref().is_some_and(|deflate| deflate.takeover));
        }
        Ok(())
    }
}

/// The compressed size below which compressing a message of `size` bytes pays off. A short text hardly shrinks by itself, but later ones refer back to it: if they
/// may, it is worth some extra bytes. If it were sent uncompressed, so would be the next, and all after it.
fn worth(shared: bool, size: usize) -> usize {
    if shared { size + size / 8 } else { size }
}
