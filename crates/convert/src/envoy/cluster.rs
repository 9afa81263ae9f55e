//! Clusters: upstreams.

use crate::Error;
use crate::ledger::Ledger;
use crate::model::{Model, Section, name_of};
use crate::table::{Table, Value};
use crate::tree::Node;
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

pub(super) fn upstream(cluster: &Node, model: &mut Model, ledger: &mut Ledger) -> Result<(), Error> {
    let Some(name) = cluster.get("name") else { return Err(cluster.error("has no `name`")) };
    ledger.carried(name.origin);
    let origin = cluster.open(ledger);
    ledger.carried(origin);
    let tls = cluster.get("transport_socket");
    let mut table = Table::default();
    endpoints(cluster, tls.is_some(), &mut table, ledger)?;
    for (key, node) in cluster.entries() {
        cluster_key(key, node, &mut table, ledger);
    }
    if let Some(tls) = tls {
        transport(tls, &mut table, ledger);
    }
    model.upstreams.push(Section { name: name_of(name.text()), origin: Some(origin), table });
    Ok(())
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
                table.set_in(&["dns"], "resolver", crate::table::one_or_list(servers), origin);
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
    }
    // What was set is settled as carried when it is written.
    settle_later(node, table, ledger);
}

/// Ignores what is not in the table.
fn settle_later(node: &Node, table: &Table, ledger: &mut Ledger) {
    table.settle(ledger);
    node.ignore("Keepwarm's own settings apply", ledger);
}

fn endpoints(cluster: &Node, tls: bool, table: &mut Table, ledger: &mut Ledger) -> Result<(), Error> {
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
                    format!("{scheme}://{host}:{}", port.text())
                }
            };
            endpoint.at(&["endpoint", "address"]).iter().for_each(|node| carry(node, ledger));
            let weight =
                endpoint.get("load_balancing_weight").and_then(|node| Some((node.number()?, node.origin)));
            let mut item = Table::default();
            item.set("url", url, None);
            if let Some((weight, origin)) = weight {
                item.set("weight", weight.clamp(0, 1000), origin);
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
    assignment.ignore("it names the cluster, or the zone", ledger);
    match list.as_slice() {
        [] => return Err(cluster.error("has no endpoint")),
        [Value::Text(url)] => table.set("url", url.as_str(), None),
        _ => table.set("endpoints", Value::List(list), None),
    }
    Ok(())
}

pub(super) fn carry(node: &Node, ledger: &mut Ledger) {
    node.entries().iter().for_each(|(_, inner)| carry(inner, ledger));
    ledger.carried(node.origin);
}

fn transport(tls: &Node, table: &mut Table, ledger: &mut Ledger) {
    let Some(config) = tls.get("typed_config") else { return };
    if let Some(sni) = config.get("sni") {
        table.set("server_name", sni.text(), sni.origin);
    }
    let context = config.get("common_tls_context");
    let file = |node: Option<&Node>| node.and_then(|node| node.get("filename")).cloned();
    let validation = context.and_then(|context| context.get("validation_context"));
    match file(validation.and_then(|validation| validation.get("trusted_ca"))) {
        // The usual bundle of the system is what is trusted anyway.
        Some(ca) if ca.text().starts_with("/etc/ssl/certs/ca-") => ledger.carried(ca.origin),
        Some(ca) => table.set("ca", ca.text(), ca.origin),
        None => {
            let origin = tls.open(ledger);
            ledger
                .differs(origin, "the certificate of the upstream is verified, by the system's authorities");
        }
    }
    if let Some(pair) = context
        .and_then(|context| context.get("tls_certificates"))
        .and_then(|list| list.items().first().copied().cloned())
        && let (Some(cert), Some(key)) = (file(pair.get("certificate_chain")), file(pair.get("private_key")))
    {
        table.set("cert", cert.text(), cert.origin);
        table.set("key", key.text(), key.origin);
    }
    let parameters = context.and_then(|context| context.get("tls_params"));
    if let Some(least) = parameters.and_then(|parameters| parameters.get("tls_minimum_protocol_version")) {
        match least.text() {
            "TLSv1_3" => table.set("min_tls", "1.3", least.origin),
            _ => ledger.ignored(least.origin, "TLS 1.2 at least"),
        }
    }
    if let Some(names) = validation.and_then(|validation| {
        validation.get("match_typed_subject_alt_names").or_else(|| validation.get("match_subject_alt_names"))
    }) {
        names.drop(
            "the certificate must be for `server_name`, or the host of the URL",
            "set `server_name` of the upstream",
            true,
            ledger,
        );
    }
    settle_later(tls, table, ledger);
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
                inner.ignore("the check has the `Host` of calls, and accepts 200 to 399", ledger);
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
