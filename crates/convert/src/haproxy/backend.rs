//! Backends: servers, balance, timeouts, health checks.

use super::Reader;
use super::section::{Line, Section};
use crate::model::{Section as Named, name_of};
use crate::table::{Table, Value};
use crate::units::{nginx_time, time};

/// A time of HAProxy, which is in milliseconds without a unit.
pub(super) fn millis(text: &str) -> Option<u64> {
    match text.bytes().all(|b| b.is_ascii_digit()) && !text.is_empty() {
        true => text.parse().ok(),
        false => nginx_time(text),
    }
}

impl Reader<'_> {
    /// The upstream of a backend, made where it is not there; `None`: there is no such backend, or it has no server.
    pub(super) fn backend(&mut self, name: &str) -> Option<String> {
        let ours = name_of(name);
        if self.model.upstreams.iter().any(|upstream| upstream.name == ours) {
            return Some(ours);
        }
        let section = self
            .sections
            .iter()
            .find(|section| matches!(section.kind.as_str(), "backend" | "listen") && section.name == name)?
            .clone();
        let mut table = Table::default();
        let lines: Vec<Line> = section.defaults.iter().chain(&section.lines).cloned().collect();
        if !self.servers(&section, &lines, &mut table) {
            return None;
        }
        for line in &lines {
            self.backend_line(line, &mut table);
        }
        let is_checked = matches!(table.get("health"), Some(Value::Table(health)) if health.has("path") || health.has("tcp"));
        if !is_checked {
            // Intervals without `check`.
            table.remove("health");
        }
        self.ledger.carried(section.origin);
        self.model.upstreams.push(Named { name: ours.clone(), origin: Some(section.origin), table });
        Some(ours)
    }

    fn servers(&mut self, section: &Section, lines: &[Line], table: &mut Table) -> bool {
        let defaults: Vec<&Line> = lines.iter().filter(|line| line.word(0) == "default-server").collect();
        let mut list: Vec<Value> = Vec::new();
        let servers: Vec<&Line> = section.lines.iter().filter(|line| line.word(0) == "server").collect();
        for line in &servers {
            let mut options: Vec<String> = defaults.iter().flat_map(|line| line.after(1)).cloned().collect();
            options.extend(line.after(3).iter().cloned());
            let mut endpoint = Table::default();
            let tls = options.iter().any(|option| option == "ssl");
            endpoint.set("url", url(line.word(2), tls), line.origin);
            self.server_options(&options, line, &mut endpoint, table);
            self.ledger.carried(line.origin);
            list.push(match endpoint.items.as_slice() {
                [only] => only.value.clone(),
                _ => endpoint.into(),
            });
        }
        defaults.iter().for_each(|line| self.ledger.carried(line.origin));
        match (list.as_slice(), servers.first()) {
            ([Value::Text(url)], Some(line)) => table.set("url", url.as_str(), line.origin),
            ([_, ..], Some(line)) => table.set("endpoints", Value::List(list), line.origin),
            _ => return false,
        }
        true
    }

    fn server_options(&mut self, options: &[String], line: &Line, endpoint: &mut Table, table: &mut Table) {
        let origin = line.origin;
        let mut rest = options.iter();
        let todo = "set it in the `[upstream.NAME]` by hand";
        while let Some(option) = rest.next() {
            let mut next = || rest.next().map(String::as_str).unwrap_or("");
            match option.as_str() {
                "weight" => match next().parse::<i64>() {
                    Ok(weight) => endpoint.set("weight", weight.clamp(0, 1000), origin),
                    Err(_) => self.ledger.lost(origin, "its weight is not a number", todo),
                },
                "backup" => endpoint.set("priority", 1i64, origin),
                "disabled" => endpoint.set("weight", 0i64, origin),
                "check" => {
                    let has_path =
                        matches!(table.get("health"), Some(Value::Table(health)) if health.has("path"));
                    if !has_path {
                        table.set_in(&["health"], "tcp", true, origin);
                    }
                }
                "inter" => match millis(next()).filter(|millis| *millis >= 100) {
                    Some(millis) => table.set_in(&["health"], "interval", time(millis), origin),
                    None => self.ledger.differs(origin, "the interval of checks has its default"),
                },
                "rise" | "fall" => {
                    let number = next().parse::<i64>().unwrap_or(2);
                    table.set_in(&["health"], option, number.max(1), origin);
                }
                "maxconn" => match next().parse::<i64>() {
                    Ok(number) if number > 0 => table.set_in(&["pool"], "max", number, origin),
                    _ => {}
                },
                "ssl" => {}
                "verify" => match next() {
                    "none" => self.ledger.differs(
                        origin,
                        "the certificate of the upstream is verified; for one of an own authority, set `ca`",
                    ),
                    _ => self.ledger.carried(origin),
                },
                "ca-file" => table.set("ca", next(), origin),
                "crt" => {
                    let file = next();
                    table.set("cert", file, origin);
                    table.set("key", file, origin);
                }
                "sni" => {
                    let text = next();
                    match text.strip_prefix("str(").and_then(|text| text.strip_suffix(')')) {
                        Some(name) => table.set("server_name", name, origin),
                        None => {
                            self.ledger.differs(origin, "the name is `server_name`, or the host of the URL")
                        }
                    }
                }
                "send-proxy" => table.set("proxy_protocol", "v1", origin),
                "send-proxy-v2" => table.set("proxy_protocol", "v2", origin),
                "proto" if next() == "h2" => table.set("protocol", "http2", origin),
                "alpn" => {
                    if !next().contains("h2") {
                        table.set("protocol", "http1", origin);
                    }
                }
                "slowstart" => match millis(next()).filter(|millis| *millis > 0) {
                    Some(millis) => table.set("slow_start", time(millis), origin),
                    None => self.ledger.differs(origin, "it has no slow start"),
                },
                "cookie" => {
                    next();
                }
                "resolvers" | "init-addr" | "resolve-prefer" | "port" | "addr" | "fastinter"
                | "downinter" | "pool-max-conn" | "observe" | "error-limit" | "on-error"
                | "on-marked-down" | "pool-purge-delay" | "proto" | "check-sni" | "minconn" | "maxqueue"
                | "resolve-opts" | "id" => {
                    next();
                }
                "check-ssl" | "check-send-proxy" | "no-check" | "no-ssl" | "tfo" | "non-stick"
                | "enabled" | "allow-0rtt" | "no-tls-tickets" => {}
                other => self.ledger.dropped(
                    origin,
                    format!("`{other}` has no counterpart"),
                    "find out whether it is needed",
                ),
            }
        }
    }

    fn backend_line(&mut self, line: &Line, table: &mut Table) {
        let origin = line.origin;
        match (line.word(0), line.word(1)) {
            ("balance", "roundrobin" | "static-rr") => table.set("balance", "round_robin", origin),
            ("balance", "leastconn") => {
                table.remove("balance");
                self.ledger.carried(origin);
            }
            ("balance", "random") => {
                self.ledger.differs(origin, "the less busy of two drawn at random is chosen")
            }
            ("balance", other) if other.starts_with("hdr(") => {
                let name = other.trim_start_matches("hdr(").trim_end_matches(')');
                table.remove("balance");
                table.set_in(&["balance"], "by", "ring_hash", origin);
                table.set_in(&["balance"], "hash", format!("header:{name}"), origin);
            }
            ("balance", _) => self.ledger.dropped(
                origin,
                "an upstream is balanced by a cookie or header",
                "set `balance` with `hash`",
            ),
            ("timeout", "connect") => self.timeout(line, &["connect"], table),
            ("timeout", "server") => self.timeout(line, &["first_byte", "idle"], table),
            ("timeout", "queue") => match millis(line.word(2)).filter(|millis| *millis > 0) {
                Some(millis) => table.set_in(&["limits"], "queue_timeout", time(millis), origin),
                None => self.ledger.ignored(origin, "the default"),
            },
            (
                "timeout",
                "tunnel" | "check" | "server-fin" | "client-fin" | "http-keep-alive" | "http-request"
                | "client" | "tarpit",
            ) => {}
            ("retries", number) => match number.parse::<i64>() {
                Ok(number) => table.set("retries", number.clamp(0, 10), origin),
                Err(_) => self.ledger.lost(origin, "it is not a number", "set `retries` of the upstream"),
            },
            ("retry-on", _) => {
                let mut causes: Vec<&str> = Vec::new();
                for word in line.after(1) {
                    match word.as_str() {
                        "conn-failure" | "0rtt-rejected" => causes.push("connect"),
                        "empty-response" => causes.push("reset"),
                        "response-timeout" => causes.push("first_byte"),
                        "502" | "503" | "504" => causes.push(word),
                        "all-retryable-errors" => causes.extend(["connect", "reset", "first_byte"]),
                        other => self.ledger.differs(origin, format!("`{other}` is not a cause of retries")),
                    }
                }
                if !causes.is_empty() {
                    table.set("retry_on", causes, origin);
                }
            }
            ("option", "httpchk") => self.check(line, table),
            ("http-check", "expect") => match (line.word(2), line.word(3)) {
                ("status", status)
                    if status.parse::<i64>().is_ok_and(|status| (200..=599).contains(&status)) =>
                {
                    table.set_in(&["health"], "status", status.parse::<i64>().unwrap_or(200), origin);
                }
                _ => self.ledger.differs(origin, "statuses from 200 to 399 are healthy; set `health.status`"),
            },
            ("http-check", "send") => {
                let words = line.after(2);
                let uri = words.iter().position(|word| word == "uri").and_then(|at| words.get(at + 1));
                match uri {
                    Some(uri) => {
                        health_path(table, uri, line);
                    }
                    None => self.ledger.differs(origin, "the check is a GET with the `Host` of calls"),
                }
            }
            ("cookie", name) => {
                table.remove("balance");
                table.set_in(&["balance"], "by", "ring_hash", origin);
                table.set_in(&["balance"], "hash", format!("cookie:{name}"), origin);
                self.ledger.differs(
                    origin,
                    "Keepwarm sets no cookie: set `balance.hash` to a cookie of the app's session",
                );
            }
            _ => {}
        }
    }

    fn timeout(&mut self, line: &Line, keys: &[&str], table: &mut Table) {
        match millis(line.word(2)).filter(|millis| *millis > 0) {
            Some(millis) => {
                for key in keys {
                    let limit = if *key == "connect" { 3_600_000 } else { 86_400_000 };
                    table.set_in(&["timeouts"], key, time(millis.min(limit)), line.origin);
                }
            }
            None => self.ledger.lost(line.origin, "it is not a time", "set `timeouts` of the upstream"),
        }
    }

    /// `option httpchk GET /healthz HTTP/1.1\r\nHost:\ x`
    fn check(&mut self, line: &Line, table: &mut Table) {
        let path = line.after(2).iter().find(|word| word.starts_with('/'));
        health_path(table, path.map_or("/", String::as_str), line);
        if line.after(2).iter().any(|word| word == "OPTIONS" || word == "HEAD" || word.contains("Host"))
            || path.is_none()
        {
            self.ledger.differs(line.origin, "the check is a GET with the `Host` of calls");
        }
    }
}

fn health_path(table: &mut Table, path: &str, line: &Line) {
    table.within(&["health"], line.origin).remove("tcp");
    table.set_in(&["health"], "path", path, line.origin);
}

fn url(address: &str, tls: bool) -> String {
    if let Some(path) = address.strip_prefix("unix@").or_else(|| address.strip_prefix("unix:")) {
        return format!("unix:{path}");
    }
    if address.starts_with('/') {
        return format!("unix:{address}");
    }
    let address = address.trim_start_matches("ipv4@").trim_start_matches("ipv6@");
    format!("{}://{address}", if tls { "https" } else { "http" })
}
