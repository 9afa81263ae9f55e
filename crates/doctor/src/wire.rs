//! The client: connections whose every byte, segment and moment can be looked at.

mod answer;
mod ask;
mod failure;
mod line;
mod socket;
mod tls;

pub use answer::{Answer, Informational, Outcome, Seen};
pub use ask::Ask;
pub use failure::Failure;
pub use line::{Acks, Line, LineTimes, Read};
pub use tls::{Handshake, Trust, client_config};

pub(crate) use socket::Socket;
