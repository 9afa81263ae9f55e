//! After `101`: bytes both ways, until both sides have ended or nothing has moved for long.

use std::task::{Context, Poll};
use std::time::Duration;

use keepwarm_http1::{BadField, Fields, HopByHop, ResponseHead};
use keepwarm_net::{Exchange, Wait};

use super::super::call::Item;
use super::talk::{Talk, UNSENT_ENOUGH};
use super::{Dialect, Verdict};

/// A connection that has become another protocol's.
pub(super) struct Tunnel {
    client_ended: bool,
    server_ended: bool,
    /// The server was told of the client's end.
    told: bool,
    idle: Duration,
}

impl Tunnel {
    /// The server has switched to a protocol that its client offered.
    pub(super) fn begin(exchange: &mut Exchange<'_>, head: &ResponseHead) -> Result<Self, BadField> {
        let hop_by_hop = HopByHop::of(&head.fields);
        let mut fields = Fields::new();
        let kept = head.fields.iter().filter(|(name, _)| !hop_by_hop.removes(name));
        kept.for_each(|(name, value)| fields.push(name, value));
        let protocol = head.fields.first("upgrade").unwrap_or(b"websocket");
        exchange.begin_tunnel(protocol, &fields)?;
        let idle = exchange.limits().websocket.idle;
        exchange.deadlines().set_after(Wait::Answer, idle);
        Ok(Self { client_ended: false, server_ended: false, told: false, idle })
    }
}

impl<C: Dialect> Talk<'_, '_, '_, C> {
    pub(super) fn poll_tunnel(&mut self, cx: &mut Context<'_>) -> Poll<Verdict> {
        loop {
            let moved = self.poll_downwards(cx) | self.poll_upwards(cx);
            // It can be said in no protocol that is not known.
            if let Poll::Ready(Item::Goodbye) = self.relay.call.poll_item(cx) {
                self.relay.exchange.request_mut().reason.get_or_insert("drained");
                return Poll::Ready(Verdict::Over);
            }
            let (Some(tunnel), exchange) = (&self.tunnel, &mut *self.relay.exchange) else {
                return Poll::Ready(Verdict::Over);
            };
            let flushed = match exchange.poll_flush(cx) {
                Poll::Ready(Err(gone)) => return self.client_gone(gone),
                flushed => flushed.is_ready(),
            };
            if tunnel.server_ended && flushed {
                return Poll::Ready(Verdict::Over);
            }
            if moved {
                exchange.deadlines().set_after(Wait::Answer, tunnel.idle);
                continue;
            }
            if exchange.deadlines().poll_passed(Wait::Answer, cx) {
                exchange.request_mut().reason.get_or_insert("tunnel_idle");
                return Poll::Ready(Verdict::Over);
            }
            return Poll::Pending;
        }
    }

    /// From the server to the client. `true`: something moved.
    fn poll_downwards(&mut self, cx: &mut Context<'_>) -> bool {
        let (Some(tunnel), Some(lease)) = (&mut self.tunnel, &mut self.lease) else { return false };
        if tunnel.server_ended || self.relay.exchange.unsent() >= UNSENT_ENOUGH {
            return false;
        }
        match lease.poll_tunnel(cx) {
            Poll::Ready(Ok(bytes)) if !bytes.is_empty() => self.relay.exchange.send_tunnel(bytes),
            Poll::Ready(_) => tunnel.server_ended = true,
            Poll::Pending => return false,
        }
        true
    }

    /// From the client to the server. `true`: something moved.
    fn poll_upwards(&mut self, cx: &mut Context<'_>) -> bool {
        let (Some(tunnel), Some(lease)) = (&mut self.tunnel, &mut self.lease) else { return false };
        let mut moved = false;
        if !tunnel.client_ended && lease.unsent() < UNSENT_ENOUGH {
            let mut bytes = Vec::new();
            match self.relay.exchange.poll_tunnel(cx, &mut bytes) {
                Poll::Ready(Ok(1..)) => lease.send_tunnel(&bytes),
                Poll::Ready(Ok(0) | Err(_)) => tunnel.client_ended = true,
                Poll::Pending => {}
            }
            moved = !bytes.is_empty() || tunnel.client_ended;
        }
        if lease.poll_flush(cx).is_ready() && tunnel.client_ended && !tunnel.told {
            tunnel.told = true;
            lease.shutdown_write();
        }
        moved
    }
}
