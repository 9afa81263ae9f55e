//! Listeners: sites, or doors to one cluster.

use super::Door;
use super::cluster::{carry, seconds};
use crate::Error;
use crate::ledger::Ledger;
use crate::model::{Bind, Certificate, Model, PathMatch, Route, Site, name_of};
use crate::table::Table;
use crate::tree::Node;
use crate::units::time;

pub(super) fn sites(listener: &Node, model: &mut Model, ledger: &mut Ledger) -> Result<Vec<Door>, Error> {
    let socket = listener.at(&["address", "socket_address"]);
    let Some((host, port)) =
        socket.and_then(|socket| Some((socket.get("address")?, socket.get("port_value")?)))
    else {
        return Err(listener.error("has no `address.socket_address` with `address` and `port_value`"));
    };
    let host_text =
        if host.text().contains(':') { format!("[{}]", host.text()) } else { host.text().to_owned() };
    let address = format!("{host_text}:{}", port.text());
    ledger.carried(host.origin);
    let mut doors = Vec::new();
    for chain in listener.get("filter_chains").map(Node::items).unwrap_or_default() {
        let mut site = Site::default();
        let tls = chain.get("transport_socket");
        if let Some(tls) = tls {
            certificates(tls, &mut site, ledger);
        }
        let bind = Bind {
            address: address.clone(),
            tls: tls.is_some(),
            is_default: false,
            proxy_protocol: false,
            origin: Some(port.origin),
        };
        for filter in chain.get("filters").map(Node::items).unwrap_or_default() {
            let Some(config) =
                filter.get("typed_config").filter(|config| config.get("route_config").is_some())
            else {
                filter.drop(
                    "only HTTP connection managers with a static route_config are read",
                    "write the listener by hand",
                    true,
                    ledger,
                );
                continue;
            };
            let hosts = config.at(&["route_config", "virtual_hosts"]).map(Node::items).unwrap_or_default();
            let only = only_cluster(&hosts);
            let is_local = host.text().starts_with("127.") || host.text() == "::1";
            if let (Some(cluster), None, true) = (only, tls, is_local) {
                // An egress of one service: the door of an upstream.
                door_settings(&hosts, cluster, model, ledger);
                doors.push(Door {
                    cluster: cluster.to_owned(),
                    address: address.clone(),
                    origin: port.origin,
                });
                manager(config, ledger);
                continue;
            }
            for virtual_host in &hosts {
                let mut own = Site { origin: Some(virtual_host.open(ledger)), ..site.clone() };
                let domains = virtual_host.get("domains").map(Node::texts).unwrap_or_default();
                let is_default = domains.iter().any(|domain| domain == "*");
                own.binds = vec![Bind { is_default, ..bind.clone() }];
                own.hosts =
                    domains.into_iter().filter(|domain| domain != "*" && !domain.contains(':')).collect();
                virtual_host.get("domains").iter().for_each(|node| ledger.carried(node.origin));
                for route in virtual_host.get("routes").map(Node::items).unwrap_or_default() {
                    own.routes.push(self::route(route, model, ledger));
                }
                virtual_host.ignore("its name", ledger);
                model.sites.push(own);
            }
            manager(config, ledger);
        }
        chain.ignore("its name, and Envoy's own settings", ledger);
    }
    listener.ignore("its name, and Envoy's own settings", ledger);
    Ok(doors)
}

/// Filters of a connection manager: only the router is one that Keepwarm is itself.
fn manager(config: &Node, ledger: &mut Ledger) {
    for filter in config.get("http_filters").map(Node::items).unwrap_or_default() {
        let name = filter.get("name").map_or("", Node::text);
        if !name.contains("router") {
            filter.drop(
                &format!("the filter {name} has no counterpart"),
                "find out whether it is an access rule or a limit",
                true,
                ledger,
            );
        }
    }
    config.ignore("Envoy's own settings", ledger);
}

fn certificates(tls: &Node, site: &mut Site, ledger: &mut Ledger) {
    let context = tls.at(&["typed_config", "common_tls_context"]);
    for pair in
        context.and_then(|context| context.get("tls_certificates")).map(Node::items).unwrap_or_default()
    {
        let file = |key: &str| pair.at(&[key, "filename"]);
        if let (Some(cert), Some(key)) = (file("certificate_chain"), file("private_key")) {
            ledger.carried(key.origin);
            site.certificates.push(Certificate {
                cert: cert.text().to_owned(),
                key: key.text().to_owned(),
                origin: Some(cert.origin),
            });
            ledger.carried(cert.origin);
        }
    }
    if let Some(ca) =
        context.and_then(|context| context.at(&["validation_context", "trusted_ca", "filename"]))
    {
        site.tls.set("client_ca", ca.text(), ca.origin);
        ledger.carried(ca.origin);
        if tls.at(&["typed_config", "require_client_certificate"]).is_none_or(|node| !node.is_on()) {
            site.tls.set("client_auth", "optional", None);
        }
    }
    tls.ignore("TLS settings are those of `tls.profile`", ledger);
}

/// The cluster that all routes of all hosts lead to.
fn only_cluster<'a>(hosts: &[&'a Node]) -> Option<&'a str> {
    let mut found: Option<&str> = None;
    for host in hosts {
        for route in host.get("routes").map(Node::items).unwrap_or_default() {
            let cluster = route.at(&["route", "cluster"])?.text();
            let is_all = route.at(&["match", "prefix"]).is_some_and(|prefix| prefix.text() == "/");
            if !is_all || found.is_some_and(|found| found != cluster) {
                return None;
            }
            found = Some(cluster);
        }
    }
    found
}

fn door_settings(hosts: &[&Node], cluster: &str, model: &mut Model, ledger: &mut Ledger) {
    for host in hosts {
        for route in host.get("routes").map(Node::items).unwrap_or_default() {
            route_settings(route, cluster, model, ledger);
        }
        host.ignore("every host leads to the door", ledger);
    }
}

/// Settings of a route that are those of our upstream.
fn route_settings(route: &Node, cluster: &str, model: &mut Model, ledger: &mut Ledger) {
    let Some(upstream) = model.upstreams.iter_mut().find(|upstream| upstream.name == name_of(cluster)) else {
        return;
    };
    let Some(action) = route.get("route") else { return };
    let table = &mut upstream.table;
    for (key, node) in action.entries() {
        match key.as_str() {
            "cluster" => ledger.carried(node.origin),
            "timeout" => match seconds(node) {
                Some(0) => ledger.ignored(node.origin, "no limit, as by default"),
                Some(millis) => table.set("timeout", time(millis), node.origin),
                None => ledger.lost(node.origin, "it is not a time", "set `timeout` of the upstream"),
            },
            "idle_timeout" => match seconds(node).filter(|millis| *millis > 0) {
                Some(millis) => table.set_in(&["timeouts"], "idle", time(millis), node.origin),
                None => ledger.ignored(node.origin, "no limit"),
            },
            "host_rewrite_literal" | "host_rewrite" => table.set("host", node.text(), node.origin),
            "auto_host_rewrite" => ledger.carried(node.origin),
            "retry_policy" => retries(node, table, ledger),
            _ => {}
        }
    }
    if action.get("timeout").is_none() {
        table.items.retain(|item| item.key != "timeout" || item.origin.is_some());
        if !table.has("timeout") {
            table.note("timeout", "15s", "the default of Envoy");
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
                Some(millis) => table.set_in(&["timeouts"], "first_byte", time(millis), inner.origin),
                None => ledger.ignored(inner.origin, "no limit"),
            },
            _ => inner.ignore("Keepwarm's own pauses between retries", ledger),
        }
    }
}

fn route(route: &Node, model: &mut Model, ledger: &mut Ledger) -> Route {
    let origin = route.open(ledger);
    ledger.carried(origin);
    let mut path = PathMatch::Any;
    let mut out = Route::new(origin, PathMatch::Any);
    for (key, node) in route.get("match").map(Node::entries).unwrap_or_default() {
        match key.as_str() {
            "prefix" => path = PathMatch::Begin(node.text().to_owned()),
            "path" => path = PathMatch::Exact(node.text().to_owned()),
            "path_separated_prefix" => {
                path = PathMatch::Patterns(vec![node.text().to_owned(), format!("{}/*", node.text())])
            }
            "safe_regex" => match node
                .get("regex")
                .map(|regex| crate::expression::check(&format!("^(?:{})$", regex.text()), false))
            {
                Some(Ok(pattern)) => path = PathMatch::Regex(pattern),
                _ => node.drop(
                    "its regular expression has no counterpart",
                    "write the route by hand",
                    true,
                    ledger,
                ),
            },
            _ => {
                node.drop("a condition without a counterpart", "write the route by hand", true, ledger);
                out.table.set("respond", 501i64, origin);
            }
        }
        carry(node, ledger);
    }
    out.path = path;
    if out.table.has("respond") {
        route.ignore("a part of what is not converted", ledger);
        return out;
    }
    if let Some(cluster) = route.at(&["route", "cluster"]) {
        route_settings(route, cluster.text(), model, ledger);
        out.table.set("upstream", name_of(cluster.text()), cluster.origin);
        if let Some(rewrite) = route.at(&["route", "prefix_rewrite"]) {
            match &out.path {
                PathMatch::Begin(prefix) if prefix != "/" => {
                    out.table.set("rewrite", format!("{}$1", rewrite.text()), rewrite.origin)
                }
                PathMatch::Exact(_) => out.table.set("rewrite", rewrite.text(), rewrite.origin),
                _ => rewrite.drop("it needs a prefix", "set `rewrite` of the route", true, ledger),
            }
        }
    } else if let Some(redirect) = route.get("redirect") {
        let host = redirect.get("host_redirect").map_or("$host_name", Node::text);
        let path = redirect.get("path_redirect").map_or("$path$query", Node::text);
        let scheme = if redirect.get("https_redirect").is_some_and(Node::is_on) { "https" } else { "http" };
        out.table.set(
            "redirect",
            crate::nginx::redirect(&format!("{scheme}://{host}{path}"), 301, origin),
            origin,
        );
        carry(redirect, ledger);
    } else if let Some(response) = route.get("direct_response") {
        let status = response.get("status").and_then(Node::number).unwrap_or(200);
        let mut table = Table::default();
        table.set("status", status.clamp(200, 599), origin);
        if let Some(body) = response.at(&["body", "inline_string"]) {
            table.set("body", body.text().replace('$', "$$"), body.origin);
        }
        carry(response, ledger);
        out.table.set("respond", table, origin);
    } else {
        ledger.lost(origin, "its action has no counterpart", "write the route by hand");
        out.table.set("respond", 501i64, origin);
    }
    out
}
