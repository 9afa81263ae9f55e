//! Sends what waits, a batch at a time.
//!
//! Runs on the thread `keepwarm-egress`, so that a slow collector costs requests nothing. While it does not take anything, the queue fills, and what is new is dropped.

use std::future::poll_fn;
use std::time::{Duration, Instant};

use keepwarm_policy::{Backoff, BackoffSettings};
use keepwarm_telemetry::counters::Family;
use keepwarm_telemetry::export::{ExportBatch, ExportQueue, Exported};
use keepwarm_telemetry::trace::random;
use tokio::sync::oneshot;

use super::client::CollectorClient;
use super::delivery::Delivery;
use super::messages::Resource;

/// How long a batch is sent again before it is dropped: by then the queue is full of younger ones. This number is arbitrary.
const GIVE_UP: Duration = Duration::from_secs(60);
/// Waits between two attempts, where the collector names none; as OpenTelemetry's exporters have them.
const BACKOFF: BackoffSettings = BackoffSettings {
    base: Duration::from_secs(1),
    factor: 2,
    cap: Duration::from_secs(30),
    healthy: Duration::MAX,
};

/// What is sent in batches.
pub(super) trait Batched {
    type Record: Exported;
    type Message: prost::Message;

    /// Where it waits.
    fn queue(&self) -> &ExportQueue<Self::Record>;

    /// What became of it, by outcome.
    fn outcomes(&self) -> &'static Family;

    /// The message that a batch is sent as.
    fn message(&self, records: &[Self::Record], resource: Resource) -> Self::Message;
}

/// Sends spans, or records of the log.
pub(super) struct BatchExporter<B> {
    pub(super) batched: B,
    pub(super) client: CollectorClient,
    /// Where it is sent to.
    pub(super) path: String,
    /// The longest wait for a whole batch.
    pub(super) interval: Duration,
    pub(super) resource: Resource,
    /// Dropped at the end.
    pub(super) _done: oneshot::Sender<()>,
}

impl<B: Batched> BatchExporter<B> {
    /// Until the queue is closed and empty.
    pub(super) async fn run(mut self) {
        loop {
            let queue = self.batched.queue();
            let batch = poll_fn(|cx| queue.poll_batch(cx));
            // Either way it is time.
            let _ = tokio::time::timeout(self.interval, batch).await;
            // Before it is looked at: what is put in later is dropped.
            let is_closed = queue.is_closed();
            let taken = queue.take();
            match taken.count {
                0 if is_closed => return,
                0 => {}
                _ => self.deliver(taken).await,
            }
        }
    }

    /// Sends a batch until it is accepted, or is not worth it any more.
    async fn deliver(&mut self, batch: ExportBatch<B::Record>) {
        let message = self.batched.message(&batch.records, self.resource.clone());
        let (request, count) = (self.client.request(&self.path, &message), batch.count as u64);
        drop((batch, message));
        let outcomes = self.batched.outcomes();
        let (begun, mut backoff) = (Instant::now(), Backoff::new(BACKOFF));
        loop {
            match self.client.send(request.clone()).await {
                Delivery::Accepted => {
                    outcomes.add("", "sent", count);
                    return self.client.succeed();
                }
                Delivery::Partial { rejected, message } => {
                    let rejected = rejected.min(count);
                    outcomes.add("", "rejected", rejected);
                    outcomes.add("", "sent", count - rejected);
                    return self.client.reject(rejected, &message);
                }
                Delivery::Refused { reason } => {
                    outcomes.add("", "refused", count);
                    return self.client.fail(&reason, "not sent again");
                }
                Delivery::Retry { reason, after } => {
                    let wait = backoff.handle_end(Duration::ZERO, random());
                    let wait = after.map_or(wait, |after| after.max(wait));
                    let is_closed = self.batched.queue().is_closed();
                    if is_closed || begun.elapsed() + wait > GIVE_UP {
                        outcomes.add("", "undelivered", count);
                        return self.client.fail(&reason, "given up");
                    }
                    self.client.fail(&reason, "sent again");
                    self.pause(wait).await;
                }
            }
        }
    }

    /// Waits, but not through the end.
    async fn pause(&self, wait: Duration) {
        let queue = self.batched.queue();
        let closed = poll_fn(|cx| queue.poll_closed(cx));
        let _ = tokio::time::timeout(wait, closed).await;
    }
}
