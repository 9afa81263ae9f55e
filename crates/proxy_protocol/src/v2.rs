//! Version 2 (§2.2): binary, with TLVs after the addresses.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::checksum::crc32c;
use crate::{Decoded, HeaderFault, MAX_V2, ProxiedAddresses, ProxyHeader};

pub(crate) const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// The signature, version and command, family and protocol, and the length of the rest.
pub(crate) const FIXED: usize = 16;
/// Bytes of a path in a Unix address.
pub(crate) const UNIX_PATH: usize = 108;

pub(crate) const LOCAL: u8 = 0x20;
pub(crate) const PROXY: u8 = 0x21;

pub(crate) const UNSPECIFIED: u8 = 0x00;
pub(crate) const TCP_V4: u8 = 0x11;
pub(crate) const TCP_V6: u8 = 0x21;
pub(crate) const UNIX_STREAM: u8 = 0x31;

pub(crate) const TLV_ALPN: u8 = 0x01;
pub(crate) const TLV_AUTHORITY: u8 = 0x02;
pub(crate) const TLV_CRC32C: u8 = 0x03;
pub(crate) const TLV_SSL: u8 = 0x20;
pub(crate) const CLIENT_SSL: u8 = 0x01;
pub(crate) const CLIENT_CERT_CONN: u8 = 0x02;
pub(crate) const SUBTYPE_SSL_VERSION: u8 = 0x21;

pub(crate) fn decode(bytes: &[u8]) -> Result<Decoded, HeaderFault> {
    let Some((fixed, rest)) = bytes.split_first_chunk::<FIXED>() else {
        return Ok(Decoded::NeedMore(FIXED - bytes.len()));
    };
    let [.., version_and_command, family, high, low] = *fixed;
    let length = usize::from(u16::from_be_bytes([high, low]));
    if version_and_command >> 4 != 2 {
        return Err(HeaderFault::Version);
    }
    if !matches!(version_and_command, LOCAL | PROXY) {
        return Err(HeaderFault::Command);
    }
    if FIXED + length > MAX_V2 {
        return Err(HeaderFault::TooLong);
    }
    let Some(block) = rest.get(..length) else {
        return Ok(Decoded::NeedMore(length - rest.len()));
    };
    let header = match version_and_command {
        // "The receiver must […] discard the protocol block including the family which is ignored."
        LOCAL => ProxyHeader { addresses: ProxiedAddresses::Local, tls: false },
        _ => proxied(family, fixed, block)?,
    };
    Ok(Decoded::Complete(header, FIXED + length))
}

fn proxied(family: u8, fixed: &[u8; FIXED], block: &[u8]) -> Result<ProxyHeader, HeaderFault> {
    let truncated = HeaderFault::Addresses;
    let (addresses, tlvs) = match family {
        // The length of an address that is not specified is not either: nothing after it can be found.
        UNSPECIFIED => (ProxiedAddresses::Unspecified, [].as_slice()),
        TCP_V4 => {
            let (block, tlvs) = block.split_first_chunk::<12>().ok_or(truncated)?;
            (tcp_v4(block), tlvs)
        }
        TCP_V6 => {
            let (block, tlvs) = block.split_first_chunk::<36>().ok_or(truncated)?;
            (tcp_v6(block).ok_or(truncated)?, tlvs)
        }
        UNIX_STREAM => {
            let (source, rest) = block.split_first_chunk::<UNIX_PATH>().ok_or(truncated)?;
            let (destination, tlvs) = rest.split_first_chunk::<UNIX_PATH>().ok_or(truncated)?;
            (ProxiedAddresses::Unix { source: path(source), destination: path(destination) }, tlvs)
        }
        // Datagrams are not accepted by a listener of streams; "other values […] must be rejected as invalid by receivers".
        _ => return Err(HeaderFault::Family),
    };
    let before = block.get(..block.len() - tlvs.len()).unwrap_or_default();
    let tls = read_tlvs(tlvs, &[fixed, before])?;
    Ok(ProxyHeader { addresses, tls })
}

fn tcp_v4(block: &[u8; 12]) -> ProxiedAddresses {
    let [a, b, c, d, e, f, g, h, source_high, source_low, high, low] = *block;
    ProxiedAddresses::Tcp {
        source: (Ipv4Addr::new(a, b, c, d), u16::from_be_bytes([source_high, source_low])).into(),
        destination: (Ipv4Addr::new(e, f, g, h), u16::from_be_bytes([high, low])).into(),
    }
}

fn tcp_v6(block: &[u8; 36]) -> Option<ProxiedAddresses> {
    let (source, rest) = block.split_first_chunk::<16>()?;
    let (destination, ports) = rest.split_first_chunk::<16>()?;
    let (source_port, rest) = ports.split_first_chunk::<2>()?;
    let (port, _) = rest.split_first_chunk::<2>()?;
    let end = |address: &[u8; 16], port: &[u8; 2]| {
        SocketAddr::from((Ipv6Addr::from(*address), u16::from_be_bytes(*port)))
    };
    Some(ProxiedAddresses::Tcp { source: end(source, source_port), destination: end(destination, port) })
}

/// A path up to its padding. An abstract one begins with a NUL: what it is cannot be told from an empty one, and nobody uses it.
fn path(bytes: &[u8; UNIX_PATH]) -> Vec<u8> {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default().to_vec()
}

/// Reads the TLVs after `before`, of which only two matter here: the checksum, which is verified, and whether the client used TLS.
fn read_tlvs(tlvs: &[u8], before: &[&[u8]]) -> Result<bool, HeaderFault> {
    let mut tls = false;
    let mut rest = tlvs;
    while !rest.is_empty() {
        let ([kind, high, low], after) = rest.split_first_chunk::<3>().ok_or(HeaderFault::Tlv)?;
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let (value, next) = after.split_at_checked(length).ok_or(HeaderFault::Tlv)?;
        match *kind {
            TLV_CRC32C => {
                let sum = value.try_into().map(u32::from_be_bytes).map_err(|_| HeaderFault::Tlv)?;
                // Over the whole header, with the field itself as zeroes (§2.2.3).
                let until = tlvs.get(..tlvs.len() - next.len() - value.len()).unwrap_or_default();
                let parts = before.iter().copied().chain([until, &[0; 4], next]);
                if crc32c(parts) != sum {
                    return Err(HeaderFault::Checksum);
                }
            }
            TLV_SSL => tls = value.first().is_some_and(|client| client & CLIENT_SSL != 0),
            _ => {}
        }
        rest = next;
    }
    Ok(tls)
}
