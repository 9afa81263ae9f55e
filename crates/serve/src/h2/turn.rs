//! Gives other connections of the thread their turn.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// Whether the task has its turn.
///
/// A task that merely wakes itself, as every response wakes its connection, runs again before the thread has looked at its sockets. So only one wake-up counts
/// here: that which the runtime gives when it has looked.
#[derive(Default)]
pub(super) struct Turn {
    given: Option<Arc<GivenTurn>>,
}

struct GivenTurn {
    is_over: AtomicBool,
    /// Tokio's, which is the same for the whole life of a task.
    task: Waker,
}

impl Turn {
    /// Lets others go first: `Pending`, and the task is woken.
    pub(super) fn give(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let given = Arc::new(GivenTurn { is_over: AtomicBool::new(false), task: cx.waker().clone() });
        let waker = Waker::from(Arc::clone(&given));
        self.given = Some(given);
        pin!(tokio::task::yield_now()).poll(&mut Context::from_waker(&waker))
    }

    /// `Ready`: the others had their turn, or none was given to them.
    pub(super) fn poll(&mut self) -> Poll<()> {
        if let Some(given) = &self.given {
            if !given.is_over.load(Ordering::Relaxed) {
                return Poll::Pending;
            }
            self.given = None;
        }
        Poll::Ready(())
    }
}

impl Wake for GivenTurn {
    fn wake(self: Arc<Self>) {
        self.is_over.store(true, Ordering::Relaxed);
        self.task.wake_by_ref();
    }
}
