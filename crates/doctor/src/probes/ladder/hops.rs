//! Asking each server of a row.

use std::time::{Duration, Instant};

use keepwarm_http1::ResponseHead;

use super::rules::HOPS;
use crate::client::{Connection, Read, Response};
use crate::context::ProbeContext;
use crate::finding::Finding;
use crate::reach::reach;
use crate::server::Server;
use crate::settings::Settings;

/// How long an idle connection is watched with `--slow`: beyond the defaults of nginx (75 s) and of load balancers (60 s).
const WATCHED: Duration = Duration::from_secs(130);

/// One server of the row.
#[derive(Debug, Clone)]
pub(super) struct Hop {
    /// Its URL.
    pub(super) url: String,
    /// The server software, if it reveals it.
    pub(super) server: Server,
    /// The status of its response, and when that was whole.
    pub(super) status: u16,
    pub(super) took: Duration,
    /// How long it keeps an idle connection of a client.
    pub(super) idle: IdleTimeout,
}

/// How long an idle connection is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdleTimeout {
    /// It is closed behind each response.
    Never,
    /// So `Keep-Alive` says.
    Promised(Duration),
    /// So it was seen.
    Measured(Duration),
    /// It was still there after this long.
    Longer(Duration),
    /// Not known.
    Untold,
}

/// The examined server and the servers behind it; and those that could not be reached.
pub(super) async fn visit(context: &ProbeContext) -> (Vec<Hop>, Vec<Finding>) {
    let mut contexts = Vec::new();
    let mut unreached = Vec::new();
    // Wherever a server behind would send a browser, it is the server itself that is looked at.
    let settings = Settings { follow: false, ..context.settings.clone() };
    for via in &context.settings.via {
        match reach(via, &settings, &context.watcher).await {
            Ok(reached) => contexts.push(reached.context),
            Err(error) => unreached.push(Finding::unknown(HOPS, error.finding.evidence)),
        }
    }
    let row: Vec<&ProbeContext> = std::iter::once(context).chain(&contexts).collect();
    let measured = measure(&row).await;
    let hops = row.iter().zip(measured).map(|(one, measured)| hop(one, measured)).collect();
    (hops, unreached)
}

fn hop(context: &ProbeContext, measured: Option<IdleTimeout>) -> Hop {
    Hop {
        url: context.target.to_string(),
        server: context.server,
        status: context.first.status().unwrap_or_default(),
        took: context.first.took,
        idle: measured.unwrap_or_else(|| promised(&context.first)),
    }
}

/// The idle timeout that a response promises.
pub(super) fn promised(response: &Response) -> IdleTimeout {
    match &response.head {
        None => IdleTimeout::Untold,
        Some(head) if !head.is_persistent() => IdleTimeout::Never,
        Some(head) => timeout(head).map_or(IdleTimeout::Untold, IdleTimeout::Promised),
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
async fn measure(row: &[&ProbeContext]) -> Vec<Option<IdleTimeout>> {
    let mut watches = Vec::new();
    for context in row {
        let kept = promised(&context.first) != IdleTimeout::Never && context.settings.slow;
        let connection = match kept {
            true => context.once(&context.ordinary_request()).await.ok(),
            false => None,
        };
        let whole =
            connection.filter(|(_, response)| response.is_complete()).map(|(connection, _)| connection);
        watches.push(whole.map(|connection| tokio::spawn(watch(connection, WATCHED))));
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
pub(super) async fn watch(mut connection: Connection, within: Duration) -> IdleTimeout {
    let begun = Instant::now();
    match connection.read(within).await {
        Read::Silence => IdleTimeout::Longer(within),
        Read::Bytes(_) => IdleTimeout::Untold,
        _ => IdleTimeout::Measured(begun.elapsed()),
    }
}
