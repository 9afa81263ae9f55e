//! A `KEEPWARM_SECTION__NAME__KEY` variable whose NAME contains `__`: the parts of its name are not the intended
//! ones.

use crate::checker::Checker;
use crate::description::join;
use crate::raw::{Entry, PREFIX, Value};
use crate::report::Problem;

/// A problem for each variable that has put a table into a named section without such a key; `has_key` knows the keys
/// of the section.
pub(super) fn problems(has_key: &dyn Fn(&str) -> bool, entry: &Entry, cx: &Checker<'_>) -> Vec<Problem> {
    if !cx.doc().ends_with(".NAME") || !matches!(entry.value.value, Value::Table(_)) {
        return Vec::new();
    }
    let mut leaves = Vec::new();
    collect_leaves(entry, &mut leaves);
    leaves.iter().filter_map(|leaf| problem(has_key, entry, leaf, cx)).collect()
}

/// The entries that are not tables: each comes from a variable of its own.
fn collect_leaves<'e>(entry: &'e Entry, leaves: &mut Vec<&'e Entry>) {
    match &entry.value.value {
        Value::Table(table) => table.entries.iter().for_each(|entry| collect_leaves(entry, leaves)),
        _ => leaves.push(entry),
    }
}

fn problem(has_key: &dyn Fn(&str) -> bool, entry: &Entry, leaf: &Entry, cx: &Checker<'_>) -> Option<Problem> {
    let variable = cx.source_map.variable(leaf.key_span)?;
    let parts: Vec<&str> = variable.strip_prefix(PREFIX)?.split("__").collect();
    let (_, key_parts) = parts.split_at_checked(2)?;
    let section = cx.name();
    let path = key_parts.iter().fold(section.clone(), |path, part| join(&path, &part.to_ascii_lowercase()));
    let message = format!("`{variable}` is read as `{path}`, but `{section}` has no key `{}`", entry.key);
    let rule = "`__` separates the parts of a variable's name, so a NAME cannot contain it";
    // The first part that is a key follows the NAME that was meant.
    let key_index = key_parts.iter().position(|part| has_key(&part.to_ascii_lowercase()));
    let help = match key_index.and_then(|index| rename(&parts, index + 2)) {
        Some((section, variable)) => format!("{rule}; for `{section}` set {variable}"),
        None => rule.to_owned(),
    };
    Some(cx.problem(leaf.key_span, message).help(help))
}

/// The section and the variable that were meant, if the part at `key_index` is the key.
fn rename(parts: &[&str], key_index: usize) -> Option<(String, String)> {
    let (first, rest) = parts.split_first()?;
    let (name, key) = rest.split_at_checked(key_index - 1)?;
    let name_parts: Vec<_> =
        name.iter().map(|part| part.trim_matches('_')).filter(|part| !part.is_empty()).collect();
    let name = name_parts.join("_");
    let section = format!("{}.{}", first.to_ascii_lowercase(), name.to_ascii_lowercase());
    Some((section, format!("{PREFIX}{first}__{name}__{}", key.join("__"))))
}
