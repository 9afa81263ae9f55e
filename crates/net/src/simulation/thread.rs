//! Several data-plane threads on one real thread: events between them happen in any order, but never within a poll.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::runtime::as_thread;

/// A task of a data-plane thread: polls and drops of it run as that thread, and so do the tasks that it starts.
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
                // Here, and not on drop: its own thread must release what it holds.
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
