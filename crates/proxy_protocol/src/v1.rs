//! Version 1 (§2.1): a line of text.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::{Decoded, HeaderFault, MAX_V1, ProxiedAddresses, ProxyHeader};

pub(crate) const SIGNATURE: &[u8] = b"PROXY ";
/// `PROXY UNKNOWN` and CRLF.
pub(crate) const SHORTEST: usize = 15;

pub(crate) fn decode(bytes: &[u8]) -> Result<Decoded, HeaderFault> {
    let line = bytes.get(..MAX_V1).unwrap_or(bytes);
    let end = line.windows(2).position(|pair| pair == b"\r\n");
    // A bare CR or LF cannot be part of a line; a CR at the end may be half of its CRLF.
    let before = line.get(..end.unwrap_or(line.len())).unwrap_or_default();
    let before = if end.is_none() { before.strip_suffix(b"\r").unwrap_or(before) } else { before };
    if before.iter().any(|byte| matches!(byte, b'\r' | b'\n')) {
        return Err(HeaderFault::Line);
    }
    let Some(end) = end else {
        if bytes.len() >= MAX_V1 {
            return Err(HeaderFault::TooLong);
        }
        return Ok(Decoded::NeedMore(missing(bytes).min(MAX_V1 - bytes.len())));
    };
    let text = line.get(..end).and_then(|text| std::str::from_utf8(text).ok()).ok_or(HeaderFault::Line)?;
    let addresses = addresses(text).ok_or(HeaderFault::Line)?;
    Ok(Decoded::Complete(ProxyHeader { addresses, tls: false }, end + 2))
}

/// A lower bound for the bytes that a line without its CRLF still needs. Never 0.
fn missing(bytes: &[u8]) -> usize {
    if bytes.len() < SHORTEST - 2 {
        return SHORTEST - bytes.len();
    }
    match bytes {
        [.., b'\r'] => 1,
        // Each of the five spaces is followed by at least one byte.
        [b'P', b'R', b'O', b'X', b'Y', b' ', b'T', ..] => {
            let spaces = bytes.iter().filter(|&&byte| byte == b' ').count();
            5_usize.saturating_sub(spaces) * 2 + usize::from(bytes.ends_with(b" ")) + 2
        }
        _ => 2,
    }
}

fn addresses(line: &str) -> Option<ProxiedAddresses> {
    let rest = line.strip_prefix("PROXY ")?;
    if rest == "UNKNOWN" || rest.starts_with("UNKNOWN ") {
        // Whatever follows is ignored.
        return Some(ProxiedAddresses::Unspecified);
    }
    let mut words = rest.split(' ');
    let [family, source, destination, source_port, destination_port] =
        std::array::from_fn(|_| words.next().unwrap_or_default());
    if words.next().is_some() {
        return None;
    }
    let ports = (port(source_port)?, port(destination_port)?);
    let (source, destination) = match family {
        "TCP4" => (
            SocketAddr::from((source.parse::<Ipv4Addr>().ok()?, ports.0)),
            SocketAddr::from((destination.parse::<Ipv4Addr>().ok()?, ports.1)),
        ),
        "TCP6" => (
            SocketAddr::from((source.parse::<Ipv6Addr>().ok()?, ports.0)),
            SocketAddr::from((destination.parse::<Ipv6Addr>().ok()?, ports.1)),
        ),
        _ => return None,
    };
    Some(ProxiedAddresses::Tcp { source, destination })
}

/// 0 to 65535 in decimal, without leading zeroes.
fn port(text: &str) -> Option<u16> {
    let is_canonical = text == "0" || text.starts_with(|first: char| matches!(first, '1'..='9'));
    text.parse().ok().filter(|_| is_canonical)
}
