//! `KEEPWARM_SECTION__NAME__KEY`: variables over files.

use std::collections::BTreeMap;

use super::{Directive, Entry, Span, Table, Texts, Value};
use crate::report::Problem;

/// Sets in the table what the variables say. Sections and keys are upper case in the variable; a NAME is found
/// whatever its case, with `_` for `-`. Names inside `env` keep their case.
pub(crate) fn apply_overrides(
    root: &mut Table,
    env: &BTreeMap<String, String>,
    texts: &mut Texts,
    problems: &mut Vec<Problem>,
) {
    for (name, value) in env {
        let Some(path) = name.strip_prefix(PREFIX).filter(|path| is_override(path)) else { continue };
        let value_span = texts.add_variable(name, value);
        let steps = steps(path, value_span, name.len());
        let override_ = Override { name, value: Directive::loose(value, value_span) };
        override_.apply(root, &steps, texts, problems);
    }
}

pub(crate) const PREFIX: &str = "KEEPWARM_";

/// Only a name with `__` in it is ours: `KEEPWARM_FD` is the wire's and `KEEPWARM_UPSTREAM_…` tells an app of a door.
fn is_override(path: &str) -> bool {
    (path.contains("__") && !path.starts_with("UPSTREAM_")) || path.starts_with("UPSTREAM__")
}

struct Step<'a> {
    text: &'a str,
    span: Span,
}

fn steps(path: &str, value: Span, name_length: usize) -> Vec<Step<'_>> {
    let mut start = name_length - path.len();
    let mut steps = Vec::new();
    for text in path.split("__") {
        let span = Span { source: value.source, start, end: start + text.len() };
        start = span.end + 2;
        steps.push(Step { text, span });
    }
    steps
}

struct Override<'a> {
    name: &'a str,
    value: Directive,
}

impl Override<'_> {
    fn apply(self, root: &mut Table, steps: &[Step<'_>], texts: &Texts, problems: &mut Vec<Problem>) {
        let Some((last, parents)) = steps.split_last() else { return };
        let mut table = root;
        let mut in_env = false;
        for (depth, step) in parents.iter().enumerate() {
            let key = if in_env { step.text.to_owned() } else { key_of(table, step.text, depth) };
            in_env |= depth == 2 && key == "env";
            if table.entry(&key).is_none() {
                let value = Directive { value: Value::Table(Table::default()), span: step.span };
                table.entries.push(Entry { key: key.clone(), key_span: step.span, value });
            }
            let Some(entry) = table.entry_mut(&key) else { return };
            if !matches!(entry.value.value, Value::Table(_)) {
                problems.push(self.not_a_table(step, &key, &entry.value, texts));
            }
            let Value::Table(inner) = &mut entry.value.value else { return };
            table = inner;
        }
        let key = if in_env { last.text.to_owned() } else { key_of(table, last.text, parents.len()) };
        table.remove(&key);
        table.entries.push(Entry { key, key_span: last.span, value: self.value });
    }

    fn not_a_table(&self, step: &Step<'_>, key: &str, found: &Directive, texts: &Texts) -> Problem {
        let lead = self.name.get(..step.span.end).unwrap_or(self.name);
        Problem::new(format!("`{}` sets a key inside `{key}`, which is {}", self.name, found.type_name()))
            .at(texts.place(step.span))
            .related(texts.place(found.span), "set here")
            .help(format!("set the whole value as TOML: {lead}='…'"))
    }
}

/// The entry of the table a step means, or the name it would get. NAMEs (depth 1) are matched loosely.
fn key_of(table: &Table, step: &str, depth: usize) -> String {
    let lower = step.to_ascii_lowercase();
    if depth == 1 {
        let plain = |name: &str| name.to_ascii_lowercase().replace('-', "_");
        if let Some(entry) = table.entries.iter().find(|entry| plain(&entry.key) == lower) {
            return entry.key.clone();
        }
    }
    lower
}
