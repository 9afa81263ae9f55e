//! The client: connections whose every byte, segment and moment can be looked at.

mod ask;
mod certificate;
mod failure;
mod line;
mod response;
mod socket;
mod tls;
mod trust;

pub use ask::Ask;
pub(crate) use certificate::span;
pub use certificate::{Certificate, Distrust, distrust};
pub use failure::Failure;
pub use line::{Acks, Line, LineTimes, Read};
pub use response::{Informational, Outcome, Response, Seen};
pub use socket::Peer;
pub use tls::Handshake;
pub use trust::{Authorities, Identity, Trust, client_config};
