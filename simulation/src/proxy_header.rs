//! PROXY headers (haproxy's proxy-protocol.txt), as a proxy sends them and a server reads them. Shares no code with Keepwarm.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use keepwarm_net::simulation::{Peer, Rng};

use crate::pattern;

/// How a proxy names its clients.
#[derive(Debug, Clone)]
pub(crate) struct HeaderPlan {
    /// Version 1, which is text, in place of 2.
    text: bool,
    /// It names nobody: the connection is the proxy's own.
    own: bool,
    v6: bool,
    /// Bytes of a field behind the addresses: version 2.
    extra: Option<usize>,
    /// Bytes in one write, and the time until the next.
    piece: usize,
    pause: Duration,
}

/// The client of a header.
pub(crate) enum Named {
    Client(IpAddr),
    Nobody,
}

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
const PORTS: (u16, u16) = (4711, 443);

impl HeaderPlan {
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        Self {
            text: rng.chance(500),
            own: rng.chance(200),
            v6: rng.chance(300),
            extra: rng.chance(400).then(|| rng.size(1000)),
            piece: *rng.pick(&[1, 5, 100, usize::MAX]),
            pause: Duration::from_millis(*rng.pick(&[0, 0, 1, 20])),
        }
    }

    /// `false`: it was so.
    pub(crate) fn becomes_plain(&mut self) -> bool {
        self.extra = None;
        std::mem::replace(&mut self.piece, usize::MAX) != usize::MAX
    }

    /// The client that the header of this connection names.
    pub(crate) fn names(&self, number: usize) -> Named {
        let last = 1 + number as u8;
        match (self.own, self.v6) {
            (true, _) => Named::Nobody,
            (false, false) => Named::Client(Ipv4Addr::new(198, 51, 100, last).into()),
            (false, true) => Named::Client(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last.into()).into()),
        }
    }

    /// Its header.
    pub(crate) fn bytes(&self, number: usize) -> Vec<u8> {
        if self.text {
            return self.line(number).into_bytes();
        }
        let mut addresses = Vec::new();
        let family = match self.names(number) {
            Named::Nobody => 0x00,
            Named::Client(IpAddr::V4(client)) => {
                addresses.extend_from_slice(&client.octets());
                addresses.extend_from_slice(&[192, 0, 2, 10]);
                0x11
            }
            Named::Client(IpAddr::V6(client)) => {
                addresses.extend_from_slice(&client.octets());
                addresses.extend_from_slice(&Ipv6Addr::LOCALHOST.octets());
                0x21
            }
        };
        if !self.own {
            addresses.extend_from_slice(&PORTS.0.to_be_bytes());
            addresses.extend_from_slice(&PORTS.1.to_be_bytes());
        }
        if let Some(size) = self.extra {
            // PP2_TYPE_NOOP: to be ignored.
            addresses.push(0x04);
            addresses.extend_from_slice(&(size as u16).to_be_bytes());
            addresses.extend(pattern::bytes(number as u64, 0, size));
        }
        let command = if self.own { 0x20 } else { 0x21 };
        let mut bytes = [SIGNATURE, &[command, family]].concat();
        bytes.extend_from_slice(&(addresses.len() as u16).to_be_bytes());
        bytes.extend(addresses);
        bytes
    }

    fn line(&self, number: usize) -> String {
        let (family, client, server) = match self.names(number) {
            Named::Nobody => return "PROXY UNKNOWN\r\n".to_owned(),
            Named::Client(client @ IpAddr::V4(_)) => ("TCP4", client, "192.0.2.10"),
            Named::Client(client) => ("TCP6", client, "::1"),
        };
        format!("PROXY {family} {client} {server} {} {}\r\n", PORTS.0, PORTS.1)
    }

    /// Sends it.
    pub(crate) async fn send(&self, peer: &Peer, number: usize) -> io::Result<()> {
        for piece in self.bytes(number).chunks(self.piece) {
            peer.write(piece).await?;
            if self.piece < usize::MAX {
                tokio::time::sleep(self.pause).await;
            }
        }
        Ok(())
    }
}
