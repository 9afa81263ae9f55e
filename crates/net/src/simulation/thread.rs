//! Several data-plane threads, all of which are the one there is: what happens between them happens in any order, but never within a poll.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::runtime::as_thread;

/// A task of a data-plane thread: whoever polls or drops it meanwhile is that thread, and the tasks that it starts are, too.
#[derive(Debug)]
pub struct ThreadTask<F> {
    index: usize,
    task: Option<Pin<Box<F>>>,
}

/// Makes this a task of the data-plane thread with this index.
pub fn on_thread<F: Future>(index: usize, task: F) -> ThreadTask<F> {
    ThreadTask { index, task: Some(Box::pin(task)) }
}

impl<F: Future> Future for ThreadTask<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        as_thread(this.index, || {
            let Some(task) = &mut this.task else { return Poll::Pending };
            let ready = task.as_mut().poll(cx);
            if ready.is_ready() {
                // Here, and not when it is dropped: what it holds is given back by its own thread.
                this.task = None;
            }
            ready
        })
    }
}

impl<F> Drop for ThreadTask<F> {
    fn drop(&mut self) {
        as_thread(self.index, || self.task = None);
    }
}
