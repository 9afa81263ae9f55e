//! One Keepwarm's part in a test.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use keepwarm_acme::{
    Acme, AcmeSettings, Authority, Certificate, CertificateSink, ChallengeKind, Challenges, KeyKind,
    NameStatus,
};
use keepwarm_tests::pebble::Pebble;
use tokio::sync::watch;

/// What a busy machine may take.
pub(crate) const LONG: Duration = Duration::from_secs(90);

/// Notes what is installed.
pub(crate) struct Sink {
    pub(crate) installed: Mutex<Vec<(String, Certificate)>>,
    changed: watch::Sender<usize>,
}

impl CertificateSink for Sink {
    fn install(&self, name: &str, certificate: &Certificate) {
        self.installed.lock().unwrap().push((name.to_owned(), certificate.clone()));
        self.changed.send_modify(|count| *count += 1);
    }
}

/// One Keepwarm's part in it.
pub(crate) struct Site {
    pub(crate) acme: Option<Acme>,
    pub(crate) challenges: Arc<Challenges>,
    pub(crate) sink: Arc<Sink>,
    pub(crate) settings: AcmeSettings,
}

impl Site {
    pub(crate) fn new(pebble: &Pebble, kinds: &[ChallengeKind]) -> Self {
        let sink = Arc::new(Sink { installed: Mutex::default(), changed: watch::channel(0).0 });
        let settings = AcmeSettings {
            authority: authority(pebble),
            staging: None,
            contacts: vec!["mailto:admin@shop.test".to_owned()],
            external_account: None,
            storage: pebble.folder().join("storage"),
            profile: None,
            key: KeyKind::P256,
            challenges: kinds.to_vec(),
        };
        Self { acme: None, challenges: Arc::default(), sink, settings }
    }

    pub(crate) fn start(&mut self, names: &[&str]) {
        let acme =
            Acme::open(self.settings.clone(), Arc::clone(&self.challenges), Arc::clone(&self.sink) as _)
                .unwrap();
        acme.set_names(&set(names));
        self.acme = Some(acme);
    }

    pub(crate) fn status(&self, name: &str) -> NameStatus {
        self.acme.as_ref().unwrap().status().into_iter().find(|status| status.name == name).unwrap()
    }

    /// Waits until a certificate from the authority is installed for the name.
    pub(crate) async fn issued(&self, name: &str) -> Certificate {
        let found = || {
            let installed = self.sink.installed.lock().unwrap();
            installed
                .iter()
                .rev()
                .find(|(own, one)| own == name && !one.is_self_signed())
                .map(|(_, one)| one.clone())
        };
        let mut changed = self.sink.changed.subscribe();
        let waited = tokio::time::timeout(LONG, changed.wait_for(|_| found().is_some())).await;
        assert!(waited.is_ok(), "no certificate for {name}: {:?}", self.status(name));
        found().unwrap()
    }

    /// Waits until the status of the name is as wanted.
    pub(crate) async fn wait_status(&self, name: &str, wanted: impl Fn(&NameStatus) -> bool) -> NameStatus {
        let waited = tokio::time::timeout(LONG, async {
            loop {
                let status = self.status(name);
                if wanted(&status) {
                    return status;
                }
                // The status has no event of its own.
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        waited.await.unwrap_or_else(|_| panic!("the status stays {:?}", self.status(name)))
    }
}

pub(crate) fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

impl Site {
    /// Waits until a response is published.
    pub(crate) async fn wait_challenge(&self) {
        let waited = tokio::time::timeout(LONG, async {
            while self.challenges.is_empty() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        waited.await.expect("a challenge");
    }
}

/// Pebble as a setting.
pub(crate) fn authority(pebble: &Pebble) -> Authority {
    Authority { directory: pebble.directory(), ca: Some(pebble.ca()) }
}
