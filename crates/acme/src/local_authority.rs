//! An authority of this machine alone, for development: a browser that trusts it accepts every certificate it signs.
//!
//! ```text
//!   DIRECTORY/ca.pem    its certificate, to be trusted
//!   DIRECTORY/ca.key    its key
//!   DIRECTORY/cert.pem  a certificate it has signed
//!   DIRECTORY/key.pem   the key of that
//! ```

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::certificate::CertificateFacts;
use crate::storage::{StorageError, make_private, write};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Ten years: to trust another one is work.
const AUTHORITY_LIFETIME: Duration = DAY.saturating_mul(3650);
/// Apple accepts 825 days of an authority that a user has added.
const LIFETIME: Duration = DAY.saturating_mul(365);
/// Less is left: a new certificate is made.
const LEAST: Duration = DAY.saturating_mul(30);

/// The files of a certificate for development.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalCertificate {
    /// The certificate of the authority.
    pub ca: PathBuf,
    /// The certificate.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// A certificate for these names, from the authority in this directory; both are made if they are not there.
///
/// # Errors
/// A sentence: a file cannot be read or written, or a name cannot be in a certificate.
pub fn local_certificate(folder: &Path, names: &BTreeSet<String>) -> Result<LocalCertificate, String> {
    let said = |error: StorageError| error.to_string();
    make_private(folder).map_err(said)?;
    let file = |name: &str| folder.join(name);
    let local = LocalCertificate { ca: file("ca.pem"), cert: file("cert.pem"), key: file("key.pem") };
    let ca_key = file("ca.key");
    let is_new = !(local.ca.exists() && ca_key.exists());
    if is_new {
        let (certificate, key) = authority()?;
        write(&ca_key, key.as_bytes()).map_err(said)?;
        write(&local.ca, certificate.as_bytes()).map_err(said)?;
    }
    let mut all = names.clone();
    match usable(&local).filter(|_| !is_new) {
        Some(facts) if names.iter().all(|name| facts.has_name(name)) => {
            return Ok(local);
        }
        // Another Keepwarm may use it for those.
        Some(facts) => all.extend(facts.names),
        None => {}
    }
    let (certificate, key) = signed(&local.ca, &ca_key, all)?;
    write(&local.key, key.as_bytes()).map_err(said)?;
    write(&local.cert, certificate.as_bytes()).map_err(said)?;
    Ok(local)
}

/// What the certificate that is there says, if it can be used for some time still.
fn usable(local: &LocalCertificate) -> Option<CertificateFacts> {
    let leaf = CertificateDer::from_pem_slice(&fs::read(&local.cert).ok()?).ok()?;
    let facts = CertificateFacts::of(&leaf).ok()?;
    let left = facts.validity.end.duration_since(SystemTime::now()).ok()?;
    (left > LEAST && local.key.exists()).then_some(facts)
}

fn subject(name: &str) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, name);
    subject.push(DnType::OrganizationName, "Keepwarm, for development on this machine only");
    subject
}

fn authority() -> Result<(String, String), String> {
    let failed = |error: rcgen::Error| error.to_string();
    let key = KeyPair::generate().map_err(failed)?;
    let certificate = authority_params().self_signed(&key).map_err(failed)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

/// The same for each: with its key, all of the issuer that a certificate repeats.
fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.distinguished_name = subject("Keepwarm local authority");
    set_validity(&mut params, AUTHORITY_LIFETIME);
    params
}

fn signed(ca: &Path, ca_key: &Path, names: BTreeSet<String>) -> Result<(String, String), String> {
    let failed = |error: rcgen::Error| error.to_string();
    let read = |file: &Path| fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()));
    let ca_pem = read(ca)?;
    let issuer = KeyPair::from_pem(&read(ca_key)?).map_err(|error| {
        format!(
            "{} cannot be used: {error}; remove its directory to make another authority",
            ca_key.display()
        )
    })?;
    let issuer = Issuer::new(authority_params(), issuer);
    let key = KeyPair::generate().map_err(failed)?;
    let mut params = CertificateParams::new(names.into_iter().collect::<Vec<_>>()).map_err(failed)?;
    params.distinguished_name = subject("localhost");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    set_validity(&mut params, LIFETIME);
    let certificate = params.signed_by(&key, &issuer).map_err(failed)?;
    Ok((certificate.pem() + &ca_pem, key.serialize_pem()))
}

/// From an hour ago, for clocks that are not quite right.
fn set_validity(params: &mut CertificateParams, lifetime: Duration) {
    let now = SystemTime::now();
    params.not_before = (now - Duration::from_secs(3600)).into();
    params.not_after = (now + lifetime).into();
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn the_authority_and_its_certificate_stay_until_a_name_is_missing() {
        let folder = std::env::temp_dir().join(format!("keepwarm-local-authority-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let first = local_certificate(&folder, &names(&["localhost", "127.0.0.1"])).unwrap();
        let mode = |file: &Path| fs::metadata(file).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&folder.join("ca.key")), mode(&first.key)), (0o700, 0o600, 0o600));
        let (ca, cert) = (fs::read(&first.ca).unwrap(), fs::read(&first.cert).unwrap());
        let again = local_certificate(&folder, &names(&["localhost"])).unwrap();
        assert_eq!(fs::read(&again.cert).unwrap(), cert);
        let more = local_certificate(&folder, &names(&["shop.test", "*.localhost"])).unwrap();
        assert_eq!(fs::read(&more.ca).unwrap(), ca);
        let facts = usable(&more).unwrap();
        for name in ["localhost", "127.0.0.1", "shop.test", "*.localhost"] {
            assert!(facts.has_name(name), "{facts:?}");
        }
        fs::write(folder.join("ca.key"), "nothing").unwrap();
        let error = local_certificate(&folder, &names(&["other.test"])).unwrap_err();
        assert!(error.contains("remove its directory"), "{error}");
        fs::remove_dir_all(folder).unwrap();
    }
}
