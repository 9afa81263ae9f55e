//! Metrics of TLS on listeners.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use keepwarm_acme::{NameStatus, OnDemandCounts, OnDemandResult};
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
        counter(
            "keepwarm_acme_certificates_obtained",
            "Certificates obtained from the authority",
            None,
            acme(status, |name| name.obtained),
        ),
        counter(
            "keepwarm_acme_failures",
            "Failed attempts to obtain a certificate from the authority",
            None,
            acme(status, |name| name.failed),
        ),
        gauge(
            "keepwarm_acme_next_attempt",
            "When the certificate is renewed, or the next attempt is made, since 1970",
            Some(Unit::Seconds),
            acme(status, |name| name.next.map_or(0, seconds)),
        ),
        counter(
            "keepwarm_acme_on_demand",
            "Names without a certificate that clients requested, and renewals of such names, by result",
            None,
            status.on_demand.iter().flat_map(OnDemandCounts::iter).map(on_demand).collect(),
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
    Row {
        labels: vec![
            ("listener", certificate.listener.clone()),
            ("name", facts.names.first().cloned().unwrap_or_default()),
            ("source", facts.file.display().to_string()),
        ],
        value: Value::Count(seconds(facts.not_after)),
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// A row for each name, which several listeners may have.
fn acme(status: &StatusSnapshot, value: impl Fn(&NameStatus) -> u64) -> Vec<Row> {
    let names: BTreeMap<&str, &NameStatus> = status
        .certificates
        .iter()
        .filter_map(|certificate| certificate.acme.as_ref())
        .map(|name| (name.name.as_str(), name))
        .collect();
    let row = |(name, status): (&str, &NameStatus)| Row {
        labels: vec![("name", name.to_owned())],
        value: Value::Count(value(status)),
    };
    names.into_iter().map(row).collect()
}

fn on_demand((result, count): (OnDemandResult, u64)) -> Row {
    Row { labels: vec![("result", result.name().to_owned())], value: Value::Count(count) }
}

fn error(listener: &ListenerStatus, status: &StatusSnapshot) -> Row {
    let has = status.certificates.iter().any(|it| it.listener == listener.name && it.error.is_some());
    Row { labels: vec![("listener", listener.name.clone())], value: Value::Count(has.into()) }
}
