//! Requests to the collector: calls to its upstream, over its pool and within its limits.

use std::future::Future;
use std::io::Write;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use flate2::Compression;
use flate2::write::GzEncoder;
use keepwarm_config as config;
use keepwarm_egress::{OwnCalls, Upstream};
use keepwarm_net::Scheme;
use keepwarm_serve::{
    ConnectionInfo, ConnectionLimits, Exchange, FetchLimits, Frontend, Handler, ListenerContext,
    LocalAddress, OpenConnections, Refusal, fetch_own_response, respond_with_refusal,
};
use keepwarm_telemetry::meters;
use prost::Message;

use super::delivery::{Delivery, judge};

/// Bytes of a collector's response.
const RESPONSE: usize = 64 << 10;

/// Sends one kind of telemetry to the collector.
pub(super) struct CollectorClient {
    /// The upstream, which a reload may replace.
    collector: Arc<ArcSwap<Upstream>>,
    config: config::Otlp,
    log: DeliveryLog,
}

impl CollectorClient {
    /// For what is called `signal` in the log.
    pub(super) fn new(
        config: &config::Otlp,
        collector: Arc<ArcSwap<Upstream>>,
        signal: &'static str,
    ) -> Self {
        let log = DeliveryLog { signal, failing: None, rejected: None };
        Self { collector, config: config.clone(), log }
    }

    /// A message as a request to this path.
    pub(super) fn request(&self, path: &str, message: &impl Message) -> Vec<u8> {
        let message = message.encode_to_vec();
        let (body, coding) = match self.config.gzip {
            true => (gzipped(&message), "Content-Encoding: gzip\r\n"),
            false => (message, ""),
        };
        let length = body.len();
        let version = env!("CARGO_PKG_VERSION");
        let mut head = format!(
            "POST {path} HTTP/1.1\r\nHost: collector\r\nContent-Type: application/x-protobuf\r\n{coding}Content-Length: {length}\r\nUser-Agent: Keepwarm/{version}\r\n"
        );
        for (name, value) in &self.config.headers {
            head.extend([name.as_str(), ": ", value.expose(), "\r\n"]);
        }
        head.push_str("Connection: close\r\n\r\n");
        [head.into_bytes(), body].concat()
    }

    /// Sends a request, and judges the response.
    pub(super) async fn send(&self, request: Vec<u8>) -> Delivery {
        let context = Arc::new(ListenerContext {
            handler: Arc::new(Collector(OwnCalls::new(self.collector.load_full()))),
            limits: ConnectionLimits::default(),
            draining: Arc::new(AtomicBool::new(false)),
            open: Arc::new(OpenConnections::new(1)),
            meter: meters::unlisted(),
            tls: None,
            proxy_protocol: None,
        });
        let peer = ConnectionInfo::new(None, LocalAddress::Unix(None), Scheme::Http);
        let limits = FetchLimits { time: self.config.timeout, body: RESPONSE, reads_success: true };
        judge(fetch_own_response(request, peer, context, limits).await, SystemTime::now())
    }

    /// The collector has accepted what was sent.
    pub(super) fn succeed(&mut self) {
        self.log.succeed(&self.config.upstream);
    }

    /// It has not; `next` says what happens with it.
    pub(super) fn fail(&mut self, reason: &str, next: &'static str) {
        self.log.fail(&self.config.upstream, reason, next);
    }

    /// It has rejected a part.
    pub(super) fn reject(&mut self, count: u64, message: &str) {
        self.log.reject(&self.config.upstream, count, message);
    }
}

fn gzipped(message: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(message.len() / 4), Compression::fast());
    // Writing into memory cannot fail.
    let _ = encoder.write_all(message);
    encoder.finish().unwrap_or_default()
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
#[derive(Debug)]
struct DeliveryLog {
    signal: &'static str,
    /// What was said last.
    failing: Option<(String, &'static str)>,
    rejected: Option<String>,
}

impl DeliveryLog {
    fn succeed(&mut self, upstream: &str) {
        if self.failing.take().is_some() {
            tracing::info!(
                name: "otlp_export_recovered",
                upstream, signal = self.signal, "collector accepts telemetry again"
            );
        }
    }

    fn fail(&mut self, upstream: &str, reason: &str, next: &'static str) {
        let said = (reason.to_owned(), next);
        if self.failing.as_ref() != Some(&said) {
            tracing::warn!(
                name: "otlp_export_failed",
                upstream, signal = self.signal, reason, next,
                "collector did not accept telemetry; logged again when the reason changes"
            );
            self.failing = Some(said);
        }
    }

    fn reject(&mut self, upstream: &str, count: u64, message: &str) {
        self.succeed(upstream);
        if self.rejected.as_deref() != Some(message) {
            tracing::warn!(
                name: "otlp_export_rejected",
                upstream, signal = self.signal, count, reason = message,
                "collector rejected a part of the telemetry; logged again when the reason changes"
            );
            self.rejected = Some(message.to_owned());
        }
    }
}
