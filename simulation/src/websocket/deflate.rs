//! permessage-deflate as a client speaks it (RFC 7692): one state for each direction, for as long as the WebSocket lives.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};

use super::plan::Offer;

const TAIL: [u8; 4] = [0, 0, 0xff, 0xff];

pub(super) struct Deflate {
    compress: Compress,
    decompress: Decompress,
    /// Whether what the client sends, and what it gets, may point back at the messages before.
    takeover: (bool, bool),
}

impl Deflate {
    /// The parameters that the response agrees on; `Err`: it is not a valid response to the offer.
    pub(super) fn agree(offer: Offer, said: &str) -> Result<Self, String> {
        let wrong = |what: &str| Err(format!("{what}: {said}"));
        let mut parameters = said.split(';').map(str::trim);
        if parameters.next() != Some("permessage-deflate") {
            return wrong("another extension");
        }
        let (mut takeover, mut ours, mut theirs) = ((true, true), 15, 15);
        for parameter in parameters {
            let bits = |value: &str| value.parse().ok().filter(|bits| (8..=15).contains(bits));
            match parameter.split_once('=') {
                None if parameter == "client_no_context_takeover" => takeover.0 = false,
                None if parameter == "server_no_context_takeover" => takeover.1 = false,
                Some(("client_max_window_bits", value)) if offer.limits_window() => match bits(value) {
                    Some(bits) => ours = bits,
                    None => return wrong("no window"),
                },
                Some(("server_max_window_bits", value)) => match bits(value) {
                    Some(bits) => theirs = bits,
                    None => return wrong("no window"),
                },
                _ => return wrong("a parameter that does not belong"),
            }
        }
        let (no_takeover, most) = offer.wants_of_server();
        if (no_takeover && takeover.1) || theirs > most {
            return wrong("not what was asked for");
        }
        Ok(Self {
            compress: Compress::new_with_window_bits(Compression::new(5), false, ours.max(9)),
            decompress: Decompress::new_with_window_bits(false, theirs.max(9)),
            takeover,
        })
    }

    pub(super) fn compress(&mut self, message: &[u8]) -> Vec<u8> {
        if message.is_empty() {
            // One byte (§7.2.3.6): a compressor that was just flushed has nothing to say.
            return vec![0];
        }
        if !self.takeover.0 {
            self.compress.reset();
        }
        let mut out = Vec::with_capacity(message.len() + message.len() / 64 + 64);
        self.compress.compress_vec(message, &mut out, FlushCompress::Sync).expect("it compresses");
        assert!(out.ends_with(&TAIL));
        out.truncate(out.len() - TAIL.len());
        out
    }

    /// `size`: of the message, at least.
    pub(super) fn inflate(&mut self, compressed: &[u8], size: usize) -> Result<Vec<u8>, String> {
        if !self.takeover.1 {
            self.decompress.reset(false);
        }
        let mut out = Vec::with_capacity(size + 1);
        for bytes in [compressed, &TAIL] {
            let before = self.decompress.total_in();
            let done = self.decompress.decompress_vec(bytes, &mut out, FlushDecompress::Sync);
            if done.is_err() || self.decompress.total_in() - before != bytes.len() as u64 {
                return Err(format!("{} compressed bytes that are none of {size}", compressed.len()));
            }
        }
        Ok(out)
    }
}

/// A payload that inflates to `size` bytes.
pub(super) fn bomb(size: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(size / 100 + 1024);
    let mut compress = Compress::new(Compression::new(9), false);
    compress.compress_vec(&vec![b'a'; size], &mut out, FlushCompress::Sync).expect("it compresses");
    out
}
