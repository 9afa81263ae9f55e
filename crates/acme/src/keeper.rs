//! Keeps the certificate of one name: a task that loads, orders and renews it.

use std::hash::{BuildHasher, RandomState};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use instant_acme::CertificateIdentifier;
use keepwarm_policy::renewal::{self, Period};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::account::AuthorityAccess;
use crate::manager::{Shared, lock};
use crate::on_demand::{Permission, PermissionAnswer};
use crate::order::Attempt;
use crate::settings::ChallengeKind;
use crate::status::{NameState, NameStatus};
use crate::storage::Attempts;
use crate::{AcmeError, Certificate};

/// How often the clock is looked at while a certificate is valid: it may be set, and the machine may sleep.
const CLOCK: Duration = Duration::from_secs(60);
/// Another process orders for the name: how long until the next look.
const LOCKED: Duration = Duration::from_secs(5);

/// The task of a name.
pub(crate) struct NameTask {
    task: AbortHandle,
    pub(crate) status: Arc<Mutex<NameStatus>>,
}

impl Drop for NameTask {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What a name that was ordered on demand is subject to.
#[derive(Clone)]
pub(crate) struct OnDemandLink {
    /// Who is asked before each renewal.
    pub(crate) permission: Arc<Permission>,
    /// At most a few for each name.
    pub(crate) events: mpsc::UnboundedSender<NameEvent>,
}

/// What has happened to a name on demand.
pub(crate) enum NameEvent {
    /// Listeners present its certificate.
    Issued(String),
    /// It got no certificate, and is not tried again before this is over. Its task has ended.
    Failed { name: String, wait: Duration },
    /// The service no longer permits it. Its task has ended.
    Refused { name: String, status: u16 },
    /// It is in the configuration now.
    Taken(String),
}

impl NameTask {
    pub(crate) fn start(name: &str, shared: &Arc<Shared>, on_demand: Option<OnDemandLink>) -> Self {
        let status = Arc::new(Mutex::new(NameStatus::new(name, on_demand.is_some())));
        let mut keeper = Keeper {
            name: name.to_owned(),
            shared: Arc::clone(shared),
            on_demand,
            status: Arc::clone(&status),
            attempts: shared.access.storage.attempts(name),
            certificate: None,
            window: RenewalWindow::default(),
            random: RandomState::new().hash_one(name),
        };
        keeper.load();
        let task = tokio::spawn(async move { keeper.keep().await }).abort_handle();
        Self { task, status }
    }

    pub(crate) fn is_on_demand(&self) -> bool {
        lock(&self.status).on_demand
    }

    pub(crate) fn is_issued(&self) -> bool {
        matches!(lock(&self.status).state, NameState::Issued(_))
    }
}

/// Keeps the certificate of one name.
struct Keeper {
    name: String,
    shared: Arc<Shared>,
    /// `None`: the name is in the configuration.
    on_demand: Option<OnDemandLink>,
    status: Arc<Mutex<NameStatus>>,
    attempts: Attempts,
    /// From the authority.
    certificate: Option<Certificate>,
    window: RenewalWindow,
    /// Drawn once for each certificate.
    random: u64,
}

/// The authority's suggestion for the renewal of a certificate (RFC 9773).
#[derive(Debug, Clone, Copy, Default)]
struct RenewalWindow {
    period: Option<Period>,
    /// When it is fetched again; `None`: now.
    poll: Option<SystemTime>,
    /// The authority has none to give.
    unsupported: bool,
}

impl Keeper {
    /// Presents the stored certificate, or one of our own; for a name on demand, only a valid one from the authority.
    fn load(&mut self) {
        match self.shared.access.storage.certificate(&self.name) {
            Ok(Some(certificate)) if self.on_demand.is_none() || certificate.is_valid() => {
                return self.install(certificate);
            }
            Ok(Some(_)) => {}
            Ok(None) => {}
            Err(error) => {
                tracing::error!(
                    name: "acme_storage_failed",
                    certificate = &*self.name, %error, "a stored certificate cannot be used; a new one is ordered"
                );
            }
        }
        if self.on_demand.is_some() {
            return;
        }
        tracing::warn!(
            name: "acme_no_certificate",
            certificate = &*self.name,
            "there is no certificate of the authority for the name yet; until it issues one, clients see a self-signed one and warn their users, \
            or the one of another authority that is stored"
        );
        if self.shared.sink.presents(&self.name) {
            return;
        }
        match Certificate::self_signed(&self.name) {
            Ok(certificate) => self.shared.sink.install(&self.name, &certificate),
            Err(error) => {
                tracing::error!(name: "acme_name_invalid", certificate = &*self.name, error, "the name cannot be in a certificate");
            }
        }
    }

    fn install(&mut self, certificate: Certificate) {
        match &self.on_demand {
            None => self.shared.sink.install(&self.name, &certificate),
            Some(_) => self.shared.sink.install_on_demand(&self.name, &certificate),
        }
        self.window = RenewalWindow::default();
        self.random = RandomState::new().hash_one(&certificate.facts.serial);
        lock(&self.status).state = NameState::Issued(certificate.facts.clone());
        self.certificate = Some(certificate);
        self.tell(NameEvent::Issued);
    }

    /// Reports an event of a name on demand.
    fn tell(&self, event: impl FnOnce(String) -> NameEvent) {
        if let Some(link) = &self.on_demand {
            let _ = link.events.send(event(self.name.clone()));
        }
    }

    /// Ends only for names on demand, which have sent an event then.
    async fn keep(&mut self) {
        loop {
            let due = self.due();
            self.note_next(due);
            let now = SystemTime::now();
            if let Ok(left) = due.duration_since(now)
                && !left.is_zero()
            {
                tokio::time::sleep(left.min(CLOCK)).await;
                self.poll_window().await;
                continue;
            }
            if self.attempt().await.is_break() {
                return;
            }
        }
    }

    /// When the next attempt is due.
    fn due(&self) -> SystemTime {
        let renewal = match &self.certificate {
            Some(certificate) => {
                renewal::renewal_time(certificate.facts.validity, self.window.period, self.random)
            }
            None => SystemTime::UNIX_EPOCH,
        };
        renewal.max(self.attempts.not_before())
    }

    fn note_next(&self, due: SystemTime) {
        let mut status = lock(&self.status);
        status.next = Some(due.max(SystemTime::now()));
        status.failures = self.attempts.failures;
        status.error = (self.attempts.failures > 0).then(|| self.attempts.error.clone());
    }

    /// Fetches the authority's window again when it is time. Without it, the lifetime decides.
    async fn poll_window(&mut self) {
        let Some(certificate) = &self.certificate else { return };
        let now = SystemTime::now();
        if self.window.unsupported || self.window.poll.is_some_and(|at| at > now) {
            return;
        }
        let told = match identifier(certificate) {
            Some(identifier) => self.fetch_window(&identifier).await,
            None => Err(instant_acme::Error::Unsupported("a certificate without a key identifier")),
        };
        let mut wait = None;
        match told {
            Ok((window, poll)) => {
                self.window.period = Some(window);
                wait = Some(poll);
            }
            Err(instant_acme::Error::Unsupported(_)) => self.window.unsupported = true,
            Err(error) => {
                tracing::debug!(name: "acme_renewal_info_failed", certificate = &*self.name, %error, "cannot fetch renewal information");
            }
        }
        self.window.poll = now.checked_add(renewal::window_poll(wait));
    }

    async fn fetch_window(
        &self,
        identifier: &CertificateIdentifier<'_>,
    ) -> Result<(Period, Duration), instant_acme::Error> {
        let failed = |error: AcmeError| instant_acme::Error::Other(Box::new(error));
        let (account, _) = self.shared.access.account().await.map_err(failed)?;
        let (info, poll) = account.renewal_info(identifier).await?;
        let window = info.suggested_window;
        Ok((Period { start: window.start.into(), end: window.end.into() }, poll))
    }

    /// One attempt, unless another process makes it.
    async fn attempt(&mut self) -> ControlFlow<()> {
        let shared = Arc::clone(&self.shared);
        let Ok(_turn) = shared.at_once.acquire().await else { return ControlFlow::Continue(()) };
        let name = self.name.clone();
        let locked = match shared.access.blocking(move |storage| storage.lock(&name)).await {
            Ok(Some(lock)) => lock,
            Ok(None) => {
                tokio::time::sleep(LOCKED).await;
                return ControlFlow::Continue(());
            }
            Err(error) => return self.fail(&error).await,
        };
        if self.take_over().await {
            return ControlFlow::Continue(());
        }
        self.ask_again().await?;
        let done = match self.order().await {
            Ok(certificate) => {
                self.succeed(certificate).await;
                ControlFlow::Continue(())
            }
            Err(error) => self.fail(&error).await,
        };
        drop(locked);
        done
    }

    /// Whether a name on demand is still permitted, asked before each renewal. An unavailable service changes nothing: what is served stays.
    async fn ask_again(&self) -> ControlFlow<()> {
        let (Some(link), Some(_)) = (&self.on_demand, &self.certificate) else {
            return ControlFlow::Continue(());
        };
        match link.permission.ask(&self.name).await {
            PermissionAnswer::Yes => ControlFlow::Continue(()),
            PermissionAnswer::No(status) => {
                self.tell(|name| NameEvent::Refused { name, status });
                ControlFlow::Break(())
            }
            PermissionAnswer::Unavailable(error) => {
                tracing::warn!(
                    name: "acme_on_demand_unasked",
                    certificate = &*self.name, error, "cannot ask whether the name is still permitted; its certificate is renewed as before"
                );
                ControlFlow::Continue(())
            }
        }
    }

    /// Another process may have renewed the certificate meanwhile.
    async fn take_over(&mut self) -> bool {
        let name = self.name.clone();
        let stored = self
            .shared
            .access
            .blocking(move |storage| Ok((storage.certificate(&name).ok().flatten(), storage.attempts(&name))))
            .await;
        let Ok((Some(stored), attempts)) = stored else { return false };
        if self.certificate.as_ref().is_some_and(|own| own.facts == stored.facts) {
            return false;
        }
        if self.on_demand.is_some() && !stored.is_valid() {
            return false;
        }
        self.attempts = attempts;
        self.install(stored);
        true
    }

    async fn order(&self) -> Result<Certificate, AcmeError> {
        let kinds = self.kinds();
        // After a failure, the staging server shows first whether another attempt makes sense: its limits are wider.
        if let Some(staging) = self.shared.staging.as_ref().filter(|_| self.attempts.failures > 0) {
            self.attempt_at(staging, &kinds, true).await?;
        }
        self.attempt_at(&self.shared.access, &kinds, false).await
    }

    async fn attempt_at(
        &self,
        access: &AuthorityAccess,
        kinds: &[ChallengeKind],
        trial: bool,
    ) -> Result<Certificate, AcmeError> {
        let replaces = match &self.certificate {
            Some(certificate) if !trial => identifier(certificate),
            _ => None,
        };
        let attempt =
            Attempt { access, challenges: &self.shared.challenges, name: &self.name, kinds, replaces, trial };
        attempt.run().await
    }

    /// The challenges, in turn after each failure: one of the ports may be unreachable.
    fn kinds(&self) -> Vec<ChallengeKind> {
        let mut kinds = self.shared.settings.challenges.clone();
        if !kinds.is_empty() {
            let by = usize::try_from(self.attempts.failures).unwrap_or(0) % kinds.len();
            kinds.rotate_left(by);
        }
        kinds
    }

    async fn succeed(&mut self, certificate: Certificate) {
        let facts = &certificate.facts;
        tracing::info!(
            name: "acme_certificate_obtained",
            certificate = &*self.name, issuer = &*facts.issuer, expires = %httpdate::fmt_http_date(facts.validity.end),
            "obtained a certificate"
        );
        self.attempts = Attempts::default();
        self.save_attempts().await;
        lock(&self.status).obtained += 1;
        self.install(certificate);
    }

    /// Breaks where the name is given up: one on demand without a certificate is asked about again when its next client comes.
    async fn fail(&mut self, error: &AcmeError) -> ControlFlow<()> {
        let now = SystemTime::now();
        let left = self
            .certificate
            .as_ref()
            .and_then(|own| own.facts.validity.end.duration_since(now).ok())
            .unwrap_or_default();
        let failures = self.attempts.failures.saturating_add(1);
        let random = RandomState::new().hash_one(failures);
        let wait = match error.reason {
            // The authority's limits do not count this.
            "unreachable" | "bad_nonce" => renewal::unreachable_wait(failures, random),
            _ => renewal::retry_wait(failures, left, error.retry_after, random),
        };
        let not_before = now.checked_add(wait).and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
        self.attempts = Attempts {
            failures,
            not_before: not_before.map_or(0, |at| at.as_secs()),
            error: error.to_string(),
        };
        lock(&self.status).failed += 1;
        self.report(error, wait, left);
        self.save_attempts().await;
        if self.on_demand.is_some() && self.certificate.is_none() {
            self.tell(|name| NameEvent::Failed { name, wait });
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    fn report(&self, error: &AcmeError, wait: Duration, left: Duration) {
        let (certificate, reason, retry) = (&*self.name, error.reason, wait.as_secs());
        let days = left.as_secs() / (24 * 60 * 60);
        if days >= PLENTY {
            tracing::warn!(
                name: "acme_order_failed",
                certificate, reason, %error, retry_seconds = retry, days_left = days, "cannot renew a certificate yet; will retry"
            );
        } else {
            tracing::error!(
                name: "acme_order_failed",
                certificate, reason, %error, retry_seconds = retry, days_left = days, "cannot obtain a certificate; will retry"
            );
        }
    }

    async fn save_attempts(&self) {
        let (name, attempts) = (self.name.clone(), self.attempts.clone());
        if let Err(error) =
            self.shared.access.blocking(move |storage| storage.save_attempts(&name, &attempts)).await
        {
            tracing::warn!(name: "acme_storage_failed", certificate = &*self.name, %error, "cannot note how an order ended");
        }
    }
}

/// With at least this many days left, a failed renewal is only a warning.
const PLENTY: u64 = 7;

/// What the authority knows a certificate by; `None`: nothing, since it has no key identifier.
fn identifier(certificate: &Certificate) -> Option<CertificateIdentifier<'static>> {
    let leaf = certificate.certified.cert.first()?;
    CertificateIdentifier::try_from(leaf).ok().map(CertificateIdentifier::into_owned)
}
