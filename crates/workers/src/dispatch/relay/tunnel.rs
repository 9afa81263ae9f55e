//! After `101`: bytes both ways, until both sides have ended, nothing has moved for long, or the worker is to go.

use std::task::{Context, Poll};

use keepwarm_serve::TunnelEnd;

use super::super::call::Item;
use super::worker_request::WorkerRequest;
use super::{AttemptResult, Dialect};

impl<C: Dialect> WorkerRequest<'_, '_, '_, C> {
    pub(super) fn poll_tunnel(&mut self, cx: &mut Context<'_>) -> Poll<AttemptResult> {
        // All that is there: an item is announced only to whom the call was empty.
        while let Poll::Ready(item) = self.relay.call.poll_item(cx) {
            // It can be said in no protocol that is not known.
            if matches!(item, Item::Goodbye) {
                self.relay.exchange.request_mut().notes.reason.get_or_insert("drained");
                return Poll::Ready(AttemptResult::Over);
            }
        }
        let Some(lease) = &mut self.lease else { return Poll::Ready(AttemptResult::Over) };
        Poll::Ready(match std::task::ready!(self.side.poll_tunnel(cx, self.relay.exchange, &mut **lease)) {
            TunnelEnd::ClientLost(gone) => self.client_gone(gone),
            TunnelEnd::Over | TunnelEnd::Idle => AttemptResult::Over,
        })
    }
}
