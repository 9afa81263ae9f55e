//! Strings that a function parses.

use super::value_error::{ValueError, value_or_report};
use crate::checker::Checker;
use crate::description::{Describe, Description};
use crate::json::Json;
use crate::key::Shape;
use crate::raw::{Directive, Value};

/// A string that `read` parses.
pub(crate) struct ParsedString<V> {
    pub(crate) expected: &'static str,
    pub(crate) type_name: &'static str,
    /// The pattern in the schema, if there is one.
    pub(crate) pattern: Option<&'static str>,
    /// The string that a number or boolean without quotes was meant to be, if that is known.
    pub(crate) bare: Option<fn(&str) -> String>,
    pub(crate) read: fn(&str) -> Result<V, ValueError>,
}

impl<V> Describe for ParsedString<V> {
    fn description(&self) -> Description {
        let schema = self.pattern.map_or_else(|| Json::of_type("string"), Json::pattern);
        Description::new(self.expected, self.type_name, schema)
    }
}

impl<V> Shape for ParsedString<V> {
    type Out = V;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<V> {
        if let Value::Integer(_) | Value::Float | Value::Boolean(_) = directive.value {
            let help =
                self.bare.map(|bare| format!("write \"{}\"", bare(cx.source_map.slice(directive.span))));
            return cx
                .wrong(directive.span, &format!("is {}", directive.type_name()))
                .maybe_help(help)
                .reject(cx);
        }
        let text = cx.text(directive)?;
        value_or_report((self.read)(&text.text), text, directive, cx)
    }
}
