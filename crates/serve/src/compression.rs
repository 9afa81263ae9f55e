//! Compression of responses: a layer over the body that is absent unless the route asks for it.
//!
//! [`crate::Exchange`] is what every response passes once, over HTTP/1 and HTTP/2 alike. Where the route has a [`Compression`], its head is judged
//! ([`head`]), and its body goes through a [`CompressedBody`] on its way to the connection. Everything below sees a response of unknown length.
//!
//! ```text
//! handler ─▶ Exchange ─▶ judged head ───────────────▶ connection
//!                    └─▶ CompressedBody ─▶ Encoder ─▶
//! ```

mod body;
mod encoder;
mod head;
mod memory;
#[cfg(test)]
mod tests;

use keepwarm_policy::compression::CompressionRules;

pub(crate) use body::{BodyEnd, CompressedBody, CompressionFailed};
pub(crate) use head::JudgedHead;
pub use memory::{COMPRESSION_MEMORY, CompressionMemory};

/// How a route compresses responses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Compression {
    /// Which responses, and with what.
    pub rules: CompressionRules,
}
