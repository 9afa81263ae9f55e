//! Checks in front of what a route leads to.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use keepwarm_serve::{Exchange, FieldPatterns, Handler};

use crate::basic_auth::REMOTE_USER;
use crate::{AuthRequest, BasicAuth, ConcurrencyLimit};

/// What a request must pass before the route's target gets it.
#[derive(Debug, Default)]
pub struct Checks {
    /// Users with a password.
    pub basic_auth: Option<BasicAuth>,
    /// A service that decides about each request.
    pub auth_request: Option<AuthRequest>,
    /// How many requests are in progress at once.
    pub concurrency: Option<ConcurrencyLimit>,
}

/// A handler behind [`Checks`].
struct Guarded {
    checks: Checks,
    inner: Arc<dyn Handler>,
}

impl Checks {
    pub(crate) fn is_empty(&self) -> bool {
        self.basic_auth.is_none() && self.auth_request.is_none() && self.concurrency.is_none()
    }

    /// Headers that say who the client is, and that only these checks may write.
    #[must_use]
    pub fn identity_headers(&self) -> Option<Arc<FieldPatterns>> {
        let of_user = self.basic_auth.as_ref().map(|_| REMOTE_USER);
        let of_service = self.auth_request.iter().flat_map(AuthRequest::identity_headers);
        let patterns = FieldPatterns::new(of_user.into_iter().chain(of_service));
        (!patterns.is_empty()).then(|| Arc::new(patterns))
    }

    /// `inner` behind the checks; itself, if there are none.
    pub fn around(self, inner: Arc<dyn Handler>) -> Arc<dyn Handler> {
        match self.is_empty() {
            true => inner,
            false => Arc::new(Guarded { checks: self, inner }),
        }
    }
}

impl Handler for Guarded {
    fn handle<'a>(&'a self, exchange: &'a mut Exchange<'_>) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        Box::pin(async move {
            if let Some(auth) = &self.checks.basic_auth
                && !auth.admits(exchange).await
            {
                return;
            }
            if let Some(auth) = &self.checks.auth_request
                && !auth.admits(exchange).await
            {
                return;
            }
            let _slot = match &self.checks.concurrency {
                None => None,
                Some(limit) => match limit.enter(exchange).await {
                    Some(slot) => Some(slot),
                    None => return,
                },
            };
            self.inner.handle(exchange).await;
        })
    }
}

impl std::fmt::Debug for Guarded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guarded").field("checks", &self.checks).finish_non_exhaustive()
    }
}
