use super::{Directive, Entry, SourceMap, Table, Value};
use crate::report::Problem;

/// Merges the table of an included file into another. Tables are merged, lists of tables (routes) are concatenated;
/// any other key may be set only once.
pub(crate) fn merge(into: &mut Table, from: Table, source_map: &SourceMap, problems: &mut Vec<Problem>) {
    for entry in from.entries {
        let Some(old) = into.entry_mut(&entry.key) else {
            into.entries.push(entry);
            continue;
        };
        match (&mut old.value.value, entry.value.value) {
            (Value::Table(old), Value::Table(new)) => merge(old, new, source_map, problems),
            (Value::Array(old), Value::Array(new)) if are_tables(old) && are_tables(&new) => old.extend(new),
            (_, _) => problems.push(twice(source_map, old, &entry.key, entry.key_span)),
        }
    }
}

fn are_tables(items: &[Directive]) -> bool {
    !items.is_empty() && items.iter().all(|item| matches!(item.value, Value::Table(_)))
}

fn twice(source_map: &SourceMap, old: &Entry, key: &str, span: super::Span) -> Problem {
    Problem::new(format!("`{key}` is set a second time"))
        .at(source_map.location(span))
        .related(source_map.location(old.key_span), "first set here")
        .expected("each key only once across all files")
        .help("remove one of the two")
}
