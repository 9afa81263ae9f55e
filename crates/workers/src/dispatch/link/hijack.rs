//! Requests that an application responds to itself, on a socket that its worker has passed (`spec/wire.md` §5, HIJACK): their slot is free, and the worker stays
//! until they are over.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use keepwarm_net::Socket;

use super::{Link, LinkInner};
use crate::dispatch::call::{Call, Item};

impl Link {
    /// Whether its worker may pass sockets.
    pub(in crate::dispatch) fn hijacks(&self) -> bool {
        self.hijacks.load(Ordering::Relaxed)
    }

    pub(in crate::dispatch) fn set_hijacks(&self, hijacks: bool) {
        self.hijacks.store(hijacks, Ordering::Relaxed);
    }

    /// Such a request is over.
    pub(in crate::dispatch) fn forget_hijacked(&self, stream: u32) {
        self.lock().hijacked.remove(&stream);
    }
}

impl LinkInner {
    /// The application responds on this socket.
    pub(in crate::dispatch) fn hijack(&mut self, stream: u32, call: &Arc<Call>, socket: Option<Socket>) {
        // If its client has left meanwhile, the application notices by the end of its socket.
        if call.put_if_waiting(Item::Hijacked(socket)) {
            self.hijacked.insert(stream, Arc::clone(call));
        }
    }
}
