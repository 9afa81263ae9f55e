//! What costs time without a queue: connections of clients and upstreams, and room for slow clients.

use std::sync::Arc;
use std::time::Duration;

use super::{WINDOW, mib, percent};
use crate::why::catalog::{CONNECTION_LIMIT, HANDSHAKES_PER_CALL, SPILL_DISK, SPILL_LIMIT, TIMEOUT_LADDER};
use crate::why::history::UpstreamHistory;
use crate::why::{BlockedListener, Finding, Subject, Why};

/// A second in which nothing could be accepted for so long counts.
const BLOCKED: Duration = Duration::from_millis(500);
/// Of the last [`WINDOW`] seconds: the rules of a queue need 8 of them, and go first.
const BLOCKED_SECONDS: usize = 9;

pub(super) fn upstream(name: &Arc<str>, history: &UpstreamHistory) -> Vec<Finding> {
    [handshakes(name, history), ladder(name, history)].into_iter().flatten().collect()
}

fn handshakes(name: &Arc<str>, history: &UpstreamHistory) -> Option<Finding> {
    let recent = history.series.recent(WINDOW);
    let (calls, made) = (recent.calls.count(), recent.handshakes);
    let share = f64::from(made) / calls.max(1) as f64;
    (made >= 10 && share >= 0.5).then(|| {
        let evidence = format!(
            "{} of {calls} calls to upstream \"{name}\" had to make a connection",
            percent(share.min(1.0))
        );
        let figures = [("calls", calls as f64), ("without_connection", made.into())];
        Finding::new(&HANDSHAKES_PER_CALL, Subject::upstream(name), evidence, &figures)
    })
}

fn ladder(name: &Arc<str>, history: &UpstreamHistory) -> Option<Finding> {
    let steps: Vec<u32> =
        history.series.last_tens(30).map(|step| step.lost).filter(|lost| *lost > 0).collect();
    let lost = steps.iter().copied().fold(0, u32::saturating_add);
    (steps.len() >= 3).then(|| {
        let evidence = format!(
            "{lost} calls to upstream \"{name}\" were lost in 5 minutes on kept connections that it had closed"
        );
        let figures = [("lost", lost.into()), ("steps", steps.len() as f64)];
        Finding::new(&TIMEOUT_LADDER, Subject::upstream(name), evidence, &figures)
    })
}

pub(super) fn connection_limit(why: &Why) -> Option<Finding> {
    let is_blocked = |second: &&BlockedListener| second.time >= BLOCKED;
    let blocked: Vec<&BlockedListener> = why.blocked.iter().flatten().filter(is_blocked).collect();
    let last = blocked.last().filter(|_| blocked.len() >= BLOCKED_SECONDS)?;
    let evidence = format!(
        "new connections of listener \"{}\" waited in {} of the last {WINDOW} s: all {} that may be open are in use",
        last.listener,
        blocked.len(),
        last.limit
    );
    let figures = [("blocked_seconds", blocked.len() as f64), ("limit", last.limit as f64)];
    Some(Finding::new(&CONNECTION_LIMIT, Subject::default(), evidence, &figures))
}

/// Responses that found no room in the last minute.
pub(super) fn without_room(why: &Why) -> u32 {
    why.spill_full.iter().sum()
}

/// Whether something was lost to the disk of spill files in the last minute.
pub(super) fn is_disk_failing(why: &Why) -> bool {
    why.spill_failed.iter().any(Option::is_some)
}

pub(super) fn spill_disk(why: &Why) -> Option<Finding> {
    let failures = || why.spill_failed.iter().flatten();
    let last = failures().next_back()?;
    let lost = failures().fold(0_u32, |lost, second| lost.saturating_add(second.lost));
    let free = last.free.map(|bytes| format!(", which has {} MiB left", mib(bytes))).unwrap_or_default();
    let evidence = format!(
        "{lost} request bodies and responses were lost in the last minute: spill files failed in {}{free}",
        last.folder
    );
    let mut figures = vec![("lost", f64::from(lost))];
    figures.extend(last.free.map(|bytes| ("free_bytes", bytes as f64)));
    Some(Finding::new(&SPILL_DISK, Subject::default(), evidence, &figures))
}

pub(super) fn spill(why: &Why) -> Option<Finding> {
    let full = without_room(why);
    (full > 0).then(|| {
        let evidence =
            format!("{full} responses found no room in the last minute: their workers wait for clients");
        Finding::new(&SPILL_LIMIT, Subject::default(), evidence, &[("responses", full.into())])
    })
}
