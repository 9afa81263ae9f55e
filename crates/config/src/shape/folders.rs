//! `send_files`: names of folders whose files an app may have sent.

use std::path::PathBuf;

use super::Directory;
use crate::checker::Checker;
use crate::json::Json;
use crate::key::{Describe, Shape};
use crate::raw::Directive;

/// A table of path prefixes, each with a directory.
pub(crate) struct Folders;

impl Describe for Folders {
    fn expected(&self) -> String {
        "a table of path prefixes such as \"/protected/\", each with a directory that exists".to_owned()
    }

    fn type_name(&self) -> String {
        "table of paths".to_owned()
    }

    fn schema(&self) -> Json {
        Json::object([("type", Json::text("object")), ("additionalProperties", Json::of_type("string"))])
    }
}

impl Shape for Folders {
    type Out = Vec<(String, PathBuf)>;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<Vec<(String, PathBuf)>> {
        let table = cx.table(directive)?;
        let mut folders = Vec::new();
        for entry in &table.entries {
            if !(entry.key.starts_with('/') && entry.key.ends_with('/')) {
                let what = format!("contains `{}`, which does not begin and end with a slash", entry.key);
                let problem = cx.wrong(entry.key_span, &what);
                cx.push(problem);
                continue;
            }
            if let Some(folder) = Directory.read(&entry.value, cx) {
                folders.push((entry.key.clone(), folder));
            }
        }
        Some(folders)
    }
}
