//! Conditions of routes.

use super::Reader;
use super::cluster::carry;
use super::route::BY_HAND;
use crate::expression::check;
use crate::model::{PathMatch, Route, encoded, escape, exact_methods};
use crate::table::Value;
use crate::tree::Node;

impl Reader<'_> {
    /// Conditions of a route; `false`: one has no counterpart.
    pub(super) fn conditions(&mut self, node: &Node, out: &mut Route) -> bool {
        let Some(conditions) = node.get("match") else { return false };
        let any_case = conditions.get("case_sensitive").is_some_and(|node| node.text() == "false");
        let mut is_known = true;
        let mut has_path = false;
        for (key, node) in conditions.entries() {
            let text = node.text();
            let known = match key.as_str() {
                "prefix" => {
                    has_path = true;
                    out.path = match any_case && text != "/" {
                        true => PathMatch::Regex(format!("(?i)^{}", escape(&encoded(text)))),
                        false => PathMatch::Begin(text.to_owned()),
                    };
                    true
                }
                "path" => {
                    has_path = true;
                    out.path = match any_case {
                        true => PathMatch::Regex(format!("(?i)^{}$", escape(&encoded(text)))),
                        false => PathMatch::Exact(text.to_owned()),
                    };
                    true
                }
                "path_separated_prefix" => {
                    has_path = true;
                    let case = if any_case { "(?i)" } else { "" };
                    out.path = match any_case || text.contains('*') {
                        true => PathMatch::Regex(format!("{case}^{}(?:/.*)?$", escape(&encoded(text)))),
                        false => PathMatch::Patterns(vec![encoded(text), format!("{}/*", encoded(text))]),
                    };
                    true
                }
                "safe_regex" => {
                    has_path = true;
                    match node.get("regex").map(|regex| check(&format!("^(?:{})$", regex.text()), false)) {
                        Some(Ok(pattern)) => {
                            out.path = PathMatch::Regex(pattern);
                            true
                        }
                        _ => false,
                    }
                }
                "case_sensitive" => true,
                "runtime_fraction" => {
                    let value = node.get("default_value").unwrap_or(node);
                    let whole = match value.get("denominator").map_or("HUNDRED", Node::text) {
                        "HUNDRED" => 100,
                        "TEN_THOUSAND" => 10_000,
                        _ => 1_000_000,
                    };
                    value.get("numerator").and_then(Node::number).is_some_and(|part| part >= whole)
                }
                "headers" => self.values(node, "header", out),
                "query_parameters" => self.values(node, "query", out),
                "cookies" => self.values(node, "cookie", out),
                "grpc" => {
                    out.table.set_in(
                        &["header"],
                        "Content-Type",
                        "~^application/grpc(?:\\+.*)?$",
                        node.origin,
                    );
                    true
                }
                _ => false,
            };
            if known {
                carry(node, self.ledger);
            } else {
                node.drop("a condition without a counterpart", BY_HAND, true, self.ledger);
                is_known = false;
            }
        }
        is_known && has_path
    }

    /// Conditions on headers or arguments. Those that are known stay in the route: only what it may match gets 501.
    fn values(&mut self, list: &Node, kind: &str, out: &mut Route) -> bool {
        let mut is_known = true;
        for item in list.items() {
            let name = item.get("name").map_or("", Node::text);
            let is_inverted = item.get("invert_match").is_some_and(Node::is_on);
            let matcher = item.get("string_match").unwrap_or(item);
            let any_case = matcher.get("ignore_case").is_some_and(Node::is_on);
            let present = item.get("present_match").map(Node::is_on);
            let is_plain = item.get("treat_missing_header_as_empty").is_none_or(|node| !node.is_on())
                && item.get("range_match").is_none();
            let pattern = pattern(matcher, any_case);
            if name.eq_ignore_ascii_case(":method") && kind == "header" {
                let exact = ["exact", "exact_match"].iter().find_map(|key| matcher.get(key));
                let lists = match (exact, pattern.as_deref().and_then(methods), is_inverted) {
                    (Some(exact), _, true) => exact_methods(&[], &[exact.text().to_owned()]),
                    (Some(exact), _, false) => exact_methods(&[exact.text().to_owned()], &[]),
                    (None, Some(list), false) => exact_methods(&list, &[]),
                    _ => Vec::new(),
                };
                match lists.as_slice() {
                    [list] if !any_case && !out.table.has("method") => {
                        out.table.set("method", crate::table::one_or_list(list.clone()), item.origin);
                    }
                    _ => is_known = false,
                }
                continue;
            }
            let is_field = kind != "header"
                || !name.is_empty()
                    && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
                    && !name.eq_ignore_ascii_case("host");
            let value: Option<Value> = match (pattern, present, is_inverted) {
                _ if !is_plain || !is_field => None,
                (Some(pattern), None, false) => Some(pattern.into()),
                // A header that is not there meets no condition on its value.
                (Some(pattern), None, true) => Some(vec!["*".to_owned(), format!("!{pattern}")].into()),
                (None, Some(present), _) => Some(if present == is_inverted { "!*" } else { "*" }.into()),
                // Only its name: it must be there.
                (None, None, _) if !has_matcher(item) => Some(if is_inverted { "!*" } else { "*" }.into()),
                _ => None,
            };
            let is_second = matches!(out.table.get(kind), Some(Value::Table(table))
                if table.items.iter().any(|known| known.key.eq_ignore_ascii_case(name)));
            match value.filter(|_| !is_second) {
                Some(value) => {
                    let origin = item.open(self.ledger);
                    self.ledger.carried(origin);
                    out.table.set_in(&[kind], name, value, origin);
                }
                None => is_known = false,
            }
        }
        is_known
    }
}

/// Methods of an expression `~^(?:GET|PUT)$`.
fn methods(pattern: &str) -> Option<Vec<String>> {
    let inner = pattern.strip_prefix("~^(?:")?.strip_suffix(")$")?;
    let inner = inner.trim_start_matches('(').trim_end_matches(')');
    let list: Vec<String> = inner.split('|').map(str::to_owned).collect();
    list.iter().all(|one| !one.is_empty() && one.bytes().all(|b| b.is_ascii_uppercase())).then_some(list)
}

fn has_matcher(item: &Node) -> bool {
    item.entries()
        .iter()
        .any(|(key, _)| !["name", "invert_match", "treat_missing_header_as_empty"].contains(&key.as_str()))
}

/// A matcher of a text as a pattern.
fn pattern(matcher: &Node, any_case: bool) -> Option<String> {
    let case = if any_case { "(?i)" } else { "" };
    matcher.entries().iter().find_map(|(key, node)| {
        let text = escape(node.text());
        match key.as_str() {
            "exact" | "exact_match" => Some(format!("~{case}^{text}$")),
            "prefix" | "prefix_match" => Some(format!("~{case}^{text}")),
            "suffix" | "suffix_match" => Some(format!("~{case}{text}$")),
            "contains" | "contains_match" => Some(format!("~{case}{text}")),
            "safe_regex" | "safe_regex_match" => {
                let regex = node.get("regex")?;
                check(&format!("^(?:{})$", regex.text()), false).ok().map(|regex| format!("~{regex}"))
            }
            _ => None,
        }
    })
}
