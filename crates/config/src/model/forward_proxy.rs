use std::net::IpAddr;

use super::{Cidr, HostPattern};

/// `forward_proxy` of a listener: it takes calls for hosts of others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForwardProxy {
    /// What may be called. Empty: every host but loopback, link-local and own addresses; and no CONNECT at all.
    pub allow: Vec<ProxyTarget>,
    /// Ports that `CONNECT` may ask for, where the entry of `allow` names none.
    pub connect_ports: Vec<u16>,
}

/// One entry of `allow`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ProxyTarget {
    /// Which hosts.
    pub host: ProxyHost,
    /// Which port. `None`: any, of CONNECT those of `connect_ports`.
    pub port: Option<u16>,
}

/// Hosts that a forward proxy may call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ProxyHost {
    /// `*`: every one that is not loopback, link-local or ours.
    Any,
    /// By name, as the request has it.
    Name(HostPattern),
    /// By address, which the request names or its name has; loopback and link-local ones too when they are listed so.
    Block(Cidr),
}

impl Default for ForwardProxy {
    fn default() -> Self {
        Self { allow: Vec::new(), connect_ports: vec![443] }
    }
}

impl ProxyTarget {
    /// Whether a request's host (lower case, without port; an IPv6 address without brackets) and port fit by what the request itself says.
    pub fn matches_name(&self, host: &str, port: u16) -> bool {
        let fits = match &self.host {
            ProxyHost::Any => true,
            ProxyHost::Name(pattern) => pattern.matches(host),
            ProxyHost::Block(block) => host.parse().is_ok_and(|address| block.contains(address)),
        };
        fits && self.port.is_none_or(|wanted| wanted == port)
    }

    /// Whether an address that a name has, and a port, are listed as such.
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
