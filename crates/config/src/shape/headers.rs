//! Headers that the configuration adds to responses.

use super::{Strings, field_name_fault, field_value_is_valid};
use crate::checker::Checker;
use crate::description::{Describe, Description};
use crate::json::Json;
use crate::key::{DefaultValue, Key, Section, Set, Shape, Subtable};
use crate::model::HeaderRules;
use crate::raw::Directive;

/// Headers and their values, in the order of the file.
pub(crate) struct ResponseHeaders;

impl Describe for ResponseHeaders {
    fn description(&self) -> Description {
        let value = Json::one_or_many(Json::of_type("string"));
        Description::new(
            "a table of header names, each with a string or a list of strings",
            "table of strings",
            Json::object([("type", Json::text("object")), ("additionalProperties", value)]),
        )
    }
}

impl Shape for ResponseHeaders {
    type Out = Vec<(String, String)>;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<Vec<(String, String)>> {
        let table = cx.table(directive)?;
        let mut fields = Vec::new();
        for entry in &table.entries {
            if let Some(fault) = field_name_fault(&entry.key) {
                cx.wrong(entry.key_span, &format!("contains `{}`, which {fault}", entry.key)).report(cx);
                continue;
            }
            for item in cx.items(&entry.value).iter() {
                let Some(value) = cx.text(item) else { continue };
                if field_value_is_valid(&value.text) {
                    fields.push((entry.key.clone(), value.text.clone()));
                    continue;
                }
                let what = format!(
                    "sets `{}` to a value with control characters, or with spaces at its ends",
                    entry.key
                );
                cx.wrong(item.span, &what).report(cx);
            }
        }
        Some(fields)
    }
}

/// `headers` of a route.
pub(crate) static HEADER_RULES: Section<HeaderRules> = Section {
    keys: &[
        Key {
            name: "set",
            brief: "Headers to set; each replaces every header of that name",
            long: "A header whose value is a list is sent once for each value. Applied after `remove`. Headers that frame the message or manage the connection are set only by Keepwarm and are rejected here.",
            default: DefaultValue::Words("none"),
            right: "set = { X-Frame-Options = \"DENY\" }",
            wrong: "set = { Transfer-Encoding = \"chunked\" }",
            value: &Set(ResponseHeaders, |rules: &mut HeaderRules, set| rules.set = set),
            ..Key::LIVE
        },
        Key {
            name: "remove",
            brief: "Headers to remove from the response",
            default: DefaultValue::Literal("[]"),
            right: "remove = [\"X-Powered-By\"]",
            wrong: "remove = [\"X Powered By\"]",
            value: &Set(
                Strings {
                    one: "a header name",
                    many: "header names",
                    may_be_empty: true,
                    fault: field_name_fault,
                },
                |rules: &mut HeaderRules, names: Vec<String>| {
                    rules.remove = names.iter().map(|name| name.to_ascii_lowercase()).collect();
                },
            ),
            ..Key::LIVE
        },
    ],
};

/// `headers` of a route as a field of `T`.
pub(crate) const fn header_rules<T>(field: fn(&mut T) -> &mut HeaderRules) -> Subtable<T, HeaderRules> {
    Subtable(&HEADER_RULES, field)
}
