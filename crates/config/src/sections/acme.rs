//! `[acme]`

use crate::checker::Checker;
use crate::key::{DefaultValue, Key, Section, Set};
use crate::model::{Acme, AcmeChallenge, AcmeKey, ExternalAccount, Secret};
use crate::raw::{Directive, Table};
use crate::shape::{
    Count, DIRECTORY_URL, EMAILS, EXTERNAL_KEY, ExistingPath, OutputDirectory, Strings, TableShape, WordList,
    WordOr, Words,
};

/// `[acme]` before its checks.
#[derive(Default)]
pub(crate) struct AcmeDraft {
    acme: Acme,
    has_directory: bool,
    has_staging: bool,
}

impl AcmeDraft {
    pub(crate) fn finish(self) -> Acme {
        let Self { mut acme, has_directory, has_staging } = self;
        // The staging environment of one authority says nothing about another.
        if has_directory && !has_staging && acme.directory != Acme::LETS_ENCRYPT {
            acme.staging = None;
        }
        acme
    }
}

#[derive(Default)]
struct ExternalDraft {
    id: Option<String>,
    key: Option<Secret>,
}

const EXTERNAL_ACCOUNT: TableShape<ExternalDraft> =
    TableShape { section: &EXTERNAL_ACCOUNT_TABLE, check: check_external };

fn check_external(draft: &ExternalDraft, table: &Table, directive: &Directive, cx: &mut Checker<'_>) -> bool {
    for key in ["id", "key"] {
        if table.entry(key).is_none() {
            cx.wrong(directive.span, &format!("has no `{key}`")).report(cx);
        }
    }
    draft.id.is_some() && draft.key.is_some()
}

static EXTERNAL_ACCOUNT_TABLE: Section<ExternalDraft> = Section {
    keys: &[
        Key {
            name: "id",
            brief: "Identifier of the account's key, from the authority",
            long: "Called key identifier, `kid` or EAB key ID.",
            default: DefaultValue::Required,
            right: "id = \"kid-1\"",
            wrong: "id = 1",
            value: &Set(
                Strings { one: "an identifier", many: "identifiers", may_be_empty: false, fault: |_| None },
                |draft: &mut ExternalDraft, ids: Vec<String>| draft.id = ids.into_iter().next(),
            ),
            ..Key::LIVE
        },
        Key {
            name: "key",
            brief: "Its HMAC key, from the authority",
            long: "In base64url. Keep it out of the file: `key = \"${file:/run/secrets/eab}\"`.",
            default: DefaultValue::Required,
            right: "key = \"zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W\"",
            wrong: "key = \"not base64!\"",
            value: &Set(EXTERNAL_KEY, |draft: &mut ExternalDraft, key| draft.key = Some(key)),
            ..Key::LIVE
        },
    ],
};

/// `[acme]`
pub(super) static ACME: Section<AcmeDraft> = Section {
    keys: &[
        Key {
            name: "email",
            brief: "Addresses that the authority may write to",
            long: "Let's Encrypt no longer does; other authorities announce problems with certificates.",
            default: DefaultValue::Words("none"),
            right: "email = \"ops@shop.example\"",
            wrong: "email = \"ops\"",
            value: &Set(EMAILS, |draft: &mut AcmeDraft, email| draft.acme.email = email),
            ..Key::LIVE
        },
        Key {
            name: "directory",
            brief: "URL of the authority's directory",
            long: "The authority's terms of service are accepted on your behalf: read them. Precedents: Caddy, certbot with `--agree-tos`.",
            default: DefaultValue::Literal("\"https://acme-v02.api.letsencrypt.org/directory\""),
            right: "directory = \"https://acme.internal:9000/acme/acme/directory\"",
            wrong: "directory = \"http://acme.internal/directory\"",
            value: &Set(DIRECTORY_URL, |draft: &mut AcmeDraft, url| {
                draft.acme.directory = url;
                draft.has_directory = true;
            }),
            ..Key::LIVE
        },
        Key {
            name: "staging",
            brief: "URL of a directory that is tried first once an order has failed",
            long: "Authorities limit how often an order may fail. After a failure, the next order is first placed at this directory, whose limits are wide; only when it succeeds there, it is placed at `directory`. `\"off\"`: no such trial. Precedent: Caddy.",
            default: DefaultValue::Words(
                "the staging environment of Let's Encrypt, if `directory` is Let's Encrypt; else off",
            ),
            right: "staging = \"off\"",
            wrong: "staging = \"http://acme.internal/directory\"",
            value: &Set(WordOr("off", DIRECTORY_URL), |draft: &mut AcmeDraft, url| {
                draft.acme.staging = url;
                draft.has_staging = true;
            }),
            ..Key::LIVE
        },
        Key {
            name: "ca",
            brief: "File of the authorities that sign the certificate of `directory` itself",
            long: "In PEM, for an authority inside your organization.",
            default: DefaultValue::Words("those of the system"),
            right: "ca = \"/etc/ssl/internal-ca.pem\"",
            wrong: "ca = \"/no/such/ca.pem\"",
            value: &Set(ExistingPath::File, |draft: &mut AcmeDraft, ca| draft.acme.ca = Some(ca)),
            ..Key::LIVE
        },
        Key {
            name: "storage",
            brief: "Directory of accounts, private keys, orders and certificates",
            long: "It is made with mode 0700, and its files with 0600; they belong to the user that Keepwarm runs as. Keep it over restarts and deploys: without it every certificate is ordered again, and the authority limits how often. Several machines that serve the same names can share it.",
            default: DefaultValue::Words(
                "`acme` in `$STATE_DIRECTORY` (which systemd sets), else `/var/lib/keepwarm/acme` for root, else `~/.local/state/keepwarm/acme`",
            ),
            right: "storage = \"/var/lib/keepwarm-acme\"",
            wrong: "storage = \"/no/such/directory/acme\"",
            value: &Set(OutputDirectory, |draft: &mut AcmeDraft, path| draft.acme.storage = Some(path)),
            ..Key::LIVE
        },
        Key {
            name: "profile",
            brief: "Kind of certificate, of those that the authority offers",
            long: "Let's Encrypt has `classic`, `tlsserver` and `shortlived`, which is valid for six days.",
            default: DefaultValue::Words("the authority's default"),
            right: "profile = \"tlsserver\"",
            wrong: "profile = \"short lived\"",
            value: &Set(
                Strings {
                    one: "the name of a profile",
                    many: "names",
                    may_be_empty: false,
                    fault: |name| {
                        let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
                        (!name.bytes().all(is_plain))
                            .then_some("contains other characters than letters, digits, `-`, `_` and `.`")
                    },
                },
                |draft: &mut AcmeDraft, names: Vec<String>| draft.acme.profile = names.into_iter().next(),
            ),
            ..Key::LIVE
        },
        Key {
            name: "key",
            brief: "Kind of private key",
            long: "Every client since 2014 knows both curves. A signature on P-256 costs a hundredth of one with RSA.",
            default: DefaultValue::Literal("\"p256\""),
            right: "key = \"p384\"",
            wrong: "key = \"rsa\"",
            value: &Set(
                Words(&[("p256", AcmeKey::P256), ("p384", AcmeKey::P384)]),
                |draft: &mut AcmeDraft, key| draft.acme.key = key,
            ),
            ..Key::LIVE
        },
        Key {
            name: "challenges",
            brief: "How the authority verifies a name, the preferred way first",
            long: "`\"http-01\"`: it fetches a URL on port 80, where a listener without TLS has to be. `\"tls-alpn-01\"`: it makes a handshake on port 443. Both ports are those that the internet sees; a load balancer may forward them to others. After a failure the other one is tried.",
            default: DefaultValue::Words(
                "both; `http-01` first if there is a listener without TLS, else only `tls-alpn-01`",
            ),
            right: "challenges = [\"tls-alpn-01\"]",
            wrong: "challenges = [\"dns-01\"]",
            value: &Set(
                WordList(Words(&[
                    ("http-01", AcmeChallenge::Http01),
                    ("tls-alpn-01", AcmeChallenge::TlsAlpn01),
                ])),
                |draft: &mut AcmeDraft, challenges| draft.acme.challenges = challenges,
            ),
            ..Key::LIVE
        },
        Key {
            name: "external_account",
            brief: "Account that exists outside of ACME, which some authorities require (EAB)",
            long: "ZeroSSL, Google Trust Services, Sectigo and DigiCert do.",
            default: DefaultValue::Words("none"),
            right: "external_account = { id = \"kid-1\", key = \"zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W\" }",
            wrong: "external_account = \"kid-1\"",
            value: &Set(EXTERNAL_ACCOUNT, |draft: &mut AcmeDraft, external: ExternalDraft| {
                draft.acme.external_account =
                    external.id.zip(external.key).map(|(id, key)| ExternalAccount { id, key });
            }),
            ..Key::LIVE
        },
        Key {
            name: "on_demand_names",
            brief: "Names with certificates on demand at the same time",
            long: "Bounds storage, memory (about 20 KiB for each name) and the renewals at the authority. Beyond it, clients that request a further name are refused. Precedents: none; Caddy bounds only the rate.",
            default: DefaultValue::Literal("1_000"),
            right: "on_demand_names = 5_000",
            wrong: "on_demand_names = 0",
            value: &Set(Count(1..=10_000), |draft: &mut AcmeDraft, names| {
                draft.acme.on_demand_names = names;
            }),
            ..Key::LIVE
        },
    ],
};
