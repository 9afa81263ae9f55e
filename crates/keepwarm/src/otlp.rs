//! `[otlp]`: what is sent to an OpenTelemetry collector.
//!
//! Each kind has an exporter, on the thread `keepwarm-egress`. A [`Tracer`] and a [`LogExport`] belong to the settings that they were made with: a reload that changes
//! those makes others, and the ones before send what they have and end. Metrics are those of `/metrics`.

mod client;
mod delivery;
mod exporter;
mod logs;
mod messages;
mod metrics;
mod resource;
mod spans;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use keepwarm_config::{self as config, Config};
use keepwarm_egress::Upstream;
use keepwarm_telemetry::log::LogExport;
use keepwarm_telemetry::spans::{Tracer, TracerSettings};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use self::client::CollectorClient;
use self::exporter::{BatchExporter, Batched};
use self::logs::Logs;
use self::metrics::MetricExporter;
use self::resource::resource;
use self::spans::Spans;
use crate::assemble::level;
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
    logs: Option<Arc<LogExport>>,
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
        let start = Start { config, collector: &collector, upstreams };
        let tracer = tracing.map(|tracing| tracing.tracer);
        let mut done = Vec::new();
        if let Some((tracer, traces)) = tracer.clone().zip(config.traces.as_ref()) {
            done.push(start.batches("traces", Spans(tracer), &traces.path, traces.interval));
        }
        let logs = config.logs.as_ref().map(|logs| {
            let export = Arc::new(log_export(logs));
            done.push(start.batches("logs", Logs(Arc::clone(&export)), &logs.path, logs.interval));
            export.begin();
            export
        });
        let (metrics, stop) = oneshot::channel();
        if let Some(settings) = &config.metrics {
            done.push(start.metrics(settings, view, stop));
        }
        self.0 = Some(Export { config: config.clone(), tracer, logs, collector, metrics, done });
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

/// Starts exporters.
struct Start<'s> {
    config: &'s config::Otlp,
    collector: &'s Arc<ArcSwap<Upstream>>,
    upstreams: &'s Upstreams,
}

impl Start<'_> {
    fn client(&self, signal: &'static str) -> CollectorClient {
        CollectorClient::new(self.config, Arc::clone(self.collector), signal)
    }

    /// Of what is sent in batches. What it gives ends with the exporter.
    fn batches<B: Batched<Record: Send> + Send + 'static>(
        &self,
        signal: &'static str,
        batched: B,
        path: &str,
        interval: Duration,
    ) -> oneshot::Receiver<()> {
        let (ends, ended) = oneshot::channel();
        let exporter = BatchExporter {
            batched,
            client: self.client(signal),
            path: path.to_owned(),
            interval,
            resource: resource(self.config),
            _done: ends,
        };
        self.upstreams.run_in_background(move || exporter.run());
        ended
    }

    /// Of metrics, until `stop`. What it gives ends with the exporter.
    fn metrics(
        &self,
        settings: &config::OtlpMetrics,
        view: &Arc<View>,
        stop: oneshot::Receiver<()>,
    ) -> oneshot::Receiver<()> {
        let (ends, ended) = oneshot::channel();
        let exporter = MetricExporter {
            view: Arc::clone(view),
            client: self.client("metrics"),
            metrics: settings.clone(),
            resource: resource(self.config),
            stop,
            _done: ends,
        };
        self.upstreams.run_in_background(move || exporter.run());
        ended
    }
}

impl Export {
    /// Ends the exporters, once they have sent what is there.
    fn close(self) -> Vec<oneshot::Receiver<()>> {
        if let Some(tracer) = &self.tracer {
            tracer.queue().close();
        }
        if let Some(logs) = &self.logs {
            logs.end();
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

fn log_export(logs: &config::OtlpLogs) -> LogExport {
    LogExport::new(level(logs.level), usize::try_from(logs.buffer).unwrap_or(usize::MAX), logs.batch as usize)
}
