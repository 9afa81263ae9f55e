//! Certificate files that change while they are served.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use keepwarm_net::{CertificateFiles, Pem, ServerTlsSettings, ServerTlsState, TicketKeys};

use super::{ListenerCertificates, date, moment};

/// Interval between looks at the files. A certificate that is renewed is renewed days before it ends.
const LOOK: Duration = Duration::from_secs(5);

/// When a file was changed, and how long it is.
type FileState = Option<(SystemTime, u64)>;

/// All files of the settings whose changes matter.
pub(super) fn of(settings: &ServerTlsSettings) -> Vec<PathBuf> {
    let of_certificate = |files: &CertificateFiles| {
        [Some(&files.cert), Some(&files.key), files.ocsp.as_ref()]
            .into_iter()
            .flatten()
            .map(file)
            .collect::<Vec<_>>()
    };
    let certificates =
        settings.certificates.iter().filter(|files| !files.is_managed()).flat_map(of_certificate);
    let of_clients = settings.client_auth.iter().flat_map(|auth| [Some(&auth.ca), auth.crl.as_ref()]);
    certificates.chain(of_clients.flatten().map(file)).collect()
}

fn file(pem: &Pem) -> PathBuf {
    pem.file.clone()
}

/// The files as they are.
fn states(files: &[PathBuf]) -> Vec<FileState> {
    let state = |file: &Path| {
        let metadata = std::fs::metadata(file).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    };
    files.iter().map(|file| state(file)).collect()
}

/// Loads the files again when they have changed; open connections keep what they have. Does not return.
pub(super) async fn watch(listener: &ListenerCertificates, files: &[PathBuf]) {
    // The first look reads them in any case: they may have changed while the workers booted.
    let mut seen: Vec<FileState> = Vec::new();
    let mut reported = ReportedExpiries::default();
    loop {
        reported.report(listener);
        tokio::time::sleep(LOOK).await;
        let now = states(files);
        if now == seen {
            continue;
        }
        seen = now;
        let (used, keys) = (listener.tls.state(), Arc::clone(&listener.keys));
        let before = Arc::clone(&used);
        let loaded = tokio::task::spawn_blocking(move || load(&used, &keys));
        match loaded.await.unwrap_or_else(|error| Err(error.to_string())) {
            Ok(None) => listener.set_error(None),
            // Another certificate came meanwhile, from an authority: once more, with that one.
            Ok(Some(_)) if !Arc::ptr_eq(&before, &listener.tls.state()) => seen.clear(),
            Ok(Some(state)) => {
                listener.replace(&state);
                tracing::info!(
                    name: "listener_certificates_changed",
                    listener = listener.name, "new connections use the changed certificates"
                );
            }
            Err(error) => {
                tracing::warn!(
                    name: "listener_certificates_rejected",
                    listener = listener.name,
                    "changed certificates not used; the previous ones stay in use: {error}"
                );
                listener.set_error(Some(error));
            }
        }
    }
}

/// What has expired and was reported, each once. The certificates themselves are the business of metrics: they take months.
#[derive(Default)]
struct ReportedExpiries {
    responses: BTreeSet<(PathBuf, SystemTime)>,
    lists: Option<SystemTime>,
}

impl ReportedExpiries {
    fn report(&mut self, listener: &ListenerCertificates) {
        let (state, now) = (listener.tls.state(), SystemTime::now());
        let expired =
            state.certificates().iter().filter(|certificate| certificate.facts.ocsp_has_expired(now));
        let expired =
            expired.filter_map(|it| Some((it.facts.file.clone(), it.facts.ocsp_next_update?))).collect();
        for (file, end) in BTreeSet::difference(&expired, &self.responses) {
            tracing::warn!(
                name: "ocsp_response_expired",
                listener = listener.name, certificate = %file.display(), expired = moment(*end),
                "OCSP response expired, and is no longer stapled; replace the file: it is loaded without a reload"
            );
        }
        self.responses = expired;
        let expired = state.crl_next_update().filter(|_| state.crl_has_expired(now));
        if let Some(end) = expired.filter(|_| self.lists != expired) {
            tracing::error!(
                name: "client_crl_expired",
                listener = listener.name, expired = moment(end),
                "a list in client_crl has expired: clients of its authority are refused; replace the file: it is loaded without a reload"
            );
        }
        self.lists = expired;
    }
}

/// The state with the files as they are now; `None`: nothing that matters has changed.
fn load(used: &ServerTlsState, keys: &Arc<TicketKeys>) -> Result<Option<Arc<ServerTlsState>>, String> {
    let settings = read_again(used.settings())?;
    if settings == *used.settings() {
        return Ok(None);
    }
    let state = ServerTlsState::new(&settings, keys, Some(used)).map_err(|error| error.to_string())?;
    let now = SystemTime::now();
    for (new, old) in state.certificates().iter().zip(used.certificates()) {
        if new.facts.has_expired(now) && !old.facts.has_expired(now) {
            let (file, date) = (new.facts.file.display(), date(new.facts.not_after));
            return Err(format!("the certificate in {file} expired on {date}, and the previous one has not"));
        }
        if new.facts.ocsp_has_expired(now) && !old.facts.ocsp_has_expired(now) {
            let file = new.facts.file.display();
            return Err(format!("the OCSP response for {file} has expired, and the previous one has not"));
        }
    }
    if state.crl_has_expired(now) && !used.crl_has_expired(now) {
        return Err("a list in client_crl has expired, and none of the previous ones has".to_owned());
    }
    Ok(Some(state))
}

fn read_again(settings: &ServerTlsSettings) -> Result<ServerTlsSettings, String> {
    let read = |pem: &Pem| {
        Pem::read(&pem.file).map_err(|error| format!("cannot read {}: {error}", pem.file.display()))
    };
    let certificate = |files: &CertificateFiles| {
        if files.is_managed() {
            return Ok(files.clone());
        }
        Ok(CertificateFiles {
            origin: files.origin,
            cert: read(&files.cert)?,
            key: read(&files.key)?,
            ocsp: files.ocsp.as_ref().map(read).transpose()?,
        })
    };
    let mut settings = settings.clone();
    settings.certificates = settings.certificates.iter().map(certificate).collect::<Result<_, String>>()?;
    if let Some(auth) = &mut settings.client_auth {
        auth.ca = read(&auth.ca)?;
        auth.crl = auth.crl.as_ref().map(read).transpose()?;
    }
    Ok(settings)
}
