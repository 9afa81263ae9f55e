//! The client: connections whose every byte, segment and moment can be looked at.

mod answer;
mod ask;
mod certificate;
mod failure;
mod line;
mod socket;
mod tls;
mod trust;

pub use answer::{Answer, Informational, Outcome, Seen};
pub use ask::Ask;
pub(crate) use certificate::span;
pub use certificate::{Certificate, Distrust, distrust};
pub use failure::Failure;
pub use line::{Acks, Line, LineTimes, Read};
pub use socket::Peer;
pub use tls::Handshake;
pub use trust::{Authorities, Identity, Trust, client_config};
