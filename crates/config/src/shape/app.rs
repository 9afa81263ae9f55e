//! Values of `[app.NAME]`: entries, environments.

use std::collections::BTreeMap;

use crate::checker::Checker;
use crate::description::{Describe, Description};
use crate::json::Json;
use crate::key::Shape;
use crate::raw::{Directive, Span, Value};

use super::path::path_text;

/// `entry`
pub(crate) struct EntryPoint;

impl Describe for EntryPoint {
    fn description(&self) -> Description {
        Description::new("\"package.module:name\" or the path of a file", "string", Json::of_type("string"))
    }
}

impl Shape for EntryPoint {
    type Out = (String, Span);

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<(String, Span)> {
        let text = cx.text(directive)?;
        let entry = text.text.as_str();
        // The arguments of a factory: `shop:create_app("main", debug=True)`.
        let name =
            entry.strip_suffix(')').and_then(|call| call.split_once('(')).map_or(entry, |(name, _)| name);
        let problem = if entry.is_empty() {
            cx.wrong(directive.span, "is an empty string")
        } else if name.contains(char::is_whitespace) || entry.contains(char::is_control) {
            cx.wrong(directive.span, "contains spaces or control characters")
                .help("`command` takes a whole command line, as a list")
        } else if entry.starts_with(':') || entry.ends_with(':') {
            cx.wrong(directive.span, "has nothing before or after the colon")
        } else {
            return Some((entry.to_owned(), directive.span));
        };
        problem.reject(cx)
    }
}

/// `health`: the target of a request line, a path and optionally a query.
pub(crate) struct RequestPath;

impl Describe for RequestPath {
    fn description(&self) -> Description {
        Description::new("a path that begins with `/`", "URL path", Json::pattern("^/[!-~]*$"))
    }
}

impl Shape for RequestPath {
    type Out = String;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<String> {
        let text = cx.text(directive)?;
        let path = text.text.as_str();
        if path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
            return Some(path.to_owned());
        }
        let quoted = cx.quote(text);
        let lacks_slash =
            !path.starts_with('/') && !text.secret && path.bytes().all(|byte| byte.is_ascii_graphic());
        cx.wrong(directive.span, &format!("is {quoted}"))
            .maybe_help(lacks_slash.then(|| format!("write \"/{path}\"")))
            .reject(cx)
    }
}

/// `env`: variables and their values.
pub(crate) struct EnvTable;

impl Describe for EnvTable {
    fn description(&self) -> Description {
        Description::new(
            "a table of variables with strings as values",
            "table of strings",
            Json::object([("type", Json::text("object")), ("additionalProperties", Json::of_type("string"))]),
        )
    }
}

impl Shape for EnvTable {
    type Out = BTreeMap<String, String>;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<BTreeMap<String, String>> {
        let table = cx.table(directive)?;
        let mut variables = BTreeMap::new();
        let mut whole = true;
        for entry in &table.entries {
            if let Some(fault) = variable_fault(&entry.key) {
                cx.wrong(entry.key_span, &format!("sets `{}`, {fault}", entry.key)).report(cx);
                whole = false;
                continue;
            }
            let value = &entry.value;
            match &value.value {
                Value::String(text) if !text.text.contains('\0') => {
                    variables.insert(entry.key.clone(), text.text.clone());
                }
                Value::Invalid => whole = false,
                _ => {
                    let nul = matches!(value.value, Value::String(_));
                    let what = if nul { "a string with a NUL byte" } else { value.type_name() };
                    let lacks_quotes =
                        matches!(value.value, Value::Integer(_) | Value::Boolean(_) | Value::Float);
                    let help = || format!("write it in quotes: \"{}\"", cx.source_map.slice(value.span));
                    cx.wrong(value.span, &format!("sets `{}` to {what}", entry.key))
                        .maybe_help(lacks_quotes.then(help))
                        .report(cx);
                    whole = false;
                }
            }
        }
        whole.then_some(variables)
    }
}

fn variable_fault(name: &str) -> Option<&'static str> {
    if name.is_empty() || name.contains(['=', '\0']) {
        Some("which is not a valid variable name")
    } else if name.starts_with("KEEPWARM_") {
        Some("but names that begin with KEEPWARM_ are reserved for Keepwarm")
    } else {
        None
    }
}

/// `env_file`: a file of `NAME=value` lines.
pub(crate) struct EnvFile;

impl Describe for EnvFile {
    fn description(&self) -> Description {
        Description::new("the path of a file with NAME=value lines", "path", Json::of_type("string"))
    }
}

impl Shape for EnvFile {
    type Out = BTreeMap<String, String>;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<BTreeMap<String, String>> {
        let path = path_text(directive, cx)?;
        let text = match cx.sources.read(&path).map(String::from_utf8) {
            Ok(Ok(text)) => text,
            unread => {
                let why = match unread {
                    Err(error) => error.to_string(),
                    _ => "it is not UTF-8".to_owned(),
                };
                return cx.wrong(directive.span, &format!("cannot be read: {why} ({path})")).reject(cx);
            }
        };
        let source = cx.source_map.add_secrets(&path, text.clone());
        let mut variables = BTreeMap::new();
        let mut whole = true;
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            let span = Span { source, start, end: start + line.len() };
            start = span.end;
            match env_line(line) {
                Ok(Some((name, value))) => _ = variables.insert(name, value),
                Ok(None) => {}
                Err(fault) => {
                    // The line may contain a secret, so only its number is shown.
                    cx.wrong(span, &format!("has a line that {fault}"))
                        .related(cx.source_map.location(directive.span), "the file is configured here")
                        .report(cx);
                    whole = false;
                }
            }
        }
        whole.then_some(variables)
    }
}

/// One line: `NAME=value`, `export NAME=value`, `NAME="value"`, `NAME='value'`, a comment, or nothing. Values are
/// taken as they are: no escapes, no placeholders.
fn env_line(line: &str) -> Result<Option<(String, String)>, String> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let line = line.strip_prefix("export ").unwrap_or(line).trim_start();
    let Some((name, value)) = line.split_once('=') else {
        return Err("is not NAME=value".to_owned());
    };
    let name = name.trim_end();
    if let Some(fault) = variable_fault(name) {
        return Err(format!("sets `{name}`, {fault}"));
    }
    if name.contains(char::is_whitespace) || value.contains('\0') {
        return Err("is not NAME=value".to_owned());
    }
    let value = value.trim_start();
    for quote in ['"', '\''] {
        if let Some(rest) = value.strip_prefix(quote) {
            return match rest.strip_suffix(quote) {
                Some(inner) => Ok(Some((name.to_owned(), inner.to_owned()))),
                None => Err(format!("begins a value with {quote} but does not end it with {quote}")),
            };
        }
    }
    Ok(Some((name.to_owned(), value.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_an_env_file() {
        let read =
            |line: &str| env_line(line).map(|pair| pair.map(|(name, value)| format!("{name}:{value}")));
        assert_eq!(read("A=b"), Ok(Some("A:b".to_owned())));
        assert_eq!(read("export A = \"b c\" "), Ok(Some("A:b c".to_owned())));
        assert_eq!(read("A='#'"), Ok(Some("A:#".to_owned())));
        assert_eq!(read("A="), Ok(Some("A:".to_owned())));
        assert_eq!(read("A=b=c"), Ok(Some("A:b=c".to_owned())));
        assert_eq!(read("  # A=b"), Ok(None));
        for wrong in ["A", "=b", "A=\"b", "KEEPWARM_FD=3", "A B=c"] {
            assert!(env_line(wrong).is_err(), "{wrong}");
        }
    }
}
