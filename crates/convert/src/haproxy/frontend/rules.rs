//! `use_backend`, `redirect`, `http-request`, `http-response`.

use super::condition::{alternatives, counts_clients, merged};
use super::{CLOSED, Condition, TODO};
use crate::haproxy::Reader;
use crate::haproxy::section::{Line, Section};
use crate::ledger::Origin;
use crate::model::{PathMatch, Route};
use crate::table::Table;

impl Reader<'_> {
    /// `redirect`, `http-request`, `http-response`, `use_backend`.
    pub(super) fn rule(
        &mut self,
        line: &Line,
        section: &Section,
        defaults: &[Line],
        routes: &mut Vec<Route>,
        common: &mut Table,
    ) {
        match line.word(0) {
            "redirect" => self.redirect(line, 1, section, routes),
            "use_backend" => self.use_backend(line, section, defaults, routes),
            "http-request" => self.request_rule(line, section, routes, common),
            "http-response" | "rspadd" | "rspidel" | "rspdel" => self.response_rule(line, common),
            "monitor-uri" => {
                let mut route = Route::new(line.origin, PathMatch::Exact(line.word(1).to_owned()));
                route.table.set("respond", 200i64, line.origin);
                routes.push(route);
            }
            "stats" => self.ledger.dropped(
                line.origin,
                "Keepwarm has its own page for operators",
                "set `admin.bind`, or use `keepwarm status`",
            ),
            "acl" | "bind" | "default_backend" | "server" | "mode" => {}
            "reqadd"
            | "reqdel"
            | "reqidel"
            | "reqrep"
            | "reqirep"
            | "block"
            | "tcp-request"
            | "tcp-response"
            | "stick-table"
            | "stick"
            | "filter"
            | "use-service"
            | "http-after-response"
            | "declare" => {
                self.ledger.lost(
                    line.origin,
                    "it has no counterpart",
                    "find out what it does, and use `rate_limit`, `concurrency`, `allow` or `headers`",
                );
            }
            _ => {}
        }
    }

    fn use_backend(&mut self, line: &Line, section: &Section, defaults: &[Line], routes: &mut Vec<Route>) {
        let name = line.word(1);
        let Some(upstream) = self.backend(name, defaults) else {
            self.ledger.lost(line.origin, format!("`{name}` is not a backend with servers"), TODO);
            return;
        };
        let mut route = Route::new(line.origin, PathMatch::Any);
        route.table.set("upstream", upstream, line.origin);
        let first = routes.len();
        self.conditional(line, 2, section, route, routes, TODO);
        self.backend_rules(name, first, routes);
    }

    /// Rules of a backend apply to the routes that lead to it: all from `first` on.
    pub(super) fn backend_rules(&mut self, name: &str, first: usize, routes: &mut Vec<Route>) {
        let Some(section) =
            self.sections.iter().find(|section| section.kind == "backend" && section.name == name).cloned()
        else {
            return;
        };
        let mut common = Table::default();
        let mut rules = Vec::new();
        for line in &section.lines {
            match line.word(0) {
                "http-request" => self.request_rule(line, &section, &mut rules, &mut common),
                "http-response" => self.response_rule(line, &mut common),
                "stick-table" | "stick" | "tcp-request" | "filter" | "acl" => {
                    if line.word(0) != "acl" {
                        self.ledger.lost(
                            line.origin,
                            "it has no counterpart",
                            "use `rate_limit`, `concurrency` or `balance` with `hash`",
                        );
                    } else if !self.ledger.is_settled(line.origin) {
                        self.ledger.ignored(line.origin, "its rules are reported");
                    }
                }
                _ => {}
            }
        }
        let leading = routes.split_off(first);
        for mut route in leading {
            routes.extend(rules.iter().map(|rule| self.ahead_of(&route, rule)));
            for item in &common.items {
                if !route.table.has(&item.key) {
                    route.table.items.push(item.clone());
                }
            }
            routes.push(route);
        }
    }

    /// A rule of a backend for the requests of a route that leads to it; 501 for all of them, if both conditions cannot be one.
    fn ahead_of(&mut self, route: &Route, rule: &Route) -> Route {
        let mut ahead = route.clone();
        ahead.origin = rule.origin;
        ahead.table.items.retain(|item| item.key != "upstream");
        let path = match &rule.path {
            PathMatch::Any => Some(None),
            PathMatch::Patterns(patterns) => Some(Some(patterns.clone())),
            _ => None,
        };
        let (targets, conditions): (Vec<_>, Vec<_>) = rule
            .table
            .items
            .iter()
            .cloned()
            .partition(|item| matches!(item.key.as_str(), "respond" | "redirect"));
        let condition = path.map(|path| Condition { path, table: Table { items: conditions } });
        if let Some(mut merged) = condition.and_then(|condition| merged(&ahead, &[condition])) {
            merged.table.items.extend(targets);
            return merged;
        }
        if let Some(origin) = rule.origin {
            self.ledger.lost(origin, "two conditions on the same thing", CLOSED);
        }
        ahead.table.set("respond", 501i64, rule.origin);
        ahead
    }

    fn redirect(&mut self, line: &Line, at: usize, section: &Section, routes: &mut Vec<Route>) {
        let words = line.after(at);
        let end = words.iter().position(|word| word == "if" || word == "unless").unwrap_or(words.len());
        let options = words.get(..end).unwrap_or(&[]);
        let value =
            |name: &str| options.iter().position(|option| option == name).and_then(|at| options.get(at + 1));
        let code = value("code").and_then(|code| code.parse::<i64>().ok()).unwrap_or(302);
        let target = match (value("scheme"), value("prefix"), value("location")) {
            (Some(scheme), ..) => format!("{scheme}://$host_name$path$query"),
            (_, Some(prefix), _) => format!("{}$path$query", prefix.trim_end_matches('/')),
            (_, _, Some(location)) => location.clone(),
            _ => String::new(),
        };
        let target = template(&target);
        let Some(target) = target.filter(|target| crate::nginx::safe_target(target).is_ok()) else {
            self.ledger.lost(
                line.origin,
                "its target has no counterpart",
                "write `redirect` of a route by hand",
            );
            return;
        };
        let mut route = Route::new(line.origin, PathMatch::Any);
        route.table.set("redirect", crate::nginx::redirect(&target, code, line.origin), line.origin);
        self.conditional(line, at + end, section, route, routes, TODO);
    }

    fn request_rule(&mut self, line: &Line, section: &Section, routes: &mut Vec<Route>, common: &mut Table) {
        let origin = line.origin;
        let is_conditional = line.words.iter().any(|word| word == "if" || word == "unless");
        let at =
            line.words.iter().position(|word| word == "if" || word == "unless").unwrap_or(line.words.len());
        match line.word(1) {
            "redirect" => self.redirect(line, 2, section, routes),
            "deny" | "return" | "tarpit" | "reject" => {
                let words = line.after(2);
                let status = words
                    .iter()
                    .position(|word| word == "deny_status" || word == "status")
                    .and_then(|at| words.get(at + 1)?.parse::<i64>().ok());
                let default = if line.word(1) == "return" { 200 } else { 403 };
                let status = status.unwrap_or(default).clamp(200, 599);
                let mut route = Route::status(origin, PathMatch::Any, status);
                self.body(origin, words, status, &mut route);
                match line.word(1) {
                    "return" => self.conditional(line, at, section, route, routes, TODO),
                    _ => self.denial(line, at, section, route, routes),
                }
            }
            "set-header" | "add-header" | "del-header" if is_conditional => {
                let is_forwarded = line.word(2).to_ascii_lowercase().starts_with("x-forwarded-");
                match is_forwarded {
                    true => self.ledger.ignored(origin, "Keepwarm sends X-Forwarded-* itself"),
                    false => self.ledger.lost(origin, "headers are set for all requests of a route", TODO),
                }
            }
            "set-header" | "add-header" => {
                let (name, value) = (line.word(2), line.words.get(3..at).unwrap_or(&[]).join(" "));
                let lower = name.to_ascii_lowercase();
                if lower.starts_with("x-forwarded-") || lower == "forwarded" {
                    self.ledger.ignored(origin, "Keepwarm sends X-Forwarded-* and Forwarded itself");
                } else if let (Some(value), false) = (template(&value), lower == "host") {
                    let kind = if line.word(1) == "set-header" { "set" } else { "add" };
                    common.set_in(&["request_headers", kind], name, value, origin);
                } else {
                    self.ledger.lost(
                        origin,
                        "its value has no counterpart",
                        "set `request_headers`, or `host` of the upstream, by hand",
                    );
                }
            }
            "del-header" => common.push_in(&["request_headers"], "remove", line.word(2), origin),
            "set-path" | "replace-path" | "replace-uri" | "set-uri" | "replace-header" | "replace-pathq" => {
                self.ledger.lost(
                    origin,
                    "it changes the request",
                    "set `rewrite` or `request_headers` of the route by hand",
                );
            }
            "set-var" | "set-log-level" | "capture" | "set-nice" | "set-priority-class" | "wait-for-body"
            | "normalize-uri" => {
                self.ledger.dropped(origin, "Keepwarm has no such variables", "find out what uses them");
            }
            "auth" => {
                self.ledger.lost(
                    origin,
                    "users are in a file of bcrypt or argon2 hashes; its requests get 501",
                    "set `basic_auth` of the routes (keepwarm hash-password), and remove the 501",
                );
                self.close(line, at, section, routes);
            }
            "track-sc0" | "track-sc1" | "track-sc2" | "sc-inc-gpc0" => {
                self.ledger.lost(
                    origin,
                    "counters of clients",
                    "set `rate_limit` or `concurrency` of the routes",
                );
            }
            _ => self.ledger.lost(origin, "it has no counterpart", "write it by hand"),
        }
    }

    fn response_rule(&mut self, line: &Line, common: &mut Table) {
        let origin = line.origin;
        let is_conditional = line.words.iter().any(|word| word == "if" || word == "unless");
        match (line.word(1), is_conditional) {
            ("set-header" | "add-header", false) => match template(&line.after(3).join(" ")) {
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

    /// A rule that refuses requests: without a counterpart, what it may refuse gets 501. What clients do is counted otherwise, and is not closed.
    fn denial(&mut self, line: &Line, at: usize, section: &Section, route: Route, routes: &mut Vec<Route>) {
        let before = routes.len();
        let is_limit = line.after(at).iter().any(|word| counts_clients(word))
            || alternatives(line.after(at)).iter().flatten().any(|term| self.is_counter(term, section));
        self.conditional(line, at, section, route, routes, if is_limit { TODO } else { CLOSED });
        if routes.len() == before && !is_limit {
            self.close(line, at, section, routes);
        }
    }

    fn is_counter(&self, term: &str, section: &Section) -> bool {
        let name = term.trim_start_matches('!');
        let mut acls = section.lines.iter().filter(|line| line.word(0) == "acl" && line.word(1) == name);
        acls.any(|line| counts_clients(line.word(2)))
    }

    /// Responds with 501 where a condition may hold: parts of it without a counterpart count as true.
    fn close(&mut self, line: &Line, at: usize, section: &Section, routes: &mut Vec<Route>) {
        let words = line.after(at);
        let closed = Route::status(line.origin, PathMatch::Any, 501);
        if words.first().is_none_or(|first| first == "unless") {
            routes.push(closed);
            return;
        }
        for terms in alternatives(words) {
            let known: Vec<Condition> = terms
                .iter()
                .filter_map(|term| self.term(term.trim_start_matches('!'), term.starts_with('!'), section)?)
                .collect();
            routes.push(merged(&closed, &known).unwrap_or_else(|| closed.clone()));
        }
    }
}

/// A log-format string with variables, as a template.
fn template(text: &str) -> Option<String> {
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
            "path" => "$path".to_owned(),
            "capture.req.uri" | "url" | "pathq" => "$path$query".to_owned(),
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
