//! Error pages of the operator's own, in place of Keepwarm's short ones and, where a route says so, of those of apps.
//!
//! Files are read with the configuration: a response needs no file, so that no such page can fail or lead to another. The page of an app is asked for once the
//! handler of the request is done ([`PendingPage`]), and if the app fails, Keepwarm's own short response takes its place.

use std::future::Future;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::sync::Arc;

use keepwarm_http1::{AppFields, BadField, RequestHead, scan_app_fields};

use crate::exchange::{FieldList, FieldRef};
use crate::{Exchange, FetchedResponse, prefers_json};

/// Pages by status.
#[derive(Debug, Clone)]
pub struct ErrorPages {
    /// In order of precedence.
    pages: Vec<(RangeInclusive<u16>, PageSource)>,
}

/// Where a page comes from.
#[derive(Debug, Clone)]
pub enum PageSource {
    /// A file.
    Fixed(ErrorPage),
    /// An app, which is asked for each response.
    App(Arc<dyn PageApp>),
}

/// Makes pages.
pub trait PageApp: std::fmt::Debug + Send + Sync {
    /// The page for the response that `exchange` will get. `None`: there is none; or the client is gone, and the exchange over.
    fn page<'a>(
        &'a self,
        exchange: &'a mut Exchange<'_>,
        error: PageError,
    ) -> Pin<Box<dyn Future<Output = Option<FetchedResponse>> + 'a>>;
}

/// The error that a page is for.
#[derive(Debug, Clone, Copy)]
pub struct PageError {
    /// Its status.
    pub status: u16,
    /// The stable name of its cause; empty for an error of the app.
    pub reason: &'static str,
}

/// An error response that waits for its page.
#[derive(Debug)]
pub struct PendingPage {
    pub(crate) error: PageError,
    pub(crate) app: Arc<dyn PageApp>,
    /// What is said if there is no page.
    pub(crate) detail: String,
    /// Fields of the response that are not of its body.
    pub(crate) fields: Vec<OwnedField>,
    /// The connection ends with it.
    pub(crate) close: bool,
    /// The response has ended.
    pub(crate) is_over: bool,
}

pub(crate) type OwnedField = (Box<[u8]>, Box<[u8]>);

/// A page, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorPage {
    /// Its media type.
    pub content_type: &'static str,
    /// Its bytes.
    pub body: Vec<u8>,
}

impl ErrorPages {
    /// The first that includes a status is its page.
    #[must_use]
    pub fn new(pages: Vec<(RangeInclusive<u16>, PageSource)>) -> Self {
        Self { pages }
    }

    /// The page for a status and a client. A client that prefers JSON is a program: it gets no file of another type. An app sees what it prefers.
    pub(crate) fn page(&self, status: u16, head: &RequestHead) -> Option<&PageSource> {
        let (_, source) = self.pages.iter().find(|(statuses, _)| statuses.contains(&status))?;
        let fits = match source {
            PageSource::Fixed(page) => page.is_json() || !prefers_json(head),
            PageSource::App(_) => true,
        };
        fits.then_some(source)
    }
}

impl ErrorPage {
    fn is_json(&self) -> bool {
        self.content_type.contains("json")
    }
}

/// Fields about the app's body, which the page replaces.
const OF_THE_BODY: [&str; 11] = [
    "accept-ranges",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-length",
    "content-location",
    "content-range",
    "content-type",
    "digest",
    "etag",
    "last-modified",
];

impl Exchange<'_> {
    /// Begins an app's error response with the page for its status: the status and the other fields are the app's, and its body is dropped. `None`: there is no
    /// page for it.
    #[cold]
    pub(crate) fn head_with_page(
        &mut self,
        status: u16,
        close: bool,
        fields: &[FieldRef<'_>],
    ) -> Option<Result<AppFields, BadField>> {
        if self.responded() {
            return None;
        }
        let pages = self.request().notes.routed.error_pages.clone()?;
        let of_the_body = |name: &[u8]| OF_THE_BODY.iter().any(|of| name.eq_ignore_ascii_case(of.as_bytes()));
        // Not `filter`: the fields' lifetime is shortened to that of ours on the way.
        let kept = fields.iter().filter_map(|&(name, value)| (!of_the_body(name)).then_some((name, value)));
        let page = match pages.page(status, &self.request().head)? {
            PageSource::Fixed(page) => page,
            PageSource::App(app) => {
                let found = match scan_app_fields(fields.iter().copied()) {
                    Ok(found) => found,
                    Err(bad) => return Some(Err(bad)),
                };
                let error = PageError { status, reason: "" };
                let detail = "The application responded with an error.".to_owned();
                let is_waiting = self.wait_for_page(PendingPage {
                    error,
                    app: Arc::clone(app),
                    detail,
                    fields: kept.map(|(name, value)| (name.into(), value.into())).collect(),
                    close: close || found.close,
                    is_over: false,
                });
                return is_waiting.then_some(Ok(found));
            }
        };
        let length = page.body.len().to_string();
        let ours: [(&[u8], &[u8]); 2] =
            [(b"Content-Type", page.content_type.as_bytes()), (b"Content-Length", length.as_bytes())];
        let begun = self.plain_head(status, None, close, &kept.chain(ours).collect::<FieldList<'_>>());
        if begun.is_ok() {
            self.data(&page.body);
            self.request_mut().notes.routed.body_is_replaced = true;
        }
        Some(begun)
    }

    /// Has the response wait for its page until its handler is done. `false`: there will be nobody to ask for it.
    pub(crate) fn wait_for_page(&mut self, pending: PendingPage) -> bool {
        let routed = &mut self.request_mut().notes.routed;
        if routed.takes_app_pages {
            routed.body_is_replaced = true;
            routed.pending_page = Some(Box::new(pending));
        }
        routed.takes_app_pages
    }

    /// Whether the response waits for its page: then [`crate::respond_with_page`] has to follow.
    pub fn awaits_page(&self) -> bool {
        self.request().notes.routed.pending_page.is_some()
    }

    pub(crate) fn pending_page(&mut self) -> Option<&mut PendingPage> {
        self.request_mut().notes.routed.pending_page.as_deref_mut()
    }

    /// The response that waited for its page, which does not wait any more.
    pub(crate) fn take_pending_page(&mut self) -> Option<Box<PendingPage>> {
        let routed = &mut self.request_mut().notes.routed;
        let pending = routed.pending_page.take()?;
        // Its page leads to no other page.
        (routed.body_is_replaced, routed.takes_app_pages) = (false, false);
        Some(pending)
    }
}

/// Whether a field of an app's page is for the client. Those about what the app has stored are not: this is another response.
pub(crate) fn is_of_page(name: &[u8]) -> bool {
    const NOT: [&str; 9] = [
        "accept-ranges",
        "age",
        "cache-control",
        "content-range",
        "etag",
        "expires",
        "last-modified",
        "www-authenticate",
        "x-sendfile",
    ];
    !NOT.iter().any(|not| name.eq_ignore_ascii_case(not.as_bytes())) && !name.starts_with(b"x-accel-")
}
