//! Certificates from an authority: for which names, where they are kept, and how listeners get them.

mod managed;
mod responder;
mod settings;

use std::sync::{Arc, Weak};

use keepwarm_acme::{Acme, AcmeSettings, Challenges};
use keepwarm_config::Config;
use keepwarm_net::ChallengeCertificates;

pub(crate) use managed::{ManagedCertificates, ManagedFiles};
pub(crate) use responder::ChallengeResponder;
use settings::names;
pub(crate) use settings::{is_used, settings, state_folder};

/// What obtains the certificates, from the first moment at which an authority could reach this process.
pub(crate) struct CertificateAuthority {
    /// Shared by all listeners.
    pub(crate) challenges: Arc<Challenges>,
    /// The same for handshakes.
    pub(crate) handshakes: ChallengeCertificates,
    pub(crate) managed: Arc<ManagedCertificates>,
    running: Option<(AcmeSettings, Arc<Acme>)>,
}

impl CertificateAuthority {
    pub(crate) fn new() -> Self {
        let challenges = Arc::<Challenges>::default();
        let looked_up = Arc::clone(&challenges);
        Self {
            handshakes: ChallengeCertificates::new(move |name| looked_up.tls_certificate(name)),
            challenges,
            managed: Arc::default(),
            running: None,
        }
    }

    /// Keeps certificates of the configuration's names from now on. Listeners present some already.
    pub(crate) fn apply(&mut self, config: &Config) {
        if !is_used(config) {
            self.running = None;
            return;
        }
        let names = names(config);
        let wanted = match settings(config) {
            Ok(wanted) => wanted,
            Err(message) => return complain(&message),
        };
        if self.running.as_ref().is_some_and(|(settings, _)| *settings != wanted) {
            self.running = None;
        }
        if let Some((_, acme)) = &self.running {
            return acme.set_names(&names);
        }
        let sink = self.managed.sink(&wanted);
        match Acme::open(wanted.clone(), Arc::clone(&self.challenges), Arc::new(sink)) {
            Ok(acme) => {
                acme.set_names(&names);
                self.running = Some((wanted, Arc::new(acme)));
            }
            Err(error) => complain(&format!("acme.storage: {error}")),
        }
    }

    /// Another process keeps them from now on: it continues what has begun.
    pub(crate) fn stop(&mut self) {
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
