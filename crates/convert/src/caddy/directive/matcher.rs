//! Matchers: what a directive is for.

use super::TODO;
use crate::caddy::Reader;
use crate::caddy::syntax::Line;
use crate::model::{PathMatch, Route};
use crate::table::{Table, Value, one_or_list};

impl Reader<'_> {
    /// The routes of a directive's matcher, and its other arguments; `None`: it was dropped.
    pub(super) fn matched(
        &mut self,
        line: &Line,
        lines: &[Line],
        base: &Route,
    ) -> Option<(Vec<Route>, Vec<String>)> {
        let first = line.arg(0);
        let rest = line.args().get(1..).unwrap_or(&[]).to_vec();
        let mut route = base.clone();
        route.origin = Some(line.origin);
        // `redir /x` has a target, and no matcher, if it is alone.
        let is_target = matches!(line.name(), "redir" | "respond" | "error") && line.args().len() < 2;
        match first {
            "*" => Some((vec![route], rest)),
            path if path.starts_with('/') && !is_target => {
                route.path = narrowed(&base.path, &[path.to_owned()])?;
                Some((vec![route], rest))
            }
            name if name.starts_with('@') => match self.named(name, lines) {
                Some(sets) => {
                    for item in &sets.items {
                        match (item.key.as_str(), &item.value) {
                            ("path", Value::List(list)) => {
                                let patterns: Vec<String> = list
                                    .iter()
                                    .filter_map(|value| match value {
                                        Value::Text(text) => Some(text.clone()),
                                        _ => None,
                                    })
                                    .collect();
                                route.path = narrowed(&base.path, &patterns)?;
                            }
                            _ => route.table.items.push(item.clone()),
                        }
                    }
                    Some((vec![route], rest))
                }
                None => {
                    self.ledger.lost(line.origin, format!("the matcher {name} has no counterpart"), TODO);
                    line.settle_inner(self.ledger);
                    None
                }
            },
            _ => Some((vec![route], line.args().to_vec())),
        }
    }

    /// The conditions of a named matcher; `path` is a list of patterns.
    pub(super) fn named(&mut self, name: &str, lines: &[Line]) -> Option<Table> {
        let definition = lines.iter().find(|line| line.name() == name)?.clone();
        let mut table = Table::default();
        let mut parts: Vec<(Vec<String>, crate::ledger::Origin)> = Vec::new();
        if !definition.args().is_empty() {
            parts.push((definition.args().to_vec(), definition.origin));
        }
        for inner in &definition.inner {
            parts.push((
                std::iter::once(inner.name().to_owned()).chain(inner.args().iter().cloned()).collect(),
                inner.origin,
            ));
        }
        for (words, origin) in parts {
            let (sign, words) = match words.first().map(String::as_str) {
                Some("not") => ("!", words.get(1..).unwrap_or(&[]).to_vec()),
                _ => ("", words),
            };
            let values: Vec<String> =
                words.get(1..).unwrap_or(&[]).iter().map(|value| format!("{sign}{value}")).collect();
            match words.first().map_or("", String::as_str) {
                "path" => {
                    let mut all: Vec<Value> = match table.remove("path").map(|item| item.value) {
                        Some(Value::List(list)) => list,
                        _ => Vec::new(),
                    };
                    all.extend(values.into_iter().map(Value::from));
                    table.set("path", Value::List(all), origin);
                }
                "path_regexp" => {
                    let pattern = crate::expression::check(words.last()?, false).ok()?;
                    table.set("path", Value::List(vec![Value::from(format!("{sign}~{pattern}"))]), origin);
                }
                "host" => table.set("host", one_or_list(values), origin),
                "method" => table.set("method", one_or_list(values), origin),
                "remote_ip" | "client_ip" => {
                    let values: Vec<String> = values
                        .into_iter()
                        .filter(|value| !value.ends_with("forwarded"))
                        .flat_map(|value| private_ranges(&value))
                        .collect();
                    table.set("client", values, origin);
                }
                "protocol" if sign.is_empty() => table.set("scheme", words.get(1)?.as_str(), origin),
                "header" => table.set_in(
                    &["header"],
                    words.get(1)?,
                    format!("{sign}{}", words.get(2).map_or("*", String::as_str)),
                    origin,
                ),
                "query" => {
                    for pair in words.get(1..)? {
                        let (key, value) = pair.split_once('=')?;
                        table.set_in(&["query"], key, format!("{sign}{value}"), origin);
                    }
                }
                _ => return None,
            }
            self.ledger.carried(origin);
        }
        self.ledger.carried(definition.origin);
        Some(table)
    }
}

/// Patterns within those of the block around; `None`: both have conditions on the path that do not go together.
fn narrowed(outer: &PathMatch, patterns: &[String]) -> Option<PathMatch> {
    match outer {
        PathMatch::Any => Some(PathMatch::Patterns(patterns.to_vec())),
        PathMatch::Patterns(list) => {
            let prefix = list.first()?.trim_end_matches('*');
            // Of `handle_path`, inner paths are without the prefix, which is not known here.
            patterns
                .iter()
                .all(|pattern| pattern.starts_with(prefix))
                .then(|| PathMatch::Patterns(patterns.to_vec()))
        }
        _ => None,
    }
}

pub(super) fn path_of(table: &Table) -> Option<String> {
    match table.get("path") {
        Some(Value::List(list)) if list.len() == 1 => match list.first() {
            Some(Value::Text(text)) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    }
}

pub(super) fn private_ranges(value: &str) -> Vec<String> {
    let (sign, name) = value.strip_prefix('!').map_or(("", value), |name| ("!", name));
    match name {
        "private_ranges" => {
            ["192.168.0.0/16", "172.16.0.0/12", "10.0.0.0/8", "127.0.0.1/8", "fd00::/8", "::1"]
                .iter()
                .map(|range| format!("{sign}{}", range.replace("127.0.0.1/8", "127.0.0.0/8")))
                .collect()
        }
        "static" => Vec::new(),
        _ => vec![value.to_owned()],
    }
}
