//! Giving a worker its next request.

use std::sync::Arc;

use keepwarm_net::Socket;
use keepwarm_wire::frame::{ResetCode, clear_frame_flags, flags, frame_flags, set_frame_stream};

use super::Link;
use crate::dispatch::call::{Call, Item};
use crate::dispatch::kind::{LinkKind, RequestKind};
use crate::dispatch::queue::QueuedRequest;
use crate::supervisor::LinkEvent;

impl Link {
    /// Gives it a request, for which the caller has taken a place.
    pub(in crate::dispatch) fn give(self: &Arc<Self>, request: QueuedRequest) {
        let QueuedRequest { call, kind, .. } = request;
        match (&self.kind, kind) {
            (LinkKind::Wire(socket), RequestKind::Wire(frame)) => self.send(socket, call, frame),
            (LinkKind::Server(_) | LinkKind::External(_), RequestKind::Server) => self.offer(&call),
            // The last reload has made another kind of app of it.
            (LinkKind::Wire(_), RequestKind::Server)
            | (LinkKind::Server(_) | LinkKind::External(_), RequestKind::Wire(_)) => self.refuse(&call),
        }
    }

    /// Sends a REQUEST.
    fn send(self: &Arc<Self>, socket: &Socket, call: Arc<Call>, mut frame: Vec<u8>) {
        let mut websocket = frame_flags(&frame) & flags::WEBSOCKET != 0;
        if websocket && self.app.upgrade().is_none_or(|app| !app.takes_websockets()) {
            // It gets the opening as the plain request that it also is.
            websocket = false;
            clear_frame_flags(&mut frame, flags::WEBSOCKET);
        }
        // It was encoded before the app's first worker was ready. Without its user it would be another request.
        if frame_flags(&frame) & flags::USER != 0 && self.app.upgrade().is_none_or(|app| !app.takes_user()) {
            return self.refuse(&call);
        }
        let mut inner = self.lock();
        if websocket && inner.leaks.is_some() {
            // It may stay open for hours, in which the worker would take nothing else.
            inner.end_leaks(Some(socket));
        }
        let stream = match websocket {
            true => inner.session.open_websocket(),
            false => inner.session.open(),
        };
        let Some(stream) = stream.filter(|_| !inner.dead) else {
            let dead = inner.dead;
            drop(inner);
            call.keep_frame(frame);
            call.put(Item::Lost { unprocessed: true, kill_reason: None });
            if !dead {
                self.take_no_more();
            }
            return;
        };
        set_frame_stream(&mut frame, stream);
        if let Some(leaks) = &mut inner.leaks {
            leaks.begin(stream);
        }
        if !call.give_to(self, stream) {
            // Its client left between the queue and here. The place is taken: it is free when the worker has let go of the stream.
            inner.session.reset(stream, ResetCode::CANCELLED, "the client has gone", &mut frame);
            inner.write(Some(socket), &frame);
            return;
        }
        if !inner.in_order || (inner.session.open_streams() == 1 && inner.post_response.is_none()) {
            call.begin_work(|| inner.usage());
        }
        inner.taken += 1;
        inner.calls.insert(stream, Arc::clone(&call));
        inner.write(Some(socket), &frame);
        inner.last_written = Some(stream);
        drop(inner);
        if frame_flags(&frame) & flags::END == 0 || call.is_half_closed() {
            // It may have waited in the queue; the rest of its body can come now, or the word that its client sends no more.
            call.wake();
        }
        call.keep_frame(frame);
        if self.requests.count() {
            self.report(LinkEvent::RequestsReached { worker: self.key.clone() });
        }
    }

    /// A place was taken, and the worker takes no request: its DRAIN has crossed, or it has used up its stream ids. The place is free again, and the last of all.
    fn take_no_more(self: &Arc<Self>) {
        let Some(app) = self.app.upgrade() else { return };
        app.close(self);
        app.place_is_free(self);
        self.report(LinkEvent::WantsDrain { worker: self.key.clone() });
    }
}
