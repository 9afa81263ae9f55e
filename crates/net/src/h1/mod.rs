//! HTTP/1.x connections, server role.
//!
//! [`connection`] is the life of one connection; [`Stream`] is the connection while a request is being read and
//! answered; [`out`] what waits to be written.

mod answer;
mod connection;
mod out;
mod request_body;
mod storage;
mod stream;
mod websocket;

pub(crate) use connection::serve;
pub(crate) use stream::Stream;
pub use websocket::{Message, WebSocketLimits};
