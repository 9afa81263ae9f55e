//! DEFLATE of one message at a time, with states that the WebSockets of a thread share (RFC 7692 §7.2).
//!
//! A compressor is 200 KiB and a decompressor 20 KiB (up to 50 KiB with a large window): kept for each WebSocket, ten thousand idle ones would hold two
//! gigabytes. So a WebSocket keeps only the plain text that its peer may refer back to ([`Window`]), and a state is taken for a message, given that as its
//! dictionary, and returned after it. A returned compressor remembers its owner: the next message of the same WebSocket continues where the last one
//! ended, which takes a thirtieth of the time, unless [`KEPT`] others have had their turn in between.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use super::window::Window;

/// States of each kind that a thread keeps for the next message.
const KEPT: usize = 16;

thread_local! {
    /// The most recently used is last.
    static COMPRESSORS: RefCell<Vec<CachedCompressor>> = const { RefCell::new(Vec::new()) };
    static DECOMPRESSORS: RefCell<Vec<Decompress>> = const { RefCell::new(Vec::new()) };
}

#[derive(Debug)]
struct CachedCompressor {
    compress: Compress,
    form: CompressorSettings,
    /// The WebSocket whose messages are in its window.
    owner: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CompressorSettings {
    bits: u8,
    level: u32,
}

/// A WebSocket, as the owner of a compressor.
#[derive(Debug)]
pub(super) struct CompressorOwner(u64);

const NOBODY: u64 = 0;

impl CompressorOwner {
    pub(super) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(NOBODY + 1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Its compressor, if there still is one, does not match its peer's state.
    pub(super) fn forget(&self) {
        COMPRESSORS.with_borrow_mut(|all| {
            all.iter_mut().filter(|kept| kept.owner == self.0).for_each(|kept| kept.owner = NOBODY);
        });
    }
}

impl Drop for CompressorOwner {
    fn drop(&mut self) {
        // The thread may be ending, with its states gone.
        let _ = COMPRESSORS.try_with(|all| {
            if let Ok(mut all) = all.try_borrow_mut() {
                all.iter_mut().filter(|kept| kept.owner == self.0).for_each(|kept| kept.owner = NOBODY);
            }
        });
    }
}

/// The compression levels for short and long messages. Short ones gain nearly everything from repetition between messages; long ones are worth
/// codes of their own.
const LEVELS: (u32, u32) = (1, 4);

/// From this many bytes on a message is a long one.
const LONG: usize = 8 * 1024;

/// A compressor, for one message.
#[derive(Debug)]
pub(super) struct Deflater(CachedCompressor);

impl Deflater {
    /// One for a message that begins with `first` bytes, and may refer back to `window`.
    pub(super) fn take(owner: &CompressorOwner, bits: u8, first: usize, window: &Window) -> Self {
        let level = if first < LONG { LEVELS.0 } else { LEVELS.1 };
        let form = CompressorSettings { bits, level };
        let known = COMPRESSORS.with_borrow_mut(|all| {
            let at = all.iter().position(|kept| kept.owner == owner.0 && kept.form == form);
            at.map(|at| all.remove(at))
        });
        if let Some(kept) = known {
            return Self(kept);
        }
        // Another level continues with the message, and the kept compressor no longer has the whole history.
        owner.forget();
        let mut kept = Self::any(form);
        kept.owner = owner.0;
        if !window.bytes().is_empty() {
            // It has just been reset, and it can refuse a dictionary only in another state.
            let _ = kept.compress.set_dictionary(window.bytes());
        }
        Self(kept)
    }

    /// One with these settings: free, or new, or the least recently used.
    fn any(form: CompressorSettings) -> CachedCompressor {
        let kept = COMPRESSORS.with_borrow_mut(|all| {
            let free = all.iter().position(|kept| kept.owner == NOBODY && kept.form == form);
            if let Some(at) = free {
                return Some(all.remove(at));
            }
            let kept = make_room(all)?;
            (kept.form == form).then_some(kept)
        });
        match kept {
            Some(mut kept) => {
                kept.compress.reset();
                kept
            }
            None => {
                let level = Compression::new(form.level);
                CachedCompressor {
                    compress: Compress::new_with_window_bits(level, false, form.bits),
                    form,
                    owner: NOBODY,
                }
            }
        }
    }

    /// Compresses the next bytes of the message into `out`, after its content; at its `end` without the four bytes that end every message (§7.2.1). `false`: it failed.
    pub(super) fn push(&mut self, mut bytes: &[u8], end: bool, out: &mut Vec<u8>) -> bool {
        let flush = if end { FlushCompress::Sync } else { FlushCompress::None };
        loop {
            // Room for the end in any case: with less than six bytes zlib would write it twice.
            out.reserve(64 + bytes.len() / 2);
            let before = self.0.compress.total_in();
            if self.0.compress.compress_vec(bytes, out, flush).is_err() {
                return false;
            }
            let taken = usize::try_from(self.0.compress.total_in() - before).unwrap_or(usize::MAX);
            bytes = bytes.get(taken..).unwrap_or_default();
            if bytes.is_empty() && out.len() < out.capacity() {
                break;
            }
        }
        if end && out.ends_with(&TAIL) {
            out.truncate(out.len() - TAIL.len());
        }
        true
    }

    /// The message has ended. `goes_on`: the peer has all of it, and the next one may refer back to it.
    pub(super) fn put_back(mut self, goes_on: bool) {
        if !goes_on {
            self.0.owner = NOBODY;
        }
        COMPRESSORS.with_borrow_mut(|all| {
            make_room(all);
            all.push(self.0);
        });
    }
}

/// At the limit, removes one: one without an owner, or the least recently used.
fn make_room(all: &mut Vec<CachedCompressor>) -> Option<CachedCompressor> {
    if all.len() < KEPT {
        return None;
    }
    let at = all.iter().position(|kept| kept.owner == NOBODY).unwrap_or(0);
    Some(all.remove(at))
}

/// The end of every message, which is not sent (§7.2.1).
pub(super) const TAIL: [u8; 4] = [0, 0, 0xff, 0xff];

/// A decompressor, for one message.
#[derive(Debug)]
pub(super) struct Inflater {
    state: Decompress,
    /// Streams that have ended within the message (§7.2.3.4).
    ends: u32,
}

/// More would cost much more to read than to send; no client ends a stream more than once a message.
const MOST_ENDS: u32 = 64;

/// The result of one step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Inflated {
    pub(super) taken: usize,
    pub(super) made: usize,
}

impl Inflater {
    pub(super) fn take(window: &Window) -> Option<Self> {
        let kept = DECOMPRESSORS.with_borrow_mut(Vec::pop);
        let mut inflater = Self { state: kept.unwrap_or_else(|| Decompress::new(false)), ends: 0 };
        inflater.begin(window).then_some(inflater)
    }

    fn begin(&mut self, window: &Window) -> bool {
        self.state.reset(false);
        window.bytes().is_empty() || self.state.set_dictionary(window.bytes()).is_ok()
    }

    /// Inflates as much as fits into `room`. `None`: invalid DEFLATE. The output is pushed to the window, which a stream that begins within the
    /// message may refer back to.
    pub(super) fn step(&mut self, bytes: &[u8], room: &mut [u8], window: &mut Window) -> Option<Inflated> {
        let (taken, made) = (self.state.total_in(), self.state.total_out());
        let status = self.state.decompress(bytes, room, FlushDecompress::None).ok()?;
        let done = |now: u64, before: u64| usize::try_from(now - before).unwrap_or(usize::MAX);
        let done =
            Inflated { taken: done(self.state.total_in(), taken), made: done(self.state.total_out(), made) };
        window.push(room.get(..done.made)?);
        if status == Status::StreamEnd {
            self.ends += 1;
            if self.ends > MOST_ENDS || !self.begin(window) {
                return None;
            }
        } else if done.taken == 0 && done.made == 0 && !bytes.is_empty() && !room.is_empty() {
            return None;
        }
        Some(done)
    }

    pub(super) fn put_back(self) {
        DECOMPRESSORS.with_borrow_mut(|all| {
            if all.len() < KEPT {
                all.push(self.state);
            }
        });
    }
}
