//! The frames between Keepwarm and a worker, and the state of one such connection (`spec/wire.md`, version 1).
//!
//! Sans-IO: bytes come in, frames, events and bytes go out; no socket, no clock, no task.
//!
//! * [`frame`]: the frame format. [`frame::FromWorker::decode`] and [`frame::ToWorker::decode`] borrow the input.
//! * [`encode`]: appends frames to a `Vec<u8>`; [`encode::RequestWriter`] is the hot path.
//! * [`session`]: Keepwarm's side of a connection: which streams are open, which frames a worker may send now, and how
//!   much either side may send.
//! * [`fastcgi`]: the wire of PHP's own servers, to other workers.
//! * [`template`]: the lines between Keepwarm and a process that forks workers.
//!
//! A decoder has three outcomes: a frame, `None` (need more), or a [`WireFault`]. After a fault the connection
//! is dead: close it, kill the worker, replace it.

pub mod encode;
pub mod fastcgi;
mod fault;
pub mod frame;
pub mod session;
pub mod template;

pub use fault::{FaultKind, WireFault};

/// The only version of the wire that this crate speaks.
pub const VERSION: u16 = 1;
