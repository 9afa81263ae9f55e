use std::io::Write;
use std::net::{IpAddr, SocketAddr};

use crate::checksum::crc32c;
use crate::v2::{
    CLIENT_CERT_CONN, CLIENT_SSL, FIXED, LOCAL, PROXY, SIGNATURE, SUBTYPE_SSL_VERSION, TCP_V4, TCP_V6,
    TLV_ALPN, TLV_AUTHORITY, TLV_CRC32C, TLV_SSL, UNIX_PATH, UNIX_STREAM, UNSPECIFIED,
};
use crate::{MAX_V1, ProxiedAddresses};

/// Appends a header of version 1. It has no word for `LOCAL` and Unix sockets: both are `UNKNOWN`, which receivers treat alike.
pub fn encode_v1(addresses: &ProxiedAddresses, out: &mut Vec<u8>) {
    out.reserve(MAX_V1);
    let ProxiedAddresses::Tcp { source, destination } = addresses else {
        return out.extend_from_slice(b"PROXY UNKNOWN\r\n");
    };
    let (from, to) = same_family(*source, *destination);
    let family = if from.is_ipv4() { "TCP4" } else { "TCP6" };
    // Writing into memory cannot fail.
    let _ = write!(out, "PROXY {family} {} {} {} {}\r\n", from.ip(), to.ip(), from.port(), to.port());
}

/// Appends a header of version 2, with a CRC32c if `checksum`.
pub fn encode_v2(addresses: &ProxiedAddresses, checksum: bool, out: &mut Vec<u8>) {
    encode_v2_with(addresses, &ClientTls::default(), checksum, out);
}

/// What is known of a client's TLS towards the proxy, for TLVs of version 2 (§2.2). All of it is optional.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClientTls<'a> {
    /// The protocol above TLS (`PP2_TYPE_ALPN`).
    pub alpn: Option<&'a [u8]>,
    /// The requested host name, SNI (`PP2_TYPE_AUTHORITY`).
    pub server_name: Option<&'a [u8]>,
    /// The version of TLS, such as `TLSv1.3` (`PP2_SUBTYPE_SSL_VERSION` in `PP2_TYPE_SSL`). `None`: plaintext.
    pub version: Option<&'a [u8]>,
    /// The client has presented a certificate on this connection, and it was verified.
    pub has_certificate: bool,
}

impl ClientTls<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        let tlvs = [(TLV_ALPN, self.alpn), (TLV_AUTHORITY, self.server_name)];
        for (kind, value) in tlvs {
            value.into_iter().for_each(|value| encode_tlv(kind, &[value], out));
        }
        let Some(version) = self.version else { return };
        let flags = if self.has_certificate { CLIENT_SSL | CLIENT_CERT_CONN } else { CLIENT_SSL };
        // §2.2.6: 0 is for a certificate that was presented and verified.
        let verify = u32::from(!self.has_certificate).to_be_bytes();
        let mut inner = Vec::new();
        encode_tlv(SUBTYPE_SSL_VERSION, &[version], &mut inner);
        encode_tlv(TLV_SSL, &[&[flags], &verify, &inner], out);
    }
}

/// A value that does not fit its length is left out: that is longer than any of these may be.
fn encode_tlv(kind: u8, parts: &[&[u8]], out: &mut Vec<u8>) {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let Ok(length) = u16::try_from(length) else { return };
    out.push(kind);
    out.extend_from_slice(&length.to_be_bytes());
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

/// Appends a header of version 2 with what is known of the client's TLS, and with a CRC32c if `checksum`.
pub fn encode_v2_with(addresses: &ProxiedAddresses, tls: &ClientTls<'_>, checksum: bool, out: &mut Vec<u8>) {
    let begin = out.len();
    out.reserve(FIXED + 2 * UNIX_PATH + 7);
    out.extend_from_slice(SIGNATURE);
    let (command, family) = match addresses {
        ProxiedAddresses::Local => (LOCAL, UNSPECIFIED),
        ProxiedAddresses::Unspecified => (PROXY, UNSPECIFIED),
        ProxiedAddresses::Tcp { source, destination } => match same_family(*source, *destination).0 {
            SocketAddr::V4(_) => (PROXY, TCP_V4),
            SocketAddr::V6(_) => (PROXY, TCP_V6),
        },
        ProxiedAddresses::Unix { .. } => (PROXY, UNIX_STREAM),
    };
    out.extend_from_slice(&[command, family, 0, 0]);
    match addresses {
        ProxiedAddresses::Local | ProxiedAddresses::Unspecified => {}
        ProxiedAddresses::Tcp { source, destination } => {
            let (from, to) = same_family(*source, *destination);
            for end in [from, to] {
                match end.ip() {
                    IpAddr::V4(v4) => out.extend_from_slice(&v4.octets()),
                    IpAddr::V6(v6) => out.extend_from_slice(&v6.octets()),
                }
            }
            out.extend_from_slice(&from.port().to_be_bytes());
            out.extend_from_slice(&to.port().to_be_bytes());
        }
        ProxiedAddresses::Unix { source, destination } => {
            for path in [source, destination] {
                let end = out.len() + UNIX_PATH;
                out.extend(path.iter().take(UNIX_PATH));
                out.resize(end, 0);
            }
        }
    }
    tls.encode(out);
    if checksum {
        out.extend_from_slice(&[TLV_CRC32C, 0, 4, 0, 0, 0, 0]);
    }
    let length = u16::try_from(out.len() - begin - FIXED).unwrap_or(u16::MAX).to_be_bytes();
    if let Some(field) = out.get_mut(begin + FIXED - 2..begin + FIXED) {
        field.copy_from_slice(&length);
    }
    if checksum {
        let sum = crc32c([out.get(begin..).unwrap_or_default()]).to_be_bytes();
        let end = out.len();
        if let Some(field) = out.get_mut(end - 4..) {
            field.copy_from_slice(&sum);
        }
    }
}

/// A header has one family. An IPv4 address beside an IPv6 one is written as the v4-mapped address (RFC 4291 §2.5.5.2).
fn same_family(source: SocketAddr, destination: SocketAddr) -> (SocketAddr, SocketAddr) {
    let plain = |end: SocketAddr| SocketAddr::new(end.ip().to_canonical(), end.port());
    let mapped = |end: SocketAddr| match end.ip() {
        IpAddr::V4(v4) => SocketAddr::from((v4.to_ipv6_mapped(), end.port())),
        IpAddr::V6(v6) => SocketAddr::from((v6, end.port())),
    };
    let (from, to) = (plain(source), plain(destination));
    match from.is_ipv4() == to.is_ipv4() {
        true => (from, to),
        false => (mapped(from), mapped(to)),
    }
}
