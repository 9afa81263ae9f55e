//! Authorization by another service: before a route's target gets a request, an app or an upstream is asked about it by a request of Keepwarm itself.
//!
//! * **2xx**: the request is served, with identity headers of that response. The client's own headers of these names never reach the target, whether or not the
//!   service sent any ([`FieldPatterns`]; caddy#7545).
//! * **3xx, 4xx**: the client gets that response.
//! * **Anything else**, or no response within the limits: 502 or 503. A service that is down lets nobody in.
//!
//! The body is neither read nor sent: a client that waits for `100 Continue` gets it once the target reads. What the service is told about the request is in
//! `subrequest`.

use std::sync::Arc;

use keepwarm_http1::{BadField, Fields, cgi_safe_name, scan_path};
use keepwarm_serve::{
    ClientLoss, Exchange, FetchFault, FetchLimits, FetchedResponse, FieldPatterns, Handler, Request,
};
use keepwarm_telemetry::counters;

use crate::cidr::Cidr;
use crate::refusals;
use crate::subrequest::SubrequestTarget;

/// The service that authorizes the requests of a route.
pub struct AuthRequest {
    service: SubrequestTarget,
    settings: AuthSettings,
    /// Headers of its response that are copied.
    copied: FieldPatterns,
    /// Headers of its response that the client gets.
    for_client: FieldPatterns,
    /// Those headers of the client's request.
    withheld: Arc<FieldPatterns>,
}

/// How the service is asked, and what is taken from its response.
#[derive(Debug, Clone)]
pub struct AuthSettings {
    /// The path, and perhaps the query, that it is asked at.
    pub path: String,
    /// Headers of its response that the target gets: names, or their begin with `*`.
    pub headers: Vec<String>,
    /// The one of them that names the user.
    pub user_header: Option<String>,
    /// Headers of its 2xx response that the client gets, written alike.
    pub response_headers: Vec<String>,
    /// Also requests whose path can be read in several ways are passed on.
    pub passes_ambiguous_paths: bool,
    /// What asking it may take.
    pub limits: FetchLimits,
}

/// The service's decision.
enum Decision {
    /// The request is served.
    Allowed(Permission),
    Denied(FetchedResponse),
    /// Its response has this status, or is of no use.
    Failed(u16),
    NoResponse(FetchFault),
    ClientGone(ClientLoss),
}

/// What the service says with its 2xx.
struct Permission {
    /// Fields that the target gets.
    fields: Fields,
    user: Option<Arc<str>>,
    /// Fields that the client gets.
    for_client: Fields,
}

impl AuthRequest {
    /// `service`, an app or an upstream, by its name. `trusted_proxies`: those of the site.
    #[must_use]
    pub fn new(
        name: Arc<str>,
        service: Arc<dyn Handler>,
        is_app: bool,
        settings: AuthSettings,
        trusted_proxies: Vec<Cidr>,
    ) -> Self {
        let copied = FieldPatterns::new(settings.headers.iter().chain(&settings.user_header));
        let for_client = FieldPatterns::new(&settings.response_headers);
        let withheld = Arc::new(copied.clone());
        let (path, trusted_proxies) = (settings.path.clone(), trusted_proxies.into());
        let service = SubrequestTarget { service, name, is_app, path, trusted_proxies };
        Self { service, settings, copied, for_client, withheld }
    }

    /// Headers of the client that nobody gets: all that the service states, but not the credentials that it is asked with.
    pub(crate) fn identity_headers(&self) -> impl Iterator<Item = &str> {
        let stated = self.settings.headers.iter().chain(&self.settings.user_header);
        stated.map(String::as_str).filter(|name| !name.eq_ignore_ascii_case("authorization"))
    }

    /// Whether the request may be served; otherwise it got its response.
    pub(crate) async fn admits(&self, exchange: &mut Exchange<'_>) -> bool {
        let requested = exchange.request().requested_target();
        let path = requested.split(|&byte| byte == b'?').next().unwrap_or_default();
        // The service may decide by a path that the target reads differently.
        if !self.settings.passes_ambiguous_paths && scan_path(path).is_ok_and(|scan| scan.is_ambiguous) {
            refusals::AMBIGUOUS_PATH.respond(exchange);
            return false;
        }
        let decision = self.ask(exchange, &requested).await;
        counters::AUTH_REQUESTS.count(&self.service.name, decision.name());
        self.apply(decision, exchange)
    }

    async fn ask(&self, exchange: &mut Exchange<'_>, requested: &[u8]) -> Decision {
        match self.service.fetch(exchange, requested, &[], self.settings.limits).await {
            Ok(Ok(response)) => self.decide(response),
            Ok(Err(fault)) => Decision::NoResponse(fault),
            Err(gone) => Decision::ClientGone(gone),
        }
    }

    fn decide(&self, response: FetchedResponse) -> Decision {
        match response.status {
            200..=299 => match self.user(&response.fields) {
                Ok(user) => Decision::Allowed(Permission {
                    fields: self.copied_fields(&response.fields),
                    user,
                    for_client: self.fields_for_client(&response.fields),
                }),
                Err(AmbiguousUser) => Decision::Failed(response.status),
            },
            // It was asked without conditions.
            304 => Decision::Failed(response.status),
            300..=499 => Decision::Denied(response),
            status => Decision::Failed(status),
        }
    }

    fn user(&self, fields: &Fields) -> Result<Option<Arc<str>>, AmbiguousUser> {
        let Some(name) = &self.settings.user_header else { return Ok(None) };
        let name = name.to_ascii_lowercase();
        let mut values = fields.all(&name);
        let Some(user) = values.next() else { return Ok(None) };
        match (std::str::from_utf8(user), values.next()) {
            (Ok(""), None) => Ok(None),
            (Ok(user), None) => Ok(Some(user.into())),
            _ => Err(AmbiguousUser),
        }
    }

    /// Each name once (RFC 9110 §5.3): an environment has one variable for all lines.
    fn copied_fields(&self, fields: &Fields) -> Fields {
        let mut copied = Fields::new();
        for (name, _) in fields.iter().filter(|(name, _)| cgi_safe_name(name) && self.copied.matches(name)) {
            let Ok(name) = std::str::from_utf8(name) else { continue };
            if copied.first(name).is_none() {
                let values: Vec<&[u8]> = fields.all(name).collect();
                copied.push(name.as_bytes(), &values.join(&b", "[..]));
            }
        }
        copied
    }

    fn fields_for_client(&self, fields: &Fields) -> Fields {
        let mut passed = Fields::new();
        let passes = |name: &[u8]| self.for_client.matches(name) && is_for_client(name);
        let passing = fields.iter().filter(|(name, _)| passes(name));
        passing.for_each(|(name, value)| passed.push(name, value));
        passed
    }

    fn apply(&self, decision: Decision, exchange: &mut Exchange<'_>) -> bool {
        match decision {
            Decision::Allowed(Permission { fields, user, for_client }) => {
                let request = exchange.request_mut();
                give_to_client(&for_client, request);
                // What the route sets by that name itself gives way.
                request.extra_fields.retain(|name| !self.copied.matches(name));
                fields.iter().for_each(|(name, value)| request.extra_fields.push(name, value));
                request.notes.routed.withheld_fields.push(Arc::clone(&self.withheld));
                if user.is_some() {
                    request.notes.routed.user = user;
                    request.notes.routed.auth_type = "";
                }
                return true;
            }
            Decision::Denied(response) => {
                exchange.request_mut().notes.reason = Some("auth_denied");
                if pass(&response, exchange).is_err() {
                    self.fail(&refusals::AUTH_FAILED, response.status, "invalid_header", exchange);
                }
            }
            Decision::Failed(status @ 503) => {
                self.fail(&refusals::AUTH_UNAVAILABLE, status, "status", exchange);
            }
            Decision::Failed(status) => self.fail(&refusals::AUTH_FAILED, status, "status", exchange),
            Decision::NoResponse(fault) => {
                let (refusal, cause) = match fault {
                    FetchFault::None => (&refusals::AUTH_UNAVAILABLE, "no_response"),
                    FetchFault::Timeout => (&refusals::AUTH_TIMEOUT, "timeout"),
                    FetchFault::Invalid => (&refusals::AUTH_FAILED, "invalid_response"),
                    FetchFault::TooLarge => (&refusals::AUTH_FAILED, "response_too_large"),
                };
                self.fail(refusal, 0, cause, exchange);
            }
            Decision::ClientGone(gone) => exchange.abandon(gone),
        }
        false
    }

    fn fail(
        &self,
        refusal: &'static keepwarm_serve::ErrorResponse,
        status: u16,
        cause: &'static str,
        exchange: &mut Exchange<'_>,
    ) {
        let status = (status != 0).then_some(status);
        tracing::warn!(
            name: "auth_request_failed",
            service = &*self.service.name, cause, status, "request refused: its authorization service did not decide"
        );
        exchange.request_mut().notes.reason = None;
        refusal.respond(exchange);
    }
}

/// The user is named twice, or not in UTF-8.
struct AmbiguousUser;

impl Decision {
    /// For the metrics.
    fn name(&self) -> &'static str {
        match self {
            Self::Allowed(_) => "allowed",
            Self::Denied(_) => "denied",
            Self::Failed(_) | Self::NoResponse(FetchFault::Invalid | FetchFault::TooLarge) => "error",
            Self::NoResponse(FetchFault::None) => "no_response",
            Self::NoResponse(FetchFault::Timeout) => "timeout",
            Self::ClientGone(_) => "client_gone",
        }
    }
}

/// Not those for a server in front of the service, which knows its files.
fn is_for_client(name: &[u8]) -> bool {
    !name.starts_with(b"x-accel-") && name != b"x-sendfile"
}

/// Adds fields to the response that the client will get.
fn give_to_client(fields: &Fields, request: &mut Request) {
    if fields.iter().next().is_none() {
        return;
    }
    let edits = &mut request.notes.routed.response_edits;
    let of_route = edits.as_deref().cloned().unwrap_or_default();
    // They were decoded as fields, and those that frame a message are not among them: all of them can be sent.
    if let Ok(merged) = of_route.with_later(fields.iter()) {
        *edits = Some(Arc::new(merged));
    }
}

/// Gives the client the service's response.
fn pass(response: &FetchedResponse, exchange: &mut Exchange<'_>) -> Result<(), BadField> {
    let fields = response.fields.iter().filter(|(name, _)| is_for_client(name));
    exchange.head(response.status, Some(response.body.len() as u64), false, fields)?;
    exchange.data(&response.body);
    exchange.end();
    Ok(())
}

impl std::fmt::Debug for AuthRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AuthRequest")
            .field("name", &self.service.name)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
