//! HTTP/2, server's role: each request of a connection is a task of its own, answered by the same handlers as those of HTTP/1.1.
//!
//! `connection` is the life of a connection, `ServerStream` one request on it, and `guard` bounds what a client may make us do for nothing.

mod body;
mod connection;
mod guard;
mod response;
mod stream;

pub(crate) use connection::{Begun, serve};
pub(crate) use stream::ServerStream;

/// What a client of HTTP/2 sends first (RFC 9113 §3.4).
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// As much of it as can be nothing else: whoever sends this speaks HTTP/2, however it goes on.
pub(crate) const PREFACE_LINE: &[u8] = b"PRI * HTTP/2.0\r\n";
