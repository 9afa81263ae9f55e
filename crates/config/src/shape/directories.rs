//! `send_files`: directories whose files an app may send.

use std::path::PathBuf;

use super::ExistingPath;
use crate::checker::Checker;
use crate::description::{Describe, Description};
use crate::json::Json;
use crate::key::Shape;
use crate::raw::Directive;

/// A table of path prefixes, each with a directory.
pub(crate) struct DirectoryTable;

impl Describe for DirectoryTable {
    fn description(&self) -> Description {
        Description::new(
            "a table of path prefixes such as \"/protected/\", each with a directory that exists",
            "table of paths",
            Json::object([("type", Json::text("object")), ("additionalProperties", Json::of_type("string"))]),
        )
    }
}

impl Shape for DirectoryTable {
    type Out = Vec<(String, PathBuf)>;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<Vec<(String, PathBuf)>> {
        let table = cx.table(directive)?;
        let mut folders = Vec::new();
        for entry in &table.entries {
            if !(entry.key.starts_with('/') && entry.key.ends_with('/')) {
                let what = format!("contains `{}`, which does not begin and end with a slash", entry.key);
                cx.wrong(entry.key_span, &what).report(cx);
                continue;
            }
            if let Some(folder) = ExistingPath::Directory.read(&entry.value, cx) {
                folders.push((entry.key.clone(), folder));
            }
        }
        Some(folders)
    }
}
