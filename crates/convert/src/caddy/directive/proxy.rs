//! `reverse_proxy`.

use super::matcher::private_ranges;
use super::{Context, apply};
use crate::caddy::Reader;
use crate::caddy::syntax::Line;
use crate::model::{Route, add};
use crate::table::{Table, Value};
use crate::units::{nginx_time, time};

impl Reader<'_> {
    pub(super) fn proxy(
        &mut self,
        line: &Line,
        args: &[String],
        mut route: Route,
        context: &Context,
    ) -> Vec<Route> {
        let mut table = Table::default();
        let tls = line.child("transport").is_some_and(|transport| {
            transport.child("tls").is_some() || transport.child("tls_insecure_skip_verify").is_some()
        });
        let mut addresses: Vec<(String, crate::ledger::Origin)> =
            args.iter().map(|word| (word.clone(), line.origin)).collect();
        for to in line.inner.iter().filter(|inner| inner.name() == "to") {
            addresses.extend(to.args().iter().map(|word| (word.clone(), to.origin)));
        }
        let urls: Vec<String> = addresses.iter().map(|(address, _)| url(address, tls)).collect();
        match urls.as_slice() {
            [] => {
                self.ledger.lost(
                    line.origin,
                    "it has no fixed address",
                    "write an `[upstream.NAME]` by hand",
                );
                line.settle_inner(self.ledger);
                route.table.set("respond", 501i64, line.origin);
                return vec![route];
            }
            [only] => table.set("url", only.as_str(), addresses.first().map(|(_, origin)| *origin)),
            _ => table.set("endpoints", urls.clone(), line.origin),
        }
        addresses.iter().for_each(|(_, origin)| self.ledger.carried(*origin));
        for inner in line.inner.iter().filter(|inner| inner.name() != "to") {
            self.proxy_option(inner, &mut table, &mut route);
        }
        let wish = urls.first().and_then(|url| url.split("://").last()).unwrap_or("upstream").to_owned();
        let name = add(
            &mut self.model.upstreams,
            &crate::nginx::upstream_wish(&wish),
            table,
            line.origin,
            self.ledger,
        );
        route.table.set("upstream", name, line.origin);
        self.strip(&mut route, context, line);
        apply(&mut route, context, true);
        vec![route]
    }

    fn proxy_option(&mut self, inner: &Line, table: &mut Table, route: &mut Route) {
        let origin = inner.origin;
        match inner.name() {
            "lb_policy" => match inner.arg(0) {
                "round_robin" | "weighted_round_robin" => table.set("balance", "round_robin", origin),
                "least_conn" | "random" | "random_choose" => self.ledger.carried(origin),
                "header" | "cookie" if !inner.arg(1).is_empty() => {
                    table.set_in(&["balance"], "by", "ring_hash", origin);
                    table.set_in(&["balance"], "hash", format!("{}:{}", inner.arg(0), inner.arg(1)), origin);
                }
                _ => self.ledger.dropped(
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
                    None => self.ledger.lost(origin, "it is not a time", "set `health` of the upstream"),
                }
            }
            "health_status" => {
                self.ledger.differs(origin, "statuses from 200 to 399 are healthy; set `health.status`")
            }
            "header_up" => self.header_up(inner, table, route),
            "header_down" => {
                let words = inner.args().to_vec();
                let mut own = std::mem::take(route.table.within(&["headers"], origin));
                self.header_rule(&words, origin, &mut own);
                *route.table.within(&["headers"], origin) = own;
            }
            "flush_interval" | "buffer_requests" | "buffer_responses" | "stream_timeout"
            | "stream_close_delay" | "max_buffer_size" | "verbose_logs" => {
                self.ledger.ignored(origin, "streams are passed on as they come");
            }
            "transport" => {
                self.ledger.carried(origin);
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
                self.ledger
                    .differs(origin, "failures are handled by `breaker`, `outlier`, `retries` and `health`");
            }
            "trusted_proxies" => {
                let proxies: Vec<String> =
                    inner.args().iter().flat_map(|value| private_ranges(value)).collect();
                self.model.server.set("trusted_proxies", proxies, origin);
            }
            "handle_response" | "replace_status" | "rewrite" | "method" | "dynamic" => {
                self.ledger.lost(
                    origin,
                    "it has no counterpart",
                    "set `rewrite`, `error_pages` or `dns.srv` by hand",
                );
                inner.settle_inner(self.ledger);
            }
            _ => inner.settle_unknown(self.ledger),
        }
    }

    fn header_up(&mut self, inner: &Line, table: &mut Table, route: &mut Route) {
        let (name, value, origin) = (inner.arg(0), inner.arg(1), inner.origin);
        let lower = name.trim_start_matches(['+', '-', '>']).to_ascii_lowercase();
        match lower.as_str() {
            "host" if matches!(value, "{host}" | "{http.request.host}" | "{hostport}") => {
                self.ledger.carried(origin)
            }
            "host" if value.contains("upstream_hostport") => match table.get("url") {
                Some(Value::Text(url)) => {
                    let host = url.split("://").nth(1).unwrap_or("localhost").to_owned();
                    table.set("host", host, origin);
                }
                _ => self
                    .ledger
                    .differs(origin, "all endpoints get the client's host; set `host` of the upstream"),
            },
            "host" if !value.contains('{') => table.set("host", value, origin),
            lower if lower.starts_with("x-forwarded-") || lower == "forwarded" => {
                self.ledger.ignored(origin, "Keepwarm sends X-Forwarded-* and Forwarded itself");
            }
            _ => {
                let words = inner.args().to_vec();
                let mut own = std::mem::take(route.table.within(&["request_headers"], origin));
                self.header_rule(&words, origin, &mut own);
                match own.is_empty() {
                    true => _ = route.table.remove("request_headers"),
                    false => *route.table.within(&["request_headers"], origin) = own,
                }
            }
        }
    }

    fn transport(&mut self, option: &Line, table: &mut Table) {
        let origin = option.origin;
        let millis = nginx_time(option.arg(0)).filter(|millis| *millis > 0);
        match (option.name(), millis) {
            ("tls", _) => self.ledger.carried(origin),
            ("tls_insecure_skip_verify", _) => self.ledger.differs(
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
                self.ledger.differs(origin, "Keepwarm's own settings apply (`pool`, `timeouts`)");
            }
            _ => option.settle_unknown(self.ledger),
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
