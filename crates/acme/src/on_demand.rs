//! Names whose certificates are ordered when their first client comes: whether a service permits it, and within which bounds.
//!
//! Any client can request any name, so everything here is bounded: requests in the channel, waiting handshakes, names that are asked about
//! or ordered, questions and orders in time, remembered refusals, and names in all. Beyond a bound the handshake is refused at once. Nothing is ordered for a
//! name that the service has not permitted. The task runs on the control thread.

mod counters;
mod permission;
mod refusals;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use keepwarm_policy::gcra::{Gcra, Quota};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};

use counters::OnDemandCounters;
pub use counters::{OnDemandCounts, OnDemandResult};
pub(crate) use permission::{Permission, PermissionAnswer};
use refusals::Refusals;

use crate::account::AuthorityAccess;
use crate::keeper::{NameEvent, OnDemandLink};
use crate::manager::Names;

/// Handshakes that wait for a certificate, over all threads. Each keeps a first message of its client: up to 64 KiB, usually 2.
const WAITING: usize = 256;
/// Names that are asked about or ordered at the same time.
const PENDING: usize = 128;
/// Questions to the service: enough for a move of many names, and little for any server.
const QUESTIONS: Quota = Quota { count: 10, period: Duration::from_secs(1), burst: 50 };
/// Orders of new names: at most 200 in any three hours. Let's Encrypt allows an account 300, and renewals and retries need some.
const ORDERS: Quota = Quota { count: 150, period: Duration::from_secs(3 * 60 * 60), burst: 50 };
/// How long a refusal of the service is remembered: a customer who registers after a first try waits no longer.
const REFUSED: Duration = Duration::from_secs(5 * 60);
/// The same where the service was unavailable.
const UNAVAILABLE: Duration = Duration::from_secs(10);
/// Warnings about the same are logged once in this time.
const QUIET: Duration = Duration::from_secs(60);

/// Who permits names, and how many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnDemandSettings {
    /// The URL that is asked, with `domain=NAME` in its query: 2xx permits the name.
    pub permission: String,
    /// Names with a certificate at the same time.
    pub names: usize,
}

/// Where handshakes request certificates.
#[derive(Clone)]
pub struct NameRequests {
    sender: mpsc::Sender<NameRequest>,
    waiting: Arc<Semaphore>,
    counters: Arc<OnDemandCounters>,
}

struct NameRequest {
    name: String,
    /// Told once listeners present the certificate; dropped if there will be none.
    ready: oneshot::Sender<()>,
}

/// Completes with whether listeners present a certificate for the name now.
pub type CertificateWait = Pin<Box<dyn Future<Output = bool> + Send>>;

impl NameRequests {
    /// Requests a certificate for a DNS name in lower case. Never blocks. `None`: too many wait.
    pub fn request(&self, name: &str) -> Option<CertificateWait> {
        let (ready, is_ready) = oneshot::channel();
        let place = Arc::clone(&self.waiting).try_acquire_owned().ok();
        let sent = place.and_then(|place| {
            self.sender.try_send(NameRequest { name: name.to_owned(), ready }).ok().map(|()| place)
        });
        let Some(place) = sent else {
            self.counters.count(OnDemandResult::Limited);
            return None;
        };
        Some(Box::pin(async move {
            let _place = place;
            is_ready.await.is_ok()
        }))
    }
}

/// The running task, and what is known of it.
pub(crate) struct OnDemand {
    settings: OnDemandSettings,
    requests: NameRequests,
    link: OnDemandLink,
    task: AbortHandle,
}

impl Drop for OnDemand {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl OnDemand {
    /// Starts with the names that are stored.
    pub(crate) fn start(settings: &OnDemandSettings, names: &Arc<Names>) -> Self {
        let (sender, requests) = mpsc::channel(WAITING);
        let (events, occurred) = mpsc::unbounded_channel();
        let link = OnDemandLink { permission: Arc::new(Permission::new(&settings.permission)), events };
        let counters = Arc::<OnDemandCounters>::default();
        let handle = NameRequests {
            sender,
            waiting: Arc::new(Semaphore::new(WAITING)),
            counters: Arc::clone(&counters),
        };
        let now = Instant::now();
        let task = OnDemandTask {
            limit: settings.names,
            names: Arc::clone(names),
            link: link.clone(),
            pending: HashMap::new(),
            refusals: Refusals::default(),
            questions: Rate::new(QUESTIONS, now),
            orders: Rate::new(ORDERS, now),
            asking: JoinSet::new(),
            counters,
            warned: None,
        };
        task.restore();
        let task = tokio::spawn(task.run(requests, occurred)).abort_handle();
        Self { settings: settings.clone(), requests: handle, link, task }
    }

    pub(crate) fn settings(&self) -> &OnDemandSettings {
        &self.settings
    }

    pub(crate) fn requests(&self) -> NameRequests {
        self.requests.clone()
    }

    /// The name is no longer one of these.
    pub(crate) fn note_taken(&self, name: &str) {
        let _ = self.link.events.send(NameEvent::Taken(name.to_owned()));
    }

    pub(crate) fn counts(&self) -> OnDemandCounts {
        self.requests.counters.counts()
    }
}

struct OnDemandTask {
    limit: usize,
    names: Arc<Names>,
    link: OnDemandLink,
    pending: HashMap<String, PendingName>,
    refusals: Refusals,
    questions: Rate,
    orders: Rate,
    asking: JoinSet<(String, Verdict)>,
    counters: Arc<OnDemandCounters>,
    /// When a bound was last reported.
    warned: Option<Instant>,
}

/// A name that is asked about or ordered.
#[derive(Default)]
struct PendingName {
    waiters: Vec<oneshot::Sender<()>>,
}

/// What becomes of a name that was asked about.
struct Verdict {
    answer: PermissionAnswer,
    /// Earlier orders failed: no other before this.
    not_before: SystemTime,
}

impl OnDemandTask {
    async fn run(
        mut self,
        mut requests: mpsc::Receiver<NameRequest>,
        mut occurred: mpsc::UnboundedReceiver<NameEvent>,
    ) {
        loop {
            tokio::select! {
                Some(request) = requests.recv() => self.handle_request(request),
                Some(event) = occurred.recv() => self.handle_event(event).await,
                Some(Ok((name, verdict))) = self.asking.join_next() => self.handle_verdict(name, verdict),
                else => return,
            }
        }
    }

    /// Keeps the names of before, as far as there are certificates of them.
    fn restore(&self) {
        let stored = match self.access().storage.on_demand_names() {
            Ok(stored) => stored,
            Err(error) => {
                tracing::error!(name: "acme_storage_failed", %error, "cannot read which names have certificates on demand");
                return;
            }
        };
        if stored.len() > self.limit {
            tracing::warn!(
                name: "acme_on_demand_limit",
                stored = stored.len(), limit = self.limit,
                "more names have certificates on demand than acme.on_demand_names allows: the others are asked about again when a client comes"
            );
        }
        let names: BTreeSet<String> = stored.into_iter().take(self.limit).collect();
        names.iter().for_each(|name| self.names.restore_on_demand(name, &self.link));
    }

    fn access(&self) -> &AuthorityAccess {
        self.names.access()
    }

    fn handle_request(&mut self, request: NameRequest) {
        let NameRequest { name, ready } = request;
        if self.names.is_issued(&name) {
            // It came while the request was on its way.
            let _ = ready.send(());
            return;
        }
        if let Some(pending) = self.pending.get_mut(&name) {
            return pending.add(ready);
        }
        if let Err(result) = self.admit(&name) {
            return self.counters.count(result);
        }
        self.pending.insert(name.clone(), PendingName { waiters: vec![ready] });
        let (permission, access) = (Arc::clone(&self.link.permission), self.access().clone());
        self.asking.spawn(async move {
            let answer = permission.ask(&name).await;
            let asked = name.clone();
            let attempts = access.blocking(move |storage| Ok(storage.attempts(&asked))).await;
            let not_before = attempts.map_or(SystemTime::UNIX_EPOCH, |attempts| attempts.not_before());
            (name, Verdict { answer, not_before })
        });
    }

    /// Whether the service is asked about a new name; else why not.
    fn admit(&mut self, name: &str) -> Result<(), OnDemandResult> {
        let now = Instant::now();
        if self.refusals.refuses(name, now) {
            return Err(OnDemandResult::Remembered);
        }
        if self.pending.len() >= PENDING || !self.orders.has_room(now) || !self.questions.take(now) {
            self.warn(
                "more names without a certificate are requested than can be asked about or ordered",
                now,
            );
            return Err(OnDemandResult::Limited);
        }
        // After the rate, since it counts.
        if self.names.on_demand_count() >= self.limit {
            self.warn("acme.on_demand_names is reached: no further name gets a certificate", now);
            return Err(OnDemandResult::Full);
        }
        Ok(())
    }

    fn handle_verdict(&mut self, name: String, verdict: Verdict) {
        let now = Instant::now();
        let wait = verdict.not_before.duration_since(SystemTime::now()).unwrap_or_default();
        let (result, refused) = match verdict.answer {
            PermissionAnswer::Yes if !wait.is_zero() => (OnDemandResult::Failed, wait),
            PermissionAnswer::Yes if self.names.on_demand_count() >= self.limit => {
                (OnDemandResult::Full, UNAVAILABLE)
            }
            PermissionAnswer::Yes if !self.orders.take(now) => (OnDemandResult::Limited, UNAVAILABLE),
            PermissionAnswer::Yes => {
                tracing::info!(
                    name: "acme_on_demand_permitted",
                    certificate = &*name, "a client requested a name without a certificate, and the service permits it: ordering"
                );
                if !self.names.add_on_demand(&name, &self.link) {
                    // A reload has put it into the configuration meanwhile.
                    let _ = self.link.events.send(NameEvent::Taken(name));
                }
                return;
            }
            PermissionAnswer::No(status) => {
                tracing::debug!(
                    name: "acme_on_demand_refused",
                    certificate = &*name, status, "a client requested a name that the service does not permit"
                );
                (OnDemandResult::Refused, REFUSED)
            }
            PermissionAnswer::Unavailable(error) => {
                self.warn(
                    &format!(
                        "cannot ask whether a name may have a certificate: {error}; no new one is ordered"
                    ),
                    now,
                );
                (OnDemandResult::Unavailable, UNAVAILABLE)
            }
        };
        self.counters.count(result);
        self.refuse(&name, refused);
    }

    async fn handle_event(&mut self, event: NameEvent) {
        match event {
            NameEvent::Issued(name) => {
                let Some(pending) = self.pending.remove(&name) else { return };
                self.counters.count(OnDemandResult::Issued);
                pending.wake();
                self.store(&name, |storage, name| storage.note_on_demand(name)).await;
            }
            NameEvent::Failed { name, wait } => {
                self.counters.count(OnDemandResult::Failed);
                self.names.remove_on_demand(&name);
                self.refuse(&name, wait);
            }
            NameEvent::Refused { name, status } => {
                tracing::warn!(
                    name: "acme_on_demand_ended",
                    certificate = &*name, status, "the service no longer permits the name: its certificate is not renewed, and no longer presented"
                );
                self.counters.count(OnDemandResult::Refused);
                self.names.remove_on_demand(&name);
                self.store(&name, |storage, name| storage.forget_on_demand(name)).await;
                self.refuse(&name, REFUSED);
            }
            NameEvent::Taken(name) => {
                // The waiters get what the listener has for it.
                if let Some(pending) = self.pending.remove(&name) {
                    pending.wake();
                }
            }
        }
    }

    /// Handshakes that wait for it end, and the next ones do not wait.
    fn refuse(&mut self, name: &str, wait: Duration) {
        self.pending.remove(name);
        self.refusals.insert(name, Instant::now() + wait);
    }

    async fn store(
        &self,
        name: &str,
        change: impl FnOnce(&crate::Storage, &str) -> Result<(), crate::StorageError> + Send + 'static,
    ) {
        let owned = name.to_owned();
        if let Err(error) = self.access().blocking(move |storage| change(storage, &owned)).await {
            tracing::error!(name: "acme_storage_failed", certificate = name, %error, "cannot note a name with a certificate on demand");
        }
    }

    /// Logs a bound that is reached, and not each time.
    fn warn(&mut self, what: &str, now: Instant) {
        if self.warned.is_none_or(|at| at + QUIET <= now) {
            self.warned = Some(now);
            tracing::warn!(
                name: "acme_on_demand_limited",
                "{what}; logged at most once a minute, keepwarm_acme_on_demand_total counts all"
            );
        }
    }
}

impl PendingName {
    /// Those who left are forgotten, so that they are bounded as the others are.
    fn add(&mut self, waiter: oneshot::Sender<()>) {
        if self.waiters.len() >= WAITING {
            self.waiters.retain(|waiter| !waiter.is_closed());
        }
        self.waiters.push(waiter);
    }

    fn wake(self) {
        for waiter in self.waiters {
            // Those who left hear nothing.
            let _ = waiter.send(());
        }
    }
}

/// A rate of one kind of event.
struct Rate {
    gcra: Gcra,
    tat: u64,
    origin: Instant,
}

impl Rate {
    fn new(quota: Quota, now: Instant) -> Self {
        Self { gcra: Gcra::new(quota), tat: 0, origin: now }
    }

    /// One event; whether it may happen.
    fn take(&mut self, now: Instant) -> bool {
        let (tat, decision) = self.decide(now);
        self.tat = tat;
        decision
    }

    /// Whether one could happen.
    fn has_room(&self, now: Instant) -> bool {
        self.decide(now).1
    }

    fn decide(&self, now: Instant) -> (u64, bool) {
        let since = now.saturating_duration_since(self.origin).as_micros();
        let (tat, decision) = self.gcra.decide(self.tat, u64::try_from(since).unwrap_or(u64::MAX));
        (tat, decision.allowed)
    }
}
