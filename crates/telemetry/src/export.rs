//! What waits to be sent to a collector.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::counters::Counter;

/// What a queue holds.
pub trait Exported {
    /// The memory it takes.
    fn bytes(&self) -> usize;

    /// How much it counts of a batch: the spans that it makes, or 1.
    fn count(&self) -> usize {
        1
    }
}

/// A bounded queue: any thread puts records in, one exporter takes them out.
#[derive(Debug)]
pub struct ExportQueue<T> {
    waiting: Mutex<Waiting<T>>,
    /// Bytes of all records.
    buffer: usize,
    /// As many are taken at once.
    batch: usize,
    /// Nothing is put in any more.
    closed: AtomicBool,
    /// What there was no room for.
    dropped: &'static Counter,
}

#[derive(Debug)]
struct Waiting<T> {
    records: VecDeque<T>,
    bytes: usize,
    count: usize,
    /// The exporter, while it waits for a batch.
    waker: Option<Waker>,
}

impl<T> Default for Waiting<T> {
    fn default() -> Self {
        Self { records: VecDeque::new(), bytes: 0, count: 0, waker: None }
    }
}

/// What is sent at once.
#[derive(Debug)]
pub struct ExportBatch<T> {
    /// The oldest records.
    pub records: Vec<T>,
    /// How many they count.
    pub count: usize,
}

impl<T: Exported> ExportQueue<T> {
    /// An empty queue. `dropped` counts what there is no room for.
    #[must_use]
    pub fn new(buffer: usize, batch: usize, dropped: &'static Counter) -> Self {
        let closed = AtomicBool::new(false);
        Self { waiting: Mutex::default(), buffer, batch: batch.max(1), closed, dropped }
    }

    /// Puts a record in, or drops and counts it.
    pub fn push(&self, record: T) {
        let (bytes, count) = (record.bytes(), record.count());
        let mut waiting = self.lock();
        if waiting.bytes + bytes > self.buffer || self.closed.load(Ordering::Relaxed) {
            drop(waiting);
            return self.dropped.add(count as u64);
        }
        waiting.bytes += bytes;
        waiting.count += count;
        waiting.records.push_back(record);
        if waiting.count >= self.batch
            && let Some(waker) = waiting.waker.take()
        {
            drop(waiting);
            waker.wake();
        }
    }

    /// Waits until there is a whole batch, or the queue is closed. For one waiter.
    pub fn poll_batch(&self, cx: &Context<'_>) -> Poll<()> {
        let mut waiting = self.lock();
        if waiting.count >= self.batch || self.closed.load(Ordering::Relaxed) {
            return Poll::Ready(());
        }
        waiting.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Waits until the queue is closed. For one waiter.
    pub fn poll_closed(&self, cx: &Context<'_>) -> Poll<()> {
        let mut waiting = self.lock();
        if self.closed.load(Ordering::Relaxed) {
            return Poll::Ready(());
        }
        waiting.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// The oldest records: one batch, or fewer if there are no more.
    #[must_use]
    pub fn take(&self) -> ExportBatch<T> {
        let mut waiting = self.lock();
        let mut taken = ExportBatch { records: Vec::new(), count: 0 };
        while taken.count < self.batch
            && let Some(record) = waiting.records.pop_front()
        {
            waiting.bytes -= record.bytes();
            waiting.count -= record.count();
            taken.count += record.count();
            taken.records.push(record);
        }
        taken
    }

    /// From now on everything is dropped; what is there can still be taken.
    pub fn close(&self) {
        let waker = {
            let mut waiting = self.lock();
            self.closed.store(true, Ordering::Relaxed);
            waiting.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }

    /// Whether it was closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::counters::SPANS_DROPPED;
    use crate::spans::{AttemptSpan, CallSpan, SpanRecord};
    use crate::{RequestId, TraceContext};

    /// A call with this many attempts.
    fn call(attempts: usize) -> SpanRecord {
        let attempt = |span| AttemptSpan {
            span: span as u64,
            start: SystemTime::UNIX_EPOCH,
            elapsed: Duration::ZERO,
            endpoint: None,
            status: 200,
            failure: None,
            reused: false,
        };
        SpanRecord::Call(Box::new(CallSpan {
            context: TraceContext::begin(),
            parent: None,
            upstream: "search".into(),
            method: String::new(),
            target: Vec::new(),
            scheme: "http",
            attempts: (0..attempts).map(attempt).collect(),
            id: RequestId::new(1),
        }))
    }

    fn queue(buffer: usize, batch: usize) -> ExportQueue<SpanRecord> {
        ExportQueue::new(buffer, batch, &SPANS_DROPPED)
    }

    fn spans(taken: &ExportBatch<SpanRecord>) -> Vec<usize> {
        taken.records.iter().map(Exported::count).collect()
    }

    #[test]
    fn the_oldest_are_taken_first_a_batch_at_a_time() {
        let queue = queue(1 << 20, 4);
        [1, 2, 3, 1].into_iter().for_each(|attempts| queue.push(call(attempts)));
        let taken = queue.take();
        assert_eq!((spans(&taken), taken.count), (vec![1, 2, 3], 6));
        assert_eq!(spans(&queue.take()), [1]);
        assert_eq!(queue.take().count, 0);
    }

    #[test]
    fn the_newest_is_dropped_where_there_is_no_room() {
        let bytes = call(1).bytes();
        let queue = queue(2 * bytes, 10);
        let before = SPANS_DROPPED.value();
        for _ in 0..2 {
            queue.push(call(1));
        }
        queue.push(call(5));
        assert!(SPANS_DROPPED.value() >= before + 5);
        assert_eq!(spans(&queue.take()), [1, 1]);
        // What was taken makes room.
        queue.push(call(1));
        assert_eq!(spans(&queue.take()), [1]);
    }

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn the_exporter_is_woken_once_for_a_batch_and_for_the_end() {
        let count = Arc::new(Count::default());
        let waker = Arc::clone(&count).into();
        let cx = Context::from_waker(&waker);
        let woken = || count.0.load(Ordering::SeqCst);
        let queue = queue(1 << 20, 2);
        assert!(queue.poll_batch(&cx).is_pending());
        queue.push(call(1));
        assert_eq!(woken(), 0);
        queue.push(call(1));
        queue.push(call(1));
        assert_eq!(woken(), 1);
        assert!(queue.poll_batch(&cx).is_ready());
        assert_eq!(queue.take().count, 2);
        assert!(queue.poll_batch(&cx).is_pending());
        queue.close();
        assert_eq!(woken(), 2);
        assert!(queue.poll_batch(&cx).is_ready() && queue.is_closed());
        queue.push(call(1));
        assert_eq!(queue.take().count, 1, "what was put in before is still there, and nothing after");
    }
}
