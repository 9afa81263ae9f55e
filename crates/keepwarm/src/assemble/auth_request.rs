//! Routes whose requests a service decides about.

use keepwarm_config::{Config, Route, SplitTarget};
use keepwarm_edge::{AuthRequest, AuthSettings};
use keepwarm_serve::FetchLimits;

use super::{RouteTargets, cidr, size, split};

/// The service of a route, if it has one.
///
/// # Errors
/// One that does not exist; the configuration has checked them before.
pub(super) fn auth_request(
    route: &Route,
    config: &Config,
    targets: RouteTargets<'_>,
) -> Result<Option<AuthRequest>, String> {
    let Some(auth) = &route.auth_request else { return Ok(None) };
    let (name, service) = split::target(&auth.service, targets)?;
    let settings = AuthSettings {
        path: auth.path.clone(),
        headers: auth.headers.clone(),
        user_header: auth.user_header.clone(),
        response_headers: auth.response_headers.clone(),
        passes_ambiguous_paths: auth.ambiguous_paths,
        limits: FetchLimits { time: auth.timeout, body: size(auth.max_response), reads_success: false },
    };
    let is_app = matches!(auth.service, SplitTarget::App(_));
    let trusted = config.server.trusted_proxies.iter().filter_map(cidr).collect();
    Ok(Some(AuthRequest::new(name, service, is_app, settings, trusted)))
}
