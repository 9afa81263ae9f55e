//! Why there is no connection.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// Why a connection could not be opened, or not written to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The name has no address.
    Resolve {
        /// The name.
        host: String,
        /// What the resolver said.
        why: String,
    },
    /// Nobody listens there.
    Refused(SocketAddr),
    /// Nothing came back for so long, while connecting or encrypting.
    TimedOut(&'static str, Duration),
    /// The network says no, or another error of the system.
    Network(String),
    /// The TLS handshake failed.
    Tls(String),
    /// The connection was reset, or closed while something was to be sent.
    Lost(String),
}

impl Failure {
    /// From an error of connecting.
    #[must_use]
    pub fn of_connect(address: SocketAddr, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Self::Refused(address),
            _ => Self::Network(format!("connecting to {address}: {error}")),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resolve { host, why } => write!(f, "the name {host} could not be resolved: {why}"),
            Self::Refused(address) => write!(f, "nobody listens at {address} (connection refused)"),
            Self::TimedOut(what, after) => {
                write!(f, "{what}: nothing came back within {:.1} s", after.as_secs_f64())
            }
            Self::Network(why) => f.write_str(why),
            Self::Tls(why) => write!(f, "the TLS handshake failed: {why}"),
            Self::Lost(why) => write!(f, "the connection was lost: {why}"),
        }
    }
}

impl std::error::Error for Failure {}
