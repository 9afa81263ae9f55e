//! Fields the configuration adds to answers.

use super::{Strings, field_name_fault, field_value_is_valid};
use crate::checker::Checker;
use crate::json::Json;
use crate::key::{Describe, Key, Preset, Reload, Section, Set, Shape, Sub};
use crate::model::HeaderRules;
use crate::raw::Directive;

/// Fields and their values, in the order of the file.
pub(crate) struct ResponseHeaders;

impl Describe for ResponseHeaders {
    fn expected(&self) -> String {
        "a table of header names, each with a string or a list of strings".to_owned()
    }

    fn type_name(&self) -> String {
        "table of strings".to_owned()
    }

    fn schema(&self) -> Json {
        let value = Json::one_or_many(Json::of_type("string"));
        Json::object([("type", Json::text("object")), ("additionalProperties", value)])
    }
}

impl Shape for ResponseHeaders {
    type Out = Vec<(String, String)>;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<Vec<(String, String)>> {
        let table = cx.table(directive)?;
        let mut fields = Vec::new();
        for entry in &table.entries {
            if let Some(fault) = field_name_fault(&entry.key) {
                let problem = cx.wrong(entry.key_span, &format!("contains `{}`, which {fault}", entry.key));
                cx.push(problem);
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
                let problem = cx.wrong(item.span, &what);
                cx.push(problem);
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
            default: Preset::Words("none"),
            right: "set = { X-Frame-Options = \"DENY\" }",
            wrong: "set = { Transfer-Encoding = \"chunked\" }",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(ResponseHeaders, |rules: &mut HeaderRules, set| rules.set = set),
        },
        Key {
            name: "remove",
            brief: "Headers to remove from the response",
            long: "",
            default: Preset::Value("[]"),
            right: "remove = [\"X-Powered-By\"]",
            wrong: "remove = [\"X Powered By\"]",
            reload: Reload::Live,
            since: "0.1.0",
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
        },
    ],
};

/// `headers` of a route, as a field of what `place` finds it in.
pub(crate) const fn header_rules<T>(place: fn(&mut T) -> &mut HeaderRules) -> Sub<T, HeaderRules> {
    Sub(&HEADER_RULES, place)
}
