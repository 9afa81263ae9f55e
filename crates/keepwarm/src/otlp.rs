//! `[otlp]`: spans that are sent to an OpenTelemetry collector.
//!
//! A [`Tracer`] belongs to the settings that it was made with: a reload that changes them makes another, and the one before sends what it has and ends.

mod delivery;
mod exporter;
mod messages;
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

use self::exporter::Exporter;
use crate::upstreams::Upstreams;

/// How long the end waits for what is left to be sent, within the grace.
const LAST: Duration = Duration::from_secs(3);

/// What is sent now.
#[derive(Debug, Default)]
pub(crate) struct Otlp(Option<Export>);

/// A tracer and its exporter.
#[derive(Debug)]
struct Export {
    config: config::Otlp,
    tracer: Arc<Tracer>,
    collector: Arc<ArcSwap<Upstream>>,
    /// Ends with the exporter.
    done: oneshot::Receiver<()>,
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
        let kept = self.0.as_ref().filter(|export| export.config == *wanted);
        let tracer =
            kept.map_or_else(|| Arc::new(Tracer::new(settings(wanted))), |export| Arc::clone(&export.tracer));
        Some(Tracing { tracer, collector: wanted.upstream.clone() })
    }

    /// Sends what this tracer keeps from now on. The upstreams of the configuration are applied already.
    pub(crate) fn apply(&mut self, config: &Config, tracing: Option<Tracing>, upstreams: &Upstreams) {
        let Some((config, tracing)) = config.otlp.as_ref().zip(tracing) else { return self.end() };
        let Some(collector) = upstreams.get(&tracing.collector) else { return self.end() };
        if let Some(export) = self.0.as_ref().filter(|export| export.tracer == tracing.tracer) {
            return export.collector.store(Arc::clone(collector));
        }
        self.end();
        let (collector, (ends, done)) = (Arc::new(ArcSwap::new(Arc::clone(collector))), oneshot::channel());
        let exporter = Exporter::new(config, Arc::clone(&tracing.tracer), Arc::clone(&collector), ends);
        upstreams.run_in_background(move || exporter.run());
        self.0 = Some(Export { config: config.clone(), tracer: tracing.tracer, collector, done });
    }

    /// The tracer takes nothing more. What it has is still sent.
    fn end(&mut self) {
        if let Some(export) = self.0.take() {
            export.tracer.queue().close();
        }
    }

    /// Sends what is left, and waits for that until `end` at the latest.
    pub(crate) async fn finish(&mut self, end: Instant) {
        let Some(export) = self.0.take() else { return };
        export.tracer.queue().close();
        let until = end.min(Instant::now() + LAST);
        if timeout_at(until, export.done).await.is_err() {
            tracing::warn!(
                name: "otlp_flush_timeout",
                upstream = export.config.upstream, "collector has not accepted the last spans in time; they are lost"
            );
        }
    }
}

fn settings(config: &config::Otlp) -> TracerSettings {
    let traces = &config.traces;
    TracerSettings {
        sample: traces.sample,
        slow: traces.slow,
        buffer: usize::try_from(traces.buffer).unwrap_or(usize::MAX),
        batch: traces.batch as usize,
    }
}
