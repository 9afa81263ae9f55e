//! Endpoints that do worse than the others of their upstream are ejected for some time ([`keepwarm_policy::outlier`]).

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use keepwarm_policy::breaker::Outcome;
use keepwarm_policy::outlier::{Ejection, EndpointRecord};
use keepwarm_policy::{Outlier, OutlierSettings};
use tokio::time::Instant;

use crate::EndpointSet;
use crate::endpoints::lock;

/// Compares the endpoints of an upstream.
#[derive(Debug)]
pub(crate) struct Ejections {
    outlier: Mutex<Option<Outlier>>,
    origin: Instant,
    /// When success rates are compared next, in nanoseconds since `origin`: every call reads it, without the lock.
    next: AtomicU64,
    /// In nanoseconds; 0: no comparison.
    interval: AtomicU64,
}

impl Ejections {
    pub(crate) fn new(settings: Option<OutlierSettings>) -> Self {
        let ejections = Self {
            outlier: Mutex::default(),
            origin: Instant::now(),
            next: AtomicU64::new(0),
            interval: AtomicU64::new(0),
        };
        ejections.set_settings(settings);
        ejections
    }

    pub(crate) fn set_settings(&self, settings: Option<OutlierSettings>) {
        let now = Instant::now();
        let interval = settings.map_or(Duration::ZERO, |settings| settings.interval);
        let mut outlier = lock(&self.outlier);
        match (outlier.as_mut(), settings) {
            (Some(outlier), Some(settings)) => outlier.set_settings(settings, now.into_std()),
            (None, Some(settings)) => *outlier = Some(Outlier::new(settings, now.into_std())),
            (_, None) => *outlier = None,
        }
        self.interval.store(nanos(interval), Ordering::Relaxed);
        self.next.store(nanos(now + interval - self.origin), Ordering::Relaxed);
    }

    /// A call with the endpoint at `index` has ended so.
    pub(crate) fn note(
        &self,
        upstream: &str,
        endpoints: &EndpointSet,
        index: usize,
        outcome: Outcome,
        now: Instant,
    ) {
        let Some(entry) = endpoints.endpoints.get(index).filter(|_| endpoints.endpoints.len() > 1) else {
            return;
        };
        match outcome {
            Outcome::Unknown => return,
            Outcome::Success => entry.state.record().handle_success(),
            Outcome::Failure => {
                let row = entry.state.record().handle_failure(now.into_std());
                if let Some(outlier) =
                    lock(&self.outlier).as_mut().filter(|outlier| outlier.is_consecutive(row))
                {
                    let records = records(endpoints);
                    let ejected =
                        outlier.handle_consecutive(&records, index, row, now.into_std(), crate::random());
                    tell(upstream, endpoints, ejected);
                }
            }
        }
        let (interval, at) = (self.interval.load(Ordering::Relaxed), nanos(now - self.origin));
        let next = self.next.load(Ordering::Relaxed);
        // One of those who notice at once does it.
        let is_due = interval > 0
            && at >= next
            && self.next.compare_exchange(next, at + interval, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if is_due && let Some(outlier) = lock(&self.outlier).as_mut() {
            let ejected = outlier.handle_interval(&records(endpoints), now.into_std(), crate::random());
            tell(upstream, endpoints, ejected);
        }
    }
}

fn records(endpoints: &EndpointSet) -> Vec<&EndpointRecord> {
    endpoints.endpoints.iter().map(|entry| entry.state.record()).collect()
}

fn tell(upstream: &str, endpoints: &EndpointSet, ejected: impl IntoIterator<Item = Ejection>) {
    for Ejection { index, cause, length } in ejected {
        let Some(entry) = endpoints.endpoints.get(index) else { continue };
        crate::events::ejection(upstream, entry.state.name(), &cause, length);
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
