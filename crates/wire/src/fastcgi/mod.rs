//! FastCGI 1.0, web server side: requests out, responses in; and the heads of CGI responses (RFC 3875).
//!
//! Sans-IO, as the rest of this crate. One connection carries one request at a time ([`Connection`]): no PHP server accepts more. Each request of
//! a connection has its own id, so that a record of an earlier request is never taken for one of a later.
//!
//! * [`record`]: the record format.
//! * [`encode`]: appends records to a `Vec<u8>`.
//! * [`Connection`]: the events from the server, and their order.
//! * [`CgiHead`]: the head of the response at the start of STDOUT.
//!
//! "The specification" is the FastCGI Specification 1.0 of 29 April 1996; its sections are cited as `F §n`.

mod cgi_head;
mod connection;
pub mod encode;
mod fault;
pub mod record;
#[cfg(test)]
mod tests;

pub use cgi_head::{CgiHead, CgiLimits, CgiNormalizations, CgiResponse};
pub use connection::{Connection, Decoded, Event, ProtocolStatus};
pub use fault::{CgiFault, FastCgiFault, RecordFault};
