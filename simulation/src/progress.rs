//! What clients have received, for servers that wait for it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use tokio::sync::Notify;

thread_local! {
    static RECEIVED: RefCell<BTreeMap<u64, usize>> = const { RefCell::new(BTreeMap::new()) };
    static CHANGED: Rc<Notify> = Rc::new(Notify::new());
}

/// Nobody has received anything.
pub(crate) fn reset() {
    RECEIVED.take();
}

/// The client has decoded this many bytes of this message.
pub(crate) fn note(id: u64, bytes: usize) {
    RECEIVED.with_borrow_mut(|received| received.insert(id, bytes));
    CHANGED.with(|changed| changed.notify_waiters());
}

/// The number of bytes that its client has.
pub(crate) fn received(id: u64) -> usize {
    RECEIVED.with_borrow(|received| received.get(&id).copied().unwrap_or(0))
}

/// Waits until some client has more.
pub(crate) async fn changed() {
    CHANGED.with(Rc::clone).notified().await;
}
