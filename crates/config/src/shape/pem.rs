//! PEM files: certificates and private keys.

use super::path::{RELATIVE_PATHS, path_text};
use crate::checker::Checker;
use crate::description::{Describe, Description};
use crate::json::Json;
use crate::key::Shape;
use crate::model::{PemFile, Secret};
use crate::raw::Directive;

/// A readable file with at least one block of the right kind.
pub(crate) enum Pem {
    /// Certificates.
    Certificates,
    /// A private key, not encrypted.
    Key,
    /// Lists of revoked certificates.
    RevocationLists,
}

impl Describe for Pem {
    fn description(&self) -> Description {
        let expected = match self {
            Pem::Certificates => "a file of certificates in PEM that this user can read",
            Pem::Key => "a file with an unencrypted private key in PEM that this user can read",
            Pem::RevocationLists => "a file of revocation lists (CRL) in PEM that this user can read",
        };
        Description::new(expected, "path of a PEM file", Json::of_type("string"))
    }
}

impl Shape for Pem {
    type Out = PemFile;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<PemFile> {
        let path = path_text(directive, cx)?;
        let bytes = match cx.sources.read(&path) {
            Ok(bytes) => bytes,
            Err(error) => {
                return cx
                    .wrong(directive.span, &format!("cannot be read: {error} ({path})"))
                    .help(RELATIVE_PATHS)
                    .reject(cx);
            }
        };
        // RFC 7468 §2: the blocks are ASCII; text around them may have any encoding.
        let pem = String::from_utf8_lossy(&bytes).into_owned();
        let Some((what, help)) = self.fault(&bytes, &pem) else {
            return Some(PemFile { path: path.into(), pem: Secret::new(pem) });
        };
        cx.wrong(directive.span, &format!("{what} ({path})")).maybe_help(help).reject(cx)
    }
}

impl Pem {
    fn fault(&self, bytes: &[u8], pem: &str) -> Option<(&'static str, Option<&'static str>)> {
        let certificate = ["-----BEGIN CERTIFICATE-----", "-----BEGIN TRUSTED CERTIFICATE-----"]
            .iter()
            .any(|begin| pem.contains(begin));
        let key = pem.contains("PRIVATE KEY-----");
        // DER begins with the tag of a sequence.
        let der = bytes.first() == Some(&0x30) && !pem.contains("-----BEGIN ");
        match self {
            _ if bytes.is_empty() => Some(("is an empty file", None)),
            Pem::Certificates if der => Some((
                "is not in PEM; it looks like DER",
                Some("convert it: openssl x509 -inform DER -in FILE -out FILE.pem"),
            )),
            Pem::Key if der => Some((
                "is not in PEM; it looks like DER",
                Some("convert it: openssl pkey -inform DER -in FILE -out FILE.pem"),
            )),
            Pem::RevocationLists if der => Some((
                "is not in PEM; it looks like DER",
                Some("convert it: openssl crl -inform DER -in FILE -out FILE.pem"),
            )),
            Pem::RevocationLists if pem.contains("-----BEGIN X509 CRL-----") => None,
            Pem::RevocationLists if certificate => Some((
                "contains a certificate but no revocation list",
                Some("the authority makes the list: openssl ca -gencrl -out FILE"),
            )),
            Pem::RevocationLists => Some(("contains no revocation list", None)),
            Pem::Certificates if certificate => None,
            Pem::Certificates if key => Some(("contains a private key but no certificate", None)),
            Pem::Certificates => Some(("contains no certificate", None)),
            Pem::Key
                if pem.contains("BEGIN ENCRYPTED PRIVATE KEY") || pem.contains("Proc-Type: 4,ENCRYPTED") =>
            {
                Some((
                    "contains an encrypted key, and Keepwarm cannot ask for its password",
                    Some(
                        "decrypt it: openssl pkey -in FILE -out FILE.plain; make the result readable for this user only",
                    ),
                ))
            }
            Pem::Key if key => None,
            Pem::Key if certificate => Some(("contains a certificate but no private key", None)),
            Pem::Key => Some(("contains no private key", None)),
        }
    }
}
