//! Addresses to listen on, and blocks of addresses.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::list::{EmptyList, ListOf};
use super::pattern::Signed;
use super::value_error::ValueError;
use crate::checker::Checker;
use crate::description::{Describe, Description};
use crate::json::Json;
use crate::key::Shape;
use crate::model::{Bind, Cidr};
use crate::raw::{Directive, Span, Text, Value};

/// One address or several, with their spans for the check of overlapping addresses.
pub(crate) struct BindAddresses;

/// The address of another server. No host names: requests would wait for the lookup.
pub(crate) struct ServerAddress;

impl Describe for ServerAddress {
    fn description(&self) -> Description {
        Description::new(
            "\"IP:PORT\", \"[IPV6]:PORT\" or \"unix:/PATH\"",
            "address",
            Json::pattern("^(unix:.+|.+:[0-9]+)$"),
        )
    }
}

impl Shape for ServerAddress {
    type Out = Bind;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<Bind> {
        let address = bind(directive, cx)?;
        let error = match &address {
            Bind::Host { .. } => "is a host name",
            Bind::Tcp(address) if address.port() == 0 => "has port 0",
            Bind::Tcp(_) | Bind::Unix(_) => return Some(address),
        };
        cx.wrong(directive.span, error)
            .help("write an IP address and a port, for example \"127.0.0.1:9000\"")
            .reject(cx)
    }
}

impl Describe for BindAddresses {
    fn description(&self) -> Description {
        Description::new(
            "\"HOST:PORT\", \"[IPV6]:PORT\" or \"unix:/PATH\", or a list of them",
            "address or list of addresses",
            Json::one_or_many(Json::pattern("^(unix:.+|.+:[0-9]+)$")),
        )
    }
}

impl Shape for BindAddresses {
    type Out = Vec<(Bind, Span)>;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<Self::Out> {
        let items = cx.items(directive);
        if items.is_empty() {
            return cx.wrong(directive.span, "is an empty list").reject(cx);
        }
        // Valid addresses are returned even if others are invalid, so that overlaps between them are reported too.
        Some(items.iter().filter_map(|item| bind(item, cx).map(|bind| (bind, item.span))).collect())
    }
}

fn bind(item: &Directive, cx: &mut Checker<'_>) -> Option<Bind> {
    if let Value::Integer(port) = item.value {
        return cx
            .wrong(item.span, "is a number")
            .help(format!("write \"127.0.0.1:{port}\" or \"0.0.0.0:{port}\""))
            .reject(cx);
    }
    let text = cx.text(item)?;
    if text.text.is_empty() {
        return cx.wrong(item.span, "is an empty string").reject(cx);
    }
    let read = match text.text.strip_prefix("unix:") {
        Some(path) => unix(path, cx),
        None => tcp(&text.text),
    };
    let error = match read {
        Ok(bind) => return Some(bind),
        Err(error) => error,
    };
    let quoted = cx.quote(text);
    cx.wrong(item.span, &format!("is {quoted}: {}", error.what))
        .maybe_help(error.help.filter(|_| !text.secret))
        .reject(cx)
}

fn unix(path: &str, cx: &Checker<'_>) -> Result<Bind, ValueError> {
    if path.is_empty() {
        return Err(ValueError::new("a path must follow `unix:`"));
    }
    if path.starts_with('@') {
        return Err(
            ValueError::new("abstract sockets are not supported").help("use a path in the file system")
        );
    }
    let path = cx.path(path);
    // sun_path of Linux holds 108 bytes with the closing NUL.
    if path.len() > 107 || path.contains('\0') {
        return Err(ValueError::new("the path of a Unix socket must have at most 107 bytes and no NUL"));
    }
    if !cx.has_parent(&path) {
        return Err(
            ValueError::new("its directory does not exist").help("create the directory, or correct the path")
        );
    }
    Ok(Bind::Unix(path.into()))
}

fn tcp(text: &str) -> Result<Bind, ValueError> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(Bind::Tcp(address));
    }
    if let Some((_, rest)) = text.split_once("://") {
        let authority = rest.split('/').next().unwrap_or("");
        return Err(
            ValueError::new("an address must not have a scheme").help(format!("write \"{authority}\""))
        );
    }
    if text.starts_with('/') {
        return Err(ValueError::new("the address of a Unix socket begins with `unix:`")
            .help(format!("write \"unix:{text}\"")));
    }
    if let Some(bracketed) = bracketed(text) {
        return Err(
            ValueError::new("an IPv6 address must be in brackets").help(format!("write \"{bracketed}\""))
        );
    }
    let Some((host, port)) = text.rsplit_once(':') else {
        let help =
            if text.parse::<u16>().is_ok() { format!("127.0.0.1:{text}") } else { format!("{text}:8080") };
        return Err(ValueError::new("the port is missing").help(format!("write \"{help}\"")));
    };
    if host.is_empty() {
        let help =
            format!("write \"127.0.0.1:{port}\" for this machine, \"0.0.0.0:{port}\" for all interfaces");
        return Err(ValueError::new("the host is missing").help(help));
    }
    if host == "*" {
        return Err(ValueError::new("`*` is not an address").help(format!("write \"0.0.0.0:{port}\"")));
    }
    let port = match port.parse::<u16>() {
        Ok(number) if port.bytes().all(|b| b.is_ascii_digit()) => number,
        _ => return Err(ValueError::new("a port is a number from 0 to 65535")),
    };
    if !is_host_name(host) {
        return Err(ValueError::new("this is neither an IP address nor a host name"));
    }
    Ok(Bind::Host { host: host.to_ascii_lowercase(), port })
}

/// An IPv6 address without brackets, corrected.
fn bracketed(text: &str) -> Option<String> {
    let is_v6 = |text: &str| text.parse::<Ipv6Addr>().is_ok();
    match text.rsplit_once(':') {
        Some((host, port)) if is_v6(host) && port.parse::<u16>().is_ok() => Some(format!("[{host}]:{port}")),
        _ => is_v6(text).then(|| format!("[{text}]:8080")),
    }
}

/// RFC 1123 §2.1, and the underscore that container networks use. A name of digits and dots was meant as an address.
pub(super) fn is_host_name(host: &str) -> bool {
    let labels_hold = host.split('.').all(|label| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
            && !label.starts_with('-')
            && !label.ends_with('-')
    });
    labels_hold && host.len() <= 253 && !host.bytes().all(|b| b.is_ascii_digit() || b == b'.')
}

/// A host name in Unicode as DNS and clients have it (UTS #46).
pub(super) fn a_labels(name: &str) -> Result<String, ValueError> {
    idna::domain_to_ascii_strict(name)
        .map_err(|_| ValueError::new(format!("is `{name}`, which is not a domain name")))
}

/// An address or a block of addresses.
pub(crate) struct AddressBlock;

/// `allow`, `deny`, `trusted_proxies`
pub(crate) const CIDRS: ListOf<AddressBlock> = ListOf {
    one: AddressBlock,
    expected: "an IP address or a block ADDRESS/BITS, or a list of them",
    type_name: "list of address blocks",
    empty: EmptyList::Allowed,
};

/// `client` of a route.
pub(crate) const CLIENTS: ListOf<SignedBlock> = ListOf {
    one: SignedBlock,
    expected: "an IP address or a block ADDRESS/BITS, with `!` in front for \"not\", or a list of them",
    type_name: "address block or list of address blocks",
    empty: EmptyList::Rejected(Some("leave it out to match all")),
};

/// An address or a block of addresses, or the negation of one.
pub(crate) struct SignedBlock;

impl Describe for SignedBlock {
    fn description(&self) -> Description {
        let schema = Json::pattern("^!?[0-9a-fA-F.:]+(/[0-9]{1,3})?$");
        Description::new("an IP address or a block ADDRESS/BITS", "address block", schema)
    }
}

impl Shape for SignedBlock {
    type Out = Signed<Cidr>;

    fn read(&self, item: &Directive, cx: &mut Checker<'_>) -> Option<Signed<Cidr>> {
        let Value::String(text) = &item.value else {
            return AddressBlock.read(item, cx).map(Signed::Positive);
        };
        let Some(rest) = text.text.strip_prefix('!') else {
            return AddressBlock.read(item, cx).map(Signed::Positive);
        };
        let text = Text { text: rest.to_owned(), ..text.clone() };
        let block = Directive { value: Value::String(text), span: item.span };
        AddressBlock.read(&block, cx).map(Signed::Negated)
    }
}

impl Describe for AddressBlock {
    fn description(&self) -> Description {
        let schema = Json::pattern("^[0-9a-fA-F.:]+(/[0-9]{1,3})?$");
        Description::new("an IP address or a block ADDRESS/BITS", "address block", schema)
    }
}

impl Shape for AddressBlock {
    type Out = Cidr;

    fn read(&self, item: &Directive, cx: &mut Checker<'_>) -> Option<Cidr> {
        let text = cx.text(item)?;
        let (address, bits) = match text.text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text.text.as_str(), None),
        };
        let parsed = address.parse::<IpAddr>();
        let width = if matches!(parsed, Ok(IpAddr::V6(_))) { 128 } else { 32 };
        let prefix = bits.map_or(Ok(width), str::parse::<u8>);
        let quoted = cx.quote(text);
        let problem = match (parsed, prefix) {
            (Ok(address), Ok(prefix)) => match Cidr::new(address, prefix) {
                Some(cidr) if cidr.address == address => return Some(cidr),
                Some(cidr) => cx
                    .wrong(item.span, &format!("is {quoted}, with bits set after the first {prefix}"))
                    .help(format!("write \"{cidr}\" for the block, or \"{address}\" for the single address")),
                None => cx.wrong(item.span, &format!("is {quoted}, but this address has only {width} bits")),
            },
            (Ok(_), Err(_)) => {
                cx.wrong(item.span, &format!("is {quoted}, with no number of bits after the slash"))
            }
            (Err(_), _) => cx.wrong(item.span, &format!("is {quoted}, which is not an IP address")),
        };
        problem.reject(cx)
    }
}
