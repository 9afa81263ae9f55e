//! Sends what waits, a batch at a time, as calls to the upstream that is the collector: over its pool, and within its limits.
//!
//! Runs on the thread `keepwarm-egress`, so that a slow collector costs requests nothing. While it does not take anything, the queue fills, and new spans are dropped.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime};

use arc_swap::ArcSwap;
use keepwarm_config as config;
use keepwarm_egress::{OwnCalls, Upstream};
use keepwarm_net::Scheme;
use keepwarm_policy::{Backoff, BackoffSettings};
use keepwarm_serve::{
    ConnectionInfo, ConnectionLimits, Exchange, FetchLimits, Frontend, Handler, ListenerContext,
    LocalAddress, OpenConnections, Refusal, fetch_own_response, respond_with_refusal,
};
use keepwarm_telemetry::spans::{QueuedSpans, Tracer};
use keepwarm_telemetry::trace::random;
use keepwarm_telemetry::{counters, meters};
use prost::Message;
use tokio::sync::oneshot;

use super::delivery::{Delivery, judge};
use super::messages::{ExportTraceServiceRequest, InstrumentationScope, Resource, ResourceSpans, ScopeSpans};
use super::resource::resource;
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
/// Bytes of a collector's response.
const RESPONSE: usize = 64 << 10;
/// The conventions that names of attributes follow.
const SCHEMA: &str = "https://opentelemetry.io/schemas/1.27.0";

/// Sends the spans of one tracer.
pub(super) struct Exporter {
    tracer: Arc<Tracer>,
    /// The upstream, which a reload may replace.
    collector: Arc<ArcSwap<Upstream>>,
    config: config::Otlp,
    resource: Resource,
    log: ExportLog,
    /// Dropped at the end.
    _done: oneshot::Sender<()>,
}

impl Exporter {
    pub(super) fn new(
        config: &config::Otlp,
        tracer: Arc<Tracer>,
        collector: Arc<ArcSwap<Upstream>>,
        done: oneshot::Sender<()>,
    ) -> Self {
        let resource = Resource { attributes: resource(config) };
        Self { tracer, collector, config: config.clone(), resource, log: ExportLog::default(), _done: done }
    }

    /// Until the queue is closed and empty.
    pub(super) async fn run(mut self) {
        let queue = Arc::clone(&self.tracer);
        let queue = queue.queue();
        loop {
            let batch = poll_fn(|cx| queue.poll_batch(cx));
            // Either way it is time.
            let _ = tokio::time::timeout(self.config.traces.interval, batch).await;
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
        let (request, count) = (self.request(&batch), batch.spans as u64);
        drop(batch);
        let (begun, mut backoff) = (Instant::now(), Backoff::new(BACKOFF));
        loop {
            match judge(self.send(request.clone()).await, SystemTime::now()) {
                Delivery::Accepted => {
                    counters::SPANS_EXPORTED.add("", "sent", count);
                    return self.log.succeed(&self.config.upstream);
                }
                Delivery::Partial { rejected, message } => {
                    let rejected = rejected.min(count);
                    counters::SPANS_EXPORTED.add("", "rejected", rejected);
                    counters::SPANS_EXPORTED.add("", "sent", count - rejected);
                    return self.log.reject(&self.config.upstream, rejected, &message);
                }
                Delivery::Refused { reason } => {
                    counters::SPANS_EXPORTED.add("", "refused", count);
                    return self.log.fail(&self.config.upstream, &reason, "not sent again");
                }
                Delivery::Retry { reason, after } => {
                    let wait = backoff.handle_end(Duration::ZERO, random());
                    let wait = after.map_or(wait, |after| after.max(wait));
                    let is_closed = self.tracer.queue().is_closed();
                    if is_closed || begun.elapsed() + wait > GIVE_UP {
                        counters::SPANS_EXPORTED.add("", "undelivered", count);
                        return self.log.fail(&self.config.upstream, &reason, "given up");
                    }
                    self.log.fail(&self.config.upstream, &reason, "sent again");
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

    async fn send(
        &self,
        request: Vec<u8>,
    ) -> Result<keepwarm_serve::FetchedResponse, keepwarm_serve::FetchFault> {
        let upstream = self.collector.load_full();
        let context = Arc::new(ListenerContext {
            handler: Arc::new(Collector(OwnCalls::new(upstream))),
            limits: ConnectionLimits::default(),
            draining: Arc::new(AtomicBool::new(false)),
            open: Arc::new(OpenConnections::new(1)),
            meter: meters::unlisted(),
            tls: None,
            proxy_protocol: None,
        });
        let peer = ConnectionInfo::new(None, LocalAddress::Unix(None), Scheme::Http);
        let limits = FetchLimits { time: self.config.timeout, body: RESPONSE, reads_success: true };
        fetch_own_response(request, peer, context, limits).await
    }

    /// The request as it is sent.
    fn request(&self, batch: &QueuedSpans) -> Vec<u8> {
        let scope = InstrumentationScope {
            name: "keepwarm".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let body = ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(self.resource.clone()),
                scope_spans: vec![ScopeSpans {
                    scope: Some(scope),
                    spans: batch.records.iter().flat_map(spans).collect(),
                }],
                schema_url: SCHEMA.to_owned(),
            }],
        };
        let length = body.encoded_len();
        let mut request = self.head(length);
        request.reserve(length);
        // A vector has room.
        let _ = body.encode(&mut request);
        request
    }

    fn head(&self, length: usize) -> Vec<u8> {
        let config::Otlp { headers, traces, .. } = &self.config;
        let version = env!("CARGO_PKG_VERSION");
        let mut head = format!(
            "POST {} HTTP/1.1\r\nHost: collector\r\nContent-Type: application/x-protobuf\r\nContent-Length: {length}\r\nUser-Agent: Keepwarm/{version}\r\n",
            traces.path
        );
        for (name, value) in headers {
            head.extend([name.as_str(), ": ", value.expose(), "\r\n"]);
        }
        head.push_str("Connection: close\r\n\r\n");
        head.into_bytes()
    }
}

/// The collector, as a listener serves it.
struct Collector(OwnCalls);

impl Handler for Collector {
    fn handle<'a>(&'a self, exchange: &'a mut Exchange<'_>) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        self.0.handle(exchange)
    }
}

impl Frontend for Collector {
    fn refuse(&self, exchange: &mut Exchange<'_>, refusal: &Refusal) {
        respond_with_refusal(exchange, refusal);
    }
}

/// Says when sending begins to fail and when it succeeds again, not each time.
#[derive(Debug, Default)]
struct ExportLog {
    /// What was said last.
    failing: Option<(String, &'static str)>,
    rejected: Option<String>,
}

impl ExportLog {
    fn succeed(&mut self, upstream: &str) {
        if self.failing.take().is_some() {
            tracing::info!(name: "otlp_export_recovered", upstream, "collector accepts spans again");
        }
    }

    fn fail(&mut self, upstream: &str, reason: &str, next: &'static str) {
        let said = (reason.to_owned(), next);
        if self.failing.as_ref() != Some(&said) {
            tracing::warn!(
                name: "otlp_export_failed",
                upstream, reason, next, "collector did not accept spans; logged again when the reason changes"
            );
            self.failing = Some(said);
        }
    }

    fn reject(&mut self, upstream: &str, count: u64, message: &str) {
        self.succeed(upstream);
        if self.rejected.as_deref() != Some(message) {
            tracing::warn!(
                name: "otlp_spans_rejected",
                upstream, count, reason = message,
                "collector rejected a part of the spans; logged again when the reason changes"
            );
            self.rejected = Some(message.to_owned());
        }
    }
}
