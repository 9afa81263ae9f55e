//! `[listen.NAME.tls]`

mod certificates;
mod hsts;

use std::time::Duration;

use crate::checker::Checker;
use crate::description::Describe;
use crate::key::{DefaultValue, Field, Key, Section, Set, Shape};
use crate::model::{ClientAuth, Hsts, ListenCertificate, ListenTls, PemFile, TlsProfile, UnknownNames};
use crate::raw::{Directive, Entry, Span, Table};
use crate::shape::{CERTIFICATE_NAMES, ExistingPath, PERMISSION_URL, Pem, Time, Words};
use crate::sources::CertificateSummary;
use certificates::{
    CERT_LONG, CERTIFICATE_EXAMPLE, CertificateDraft, CertificateList, OCSP_LONG, OfFirst, check_unique,
    require_both, warn_of_content,
};
use hsts::HSTS;

/// The table before its checks.
pub(crate) struct TlsDraft {
    first: CertificateDraft,
    others: Vec<CertificateDraft>,
    pub(super) acme: Vec<String>,
    pub(crate) on_demand: Option<(String, Span)>,
    unknown_names: UnknownNames,
    profile: TlsProfile,
    client_ca: Option<PemFile>,
    client_crl: Option<PemFile>,
    client_auth: Option<bool>,
    handshake_timeout: Duration,
    hsts: Option<Hsts>,
    /// What the certificates say, as far as they are valid.
    summaries: std::cell::RefCell<Vec<(CertificateSummary, Span)>>,
}

impl Default for TlsDraft {
    fn default() -> Self {
        Self {
            first: CertificateDraft::default(),
            others: Vec::new(),
            acme: Vec::new(),
            on_demand: None,
            unknown_names: UnknownNames::default(),
            profile: TlsProfile::default(),
            client_ca: None,
            client_crl: None,
            client_auth: None,
            handshake_timeout: ListenTls::HANDSHAKE_TIMEOUT,
            hsts: None,
            summaries: std::cell::RefCell::default(),
        }
    }
}

impl TlsDraft {
    /// Checks that involve several keys, or the content of files.
    pub(super) fn check(&self, table: &Table, directive: &Directive, cx: &mut Checker<'_>) {
        let name = cx.name();
        let is_alone = table.entry("cert").is_some() || table.entry("key").is_some();
        if is_alone {
            require_both(table, directive, cx);
        }
        if let Some(entry) = table.entry("ocsp").filter(|_| !is_alone) {
            cx.problem(entry.key_span, format!("`{name}` has `ocsp` without `cert`"))
                .expected("`ocsp` beside the `cert` that it is about")
                .report(cx);
        }
        for key in ["client_auth", "client_crl"] {
            let Some(entry) = table.entry(key).filter(|_| table.entry("client_ca").is_none()) else {
                continue;
            };
            cx.problem(entry.key_span, format!("`{name}` has `{key}` without `client_ca`"))
                .key(format!("listen.NAME.tls.{key}"))
                .expected("`client_ca`: the authorities that sign the certificates of clients")
                .report(cx);
        }
        self.check_certificates(cx);
    }

    /// Whether there is a certificate, called when the whole listener has been read: `domains` may come after `tls`.
    pub(super) fn check_any(&self, entry: &Entry, cx: &mut Checker<'_>) {
        let Some(table) = cx.table(&entry.value) else { return };
        let names = ["cert", "key", "certificates", "acme", "on_demand"];
        if !self.acme.is_empty() || names.iter().any(|key| table.entry(key).is_some()) {
            return;
        }
        cx.problem(entry.value.span, format!("`{}.tls` has no certificate", cx.name()))
            .key("listen.NAME.tls")
            .expected(format!("{CERTIFICATE_EXAMPLE}; or `certificates` with several; or `acme` with names; or `on_demand` with a URL"))
            .report(cx);
    }

    /// A certificate from a file is used, and one from the authority would only be renewed.
    fn warn_of_twice(&self, summaries: &[(CertificateSummary, Span)], cx: &mut Checker<'_>) {
        for name in &self.acme {
            let Some((_, span)) = summaries.iter().find(|(summary, _)| summary.names.contains(name)) else {
                continue;
            };
            let message =
                format!("`{}`: {name} is in `acme`, and this certificate is for it, too", cx.name());
            cx.problem(*span, message)
                .key("listen.NAME.tls.acme")
                .help("leave one out: clients get the certificate from the file")
                .warn(cx);
        }
    }

    fn certificates(&self) -> impl Iterator<Item = &CertificateDraft> {
        std::iter::once(&self.first).chain(&self.others)
    }

    fn check_certificates(&self, cx: &mut Checker<'_>) {
        let mut summaries: Vec<(CertificateSummary, Span)> = Vec::new();
        for draft in self.certificates() {
            let (Some(cert), Some(key), Some((cert_span, key_span))) = (&draft.cert, &draft.key, draft.spans)
            else {
                continue;
            };
            match cx.sources.certificate(cert, key) {
                Ok(summary) => {
                    warn_of_content(&summary, cert_span, cx);
                    check_unique(&summary, cert_span, &summaries, cx);
                    summaries.push((summary, cert_span));
                }
                Err(fault) => {
                    let (span, key) = match fault.is_of_key {
                        true => (key_span, "listen.NAME.tls.key"),
                        false => (cert_span, "listen.NAME.tls.cert"),
                    };
                    cx.problem(span, fault.message).key(key).report(cx);
                }
            }
        }
        self.warn_of_twice(&summaries, cx);
        *self.summaries.borrow_mut() = summaries;
    }

    /// Whether one of the certificates covers a host. True if none could be read.
    pub(crate) fn covers(&self, host: &str) -> bool {
        let summaries = self.summaries.borrow();
        // Which names a service permits is not known here.
        let is_unknown = self.on_demand.is_some() || (self.acme.is_empty() && summaries.is_empty());
        is_unknown
            || self.acme.iter().any(|name| name == host)
            || summaries.iter().any(|(summary, _)| summary.covers(host))
    }

    /// `None`: a problem was reported.
    pub(crate) fn finish(self) -> Option<ListenTls> {
        let Self { first, others, acme, on_demand, client_ca, client_crl: crl, client_auth, .. } = self;
        let certificates: Vec<ListenCertificate> =
            std::iter::once(first).chain(others).filter_map(CertificateDraft::finish).collect();
        if certificates.is_empty() && acme.is_empty() && on_demand.is_none() {
            return None;
        }
        Some(ListenTls {
            certificates,
            acme,
            on_demand: on_demand.map(|(url, _)| url),
            unknown_names: self.unknown_names,
            profile: self.profile,
            client_auth: client_ca.map(|ca| ClientAuth { ca, crl, required: client_auth.unwrap_or(true) }),
            handshake_timeout: self.handshake_timeout,
            hsts: self.hsts,
        })
    }
}

/// `on_demand`, with the span for a check of all listeners.
struct OnDemandUrl;

impl Field<TlsDraft> for OnDemandUrl {
    fn set(&self, draft: &mut TlsDraft, directive: &Directive, cx: &mut Checker<'_>) {
        draft.on_demand = PERMISSION_URL.read(directive, cx).map(|url| (url, directive.span));
    }

    fn describe(&self) -> &dyn Describe {
        &PERMISSION_URL
    }
}

/// Without repetitions.
pub(super) fn add_names(names: &mut Vec<String>, more: Vec<String>) {
    for name in more {
        if !names.contains(&name) {
            names.push(name);
        }
    }
}

/// `[listen.NAME.tls]`
pub(super) static LISTEN_TLS: Section<TlsDraft> = Section {
    keys: &[
        Key {
            name: "cert",
            brief: "File of the certificate with its chain",
            long: CERT_LONG,
            default: DefaultValue::Words("required, unless there are `certificates` or `acme`"),
            right: "cert = \"/etc/ssl/shop.pem\"",
            wrong: "cert = \"/no/such/file.pem\"",
            value: &OfFirst(Pem::Certificates, |first, directive, cert| {
                first.cert = Some(cert);
                let (_, key) = first.spans.unwrap_or((directive.span, directive.span));
                first.spans = Some((directive.span, key));
            }),
            ..Key::LIVE
        },
        Key {
            name: "key",
            brief: "File of its private key",
            long: "In PEM, not encrypted. It can be the same file as `cert`. It must be readable for the user that Keepwarm runs as, and should be for nobody else.",
            default: DefaultValue::Words("required with `cert`"),
            right: "key = \"/etc/ssl/shop.key\"",
            wrong: "key = \"/no/such/file.key\"",
            value: &OfFirst(Pem::Key, |first, directive, key| {
                first.key = Some(key);
                let (cert, _) = first.spans.unwrap_or((directive.span, directive.span));
                first.spans = Some((cert, directive.span));
            }),
            ..Key::LIVE
        },
        Key {
            name: "ocsp",
            brief: "File of an OCSP response to staple",
            long: OCSP_LONG,
            default: DefaultValue::Words("none"),
            right: "ocsp = \"/etc/ssl/shop.ocsp\"",
            wrong: "ocsp = true",
            value: &OfFirst(ExistingPath::File, |first, _, ocsp| first.ocsp = Some(ocsp)),
            ..Key::LIVE
        },
        Key {
            name: "certificates",
            brief: "Several certificates, each a table of `cert`, `key` and `ocsp`",
            long: "A client names the host it wants (SNI). It gets the certificate that is for exactly this name, else one with a wildcard for it, else what `unknown_names` says. For one name there can be two: one with an ECDSA key and one with an RSA key, for clients that know only the latter. `cert` and `key` beside this list are the first certificate. A request for a host that the certificate of its connection is not for gets 421, so that the client repeats it on another connection.",
            default: DefaultValue::Words("the one in `cert` and `key`"),
            right: "certificates = [{ cert = \"/etc/ssl/shop.pem\", key = \"/etc/ssl/shop.key\" }]",
            wrong: "certificates = \"/etc/ssl/\"",
            value: &CertificateList,
            ..Key::LIVE
        },
        Key {
            name: "acme",
            brief: "Names whose certificates are obtained from an authority (ACME), one certificate for each",
            long: "The authority of `[acme]`, which is Let's Encrypt without that section. The names must lead to this machine, and port 80 (for a listener without TLS) or 443 (for this one) must be reachable from outside. Until the authority has issued a certificate, clients get one that no client trusts; the log says so. `domains` of the listener is the short form. Certificates from files can be used beside these.",
            default: DefaultValue::Words("none"),
            right: "acme = [\"shop.example\", \"www.shop.example\"]",
            wrong: "acme = [\"*.shop.example\"]",
            value: &Set(CERTIFICATE_NAMES, |draft: &mut TlsDraft, names: Vec<String>| {
                add_names(&mut draft.acme, names)
            }),
            ..Key::LIVE
        },
        Key {
            name: "on_demand",
            brief: "URL that permits certificates for the names that clients request",
            long: "For hosts that are not known in advance, such as the domains of customers. A client that requests a host without a certificate waits while Keepwarm fetches this URL with `domain=HOST` in its query. 2xx permits the host: a certificate is obtained from the authority of `[acme]`, as for the names in `acme`, and renewed after asking again. Any other response refuses it, and the client gets the alert `unrecognized_name`; 429, 5xx or none means that the service is unavailable: nothing new is obtained, and what exists is renewed. Plain `http://` only to this machine. One URL for all listeners. Precedent: Caddy's `on_demand_tls ask`.",
            default: DefaultValue::Words("none: only the configured names have certificates"),
            right: "on_demand = \"http://127.0.0.1:8000/may-have-certificate\"",
            wrong: "on_demand = \"http://permission.example/ask\"",
            value: &OnDemandUrl,
            ..Key::LIVE
        },
        Key {
            name: "unknown_names",
            brief: "What a client gets that requests a host without a certificate",
            long: "`\"default\"` is the first certificate, which the client will most likely reject with a message about the name. `\"refuse\"` ends the handshake with the alert `unrecognized_name`, also for clients that name no host: those that connect to an address, and some load balancer health checks.",
            default: DefaultValue::Literal("\"default\""),
            right: "unknown_names = \"refuse\"",
            wrong: "unknown_names = \"ignore\"",
            value: &Set(
                Words(&[("default", UnknownNames::Default), ("refuse", UnknownNames::Refuse)]),
                |draft: &mut TlsDraft, unknown| draft.unknown_names = unknown,
            ),
            ..Key::LIVE
        },
        Key {
            name: "profile",
            brief: "Versions of TLS: 1.2 and 1.3, or only 1.3",
            long: "`\"intermediate\"` is TLS 1.2 and 1.3, with forward secrecy and authenticated encryption only; every browser since 2014 can use it. `\"modern\"` is TLS 1.3 only. The names are those of Mozilla's recommendations.",
            default: DefaultValue::Literal("\"intermediate\""),
            right: "profile = \"modern\"",
            wrong: "profile = \"old\"",
            value: &Set(
                Words(&[("intermediate", TlsProfile::Intermediate), ("modern", TlsProfile::Modern)]),
                |draft: &mut TlsDraft, profile| draft.profile = profile,
            ),
            ..Key::LIVE
        },
        Key {
            name: "client_ca",
            brief: "File of the authorities that sign the certificates of clients",
            long: "In PEM; one, or several in a row. Clients are then asked for a certificate, and what it says is passed to the app (see the guide on TLS). `client_crl` refuses those that were revoked.",
            default: DefaultValue::Words("none: clients are not asked for certificates"),
            right: "client_ca = \"/etc/ssl/internal-ca.pem\"",
            wrong: "client_ca = \"/no/such/ca.pem\"",
            value: &Set(Pem::Certificates, |draft: &mut TlsDraft, ca| draft.client_ca = Some(ca)),
            ..Key::LIVE
        },
        Key {
            name: "client_crl",
            brief: "File of the certificates of clients that their authorities have revoked (CRL)",
            long: "In PEM; the lists of all authorities in a row: of those in `client_ca`, and of those between them and the clients. A client is refused whose certificate, or an authority in its chain, is in its list; also one whose authority has no list in the file, or one that has expired (nextUpdate): an old list does not have what was revoked since. The file is loaded again when it changes. Sessions from before the change are not resumed; open connections stay. Precedents: nginx `ssl_crl`, Apache `SSLCARevocationFile`.",
            default: DefaultValue::Words("none: revocation is not checked"),
            right: "client_crl = \"/etc/ssl/revoked.pem\"",
            wrong: "client_crl = \"/etc/ssl/shop.pem\"",
            value: &Set(Pem::RevocationLists, |draft: &mut TlsDraft, crl| draft.client_crl = Some(crl)),
            ..Key::LIVE
        },
        Key {
            name: "client_auth",
            brief: "Whether a client without a certificate is refused",
            long: "`\"required\"` refuses it in the handshake. With `\"optional\"` the app decides. A certificate of an authority that is not in `client_ca` is refused in either case.",
            default: DefaultValue::Words("`\"required\"` with `client_ca`"),
            right: "client_auth = \"optional\"",
            wrong: "client_auth = true",
            value: &Set(
                Words(&[("required", true), ("optional", false)]),
                |draft: &mut TlsDraft, required| draft.client_auth = Some(required),
            ),
            ..Key::LIVE
        },
        Key {
            name: "hsts",
            brief: "Tell browsers to use HTTPS only (`Strict-Transport-Security`)",
            long: "A time, or a table with `max_age`, `include_subdomains` and `preload`. Every response of a route carries the header, unless its `headers` set another value. A browser that has seen it does not connect without TLS, and does not let its user ignore a certificate error, until the time is over: begin with an hour. Precedents: nginx and Apache have a recipe, Caddy too.",
            default: DefaultValue::Words("off"),
            right: "hsts = \"8760h\"",
            wrong: "hsts = true",
            value: &Set(HSTS, |draft: &mut TlsDraft, hsts| draft.hsts = Some(hsts)),
            ..Key::LIVE
        },
        Key {
            name: "handshake_timeout",
            brief: "Time limit of a TLS handshake, from the accepted connection",
            long: "Bounds how long a client can hold a connection before its first request. Beside it, the handshakes in progress are bounded to 512 for each thread, about 40 MiB in the worst case: when one more begins, the oldest is given up. Precedents: nginx 60 s, Apache 20 s, Go none.",
            default: DefaultValue::Literal("\"10s\""),
            right: "handshake_timeout = \"5s\"",
            wrong: "handshake_timeout = 10",
            value: &Set(
                Time(Duration::from_millis(100)..=Duration::from_secs(600)),
                |draft: &mut TlsDraft, timeout| draft.handshake_timeout = timeout,
            ),
            ..Key::LIVE
        },
    ],
};
