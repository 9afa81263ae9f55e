//! `--tls-dev`: HTTPS on this machine, by an authority of its own that is trusted once.

use std::collections::BTreeSet;
use std::path::Path;

use keepwarm_acme::local_certificate;
use keepwarm_config::{
    Action, Config, HostPattern, ListenCertificate, ListenTls, Listener, PemFile, Secret, TemplatePiece,
};

use crate::acme::state_folder;

/// Of the authority, among what outlives the process.
const FOLDER: &str = "local-authority";
/// What every certificate for development is for, beside the names of the configuration.
/// Not `*.localhost`: clients refuse a wildcard below a single label.
const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// Gives a local certificate to every listener that has none from a file.
///
/// # Errors
/// A sentence: a file cannot be read or written.
pub(crate) fn apply(config: &mut Config) -> Result<(), String> {
    let local = local_certificate(&state_folder(FOLDER)?, &names(config))?;
    let pem = |path: &Path| {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok::<_, String>(PemFile { path: path.to_owned(), pem: Secret::new(text) })
    };
    let certificate = ListenCertificate { cert: pem(&local.cert)?, key: pem(&local.key)?, ocsp: None };
    for listen in config.listeners.iter_mut().filter(|listen| !redirects_to_https(listen)) {
        match &mut listen.tls {
            Some(tls) if !tls.certificates.is_empty() => {}
            Some(tls) => {
                tls.acme.clear();
                tls.on_demand = None;
                tls.certificates.push(certificate.clone());
            }
            None => listen.tls = Some(ListenTls::with(certificate.clone())),
        }
    }
    Ok(())
}

fn names(config: &Config) -> BTreeSet<String> {
    let listed =
        config.listeners.iter().filter_map(|listen| listen.tls.as_ref()).flat_map(|tls| &tls.acme).cloned();
    let hosts = config.listeners.iter().flat_map(|listen| &listen.routes).flat_map(|route| &route.hosts);
    let exact = hosts.filter_map(|host| match host {
        HostPattern::Exact(host) => Some(host.trim_matches(['[', ']']).to_owned()),
        HostPattern::Suffix(_) | HostPattern::Glob(_) | HostPattern::Regex(_) => None,
    });
    NAMES.iter().map(|name| (*name).to_owned()).chain(listed).chain(exact).collect()
}

fn redirects_to_https(listen: &Listener) -> bool {
    let to_https =
        |piece: &TemplatePiece| matches!(piece, TemplatePiece::Text(text) if text.starts_with("https://"));
    let redirects = |action: &Action| matches!(action, Action::Redirect(redirect) if redirect.to.0.first().is_some_and(to_https));
    !listen.routes.is_empty() && listen.routes.iter().all(|route| redirects(&route.action))
}

/// How browsers and other clients come to accept the certificates, a line each.
pub(crate) fn advice() -> Vec<String> {
    let ca = state_folder(FOLDER).unwrap_or_default().join("ca.pem");
    let ca = ca.display();
    let trust = match cfg!(target_os = "macos") {
        true => vec![format!(
            "security add-trusted-cert -r trustRoot -k ~/Library/Keychains/login.keychain-db {ca}"
        )],
        false => vec![
            format!(
                "sudo cp {ca} /usr/local/share/ca-certificates/keepwarm.crt && sudo update-ca-certificates"
            ),
            format!(
                "certutil -d sql:$HOME/.pki/nssdb -A -t C,, -n keepwarm -i {ca}    (browsers; from libnss3-tools)"
            ),
        ],
    };
    let mut lines =
        vec!["TLS for development, by a local authority; to trust it on this machine:".to_owned()];
    lines.extend(trust.into_iter().map(|line| format!("  {line}")));
    lines.push(format!("or for one client: curl --cacert {ca} ..."));
    lines
}
