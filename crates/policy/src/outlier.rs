//! Outlier detection: ejects endpoints that are worse than the others of their upstream (Envoy's outlier detection).
//!
//! Two signals. Failures in a row that last for [`OutlierSettings::lasting`]: a shorter row is most likely a restart, which is left to the breaker. And a success rate below that of the
//! others: compared every [`OutlierSettings::interval`], for endpoints with enough calls in it, if there are enough of them: below their mean by a number of standard deviations, and by five
//! points. A breaker has a threshold, and finds what is bad; this compares, and finds what is worse: if all fail alike there is no outlier.
//!
//! An ejection lasts [`OutlierSettings::ejection`] times the number of ejections of the endpoint so far, at most [`OutlierSettings::ejection_most`], and up to a tenth longer at random. Each
//! interval without an ejection reduces that number by one. At most [`OutlierSettings::percent`] of the endpoints are ejected at once, but always one if there are others.
//!
//! [`EndpointRecord`] belongs to an endpoint and is written by all threads; [`Outlier`] belongs to the upstream, under its lock, and is used only when a row is long enough or the interval is over.

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::backoff::fraction;

/// Minimum margin below the mean, in millionths. Among five endpoints that never fail, one that fails once in a thousand calls is two standard deviations away (Envoy ejects it).
const MARGIN_MIN: u64 = 50_000;

/// Settings of an [`Outlier`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutlierSettings {
    /// Failures in a row that eject an endpoint. 0: off.
    pub consecutive: u32,
    /// Minimum duration of a row; a shorter one is left to the breaker.
    pub lasting: Duration,
    /// How often the success rates are compared. [`Duration::ZERO`]: never.
    pub interval: Duration,
    /// Calls in an interval that make an endpoint's rate count.
    pub minimum: u32,
    /// Endpoints with a rate that counts, before rates are compared.
    pub hosts: u32,
    /// Standard deviations below the mean that are too low, in thousandths.
    pub deviations: u32,
    /// The first ejection.
    pub ejection: Duration,
    /// The longest one.
    pub ejection_most: Duration,
    /// Limit on endpoints that are ejected at once, in per cent.
    pub percent: u32,
}

impl Default for OutlierSettings {
    /// Envoy's numbers, with two exceptions. The ceiling: Envoy has 10 %, which of three endpoints allows only the one that is always allowed; a third leaves enough to bear the load. And the duration of a row:
    /// a restarted endpoint fails five calls in a row within milliseconds, and would be ejected for a hundred times as long as it was down. Until the openings of its breaker reach their
    /// maximum ([`crate::breaker`]), the breaker probes it soon enough.
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
    /// The longest possible ejection, jitter included.
    #[must_use]
    pub fn longest(&self) -> Duration {
        self.ejection_most + self.ejection_most / 10
    }
}

/// Results of the calls of one endpoint. Shared by all threads.
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
    /// Without results.
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

    /// A call has failed; returns the failures in a row, for [`Outlier::handle_consecutive`].
    pub fn handle_failure(&self, now: Instant) -> u32 {
        self.failures.fetch_add(1, Ordering::Relaxed);
        let before = self.row.fetch_add(1, Ordering::Relaxed);
        if before == 0 {
            self.since.store(self.since_origin(now), Ordering::Relaxed);
        }
        before.saturating_add(1)
    }

    /// Duration of the current row.
    fn failing_for(&self, now: Instant) -> Duration {
        Duration::from_nanos(self.since_origin(now).saturating_sub(self.since.load(Ordering::Relaxed)))
    }

    /// Whether it is ejected.
    #[must_use]
    pub fn is_ejected(&self, now: Instant) -> bool {
        let until = self.until.load(Ordering::Relaxed);
        until > 0 && self.since_origin(now) < until
    }

    /// Ends an ejection at this time at the latest, after the settings changed.
    pub fn shorten(&self, last: Instant) {
        self.until.fetch_min(self.since_origin(last), Ordering::Relaxed);
    }

    fn since_origin(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.origin).as_nanos()).unwrap_or(u64::MAX)
    }

    /// Takes the counts since the last call.
    fn take(&self) -> (u32, u32) {
        (self.successes.swap(0, Ordering::Relaxed), self.failures.swap(0, Ordering::Relaxed))
    }
}

/// Why an endpoint is ejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EjectionCause {
    /// This many calls failed in a row.
    Consecutive(u32),
    /// Its success rate is too low; in thousandths.
    SuccessRate {
        /// Its own.
        rate: u32,
        /// The mean of all.
        mean: u32,
    },
}

/// The ejection of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ejection {
    /// Index of the endpoint.
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
    /// The first comparison is after one interval.
    #[must_use]
    pub fn new(settings: OutlierSettings, now: Instant) -> Self {
        Self { settings, next: now + settings.interval }
    }

    /// Changes the settings.
    pub fn set_settings(&mut self, settings: OutlierSettings, now: Instant) {
        self.next = self.next.min(now + settings.interval);
        self.settings = settings;
    }

    /// Whether a row of failures is long enough to call [`Outlier::handle_consecutive`].
    #[must_use]
    pub fn is_consecutive(&self, row: u32) -> bool {
        self.settings.consecutive > 0 && row >= self.settings.consecutive
    }

    /// An endpoint has failed this many times in a row.
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

    /// When to call [`Outlier::handle_interval`]; `None`: never.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        (!self.settings.interval.is_zero()).then_some(self.next)
    }

    /// Compares the endpoints if the interval is over, and begins the next one. Ejects the worst first, up to the limit.
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

    /// The mean of the rates, and the threshold; none if there are too few.
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
        // One may always be ejected, the last never.
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
