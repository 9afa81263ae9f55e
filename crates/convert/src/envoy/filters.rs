//! HTTP filters, for all routes or for some.

use super::Reader;
use super::cluster::{carry, seconds};
use super::headers::Edits;
use super::tls::kind;
use crate::ledger::Origin;
use crate::model::{Section, name_of};
use crate::table::{Table, Value};
use crate::tree::Node;

/// What a filter does to requests of a route.
#[derive(Clone, Default)]
pub(super) struct Effect {
    /// It may refuse requests in a way that is not known here: all get 501.
    pub(super) is_closed: bool,
    /// Keys of the route.
    pub(super) table: Table,
    pub(super) edits: Edits,
}

/// A filter of a connection manager.
pub(super) struct Filter<'a> {
    name: &'a str,
    kind: String,
    is_disabled: bool,
    effect: Effect,
}

impl Filter<'_> {
    pub(super) fn is_router(&self) -> bool {
        self.kind == "router"
    }
}

/// Filters that change nothing that clients or upstreams rely on.
const PLAIN: [&str; 14] = [
    "router",
    "grpc_stats",
    "tap",
    "on_demand",
    "alternate_protocols_cache",
    "cache",
    "cdn_loop",
    "stateful_session",
    "set_filter_state",
    "ip_tagging",
    "geoip",
    "grpc_web",
    "cors",
    "fault",
];

/// Filters that limit requests.
const LIMITS: [&str; 6] = [
    "ratelimit",
    "rate_limit",
    "rate_limit_quota",
    "bandwidth_limit",
    "admission_control",
    "adaptive_concurrency",
];

const CLOSED: &str =
    "what it is for gets 501: write `allow`, `basic_auth` or `auth_request` of the routes by hand";

impl Reader<'_> {
    pub(super) fn filters<'n>(&mut self, manager: &'n Node) -> Vec<Filter<'n>> {
        let mut filters = Vec::new();
        self.is_peer = manager.get("use_remote_address").is_some_and(Node::is_on);
        for node in manager.get("http_filters").map(Node::items).unwrap_or_default() {
            let kind = kind(node, "filters.http");
            let is_disabled = node.get("disabled").is_some_and(Node::is_on);
            let name = node.get("name").map_or("", Node::text);
            let config = node.get("typed_config");
            let effect = match is_disabled {
                true => Effect::default(),
                false => self.effect(&kind, node, config),
            };
            node.ignore("a part of its filter", self.ledger);
            filters.push(Filter { name, kind, is_disabled, effect });
        }
        filters
    }

    /// What filters do to a route. `scopes`: those with settings of filters, the most specific first.
    pub(super) fn effects(&mut self, filters: &[Filter<'_>], scopes: &[&Node]) -> Effect {
        let mut all = Effect::default();
        for filter in filters {
            let own =
                scopes.iter().find_map(|scope| scope.at(&["typed_per_filter_config"])?.get(filter.name));
            let effect = match own {
                None if filter.is_disabled => continue,
                None => filter.effect.clone(),
                Some(own) => self.own_effect(filter, own),
            };
            all.is_closed |= effect.is_closed;
            for item in &effect.table.items {
                let is_other = all.table.get(&item.key).is_some_and(|known| *known != item.value);
                if is_other {
                    // Two lists of clients, or two limits: a route has one of each.
                    all.is_closed = true;
                    item.origin.iter().for_each(|origin| {
                        self.ledger.lost(*origin, format!("a route has one `{}`", item.key), CLOSED)
                    });
                } else {
                    all.table.remove(&item.key);
                    all.table.items.push(item.clone());
                }
            }
            all.edits.request.merge(&effect.edits.request);
            all.edits.response.merge(&effect.edits.response);
        }
        all
    }

    /// The effect of a filter with settings of its own for some routes.
    fn own_effect(&mut self, filter: &Filter<'_>, own: &Node) -> Effect {
        let is_off = own.get("disabled").is_some_and(Node::is_on);
        let inner = match own.get("@type").is_some_and(|of| of.text().ends_with(".FilterConfig")) {
            true => own.get("config"),
            false => Some(own),
        };
        let rules = inner.and_then(|inner| inner.get("rbac"));
        let effect = match (is_off, filter.kind.as_str(), inner) {
            (true, _, _) | (false, "rbac", None) => Effect::default(),
            // Without rules of its own, a route has none.
            (false, "rbac", Some(_)) if rules.is_none() => Effect::default(),
            (false, "rbac", Some(_)) => self.effect("rbac", own, rules),
            (false, "buffer", Some(inner)) => self.effect("buffer", own, inner.get("buffer")),
            (false, "header_mutation", Some(inner)) => {
                let mut effect = filter.effect.clone();
                self.mutations(inner, &mut effect.edits);
                effect
            }
            (false, kind, inner) => self.effect(kind, own, inner),
        };
        own.ignore("a part of its filter", self.ledger);
        effect
    }

    fn effect(&mut self, kind: &str, node: &Node, config: Option<&Node>) -> Effect {
        let mut effect = Effect::default();
        match (kind, config) {
            ("router", _) => {}
            ("cors", Some(_)) => {
                node.drop("browsers get no CORS headers", "set `headers` of the routes", false, self.ledger)
            }
            ("compressor", _) => {
                let origin = node.open(self.ledger);
                effect.table.set("compress", true, origin);
                self.ledger.differs(origin, "zstd, brotli and gzip, by `Accept-Encoding`");
            }
            ("rbac", Some(config)) => self.rbac(node, config, &mut effect),
            ("local_ratelimit", Some(config)) => self.rate_limit(node, config, &mut effect),
            ("buffer", Some(config)) => {
                match config.get("max_request_bytes").and_then(|max| Some((max.number()?, max.origin))) {
                    Some((max, origin)) => {
                        effect.table.set("max_body", max, origin);
                        effect.table.set("buffer_request", true, None);
                    }
                    None => node.drop("it has no size", "set `max_body` of the routes", true, self.ledger),
                }
            }
            ("header_mutation", Some(config)) => self.mutations(config, &mut effect.edits),
            (kind, _) if PLAIN.contains(&kind) => node.drop(
                &format!("the filter {kind} has no counterpart"),
                "nothing, or write it into the app",
                false,
                self.ledger,
            ),
            (kind, _) if LIMITS.contains(&kind) => node.drop(
                &format!("the filter {kind} has no counterpart"),
                "use `rate_limit` or `concurrency` of the routes",
                true,
                self.ledger,
            ),
            (kind, _) => {
                effect.is_closed = true;
                node.drop(&format!("the filter {kind} has no counterpart"), CLOSED, true, self.ledger);
            }
        }
        effect
    }

    /// Rules of clients by address; others close the route.
    fn rbac(&mut self, node: &Node, config: &Node, effect: &mut Effect) {
        let matcher = config.get("matcher").is_some();
        let Some(rules) = config.get("rules").filter(|_| !matcher) else {
            if matcher {
                effect.is_closed = true;
                node.drop("its rules have no counterpart", CLOSED, true, self.ledger);
            }
            return;
        };
        let action = rules.get("action").map_or("ALLOW", Node::text);
        if action == "LOG" {
            return;
        }
        let mut clients: Vec<String> = Vec::new();
        let mut is_all = false;
        for (_, policy) in rules.get("policies").map(Node::entries).unwrap_or_default() {
            let permissions = policy.get("permissions").map(Node::items).unwrap_or_default();
            let is_simple = policy.get("condition").is_none()
                && policy.get("checked_condition").is_none()
                && permissions.iter().any(|one| one.get("any").is_some_and(Node::is_on));
            let principals: Option<Vec<Vec<String>>> = policy
                .get("principals")
                .map(Node::items)
                .unwrap_or_default()
                .into_iter()
                .map(addresses)
                .collect();
            match principals.filter(|_| is_simple) {
                Some(lists) => {
                    is_all |= lists.iter().any(|list| list.iter().any(|one| one == "all"));
                    clients.extend(lists.into_iter().flatten());
                }
                None => {
                    effect.is_closed = true;
                    node.drop("only rules by the client's address are converted", CLOSED, true, self.ledger);
                    return;
                }
            }
        }
        let origin = rules.open(self.ledger);
        match (action, is_all) {
            ("ALLOW", true) => {}
            ("DENY", false) if clients.is_empty() => {}
            ("DENY", false) => effect.table.set("deny", clients.clone(), origin),
            ("ALLOW", false) if !clients.is_empty() => effect.table.set("allow", clients.clone(), origin),
            // Nobody is let in.
            ("ALLOW" | "DENY", _) => effect.table.set("deny", vec!["0.0.0.0/0", "::/0"], origin),
            _ => {
                effect.is_closed = true;
                self.ledger.lost(origin, "its action is not known", CLOSED);
            }
        }
        self.ledger.carried(origin);
        carry(rules, self.ledger);
        if !self.is_peer && !clients.is_empty() {
            self.ledger.differs(
                origin,
                "without `use_remote_address`, Envoy believes X-Forwarded-For of every peer: \
                 set `server.trusted_proxies` if there is a proxy in front",
            );
        }
    }

    fn rate_limit(&mut self, node: &Node, config: &Node, effect: &mut Effect) {
        let Some(bucket) = config.get("token_bucket") else { return };
        let share = |key: &str| {
            let value = config.at(&[key, "default_value"])?;
            let denominator = match value.get("denominator").map_or("HUNDRED", Node::text) {
                "HUNDRED" => 100,
                "TEN_THOUSAND" => 10_000,
                _ => 1_000_000,
            };
            Some((value.get("numerator").and_then(Node::number).unwrap_or(0), denominator))
        };
        // Neither is on by itself.
        let shares = [share("filter_enabled"), share("filter_enforced")];
        if shares.iter().any(|share| share.is_none_or(|(part, _)| part == 0)) {
            node.ignore("it limits nothing without `filter_enabled` and `filter_enforced`", self.ledger);
            return;
        }
        let number = |key: &str| bucket.get(key).and_then(Node::number);
        let tokens = number("tokens_per_fill").unwrap_or(1);
        let millis =
            bucket.get("fill_interval").and_then(seconds).and_then(|millis| i64::try_from(millis).ok());
        let is_plain = shares.iter().flatten().all(|(part, whole)| part >= whole)
            && config.get("descriptors").is_none_or(|list| list.items().is_empty())
            && !config.get("local_rate_limit_per_downstream_connection").is_some_and(Node::is_on);
        let rate = millis.filter(|millis| *millis > 0).and_then(|millis| {
            [(1000, "s"), (60_000, "m"), (3_600_000, "h")].into_iter().find_map(|(unit, letter)| {
                let all = tokens.checked_mul(unit)?;
                (all % millis == 0 && all > 0).then(|| format!("{}/{letter}", all / millis))
            })
        });
        let (Some(rate), true) = (rate, is_plain) else {
            node.drop(
                "a limit for a part of the requests, or of each connection",
                "use `rate_limit` of the routes",
                true,
                self.ledger,
            );
            return;
        };
        let origin = bucket.open(self.ledger);
        let name = match self.limits.iter().find(|(known, _)| *known == std::ptr::from_ref(bucket) as usize) {
            Some((_, name)) => name.clone(),
            None => {
                let mut table = Table::default();
                table.set("rate", rate, origin);
                table.set("burst", number("max_tokens").unwrap_or(1).clamp(1, 65536), origin);
                table.set("key", "all", None);
                let name = self.free_limit(config.get("stat_prefix").map_or("local", Node::text));
                self.model.rate_limits.push(Section { name: name.clone(), origin: Some(origin), table });
                self.limits.push((std::ptr::from_ref(bucket) as usize, name.clone()));
                name
            }
        };
        effect.table.set("rate_limit", name, origin);
        carry(bucket, self.ledger);
        if let Some(status) = config.at(&["status", "code"]).filter(|status| status.text() != "429") {
            self.ledger.differs(status.origin, "requests over the limit get 429");
        }
    }

    /// A limit of a route counts apart from equal ones of others.
    fn free_limit(&self, wish: &str) -> String {
        let wish = name_of(wish);
        let is_free = |name: &str| self.model.rate_limits.iter().all(|section| section.name != name);
        let mut name = wish.clone();
        let mut number = 2;
        while !is_free(&name) {
            name = format!("{wish}-{number}");
            number += 1;
        }
        name
    }
}

/// The addresses of a principal; `all` is everybody, `None` is anything else.
fn addresses(principal: &Node) -> Option<Vec<String>> {
    let [(key, node)] = principal.entries() else { return None };
    match key.as_str() {
        "any" if node.is_on() => Some(vec!["all".to_owned()]),
        "remote_ip" | "direct_remote_ip" => block(node).map(|block| vec![block]),
        "or_ids" => {
            let lists: Option<Vec<Vec<String>>> =
                node.get("ids")?.items().into_iter().map(addresses).collect();
            Some(lists?.into_iter().flatten().collect())
        }
        _ => None,
    }
}

/// A block of addresses, as `allow` has it.
pub(super) fn block(node: &Node) -> Option<String> {
    let prefix = node.get("address_prefix")?.text();
    let address: std::net::IpAddr = prefix.parse().ok()?;
    let length = node.get("prefix_len")?;
    let length = length.get("value").unwrap_or(length).number()?;
    let bits = if address.is_ipv4() { 32 } else { 128 };
    // Bits below the length do not count in Envoy.
    let masked = match address {
        std::net::IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(u32::try_from(32 - length).ok()?).unwrap_or(0);
            std::net::IpAddr::from((u32::from(address) & mask).to_be_bytes())
        }
        std::net::IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(u32::try_from(128 - length).ok()?).unwrap_or(0);
            std::net::IpAddr::from((u128::from(address) & mask).to_be_bytes())
        }
    };
    (0..=bits)
        .contains(&length)
        .then(|| if length == bits { masked.to_string() } else { format!("{masked}/{length}") })
}

/// Puts changes of headers and keys of filters into a route.
pub(super) fn apply(effect: &Effect, edits: &Edits, table: &mut Table, origin: Origin) {
    let is_proxied = table.has("upstream");
    for item in &effect.table.items {
        // Bodies and compression are those of upstreams.
        if is_proxied || !["buffer_request", "max_body", "compress"].contains(&item.key.as_str()) {
            table.remove(&item.key);
            table.items.push(item.clone());
        }
    }
    let mut request = effect.edits.request.clone();
    merge(&mut request, &edits.request);
    let mut response = edits.response.clone();
    merge(&mut response, &effect.edits.response);
    if is_proxied {
        // Envoy passes on only what it has verified itself; no client must write it.
        let set =
            |kind: &str| matches!(request.get(kind), Some(Value::Table(inner)) if inner.has(CLIENT_CERT));
        if !set("set") && !set("add") {
            let mut list = match request.remove("remove").map(|item| item.value) {
                Some(Value::List(list)) => list,
                _ => Vec::new(),
            };
            if !list.contains(&CLIENT_CERT.into()) {
                list.push(CLIENT_CERT.into());
            }
            request.set("remove", Value::List(list), None);
        }
        table.set("request_headers", request, origin);
    }
    if !response.is_empty() {
        table.set("headers", response, origin);
    }
}

const CLIENT_CERT: &str = "X-Forwarded-Client-Cert";

fn merge(table: &mut Table, later: &Table) {
    for item in &later.items {
        match (
            &item.value,
            table.items.iter_mut().find(|known| known.key == item.key).map(|known| &mut known.value),
        ) {
            (Value::List(new), Some(Value::List(known))) => {
                for value in new {
                    if !known.contains(value) {
                        known.push(value.clone());
                    }
                }
            }
            (Value::Table(new), Some(Value::Table(known))) => known.merge(new),
            _ => {
                table.remove(&item.key);
                table.items.push(item.clone());
            }
        }
    }
}
