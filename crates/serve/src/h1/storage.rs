//! The buffers of a connection with a request in progress. An idle one has none: they wait in a pool of the thread.

use std::cell::RefCell;

use keepwarm_http1::RequestHead;
use keepwarm_net::{ReadBuffer, WriteBuffer};

/// The buffers that reading a request and writing its response need.
#[derive(Debug, Default)]
pub(crate) struct Storage {
    pub(crate) read: ReadBuffer,
    pub(crate) out: WriteBuffer,
    pub(crate) head: RequestHead,
}

impl Storage {
    /// Takes warm storage of the pool, or new.
    pub(crate) fn take() -> Self {
        POOL.with_borrow_mut(Vec::pop).unwrap_or_default()
    }

    /// Returns the storage.
    pub(crate) fn give(mut self) {
        self.read.reset(KEEP);
        self.out.clear();
        self.out.shrink(KEEP);
        POOL.with_borrow_mut(|pool| {
            if pool.len() < POOLED {
                pool.push(self);
            }
        });
    }
}

/// Buffers above this many bytes are not kept warm.
const KEEP: usize = 64 * 1024;
/// Storages kept by a thread: 128 × about 10 KiB is at most 1.3 MiB in the common case.
const POOLED: usize = 128;

thread_local! {
    static POOL: RefCell<Vec<Storage>> = const { RefCell::new(Vec::new()) };
}
