//! Metrics as text: OpenMetrics 1.0 for clients that accept it, as Prometheus does, else Prometheus' older format.

use std::fmt;
use std::time::UNIX_EPOCH;

use keepwarm_telemetry::meters::Exemplar;
use keepwarm_telemetry::per_thread::{BOUNDS_US, HistogramTotals};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

/// The two formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    OpenMetrics,
    Prometheus,
}

impl Format {
    /// The format that a client's `Accept` requests.
    pub(super) fn accepted<'a>(mut accept: impl Iterator<Item = &'a [u8]>) -> Self {
        let wanted = b"application/openmetrics-text";
        let asks = |field: &[u8]| field.windows(wanted.len()).any(|part| part.eq_ignore_ascii_case(wanted));
        if accept.any(asks) { Self::OpenMetrics } else { Self::Prometheus }
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Values of one name.
#[derive(Debug)]
pub(crate) struct Family {
    /// Without its unit and without `_total`, which the format adds.
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    pub(crate) unit: Option<Unit>,
    pub(crate) kind: MetricType,
    pub(crate) rows: Vec<Row>,
}

#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) labels: Vec<(&'static str, String)>,
    pub(crate) value: Value,
}

#[derive(Debug)]
pub(crate) enum Value {
    Count(u64),
    Amount(f64),
    Times(Box<HistogramTotals>),
    /// With traces that were counted.
    TracedTimes(Box<(HistogramTotals, Vec<Exemplar>)>),
}

/// The text.
pub(super) fn write(families: Vec<Family>, format: Format) -> String {
    let exemplars = exemplars(&families);
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Families(families)));
    let mut text = String::new();
    // Fails only where the memory it writes to does.
    let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
    match format {
        Format::OpenMetrics if exemplars.iter().all(|row| row.is_empty()) => text,
        Format::OpenMetrics => with_exemplars(&text, &exemplars),
        Format::Prometheus => older(&text),
    }
}

#[derive(Debug)]
struct Families(Vec<Family>);

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for family in self.0.iter().filter(|family| !family.rows.is_empty()) {
            let Family { name, help, unit, kind, rows } = family;
            let mut metric = encoder.encode_descriptor(name, help, unit.as_ref(), *kind)?;
            for row in rows {
                match row.labels.is_empty() {
                    true => encode(&row.value, *kind, &mut metric)?,
                    false => encode(&row.value, *kind, &mut metric.encode_family(&row.labels)?)?,
                }
            }
        }
        Ok(())
    }
}

fn encode(value: &Value, kind: MetricType, metric: &mut MetricEncoder<'_>) -> fmt::Result {
    match (value, kind) {
        (Value::Count(count), MetricType::Counter) => {
            metric.encode_counter::<NoLabelSet, _, u64>(count, None)
        }
        (Value::Amount(amount), MetricType::Counter) => {
            metric.encode_counter::<NoLabelSet, _, f64>(amount, None)
        }
        (Value::Count(count), _) => metric.encode_gauge(&i64::try_from(*count).unwrap_or(i64::MAX)),
        (Value::Amount(amount), _) => metric.encode_gauge(amount),
        (Value::Times(times), _) => encode_times(times, metric),
        (Value::TracedTimes(traced), _) => encode_times(&traced.0, metric),
    }
}

fn encode_times(times: &HistogramTotals, metric: &mut MetricEncoder<'_>) -> fmt::Result {
    let bounds = BOUNDS_US.iter().map(|bound| *bound as f64 / 1e6).chain([f64::INFINITY]);
    let buckets: Vec<(f64, u64)> = bounds.zip(times.buckets).collect();
    metric.encode_histogram::<NoLabelSet>(times.sum_ns as f64 / 1e9, times.count(), &buckets, None)
}

/// The exemplars of each histogram, in the order of the text.
fn exemplars(families: &[Family]) -> Vec<Vec<Exemplar>> {
    let rows = families.iter().flat_map(|family| &family.rows);
    let of_row = |row: &Row| match &row.value {
        Value::TracedTimes(traced) => Some(traced.1.clone()),
        Value::Times(_) => Some(Vec::new()),
        Value::Count(_) | Value::Amount(_) => None,
    };
    rows.filter_map(of_row).collect()
}

/// Adds exemplars to the lines of buckets. The library has none for counts that are not its own, and every histogram here has the same number of buckets.
fn with_exemplars(text: &str, exemplars: &[Vec<Exemplar>]) -> String {
    let mut out = String::with_capacity(text.len() + 128 * exemplars.len());
    let mut buckets = 0;
    for line in text.lines() {
        out.push_str(line);
        let is_bucket =
            !line.starts_with('#') && line.split_once('{').is_some_and(|(name, _)| name.ends_with("_bucket"));
        if is_bucket {
            let (row, bucket) = (buckets / (BOUNDS_US.len() + 1), buckets % (BOUNDS_US.len() + 1));
            buckets += 1;
            let row = exemplars.get(row).map_or(&[][..], Vec::as_slice);
            if let Some(exemplar) = row.iter().find(|exemplar| exemplar.bucket == bucket) {
                push_exemplar(&mut out, exemplar);
            }
        }
        out.push('\n');
    }
    out
}

fn push_exemplar(out: &mut String, exemplar: &Exemplar) {
    let id = String::from_utf8_lossy(&exemplar.trace_id);
    let time = exemplar.time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (value, time) = (exemplar.value.as_secs_f64(), time.as_secs_f64());
    out.push_str(&format!(" # {{trace_id=\"{id}\"}} {value} {time:.3}"));
}

/// OpenMetrics as the format before it: there the name of a counter has its `_total` everywhere, and units and the end have no line.
fn older(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut help = "";
    for line in text.lines() {
        if line.starts_with("# HELP ") {
            // Its family is a counter or not: the next line says.
            help = line;
        } else if let Some(about) = line.strip_prefix("# TYPE ") {
            let (name, kind) = about.split_once(' ').unwrap_or((about, ""));
            let suffix = if kind == "counter" { "_total" } else { "" };
            let words =
                help.strip_prefix("# HELP ").and_then(|rest| rest.strip_prefix(name)).unwrap_or_default();
            out.push_str(&format!("# HELP {name}{suffix}{words}\n# TYPE {name}{suffix} {kind}\n"));
        } else if !line.starts_with("# UNIT ") && line != "# EOF" {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn families() -> Vec<Family> {
        let row = |value| Row { labels: vec![("app", "a\"b\\".to_owned())], value };
        let mut times = HistogramTotals::default();
        times.buckets[1] = 2;
        times.sum_ns = 1_500_000;
        let family = |name, unit, kind, rows| Family { name, help: "Some help", unit, kind, rows };
        vec![
            family("requests", None, MetricType::Counter, vec![row(Value::Count(3))]),
            family("sent", Some(Unit::Bytes), MetricType::Counter, vec![row(Value::Count(4))]),
            family("open", None, MetricType::Gauge, vec![Row { labels: vec![], value: Value::Count(5) }]),
            family("none", None, MetricType::Gauge, vec![]),
            family(
                "lag",
                Some(Unit::Seconds),
                MetricType::Histogram,
                vec![row(Value::Times(Box::new(times)))],
            ),
        ]
    }

    #[test]
    fn openmetrics_has_units_and_an_end() {
        let text = write(families(), Format::OpenMetrics);
        for line in [
            "# TYPE requests counter",
            "requests_total{app=\"a\\\"b\\\\\"} 3",
            "# UNIT sent_bytes bytes",
            "sent_bytes_total{app=\"a\\\"b\\\\\"} 4",
            "open 5",
            "lag_seconds_bucket{le=\"0.001\",app=\"a\\\"b\\\\\"} 2",
        ] {
            assert!(text.lines().any(|seen| seen == line), "{line}\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
        assert!(!text.contains("none"));
    }

    #[test]
    fn the_older_format_names_counters_whole() {
        let text = write(families(), Format::Prometheus);
        let begin = "# HELP requests_total Some help\n# TYPE requests_total counter\nrequests_total{app=\"a\\\"b\\\\\"} 3\n\
                     # HELP sent_bytes_total Some help\n# TYPE sent_bytes_total counter\nsent_bytes_total{app=\"a\\\"b\\\\\"} 4\n\
                     # HELP open Some help\n# TYPE open gauge\nopen 5\n# HELP lag_seconds Some help\n# TYPE lag_seconds histogram\n";
        assert!(text.starts_with(begin), "{text}");
        assert!(!text.contains("UNIT") && !text.contains("EOF"));
    }

    #[test]
    fn a_bucket_names_a_trace_that_was_counted_in_it() {
        let mut families = families();
        let mut times = HistogramTotals::default();
        (times.buckets[1], times.buckets[16], times.sum_ns) = (2, 1, 61_500_000_000);
        let exemplar = |bucket, millis| Exemplar {
            bucket,
            trace_id: *b"4bf92f3577b34da6a3ce929d0e0e4736",
            value: std::time::Duration::from_millis(millis),
            time: UNIX_EPOCH + std::time::Duration::from_millis(1_767_225_600_042),
        };
        let exemplars = vec![exemplar(16, 61_000), exemplar(1, 1)];
        families.push(Family {
            name: "traced",
            help: "Some help",
            unit: Some(Unit::Seconds),
            kind: MetricType::Histogram,
            rows: vec![Row {
                labels: vec![("app", "x_bucket{".to_owned())],
                value: Value::TracedTimes(Box::new((times, exemplars))),
            }],
        });
        let text = write(families, Format::OpenMetrics);
        let traced: Vec<&str> = text.lines().filter(|line| line.contains(" # ")).collect();
        assert_eq!(
            traced,
            [
                "traced_seconds_bucket{le=\"0.001\",app=\"x_bucket{\"} 2 # {trace_id=\"4bf92f3577b34da6a3ce929d0e0e4736\"} 0.001 1767225600.042",
                "traced_seconds_bucket{le=\"+Inf\",app=\"x_bucket{\"} 3 # {trace_id=\"4bf92f3577b34da6a3ce929d0e0e4736\"} 61 1767225600.042",
            ]
        );
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn the_client_chooses() {
        let accepted = |accept: &str| Format::accepted([accept.as_bytes()].into_iter());
        assert_eq!(
            accepted("application/openmetrics-text;version=1.0.0,text/plain;q=0.5"),
            Format::OpenMetrics
        );
        assert_eq!(accepted("text/plain"), Format::Prometheus);
        assert_eq!(Format::accepted([].into_iter()), Format::Prometheus);
    }
}
