//! Headers that the configuration adds to responses.

use super::template::template;
use super::{Strings, field_name_fault, field_value_is_valid};
use crate::checker::Checker;
use crate::description::{Describe, Description};
use crate::json::Json;
use crate::key::{DefaultValue, Key, Section, Set, Shape, Subtable};
use crate::model::{HeaderRules, Template};
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

/// Headers and their values with variables, in the order of the file.
pub(crate) struct HeaderTemplates;

impl Describe for HeaderTemplates {
    fn description(&self) -> Description {
        ResponseHeaders.description()
    }
}

impl Shape for HeaderTemplates {
    type Out = Vec<(String, Template)>;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<Vec<(String, Template)>> {
        let fields = ResponseHeaders.read(directive, cx)?;
        let mut templates = Vec::new();
        for (name, value) in fields {
            match template(&value) {
                Ok(value) => templates.push((name, value)),
                Err(error) => {
                    let what = format!("sets `{name}` to a value that {}", error.what);
                    cx.wrong(directive.span, &what).maybe_help(error.help).report(cx);
                }
            }
        }
        Some(templates)
    }
}

const NAMES: Strings =
    Strings { one: "a header name", many: "header names", may_be_empty: true, fault: field_name_fault };

/// Header rules of a response, or of a request that is passed on.
pub(crate) static HEADER_RULES: Section<HeaderRules> = Section {
    keys: &[
        Key {
            name: "set",
            brief: "Headers to set; each replaces every header of that name",
            long: "A header whose value is a list is sent once for each value. Values can contain variables ([list](../guide/routes.md#variables)); `$$` is a dollar sign. Applied after `remove`. Headers that frame the message or manage the connection are set only by Keepwarm and are rejected here.",
            default: DefaultValue::Words("none"),
            right: "set = { X-Frame-Options = \"DENY\" }",
            wrong: "set = { Transfer-Encoding = \"chunked\" }",
            value: &Set(HeaderTemplates, |rules: &mut HeaderRules, set| rules.set = set),
            ..Key::LIVE
        },
        Key {
            name: "add",
            brief: "Headers to add to those of the same name",
            long: "Values as in `set`.",
            default: DefaultValue::Words("none"),
            right: "add = { Vary = \"Accept-Language\" }",
            wrong: "add = { Connection = \"close\" }",
            value: &Set(HeaderTemplates, |rules: &mut HeaderRules, add| rules.add = add),
            ..Key::LIVE
        },
        Key {
            name: "if_missing",
            brief: "Headers to set if there is none of that name",
            long: "Values as in `set`. Applied last.",
            default: DefaultValue::Words("none"),
            right: "if_missing = { Cache-Control = \"no-store\" }",
            wrong: "if_missing = { Date = \"now\" }",
            value: &Set(HeaderTemplates, |rules: &mut HeaderRules, set| rules.if_missing = set),
            ..Key::LIVE
        },
        Key {
            name: "remove",
            brief: "Headers to remove",
            default: DefaultValue::Literal("[]"),
            right: "remove = [\"X-Powered-By\"]",
            wrong: "remove = [\"X Powered By\"]",
            value: &Set(NAMES, |rules: &mut HeaderRules, names: Vec<String>| {
                rules.remove = names.iter().map(|name| name.to_ascii_lowercase()).collect();
            }),
            ..Key::LIVE
        },
    ],
};

/// Header rules as a field of `T`.
pub(crate) const fn header_rules<T>(field: fn(&mut T) -> &mut HeaderRules) -> Subtable<T, HeaderRules> {
    Subtable(&HEADER_RULES, field)
}
