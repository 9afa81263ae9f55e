//! Frontends: binds, acls, rules, and the backend of each request.

mod bind;
mod condition;
mod rules;

use super::Reader;
use super::backend::millis;
use super::section::{Line, Section};
use crate::model::{PathMatch, Route, Site};
use crate::table::Table;
use crate::units::time;

const TODO: &str = "write a route with the condition by hand, before the others";
const CLOSED: &str = "what it may refuse gets 501; write a route with the condition by hand instead";

/// A condition of a route, from an acl.
#[derive(Clone, Debug, Default)]
struct Condition {
    path: Option<Vec<String>>,
    table: Table,
}

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
}
