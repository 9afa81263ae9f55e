//! Certificates and handshakes of listeners in the status.

use std::time::SystemTime;

use keepwarm_acme::{NameState, NameStatus, OnDemandCounts};
use keepwarm_telemetry::meters::{HANDSHAKE_FAILURES, HandshakeTotals};
use serde_json::{Map, Value, json};

use super::time;
use crate::status::view::CertificateStatus;

/// One of them.
pub(super) fn json(certificate: &CertificateStatus) -> Value {
    let facts = &certificate.facts;
    let names = facts.names.iter().cloned().chain(facts.addresses.iter().map(ToString::to_string));
    let left = facts.not_after.duration_since(SystemTime::now());
    json!({
        "listener": certificate.listener,
        "names": names.collect::<Vec<_>>(),
        "issuer": facts.issuer,
        "not_before": time(facts.not_before),
        "expires": time(facts.not_after),
        "expires_in_seconds": left.map_or_else(|past| -past.duration().as_secs_f64().round(), |left| left.as_secs_f64().round()),
        "source": facts.file.display().to_string(),
        "error": certificate.error,
        "acme": certificate.acme.as_ref().map(acme),
    })
}

/// How the next certificate of a name is obtained from its authority.
fn acme(name: &NameStatus) -> Value {
    json!({
        "name": name.name,
        "on_demand": name.on_demand,
        "issued": matches!(name.state, NameState::Issued(_)),
        "next_attempt": name.next.map(time),
        "failures_in_a_row": name.failures,
        "error": name.error,
        "obtained": name.obtained,
        "failed": name.failed,
    })
}

/// What became of names that clients requested.
pub(super) fn on_demand(counts: &OnDemandCounts) -> Value {
    counts
        .iter()
        .map(|(result, count)| (result.name().to_owned(), count.into()))
        .collect::<Map<_, _>>()
        .into()
}

/// The handshakes of a listener; failures that have not happened are left out.
pub(super) fn handshakes(totals: &HandshakeTotals) -> Value {
    let happened = HANDSHAKE_FAILURES.iter().zip(totals.failures).filter(|(_, count)| *count > 0);
    let failures: Map<String, Value> =
        happened.map(|(reason, count)| ((*reason).to_owned(), count.into())).collect();
    let kinds = |[full, resumed]: [u64; 2]| json!({ "full": full, "resumed": resumed });
    json!({ "tls12": kinds(totals.tls12), "tls13": kinds(totals.tls13), "failures": failures })
}
