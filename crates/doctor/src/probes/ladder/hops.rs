//! Asking each server of a row.

use std::time::{Duration, Instant};

use keepwarm_http1::ResponseHead;

use super::rules::HOPS;
use crate::finding::Finding;
use crate::patient::Patient;
use crate::reach::reach;
use crate::server::Server;
use crate::settings::Settings;
use crate::wire::{Line, Read, Response};

/// For so long an idle connection is watched with `--slow`: beyond the defaults of nginx (75 s) and of load balancers (60 s).
const WATCHED: Duration = Duration::from_secs(130);

/// One server of the row.
#[derive(Debug, Clone)]
pub(super) struct Hop {
    /// Its URL.
    pub(super) url: String,
    /// Which it is, as far as it says.
    pub(super) server: Server,
    /// The status of its response, and when that was whole.
    pub(super) status: u16,
    pub(super) took: Duration,
    /// How long it keeps an idle connection of a client.
    pub(super) idle: Idle,
}

/// How long an idle connection is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Idle {
    /// It is closed behind each response.
    Never,
    /// So `Keep-Alive` says.
    Promised(Duration),
    /// So it was seen.
    Measured(Duration),
    /// It was still there after so long.
    Longer(Duration),
    /// Nobody says.
    Untold,
}

/// The patient and the servers behind it; and what could not be reached.
pub(super) async fn visit(patient: &Patient) -> (Vec<Hop>, Vec<Finding>) {
    let mut patients = Vec::new();
    let mut unreached = Vec::new();
    // Wherever a server behind would send a browser, it is the server itself that is looked at.
    let settings = Settings { follow: false, ..patient.settings.clone() };
    for via in &patient.settings.via {
        match reach(via, &settings, &patient.watcher).await {
            Ok(reached) => patients.push(reached.patient),
            Err(error) => unreached.push(Finding::unknown(HOPS, error.finding.evidence)),
        }
    }
    let row: Vec<&Patient> = std::iter::once(patient).chain(&patients).collect();
    let measured = measure(&row).await;
    let hops = row.iter().zip(measured).map(|(one, measured)| hop(one, measured)).collect();
    (hops, unreached)
}

fn hop(patient: &Patient, measured: Option<Idle>) -> Hop {
    Hop {
        url: patient.target.to_string(),
        server: patient.server,
        status: patient.first.status().unwrap_or_default(),
        took: patient.first.took,
        idle: measured.unwrap_or_else(|| promised(&patient.first)),
    }
}

/// What a response promises.
pub(super) fn promised(response: &Response) -> Idle {
    match &response.head {
        None => Idle::Untold,
        Some(head) if !head.keeps_connection() => Idle::Never,
        Some(head) => timeout(head).map_or(Idle::Untold, Idle::Promised),
    }
}

/// `timeout` of `Keep-Alive` (RFC 2068 §19.7.1.1).
fn timeout(head: &ResponseHead) -> Option<Duration> {
    let value = String::from_utf8_lossy(head.fields.first("keep-alive")?).into_owned();
    value.split(',').find_map(|part| {
        let (name, seconds) = part.split_once('=')?;
        let seconds = seconds.trim().trim_matches('"').parse().ok()?;
        name.trim().eq_ignore_ascii_case("timeout").then(|| Duration::from_secs(seconds))
    })
}

/// With `--slow`, watches an idle connection to each, all at the same time.
async fn measure(row: &[&Patient]) -> Vec<Option<Idle>> {
    let mut watches = Vec::new();
    for patient in row {
        let kept = promised(&patient.first) != Idle::Never && patient.settings.slow;
        let line = match kept {
            true => patient.once(&patient.ask()).await.ok(),
            false => None,
        };
        let whole = line.filter(|(_, response)| response.is_complete()).map(|(line, _)| line);
        watches.push(whole.map(|line| tokio::spawn(watch(line, WATCHED))));
    }
    let mut measured = Vec::new();
    for watch in watches {
        measured.push(match watch {
            Some(watch) => watch.await.ok(),
            None => None,
        });
    }
    measured
}

/// Waits until an idle connection is closed.
pub(super) async fn watch(mut line: Line, within: Duration) -> Idle {
    let begun = Instant::now();
    match line.read(within).await {
        Read::Silence => Idle::Longer(within),
        Read::Bytes(_) => Idle::Untold,
        _ => Idle::Measured(begun.elapsed()),
    }
}
