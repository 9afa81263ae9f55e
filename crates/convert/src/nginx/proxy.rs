//! `proxy_pass`, `grpc_pass` and `upstream` blocks.

use super::Reader;
use super::action::{Place, Target};
use super::server::configured;
use super::syntax::Directive;
use crate::ledger::Origin;
use crate::model::{PathMatch, Route, add};
use crate::table::{Table, Value};
use crate::units::{nginx_time, time};

/// The parts of `http://backend:8080/path`.
struct ProxyTarget<'a> {
    tls: bool,
    /// `host:port`, or `unix:/path`.
    authority: &'a str,
    uri: Option<&'a str>,
}

impl<'d> Reader<'d, '_> {
    pub(super) fn proxied(&mut self, place: &Place<'_, 'd>, pass: &Directive) -> Vec<Route> {
        let (name, uri) = match self.upstream(place, pass) {
            Ok(found) => found,
            Err(why) => {
                self.ledger.lost(pass.origin, why, "write an `[upstream.NAME]` and its route by hand");
                return vec![Route::status(pass.origin, place.path.clone(), 501)];
            }
        };
        let mut route = place.route(place.path.clone());
        route.table.set("upstream", name, pass.origin);
        let mut routes = Vec::new();
        if let Some(uri) = uri {
            self.replace_uri(place, &uri, &mut route, pass);
        }
        self.request_headers(place, &mut route);
        self.buffering(place, &mut route);
        self.redirected_location(place, pass);
        if let Some(slash) = slash_redirect(place).filter(|_| place.outer.is_none()) {
            routes.push(slash);
        }
        routes.extend(self.finish(place, Target::Upstream, route));
        routes
    }

    /// `proxy_pass` with a URI: it replaces the prefix of the location.
    fn replace_uri(&mut self, place: &Place<'_, 'd>, uri: &str, route: &mut Route, pass: &Directive) {
        let has_variables = pass.arg(0).contains('$');
        let rewrite = match &place.path {
            // A URI with variables is passed as it is.
            _ if has_variables && uri.contains('$') => {
                place.variables.template(uri).map(|uri| match uri.contains('?') || uri.ends_with("$query") {
                    true => uri,
                    false => format!("{uri}?"),
                })
            }
            PathMatch::Begin(prefix) if prefix == "/" && uri == "/" => return,
            PathMatch::Any if uri == "/" => return,
            PathMatch::Begin(prefix) if prefix == "/" => {
                // All paths: a pattern makes the path a `*`.
                route.path = PathMatch::Patterns(vec!["~^/(.*)$".to_owned()]);
                Ok(format!("{uri}$1"))
            }
            PathMatch::Begin(_) => Ok(format!("{uri}$1")),
            PathMatch::Exact(_) => Ok(uri.to_owned()),
            PathMatch::Any | PathMatch::Regex(_) | PathMatch::Patterns(_) => Err("uri".to_owned()),
        };
        match rewrite {
            Ok(rewrite) if rewrite.starts_with('/') => {
                route.table.set("rewrite", rewrite.replace("$path$query", "$path"), pass.origin)
            }
            Ok(rewrite) if rewrite == "$path$query" || rewrite == "$path$query?" => {}
            Ok(_) | Err(_) => {
                self.ledger.lost(
                    pass.origin,
                    format!("the path `{uri}` that it passes on has no counterpart"),
                    "set `rewrite` of the route by hand",
                );
            }
        }
    }

    fn request_headers(&mut self, place: &Place<'_, 'd>, route: &mut Route) {
        let mut variables = place.variables.clone();
        for header in place.scope.any_of(&["proxy_set_header", "grpc_set_header"]) {
            let (name, value) = (header.arg(0), header.arg(1));
            match name.to_ascii_lowercase().as_str() {
                "host" => self.ledger.carried(header.origin),
                "connection" | "upgrade" | "proxy-connection" | "te" | "content-length" | "expect"
                | "keep-alive" => {
                    self.ledger.ignored(header.origin, "Keepwarm manages connections and upgrades itself");
                    self.settle_map(value);
                }
                "x-forwarded-for" | "x-forwarded-proto" | "x-forwarded-host" | "forwarded" => {
                    self.ledger.ignored(header.origin, "Keepwarm sends X-Forwarded-* and Forwarded, and trusts those of `server.trusted_proxies` only");
                }
                lower if lower.starts_with("x-forwarded-") => {
                    self.ledger.dropped(
                        header.origin,
                        "X-Forwarded-* are Keepwarm's own",
                        "let the app read X-Forwarded-Host and X-Forwarded-Proto",
                    );
                }
                _ if value.is_empty() => {
                    route.table.push_in(&["request_headers"], "remove", name, header.origin);
                }
                _ if self.auth_variable(place, value).is_some() => {}
                _ => {
                    self.use_maps(value, &mut variables);
                    match variables.template(value) {
                        Ok(value) => {
                            route.table.set_in(&["request_headers", "set"], name, value, header.origin)
                        }
                        Err(variable) => {
                            let why =
                                format!("its value has ${variable}, for which Keepwarm has no variable");
                            self.ledger.lost(header.origin, why, "let the app find it out by another header");
                        }
                    }
                }
            }
        }
    }

    /// The usual map of `$http_upgrade` for `Connection`.
    fn settle_map(&mut self, value: &str) {
        let name = value.strip_prefix('$').unwrap_or("");
        for map in self.http.every("map").into_iter().filter(|map| map.arg(1).strip_prefix('$') == Some(name))
        {
            self.ledger.ignored(map.origin, "Keepwarm passes upgrades on without it");
        }
    }

    fn buffering(&mut self, place: &Place<'_, 'd>, route: &mut Route) {
        for (name, key) in
            [("proxy_buffering", "buffer_response"), ("proxy_request_buffering", "buffer_request")]
        {
            let Some(directive) = place.scope.one(name) else { continue };
            match directive.arg(0) {
                "on" => route.table.set(key, true, directive.origin),
                _ => self.ledger.ignored(directive.origin, "upstreams are not buffered by default"),
            }
        }
        if place.scope.is_on("underscores_in_headers")
            && let Some(on) = place.scope.one("underscores_in_headers")
        {
            route.table.set("any_header_names", true, on.origin);
        }
    }

    fn redirected_location(&mut self, place: &Place<'_, 'd>, pass: &Directive) {
        let Some(redirect) = place.scope.one("proxy_redirect") else { return };
        match redirect.arg(0) {
            "off" => self.ledger.carried(redirect.origin),
            _ => self.ledger.dropped(
                redirect.origin,
                "Keepwarm passes `Location` on unchanged",
                "let the app make its URLs from X-Forwarded-Host and X-Forwarded-Proto",
            ),
        }
        debug_assert!(!pass.name.is_empty());
    }

    /// The upstream of a `proxy_pass`, and the URI in it.
    pub(super) fn upstream(
        &mut self,
        place: &Place<'_, 'd>,
        pass: &Directive,
    ) -> Result<(String, Option<String>), String> {
        let text = pass.arg(0);
        // Variables of the host must be constant; those of the URI may be the client's.
        let (scheme, rest) = split_scheme(text, pass.name == "grpc_pass");
        let end = uri_start(rest);
        let (host, uri) = rest.split_at(end);
        let whole = match place.variables.constant(&format!("{scheme}{host}")) {
            Some(host) => format!("{host}{uri}"),
            None => {
                return Err(format!("`{text}` depends on the request, and an upstream has fixed endpoints"));
            }
        };
        let target = parse(&whole).ok_or_else(|| format!("`{whole}` is not a URL"))?;
        let origin = pass.origin;
        let mut table = Table::default();
        let block = self.http.every("upstream").into_iter().find(|block| block.arg(0) == target.authority);
        match block {
            Some(block) => self.endpoints(block, target.tls, &mut table)?,
            None => table.set("url", url(target.tls, target.authority, None), origin),
        }
        if pass.name == "grpc_pass" {
            table.set("protocol", "http2", origin);
        }
        self.upstream_host(place, &target, &mut table, origin);
        self.upstream_settings(place, &mut table, target.tls);
        let wish = match block {
            Some(block) => block.arg(0).to_owned(),
            None => wish(target.authority),
        };
        let uri = target.uri.map(str::to_owned);
        Ok((add(&mut self.model.upstreams, &wish, table, origin, self.ledger), uri))
    }

    /// `Host`: nginx sends the name in `proxy_pass`, unless a header says otherwise.
    fn upstream_host(
        &mut self,
        place: &Place<'_, 'd>,
        target: &ProxyTarget<'_>,
        table: &mut Table,
        origin: Origin,
    ) {
        let header = place
            .scope
            .any_of(&["proxy_set_header", "grpc_set_header"])
            .into_iter()
            .find(|header| header.arg(0).eq_ignore_ascii_case("host"));
        let (value, origin) = header.map_or(("$proxy_host", origin), |header| (header.arg(1), header.origin));
        let of_target = if target.authority.starts_with("unix:") { "localhost" } else { target.authority };
        let fixed = match value {
            "$host"
            | "$http_host"
            | "$host:$server_port"
            | "$server_name"
            | "${host}"
            | "$server_name:$server_port"
            | "$host:$proxy_port" => return,
            "$proxy_host" => of_target.to_owned(),
            "" => return,
            text => match place.variables.constant(text) {
                Some(text) => text,
                None => {
                    let why = format!("`Host` is `{text}`: the upstream gets the client's host");
                    self.ledger.lost(origin, why, "set `host` of the upstream");
                    return;
                }
            },
        };
        table.set("host", fixed, origin);
    }

    fn upstream_settings(&mut self, place: &Place<'_, 'd>, table: &mut Table, tls: bool) {
        for (names, keys) in [
            (["proxy_read_timeout", "grpc_read_timeout"], &["first_byte", "idle"][..]),
            (["proxy_connect_timeout", "grpc_connect_timeout"], &["connect"][..]),
        ] {
            let Some(directive) = place.scope.any_of(&names).first().copied() else { continue };
            match nginx_time(directive.arg(0)).filter(|millis| *millis > 0) {
                Some(millis) => {
                    for key in keys {
                        let limited =
                            if *key == "connect" { millis.min(3_600_000) } else { millis.min(86_400_000) };
                        table.set_in(&["timeouts"], key, time(limited), directive.origin);
                    }
                }
                None => {
                    self.ledger.lost(directive.origin, "it is not a time", "set `timeouts` of the upstream")
                }
            }
        }
        self.next_upstream(place, table);
        if tls {
            self.upstream_tls(place, table);
        }
        let is_name = matches!(table.get("url"), Some(Value::Text(url)) if has_host_name(url));
        if let Some(resolver) = place.scope.one("resolver").filter(|_| is_name) {
            let servers: Vec<String> = resolver
                .args
                .iter()
                .filter(|arg| !arg.contains('=') && arg.parse::<std::net::IpAddr>().is_ok())
                .cloned()
                .collect();
            match servers.is_empty() {
                true => self.ledger.ignored(resolver.origin, "the system's DNS servers are used"),
                false => {
                    table.set_in(&["dns"], "resolver", crate::table::one_or_list(servers), resolver.origin)
                }
            }
        }
    }

    fn next_upstream(&mut self, place: &Place<'_, 'd>, table: &mut Table) {
        if let Some(next) = place.scope.one("proxy_next_upstream") {
            if next.arg(0) == "off" {
                table.set("retries", 0i64, next.origin);
            } else {
                let mut causes: Vec<&str> = Vec::new();
                for cause in &next.args {
                    match cause.as_str() {
                        "error" => causes.extend(["connect", "refused", "reset"]),
                        "timeout" => causes.push("first_byte"),
                        "http_502" => causes.push("502"),
                        "http_503" => causes.push("503"),
                        "http_504" => causes.push("504"),
                        "invalid_header" => {}
                        other => {
                            self.ledger.differs(next.origin, format!("`{other}` is not a cause of retries"))
                        }
                    }
                }
                if !causes.is_empty() {
                    table.set("retry_on", causes, next.origin);
                }
            }
            self.ledger.carried(next.origin);
        }
        if let Some(tries) = place.scope.one("proxy_next_upstream_tries")
            && !table.has("retries")
        {
            match tries.arg(0).parse::<i64>() {
                Ok(number) if number > 0 => table.set("retries", (number - 1).min(10), tries.origin),
                _ => self.ledger.ignored(tries.origin, "retries are bounded by `retries` and `retry_budget`"),
            }
        }
        if let Some(limit) = place.scope.one("proxy_next_upstream_timeout") {
            self.ledger.differs(
                limit.origin,
                "retries are bounded by `retry_budget`, and all attempts together by `timeout`",
            );
        }
    }

    fn upstream_tls(&mut self, place: &Place<'_, 'd>, table: &mut Table) {
        let pick = |names: [&str; 2]| place.scope.any_of(&names).first().copied();
        let verify = pick(["proxy_ssl_verify", "grpc_ssl_verify"]);
        match verify.filter(|verify| verify.arg(0) == "on") {
            Some(verify) => self.ledger.carried(verify.origin),
            None => {
                let origin = verify.map_or(place.origin, |verify| verify.origin);
                self.ledger.differs(
                    origin,
                    "the certificate of the upstream is verified; for one of an own authority, set `ca`",
                );
            }
        }
        if let Some(ca) = pick(["proxy_ssl_trusted_certificate", "grpc_ssl_trusted_certificate"]) {
            table.set("ca", configured(ca.arg(0)), ca.origin);
        }
        if let (Some(cert), Some(key)) =
            (place.scope.one("proxy_ssl_certificate"), place.scope.one("proxy_ssl_certificate_key"))
        {
            table.set("cert", configured(cert.arg(0)), cert.origin);
            table.set("key", configured(key.arg(0)), key.origin);
        }
        if let Some(name) = place.scope.one("proxy_ssl_name") {
            match place.variables.constant(name.arg(0)) {
                Some(name_text) => table.set("server_name", name_text, name.origin),
                None => self
                    .ledger
                    .differs(name.origin, "the certificate must be for `host` of the upstream, or its URL's"),
            }
        }
        if let Some(name) = place.scope.one("proxy_ssl_server_name") {
            self.ledger.ignored(name.origin, "the name is always sent");
        }
        if let Some(protocols) = place.scope.one("proxy_ssl_protocols") {
            match protocols.args.iter().any(|version| version == "TLSv1.2") || protocols.args.is_empty() {
                true => self.ledger.ignored(protocols.origin, "TLS 1.2 and 1.3, as by default"),
                false => table.set("min_tls", "1.3", protocols.origin),
            }
        }
    }

    /// An `upstream` block.
    fn endpoints(&mut self, block: &'d Directive, tls: bool, table: &mut Table) -> Result<(), String> {
        self.ledger.carried(block.origin);
        let mut endpoints: Vec<Value> = Vec::new();
        let servers: Vec<&Directive> =
            block.children().iter().filter(|inner| inner.name == "server").collect();
        for server in &servers {
            let mut endpoint = Table::default();
            endpoint.set("url", url(tls, server.arg(0), Some(80)), server.origin);
            for option in server.args.get(1..).unwrap_or(&[]) {
                self.server_option(option, server.origin, servers.len(), &mut endpoint, table);
            }
            self.ledger.carried(server.origin);
            endpoints.push(match endpoint.items.as_slice() {
                [only] => only.value.clone(),
                _ => endpoint.into(),
            });
        }
        match endpoints.as_slice() {
            [] => return Err(format!("upstream `{}` has no server", block.arg(0))),
            [Value::Text(url)] => table.set("url", url.as_str(), servers.first().map(|server| server.origin)),
            _ => table.set("endpoints", Value::List(endpoints), block.origin),
        }
        for inner in block.children().iter().filter(|inner| inner.name != "server") {
            self.upstream_option(inner, table);
        }
        Ok(())
    }

    fn server_option(
        &mut self,
        option: &str,
        origin: Origin,
        count: usize,
        endpoint: &mut Table,
        table: &mut Table,
    ) {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        match (name, value.parse::<i64>()) {
            ("weight", Ok(weight)) => endpoint.set("weight", weight, origin),
            ("backup", _) => endpoint.set("priority", 1i64, origin),
            ("down", _) => endpoint.set("weight", 0i64, origin),
            ("max_conns", Ok(limit)) if limit > 0 => table.set_in(&["pool"], "max", limit, origin),
            ("max_fails", Ok(0)) => {
                table.set("breaker", "off", origin);
                table.set("outlier", "off", origin);
            }
            ("max_fails", Ok(failures)) if count > 1 => {
                table.set_in(&["breaker"], "failures", failures, origin);
                self.ledger.differs(
                    origin,
                    "after max_fails in a row the endpoint's breaker opens, and probes it soon after",
                );
            }
            ("max_fails" | "max_conns", Ok(_)) => {}
            ("fail_timeout", _) => self.ledger.differs(
                origin,
                "a failed endpoint is probed after 100 ms at first (`breaker.open`), not after fail_timeout",
            ),
            ("slow_start", _) => match nginx_time(value) {
                Some(millis) if millis > 0 => table.set("slow_start", time(millis), origin),
                _ => {}
            },
            ("resolve", _) => self.ledger.carried(origin),
            ("weight", _) => {
                self.ledger.lost(origin, format!("`{option}` is not a number"), "write the endpoint by hand")
            }
            _ => self.ledger.dropped(
                origin,
                format!("`{option}` has no counterpart"),
                "find out whether it is needed",
            ),
        }
    }

    fn upstream_option(&mut self, inner: &Directive, table: &mut Table) {
        let origin = inner.origin;
        match inner.name.as_str() {
            "keepalive" => match inner.arg(0).parse::<i64>() {
                Ok(number) => table.set_in(&["pool"], "idle", number, origin),
                Err(_) => self.ledger.lost(origin, "it is not a number", "set `pool.idle` of the upstream"),
            },
            "keepalive_timeout" => match nginx_time(inner.arg(0)) {
                Some(millis) if millis > 0 => table.set_in(&["pool"], "idle_timeout", time(millis), origin),
                _ => self.ledger.ignored(origin, "Keepwarm learns when the origin closes idle connections"),
            },
            "keepalive_requests" => match inner.arg(0).parse::<i64>() {
                Ok(number) if number > 0 => table.set_in(&["pool"], "max_requests", number, origin),
                _ => self.ledger.ignored(origin, "no limit by default"),
            },
            "least_conn" | "random" | "least_time" => self.ledger.carried(origin),
            "zone" | "keepalive_time" | "state" | "queue" => {
                self.ledger.ignored(origin, "all threads share an upstream's state")
            }
            "ip_hash" => self.ledger.dropped(
                origin,
                "an upstream is not balanced by the client's address",
                "set `balance` with `hash`, by a cookie or header of the session",
            ),
            "hash" => match hash_key(inner.arg(0)) {
                Some(key) => {
                    table.set_in(
                        &["balance"],
                        "by",
                        if inner.arg(1) == "consistent" { "ring_hash" } else { "maglev" },
                        origin,
                    );
                    table.set_in(&["balance"], "hash", key, origin);
                }
                None => self.ledger.dropped(
                    origin,
                    "an upstream is balanced by a cookie or header",
                    "set `balance` with `hash`",
                ),
            },
            "sticky" => self.ledger.dropped(
                origin,
                "Keepwarm sets no cookie for a session",
                "set `balance` with `hash` to a cookie of the app",
            ),
            _ => {}
        }
    }
}

fn hash_key(text: &str) -> Option<String> {
    let name = text.strip_prefix('$')?;
    match (name.strip_prefix("cookie_"), name.strip_prefix("http_")) {
        (Some(cookie), _) => Some(format!("cookie:{cookie}")),
        (_, Some(header)) => Some(format!("header:{}", super::settings::header_name(header))),
        _ => None,
    }
}

/// `http://`, and the rest.
fn split_scheme(text: &str, is_grpc: bool) -> (&str, &str) {
    match text.find("://") {
        Some(at) => text.split_at(at + 3),
        None if is_grpc => ("grpc://", text),
        None => ("", text),
    }
}

/// Where the URI begins: after the host, or after the colon that ends a socket's path.
fn uri_start(rest: &str) -> usize {
    match rest.strip_prefix("unix:") {
        Some(path) => path.find(':').map_or(rest.len(), |at| at + "unix:".len()),
        None => rest.find('/').unwrap_or(rest.len()),
    }
}

fn parse(text: &str) -> Option<ProxyTarget<'_>> {
    let (scheme, rest) = text.split_once("://")?;
    let tls = match scheme {
        "http" | "grpc" => false,
        "https" | "grpcs" => true,
        _ => return None,
    };
    let (authority, uri) = rest.split_at(uri_start(rest));
    if authority.is_empty() {
        return None;
    }
    let uri = uri.strip_prefix(':').unwrap_or(uri);
    Some(ProxyTarget { tls, authority, uri: Some(uri).filter(|uri| !uri.is_empty()) })
}

fn url(tls: bool, authority: &str, port: Option<u16>) -> String {
    if let Some(path) = authority.strip_prefix("unix:") {
        return format!("unix:/{}", path.trim_start_matches('/'));
    }
    let scheme = if tls { "https" } else { "http" };
    let has_port = authority
        .rsplit_once(':')
        .is_some_and(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()) && !port.is_empty());
    match port {
        // The port that nginx assumes, where it is not that of the scheme.
        Some(port) if !has_port && tls => format!("{scheme}://{authority}:{port}"),
        _ => format!("{scheme}://{authority}"),
    }
}

/// The name of an upstream: the host, or the name of the socket.
pub(crate) fn wish(authority: &str) -> String {
    match authority.strip_prefix("unix:") {
        Some(path) => {
            let name = path.rsplit('/').next().unwrap_or("socket");
            name.trim_end_matches(".sock").trim_end_matches(".socket").to_owned()
        }
        None => match authority.strip_prefix("127.0.0.1:").or_else(|| authority.strip_prefix("localhost:")) {
            Some(port) => format!("port-{port}"),
            None => authority.to_owned(),
        },
    }
}

fn has_host_name(url: &str) -> bool {
    let host = url.split("://").nth(1).unwrap_or("").rsplit_once(':').map_or("", |(host, _)| host);
    !host.is_empty() && host != "localhost" && host.parse::<std::net::IpAddr>().is_err()
}

/// nginx redirects `/a` to `/a/` where only the latter is proxied.
pub(super) fn slash_redirect(place: &Place<'_, '_>) -> Option<Route> {
    let PathMatch::Begin(prefix) = &place.path else { return None };
    let without = prefix.strip_suffix('/').filter(|without| !without.is_empty())?;
    if place.server.locations.all().iter().any(|location| location.text == without) {
        return None;
    }
    let mut route = Route::new(place.origin, PathMatch::Exact(without.to_owned()));
    route.table.set(
        "redirect",
        super::action::redirect(&format!("{prefix}$query"), 301, place.origin),
        place.origin,
    );
    Some(route)
}
