//! HTTP/1.x connections, server's role.
//!
//! [`connection`] is the life of one connection; [`Stream`] is the connection during a request and its
//! response.

mod connection;
mod file;
mod request_body;
mod response;
mod storage;
mod stream;
#[cfg(test)]
pub(crate) mod tests;
mod tunnel;
mod websocket;

pub(crate) use connection::{RequestGuard, serve};
pub(crate) use stream::Stream;
