//! `error_pages`: statuses, each with a file.

use super::path::{RELATIVE_PATHS, path_text};
use crate::checker::Checker;
use crate::description::{Describe, Description};
use crate::json::Json;
use crate::key::Shape;
use crate::model::{ErrorPage, StatusRange};
use crate::raw::Directive;

/// Bytes of a page: it is held in memory, and written whole.
const MAX_LENGTH: usize = 1 << 20;

/// A table of statuses and classes, each with a file. Single statuses come first.
pub(crate) struct ErrorPagesShape;

impl Describe for ErrorPagesShape {
    fn description(&self) -> Description {
        Description::new(
            "a table of statuses from 400 to 599, \"4xx\" and \"5xx\", each with a file that this user can read",
            "table of paths",
            Json::object([("type", Json::text("object")), ("additionalProperties", Json::of_type("string"))]),
        )
    }
}

impl Shape for ErrorPagesShape {
    type Out = Vec<ErrorPage>;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<Vec<ErrorPage>> {
        let table = cx.table(directive)?;
        let mut pages = Vec::new();
        for entry in &table.entries {
            let Some(statuses) = statuses(&entry.key) else {
                let what = format!("contains `{}`, which is not the status of an error", entry.key);
                cx.wrong(entry.key_span, &what).report(cx);
                continue;
            };
            if let Some(file) = page(&entry.value, cx) {
                pages.push(ErrorPage { statuses, file: file.into() });
            }
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
