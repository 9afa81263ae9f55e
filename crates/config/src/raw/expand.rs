//! `${VAR}`, `${VAR:-default}` and `${file:/path}` in strings; `$${` is a literal `${`.

use super::{Directive, SourceMap, Span, Table, Text, Value};
use crate::report::Problem;

/// The values of placeholders.
pub(crate) trait PlaceholderValues {
    /// The value of a variable.
    fn variable(&self, name: &str) -> Option<String>;
    /// The text of a file, or an error message.
    fn file(&self, path: &str) -> Result<String, String>;
}

/// Replaces the placeholders in every string of the table; a string with an invalid one becomes [`Value::Invalid`].
pub(crate) fn expand(
    table: &mut Table,
    source_map: &SourceMap,
    values: &dyn PlaceholderValues,
    problems: &mut Vec<Problem>,
) {
    for entry in &mut table.entries {
        expand_directive(&mut entry.value, source_map, values, problems);
    }
}

fn expand_directive(
    directive: &mut Directive,
    source_map: &SourceMap,
    values: &dyn PlaceholderValues,
    problems: &mut Vec<Problem>,
) {
    match &mut directive.value {
        Value::String(text) if text.text.contains("${") => match fill(&text.text, values) {
            Ok(filled) => *text = filled,
            Err(fault) => {
                problems.push(fault.problem(source_map, directive.span));
                directive.value = Value::Invalid;
            }
        },
        Value::Array(items) => {
            items.iter_mut().for_each(|item| expand_directive(item, source_map, values, problems));
        }
        Value::Table(table) => expand(table, source_map, values, problems),
        _ => {}
    }
}

/// An error in a placeholder.
struct PlaceholderError {
    /// The placeholder as written, to find it in the source.
    written: String,
    message: String,
    expected: &'static str,
    help: Option<String>,
}

fn fill(text: &str, values: &dyn PlaceholderValues) -> Result<Text, PlaceholderError> {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    let mut any = false;
    while let Some((before, after)) = rest.split_once("${") {
        if let Some(before) = before.strip_suffix('$') {
            filled.push_str(before);
            filled.push_str("${");
            rest = after;
            continue;
        }
        filled.push_str(before);
        let Some((inside, after_brace)) = after.split_once('}') else {
            return Err(PlaceholderError {
                written: format!("${{{after}"),
                message: "`${` without a closing `}`".to_owned(),
                expected: FORMS,
                help: Some("for a literal `${`, write `$${`".to_owned()),
            });
        };
        filled.push_str(&value_of(inside, values)?);
        any = true;
        rest = after_brace;
    }
    filled.push_str(rest);
    Ok(Text { text: filled, untyped: any, secret: any })
}

fn value_of(inside: &str, values: &dyn PlaceholderValues) -> Result<String, PlaceholderError> {
    let written = format!("${{{inside}}}");
    if let Some(path) = inside.strip_prefix("file:") {
        let read = values.file(path);
        return read.map_err(|message| PlaceholderError {
            message: format!("`{written}` cannot be read: {message}"),
            written,
            expected: "a file this user can read",
            help: None,
        });
    }
    let (name, default) = match inside.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inside, None),
    };
    if !is_variable(name) {
        return Err(PlaceholderError {
            message: format!("`{written}` is not a placeholder"),
            written,
            expected: FORMS,
            help: Some("for a literal `${`, write `$${`".to_owned()),
        });
    }
    // As in a shell, `:-` also replaces an empty variable.
    let value = values.variable(name).filter(|value| default.is_none() || !value.is_empty());
    value.or_else(|| default.map(str::to_owned)).ok_or_else(|| PlaceholderError {
        message: format!("the variable `{name}` is not set"),
        help: Some(format!("set it, or give a default: `${{{name}:-…}}`")),
        written,
        expected: "a variable in Keepwarm's environment",
    })
}

const FORMS: &str = "`${VARIABLE}`, `${VARIABLE:-default}` or `${file:/path}`";

fn is_variable(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

impl PlaceholderError {
    fn problem(self, source_map: &SourceMap, span: Span) -> Problem {
        // The placeholder in the source; the whole string if escapes make it look different there.
        let at = source_map.slice(span).find(&self.written);
        let span = at.map_or(span, |at| span.part(at, self.written.len()));
        let problem = Problem::new(self.message).at(source_map.location(span)).expected(self.expected);
        match self.help {
            Some(help) => problem.help(help),
            None => problem,
        }
    }
}
