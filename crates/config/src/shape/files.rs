//! Values about files that are served: glob patterns, and what depends on them.

use super::Flag;
use super::headers::ResponseHeaders;
use super::text::Strings;
use crate::checker::Checker;
use crate::description::{Describe, Description};
use crate::json::Json;
use crate::key::Shape;
use crate::model::ImmutableNames;
use crate::raw::{Directive, Value};

/// The problem of a glob pattern of file names, if there is one.
pub(crate) fn glob_fault(glob: &str) -> Option<&'static str> {
    if glob.starts_with('/') {
        return Some("contains a pattern that begins with a slash; names are relative to the directory");
    }
    if glob.contains(['[', ']', '{', '}', '\\']) {
        return Some(
            "contains a pattern with brackets, braces or a backslash; only `*`, `**` and `?` are special",
        );
    }
    None
}

fn index_fault(name: &str) -> Option<&'static str> {
    if name.contains('/') {
        return Some("contains a name with a slash");
    }
    name.starts_with('.').then_some("contains a name that begins with a dot, which is never served")
}

/// `index`: names of files.
pub(crate) const INDEX_NAMES: Strings =
    Strings { one: "a file name", many: "file names", may_be_empty: true, fault: index_fault };

const GLOBS: Strings =
    Strings { one: "a glob pattern", many: "glob patterns", may_be_empty: false, fault: glob_fault };

/// `immutable`: true, false, or glob patterns.
pub(crate) struct ImmutableShape;

impl Describe for ImmutableShape {
    fn description(&self) -> Description {
        Description::new(
            format!("true, false, {}", GLOBS.expected()),
            "true or false, string or list of strings",
            Json::any(vec![Flag.schema(), GLOBS.schema()]),
        )
    }
}

impl Shape for ImmutableShape {
    type Out = ImmutableNames;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<ImmutableNames> {
        let typed = cx.typed(directive);
        match typed.value {
            Value::Boolean(true) => Some(ImmutableNames::Fingerprinted),
            Value::Boolean(false) => Some(ImmutableNames::None),
            _ => GLOBS.read(directive, cx).map(ImmutableNames::Matching),
        }
    }
}

/// `file_headers`: glob patterns, each with headers.
pub(crate) struct FileHeaders;

/// Headers that say what is sent of a file.
const OF_THE_FILE: [&str; 5] =
    ["accept-ranges", "content-encoding", "content-range", "etag", "last-modified"];

impl Describe for FileHeaders {
    fn description(&self) -> Description {
        Description::new(
            "a table of glob patterns such as \"*.html\", each with a table of headers",
            "table of tables",
            Json::object([
                ("type", Json::text("object")),
                ("additionalProperties", ResponseHeaders.schema()),
            ]),
        )
    }
}

impl Shape for FileHeaders {
    type Out = Vec<(String, Vec<(String, String)>)>;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<Self::Out> {
        let table = cx.table(directive)?;
        let mut rules = Vec::new();
        for entry in &table.entries {
            let fault =
                if entry.key.is_empty() { Some("contains an empty pattern") } else { glob_fault(&entry.key) };
            if let Some(fault) = fault {
                cx.wrong(entry.key_span, fault).report(cx);
                continue;
            }
            let Some(headers) = ResponseHeaders.read(&entry.value, cx) else { continue };
            if let Some((name, _)) =
                headers.iter().find(|(name, _)| OF_THE_FILE.contains(&name.to_ascii_lowercase().as_str()))
            {
                let what = format!("sets `{name}`, which only Keepwarm sets for a file");
                cx.wrong(entry.value.span, &what).report(cx);
            }
            rules.push((entry.key.clone(), headers));
        }
        Some(rules)
    }
}
