//! Giving a worker its next request.

use std::sync::Arc;

use keepwarm_wire::frame::{HEADER_LEN, ResetCode, flags};

use super::Link;
use crate::dispatch::call::Item;
use crate::dispatch::queue::QueuedRequest;
use crate::supervisor::LinkEvent;

/// Where a frame's stream id stands.
const STREAM_AT: std::ops::Range<usize> = 6..HEADER_LEN;
/// Where its flags stand.
const FLAGS_AT: usize = 5;

impl Link {
    /// Sends a request, for which the caller has taken a place.
    pub(in crate::dispatch) fn give(self: &Arc<Self>, mut job: QueuedRequest) {
        match (&self.server, job.frame.is_empty()) {
            (Some(_), true) => return self.offer(&job.call),
            (None, false) => {}
            // The last reload has made another kind of app of it.
            (Some(_), false) | (None, true) => return self.refuse(&job.call),
        }
        if job.websocket && self.app.upgrade().is_none_or(|app| !app.takes_websockets()) {
            // It gets the opening as the plain request that it also is.
            job.websocket = false;
            if let Some(bits) = job.frame.get_mut(FLAGS_AT) {
                *bits &= !flags::WEBSOCKET;
            }
        }
        let mut inner = self.lock();
        let stream = match job.websocket {
            true => inner.session.open_websocket(),
            false => inner.session.open(),
        };
        let Some(stream) = stream.filter(|_| !inner.dead) else {
            let dead = inner.dead;
            drop(inner);
            job.call.keep_frame(job.frame);
            job.call.put(Item::Lost { unprocessed: true, kill_reason: None });
            if !dead {
                self.take_no_more();
            }
            return;
        };
        if let Some(id) = job.frame.get_mut(STREAM_AT) {
            id.copy_from_slice(&stream.to_be_bytes());
        }
        if !job.call.give_to(self, stream) {
            // Its client left between the queue and here. The place is taken: it is free when the worker has let go of the stream.
            let mut frames = job.frame;
            inner.session.reset(stream, ResetCode::CANCELLED, "the client has gone", &mut frames);
            inner.write(&self.socket, &frames);
            return;
        }
        if !inner.in_order || (inner.session.open_streams() == 1 && inner.post_response.is_none()) {
            job.call.begin_work();
        }
        inner.taken += 1;
        inner.calls.insert(stream, Arc::clone(&job.call));
        inner.write(&self.socket, &job.frame);
        inner.last_written = Some(stream);
        drop(inner);
        let has_more = job.frame.get(FLAGS_AT).is_some_and(|bits| bits & flags::END == 0);
        if has_more || job.call.is_half_closed() {
            // It may have waited in the queue; the rest of its body can come now, or the word that its client sends no more.
            job.call.wake();
        }
        job.call.keep_frame(job.frame);
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
