//! What an upstream is told: the configuration, as this crate wants it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use keepwarm_net::{PoolSettings, Protocol, Scheme};

/// How an upstream is called.
#[derive(Debug, Clone, PartialEq)]
pub struct UpstreamSettings {
    /// In clear or over TLS.
    pub scheme: Scheme,
    /// `host[:port]` as its URL has it: what a door sends as `Host`, and what `Location` is compared with.
    pub authority: String,
    /// Instead of [`Self::authority`], for `Host`.
    pub host: Option<String>,
    /// Where it is.
    pub sources: Vec<Source>,
    /// Which version of HTTP.
    pub protocol: Protocol,
    /// Its connections.
    pub pool: PoolSettings,
    /// How long things may take.
    pub timeouts: Timeouts,
    /// How names are looked up.
    pub dns: DnsSettings,
}

/// Where some endpoints of an upstream are.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Source {
    /// The address, or a name to look up.
    pub place: Place,
    /// The share of each of its endpoints; SRV has its own.
    pub weight: u32,
    /// The lowest number is used first; SRV has its own, which come behind it.
    pub priority: u32,
}

/// An address, or a name to look up.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Place {
    /// A literal address.
    Address(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
    /// A name with A or AAAA records.
    Name {
        /// The name.
        host: String,
        /// The port.
        port: u16,
    },
    /// A name with SRV records.
    Srv(String),
}

/// How names are looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DnsSettings {
    /// An answer counts at least so long.
    pub min_ttl: Duration,
    /// And at most so long.
    pub max_ttl: Duration,
}

impl Default for DnsSettings {
    fn default() -> Self {
        Self { min_ttl: Duration::from_secs(5), max_ttl: Duration::from_secs(300) }
    }
}

/// How long the phases of a call may take. Each is met up to 100 ms late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// All of it, from the call's arrival to the last byte of the answer; retries and waiting included. `None`: no limit.
    pub whole: Option<Duration>,
    /// Making a connection, the handshake of TLS included.
    pub connect: Duration,
    /// From the last byte of the request to the first of the answer. `None`: no limit.
    pub first_byte: Option<Duration>,
    /// Between two bytes of the answer, or of the request. `None`: no limit.
    pub idle: Option<Duration>,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            whole: None,
            connect: Duration::from_secs(5),
            first_byte: Some(Duration::from_secs(60)),
            idle: Some(Duration::from_secs(60)),
        }
    }
}
