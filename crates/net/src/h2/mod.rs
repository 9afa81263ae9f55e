//! HTTP/2 (RFC 9113), with the `h2` crate for framing, flow control and HPACK. In this folder the client's role: many calls on one connection; in `server` the server's.
//!
//! [`Http2Pool`] gives [`Http2Call`]s, which have the methods of [`crate::Client`]. Under both, a connection is a task (`driver`) that runs the `h2` crate over our
//! own socket (`wire`), and a `Link`, which is what the three know of it.

mod driver;
mod error;
mod frames;
mod head;
mod link;
mod pool;
mod sending;
mod server;
mod settings;
mod stream;
#[cfg(test)]
mod tests;
mod wire;

pub(crate) use frames::{PREFACE, PREFACE_LINE};
pub use pool::Http2Pool;
pub(crate) use server::{Begun, ServerStream, serve};
pub use stream::Http2Call;
