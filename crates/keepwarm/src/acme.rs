//! Certificates from an authority: for which names, where they are kept, and how listeners get them.

mod managed;
mod responder;
mod settings;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

use arc_swap::ArcSwapOption;
use keepwarm_acme::{Acme, AcmeSettings, Challenges, NameRequests};
use keepwarm_config::Config;
use keepwarm_net::{ChallengeCertificates, OnDemandNames};

pub(crate) use managed::{ManagedCertificates, ManagedFiles};
pub(crate) use responder::ChallengeResponder;
use settings::on_demand;
pub(crate) use settings::{is_used, names, settings, state_folder};

/// What obtains the certificates, from the first moment at which an authority could reach this process.
pub(crate) struct CertificateAuthority {
    /// Shared by all listeners.
    pub(crate) challenges: Arc<Challenges>,
    /// The same for handshakes.
    pub(crate) handshakes: ChallengeCertificates,
    pub(crate) managed: Arc<ManagedCertificates>,
    /// Where handshakes request certificates of names that have none.
    pub(crate) on_demand: OnDemandNames,
    requests: Arc<ArcSwapOption<NameRequests>>,
    running: Option<(AcmeSettings, Arc<Acme>)>,
}

impl CertificateAuthority {
    pub(crate) fn new() -> Self {
        let challenges = Arc::<Challenges>::default();
        let looked_up = Arc::clone(&challenges);
        let requests = Arc::<ArcSwapOption<NameRequests>>::default();
        let requested = Arc::clone(&requests);
        Self {
            on_demand: OnDemandNames::new(move |name| requested.load().as_ref()?.request(name)),
            requests,
            handshakes: ChallengeCertificates::new(move |name| looked_up.tls_certificate(name)),
            challenges,
            managed: Arc::default(),
            running: None,
        }
    }

    /// Keeps certificates of the configuration's names from now on. Listeners present some already.
    pub(crate) fn apply(&mut self, config: &Config) {
        self.run(config);
        let requests = self.running.as_ref().and_then(|(_, acme)| acme.requests());
        self.requests.store(requests.map(Arc::new));
        self.managed.keep_on_demand(&self.on_demand_files());
    }

    /// The files of the certificates that are kept on demand.
    fn on_demand_files(&self) -> BTreeSet<PathBuf> {
        let Some((settings, acme)) = &self.running else { return BTreeSet::new() };
        let files = self.managed.sink(settings);
        acme.status().iter().filter(|name| name.on_demand).map(|name| files.file(&name.name)).collect()
    }

    fn run(&mut self, config: &Config) {
        if !is_used(config) {
            self.running = None;
            return;
        }
        let (names, on_demand) = (names(config), on_demand(config));
        let wanted = match settings(config) {
            Ok(wanted) => wanted,
            Err(message) => return complain(&message),
        };
        if self.running.as_ref().is_some_and(|(settings, _)| *settings != wanted) {
            self.running = None;
        }
        if let Some((_, acme)) = &self.running {
            acme.set_names(&names);
            return acme.set_on_demand(on_demand.as_ref());
        }
        let sink = self.managed.sink(&wanted);
        match Acme::open(wanted.clone(), Arc::clone(&self.challenges), Arc::new(sink)) {
            Ok(acme) => {
                acme.set_names(&names);
                acme.set_on_demand(on_demand.as_ref());
                self.running = Some((wanted, Arc::new(acme)));
            }
            Err(error) => complain(&format!("acme.storage: {error}")),
        }
    }

    /// Another process keeps them from now on: it continues what has begun.
    pub(crate) fn stop(&mut self) {
        self.requests.store(None);
        self.running = None;
    }

    /// What can be asked about each name, as long as this process keeps the certificates.
    pub(crate) fn names(&self) -> Weak<Acme> {
        self.running.as_ref().map(|(_, acme)| Arc::downgrade(acme)).unwrap_or_default()
    }
}

/// It was checked before anything changed.
fn complain(message: &str) {
    tracing::error!(
        name: "acme_failed",
        "certificates are not renewed until the next reload: {message}"
    );
}
