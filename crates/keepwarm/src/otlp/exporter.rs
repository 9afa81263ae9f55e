//! Sends the spans that wait, a batch at a time.
//!
//! Runs on the thread `keepwarm-egress`, so that a slow collector costs requests nothing. While it does not take anything, the queue fills, and new spans are dropped.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::{Duration, Instant};

use keepwarm_config as config;
use keepwarm_policy::{Backoff, BackoffSettings};
use keepwarm_telemetry::counters;
use keepwarm_telemetry::spans::{QueuedSpans, Tracer};
use keepwarm_telemetry::trace::random;
use tokio::sync::oneshot;

use super::client::CollectorClient;
use super::delivery::Delivery;
use super::messages::{ExportTraceServiceRequest, Resource, ResourceSpans, ScopeSpans};
use super::resource::{SCHEMA, scope};
use super::spans::spans;

/// How long a batch is sent again before it is dropped: by then the queue is full of younger ones. This number is arbitrary.
const GIVE_UP: Duration = Duration::from_secs(60);
/// Waits between two attempts, where the collector names none; as OpenTelemetry's exporters have them.
const BACKOFF: BackoffSettings = BackoffSettings {
    base: Duration::from_secs(1),
    factor: 2,
    cap: Duration::from_secs(30),
    healthy: Duration::MAX,
};

/// Sends the spans of one tracer.
pub(super) struct SpanExporter {
    tracer: Arc<Tracer>,
    client: CollectorClient,
    traces: config::OtlpTraces,
    resource: Resource,
    /// Dropped at the end.
    _done: oneshot::Sender<()>,
}

impl SpanExporter {
    pub(super) fn new(
        tracer: Arc<Tracer>,
        client: CollectorClient,
        traces: config::OtlpTraces,
        resource: Resource,
        done: oneshot::Sender<()>,
    ) -> Self {
        Self { tracer, client, traces, resource, _done: done }
    }

    /// Until the queue is closed and empty.
    pub(super) async fn run(mut self) {
        let tracer = Arc::clone(&self.tracer);
        let queue = tracer.queue();
        loop {
            let batch = poll_fn(|cx| queue.poll_batch(cx));
            // Either way it is time.
            let _ = tokio::time::timeout(self.traces.interval, batch).await;
            // Before it is looked at: what is put in later is dropped.
            let is_closed = queue.is_closed();
            let taken = queue.take();
            match taken.spans {
                0 if is_closed => return,
                0 => {}
                _ => self.deliver(taken).await,
            }
        }
    }

    /// Sends a batch until it is accepted, or is not worth it any more.
    async fn deliver(&mut self, batch: QueuedSpans) {
        let (request, count) =
            (self.client.request(&self.traces.path, &self.message(&batch)), batch.spans as u64);
        drop(batch);
        let (begun, mut backoff) = (Instant::now(), Backoff::new(BACKOFF));
        loop {
            match self.client.send(request.clone()).await {
                Delivery::Accepted => {
                    counters::SPANS_EXPORTED.add("", "sent", count);
                    return self.client.succeed();
                }
                Delivery::Partial { rejected, message } => {
                    let rejected = rejected.min(count);
                    counters::SPANS_EXPORTED.add("", "rejected", rejected);
                    counters::SPANS_EXPORTED.add("", "sent", count - rejected);
                    return self.client.reject(rejected, &message);
                }
                Delivery::Refused { reason } => {
                    counters::SPANS_EXPORTED.add("", "refused", count);
                    return self.client.fail(&reason, "not sent again");
                }
                Delivery::Retry { reason, after } => {
                    let wait = backoff.handle_end(Duration::ZERO, random());
                    let wait = after.map_or(wait, |after| after.max(wait));
                    let is_closed = self.tracer.queue().is_closed();
                    if is_closed || begun.elapsed() + wait > GIVE_UP {
                        counters::SPANS_EXPORTED.add("", "undelivered", count);
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
        let queue = self.tracer.queue();
        let closed = poll_fn(|cx| queue.poll_closed(cx));
        let _ = tokio::time::timeout(wait, closed).await;
    }

    fn message(&self, batch: &QueuedSpans) -> ExportTraceServiceRequest {
        let spans = batch.records.iter().flat_map(spans).collect();
        ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(self.resource.clone()),
                scope_spans: vec![ScopeSpans { scope: Some(scope()), spans }],
                schema_url: SCHEMA.to_owned(),
            }],
        }
    }
}
