//! WebSockets (RFC 6455) with permessage-deflate (RFC 7692), sans-IO: a client's bytes in, parts of messages out, and the other way round.
//!
//! A large message is not held whole. It is handed on in parts of up to [`PART`] bytes, whatever frames it came in, and leaves in as many
//! frames as it has parts; a short one is one part and one frame.

mod deflate;
mod fault;
mod frame;
mod incoming;
mod negotiate;
mod outgoing;
mod session;
#[cfg(test)]
mod tests;
mod utf8;
mod window;

pub(crate) use fault::WebSocketFault;
pub(crate) use frame::{PING, PONG, encode_close, encode_control};
pub(crate) use incoming::{Incoming, IncomingEvent};
pub(crate) use negotiate::negotiate;
pub(crate) use outgoing::Outgoing;
pub use session::{Message, WebSocketLimits};
pub(crate) use session::{WebSocketCarrier, WebSocketState, accept_key, is_about_frames};

/// Bytes of a message handed on at once: the maximum of a frame of the worker wire.
pub(crate) const PART: usize = 64 * 1024;
