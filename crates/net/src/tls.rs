//! TLS under a connection.
//!
//! [`ClientTls`] holds the settings of an upstream's connections, [`ServerTls`] those of a listener's; `Session` drives rustls over an [`crate::Io`], without a task or a runtime's stream between,
//! so that an idle connection can change its thread.

mod accept;
mod channel;
mod error;
mod scratch;
mod server;
mod session;
mod settings;
#[cfg(test)]
pub(crate) mod tests;

pub use accept::{AcceptFailure, PlaintextClient, ServerHandshake, accept};
pub use error::{TlsError, TlsPart, TlsSetupError};
pub(crate) use server::CHALLENGE_PROTOCOL;
pub use server::{
    Certificate, CertificateFacts, CertificateFiles, CertificateOrigin, ChallengeCertificates, ClientAuth,
    ClientIdentity, Coverage, KeyKind, OnDemandNames, ServerTls, ServerTlsSettings, ServerTlsState,
    TicketKeys, TicketSecret, TlsProfile, UnknownNames,
};
pub use session::HandshakeFacts;
pub(crate) use session::Session;
pub use settings::{CaSource, ClientTls, Pem, TlsSettings, TlsVersion};
