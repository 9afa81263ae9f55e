//! Maintenance: new requests get 503 with a page, from all clients but some, while those in progress finish.
//!
//! It belongs to the process, not to the configuration: a reload does not end it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::SystemTime;

use arc_swap::ArcSwap;
use keepwarm_serve::{ErrorPage, ErrorPages, Exchange, PageSource};

use crate::cidr::Cidr;
use crate::forwarding::LOCAL;
use crate::refusals;

/// What is under maintenance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MaintenanceScope {
    /// Every route of every listener.
    All,
    /// The routes of a listener.
    Listener(String),
    /// The routes that lead to an app.
    App(String),
}

/// Maintenance of something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Maintenance {
    /// Of what.
    pub scope: MaintenanceScope,
    /// The sentence for visitors, in place of the usual one.
    pub message: Option<String>,
    /// The file of the page, as it was given.
    pub page_file: Option<PathBuf>,
    /// The page, in place of error pages of the configuration.
    pub page: Option<ErrorPage>,
    /// Blocks of addresses, whose clients are served.
    pub allow: Vec<Cidr>,
    /// Seconds after which clients should retry.
    pub retry_after: u32,
    /// When it began.
    pub since: SystemTime,
}

/// Maintenance, and its page as requests take it.
type Entry = (Maintenance, Option<Arc<ErrorPages>>);

/// Whether anything is under maintenance: what a request costs where nothing is.
static ACTIVE: AtomicBool = AtomicBool::new(false);
static ENTRIES: LazyLock<ArcSwap<Vec<Entry>>> = LazyLock::new(ArcSwap::default);

impl Maintenance {
    /// Begins it, in place of an earlier one of the same scope. Applies to the next request.
    pub fn begin(self) {
        let page = self
            .page
            .clone()
            .map(|page| Arc::new(ErrorPages::new(vec![(503..=503, PageSource::Fixed(page))])));
        change(|entries| {
            entries.retain(|(other, _)| other.scope != self.scope);
            entries.push((self.clone(), page.clone()));
        });
    }

    /// Ends that of a scope; `None`: all. Returns how many ended.
    pub fn end(scope: Option<&MaintenanceScope>) -> usize {
        let before = ENTRIES.load().len();
        change(|entries| entries.retain(|(one, _)| scope.is_some_and(|scope| one.scope != *scope)));
        before.saturating_sub(ENTRIES.load().len())
    }

    /// All that is under maintenance, in the order in which it began.
    #[must_use]
    pub fn all() -> Vec<Self> {
        ENTRIES.load().iter().map(|(maintenance, _)| maintenance.clone()).collect()
    }

    fn admits(&self, exchange: &Exchange<'_>) -> bool {
        Cidr::any_contains(&self.allow, exchange.request().client_address().unwrap_or(LOCAL))
    }
}

/// Only the control thread changes it.
fn change(change: impl Fn(&mut Vec<Entry>)) {
    ENTRIES.rcu(|entries| {
        let mut entries = Vec::clone(entries);
        change(&mut entries);
        entries
    });
    ACTIVE.store(!ENTRIES.load().is_empty(), Ordering::Release);
}

/// Whether a request to a listener was refused.
#[inline]
pub(crate) fn refuses_listener(exchange: &mut Exchange<'_>, listener: &str) -> bool {
    ACTIVE.load(Ordering::Acquire)
        && refuses(exchange, |scope| match scope {
            MaintenanceScope::All => true,
            MaintenanceScope::Listener(name) => name == listener,
            MaintenanceScope::App(_) => false,
        })
}

/// Whether a request to an app was refused.
#[inline]
pub(crate) fn refuses_app(exchange: &mut Exchange<'_>, app: &str) -> bool {
    ACTIVE.load(Ordering::Acquire)
        && refuses(exchange, |scope| matches!(scope, MaintenanceScope::App(name) if name == app))
}

#[cold]
fn refuses(exchange: &mut Exchange<'_>, is_meant: impl Fn(&MaintenanceScope) -> bool) -> bool {
    let entries = ENTRIES.load();
    let found = entries.iter().find(|(one, _)| is_meant(&one.scope) && !one.admits(exchange));
    let Some((maintenance, page)) = found else { return false };
    if let Some(page) = page {
        exchange.request_mut().notes.routed.error_pages = Some(Arc::clone(page));
    }
    let message = match &maintenance.message {
        Some(message) => refusals::MAINTENANCE.with_sentence(message.clone()),
        None => refusals::MAINTENANCE.about(&[]),
    };
    message.retry_after(maintenance.retry_after).respond(exchange);
    true
}
