//! `[map.NAME]`: what is looked up, and the values.

use std::collections::HashMap;

use super::ParsedString;
use super::pattern::value_pattern;
use super::template::{template, template_without_captures};
use super::value_error::{ValueError, value_or_report};
use crate::checker::Checker;
use crate::description::{Describe, Description};
use crate::json::Json;
use crate::key::Shape;
use crate::model::{Template, ValuePattern};
use crate::raw::{Directive, Span};

/// `source`
pub(crate) const MAP_SOURCE: ParsedString<Template> = ParsedString {
    expected: "a text with variables",
    type_name: "string with variables",
    pattern: Some("[$]"),
    bare: None,
    read: source,
};

fn source(text: &str) -> Result<Template, ValueError> {
    let template = template_without_captures(text, "a map")?;
    match template.variables().count() {
        1.. => Ok(template),
        0 => Err(ValueError::new(format!("is `{text}`, which has no variable"))
            .help("the text that is looked up depends on the request, for example \"$host_name\"")),
    }
}

/// `default`
pub(crate) const MAP_DEFAULT: ParsedString<Template> = ParsedString {
    expected: "a string with variables, without control characters",
    type_name: "string with variables",
    pattern: None,
    bare: None,
    read: |text| plain(text).and_then(|()| template_without_captures(text, "a default")),
};

/// Values go into headers, too.
fn plain(text: &str) -> Result<(), ValueError> {
    match text.contains(char::is_control) {
        true => Err(ValueError::new("contains control characters")),
        false => Ok(()),
    }
}

/// `values`: patterns, each with a value and its span.
pub(crate) struct MapValues;

impl Describe for MapValues {
    fn description(&self) -> Description {
        Description::new(
            "a table of patterns, each with a string that can have variables",
            "table of strings",
            Json::object([("type", Json::text("object")), ("additionalProperties", Json::of_type("string"))]),
        )
    }
}

impl Shape for MapValues {
    type Out = Vec<(ValuePattern, Template, Span)>;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<Self::Out> {
        let table = cx.table(directive)?;
        let mut values = Vec::with_capacity(table.entries.len());
        // Case of ASCII letters does not matter, except in regular expressions.
        let mut known: HashMap<String, Span> = HashMap::with_capacity(table.entries.len());
        for entry in &table.entries {
            let pattern = match pattern(&entry.key) {
                Ok(pattern) => pattern,
                Err(error) => {
                    let what = format!("has a key that {}", error.what);
                    cx.wrong(entry.key_span, &what).maybe_help(error.help).report(cx);
                    continue;
                }
            };
            let folded = match pattern {
                ValuePattern::Exact(_) | ValuePattern::Glob(_) => entry.key.to_ascii_lowercase(),
                ValuePattern::Regex(_) => entry.key.clone(),
            };
            if let Some(first) = known.insert(folded, entry.key_span) {
                let what = format!("has `{}` twice: case of letters does not matter", entry.key);
                let first = cx.source_map.location(first);
                cx.wrong(entry.key_span, &what).related(first, "the other one").report(cx);
                continue;
            }
            let Some(text) = cx.text(&entry.value) else { continue };
            let value = value_or_report(value(&text.text, &pattern), text, &entry.value, cx);
            values.extend(value.map(|value| (pattern, value, entry.value.span)));
        }
        Some(values)
    }
}

fn pattern(key: &str) -> Result<ValuePattern, ValueError> {
    if key.starts_with('!') {
        return Err(ValueError::new(format!("is `{key}`, and cannot be negated"))
            .help("give the others as `default`, or write a regular expression: \"~^!\""));
    }
    value_pattern(key)
}

/// The value of a pattern, whose `*` or groups are `$1` to `$9`.
fn value(text: &str, pattern: &ValuePattern) -> Result<Template, ValueError> {
    plain(text)?;
    let template = template(text)?;
    let (used, known) = (template.captures(), pattern.captures());
    match usize::from(used) > known {
        true => Err(ValueError::new(format!("contains `${used}`, but its key has {known} `*` or groups"))
            .help("for a dollar sign, write `$$`")),
        false => Ok(template),
    }
}
