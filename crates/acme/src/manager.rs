//! Keeps a certificate for each name: those of the configuration, and those on demand.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;

use crate::account::AuthorityAccess;
use crate::keeper::{NameTask, OnDemandLink};
use crate::on_demand::{NameRequests, OnDemand, OnDemandCounts, OnDemandSettings};
use crate::status::NameStatus;
use crate::storage::StorageError;
use crate::{AcmeSettings, Certificate, Challenges};

/// Orders at once. With hundreds of names, the others wait.
const AT_ONCE: usize = 8;

/// What takes certificates, such as the one that listeners choose theirs from.
pub trait CertificateSink: Send + Sync + 'static {
    /// Presents this certificate for the name from now on.
    fn install(&self, name: &str, certificate: &Certificate);

    /// The same for a name that is in no configuration: listeners on demand present it, too.
    fn install_on_demand(&self, name: &str, certificate: &Certificate) {
        self.install(name, certificate);
    }

    /// No longer presents the certificate of a name that was installed on demand.
    fn remove(&self, _name: &str) {}

    /// Whether a certificate is presented for the name already, for which one of our own would be no better.
    fn presents(&self, _name: &str) -> bool {
        false
    }
}

/// Keeps the certificates of a set of names.
pub struct Acme {
    names: Arc<Names>,
    on_demand: Mutex<Option<OnDemand>>,
}

/// What the tasks of all names need.
pub(crate) struct Shared {
    pub(crate) access: AuthorityAccess,
    pub(crate) staging: Option<AuthorityAccess>,
    pub(crate) settings: Arc<AcmeSettings>,
    pub(crate) challenges: Arc<Challenges>,
    pub(crate) sink: Arc<dyn CertificateSink>,
    pub(crate) at_once: Semaphore,
}

/// The names with their tasks.
pub(crate) struct Names {
    shared: Arc<Shared>,
    tasks: Mutex<BTreeMap<String, NameTask>>,
}

impl Acme {
    /// Opens the storage. No request is made yet.
    ///
    /// # Errors
    /// The storage cannot be used.
    pub fn open(
        settings: AcmeSettings,
        challenges: Arc<Challenges>,
        sink: Arc<dyn CertificateSink>,
    ) -> Result<Self, StorageError> {
        let settings = Arc::new(settings);
        let access = AuthorityAccess::open(&settings.storage, &settings.authority, &settings)?;
        let staging = match &settings.staging {
            Some(staging) => Some(AuthorityAccess::open(&settings.storage, staging, &settings)?),
            None => None,
        };
        let at_once = Semaphore::new(AT_ONCE);
        let shared = Arc::new(Shared { access, staging, settings, challenges, sink, at_once });
        Ok(Self { names: Arc::new(Names { shared, tasks: Mutex::default() }), on_demand: Mutex::default() })
    }

    /// Keeps certificates of these names from now on, of those on demand, and of no others. Each name has a certificate when this returns, if only one of our
    /// own.
    pub fn set_names(&self, names: &BTreeSet<String>) {
        let (on_demand, mut tasks) = (lock(&self.on_demand), lock(&self.names.tasks));
        for (name, _) in tasks.extract_if(.., |name, task| names.contains(name) == task.is_on_demand()) {
            if let Some(on_demand) = on_demand.as_ref() {
                on_demand.note_taken(&name);
            }
        }
        for name in names {
            tasks.entry(name.clone()).or_insert_with(|| NameTask::start(name, &self.names.shared, None));
        }
    }

    /// Orders certificates on demand from now on, beginning with those that are stored; `None`: no longer.
    pub fn set_on_demand(&self, settings: Option<&OnDemandSettings>) {
        let mut on_demand = lock(&self.on_demand);
        if on_demand.as_ref().map(OnDemand::settings) == settings {
            return;
        }
        *on_demand = None;
        // Their certificates stay where they are presented, unless they are not kept any more.
        let former = self.names.take_on_demand();
        *on_demand = settings.map(|settings| OnDemand::start(settings, &self.names));
        self.names.withdraw(former);
    }

    /// Where handshakes request certificates; `None`: they are not ordered on demand.
    pub fn requests(&self) -> Option<NameRequests> {
        lock(&self.on_demand).as_ref().map(OnDemand::requests)
    }

    /// What is known of each name.
    pub fn status(&self) -> Vec<NameStatus> {
        lock(&self.names.tasks).values().map(|name| lock(&name.status).clone()).collect()
    }

    /// What became of names that clients requested; `None`: certificates are not ordered on demand.
    pub fn on_demand_counts(&self) -> Option<OnDemandCounts> {
        lock(&self.on_demand).as_ref().map(OnDemand::counts)
    }
}

impl Drop for Acme {
    /// The task on demand shares the names: they end here, and not with it.
    fn drop(&mut self) {
        *lock(&self.on_demand) = None;
        lock(&self.names.tasks).clear();
    }
}

impl Names {
    pub(crate) fn access(&self) -> &AuthorityAccess {
        &self.shared.access
    }

    /// Whether there is a certificate from the authority.
    pub(crate) fn is_issued(&self, name: &str) -> bool {
        lock(&self.tasks).get(name).is_some_and(NameTask::is_issued)
    }

    pub(crate) fn on_demand_count(&self) -> usize {
        lock(&self.tasks).values().filter(|task| task.is_on_demand()).count()
    }

    /// `false`: it is a name of the configuration, and stays one.
    pub(crate) fn add_on_demand(&self, name: &str, link: &OnDemandLink) -> bool {
        let start = || NameTask::start(name, &self.shared, Some(link.clone()));
        lock(&self.tasks).entry(name.to_owned()).or_insert_with(start).is_on_demand()
    }

    /// The same for a name that was permitted in another process: only with its certificate.
    pub(crate) fn restore_on_demand(&self, name: &str, link: &OnDemandLink) {
        if self.access().storage.certificate(name).is_ok_and(|stored| stored.is_some_and(|it| it.is_valid()))
        {
            self.add_on_demand(name, link);
        }
    }

    pub(crate) fn remove_on_demand(&self, name: &str) {
        let mut tasks = lock(&self.tasks);
        if tasks.get(name).is_some_and(NameTask::is_on_demand) {
            tasks.remove(name);
            self.shared.sink.remove(name);
        }
    }

    /// Ends their tasks. Returns the names.
    fn take_on_demand(&self) -> Vec<String> {
        lock(&self.tasks).extract_if(.., |_, task| task.is_on_demand()).map(|(name, _)| name).collect()
    }

    /// Those of the names that have no task are presented no longer.
    fn withdraw(&self, names: Vec<String>) {
        let tasks = lock(&self.tasks);
        names.iter().filter(|name| !tasks.contains_key(*name)).for_each(|name| self.shared.sink.remove(name));
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
