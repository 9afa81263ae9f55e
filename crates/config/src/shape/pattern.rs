//! Patterns of conditions: `*` anywhere, `!` for "not", `~` for a regular expression.

use regex::bytes::RegexBuilder;

use super::http::field_name_is_valid;
use super::list::{EmptyList, ListOf};
use super::parsed_string::ParsedString;
use super::value_error::ValueError;
use crate::checker::Checker;
use crate::description::{Describe, Description};
use crate::json::Json;
use crate::key::Shape;
use crate::model::{PatternSet, ValueCondition, ValuePattern};
use crate::raw::Directive;

/// A pattern, or the negation of one.
#[derive(Debug, PartialEq)]
pub(crate) enum Signed<P> {
    Positive(P),
    Negated(P),
}

impl<P> Signed<P> {
    /// Reads a text, with `!` in front if it is negated.
    pub(super) fn read(
        text: &str,
        read: impl FnOnce(&str) -> Result<P, ValueError>,
    ) -> Result<Signed<P>, ValueError> {
        match text.strip_prefix('!') {
            None => read(text).map(Signed::Positive),
            Some("") => Err(ValueError::new("is `!`").help("write what must not match after the `!`")),
            Some(rest) if rest.starts_with('!') => {
                Err(ValueError::new(format!("is `{text}`, which negates twice")))
            }
            Some(rest) => read(rest).map(Signed::Negated),
        }
    }
}

/// The patterns of a list, sorted by sign.
pub(crate) fn pattern_set<P>(patterns: Vec<Signed<P>>) -> PatternSet<P> {
    let mut set = PatternSet::default();
    for pattern in patterns {
        match pattern {
            Signed::Positive(pattern) => set.any.push(pattern),
            Signed::Negated(pattern) => set.none.push(pattern),
        }
    }
    set
}

/// A regular expression after its `~`, if there is one.
pub(super) fn regular_expression(text: &str) -> Option<Result<String, ValueError>> {
    let pattern = text.strip_prefix('~')?;
    if pattern.is_empty() {
        return Some(Err(ValueError::new("is `~`").help("write the regular expression after the `~`")));
    }
    // As the edge compiles it (`RegularExpression`).
    let built =
        RegexBuilder::new(pattern).unicode(false).dot_matches_new_line(true).size_limit(1 << 20).build();
    Some(match built {
        Ok(_) => Ok(pattern.to_owned()),
        Err(error) => Err(invalid(pattern, &error)),
    })
}

fn invalid(pattern: &str, error: &regex::Error) -> ValueError {
    if let regex::Error::CompiledTooBig(_) = error {
        return ValueError::new(format!("is `~{pattern}`, a regular expression that needs more than 1 MiB"))
            .help("use smaller numbers of repetitions");
    }
    // The last line says what is wrong; those before it draw the pattern.
    let text = error.to_string();
    let reason = text.lines().last().unwrap_or("").trim_start_matches("error: ");
    let error = ValueError::new(format!("is `~{pattern}`, which is not a regular expression: {reason}"));
    match () {
        () if reason.contains("look-around") => error.help("use a negated pattern: \"!~…\""),
        () if reason.contains("Unicode") => {
            error.help("write it without character classes that are not ASCII")
        }
        () => error,
    }
}

/// A condition on a value.
const VALUES: ListOf<ParsedString<Signed<ValuePattern>>> = ListOf {
    one: ParsedString {
        expected: "a pattern",
        type_name: "pattern",
        pattern: None,
        bare: Some(bare),
        read: value,
    },
    expected: "a value, with `*` for any text, `!` in front for \"not\", `~` in front of a regular expression; or a list",
    type_name: "pattern or list of patterns",
    empty: EmptyList::Rejected(Some("\"*\" matches every value, \"!*\" matches if there is none")),
};

fn bare(text: &str) -> String {
    text.to_owned()
}

fn value(text: &str) -> Result<Signed<ValuePattern>, ValueError> {
    Signed::read(text, value_pattern)
}

/// A pattern that is not negated.
pub(super) fn value_pattern(text: &str) -> Result<ValuePattern, ValueError> {
    match regular_expression(text) {
        Some(regex) => regex.map(ValuePattern::Regex),
        None if text.contains('*') => Ok(ValuePattern::Glob(text.to_owned())),
        None => Ok(ValuePattern::Exact(text.to_owned())),
    }
}

/// A table of names, each with patterns of its values.
pub(crate) struct ConditionTable {
    /// "header", "cookie", "query argument"
    what: &'static str,
    /// What a name is stored as, or why it cannot be one.
    name: fn(&str) -> Result<String, &'static str>,
}

/// `header` of a route.
pub(crate) const HEADER_CONDITIONS: ConditionTable = ConditionTable {
    what: "header",
    name: |name| match name.to_ascii_lowercase() {
        lower if lower == "host" => Err("is matched by the key `host`"),
        lower if lower == "transfer-encoding" || lower == "content-length" => {
            Err("frames the message, and is not matched")
        }
        lower if field_name_is_valid(&lower) => Ok(lower),
        _ => Err("is not a header name"),
    },
};

/// `cookie` of a route.
pub(crate) const COOKIE_CONDITIONS: ConditionTable = ConditionTable {
    what: "cookie",
    name: |name| match field_name_is_valid(name) {
        true => Ok(name.to_owned()),
        false => Err("is not a cookie name"),
    },
};

/// `query` of a route.
pub(crate) const QUERY_CONDITIONS: ConditionTable = ConditionTable {
    what: "query argument",
    name: |name| match name.is_empty() {
        true => Err("is empty"),
        false => Ok(name.to_owned()),
    },
};

impl Describe for ConditionTable {
    fn description(&self) -> Description {
        let value = Json::one_or_many(Json::of_type("string"));
        Description::new(
            format!("a table of {} names, each with a pattern of its value or a list of patterns", self.what),
            "table of patterns",
            Json::object([("type", Json::text("object")), ("additionalProperties", value)]),
        )
    }
}

impl Shape for ConditionTable {
    type Out = Vec<ValueCondition>;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<Vec<ValueCondition>> {
        let table = cx.table(directive)?;
        let mut conditions = Vec::new();
        for entry in &table.entries {
            let name = match (self.name)(&entry.key) {
                Ok(name) => name,
                Err(fault) => {
                    cx.wrong(entry.key_span, &format!("contains `{}`, which {fault}", entry.key)).report(cx);
                    continue;
                }
            };
            let Some(values) = VALUES.read(&entry.value, cx) else { continue };
            conditions.push(ValueCondition { name, values: pattern_set(values) });
        }
        Some(conditions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_says_how_it_is_compared() {
        let exact = |text: &str| ValuePattern::Exact(text.to_owned());
        let glob = |text: &str| ValuePattern::Glob(text.to_owned());
        let regex = |text: &str| ValuePattern::Regex(text.to_owned());
        let cases = [
            ("a", Signed::Positive(exact("a"))),
            ("!a", Signed::Negated(exact("a"))),
            ("*", Signed::Positive(glob("*"))),
            ("!*a*", Signed::Negated(glob("*a*"))),
            ("~^a*$", Signed::Positive(regex("^a*$"))),
            ("!~!", Signed::Negated(regex("!"))),
            ("a!~", Signed::Positive(exact("a!~"))),
        ];
        for (text, expected) in cases {
            assert_eq!(value(text).unwrap(), expected, "{text}");
        }
        for wrong in ["!", "!!a", "~", "!~", "~(", "~a(?=b)", "~(a)\\1", "~(a{1000}){1000}", "~[é]"] {
            assert!(value(wrong).is_err(), "{wrong}");
        }
    }
}
