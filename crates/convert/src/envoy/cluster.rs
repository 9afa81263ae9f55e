//! Clusters: upstreams.

use super::Reader;
use super::tls::{Transport, kind, transport};
use crate::Error;
use crate::ledger::{Ledger, Origin};
use crate::table::{Table, Value, one_or_list};
use crate::tree::{Data, Node};
use crate::units::{nginx_time, time};

pub(super) fn seconds(node: &Node) -> Option<u64> {
    let text = node.text().trim_end_matches('s');
    text.parse::<f64>()
        .ok()
        .map(|seconds| {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a time of a configuration"
            )]
            let millis = (seconds.max(0.0) * 1000.0) as u64;
            millis
        })
        .or_else(|| nginx_time(node.text()))
}

/// A cluster, before routes set what is theirs.
pub(super) struct Cluster {
    pub(super) name: String,
    pub(super) origin: Origin,
    pub(super) table: Table,
    /// The hosts of its endpoints, each once.
    pub(super) hosts: Vec<String>,
    /// A policy that needs the key of a route.
    pub(super) hash: Option<(&'static str, Origin)>,
}

impl Reader<'_> {
    pub(super) fn cluster(&mut self, cluster: &Node) -> Result<(), Error> {
        let Some(name) = cluster.get("name") else { return Err(cluster.error("has no `name`")) };
        if cluster.get("load_assignment").is_none()
            && (cluster.get("cluster_type").is_some()
                || cluster.get("type").is_some_and(|kind| ["EDS", "ORIGINAL_DST"].contains(&kind.text())))
        {
            cluster.drop(
                "its endpoints are not in the configuration",
                "write the upstream by hand",
                true,
                self.ledger,
            );
            return Ok(());
        }
        self.ledger.carried(name.origin);
        let origin = cluster.open(self.ledger);
        self.ledger.carried(origin);
        let mut table = Table::default();
        let mut tls = None;
        if let Some(mut socket) = cluster.get("transport_socket") {
            if let Transport::Proxy(config) = transport(socket) {
                let version = match config.at(&["config", "version"]).map(Node::text) {
                    Some("V2") => "v2",
                    _ => "v1",
                };
                table.set("proxy_protocol", version, socket.open(self.ledger));
                socket.get("name").iter().for_each(|node| node.ignore("its name", self.ledger));
                config.get("@type").iter().for_each(|node| node.ignore("its type", self.ledger));
                config.get("config").iter().for_each(|node| carry(node, self.ledger));
                socket = config.get("transport_socket").unwrap_or(socket);
            }
            match transport(socket) {
                Transport::Tls(config) => tls = Some((socket, config)),
                Transport::Plain => socket.ignore("without TLS", self.ledger),
                Transport::Proxy(_) | Transport::Unknown => {
                    cluster.drop(
                        "its transport socket has no counterpart",
                        "write the upstream by hand",
                        true,
                        self.ledger,
                    );
                    return Ok(());
                }
            }
        }
        let mut hosts = Vec::new();
        endpoints(cluster, tls.is_some(), &mut table, &mut hosts, self.ledger)?;
        let mut hash = None;
        for (key, node) in cluster.entries() {
            if let ("lb_policy", "RING_HASH" | "MAGLEV") = (key.as_str(), node.text()) {
                let by = if node.text() == "MAGLEV" { "maglev" } else { "ring_hash" };
                hash = Some((by, node.origin));
                continue;
            }
            cluster_key(key, node, &mut table, self.ledger);
        }
        if let Some((socket, config)) = tls {
            self.upstream_tls(socket, config, &mut table);
        }
        self.clusters.push(Cluster { name: name.text().to_owned(), origin, table, hosts, hash });
        Ok(())
    }
}

fn cluster_key(key: &str, node: &Node, table: &mut Table, ledger: &mut Ledger) {
    let origin = node.origin;
    match key {
        "name" | "load_assignment" | "transport_socket" | "hosts" => {}
        "type" => match node.text() {
            "STATIC" | "STRICT_DNS" | "LOGICAL_DNS" => {
                ledger.ignored(origin, "hosts are looked up as often as DNS says")
            }
            other => ledger.lost(
                origin,
                format!("clusters of type {other} have no counterpart"),
                "write the endpoints by hand",
            ),
        },
        "connect_timeout" => match seconds(node).filter(|millis| *millis > 0) {
            Some(millis) => table.set_in(&["timeouts"], "connect", time(millis), origin),
            None => ledger.lost(origin, "it is not a time", "set `timeouts.connect`"),
        },
        "lb_policy" => match node.text() {
            "ROUND_ROBIN" => table.set("balance", "round_robin", origin),
            "LEAST_REQUEST" => ledger.carried(origin),
            "RANDOM" => ledger.differs(origin, "the less busy of two drawn at random is chosen"),
            other => ledger.dropped(
                origin,
                format!("{other} needs a key"),
                "set `balance` with `hash`, by a cookie or header",
            ),
        },
        "dns_lookup_family"
        | "respect_dns_ttl"
        | "alt_stat_name"
        | "common_lb_config"
        | "upstream_connection_options"
        | "per_connection_buffer_limit_bytes"
        | "use_tcp_for_dns_lookups"
        | "preconnect_policy" => node.ignore("Keepwarm's own settings apply", ledger),
        "dns_refresh_rate" => match seconds(node).filter(|millis| *millis >= 100) {
            Some(millis) => table.set_in(&["dns"], "max_ttl", time(millis), origin),
            None => ledger.ignored(origin, "the default"),
        },
        "dns_resolvers" => {
            let servers: Vec<String> = node
                .items()
                .iter()
                .filter_map(|server| Some(server.at(&["socket_address", "address"])?.text().to_owned()))
                .collect();
            if !servers.is_empty() {
                table.set_in(&["dns"], "resolver", one_or_list(servers), origin);
            }
            node.ignore("port 53", ledger);
        }
        "circuit_breakers" => breakers(node, table, ledger),
        "health_checks" => health(node, table, ledger),
        "outlier_detection" => outlier(node, table, ledger),
        "max_requests_per_connection" => match node.number() {
            Some(number) if number > 0 => table.set_in(&["pool"], "max_requests", number, origin),
            _ => ledger.ignored(origin, "no limit"),
        },
        "http2_protocol_options" => {
            table.set("protocol", "http2", None);
            node.ignore("HTTP/2 with Keepwarm's own windows", ledger);
            ledger.carried(origin);
        }
        "ring_hash_lb_config"
        | "maglev_lb_config"
        | "least_request_lb_config"
        | "round_robin_lb_config"
        | "dns_jitter"
        | "dns_failure_refresh_rate"
        | "typed_dns_resolver_config"
        | "dns_lookup_config"
        | "wait_for_warm_on_init"
        | "ignore_health_on_host_removal"
        | "cleanup_interval"
        | "metadata"
        | "track_cluster_stats"
        | "track_timeout_budgets"
        | "close_connections_on_host_health_failure"
        | "protocol_selection"
        | "upstream_bind_config"
        | "connection_pool_per_downstream_connection" => node.ignore("Keepwarm's own settings apply", ledger),
        "typed_extension_protocol_options" => protocols(node, table, ledger),
        "slow_start_config" => {
            node.drop("a part of a policy", "set `slow_start` of the upstream", false, ledger)
        }
        _ => {}
    }
}

fn protocols(node: &Node, table: &mut Table, ledger: &mut Ledger) {
    for (_, options) in node.entries() {
        if let Some(explicit) = options.get("explicit_http_config") {
            if explicit.get("http2_protocol_options").is_some() {
                table.set("protocol", "http2", None);
            } else if explicit.get("http_protocol_options").is_some() {
                table.set("protocol", "http1", None);
            }
        }
        if let Some(idle) = options.at(&["common_http_protocol_options", "idle_timeout"])
            && let Some(millis) = seconds(idle).filter(|millis| *millis > 0)
        {
            table.set_in(&["pool"], "idle_timeout", time(millis), idle.origin);
        }
        if let Some(requests) = options.at(&["common_http_protocol_options", "max_requests_per_connection"])
            && let Some(number) = requests.number().filter(|number| *number > 0)
        {
            table.set_in(&["pool"], "max_requests", number, requests.origin);
        }
        for filter in options.get("http_filters").map(Node::items).unwrap_or_default() {
            if !["upstream_codec", "router"].contains(&kind(filter, "filters.http").as_str()) {
                filter.drop("a filter of an upstream", "write it by hand", true, ledger);
            }
        }
        if let Some(names) = options.get("upstream_http_protocol_options") {
            for (key, flag) in names.entries().iter().filter(|(_, flag)| flag.is_on()) {
                let how = match key.as_str() {
                    "auto_sni" => "the name that is sent is that of `server_name`, else of `host` or the URL",
                    "auto_san_validation" => "the certificate must be for the name that is sent",
                    _ => continue,
                };
                ledger.differs(flag.origin, how);
            }
        }
    }
    // What was set is settled as carried when it is written.
    table.settle(ledger);
    node.ignore("Keepwarm's own settings apply", ledger);
}

fn endpoints(
    cluster: &Node,
    tls: bool,
    table: &mut Table,
    hosts: &mut Vec<String>,
    ledger: &mut Ledger,
) -> Result<(), Error> {
    let Some(assignment) = cluster.get("load_assignment") else {
        return Err(cluster
            .error("has no `load_assignment`: expected its endpoints; `hosts` of old versions is not read"));
    };
    let scheme = if tls { "https" } else { "http" };
    let mut list: Vec<Value> = Vec::new();
    for group in assignment.get("endpoints").map(Node::items).unwrap_or_default() {
        let priority = group.get("priority").and_then(|node| Some((node.number()?, node.origin)));
        for endpoint in group.get("lb_endpoints").map(Node::items).unwrap_or_default() {
            let address = endpoint.at(&["endpoint", "address"]);
            if let Some(status) = endpoint.get("health_status")
                && ["UNHEALTHY", "DRAINING", "TIMEOUT"].contains(&status.text())
            {
                endpoint.drop("it gets no requests", "add it when it is healthy", false, ledger);
                continue;
            }
            let url = match address.and_then(|address| address.get("pipe")) {
                Some(pipe) => format!("unix:{}", pipe.get("path").map_or("", Node::text)),
                None => {
                    let socket = address.and_then(|address| address.get("socket_address"));
                    let Some((host, port)) =
                        socket.and_then(|socket| Some((socket.get("address")?, socket.get("port_value")?)))
                    else {
                        return Err(endpoint.error(
                            "has no `endpoint.address.socket_address` with `address` and `port_value`",
                        ));
                    };
                    let host = if host.text().contains(':') {
                        format!("[{}]", host.text())
                    } else {
                        host.text().to_owned()
                    };
                    let own =
                        endpoint.at(&["endpoint", "hostname"]).map_or(host.as_str(), Node::text).to_owned();
                    if !hosts.contains(&own) {
                        hosts.push(own);
                    }
                    format!("{scheme}://{host}:{}", port.text())
                }
            };
            endpoint.at(&["endpoint", "address"]).iter().for_each(|node| carry(node, ledger));
            let weight =
                endpoint.get("load_balancing_weight").and_then(|node| Some((node.number()?, node.origin)));
            let mut item = Table::default();
            item.set("url", url, None);
            if let Some((weight, origin)) = weight {
                item.set("weight", weight.clamp(1, 1000), origin);
                if weight > 1000 {
                    ledger.differs(origin, "a weight is 1000 at most");
                }
            }
            if let Some((priority, origin)) = priority.filter(|(priority, _)| *priority > 0) {
                item.set("priority", priority, origin);
            }
            item.settle(ledger);
            list.push(match item.items.as_slice() {
                [only] => only.value.clone(),
                _ => item.into(),
            });
        }
    }
    if let Some(drops) = assignment.at(&["policy", "drop_overloads"]) {
        drops.drop("a share of the requests is refused", "use `rate_limit`", true, ledger);
    }
    assignment.ignore("it names the cluster, or the zone", ledger);
    match list.as_slice() {
        [] => return Err(cluster.error("has no endpoint")),
        [Value::Text(url)] => table.set("url", url.as_str(), None),
        _ => table.set("endpoints", Value::List(list), None),
    }
    Ok(())
}

pub(super) fn carry(node: &Node, ledger: &mut Ledger) {
    match &node.data {
        Data::Map(map) => map.iter().for_each(|(_, inner)| carry(inner, ledger)),
        Data::List(list) => list.iter().for_each(|inner| carry(inner, ledger)),
        Data::Scalar(_) => {}
    }
    ledger.carried(node.origin);
}

fn breakers(node: &Node, table: &mut Table, ledger: &mut Ledger) {
    for threshold in node.get("thresholds").map(Node::items).unwrap_or_default() {
        if threshold.get("priority").is_some_and(|priority| priority.text() == "HIGH") {
            threshold.drop("there is one priority of calls", "nothing, unless it is used", false, ledger);
            continue;
        }
        for (key, inner) in threshold.entries() {
            match (key.as_str(), inner.number()) {
                ("max_connections", Some(number)) => {
                    table.set_in(&["limits"], "connections", number.max(1), inner.origin)
                }
                ("max_requests", Some(number)) => {
                    table.set_in(&["limits"], "in_flight", number.max(1), inner.origin)
                }
                ("max_pending_requests", Some(number)) => {
                    table.set_in(&["limits"], "queue", number, inner.origin)
                }
                ("max_retries", _) => ledger.differs(inner.origin, "retries are bounded by `retry_budget`"),
                ("retry_budget", _) => {
                    if let Some(percent) = inner.at(&["budget_percent", "value"]) {
                        table.set(
                            "retry_budget",
                            format!("{}%", percent.text().trim_end_matches(".0")),
                            percent.origin,
                        );
                        ledger.carried(percent.origin);
                    }
                    inner.ignore("`retry_budget.per_second`, 10 by default", ledger);
                }
                ("priority" | "track_remaining" | "max_connection_pools", _) => {
                    ledger.ignored(inner.origin, "as by default")
                }
                _ => {}
            }
        }
    }
}

fn health(node: &Node, table: &mut Table, ledger: &mut Ledger) {
    let checks = node.items();
    for further in checks.iter().skip(1) {
        further.drop("an upstream has one health check", "merge them", false, ledger);
    }
    let Some(check) = checks.first() else { return };
    for (key, inner) in check.entries() {
        match key.as_str() {
            "interval" | "timeout" => match seconds(inner).filter(|millis| *millis >= 100) {
                Some(millis) => table.set_in(&["health"], key, time(millis), inner.origin),
                None => ledger.ignored(inner.origin, "the default"),
            },
            "healthy_threshold" | "unhealthy_threshold" => match inner.number() {
                Some(number) => table.set_in(
                    &["health"],
                    if key == "healthy_threshold" { "rise" } else { "fall" },
                    number.max(1),
                    inner.origin,
                ),
                None => ledger.ignored(inner.origin, "the default"),
            },
            "http_health_check" => {
                if let Some(path) = inner.get("path") {
                    table.set_in(&["health"], "path", path.text(), path.origin);
                    ledger.carried(path.origin);
                }
                let ranges: Vec<String> = inner
                    .get("expected_statuses")
                    .map(Node::items)
                    .unwrap_or_default()
                    .iter()
                    .filter_map(|range| {
                        let number = |key: &str| range.get(key).and_then(Node::number);
                        let (start, end) = (number("start")?.max(200), number("end")?.min(600) - 1);
                        (start <= end).then(|| format!("{start}-{end}"))
                    })
                    .collect();
                match ranges.as_slice() {
                    [] => table.within(&["health"], None).set("status", 200i64, None),
                    _ => table.within(&["health"], None).set("status", one_or_list(ranges), None),
                }
                inner.ignore("the check has the `Host` of calls", ledger);
            }
            "tcp_health_check" => {
                table.set_in(&["health"], "tcp", true, inner.origin);
                inner.ignore("a connection is enough", ledger);
            }
            "grpc_health_check" => {
                inner.drop("there is no check by gRPC", "a connection is tested: set `health`", false, ledger)
            }
            _ => inner.ignore("Keepwarm's own settings apply", ledger),
        }
    }
    let has_kind =
        matches!(table.get("health"), Some(Value::Table(health)) if health.has("path") || health.has("tcp"));
    if !has_kind {
        table.within(&["health"], None).set("tcp", true, None);
    }
}

fn outlier(node: &Node, table: &mut Table, ledger: &mut Ledger) {
    for (key, inner) in node.entries() {
        let millis = seconds(inner).filter(|millis| *millis > 0);
        match (key.as_str(), inner.number(), millis) {
            ("consecutive_5xx" | "consecutive_gateway_failure", Some(number), _) if number > 0 => {
                table.set_in(&["outlier"], "failures", number, inner.origin)
            }
            ("interval", _, Some(millis)) if millis >= 1000 => {
                table.set_in(&["outlier"], "interval", time(millis), inner.origin)
            }
            ("base_ejection_time", _, Some(millis)) => {
                table.set_in(&["outlier"], "ejection", time(millis), inner.origin)
            }
            ("max_ejection_time", _, Some(millis)) => {
                table.set_in(&["outlier"], "max_ejection", time(millis), inner.origin)
            }
            ("max_ejection_percent", Some(number), _) => {
                table.set_in(&["outlier"], "max_ejected", format!("{}%", number.clamp(1, 100)), inner.origin)
            }
            ("success_rate_minimum_hosts", Some(number), _) => {
                table.set_in(&["outlier"], "min_endpoints", number.max(2), inner.origin)
            }
            ("success_rate_request_volume", Some(number), _) => {
                table.set_in(&["outlier"], "min_requests", number.max(1), inner.origin)
            }
            ("success_rate_stdev_factor", Some(number), _) => {
                ledger.differs(
                    inner.origin,
                    format!(
                        "`outlier.deviation` is {:.1} standard deviations: set it if it is not 1.9",
                        f64::from(i32::try_from(number).unwrap_or(1900)) / 1000.0
                    ),
                );
            }
            _ => ledger.ignored(inner.origin, "Keepwarm's own settings apply"),
        }
    }
}

pub(super) fn retries(node: &Node, table: &mut Table, ledger: &mut Ledger) {
    for (key, inner) in node.entries() {
        match key.as_str() {
            "num_retries" => match inner.number() {
                Some(number) => table.set("retries", number.clamp(0, 10), inner.origin),
                None => ledger.lost(inner.origin, "it is not a number", "set `retries` of the upstream"),
            },
            "retry_on" => {
                let mut causes: Vec<&str> = Vec::new();
                for cause in inner.text().split(',').map(str::trim) {
                    match cause {
                        "5xx" => causes.extend(["connect", "refused", "reset", "502", "503", "504"]),
                        "gateway-error" => causes.extend(["502", "503", "504"]),
                        "connect-failure" => causes.push("connect"),
                        "refused-stream" => causes.push("refused"),
                        "reset" | "reset-before-request" => causes.push("reset"),
                        other => ledger.differs(inner.origin, format!("`{other}` is not a cause of retries")),
                    }
                }
                let mut unique: Vec<&str> = Vec::new();
                causes.iter().for_each(|cause| {
                    if !unique.contains(cause) {
                        unique.push(cause)
                    }
                });
                if !unique.is_empty() {
                    table.set("retry_on", unique, inner.origin);
                }
                ledger.differs(
                    inner.origin,
                    "only where RFC 9110 allows it: idempotent methods, or nothing was processed",
                );
            }
            "per_try_timeout" => match seconds(inner).filter(|millis| *millis > 0) {
                Some(millis) => {
                    table.set_in(&["timeouts"], "first_byte", time(millis), inner.origin);
                    ledger.differs(inner.origin, "until the response begins");
                }
                None => ledger.ignored(inner.origin, "no limit"),
            },
            _ => inner.ignore("Keepwarm's own pauses between retries", ledger),
        }
    }
}
