use std::collections::BTreeMap;
use std::time::Duration;

use super::{LogLevel, Secret};

/// `[otlp]`: where traces, metrics and logs are sent, in OTLP over HTTP. At least one of them is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Otlp {
    /// Name of the upstream that is the collector, which is in [`crate::Config::upstreams`].
    pub upstream: String,
    /// Headers of each request to it.
    pub headers: Vec<(String, Secret)>,
    /// `service.name` of what is sent.
    pub service_name: String,
    /// Further attributes of the resource.
    pub resource: BTreeMap<String, String>,
    /// Requests are compressed by gzip.
    pub gzip: bool,
    /// Time limit for one request to the collector.
    pub timeout: Duration,
    /// `traces`: which traces are sent. `None`: none.
    pub traces: Option<OtlpTraces>,
    /// `metrics`. `None`: they are not sent.
    pub metrics: Option<OtlpMetrics>,
    /// `logs`. `None`: they are not sent.
    pub logs: Option<OtlpLogs>,
}

/// `traces` of `[otlp]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtlpTraces {
    /// Percent of the traces that begin here, 0 to 100.
    pub sample: u32,
    /// Requests and calls that take so long are always sent. `None`: off.
    pub slow: Option<Duration>,
    /// Path that they are sent to.
    pub path: String,
    /// The longest wait of a span for others.
    pub interval: Duration,
    /// Spans that are sent at once.
    pub batch: u32,
    /// Bytes of spans that wait to be sent.
    pub buffer: u64,
}

/// `metrics` of `[otlp]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtlpMetrics {
    /// Path that they are sent to.
    pub path: String,
    /// Time between two requests.
    pub interval: Duration,
}

/// `logs` of `[otlp]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtlpLogs {
    /// Records below this level are not sent. The log has those that are.
    pub level: LogLevel,
    /// Path that they are sent to.
    pub path: String,
    /// The longest wait of a record for others.
    pub interval: Duration,
    /// Records that are sent at once.
    pub batch: u32,
    /// Bytes of records that wait to be sent.
    pub buffer: u64,
}

impl Default for OtlpLogs {
    fn default() -> Self {
        Self {
            level: LogLevel::Info,
            path: "/v1/logs".to_owned(),
            interval: Duration::from_secs(1),
            batch: 512,
            buffer: 8 << 20,
        }
    }
}

impl Default for OtlpMetrics {
    fn default() -> Self {
        Self { path: "/v1/metrics".to_owned(), interval: Duration::from_secs(60) }
    }
}

impl Default for OtlpTraces {
    fn default() -> Self {
        Self {
            sample: 100,
            slow: Some(Duration::from_secs(1)),
            path: "/v1/traces".to_owned(),
            interval: Duration::from_secs(5),
            batch: 512,
            buffer: 8 << 20,
        }
    }
}
