//! HTTP/2, client's role (RFC 9113): many calls on one connection, with the `h2` crate for framing, flow control and HPACK.
//!
//! [`Http2Pool`] gives [`Http2Call`]s, which have the methods of [`crate::Client`]. Under both, a connection is a task (`driver`) that runs the `h2` crate over our
//! own socket (`wire`), and a `Link`, which is what the three know of it.

mod driver;
mod error;
mod frames;
mod head;
mod link;
mod pool;
mod settings;
mod stream;
#[cfg(test)]
mod tests;
mod wire;

pub use pool::Http2Pool;
pub use stream::Http2Call;
