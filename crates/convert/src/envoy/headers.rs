//! Headers that are set and removed.

use super::Reader;
use super::cluster::carry;
use crate::ledger::Origin;
use crate::table::{Table, Value};
use crate::tree::Node;

/// Changes of headers, as `headers` and `request_headers` have them.
#[derive(Clone, Default)]
pub(super) struct Edits {
    pub(super) request: Table,
    pub(super) response: Table,
}

/// Headers that frame messages or manage connections, and those that the edge writes.
const OURS: [&str; 14] = [
    "host",
    "connection",
    "content-length",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "expect",
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-host",
];

const BY_HAND: &str = "set `request_headers` or `headers` of the route by hand";

impl Reader<'_> {
    /// The changes of a route, a virtual host or all of them, after those of what is within it.
    pub(super) fn edits(&mut self, node: &Node, edits: &mut Edits) {
        for (key, list) in node.entries() {
            let table = match key.as_str() {
                "request_headers_to_add" | "request_headers_to_remove" => &mut edits.request,
                "response_headers_to_add" | "response_headers_to_remove" => &mut edits.response,
                _ => continue,
            };
            // Headers are removed before others are added.
            if key.ends_with("_remove") {
                for name in list.items() {
                    remove(table, name.text(), list.origin);
                    self.check_name(name.text(), list, table);
                }
                if !self.ledger.is_settled(list.origin) {
                    self.ledger.carried(list.origin);
                }
            }
        }
        for (key, list) in node.entries() {
            let table = match key.as_str() {
                "request_headers_to_add" => &mut edits.request,
                "response_headers_to_add" => &mut edits.response,
                _ => continue,
            };
            for option in list.items() {
                self.add(option, table);
            }
        }
    }

    /// The mutations of the filter `header_mutation`.
    pub(super) fn mutations(&mut self, config: &Node, edits: &mut Edits) {
        for (key, list) in config.get("mutations").map(Node::entries).unwrap_or_default() {
            let table = match key.as_str() {
                "request_mutations" => &mut edits.request,
                "response_mutations" => &mut edits.response,
                _ => continue,
            };
            for item in list.items() {
                for (key, node) in item.entries() {
                    match key.as_str() {
                        "append" => self.add(node, table),
                        "remove" => {
                            remove(table, node.text(), node.origin);
                            self.check_name(node.text(), node, table);
                            self.ledger.carried(node.origin);
                        }
                        _ => {}
                    }
                }
            }
        }
    }

    /// Takes out a header that only Keepwarm writes.
    fn check_name(&mut self, name: &str, node: &Node, table: &mut Table) {
        let lower = name.to_ascii_lowercase();
        if OURS.contains(&lower.as_str()) || name.starts_with(':') {
            if let Some(Value::List(list)) =
                table.items.iter_mut().find(|item| item.key == "remove").map(|item| &mut item.value)
            {
                list.retain(|one| *one != Value::from(name));
            }
            if table.get("remove") == Some(&Value::List(Vec::new())) {
                table.remove("remove");
            }
            self.ledger.differs(node.origin, format!("{name} is written by Keepwarm alone"));
        }
    }

    fn add(&mut self, option: &Node, table: &mut Table) {
        let Some(header) = option.get("header") else { return };
        let (name, value) = (header.get("key").map_or("", Node::text), header.get("value"));
        let lower = name.to_ascii_lowercase();
        if name.starts_with(':') || OURS.contains(&lower.as_str()) {
            let todo = if lower == "host" { "set `host` of the upstream" } else { "nothing" };
            let is_grave = name.starts_with(':') || lower == "host";
            option.drop("Keepwarm alone writes this header", todo, is_grave, self.ledger);
            return;
        }
        let action = option.get("append_action").map_or_else(
            || match option.get("append").map(Node::text) {
                Some("false") => "OVERWRITE_IF_EXISTS_OR_ADD",
                _ => "APPEND_IF_EXISTS_OR_ADD",
            },
            Node::text,
        );
        let kind = match action {
            "APPEND_IF_EXISTS_OR_ADD" => Some("add"),
            "ADD_IF_ABSENT" => Some("if_missing"),
            "OVERWRITE_IF_EXISTS_OR_ADD" => Some("set"),
            _ => None,
        };
        let text = value.and_then(|value| template(value.text()));
        let (Some(kind), Some(text)) = (kind, text) else {
            option.drop("its value or action has no counterpart", BY_HAND, true, self.ledger);
            return;
        };
        let origin = value.map_or(option.origin, |value| value.origin);
        match kind {
            "set" => {
                forget(table, name);
                table.set_in(&["set"], name, text, origin);
            }
            "add" => {
                let is_set = matches!(table.get("set"), Some(Value::Table(set)) if set.has(name));
                table.push_in(&[if is_set { "set" } else { "add" }], name, text, origin);
            }
            _ if has(table, name) => {}
            _ => table.set_in(&["if_missing"], name, text, origin),
        }
        carry(option, self.ledger);
    }
}

fn has(table: &Table, name: &str) -> bool {
    ["set", "add"].iter().any(|kind| {
        matches!(table.get(kind), Some(Value::Table(inner))
            if inner.items.iter().any(|item| item.key.eq_ignore_ascii_case(name)))
    })
}

/// Takes back what was set before.
fn forget(table: &mut Table, name: &str) {
    for kind in ["set", "add", "if_missing"] {
        let Some(item) = table.items.iter_mut().find(|item| item.key == kind) else { continue };
        if let Value::Table(inner) = &mut item.value {
            inner.items.retain(|item| !item.key.eq_ignore_ascii_case(name));
            if inner.is_empty() {
                table.remove(kind);
            }
        }
    }
}

fn remove(table: &mut Table, name: &str, origin: Origin) {
    forget(table, name);
    let known = match table.remove("remove").map(|item| item.value) {
        Some(Value::List(list)) => list,
        _ => Vec::new(),
    };
    let mut list = known;
    if !list.contains(&Value::from(name)) {
        list.push(name.into());
    }
    table.set("remove", Value::List(list), origin);
}

/// A value with Envoy's command operators as one with our variables.
pub(super) fn template(value: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = value;
    while let Some((before, after)) = rest.split_once('%') {
        out.push_str(&before.replace('$', "$$"));
        if let Some(after) = after.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        let (operator, after) = after.split_once('%')?;
        let request = operator.strip_prefix("REQ(").and_then(|name| name.strip_suffix(')'));
        match (operator, request) {
            (
                "DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT" | "DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT",
                _,
            ) => out.push_str("$client"),
            (_, Some(":METHOD" | ":method")) => out.push_str("$method"),
            (_, Some(":AUTHORITY" | ":authority")) => out.push_str("$host"),
            (_, Some(":SCHEME" | ":scheme")) => out.push_str("$scheme"),
            (_, Some(":PATH" | ":path")) => out.push_str("$path$query"),
            // A name that runs into the text after it would be another variable.
            (_, Some(name))
                if !name.is_empty()
                    && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
                    && !after.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') =>
            {
                out.push_str(&format!("$header_{}", name.to_ascii_lowercase().replace('-', "_")))
            }
            _ => return None,
        }
        rest = after;
    }
    out.push_str(&rest.replace('$', "$$"));
    Some(out)
}
