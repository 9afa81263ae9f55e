//! What a forward proxy may call. It is never an open one, and never a way around "only this machine": an address is checked where it is connected to, not
//! where it is named.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use arc_swap::ArcSwap;

/// The rules of one listener.
#[derive(Debug, Clone, Default)]
pub struct ProxyRules {
    /// What may be called. Empty: every host but those that are special, and no `CONNECT` at all.
    pub allow: Vec<AllowEntry>,
    /// Ports of `CONNECT` where the entry names none.
    pub connect_ports: Vec<u16>,
    /// Where this process listens.
    pub own: Arc<ArcSwap<Vec<SocketAddr>>>,
}

/// One entry of `forward_proxy.allow`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowEntry {
    /// Which hosts.
    pub host: AllowHost,
    /// Which port; `None`: any, of `CONNECT` those of [`ProxyRules::connect_ports`].
    pub port: Option<u16>,
}

/// Hosts that may be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllowHost {
    /// Every one whose address is not special.
    Any,
    /// This one, in lower case.
    Exact(String),
    /// Every one below: the rest of the name, with its first dot.
    Below(String),
    /// Those with an address of this block, special or not.
    Block(IpAddr, u8),
}

/// The host and port that a client requests.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProxyTarget<'a> {
    /// In lower case, an IPv6 address without brackets.
    pub(super) host: &'a str,
    pub(super) port: u16,
    pub(super) connect: bool,
}

impl ProxyRules {
    /// Whether looking the host up can be worth it.
    pub(super) fn may_permit(&self, target: ProxyTarget<'_>) -> bool {
        let has_block = self
            .allow
            .iter()
            .any(|entry| matches!(entry.host, AllowHost::Block(..)) && self.fits_port(entry, target));
        self.permits_name(target) || has_block
    }

    /// Whether this address of the host may be connected to.
    pub(super) fn permits(&self, target: ProxyTarget<'_>, address: IpAddr) -> bool {
        let address = canonical(address);
        let by_block = self.allow.iter().any(|entry| match entry.host {
            AllowHost::Block(base, prefix) => {
                contains(base, prefix, address) && self.fits_port(entry, target)
            }
            _ => false,
        });
        if is_special(address) || self.is_own(address, target.port) {
            return by_block
                || (target.host == "localhost" && address.is_loopback() && self.lists_localhost(target));
        }
        by_block || self.permits_name(target)
    }

    fn permits_name(&self, target: ProxyTarget<'_>) -> bool {
        if self.allow.is_empty() {
            return !target.connect;
        }
        self.allow.iter().any(|entry| self.fits_port(entry, target) && entry.host.is_name_of(target.host))
    }

    fn lists_localhost(&self, target: ProxyTarget<'_>) -> bool {
        let lists = |entry: &AllowEntry| matches!(&entry.host, AllowHost::Exact(host) if host == "localhost");
        self.allow.iter().any(|entry| lists(entry) && self.fits_port(entry, target))
    }

    fn fits_port(&self, entry: &AllowEntry, target: ProxyTarget<'_>) -> bool {
        match entry.port {
            Some(port) => port == target.port,
            None => !target.connect || self.connect_ports.contains(&target.port),
        }
    }

    /// A door, or another listener of ours: also by an address of this machine, where it listens on all of them.
    fn is_own(&self, address: IpAddr, port: u16) -> bool {
        self.own.load().iter().any(|own| {
            own.port() == port
                && (canonical(own.ip()) == address
                    || (own.ip().is_unspecified() && is_of_this_machine(address)))
        })
    }
}

impl AllowHost {
    fn is_name_of(&self, host: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Exact(exact) => host == exact,
            Self::Below(suffix) => host.len() > suffix.len() && host.ends_with(suffix.as_str()),
            Self::Block(..) => false,
        }
    }
}

/// An address as it is connected to: IPv4 out of the forms that IPv6 has for it.
fn canonical(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    let low = || {
        let [.., a, b, c, d] = v6.octets();
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    };
    match v6.segments() {
        // Mapped; NAT64's well-known prefix (RFC 6052 §2.1).
        [0, 0, 0, 0, 0, 0xffff, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => low(),
        // Compatible, which nobody uses any more; not ::1 and ::.
        [0, 0, 0, 0, 0, 0, high, _] if high > 0 => low(),
        // 6to4 (RFC 3056 §2).
        [0x2002, a, b, ..] => {
            let ([a, b], [c, d]) = (a.to_be_bytes(), b.to_be_bytes());
            IpAddr::V4(Ipv4Addr::new(a, b, c, d))
        }
        _ => address,
    }
}

/// Where clouds serve credentials and settings of the machine to any process on it, beside 169.254.0.0/16 and fe80::/10, which all of them use.
const METADATA_V4: [Ipv4Addr; 3] = [
    Ipv4Addr::new(100, 100, 100, 200), // Alibaba
    Ipv4Addr::new(168, 63, 129, 16),   // Azure's WireServer
    Ipv4Addr::new(192, 0, 0, 192),     // Oracle Classic
];
const METADATA_V6: [Ipv6Addr; 5] = [
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254), // Google
    Ipv6Addr::new(0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe), // Oracle
    Ipv6Addr::new(0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42),  // Scaleway
    Ipv6Addr::new(0xfd00, 0xa9fe, 0xa9fe, 0, 0, 0, 0, 1), // Linode
    Ipv6Addr::new(0xfd00, 0x100, 0, 0, 0, 0, 0x100, 0x200), // Alibaba
];

fn is_metadata(v6: Ipv6Addr) -> bool {
    // All of fd00:ec2::/32 are services of Amazon's for its machines.
    matches!(v6.segments(), [0xfd00, 0x0ec2, ..]) || METADATA_V6.contains(&v6)
}

/// Addresses that mean this machine, its link, its cloud's metadata service, or nobody in particular.
fn is_special(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            METADATA_V4.contains(&v4)
                || v4.is_loopback()
                || v4.is_link_local()
                || v4.is_multicast()
                || v4.is_broadcast()
                || v4.octets()[0] == 0
        }
        IpAddr::V6(v6) => {
            // Prefixes of NAT64 for local use (RFC 8215) can lead to any IPv4 address, and where it stands in them is the network's choice.
            let is_local_nat64 = matches!(v6.segments(), [0x64, 0xff9b, 1, ..]);
            is_metadata(v6)
                || is_local_nat64
                || v6.is_loopback()
                || v6.is_unicast_link_local()
                || v6.is_multicast()
                || v6 == Ipv6Addr::UNSPECIFIED
        }
    }
}

/// Whether an interface of this machine has the address: only then can something be bound to it.
fn is_of_this_machine(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

fn contains(base: IpAddr, prefix: u8, address: IpAddr) -> bool {
    let bits = |address: IpAddr| match address {
        IpAddr::V4(v4) => (u128::from(v4.to_bits()) << 96, 32),
        IpAddr::V6(v6) => (v6.to_bits(), 128),
    };
    let ((base, base_width), (address, width)) = (bits(canonical(base)), bits(address));
    let shift = 128 - u32::from(prefix).min(base_width);
    base_width == width && base.checked_shr(shift).unwrap_or(0) == address.checked_shr(shift).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(allow: Vec<AllowEntry>) -> ProxyRules {
        ProxyRules { allow, connect_ports: vec![443], own: Arc::default() }
    }

    fn target(host: &str, port: u16, connect: bool) -> ProxyTarget<'_> {
        ProxyTarget { host, port, connect }
    }

    fn any() -> AllowEntry {
        AllowEntry { host: AllowHost::Any, port: None }
    }

    #[test]
    fn special_addresses_are_called_only_when_they_are_listed_as_such() {
        let open = rules(vec![any()]);
        for address in [
            "127.0.0.1",
            "127.9.9.9",
            "0.0.0.0",
            "0.1.2.3",
            "169.254.169.254",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::7f00:1",
            "::127.0.0.1",
            "2002:7f00:1::",
            "2002:a9fe:a9fe::1",
            "100.100.100.200",
            "168.63.129.16",
            "192.0.0.192",
            "fd00:ec2::254",
            "fd00:ec2::23",
            "fd20:ce::254",
            "fd00:c1::a9fe:a9fe",
            "fd00:42::42",
            "fd00:a9fe:a9fe::1",
            "fd00:100::100:200",
            "::ffff:100.100.100.200",
            "64:ff9b::6464:64c8",
            "64:ff9b:1::a9fe:a9fe",
            "2002:6464:64c8::1",
        ] {
            let closed = rules(Vec::new());
            assert!(!closed.permits(target("x.example", 80, false), address.parse().unwrap()), "{address}");
            assert!(!open.permits(target("x.example", 80, false), address.parse().unwrap()), "{address}");
        }
        for address in
            ["10.0.0.1", "93.184.216.34", "100.64.0.1", "2001:db8::1", "fd12::1", "::ffff:10.0.0.1"]
        {
            assert!(open.permits(target("x.example", 80, false), address.parse().unwrap()), "{address}");
        }
        let block = AllowEntry { host: AllowHost::Block("127.0.0.0".parse().unwrap(), 8), port: Some(8080) };
        let listed = rules(vec![any(), block]);
        for address in ["127.0.0.1", "::ffff:127.0.0.1"] {
            assert!(listed.permits(target("x", 8080, false), address.parse().unwrap()), "{address}");
            assert!(!listed.permits(target("x", 8081, false), address.parse().unwrap()), "{address}");
        }
        let metadata =
            AllowEntry { host: AllowHost::Block("100.100.100.200".parse().unwrap(), 32), port: None };
        assert!(rules(vec![metadata]).permits(target("x", 80, false), "100.100.100.200".parse().unwrap()));
    }

    #[test]
    fn localhost_is_listed_by_name_and_leads_to_loopback_only() {
        let rules = rules(vec![AllowEntry { host: AllowHost::Exact("localhost".into()), port: None }]);
        assert!(rules.permits(target("localhost", 80, false), "127.0.0.1".parse().unwrap()));
        assert!(rules.permits(target("localhost", 80, false), "::1".parse().unwrap()));
        assert!(!rules.permits(target("localhost", 80, false), "169.254.169.254".parse().unwrap()));
        assert!(!rules.permits(target("rebound.example", 80, false), "127.0.0.1".parse().unwrap()));
    }

    #[test]
    fn tunnels_go_to_listed_hosts_and_ports_only() {
        let public = "93.184.216.34".parse().unwrap();
        assert!(rules(Vec::new()).permits(target("a.example", 80, false), public));
        assert!(!rules(Vec::new()).permits(target("a.example", 443, true), public));
        let below = AllowEntry { host: AllowHost::Below(".example".into()), port: None };
        let other = AllowEntry { host: AllowHost::Exact("b.test".into()), port: Some(8443) };
        let rules = rules(vec![below, other]);
        for (host, port, connect, yes) in [
            ("a.example", 443, true, true),
            ("a.example", 22, true, false),
            ("a.example", 8080, false, true),
            ("example", 443, true, false),
            ("b.test", 8443, true, true),
            ("b.test", 443, true, false),
            ("c.test", 443, true, false),
        ] {
            assert_eq!(rules.permits(target(host, port, connect), public), yes, "{host}:{port}");
        }
    }

    #[test]
    fn own_addresses_are_no_way_around() {
        let rules = rules(vec![any()]);
        rules.own.store(Arc::new(vec!["10.1.2.3:6102".parse().unwrap()]));
        assert!(!rules.permits(target("door", 6102, false), "10.1.2.3".parse().unwrap()));
        assert!(!rules.permits(target("door", 6102, false), "::ffff:10.1.2.3".parse().unwrap()));
        assert!(rules.permits(target("door", 6103, false), "10.1.2.3".parse().unwrap()));
    }
}
