//! Routes that lead to several apps or upstreams.

use std::sync::Arc;

use keepwarm_config::Route;
use keepwarm_edge::{Split, SplitKey, SplitTarget};
use keepwarm_egress::UpstreamRoute;
use keepwarm_serve::Handler;
use keepwarm_workers::dispatch::AppHandler;

use super::RouteTargets;

/// The handler of a route's own target, or one that gives other targets their shares.
///
/// # Errors
/// A target that does not exist; the configuration has checked them before.
pub(super) fn split(
    name: &Arc<str>,
    handler: Arc<dyn Handler>,
    route: &Route,
    targets: RouteTargets<'_>,
) -> Result<Arc<dyn Handler>, String> {
    if route.split.is_empty() {
        return Ok(handler);
    }
    let others = route.split.iter().map(|share| Ok((target(&share.target, targets)?, share.share)));
    let others = others.collect::<Result<_, String>>()?;
    let key = route.split_by.as_ref().map(|key| match key {
        keepwarm_config::SplitKey::Client => SplitKey::Client,
        keepwarm_config::SplitKey::Header(name) => SplitKey::Header(name.clone()),
        keepwarm_config::SplitKey::Cookie(name) => SplitKey::Cookie(name.clone()),
    });
    Ok(Arc::new(Split::new(SplitTarget::new(Arc::clone(name), handler), others, key)))
}

fn target(target: &keepwarm_config::SplitTarget, targets: RouteTargets<'_>) -> Result<SplitTarget, String> {
    match target {
        keepwarm_config::SplitTarget::App(name) => {
            let app = targets.links.app(name).ok_or_else(|| format!("there is no app {name:?}"))?;
            Ok(SplitTarget::new(Arc::clone(&app.name), Arc::new(AppHandler(app))))
        }
        keepwarm_config::SplitTarget::Upstream(name) => {
            let upstream =
                targets.upstreams.get(name).ok_or_else(|| format!("there is no upstream {name:?}"))?;
            let route = UpstreamRoute::new(Arc::clone(upstream));
            Ok(SplitTarget::new(Arc::clone(upstream.name()), Arc::new(route)))
        }
    }
}
