//! Active health checks and slow start: who looks after the endpoints of an upstream.
//!
//! [`run_health_checks`] runs for as long as there is the upstream, on a thread that carries no calls, and follows what is published and configured. Each endpoint has a task of its own, so that one which
//! does not answer holds up no other. When an endpoint goes down or comes up again is decided by [`keepwarm_policy::health`]; [`EndpointState`] tells everybody.
//!
//! * A check makes a connection of its own: it is to show whether connections can be made, and it must not wait for a place among those of calls. Over TLS the sessions are resumed.
//! * An endpoint that is down gets no calls. When fewer than half of a priority are up, all of them get calls ([`keepwarm_policy::balance`]): a service of one endpoint is
//!   called whatever the checks say.
//! * When one goes down, names are looked up again: it may have moved.
//! * One that is new in a set, or comes up again, begins with a tenth of its weight ([`keepwarm_policy::health::slow_start_factor`]). Those of the first set do not: all of them are new.

mod check;
mod checker;

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use keepwarm_net::{Calls, Endpoint, PoolSettings, restart_pause};
use keepwarm_policy::HealthThresholds;
use keepwarm_telemetry::panics::catch_future;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

pub use self::check::CheckFailure;
use self::checker::HealthChecker;
use crate::{Upstream, UpstreamSettings};

/// How the endpoints of an upstream are checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthSettings {
    /// The kind of check.
    pub probe: Probe,
    /// How long it may take.
    pub timeout: Duration,
    /// The interval of checks, and how many results change the state.
    pub thresholds: HealthThresholds,
}

/// What a check tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probe {
    /// Whether a connection can be made, and encrypted where the upstream's are.
    Connect,
    /// Whether a `GET` of this path gets one of these statuses.
    Http {
        /// Begins with a slash; with a query, perhaps.
        path: String,
        /// Good ones.
        statuses: Vec<RangeInclusive<u16>>,
    },
}

/// Looks after the endpoints of an upstream until it is dropped. To be run as a task of a [`keepwarm_net::Remote`]: a connection of HTTP/2 needs tasks of its thread.
pub async fn run_health_checks(upstream: Weak<Upstream>) {
    let Some(mut news) = upstream.upgrade().map(|upstream| upstream.news()) else { return };
    let mut checkers: HashMap<Endpoint, Task> = HashMap::new();
    let mut calls: Option<Arc<Calls>> = None;
    let mut is_first = true;
    let ended = Arc::new(Notify::new());
    loop {
        news.borrow_and_update();
        let Some(known) = upstream.upgrade() else { return };
        let (set, settings) = (known.endpoints(), known.settings());
        if settings.is_attended() {
            let calls = calls.get_or_insert_with(|| Calls::new(PoolSettings::default(), settings.protocol));
            calls.set_settings(settings.check_pool());
            calls.set_tls(known.tls());
            // A checker that has panicked is recreated.
            let addresses = set.addresses();
            checkers.retain(|endpoint, task| addresses.contains(endpoint) && !task.0.is_finished());
            for entry in &set.endpoints {
                checkers.entry(entry.endpoint.clone()).or_insert_with(|| {
                    let calls = Arc::clone(calls);
                    let checker = HealthChecker::new(&known, entry, calls, is_first);
                    Task(keepwarm_net::spawn_local(run_surely(checker, Arc::clone(&ended))))
                });
            }
        } else {
            checkers.clear();
            set.endpoints.iter().for_each(|entry| entry.state.forget_health());
        }
        is_first &= set.endpoints.is_empty();
        drop((known, set, settings));
        tokio::select! {
            biased;
            changed = news.changed() => if changed.is_err() {
                return;
            },
            () = ended.notified() => {}
        }
    }
}

async fn run_surely(checker: HealthChecker, ended: Arc<Notify>) {
    let running = pin!(checker.run());
    if let Err(panic) = catch_future(running).await {
        panic.report("health_check", None, None);
        restart_pause().await;
        ended.notify_one();
    }
}

impl UpstreamSettings {
    /// Somebody has to look after its endpoints.
    fn is_attended(&self) -> bool {
        self.health.is_some() || self.slow_start.is_some()
    }

    /// For the connections of checks: none is kept.
    fn check_pool(&self) -> PoolSettings {
        let timeout = self.health.as_ref().map_or(self.pool.connect_timeout, |health| health.timeout);
        PoolSettings {
            // One that was made to ask for the protocol is used at once.
            idle: 1,
            connect_timeout: timeout,
            handshake_timeout: timeout,
            ..PoolSettings::default()
        }
    }
}

/// A task that ends with its handle.
struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}
