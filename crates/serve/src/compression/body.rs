//! The body of a response on its way through an encoder.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use keepwarm_policy::compression::{Coding, CompressionLevel};
use keepwarm_telemetry::compression;
use tokio::time::Sleep;

use super::encoder::{Encoder, EncoderFailure, EncoderSettings, Operation};

/// A body of known length whose next part is not here after this time is not on its way, but slow: what there is of it is sent.
const QUIET: Duration = Duration::from_millis(10);

/// A body, and the encoder that it goes through.
#[derive(Debug)]
pub(crate) struct CompressedBody {
    /// `None`: the end is encoded.
    encoder: Option<Encoder>,
    coding: Coding,
    /// Bytes that are due, where the length of the body was stated.
    due: Option<u64>,
    /// The encoder has input that cannot be decoded from its output yet.
    is_behind: bool,
    /// Bytes encoded since others had their turn.
    turn: usize,
    /// Runs while a body of known length pauses.
    quiet: Option<Pin<Box<Sleep>>>,
    /// Bytes of the body, and of its output.
    input: u64,
    output: u64,
}

/// The result of ending a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyEnd {
    Complete,
    /// Shorter than stated: an end would make it look whole.
    TooShort,
    Failed,
}

/// Why a body cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CompressionFailed;

impl From<EncoderFailure> for CompressionFailed {
    fn from(_: EncoderFailure) -> Self {
        Self
    }
}

impl CompressedBody {
    /// For a body of `length` bytes, if that is known. `is_feed`: server-sent events, which may last for hours. `None`: no memory.
    pub(crate) fn new(
        coding: Coding,
        level: CompressionLevel,
        length: Option<u64>,
        is_feed: bool,
    ) -> Option<Self> {
        let encoder = Encoder::take(EncoderSettings { coding, level, lean: is_feed })?;
        Some(Self {
            encoder: Some(encoder),
            coding,
            due: length,
            is_behind: false,
            turn: 0,
            quiet: None,
            input: 0,
            output: 0,
        })
    }

    /// Encodes the next bytes into `out`, and with the last that are due the end: a client has everything then, however long the source takes to
    /// end. Returns whether all were due; the rest is dropped.
    pub(crate) fn push(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) -> Result<bool, CompressionFailed> {
        let given = bytes.len();
        if let Some(due) = &mut self.due {
            let fits = usize::try_from(*due).unwrap_or(usize::MAX).min(given);
            *due -= fits as u64;
            bytes = bytes.get(..fits).unwrap_or_default();
        }
        if !bytes.is_empty() {
            self.quiet = None;
            match self.due {
                Some(0) => self.end(bytes, out)?,
                _ => {
                    self.encode(bytes, Operation::Process, out)?;
                    self.is_behind = true;
                }
            }
        }
        Ok(bytes.len() == given)
    }

    /// There is no more of the body now: encodes what its client should get. A stream gets everything; a body of known length only when it pauses,
    /// because parts that follow at once compress better together.
    pub(crate) fn poll_pause(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), CompressionFailed> {
        if !self.is_behind {
            return Ok(());
        }
        if self.due.is_some() {
            let quiet = self.quiet.get_or_insert_with(|| Box::pin(tokio::time::sleep(QUIET)));
            if quiet.as_mut().poll(cx).is_pending() {
                return Ok(());
            }
        }
        (self.is_behind, self.quiet) = (false, None);
        self.encode(&[], Operation::Flush, out)
    }

    /// Encodes the end, if it is not yet.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) -> BodyEnd {
        if self.due.is_some_and(|due| due > 0) {
            return BodyEnd::TooShort;
        }
        match self.is_finished() || self.end(&[], out).is_ok() {
            true => BodyEnd::Complete,
            false => BodyEnd::Failed,
        }
    }

    /// Whether everything that was due is encoded, and its end.
    pub(crate) fn is_finished(&self) -> bool {
        self.encoder.is_none()
    }

    fn end(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), CompressionFailed> {
        self.encode(bytes, Operation::Finish, out)?;
        self.is_behind = false;
        if let Some(encoder) = self.encoder.take() {
            encoder.put_back();
        }
        Ok(())
    }

    fn encode(
        &mut self,
        bytes: &[u8],
        operation: Operation,
        out: &mut Vec<u8>,
    ) -> Result<(), CompressionFailed> {
        let encoder = self.encoder.as_mut().ok_or(CompressionFailed)?;
        let before = out.len();
        encoder.encode(bytes, operation, out)?;
        self.turn += bytes.len();
        self.input += bytes.len() as u64;
        self.output += (out.len() - before) as u64;
        Ok(())
    }

    /// Whether it has encoded so much that other connections should get their turn.
    pub(crate) fn has_had_turn(&self) -> bool {
        self.turn >= turn_of(self.coding)
    }

    /// If so, gives it to them: the task continues when the thread has looked at its sockets. Waking it at once would put it in front of them.
    pub(crate) fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.has_had_turn() {
            return Poll::Ready(());
        }
        self.turn = 0;
        std::pin::pin!(tokio::task::yield_now()).poll(cx)
    }
}

/// How many bytes are encoded before others have their turn: about a millisecond's work, and a page in one go.
const fn turn_of(coding: Coding) -> usize {
    match coding {
        Coding::Zstd => 256 * 1024,
        Coding::Brotli | Coding::Gzip => 96 * 1024,
    }
}

impl Drop for CompressedBody {
    fn drop(&mut self) {
        compression::count(self.coding.name(), self.input, self.output);
        if let Some(encoder) = self.encoder.take() {
            encoder.put_back();
        }
    }
}
