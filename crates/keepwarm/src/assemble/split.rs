//! Routes that lead to several apps or upstreams: shares, and copies.

use std::sync::Arc;

use keepwarm_config::Route;
use keepwarm_edge::{Mirror, MirrorSettings, Split, SplitKey, SplitTarget};
use keepwarm_egress::UpstreamRoute;
use keepwarm_serve::Handler;
use keepwarm_workers::dispatch::AppHandler;

use super::{RouteTargets, size};

/// The handler of a route's own target, or one that gives other targets their shares and copies.
///
/// # Errors
/// A target that does not exist; the configuration has checked them before.
pub(super) fn split(
    name: &Arc<str>,
    handler: Arc<dyn Handler>,
    route: &Route,
    targets: RouteTargets<'_>,
) -> Result<Arc<dyn Handler>, String> {
    let handler = match route.split.is_empty() {
        true => handler,
        false => Arc::new(shared(name, handler, route, targets)?),
    };
    let Some(mirror) = &route.mirror else { return Ok(handler) };
    let (name, target) = target(&mirror.target, targets)?;
    let settings = MirrorSettings {
        share: mirror.share,
        max_body: size(mirror.max_body),
        all_methods: mirror.all_methods,
    };
    Ok(Arc::new(Mirror::new(handler, name, target, settings)))
}

fn shared(
    name: &Arc<str>,
    handler: Arc<dyn Handler>,
    route: &Route,
    targets: RouteTargets<'_>,
) -> Result<Split, String> {
    let others = route.split.iter().map(|share| {
        let (name, handler) = target(&share.target, targets)?;
        Ok((SplitTarget::new(name, handler), share.share))
    });
    let others = others.collect::<Result<_, String>>()?;
    let key = route.split_by.as_ref().map(split_key);
    Ok(Split::new(SplitTarget::new(Arc::clone(name), handler), others, key))
}

/// What keeps a client at its target, or at its worker.
pub(super) fn split_key(key: &keepwarm_config::SplitKey) -> SplitKey {
    match key {
        keepwarm_config::SplitKey::Client => SplitKey::Client,
        keepwarm_config::SplitKey::Header(name) => SplitKey::Header(name.clone()),
        keepwarm_config::SplitKey::Cookie(name) => SplitKey::Cookie(name.clone()),
    }
}

/// The name and the handler of a target.
pub(super) fn target(
    target: &keepwarm_config::SplitTarget,
    targets: RouteTargets<'_>,
) -> Result<(Arc<str>, Arc<dyn Handler>), String> {
    match target {
        keepwarm_config::SplitTarget::App(name) => {
            let app = targets.links.app(name).ok_or_else(|| format!("there is no app {name:?}"))?;
            Ok((Arc::clone(&app.name), Arc::new(AppHandler(app))))
        }
        keepwarm_config::SplitTarget::Upstream(name) => {
            let upstream =
                targets.upstreams.get(name).ok_or_else(|| format!("there is no upstream {name:?}"))?;
            Ok((Arc::clone(upstream.name()), Arc::new(UpstreamRoute::new(Arc::clone(upstream)))))
        }
    }
}
