//! `error_pages`: statuses, each with a file or with the path of an app.

use std::path::PathBuf;

use super::path::{RELATIVE_PATHS, path_text};
use super::{RequestPath, SectionName, is_table_like};
use crate::checker::Checker;
use crate::description::{Describe, Description};
use crate::json::Json;
use crate::key::{DefaultValue, Key, Section, Set, Shape};
use crate::model::StatusRange;
use crate::raw::{Directive, Span};

/// Bytes of a page: it is held in memory, and written whole.
const MAX_LENGTH: usize = 1 << 20;

/// A table of statuses and classes, each with a page. Single statuses come first.
pub(crate) struct ErrorPagesShape;

/// An item of `error_pages` before the checks of the whole file.
pub(crate) struct ErrorPageDraft {
    pub(crate) statuses: StatusRange,
    pub(crate) source: PageSourceDraft,
}

/// Where a page comes from.
pub(crate) enum PageSourceDraft {
    File(PathBuf),
    App(PageAppDraft),
}

/// The path of an app or upstream.
#[derive(Default)]
pub(crate) struct PageAppDraft {
    pub(crate) app: Option<(String, Span)>,
    pub(crate) upstream: Option<(String, Span)>,
    pub(crate) path: String,
}

/// Not in the list of all keys, where a status has no name of its own; `error_pages` describes them.
static PAGE_APP: Section<PageAppDraft> = Section {
    keys: &[
        Key {
            name: "app",
            brief: "Name of the `[app.NAME]` that makes the page",
            default: DefaultValue::Words("none"),
            right: "app = \"shop\"",
            wrong: "app = \"\"",
            value: &Set(SectionName("app"), |draft: &mut PageAppDraft, app| draft.app = Some(app)),
            ..Key::LIVE
        },
        Key {
            name: "upstream",
            brief: "Name of the `[upstream.NAME]` that makes the page",
            default: DefaultValue::Words("none"),
            right: "upstream = \"search\"",
            wrong: "upstream = \"\"",
            value: &Set(SectionName("upstream"), |draft: &mut PageAppDraft, to| draft.upstream = Some(to)),
            ..Key::LIVE
        },
        Key {
            name: "path",
            brief: "Path, and perhaps the query, of the requests to it",
            default: DefaultValue::Required,
            right: "path = \"/errors/404\"",
            wrong: "path = \"errors/404\"",
            value: &Set(RequestPath, |draft: &mut PageAppDraft, path| draft.path = path),
            ..Key::LIVE
        },
    ],
};

fn page_app(directive: &Directive, cx: &mut Checker<'_>) -> Option<PageAppDraft> {
    let table = cx.table(directive)?;
    let mut draft = PageAppDraft::default();
    PAGE_APP.read(&mut draft, &table, cx);
    match (table.entry("app"), table.entry("upstream")) {
        (Some(app), Some(upstream)) => cx.both(app, upstream).expected("exactly one of them").report(cx),
        (None, None) => cx.missing(directive.span, "app = \"shop\"").report(cx),
        _ => {}
    }
    if table.entry("path").is_none() {
        cx.missing(directive.span, "path = \"/errors/404\"").report(cx);
    }
    Some(draft)
}

impl Describe for ErrorPagesShape {
    fn description(&self) -> Description {
        Description::new(
            "a table of statuses from 400 to 599, \"4xx\" and \"5xx\", each with a file that this user can read, or with { app, path } or { upstream, path }",
            "table of paths",
            Json::object([
                ("type", Json::text("object")),
                ("additionalProperties", Json::any(vec![Json::of_type("string"), PAGE_APP.schema()])),
            ]),
        )
    }
}

impl Shape for ErrorPagesShape {
    type Out = Vec<ErrorPageDraft>;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<Vec<ErrorPageDraft>> {
        let table = cx.table(directive)?;
        let mut pages = Vec::new();
        for entry in &table.entries {
            let Some(statuses) = statuses(&entry.key) else {
                let what = format!("contains `{}`, which is not the status of an error", entry.key);
                cx.wrong(entry.key_span, &what).report(cx);
                continue;
            };
            let source = match is_table_like(&entry.value) {
                true => page_app(&entry.value, cx).map(PageSourceDraft::App),
                false => page(&entry.value, cx).map(|file| PageSourceDraft::File(file.into())),
            };
            pages.extend(source.map(|source| ErrorPageDraft { statuses, source }));
        }
        pages.sort_by_key(|page| (page.statuses.first != page.statuses.last, page.statuses.first));
        Some(pages)
    }
}

fn statuses(text: &str) -> Option<StatusRange> {
    match text {
        "4xx" => Some(StatusRange { first: 400, last: 499 }),
        "5xx" => Some(StatusRange { first: 500, last: 599 }),
        // "+404" and "0404" are numbers, too.
        _ if text.len() != 3 || !text.bytes().all(|byte| byte.is_ascii_digit()) => None,
        _ => {
            let status = text.parse().ok().filter(|status| (400..=599).contains(status))?;
            Some(StatusRange { first: status, last: status })
        }
    }
}

fn page(directive: &Directive, cx: &mut Checker<'_>) -> Option<String> {
    let path = path_text(directive, cx)?;
    let fault = match cx.sources.read(&path) {
        Ok(bytes) if bytes.is_empty() => "is an empty file".to_owned(),
        Ok(bytes) if bytes.len() > MAX_LENGTH => "is a file of more than 1 MiB".to_owned(),
        Ok(_) => return Some(path),
        Err(error) => {
            let what = format!("cannot be read: {error} ({path})");
            return cx.wrong(directive.span, &what).help(RELATIVE_PATHS).reject(cx);
        }
    };
    cx.wrong(directive.span, &format!("{fault} ({path})")).reject(cx)
}
