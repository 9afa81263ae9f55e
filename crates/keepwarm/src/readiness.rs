//! Whether the process accepts new requests: what `/readyz` reports to load balancers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// False until the first workers are ready, and from the first moment of a drain. A cheap handle: clones are the same flag.
#[derive(Clone, Debug, Default)]
pub(crate) struct Readiness(Arc<AtomicBool>);

impl Readiness {
    /// Requests are accepted from now on, or no more.
    pub(crate) fn set(&self, ready: bool) {
        self.0.store(ready, Ordering::Relaxed);
    }

    /// Whether requests are accepted.
    pub(crate) fn is_ready(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
