//! Limits that several Keepwarms share: the counts are kept in a Valkey or Redis.
//!
//! One round trip for a request: `EVALSHA` of [`SCRIPT`], which is loaded when the server does not know it (`NOSCRIPT`: it was restarted, or its scripts were flushed). The
//! connection belongs to a [`Driver`] on the control thread; a data-plane thread sends it a query through a channel, and waits for the response without blocking.
//!
//! # An unhealthy store
//!
//! Requests must not wait for the timeout again and again. The first failure takes the store out: from then on it gets no queries. Its driver then reconnects and queries its own key, after
//! 100 ms, then less and less often up to every 5 s; when that gets a reply in time, the store is back. A store that fails again soon stays out for longer each time.
//! Queries in flight are bounded, and end with the timeout.

mod driver;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use keepwarm_net::TlsSettings;
use keepwarm_policy::Gcra;
use keepwarm_policy::gcra::RateLimitDecision;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::timeout;

use super::LimitKey;

pub use driver::Driver;

/// What is run for each request.
pub(super) const SCRIPT: &str = include_str!("store/count.lua");
/// Questions under way at once; what is beyond counts as failed. At 1 ms a question that is a million a second.
const MOST_UNDER_WAY: usize = 1024;

/// Where a store is, and how long it may take.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreSettings {
    /// `redis://…`, `rediss://…` or `redis+unix:…`, with what it takes to log in.
    pub url: String,
    /// What `rediss://` is encrypted with.
    pub tls: Option<TlsSettings>,
    /// Where it is, without that: for the log.
    pub address: String,
    /// How long it may take to respond.
    pub timeout: Duration,
}

/// A store of counts. Shared by all limits that name it, and by all threads.
#[derive(Debug)]
pub struct Store {
    settings: StoreSettings,
    queries: mpsc::Sender<StoreQuery>,
    state: Arc<StoreState>,
}

/// The state of a store, shared by the threads and the driver.
#[derive(Debug, Default)]
struct StoreState {
    up: AtomicBool,
    /// Why it is not, as [`StoreFailure`] numbers it.
    failure: AtomicU8,
    tripped: Notify,
    under_way: AtomicUsize,
    asked: AtomicU64,
    failed: AtomicU64,
}

/// A query to the store: one request of one key.
#[derive(Debug)]
struct StoreQuery {
    key: Vec<u8>,
    interval: u64,
    tolerance: u64,
    response: oneshot::Sender<Result<StoreReply, StoreFailure>>,
}

/// The reply of the script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct StoreReply {
    admitted: bool,
    /// Microseconds that the TAT is ahead.
    ahead: u64,
}

/// Why a store does not help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreFailure {
    /// There is no connection to it.
    Unreachable,
    /// It did not respond in time.
    Timeout,
    /// It replied with an error.
    Refused,
    /// Too many questions are under way.
    Busy,
}

impl Store {
    /// A store, and who drives its connection: spawn [`Driver::run`] on the control thread. It ends with the store.
    ///
    /// # Errors
    /// An invalid URL, as a phrase.
    pub fn open(settings: StoreSettings) -> Result<(Arc<Self>, Driver), String> {
        let (queries, receiver) = mpsc::channel(MOST_UNDER_WAY);
        let state = Arc::<StoreState>::default();
        let driver = Driver::new(&settings, receiver, Arc::clone(&state))?;
        Ok((Arc::new(Self { settings, queries, state }), driver))
    }

    /// What it was opened with.
    #[must_use]
    pub fn settings(&self) -> &StoreSettings {
        &self.settings
    }

    /// Whether it gets queries.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.state.up.load(Ordering::Relaxed)
    }

    /// Why it is not asked, or was not lately.
    #[must_use]
    pub fn failure(&self) -> StoreFailure {
        StoreFailure::numbered(self.state.failure.load(Ordering::Relaxed))
    }

    /// Queries so far, and how many of them got no reply.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        (self.state.asked.load(Ordering::Relaxed), self.state.failed.load(Ordering::Relaxed))
    }

    /// Counts one request of a key.
    pub(super) async fn count(&self, key: Vec<u8>, gcra: &Gcra) -> Result<RateLimitDecision, StoreFailure> {
        if !self.is_up() {
            return Err(self.failure());
        }
        self.state.asked.fetch_add(1, Ordering::Relaxed);
        let counted = self.ask(key, gcra).await;
        if counted.is_err() {
            self.state.failed.fetch_add(1, Ordering::Relaxed);
        }
        counted.map(|StoreReply { admitted, ahead }| match admitted {
            true => gcra.admitted(ahead),
            false => gcra.refused(ahead),
        })
    }

    async fn ask(&self, key: Vec<u8>, gcra: &Gcra) -> Result<StoreReply, StoreFailure> {
        let Some(_under_way) = InFlightQuery::begin(&self.state) else { return Err(StoreFailure::Busy) };
        let (response, responded) = oneshot::channel();
        let query = StoreQuery { key, interval: gcra.interval(), tolerance: gcra.tolerance(), response };
        if self.queries.try_send(query).is_err() {
            return Err(StoreFailure::Busy);
        }
        match timeout(self.settings.timeout, responded).await {
            Ok(Ok(response)) => response,
            // It was taken out meanwhile.
            Ok(Err(_)) => Err(self.failure()),
            Err(_) => {
                self.state.trip(StoreFailure::Timeout);
                Err(StoreFailure::Timeout)
            }
        }
    }
}

impl StoreState {
    /// Takes the store out. Whether it was in.
    fn trip(&self, failure: StoreFailure) -> bool {
        self.failure.store(failure.number(), Ordering::Relaxed);
        let was_up = self.up.swap(false, Ordering::Relaxed);
        if was_up {
            self.tripped.notify_one();
        }
        was_up
    }
}

impl StoreFailure {
    const ALL: [Self; 4] = [Self::Unreachable, Self::Timeout, Self::Refused, Self::Busy];

    /// A stable name, for counters and logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Unreachable => "store_unreachable",
            Self::Timeout => "store_timeout",
            Self::Refused => "store_refused",
            Self::Busy => "store_busy",
        }
    }

    /// For people.
    #[must_use]
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Unreachable => "its store cannot be reached",
            Self::Timeout => "its store did not respond in time",
            Self::Refused => "its store returned an error",
            Self::Busy => "too many queries to its store are in progress",
        }
    }

    fn number(self) -> u8 {
        self as u8
    }

    fn numbered(number: u8) -> Self {
        Self::ALL.get(usize::from(number)).copied().unwrap_or(Self::Unreachable)
    }
}

/// Counts a query as in flight until it is dropped.
struct InFlightQuery<'a>(&'a StoreState);

impl<'a> InFlightQuery<'a> {
    fn begin(state: &'a StoreState) -> Option<Self> {
        let under_way = Self(state);
        (state.under_way.fetch_add(1, Ordering::Relaxed) < MOST_UNDER_WAY).then_some(under_way)
    }
}

impl Drop for InFlightQuery<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The key in the store. Addresses stand there as they are; of what may be a secret, such as a token in a field, only the first half of its SHA-256.
pub(super) fn key(limit: &str, kind: &LimitKey, key: &[u8]) -> Vec<u8> {
    let mut text = format!("keepwarm:rate:{limit}:");
    match (kind, key) {
        (LimitKey::All, _) => text.push('*'),
        (_, []) => text.push('-'),
        (LimitKey::Client, [a, b, c, d]) => text.push_str(&format!("{a}.{b}.{c}.{d}")),
        (LimitKey::Client, prefix) => {
            prefix.chunks(2).for_each(|pair| text.push_str(&format!("{}:", Hex(pair))));
            text.push_str(":/64");
        }
        (LimitKey::Header(_) | LimitKey::Cookie(_), value) => {
            let digest = sha256(value);
            text.push_str(&Hex(digest.as_ref().get(..16).unwrap_or_default()).to_string());
        }
    }
    text.into_bytes()
}

/// The TLS library's: no other is needed for it.
fn sha256(bytes: &[u8]) -> rustls::crypto::hash::Output {
    let suite = rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
    match suite.tls13() {
        Some(suite) => suite.common.hash_provider.hash(bytes),
        None => unreachable!("a suite of TLS 1.3"),
    }
}

struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for StoreSettings {
    /// Without the URL: it may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreSettings")
            .field("address", &self.address)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_say_whose_they_are_and_give_no_secret_away() {
        let text = |kind: LimitKey, bytes: &[u8]| String::from_utf8(key("api", &kind, bytes)).unwrap();
        assert_eq!(text(LimitKey::All, b""), "keepwarm:rate:api:*");
        assert_eq!(text(LimitKey::Client, &[192, 0, 2, 1]), "keepwarm:rate:api:192.0.2.1");
        let prefix = [0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 1];
        assert_eq!(text(LimitKey::Client, &prefix), "keepwarm:rate:api:2001:0db8:0000:0001::/64");
        assert_eq!(text(LimitKey::Client, b""), "keepwarm:rate:api:-");
        let token = LimitKey::Header("authorization".to_owned());
        // The well-known SHA-256 of "abc".
        assert_eq!(text(token.clone(), b"abc"), "keepwarm:rate:api:ba7816bf8f01cfea414140de5dae2223");
        assert_eq!(text(token, b""), "keepwarm:rate:api:-");
    }

    #[test]
    fn failures_keep_their_numbers() {
        for failure in StoreFailure::ALL {
            assert_eq!(StoreFailure::numbered(failure.number()), failure);
        }
    }
}
