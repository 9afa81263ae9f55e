use super::{Directive, Entry, Table, Texts, Value};
use crate::report::Problem;

/// Lays an included file's table into another. Tables grow together, lists of tables (routes) grow longer;
/// anything else may be said once only.
pub(crate) fn merge(into: &mut Table, from: Table, texts: &Texts, problems: &mut Vec<Problem>) {
    for entry in from.entries {
        let Some(old) = into.entry_mut(&entry.key) else {
            into.entries.push(entry);
            continue;
        };
        match (&mut old.value.value, entry.value.value) {
            (Value::Table(old), Value::Table(new)) => merge(old, new, texts, problems),
            (Value::List(old), Value::List(new)) if are_tables(old) && are_tables(&new) => old.extend(new),
            (_, _) => problems.push(twice(texts, old, &entry.key, entry.key_span)),
        }
    }
}

fn are_tables(items: &[Directive]) -> bool {
    !items.is_empty() && items.iter().all(|item| matches!(item.value, Value::Table(_)))
}

fn twice(texts: &Texts, old: &Entry, key: &str, span: super::Span) -> Problem {
    Problem::new(format!("`{key}` is set a second time"))
        .at(texts.place(span))
        .related(texts.place(old.key_span), "first set here")
        .expected("each key only once across all files")
        .help("remove one of the two")
}
