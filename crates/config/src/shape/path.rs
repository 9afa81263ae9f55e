//! Paths, from the directory of the main configuration file.

use std::path::PathBuf;

use crate::checker::Checker;
use crate::json::Json;
use crate::key::{Describe, Shape};
use crate::raw::Directive;
use crate::sources::Found;

/// A file to write: the directory it stands in must be there.
pub(crate) struct InDirectory;

/// A directory that must be there.
pub(crate) struct Directory;

/// A file that must be there.
pub(crate) struct ExistingFile;

/// A program: a path to a file that must be there, or a name looked up in `PATH` when the time comes.
pub(crate) struct Runnable;

impl Describe for InDirectory {
    fn expected(&self) -> String {
        "a path in a directory that exists".to_owned()
    }

    fn type_name(&self) -> String {
        "path".to_owned()
    }

    fn schema(&self) -> Json {
        Json::of_type("string")
    }
}

impl Shape for InDirectory {
    type Out = PathBuf;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<PathBuf> {
        let path = path_text(directive, cx)?;
        if cx.sources.look(&path) == Found::Directory {
            let problem = cx.wrong(directive.span, "is a directory");
            cx.push(problem);
            return None;
        }
        if !cx.has_parent(&path) {
            let problem = cx
                .wrong(directive.span, &format!("is in a directory that does not exist ({path})"))
                .help("create the directory, or correct the path");
            cx.push(problem);
            return None;
        }
        Some(path.into())
    }
}

impl Describe for Directory {
    fn expected(&self) -> String {
        "a directory that exists".to_owned()
    }

    fn type_name(&self) -> String {
        "path".to_owned()
    }

    fn schema(&self) -> Json {
        Json::of_type("string")
    }
}

impl Shape for Directory {
    type Out = PathBuf;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<PathBuf> {
        existing(directive, cx, Found::Directory)
    }
}

impl Describe for ExistingFile {
    fn expected(&self) -> String {
        "the path of a file that exists".to_owned()
    }

    fn type_name(&self) -> String {
        "path".to_owned()
    }

    fn schema(&self) -> Json {
        Json::of_type("string")
    }
}

impl Shape for ExistingFile {
    type Out = PathBuf;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<PathBuf> {
        existing(directive, cx, Found::File)
    }
}

/// A path of what must be there, a file or a directory.
fn existing(directive: &Directive, cx: &mut Checker<'_>, wanted: Found) -> Option<PathBuf> {
    let path = path_text(directive, cx)?;
    let what = match cx.sources.look(&path) {
        found if found == wanted => return Some(path.into()),
        Found::File => format!("is a file, not a directory ({path})"),
        Found::Directory => format!("is a directory ({path})"),
        Found::Nothing => format!("does not exist ({path})"),
    };
    let problem = cx
        .wrong(directive.span, &what)
        .help("relative paths are resolved against the directory of the main configuration file");
    cx.push(problem);
    None
}

impl Describe for Runnable {
    fn expected(&self) -> String {
        "the path of a program that exists, or a name to look up in PATH".to_owned()
    }

    fn type_name(&self) -> String {
        "path or name".to_owned()
    }

    fn schema(&self) -> Json {
        Json::of_type("string")
    }
}

impl Shape for Runnable {
    type Out = PathBuf;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<PathBuf> {
        let text = cx.text(directive)?;
        if !text.text.is_empty() && !text.text.contains(['/', '\0']) {
            return Some(text.text.clone().into());
        }
        let path = path_text(directive, cx)?;
        if cx.sources.look(&path) == Found::File {
            return Some(path.into());
        }
        let problem = cx
            .wrong(directive.span, &format!("does not exist ({path})"))
            .help("relative paths are resolved against the directory of the main configuration file");
        cx.push(problem);
        None
    }
}

/// A path that can be one: not empty, no NUL; joined to the configuration's directory.
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
    let problem = cx.wrong(directive.span, fault);
    cx.push(problem);
    None
}
