//! Ejects endpoints that are worse than the others of their upstream (Envoy's outlier detection).
//!
//! Two signals. Failures in a row that go on for [`OutlierSettings::lasting`]: a shorter row is a restart, more likely than not, and the breaker's. And a success rate that is below that of the others: looked at every [`OutlierSettings::interval`], of the endpoints with enough
//! calls in it, when there are enough of them: below their mean by so many standard deviations, and by five points. A breaker has a threshold, and sees what is bad; this compares, and sees what is
//! worse: when all fail alike nobody is an outlier.
//!
//! An ejection lasts [`OutlierSettings::ejection`] times as many as the endpoint had before, at most [`OutlierSettings::ejection_most`], and a tenth longer at random. Each interval without one takes one
//! from that number. At most [`OutlierSettings::percent`] of the endpoints are ejected at once, though one may be always if there are others: what would come above it is let be.
//!
//! [`EndpointRecord`] is an endpoint's, written by all threads; [`Outlier`] is the upstream's, under its lock, and asked only when a row is long enough or the interval is over.

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::backoff::fraction;

/// In millionths: below the mean by less is nothing. Among five that never fail, one that fails once in a thousand calls is two standard deviations away (Envoy ejects it).
const MARGIN_MIN: u64 = 50_000;

/// When one is an outlier, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutlierSettings {
    /// Failures in a row. 0: they eject nobody.
    pub consecutive: u32,
    /// A row that has not gone on for so long is left to the breaker.
    pub lasting: Duration,
    /// How often the success rates are compared. [`Duration::ZERO`]: never.
    pub interval: Duration,
    /// Calls in an interval that make an endpoint's rate count.
    pub minimum: u32,
    /// Endpoints with a rate that counts, before rates are compared.
    pub hosts: u32,
    /// In thousandths: so many standard deviations below the mean is too low.
    pub deviations: u32,
    /// The first ejection.
    pub ejection: Duration,
    /// The longest one.
    pub ejection_most: Duration,
    /// Of the endpoints, in per cent, that may be ejected at once.
    pub percent: u32,
}

impl Default for OutlierSettings {
    /// Envoy's numbers, but for two. The ceiling: it has 10 %, which of three endpoints is none but the one that always may be; a third leaves enough to bear the load. And how long a row has to last:
    /// an endpoint that is restarted fails five calls in a row within milliseconds, and would be left alone for a hundred times as long as it was away. Until the openings of its breaker are as
    /// long as they get ([`crate::breaker`]), that one asks it again soon enough.
    fn default() -> Self {
        Self {
            consecutive: 5,
            lasting: Duration::from_secs(5),
            interval: Duration::from_secs(10),
            minimum: 100,
            hosts: 5,
            deviations: 1900,
            ejection: Duration::from_secs(30),
            ejection_most: Duration::from_secs(300),
            percent: 33,
        }
    }
}

impl OutlierSettings {
    /// An ejection lasts so long at most.
    #[must_use]
    pub fn longest(&self) -> Duration {
        self.ejection_most + self.ejection_most / 10
    }
}

/// How the calls of one endpoint went. Shared by all threads.
#[derive(Debug)]
pub struct EndpointRecord {
    origin: Instant,
    successes: AtomicU32,
    failures: AtomicU32,
    /// In a row.
    row: AtomicU32,
    /// When that began, in nanoseconds since `origin`.
    since: AtomicU64,
    /// Nanoseconds since `origin`; ejected before it.
    until: AtomicU64,
    /// Ejections that count for the length of the next.
    times: AtomicU32,
}

impl EndpointRecord {
    /// A clean one.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self {
            origin: now,
            successes: AtomicU32::new(0),
            failures: AtomicU32::new(0),
            row: AtomicU32::new(0),
            since: AtomicU64::new(0),
            until: AtomicU64::new(0),
            times: AtomicU32::new(0),
        }
    }

    /// A call has succeeded.
    pub fn handle_success(&self) {
        self.successes.fetch_add(1, Ordering::Relaxed);
        if self.row.load(Ordering::Relaxed) > 0 {
            self.row.store(0, Ordering::Relaxed);
        }
    }

    /// A call has failed; gives how many have in a row, for [`Outlier::handle_consecutive`].
    pub fn handle_failure(&self, now: Instant) -> u32 {
        self.failures.fetch_add(1, Ordering::Relaxed);
        let before = self.row.fetch_add(1, Ordering::Relaxed);
        if before == 0 {
            self.since.store(self.since_origin(now), Ordering::Relaxed);
        }
        before.saturating_add(1)
    }

    /// How long the row goes on.
    fn failing_for(&self, now: Instant) -> Duration {
        Duration::from_nanos(self.since_origin(now).saturating_sub(self.since.load(Ordering::Relaxed)))
    }

    /// Whether it is to be left alone.
    #[must_use]
    pub fn is_ejected(&self, now: Instant) -> bool {
        let until = self.until.load(Ordering::Relaxed);
        until > 0 && self.since_origin(now) < until
    }

    /// Ends an ejection at this time at the latest: it may not last so long any more.
    pub fn shorten(&self, last: Instant) {
        self.until.fetch_min(self.since_origin(last), Ordering::Relaxed);
    }

    fn since_origin(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.origin).as_nanos()).unwrap_or(u64::MAX)
    }

    /// What was counted since it was asked last.
    fn take(&self) -> (u32, u32) {
        (self.successes.swap(0, Ordering::Relaxed), self.failures.swap(0, Ordering::Relaxed))
    }
}

/// Why one is ejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EjectionCause {
    /// So many failed in a row.
    Consecutive(u32),
    /// In thousandths: its calls succeeded at this rate, and the others' at that.
    SuccessRate {
        /// Its own.
        rate: u32,
        /// The mean of all.
        mean: u32,
    },
}

/// One is left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ejection {
    /// Which of the endpoints that were given.
    pub index: usize,
    /// Why.
    pub cause: EjectionCause,
    /// For how long.
    pub length: Duration,
}

/// Compares the endpoints of one upstream.
#[derive(Debug, Clone)]
pub struct Outlier {
    settings: OutlierSettings,
    /// When rates are compared next.
    next: Instant,
}

impl Outlier {
    /// The first comparison is after an interval.
    #[must_use]
    pub fn new(settings: OutlierSettings, now: Instant) -> Self {
        Self { settings, next: now + settings.interval }
    }

    /// Other numbers from now on.
    pub fn set_settings(&mut self, settings: OutlierSettings, now: Instant) {
        self.next = self.next.min(now + settings.interval);
        self.settings = settings;
    }

    /// Whether a row is long enough to call [`Outlier::handle_consecutive`].
    #[must_use]
    pub fn is_consecutive(&self, row: u32) -> bool {
        self.settings.consecutive > 0 && row >= self.settings.consecutive
    }

    /// One of the endpoints has failed so often in a row.
    pub fn handle_consecutive(
        &mut self,
        records: &[&EndpointRecord],
        index: usize,
        row: u32,
        now: Instant,
        random: u64,
    ) -> Option<Ejection> {
        let record =
            records.get(index).filter(|record| self.is_consecutive(row) && !record.is_ejected(now))?;
        if record.failing_for(now) < self.settings.lasting || !self.has_room(records, now) {
            return None;
        }
        let length = self.eject(record, now, random);
        Some(Ejection { index, cause: EjectionCause::Consecutive(row), length })
    }

    /// When [`Outlier::handle_interval`] is to be called; `None`: never.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        (!self.settings.interval.is_zero()).then_some(self.next)
    }

    /// Compares, when the interval is over, and begins the next one. The worst first, as far as there is room.
    pub fn handle_interval(
        &mut self,
        records: &[&EndpointRecord],
        now: Instant,
        random: u64,
    ) -> Vec<Ejection> {
        if self.due().is_none_or(|due| now < due) {
            return Vec::new();
        }
        self.next = now + self.settings.interval;
        let mut rates = Vec::new();
        for (index, record) in records.iter().enumerate() {
            let (successes, failures) = record.take();
            let calls = u64::from(successes) + u64::from(failures);
            if calls >= u64::from(self.settings.minimum.max(1)) {
                // Millionths, so that deviations far below a thousandth are seen too.
                rates.push((u64::from(successes) * 1_000_000 / calls, index));
            }
            if !record.is_ejected(now) {
                let fewer = |times: u32| times.checked_sub(1);
                let _ = record.times.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer);
            }
        }
        let Some((mean, below)) = self.threshold(&rates) else { return Vec::new() };
        rates.sort_unstable();
        let mut ejected = Vec::new();
        for (rate, index) in rates.into_iter().take_while(|(rate, _)| *rate < below) {
            let Some(record) = records.get(index).filter(|record| !record.is_ejected(now)) else { continue };
            if !self.has_room(records, now) {
                break;
            }
            let length = self.eject(record, now, random.rotate_left(ejected.len() as u32));
            let thousandths = |millionths: u64| u32::try_from(millionths / 1000).unwrap_or(0);
            let cause = EjectionCause::SuccessRate { rate: thousandths(rate), mean: thousandths(mean) };
            ejected.push(Ejection { index, cause, length });
        }
        ejected
    }

    /// The mean of the rates, and the rate that is too low; none when they are too few.
    fn threshold(&self, rates: &[(u64, usize)]) -> Option<(u64, u64)> {
        let count = rates.len() as u64;
        if count < u64::from(self.settings.hosts.max(2)) {
            return None;
        }
        let mean = rates.iter().map(|(rate, _)| rate).sum::<u64>() / count;
        let variance = rates.iter().map(|(rate, _)| rate.abs_diff(mean).pow(2)).sum::<u64>() / count;
        let margin = variance.isqrt() * u64::from(self.settings.deviations) / 1000;
        Some((mean, mean.saturating_sub(margin.max(MARGIN_MIN))))
    }

    fn has_room(&self, records: &[&EndpointRecord], now: Instant) -> bool {
        let ejected = records.iter().filter(|record| record.is_ejected(now)).count();
        let most = records.len() * self.settings.percent.min(100) as usize / 100;
        // One may be in any case, the last never.
        ejected < most.max(1).min(records.len().saturating_sub(1))
    }

    fn eject(&self, record: &EndpointRecord, now: Instant, random: u64) -> Duration {
        let times = record.times.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let OutlierSettings { ejection, ejection_most, .. } = self.settings;
        let length = ejection.checked_mul(times).map_or(ejection_most, |length| length.min(ejection_most));
        let length = length + fraction(length / 10, random);
        record.until.store(record.since_origin(now + length), Ordering::Relaxed);
        record.row.store(0, Ordering::Relaxed);
        length
    }
}
