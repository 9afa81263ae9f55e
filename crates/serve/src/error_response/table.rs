//! The tables of error responses: one in each crate that refuses requests; the reference is generated from them (`docs/reference/errors.md`).

use std::fmt::{Display, Write};

use super::respond_with_error;
use crate::{Exchange, Refusal};

/// An error that Keepwarm itself responds with.
#[derive(Debug)]
pub struct ErrorResponse {
    /// The status.
    pub status: u16,
    /// A stable name, for the log, the counter and the access record.
    pub reason: &'static str,
    /// The text for the client. Each `{}` stands for a detail of the case.
    pub sentence: &'static str,
    /// `Retry-After` in seconds, where that is the same in every case.
    pub retry_after: Option<u32>,
    /// For the operator: when it is sent, and what to do.
    pub help: &'static str,
}

impl ErrorResponse {
    /// Responds with it, or cuts the response in progress (see [`respond_with_error`]).
    pub fn respond(&'static self, exchange: &mut Exchange<'_>) {
        self.about(&[]).respond(exchange);
    }

    /// With the details of a case.
    pub fn about<'f>(&'static self, details: &[&dyn Display]) -> ErrorMessage<'f> {
        let mut sentence = String::with_capacity(self.sentence.len() + 16 * details.len());
        let mut details = details.iter();
        for (number, piece) in self.sentence.split("{}").enumerate() {
            if number > 0
                && let Some(detail) = details.next()
            {
                // Writing into memory cannot fail.
                let _ = write!(sentence, "{detail}");
            }
            sentence.push_str(piece);
        }
        self.with_sentence(sentence)
    }

    /// With another sentence.
    pub fn with_sentence<'f>(&'static self, sentence: String) -> ErrorMessage<'f> {
        let Self { status, reason, retry_after, .. } = *self;
        ErrorMessage { status, reason, sentence, retry_after, fields: Vec::new() }
    }
}

/// An error response about one case.
#[derive(Debug)]
pub struct ErrorMessage<'f> {
    status: u16,
    reason: &'static str,
    sentence: String,
    retry_after: Option<u32>,
    fields: Vec<(&'f str, &'f [u8])>,
}

impl From<Refusal> for ErrorMessage<'_> {
    fn from(refusal: Refusal) -> Self {
        let Refusal { status, name, detail } = refusal;
        Self { status, reason: name, sentence: detail, retry_after: None, fields: Vec::new() }
    }
}

impl<'f> ErrorMessage<'f> {
    /// The client may retry after this many seconds.
    #[must_use]
    pub fn retry_after(self, seconds: u32) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    /// With a more exact reason.
    #[must_use]
    pub fn reason(self, reason: &'static str) -> Self {
        Self { reason, ..self }
    }

    /// With a header.
    #[must_use]
    pub fn field(mut self, name: &'f str, value: &'f [u8]) -> Self {
        self.fields.push((name, value));
        self
    }

    /// Its status.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Its reason.
    pub fn name(&self) -> &'static str {
        self.reason
    }

    /// What the client reads.
    pub fn sentence(&self) -> &str {
        &self.sentence
    }

    /// Responds with it, or cuts the response in progress (see [`respond_with_error`]).
    pub fn respond(self, exchange: &mut Exchange<'_>) {
        let seconds = self.retry_after.map(|seconds| seconds.to_string());
        let mut fields = self.fields;
        if let Some(seconds) = &seconds {
            fields.push(("Retry-After", seconds.as_bytes()));
        }
        respond_with_error(exchange, self.status, self.reason, &self.sentence, &fields);
    }
}

/// Defines the error responses of a crate, and `ERROR_RESPONSES`, the list of them. The doc comment of each is its help in the reference.
#[macro_export]
macro_rules! error_responses {
    (@seconds) => { None };
    (@seconds $seconds:literal) => { Some($seconds) };
    ($($(#[doc = $help:literal])+ $name:ident = $status:literal $reason:literal, $sentence:literal
        $(, retry after $seconds:literal s)?;)+) => {
        $($(#[doc = $help])+
        pub(crate) static $name: $crate::ErrorResponse = $crate::ErrorResponse {
            status: $status,
            reason: $reason,
            sentence: $sentence,
            retry_after: $crate::error_responses!(@seconds $($seconds)?),
            help: concat!($($help),+),
        };)+

        /// The error responses of this crate, for the reference.
        pub static ERROR_RESPONSES: &[&$crate::ErrorResponse] = &[$(&$name),+];
    };
}
