use std::net::IpAddr;

use super::{Cidr, HostPattern};

/// `forward_proxy` of a listener: requests for other hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForwardProxy {
    /// Hosts that clients may call. Empty: all hosts except loopback, link-local and Keepwarm's own addresses, and no
    /// `CONNECT`.
    pub allow: Vec<ProxyTarget>,
    /// Ports that `CONNECT` may use if the entry of `allow` has none.
    pub connect_ports: Vec<u16>,
}

/// One entry of `allow`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ProxyTarget {
    /// The hosts.
    pub host: ProxyHost,
    /// The port. `None`: any; for `CONNECT`, those of `connect_ports`.
    pub port: Option<u16>,
}

/// Hosts that a forward proxy may call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ProxyHost {
    /// `*`: all hosts except loopback, link-local and Keepwarm's own addresses.
    Any,
    /// By the name in the request.
    Name(HostPattern),
    /// By an address, in the request or resolved from its name. Loopback and link-local addresses are allowed only by
    /// an entry of this kind.
    Block(Cidr),
}

impl Default for ForwardProxy {
    fn default() -> Self {
        Self { allow: Vec::new(), connect_ports: vec![443] }
    }
}

impl ProxyTarget {
    /// Whether the host and port in a request match. The host is in lower case and without a port; an IPv6 address is
    /// without brackets.
    pub fn matches_name(&self, host: &str, port: u16) -> bool {
        let fits = match &self.host {
            ProxyHost::Any => true,
            ProxyHost::Name(pattern) => pattern.matches(host),
            ProxyHost::Block(block) => host.parse().is_ok_and(|address| block.contains(address)),
        };
        fits && self.port.is_none_or(|wanted| wanted == port)
    }

    /// Whether a resolved address and a port match an entry that lists addresses.
    pub fn matches_address(&self, address: IpAddr, port: u16) -> bool {
        matches!(&self.host, ProxyHost::Block(block) if block.contains(address))
            && self.port.is_none_or(|wanted| wanted == port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_not_the_address_it_has() {
        let name = ProxyHost::Name(HostPattern::Exact("partner.example".to_owned()));
        let block = ProxyHost::Block(Cidr::new("127.0.0.0".parse().unwrap(), 8).unwrap());
        let target = |host: &ProxyHost, port| ProxyTarget { host: host.clone(), port };
        let loopback = "127.0.0.1".parse().unwrap();
        assert!(target(&name, None).matches_name("partner.example", 80));
        assert!(!target(&name, None).matches_address(loopback, 80), "a name may come to lead anywhere");
        assert!(!target(&ProxyHost::Any, None).matches_address(loopback, 80));
        assert!(target(&block, None).matches_address(loopback, 80));
        assert!(target(&block, None).matches_address("::ffff:127.0.0.1".parse().unwrap(), 80));
        assert!(!target(&block, Some(81)).matches_address(loopback, 80));
    }
}
