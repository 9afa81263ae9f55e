//! The metrics of the back door.

use keepwarm_egress::{EndpointStatus, UpstreamStatus};
use keepwarm_net::PoolTotals;
use keepwarm_policy::BreakerState;
use keepwarm_telemetry::meters::CLASSES;
use keepwarm_telemetry::per_thread::HistogramTotals;
use keepwarm_telemetry::upstreams::{EndpointMeter, EndpointTotals};
use keepwarm_telemetry::{counters, upstreams};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use super::super::exposition::{Family, Row, Value};
use super::{counter, gauge, times_of};

type Labels = Vec<(&'static str, String)>;

pub(super) fn families(upstreams: &[UpstreamStatus]) -> Vec<Family> {
    let mut all = calls();
    all.extend(words());
    all.extend(endpoints(upstreams));
    all.extend(breakers(upstreams));
    let metered: Vec<Connections> =
        upstreams::endpoints().into_iter().map(|meter| (meter, meter.connections.totals())).collect();
    all.extend(connections(&metered));
    all.extend(handshakes(&metered));
    all.extend(whole(upstreams));
    all
}

/// The meters' counts, including those of endpoints that are gone: a counter does not go back.
fn calls() -> Vec<Family> {
    let meters: Vec<Metered> =
        upstreams::endpoints().into_iter().map(|meter| (meter, meter.totals())).collect();
    let classes = meters.iter().flat_map(|(meter, totals)| {
        let of_class = |(class, count): (&&'static str, u64)| with(of_meter(meter), ("code", class), count);
        CLASSES.iter().zip(totals.classes).map(of_class).collect::<Vec<_>>()
    });
    let connections =
        meters.iter().filter(|(meter, _)| !meter.endpoint.is_empty()).flat_map(|(meter, totals)| {
            [("reused", totals.reused), ("new", totals.dialled)]
                .map(|(word, count)| with(of_meter(meter), ("connection", word), count))
        });
    let mut all = vec![
        counter(
            "keepwarm_upstream_calls",
            "Completed calls, by the class of the status that the caller got",
            None,
            classes.collect(),
        ),
        counter(
            "keepwarm_upstream_call_connections",
            "Calls by the connection of their last attempt: reused or new",
            None,
            connections.collect(),
        ),
    ];
    all.extend(times(&meters));
    all.extend(sums(&meters));
    all
}

type Metered = (&'static EndpointMeter, EndpointTotals);

fn of_meter(meter: &EndpointMeter) -> Labels {
    vec![("upstream", meter.upstream.to_string()), ("endpoint", meter.endpoint.to_string())]
}

fn times(meters: &[Metered]) -> [Family; 2] {
    let rows = |times: fn(&EndpointTotals) -> &HistogramTotals| -> Vec<Row> {
        // Calls that came to no endpoint have no first byte.
        let known =
            meters.iter().filter(|(meter, totals)| !meter.endpoint.is_empty() || times(totals).count() > 0);
        known.map(|(meter, totals)| Row { labels: of_meter(meter), value: times_of(times(totals)) }).collect()
    };
    [
        seconds(
            "keepwarm_upstream_call_duration",
            "From the first byte of the call to the end of its response, including every attempt",
            rows(|totals| &totals.duration),
        ),
        seconds(
            "keepwarm_upstream_first_byte",
            "Part of the duration: from having a connection to the response head",
            rows(|totals| &totals.first_byte),
        ),
    ]
}

fn sums(meters: &[Metered]) -> [Family; 3] {
    let each = |value: fn(&EndpointTotals) -> u64| -> Vec<Row> {
        let row =
            |(meter, totals): &Metered| Row { labels: of_meter(meter), value: Value::Count(value(totals)) };
        meters.iter().map(row).collect()
    };
    let bytes = Some(Unit::Bytes);
    [
        counter(
            "keepwarm_upstream_sent",
            "Bytes of request bodies",
            bytes.clone(),
            each(|totals| totals.sent),
        ),
        counter(
            "keepwarm_upstream_received",
            "Bytes of response bodies",
            bytes,
            each(|totals| totals.received),
        ),
        counter(
            "keepwarm_upstream_hedges",
            "Calls with a second attempt beside the first",
            None,
            each(|totals| totals.hedged),
        ),
    ]
}

/// Counters with a word that says why.
fn words() -> Vec<Family> {
    let rows = |family: &counters::Family, label: &'static str| -> Vec<Row> {
        let row = |(upstream, word, count): &(String, &'static str, u64)| {
            with(vec![("upstream", upstream.clone())], (label, word), *count)
        };
        family.values().iter().map(row).collect()
    };
    vec![
        counter(
            "keepwarm_upstream_retries",
            "Failed attempts that were followed by another, by cause",
            None,
            rows(&counters::CALL_RETRIES, "cause"),
        ),
        counter(
            "keepwarm_upstream_failures",
            "Calls whose last attempt failed, by cause",
            None,
            rows(&counters::CALL_FAILURES, "cause"),
        ),
        counter(
            "keepwarm_upstream_refusals",
            "Calls that got an error before any endpoint was tried",
            None,
            rows(&counters::CALL_REFUSALS, "reason"),
        ),
    ]
}

fn endpoints(upstreams: &[UpstreamStatus]) -> Vec<Family> {
    let each = |value: fn(&EndpointStatus) -> u64| -> Vec<Row> {
        let row = |(labels, endpoint): (Labels, &EndpointStatus)| Row {
            labels,
            value: Value::Count(value(endpoint)),
        };
        of_endpoints(upstreams).map(row).collect()
    };
    let states = of_endpoints(upstreams).flat_map(|(labels, endpoint)| {
        let state = endpoint.connections;
        [("idle", state.idle), ("in_use", state.in_use), ("dialling", state.dialling)]
            .map(|(word, count)| with(labels.clone(), ("state", word), count as u64))
    });
    vec![
        gauge(
            "keepwarm_upstream_endpoint_healthy",
            "1: health checks succeed, or there are none; 0: left out",
            None,
            each(|endpoint| endpoint.healthy.into()),
        ),
        gauge(
            "keepwarm_upstream_endpoint_drained",
            "1: taken out of use by `keepwarm endpoint drain`",
            None,
            each(|endpoint| endpoint.drained.into()),
        ),
        gauge(
            "keepwarm_upstream_endpoint_ejected",
            "1: left out as an outlier because the others do better",
            None,
            each(|endpoint| endpoint.ejected.into()),
        ),
        gauge(
            "keepwarm_upstream_in_flight",
            "Calls in flight to the endpoint",
            None,
            each(|endpoint| endpoint.in_flight.into()),
        ),
        gauge("keepwarm_upstream_pool_connections", "Connections by state", None, states.collect()),
        gauge(
            "keepwarm_upstream_pool_waiting",
            "Calls that wait for a connection",
            None,
            each(|endpoint| endpoint.connections.waiting as u64),
        ),
    ]
}

/// One of the states of each is 1. The upstream's own has no endpoint.
fn breakers(upstreams: &[UpstreamStatus]) -> Vec<Family> {
    let own = upstreams.iter().map(|upstream| (of_endpoint(upstream, ""), upstream.breaker));
    let theirs = of_endpoints(upstreams).map(|(labels, endpoint)| (labels, endpoint.breaker));
    let rows = own.chain(theirs).flat_map(|(labels, now)| {
        [BreakerState::Closed, BreakerState::Open, BreakerState::HalfOpen]
            .map(|state| with(labels.clone(), ("state", state.name()), (state == now).into()))
    });
    vec![gauge("keepwarm_upstream_breaker", "1: the breaker is in this state", None, rows.collect())]
}

/// Includes endpoints that are gone.
type Connections = (&'static EndpointMeter, PoolTotals);

/// Calls that came to no endpoint had no connection.
fn of_connections(metered: &[Connections], value: impl Fn(&PoolTotals) -> Value) -> Vec<Row> {
    let known = metered.iter().filter(|(meter, _)| !meter.endpoint.is_empty());
    known.map(|(meter, totals)| Row { labels: of_meter(meter), value: value(totals) }).collect()
}

/// A row for each word.
fn worded<const N: usize>(
    metered: &[Connections],
    label: &'static str,
    counts: fn(&PoolTotals) -> [(&'static str, u64); N],
) -> Vec<Row> {
    let known = metered.iter().filter(|(meter, _)| !meter.endpoint.is_empty());
    let rows = |(meter, totals): &Connections| {
        counts(totals).map(|(word, count)| with(of_meter(meter), (label, word), count))
    };
    known.flat_map(rows).collect()
}

fn connections(metered: &[Connections]) -> Vec<Family> {
    let each = |value: fn(&PoolTotals) -> u64| of_connections(metered, |totals| Value::Count(value(totals)));
    let lost = worded(metered, "outcome", |it| [("retried", it.lost_retried), ("failed", it.lost_failed)]);
    vec![
        counter("keepwarm_upstream_connects", "Connections made", None, each(|it| it.dialled)),
        counter(
            "keepwarm_upstream_connect",
            "Time spent connecting, without TLS",
            Some(Unit::Seconds),
            of_connections(metered, |totals| Value::Amount(totals.connect_time.as_secs_f64())),
        ),
        counter(
            "keepwarm_upstream_connects_failed",
            "Connections that could not be made",
            None,
            each(|it| it.dials_failed),
        ),
        counter(
            "keepwarm_upstream_idle_closes",
            "Idle connections that the server closed",
            None,
            each(|it| it.closed_idle),
        ),
        counter("keepwarm_upstream_lost", "Calls lost on a kept connection that had been closed", None, lost),
    ]
}

fn handshakes(metered: &[Connections]) -> Vec<Family> {
    let kinds = worded(metered, "kind", |it| {
        [("full", it.handshakes_full), ("resumed", it.handshakes_resumed), ("failed", it.handshakes_failed)]
    });
    let each = |value: fn(&PoolTotals) -> u64| of_connections(metered, |totals| Value::Count(value(totals)));
    vec![
        counter("keepwarm_upstream_handshakes", "TLS handshakes", None, kinds),
        counter(
            "keepwarm_upstream_handshake",
            "Time spent in TLS handshakes",
            Some(Unit::Seconds),
            of_connections(metered, |totals| Value::Amount(totals.handshake_time.as_secs_f64())),
        ),
        counter(
            "keepwarm_upstream_handshakes_avoided",
            "Calls over TLS that needed no handshake because their connection was kept",
            None,
            each(|it| it.handshakes_avoided),
        ),
        counter(
            "keepwarm_upstream_certificates_avoided",
            "Bytes of certificates not sent because a connection was kept or a session was resumed",
            Some(Unit::Bytes),
            each(|it| it.certificate_bytes_avoided),
        ),
    ]
}

fn whole(upstreams: &[UpstreamStatus]) -> Vec<Family> {
    let each = |value: fn(&UpstreamStatus) -> u64| -> Vec<Row> {
        of_upstreams(upstreams, |upstream| Value::Count(value(upstream)))
    };
    vec![
        gauge(
            "keepwarm_upstream_queue_length",
            "Calls that wait for an in-flight slot (limits.in_flight)",
            None,
            each(|upstream| upstream.queue as u64),
        ),
        gauge(
            "keepwarm_upstream_endpoints",
            "Number of endpoints",
            None,
            each(|upstream| upstream.found as u64),
        ),
        counter(
            "keepwarm_upstream_endpoint_changes",
            "Changes to the set of endpoints",
            None,
            each(|upstream| upstream.changes),
        ),
        counter("keepwarm_upstream_lookups", "Name lookups", None, each(|upstream| upstream.lookups)),
        counter(
            "keepwarm_upstream_lookups_failed",
            "Name lookups that failed or returned no address",
            None,
            each(|upstream| upstream.lookup_failures),
        ),
    ]
}

fn seconds(name: &'static str, help: &'static str, rows: Vec<Row>) -> Family {
    Family { name, help, unit: Some(Unit::Seconds), kind: MetricType::Histogram, rows }
}

fn with(mut labels: Labels, (label, word): (&'static str, &str), count: u64) -> Row {
    labels.push((label, word.to_owned()));
    Row { labels, value: Value::Count(count) }
}

fn of_upstream(upstream: &UpstreamStatus) -> Labels {
    vec![("upstream", upstream.name.to_string())]
}

fn of_endpoint(upstream: &UpstreamStatus, endpoint: &str) -> Labels {
    vec![("upstream", upstream.name.to_string()), ("endpoint", endpoint.to_owned())]
}

/// Those that have counts of their own.
fn of_endpoints(upstreams: &[UpstreamStatus]) -> impl Iterator<Item = (Labels, &EndpointStatus)> {
    upstreams.iter().flat_map(|upstream| {
        let own = upstream.endpoints.iter().filter(|endpoint| endpoint.calls.is_some());
        own.map(|endpoint| (of_endpoint(upstream, &endpoint.name), endpoint))
    })
}

fn of_upstreams(upstreams: &[UpstreamStatus], value: impl Fn(&UpstreamStatus) -> Value) -> Vec<Row> {
    upstreams.iter().map(|upstream| Row { labels: of_upstream(upstream), value: value(upstream) }).collect()
}
