//! Work of a process after its response (`fastcgi_finish_request()` in PHP): the process gets no other request until it is ready for one.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::super::activity::RequestSummary;
use super::server::SlotGuard;
use super::{Dialect, ServerConnection};

/// How long a process that has responded is looked at without a pause: it takes some 20 µs until it hears of the next request.
const AT_ONCE: Duration = Duration::from_micros(100);
/// Between two looks at one that works: doubled from the first to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LAST_PAUSE: Duration = Duration::from_millis(64);

/// The response has come to its end: the connection is kept and the place is free, at once or when the process has done what it has to do behind it. For that it has
/// `limit`, as for a request.
pub(super) fn finish<C: Dialect>(
    lease: C::Connection,
    slot: SlotGuard,
    (limit, summary): (Duration, &RequestSummary),
) {
    let behind = slot.link.kind.server().is_some_and(|server| server.works_behind());
    if !behind || lease.unread() == 0 {
        return give_back::<C>(lease, slot);
    }
    let summary = summary.clone();
    drop(keepwarm_net::spawn_local(wait::<C>(lease, slot, AT_ONCE, (limit, summary))));
}

/// The rest of the response was refused ([`ServerConnection::refuse_rest`]): the place is free when the process has left the script. It waits for the
/// connection to close then.
pub(super) async fn finish_refused<C: Dialect>(
    lease: C::Connection,
    slot: SlotGuard,
    limit: Duration,
    summary: RequestSummary,
) {
    wait::<C>(lease, slot, Duration::ZERO, (limit, summary)).await;
}

/// Looks without a pause for as long as `at_once`.
async fn wait<C: Dialect>(
    lease: C::Connection,
    slot: SlotGuard,
    at_once: Duration,
    (limit, summary): (Duration, RequestSummary),
) {
    let (begun, mut pause) = (Instant::now(), FIRST_PAUSE);
    while lease.unread() > 0 && !slot.link.is_dead() {
        let passed = begun.elapsed();
        if passed >= limit {
            let child = lease.child_guard().map(|line| Arc::clone(line.child()));
            return slot.link.suspect(&summary, child.as_ref());
        }
        if passed < at_once {
            tokio::task::yield_now().await;
        } else {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }
    give_back::<C>(lease, slot);
}

fn give_back<C: Dialect>(lease: C::Connection, slot: SlotGuard) {
    if let Some(line) = lease.child_guard() {
        line.child().give_back();
    }
    lease.finish();
    drop(slot);
}
