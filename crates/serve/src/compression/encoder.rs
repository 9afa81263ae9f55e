//! Encoders, and those that a thread keeps for its next responses.

use std::cell::RefCell;
use std::fmt;

use brotli::enc::StandardAlloc;
use brotli::enc::encode::{BrotliEncoderOperation, BrotliEncoderParameter, BrotliEncoderStateStruct};
use flate2::{Compress, Compression as DeflateLevel, FlushCompress, Status};
use keepwarm_policy::compression::{Coding, CompressionLevel};
use zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, ResetDirective};

use super::memory::{COMPRESSION_MEMORY, MemoryShare};

/// Encoders of each thread that are kept. More than a few are in use at once only where clients are slow.
const KEPT: usize = 8;

/// Room that is made for output at a time.
const ROOM: usize = 16 * 1024;

thread_local! {
    static ENCODERS: RefCell<Vec<Encoder>> = const { RefCell::new(Vec::new()) };
}

/// What an encoder is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EncoderSettings {
    pub(super) coding: Coding,
    pub(super) level: CompressionLevel,
    /// For a stream that may stay open for hours: with little memory.
    pub(super) lean: bool,
}

/// What to do with what an encoder has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    /// Output comes when it is worth it.
    Process,
    /// All input so far can be decoded from the output.
    Flush,
    /// The end.
    Finish,
}

/// The library has failed: the output is of no use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EncoderFailure;

/// An encoder of one response at a time.
pub(super) struct Encoder {
    settings: EncoderSettings,
    state: EncoderState,
    _memory: MemoryShare,
}

enum EncoderState {
    Gzip(Compress),
    Zstd(CCtx<'static>),
    Brotli(Box<BrotliEncoderStateStruct<StandardAlloc>>),
}

impl Encoder {
    /// One for a new response: kept by the thread, or new. `None`: the memory of encoders is at its limit.
    pub(super) fn take(settings: EncoderSettings) -> Option<Self> {
        let kept = ENCODERS.with_borrow_mut(|all| {
            let at = all.iter().position(|kept| kept.settings == settings)?;
            Some(all.swap_remove(at))
        });
        if kept.is_some() {
            return kept;
        }
        let memory = match COMPRESSION_MEMORY.take(settings.memory()) {
            Some(memory) => memory,
            None => {
                // Those of other settings are in the way.
                ENCODERS.with_borrow_mut(Vec::clear);
                COMPRESSION_MEMORY.take(settings.memory())?
            }
        };
        Some(Self { settings, state: settings.state()?, _memory: memory })
    }

    /// Keeps it for the next response. Whatever it was doing is forgotten.
    pub(super) fn put_back(mut self) {
        let reusable = match &mut self.state {
            EncoderState::Gzip(compress) => {
                compress.reset();
                true
            }
            EncoderState::Zstd(context) => context.reset(ResetDirective::SessionOnly).is_ok(),
            // It has no way back.
            EncoderState::Brotli(_) => false,
        };
        if reusable {
            // The thread may be ending, with its encoders gone.
            let _ = ENCODERS.try_with(|all| {
                if let Ok(mut all) = all.try_borrow_mut() {
                    if all.len() >= KEPT {
                        all.remove(0);
                    }
                    all.push(self);
                }
            });
        }
    }

    /// Encodes `input`, appending to `out`.
    pub(super) fn encode(
        &mut self,
        input: &[u8],
        operation: Operation,
        out: &mut Vec<u8>,
    ) -> Result<(), EncoderFailure> {
        match &mut self.state {
            EncoderState::Gzip(compress) => deflate(compress, input, operation, out),
            EncoderState::Zstd(context) => zstd(context, input, operation, out),
            EncoderState::Brotli(state) => brotli(state, input, operation, out),
        }
    }
}

fn deflate(
    compress: &mut Compress,
    mut input: &[u8],
    operation: Operation,
    out: &mut Vec<u8>,
) -> Result<(), EncoderFailure> {
    let flush = match operation {
        Operation::Process => FlushCompress::None,
        Operation::Flush => FlushCompress::Sync,
        Operation::Finish => FlushCompress::Finish,
    };
    loop {
        // With fewer than six bytes of room zlib would write the end of a flush twice.
        out.reserve(ROOM);
        let before = compress.total_in();
        let status = compress.compress_vec(input, out, flush).map_err(|_| EncoderFailure)?;
        let taken = usize::try_from(compress.total_in() - before).unwrap_or(usize::MAX);
        input = input.get(taken..).unwrap_or_default();
        let is_done = match operation {
            Operation::Finish => status == Status::StreamEnd,
            // Room that is left means that nothing waits for it.
            Operation::Process | Operation::Flush => input.is_empty() && out.len() < out.capacity(),
        };
        if is_done {
            return Ok(());
        }
    }
}

fn zstd(
    context: &mut CCtx<'static>,
    input: &[u8],
    operation: Operation,
    out: &mut Vec<u8>,
) -> Result<(), EncoderFailure> {
    let directive = match operation {
        Operation::Process => ZSTD_EndDirective::ZSTD_e_continue,
        Operation::Flush => ZSTD_EndDirective::ZSTD_e_flush,
        Operation::Finish => ZSTD_EndDirective::ZSTD_e_end,
    };
    let mut input = InBuffer::around(input);
    loop {
        out.reserve(ROOM);
        let at = out.len();
        let mut output = OutBuffer::around_pos(out, at);
        let left =
            context.compress_stream2(&mut output, &mut input, directive).map_err(|_| EncoderFailure)?;
        let is_done = match operation {
            Operation::Process => input.pos() == input.src.len(),
            Operation::Flush | Operation::Finish => left == 0,
        };
        if is_done {
            return Ok(());
        }
    }
}

fn brotli(
    state: &mut BrotliEncoderStateStruct<StandardAlloc>,
    input: &[u8],
    operation: Operation,
    out: &mut Vec<u8>,
) -> Result<(), EncoderFailure> {
    let operation = match operation {
        Operation::Process => BrotliEncoderOperation::BROTLI_OPERATION_PROCESS,
        Operation::Flush => BrotliEncoderOperation::BROTLI_OPERATION_FLUSH,
        Operation::Finish => BrotliEncoderOperation::BROTLI_OPERATION_FINISH,
    };
    let (mut input_left, mut input_at) = (input.len(), 0);
    let (mut no_output, mut output_left, mut output_at) = ([0; 0], 0, 0);
    loop {
        let taken = state.compress_stream(
            operation,
            &mut input_left,
            input,
            &mut input_at,
            &mut output_left,
            &mut no_output,
            &mut output_at,
            &mut None,
            &mut |_, _, _, _| (),
        );
        if !taken {
            return Err(EncoderFailure);
        }
        // From its own buffer, without a copy in between. 0: all that is ready; the slice can be longer.
        let mut size = 0;
        let output = state.take_output(&mut size);
        out.extend_from_slice(output.get(..size).unwrap_or_default());
        if input_left == 0 && !state.has_more_output() {
            return Ok(());
        }
    }
}

impl EncoderSettings {
    /// Bytes that an encoder holds at most, as measured.
    fn memory(self) -> u64 {
        use CompressionLevel::{Balanced, Fast, Small};
        let kib = match (self.coding, self.level) {
            (Coding::Gzip, _) => 380,
            (Coding::Zstd, _) if self.lean => 300,
            (Coding::Zstd, Fast) => 960,
            (Coding::Zstd, Balanced) => 1660,
            (Coding::Zstd, Small) => 3580,
            (Coding::Brotli, Fast) => 1200,
            (Coding::Brotli, Balanced) => 1700,
            (Coding::Brotli, Small) => 5000,
        };
        kib * 1024
    }

    fn state(self) -> Option<EncoderState> {
        Some(match self.coding {
            Coding::Gzip => {
                let level = match self.level {
                    CompressionLevel::Fast => 2,
                    CompressionLevel::Balanced => 4,
                    CompressionLevel::Small => 7,
                };
                EncoderState::Gzip(Compress::new_gzip(DeflateLevel::new(level), 15))
            }
            Coding::Zstd => EncoderState::Zstd(self.zstd()?),
            Coding::Brotli => EncoderState::Brotli(Box::new(self.brotli())),
        })
    }

    fn zstd(self) -> Option<CCtx<'static>> {
        // Decoders need take windows of 8 MiB only (RFC 9659 §3); one of 128 KiB holds a page, and is what memory goes by.
        let (level, window) = match (self.level, self.lean) {
            (CompressionLevel::Fast, false) => (1, 17),
            (CompressionLevel::Balanced, false) => (3, 17),
            (CompressionLevel::Small, false) => (6, 18),
            (_, true) => (1, 15),
        };
        let mut context = CCtx::try_create()?;
        let mut parameters = vec![CParameter::CompressionLevel(level), CParameter::WindowLog(window)];
        if self.lean {
            parameters.extend([CParameter::HashLog(13), CParameter::ChainLog(13)]);
        }
        for parameter in parameters {
            context.set_parameter(parameter).ok()?;
        }
        Some(context)
    }

    fn brotli(self) -> BrotliEncoderStateStruct<StandardAlloc> {
        let quality = match self.level {
            CompressionLevel::Fast => 1,
            CompressionLevel::Balanced => 3,
            CompressionLevel::Small => 5,
        };
        let mut state = BrotliEncoderStateStruct::new(StandardAlloc::default());
        state.set_parameter(BrotliEncoderParameter::BROTLI_PARAM_QUALITY, quality);
        // Below 18 bits, quality 5 takes an algorithm that is thirty times as slow.
        state.set_parameter(BrotliEncoderParameter::BROTLI_PARAM_LGWIN, 18);
        state
    }
}

impl fmt::Debug for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoder").field("settings", &self.settings).finish_non_exhaustive()
    }
}
