//! A directory that Keepwarm makes.

use std::path::PathBuf;

use super::path::path_text;
use crate::checker::Checker;
use crate::description::{Describe, Description};
use crate::json::Json;
use crate::key::Shape;
use crate::raw::Directive;
use crate::sources::PathKind;

/// A directory, or the path of one that is made, whose parent must exist.
pub(crate) struct OutputDirectory;

impl Describe for OutputDirectory {
    fn description(&self) -> Description {
        Description::new("a directory, or a path in a directory that exists", "path", Json::of_type("string"))
    }
}

impl Shape for OutputDirectory {
    type Out = PathBuf;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<PathBuf> {
        let path = path_text(directive, cx)?;
        match cx.sources.path_kind(&path) {
            PathKind::Directory => Some(path.into()),
            PathKind::File => cx.wrong(directive.span, &format!("is a file ({path})")).reject(cx),
            PathKind::Missing if cx.has_parent(&path) => Some(path.into()),
            PathKind::Missing => cx
                .wrong(directive.span, &format!("is in a directory that does not exist ({path})"))
                .help("create the directory, or correct the path")
                .reject(cx),
        }
    }
}
