//! When not to call any more: the circuit breaker (Nygard, *Release It!*, 2007), for an endpoint or a whole upstream.
//!
//! * `closed`: calls flow. It trips when so many failed in a row (a server that is gone), or when of enough calls within the window too few succeeded (one that is
//!   overloaded: some calls still succeed, and never many fail in a row).
//! * `open`: calls are refused at once, so that neither the caller waits nor the server gets more to do. For [`Settings::open`] at first; twice as long each
//!   time it trips again, up to [`Settings::open_most`], and up to a quarter longer at random, so that the breakers of several hosts do not let go in step.
//! * `half-open`: some calls are let through. When [`Settings::probes`] have succeeded it closes, at the first that fails it opens again.
//!
//! At the start it is closed. What counts as a failure is the caller's to say: connecting failed, no answer in time, an answer that broke off, 5xx; never what the client
//! did. A call that was let through before the breaker changed its state says nothing of the new one: its [`Pass`] is out of date.
//!
//! Closing forgets the failures; the length of the next opening is forgotten once the breaker has stayed closed for [`Settings::open_most`].

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use crate::window::Window;

/// When it trips, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Failures in a row. 0: they do not trip it.
    pub consecutive: u32,
    /// In per cent: trips when fewer of the calls in the window succeeded. 0: they do not trip it.
    pub success_rate: u32,
    /// As long as the window has fewer calls, its rate says nothing.
    pub minimum: u32,
    /// Length of the window.
    pub window: Duration,
    /// How long it stays open the first time.
    pub open: Duration,
    /// And at most.
    pub open_most: Duration,
    /// Calls at once while half-open, and how many must succeed. At least 1 counts.
    pub probes: u32,
}

impl Default for Settings {
    /// Five in a row (Envoy's outlier detection, Finagle's failure accrual); half of at least 20 within 10 s (Hystrix); 1 s up to 30 s. The numbers are what others found bearable.
    fn default() -> Self {
        Self {
            consecutive: 5,
            success_rate: 50,
            minimum: 20,
            window: Duration::from_secs(10),
            open: Duration::from_secs(1),
            open_most: Duration::from_secs(30),
            probes: 3,
        }
    }
}

/// What a breaker does with calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Calls flow.
    Closed,
    /// Calls are refused.
    Open,
    /// Some calls are let through, to see.
    HalfOpen,
}

impl State {
    /// As it stands in logs and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half-open",
        }
    }
}

/// A call that was let through. Each is given back, with [`Breaker::handle_result`].
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub struct Pass {
    /// Of the state it was given in.
    era: u64,
}

/// A call that was not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// When calls may be let through again, for `Retry-After`. Zero: half-open, and enough are on their way.
    pub retry_after: Duration,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The peer did its part.
    Success,
    /// It did not.
    Failure,
    /// Nothing is known of the peer: the client has gone, or the call never began.
    Unknown,
}

/// Why it opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// So many failed in a row.
    Consecutive(u32),
    /// In per cent: so many of the calls within the window succeeded.
    SuccessRate(u32),
    /// A probe failed.
    Probe,
}

/// A change of state, to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It has opened for that long.
    Opened(Cause, Duration),
    /// It lets some through.
    HalfOpened,
    /// It has closed.
    Closed,
}

/// One breaker. Order of calls: [`Breaker::try_pass`], and for each pass [`Breaker::handle_result`].
#[derive(Debug, Clone)]
pub struct Breaker {
    settings: Settings,
    phase: Phase,
    /// Counts changes of state.
    era: u64,
    window: Window,
    /// Failures in a row.
    failures: u32,
    /// How often it has opened without having been well in between.
    trips: u32,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    Closed { since: Instant },
    Open { until: Instant },
    HalfOpen { since: Instant, under_way: u32, succeeded: u32 },
}

impl Breaker {
    /// A closed one.
    #[must_use]
    pub fn new(settings: Settings, now: Instant) -> Self {
        Self {
            settings,
            phase: Phase::Closed { since: now },
            era: 0,
            window: Window::new(settings.window, now),
            failures: 0,
            trips: 0,
        }
    }

    /// Other numbers from now on; what it has seen stays, but for the window when its length changes. It stays open for no longer than it might now.
    pub fn set_settings(&mut self, settings: Settings, now: Instant) {
        if settings.window != self.settings.window {
            self.window = Window::new(settings.window, now);
        }
        if let Phase::Open { until } = &mut self.phase
            && let Some(last) = now.checked_add(settings.open_most + settings.open_most / 4)
        {
            *until = last.min(*until);
        }
        self.settings = settings;
    }

    /// Whether a call may go out. The change is one to [`State::HalfOpen`].
    ///
    /// # Errors
    /// It may not.
    pub fn try_pass(&mut self, now: Instant) -> Result<(Pass, Option<Change>), Refused> {
        let mut change = None;
        if let Phase::Open { until } = self.phase {
            if now < until {
                return Err(Refused { retry_after: until - now });
            }
            self.enter(Phase::HalfOpen { since: now, under_way: 0, succeeded: 0 });
            change = Some(Change::HalfOpened);
        }
        if !self.would_pass(now) {
            return Err(Refused { retry_after: Duration::ZERO });
        }
        if let Phase::HalfOpen { since, under_way, .. } = &mut self.phase {
            if now.saturating_duration_since(*since) >= self.settings.open_most {
                // Probes that never end say nothing: others take their places.
                *under_way = 0;
            }
            *since = now;
            *under_way += 1;
        }
        Ok((Pass { era: self.era }, change))
    }

    /// A call that was let through has ended. `random` lengthens an opening.
    pub fn handle_result(
        &mut self,
        pass: Pass,
        outcome: Outcome,
        now: Instant,
        random: u64,
    ) -> Option<Change> {
        if pass.era != self.era {
            return None;
        }
        match &mut self.phase {
            Phase::Open { .. } => None,
            Phase::HalfOpen { under_way, succeeded, .. } => {
                *under_way = under_way.saturating_sub(1);
                match outcome {
                    Outcome::Unknown => None,
                    Outcome::Failure => Some(self.open(Cause::Probe, now, random)),
                    Outcome::Success => {
                        *succeeded += 1;
                        (*succeeded >= self.settings.probes.max(1)).then(|| self.close(now))
                    }
                }
            }
            Phase::Closed { .. } => {
                let cause = self.count(outcome, now)?;
                Some(self.open(cause, now, random))
            }
        }
    }

    /// What has failed is taken out of what this breaker is for: a row and a rate that were its doing say nothing of the rest.
    pub fn forgive(&mut self) {
        if let Phase::Closed { .. } = self.phase {
            self.failures = 0;
            self.window.clear();
        }
    }

    /// What it does with calls. An open one that has waited long enough counts as half-open, though nothing has asked yet.
    #[must_use]
    pub fn state(&self, now: Instant) -> State {
        match self.phase {
            Phase::Closed { .. } => State::Closed,
            Phase::Open { until } if now < until => State::Open,
            Phase::Open { .. } | Phase::HalfOpen { .. } => State::HalfOpen,
        }
    }

    /// Until when it refuses everything; `None`: it lets calls through, or some of them. For those who choose among endpoints without asking each.
    #[must_use]
    pub fn open_until(&self) -> Option<Instant> {
        match self.phase {
            Phase::Open { until } => Some(until),
            Phase::Closed { .. } | Phase::HalfOpen { .. } => None,
        }
    }

    /// Whether [`Breaker::try_pass`] would let a call through.
    #[must_use]
    pub fn would_pass(&self, now: Instant) -> bool {
        match self.phase {
            Phase::Closed { .. } => true,
            Phase::Open { until } => now >= until,
            Phase::HalfOpen { since, under_way, succeeded } => {
                under_way + succeeded < self.settings.probes.max(1)
                    || now.saturating_duration_since(since) >= self.settings.open_most
            }
        }
    }

    /// Counts a call of the closed breaker; gives why it trips, if it does.
    fn count(&mut self, outcome: Outcome, now: Instant) -> Option<Cause> {
        match outcome {
            Outcome::Unknown => return None,
            Outcome::Success => self.failures = 0,
            Outcome::Failure => self.failures = self.failures.saturating_add(1),
        }
        let Settings { consecutive, success_rate, minimum, .. } = self.settings;
        if success_rate > 0 {
            self.window.add(outcome == Outcome::Success, now);
        }
        if outcome == Outcome::Success {
            return None;
        }
        if consecutive > 0 && self.failures >= consecutive {
            return Some(Cause::Consecutive(self.failures));
        }
        let counts = self.window.counts(now);
        let low = success_rate > 0
            && counts.total() >= minimum.max(1)
            && counts.success_rate() < success_rate.saturating_mul(10);
        low.then(|| Cause::SuccessRate(counts.success_rate() / 10))
    }

    fn open(&mut self, cause: Cause, now: Instant, random: u64) -> Change {
        let Settings { open, open_most, .. } = self.settings;
        if let Phase::Closed { since } = self.phase
            && now.saturating_duration_since(since) >= open_most
        {
            self.trips = 0;
        }
        let doubled = 1_u32.checked_shl(self.trips).and_then(|factor| open.checked_mul(factor));
        let length = doubled.map_or(open_most, |length| length.min(open_most));
        let length = length + crate::backoff::scale(length / 4, random);
        self.trips = self.trips.saturating_add(1);
        self.enter(Phase::Open { until: now + length });
        Change::Opened(cause, length)
    }

    fn close(&mut self, now: Instant) -> Change {
        self.failures = 0;
        self.window.clear();
        self.enter(Phase::Closed { since: now });
        Change::Closed
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.era += 1;
    }
}
