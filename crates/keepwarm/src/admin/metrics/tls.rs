//! Metrics of TLS on listeners.

use std::time::{SystemTime, UNIX_EPOCH};

use keepwarm_telemetry::meters::HANDSHAKE_FAILURES;
use prometheus_client::registry::Unit;

use super::super::exposition::{Family, Row, Value};
use super::{counter, gauge};
use crate::status::view::{CertificateStatus, ListenerStatus, StatusSnapshot};

/// All of them; those of handshakes only for listeners that have a certificate.
pub(super) fn families(status: &StatusSnapshot) -> Vec<Family> {
    let with_tls = || {
        let has =
            |listener: &&ListenerStatus| status.certificates.iter().any(|it| it.listener == listener.name);
        status.listeners.iter().filter(has)
    };
    vec![
        counter(
            "keepwarm_tls_handshakes",
            "Completed TLS handshakes with clients",
            None,
            with_tls().flat_map(handshakes).collect(),
        ),
        counter(
            "keepwarm_tls_handshake_failures",
            "Failed TLS handshakes with clients, by reason",
            None,
            with_tls().flat_map(failures).collect(),
        ),
        gauge(
            "keepwarm_certificate_expiry",
            "When the certificate expires, since 1970",
            Some(Unit::Seconds),
            status.certificates.iter().map(expiry).collect(),
        ),
        gauge(
            "keepwarm_certificate_error",
            "1: a changed file of the certificates of this listener cannot be used",
            None,
            with_tls().map(|listener| error(listener, status)).collect(),
        ),
    ]
}

fn handshakes(listener: &ListenerStatus) -> Vec<Row> {
    let totals = &listener.totals.handshakes;
    let kinds = [("1.2", totals.tls12), ("1.3", totals.tls13)];
    let row = |version: &str, resumed: &str, count| Row {
        labels: vec![
            ("listener", listener.name.clone()),
            ("version", version.to_owned()),
            ("resumed", resumed.to_owned()),
        ],
        value: Value::Count(count),
    };
    let rows = |(version, [full, resumed]): (&str, [u64; 2])| {
        [row(version, "false", full), row(version, "true", resumed)]
    };
    kinds.into_iter().flat_map(rows).collect()
}

fn failures(listener: &ListenerStatus) -> Vec<Row> {
    let happened = HANDSHAKE_FAILURES.iter().zip(listener.totals.handshakes.failures);
    let row = |(reason, count): (&&str, u64)| Row {
        labels: vec![("listener", listener.name.clone()), ("reason", (*reason).to_owned())],
        value: Value::Count(count),
    };
    happened.filter(|(_, count)| *count > 0).map(row).collect()
}

/// The first name stands for all: a certificate may have a hundred.
fn expiry(certificate: &CertificateStatus) -> Row {
    let facts = &certificate.facts;
    let since = |time: SystemTime| time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    Row {
        labels: vec![
            ("listener", certificate.listener.clone()),
            ("name", facts.names.first().cloned().unwrap_or_default()),
            ("source", facts.file.display().to_string()),
        ],
        value: Value::Count(since(facts.not_after)),
    }
}

fn error(listener: &ListenerStatus, status: &StatusSnapshot) -> Row {
    let has = status.certificates.iter().any(|it| it.listener == listener.name && it.error.is_some());
    Row { labels: vec![("listener", listener.name.clone())], value: Value::Count(has.into()) }
}
