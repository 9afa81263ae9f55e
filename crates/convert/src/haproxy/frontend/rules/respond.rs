//! Redirects and fixed responses, the headers of responses, and the texts of all of them.

use super::{CLOSED, Done, State};
use crate::haproxy::Reader;
use crate::haproxy::section::Line;
use crate::ledger::Origin;
use crate::model::Route;
use crate::table::Table;

impl Reader<'_> {
    pub(super) fn redirect(&mut self, line: &Line, options: &[String], state: &State) -> Done {
        let value =
            |name: &str| options.iter().position(|option| option == name).and_then(|at| options.get(at + 1));
        let code = value("code").and_then(|code| code.parse::<i64>().ok()).unwrap_or(302);
        let Some(places) = state.reach.routes(line.origin, false, false) else {
            self.ledger.lost(
                line.origin,
                "the path is rewritten before in a way without a counterpart",
                CLOSED,
            );
            return Done::Lost;
        };
        let mut routes = Vec::new();
        for (mut route, path) in places {
            let path = if path.is_empty() { "$path".to_owned() } else { path };
            let target = match (value("scheme"), value("prefix"), value("location")) {
                (Some(scheme), ..) => Some(format!("{scheme}://$host_name{path}$query")),
                (_, Some(prefix), _) => template(prefix.trim_end_matches('/'), &path)
                    .map(|prefix| format!("{prefix}{path}$query")),
                (_, _, Some(location)) => template(location, &path),
                _ => None,
            };
            let target = target.filter(|target| crate::nginx::safe_target(target).is_ok());
            let Some(target) = target.filter(|_| [301, 302, 303, 307, 308].contains(&code)) else {
                self.ledger.lost(
                    line.origin,
                    "its target or status has no counterpart",
                    "write `redirect` of a route by hand; its requests get 501",
                );
                return Done::Lost;
            };
            route.table.set("redirect", crate::nginx::redirect(&target, code, line.origin), line.origin);
            routes.push(route);
        }
        self.ledger.carried(line.origin);
        Done::Ended(routes)
    }

    /// A fixed response.
    pub(super) fn fixed(&mut self, line: &Line, state: &State, status: i64, words: &[String]) -> Vec<Route> {
        self.ledger.carried(line.origin);
        let mut routes = state.reach.refused(line.origin, false, status);
        for route in &mut routes {
            self.body(line.origin, words, status, route);
        }
        routes
    }

    pub(super) fn response_rule(&mut self, line: &Line, common: &mut Table) {
        let origin = line.origin;
        let is_conditional = line.words.iter().any(|word| word == "if" || word == "unless");
        match (line.word(1), is_conditional) {
            ("set-header" | "add-header", false) => match template(&line.after(3).join(" "), "$path") {
                Some(value) => {
                    let kind = if line.word(1) == "set-header" { "set" } else { "add" };
                    common.set_in(&["headers", kind], line.word(2), value, origin);
                }
                None => self.ledger.lost(
                    origin,
                    "its value has no counterpart",
                    "set `headers` of the route by hand",
                ),
            },
            ("del-header", false) => common.push_in(&["headers"], "remove", line.word(2), origin),
            _ => self.ledger.lost(origin, "it has no counterpart", "set `headers` of the route by hand"),
        }
    }

    /// `string TEXT` and `content-type TYPE` of `return` and `deny`.
    fn body(&mut self, origin: Origin, words: &[String], status: i64, route: &mut Route) {
        let after = |name: &str| words.iter().position(|word| word == name).and_then(|at| words.get(at + 1));
        let other = ["file", "lf-file", "lf-string", "errorfile", "errorfiles", "hdr"];
        if let Some(word) = words.iter().find(|word| other.contains(&word.as_str())) {
            self.ledger.differs(origin, format!("`{word}` is left out: the body is Keepwarm's own"));
        }
        let Some(text) = after("string").filter(|_| !matches!(status, 204 | 304)) else { return };
        let mut respond = Table::default();
        respond.set("status", status, origin);
        respond.set("body", text.replace('$', "$$"), origin);
        if let Some(media) = after("content-type").filter(|media| *media != "text/plain") {
            respond.set("content_type", media.as_str(), origin);
        }
        route.table.set("respond", respond, origin);
    }
}

/// A log-format string with variables, as a template.
pub(super) fn template(text: &str, path: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("%[") {
        let (before, after) = rest.split_at(at);
        out.push_str(before);
        let (expression, behind) = after.get(2..)?.split_once(']')?;
        let name = expression.split(',').next().unwrap_or(expression);
        let argument = || name.split_once('(').map(|(_, rest)| rest.trim_end_matches(')').to_owned());
        out.push_str(&match name {
            "src" => "$client".to_owned(),
            "path" => path.to_owned(),
            "capture.req.uri" => "$path$query".to_owned(),
            "url" | "pathq" => format!("{path}$query"),
            "query" => "$args".to_owned(),
            "method" => "$method".to_owned(),
            "unique-id" => "$request_id".to_owned(),
            name if name.starts_with("hdr(host)")
                || name.starts_with("req.hdr(host)")
                || name.starts_with("req.hdr(Host)") =>
            {
                "$host".to_owned()
            }
            name if name.starts_with("hdr(") || name.starts_with("req.hdr(") => {
                format!("$header_{}", argument()?.replace('-', "_"))
            }
            name if name.starts_with("req.cook(") => format!("$cookie_{}", argument()?),
            _ => return None,
        });
        rest = behind;
    }
    out.push_str(rest);
    // Old variables: %ci, %[…] is above.
    let out = out.replace("%ci", "$client").replace("%HU", "$path$query").replace("%HM", "$method");
    match out.contains('%') {
        true => out.contains("%%").then(|| out.replace("%%", "%")),
        false => Some(out),
    }
}
