//! The client: connections whose every byte, segment and moment can be inspected.

mod certificate;
mod connection;
mod failure;
mod request;
mod response;
mod socket;
mod tls;
mod trust;

pub(crate) use certificate::span;
pub use certificate::{Certificate, ChainError, chain_errors};
pub use connection::{Acks, ConnectTimes, Connection, Read};
pub use failure::Failure;
pub use request::Request;
pub use response::{Informational, Outcome, Response, TimedRead};
pub use socket::PeerAddress;
pub use tls::Handshake;
pub(crate) use trust::nameless_client_config;
pub use trust::{Authorities, Identity, TlsSettings, client_config};
