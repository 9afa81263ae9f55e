//! The `http` level: what all servers share.

use super::Reader;
use super::variables::Variables;
use crate::model::{Section, add, name_of};
use crate::table::{Table, Value};

impl Reader<'_, '_> {
    /// Settings of the process.
    pub(super) fn http_level(&mut self) {
        let mut proxies = Vec::new();
        let mut origin = None;
        let from = self.http.every("set_real_ip_from").into_iter();
        let servers = self.http.every("server").into_iter();
        let nested =
            servers.flat_map(|server| server.children()).filter(|inner| inner.name == "set_real_ip_from");
        for directive in from.chain(nested) {
            let address = directive.arg(0);
            match address.starts_with("unix:") {
                true => proxies.push("127.0.0.1".to_owned()),
                false if crate::cidr::is_address(address) => proxies.push(address.to_owned()),
                false => {
                    self.ledger.lost(
                        directive.origin,
                        "a proxy is an address or a block",
                        "list its addresses in `server.trusted_proxies`",
                    );
                    continue;
                }
            }
            origin.get_or_insert(directive.origin);
            self.ledger.carried(directive.origin);
        }
        if let Some(origin) = origin {
            proxies.dedup();
            self.model.server.set("trusted_proxies", proxies, origin);
        }
        let servers = self.http.every("server").into_iter().flat_map(|server| server.children());
        for directive in self
            .http
            .every("real_ip_header")
            .into_iter()
            .chain(servers.filter(|inner| inner.name == "real_ip_header"))
        {
            match directive.arg(0).to_ascii_lowercase().as_str() {
                "x-forwarded-for" | "proxy_protocol" => self.ledger.carried(directive.origin),
                "x-real-ip" => self.ledger.differs(directive.origin, "the client is read from `X-Forwarded-For` and `Forwarded`, which proxies that set `X-Real-IP` usually set too"),
                _ => self.ledger.lost(directive.origin, "the client is read from `Forwarded` and `X-Forwarded-For`", "let the proxy set one of these"),
            }
        }
    }

    /// A `map`, once something uses it; `None`: there is none of that variable.
    pub(super) fn use_maps(&mut self, text: &str, variables: &mut Variables) {
        for piece in super::variables::pieces(text) {
            let super::variables::Piece::Variable(name) = piece else { continue };
            let name = name.to_owned();
            if variables.maps.contains(&name) || variables.set.contains_key(&name) {
                continue;
            }
            let found = self
                .http
                .every("map")
                .into_iter()
                .find(|map| map.arg(1).strip_prefix('$') == Some(name.as_str()));
            if let Some(map) = found
                && self.map(map, &name)
            {
                variables.maps.push(name);
            }
        }
    }

    fn map(&mut self, map: &super::syntax::Directive, name: &str) -> bool {
        if self.model.maps.iter().any(|known| known.name == name) {
            return true;
        }
        let variables = Variables::default();
        let source = match variables.template(map.arg(0)) {
            Ok(source) => source,
            Err(variable) => {
                let why = format!("Keepwarm has no variable for ${variable}");
                self.ledger.lost(map.origin, why, "write the map by hand (docs/guide/routes.md)");
                return false;
            }
        };
        let mut table = Table::default();
        table.set("source", source, map.origin);
        let mut values = Table::default();
        for line in map.children() {
            let key = line.name.as_str();
            if matches!(key, "hostnames" | "volatile") {
                continue;
            }
            let groups = super::variables::groups(key.trim_start_matches("~*").trim_start_matches('~'));
            let value = Variables { groups, ..Variables::default() }.template(line.arg(0));
            let (Ok(value), false) = (value, key == "include") else {
                self.ledger.lost(
                    map.origin,
                    format!("its line `{key}` cannot be a value of a map here"),
                    "write the map by hand (docs/guide/routes.md)",
                );
                return false;
            };
            if key == "default" {
                table.set("default", value, map.origin);
                continue;
            }
            let key = match (key.strip_prefix("~*"), key.strip_prefix('.')) {
                (Some(pattern), _) => format!("~(?i){pattern}"),
                (_, Some(domain)) if map.children().iter().any(|line| line.name == "hostnames") => {
                    values.set(domain, Value::Text(value.clone()), map.origin);
                    format!("*.{domain}")
                }
                _ => key.replace("\\", if key.starts_with('~') { "\\" } else { "" }),
            };
            values.set(&key, Value::Text(value), map.origin);
        }
        if values.is_empty() {
            // A map of a default only: an entry that no text matches keeps it.
            values.set("~^$", table.get("default").cloned().unwrap_or(Value::from("")), map.origin);
        }
        table.set("values", values, map.origin);
        self.model.maps.push(Section { name: name.to_owned(), origin: Some(map.origin), table });
        true
    }

    /// `[rate_limit.NAME]` for a `limit_req`, by its zone; `None`: it has been dropped.
    pub(super) fn rate_limit(&mut self, limit: &super::syntax::Directive) -> Option<String> {
        let option = |key: &str| limit.args.iter().find_map(|arg| arg.strip_prefix(key)?.strip_prefix('='));
        let zone = option("zone").unwrap_or("");
        let defined = self.http.every("limit_req_zone").into_iter().find(|definition| {
            let named = definition.args.iter().find_map(|arg| arg.strip_prefix("zone="));
            named.is_some_and(|named| named.split(':').next() == Some(zone))
        });
        let Some(definition) = defined else {
            self.ledger.lost(
                limit.origin,
                format!("there is no limit_req_zone `{zone}`"),
                "write a `[rate_limit.NAME]` by hand",
            );
            return None;
        };
        let rate = definition.args.iter().find_map(|arg| arg.strip_prefix("rate=")).unwrap_or("");
        let ours = rate
            .strip_suffix("r/s")
            .map(|n| format!("{n}/s"))
            .or_else(|| rate.strip_suffix("r/m").map(|n| format!("{n}/m")));
        let (Some(rate), Some(key)) = (ours, rate_key(definition.arg(0))) else {
            let todo = "write a `[rate_limit.NAME]` by hand: by client, header or cookie";
            self.ledger.lost(limit.origin, "its key or rate has no counterpart", todo);
            self.ledger.lost(definition.origin, "its key or rate has no counterpart", todo);
            return None;
        };
        let burst: i64 = option("burst").and_then(|burst| burst.parse().ok()).unwrap_or(0);
        let mut table = Table::default();
        table.set("rate", rate, definition.origin);
        if key != "client" {
            table.set("key", key, definition.origin);
        }
        table.set("burst", burst + 1, limit.origin);
        self.ledger.differs(
            limit.origin,
            "requests over the limit get 429 with `Retry-After` at once, and none is delayed",
        );
        self.ledger.carried(definition.origin);
        Some(add(&mut self.model.rate_limits, &name_of(zone), table, definition.origin, self.ledger))
    }

    /// The key of a `limit_conn`, by its zone.
    pub(super) fn connection_zone(&mut self, zone: &str) -> Option<String> {
        let definition = self.http.every("limit_conn_zone").into_iter().find(|definition| {
            let named = definition.args.iter().find_map(|arg| arg.strip_prefix("zone="));
            named.is_some_and(|named| named.split(':').next() == Some(zone))
        })?;
        self.ledger.carried(definition.origin);
        Some(definition.arg(0).to_owned())
    }
}

fn rate_key(key: &str) -> Option<String> {
    Some(match key.trim_start_matches('$').trim_matches(['{', '}']) {
        "binary_remote_addr" | "remote_addr" => "client".to_owned(),
        "server_name" | "host" => "all".to_owned(),
        name => match (name.strip_prefix("http_"), name.strip_prefix("cookie_")) {
            (Some("x_forwarded_for" | "x_real_ip" | "cf_connecting_ip"), _) => "client".to_owned(),
            (Some(header), _) => format!("header:{}", crate::nginx::settings::header_name(header)),
            (_, Some(cookie)) => format!("cookie:{cookie}"),
            _ => return None,
        },
    })
}
