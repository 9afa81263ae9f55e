//! The circuit breaker (Nygard, *Release It!*, 2007) of an endpoint or of a whole upstream.
//!
//! * `closed`: calls flow. It opens after [`BreakerSettings::consecutive`] failures in a row (a server that is gone), or when too few of the calls within the window succeeded (a
//!   server that is overloaded: some calls still succeed, so there are never many failures in a row).
//! * `open`: no call is let through, for [`BreakerSettings::open`] at first; twice as long each time it opens again, up to [`BreakerSettings::open_most`], and up to a quarter longer at
//!   random, so that the breakers of several hosts do not probe in step.
//! * `half-open`: one call is let through, and after its success further ones, until [`BreakerSettings::probes`] have succeeded: then it closes. The first failure opens it again. A probe
//!   without a result for as long as the next opening would last no longer blocks the others: another is let through.
//!
//! The caller decides what counts as a failure. A failure counts towards the row only if no call has succeeded since the failed one began: a page that hangs for a minute fails in rows,
//! while other pages are served all the time. A call that was let through before a change of state does not affect the new state.
//!
//! Closing resets the failures. The length of the next opening is reset once the breaker has stayed closed for as long as it was open the last time.
//!
//! # Reasons for the defaults
//!
//! A breaker has two uses: the load goes to a better endpoint, and a caller does not wait for one that is silent. Every other refusal helps nobody. So the right behavior depends on
//! the number of endpoints.
//!
//! * **One endpoint, or none left**: there is no alternative, so a response of any status is worth more than a refusal. Envoy's panic threshold and Finagle's
//!   balancers agree: if no endpoint is healthy, all are called. linkerd has breakers off by default, and linkerd 1 kept its connection-level one off because it fails every request to a
//!   service with a single host. HAProxy's `observe` is opt-in, and distinguishes `layer4` (connections) from `layer7` (statuses), as Envoy's `split_external_local_origin_errors` does. So the
//!   breaker of a whole upstream counts silence alone: connections that cannot be made, and responses that do not begin in time. A 500, a truncated response, even a connection that is closed
//!   without a response: each came from a running server, cost the caller no time, and may be the fault of one page.
//! * **Two**: the breaker of an endpoint counts 5xx too, since the other one may be better. If both fail alike, both are called (`balance`: panic).
//! * **Many**: the same, and [`crate::outlier`] compares their rates, which finds one that is worse without being bad. It ejects an endpoint whose failures last, for longer than a breaker
//!   does; a restart it leaves to the breaker.
//!
//! A wrong opening must cost little, because none of these signals is certain: the first one lasts a tenth of a second (linkerd: 1 s, Finagle: 5 s, Envoy: 30 s), and calls may wait for it
//! ([`Rejection`]), which turns a restart of 0.3 s into a delay instead of an outage. Doubling bounds the calls to an endpoint that stays dead: one for each opening. The longest is 5 s, so that
//! recovery takes seconds (linkerd and Finagle: minutes, which suits callers with other endpoints).
//!
//! `simulation.rs` checks bounds on the defaults: calls refused although an endpoint would have responded, calls sent to dead endpoints, and time to recover, with 1, 2 and 8 endpoints.

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use crate::window::Window;

/// Settings of a [`Breaker`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerSettings {
    /// Failures in a row that open it. 0: off.
    pub consecutive: u32,
    /// Success rate in per cent below which it opens. 0: off.
    pub success_rate: u32,
    /// Calls in the window before the rate is used.
    pub minimum: u32,
    /// Length of the window.
    pub window: Duration,
    /// Length of the first opening.
    pub open: Duration,
    /// Length of the longest opening.
    pub open_most: Duration,
    /// Calls that must succeed while half-open. The first goes alone, the others at once. At least 1 counts.
    pub probes: u32,
}

impl Default for BreakerSettings {
    /// Five in a row (Envoy's outlier detection, Finagle's failure accrual); half of at least 20 within 10 s (Hystrix); 0.1 s up to 5 s, for the reasons at the head of the module.
    fn default() -> Self {
        Self {
            consecutive: 5,
            success_rate: 50,
            minimum: 20,
            window: Duration::from_secs(10),
            open: Duration::from_millis(100),
            open_most: Duration::from_secs(5),
            probes: 3,
        }
    }
}

/// The state of a breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerState {
    /// Calls flow.
    Closed,
    /// Calls are refused.
    Open,
    /// Some calls are let through as probes.
    HalfOpen,
}

impl BreakerState {
    /// Its name in logs and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half-open",
        }
    }
}

/// Permit for a call. Pass each to [`Breaker::handle_result`].
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub struct Permit {
    /// The generation of the state it was issued in.
    generation: u64,
    /// When it was issued.
    since: Instant,
}

/// The rejection of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rejection {
    /// When a call may be let through at the latest: for `Retry-After`, and for waiting calls.
    pub retry_after: Duration,
    /// Half-open: it may be sooner, when a running probe succeeds.
    pub is_probing: bool,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The call succeeded.
    Success,
    /// The call failed.
    Failure,
    /// Nothing was learnt about the peer: the client left, or the call never began.
    Unknown,
}

/// Why a breaker opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenCause {
    /// This many calls failed in a row.
    Consecutive(u32),
    /// The success rate within the window, in per cent.
    SuccessRate(u32),
    /// A probe failed.
    Probe,
}

/// A change of state, to be logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerChange {
    /// It opened for this long.
    Opened(OpenCause, Duration),
    /// It lets probes through.
    HalfOpened,
    /// It closed.
    Closed,
}

/// A circuit breaker. Order of calls: [`Breaker::try_acquire`], and for each pass [`Breaker::handle_result`].
#[derive(Debug, Clone)]
pub struct Breaker {
    settings: BreakerSettings,
    phase: Inner,
    /// Counts changes of state.
    generation: u64,
    window: Window,
    /// Failures in a row.
    failures: u32,
    /// The last success.
    last_success: Option<Instant>,
    /// Openings since it was last healthy.
    trips: u32,
    /// Length of the last opening.
    last: Duration,
}

#[derive(Debug, Clone, Copy)]
enum Inner {
    Closed {
        since: Instant,
    },
    Open {
        until: Instant,
    },
    /// `next`: when another probe is let through though none has ended.
    HalfOpen {
        next: Instant,
        under_way: u32,
        succeeded: u32,
    },
}

impl Breaker {
    /// A closed one.
    #[must_use]
    pub fn new(settings: BreakerSettings, now: Instant) -> Self {
        Self {
            settings,
            phase: Inner::Closed { since: now },
            generation: 0,
            window: Window::new(settings.window, now),
            failures: 0,
            last_success: None,
            trips: 0,
            last: Duration::ZERO,
        }
    }

    /// Changes the settings; its counts stay, except for the window if its length changes. A current opening is shortened to the new limit.
    pub fn set_settings(&mut self, settings: BreakerSettings, now: Instant) {
        if settings.window != self.settings.window {
            self.window = Window::new(settings.window, now);
        }
        if let Inner::Open { until: at } | Inner::HalfOpen { next: at, .. } = &mut self.phase
            && let Some(last) = now.checked_add(settings.open_most + settings.open_most / 4)
        {
            *at = last.min(*at);
        }
        self.settings = settings;
    }

    /// Whether a call may go out. The change is one to [`BreakerState::HalfOpen`].
    ///
    /// # Errors
    /// It may not.
    pub fn try_acquire(&mut self, now: Instant) -> Result<(Permit, Option<BreakerChange>), Rejection> {
        let mut change = None;
        if let Inner::Open { until } = self.phase {
            if now < until {
                return Err(Rejection { retry_after: until - now, is_probing: false });
            }
            self.enter(Inner::HalfOpen { next: now, under_way: 0, succeeded: 0 });
            change = Some(BreakerChange::HalfOpened);
        }
        let would_permit = self.would_permit(now);
        if let Inner::HalfOpen { next, under_way, .. } = &mut self.phase {
            if !would_permit {
                return Err(Rejection { retry_after: next.saturating_duration_since(now), is_probing: true });
            }
            if now >= *next && *under_way > 0 {
                // Probes that never end have no result: others replace them, each after a longer wait.
                *under_way = 0;
                self.trips = self.trips.saturating_add(1);
            }
            *under_way += 1;
        }
        let wait = self.length();
        if let Inner::HalfOpen { next, .. } = &mut self.phase {
            *next = now + wait;
        }
        Ok((Permit { generation: self.generation, since: now }, change))
    }

    /// A call that was let through has ended. `random` lengthens an opening.
    pub fn handle_result(
        &mut self,
        permit: Permit,
        outcome: Outcome,
        now: Instant,
        random: u64,
    ) -> Option<BreakerChange> {
        let overtaken = self.last_success.is_some_and(|last_success| last_success > permit.since);
        if outcome == Outcome::Success {
            self.last_success = Some(now);
        }
        if permit.generation != self.generation {
            return None;
        }
        match &mut self.phase {
            Inner::Open { .. } => None,
            Inner::HalfOpen { under_way, succeeded, .. } => {
                *under_way = under_way.saturating_sub(1);
                match outcome {
                    Outcome::Unknown => None,
                    Outcome::Failure if overtaken => None,
                    Outcome::Failure => Some(self.open(OpenCause::Probe, now, random)),
                    Outcome::Success => {
                        *succeeded += 1;
                        (*succeeded >= self.settings.probes.max(1)).then(|| self.close(now))
                    }
                }
            }
            Inner::Closed { .. } => {
                let cause = self.count(outcome, overtaken, now)?;
                Some(self.open(cause, now, random))
            }
        }
    }

    /// What it does with calls. An open breaker whose time has passed counts as half-open, even before a call.
    #[must_use]
    pub fn state(&self, now: Instant) -> BreakerState {
        match self.phase {
            Inner::Closed { .. } => BreakerState::Closed,
            Inner::Open { until } if now < until => BreakerState::Open,
            Inner::Open { .. } | Inner::HalfOpen { .. } => BreakerState::HalfOpen,
        }
    }

    /// Whether calls flow.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self.phase, Inner::Closed { .. })
    }

    /// Until when it refuses everything; `None`: it lets calls through, or some of them. To choose among endpoints without a query of each.
    #[must_use]
    pub fn open_until(&self) -> Option<Instant> {
        match self.phase {
            Inner::Open { until } => Some(until),
            Inner::Closed { .. } | Inner::HalfOpen { .. } => None,
        }
    }

    /// Whether [`Breaker::try_acquire`] would let a call through.
    #[must_use]
    pub fn would_permit(&self, now: Instant) -> bool {
        match self.phase {
            Inner::Closed { .. } => true,
            Inner::Open { until } => now >= until,
            Inner::HalfOpen { next, under_way, succeeded } => {
                let most = if succeeded == 0 { 1 } else { self.settings.probes.max(1) };
                under_way.saturating_add(succeeded) < most || now >= next
            }
        }
    }

    /// Counts a call of the closed breaker; returns the cause if it opens. `overtaken`: another call has succeeded since this one began.
    fn count(&mut self, outcome: Outcome, overtaken: bool, now: Instant) -> Option<OpenCause> {
        match outcome {
            Outcome::Unknown => return None,
            Outcome::Success => self.failures = 0,
            Outcome::Failure if overtaken => {}
            Outcome::Failure => self.failures = self.failures.saturating_add(1),
        }
        let BreakerSettings { consecutive, success_rate, minimum, .. } = self.settings;
        if success_rate > 0 {
            self.window.add(outcome == Outcome::Success, now);
        }
        if outcome == Outcome::Success {
            return None;
        }
        if consecutive > 0 && !overtaken && self.failures >= consecutive {
            return Some(OpenCause::Consecutive(self.failures));
        }
        let counts = self.window.counts(now);
        let low = success_rate > 0
            && counts.total() >= minimum.max(1)
            && counts.success_rate() < success_rate.saturating_mul(10);
        low.then(|| OpenCause::SuccessRate(counts.success_rate() / 10))
    }

    fn open(&mut self, cause: OpenCause, now: Instant, random: u64) -> BreakerChange {
        if let Inner::Closed { since } = self.phase
            && now.saturating_duration_since(since) >= self.last
        {
            self.trips = 0;
        }
        let length = self.length();
        let length = length + crate::backoff::fraction(length / 4, random);
        self.last = length;
        self.trips = self.trips.saturating_add(1);
        self.enter(Inner::Open { until: now + length });
        BreakerChange::Opened(cause, length)
    }

    /// Length of the next opening.
    fn length(&self) -> Duration {
        let BreakerSettings { open, open_most, .. } = self.settings;
        let doubled = 1_u32.checked_shl(self.trips).and_then(|factor| open.checked_mul(factor));
        doubled.map_or(open_most, |length| length.min(open_most))
    }

    fn close(&mut self, now: Instant) -> BreakerChange {
        self.failures = 0;
        self.window.clear();
        self.enter(Inner::Closed { since: now });
        BreakerChange::Closed
    }

    fn enter(&mut self, phase: Inner) {
        self.phase = phase;
        self.generation += 1;
    }
}
