//! `${VAR}`, `${VAR:-default}` and `${file:/path}` inside strings; `$${` is a plain `${`.

use super::{Directive, Span, Table, Text, Texts, Value};
use crate::report::Problem;

/// Where placeholders get their values.
pub(crate) trait Values {
    /// The value of a variable.
    fn variable(&self, name: &str) -> Option<String>;
    /// The text of a file; the error is what to tell.
    fn file(&self, path: &str) -> Result<String, String>;
}

/// Fills the placeholders of every string in the table; what cannot be filled becomes [`Value::Broken`].
pub(crate) fn expand(table: &mut Table, texts: &Texts, values: &dyn Values, problems: &mut Vec<Problem>) {
    for entry in &mut table.entries {
        expand_directive(&mut entry.value, texts, values, problems);
    }
}

fn expand_directive(
    directive: &mut Directive,
    texts: &Texts,
    values: &dyn Values,
    problems: &mut Vec<Problem>,
) {
    match &mut directive.value {
        Value::Text(text) if text.text.contains("${") => match fill(&text.text, values) {
            Ok(filled) => *text = filled,
            Err(fault) => {
                problems.push(fault.told(texts, directive.span));
                directive.value = Value::Broken;
            }
        },
        Value::List(items) => {
            items.iter_mut().for_each(|item| expand_directive(item, texts, values, problems));
        }
        Value::Table(table) => expand(table, texts, values, problems),
        _ => {}
    }
}

/// What is wrong with a placeholder.
struct Fault {
    /// The placeholder as written, to find it in the source.
    written: String,
    message: String,
    expected: &'static str,
    help: Option<String>,
}

fn fill(text: &str, values: &dyn Values) -> Result<Text, Fault> {
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
        let Some((inside, behind)) = after.split_once('}') else {
            return Err(Fault {
                written: format!("${{{after}"),
                message: "`${` without a closing `}`".to_owned(),
                expected: FORMS,
                help: Some("for a literal `${`, write `$${`".to_owned()),
            });
        };
        filled.push_str(&value_of(inside, values)?);
        any = true;
        rest = behind;
    }
    filled.push_str(rest);
    Ok(Text { text: filled, loose: any, secret: any })
}

fn value_of(inside: &str, values: &dyn Values) -> Result<String, Fault> {
    let written = format!("${{{inside}}}");
    if let Some(path) = inside.strip_prefix("file:") {
        let read = values.file(path);
        return read.map_err(|message| Fault {
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
        return Err(Fault {
            message: format!("`{written}` is not a placeholder"),
            written,
            expected: FORMS,
            help: Some("for a literal `${`, write `$${`".to_owned()),
        });
    }
    // As in a shell, `:-` also stands in for an empty variable.
    let value = values.variable(name).filter(|value| default.is_none() || !value.is_empty());
    value.or_else(|| default.map(str::to_owned)).ok_or_else(|| Fault {
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

impl Fault {
    fn told(self, texts: &Texts, span: Span) -> Problem {
        // The same bytes in the source, unless escapes hide them: then the whole string is marked.
        let at = texts.slice(span).find(&self.written);
        let span = at.map_or(span, |at| span.part(at, self.written.len()));
        let problem = Problem::new(self.message).at(texts.place(span)).expected(self.expected);
        match self.help {
            Some(help) => problem.help(help),
            None => problem,
        }
    }
}
