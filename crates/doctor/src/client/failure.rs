//! Why there is no connection.

use std::fmt;
use std::io;
use std::time::Duration;

use super::PeerAddress;

/// Why a connection could not be opened, or not written to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The name has no address.
    Resolve {
        /// The name.
        host: String,
        /// The resolver's message.
        why: String,
    },
    /// Nothing listens there.
    Refused(PeerAddress),
    /// This machine has no way to addresses of that kind.
    NoRoute(PeerAddress),
    /// This many connections in a row got no reply, so no other was tried.
    Gone(u32),
    /// No reply for this long, while connecting or encrypting.
    TimedOut(&'static str, Duration),
    /// The network refuses, or another error of the system.
    Network(String),
    /// The TLS handshake failed.
    Tls(String),
    /// It failed because the certificate is not trusted.
    Certificate(String),
    /// The server does not speak TLS there: how its response begins.
    NotTls(String),
    /// The connection was reset, or closed during a write.
    Lost(String),
}

impl Failure {
    /// The name was looked up, and there is nothing.
    #[must_use]
    pub fn no_address(host: &str) -> Self {
        Self::Resolve { host: host.to_owned(), why: "it has no address".to_owned() }
    }

    /// From an error of connecting.
    #[must_use]
    pub fn of_connect(peer: &PeerAddress, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Self::Refused(peer.clone()),
            io::ErrorKind::NetworkUnreachable | io::ErrorKind::AddrNotAvailable => {
                Self::NoRoute(peer.clone())
            }
            _ => Self::Network(format!("cannot connect to {peer}: {error}")),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resolve { host, why } => write!(f, "cannot resolve {host}: {why}"),
            Self::Refused(peer) => write!(f, "nothing listens on {peer} (connection refused)"),
            Self::NoRoute(peer) => write!(f, "this machine has no route to {peer}"),
            Self::Gone(times) => write!(f, "no response {times} times in a row"),
            Self::TimedOut(what, after) => {
                write!(f, "{what} timed out after {:.1} s", after.as_secs_f64())
            }
            Self::Network(why) => f.write_str(why),
            Self::Tls(why) => write!(f, "TLS handshake failed: {why}"),
            Self::Certificate(why) => write!(f, "the certificate is not trusted: {why}"),
            Self::NotTls(first) => {
                write!(f, "the server does not speak TLS on this port: its response begins with \"{first}\"")
            }
            Self::Lost(why) => write!(f, "connection lost: {why}"),
        }
    }
}

impl std::error::Error for Failure {}
