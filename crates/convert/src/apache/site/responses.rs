//! Header fields, error pages, compression and body limits.

use super::{Host, Reader};
use crate::apache::syntax::Node;
use crate::model::Route;
use crate::table::Table;
use crate::units::size;

impl<'a> Reader<'a> {
    /// `Header [always] set NAME VALUE`
    pub(super) fn headers<'n>(&mut self, nodes: impl Iterator<Item = &'n Node>) -> Table {
        let mut out = Table::default();
        for node in nodes.filter(|node| node.name == "header") {
            let args: Vec<&str> = node
                .args
                .iter()
                .map(String::as_str)
                .filter(|arg| !matches!(*arg, "always" | "onsuccess"))
                .collect();
            let (action, name, value) = (
                args.first().copied().unwrap_or("").to_ascii_lowercase(),
                args.get(1).copied().unwrap_or(""),
                args.get(2).copied().unwrap_or(""),
            );
            if value.contains('%') || args.len() > 3 {
                self.ledger.lost(
                    node.origin,
                    "its value or condition has no counterpart",
                    "set `headers` of the route by hand",
                );
                continue;
            }
            let value = value.replace('$', "$$");
            self.ledger.carried(node.origin);
            match action.as_str() {
                "set" => out.set_in(&["headers", "set"], name, value, node.origin),
                "setifempty" => out.set_in(&["headers", "if_missing"], name, value, node.origin),
                "add" | "append" | "merge" => out.set_in(&["headers", "add"], name, value, node.origin),
                "unset" => out.push_in(&["headers"], "remove", name, node.origin),
                _ => self.ledger.lost(
                    node.origin,
                    "its action has no counterpart",
                    "set `headers` of the route by hand",
                ),
            }
        }
        out
    }

    pub(super) fn error_pages(&mut self, host: &Host<'a>) -> Table {
        let mut out = Table::default();
        for node in host.each("errordocument") {
            let (code, target) = (node.arg(0), node.arg(1));
            let is_status = code.parse::<u16>().is_ok_and(|code| (400..600).contains(&code));
            match (
                &host.root,
                target.starts_with('/') && !target.contains(".php") && !target.contains(".cgi"),
                is_status,
            ) {
                (Some((root, _)), true, true) => {
                    // An alias may lead elsewhere.
                    let alias = host.each("alias").find(|alias| target.starts_with(alias.arg(0)));
                    let file = match alias {
                        Some(alias) => {
                            format!("{}{}", alias.arg(1), target.strip_prefix(alias.arg(0)).unwrap_or(""))
                        }
                        None => format!("{root}{target}"),
                    };
                    out.set_in(&["error_pages"], code, file, node.origin);
                }
                _ => self.ledger.dropped(
                    node.origin,
                    "an error page is a file, or a path of an app",
                    "set `error_pages`",
                ),
            }
        }
        out
    }

    pub(super) fn compression(&mut self, host: &Host<'a>) -> Table {
        let mut out = Table::default();
        for node in host
            .each("addoutputfilterbytype")
            .filter(|node| node.args.iter().any(|arg| arg.contains("DEFLATE") || arg.contains("BROTLI")))
        {
            out.set("compress", true, node.origin);
            self.ledger.differs(node.origin, "all formats of text are compressed");
        }
        out
    }

    pub(super) fn body_limit(&mut self, host: &Host<'a>, route: &mut Route) {
        match host
            .one("limitrequestbody")
            .and_then(|node| Some((node.arg(0).parse::<u64>().ok()?, node.origin)))
        {
            Some((0, origin)) => route.table.set("max_body", "off", origin),
            Some((bytes, origin)) => route.table.set("max_body", size(bytes), origin),
            None => route.table.note("max_body", "1GiB", "the default of Apache"),
        }
    }
}
