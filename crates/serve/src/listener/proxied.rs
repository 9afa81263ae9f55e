//! Connections that begin with a PROXY header, which names the client behind a proxy (`crates/proxy_protocol`).
//!
//! Every connection of such a listener must begin with one: the protocol does not allow a receiver to guess (§2). So a peer that is not
//! a trusted proxy has no business there, and is closed; so is a trusted one without a valid header. Exactly the header is read: what
//! follows it, TLS or HTTP, stays in the socket.

use std::future::poll_fn;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Mutex;
use std::task::Poll;

use keepwarm_net::{Deadlines, Io, Scheme, WaitKind, now};
use keepwarm_proxy_protocol::{Decoded, HeaderFault, ProxiedAddresses, ProxyHeader, decode};
use keepwarm_telemetry::counters;
use tokio::time::Instant;

use super::open::{ConnectionGuard, begins};
use super::{Ends, ListenerContext};
use crate::{Cidr, LocalAddress};

/// The proxies whose PROXY headers a listener accepts.
#[derive(Debug)]
pub struct ProxyProtocol {
    trusted: Vec<Cidr>,
    /// When a connection was last closed for its header.
    rejected_at: Mutex<Option<Instant>>,
}

impl ProxyProtocol {
    /// Accepts the headers of peers in `trusted`; a peer on a Unix socket counts as 127.0.0.1.
    #[must_use]
    pub fn from_peers(trusted: Vec<Cidr>) -> Self {
        Self { trusted, rejected_at: Mutex::default() }
    }

    /// The two ends as the header at the beginning of a connection names them. `None`: the connection must be closed, which is logged and
    /// counted. `place` gets the client's address for the limit of connections per client.
    pub(super) async fn receive(
        &self,
        io: &mut Io,
        ends: Ends,
        place: &mut ConnectionGuard,
        context: &ListenerContext,
    ) -> Option<Ends> {
        let peer = ends.client.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |peer| peer.ip().to_canonical());
        let header = match Cidr::any_contains(&self.trusted, peer) {
            false => Err(Rejection::UntrustedPeer),
            true => read_header(io, context).await,
        };
        let ends = match header {
            Ok(header) => ends.seen_by_proxy(header),
            Err(rejection) => {
                self.note(rejection, peer, context);
                return None;
            }
        };
        let client = ends.client.map(|client| client.ip());
        let limit = context.limits.per_client;
        if !place.count_client(client, limit) {
            if let Some(client) = client {
                context.open.note_refused(client, limit, &context.meter.name);
            }
            return None;
        }
        Some(ends)
    }

    fn note(&self, rejection: Rejection, peer: IpAddr, context: &ListenerContext) {
        let (reason, fault) = match rejection {
            // A check of a port, or the process ends: nobody tried to be a client.
            Rejection::ClosedBefore | Rejection::AskedToLeave => return,
            Rejection::UntrustedPeer => ("untrusted_peer", "the peer is not in server.trusted_proxies"),
            Rejection::Late => ("timeout", "no complete header within limits.head_timeout"),
            Rejection::BrokenOff => ("incomplete", "the peer closed the connection within the header"),
            Rejection::Fault(HeaderFault::Missing) => ("missing", HeaderFault::Missing.text()),
            Rejection::Fault(fault) => ("invalid", fault.text()),
        };
        let listener = &*context.meter.name;
        counters::PROXY_HEADERS_REJECTED.count(listener, reason);
        if begins(&self.rejected_at) {
            tracing::warn!(
                name: "proxy_header_rejected",
                listener, %peer, reason, fault,
                "connections closed for their PROXY header; logged once until none was for 60 s, \
                 keepwarm_proxy_headers_rejected_total counts them; make the proxy send the PROXY protocol, and add its address to \
                 server.trusted_proxies; for clients that come directly, use another listener"
            );
        }
    }
}

impl Ends {
    /// The ends of the client's connection to the proxy, as far as its header names them.
    fn seen_by_proxy(self, header: ProxyHeader) -> Self {
        let scheme = if header.tls { Scheme::Https } else { self.scheme };
        match header.addresses {
            ProxiedAddresses::Tcp { source, destination } => {
                Self { client: Some(source), local: LocalAddress::Tcp(destination), scheme }
            }
            // Another machine's path names no client, and must not count as one of ours: the proxy's address stands for it.
            ProxiedAddresses::Local | ProxiedAddresses::Unspecified | ProxiedAddresses::Unix { .. } => {
                Self { scheme, ..self }
            }
        }
    }
}

/// Why a connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rejection {
    UntrustedPeer,
    Fault(HeaderFault),
    Late,
    /// The peer left before the first byte.
    ClosedBefore,
    BrokenOff,
    /// Idle, and the process drains or needs the room.
    AskedToLeave,
}

/// Reads exactly the header.
async fn read_header(io: &mut Io, context: &ListenerContext) -> Result<ProxyHeader, Rejection> {
    let mut activity = context.open.track();
    activity.set_idle(now(), false);
    let deadlines = Deadlines::new();
    deadlines.set_after(WaitKind::Read, context.limits.head_timeout);
    let mut held = Vec::new();
    loop {
        let more = match decode(&held).map_err(Rejection::Fault)? {
            Decoded::Complete(header, _) => return Ok(header),
            Decoded::NeedMore(more) => more,
        };
        // A vector from a box has its length as its capacity, and so room for no byte after the header.
        let mut piece = vec![0_u8; more].into_boxed_slice().into_vec();
        piece.clear();
        let got = poll_fn(|cx| {
            if let Poll::Ready(got) = io.poll_read(cx, &mut piece) {
                return Poll::Ready(got.map_err(|_| Rejection::BrokenOff));
            }
            if deadlines.poll_passed(WaitKind::Read, cx) {
                return Poll::Ready(Err(Rejection::Late));
            }
            match held.is_empty() && activity.poll_leave(cx) {
                true => Poll::Ready(Err(Rejection::AskedToLeave)),
                false => Poll::Pending,
            }
        })
        .await?;
        match got {
            0 if held.is_empty() => return Err(Rejection::ClosedBefore),
            0 => return Err(Rejection::BrokenOff),
            _ => held.append(&mut piece),
        }
    }
}

#[cfg(test)]
mod tests;
