//! Listeners: sites, or doors to one cluster.

use super::Reader;
use super::cluster::{carry, seconds};
use super::filters::Filter;
use super::route::Scope;
use super::tls::{Transport, kind, transport};
use crate::Error;
use crate::model::{Bind, PathMatch, Route, Site};
use crate::table::Table;
use crate::tree::Node;
use crate::units::time;

const BY_HAND: &str = "write the listener by hand";

impl Reader<'_> {
    pub(super) fn listener(&mut self, listener: &Node) -> Result<(), Error> {
        let Some(address) = address(listener.get("address")) else {
            return Err(listener.error("has no `address.socket_address` with `address` and `port_value`"));
        };
        let port = listener.at(&["address", "socket_address", "port_value"]);
        let origin = port.or_else(|| listener.at(&["address", "pipe", "path"])).map(|node| node.origin);
        listener.get("address").iter().for_each(|node| carry(node, self.ledger));
        let mut addresses = vec![address];
        for more in listener.get("additional_addresses").map(Node::items).unwrap_or_default() {
            if let Some(more) = self::address(more.get("address")) {
                addresses.push(more);
            }
            carry(more, self.ledger);
        }
        self.addresses = addresses.clone();
        let mut proxied = self.listener_filters(listener);
        let mut chains = listener.get("filter_chains").map(Node::items).unwrap_or_default();
        chains.extend(listener.get("default_filter_chain"));
        for chain in &chains {
            proxied |= chain.get("use_proxy_protocol").is_some_and(Node::is_on);
        }
        let mut closed = false;
        for (key, node) in listener.entries() {
            match key.as_str() {
                "address"
                | "additional_addresses"
                | "filter_chains"
                | "default_filter_chain"
                | "listener_filters" => {}
                "filter_chain_matcher"
                | "use_original_dst"
                | "api_listener"
                | "internal_listener"
                | "udp_listener_config" => {
                    node.drop(
                        "it has no counterpart",
                        "its requests get 501: write the listener by hand",
                        true,
                        self.ledger,
                    );
                    closed = true;
                }
                "access_log" => {
                    node.drop("a log of connections", "set `access_log` of the listener", false, self.ledger)
                }
                _ => node.ignore("its name, and Envoy's own settings", self.ledger),
            }
        }
        let first = self.model.sites.len();
        for chain in &chains {
            let binds = addresses
                .iter()
                .map(|address| Bind {
                    address: address.clone(),
                    tls: false,
                    is_default: false,
                    proxy_protocol: proxied,
                    origin,
                })
                .collect();
            self.chain(chain, binds, closed, chains.len() > 1)?;
        }
        if proxied && !self.model.server.has("trusted_proxies") {
            self.model.server.note(
                "trusted_proxies",
                vec!["127.0.0.1"],
                "set this: the proxies that send the PROXY header",
            );
            origin.iter().for_each(|origin| {
                self.ledger.differs(
                    *origin,
                    "set `server.trusted_proxies` to the addresses of the proxies that send the header",
                )
            });
        }
        let own = self.model.sites.get(first..).unwrap_or(&[]);
        let has_default = own.iter().flat_map(|site| &site.binds).any(|bind| bind.is_default);
        if let (Some(site), false) = (own.first(), has_default) {
            // Hosts of no virtual host get 404.
            let mut rest = Site { listener: site.listener.clone(), tls: site.tls.clone(), ..Site::default() };
            rest.binds = site.binds.iter().map(|bind| Bind { is_default: true, ..bind.clone() }).collect();
            rest.certificates.clone_from(&site.certificates);
            rest.routes = vec![Route::status(None, PathMatch::Any, 404)];
            self.model.sites.push(rest);
        }
        if self.model.sites.len() == first && chains.is_empty() {
            listener.drop("it has no filter chain", BY_HAND, true, self.ledger);
        }
        Ok(())
    }

    /// Returns whether connections begin with a PROXY header.
    fn listener_filters(&mut self, listener: &Node) -> bool {
        let mut proxied = false;
        for filter in listener.get("listener_filters").map(Node::items).unwrap_or_default() {
            match kind(filter, "filters.listener").as_str() {
                "tls_inspector" | "http_inspector" => {
                    filter.ignore("Keepwarm sees both by itself", self.ledger)
                }
                "proxy_protocol" => {
                    proxied = true;
                    let origin = filter.open(self.ledger);
                    self.ledger.carried(origin);
                    let optional = filter.at(&["typed_config", "allow_requests_without_proxy_protocol"]);
                    if let Some(optional) = optional.filter(|optional| optional.is_on()) {
                        self.ledger.differs(optional.origin, "the header is required");
                    }
                    filter.ignore("a part of its filter", self.ledger);
                }
                _ => filter.drop("it has no counterpart", BY_HAND, true, self.ledger),
            }
        }
        proxied
    }

    fn chain(
        &mut self,
        chain: &Node,
        mut binds: Vec<Bind>,
        closed: bool,
        has_more: bool,
    ) -> Result<(), Error> {
        let mut site = Site::default();
        let mut is_closed = closed;
        let mut tls = false;
        for (key, node) in chain.entries() {
            match key.as_str() {
                "filters" | "use_proxy_protocol" | "filter_chain_match" => {}
                "transport_socket" => match transport(node) {
                    Transport::Tls(config) => {
                        tls = true;
                        is_closed |= self.listener_tls(node, config, &mut site);
                    }
                    Transport::Plain => node.ignore("without TLS", self.ledger),
                    Transport::Proxy(_) | Transport::Unknown => {
                        node.drop("it has no counterpart", BY_HAND, true, self.ledger);
                        return Ok(());
                    }
                },
                _ => node.ignore("its name, and Envoy's own settings", self.ledger),
            }
        }
        chain.get("use_proxy_protocol").iter().for_each(|node| carry(node, self.ledger));
        let mut names = Vec::new();
        for (key, node) in chain.get("filter_chain_match").map(Node::entries).unwrap_or_default() {
            match (key.as_str(), node.text()) {
                ("server_names", _) => {
                    names = node.texts();
                    self.ledger
                        .differs(node.origin, "by the host of the request in place of the name in TLS");
                }
                ("transport_protocol", "tls") if tls => {
                    self.ledger.ignored(node.origin, "the listener has TLS")
                }
                ("transport_protocol", "raw_buffer") if !tls && !has_more => {
                    self.ledger.ignored(node.origin, "the listener has no TLS")
                }
                ("application_protocols", _) if !has_more => {
                    self.ledger.differs(node.origin, "clients with other protocols are served too")
                }
                _ => {
                    node.drop(
                        "which connections this chain is for has no counterpart",
                        "its requests get 501: write `client`, `allow` or a listener of its own by hand",
                        true,
                        self.ledger,
                    );
                    is_closed = true;
                }
            }
        }
        binds.iter_mut().for_each(|bind| bind.tls = tls);
        let mut has_manager = false;
        for filter in chain.get("filters").map(Node::items).unwrap_or_default() {
            let config = filter.get("typed_config");
            match (kind(filter, "filters.network").as_str(), config) {
                (_, Some(config)) if config.get("route_config").is_some() => {
                    has_manager = true;
                    filter.get("name").iter().for_each(|node| node.ignore("its name", self.ledger));
                    self.manager(config, &site, &binds, &names, is_closed);
                }
                ("connection_limit" | "local_ratelimit" | "ratelimit", _) => filter.drop(
                    "a limit of connections",
                    "use `limits.connections`, `connections_per_client` or `rate_limit`",
                    true,
                    self.ledger,
                ),
                (kind, _) => {
                    is_closed = true;
                    filter.drop(
                        &format!("{kind} has no counterpart: only HTTP with a static route_config is read"),
                        BY_HAND,
                        true,
                        self.ledger,
                    );
                }
            }
        }
        if !has_manager {
            chain.ignore("a part of what is not converted", self.ledger);
        }
        Ok(())
    }

    fn manager(&mut self, config: &Node, site: &Site, binds: &[Bind], names: &[String], closed: bool) {
        let mut site = site.clone();
        let mut is_closed = closed | self.manager_settings(config, &mut site.listener);
        let filters = self.filters(config);
        let Some(table) = config.get("route_config") else { return };
        let is_plain = self.config_settings(table, &mut is_closed);
        let hosts = table.get("virtual_hosts").map(Node::items).unwrap_or_default();
        let is_local = binds.iter().all(|bind| {
            !bind.tls
                && !bind.proxy_protocol
                && (bind.address.starts_with("127.") || bind.address.starts_with("[::1]"))
        });
        if let (Some(cluster), true, true) =
            (only_cluster(&hosts), is_local, is_plain && !is_closed && site.listener.is_empty())
            && filters.iter().all(Filter::is_router)
            && self.clusters.iter().any(|known| known.name == cluster)
        {
            // An egress of one service: the door of an upstream.
            self.door(&hosts, cluster, binds);
            return;
        }
        for virtual_host in &hosts {
            let mut own = Site { origin: Some(virtual_host.open(self.ledger)), ..site.clone() };
            let is_default = self.domains(virtual_host, names, &mut own);
            own.binds = binds.iter().map(|bind| Bind { is_default, ..bind.clone() }).collect();
            if own.hosts.is_empty() && !is_default {
                continue;
            }
            own.routes = self.host_routes(virtual_host, table, &filters, binds, is_closed);
            self.model.sites.push(own);
        }
    }

    fn host_routes(
        &mut self,
        host: &Node,
        config: &Node,
        filters: &[Filter<'_>],
        binds: &[Bind],
        closed: bool,
    ) -> Vec<Route> {
        let tls = binds.iter().any(|bind| bind.tls);
        let origin = host.get("name").map(|name| name.origin);
        let mut is_closed = closed;
        let mut routes = Vec::new();
        for (key, node) in host.entries() {
            match key.as_str() {
                "name"
                | "metadata"
                | "virtual_clusters"
                | "include_request_attempt_count"
                | "include_attempt_count_in_response"
                | "include_is_timeout_retry_header"
                | "per_request_buffer_limit_bytes"
                | "request_body_buffer_limit" => {
                    node.ignore("its name, and Envoy's own settings", self.ledger)
                }
                "domains"
                | "routes"
                | "typed_per_filter_config"
                | "retry_policy"
                | "request_headers_to_add"
                | "request_headers_to_remove"
                | "response_headers_to_add"
                | "response_headers_to_remove" => {}
                "require_tls" => match node.text() {
                    "NONE" | "0" | "" => self.ledger.ignored(node.origin, "it is not required"),
                    kind => {
                        let mut route = Route::new(node.origin, PathMatch::Any);
                        route.table.set("scheme", "http", node.origin);
                        route.table.set(
                            "redirect",
                            crate::nginx::redirect("https://$host$path$query", 301, node.origin),
                            node.origin,
                        );
                        routes.push(route);
                        self.ledger.carried(node.origin);
                        if kind != "ALL" {
                            self.ledger
                                .differs(node.origin, "clients of the own network are redirected, too");
                        }
                    }
                },
                "rate_limits" => node.drop("limits by another server", "use `rate_limit`", true, self.ledger),
                "cors" | "hedge_policy" | "request_mirror_policies" | "retry_policy_typed_config" => {
                    node.drop("it has no counterpart", "write it by hand", false, self.ledger)
                }
                _ => {
                    node.drop(
                        "it has no counterpart",
                        "its requests get 501: write them by hand",
                        true,
                        self.ledger,
                    );
                    is_closed = true;
                }
            }
        }
        if is_closed {
            host.ignore("a part of what gets 501", self.ledger);
            return vec![Route::status(origin, PathMatch::Any, 501)];
        }
        let scope = Scope { filters, host, config, tls };
        for route in host.get("routes").map(Node::items).unwrap_or_default() {
            routes.extend(self.routes(route, &scope));
        }
        if let Some(settings) = host.get("typed_per_filter_config") {
            settings.ignore("its filter is not used", self.ledger);
        }
        if let Some(policy) = host.get("retry_policy") {
            policy.ignore("each route has its own", self.ledger);
        }
        routes
    }

    /// The hosts of a virtual host; returns whether it is for all others.
    fn domains(&mut self, host: &Node, names: &[String], site: &mut Site) -> bool {
        let Some(node) = host.get("domains") else { return false };
        let mut is_default = false;
        self.ledger.carried(node.origin);
        for domain in node.texts() {
            let lower = domain.to_ascii_lowercase();
            let (name, port) = match lower.rsplit_once(':') {
                Some((name, port)) if port == "*" || port.bytes().all(|b| b.is_ascii_digit()) => {
                    (name.to_owned(), Some(port))
                }
                _ => (lower.clone(), None),
            };
            if name == "*" {
                match names {
                    [] => is_default = true,
                    names => site.hosts.extend(names.iter().cloned()),
                }
                continue;
            }
            if port.is_some() {
                self.ledger.differs(node.origin, "hosts are compared without their ports");
            }
            if !site.hosts.contains(&name) {
                site.hosts.push(name);
            }
        }
        let taken = |name: &String| {
            self.model.sites.iter().any(|other| {
                other.hosts.contains(name)
                    && other.binds.iter().any(|bind| self.addresses.contains(&bind.address))
            })
        };
        if site.hosts.iter().any(taken) {
            self.ledger.lost(
                node.origin,
                "another virtual host of the listener has the same name, but for its port",
                "write its routes by hand",
            );
        }
        is_default
    }

    /// Settings of all virtual hosts; returns whether there are none but them.
    fn config_settings(&mut self, config: &Node, is_closed: &mut bool) -> bool {
        let mut is_plain = true;
        for (key, node) in config.entries() {
            match key.as_str() {
                "virtual_hosts" => {}
                "name"
                | "validate_clusters"
                | "metadata"
                | "ignore_port_in_host_matching"
                | "max_direct_response_body_size_bytes" => {
                    node.ignore("its name, and Envoy's own settings", self.ledger)
                }
                "typed_per_filter_config"
                | "request_headers_to_add"
                | "request_headers_to_remove"
                | "response_headers_to_add"
                | "response_headers_to_remove" => is_plain = false,
                "most_specific_header_mutations_wins" => self.ledger.differs(
                    node.origin,
                    "headers of all hosts replace those of a route: look at `headers` and `request_headers`",
                ),
                _ => {
                    node.drop(
                        "it has no counterpart",
                        "its requests get 501: write them by hand",
                        true,
                        self.ledger,
                    );
                    *is_closed = true;
                }
            }
        }
        is_plain
    }

    /// Settings of a connection manager; returns whether one closes it.
    fn manager_settings(&mut self, config: &Node, listener: &mut Table) -> bool {
        let mut closed = false;
        let mut limits = Table::default();
        for (key, node) in config.entries() {
            let origin = node.origin;
            match key.as_str() {
                "route_config" | "http_filters" => {}
                "rds" | "scoped_routes" | "scoped_rds" => {
                    node.drop("routes of another server", "its requests get 501", true, self.ledger);
                    closed = true;
                }
                "max_request_headers_kb" => {
                    let size = node.number().map(|kib| format!("{}KiB", kib.clamp(1, 16384)));
                    size.into_iter().for_each(|size| limits.set("header_block", size, origin));
                }
                "request_headers_timeout" => match seconds(node).filter(|millis| *millis > 0) {
                    Some(millis) => limits.set("head_timeout", time(millis), origin),
                    None => self.ledger.ignored(origin, "the default"),
                },
                "common_http_protocol_options" => {
                    for (key, inner) in node.entries() {
                        let millis = seconds(inner).filter(|millis| *millis > 0);
                        let number = inner.number().filter(|number| *number > 0);
                        match (key.as_str(), millis, number) {
                            ("idle_timeout", Some(millis), _) => limits.set("idle_timeout", time(millis), inner.origin),
                            ("max_connection_duration", Some(millis), _) => {
                                limits.set("connection_age", time(millis), inner.origin)
                            }
                            ("max_headers_count", _, Some(number)) => {
                                limits.set("header_fields", number.clamp(1, 65536), inner.origin)
                            }
                            ("max_requests_per_connection", _, Some(number)) => {
                                limits.set("connection_requests", number, inner.origin)
                            }
                            ("max_stream_duration", Some(_), _) => inner.drop(
                                "there is no limit of a whole request",
                                "set `timeout` of the upstreams",
                                true,
                                self.ledger,
                            ),
                            ("headers_with_underscores_action", ..) if inner.text() == "REJECT_REQUEST" => {
                                self.ledger.differs(inner.origin, "such headers are dropped")
                            }
                            ("headers_with_underscores_action", ..) => {
                                self.ledger.ignored(inner.origin, "such headers are dropped")
                            }
                            _ => self.ledger.ignored(inner.origin, "the default"),
                        }
                    }
                }
                "request_timeout" => self.ledger.differs(
                    origin,
                    "slow bodies are limited by `limits.body_rate` in place of a time",
                ),
                "xff_num_trusted_hops" | "original_ip_detection_extensions" => {
                    let is_none = node.text() == "0";
                    match is_none {
                        true => self.ledger.ignored(origin, "none"),
                        false => node.drop(
                            "the client is read from the headers of `server.trusted_proxies` only",
                            "set `server.trusted_proxies`",
                            true,
                            self.ledger,
                        ),
                    }
                }
                "forward_client_cert_details" => match node.text() {
                    "SANITIZE" => self.ledger.carried(origin),
                    "SANITIZE_SET" => self.ledger.differs(
                        origin,
                        "the client's certificate is in `X-Client-Cert-…` in place of `X-Forwarded-Client-Cert`",
                    ),
                    _ => self.ledger.lost(
                        origin,
                        "`X-Forwarded-Client-Cert` of clients is removed",
                        "let the app read `X-Client-Cert-…`",
                    ),
                },
                "access_log" => {
                    node.drop("its form is another", "set `access_log` of the listener", false, self.ledger)
                }
                "tracing" => node.drop("it has no counterpart", "set `[otlp]`", false, self.ledger),
                "local_reply_config" => {
                    node.drop("it has no counterpart", "set `error_pages`", false, self.ledger)
                }
                "merge_slashes" => self.ledger.differs(
                    origin,
                    "`//` is kept; what may be read as the path of another route gets 400",
                ),
                "path_normalization_options"
                | "early_header_mutation_extensions"
                | "typed_header_validation_config" => {
                    node.drop("it has no counterpart", "its requests get 501", true, self.ledger);
                    closed = true;
                }
                "@type" | "stat_prefix" | "codec_type" | "http_protocol_options" | "http2_protocol_options"
                | "http3_protocol_options" | "server_name" | "server_header_transformation" | "add_user_agent"
                | "stream_idle_timeout" | "drain_timeout" | "delayed_close_timeout" | "use_remote_address"
                | "internal_address_config" | "skip_xff_append" | "via" | "generate_request_id"
                | "preserve_external_request_id" | "always_set_request_id_in_response"
                | "set_current_client_cert_details" | "proxy_100_continue"
                | "represent_ipv4_remote_address_as_ipv4_mapped_ipv6" | "upgrade_configs" | "normalize_path"
                | "path_with_escaped_slashes_action" | "request_id_extension" | "strip_matching_host_port"
                | "strip_any_host_port" | "strip_trailing_host_dot" | "stream_error_on_invalid_http_message"
                | "scheme_header_transformation" | "proxy_status_config" | "append_x_forwarded_port"
                | "append_local_overload" | "add_proxy_protocol_connection_state" | "access_log_options"
                | "access_log_flush_interval" | "flush_access_log_on_new_request" => {
                    node.ignore("Envoy's own settings", self.ledger)
                }
                _ => {}
            }
        }
        if !limits.is_empty() {
            limits.settle(self.ledger);
            listener.set("limits", limits, None);
        }
        closed
    }

    fn door(&mut self, hosts: &[&Node], cluster: &str, binds: &[Bind]) {
        let mut name = None;
        for host in hosts {
            for route in host.get("routes").map(Node::items).unwrap_or_default() {
                if let Some(action) = route.get("route") {
                    name = self.upstream_for(cluster, action, host, false);
                    action.get("cluster").iter().for_each(|node| self.ledger.carried(node.origin));
                }
                route.ignore("every path leads to the door", self.ledger);
            }
            host.ignore("every host leads to the door", self.ledger);
        }
        if let Some(one) = self.uses.iter_mut().find(|one| Some(&one.name) == name.as_ref()) {
            one.binds.extend(binds.iter().map(|bind| (bind.address.clone(), bind.origin)));
        }
    }
}

fn address(node: Option<&Node>) -> Option<String> {
    let node = node?;
    if let Some(path) = node.at(&["pipe", "path"]) {
        return Some(format!("unix:{}", path.text()));
    }
    let socket = node.get("socket_address")?;
    let (host, port) = (socket.get("address")?.text(), socket.get("port_value")?.text());
    Some(if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") })
}

/// The cluster that all requests lead to, with the same settings.
fn only_cluster<'a>(hosts: &[&'a Node]) -> Option<&'a str> {
    let mut found: Option<&str> = None;
    // Of several routes, Envoy takes the first; each has settings of its own.
    let [host] = hosts else { return None };
    let is_for_all = host.get("domains").is_some_and(|domains| domains.texts().iter().any(|one| one == "*"));
    let known = ["name", "domains", "routes", "retry_policy", "include_request_attempt_count"];
    if !is_for_all || host.entries().iter().any(|(key, _)| !known.contains(&key.as_str())) {
        return None;
    }
    let routes = host.get("routes").map(Node::items).unwrap_or_default();
    let [route] = routes.as_slice() else { return None };
    let cluster = route.at(&["route", "cluster"])?.text();
    let conditions = route.get("match").map(Node::entries).unwrap_or_default();
    let is_all = matches!(conditions, [(key, node)] if key == "prefix" && node.text() == "/");
    let has_more = route
        .entries()
        .iter()
        .any(|(key, _)| !["match", "route", "name", "metadata"].contains(&key.as_str()));
    let plain = [
        "cluster",
        "timeout",
        "idle_timeout",
        "host_rewrite_literal",
        "auto_host_rewrite",
        "retry_policy",
        "hash_policy",
        "priority",
        "max_stream_duration",
        "max_grpc_timeout",
        "upgrade_configs",
    ];
    let is_plain = route.get("route")?.entries().iter().all(|(key, _)| plain.contains(&key.as_str()));
    if is_all && is_plain && !has_more {
        found = Some(cluster);
    }
    found
}
