//! `files`: a directory, perhaps with variables in its path.

use super::path::{ExistingPath, path_text};
use super::template::template;
use super::value_error::{ValueError, value_or_report};
use crate::checker::Checker;
use crate::description::{Describe, Description};
use crate::json::Json;
use crate::key::Shape;
use crate::model::{FilesFolder, Template, TemplatePiece, Variable};
use crate::raw::{Directive, Text, Value};
use crate::sources::PathKind;

/// `files`
pub(crate) struct FilesFolderShape;

impl Describe for FilesFolderShape {
    fn description(&self) -> Description {
        Description::new(
            "a directory that exists, perhaps with variables in the names below it",
            "path with variables",
            Json::of_type("string"),
        )
    }
}

impl Shape for FilesFolderShape {
    type Out = FilesFolder;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<FilesFolder> {
        let Value::String(text) = &directive.value else { return cx.wrong_type(directive) };
        if !text.text.contains('$') {
            let path = ExistingPath::Directory.read(directive, cx)?;
            return Some(FilesFolder { path, below: Vec::new() });
        }
        let (fixed, below) = value_or_report(split(&text.text), text, directive, cx)?;
        let fixed =
            Directive { value: Value::String(Text { text: fixed, ..text.clone() }), span: directive.span };
        if below.is_empty() {
            let path = ExistingPath::Directory.read(&fixed, cx)?;
            return Some(FilesFolder { path, below });
        }
        let path = path_text(&fixed, cx)?;
        if cx.sources.path_kind(&path) != PathKind::Directory {
            let what = format!("has variables below `{path}`, which is not a directory");
            return cx.wrong(directive.span, &what).help(super::path::RELATIVE_PATHS).reject(cx);
        }
        Some(FilesFolder { path: path.into(), below })
    }
}

/// The part of the path before the first name with a variable, and the names from there on.
fn split(text: &str) -> Result<(String, Vec<Template>), ValueError> {
    let template = template(text)?;
    if let Some(variable) = template.variables().find(|variable| has_slashes(variable)) {
        let name = super::template::text_of(&Template(vec![TemplatePiece::Variable(variable.clone())]));
        return Err(ValueError::new(format!(
            "contains `{name}`, which is more than the name of a directory"
        ))
        .help("`$1` is what the first `*` of `path` stands for"));
    }
    let (fixed, rest) = match template.0.as_slice() {
        [TemplatePiece::Text(start), rest @ ..] => (start.as_str(), rest),
        rest => ("", rest),
    };
    if rest.is_empty() {
        return Ok((fixed.to_owned(), Vec::new()));
    }
    let (folder, begin) = fixed.rsplit_once('/').unwrap_or(("", fixed));
    if folder.is_empty() {
        return Err(ValueError::new(format!(
            "is `{text}`, which has no fixed directory before its variables"
        ))
        .help("write one, for example \"/srv/sites/$host_name\""));
    }
    let mut names = vec![Template::default()];
    let begin = TemplatePiece::Text(begin.to_owned());
    for piece in [&begin].into_iter().chain(rest) {
        match piece {
            TemplatePiece::Variable(_) => push(&mut names, piece.clone()),
            TemplatePiece::Text(text) => {
                for (index, part) in text.split('/').enumerate() {
                    if index > 0 {
                        names.push(Template::default());
                    }
                    if !part.is_empty() {
                        push(&mut names, TemplatePiece::Text(part.to_owned()));
                    }
                }
            }
        }
    }
    names.retain(|name| !name.0.is_empty());
    let is_dots = |name: &Template| matches!(name.0.as_slice(), [TemplatePiece::Text(text)] if text == "." || text == "..");
    match names.iter().any(is_dots) {
        true => Err(ValueError::new(format!("is `{text}`, which has `.` or `..` after a variable"))),
        false => Ok((folder.to_owned(), names)),
    }
}

fn push(names: &mut [Template], piece: TemplatePiece) {
    if let Some(last) = names.last_mut() {
        last.0.push(piece);
    }
}

fn has_slashes(variable: &Variable) -> bool {
    matches!(variable, Variable::Path | Variable::Query | Variable::Args)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_in_names_below_a_fixed_directory() {
        let text = |text: &str| TemplatePiece::Text(text.to_owned());
        let of = TemplatePiece::Variable;
        let host = || of(Variable::HostName);
        for (path, folder, below) in [
            ("/srv/sites/$host_name", "/srv/sites", vec![vec![host()]]),
            (
                "sites/a-$host_name.x/public/",
                "sites",
                vec![vec![text("a-"), host(), text(".x")], vec![text("public")]],
            ),
            ("/srv/$1/$2", "/srv", vec![vec![of(Variable::Capture(1))], vec![of(Variable::Capture(2))]]),
            ("/srv/$$x", "/srv/$x", vec![]),
        ] {
            let below = below.into_iter().map(Template).collect();
            assert_eq!(split(path).unwrap(), (folder.to_owned(), below), "{path}");
        }
        for wrong in ["$host_name", "/$host_name", "/srv/$path", "/srv/$1/../x", "/srv/$hots", "/srv$query"] {
            assert!(split(wrong).is_err(), "{wrong}");
        }
    }
}
