//! The pages and routes of an app that are refused because they kill its workers: [`keepwarm_policy::Quarantine`], shared by all threads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::Method;
use keepwarm_policy::quarantine::{self, Admission, Page, Scope};
use tokio::time::Instant;

use super::activity::RequestSummary;
use super::app::App;

/// A route and a method. Their number is bounded by the configuration: methods that nobody has registered count as one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct RouteKey {
    route: Option<Arc<str>>,
    method: Option<Method>,
}

/// What has died of which route.
#[derive(Debug, Default)]
pub(super) struct Quarantine {
    /// Something has died lately; without it nobody takes the lock.
    watches: AtomicBool,
    policy: Mutex<quarantine::Quarantine<RouteKey>>,
}

/// A request that is let through to see whether its page or route still kills workers.
#[derive(Debug)]
pub(super) struct QuarantineProbe {
    app: Arc<App>,
    scope: QuarantineScope,
}

/// The scope of a quarantine: one page, or a route with all of its pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct QuarantineScope(Scope<RouteKey>);

impl RouteKey {
    pub(super) fn of(summary: &RequestSummary) -> Self {
        const REGISTERED: [Method; 8] = [
            Method::GET,
            Method::HEAD,
            Method::POST,
            Method::PUT,
            Method::DELETE,
            Method::PATCH,
            Method::OPTIONS,
            Method::TRACE,
        ];
        let method = REGISTERED.contains(&summary.method).then(|| summary.method.clone());
        Self { route: summary.route.clone(), method }
    }
}

fn page(summary: &RequestSummary) -> Page<RouteKey> {
    Page { route: RouteKey::of(summary), path: summary.path }
}

impl QuarantineScope {
    /// Whether this request is one of those.
    pub(super) fn covers(&self, summary: &RequestSummary) -> bool {
        self.0.covers(&page(summary))
    }

    /// One page of a route, and not all.
    pub(super) fn is_page(&self) -> bool {
        matches!(self.0, Scope::Page(_))
    }
}

impl Quarantine {
    /// Whether a request would be refused now, and for how long.
    pub(super) fn refuses(&self, summary: &RequestSummary) -> Option<Duration> {
        if !self.watches() {
            return None;
        }
        self.policy().refusal(&page(summary), now())
    }

    /// The response to a request has ended. `true`: its route was refused until now.
    pub(super) fn handle_response(&self, summary: &RequestSummary) -> bool {
        if !self.watches() {
            return false;
        }
        let mut policy = self.policy();
        let opened = policy.handle_response(&page(summary));
        self.watches.store(!policy.is_empty(), Ordering::Relaxed);
        opened
    }

    /// A worker has died of these. Gives what is refused from now on.
    pub(super) fn handle_death(&self, suspects: &[RequestSummary]) -> Vec<(QuarantineScope, Duration)> {
        let pages: Vec<Page<RouteKey>> = suspects.iter().map(page).collect();
        let mut policy = self.policy();
        let refused = policy.handle_death(&pages, now());
        self.watches.store(!policy.is_empty(), Ordering::Relaxed);
        refused.into_iter().map(|(scope, time)| (QuarantineScope(scope), time)).collect()
    }

    fn admit(&self, summary: &RequestSummary) -> Admission<RouteKey> {
        let mut policy = self.policy();
        let admission = policy.admit(&page(summary), now());
        self.watches.store(!policy.is_empty(), Ordering::Relaxed);
        admission
    }

    /// Other code runs from now on: what is known of the old says nothing.
    pub(super) fn forget(&self) {
        *self.policy() = quarantine::Quarantine::default();
        self.watches.store(false, Ordering::Relaxed);
    }

    fn watches(&self) -> bool {
        self.watches.load(Ordering::Relaxed)
    }

    fn policy(&self) -> MutexGuard<'_, quarantine::Quarantine<RouteKey>> {
        self.policy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QuarantineProbe {
    /// Asks whether a request may be given to a worker. `Err`: not before this time has passed.
    pub(super) fn ask(app: &Arc<App>, summary: &RequestSummary) -> Result<Option<Self>, Duration> {
        if !app.quarantine.watches() {
            return Ok(None);
        }
        match app.quarantine.admit(summary) {
            Admission::Allowed => Ok(None),
            Admission::Trial(scope) => Ok(Some(Self { app: Arc::clone(app), scope: QuarantineScope(scope) })),
            Admission::Refused(time) => Err(time),
        }
    }
}

impl Drop for QuarantineProbe {
    fn drop(&mut self) {
        self.app.quarantine.policy().handle_trial_end(&self.scope.0, now());
    }
}

impl std::fmt::Display for RouteKey {
    /// `GET /assets/*`
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let method = self.method.as_ref().map_or("other methods", Method::as_str);
        write!(f, "{method} {}", self.route.as_deref().unwrap_or("-"))
    }
}

impl std::fmt::Display for QuarantineScope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Scope::Page(page) => page.route.fmt(f),
            Scope::Route(route) => route.fmt(f),
        }
    }
}

fn now() -> std::time::Instant {
    Instant::now().into_std()
}

#[cfg(test)]
mod tests {
    use keepwarm_telemetry::RequestId;

    use super::super::app::AppPolicy;
    use super::*;

    fn app() -> Arc<App> {
        App::new("shop", AppPolicy::of_one_worker())
    }

    fn summary(method: &str, route: &str) -> RequestSummary {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        RequestSummary { id: RequestId::new(1), method, route: Some(route.into()), path: 0 }
    }

    #[test]
    fn a_route_is_told_by_pattern_and_method_and_unknown_methods_are_one() {
        let key = |method, route| RouteKey::of(&summary(method, route));
        assert_eq!(key("GET", "/*"), key("GET", "/*"));
        assert_ne!(key("GET", "/*"), key("POST", "/*"));
        assert_ne!(key("GET", "/*"), key("GET", "/a"));
        assert_eq!(key("BREW", "/*"), key("STEEP", "/*"));
        assert_eq!(key("BREW", "/*").to_string(), "other methods /*");
    }

    #[tokio::test(start_paused = true)]
    async fn one_at_a_time_is_tried_and_one_that_leaves_makes_room() {
        let (app, deadly) = (app(), summary("GET", "/deadly"));
        assert!(QuarantineProbe::ask(&app, &deadly).unwrap().is_none());
        (0..3).for_each(|_| app.handle_death(std::slice::from_ref(&deadly)));
        assert_eq!(app.quarantine.refuses(&deadly), Some(Duration::from_secs(5)));
        assert!(QuarantineProbe::ask(&app, &deadly).is_err());
        assert!(QuarantineProbe::ask(&app, &summary("GET", "/other")).unwrap().is_none());
        tokio::time::advance(Duration::from_secs(5)).await;
        let probe = QuarantineProbe::ask(&app, &deadly).unwrap().unwrap();
        assert!(QuarantineProbe::ask(&app, &deadly).is_err());
        drop(probe);
        let probe = QuarantineProbe::ask(&app, &deadly).unwrap().unwrap();
        app.handle_response(&deadly);
        drop(probe);
        assert!(QuarantineProbe::ask(&app, &deadly).unwrap().is_none());
        assert!(!app.quarantine.watches());
    }

    #[tokio::test(start_paused = true)]
    async fn other_code_begins_anew() {
        let (app, deadly) = (app(), summary("GET", "/deadly"));
        (0..3).for_each(|_| app.handle_death(std::slice::from_ref(&deadly)));
        app.promote(2);
        assert!(QuarantineProbe::ask(&app, &deadly).unwrap().is_none());
    }
}
