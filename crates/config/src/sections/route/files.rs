//! Keys of a route that serves files.

use super::RouteDraft;
use crate::checker::Checker;
use crate::key::{DefaultValue, Key, Set};
use crate::raw::Table;
use crate::shape::{FileHeaders, Flag, INDEX_NAMES, ImmutableShape};

pub(super) const INDEX: Key<RouteDraft> = Key {
    name: "index",
    brief: "Names of files that a request for a directory stands for",
    long: "Tried in this order, with `files` and `try_files`. An empty list: a directory has no index.",
    default: DefaultValue::Literal("\"index.html\""),
    right: "index = [\"index.html\", \"index.htm\"]",
    wrong: "index = \"docs/index.html\"",
    value: &Set(INDEX_NAMES, |draft: &mut RouteDraft, index| draft.route.file_options.index = index),
    ..Key::LIVE
};

pub(super) const LISTING: Key<RouteDraft> = Key {
    name: "listing",
    brief: "List directories that have no index",
    long: "As HTML, or as JSON for clients that prefer it (`Accept: application/json`). Left out: names that begin with a dot, scripts, whatever an `.htaccess` denies, links out of the directory. With `try_files`, a directory that exists is listed instead of being passed to the app. Up to 10,000 entries are shown.",
    default: DefaultValue::Literal("false"),
    right: "listing = true",
    wrong: "listing = \"json\"",
    value: &Set(Flag, |draft: &mut RouteDraft, listing| draft.route.file_options.listing = listing),
    ..Key::LIVE
};

pub(super) const IMMUTABLE: Key<RouteDraft> = Key {
    name: "immutable",
    brief: "Files that clients may keep for a year without asking again",
    long: "Sends `Cache-Control: public, max-age=31536000, immutable`. `true`: files whose name has a fingerprint after a `.`, `-` or `_` and before its extension: 8 to 64 hexadecimal digits with a letter and a digit among them (`app-3f2a91bc.js`), or 8 to 64 letters and digits with an upper-case letter, a lower-case letter and a digit (`index.BxT3kd9a.css`). A list: files that match one of these patterns, as in `file_headers`, for fingerprints of another form. Off by default, because a client that has kept a file for a year cannot be told otherwise.",
    default: DefaultValue::Literal("false"),
    right: "immutable = true",
    wrong: "immutable = 31536000",
    value: &Set(ImmutableShape, |draft: &mut RouteDraft, names| draft.route.file_options.immutable = names),
    ..Key::LIVE
};

pub(super) const FILE_HEADERS: Key<RouteDraft> = Key {
    name: "file_headers",
    brief: "Headers of files by name: `{ \"*.html\" = { Cache-Control = \"no-cache\" } }`",
    long: "With `files` and `try_files`. `*` stands for any characters but a slash, `**` for any characters, `?` for one character but a slash. A pattern without a slash is compared with the last part of the name, one with a slash with the whole name relative to the directory. If several patterns match, their headers add up; a later pattern replaces headers of the same name. A `Content-Type` replaces the type by extension. `headers` of the route is applied afterwards.",
    default: DefaultValue::Words("none"),
    right: "file_headers = { \"*.html\" = { Cache-Control = \"no-cache\" } }",
    wrong: "file_headers = { \"*.{js,css}\" = { Cache-Control = \"no-cache\" } }",
    value: &Set(FileHeaders, |draft: &mut RouteDraft, headers| draft.route.file_options.headers = headers),
    ..Key::LIVE
};

/// Options about files need files.
pub(super) fn check(table: &Table, cx: &mut Checker<'_>) {
    if table.entry("files").is_some() || table.entry("try_files").is_some() {
        return;
    }
    for key in ["index", "listing", "immutable", "file_headers"] {
        let Some(entry) = table.entry(key) else { continue };
        let message = format!("`{}` has `{key}`, but neither `files` nor `try_files`", cx.name());
        cx.problem(entry.key_span, message).expected("`files` or `try_files` in the same route").report(cx);
    }
}
