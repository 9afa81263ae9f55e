//! Responses that need no app: `redir`, `respond`, `error` and `abort`, with Caddy's placeholders in them.

use super::{Chains, State, Step, apply};
use crate::model::Route;
use crate::reach::Reach;
use crate::table::Table;

impl<'a> Chains<'_, '_> {
    pub(super) fn redirect(&mut self, step: &Step<'a>, state: &State<'a>) -> Vec<Route> {
        let (line, args) = (step.line, &step.args);
        let status = match args.get(1).map(String::as_str) {
            Some("permanent") => 301,
            Some("temporary") | None => 302,
            Some(code) => code.parse().unwrap_or(0),
        };
        let text = args.first().map_or("", String::as_str);
        let places = match self.places(line, state, false) {
            Ok(places) => places,
            Err(closed) => return closed,
        };
        let mut routes = Vec::new();
        for (mut route, path) in places {
            let target = template(text, &path, &state.reach)
                .filter(|target| crate::nginx::safe_target(target).is_ok());
            match target.filter(|_| [301, 302, 303, 307, 308].contains(&status)) {
                Some(target) => route.table.set(
                    "redirect",
                    crate::nginx::redirect(&target, status, line.origin),
                    line.origin,
                ),
                None => {
                    self.reader.ledger.lost(
                        line.origin,
                        "its target or status has no counterpart",
                        "write `redirect` of the route by hand",
                    );
                    route.table.set("respond", 501i64, line.origin);
                }
            }
            apply(&mut route, &state.context, false);
            routes.push(route);
        }
        routes
    }

    pub(super) fn respond(&mut self, step: &Step<'a>, state: &State<'a>) -> Vec<Route> {
        let (line, args) = (step.line, &step.args);
        let places = match self.places(line, state, false) {
            Ok(places) => places,
            Err(closed) => return closed,
        };
        if line.name() == "abort" {
            self.reader.ledger.differs(
                line.origin,
                "the client gets 403: Keepwarm does not close connections without a response",
            );
        }
        // With one argument, three digits are the status; with two, the last one is.
        let is_status = |word: &String| word.len() == 3 && word.bytes().all(|b| b.is_ascii_digit());
        let (body, number) = match args.as_slice() {
            [only] if is_status(only) => (None, Some(only)),
            [body, number, ..] => (Some(body.clone()), Some(number)),
            rest => (rest.first().cloned(), None),
        };
        let inner = line.child("body").or_else(|| line.child("message"));
        let body = inner.map(|inner| inner.arg(0).to_owned()).or(body);
        for inner in &line.inner {
            match inner.name() {
                "body" | "message" => self.reader.ledger.carried(inner.origin),
                "close" => self.reader.ledger.ignored(inner.origin, "connections stay open"),
                _ => inner.settle_unknown(self.reader.ledger),
            }
        }
        let default = if line.name() == "error" { 500 } else { 200 };
        let status = match (line.name(), number) {
            ("abort", _) => Some(403),
            (_, None) => Some(default),
            (_, Some(text)) => text.parse::<i64>().ok().filter(|status| (200..=599).contains(status)),
        };
        let mut routes = Vec::new();
        for (mut route, path) in places {
            let text = body
                .as_ref()
                .filter(|_| line.name() == "respond")
                .map(|body| template(body, &path, &state.reach));
            match (status, text) {
                (None, _) => {
                    self.reader.ledger.lost(
                        line.origin,
                        "its status is none from 200 to 599",
                        "write `respond` by hand",
                    );
                    route.table.set("respond", 501i64, line.origin);
                }
                (Some(status), None) => route.table.set("respond", status, line.origin),
                (Some(status), Some(Some(text))) => {
                    let mut table = Table::default();
                    table.set("status", status, line.origin);
                    table.set("body", text, line.origin);
                    route.table.set("respond", table, line.origin);
                }
                (Some(status), Some(None)) => {
                    self.reader.ledger.lost(
                        line.origin,
                        "its body has a placeholder without a counterpart",
                        "write `respond` by hand",
                    );
                    route.table.set("respond", status, line.origin);
                }
            }
            apply(&mut route, &state.context, false);
            routes.push(route);
        }
        routes
    }
}

/// A text with Caddy's placeholders, as a template; `path` is that of the request, as far as it was rewritten.
pub(super) fn template(text: &str, path: &str, reach: &Reach) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    let path = if path.is_empty() { "$path" } else { path };
    let query = if path.contains('?') { "" } else { "$query" };
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(&before.replace('$', "$$"));
        let (name, behind) = after.split_once('}')?;
        let name = name.trim_start_matches("http.request.");
        let name = name.strip_prefix("http.regexp.").map_or(name.to_owned(), |rest| format!("re.{rest}"));
        out.push_str(&match name.as_str() {
            "uri" => format!("{path}{query}"),
            "path" | "uri.path" => path.split('?').next().unwrap_or(path).to_owned(),
            "orig_uri" => "$path$query".to_owned(),
            "orig_uri.path" => "$path".to_owned(),
            "query" | "uri.query" => "$args".to_owned(),
            "host" => "$host_name".to_owned(),
            "hostport" => "$host".to_owned(),
            "method" => "$method".to_owned(),
            "scheme" => "$scheme".to_owned(),
            "remote_host" | "remote.host" | "client_ip" => "$client".to_owned(),
            "uuid" => "$request_id".to_owned(),
            name => match (
                name.strip_prefix("header."),
                name.strip_prefix("cookie."),
                name.strip_prefix("query."),
                name.strip_prefix("re."),
            ) {
                (Some(header), ..) => format!("$header_{}", header.replace('-', "_")),
                (_, Some(cookie), ..) => format!("$cookie_{cookie}"),
                (_, _, Some(argument), _) => format!("$arg_{argument}"),
                (.., Some(group)) => {
                    let (of, number) = group.rsplit_once('.').unwrap_or(("", group));
                    let is_own = reach.regex.as_ref().is_some_and(|(name, _)| of.is_empty() || name == of);
                    let number: u8 =
                        number.parse().ok().filter(|number| (1..=9).contains(number) && is_own)?;
                    format!("${number}")
                }
                _ => return None,
            },
        });
        rest = behind;
    }
    out.push_str(&rest.replace('$', "$$"));
    Some(out)
}
