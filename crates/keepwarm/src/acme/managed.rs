//! The certificates that listeners present for names of an authority.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use keepwarm_acme::{AcmeSettings, Certificate, CertificateSink, Storage};
use keepwarm_net::{CertificateFiles, Pem, ServerTlsState};

use crate::tls::ListenerCertificates;

/// The newest certificate of each name, by the file it is stored in, and who presents them.
#[derive(Default)]
pub(crate) struct ManagedCertificates {
    newest: Mutex<BTreeMap<PathBuf, Arc<str>>>,
    listeners: Mutex<Vec<Arc<ListenerCertificates>>>,
}

/// Where the certificates of names are found when a listener is prepared.
#[derive(Clone)]
pub(crate) struct ManagedFiles {
    managed: Arc<ManagedCertificates>,
    settings: AcmeSettings,
}

impl ManagedCertificates {
    /// What takes new certificates.
    pub(crate) fn sink(self: &Arc<Self>, settings: &AcmeSettings) -> ManagedFiles {
        ManagedFiles { managed: Arc::clone(self), settings: settings.clone() }
    }

    /// These listeners present the certificates from now on: the newest ones, which may have come while the listeners were prepared.
    pub(crate) fn set_listeners(&self, listeners: Vec<Arc<ListenerCertificates>>) {
        for (file, pem) in lock(&self.newest).iter() {
            listeners.iter().for_each(|listener| install(listener, file, pem));
        }
        *lock(&self.listeners) = listeners;
    }
}

impl ManagedFiles {
    /// The storage can be used.
    ///
    /// # Errors
    /// Which directory cannot, and why.
    pub(crate) fn prepare(&self) -> Result<(), String> {
        let opened = Storage::open(&self.settings.storage, &self.settings.authority);
        opened.map(drop).map_err(|error| format!("acme.storage: {error}"))
    }

    /// The files of a name's certificate: the newest, the stored one, that of another authority, or one of our own.
    ///
    /// # Errors
    /// The name cannot be in a certificate.
    pub(crate) fn of(&self, name: &str) -> Result<CertificateFiles, String> {
        let file = self.file(name);
        let newest = lock(&self.managed.newest).get(&file).cloned();
        let pem = match newest {
            Some(pem) => pem,
            None => self.found(name)?.pem().into(),
        };
        Ok(files(&file, &pem))
    }

    fn found(&self, name: &str) -> Result<Certificate, String> {
        let stored = std::fs::read_to_string(self.file(name)).ok();
        let stored = stored.and_then(|pem| Certificate::from_pem(&pem).ok());
        stored
            .or_else(|| Storage::other_certificate(&self.settings.storage, name))
            .map_or_else(|| Certificate::self_signed(name), Ok)
            .map_err(|error| format!("no certificate can be for {name}: {error}"))
    }

    fn file(&self, name: &str) -> PathBuf {
        Storage::certificate_file(&self.settings.storage, &self.settings.authority, name)
    }
}

impl CertificateSink for ManagedFiles {
    fn install(&self, name: &str, certificate: &Certificate) {
        let file = self.file(name);
        let pem: Arc<str> = certificate.pem().into();
        lock(&self.managed.listeners).iter().for_each(|listener| install(listener, &file, &pem));
        lock(&self.managed.newest).insert(file, pem);
    }

    fn presents(&self, name: &str) -> bool {
        let file = self.file(name);
        let has = |listener: &Arc<ListenerCertificates>| {
            let state = listener.tls.state();
            state.settings().certificates.iter().any(|files| files.is_managed && files.cert.file == file)
        };
        lock(&self.managed.listeners).iter().any(has)
    }
}

/// Key and chain are one text, so that they always belong together.
fn files(file: &Path, pem: &str) -> CertificateFiles {
    let pem = Pem { file: file.to_owned(), text: pem.as_bytes().to_vec() };
    CertificateFiles { cert: pem.clone(), key: pem, ocsp: None, is_managed: true }
}

/// New handshakes of the listener use this certificate, if it has one from this file.
fn install(listener: &ListenerCertificates, file: &Path, pem: &str) {
    let state = listener.tls.state();
    let is_older = |used: &CertificateFiles| {
        used.is_managed && used.cert.file == file && used.cert.text != pem.as_bytes()
    };
    if !state.settings().certificates.iter().any(is_older) {
        return;
    }
    let mut settings = state.settings().clone();
    settings.certificates.iter_mut().filter(|used| is_older(used)).for_each(|used| *used = files(file, pem));
    match ServerTlsState::new(&settings, &listener.keys, Some(&state)) {
        Ok(state) => listener.tls.replace(state),
        Err(error) => tracing::error!(
            name: "listener_certificates_rejected",
            listener = listener.name,
            "new certificate not used; the previous one stays in use: {error}"
        ),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
