//! `[otlp]`: what is sent to an OpenTelemetry collector.
//!
//! A [`Tracer`] belongs to the settings that it was made with: a reload that changes them makes another, and the one before sends what it has and ends. Metrics
//! are those of `/metrics`.

mod client;
mod delivery;
mod exporter;
mod messages;
mod metrics;
mod resource;
mod spans;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use keepwarm_config::{self as config, Config};
use keepwarm_egress::Upstream;
use keepwarm_telemetry::spans::{Tracer, TracerSettings};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use self::client::CollectorClient;
use self::exporter::SpanExporter;
use self::metrics::MetricExporter;
use self::resource::resource;
use crate::status::view::View;
use crate::upstreams::Upstreams;

/// How long the end waits for what is left to be sent, within the grace.
const LAST: Duration = Duration::from_secs(3);

/// What is sent now.
#[derive(Debug, Default)]
pub(crate) struct Otlp(Option<Export>);

/// The exporters of a configuration.
#[derive(Debug)]
struct Export {
    config: config::Otlp,
    tracer: Option<Arc<Tracer>>,
    collector: Arc<ArcSwap<Upstream>>,
    /// Ends the exporter of metrics, when it is dropped.
    metrics: oneshot::Sender<()>,
    /// Each ends with its exporter.
    done: Vec<oneshot::Receiver<()>>,
}

/// Who traces with a configuration that is about to serve.
#[derive(Debug, Clone)]
pub(crate) struct Tracing {
    pub(crate) tracer: Arc<Tracer>,
    /// The upstream that is the collector, whose calls are not traced.
    pub(crate) collector: String,
}

impl Otlp {
    /// Who traces with this configuration: the tracer that is there, unless its settings change.
    pub(crate) fn prepare(&self, config: &Config) -> Option<Tracing> {
        let wanted = config.otlp.as_ref()?;
        let traces = wanted.traces.as_ref()?;
        let kept = self.0.as_ref().filter(|export| export.config == *wanted);
        let kept = kept.and_then(|export| export.tracer.clone());
        let tracer = kept.unwrap_or_else(|| Arc::new(Tracer::new(settings(traces))));
        Some(Tracing { tracer, collector: wanted.upstream.clone() })
    }

    /// Sends what this configuration says from now on. Its upstreams are applied already.
    pub(crate) fn apply(
        &mut self,
        config: &Config,
        tracing: Option<Tracing>,
        upstreams: &Upstreams,
        view: &Arc<View>,
    ) {
        let Some(config) = &config.otlp else { return self.end() };
        let Some(collector) = upstreams.get(&config.upstream) else { return self.end() };
        if let Some(export) = self.0.as_ref().filter(|export| export.config == *config) {
            return export.collector.store(Arc::clone(collector));
        }
        self.end();
        let collector = Arc::new(ArcSwap::new(Arc::clone(collector)));
        let client = |signal| CollectorClient::new(config, Arc::clone(&collector), signal);
        let tracer = tracing.map(|tracing| tracing.tracer);
        let (metrics, stop) = oneshot::channel();
        let mut done = Vec::new();
        if let Some((tracer, traces)) = tracer.clone().zip(config.traces.clone()) {
            let (ends, ended) = oneshot::channel();
            let exporter = SpanExporter::new(tracer, client("traces"), traces, resource(config), ends);
            upstreams.run_in_background(move || exporter.run());
            done.push(ended);
        }
        if let Some(settings) = config.metrics.clone() {
            let (ends, ended) = oneshot::channel();
            let exporter = MetricExporter {
                view: Arc::clone(view),
                client: client("metrics"),
                metrics: settings,
                resource: resource(config),
                stop,
                _done: ends,
            };
            upstreams.run_in_background(move || exporter.run());
            done.push(ended);
        }
        self.0 = Some(Export { config: config.clone(), tracer, collector, metrics, done });
    }

    /// Takes nothing more, and still sends what is there.
    fn end(&mut self) {
        if let Some(export) = self.0.take() {
            export.close();
        }
    }

    /// Sends what is left, and waits for that until `end` at the latest.
    pub(crate) async fn finish(&mut self, end: Instant) {
        let Some(export) = self.0.take() else { return };
        let upstream = export.config.upstream.clone();
        let done = export.close();
        let all = async {
            for one in done {
                // Its end is what counts.
                let _ = one.await;
            }
        };
        if timeout_at(end.min(Instant::now() + LAST), all).await.is_err() {
            tracing::warn!(
                name: "otlp_flush_timeout",
                upstream, "collector has not accepted the last telemetry in time; it is lost"
            );
        }
    }
}

impl Export {
    /// Ends the exporters, once they have sent what is there.
    fn close(self) -> Vec<oneshot::Receiver<()>> {
        if let Some(tracer) = &self.tracer {
            tracer.queue().close();
        }
        drop(self.metrics);
        self.done
    }
}

fn settings(traces: &config::OtlpTraces) -> TracerSettings {
    TracerSettings {
        sample: traces.sample,
        slow: traces.slow,
        buffer: usize::try_from(traces.buffer).unwrap_or(usize::MAX),
        batch: traces.batch as usize,
    }
}
