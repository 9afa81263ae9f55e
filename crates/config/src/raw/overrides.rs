//! `KEEPWARM_SECTION__NAME__KEY`: variables that override the files.

use std::collections::BTreeMap;

use super::{Directive, Entry, SourceMap, Span, Table, Value};
use crate::report::Problem;

/// Sets the values of the variables in the table. Sections and keys are in upper case in the variable; a NAME is
/// matched regardless of case, with `_` for `-`. Names inside `env` keep their case.
pub(crate) fn apply_overrides(
    root: &mut Table,
    env: &BTreeMap<String, String>,
    source_map: &mut SourceMap,
    problems: &mut Vec<Problem>,
) {
    for (name, value) in env {
        let Some(path) = name.strip_prefix(PREFIX).filter(|path| is_override(path)) else { continue };
        let value_span = source_map.add_variable(name, value);
        let segments = segments(path, value_span, name.len());
        let override_ = Override { name, value: Directive::untyped(value, value_span) };
        override_.apply(root, &segments, source_map, problems);
    }
}

pub(crate) const PREFIX: &str = "KEEPWARM_";

/// Only a name with `__` is an override: `KEEPWARM_FD` belongs to the wire, and `KEEPWARM_UPSTREAM_…` is the URL of a
/// door.
fn is_override(path: &str) -> bool {
    (path.contains("__") && !path.starts_with("UPSTREAM_")) || path.starts_with("UPSTREAM__")
}

struct Segment<'a> {
    text: &'a str,
    span: Span,
}

fn segments(path: &str, value: Span, name_length: usize) -> Vec<Segment<'_>> {
    let mut start = name_length - path.len();
    let mut segments = Vec::new();
    for text in path.split("__") {
        let span = Span { source: value.source, start, end: start + text.len() };
        start = span.end + 2;
        segments.push(Segment { text, span });
    }
    segments
}

struct Override<'a> {
    name: &'a str,
    value: Directive,
}

impl Override<'_> {
    fn apply(
        self,
        root: &mut Table,
        segments: &[Segment<'_>],
        source_map: &SourceMap,
        problems: &mut Vec<Problem>,
    ) {
        let Some((last, parents)) = segments.split_last() else { return };
        let mut table = root;
        let mut in_env = false;
        for (depth, segment) in parents.iter().enumerate() {
            let key = if in_env { segment.text.to_owned() } else { key_of(table, segment.text, depth) };
            in_env |= depth == 2 && key == "env";
            if table.entry(&key).is_none() {
                let value = Directive { value: Value::Table(Table::default()), span: segment.span };
                table.entries.push(Entry { key: key.clone(), key_span: segment.span, value });
            }
            let Some(entry) = table.entry_mut(&key) else { return };
            if !matches!(entry.value.value, Value::Table(_)) {
                problems.push(self.not_a_table(segment, &key, &entry.value, source_map));
            }
            let Value::Table(inner) = &mut entry.value.value else { return };
            table = inner;
        }
        let key = if in_env { last.text.to_owned() } else { key_of(table, last.text, parents.len()) };
        table.remove(&key);
        table.entries.push(Entry { key, key_span: last.span, value: self.value });
    }

    fn not_a_table(
        &self,
        segment: &Segment<'_>,
        key: &str,
        found: &Directive,
        source_map: &SourceMap,
    ) -> Problem {
        let lead = self.name.get(..segment.span.end).unwrap_or(self.name);
        Problem::new(format!("`{}` sets a key inside `{key}`, which is {}", self.name, found.type_name()))
            .at(source_map.location(segment.span))
            .related(source_map.location(found.span), "set here")
            .help(format!("set the whole value as TOML: {lead}='…'"))
    }
}

/// The key of the table that a segment refers to. NAMEs (depth 1) are matched regardless of case and `-`.
fn key_of(table: &Table, segment: &str, depth: usize) -> String {
    let lower = segment.to_ascii_lowercase();
    if depth == 1 {
        let plain = |name: &str| name.to_ascii_lowercase().replace('-', "_");
        if let Some(entry) = table.entries.iter().find(|entry| plain(&entry.key) == lower) {
            return entry.key.clone();
        }
    }
    lower
}
