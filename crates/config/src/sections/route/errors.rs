//! Keys about the errors of a route.

use super::RouteDraft;
use crate::checker::Checker;
use crate::key::{DefaultValue, Key, Set};
use crate::raw::Table;
use crate::shape::{ErrorPagesShape, Flag};

pub(super) const ERROR_PAGES: Key<RouteDraft> = Key {
    name: "error_pages",
    brief: "Pages to send in place of Keepwarm's error responses: `{ 404 = FILE, 5xx = FILE }`",
    long: "For a single status, or for all that begin with 4 or 5; the single status comes first. Pages of the listener apply to statuses without a page here. The status and headers such as `Retry-After` and `Allow` stay; the media type is that of the file's extension. Clients that prefer JSON (`Accept`) get Keepwarm's JSON response, unless the page is JSON. Files are read when the configuration is loaded, and must not be larger than 1 MiB. `{ app = NAME, path = PATH }` in place of a file: a GET of that path makes the page ([details](../guide/error-pages.md#pages-of-an-app)).",
    default: DefaultValue::Words("those of the listener"),
    right: "error_pages = { 404 = \"errors/404.html\", 5xx = \"errors/5xx.html\" }",
    wrong: "error_pages = { 200 = \"errors/404.html\" }",
    value: &Set(ErrorPagesShape, |draft: &mut RouteDraft, pages| draft.error_pages = pages),
    ..Key::LIVE
};

pub(super) const INTERCEPT_ERRORS: Key<RouteDraft> = Key {
    name: "intercept_errors",
    brief: "Also replace error responses of the app or upstream by `error_pages`",
    long: "The app's status and its headers stay, except those about its body, such as `Content-Type` and `ETag`. Its body is dropped. Responses for which there is no page, and responses to clients that prefer JSON, are passed on unchanged.",
    default: DefaultValue::Literal("false"),
    right: "intercept_errors = true",
    wrong: "intercept_errors = [404]",
    value: &Set(Flag, |draft: &mut RouteDraft, intercept| draft.route.intercept_errors = intercept),
    ..Key::LIVE
};

/// Only an app or upstream has error responses of its own.
pub(super) fn check(draft: &RouteDraft, table: &Table, cx: &mut Checker<'_>) {
    let Some(entry) = table.entry("intercept_errors").filter(|_| draft.route.intercept_errors) else {
        return;
    };
    if ["files", "respond", "redirect"].iter().any(|end| table.entry(end).is_some()) {
        let message = format!("`{}` has `intercept_errors`, but leads to no app or upstream", cx.name());
        cx.problem(entry.key_span, message).expected("`app` or `upstream` in the same route").report(cx);
    }
}
