//! Responses of routes that compress.

use std::cell::RefCell;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use keepwarm_http1::{AppFields, BadField, scan_app_fields};
use keepwarm_telemetry::counters;

use super::{Exchange, FieldList, FieldRef, ProtocolStream};
use crate::ClientLoss;
use crate::compression::{BodyEnd, CompressedBody, Compression, CompressionFailed, JudgedHead};

/// Why a response is cut whose encoder has failed.
const FAILED: &str = "compression_failed";

/// A thread's buffer for output keeps at most this much between uses.
const OUTPUT_KEPT: usize = 256 * 1024;

thread_local! {
    static OUTPUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Exchange<'_> {
    /// Begins the response, with its route's compression if that has any.
    pub(super) fn begin_response(
        &mut self,
        status: u16,
        length: Option<u64>,
        close: bool,
        fields: &[FieldRef<'_>],
    ) -> Result<AppFields, BadField> {
        let Some(compression) = &self.request().notes.routed.compression else {
            return on!(mut self, stream => stream.begin_response(status, length, close, fields));
        };
        let compression = Arc::clone(compression);
        self.begin_judged(&compression, status, length, close, fields)
    }

    fn begin_judged(
        &mut self,
        compression: &Compression,
        status: u16,
        length: Option<u64>,
        close: bool,
        fields: &[FieldRef<'_>],
    ) -> Result<AppFields, BadField> {
        let app = scan_app_fields(fields.iter().copied())?;
        if self.responded() {
            return Ok(app);
        }
        // With HEAD, only a field tells the length of GET's body.
        let known = app.content_length.or(length.filter(|_| !self.is_head()));
        let rules = &compression.rules;
        let mut judged = JudgedHead::of(rules, self.request(), status, known, fields.iter().copied());
        let mut body = None;
        if let Some(coding) = judged.coding.filter(|_| !self.is_head()) {
            body = CompressedBody::new(coding, rules.level, known, judged.is_feed);
            if body.is_none() {
                counters::COMPRESSION_SKIPPED.add(1);
                judged.give_up();
            }
        }
        let length = length.filter(|_| judged.coding.is_none());
        let edited: FieldList<'_> = judged.apply(fields.iter().copied()).collect();
        on!(mut self, stream => stream.begin_response(status, length, close, &edited))?;
        self.compressed = body.map(Box::new);
        Ok(app)
    }

    pub(super) fn compressed_data(&mut self, bytes: &[u8]) {
        match self.encode(|body, out| body.push(bytes, out)) {
            Some(Ok(true)) | None => {}
            Some(Ok(false)) => {
                self.request_mut().notes.reason.get_or_insert("body_too_long");
            }
            Some(Err(CompressionFailed)) => self.abort(FAILED),
        }
    }

    /// `false`: the body is not whole, and the response was cut.
    pub(super) fn end_compressed(&mut self) -> bool {
        let end = self.encode(CompressedBody::finish);
        match end {
            Some(BodyEnd::Complete) | None => {
                self.compressed = None;
                return true;
            }
            Some(BodyEnd::TooShort) => self.abort("body_too_short"),
            Some(BodyEnd::Failed) => self.abort(FAILED),
        }
        false
    }

    pub(super) fn poll_flush_compressed(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ClientLoss>> {
        if let Some(Err(CompressionFailed)) = self.encode(|body, out| body.poll_pause(cx, out)) {
            // The cut is what is flushed.
            self.abort(FAILED);
        }
        let flushed = on!(mut self, stream => stream.poll_flush(cx));
        if let Some(body) = &mut self.compressed {
            ready!(body.poll_turn(cx));
        }
        flushed
    }

    /// Lets the body encode into the thread's buffer, and queues that.
    fn encode<R>(&mut self, encode: impl FnOnce(&mut CompressedBody, &mut Vec<u8>) -> R) -> Option<R> {
        let body = self.compressed.as_mut()?;
        OUTPUT.with_borrow_mut(|out| {
            out.clear();
            let result = encode(body, out);
            on!(mut self, stream => stream.data(out));
            out.shrink_to(OUTPUT_KEPT);
            Some(result)
        })
    }
}
