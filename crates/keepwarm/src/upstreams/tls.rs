//! TLS of upstreams: what the configuration says as `net` wants it, and files that change.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use keepwarm_config::{self as config, PemFile, TrustRoots};
use keepwarm_egress::Upstream;
use keepwarm_net::{CaSource, ClientTls, Pem, TlsSettings, TlsVersion, restarted};
use tokio::task::JoinHandle;

/// Files are looked at so often. A certificate that is renewed is renewed days before it ends.
const LOOK: Duration = Duration::from_secs(5);

/// The TLS settings of an upstream; those in use when nothing has changed, with the sessions they remember.
pub(super) fn prepare(
    upstream: &config::Upstream,
    before: Option<&Arc<ClientTls>>,
) -> Result<Option<Arc<ClientTls>>, String> {
    let Some(settings) = settings(upstream) else { return Ok(None) };
    if let Some(before) = before.filter(|before| *before.settings() == settings) {
        return Ok(Some(Arc::clone(before)));
    }
    let made = ClientTls::new(&settings);
    made.map(Some).map_err(|error| format!("upstream.{}: {error}", upstream.name))
}

fn settings(upstream: &config::Upstream) -> Option<TlsSettings> {
    let tls = upstream.tls.as_ref()?;
    Some(TlsSettings {
        server_name: tls.server_name.clone(),
        ca: match &tls.ca {
            TrustRoots::System => CaSource::System,
            TrustRoots::File(file) => CaSource::Only(pem(file)),
            TrustRoots::FileAndSystem(file) => CaSource::Also(pem(file)),
        },
        identity: tls.client_certificate.as_ref().map(|client| (pem(&client.cert), pem(&client.key))),
        min_version: match tls.min_version {
            config::TlsVersion::Tls12 => TlsVersion::Tls12,
            config::TlsVersion::Tls13 => TlsVersion::Tls13,
        },
        // Offered as the upstream's protocol wants it: see `Calls::set_tls`.
        alpn: Vec::new(),
    })
}

pub(crate) fn pem(file: &PemFile) -> Pem {
    Pem { file: file.path.clone(), text: file.pem.expose().as_bytes().to_vec() }
}

/// Reads the files of an upstream again when they have changed; open connections stay open.
pub(super) fn watch(
    config: &config::Upstream,
    upstream: &Arc<Upstream>,
    tls: Option<&Arc<ClientTls>>,
) -> Option<JoinHandle<()>> {
    let tls = tls?;
    let configured = config.tls.as_ref()?;
    let mut files: Vec<PathBuf> = Vec::new();
    if let TrustRoots::File(file) | TrustRoots::FileAndSystem(file) = &configured.ca {
        files.push(file.path.clone());
    }
    files.extend(
        configured.client_certificate.iter().flat_map(|it| [it.cert.path.clone(), it.key.path.clone()]),
    );
    if files.is_empty() {
        return None;
    }
    let (upstream, tls) = (Arc::clone(upstream), Arc::clone(tls));
    let seen = states(&files);
    Some(tokio::spawn(async move {
        restarted("certificate_files", || look_again(&upstream, Arc::clone(&tls), &files, seen.clone()))
            .await;
    }))
}

/// Does not return.
async fn look_again(
    upstream: &Upstream,
    mut used: Arc<ClientTls>,
    files: &[PathBuf],
    mut seen: Vec<Option<(SystemTime, u64)>>,
) {
    loop {
        tokio::time::sleep(LOOK).await;
        let now = states(files);
        if now == seen {
            continue;
        }
        seen = now;
        match read_again(used.settings()).map(|settings| (settings != *used.settings()).then_some(settings)) {
            Ok(None) => {}
            Ok(Some(settings)) => match ClientTls::new(&settings) {
                Ok(tls) => {
                    upstream.set_tls(Some(Arc::clone(&tls)));
                    used = tls;
                    tracing::info!(
                        name: "certificates_changed",
                        upstream = %upstream.name(), "new connections use the changed certificates"
                    );
                }
                Err(error) => tell(upstream, &error.to_string()),
            },
            Err(error) => tell(upstream, &error),
        }
    }
}

fn tell(upstream: &Upstream, error: &str) {
    tracing::warn!(
        name: "certificates_rejected",
        upstream = %upstream.name(), "changed certificates not used; the previous ones stay in use: {error}"
    );
}

/// When each was changed, and how long it is.
fn states(files: &[PathBuf]) -> Vec<Option<(SystemTime, u64)>> {
    let state = |file: &Path| {
        let metadata = std::fs::metadata(file).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    };
    files.iter().map(|file| state(file)).collect()
}

fn read_again(settings: &TlsSettings) -> Result<TlsSettings, String> {
    let read = |pem: &Pem| {
        Pem::read(&pem.file).map_err(|error| format!("cannot read {}: {error}", pem.file.display()))
    };
    let ca = match &settings.ca {
        CaSource::System => CaSource::System,
        CaSource::Only(pem) => CaSource::Only(read(pem)?),
        CaSource::Also(pem) => CaSource::Also(read(pem)?),
    };
    let identity = match &settings.identity {
        Some((cert, key)) => Some((read(cert)?, read(key)?)),
        None => None,
    };
    Ok(TlsSettings { ca, identity, ..settings.clone() })
}
