//! Error pages, read from their files.

use std::sync::Arc;

use keepwarm_config::{Listener, Route};
use keepwarm_edge::media_type;
use keepwarm_serve::{ErrorPage, ErrorPages};

/// The pages of a route and, for other statuses, of its listener. `None`: the route has none of its own.
///
/// # Errors
/// As [`pages`].
pub(super) fn of_route(route: &Route, listen: &Listener) -> Result<Option<Arc<ErrorPages>>, String> {
    match route.error_pages.as_slice() {
        [] => Ok(None),
        own => pages([own, &listen.error_pages]),
    }
}

/// The pages, earlier lists first.
///
/// # Errors
/// A file that can no longer be read.
pub(super) fn pages<const N: usize>(
    lists: [&[keepwarm_config::ErrorPage]; N],
) -> Result<Option<Arc<ErrorPages>>, String> {
    let mut pages = Vec::new();
    for page in lists.into_iter().flatten() {
        let file = &page.file;
        let body = std::fs::read(file)
            .map_err(|error| format!("cannot read the error page {}: {error}", file.display()))?;
        let content_type = media_type(file.as_os_str().as_encoded_bytes());
        pages.push((page.statuses.first..=page.statuses.last, ErrorPage { content_type, body }));
    }
    Ok((!pages.is_empty()).then(|| Arc::new(ErrorPages::new(pages))))
}
