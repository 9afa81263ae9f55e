//! Routes: what they do. What they match is in [`super::conditions`].

use super::Reader;
use super::cluster::{carry, retries, seconds};
use super::filters::{Filter, apply};
use super::headers::Edits;
use crate::expression::{beginning, check};
use crate::ledger::Origin;
use crate::model::{PathMatch, Route, encoded, escape};
use crate::table::{Table, Value};
use crate::tree::Node;
use crate::units::time;

pub(super) const BY_HAND: &str = "what it is for gets 501: write the route by hand";

/// What is around a route.
pub(super) struct Scope<'s, 'n> {
    pub(super) filters: &'s [Filter<'n>],
    pub(super) host: &'n Node,
    pub(super) config: &'n Node,
    /// Whether the listener speaks TLS.
    pub(super) tls: bool,
}

impl Reader<'_> {
    pub(super) fn routes(&mut self, node: &Node, scope: &Scope<'_, '_>) -> Vec<Route> {
        let origin = node.open(self.ledger);
        self.ledger.carried(origin);
        let mut out = Route::new(origin, PathMatch::Any);
        let mut closed = !self.conditions(node, &mut out);
        let mut edits = Edits::default();
        let scopes: Vec<&Node> = std::iter::once(node).chain([scope.host, scope.config]).collect();
        let mut clusters = Vec::new();
        for scope in &scopes {
            self.edits(scope, &mut edits);
        }
        for (key, inner) in node.entries() {
            match key.as_str() {
                "match" | "route" | "redirect" | "direct_response" | "typed_per_filter_config" => {}
                "name"
                | "metadata"
                | "decorator"
                | "tracing"
                | "stat_prefix"
                | "per_request_buffer_limit_bytes"
                | "request_body_buffer_limit" => {
                    inner.ignore("its name, and Envoy's own settings", self.ledger)
                }
                "request_headers_to_add"
                | "request_headers_to_remove"
                | "response_headers_to_add"
                | "response_headers_to_remove" => {}
                "non_forwarding_action" | "filter_action" => {
                    inner.drop("it has no counterpart", BY_HAND, true, self.ledger);
                    closed = true;
                }
                _ => {}
            }
        }
        let mut routes = Vec::new();
        let effect = self.effects(scope.filters, &scopes);
        closed |= effect.is_closed;
        if !closed {
            match (node.get("route"), node.get("redirect"), node.get("direct_response")) {
                (Some(action), None, None) => match self.action(action, scope, &out) {
                    Some((found, used)) => {
                        routes = found;
                        clusters = used;
                    }
                    None => closed = true,
                },
                (None, Some(redirect), None) => match self.redirect(redirect, scope, &out) {
                    Some(found) => routes = found,
                    None => closed = true,
                },
                (None, None, Some(response)) => match self.response(response, origin) {
                    Some(table) => {
                        let mut route = out.clone();
                        route.table.set("respond", table, origin);
                        routes = vec![route];
                    }
                    None => closed = true,
                },
                _ => {
                    self.ledger.lost(origin, "its action has no counterpart", BY_HAND);
                    closed = true;
                }
            }
        }
        for own in clusters.iter().filter(|own| own.get("typed_per_filter_config").is_some()) {
            own.drop("settings of filters for one of several clusters", BY_HAND, true, self.ledger);
            closed = true;
        }
        if closed {
            out.table.set("respond", 501i64, origin);
            node.ignore("a part of what gets 501", self.ledger);
            return vec![out];
        }
        if let Some(settings) = node.get("typed_per_filter_config") {
            settings.ignore("its filter is not used", self.ledger);
        }
        for route in &mut routes {
            apply(&effect, &edits, &mut route.table, origin);
        }
        routes
    }

    fn response(&mut self, response: &Node, origin: Origin) -> Option<Table> {
        let status = response.get("status").and_then(Node::number).unwrap_or(0);
        let mut table = Table::default();
        table.set("status", status, origin);
        let body = response.get("body");
        let text = body.and_then(|body| body.get("inline_string"));
        if !(200..=599).contains(&status) || body.is_some() && text.is_none() {
            response.drop("its status or body has no counterpart", BY_HAND, true, self.ledger);
            return None;
        }
        if let Some(text) = text.filter(|text| !text.text().is_empty()) {
            table.set("body", text.text().replace('$', "$$"), text.origin);
        }
        carry(response, self.ledger);
        Some(table)
    }

    fn redirect(&mut self, redirect: &Node, scope: &Scope<'_, '_>, out: &Route) -> Option<Vec<Route>> {
        let origin = redirect.open(self.ledger);
        let text = |key: &str| redirect.get(key).map(Node::text).filter(|text| !text.is_empty());
        let status = match text("response_code").unwrap_or("MOVED_PERMANENTLY") {
            "MOVED_PERMANENTLY" => 301,
            "FOUND" => 302,
            "SEE_OTHER" => 303,
            "TEMPORARY_REDIRECT" => 307,
            "PERMANENT_REDIRECT" => 308,
            _ => {
                redirect.drop("its status has no counterpart", BY_HAND, true, self.ledger);
                return None;
            }
        };
        let is_https = redirect.get("https_redirect").is_some_and(Node::is_on);
        let scheme = if is_https { Some("https") } else { text("scheme_redirect") };
        let strips = redirect.get("strip_query").is_some_and(Node::is_on);
        let query = if strips { "" } else { "$query" };
        let mut route = out.clone();
        let path = match (text("path_redirect"), text("prefix_rewrite"), redirect.get("regex_rewrite")) {
            (Some(path), None, None) if path.contains('?') => path.replace('$', "$$"),
            (Some(path), None, None) => format!("{}{query}", path.replace('$', "$$")),
            (None, Some(prefix), None) => {
                let path = rewritten(&mut route, prefix);
                let Some(path) = path else {
                    redirect.drop("its path has no counterpart", BY_HAND, true, self.ledger);
                    return None;
                };
                format!("{path}{query}")
            }
            (None, None, None) => format!("$path{query}"),
            _ => {
                redirect.drop("its path has no counterpart", BY_HAND, true, self.ledger);
                return None;
            }
        };
        let port = text("port_redirect").filter(|port| *port != "0");
        let host = match (text("host_redirect"), port) {
            (Some(host), None) => host.replace('$', "$$"),
            (Some(host), Some(port)) => format!("{}:{port}", host.replace('$', "$$")),
            (None, Some(port)) => format!("$host_name:{port}"),
            (None, None) => "$host".to_owned(),
        };
        let scheme = scheme.unwrap_or(if scope.tls { "https" } else { "http" });
        if !["http", "https"].contains(&scheme) || !path.starts_with(['/', '$']) {
            redirect.drop("its target is not an address of HTTP", BY_HAND, true, self.ledger);
            return None;
        }
        let target = format!("{scheme}://{host}{path}");
        route.table.set("redirect", crate::nginx::redirect(&target, status, origin), origin);
        carry(redirect, self.ledger);
        self.ledger.carried(origin);
        Some(vec![route])
    }

    /// Routes to clusters, with the nodes of several clusters.
    fn action<'n>(
        &mut self,
        action: &'n Node,
        scope: &Scope<'_, '_>,
        out: &Route,
    ) -> Option<(Vec<Route>, Vec<&'n Node>)> {
        let mut route = out.clone();
        let weighted: Vec<&Node> =
            action.at(&["weighted_clusters", "clusters"]).map(Node::items).unwrap_or_default();
        let host = scope.host;
        match (action.get("cluster"), weighted.as_slice()) {
            (Some(cluster), []) => {
                let Some(name) = self.upstream_for(cluster.text(), action, host, false) else {
                    cluster.drop(
                        "there is no such cluster, or it was not converted",
                        BY_HAND,
                        true,
                        self.ledger,
                    );
                    return None;
                };
                route.table.set("upstream", name, cluster.origin);
            }
            (None, [_, ..]) => self.weighted(action, &weighted, host, &mut route)?,
            _ => {
                action.drop(
                    "its cluster is chosen by something without a counterpart",
                    BY_HAND,
                    true,
                    self.ledger,
                );
                return None;
            }
        }
        let mut routes = vec![route];
        for (key, node) in action.entries() {
            let is_kept = match key.as_str() {
                "prefix_rewrite" => match routes.first_mut() {
                    Some(route) => match rewritten(route, node.text()) {
                        Some(path) => {
                            route.table.set("rewrite", path, node.origin);
                            true
                        }
                        None => false,
                    },
                    None => false,
                },
                "regex_rewrite" => match routes.first().and_then(|route| by_expression(route, node)) {
                    Some((first, rest)) => {
                        routes = vec![first];
                        routes.extend(rest);
                        carry(node, self.ledger);
                        true
                    }
                    None => false,
                },
                "request_mirror_policies" => {
                    for route in &mut routes {
                        self.mirror(node, host, route);
                    }
                    true
                }
                "upgrade_configs" => {
                    let connects = node.items().iter().any(|one| {
                        one.get("upgrade_type")
                            .is_some_and(|kind| kind.text().eq_ignore_ascii_case("connect"))
                    });
                    if !connects {
                        node.ignore("an upgrade that the upstream accepts is passed on", self.ledger);
                    }
                    !connects
                }
                "cluster_header"
                | "cluster_specifier_plugin"
                | "inline_cluster_specifier_plugin"
                | "host_rewrite_header"
                | "host_rewrite_path_regex"
                | "host_rewrite"
                | "path_rewrite_policy"
                | "path_rewrite"
                | "metadata_match" => false,
                _ => true,
            };
            if !is_kept {
                node.drop("it has no counterpart", BY_HAND, true, self.ledger);
                return None;
            }
        }
        Some((routes, weighted))
    }

    fn weighted(&mut self, action: &Node, list: &[&Node], host: &Node, route: &mut Route) -> Option<()> {
        let weight = |node: &Node| node.get("weight").and_then(Node::number).unwrap_or(0);
        let total: i64 = list.iter().map(|node| weight(node)).sum();
        let used: Vec<&&Node> = list.iter().filter(|node| weight(node) > 0).collect();
        let mut shares = Vec::new();
        for (index, node) in used.iter().enumerate() {
            let has_more = node.entries().iter().any(|(key, _)| {
                !["name", "weight", "typed_per_filter_config", "metadata_match"].contains(&key.as_str())
            });
            let cluster = node.get("name");
            let name = cluster.and_then(|name| self.upstream_for(name.text(), action, host, false));
            let (Some(name), false) = (name, has_more) else {
                node.drop("a cluster with settings of its own, or none", BY_HAND, true, self.ledger);
                return None;
            };
            let origin = node.open(self.ledger);
            self.ledger.carried(origin);
            if index == 0 {
                route.table.set("upstream", name, origin);
            } else {
                let mut table = Table::default();
                table.set("upstream", name, origin);
                let share = weight(node) * 100 / total;
                if share * total != weight(node) * 100 {
                    self.ledger.differs(origin, "a share is a whole number of percents");
                }
                let share = format!("{share}%");
                table.set("share", share, origin);
                shares.push(Value::Table(table));
            }
        }
        if used.is_empty() {
            return None;
        }
        if !shares.is_empty() {
            route.table.set("split", Value::List(shares), action.open(self.ledger));
        }
        for node in list {
            node.get("name").iter().for_each(|name| self.ledger.carried(name.origin));
            node.get("weight").iter().for_each(|weight| self.ledger.carried(weight.origin));
        }
        action
            .at(&["weighted_clusters", "total_weight"])
            .iter()
            .for_each(|total| self.ledger.carried(total.origin));
        Some(())
    }

    fn mirror(&mut self, node: &Node, host: &Node, route: &mut Route) {
        for policy in node.items() {
            let fraction = policy.at(&["runtime_fraction", "default_value"]);
            let share = match fraction.map(|one| (one.get("numerator").and_then(Node::number), one)) {
                None => Some("100%".to_owned()),
                Some((Some(part), one)) => match one.get("denominator").map_or("HUNDRED", Node::text) {
                    "HUNDRED" => Some(format!("{}%", part.clamp(0, 100))),
                    _ => None,
                },
                Some((None, _)) => None,
            };
            let cluster = policy.get("cluster");
            let name = cluster.and_then(|cluster| self.upstream_for(cluster.text(), policy, host, true));
            match (name, share) {
                (Some(name), Some(share)) if !route.table.has("mirror") => {
                    let origin = policy.open(self.ledger);
                    let mut table = Table::default();
                    table.set("upstream", name, origin);
                    table.set("share", share, origin);
                    table.set("all_methods", true, None);
                    route.table.set("mirror", table, origin);
                    self.ledger.differs(origin, "copies have the client's `Host`, without `-shadow`");
                    carry(policy, self.ledger);
                }
                _ => policy.drop("a route has one copy", "write `mirror` by hand", false, self.ledger),
            }
        }
    }

    /// The upstream of a cluster with the settings of a route. `is_bare`: without those.
    pub(super) fn upstream_for(
        &mut self,
        cluster: &str,
        action: &Node,
        host: &Node,
        is_bare: bool,
    ) -> Option<String> {
        let index = self.clusters.iter().position(|known| known.name == cluster)?;
        let known = self.clusters.get(index)?;
        let (mut table, names, hash, name) =
            (known.table.clone(), known.hosts.clone(), known.hash, known.name.clone());
        let origin = known.origin;
        if !is_bare {
            let own = self.route_settings(action, host, &names, &mut table);
            if let Some((by, from)) = hash {
                self.hashed(action, by, from, &mut table);
            }
            if !own {
                return None;
            }
        }
        let used = self.used(index, &name, table);
        let has_other = self.uses.iter().filter(|one| one.cluster == index).count() > 1;
        if has_other && self.uses.iter().any(|one| one.cluster == index && one.table.has("limits")) {
            self.ledger.differs(
                origin,
                "routes have different settings for it: each has an upstream, whose `limits` count apart",
            );
        }
        Some(used)
    }

    fn hashed(&mut self, action: &Node, by: &'static str, from: Origin, table: &mut Table) {
        let policies = action.get("hash_policy").map(Node::items).unwrap_or_default();
        let key = policies.first().and_then(|policy| {
            let header = policy.at(&["header", "header_name"]).map(|name| ("header", name));
            header.or_else(|| policy.at(&["cookie", "name"]).map(|name| ("cookie", name)))
        });
        match key {
            Some((kind, name)) => {
                let mut balance = Table::default();
                balance.set("by", by, from);
                balance.set("hash", format!("{kind}:{}", name.text()), name.origin);
                table.set("balance", balance, from);
                if let Some(policies) = action.get("hash_policy") {
                    policies.ignore("only the first is used, and no cookie is made", self.ledger);
                }
            }
            None => self.ledger.dropped(from, "it needs a header or a cookie", "set `balance` with `hash`"),
        }
    }

    /// Settings of a route that are those of our upstream; `false`: there is one without a counterpart.
    pub(super) fn route_settings(
        &mut self,
        action: &Node,
        host: &Node,
        names: &[String],
        table: &mut Table,
    ) -> bool {
        let ledger = &mut *self.ledger;
        let mut is_known = true;
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
                "host_rewrite_literal" => table.set("host", node.text(), node.origin),
                "auto_host_rewrite" if node.is_on() => match names {
                    [only] => table.set("host", only.as_str(), node.origin),
                    _ => {
                        ledger.lost(
                            node.origin,
                            "its endpoints have several names",
                            "set `host` of the upstream",
                        );
                        is_known = false;
                    }
                },
                "auto_host_rewrite" => ledger.carried(node.origin),
                "retry_policy" => retries(node, table, ledger),
                "hash_policy"
                | "priority"
                | "early_data_policy"
                | "cluster_not_found_response_code"
                | "append_x_forwarded_host"
                | "max_grpc_timeout"
                | "grpc_timeout_offset"
                | "max_stream_duration"
                | "flush_timeout" => node.ignore("Keepwarm's own settings apply", ledger),
                "rate_limits" => node.drop("limits by another server", "use `rate_limit`", true, ledger),
                "cors" | "hedge_policy" | "internal_redirect_policy" => {
                    node.drop("it has no counterpart", "nothing, or write it by hand", false, ledger)
                }
                _ => {}
            }
        }
        if let (None, Some(policy)) = (action.get("retry_policy"), host.get("retry_policy")) {
            retries(policy, table, ledger);
        }
        if action.get("timeout").is_none() {
            table.items.retain(|item| item.key != "timeout" || item.origin.is_some());
            if !table.has("timeout") {
                table.note("timeout", "15s", "the default of Envoy");
            }
        }
        is_known
    }
}

/// The path with another prefix; the route gets the pattern that this needs.
fn rewritten(route: &mut Route, prefix: &str) -> Option<String> {
    if !prefix.starts_with('/') || prefix.contains('?') {
        return None;
    }
    let prefix = encoded(prefix).replace('$', "$$");
    match &route.path {
        PathMatch::Begin(old) if old == "/" => {
            route.path = PathMatch::Patterns(vec!["/*".to_owned()]);
            Some(format!("{prefix}$1"))
        }
        PathMatch::Begin(old) if !old.contains('*') => Some(format!("{prefix}$1")),
        PathMatch::Exact(_) => Some(prefix),
        PathMatch::Patterns(list) => {
            let first = list.first()?.clone();
            route.path = PathMatch::Regex(format!("^{}((?:/.*)?)$", escape(&first)));
            Some(format!("{prefix}$1"))
        }
        _ => None,
    }
}

/// A rewrite by an expression: a route for the paths that it changes, and one for the others.
fn by_expression(route: &Route, rewrite: &Node) -> Option<(Route, Option<Route>)> {
    let regex = rewrite.at(&["pattern", "regex"])?;
    let substitution = rewrite.get("substitution").map_or("", Node::text);
    let begin = beginning(regex.text())?;
    let is_whole = match &route.path {
        PathMatch::Begin(prefix) => begin.starts_with(prefix.as_str()),
        PathMatch::Any => true,
        _ => false,
    };
    if !is_whole || !substitution.starts_with('/') || substitution.contains('?') {
        return None;
    }
    let groups = regex::bytes::Regex::new(regex.text()).ok()?.captures_len();
    let mut target = String::new();
    let mut chars = substitution.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next()? {
                digit @ '1'..='9' if (digit as usize) < usize::from(b'0') + groups => {
                    target.push_str(&format!("${digit}"))
                }
                '\\' => target.push('\\'),
                _ => return None,
            },
            '$' => target.push_str("$$"),
            c => target.push(c),
        }
    }
    let mut expression = regex.text().to_owned();
    if !expression.ends_with('$') {
        expression = format!("^(?:{})(.*)$", expression.strip_prefix('^')?);
        if groups > 9 {
            return None;
        }
        target.push_str(&format!("${groups}"));
    }
    let mut first = route.clone();
    first.path = PathMatch::Regex(check(&expression, false).ok()?);
    first.table.set("rewrite", target, regex.origin);
    Some((first, Some(route.clone())))
}
