//! Error pages: files, which are read, and apps.

use std::path::Path;
use std::sync::Arc;

use keepwarm_config::{self as config, Config, Listener, Route, SplitTarget};
use keepwarm_edge::{ErrorPageApp, media_type};
use keepwarm_serve::{ErrorPage, ErrorPages, PageSource};

use super::{RouteTargets, cidr, split};

/// The pages of a route and, for other statuses, of its listener. `None`: the route has none of its own.
///
/// # Errors
/// As [`pages`].
pub(super) fn of_route(
    route: &Route,
    listen: &Listener,
    config: &Config,
    targets: RouteTargets<'_>,
) -> Result<Option<Arc<ErrorPages>>, String> {
    match route.error_pages.as_slice() {
        [] => Ok(None),
        own => pages([own, &listen.error_pages], config, targets),
    }
}

/// The pages, earlier lists first.
///
/// # Errors
/// A file that can no longer be read.
pub(super) fn pages<const N: usize>(
    lists: [&[keepwarm_config::ErrorPage]; N],
    config: &Config,
    targets: RouteTargets<'_>,
) -> Result<Option<Arc<ErrorPages>>, String> {
    let mut pages = Vec::new();
    for page in lists.into_iter().flatten() {
        let source = match &page.source {
            config::PageSource::File(file) => PageSource::Fixed(read(file)?),
            config::PageSource::App(target, path) => {
                let (name, service) = split::target(target, targets)?;
                let is_app = matches!(target, SplitTarget::App(_));
                let trusted = config.server.trusted_proxies.iter().filter_map(cidr).collect();
                PageSource::App(Arc::new(ErrorPageApp::new(name, service, is_app, path.clone(), trusted)))
            }
        };
        pages.push((page.statuses.first..=page.statuses.last, source));
    }
    Ok((!pages.is_empty()).then(|| Arc::new(ErrorPages::new(pages))))
}

fn read(file: &Path) -> Result<ErrorPage, String> {
    let body = std::fs::read(file)
        .map_err(|error| format!("cannot read the error page {}: {error}", file.display()))?;
    Ok(ErrorPage { content_type: media_type(file.as_os_str().as_encoded_bytes()), body })
}
