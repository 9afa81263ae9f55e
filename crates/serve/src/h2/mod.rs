//! HTTP/2, server role: each request of a connection is its own task, served by the same handlers as HTTP/1.1.
//!
//! `connection` is the life of a connection, `ServerStream` one request on it, and `guard` bounds useless work that a client can cause.

mod body;
mod connect;
mod connection;
mod guard;
mod response;
mod scheduler;
mod stream;
#[cfg(test)]
mod tests;
mod windows;

pub(crate) use connection::{NewConnection, serve};
pub(crate) use stream::ServerStream;
