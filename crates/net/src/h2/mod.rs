//! HTTP/2 (RFC 9113), with the `h2` crate for framing, flow control and HPACK. The client's role: many calls on one connection; and what the server's role (`keepwarm-serve`) shares with it.
//!
//! [`Http2Pool`] gives [`Http2Call`]s, which have the methods of [`crate::Client`]. Under both, a connection is a task (`driver`) that runs the `h2` crate over our
//! own socket (`wire`), and a `Link`, the state that the three share.

mod driver;
mod error;
mod frame_transport;
mod frames;
pub mod head;
mod link;
mod pool;
mod priority;
mod sending;
pub mod settings;
mod stream;
#[cfg(test)]
mod tests;

pub use frame_transport::{FrameObserver, FrameTransport};
pub use frames::{FrameEvent, PREFACE, PREFACE_LINE};
pub use pool::Http2Pool;
pub use priority::PrioritySignal;
pub use sending::{SendTurn, Sending};
pub use stream::Http2Call;
