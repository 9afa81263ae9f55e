//! Requests that an application responds by itself, on a socket that its worker has passed (`spec/wire.md` §5, HIJACK): their place is free, and the worker stays
//! until they are over.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use keepwarm_net::Socket;

use super::Link;
use crate::dispatch::call::{Call, Item};

impl Link {
    /// Whether its worker may pass sockets.
    pub(in crate::dispatch) fn hijacks(&self) -> bool {
        self.hijacks.load(Ordering::Relaxed)
    }

    pub(in crate::dispatch) fn set_hijacks(&self, hijacks: bool) {
        self.hijacks.store(hijacks, Ordering::Relaxed);
    }

    /// The application responds on this socket.
    pub(in crate::dispatch) fn hijack(&self, stream: u32, call: &Arc<Call>, socket: Option<Socket>) {
        self.lock().hijacked.insert(stream, Arc::clone(call));
        // Its client has left meanwhile: the application hears of it by the end of its socket.
        if !call.put_if_waiting(Item::Hijacked(socket)) {
            self.forget_hijacked(stream);
        }
    }

    /// Such a request is over.
    pub(in crate::dispatch) fn forget_hijacked(&self, stream: u32) {
        self.lock().hijacked.remove(&stream);
    }
}
