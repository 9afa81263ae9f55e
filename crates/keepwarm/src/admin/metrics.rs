//! Every metric, made from the counts at the time of the request. docs/operate/metrics.md describes them; a test keeps the two equal.

mod compression;
mod http2;
mod processes;
mod tls;
mod upstreams;

use std::collections::BTreeMap;
use std::time::UNIX_EPOCH;

use keepwarm_telemetry::counters;
use keepwarm_telemetry::meters::{CLASSES, ListenerTotals, RouteTotals};
use keepwarm_telemetry::per_thread::HistogramTotals;
use keepwarm_workers::supervisor::{Death, Reason, RecycleReason, WorkerState};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use super::exposition::{Family, Row, Value};
use super::process;
use crate::status::view::{AppStatus, ListenerStatus, RouteStatus, StatusSnapshot, WorkerStatus};

/// All of them.
pub(crate) fn families(status: &StatusSnapshot) -> Vec<Family> {
    let mut all = requests(status);
    all.extend(workers(status));
    all.extend(processes::families(&status.processes));
    all.extend(listeners(&status.listeners));
    all.extend(http2::families());
    all.extend(tls::families(status));
    all.extend(upstreams::families(&status.upstreams));
    all.extend(words());
    all.extend(spill());
    all.extend(compression::families());
    all.extend(exports());
    all.extend(about(status));
    all
}

fn requests(status: &StatusSnapshot) -> Vec<Family> {
    let classes = status.routes.iter().flat_map(|route| {
        CLASSES.iter().zip(route.totals.classes).map(|(class, count)| {
            let mut labels = of_route(route);
            labels.push(("code", (*class).to_owned()));
            Row { labels, value: Value::Count(count) }
        })
    });
    let by_route = |times: fn(&RouteTotals) -> &HistogramTotals| {
        let row =
            |route: &RouteStatus| Row { labels: of_route(route), value: times_of(times(&route.totals)) };
        status.routes.iter().filter(|route| times(&route.totals).count() > 0).map(row).collect()
    };
    let seconds = |name, help, rows| Family {
        name,
        help,
        unit: Some(Unit::Seconds),
        kind: MetricType::Histogram,
        rows,
    };
    vec![
        counter(
            "keepwarm_requests",
            "Completed requests, by the class of their status",
            None,
            classes.collect(),
        ),
        seconds(
            "keepwarm_request_duration",
            "From the first byte of the request until the socket has taken the last byte of its response",
            durations(&status.routes),
        ),
        seconds(
            "keepwarm_request_app",
            "Part of the duration: a worker had the request, until its response was complete",
            by_route(|totals| &totals.app),
        ),
        seconds(
            "keepwarm_request_queue",
            "Part of the duration: the wait for a worker",
            by_app(&status.routes, |totals| &totals.queue),
        ),
        seconds(
            "keepwarm_request_write",
            "Part of the duration: the complete response was on its way to the client",
            by_app(&status.routes, |totals| &totals.write),
        ),
    ]
}

/// With traces, where requests are traced.
fn durations(routes: &[RouteStatus]) -> Vec<Row> {
    let row = |route: &RouteStatus| Row {
        labels: of_route(route),
        value: Value::TracedTimes(Box::new((route.totals.duration, route.exemplars.clone()))),
    };
    routes.iter().filter(|route| route.totals.duration.count() > 0).map(row).collect()
}

fn of_route(route: &RouteStatus) -> Vec<(&'static str, String)> {
    vec![("app", route.app.to_owned()), ("route", route.route.to_owned())]
}

fn times_of(times: &HistogramTotals) -> Value {
    Value::Times(Box::new(*times))
}

/// The routes of each app together.
fn by_app(routes: &[RouteStatus], times: fn(&RouteTotals) -> &HistogramTotals) -> Vec<Row> {
    let mut apps: BTreeMap<&str, HistogramTotals> = BTreeMap::new();
    for route in routes.iter().filter(|route| times(&route.totals).count() > 0) {
        apps.entry(route.app).or_default().merge(times(&route.totals));
    }
    apps.into_iter().map(|(app, times)| Row { labels: of_app(app), value: times_of(&times) }).collect()
}

fn of_app(app: &str) -> Vec<(&'static str, String)> {
    vec![("app", app.to_owned())]
}

fn workers(status: &StatusSnapshot) -> Vec<Family> {
    let states = status.apps.iter().flat_map(|app| {
        WorkerState::ALL.iter().map(|state| {
            let here =
                |worker: &&WorkerStatus| *worker.worker.app == *app.name && worker.worker.state == *state;
            let count = status.workers.iter().filter(here).count() as u64;
            row(&app.name, "state", state.name(), count)
        })
    });
    let each = |value: fn(&AppStatus) -> Option<u64>| -> Vec<Row> {
        let row = |app: &AppStatus| Some(Row { labels: of_app(&app.name), value: Value::Count(value(app)?) });
        status.apps.iter().filter_map(row).collect()
    };
    vec![
        gauge("keepwarm_workers", "Workers by state", None, states.collect()),
        gauge(
            "keepwarm_workers_target",
            "Target number of workers of the app",
            None,
            each(|app| Some(app.counts.as_ref()?.target as u64)),
        ),
        gauge(
            "keepwarm_worker_memory",
            "Resident memory of each worker: its own anonymous pages, and shared memory",
            Some(Unit::Bytes),
            memory(&status.workers),
        ),
        gauge(
            "keepwarm_queue_length",
            "Requests that wait for a worker",
            None,
            each(|app| Some(app.queue as u64)),
        ),
        gauge(
            "keepwarm_app_failed",
            "1: Keepwarm gave up on the app, until the next reload",
            None,
            each(|app| Some(app.failed.is_some().into())),
        ),
        gauge(
            "keepwarm_generation",
            "Increases by one with each reload",
            None,
            each(|app| Some(app.counts.as_ref()?.generation)),
        ),
        counter(
            "keepwarm_worker_recycles",
            "Workers replaced on purpose, without a loss",
            None,
            reasons::<RecycleReason>(&status.apps, |counts| &counts.recycles),
        ),
        counter(
            "keepwarm_worker_deaths",
            "Workers that died",
            None,
            reasons::<Death>(&status.apps, |counts| &counts.deaths),
        ),
    ]
}

/// By app and place: not by process, or every recycle would make a series. During a reload two workers have one place.
fn memory(workers: &[WorkerStatus]) -> Vec<Row> {
    let mut places: BTreeMap<(&str, u32, &str), u64> = BTreeMap::new();
    for WorkerStatus { worker, .. } in workers {
        let Some(memory) = worker.memory else { continue };
        *places.entry((&worker.app, worker.number, "own")).or_default() += memory.own;
        *places.entry((&worker.app, worker.number, "shared")).or_default() += memory.shared;
    }
    let row = |((app, number, kind), bytes): ((&str, u32, &str), u64)| Row {
        labels: vec![("app", app.to_owned()), ("worker", number.to_string()), ("kind", kind.to_owned())],
        value: Value::Count(bytes),
    };
    places.into_iter().map(row).collect()
}

fn reasons<R: Reason>(
    apps: &[AppStatus],
    counts: fn(&keepwarm_workers::supervisor::AppSnapshot) -> &keepwarm_workers::supervisor::Counts<R>,
) -> Vec<Row> {
    let known = apps.iter().filter_map(|app| Some((app, app.counts.as_ref()?)));
    known
        .flat_map(|(app, about)| {
            counts(about)
                .iter()
                .map(|(why, count)| row(&app.name, "reason", why.name(), count))
                .collect::<Vec<_>>()
        })
        .collect()
}

fn row(app: &str, label: &'static str, word: &str, count: u64) -> Row {
    Row { labels: vec![("app", app.to_owned()), (label, word.to_owned())], value: Value::Count(count) }
}

fn listeners(listeners: &[ListenerStatus]) -> Vec<Family> {
    let each = |value: fn(&ListenerTotals) -> u64| -> Vec<Row> {
        let row = |listener: &ListenerStatus| Row {
            labels: vec![("listener", listener.name.clone())],
            value: Value::Count(value(&listener.totals)),
        };
        listeners.iter().map(row).collect()
    };
    let blocked = listeners.iter().map(|listener| Row {
        labels: vec![("listener", listener.name.clone())],
        value: Value::Amount(listener.totals.blocked_us as f64 / 1e6),
    });
    let blocked = blocked.collect();
    vec![
        gauge("keepwarm_open_connections", "Open client connections", None, each(|totals| totals.open)),
        counter("keepwarm_connections", "Accepted connections", None, each(|totals| totals.accepted)),
        counter(
            "keepwarm_connections_refused",
            "Connections closed at once because their client had too many",
            None,
            each(|totals| totals.refused),
        ),
        counter(
            "keepwarm_proxy_headers_rejected",
            "Connections closed because their PROXY header was missing, invalid, late, or of an untrusted peer",
            None,
            proxy_headers_rejected(),
        ),
        counter(
            "keepwarm_connections_evicted",
            "Idle connections closed to make room at the connection limit",
            None,
            each(|totals| totals.evicted),
        ),
        counter(
            "keepwarm_responses_cut",
            "Responses cut because their client took them too slowly",
            None,
            each(|totals| totals.too_slow),
        ),
        counter(
            "keepwarm_connection_limit_waits",
            "Times that accepting paused at the connection limit, while connections waited in the kernel",
            None,
            each(|totals| totals.waited),
        ),
        counter(
            "keepwarm_connection_limit_blocked",
            "Time in which connections waited in the kernel at the connection limit, and none that was open was idle; of all threads together",
            Some(Unit::Seconds),
            blocked,
        ),
        counter(
            "keepwarm_received",
            "Bytes read from clients, including heads",
            Some(Unit::Bytes),
            each(|totals| totals.received),
        ),
        counter(
            "keepwarm_sent",
            "Bytes written to clients, including heads",
            Some(Unit::Bytes),
            each(|totals| totals.sent),
        ),
    ]
}

fn proxy_headers_rejected() -> Vec<Row> {
    let labelled = |(listener, reason, count): &(String, &'static str, u64)| Row {
        labels: vec![("listener", listener.clone()), ("reason", (*reason).to_owned())],
        value: Value::Count(*count),
    };
    counters::PROXY_HEADERS_REJECTED.values().iter().map(labelled).collect()
}

/// Counters with a word that says why.
fn words() -> Vec<Family> {
    let rows = |family: &counters::Family, label: &'static str| -> Vec<Row> {
        family.values().iter().map(|(app, word, count)| row(app, label, word, *count)).collect()
    };
    vec![
        counter("keepwarm_stalls", "Stalls found and removed", None, rows(&counters::STALLS, "kind")),
        counter(
            "keepwarm_retries",
            "Retried requests, on another worker or on a server",
            None,
            rows(&counters::RETRIES, "reason"),
        ),
        counter(
            "keepwarm_refusals",
            "Requests to which Keepwarm itself responded with an error",
            None,
            rows(&counters::REFUSALS, "reason"),
        ),
        counter(
            "keepwarm_incomplete_responses",
            "Responses that Keepwarm did not complete: it ended the connection or the stream",
            None,
            rows(&counters::INCOMPLETE, "reason"),
        ),
        counter(
            "keepwarm_mirrored_requests",
            "Copies of requests for the mirror of a route, by outcome",
            None,
            rows(&counters::MIRRORED, "outcome"),
        ),
        counter(
            "keepwarm_auth_requests",
            "Requests of which an auth_request was made, by service and outcome",
            None,
            rows(&counters::AUTH_REQUESTS, "outcome"),
        ),
        counter(
            "keepwarm_responses_normalized",
            "Responses of servers with a syntax fault in the head that Keepwarm fixed",
            None,
            rows(&counters::NORMALIZED, "fault"),
        ),
        counter(
            "keepwarm_panics",
            "Bugs in Keepwarm that it survived, by what was lost; the log has the stack",
            None,
            panics(),
        ),
    ]
}

/// There from the beginning: an alert on an increase sees no first panic in a series that begins with it.
fn panics() -> Vec<Row> {
    let counted = counters::PANICS.values();
    match counted.is_empty() {
        true => vec![row("", "task", "request", 0)],
        false => counted.iter().map(|(app, task, count)| row(app, "task", task, *count)).collect(),
    }
}

/// What is sent to a collector, but for these metrics.
fn exports() -> Vec<Family> {
    // There from the beginning, as panics are.
    let outcomes = |counted: &counters::Family| {
        ["sent", "rejected", "refused", "undelivered"].map(|outcome| Row {
            labels: vec![("outcome", outcome.to_owned())],
            value: Value::Count(counted.value(outcome)),
        })
    };
    let dropped =
        |counted: &counters::Counter| vec![Row { labels: Vec::new(), value: Value::Count(counted.value()) }];
    let (spans, records) = (outcomes(&counters::SPANS_EXPORTED), outcomes(&counters::LOG_RECORDS_EXPORTED));
    vec![
        counter("keepwarm_spans_exported", "Spans for the collector, by outcome", None, spans.into()),
        counter(
            "keepwarm_spans_dropped",
            "Spans dropped because otlp.traces.buffer was full",
            None,
            dropped(&counters::SPANS_DROPPED),
        ),
        counter(
            "keepwarm_log_records_exported",
            "Log records for the collector, by outcome",
            None,
            records.into(),
        ),
        counter(
            "keepwarm_log_records_dropped",
            "Log records not sent because otlp.logs.buffer was full",
            None,
            dropped(&counters::LOG_RECORDS_DROPPED),
        ),
    ]
}

/// Responses held for slow clients.
fn spill() -> Vec<Family> {
    let held = keepwarm_net::SPILL.totals();
    let kind =
        |kind: &str, bytes| Row { labels: vec![("kind", kind.to_owned())], value: Value::Count(bytes) };
    let one = |count| vec![Row { labels: Vec::new(), value: Value::Count(count) }];
    vec![
        gauge(
            "keepwarm_spill",
            "Bytes of request bodies and responses held for slow clients",
            Some(Unit::Bytes),
            vec![kind("memory", held.memory), kind("disk", held.disk)],
        ),
        gauge(
            "keepwarm_spill_limit",
            "The limit server.limits.spill",
            Some(Unit::Bytes),
            one(keepwarm_net::SPILL.max()),
        ),
        counter(
            "keepwarm_spill_full",
            "Responses that waited for their clients because server.limits.spill was reached",
            None,
            one(counters::SPILL_FULL.value()),
        ),
    ]
}

fn about(status: &StatusSnapshot) -> Vec<Family> {
    let one = |value| vec![Row { labels: Vec::new(), value }];
    let started = status.started.duration_since(UNIX_EPOCH).unwrap_or_default();
    let process = process::look();
    let build =
        vec![Row { labels: vec![("version", env!("CARGO_PKG_VERSION").to_owned())], value: Value::Count(1) }];
    vec![
        gauge(
            "keepwarm_ready",
            "1: ready for requests; 0: starting or draining",
            None,
            one(Value::Count(status.ready.into())),
        ),
        gauge(
            "keepwarm_threads_stuck",
            "Data-plane threads that have made no progress for 5 s",
            None,
            one(Value::Count(status.stuck as u64)),
        ),
        gauge("keepwarm_build_info", "The running version; always 1", None, build),
        counter(
            "keepwarm_requests_with_dropped_headers",
            "Requests with headers that were dropped because their names are not safe in CGI-style environments",
            None,
            one(Value::Count(counters::UNSAFE_NAMES.value())),
        ),
        counter(
            "keepwarm_log_lines_dropped",
            "Log lines dropped because their output did not take them",
            None,
            one(Value::Count(counters::LOG_LINES_DROPPED.value())),
        ),
        gauge(
            "process_start_time",
            "Start time, in seconds since the beginning of 1970",
            Some(Unit::Seconds),
            one(Value::Amount(started.as_secs_f64())),
        ),
        counter(
            "process_cpu",
            "Processor time, without the workers",
            Some(Unit::Seconds),
            one(Value::Amount(process.cpu)),
        ),
        gauge(
            "process_resident_memory",
            "Resident memory, without the workers",
            Some(Unit::Bytes),
            one(Value::Count(process.resident)),
        ),
        gauge(
            "process_virtual_memory",
            "Address space, without the workers",
            Some(Unit::Bytes),
            one(Value::Count(process.virtual_memory)),
        ),
        gauge("process_open_fds", "Open descriptors", None, one(Value::Count(process.files))),
        gauge("process_max_fds", "Limit on open descriptors", None, one(Value::Count(process.most_files))),
        gauge("process_threads", "Threads", None, one(Value::Count(process.threads))),
    ]
}

fn counter(name: &'static str, help: &'static str, unit: Option<Unit>, rows: Vec<Row>) -> Family {
    Family { name, help, unit, kind: MetricType::Counter, rows }
}

fn gauge(name: &'static str, help: &'static str, unit: Option<Unit>, rows: Vec<Row>) -> Family {
    Family { name, help, unit, kind: MetricType::Gauge, rows }
}
