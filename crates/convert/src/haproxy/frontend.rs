//! Frontends: binds, acls, rules, and the backend of each request.

mod bind;
mod condition;
mod rules;

use super::Reader;
use super::backend::millis;
use super::section::{Line, Section};
use crate::model::Site;
use crate::table::Table;
use crate::units::time;

const TODO: &str = "write a route with the condition by hand, before the others";
const CLOSED: &str = "what it may refuse gets 501; write a route with the condition by hand instead";

impl Reader<'_> {
    pub(super) fn frontend(&mut self, section: &Section) {
        self.ledger.carried(section.origin);
        let lines: Vec<Line> = section.defaults.iter().chain(&section.lines).cloned().collect();
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
        let mut site = Site { origin: Some(section.origin), has_own_scheme: true, ..Site::default() };
        for line in section.lines.iter().filter(|line| line.word(0) == "bind") {
            self.bind(line, &mut site);
        }
        for line in &lines {
            self.setting(line, &mut site);
        }
        let mut common = Table::default();
        for line in &lines {
            self.side_rule(line, &mut common);
        }
        let default = lines.iter().rfind(|line| line.word(0) == "default_backend");
        let of_listen = (section.kind == "listen").then(|| section.name.clone());
        let last = default
            .map(|line| (line.word(1).to_owned(), line.origin))
            .or_else(|| Some((of_listen?, section.origin)));
        let steps = rules::steps(section);
        let last = last.as_ref().map(|(name, origin)| (name.as_str(), *origin));
        let mut routes = self.run(&steps, &rules::State::all(), last, &mut 0);
        self.settle_rest(section);
        let led: Vec<Section> = section
            .lines
            .iter()
            .filter(|line| matches!(line.word(0), "use_backend" | "default_backend"))
            .filter_map(|line| {
                self.sections.iter().find(|section| section.kind == "backend" && section.name == line.word(1))
            })
            .cloned()
            .collect();
        led.iter().for_each(|section| self.settle_rest(section));
        for route in &mut routes {
            for item in &common.items {
                // Rules of responses are for those of servers, not for HAProxy's own.
                if route.table.has("upstream") && !route.table.has(&item.key) {
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

    /// Rules that no request comes to.
    fn settle_rest(&mut self, section: &Section) {
        for line in section
            .lines
            .iter()
            .filter(|line| !self.ledger.is_settled(line.origin))
            .cloned()
            .collect::<Vec<_>>()
        {
            match line.word(0) {
                "acl" => self.ledger.ignored(line.origin, "its rules are reported"),
                "tcp-request" | "http-request" | "redirect" | "use_backend" | "default_backend" | "block"
                | "monitor-uri" => self
                    .ledger
                    .differs(line.origin, "no request reaches it: a route before it takes them all"),
                _ => {}
            }
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
}
