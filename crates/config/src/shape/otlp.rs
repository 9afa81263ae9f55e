//! Values of `[otlp]`.

use std::collections::BTreeMap;

use super::parsed_string::ParsedString;
use super::value_error::ValueError;
use crate::checker::Checker;
use crate::description::{Describe, Description};
use crate::json::Json;
use crate::key::Shape;
use crate::raw::{Directive, Value};

/// A service's name.
pub(crate) const SERVICE_NAME: ParsedString<String> = ParsedString {
    expected: "a name of at most 255 characters",
    type_name: "name",
    pattern: None,
    bare: None,
    read: |text| match text {
        "" => Err(ValueError::new("is an empty string")),
        text if text.chars().count() > 255 => Err(ValueError::new("is too long")),
        text => Ok(text.to_owned()),
    },
};

/// Attributes of a resource, and their values.
pub(crate) struct Attributes;

impl Describe for Attributes {
    fn description(&self) -> Description {
        Description::new(
            "a table of attribute names with strings as values",
            "table of strings",
            Json::object([("type", Json::text("object")), ("additionalProperties", Json::of_type("string"))]),
        )
    }
}

impl Shape for Attributes {
    type Out = BTreeMap<String, String>;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<BTreeMap<String, String>> {
        let table = cx.table(directive)?;
        let mut attributes = BTreeMap::new();
        let mut whole = true;
        for entry in &table.entries {
            let value = &entry.value;
            match &value.value {
                Value::String(_) if entry.key.is_empty() => {
                    cx.wrong(entry.key_span, "contains an attribute without a name").report(cx);
                    whole = false;
                }
                Value::String(text) => _ = attributes.insert(entry.key.clone(), text.text.clone()),
                Value::Invalid => whole = false,
                _ => {
                    let lacks_quotes =
                        matches!(value.value, Value::Integer(_) | Value::Boolean(_) | Value::Float);
                    let help = || format!("write it in quotes: \"{}\"", cx.source_map.slice(value.span));
                    cx.wrong(value.span, &format!("sets `{}` to {}", entry.key, value.type_name()))
                        .maybe_help(lacks_quotes.then(help))
                        .report(cx);
                    whole = false;
                }
            }
        }
        whole.then_some(attributes)
    }
}
