//! FastCGI 1.0, web server side: requests out, responses in; and the heads of CGI responses (RFC 3875).
//!
//! Sans-IO, as the rest of this crate. One connection carries one request at a time ([`Connection`]): no server for PHP takes more. Each request of
//! a connection has an id of its own, so that a record of an earlier one can never be taken for one of a later.
//!
//! * [`record`]: what a record is.
//! * [`encode`]: appends records to a `Vec<u8>`.
//! * [`Connection`]: what the server says, and which of it is allowed now.
//! * [`CgiHead`]: the head of the response that STDOUT begins with.
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
