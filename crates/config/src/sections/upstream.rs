//! `[upstream.NAME]` as a whole: checks that involve several keys.

use crate::checker::Checker;
use crate::model::{Bind, ClientCertificate, PemFile, TlsVersion, TrustRoots, Upstream, UpstreamTls};
use crate::raw::{Span, Table};
use crate::shape::Origin;

mod balance;
mod check;
mod endpoints;
mod health;
mod keys;
mod limits;
mod resilience;

pub(crate) use keys::UPSTREAM;

/// `[upstream.NAME]` before the checks of the whole file.
pub(crate) struct UpstreamDraft {
    /// The span of NAME.
    pub(crate) span: Span,
    /// Endpoints, TLS, doors and rate limit are valid only after [`UpstreamDraft::finish`] and the checks of the
    /// whole file.
    pub(crate) upstream: Upstream,
    pub(crate) bind: Vec<(Bind, Span)>,
    pub(crate) rate_limit: Option<(String, Span)>,
    url: Option<(Origin, Span)>,
    endpoints: Vec<EndpointDraft>,
    tls: TlsDraft,
}

/// An item of `endpoints` before the checks.
struct EndpointDraft {
    span: Span,
    /// `None`: its problem was reported already.
    origin: Option<Origin>,
    weight: u32,
    priority: u32,
    /// The span of `weight`, if it is set.
    weight_span: Option<Span>,
    priority_span: Option<Span>,
}

/// The keys of TLS before the checks.
#[derive(Default)]
struct TlsDraft {
    ca: Option<PemFile>,
    ca_system: bool,
    cert: Option<PemFile>,
    key: Option<PemFile>,
    min_version: TlsVersion,
    server_name: Option<String>,
}

impl UpstreamDraft {
    pub(crate) fn new(name: &str, span: Span) -> UpstreamDraft {
        UpstreamDraft {
            span,
            upstream: Upstream::new(name.to_owned(), Vec::new()),
            bind: Vec::new(),
            rate_limit: None,
            url: None,
            endpoints: Vec::new(),
            tls: TlsDraft::default(),
        }
    }

    /// Checks that involve several keys. Afterwards the draft's `upstream` is complete except for what other sections
    /// provide, or a problem was reported.
    pub(crate) fn finish(&mut self, table: &Table, cx: &mut Checker<'_>) {
        self.resolve_endpoints(table, cx);
        self.resolve_tls(table, cx);
        self.check_public(cx);
        self.check_loop(cx);
        self.check_name(cx);
        self.check_numbers(table, cx);
    }

    /// Resolves TLS from the scheme of the URLs, and the name in the certificate.
    fn resolve_tls(&mut self, table: &Table, cx: &mut Checker<'_>) {
        let Some(tls) = self.origins().next().map(|origin| origin.tls) else { return };
        if self.origins().any(|origin| origin.tls != tls) {
            return;
        }
        if !tls {
            self.reject_tls_keys(table, cx);
            return;
        }
        self.check_tls_keys(table, cx);
        let Some(server_name) = self.server_name(cx) else { return };
        let draft = std::mem::take(&mut self.tls);
        let ca = match (draft.ca, draft.ca_system) {
            (None, _) => TrustRoots::System,
            (Some(file), false) => TrustRoots::File(file),
            (Some(file), true) => TrustRoots::FileAndSystem(file),
        };
        self.upstream.tls = Some(UpstreamTls {
            server_name,
            ca,
            client_certificate: draft.cert.zip(draft.key).map(|(cert, key)| ClientCertificate { cert, key }),
            min_version: draft.min_version,
        });
    }

    /// The name in the certificate: `server_name`, else `host`, else the host of the URL.
    fn server_name(&self, cx: &mut Checker<'_>) -> Option<String> {
        if let Some(name) = &self.tls.server_name {
            return Some(name.clone());
        }
        if let Some(host) = &self.upstream.host {
            return Some(without_port(host).to_owned());
        }
        let first = self.origins().next()?.host.clone();
        let other = self
            .endpoints
            .iter()
            .find(|endpoint| endpoint.origin.as_ref().is_some_and(|origin| origin.host != first));
        let Some(other) = other else { return Some(first) };
        let name = cx.name();
        let message = format!(
            "the endpoints of `{name}` have different hosts, but no `server_name` says which one their certificates are for"
        );
        cx.problem(other.span, message)
            .key("upstream.NAME.server_name")
            .expected("`server_name` (or `host`) next to `endpoints`, or one host for all of them")
            .help(format!("server_name = \"{first}\", if that is the name in all their certificates"))
            .reject(cx)
    }

    fn origins(&self) -> impl Iterator<Item = &Origin> {
        let url = self.url.iter().map(|(origin, _)| origin);
        url.chain(self.endpoints.iter().filter_map(|endpoint| endpoint.origin.as_ref()))
    }
}

/// `search.internal` of `search.internal:9243`, `::1` of `[::1]:9243`.
fn without_port(authority: &str) -> &str {
    match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => authority.split(':').next().unwrap_or(authority),
    }
}
