//! HTTP/2, server's role: each request of a connection is a task of its own, answered by the same handlers as those of HTTP/1.1.
//!
//! `connection` is the life of a connection, `ServerStream` one request on it, and `guard` bounds what a client may make us do for nothing.

mod body;
mod connection;
mod guard;
mod response;
mod stream;
#[cfg(test)]
mod tests;

pub(crate) use connection::{Begun, serve};
pub(crate) use stream::ServerStream;
