//! Error pages that an app or an upstream makes: it is asked by a request of Keepwarm itself for each error response.
//!
//! The client gets the body of a 2xx, or of a response with the status of the error (an app may serve its `/404` so), with the status of the error. The app is
//! asked directly and not by routes: no page leads to another, and what it responds with when it fails is dropped.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use keepwarm_serve::{Exchange, FetchLimits, FetchedResponse, Handler, PageApp, PageError};
use keepwarm_telemetry::RequestId;

use crate::cidr::Cidr;
use crate::subrequest::SubrequestTarget;

/// What a page may take. A client waits for it and gets less than it asked for; the size is that of a file.
const LIMITS: FetchLimits = FetchLimits { time: Duration::from_secs(5), body: 1 << 20, reads_success: true };

/// An app that makes error pages.
pub struct ErrorPageApp {
    target: SubrequestTarget,
}

impl ErrorPageApp {
    /// `service`, an app or an upstream, by its name, which is asked at `path`. `trusted_proxies`: those of the site.
    #[must_use]
    pub fn new(
        name: Arc<str>,
        service: Arc<dyn Handler>,
        is_app: bool,
        path: String,
        trusted_proxies: Vec<Cidr>,
    ) -> Self {
        let trusted_proxies = trusted_proxies.into();
        Self { target: SubrequestTarget { service, name, is_app, path, trusted_proxies } }
    }

    async fn fetch(&self, exchange: &mut Exchange<'_>, error: PageError) -> Option<FetchedResponse> {
        let requested = exchange.request().requested_target();
        let (status, id) =
            (error.status.to_string(), RequestId::new(exchange.request().number()).to_string());
        let mut about: Vec<(&[u8], &[u8])> =
            vec![(b"x-error-status", status.as_bytes()), (b"x-error-id", id.as_bytes())];
        if !error.reason.is_empty() {
            about.push((b"x-error-reason", error.reason.as_bytes()));
        }
        let cause = match self.target.fetch(exchange, &requested, &about, LIMITS).await {
            Ok(Ok(page)) if matches!(page.status, 200..=299) || page.status == error.status => {
                return Some(page);
            }
            Ok(Ok(page)) => page.status.to_string(),
            Ok(Err(fault)) => format!("{fault:?}"),
            Err(gone) => {
                exchange.abandon(gone);
                return None;
            }
        };
        tracing::warn!(
            name: "error_page_failed",
            app = &*self.target.name, cause, status = error.status,
            "no error page from its app; Keepwarm's own response is sent"
        );
        None
    }
}

impl PageApp for ErrorPageApp {
    fn page<'a>(
        &'a self,
        exchange: &'a mut Exchange<'_>,
        error: PageError,
    ) -> Pin<Box<dyn Future<Output = Option<FetchedResponse>> + 'a>> {
        Box::pin(self.fetch(exchange, error))
    }
}

impl std::fmt::Debug for ErrorPageApp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ErrorPageApp")
            .field("name", &self.target.name)
            .field("path", &self.target.path)
            .finish()
    }
}
