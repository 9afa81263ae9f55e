//! After `101`: bytes both ways, until both sides have ended, nothing has moved for long, or the worker is to go.

use std::task::{Context, Poll};

use keepwarm_serve::TunnelEnd;

use super::super::call::Item;
use super::worker_request::WorkerRequest;
use super::{AttemptResult, Dialect};

impl<C: Dialect> WorkerRequest<'_, '_, '_, C> {
    pub(super) fn poll_tunnel(&mut self, cx: &mut Context<'_>) -> Poll<AttemptResult> {
        // Until it is empty: an item wakes the task only if the call was empty before.
        while let Poll::Ready(item) = self.relay.call.poll_item(cx) {
            // An unknown protocol has no close message.
            if matches!(item, Item::Goodbye) {
                self.relay.exchange.request_mut().notes.reason.get_or_insert("drained");
                return Poll::Ready(AttemptResult::Over);
            }
        }
        let Some(lease) = &mut self.lease else { return Poll::Ready(AttemptResult::Over) };
        Poll::Ready(match std::task::ready!(self.side.poll_tunnel(cx, self.relay.exchange, lease)) {
            TunnelEnd::ClientLost(gone) => self.client_gone(gone),
            TunnelEnd::Over | TunnelEnd::Idle => AttemptResult::Over,
        })
    }
}
