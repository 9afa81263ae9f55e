//! `[map.NAME]`, and the checks of what uses maps.

use crate::checker::Checker;
use crate::key::{DefaultValue, Key, Section, Set};
use crate::model::{Template, VariableMap};
use crate::nearest::{or_list, suggestion};
use crate::raw::{Span, Table, Value};
use crate::shape::{MAP_DEFAULT, MAP_SOURCE, MapValues};

/// `[map.NAME]` before the checks of the whole file.
pub(crate) struct MapDraft {
    /// The span of NAME.
    span: Span,
    map: VariableMap,
    /// Where it uses other maps.
    uses: Vec<(String, Span)>,
}

impl MapDraft {
    pub(crate) fn new(name: &str, span: Span) -> MapDraft {
        let map = VariableMap { name: name.to_owned(), ..VariableMap::default() };
        MapDraft { span, map, uses: Vec::new() }
    }

    fn note_uses(&mut self, template: &Template, span: Span) {
        self.uses.extend(template.maps().map(|name| (name.to_owned(), span)));
    }

    /// Checks that involve several keys. The map is known from now on.
    pub(crate) fn finish(&mut self, table: &Table, cx: &mut Checker<'_>) {
        let name = cx.name();
        if self.map.name.contains('-') {
            cx.problem(self.span, format!("`{name}` has a name that no variable can have"))
                .key("map")
                .expected("letters, digits and `_`: the variable is `$map_NAME`")
                .help(format!("write [map.{}]", self.map.name.replace('-', "_")))
                .report(cx);
        }
        if table.entry("source").is_none() {
            cx.missing(self.span, "source = \"$host_name\"").report(cx);
        }
        if table.entry("values").is_none() {
            cx.missing(self.span, "values = { \"shop.example\" = \"shop\" }").report(cx);
        }
        for (key, template) in [("source", &self.map.source), ("default", &self.map.default)] {
            let span = table.entry(key).map(|entry| entry.value.span);
            let names = template.maps().map(str::to_owned);
            self.uses.extend(names.filter_map(|name| Some((name, span?))));
        }
        self.map.is_secret = is_secret(table);
        cx.maps.push(self.map.clone());
    }
}

/// Whether a text in it may be secret.
fn is_secret(table: &Table) -> bool {
    table.entries.iter().any(|entry| match &entry.value.value {
        Value::String(text) => text.secret,
        Value::Table(table) => is_secret(table),
        _ => false,
    })
}

/// Reports maps that use maps that do not exist, or themselves.
pub(crate) fn check_maps(drafts: &[MapDraft], cx: &mut Checker<'_>) {
    for draft in drafts {
        let name = format!("map.{}", draft.map.name);
        for (used, span) in &draft.uses {
            if !is_known(used, cx) {
                report_unknown(used, *span, &name, "map", cx);
                continue;
            }
            if let Some(circle) = circle_by(&draft.map.name, used, &cx.maps) {
                cx.problem(*span, format!("`{name}` uses itself: {circle}"))
                    .key("map")
                    .expected("maps that do not use one another in a circle")
                    .report(cx);
            }
        }
    }
}

/// How a map uses itself by way of `used`, if it does.
fn circle_by(name: &str, used: &str, maps: &[VariableMap]) -> Option<String> {
    let mut seen = vec![used];
    // Each with the one that uses it.
    let mut found: Vec<(&str, Option<usize>)> = vec![(used, None)];
    let mut next = 0;
    while let Some((current, _)) = found.get(next).copied() {
        if current == name {
            let mut path = Vec::new();
            let mut at = Some(next);
            while let Some((map, by)) = at.and_then(|at| found.get(at)) {
                path.push(format!("$map_{map}"));
                at = *by;
            }
            path.push(format!("$map_{name}"));
            path.reverse();
            return Some(path.join(" uses "));
        }
        for more in maps.iter().filter(|map| map.name == current).flat_map(VariableMap::uses) {
            if !seen.contains(&more) {
                seen.push(more);
                found.push((more, Some(next)));
            }
        }
        next += 1;
    }
    None
}

/// Reports the maps in templates of the key `key` of the current section that do not exist.
pub(super) fn check_uses<'t>(
    templates: impl IntoIterator<Item = &'t Template>,
    key: &'static str,
    table: &Table,
    cx: &mut Checker<'_>,
) {
    let Some(entry) = table.entry(key) else { return };
    for name in templates.into_iter().flat_map(Template::maps) {
        if !is_known(name, cx) {
            let (user, doc) = (format!("{}.{key}", cx.name()), format!("{}.{key}", cx.doc()));
            report_unknown(name, entry.value.span, &user, &doc, cx);
        }
    }
}

fn is_known(name: &str, cx: &Checker<'_>) -> bool {
    cx.maps.iter().any(|map| map.name == name)
}

fn report_unknown(name: &str, span: Span, user: &str, doc: &str, cx: &mut Checker<'_>) {
    let names: Vec<&str> = cx.maps.iter().map(|map| map.name.as_str()).collect();
    let expected = match names.is_empty() {
        true => "a [map.NAME] section; there is none".to_owned(),
        false => format!("the name of a [map.NAME]: {}", or_list(&names)),
    };
    let help = suggestion(name, names);
    cx.problem(span, format!("`{user}` uses `$map_{name}`, but there is no `[map.{name}]`"))
        .key(doc.to_owned())
        .expected(expected)
        .maybe_help(help)
        .report(cx);
}

pub(crate) static MAP: Section<MapDraft> = Section {
    keys: &[
        Key {
            name: "source",
            brief: "Text that is looked up, with variables",
            long: "Any variables of routes ([list](../guide/routes.md#variables)) but `$1` to `$9`, and those of other maps.",
            default: DefaultValue::Required,
            right: "source = \"$host_name\"",
            wrong: "source = \"host\"",
            value: &Set(MAP_SOURCE, |draft: &mut MapDraft, source| draft.map.source = source),
            ..Key::LIVE
        },
        Key {
            name: "values",
            brief: "Patterns, each with the value for texts that match it",
            long: "A key is a text, a text in which each `*` is any text, or `~` and a regular expression. An equal text comes first, then patterns with `*` (longer ones first), then regular expressions in the order of the file. Case of ASCII letters matters to regular expressions only. Values can have variables; `$1` to `$9` are what the `*` or the groups of the key stand for. The time of a lookup does not depend on the number of texts, nor on that of patterns that begin or end with a text of their own; other patterns are compared one by one.",
            default: DefaultValue::Required,
            right: "values = { \"shop.example\" = \"shop\", \"*.shop.example\" = \"$1\", \"~^www[0-9]+\\\\.\" = \"farm\" }",
            wrong: "values = { \"shop.example\" = \"$1\" }",
            value: &Set(MapValues, |draft: &mut MapDraft, values: Vec<_>| {
                for (pattern, value, span) in values {
                    draft.note_uses(&value, span);
                    draft.map.values.push((pattern, value));
                }
            }),
            ..Key::LIVE
        },
        Key {
            name: "default",
            brief: "Value for all other texts",
            default: DefaultValue::Literal("\"\""),
            right: "default = \"other\"",
            wrong: "default = \"$1\"",
            value: &Set(MAP_DEFAULT, |draft: &mut MapDraft, default| draft.map.default = default),
            ..Key::LIVE
        },
    ],
};
