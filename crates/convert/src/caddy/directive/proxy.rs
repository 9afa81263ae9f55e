//! `reverse_proxy`.

use super::matcher::private_ranges;
use super::{Chains, Reach, State, Step, apply};
use crate::caddy::syntax::Line;
use crate::model::{Route, add};
use crate::table::{Table, Value};
use crate::units::{nginx_time, time};

impl<'a> Chains<'_, '_> {
    pub(super) fn proxy(&mut self, step: &Step<'a>, state: &State<'a>) -> Vec<Route> {
        let line = step.line;
        let mut table = Table::default();
        let tls = line.child("transport").is_some_and(|transport| {
            transport.child("tls").is_some() || transport.child("tls_insecure_skip_verify").is_some()
        });
        let mut addresses: Vec<(String, crate::ledger::Origin)> =
            step.args.iter().map(|word| (word.clone(), line.origin)).collect();
        for to in line.inner.iter().filter(|inner| inner.name() == "to") {
            addresses.extend(to.args().iter().map(|word| (word.clone(), to.origin)));
        }
        let urls: Vec<String> = addresses.iter().map(|(address, _)| url(address, tls)).collect();
        let is_fixed = !urls.is_empty() && !urls.iter().any(|url| url.contains('{'));
        let rewrites = line.inner.iter().find(|inner| matches!(inner.name(), "rewrite" | "method"));
        let why = match (is_fixed, rewrites) {
            (false, _) => {
                Some((line.origin, "it has no fixed address", "write an `[upstream.NAME]` by hand"))
            }
            (_, Some(inner)) => Some((
                inner.origin,
                "it has no counterpart",
                "set `rewrite` of the route by hand; its requests get 501",
            )),
            _ => None,
        };
        if let Some((origin, why, todo)) = why {
            self.reader.ledger.lost(origin, why, todo);
            line.settle_inner(self.reader.ledger);
            return state.reach.closed(line.origin, self.fold);
        }
        match urls.as_slice() {
            [only] => table.set("url", only.as_str(), addresses.first().map(|(_, origin)| *origin)),
            _ => table.set("endpoints", urls.clone(), line.origin),
        }
        addresses.iter().for_each(|(_, origin)| self.reader.ledger.carried(*origin));
        let mut own = Table::default();
        for inner in line.inner.iter().filter(|inner| inner.name() != "to") {
            self.proxy_option(inner, &mut table, &mut own, &state.reach);
        }
        let wish = urls.first().and_then(|url| url.split("://").last()).unwrap_or("upstream").to_owned();
        let name = add(
            &mut self.reader.model.upstreams,
            &crate::nginx::upstream_wish(&wish),
            table,
            line.origin,
            self.reader.ledger,
        );
        let places = match self.places(line, state, false) {
            Ok(places) => places,
            Err(closed) => return closed,
        };
        let mut routes = Vec::new();
        for (mut route, path) in places {
            route.table.set("upstream", name.as_str(), line.origin);
            if !path.is_empty() {
                route.table.set("rewrite", path, line.origin);
            }
            route.table.merge(&own);
            let headers = route.table.remove("headers");
            apply(&mut route, &state.context, true);
            if let Some(item) = headers {
                // `header_down` comes first.
                let mut all = Table::default();
                all.items.push(item);
                if let Some(outer) = route.table.remove("headers") {
                    let mut outers = Table::default();
                    outers.items.push(outer);
                    all.merge(&outers);
                }
                route.table.merge(&all);
            }
            routes.push(route);
        }
        routes
    }

    fn proxy_option(&mut self, inner: &Line, table: &mut Table, route: &mut Table, reach: &Reach) {
        let origin = inner.origin;
        match inner.name() {
            "lb_policy" => match inner.arg(0) {
                "round_robin" | "weighted_round_robin" => table.set("balance", "round_robin", origin),
                "least_conn" | "random" | "random_choose" => self.reader.ledger.carried(origin),
                "header" | "cookie" if !inner.arg(1).is_empty() => {
                    table.set_in(&["balance"], "by", "ring_hash", origin);
                    table.set_in(&["balance"], "hash", format!("{}:{}", inner.arg(0), inner.arg(1)), origin);
                }
                _ => self.reader.ledger.dropped(
                    origin,
                    "an upstream is balanced by a cookie or header",
                    "set `balance` with `hash`",
                ),
            },
            "lb_retries" => {
                table.set("retries", inner.arg(0).parse::<i64>().unwrap_or(1).clamp(0, 10), origin)
            }
            "health_uri" => table.set_in(&["health"], "path", inner.arg(0), origin),
            "health_interval" | "health_timeout" => {
                match nginx_time(inner.arg(0)).filter(|millis| *millis >= 100) {
                    Some(millis) => table.set_in(
                        &["health"],
                        inner.name().trim_start_matches("health_"),
                        time(millis),
                        origin,
                    ),
                    None => {
                        self.reader.ledger.lost(origin, "it is not a time", "set `health` of the upstream")
                    }
                }
            }
            "health_status" => self
                .reader
                .ledger
                .differs(origin, "statuses from 200 to 399 are healthy; set `health.status`"),
            "header_up" => self.header_up(inner, table, route, reach),
            "header_down" => {
                let words = inner.args().to_vec();
                let mut own = std::mem::take(route.within(&["headers"], origin));
                self.header_rule(&words, origin, &mut own, reach);
                match own.is_empty() {
                    true => _ = route.remove("headers"),
                    false => *route.within(&["headers"], origin) = own,
                }
            }
            "flush_interval" | "buffer_requests" | "buffer_responses" | "stream_timeout"
            | "stream_close_delay" | "max_buffer_size" | "verbose_logs" => {
                self.reader.ledger.ignored(origin, "streams are passed on as they come");
            }
            "transport" => {
                self.reader.ledger.carried(origin);
                for option in &inner.inner {
                    self.transport(option, table);
                }
            }
            "fail_duration"
            | "max_fails"
            | "unhealthy_status"
            | "unhealthy_latency"
            | "unhealthy_request_count"
            | "lb_try_duration"
            | "lb_try_interval"
            | "health_headers"
            | "health_body"
            | "health_port"
            | "health_fails"
            | "health_passes" => {
                self.reader
                    .ledger
                    .differs(origin, "failures are handled by `breaker`, `outlier`, `retries` and `health`");
            }
            "trusted_proxies" => {
                let proxies: Vec<String> =
                    inner.args().iter().flat_map(|value| private_ranges(value)).collect();
                self.reader.model.server.set("trusted_proxies", proxies, origin);
            }
            "handle_response" | "replace_status" | "dynamic" => {
                self.reader.ledger.lost(
                    origin,
                    "it has no counterpart",
                    "set `rewrite`, `error_pages` or `dns.srv` by hand",
                );
                inner.settle_inner(self.reader.ledger);
            }
            _ => inner.settle_unknown(self.reader.ledger),
        }
    }

    fn header_up(&mut self, inner: &Line, table: &mut Table, route: &mut Table, reach: &Reach) {
        let (name, value, origin) = (inner.arg(0), inner.arg(1), inner.origin);
        let lower = name.trim_start_matches(['+', '-', '>']).to_ascii_lowercase();
        match lower.as_str() {
            "host" if matches!(value, "{host}" | "{http.request.host}" | "{hostport}") => {
                self.reader.ledger.carried(origin)
            }
            "host" if value.contains("upstream_hostport") => match table.get("url") {
                Some(Value::Text(url)) => {
                    let host = url.split("://").nth(1).unwrap_or("localhost").to_owned();
                    table.set("host", host, origin);
                }
                _ => self
                    .reader
                    .ledger
                    .differs(origin, "all endpoints get the client's host; set `host` of the upstream"),
            },
            "host" if !value.contains('{') => table.set("host", value, origin),
            lower if lower.starts_with("x-forwarded-") || lower == "forwarded" => {
                self.reader.ledger.ignored(origin, "Keepwarm sends X-Forwarded-* and Forwarded itself");
            }
            _ => {
                let words = inner.args().to_vec();
                let mut own = std::mem::take(route.within(&["request_headers"], origin));
                self.header_rule(&words, origin, &mut own, reach);
                match own.is_empty() {
                    true => _ = route.remove("request_headers"),
                    false => *route.within(&["request_headers"], origin) = own,
                }
            }
        }
    }

    fn transport(&mut self, option: &Line, table: &mut Table) {
        let origin = option.origin;
        let millis = nginx_time(option.arg(0)).filter(|millis| *millis > 0);
        match (option.name(), millis) {
            ("tls", _) => self.reader.ledger.carried(origin),
            ("tls_insecure_skip_verify", _) => self.reader.ledger.differs(
                origin,
                "the certificate of the upstream is verified; for one of an own authority, set `ca`",
            ),
            ("tls_server_name", _) => table.set("server_name", option.arg(0), origin),
            ("tls_trusted_ca_certs", _) => table.set("ca", option.arg(0), origin),
            ("tls_client_auth", _) => {
                table.set("cert", option.arg(0), origin);
                table.set("key", option.arg(1), origin);
            }
            ("dial_timeout", Some(millis)) => table.set_in(&["timeouts"], "connect", time(millis), origin),
            ("response_header_timeout", Some(millis)) => {
                table.set_in(&["timeouts"], "first_byte", time(millis), origin)
            }
            ("read_timeout", Some(millis)) => table.set_in(&["timeouts"], "idle", time(millis), origin),
            ("keepalive", Some(millis)) => table.set_in(&["pool"], "idle_timeout", time(millis), origin),
            ("versions", _) if option.args().iter().any(|version| version == "h2c") => {
                table.set("protocol", "http2", origin)
            }
            (
                "versions"
                | "keepalive_idle_conns"
                | "keepalive_idle_conns_per_host"
                | "compression"
                | "max_conns_per_host"
                | "write_timeout"
                | "keepalive"
                | "read_buffer"
                | "write_buffer"
                | "expect_continue_timeout"
                | "resolvers"
                | "proxy_protocol",
                _,
            ) => {
                self.reader.ledger.differs(origin, "Keepwarm's own settings apply (`pool`, `timeouts`)");
            }
            _ => option.settle_unknown(self.reader.ledger),
        }
    }
}

pub(super) fn url(address: &str, tls: bool) -> String {
    if let Some(path) = address.strip_prefix("unix/") {
        return format!("unix:{path}");
    }
    if let Some(rest) = address.strip_prefix("h2c://") {
        return format!("http://{rest}");
    }
    if address.contains("://") {
        return address.trim_end_matches('/').to_owned();
    }
    let address = if address.starts_with(':') { format!("127.0.0.1{address}") } else { address.to_owned() };
    let address = if address.contains(':') { address } else { format!("{address}:80") };
    format!("{}://{address}", if tls || address.ends_with(":443") { "https" } else { "http" })
}
