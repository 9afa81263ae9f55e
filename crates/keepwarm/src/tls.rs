//! TLS of listeners: what the configuration says as `net` wants it, and files that change.
//!
//! Files are read and parsed on the control thread and on blocking threads. Data-plane threads only ever see a whole new state: a handshake that has begun
//! keeps the one it began with.

mod files;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use keepwarm_config::{self as config, CertificateFault, CertificateSummary, Config, Listener, PemFile};
use keepwarm_net::{
    Certificate, CertificateFacts, CertificateFiles, CertificateOrigin, ChallengeCertificates, ClientAuth,
    KeyKind, OnDemandNames, Pem, ServerTls, ServerTlsSettings, ServerTlsState, TicketKeys, TicketSecret,
    TlsPart, TlsProfile, UnknownNames, restarted,
};
use tokio::task::JoinHandle;

use crate::acme::{self, CertificateAuthority, ManagedFiles};
use crate::upstreams::tls::pem;

/// The TLS of all listeners, by name.
pub(crate) struct ListenersTls {
    keys: Arc<TicketKeys>,
    pub(crate) authority: CertificateAuthority,
    entries: BTreeMap<String, TlsEntry>,
}

struct TlsEntry {
    listener: Arc<ListenerCertificates>,
    /// Loads its files again when they change.
    watch: JoinHandle<()>,
}

impl Drop for TlsEntry {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

/// The certificates of a listener.
#[derive(Debug)]
pub(crate) struct ListenerCertificates {
    pub(crate) name: String,
    pub(crate) tls: Arc<ServerTls>,
    pub(crate) keys: Arc<TicketKeys>,
    /// Why the files as they are now are not used.
    error: Mutex<Option<String>>,
}

/// The state of each listener with TLS, for a configuration that is about to serve.
pub(crate) type PreparedTls = BTreeMap<String, Arc<ServerTlsState>>;

impl ListenersTls {
    /// None yet; tickets of the process before stay good.
    pub(crate) fn new(inherited: Vec<TicketSecret>) -> Self {
        Self {
            keys: Arc::new(TicketKeys::new(inherited)),
            authority: CertificateAuthority::new(),
            entries: BTreeMap::new(),
        }
    }

    /// The keys of session tickets, for the next process.
    pub(crate) fn ticket_secrets(&self) -> Vec<TicketSecret> {
        self.keys.secrets()
    }

    /// Makes what may fail, before anything is changed: by the returned work, on a thread that may take long. Its error names the file that cannot be used,
    /// and says why. A trial makes no directories.
    pub(crate) fn preparation(
        &self,
        config: &Config,
        is_trial: bool,
    ) -> impl FnOnce() -> Result<PreparedTls, String> + Send + 'static + use<> {
        let listeners: Vec<Listener> =
            config.listeners.iter().filter(|listen| listen.tls.is_some()).cloned().collect();
        let used: PreparedTls =
            self.entries.iter().map(|(name, entry)| (name.clone(), entry.listener.tls.state())).collect();
        let keys = Arc::clone(&self.keys);
        let authority = self.of_authority(config);
        move || {
            let authority = authority?;
            if let (Some(authority), false) = (&authority, is_trial) {
                authority.files.prepare()?;
            }
            let state = |listen: &Listener| state(listen, authority.as_ref(), used.get(&listen.name), &keys);
            listeners.iter().map(|listen| Ok((listen.name.clone(), state(listen)?))).collect()
        }
    }

    /// What listeners need for names of an authority; `None`: there are none.
    fn of_authority(&self, config: &Config) -> Result<Option<AuthorityFiles>, String> {
        if !acme::is_used(config) {
            return Ok(None);
        }
        Ok(Some(AuthorityFiles {
            files: self.authority.managed.sink(&acme::settings(config)?),
            handshakes: self.authority.handshakes.clone(),
            on_demand: self.authority.on_demand.clone(),
            names: acme::names(config),
            on_demand_names: config.acme.on_demand_names as usize,
        }))
    }

    /// New handshakes use these; listeners without TLS are forgotten.
    pub(crate) fn apply(&mut self, prepared: PreparedTls) {
        self.entries.retain(|name, _| prepared.contains_key(name));
        for (name, state) in prepared {
            if let Some(entry) = self.entries.get_mut(&name) {
                entry.listener.replace(&state);
                // The files may be others.
                entry.watch.abort();
                entry.watch = watch(&entry.listener, &state);
                continue;
            }
            let listener = Arc::new(ListenerCertificates {
                name: name.clone(),
                tls: Arc::new(ServerTls::new(Arc::clone(&state))),
                keys: Arc::clone(&self.keys),
                error: Mutex::default(),
            });
            let watch = watch(&listener, &state);
            self.entries.insert(name, TlsEntry { listener, watch });
        }
        self.authority.managed.set_listeners(self.all());
    }

    /// The TLS of a listener.
    pub(crate) fn of(&self, name: &str) -> Option<Arc<ServerTls>> {
        self.entries.get(name).map(|entry| Arc::clone(&entry.listener.tls))
    }

    /// The certificates of all listeners.
    pub(crate) fn all(&self) -> Vec<Arc<ListenerCertificates>> {
        self.entries.values().map(|entry| Arc::clone(&entry.listener)).collect()
    }
}

/// What listeners with names of an authority need.
struct AuthorityFiles {
    files: ManagedFiles,
    handshakes: ChallengeCertificates,
    on_demand: OnDemandNames,
    /// The names of all listeners.
    names: BTreeSet<String>,
    /// The limit of names on demand.
    on_demand_names: usize,
}

/// The state in use where nothing has changed.
fn state(
    listen: &Listener,
    authority: Option<&AuthorityFiles>,
    used: Option<&Arc<ServerTlsState>>,
    keys: &Arc<TicketKeys>,
) -> Result<Arc<ServerTlsState>, String> {
    let failed = |error: String| format!("listen.{}.tls: {error}", listen.name);
    let settings = settings(listen, authority).map_err(failed)?;
    if let Some(used) = used.filter(|used| *used.settings() == settings) {
        return Ok(Arc::clone(used));
    }
    let made = ServerTlsState::new(&settings, keys, used.map(|used| &**used));
    made.map_err(|error| failed(error.to_string()))
}

impl ListenerCertificates {
    fn replace(&self, state: &Arc<ServerTlsState>) {
        self.tls.replace(Arc::clone(state));
        self.set_error(None);
    }

    fn set_error(&self, error: Option<String>) {
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = error;
    }

    /// Why the files as they are now are not used.
    pub(crate) fn error(&self) -> Option<String> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn watch(listener: &Arc<ListenerCertificates>, state: &Arc<ServerTlsState>) -> JoinHandle<()> {
    let (listener, files) = (Arc::clone(listener), files::of(state.settings()));
    tokio::spawn(async move {
        restarted("certificate_files", || files::watch(&listener, &files)).await;
    })
}

/// Whether the files that the configuration names can be used; for commands that start nothing.
///
/// # Errors
/// Which file cannot, and why.
pub(crate) fn check(config: &Config) -> Result<(), String> {
    ListenersTls::new(Vec::new()).preparation(config, true)().map(drop)
}

fn settings(listen: &Listener, authority: Option<&AuthorityFiles>) -> Result<ServerTlsSettings, String> {
    let Some(tls) = &listen.tls else { return Err("no settings".to_owned()) };
    let files = |certificate: &config::ListenCertificate| {
        let read = |file: &std::path::PathBuf| {
            Pem::read(file).map_err(|error| format!("ocsp: cannot read {}: {error}", file.display()))
        };
        Ok(CertificateFiles {
            cert: pem(&certificate.cert),
            key: pem(&certificate.key),
            ocsp: certificate.ocsp.as_ref().map(read).transpose()?,
            origin: CertificateOrigin::Files,
        })
    };
    let authority = authority.filter(|_| !tls.acme.is_empty() || tls.on_demand.is_some());
    let on_demand = authority.filter(|_| tls.on_demand.is_some());
    let managed =
        authority.into_iter().flat_map(|authority| tls.acme.iter().map(|name| authority.files.of(name)));
    // Names of other listeners need no permission, and have one certificate.
    let others = on_demand.into_iter().flat_map(|authority| {
        let others = authority.names.iter().filter(|name| !tls.acme.contains(name));
        others.map(|name| authority.files.of(name))
    });
    let managed = managed
        .chain(others)
        .chain(on_demand.into_iter().flat_map(|it| it.files.on_demand(it.on_demand_names)).map(Ok));
    Ok(ServerTlsSettings {
        certificates: tls.certificates.iter().map(files).chain(managed).collect::<Result<_, String>>()?,
        unknown_names: match tls.unknown_names {
            config::UnknownNames::Default => UnknownNames::Default,
            config::UnknownNames::Refuse => UnknownNames::Refuse,
        },
        profile: match tls.profile {
            config::TlsProfile::Intermediate => TlsProfile::Intermediate,
            config::TlsProfile::Modern => TlsProfile::Modern,
        },
        alpn: alpn(listen.http2),
        client_auth: tls.client_auth.as_ref().map(|auth| ClientAuth {
            ca: pem(&auth.ca),
            crl: auth.crl.as_ref().map(pem),
            required: auth.required,
        }),
        challenges: authority.map(|authority| authority.handshakes.clone()),
        on_demand: on_demand.map(|authority| authority.on_demand.clone()),
    })
}

/// The protocols that are offered, the preferred one first.
fn alpn(http2: bool) -> Vec<Vec<u8>> {
    let http1: [&[u8]; 2] = [b"http/1.1", b"http/1.0"];
    let http2: &[&[u8]] = if http2 { &[b"h2"] } else { &[] };
    http2.iter().chain(&http1).map(|name| name.to_vec()).collect()
}

/// What a certificate says, for the checks of the configuration.
pub(crate) fn summary(cert: &PemFile, key: &PemFile) -> Result<CertificateSummary, CertificateFault> {
    let files =
        CertificateFiles { cert: pem(cert), key: pem(key), ocsp: None, origin: CertificateOrigin::Files };
    match Certificate::check(&files) {
        Ok(facts) => Ok(summary_of(&facts)),
        Err(error) => {
            Err(CertificateFault { is_of_key: error.part == TlsPart::Key, message: error.to_string() })
        }
    }
}

fn summary_of(facts: &CertificateFacts) -> CertificateSummary {
    let now = SystemTime::now();
    let addresses = facts.addresses.iter().map(ToString::to_string);
    CertificateSummary {
        names: facts.names.iter().cloned().chain(addresses).collect(),
        key_kind: match facts.key {
            KeyKind::Rsa => "RSA",
            KeyKind::Ecdsa => "ECDSA",
            KeyKind::Other => "other",
        },
        issuer: facts.issuer.clone(),
        expired: facts.has_expired(now).then(|| date(facts.not_after)),
        not_before: (facts.not_before > now).then(|| date(facts.not_before)),
        lacks_chain: facts.lacks_chain,
    }
}

/// A time as logs have it.
fn moment(time: SystemTime) -> String {
    String::from_utf8_lossy(&keepwarm_telemetry::timestamp(time)).into_owned()
}

/// A date as messages have it.
pub(crate) fn date(time: SystemTime) -> String {
    let text = moment(time);
    text.split('T').next().unwrap_or(&text).to_owned()
}
