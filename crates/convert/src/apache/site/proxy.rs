//! `ProxyPass` and balancers (mod_proxy).

use super::{Host, Reader};
use crate::apache::syntax::Node;
use crate::model::{PathMatch, Route, add};
use crate::table::{Table, Value};

const UNCHANGED: &str = "`Location` and cookies are passed on unchanged: let the app make its URLs from X-Forwarded-Host and X-Forwarded-Proto";

impl<'a> Reader<'a> {
    pub(super) fn proxies(&mut self, host: &Host<'a>) -> Vec<Route> {
        let preserve = host.one("proxypreservehost");
        let is_preserved = preserve.is_some_and(|node| node.arg(0).eq_ignore_ascii_case("on"));
        preserve.iter().for_each(|node| self.ledger.carried(node.origin));
        let mut routes = Vec::new();
        for node in host.own.iter().copied() {
            match node.name.as_str() {
                "proxypass" if node.arg(1) == "!" => {
                    // Another route serves it: where a document root is, its files.
                    self.ledger.carried(node.origin);
                    let path = node.arg(0);
                    let mut route = Route::new(node.origin, PathMatch::Begin(path.to_owned()));
                    match &host.root {
                        Some((root, _)) => {
                            let below = path.trim_matches('/');
                            let is_prefix = path.ends_with('/');
                            let directory = if is_prefix { format!("{root}/{below}") } else { root.clone() };
                            route.table.set("files", directory, node.origin);
                        }
                        None => route.table.set("respond", 404i64, node.origin),
                    }
                    let has_alias = host
                        .each("alias")
                        .any(|alias| alias.arg(0).trim_end_matches('/') == path.trim_end_matches('/'));
                    if !has_alias {
                        routes.push(route);
                    }
                }
                "proxypass" => routes.extend(self.proxied(node, node.arg(0), node.arg(1), is_preserved)),
                "proxypassmatch" if !node.arg(1).contains("fcgi://") => {
                    self.ledger.lost(
                        node.origin,
                        "a pattern of paths to a proxy",
                        "write a route with `rewrite` by hand",
                    );
                }
                "proxypassreverse" | "proxypassreversecookiedomain" | "proxypassreversecookiepath" => {
                    self.ledger.differs(node.origin, UNCHANGED);
                }
                _ => {}
            }
        }
        for section in host.all.iter().copied().filter(|node| node.name.starts_with("location")) {
            routes.extend(self.proxied_location(section, is_preserved));
        }
        let headers: Vec<&Node> =
            host.own.iter().copied().filter(|node| node.name == "requestheader").collect();
        for node in headers {
            self.request_header(node, &mut routes);
        }
        routes
    }

    /// A ProxyPass in a `<Location>`, whose path is that of the section.
    fn proxied_location(&mut self, section: &'a Node, is_preserved: bool) -> Vec<Route> {
        let mut routes = Vec::new();
        let is_matching = section.name == "locationmatch" || section.arg(0) == "~";
        let own = section.inner.iter().find(|node| node.name == "proxypreservehost");
        own.iter().for_each(|node| self.ledger.carried(node.origin));
        let is_preserved = own.map_or(is_preserved, |node| node.arg(0).eq_ignore_ascii_case("on"));
        for node in &section.inner {
            match node.name.as_str() {
                "proxypass" | "proxypassmatch" if is_matching || node.name == "proxypassmatch" => {
                    self.ledger.lost(
                        node.origin,
                        "a pattern of paths to a proxy",
                        "write a route with `rewrite` by hand",
                    );
                }
                "proxypass" if node.arg(0) == "!" => {
                    self.ledger.lost(node.origin, "paths that no proxy gets", "write a route by hand");
                }
                "proxypass" => {
                    self.ledger.carried(section.origin);
                    routes.extend(self.proxied(node, section.arg(0), node.arg(0), is_preserved));
                }
                "proxypassreverse" | "proxypassreversecookiedomain" | "proxypassreversecookiepath" => {
                    self.ledger.differs(node.origin, UNCHANGED);
                }
                _ => {}
            }
        }
        for node in section.inner.iter().filter(|node| node.name == "requestheader") {
            match routes.is_empty() {
                true => self.ledger.lost(
                    node.origin,
                    "a header of a part of the paths",
                    "set `request_headers` of a route",
                ),
                false => self.request_header(node, &mut routes),
            }
        }
        routes
    }

    fn request_header(&mut self, node: &Node, routes: &mut [Route]) {
        let (action, name, value) = (node.arg(0).to_ascii_lowercase(), node.arg(1), node.arg(2));
        if name.to_ascii_lowercase().starts_with("x-forwarded-") {
            self.ledger.ignored(node.origin, "Keepwarm sends X-Forwarded-* itself");
            return;
        }
        for route in routes.iter_mut().filter(|route| route.table.has("upstream") || route.table.has("app")) {
            match action.as_str() {
                "set" if !value.contains('%') => route.table.set_in(
                    &["request_headers", "set"],
                    name,
                    value.replace('$', "$$"),
                    node.origin,
                ),
                "unset" => route.table.push_in(&["request_headers"], "remove", name, node.origin),
                _ => self.ledger.lost(
                    node.origin,
                    "its action or value has no counterpart",
                    "set `request_headers` by hand",
                ),
            }
        }
    }

    /// The routes to the server of a ProxyPass. A path without a slash at its end is that path, and all below it.
    fn proxied(&mut self, node: &Node, path: &str, target: &str, is_preserved: bool) -> Vec<Route> {
        let origin = node.origin;
        let mut route =
            Route::new(origin, if path == "/" { PathMatch::Any } else { PathMatch::Begin(path.to_owned()) });
        let (target, socket) = match target.split_once('|') {
            Some((socket, target)) => (target, Some(socket)),
            None => (target, None),
        };
        let (scheme, rest) = target.split_once("://").unwrap_or(("", target));
        let (authority, uri) = rest.split_once('/').map_or((rest, ""), |(authority, uri)| (authority, uri));
        let uri = format!("/{uri}");
        let mut table = Table::default();
        match scheme {
            "http" | "https" | "ws" | "wss" | "h2" | "h2c" => {
                let tls = matches!(scheme, "https" | "wss" | "h2");
                let url = socket.map_or_else(
                    || format!("{}://{authority}", if tls { "https" } else { "http" }),
                    str::to_owned,
                );
                table.set("url", url, origin);
                if matches!(scheme, "h2" | "h2c") {
                    table.set("protocol", "http2", origin);
                }
                if !is_preserved && socket.is_none() {
                    table.set("host", authority, origin);
                }
            }
            "balancer" if self.balancer(authority, &mut table) => {}
            _ => {
                self.ledger.lost(
                    origin,
                    format!("`{target}` is not a server of HTTP"),
                    "write the route by hand",
                );
                route.table.set("respond", 501i64, origin);
                return vec![route];
            }
        }
        for option in node.args.iter().filter(|arg| arg.contains('=') && !arg.contains("://")) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            match (name, value.parse::<u64>()) {
                ("timeout", Ok(seconds)) if seconds > 0 => {
                    table.set_in(&["timeouts"], "first_byte", crate::units::time(seconds * 1000), origin);
                    table.set_in(&["timeouts"], "idle", crate::units::time(seconds * 1000), origin);
                }
                ("connectiontimeout", Ok(seconds)) if seconds > 0 => {
                    table.set_in(&["timeouts"], "connect", crate::units::time(seconds * 1000), origin)
                }
                ("max", Ok(number)) if number > 0 => {
                    table.set_in(&["pool"], "max", i64::try_from(number).unwrap_or(1), origin)
                }
                (
                    "retry" | "keepalive" | "disablereuse" | "ping" | "ttl" | "smax" | "acquire" | "status"
                    | "upgrade" | "nocanon" | "flushpackets",
                    _,
                ) => {
                    self.ledger
                        .differs(origin, "connections are kept by Keepwarm's own rules (`pool`, `breaker`)");
                }
                _ => self.ledger.dropped(
                    origin,
                    format!("`{option}` has no counterpart"),
                    "find out whether it is needed",
                ),
            }
        }
        let wish = if scheme == "balancer" {
            authority.to_owned()
        } else {
            crate::nginx::upstream_wish(socket.unwrap_or(authority))
        };
        let name = add(&mut self.model.upstreams, &wish, table, origin, self.ledger);
        route.table.set("upstream", name, origin);
        // The path of the target replaces that of the location.
        match (path, uri.as_str()) {
            ("/", "/") => {}
            ("/", uri) => {
                route.path = PathMatch::Patterns(vec!["~^/(.*)$".to_owned()]);
                route.table.set("rewrite", format!("{uri}$1"), origin);
            }
            (path, uri) if uri == path => {}
            // Without a path, the rest follows the host.
            (path, "/") if !target.ends_with('/') && path.ends_with('/') => {
                route.table.set("rewrite", "/$1", origin)
            }
            (path, uri) if path.ends_with('/') => route.table.set("rewrite", format!("{uri}$1"), origin),
            (_, uri) => {
                // `/api` to `http://x/`: `/api/y` is `//y` in Apache, and `/y` is what is meant.
                route.table.set("rewrite", format!("{}/$1", uri.trim_end_matches('/')), origin);
            }
        }
        if path.ends_with('/') {
            return vec![route];
        }
        let mut exact = route.clone();
        exact.path = PathMatch::Exact(path.to_owned());
        if exact.table.has("rewrite") {
            exact.table.set("rewrite", uri, origin);
        }
        route.path = PathMatch::Begin(format!("{path}/"));
        vec![exact, route]
    }

    fn balancer(&mut self, name: &str, table: &mut Table) -> bool {
        let wanted = format!("balancer://{name}");
        let section = self
            .global
            .iter()
            .chain(self.global.iter().flat_map(|node| &node.inner))
            .find(|node| node.name == "proxy" && node.arg(0).trim_end_matches('/') == wanted);
        let Some(section) = section else { return false };
        self.ledger.carried(section.origin);
        let mut list: Vec<Value> = Vec::new();
        for node in &section.inner {
            match node.name.as_str() {
                "balancermember" => {
                    let mut endpoint = Table::default();
                    endpoint.set("url", node.arg(0).trim_end_matches('/'), node.origin);
                    for option in node.args.iter().skip(1) {
                        match option.split_once('=') {
                            Some(("loadfactor", number)) => {
                                endpoint.set("weight", number.parse::<i64>().unwrap_or(1), node.origin)
                            }
                            Some(("status", "+H" | "H")) => endpoint.set("priority", 1i64, node.origin),
                            Some(("route", _)) => {
                                self.ledger.differs(node.origin, "sessions are kept by `balance` with `hash`")
                            }
                            _ => self.ledger.differs(node.origin, format!("`{option}` has no counterpart")),
                        }
                    }
                    self.ledger.carried(node.origin);
                    list.push(match endpoint.items.as_slice() {
                        [only] => only.value.clone(),
                        _ => endpoint.into(),
                    });
                }
                "proxyset" => self.ledger.differs(
                    node.origin,
                    "the less busy of two endpoints is chosen; set `balance` with `hash` for sessions",
                ),
                _ => {}
            }
        }
        let is_some = !list.is_empty();
        table.set("endpoints", Value::List(list), section.origin);
        is_some
    }
}
