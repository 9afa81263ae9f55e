//! Blocks of addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A block of addresses, `10.0.0.0/8` (RFC 4632). A block of v4-mapped v6 addresses is the block of the v4 ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr {
    /// As wide as 128 bits in either family, so that one comparison serves both.
    first: u128,
    mask: u128,
    is_v4: bool,
}

impl Cidr {
    /// The block around `address` whose addresses share `prefix` leading bits; `None` when the address has fewer bits.
    #[must_use]
    pub fn new(address: IpAddr, prefix: u8) -> Option<Self> {
        let (bits, width) = bits(address);
        let prefix = u32::from(prefix);
        if prefix > width {
            return None;
        }
        // A shift by all 128 bits is none in Rust: the empty prefix of v6 is that one.
        let mask = u128::MAX.checked_shl(width - prefix).unwrap_or(0);
        Some(Self { first: bits & mask, mask, is_v4: address.is_ipv4() })
    }

    /// Whether the block holds `address`. A v4-mapped v6 address counts as the v4 one it stands for.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.is_v4 && bits(address).0 & self.mask == self.first
    }

    /// Whether any block of a list holds `address`.
    #[must_use]
    pub fn any_contains(list: &[Self], address: IpAddr) -> bool {
        list.iter().any(|block| block.contains(address))
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address: IpAddr = match self.is_v4 {
            true => Ipv4Addr::from_bits(u32::try_from(self.first).unwrap_or_default()).into(),
            false => Ipv6Addr::from_bits(self.first).into(),
        };
        // A mask of v4 has 96 more bits in front.
        let prefix = self.mask.count_ones().saturating_sub(if self.is_v4 { 96 } else { 0 });
        write!(f, "{address}/{prefix}")
    }
}

fn bits(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(v4) => (u32::from(v4).into(), 32),
        IpAddr::V6(v6) => (v6.into(), 128),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_holds_its_addresses_and_no_others() {
        let cases = [
            ("10.1.2.3", 8, "10.255.0.1", true),
            ("10.1.2.3", 8, "11.0.0.1", false),
            ("10.1.2.3", 8, "::ffff:10.0.0.1", true),
            ("10.1.2.3", 32, "10.1.2.3", true),
            ("10.1.2.3", 32, "10.1.2.2", false),
            ("10.1.2.3", 0, "255.255.255.255", true),
            ("10.1.2.3", 0, "::1", false),
            ("::1", 0, "2001:db8::1", true),
            ("::1", 0, "1.2.3.4", false),
            ("2001:db8::", 32, "2001:db8:ffff::1", true),
            ("2001:db8::", 32, "2001:db9::1", false),
            ("2001:db8::1", 128, "2001:db8::2", false),
        ];
        for (first, prefix, address, expected) in cases {
            let block = Cidr::new(first.parse().unwrap(), prefix).unwrap();
            assert_eq!(block.contains(address.parse().unwrap()), expected, "{first}/{prefix} {address}");
        }
        assert_eq!(Cidr::new("1.2.3.4".parse().unwrap(), 33), None);
        assert_eq!(Cidr::new("::1".parse().unwrap(), 129), None);
    }
}
