//! The certificates that listeners present for names of an authority.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use keepwarm_acme::{AcmeSettings, Certificate, CertificateSink, Storage};
use keepwarm_net::{CertificateFiles, CertificateOrigin, Pem, ServerTlsSettings, ServerTlsState};

use crate::tls::ListenerCertificates;

/// The newest certificate of each name, by the file it is stored in, and who presents them.
#[derive(Default)]
pub(crate) struct ManagedCertificates {
    newest: Mutex<BTreeMap<PathBuf, ManagedCertificate>>,
    listeners: Mutex<Vec<Arc<ListenerCertificates>>>,
}

/// A certificate that came from an authority, or one of our own in its place.
#[derive(Clone)]
struct ManagedCertificate {
    pem: Arc<str>,
    origin: CertificateOrigin,
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
        for (file, certificate) in lock(&self.newest).iter() {
            listeners.iter().for_each(|listener| install(listener, file, certificate));
        }
        *lock(&self.listeners) = listeners;
    }

    /// Listeners present those certificates on demand that are in these files, and no others.
    pub(crate) fn keep_on_demand(&self, files: &BTreeSet<PathBuf>) {
        let is_kept = |origin, file: &PathBuf| origin != CertificateOrigin::OnDemand || files.contains(file);
        lock(&self.newest).retain(|file, certificate| is_kept(certificate.origin, file));
        let is_kept = |files: &CertificateFiles| is_kept(files.origin, &files.cert.file);
        lock(&self.listeners).iter().for_each(|listener| keep(listener, is_kept));
    }

    fn install(&self, file: PathBuf, certificate: ManagedCertificate) {
        lock(&self.listeners).iter().for_each(|listener| install(listener, &file, &certificate));
        lock(&self.newest).insert(file, certificate);
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
            Some(certificate) => certificate.pem,
            None => self.found(name)?.pem().into(),
        };
        Ok(files(&file, &pem, CertificateOrigin::Authority))
    }

    /// Those of names that clients have requested, as far as they are valid and kept.
    pub(crate) fn on_demand(&self, limit: usize) -> Vec<CertificateFiles> {
        let storage = Storage::at(&self.settings.storage, &self.settings.authority);
        let stored = |name: String| {
            let certificate = storage.certificate(&name).ok().flatten().filter(Certificate::is_valid)?;
            Some(files(&self.file(&name), certificate.pem(), CertificateOrigin::OnDemand))
        };
        storage.on_demand_names().unwrap_or_default().into_iter().take(limit).filter_map(stored).collect()
    }

    fn found(&self, name: &str) -> Result<Certificate, String> {
        let stored = std::fs::read_to_string(self.file(name)).ok();
        let stored = stored.and_then(|pem| Certificate::from_pem(&pem).ok());
        stored
            .or_else(|| Storage::other_certificate(&self.settings.storage, name))
            .map_or_else(|| Certificate::self_signed(name), Ok)
            .map_err(|error| format!("no certificate can be for {name}: {error}"))
    }

    /// Where the certificate of a name is stored.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        Storage::certificate_file(&self.settings.storage, &self.settings.authority, name)
    }
}

impl CertificateSink for ManagedFiles {
    fn install(&self, name: &str, certificate: &Certificate) {
        let origin = CertificateOrigin::Authority;
        self.managed.install(self.file(name), ManagedCertificate { pem: certificate.pem().into(), origin });
    }

    fn install_on_demand(&self, name: &str, certificate: &Certificate) {
        let origin = CertificateOrigin::OnDemand;
        self.managed.install(self.file(name), ManagedCertificate { pem: certificate.pem().into(), origin });
    }

    fn remove(&self, name: &str) {
        let file = self.file(name);
        lock(&self.managed.newest).remove(&file);
        let is_kept =
            |files: &CertificateFiles| files.origin != CertificateOrigin::OnDemand || files.cert.file != file;
        lock(&self.managed.listeners).iter().for_each(|listener| keep(listener, is_kept));
    }

    fn presents(&self, name: &str) -> bool {
        let file = self.file(name);
        let has = |listener: &Arc<ListenerCertificates>| {
            let state = listener.tls.state();
            state.settings().certificates.iter().any(|files| files.is_managed() && files.cert.file == file)
        };
        lock(&self.managed.listeners).iter().any(has)
    }
}

/// Key and chain are one text, so that they always belong together.
fn files(file: &Path, pem: &str, origin: CertificateOrigin) -> CertificateFiles {
    let pem = Pem { file: file.to_owned(), text: pem.as_bytes().to_vec() };
    CertificateFiles { cert: pem.clone(), key: pem, ocsp: None, origin }
}

/// New handshakes of the listener use this certificate, if it has an older one from this file, or takes those on demand.
fn install(listener: &ListenerCertificates, file: &Path, certificate: &ManagedCertificate) {
    let state = listener.tls.state();
    let used = &state.settings().certificates;
    let new = files(file, &certificate.pem, certificate.origin);
    let Some(at) =
        used.iter().position(|used| used.is_managed() && used.cert.file.as_os_str() == file.as_os_str())
    else {
        if certificate.origin == CertificateOrigin::OnDemand && state.settings().on_demand.is_some() {
            let certificates = used.iter().cloned().chain([new]).collect();
            replace(listener, &state, certificates);
        }
        return;
    };
    if used.get(at) != Some(&new) {
        let mut certificates = used.clone();
        certificates.splice(at..=at, [new]);
        replace(listener, &state, certificates);
    }
}

/// New handshakes of the listener use only these of its certificates.
fn keep(listener: &ListenerCertificates, is_kept: impl Fn(&CertificateFiles) -> bool) {
    let state = listener.tls.state();
    let used = &state.settings().certificates;
    if !used.iter().all(&is_kept) {
        replace(listener, &state, used.iter().filter(|used| is_kept(used)).cloned().collect());
    }
}

fn replace(listener: &ListenerCertificates, state: &ServerTlsState, certificates: Vec<CertificateFiles>) {
    let settings = ServerTlsSettings { certificates, ..state.settings().clone() };
    match ServerTlsState::new(&settings, &listener.keys, Some(state)) {
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
