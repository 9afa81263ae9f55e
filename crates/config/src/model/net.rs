use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// An address to listen on.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Bind {
    /// An IP address and port. Port 0 is any free port. An IPv6 address is IPv6 only: `[::]:80` and `0.0.0.0:80` do
    /// not overlap (the socket needs `IPV6_V6ONLY`).
    Tcp(SocketAddr),
    /// A host name that the caller resolves, and a port.
    Host {
        /// Host name, lower case.
        host: String,
        /// Port; 0 is any free port.
        port: u16,
    },
    /// A Unix stream socket.
    Unix(PathBuf),
}

impl Bind {
    /// Whether only this machine can reach it. Names other than `localhost` may resolve to any address.
    pub fn is_local(&self) -> bool {
        match self {
            Bind::Tcp(address) => address.ip().to_canonical().is_loopback(),
            Bind::Host { host, .. } => host == "localhost",
            Bind::Unix(_) => true,
        }
    }
}

impl fmt::Display for Bind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bind::Tcp(address) => write!(f, "{address}"),
            Bind::Host { host, port } => write!(f, "{host}:{port}"),
            Bind::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A block of addresses, `10.0.0.0/8`. A single address is a block of one address.
///
/// Invariant: `prefix` is at most 32 (v4) or 128 (v6), and the bits of `address` after it are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cidr {
    /// First address of the block.
    pub address: IpAddr,
    /// Number of leading bits that all its addresses share.
    pub prefix: u8,
}

impl Cidr {
    /// The block around `address` with `prefix` leading bits; `None` if the address has fewer bits. Bits of the
    /// address after the prefix are cleared.
    pub fn new(address: IpAddr, prefix: u8) -> Option<Cidr> {
        let width = if address.is_ipv4() { 32 } else { 128 };
        (prefix <= width).then(|| Cidr { address: masked(address, prefix), prefix })
    }

    /// Whether the block contains `address`. A v4-mapped v6 address is compared as its v4 address.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.address.is_ipv4() && masked(address, self.prefix) == self.address
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

fn masked(address: IpAddr, prefix: u8) -> IpAddr {
    let prefix = u32::from(prefix);
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - prefix.min(32)).unwrap_or(0);
            IpAddr::V4((u32::from(v4) & mask).into())
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - prefix.min(128)).unwrap_or(0);
            IpAddr::V6((u128::from(v6) & mask).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_contains_its_addresses_and_mapped_ones() {
        let ten = Cidr::new("10.1.2.3".parse().unwrap(), 8).unwrap();
        assert_eq!(ten.to_string(), "10.0.0.0/8");
        assert!(ten.contains("10.255.0.1".parse().unwrap()));
        assert!(ten.contains("::ffff:10.0.0.1".parse().unwrap()));
        assert!(!ten.contains("11.0.0.1".parse().unwrap()));
        assert!(!ten.contains("::1".parse().unwrap()));
        let all = Cidr::new("1.2.3.4".parse().unwrap(), 0).unwrap();
        assert!(all.contains("255.255.255.255".parse().unwrap()));
        assert_eq!(Cidr::new("1.2.3.4".parse().unwrap(), 33), None);
        let doc = Cidr::new("2001:db8::1".parse().unwrap(), 128).unwrap();
        assert!(doc.contains("2001:db8::1".parse().unwrap()));
        assert!(!doc.contains("2001:db8::2".parse().unwrap()));
    }
}
