//! The metrics of `/metrics`, sent at an interval.
//!
//! Every value is cumulative, so what is not accepted needs not be sent again: the next one says all of it.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use keepwarm_config as config;
use keepwarm_telemetry::meters::Exemplar as Counted;
use keepwarm_telemetry::per_thread::{BOUNDS_US, HistogramTotals};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;
use tokio::sync::oneshot;

use super::client::CollectorClient;
use super::delivery::Delivery;
use super::messages::{
    Exemplar, ExemplarValue, ExportMetricsServiceRequest, Gauge, Histogram, HistogramDataPoint, KeyValue,
    Metric, MetricData, NumberDataPoint, NumberValue, Resource, ResourceMetrics, ScopeMetrics, Sum,
    Temporality, nanos,
};
use super::resource::{SCHEMA, scope};
use crate::admin::exposition::{Family, Row, Value};
use crate::admin::metrics::families;
use crate::status::view::View;

/// How long looking at everything may take: at the end, what is looked at may be gone.
const LOOK: Duration = Duration::from_secs(1);

/// Sends the metrics of the process.
pub(super) struct MetricExporter {
    pub(super) view: Arc<View>,
    pub(super) client: CollectorClient,
    pub(super) metrics: config::OtlpMetrics,
    pub(super) resource: Resource,
    /// Ends it, when it is dropped.
    pub(super) stop: oneshot::Receiver<()>,
    /// Dropped at the end.
    pub(super) _done: oneshot::Sender<()>,
}

impl MetricExporter {
    /// Until it is stopped, and then once more.
    pub(super) async fn run(mut self) {
        loop {
            let is_over = tokio::time::timeout(self.metrics.interval, &mut self.stop).await.is_ok();
            self.deliver().await;
            if is_over {
                return;
            }
        }
    }

    async fn deliver(&mut self) {
        let Ok(status) = tokio::time::timeout(LOOK, self.view.look()).await else { return };
        let message = ExportMetricsServiceRequest {
            resource_metrics: vec![ResourceMetrics {
                resource: Some(self.resource.clone()),
                scope_metrics: vec![ScopeMetrics {
                    scope: Some(scope()),
                    metrics: metrics(families(&status), status.started, SystemTime::now()),
                }],
                schema_url: SCHEMA.to_owned(),
            }],
        };
        let request = self.client.request(&self.metrics.path, &message);
        match self.client.send(request).await {
            Delivery::Accepted => self.client.succeed(),
            Delivery::Partial { rejected, message } => self.client.reject(rejected, &message),
            Delivery::Refused { reason } | Delivery::Retry { reason, .. } => {
                self.client.fail(&reason, "sent with the next interval");
            }
        }
    }
}

/// Families as metrics of OTLP. A collector that gives them to Prometheus makes the same names of them as `/metrics` has.
fn metrics(families: Vec<Family>, started: SystemTime, now: SystemTime) -> Vec<Metric> {
    let times = Times { start: nanos(started), now: nanos(now) };
    let present = families.into_iter().filter(|family| !family.rows.is_empty());
    present.map(|family| metric(family, times)).collect()
}

#[derive(Debug, Clone, Copy)]
struct Times {
    start: u64,
    now: u64,
}

fn metric(family: Family, times: Times) -> Metric {
    let Family { name, help, unit, kind, rows } = family;
    let cumulative = Temporality::Cumulative.into();
    let data = match kind {
        MetricType::Histogram => MetricData::Histogram(Histogram {
            data_points: rows.into_iter().map(|row| histogram(row, times)).collect(),
            aggregation_temporality: cumulative,
        }),
        MetricType::Counter => MetricData::Sum(Sum {
            data_points: rows.into_iter().map(|row| number(row, times)).collect(),
            aggregation_temporality: cumulative,
            is_monotonic: true,
        }),
        _ => MetricData::Gauge(Gauge {
            data_points: rows
                .into_iter()
                .map(|row| NumberDataPoint { start_time_unix_nano: 0, ..number(row, times) })
                .collect(),
        }),
    };
    Metric {
        name: name.to_owned(),
        description: help.to_owned(),
        unit: unit.as_ref().map(ucum).unwrap_or_default().to_owned(),
        data: Some(data),
    }
}

/// A unit by its code in UCUM, which OpenTelemetry uses.
fn ucum(unit: &Unit) -> &'static str {
    match unit {
        Unit::Seconds => "s",
        Unit::Bytes => "By",
        _ => "",
    }
}

fn labels(row: &Row) -> Vec<KeyValue> {
    // An empty label is none, for Prometheus and for OpenTelemetry's conventions for it.
    let set = row.labels.iter().filter(|(_, value)| !value.is_empty());
    set.map(|(name, value)| KeyValue::string(name, value.as_str())).collect()
}

fn number(row: Row, times: Times) -> NumberDataPoint {
    NumberDataPoint {
        attributes: labels(&row),
        start_time_unix_nano: times.start,
        time_unix_nano: times.now,
        value: match row.value {
            Value::Count(count) => Some(NumberValue::Int(i64::try_from(count).unwrap_or(i64::MAX))),
            Value::Amount(amount) => Some(NumberValue::Double(amount)),
            Value::Times(_) | Value::TracedTimes(_) => None,
        },
    }
}

fn histogram(row: Row, times: Times) -> HistogramDataPoint {
    let none = HistogramTotals::default();
    let (totals, exemplars): (&HistogramTotals, &[Counted]) = match &row.value {
        Value::Times(totals) => (totals, &[]),
        Value::TracedTimes(traced) => (&traced.0, &traced.1),
        Value::Count(_) | Value::Amount(_) => (&none, &[]),
    };
    HistogramDataPoint {
        attributes: labels(&row),
        start_time_unix_nano: times.start,
        time_unix_nano: times.now,
        count: totals.count(),
        sum: Some(totals.sum_ns as f64 / 1e9),
        bucket_counts: totals.buckets.to_vec(),
        explicit_bounds: BOUNDS_US.iter().map(|bound| *bound as f64 / 1e6).collect(),
        exemplars: exemplars.iter().filter_map(exemplar).collect(),
    }
}

fn exemplar(counted: &Counted) -> Option<Exemplar> {
    let digits = std::str::from_utf8(&counted.trace_id).ok()?;
    Some(Exemplar {
        time_unix_nano: nanos(counted.time),
        value: Some(ExemplarValue::Double(counted.value.as_secs_f64())),
        trace_id: u128::from_str_radix(digits, 16).ok()?.to_be_bytes().to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    const START: SystemTime = UNIX_EPOCH;

    fn one(kind: MetricType, unit: Option<Unit>, value: Value) -> Metric {
        let labels = vec![("app", "shop".to_owned()), ("route", String::new())];
        let family =
            Family { name: "keepwarm_x", help: "Help", unit, kind, rows: vec![Row { labels, value }] };
        let empty = Family { name: "none", help: "", unit: None, kind: MetricType::Gauge, rows: Vec::new() };
        let mut all = metrics(vec![empty, family], START, START + Duration::from_secs(1));
        assert_eq!(all.len(), 1);
        all.remove(0)
    }

    #[test]
    fn a_counter_is_a_cumulative_sum() {
        let metric = one(MetricType::Counter, Some(Unit::Bytes), Value::Count(7));
        assert_eq!((metric.name.as_str(), metric.unit.as_str()), ("keepwarm_x", "By"));
        let Some(MetricData::Sum(sum)) = metric.data else { panic!("{metric:?}") };
        assert!(sum.is_monotonic && sum.aggregation_temporality == i32::from(Temporality::Cumulative));
        let [point] = sum.data_points.as_slice() else { panic!("{sum:?}") };
        assert_eq!(point.value, Some(NumberValue::Int(7)));
        assert_eq!(point.time_unix_nano - point.start_time_unix_nano, 1_000_000_000);
        assert_eq!(point.attributes, [KeyValue::string("app", "shop")], "an empty label is none");
    }

    #[test]
    fn a_gauge_has_no_start() {
        let metric = one(MetricType::Gauge, None, Value::Amount(0.5));
        let Some(MetricData::Gauge(gauge)) = metric.data else { panic!("{metric:?}") };
        assert_eq!(gauge.data_points[0].value, Some(NumberValue::Double(0.5)));
        assert_eq!(gauge.data_points[0].start_time_unix_nano, 0);
    }

    #[test]
    fn a_histogram_has_a_bucket_more_than_bounds_and_its_traces() {
        let mut totals = HistogramTotals { sum_ns: 1_500_000_000, ..HistogramTotals::default() };
        (totals.buckets[1], totals.buckets[16]) = (2, 1);
        let counted = Counted {
            bucket: 1,
            trace_id: *b"4bf92f3577b34da6a3ce929d0e0e4736",
            value: Duration::from_millis(1),
            time: START + Duration::from_nanos(5),
        };
        let value = Value::TracedTimes(Box::new((totals, vec![counted])));
        let metric = one(MetricType::Histogram, Some(Unit::Seconds), value);
        let Some(MetricData::Histogram(histogram)) = metric.data else { panic!("{metric:?}") };
        let point = &histogram.data_points[0];
        assert_eq!((point.bucket_counts.len(), point.explicit_bounds.len()), (17, 16));
        assert_eq!((point.count, point.sum), (3, Some(1.5)));
        assert_eq!((point.bucket_counts[1], point.bucket_counts[16]), (2, 1));
        assert_eq!((point.explicit_bounds[0], point.explicit_bounds[15]), (0.0005, 60.0));
        let exemplar = &point.exemplars[0];
        assert_eq!((exemplar.time_unix_nano, exemplar.trace_id.len()), (5, 16));
        assert_eq!(exemplar.trace_id[..2], [0x4b, 0xf9]);
    }
}
