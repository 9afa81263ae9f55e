//! `[otlp]`: what is sent to an OpenTelemetry collector.

use std::collections::BTreeMap;
use std::time::Duration;

use super::server::LEVELS;
use crate::checker::Checker;
use crate::key::{DefaultValue, Key, Section, Set, Subtable};
use crate::model::{Otlp, OtlpLogs, OtlpMetrics, OtlpTraces, Secret};
use crate::raw::{Directive, Span, Table};
use crate::shape::{
    Attributes, Count, Percent, RequestPath, ResponseHeaders, SERVICE_NAME, SectionName, Size, Time, WordOr,
    Words,
};

/// `[otlp]` before the checks of the whole file.
pub(crate) struct OtlpDraft {
    pub(crate) upstream: Option<(String, Span)>,
    headers: Vec<(String, Secret)>,
    service_name: String,
    resource: BTreeMap<String, String>,
    gzip: bool,
    timeout: Duration,
    traces: Option<OtlpTraces>,
    metrics: Option<OtlpMetrics>,
    logs: Option<OtlpLogs>,
}

impl Default for OtlpDraft {
    fn default() -> Self {
        Self {
            upstream: None,
            headers: Vec::new(),
            service_name: "keepwarm".to_owned(),
            resource: BTreeMap::new(),
            gzip: false,
            timeout: Duration::from_secs(10),
            traces: None,
            metrics: None,
            logs: None,
        }
    }
}

impl OtlpDraft {
    /// `None` if a problem was reported.
    pub(crate) fn finish(self) -> Option<Otlp> {
        let Self { upstream, headers, service_name, resource, gzip, timeout, traces, metrics, logs } = self;
        let (upstream, _) = upstream?;
        Some(Otlp { upstream, headers, service_name, resource, gzip, timeout, traces, metrics, logs })
    }
}

/// Headers of a request to the collector that its body has.
const OF_THE_BODY: [&str; 3] = ["host", "content-type", "content-encoding"];

/// What its keys must be to one another.
pub(super) fn check(draft: &OtlpDraft, table: &Table, directive: &Directive, cx: &mut Checker<'_>) {
    if table.entry("upstream").is_none() {
        cx.missing(directive.span, "upstream = \"collector\"").report(cx);
    }
    if ["traces", "metrics", "logs"].iter().all(|signal| table.entry(signal).is_none()) {
        cx.problem(directive.span, "`otlp` has neither `traces` nor `metrics` nor `logs`: nothing is sent")
            .key("otlp")
            .expected("at least one of them, for example traces = { sample = \"10%\" }")
            .report(cx);
    }
    let is_ours = |name: &&str| draft.headers.iter().any(|(set, _)| set.eq_ignore_ascii_case(name));
    if let (Some(entry), Some(name)) = (table.entry("headers"), OF_THE_BODY.iter().find(|name| is_ours(name)))
    {
        cx.problem(entry.value.span, format!("`otlp.headers` contains `{name}`, which only Keepwarm sets"))
            .key("otlp.headers")
            .expected("headers that the collector requires, such as an API key")
            .report(cx);
    }
}

pub(crate) static OTLP: Section<OtlpDraft> = Section {
    keys: &[
        Key {
            name: "upstream",
            brief: "Name of the `[upstream.NAME]` that is the collector",
            long: "It receives OTLP over HTTP, usually on port 4318. Its pool, TLS settings and limits apply. Calls to it are not traced.",
            default: DefaultValue::Required,
            right: "upstream = \"search\"",
            wrong: "upstream = \"serch\"",
            value: &Set(SectionName("upstream"), |draft: &mut OtlpDraft, name| draft.upstream = Some(name)),
            ..Key::LIVE
        },
        Key {
            name: "headers",
            brief: "Headers of each request to the collector",
            long: "Keep secrets out of the file: `headers = { Api-Key = \"${file:/run/secrets/collector}\" }`. OpenTelemetry's SDKs have this in `OTEL_EXPORTER_OTLP_HEADERS`.",
            default: DefaultValue::Words("none"),
            right: "headers = { Api-Key = \"0123456789\" }",
            wrong: "headers = { Content-Length = \"1\" }",
            value: &Set(ResponseHeaders, |draft: &mut OtlpDraft, headers: Vec<(String, String)>| {
                draft.headers = headers.into_iter().map(|(name, value)| (name, Secret::new(value))).collect();
            }),
            ..Key::LIVE
        },
        Key {
            name: "service_name",
            brief: "`service.name` of the resource: Keepwarm's name among the services of a trace",
            default: DefaultValue::Literal("\"keepwarm\""),
            right: "service_name = \"shop-edge\"",
            wrong: "service_name = \"\"",
            value: &Set(SERVICE_NAME, |draft: &mut OtlpDraft, name| draft.service_name = name),
            ..Key::LIVE
        },
        Key {
            name: "resource",
            brief: "Further attributes of the resource",
            long: "`service.version`, `service.instance.id`, `host.name` and `process.pid` are set by Keepwarm, and can be replaced here. OpenTelemetry's SDKs have this in `OTEL_RESOURCE_ATTRIBUTES`.",
            default: DefaultValue::Words("none"),
            right: "resource = { \"deployment.environment.name\" = \"production\" }",
            wrong: "resource = { \"deployment.environment.name\" = 1 }",
            value: &Set(Attributes, |draft: &mut OtlpDraft, resource| draft.resource = resource),
            ..Key::LIVE
        },
        Key {
            name: "compression",
            brief: "Compression of requests to the collector",
            long: "`\"gzip\"` makes them some ten times smaller, for a collector in another data center. `OTEL_EXPORTER_OTLP_COMPRESSION` of OpenTelemetry's SDKs.",
            default: DefaultValue::Literal("\"none\""),
            right: "compression = \"gzip\"",
            wrong: "compression = \"zstd\"",
            value: &Set(Words(&[("none", false), ("gzip", true)]), |draft: &mut OtlpDraft, gzip| {
                draft.gzip = gzip
            }),
            ..Key::LIVE
        },
        Key {
            name: "timeout",
            brief: "Time limit for one request to the collector",
            long: "A request that takes longer is sent again, as one that got 429, 502, 503 or 504.",
            default: DefaultValue::Literal("\"10s\""),
            right: "timeout = \"3s\"",
            wrong: "timeout = 10",
            value: &Set(
                Time(Duration::from_millis(100)..=Duration::from_secs(60)),
                |draft: &mut OtlpDraft, time| draft.timeout = time,
            ),
            ..Key::LIVE
        },
        Key {
            name: "traces",
            brief: "Which traces are sent, and how",
            long: "With this section, apps get `traceparent` ([Trace Context](../operate/traces.md)). An empty table has every default.",
            default: DefaultValue::Words("none: no traces are sent"),
            right: "traces = { sample = \"10%\" }",
            wrong: "traces = true",
            value: &Subtable(&TRACES, |draft: &mut OtlpDraft| draft.traces.get_or_insert_default()),
            ..Key::LIVE
        },
        Key {
            name: "metrics",
            brief: "Metrics that are sent",
            long: "Those of [`/metrics`](../operate/metrics.md), which needs no `[admin]` for this. An empty table has every default.",
            default: DefaultValue::Words("none: no metrics are sent"),
            right: "metrics = { interval = \"15s\" }",
            wrong: "metrics = true",
            value: &Subtable(&METRICS, |draft: &mut OtlpDraft| draft.metrics.get_or_insert_default()),
            ..Key::LIVE
        },
        Key {
            name: "logs",
            brief: "The log, which is sent, too",
            long: "Records of [`server.log`](../operate/logs.md#the-log), which has them as before: what Keepwarm decides, and what workers print. An empty table has every default.",
            default: DefaultValue::Words("none: no logs are sent"),
            right: "logs = { level = \"warn\" }",
            wrong: "logs = true",
            value: &Subtable(&LOGS, |draft: &mut OtlpDraft| draft.logs.get_or_insert_default()),
            ..Key::LIVE
        },
    ],
};

static METRICS: Section<OtlpMetrics> = Section {
    keys: &[
        Key {
            name: "path",
            brief: "Path of the collector that metrics are sent to",
            default: DefaultValue::Literal("\"/v1/metrics\""),
            right: "path = \"/otlp/v1/metrics\"",
            wrong: "path = \"v1/metrics\"",
            value: &Set(RequestPath, |metrics: &mut OtlpMetrics, path| metrics.path = path),
            ..Key::LIVE
        },
        Key {
            name: "interval",
            brief: "Time between two requests",
            long: "`OTEL_METRIC_EXPORT_INTERVAL` of OpenTelemetry's SDKs.",
            default: DefaultValue::Literal("\"60s\""),
            right: "interval = \"15s\"",
            wrong: "interval = 15",
            value: &Set(
                Time(Duration::from_millis(100)..=Duration::from_secs(3600)),
                |metrics: &mut OtlpMetrics, time| metrics.interval = time,
            ),
            ..Key::LIVE
        },
    ],
};

static LOGS: Section<OtlpLogs> = Section {
    keys: &[
        Key {
            name: "level",
            brief: "Lowest level that is sent",
            long: "Records below `server.log.level` are neither logged nor sent.",
            default: DefaultValue::Literal("\"info\""),
            right: "level = \"warn\"",
            wrong: "level = \"warning\"",
            value: &Set(Words(LEVELS), |logs: &mut OtlpLogs, level| logs.level = level),
            ..Key::LIVE
        },
        Key {
            name: "path",
            brief: "Path of the collector that logs are sent to",
            default: DefaultValue::Literal("\"/v1/logs\""),
            right: "path = \"/otlp/v1/logs\"",
            wrong: "path = \"v1/logs\"",
            value: &Set(RequestPath, |logs: &mut OtlpLogs, path| logs.path = path),
            ..Key::LIVE
        },
        Key {
            name: "interval",
            brief: "Longest time that a record waits for others",
            long: "`OTEL_BLRP_SCHEDULE_DELAY` of OpenTelemetry's SDKs.",
            default: DefaultValue::Literal("\"1s\""),
            right: "interval = \"5s\"",
            wrong: "interval = \"1h\"",
            value: &Set(
                Time(Duration::from_millis(10)..=Duration::from_secs(60)),
                |logs: &mut OtlpLogs, time| logs.interval = time,
            ),
            ..Key::LIVE
        },
        Key {
            name: "batch",
            brief: "Number of records that are sent at once, without waiting for `interval`",
            long: "`OTEL_BLRP_MAX_EXPORT_BATCH_SIZE` of OpenTelemetry's SDKs.",
            default: DefaultValue::Literal("512"),
            right: "batch = 1000",
            wrong: "batch = 0",
            value: &Set(Count(1..=10_000), |logs: &mut OtlpLogs, batch| logs.batch = batch),
            ..Key::LIVE
        },
        Key {
            name: "buffer",
            brief: "Memory of records that wait to be sent",
            long: "At this limit, new records are dropped and counted; the log still has them. Nothing waits for this.",
            default: DefaultValue::Literal("\"8MiB\""),
            right: "buffer = \"1MiB\"",
            wrong: "buffer = \"1KiB\"",
            value: &Set(Size(64 << 10..=1 << 30), |logs: &mut OtlpLogs, size| logs.buffer = size),
            ..Key::LIVE
        },
    ],
};

static TRACES: Section<OtlpTraces> = Section {
    keys: &[
        Key {
            name: "sample",
            brief: "Share of the traces that begin here",
            long: "Decided by the trace id, and told to apps and upstreams in `traceparent`. A trace that begins elsewhere keeps the decision it comes with. Requests and calls that fail or are slow are sent in any case.",
            default: DefaultValue::Literal("\"100%\""),
            right: "sample = \"10%\"",
            wrong: "sample = 0.1",
            value: &Set(Percent(0..=100), |traces: &mut OtlpTraces, sample| traces.sample = sample),
            ..Key::LIVE
        },
        Key {
            name: "slow",
            brief: "Time from which a request or a call is always sent",
            default: DefaultValue::Literal("\"1s\""),
            right: "slow = \"250ms\"",
            wrong: "slow = 250",
            value: &Set(
                WordOr("off", Time(Duration::from_millis(1)..=Duration::from_secs(3600))),
                |traces: &mut OtlpTraces, slow| traces.slow = slow,
            ),
            ..Key::LIVE
        },
        Key {
            name: "path",
            brief: "Path of the collector that traces are sent to",
            default: DefaultValue::Literal("\"/v1/traces\""),
            right: "path = \"/otlp/v1/traces\"",
            wrong: "path = \"v1/traces\"",
            value: &Set(RequestPath, |traces: &mut OtlpTraces, path| traces.path = path),
            ..Key::LIVE
        },
        Key {
            name: "interval",
            brief: "Longest time that a span waits for others",
            long: "`OTEL_BSP_SCHEDULE_DELAY` of OpenTelemetry's SDKs.",
            default: DefaultValue::Literal("\"5s\""),
            right: "interval = \"1s\"",
            wrong: "interval = \"1h\"",
            value: &Set(
                Time(Duration::from_millis(10)..=Duration::from_secs(60)),
                |traces: &mut OtlpTraces, time| traces.interval = time,
            ),
            ..Key::LIVE
        },
        Key {
            name: "batch",
            brief: "Number of spans that are sent at once, without waiting for `interval`",
            long: "`OTEL_BSP_MAX_EXPORT_BATCH_SIZE` of OpenTelemetry's SDKs.",
            default: DefaultValue::Literal("512"),
            right: "batch = 1000",
            wrong: "batch = 0",
            value: &Set(Count(1..=10_000), |traces: &mut OtlpTraces, batch| traces.batch = batch),
            ..Key::LIVE
        },
        Key {
            name: "buffer",
            brief: "Memory of spans that wait to be sent",
            long: "At this limit, new spans are dropped and counted. A request waits for none of this. A span takes about 600 bytes, at most some 5 KiB.",
            default: DefaultValue::Literal("\"8MiB\""),
            right: "buffer = \"1MiB\"",
            wrong: "buffer = \"1KiB\"",
            value: &Set(Size(64 << 10..=1 << 30), |traces: &mut OtlpTraces, size| traces.buffer = size),
            ..Key::LIVE
        },
    ],
};
