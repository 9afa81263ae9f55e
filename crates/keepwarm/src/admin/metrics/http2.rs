//! HTTP/2 connections of clients, at listeners and at doors.

use keepwarm_telemetry::meters::{self, Http2Fault, ListenerTotals};

use super::{Family, Row, Value, counter};

pub(super) fn families() -> Vec<Family> {
    let totals: Vec<(&str, ListenerTotals)> =
        meters::listeners().into_iter().map(|meter| (&*meter.name, meter.totals())).collect();
    let each = |value: fn(&ListenerTotals) -> u64| -> Vec<Row> {
        totals.iter().map(|(name, totals)| row(name, None, value(totals))).collect()
    };
    let faults = totals.iter().flat_map(|(name, totals)| {
        let faults = Http2Fault::ALL.iter().zip(totals.http2_faults);
        faults.map(|(fault, count)| row(name, Some(("reason", fault.name())), count))
    });
    let resets = totals.iter().flat_map(|(name, totals)| {
        [("client", totals.http2_client_resets), ("server", totals.http2_our_resets)]
            .map(|(by, count)| row(name, Some(("by", by)), count))
    });
    vec![
        counter(
            "keepwarm_http2_connections",
            "Accepted connections that speak HTTP/2",
            None,
            each(|totals| totals.http2),
        ),
        counter(
            "keepwarm_http2_connections_ended",
            "HTTP/2 connections ended because of what their client did",
            None,
            faults.collect(),
        ),
        counter(
            "keepwarm_http2_streams_reset",
            "HTTP/2 streams reset: by the client, or by the server because of an error",
            None,
            resets.collect(),
        ),
        counter(
            "keepwarm_http2_requests_refused",
            "HTTP/2 requests refused before a route saw them: malformed, too large a head, too many at once",
            None,
            each(|totals| totals.http2_refused),
        ),
    ]
}

fn row(listener: &str, label: Option<(&'static str, &str)>, count: u64) -> Row {
    let mut labels = vec![("listener", listener.to_owned())];
    labels.extend(label.map(|(name, value)| (name, value.to_owned())));
    Row { labels, value: Value::Count(count) }
}
