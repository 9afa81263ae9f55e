//! Error pages of the operator's own, in place of Keepwarm's short ones and, where a route says so, of those of apps.
//!
//! They are read with the configuration: a response needs no file, so that no error page can fail or lead to another.

use std::ops::RangeInclusive;

use keepwarm_http1::{AppFields, BadField, RequestHead};

use crate::{Exchange, prefers_json};

/// Pages by status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorPages {
    /// In order of precedence.
    pages: Vec<(RangeInclusive<u16>, ErrorPage)>,
}

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
    pub fn new(pages: Vec<(RangeInclusive<u16>, ErrorPage)>) -> Self {
        Self { pages }
    }

    /// The page for a status and a client. A client that prefers JSON is a program: it gets no page of another type.
    pub(crate) fn page(&self, status: u16, head: &RequestHead) -> Option<&ErrorPage> {
        let (_, page) = self.pages.iter().find(|(statuses, _)| statuses.contains(&status))?;
        (page.is_json() || !prefers_json(head)).then_some(page)
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
    pub(crate) fn head_with_page<'a>(
        &mut self,
        status: u16,
        close: bool,
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone,
    ) -> Option<Result<AppFields, BadField>> {
        if self.responded() {
            return None;
        }
        let pages = self.request().notes.routed.error_pages.clone()?;
        let page = pages.page(status, &self.request().head)?;
        let length = page.body.len().to_string();
        let ours: [(&[u8], &[u8]); 2] =
            [(b"Content-Type", page.content_type.as_bytes()), (b"Content-Length", length.as_bytes())];
        let of_the_body = |name: &[u8]| OF_THE_BODY.iter().any(|of| name.eq_ignore_ascii_case(of.as_bytes()));
        // Not `filter`: the fields' lifetime is shortened to that of ours on the way.
        let kept = fields.filter_map(|(name, value)| (!of_the_body(name)).then_some((name, value)));
        let begun = self.plain_head(status, None, close, kept.chain(ours));
        if begun.is_ok() {
            self.data(&page.body);
            self.request_mut().notes.routed.body_is_replaced = true;
        }
        Some(begun)
    }
}
