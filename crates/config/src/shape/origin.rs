//! Origins of upstreams: URLs, authorities, host names.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::list::{EmptyList, ListOf};
use super::net::is_host_name;
use super::parsed_string::ParsedString;
use super::value_error::{ValueError, value_or_report};
use crate::checker::Checker;
use crate::description::{Describe, Description};
use crate::json::Json;
use crate::key::Shape;
use crate::model::EndpointAddress;
use crate::nearest::nearest;
use crate::raw::{Directive, Span};

/// The URL of an origin: a scheme, a host and optionally a port.
pub(crate) struct OriginUrl;

/// The parts of such a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) tls: bool,
    pub(crate) address: EndpointAddress,
    /// The value of `Host`.
    pub(crate) authority: String,
    /// The host without port and brackets: the name in the certificate.
    pub(crate) host: String,
}

impl Describe for OriginUrl {
    fn description(&self) -> Description {
        Description::new(
            "\"https://HOST:PORT\", \"http://HOST:PORT\" or \"unix:/PATH\"; the default port is that of the scheme",
            "URL",
            Json::pattern("^(https?://[^/@?#]+/?|unix:.+)$"),
        )
    }
}

impl Shape for OriginUrl {
    type Out = (Origin, Span);

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<(Origin, Span)> {
        let text = cx.text(directive)?;
        let read = match text.text.strip_prefix("unix:") {
            Some(path) => unix(path, cx),
            None => origin(&text.text),
        };
        value_or_report(read, text, directive, cx).map(|origin| (origin, directive.span))
    }
}

fn unix(path: &str, cx: &Checker<'_>) -> Result<Origin, ValueError> {
    if path.is_empty() || path.starts_with('@') || path.starts_with("//") {
        let error = ValueError::new("is not a Unix socket: a file path must follow `unix:`");
        return Err(error.help("write \"unix:/run/NAME.sock\""));
    }
    let path = cx.path(path);
    if path.len() > 107 || path.contains('\0') {
        return Err(ValueError::new(
            "has a path that is not valid for a Unix socket: it must have at most 107 bytes and no NUL",
        ));
    }
    Ok(Origin {
        tls: false,
        address: EndpointAddress::Unix(path.into()),
        authority: "localhost".to_owned(),
        host: "localhost".to_owned(),
    })
}

fn origin(text: &str) -> Result<Origin, ValueError> {
    let Some((scheme, rest)) = text.split_once("://") else {
        return Err(without_scheme(text));
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at_checked(end).unwrap_or((rest, ""));
    if authority.contains('@') {
        // It may contain a password, so the message does not quote it.
        let error = ValueError::new("contains user information, which is not part of an origin");
        return Err(error.help("the app sends its own Authorization header"));
    }
    let tls = match scheme.to_ascii_lowercase().as_str() {
        "https" => true,
        "http" => false,
        other => return Err(unknown_scheme(other, authority)),
    };
    let scheme = if tls { "https" } else { "http" };
    if authority.parse::<Ipv6Addr>().is_ok() {
        let error = ValueError::new(format!("is `{text}`: an IPv6 address must be in brackets"));
        return Err(error.help(format!("write \"{scheme}://[{authority}]\"")));
    }
    if !matches!(tail, "" | "/") {
        let error = ValueError::new(format!(
            "is `{text}`: an upstream is a whole origin, and calls have their own paths"
        ));
        return Err(error.help(format!("write \"{scheme}://{authority}\"")));
    }
    let (host, port) = host_and_port(authority).map_err(|error| error.within(text))?;
    if port == Some(0) {
        return Err(ValueError::new(format!("is `{text}`: nothing listens on port 0")));
    }
    let standard = if tls { 443 } else { 80 };
    let port = port.unwrap_or(standard);
    let shown = host.shown();
    let authority = if port == standard { shown } else { format!("{shown}:{port}") };
    let (address, host) = match host {
        Host::Ip(ip) => (EndpointAddress::Ip(SocketAddr::new(ip, port)), ip.to_string()),
        Host::Name(name) => {
            let plain = name.trim_end_matches('.').to_owned();
            (EndpointAddress::Name { host: name, port }, plain)
        }
    };
    Ok(Origin { tls, address, authority, host })
}

fn without_scheme(text: &str) -> ValueError {
    let error = ValueError::new(format!("is `{text}`, which has no scheme"));
    if text.starts_with('/') {
        return error.help(format!("write \"unix:{text}\" for a Unix socket"));
    }
    let authority = text.split(['/', '?', '#']).next().unwrap_or("");
    match host_and_port(authority) {
        Ok(_) => {
            error.help(format!("write \"https://{authority}\" for TLS, \"http://{authority}\" for plaintext"))
        }
        Err(_) => error,
    }
}

fn unknown_scheme(scheme: &str, authority: &str) -> ValueError {
    let error = ValueError::new(format!("has the scheme `{scheme}`, which is not supported for upstreams"));
    match scheme {
        "h2c" | "grpc" => error.help(format!("write \"http://{authority}\", and add protocol = \"http2\"")),
        "h2" | "grpcs" => error.help(format!("write \"https://{authority}\", and add protocol = \"http2\"")),
        "ws" => error.help(format!("write \"http://{authority}\": WebSockets pass through it")),
        "wss" => error.help(format!("write \"https://{authority}\": WebSockets pass through it")),
        _ => match nearest(scheme, ["http", "https"]).first() {
            Some(near) => error.help(format!("write \"{near}://{authority}\"")),
            None => error,
        },
    }
}

enum Host {
    Ip(IpAddr),
    /// In lower case. A dot at the end keeps the resolver from trying search domains.
    Name(String),
}

impl Host {
    /// The host as part of an authority.
    fn shown(&self) -> String {
        match self {
            Host::Ip(IpAddr::V6(ip)) => format!("[{ip}]"),
            Host::Ip(IpAddr::V4(ip)) => ip.to_string(),
            Host::Name(name) => name.trim_end_matches('.').to_owned(),
        }
    }
}

/// RFC 3986 §3.2.2 and §3.2.3, without user information.
fn host_and_port(authority: &str) -> Result<(Host, Option<u16>), ValueError> {
    if authority.is_empty() {
        return Err(ValueError::new("the host is missing"));
    }
    if !authority.is_ascii() {
        let error = ValueError::new("the host contains characters that are not ASCII");
        return Err(error.help("write the name in Punycode, as in DNS (\"xn--…\")"));
    }
    if authority.parse::<Ipv6Addr>().is_ok() {
        return Err(
            ValueError::new("an IPv6 address must be in brackets").help(format!("write \"[{authority}]\""))
        );
    }
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (inner, port) = rest.split_once(']').unwrap_or((rest, "?"));
            let Ok(ip) = inner.parse::<Ipv6Addr>() else {
                return Err(ValueError::new(
                    "brackets must contain an IPv6 address, optionally followed by a port",
                ));
            };
            (Host::Ip(ip.into()), port)
        }
        None => {
            let (name, port) = authority
                .split_at_checked(authority.find(':').unwrap_or(authority.len()))
                .unwrap_or((authority, ""));
            (named(name)?, port)
        }
    };
    Ok((host, port_behind(port)?))
}

/// The port of `:8080`; `None` for an empty text.
fn port_behind(text: &str) -> Result<Option<u16>, ValueError> {
    if text.is_empty() {
        return Ok(None);
    }
    let digits = text.strip_prefix(':').filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
    match digits.and_then(|digits| digits.parse().ok()) {
        Some(port) => Ok(Some(port)),
        None => Err(ValueError::new("a port is a number from 1 to 65535")),
    }
}

fn named(name: &str) -> Result<Host, ValueError> {
    if let Ok(ip) = name.parse::<IpAddr>() {
        return Ok(Host::Ip(ip));
    }
    if !is_host_name(name.strip_suffix('.').unwrap_or(name)) {
        return Err(ValueError::new("this is neither an IP address nor a host name"));
    }
    Ok(Host::Name(name.to_ascii_lowercase()))
}

/// `host`: the value of `Host`.
pub(crate) const AUTHORITY: ParsedString<String> = ParsedString {
    expected: "a host such as \"search.internal\" or \"search.internal:9243\"",
    type_name: "host with an optional port",
    pattern: Some("^[^/@?#]+$"),
    bare: None,
    read: |text| {
        if let Some((_, rest)) = text.split_once("://") {
            let authority = rest.split('/').next().unwrap_or("");
            let error = ValueError::new(format!("is `{text}`: a host must not have a scheme"));
            return Err(error.help(format!("write \"{authority}\"")));
        }
        let (host, port) = host_and_port(text).map_err(|error| error.within(text))?;
        Ok(port.map_or_else(|| host.shown(), |port| format!("{}:{port}", host.shown())))
    },
};

/// `server_name`: the name in the certificate.
pub(crate) const SERVER_NAME: ParsedString<String> = ParsedString {
    expected: "a host name or an IP address, as in the certificate, without a port",
    type_name: "host",
    pattern: Some("^[^/@?#]+$"),
    bare: None,
    read: |text| match host_name(text)? {
        Host::Ip(ip) => Ok(ip.to_string()),
        name => Ok(name.shown()),
    },
};

/// `dns.srv`: `_service._protocol.name` of RFC 2782.
pub(crate) const SRV_NAME: ParsedString<String> = ParsedString {
    expected: "the name of SRV records such as \"_search._tcp.service.consul\"",
    type_name: "DNS name",
    pattern: Some("^[A-Za-z0-9._-]+$"),
    bare: None,
    read: |text| match host_name(text)? {
        Host::Ip(_) => Err(ValueError::new(format!("is `{text}`, which is an IP address"))),
        Host::Name(name) => Ok(name),
    },
};

fn host_name(text: &str) -> Result<Host, ValueError> {
    if let Ok(ip) = text.trim_matches(['[', ']']).parse::<IpAddr>() {
        return Ok(Host::Ip(ip));
    }
    let (host, port) = host_and_port(text).map_err(|error| error.within(text))?;
    match port {
        None => Ok(host),
        Some(_) => Err(ValueError::new(format!("is `{text}`: it must not have a port"))
            .help(format!("write \"{}\"", host.shown()))),
    }
}

/// `dns.resolver`: `"10.0.0.53"` or `"10.0.0.53:53"`.
pub(crate) const RESOLVERS: ListOf<ParsedString<SocketAddr>> = ListOf {
    one: RESOLVER,
    expected: "the address of a DNS server such as \"10.0.0.53\" or \"10.0.0.53:5353\", or a list of them",
    type_name: "address or a list",
    empty: EmptyList::Rejected(Some("leave it out to use those of the system")),
};

const RESOLVER: ParsedString<SocketAddr> = ParsedString {
    expected: "the address of a DNS server",
    type_name: "address",
    pattern: Some("^[0-9a-fA-F.:\\[\\]]+$"),
    bare: None,
    read: |text| {
        let port = || text.parse::<SocketAddr>().ok().filter(|address| address.port() != 0);
        let alone = text.trim_matches(['[', ']']).parse::<IpAddr>().ok();
        let read = alone.map(|ip| SocketAddr::new(ip, 53)).or_else(port);
        read.ok_or_else(|| ValueError::new(format!("is `{text}`, which is not such an address")))
    },
};

/// The address or host, and the port, of `example.com:8443`.
pub(super) fn target(text: &str) -> Result<(Option<IpAddr>, String, Option<u16>), ValueError> {
    let (host, port) = host_and_port(text)?;
    Ok(match host {
        Host::Ip(ip) => (Some(ip), ip.to_string(), port),
        name => (None, name.shown(), port),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_read() {
        let name = |host: &str, port| EndpointAddress::Name { host: host.to_owned(), port };
        for (text, tls, address, authority, host) in [
            (
                "https://Search.Internal:9243",
                true,
                name("search.internal", 9243),
                "search.internal:9243",
                "search.internal",
            ),
            ("HTTP://a", false, name("a", 80), "a", "a"),
            ("https://a:443/", true, name("a", 443), "a", "a"),
            ("http://a.b.:8080", false, name("a.b.", 8080), "a.b:8080", "a.b"),
            (
                "http://127.0.0.1:1",
                false,
                EndpointAddress::Ip("127.0.0.1:1".parse().unwrap()),
                "127.0.0.1:1",
                "127.0.0.1",
            ),
            ("https://[::1]", true, EndpointAddress::Ip("[::1]:443".parse().unwrap()), "[::1]", "::1"),
        ] {
            let read = origin(text).unwrap_or_else(|_| panic!("{text}"));
            assert_eq!(
                read,
                Origin { tls, address, authority: authority.to_owned(), host: host.to_owned() },
                "{text}"
            );
        }
        for wrong in [
            "",
            "a",
            "a:80",
            "ftp://a",
            "http://",
            "http://a:0",
            "http://a:65536",
            "http://a:",
            "http://a/b",
            "http://a?b",
            "http://u:p@a",
            "http://::1",
            "http://[::1",
            "http://[a]",
            "http://a b",
            "http://é",
            "http://1.2.3",
            "http://[::1]x",
        ] {
            assert!(origin(wrong).is_err(), "{wrong}");
        }
    }
}
