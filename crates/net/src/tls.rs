//! TLS under a connection to a server.
//!
//! [`ClientTls`] holds the settings of an upstream's connections; `Session` drives rustls over an [`crate::Io`], without a task or a runtime's stream between,
//! so that an idle connection can change its thread.

mod channel;
mod error;
mod scratch;
mod session;
mod settings;
#[cfg(test)]
pub(crate) mod tests;

pub use error::{TlsError, TlsPart, TlsSetupError};
pub use session::HandshakeFacts;
pub(crate) use session::Session;
pub use settings::{CaSource, ClientTls, Pem, TlsSettings, TlsVersion};
