//! The header of the PROXY protocol, versions 1 and 2: a proxy sends it first on a connection, to name the client's address.
//!
//! The specification is HAProxy's `doc/proxy-protocol.txt`; sections are quoted from it. [`decode`] reports how many bytes the header
//! needs at least, so that a reader can take exactly the header from a socket and leave everything after it there.
//! [`encode_v1`], [`encode_v2`] and [`encode_v2_with`] write one.

mod checksum;
mod encode;
mod fault;
mod v1;
mod v2;

use std::net::SocketAddr;

pub use encode::{ClientTls, encode_v1, encode_v2, encode_v2_with};
pub use fault::HeaderFault;

/// The longest header of version 2 that is accepted. Addresses take at most 216 bytes; the rest is for TLVs, of which known proxies send
/// less than 1 KiB. The format allows 64 KiB, which anybody could make us hold.
pub const MAX_V2: usize = 4096;
/// The longest line of version 1, with its CRLF (§2.1).
pub const MAX_V1: usize = 107;

/// What a header says about the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyHeader {
    /// The two ends of the client's connection to the proxy.
    pub addresses: ProxiedAddresses,
    /// The client used TLS towards the proxy (`PP2_TYPE_SSL` with `PP2_CLIENT_SSL`, §2.2.6).
    pub tls: bool,
}

/// The addresses in a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProxiedAddresses {
    /// The proxy's own connection, for example a health check (`LOCAL`): its real ends apply.
    Local,
    /// A client whose address the proxy does not know or cannot express (`UNKNOWN`, `AF_UNSPEC`): the real ends apply.
    Unspecified,
    /// A client over TCP. Both addresses are of the same family.
    Tcp {
        /// The client.
        source: SocketAddr,
        /// The proxy's address that the client connected to.
        destination: SocketAddr,
    },
    /// A client on a Unix socket of the proxy's machine.
    Unix {
        /// The client's socket, without padding; most often empty.
        source: Vec<u8>,
        /// The proxy's socket, without padding.
        destination: Vec<u8>,
    },
}

/// The result of [`decode`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decoded {
    /// The header has at least this many bytes more; never 0.
    NeedMore(usize),
    /// The header is complete, and this long.
    Complete(ProxyHeader, usize),
}

/// Reads a header from the first bytes of a connection.
///
/// # Errors
/// The bytes do not begin with a valid header. The connection must be closed: what would follow is not known.
pub fn decode(bytes: &[u8]) -> Result<Decoded, HeaderFault> {
    if bytes.is_empty() {
        return Ok(Decoded::NeedMore(v1::SHORTEST.min(v2::FIXED)));
    }
    let common = |signature: &[u8]| bytes.iter().zip(signature).all(|(a, b)| a == b);
    if common(v2::SIGNATURE) {
        v2::decode(bytes)
    } else if common(v1::SIGNATURE) {
        v1::decode(bytes)
    } else {
        Err(HeaderFault::Missing)
    }
}

#[cfg(test)]
mod tests;
