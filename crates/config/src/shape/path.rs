//! Paths, resolved against the directory of the main configuration file.

use std::path::PathBuf;

use crate::checker::Checker;
use crate::description::{Describe, Description};
use crate::json::Json;
use crate::key::Shape;
use crate::raw::Directive;
use crate::sources::PathKind;

/// A file to write, whose directory must exist.
pub(crate) struct OutputFile;

/// The path of something that must exist.
pub(crate) enum ExistingPath {
    Directory,
    File,
}

/// A program: the path of a file that must exist, or a name that is looked up in `PATH` at start.
pub(crate) struct Executable;

impl Describe for OutputFile {
    fn description(&self) -> Description {
        Description::new("a path in a directory that exists", "path", Json::of_type("string"))
    }
}

impl Shape for OutputFile {
    type Out = PathBuf;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<PathBuf> {
        let path = path_text(directive, cx)?;
        if cx.sources.path_kind(&path) == PathKind::Directory {
            return cx.wrong(directive.span, "is a directory").reject(cx);
        }
        if !cx.has_parent(&path) {
            return cx
                .wrong(directive.span, &format!("is in a directory that does not exist ({path})"))
                .help("create the directory, or correct the path")
                .reject(cx);
        }
        Some(path.into())
    }
}

impl Describe for ExistingPath {
    fn description(&self) -> Description {
        let expected = match self {
            ExistingPath::Directory => "a directory that exists",
            ExistingPath::File => "the path of a file that exists",
        };
        Description::new(expected, "path", Json::of_type("string"))
    }
}

impl Shape for ExistingPath {
    type Out = PathBuf;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<PathBuf> {
        let path = path_text(directive, cx)?;
        let fault = match (self, cx.sources.path_kind(&path)) {
            (ExistingPath::Directory, PathKind::Directory) | (ExistingPath::File, PathKind::File) => {
                return Some(path.into());
            }
            (_, PathKind::File) => "is a file, not a directory",
            (_, PathKind::Directory) => "is a directory",
            (_, PathKind::Missing) => "does not exist",
        };
        cx.wrong(directive.span, &format!("{fault} ({path})")).help(RELATIVE_PATHS).reject(cx)
    }
}

impl Describe for Executable {
    fn description(&self) -> Description {
        Description::new(
            "the path of a program that exists, or a name to look up in PATH",
            "path or name",
            Json::of_type("string"),
        )
    }
}

impl Shape for Executable {
    type Out = PathBuf;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<PathBuf> {
        let text = cx.text(directive)?;
        if !text.text.is_empty() && !text.text.contains(['/', '\0']) {
            return Some(text.text.clone().into());
        }
        let path = path_text(directive, cx)?;
        if cx.sources.path_kind(&path) == PathKind::File {
            return Some(path.into());
        }
        cx.wrong(directive.span, &format!("does not exist ({path})")).help(RELATIVE_PATHS).reject(cx)
    }
}

pub(super) const RELATIVE_PATHS: &str =
    "relative paths are resolved against the directory of the main configuration file";

/// A valid path (not empty, without NUL), resolved against the directory of the configuration.
pub(super) fn path_text(directive: &Directive, cx: &mut Checker<'_>) -> Option<String> {
    let text = cx.text(directive)?;
    let fault = if text.text.is_empty() {
        "is an empty string"
    } else if text.text.contains('\0') {
        "contains a NUL byte"
    } else if text.text.starts_with("~/") {
        "begins with `~`, which only a shell expands"
    } else {
        return Some(cx.path(&text.text));
    };
    cx.wrong(directive.span, fault).reject(cx)
}
