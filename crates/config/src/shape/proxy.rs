//! Targets of a forward proxy.

use std::net::IpAddr;

use super::Count;
use super::list::{EmptyList, ListOf};
use super::origin::target;
use super::parsed_string::ParsedString;
use super::value_error::ValueError;
use crate::model::{Cidr, HostPattern, ProxyHost, ProxyTarget};

/// `allow`
pub(crate) const TARGETS: ListOf<ParsedString<ProxyTarget>> = ListOf {
    one: ParsedString {
        expected: "a host",
        type_name: "host",
        pattern: Some("^[^@?#]+$"),
        bare: None,
        read: proxy_target,
    },
    expected: "a host such as \"example.com\", \"*.example.com\", \"10.0.0.0/8\" or \"*\", optionally with a port, or a list of them",
    type_name: "host with an optional port or a list",
    empty: EmptyList::Rejected(Some("leave it out to allow plain calls to every host except this machine")),
};

fn proxy_target(text: &str) -> Result<ProxyTarget, ValueError> {
    if let Some((_, rest)) = text.split_once("://") {
        let host = rest.split('/').next().unwrap_or("");
        let error = ValueError::new(format!("is `{text}`: a host must not have a scheme"));
        return Err(error.help(format!("write \"{host}\"")));
    }
    if let Some((address, bits)) = text.split_once('/') {
        return block(text, address, bits);
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(of_address(address, None));
    }
    let (below, rest) = match text.strip_prefix("*.") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    if rest == "*" || rest.starts_with("*:") {
        let port = rest.strip_prefix("*:").map(|port| target(&format!("a:{port}")));
        let port = port.transpose().map_err(|error| error.within(text))?.and_then(|(_, _, port)| port);
        return if below {
            Err(ValueError::new(format!("is `{text}`")))
        } else {
            Ok(ProxyTarget { host: ProxyHost::Any, port })
        };
    }
    let (address, host, port) = target(rest).map_err(|error| error.within(text))?;
    match (address, below) {
        (Some(address), false) => Ok(of_address(address, port)),
        (Some(_), true) => Err(ValueError::new(format!("is `{text}`: an address has no subdomains"))
            .help("write a block of addresses as ADDRESS/BITS")),
        (None, true) => {
            Ok(ProxyTarget { host: ProxyHost::Name(HostPattern::Suffix(format!(".{host}"))), port })
        }
        (None, false) => Ok(ProxyTarget { host: ProxyHost::Name(HostPattern::Exact(host)), port }),
    }
}

fn of_address(address: IpAddr, port: Option<u16>) -> ProxyTarget {
    let address = address.to_canonical();
    let prefix = if address.is_ipv4() { 32 } else { 128 };
    // The prefix is never too long for its family.
    let block = Cidr::new(address, prefix).unwrap_or(Cidr { address, prefix });
    ProxyTarget { host: ProxyHost::Block(block), port }
}

fn block(text: &str, address: &str, bits: &str) -> Result<ProxyTarget, ValueError> {
    let (Ok(address), Ok(prefix)) = (address.parse::<IpAddr>(), bits.parse::<u8>()) else {
        return Err(ValueError::new(format!(
            "is `{text}`, which is neither a host nor a block of addresses"
        )));
    };
    match Cidr::new(address, prefix) {
        Some(block) if block.address == address => {
            Ok(ProxyTarget { host: ProxyHost::Block(block), port: None })
        }
        Some(block) => Err(ValueError::new(format!("is `{text}`, with bits set after the first {prefix}"))
            .help(format!("write \"{block}\" for the block, or \"{address}\" for the single address"))),
        None => Err(ValueError::new(format!("is `{text}`, but this address does not have that many bits"))),
    }
}

/// `connect_ports`
pub(crate) const PORTS: ListOf<Count> = ListOf {
    one: Count(1..=65_535),
    expected: "a port from 1 to 65535, or a list of ports",
    type_name: "port or list of ports",
    empty: EmptyList::Allowed,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_match_hosts_and_ports() {
        let fits = |text: &str, host: &str, port| {
            proxy_target(text).is_ok_and(|target| target.matches_name(host, port))
        };
        assert!(fits("example.com", "example.com", 80) && !fits("example.com", "a.example.com", 80));
        assert!(fits("*.Example.com", "a.example.com", 80) && !fits("*.example.com", "example.com", 80));
        assert!(
            fits("example.com:8443", "example.com", 8443) && !fits("example.com:8443", "example.com", 443)
        );
        assert!(fits("*", "x", 1) && fits("*:443", "x", 443) && !fits("*:443", "x", 80));
        assert!(fits("10.0.0.0/8", "10.1.2.3", 80) && !fits("10.0.0.0/8", "11.1.2.3", 80));
        assert!(fits("::1", "::1", 80) && fits("[::1]:80", "::1", 80) && fits("127.0.0.1:5", "127.0.0.1", 5));
        for wrong in
            ["", "http://a", "*.*", "a b", "10.0.0.1/8", "10.0.0.0/33", "*.10.0.0.1", "a:b", "*:x", "a/b"]
        {
            assert!(proxy_target(wrong).is_err(), "{wrong}");
        }
    }
}
