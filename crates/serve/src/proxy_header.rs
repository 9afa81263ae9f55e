//! PROXY headers for servers: which client a connection is for.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use keepwarm_proxy_protocol::{ClientTls, ProxiedAddresses, encode_v1, encode_v2, encode_v2_with};

use crate::Request;

/// Which version of the PROXY protocol a server gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProxyVersion {
    /// A line of text: the addresses.
    V1,
    /// Binary: the addresses, and what is known of the client's TLS.
    V2,
}

impl ProxyVersion {
    /// The header of a connection for the client of this request. Its address is the one in the logs: what a trusted proxy in front says, else its own.
    #[must_use]
    pub fn header(self, request: &Request) -> Vec<u8> {
        let (addresses, mut out) = (addresses(request), Vec::new());
        match self {
            Self::V1 => encode_v1(&addresses, &mut out),
            Self::V2 => encode_v2_with(&addresses, &client_tls(request), false, &mut out),
        }
        out
    }

    /// The header of a connection for no client: `LOCAL`, and `UNKNOWN` in version 1, which has no other word.
    #[must_use]
    pub fn own_header(self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::V1 => encode_v1(&ProxiedAddresses::Local, &mut out),
            Self::V2 => encode_v2(&ProxiedAddresses::Local, false, &mut out),
        }
        out
    }
}

/// The two ends of the client's connection. A port that is not known is 0.
fn addresses(request: &Request) -> ProxiedAddresses {
    let peer = request.peer();
    let Some(client) = request.client_address() else { return ProxiedAddresses::Unspecified };
    let own = peer.client.filter(|own| own.ip().to_canonical() == client);
    let source = SocketAddr::new(client, own.map_or(0, |own| own.port()));
    let nowhere = match client.is_ipv4() {
        true => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        false => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    ProxiedAddresses::Tcp { source, destination: peer.local.unwrap_or(nowhere) }
}

fn client_tls(request: &Request) -> ClientTls<'_> {
    let Some(tls) = &request.peer().tls else { return ClientTls::default() };
    ClientTls {
        alpn: tls.http2.then_some(b"h2".as_slice()),
        server_name: tls.server_name.as_deref().map(str::as_bytes),
        version: Some(tls.version.as_bytes()),
        has_certificate: tls.client.is_some(),
    }
}
