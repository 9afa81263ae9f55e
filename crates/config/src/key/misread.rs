//! A `KEEPWARM_SECTION__NAME__KEY` variable whose NAME has `__` in it: its steps are not what was meant.

use super::{Section, join};
use crate::checker::Checker;
use crate::raw::{Entry, PREFIX, Value};
use crate::report::Problem;

/// One for each variable that has put a table into a section with a NAME that has no such key; none where that is not what has happened.
pub(super) fn problems<T>(section: &Section<T>, entry: &Entry, cx: &Checker<'_>) -> Vec<Problem> {
    if !cx.doc().ends_with(".NAME") || !matches!(entry.value.value, Value::Table(_)) {
        return Vec::new();
    }
    let mut leaves = Vec::new();
    gather(entry, &mut leaves);
    leaves.iter().filter_map(|leaf| problem(section, entry, leaf, cx)).collect()
}

/// What is no table: each is of a variable of its own.
fn gather<'e>(entry: &'e Entry, out: &mut Vec<&'e Entry>) {
    match &entry.value.value {
        Value::Table(table) => table.entries.iter().for_each(|entry| gather(entry, out)),
        _ => out.push(entry),
    }
}

fn problem<T>(section: &Section<T>, entry: &Entry, leaf: &Entry, cx: &Checker<'_>) -> Option<Problem> {
    let variable = cx.texts.variable(leaf.key_span)?;
    let steps: Vec<&str> = variable.strip_prefix(PREFIX)?.split("__").collect();
    let (_, inside) = steps.split_at_checked(2)?;
    let path = inside.iter().fold(cx.name(), |path, step| join(&path, &step.to_ascii_lowercase()));
    let home = cx.name();
    let problem = cx.problem(
        leaf.key_span,
        format!("`{variable}` is read as `{path}`, but `{home}` has no key `{}`", entry.key),
    );
    let rule = "`__` separates the parts of a variable's name, so a NAME cannot contain it";
    // The first step that is a key ends the name that was meant.
    let meant = inside.iter().position(|step| section.has(&step.to_ascii_lowercase()));
    Some(problem.help(match meant.and_then(|at| rename(&steps, at + 2)) {
        Some((name, right)) => format!("{rule}; for `{name}` set {right}"),
        None => rule.to_owned(),
    }))
}

/// The section that was meant, and its variable, where the steps from `key` on are those of the key.
fn rename(steps: &[&str], key: usize) -> Option<(String, String)> {
    let (first, rest) = steps.split_first()?;
    let (name, key) = rest.split_at_checked(key - 1)?;
    let parts: Vec<_> =
        name.iter().map(|part| part.trim_matches('_')).filter(|part| !part.is_empty()).collect();
    let name = parts.join("_");
    let section = format!("{}.{}", first.to_ascii_lowercase(), name.to_ascii_lowercase());
    Some((section, format!("{PREFIX}{first}__{name}__{}", key.join("__"))))
}
