//! Frontends: binds, acls, rules, and the backend of each request.

use super::Reader;
use super::backend::millis;
use super::section::{Line, Section};
use crate::ledger::Origin;
use crate::model::{Bind, Certificate, PathMatch, Route, Site};
use crate::table::{Table, Value, one_or_list};
use crate::units::time;

/// A condition of a route, from an acl.
#[derive(Clone, Debug, Default)]
struct Condition {
    path: Option<Vec<String>>,
    table: Table,
}

const TODO: &str = "write a route with the condition by hand, before the others";
const CLOSED: &str = "what it may refuse gets 501; write a route with the condition by hand instead";

impl Reader<'_> {
    pub(super) fn frontend(&mut self, section: &Section, defaults: &[Line]) {
        self.ledger.carried(section.origin);
        let lines: Vec<Line> = defaults.iter().chain(&section.lines).cloned().collect();
        let mode = lines.iter().rfind(|line| line.word(0) == "mode").map_or("tcp", |line| line.word(1));
        if mode != "http" {
            let section = section.clone();
            self.drop_section(
                &section,
                "Keepwarm serves HTTP, and no other streams",
                "keep HAProxy for these ports",
            );
            return;
        }
        let is_only_stats = section.lines.iter().any(|line| line.word(0) == "stats")
            && !section
                .lines
                .iter()
                .any(|line| matches!(line.word(0), "server" | "use_backend" | "default_backend"));
        if is_only_stats {
            self.ignore_section(&section.clone(), "a page of statistics");
            self.ledger.dropped(
                section.origin,
                "Keepwarm has its own page for operators",
                "set `admin.bind`, or use `keepwarm status`",
            );
            return;
        }
        let mut site = Site { origin: Some(section.origin), ..Site::default() };
        for line in section.lines.iter().filter(|line| line.word(0) == "bind") {
            self.bind(line, &mut site);
        }
        for line in &lines {
            self.setting(line, &mut site);
        }
        let mut routes = Vec::new();
        let mut common = Table::default();
        // HAProxy evaluates them in this order, whatever their order in the file.
        let mut rules: Vec<&Line> = section.lines.iter().collect();
        rules.sort_by_key(|line| match line.word(0) {
            "monitor-uri" => 0,
            "http-request" => 1,
            "redirect" => 2,
            _ => 3,
        });
        for line in rules {
            self.rule(line, section, defaults, &mut routes, &mut common);
        }
        let default = lines.iter().rfind(|line| line.word(0) == "default_backend");
        let of_listen = (section.kind == "listen").then(|| section.name.clone());
        let last = default
            .map(|line| (line.word(1).to_owned(), line.origin))
            .or_else(|| Some((of_listen?, section.origin)));
        if let Some((name, origin)) = last {
            match self.backend(&name, defaults) {
                Some(upstream) => {
                    let mut route = Route::new(origin, PathMatch::Any);
                    route.table.set("upstream", upstream, origin);
                    routes.push(route);
                    let first = routes.len() - 1;
                    self.backend_rules(&name, first, &mut routes);
                }
                None if routes.iter().any(Route::is_for_all) => {}
                None => {
                    self.ledger.lost(
                        origin,
                        format!("there is no server in `{name}`"),
                        "write the route by hand",
                    );
                    routes.push(Route::status(origin, PathMatch::Any, 503));
                }
            }
        }
        for route in &mut routes {
            for item in &common.items {
                // Rules of responses are for those of servers, not for HAProxy's own.
                let is_request = matches!(item.key.as_str(), "request_headers" | "headers")
                    && !route.table.has("upstream");
                if !is_request && !route.table.has(&item.key) {
                    route.table.items.push(item.clone());
                }
            }
        }
        site.routes = routes;
        if site.binds.is_empty() {
            self.ledger.lost(
                section.origin,
                "it has no address that Keepwarm can listen on",
                "set `bind` of a listener",
            );
            return;
        }
        self.model.sites.push(site);
    }

    fn bind(&mut self, line: &Line, site: &mut Site) {
        let options = line.after(2);
        let has = |name: &str| options.iter().any(|option| option == name);
        let value =
            |name: &str| options.iter().position(|option| option == name).and_then(|at| options.get(at + 1));
        let tls = has("ssl");
        self.ledger.carried(line.origin);
        for address in line.word(1).split(',') {
            let address =
                match address.strip_prefix("unix@").or_else(|| address.strip_prefix('/').map(|_| address)) {
                    Some(path) => format!("unix:{path}"),
                    None => match address.trim_start_matches("ipv4@").trim_start_matches("ipv6@") {
                        address if address.starts_with("*:") => address.replace("*:", "0.0.0.0:"),
                        address if address.starts_with(":::") => address.replacen(":::", "[::]:", 1),
                        address if address.starts_with(':') => format!("0.0.0.0{address}"),
                        address => address.to_owned(),
                    },
                };
            let bind = Bind {
                address,
                tls,
                is_default: true,
                proxy_protocol: has("accept-proxy"),
                origin: Some(line.origin),
            };
            site.binds.push(bind);
        }
        if tls {
            self.certificate(line, value("crt").map(String::as_str), site);
        }
        if has("accept-proxy") {
            self.ledger.differs(
                line.origin,
                "set `server.trusted_proxies` to the addresses of the proxies that send the header",
            );
            self.model.server.note(
                "trusted_proxies",
                vec!["127.0.0.1"],
                "set this: the proxies that send the PROXY header",
            );
        }
        if let Some(ca) = value("ca-file") {
            site.tls.set("client_ca", ca.as_str(), line.origin);
            if value("verify").is_some_and(|verify| verify == "optional") {
                site.tls.set("client_auth", "optional", line.origin);
            }
        }
        if let Some(crl) = value("crl-file") {
            site.tls.set("client_crl", crl.as_str(), line.origin);
        }
        if value("alpn").is_some_and(|alpn| !alpn.contains("h2")) {
            site.listener.set("http2", false, line.origin);
        }
        if value("ssl-min-ver").is_some_and(|version| version == "TLSv1.3") {
            site.tls.set("profile", "modern", line.origin);
        }
    }

    /// `crt` is a file with the certificate and its key, or a directory of them.
    fn certificate(&mut self, line: &Line, crt: Option<&str>, site: &mut Site) {
        let Some(crt) = crt else {
            self.ledger.lost(line.origin, "it has no `crt`", "set `tls.cert` and `tls.key` of the listener");
            return;
        };
        let path = std::path::Path::new(crt);
        let here = self.files.here(path);
        let is_directory = here.is_dir() || crt.ends_with('/');
        let files: Vec<String> = match is_directory {
            false => vec![crt.to_owned()],
            true => {
                let mut found: Vec<String> = here
                    .read_dir()
                    .map(|entries| {
                        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
                    })
                    .unwrap_or_default();
                found.retain(|name| name.ends_with(".pem") || name.ends_with(".crt"));
                found.sort();
                found.iter().map(|name| path.join(name).display().to_string()).collect()
            }
        };
        if files.is_empty() {
            self.ledger.lost(
                line.origin,
                format!("{crt} cannot be read here"),
                "set `tls.certificates` of the listener to its files",
            );
            site.tls.note(
                "cert",
                format!("{crt}/site.pem").replace("//", "/"),
                "set this: a file of the directory",
            );
            site.tls.note(
                "key",
                format!("{crt}/site.pem").replace("//", "/"),
                "set this: a file of the directory",
            );
        }
        for file in files {
            site.certificates.push(Certificate { cert: file.clone(), key: file, origin: Some(line.origin) });
        }
    }

    fn setting(&mut self, line: &Line, site: &mut Site) {
        let origin = line.origin;
        match (line.word(0), line.word(1)) {
            ("timeout", kind @ ("client" | "http-request" | "http-keep-alive" | "tunnel")) => {
                let Some(limit) = millis(line.word(2)).filter(|millis| *millis > 0) else {
                    self.ledger.lost(origin, "it is not a time", "set `limits` of the listener");
                    return;
                };
                let key = match kind {
                    "client" => "write_timeout",
                    "http-request" => "head_timeout",
                    "http-keep-alive" => "idle_timeout",
                    _ => "websocket_idle",
                };
                let most =
                    if matches!(key, "write_timeout" | "head_timeout") { 3_600_000 } else { 86_400_000 };
                site.listener.set_in(&["limits"], key, time(limit.min(most)), origin);
            }
            ("option", "forwardfor") => self.ledger.carried(origin),
            (
                "option",
                "httplog"
                | "dontlognull"
                | "http-server-close"
                | "http-keep-alive"
                | "redispatch"
                | "httpclose"
                | "forceclose"
                | "tcplog"
                | "http-buffer-request"
                | "splice-auto"
                | "tcp-smart-accept"
                | "contstats"
                | "log-separate-errors"
                | "logasap"
                | "dontlog-normal"
                | "abortonclose"
                | "http-no-delay"
                | "http-pretend-keepalive"
                | "tcpka"
                | "clitcpka"
                | "srvtcpka"
                | "allbackups"
                | "persist"
                | "log-health-checks"
                | "http-use-htx"
                | "socket-stats",
            ) => {
                self.ledger.ignored(origin, super::SOCKETS);
            }
            ("log" | "log-format" | "log-tag", _) => self
                .ledger
                .differs(origin, "requests are logged to standard output (`access_log` of the listener)"),
            ("errorfile", _) => self.ledger.dropped(
                origin,
                "a page of HAProxy has a response's head",
                "set `error_pages` to a file of the body",
            ),
            ("compression", "algo") => site.listener.set("compress", true, origin),
            ("compression", "type") => {
                let types: Vec<String> = line.after(2).to_vec();
                let mut table = Table::default();
                table.set("types", types, origin);
                site.listener.set("compress", table, origin);
            }
            ("maxconn", _) if line.word(0) == "maxconn" => self.ledger.differs(
                origin,
                "connections of the whole process are limited (`server.limits.connections`)",
            ),
            _ => {}
        }
    }

    /// `redirect`, `http-request`, `http-response`, `use_backend`.
    fn rule(
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
    fn backend_rules(&mut self, name: &str, first: usize, routes: &mut Vec<Route>) {
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

    /// Adds a route for each alternative of a condition; none, and `todo` in the report, if a part of it has no counterpart.
    fn conditional(
        &mut self,
        line: &Line,
        at: usize,
        section: &Section,
        route: Route,
        routes: &mut Vec<Route>,
        todo: &str,
    ) {
        let words = line.after(at);
        let Some(first) = words.first() else {
            routes.push(route);
            return;
        };
        let alternatives = alternatives(words);
        if first == "unless"
            && (alternatives.len() > 1 || alternatives.first().is_some_and(|terms| terms.len() > 1))
        {
            self.ledger.lost(line.origin, "`unless` with several conditions", todo);
            return;
        }
        let mut made = Vec::new();
        for terms in &alternatives {
            let mut conditions = Vec::new();
            for term in terms {
                let negated = term.starts_with('!') != (first == "unless");
                match self.term(term.trim_start_matches('!'), negated, section) {
                    Some(Some(condition)) => conditions.push(condition),
                    // Always true.
                    Some(None) => {}
                    None => {
                        self.ledger.lost(
                            line.origin,
                            format!("the condition `{term}` has no counterpart"),
                            todo,
                        );
                        return;
                    }
                }
            }
            match merged(&route, &conditions) {
                Some(route) => made.push(route),
                None => {
                    self.ledger.lost(line.origin, "two conditions on the same thing", todo);
                    return;
                }
            }
        }
        routes.extend(made);
    }

    /// A named or anonymous acl; `Some(None)`: it is always true.
    fn term(&mut self, term: &str, negated: bool, section: &Section) -> Option<Option<Condition>> {
        if let Some(inside) = term.strip_prefix('{') {
            let words: Vec<String> =
                inside.trim_end_matches('}').split_whitespace().map(str::to_owned).collect();
            return condition(&words, negated, section.origin).map(Some);
        }
        match term {
            "TRUE" if !negated => return Some(None),
            "HTTP" | "METH_GET" | "METH_POST" | "LOCALHOST" => {
                let words: Vec<String> = match term {
                    "METH_GET" => vec!["method".to_owned(), "GET".to_owned()],
                    "METH_POST" => vec!["method".to_owned(), "POST".to_owned()],
                    "LOCALHOST" => vec!["src".to_owned(), "127.0.0.1".to_owned()],
                    _ => return Some(None),
                };
                return condition(&words, negated, section.origin).map(Some);
            }
            _ => {}
        }
        let lines: Vec<&Line> =
            section.lines.iter().filter(|line| line.word(0) == "acl" && line.word(1) == term).collect();
        let mut all: Option<Condition> = None;
        for line in &lines {
            let found = condition(line.after(2), negated, line.origin)?;
            self.ledger.carried(line.origin);
            all = Some(match all {
                None => found,
                // Several acls of one name: any of them.
                Some(earlier) => either(earlier, found)?,
            });
        }
        all.map(Some)
    }
}

/// Whether a criterion counts what clients or servers do: a rule with it is a limit.
fn counts_clients(criterion: &str) -> bool {
    const COUNTERS: [&str; 14] = [
        "sc_",
        "sc0_",
        "sc1_",
        "sc2_",
        "src_conn",
        "src_http",
        "src_get_",
        "src_inc_",
        "src_sess",
        "src_bytes",
        "table_",
        "be_",
        "fe_",
        "nbsrv",
    ];
    let criterion = criterion.trim_start_matches(['!', '{']);
    COUNTERS.iter().any(|counter| criterion.starts_with(counter))
}

/// The terms of each alternative of `if A B or C`.
fn alternatives(words: &[String]) -> Vec<Vec<String>> {
    let mut alternatives: Vec<Vec<String>> = vec![Vec::new()];
    for word in join_braces(words.get(1..).unwrap_or(&[])) {
        match word.as_str() {
            "or" | "||" => alternatives.push(Vec::new()),
            _ => alternatives.iter_mut().last().into_iter().for_each(|terms| terms.push(word.clone())),
        }
    }
    alternatives
}

/// `{ path_beg /x }` as one word.
fn join_braces(words: &[String]) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut open: Option<String> = None;
    for word in words {
        match open.take() {
            Some(text) if word.ends_with('}') => out.push(format!("{text} {word}")),
            Some(text) => open = Some(format!("{text} {word}")),
            None if word.trim_start_matches('!').starts_with('{') && !word.ends_with('}') => {
                open = Some(word.clone())
            }
            None => out.push(word.clone()),
        }
    }
    out.extend(open);
    out
}

/// The condition of an acl: a criterion, flags, patterns.
fn condition(words: &[String], negated: bool, origin: Origin) -> Option<Condition> {
    let criterion = words.first()?.as_str();
    let ignore_case = words.iter().any(|word| word == "-i");
    let mut patterns: Vec<&str> =
        words.get(1..)?.iter().map(String::as_str).filter(|word| !matches!(*word, "-i" | "--")).collect();
    if patterns.iter().any(|pattern| *pattern == "-f" || *pattern == "-M") {
        return None;
    }
    let method = match patterns.first() {
        Some(&"-m") => {
            let method = patterns.get(1).copied().unwrap_or("str");
            patterns.drain(..2.min(patterns.len()));
            method
        }
        _ => "",
    };
    let (name, argument) =
        criterion.split_once('(').map_or((criterion, ""), |(name, rest)| (name, rest.trim_end_matches(')')));
    let (name, suffix) = match name.rsplit_once('_') {
        Some((name, suffix @ ("beg" | "end" | "sub" | "reg" | "dom" | "dir" | "len" | "cnt" | "val"))) => {
            (name, suffix)
        }
        _ => (name, method),
    };
    let sign = if negated { "!" } else { "" };
    let quoted = |suffix: &str, text: &str| -> Option<String> {
        Some(match suffix {
            "" | "str" if ignore_case => format!("{sign}~(?i)^{}$", crate::model::escape(text)),
            "" | "str" => format!("{sign}{text}"),
            "beg" if ignore_case => format!("{sign}~(?i)^{}", crate::model::escape(text)),
            "beg" => format!("{sign}{text}*"),
            "end" if ignore_case => format!("{sign}~(?i){}$", crate::model::escape(text)),
            "end" => format!("{sign}*{text}"),
            "sub" | "dir" | "dom" if ignore_case => format!("{sign}~(?i){}", crate::model::escape(text)),
            "sub" => format!("{sign}*{text}*"),
            "reg" => format!("{sign}~{}", crate::expression::check(text, ignore_case).ok()?),
            _ => return None,
        })
    };
    let all =
        |suffix: &str| patterns.iter().map(|text| quoted(suffix, text)).collect::<Option<Vec<String>>>();
    let mut table = Table::default();
    match name {
        "path" | "url" => return Some(Condition { path: Some(all(suffix)?), table }),
        "hdr" | "req.hdr" | "req.fhdr"
            if argument.split(',').next().is_some_and(|name| name.eq_ignore_ascii_case("host")) =>
        {
            let hosts: Option<Vec<String>> = match suffix {
                // Hosts are compared regardless of case.
                "" | "str" => {
                    Some(patterns.iter().map(|host| format!("{sign}{}", host.to_lowercase())).collect())
                }
                "end" => {
                    Some(patterns.iter().map(|host| format!("{sign}*{}", host.to_lowercase())).collect())
                }
                "beg" => {
                    Some(patterns.iter().map(|host| format!("{sign}{}*", host.to_lowercase())).collect())
                }
                "dom" => Some(
                    patterns
                        .iter()
                        .flat_map(|host| [format!("{sign}{host}"), format!("{sign}*.{host}")])
                        .collect(),
                ),
                other => all(other),
            };
            table.set("host", one_or_list(hosts?), origin);
        }
        "hdr" | "req.hdr" | "req.fhdr" => table.set_in(
            &["header"],
            argument.split(',').next()?,
            values(all(suffix)?, suffix, negated),
            origin,
        ),
        "req.cook" | "cook" => {
            table.set_in(&["cookie"], argument, values(all(suffix)?, suffix, negated), origin)
        }
        "url_param" | "urlp" => {
            table.set_in(&["query"], argument, values(all(suffix)?, suffix, negated), origin)
        }
        "method" => table.set(
            "method",
            one_or_list(patterns.iter().map(|method| format!("{sign}{method}")).collect()),
            origin,
        ),
        "src" => {
            let clients: Vec<String> = patterns.iter().map(|address| format!("{sign}{address}")).collect();
            if !patterns.iter().all(|address| crate::cidr::is_address(address)) {
                return None;
            }
            table.set("client", clients, origin);
        }
        "ssl_fc" => table.set("scheme", if negated { "http" } else { "https" }, origin),
        "dst_port" => match (patterns.as_slice(), negated) {
            (["443"], false) | (["80"], true) => table.set("scheme", "https", origin),
            (["80"], false) | (["443"], true) => table.set("scheme", "http", origin),
            _ => return None,
        },
        _ => return None,
    }
    Some(Condition { path: None, table })
}

/// `-m found` has no pattern: the header is there.
fn values(patterns: Vec<String>, suffix: &str, negated: bool) -> Value {
    match patterns.is_empty() || suffix == "found" {
        true => Value::from(if negated { "!*" } else { "*" }),
        false => one_or_list(patterns),
    }
}

/// Either of two conditions, if they are on the same thing.
fn either(a: Condition, b: Condition) -> Option<Condition> {
    match (a.path, b.path) {
        (Some(mut a), Some(b)) => {
            a.extend(b);
            Some(Condition { path: Some(a), table: Table::default() })
        }
        (None, None) => {
            let ([one], [other]) = (a.table.items.as_slice(), b.table.items.as_slice()) else { return None };
            if one.key != other.key {
                return None;
            }
            let list = |value: &Value| match value {
                Value::List(list) => Some(list.clone()),
                Value::Text(text) => Some(vec![Value::from(text.as_str())]),
                _ => None,
            };
            let mut all = list(&one.value)?;
            all.extend(list(&other.value)?);
            let mut table = Table::default();
            table.set(&one.key, Value::List(all), one.origin);
            Some(Condition { path: None, table })
        }
        _ => None,
    }
}

/// A route with all conditions; `None`: two are on the same thing.
fn merged(route: &Route, conditions: &[Condition]) -> Option<Route> {
    let mut route = route.clone();
    for condition in conditions {
        if let Some(path) = &condition.path {
            if route.path != PathMatch::Any {
                // Patterns and their negations go together.
                let PathMatch::Patterns(patterns) = &mut route.path else { return None };
                if !path.iter().all(|pattern| pattern.starts_with('!'))
                    && !patterns.iter().all(|pattern| pattern.starts_with('!'))
                {
                    return None;
                }
                patterns.extend(path.iter().cloned());
                continue;
            }
            route.path = PathMatch::Patterns(path.clone());
        }
        for item in &condition.table.items {
            if route.table.has(&item.key) {
                return None;
            }
            route.table.items.push(item.clone());
        }
    }
    Some(route)
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
