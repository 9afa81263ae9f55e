//! The health checker of one endpoint.

use std::sync::{Arc, Weak};
use std::time::Duration;

use keepwarm_net::Calls;
use keepwarm_policy::health::{HealthChange, slow_start_factor};
use keepwarm_policy::{HealthState, HealthThresholds};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::HealthSettings;
use super::check::{CheckFailure, check};
use crate::{EndpointEntry, EndpointState, Upstream, UpstreamSettings};

/// While it warms up, its share grows in this number of steps.
const STEPS: u32 = 50;
/// But not more often than that.
const SHORTEST_STEP: Duration = Duration::from_millis(50);
/// Nothing to do until there is news.
const NEVER: Duration = Duration::from_secs(86_400);

/// Runs the health checks and the slow start of one endpoint.
pub(super) struct HealthChecker {
    upstream: Weak<Upstream>,
    news: watch::Receiver<bool>,
    entry: EndpointEntry,
    calls: Arc<Calls>,
    health: HealthState,
    check_at: Instant,
    /// Since when it bears less than its weight.
    warming: Option<Instant>,
}

impl HealthChecker {
    /// `was_there`: it need not warm up.
    pub(super) fn new(
        upstream: &Arc<Upstream>,
        entry: &EndpointEntry,
        calls: Arc<Calls>,
        was_there: bool,
    ) -> Self {
        let settings = upstream.settings();
        let thresholds = settings.health.as_ref().map(|health| health.thresholds).unwrap_or_default();
        let health = HealthState::new(thresholds);
        let now = Instant::now();
        let checker = Self {
            upstream: Arc::downgrade(upstream),
            news: upstream.news(),
            entry: entry.clone(),
            calls,
            check_at: now + health.next_check(crate::random()),
            health,
            warming: (!was_there && settings.slow_start.is_some()).then_some(now),
        };
        checker.warm_up(settings.slow_start);
        checker
    }

    pub(super) async fn run(mut self) {
        self.news.mark_unchanged();
        loop {
            let Some(settings) = self.upstream.upgrade().map(|upstream| upstream.settings()) else { return };
            tokio::select! {
                biased;
                () = sleep_until(self.next(&settings)) => {}
                changed = self.news.changed() => match changed {
                    Ok(()) => self.hear_news(),
                    Err(_) => return,
                },
            }
            let Some(upstream) = self.upstream.upgrade() else { return };
            let settings = upstream.settings();
            match &settings.health {
                Some(health) if Instant::now() >= self.check_at => {
                    self.look(&upstream, &settings, health).await;
                    self.check_at = Instant::now() + self.health.next_check(crate::random());
                }
                Some(_) => {}
                None => self.entry.state.note_check(true, None),
            }
            if self.warm_up(settings.slow_start) {
                self.warming = None;
            }
        }
    }

    fn state(&self) -> &EndpointState {
        &self.entry.state
    }

    /// The time of the next check or step.
    fn next(&self, settings: &UpstreamSettings) -> Instant {
        let now = Instant::now();
        let check = settings.health.as_ref().map(|_| self.check_at);
        let step = self.warming.and(settings.slow_start);
        let step = step.map(|window| now + (window / STEPS).max(SHORTEST_STEP));
        check.into_iter().chain(step).min().unwrap_or(now + NEVER)
    }

    /// Perhaps the settings are others: a check must not be later than they want it.
    fn hear_news(&mut self) {
        let Some(upstream) = self.upstream.upgrade() else { return };
        match &upstream.settings().health {
            Some(health) => self.health.set_settings(health.thresholds),
            None => self.health = HealthState::new(HealthThresholds::default()),
        }
        self.check_at = self.check_at.min(Instant::now() + self.health.next_check(crate::random()));
    }

    /// One check, and what follows from it.
    async fn look(&mut self, upstream: &Upstream, settings: &UpstreamSettings, health: &HealthSettings) {
        let Some(checked) = check(&self.calls, &self.entry, settings, health).await else { return };
        let change = self.health.handle_check(checked.is_ok());
        let failure = checked.err();
        match change {
            Some(HealthChange::Down) => {
                tell_down(upstream.name(), self.state(), failure.as_ref());
                upstream.discovery().look_again();
            }
            Some(HealthChange::Up) => {
                tracing::info!(
                    name: "endpoint_healthy",
                    upstream = %upstream.name(), endpoint = %self.state().name(),
                    "endpoint passes its health checks again"
                );
                self.warming = settings.slow_start.map(|_| Instant::now());
            }
            None => {}
        }
        // The share first: it must not get all of its calls for a moment.
        self.warm_up(settings.slow_start);
        self.state().note_check(self.health.is_up(), failure);
    }

    /// Gives it its share for now. Whether that is all of its weight.
    fn warm_up(&self, window: Option<Duration>) -> bool {
        let since = self.warming.map(Instant::into_std);
        let share = slow_start_factor(since, window.unwrap_or_default(), Instant::now().into_std());
        self.state().set_warmth(share);
        share >= 1000
    }
}

fn tell_down(upstream: &str, state: &EndpointState, failure: Option<&CheckFailure>) {
    let Some(CheckFailure { name, sentence }) = failure else { return };
    tracing::warn!(name: "endpoint_unhealthy", upstream, endpoint = %state.name(), reason = name,
        "endpoint fails its health checks, and gets no calls while others pass: {sentence}");
}
