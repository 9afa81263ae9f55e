//! `[acme]` as the crate `acme` wants it.

use std::collections::BTreeSet;
use std::env;
use std::path::{Path, PathBuf};

use data_encoding::{BASE64URL, BASE64URL_NOPAD};
use keepwarm_acme::{AcmeSettings, Authority, ChallengeKind, ExternalAccount, KeyKind, OnDemandSettings};
use keepwarm_config::{Acme, AcmeChallenge, AcmeKey, Config, ListenTls};

/// The names of all listeners.
pub(crate) fn names(config: &Config) -> BTreeSet<String> {
    config
        .listeners
        .iter()
        .filter_map(|listen| listen.tls.as_ref())
        .flat_map(|tls| tls.acme.clone())
        .collect()
}

/// Who permits names on demand, which is the same for all listeners that have it.
pub(super) fn on_demand(config: &Config) -> Option<OnDemandSettings> {
    let mut urls = config.listeners.iter().filter_map(|listen| listen.tls.as_ref()?.on_demand.clone());
    Some(OnDemandSettings { permission: urls.next()?, names: config.acme.on_demand_names as usize })
}

/// Whether any listener has names for an authority.
pub(crate) fn is_used(config: &Config) -> bool {
    config.listeners.iter().filter_map(|listen| listen.tls.as_ref()).any(ListenTls::has_authority)
}

/// The settings.
///
/// # Errors
/// A sentence: there is no directory to keep certificates in, or a key is not one.
pub(crate) fn settings(config: &Config) -> Result<AcmeSettings, String> {
    let acme = &config.acme;
    let authority = |directory: &String| Authority { directory: directory.clone(), ca: acme.ca.clone() };
    Ok(AcmeSettings {
        authority: authority(&acme.directory),
        staging: acme.staging.as_ref().map(authority),
        contacts: acme.email.iter().map(|address| format!("mailto:{address}")).collect(),
        external_account: acme.external_account.as_ref().map(external).transpose()?,
        storage: storage(acme)?,
        profile: acme.profile.clone(),
        key: match acme.key {
            AcmeKey::P256 => KeyKind::P256,
            AcmeKey::P384 => KeyKind::P384,
        },
        challenges: challenges(config),
    })
}

fn external(account: &keepwarm_config::ExternalAccount) -> Result<ExternalAccount, String> {
    let text = account.key.expose().as_bytes();
    let key = BASE64URL_NOPAD.decode(text).or_else(|_| BASE64URL.decode(text));
    let key = key.map_err(|_| "acme.external_account.key is not in base64url".to_owned())?;
    Ok(ExternalAccount { id: account.id.clone(), key })
}

/// As configured, else all that a listener can meet.
fn challenges(config: &Config) -> Vec<ChallengeKind> {
    let kind = |challenge: &AcmeChallenge| match challenge {
        AcmeChallenge::Http01 => ChallengeKind::Http01,
        AcmeChallenge::TlsAlpn01 => ChallengeKind::TlsAlpn01,
    };
    if !config.acme.challenges.is_empty() {
        return config.acme.challenges.iter().map(kind).collect();
    }
    let has_plaintext = config.listeners.iter().any(|listen| listen.tls.is_none());
    let http = has_plaintext.then_some(ChallengeKind::Http01);
    http.into_iter().chain([ChallengeKind::TlsAlpn01]).collect()
}

/// As configured, else one that outlives the process.
fn storage(acme: &Acme) -> Result<PathBuf, String> {
    match &acme.storage {
        Some(path) => Ok(path.clone()),
        None => state_folder("acme").map_err(|error| format!("acme.storage is not set, and {error}")),
    }
}

/// A directory of this name for what outlives the process.
///
/// # Errors
/// There is no place for it.
pub(crate) fn state_folder(name: &str) -> Result<PathBuf, String> {
    let variable = |name| env::var_os(name).filter(|value| !value.is_empty());
    // systemd separates several by colons.
    if let Some(state) = variable("STATE_DIRECTORY").and_then(|all| env::split_paths(&all).next()) {
        return Ok(state.join(name));
    }
    if nix::unistd::geteuid().is_root() {
        return Ok(Path::new("/var/lib/keepwarm").join(name));
    }
    let state = variable("XDG_STATE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(variable("HOME")?).join(".local/state")));
    state.map(|state| state.join("keepwarm").join(name)).ok_or_else(|| {
        "there is neither $STATE_DIRECTORY nor $HOME: set it to a directory that is kept".to_owned()
    })
}
