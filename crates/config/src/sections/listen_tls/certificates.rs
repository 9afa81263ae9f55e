//! `cert`, `key` and `ocsp`, alone and in the list `certificates`.

use std::path::PathBuf;

use super::TlsDraft;
use crate::checker::Checker;
use crate::description::{Describe, Description, KeyInfo};
use crate::json::Json;
use crate::key::{DefaultValue, Field, Key, Section, Set, Shape};
use crate::model::{ListenCertificate, PemFile};
use crate::raw::{Directive, Span, Table};
use crate::shape::{ExistingPath, Pem};
use crate::sources::CertificateSummary;

/// A certificate before its checks.
#[derive(Default)]
pub(super) struct CertificateDraft {
    pub(super) cert: Option<PemFile>,
    pub(super) key: Option<PemFile>,
    pub(super) ocsp: Option<PathBuf>,
    /// The spans of the values of `cert` and `key`.
    pub(super) spans: Option<(Span, Span)>,
}

/// An advice of many messages.
pub(super) const CERTIFICATE_EXAMPLE: &str = "cert = \"/etc/ssl/shop.pem\" and key = \"/etc/ssl/shop.key\"";

impl CertificateDraft {
    pub(super) fn finish(self) -> Option<ListenCertificate> {
        Some(ListenCertificate { cert: self.cert?, key: self.key?, ocsp: self.ocsp })
    }

    fn note_spans(&mut self, table: &Table) {
        let span = |key| table.entry(key).map(|entry| entry.value.span);
        self.spans = span("cert").zip(span("key"));
    }
}

pub(super) fn require_both(table: &Table, directive: &Directive, cx: &mut Checker<'_>) {
    let name = cx.name();
    for (one, other) in [("cert", "key"), ("key", "cert")] {
        let Some(entry) = table.entry(one).filter(|_| table.entry(other).is_none()) else { continue };
        cx.problem(entry.key_span, format!("`{name}` has `{one}` without `{other}`"))
            .expected("both the certificate and its private key; they may be in one file")
            .help(format!("write {CERTIFICATE_EXAMPLE}"))
            .report(cx);
    }
    if table.entry("cert").is_none() && table.entry("key").is_none() {
        cx.problem(directive.span, format!("`{name}` has neither `cert` nor `key`"))
            .expected(CERTIFICATE_EXAMPLE)
            .report(cx);
    }
}

/// What is wrong with a certificate that can be served nevertheless.
pub(super) fn warn_of_content(summary: &CertificateSummary, span: Span, cx: &mut Checker<'_>) {
    let name = cx.name();
    let about = match summary.names.as_slice() {
        [] => "a certificate".to_owned(),
        [first, ..] => format!("the certificate of {first}"),
    };
    if summary.names.is_empty() {
        cx.problem(span, format!("`{name}`: the certificate names no host, so clients refuse it"))
            .help("create it with a subjectAltName: openssl req -x509 ... -addext subjectAltName=DNS:example.com")
            .warn(cx);
    }
    if let Some(date) = &summary.expired {
        cx.problem(span, format!("`{name}`: {about} expired on {date}; it is served, and clients refuse it"))
            .help("renew it; a changed file is loaded without a reload")
            .warn(cx);
    }
    if let Some(date) = &summary.not_before {
        cx.problem(span, format!("`{name}`: {about} is not valid before {date}")).warn(cx);
    }
    if summary.lacks_chain {
        let message = format!(
            "`{name}`: the file has {about} without the certificate of its issuer, {}: many clients cannot verify it",
            summary.issuer
        );
        cx.problem(span, message)
            .help("append the chain that the authority provides (fullchain.pem, not cert.pem)")
            .warn(cx);
    }
}

/// Of two certificates for a name with keys of one kind, the second would never be used for it.
pub(super) fn check_unique(
    summary: &CertificateSummary,
    span: Span,
    earlier: &[(CertificateSummary, Span)],
    cx: &mut Checker<'_>,
) {
    for (other, other_span) in earlier.iter().filter(|(other, _)| other.key_kind == summary.key_kind) {
        let Some(shared) = summary.names.iter().find(|name| other.names.contains(name)) else { continue };
        cx.problem(span, format!("`{}` has two certificates for {shared}", cx.name()))
            .key("listen.NAME.tls.certificates")
            .related(cx.source_map.location(*other_span), "the other one")
            .expected("one certificate for each name, or two with keys of different kinds (ECDSA and RSA)")
            .help("leave one out")
            .report(cx);
        return;
    }
}

/// `certificates`: a list of tables.
pub(super) struct CertificateList;

/// The maximum number of certificates. Arbitrary: far more than a list written by hand.
const MOST: usize = 10_000;

impl Field<TlsDraft> for CertificateList {
    fn set(&self, draft: &mut TlsDraft, directive: &Directive, cx: &mut Checker<'_>) {
        cx.each_item(directive, MOST, |item, cx| {
            let Some(table) = cx.table(item) else { return };
            let mut one = CertificateDraft::default();
            CERTIFICATE.read(&mut one, &table, cx);
            one.note_spans(&table);
            require_both(&table, item, cx);
            draft.others.push(one);
        });
    }

    fn describe(&self) -> &dyn Describe {
        self
    }
}

impl Describe for CertificateList {
    fn description(&self) -> Description {
        Description::new(
            "a list of tables { cert, key, ocsp }",
            "list of tables",
            Json::object([("type", Json::text("array")), ("items", CERTIFICATE.schema())]),
        )
    }

    fn children(&self, path: &str) -> Vec<KeyInfo> {
        CERTIFICATE.infos(path)
    }
}

pub(super) const CERT_LONG: &str = "In PEM: the certificate of the server first, then the chain up to the authority, without the authority itself. Which names it is for is read from it (subjectAltName). The file is loaded again when it changes; a file that cannot be used is reported, and the previous certificate stays in use.";
pub(super) const OCSP_LONG: &str = "In DER, as `openssl ocsp -respout` or `certbot` hooks write it; loaded again when it changes. Clients then need not ask the authority whether the certificate was revoked. A response that has expired (nextUpdate) is not stapled; the log has a warning.";

static CERTIFICATE: Section<CertificateDraft> = Section {
    keys: &[
        Key {
            name: "cert",
            brief: "File of a certificate with its chain",
            long: CERT_LONG,
            default: DefaultValue::Required,
            right: "cert = \"/etc/ssl/shop.pem\"",
            wrong: "cert = \"/no/such/file.pem\"",
            value: &Set(Pem::Certificates, |draft: &mut CertificateDraft, cert| draft.cert = Some(cert)),
            ..Key::LIVE
        },
        Key {
            name: "key",
            brief: "File of its private key",
            long: "In PEM, not encrypted. It can be the same file as `cert`.",
            default: DefaultValue::Required,
            right: "key = \"/etc/ssl/shop.key\"",
            wrong: "key = \"/no/such/file.key\"",
            value: &Set(Pem::Key, |draft: &mut CertificateDraft, key| draft.key = Some(key)),
            ..Key::LIVE
        },
        Key {
            name: "ocsp",
            brief: "File of an OCSP response to staple",
            long: OCSP_LONG,
            default: DefaultValue::Words("none"),
            right: "ocsp = \"/etc/ssl/shop.ocsp\"",
            wrong: "ocsp = true",
            value: &Set(ExistingPath::File, |draft: &mut CertificateDraft, ocsp| draft.ocsp = Some(ocsp)),
            ..Key::LIVE
        },
    ],
};

/// A file that belongs to the certificate of the table itself.
pub(super) struct OfFirst<S>(pub(super) S, pub(super) fn(&mut CertificateDraft, &Directive, S::Out))
where
    S: Shape;

impl<S: Shape> Field<TlsDraft> for OfFirst<S> {
    fn set(&self, draft: &mut TlsDraft, directive: &Directive, cx: &mut Checker<'_>) {
        if let Some(value) = self.0.read(directive, cx) {
            (self.1)(&mut draft.first, directive, value);
        }
    }

    fn describe(&self) -> &dyn Describe {
        &self.0
    }
}
