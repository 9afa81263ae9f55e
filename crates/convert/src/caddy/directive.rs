//! Directives of a site become routes, in the order in which Caddy applies them.

use super::syntax::{Block, Line};
use super::{Reader, everything};
use crate::model::{PathMatch, Route, Site, add};
use crate::php::{self, Scripts};
use crate::table::{Table, Value, one_or_list};
use crate::units::{nginx_time, size, time};

const TODO: &str = "write the route by hand";

/// Where a directive stands in Caddy's order, where it makes routes.
fn rank(line: &Line) -> usize {
    match line.name() {
        "redir" => 0,
        // They exclude one another, and are sorted together.
        "handle" | "handle_path" => 1,
        "route" => 2,
        "abort" | "error" => 3,
        "respond" => 4,
        "reverse_proxy" => 5,
        "php_fastcgi" | "php_server" | "php" => 6,
        "file_server" => 7,
        _ => NO_HANDLER,
    }
}

const NO_HANDLER: usize = usize::MAX;

/// Among directives of one name, the longest path comes first, and one without a matcher last.
fn specific(line: &Line) -> usize {
    match line.arg(0) {
        path if path.starts_with('/') => path.len() + 1,
        name if name.starts_with('@') => 1,
        _ => 0,
    }
}

/// What applies to all routes of a block.
#[derive(Clone, Default)]
struct Context {
    root: Option<(String, crate::ledger::Origin)>,
    table: Table,
    request_headers: Table,
    /// Paths with a rule of authentication that was not converted: they must not be left open.
    closed: Vec<Route>,
    /// A prefix that `handle_path` or `uri strip_prefix` removes.
    strip: Option<String>,
}

impl Reader<'_> {
    pub(super) fn routes(&mut self, block: &Block, site: &Site) -> Vec<Route> {
        let label = site.hosts.first().cloned().unwrap_or_else(|| "site".to_owned());
        let base = everything(block.origin);
        let mut routes = self.block(&block.lines, &base, &Context::default(), &label);
        for line in &block.lines {
            if !self.ledger.is_settled(line.origin) && matches!(line.name(), "log" | "tls" | "bind") {
                self.ledger.carried(line.origin);
            }
        }
        if !routes.iter().any(Route::is_for_all) {
            // Caddy responds to such requests with an empty 200.
            routes.push(Route::status(block.origin, PathMatch::Any, 404));
        }
        routes
    }

    fn block(&mut self, lines: &[Line], base: &Route, outer: &Context, label: &str) -> Vec<Route> {
        let mut context = outer.clone();
        for line in lines {
            self.setting(line, lines, &mut context);
        }
        let mut handlers: Vec<&Line> = lines.iter().filter(|line| rank(line) != NO_HANDLER).collect();
        handlers.sort_by_key(|line| (rank(line), std::cmp::Reverse(specific(line))));
        let has_try = lines.iter().find(|line| line.name() == "try_files");
        let mut routes: Vec<Route> = context.closed.clone();
        context.closed.clear();
        for line in handlers {
            let Some((matched, args)) = self.matched(line, lines, base) else { continue };
            for route in matched {
                routes.extend(self.handler(line, &args, route, &context, has_try, label));
            }
        }
        routes
    }

    /// Directives that are settings of the routes of their block.
    fn setting(&mut self, line: &Line, lines: &[Line], context: &mut Context) {
        let origin = line.origin;
        let has_matcher = line.arg(0).starts_with('/') || line.arg(0).starts_with('@');
        match line.name() {
            "root" => {
                let path = line.args().last().cloned().unwrap_or_default();
                match has_matcher && line.args().len() > 1 {
                    true => self.ledger.lost(
                        origin,
                        "a root for some paths only",
                        "write a route for them by hand",
                    ),
                    false => {
                        context.root = Some((path, origin));
                        self.ledger.carried(origin);
                    }
                }
            }
            "encode" if has_matcher => self.ledger.differs(origin, "all routes are compressed"),
            "encode" => {
                let codings: Vec<String> = line
                    .args()
                    .iter()
                    .filter(|word| matches!(word.as_str(), "gzip" | "zstd" | "br"))
                    .cloned()
                    .collect();
                match codings.is_empty() || codings.len() == 3 {
                    true => context.table.set("compress", true, origin),
                    false => {
                        let mut table = Table::default();
                        table.set("codings", codings, origin);
                        context.table.set("compress", table, origin);
                    }
                }
                line.settle_inner(self.ledger);
                self.ledger.carried(origin);
            }
            "header" => self.header(line, lines, context, has_matcher),
            "request_header" => {
                let args = if line.arg(0) == "*" { line.args().get(1..).unwrap_or(&[]) } else { line.args() };
                match has_matcher {
                    true => self.ledger.lost(origin, "headers for some requests only", TODO),
                    false => self.header_rule(args, origin, &mut context.request_headers),
                }
            }
            "request_body" => match line.child("max_size").and_then(|limit| {
                Some((crate::units::bytes(&limit.arg(0).replace("iB", "").replace('B', ""))?, limit.origin))
            }) {
                Some((bytes, limit)) => {
                    context.table.set("max_body", size(bytes), limit);
                    self.ledger.carried(origin);
                    line.settle_inner(self.ledger);
                }
                None => self.ledger.lost(origin, "it has no `max_size`", "set `max_body` of the routes"),
            },
            "basic_auth" | "basicauth" => self.basic_auth(line, context, has_matcher),
            "forward_auth" => self.forward_auth(line, context, has_matcher),
            "uri" if line.arg(0) == "strip_prefix" => {
                context.strip = Some(line.arg(1).to_owned());
                self.ledger.carried(origin);
            }
            "handle_errors" => {
                self.ledger.dropped(
                    origin,
                    "pages of errors are `error_pages`",
                    "set `error_pages` to files, or to { app, path }",
                );
                line.settle_inner(self.ledger);
            }
            "import" | "try_files" | "vars" | "tracing" | "metrics" | "log_skip" | "skip_log"
            | "log_append" | "log_name" | "push" | "invoke" | "fs" => match line.name() {
                "try_files" => {}
                "push" => self.ledger.dropped(
                    origin,
                    "HTTP/2 push is gone from browsers",
                    "let the app send 103 Early Hints",
                ),
                _ => self.ledger.ignored(origin, "it makes no difference here"),
            },
            "log" => {}
            "rewrite"
            | "uri"
            | "method"
            | "map"
            | "templates"
            | "acme_server"
            | "copy_response"
            | "copy_response_headers"
            | "intercept"
            | "mercure"
            | "rate_limit" => {
                self.ledger.lost(
                    origin,
                    "it has no counterpart",
                    "set `rewrite`, `rate_limit` or `error_pages` of a route by hand",
                );
                line.settle_inner(self.ledger);
            }
            _ => {}
        }
    }

    fn header(&mut self, line: &Line, lines: &[Line], context: &mut Context, has_matcher: bool) {
        if has_matcher {
            let pattern = if line.arg(0).starts_with('/') {
                Some(line.arg(0).to_owned())
            } else {
                self.named(line.arg(0), lines).and_then(|tables| path_of(&tables))
            };
            let (Some(pattern), [name, value]) = (
                pattern.filter(|pattern| pattern.starts_with("/") || pattern.starts_with('*')),
                line.args().get(1..).unwrap_or(&[]),
            ) else {
                self.ledger.lost(
                    line.origin,
                    "headers for some requests only",
                    "set `headers` of a route, or `file_headers`",
                );
                line.settle_inner(self.ledger);
                return;
            };
            // Headers of files by name.
            let name_pattern = pattern.trim_start_matches('/').replace('*', "**").replace("****", "**");
            context.table.set_in(
                &["file_headers", &name_pattern],
                name,
                value.replace('$', "$$"),
                line.origin,
            );
            return;
        }
        let args = if line.arg(0) == "*" { line.args().get(1..).unwrap_or(&[]) } else { line.args() };
        if !args.is_empty() {
            let table = context.table.within(&["headers"], line.origin);
            let mut own = std::mem::take(table);
            self.header_rule(args, line.origin, &mut own);
            *context.table.within(&["headers"], line.origin) = own;
        }
        for inner in &line.inner {
            let words: Vec<String> =
                std::iter::once(inner.name().to_owned()).chain(inner.args().iter().cloned()).collect();
            let mut own = std::mem::take(context.table.within(&["headers"], line.origin));
            match inner.name() {
                "defer" => self.ledger.ignored(inner.origin, "headers are set when the response is"),
                _ => self.header_rule(&words, inner.origin, &mut own),
            }
            *context.table.within(&["headers"], line.origin) = own;
        }
        self.ledger.carried(line.origin);
    }

    /// `Name value`, `-Name`, `+Name value`, `?Name value`.
    fn header_rule(&mut self, words: &[String], origin: crate::ledger::Origin, table: &mut Table) {
        let Some(name) = words.first() else { return };
        let (kind, name) = match name.split_at_checked(1) {
            Some(("-", name)) => ("remove", name),
            Some(("+", name)) => ("add", name),
            Some(("?", name)) => ("if_missing", name),
            Some((">", name)) => ("set", name),
            _ => ("set", name.as_str()),
        };
        if kind == "remove" {
            match name.contains('*') {
                true => {
                    self.ledger.lost(origin, "a pattern of header names", "list them in `headers.remove`")
                }
                false => table.push_in(&[], "remove", name, origin),
            }
            return;
        }
        if words.len() > 2 {
            self.ledger.lost(origin, "a part of a header's value is not replaced", "let the app set it");
            return;
        }
        match template(words.get(1).map_or("", String::as_str)) {
            Some(value) if name.eq_ignore_ascii_case("server") && value.is_empty() => {
                self.ledger.ignored(origin, "nothing to hide")
            }
            Some(value) => table.set_in(&[kind], name, value, origin),
            None => self.ledger.lost(
                origin,
                "its value has a placeholder without a counterpart",
                "set `headers` by hand",
            ),
        }
    }

    fn basic_auth(&mut self, line: &Line, context: &mut Context, has_matcher: bool) {
        let mut users = Table::default();
        for inner in &line.inner {
            users.set(inner.name(), inner.arg(0), inner.origin);
        }
        if has_matcher || users.is_empty() {
            self.close(line, context);
            self.ledger.lost(
                line.origin,
                "passwords for some paths only",
                "set `basic_auth` of a route for these paths",
            );
            line.settle_inner(self.ledger);
            return;
        }
        let mut table = Table::default();
        table.set("users", users, line.origin);
        context.table.set("basic_auth", table, line.origin);
    }

    /// Responds with 501 to what a rule was for.
    fn close(&mut self, line: &Line, context: &mut Context) {
        let path = match line.arg(0) {
            path if path.starts_with('/') => PathMatch::Patterns(vec![path.to_owned()]),
            _ => PathMatch::Any,
        };
        context.closed.push(Route::status(line.origin, path, 501));
    }

    fn forward_auth(&mut self, line: &Line, context: &mut Context, has_matcher: bool) {
        let address = line.args().iter().find(|word| !word.starts_with(['/', '@', '*'])).cloned();
        let path = line.child("uri");
        let (Some(address), Some(path), false) = (address, path, has_matcher) else {
            self.close(line, context);
            self.ledger.lost(
                line.origin,
                "it needs an address and `uri`, and all paths",
                "set `auth_request` of the routes",
            );
            line.settle_inner(self.ledger);
            return;
        };
        let mut upstream = Table::default();
        upstream.set("url", url(&address, false), line.origin);
        let name = add(&mut self.model.upstreams, &address, upstream, line.origin, self.ledger);
        let mut table = Table::default();
        table.set("upstream", name, line.origin);
        table.set("path", path.arg(0), path.origin);
        if let Some(copy) = line.child("copy_headers") {
            let names: Vec<String> = copy
                .args()
                .iter()
                .cloned()
                .chain(copy.inner.iter().map(|inner| inner.name().to_owned()))
                .collect();
            table.set("headers", names, copy.origin);
        }
        context.table.set("auth_request", table, line.origin);
    }

    /// The routes of a directive's matcher, and its other arguments; `None`: it was dropped.
    fn matched(&mut self, line: &Line, lines: &[Line], base: &Route) -> Option<(Vec<Route>, Vec<String>)> {
        let first = line.arg(0);
        let rest = line.args().get(1..).unwrap_or(&[]).to_vec();
        let mut route = base.clone();
        route.origin = Some(line.origin);
        // `redir /x` has a target, and no matcher, if it is alone.
        let is_target = matches!(line.name(), "redir" | "respond" | "error") && line.args().len() < 2;
        match first {
            "*" => Some((vec![route], rest)),
            path if path.starts_with('/') && !is_target => {
                route.path = narrowed(&base.path, &[path.to_owned()])?;
                Some((vec![route], rest))
            }
            name if name.starts_with('@') => match self.named(name, lines) {
                Some(sets) => {
                    for item in &sets.items {
                        match (item.key.as_str(), &item.value) {
                            ("path", Value::List(list)) => {
                                let patterns: Vec<String> = list
                                    .iter()
                                    .filter_map(|value| match value {
                                        Value::Text(text) => Some(text.clone()),
                                        _ => None,
                                    })
                                    .collect();
                                route.path = narrowed(&base.path, &patterns)?;
                            }
                            _ => route.table.items.push(item.clone()),
                        }
                    }
                    Some((vec![route], rest))
                }
                None => {
                    self.ledger.lost(line.origin, format!("the matcher {name} has no counterpart"), TODO);
                    line.settle_inner(self.ledger);
                    None
                }
            },
            _ => Some((vec![route], line.args().to_vec())),
        }
    }

    /// The conditions of a named matcher; `path` is a list of patterns.
    fn named(&mut self, name: &str, lines: &[Line]) -> Option<Table> {
        let definition = lines.iter().find(|line| line.name() == name)?.clone();
        let mut table = Table::default();
        let mut parts: Vec<(Vec<String>, crate::ledger::Origin)> = Vec::new();
        if !definition.args().is_empty() {
            parts.push((definition.args().to_vec(), definition.origin));
        }
        for inner in &definition.inner {
            parts.push((
                std::iter::once(inner.name().to_owned()).chain(inner.args().iter().cloned()).collect(),
                inner.origin,
            ));
        }
        for (words, origin) in parts {
            let (sign, words) = match words.first().map(String::as_str) {
                Some("not") => ("!", words.get(1..).unwrap_or(&[]).to_vec()),
                _ => ("", words),
            };
            let values: Vec<String> =
                words.get(1..).unwrap_or(&[]).iter().map(|value| format!("{sign}{value}")).collect();
            match words.first().map_or("", String::as_str) {
                "path" => {
                    let mut all: Vec<Value> = match table.remove("path").map(|item| item.value) {
                        Some(Value::List(list)) => list,
                        _ => Vec::new(),
                    };
                    all.extend(values.into_iter().map(Value::from));
                    table.set("path", Value::List(all), origin);
                }
                "path_regexp" => {
                    let pattern = crate::expression::check(words.last()?, false).ok()?;
                    table.set("path", Value::List(vec![Value::from(format!("{sign}~{pattern}"))]), origin);
                }
                "host" => table.set("host", one_or_list(values), origin),
                "method" => table.set("method", one_or_list(values), origin),
                "remote_ip" | "client_ip" => {
                    let values: Vec<String> = values
                        .into_iter()
                        .filter(|value| !value.ends_with("forwarded"))
                        .flat_map(|value| private_ranges(&value))
                        .collect();
                    table.set("client", values, origin);
                }
                "protocol" if sign.is_empty() => table.set("scheme", words.get(1)?.as_str(), origin),
                "header" => table.set_in(
                    &["header"],
                    words.get(1)?,
                    format!("{sign}{}", words.get(2).map_or("*", String::as_str)),
                    origin,
                ),
                "query" => {
                    for pair in words.get(1..)? {
                        let (key, value) = pair.split_once('=')?;
                        table.set_in(&["query"], key, format!("{sign}{value}"), origin);
                    }
                }
                _ => return None,
            }
            self.ledger.carried(origin);
        }
        self.ledger.carried(definition.origin);
        Some(table)
    }

    fn handler(
        &mut self,
        line: &Line,
        args: &[String],
        mut route: Route,
        context: &Context,
        try_files: Option<&Line>,
        label: &str,
    ) -> Vec<Route> {
        self.ledger.carried(line.origin);
        match line.name() {
            "handle" | "route" => {
                let inner = self.block(&line.inner, &route, context, label);
                closed(inner, route, line)
            }
            "handle_path" => {
                let mut own = context.clone();
                own.strip = Some(line.arg(0).trim_end_matches('*').to_owned());
                let inner = self.block(&line.inner, &route, &own, label);
                closed(inner, route, line)
            }
            "redir" => vec![self.redirect(line, args, route, context)],
            "respond" | "error" | "abort" => vec![self.respond(line, args, route, context)],
            "reverse_proxy" => self.proxy(line, args, route, context),
            "php_fastcgi" | "php_server" | "php" => self.php(line, args, route, context, label),
            "file_server" => self.files(line, args, route, context, try_files),
            _ => {
                route.table.set("respond", 501i64, line.origin);
                vec![route]
            }
        }
    }

    fn redirect(&mut self, line: &Line, args: &[String], mut route: Route, context: &Context) -> Route {
        add_headers(&mut route, context);
        let status = match args.get(1).map(String::as_str) {
            Some("permanent") => 301,
            Some("temporary") | None => 302,
            Some(code) => code.parse().unwrap_or(0),
        };
        let target = template(args.first().map_or("", String::as_str))
            .filter(|target| crate::nginx::safe_target(target).is_ok());
        match target.filter(|_| [301, 302, 303, 307, 308].contains(&status)) {
            Some(target) => {
                route.table.set("redirect", crate::nginx::redirect(&target, status, line.origin), line.origin)
            }
            None => {
                self.ledger.lost(
                    line.origin,
                    "its target or status has no counterpart",
                    "write `redirect` of the route by hand",
                );
                route.table.set("respond", 501i64, line.origin);
            }
        }
        route
    }

    fn respond(&mut self, line: &Line, args: &[String], mut route: Route, context: &Context) -> Route {
        let numbers = args.iter().find_map(|word| word.parse::<i64>().ok());
        let body = args.iter().find(|word| word.parse::<i64>().is_err());
        add_headers(&mut route, context);
        if line.name() == "abort" {
            self.ledger.differs(
                line.origin,
                "the client gets 403: Keepwarm does not close connections without a response",
            );
            route.table.set("respond", 403i64, line.origin);
            return route;
        }
        let status = numbers.unwrap_or(if line.name() == "error" { 500 } else { 200 }).clamp(200, 599);
        let text = body.filter(|_| line.name() == "respond").map(|body| template(body));
        match text {
            None => route.table.set("respond", status, line.origin),
            Some(Some(text)) => {
                let mut table = Table::default();
                table.set("status", status, line.origin);
                table.set("body", text, line.origin);
                route.table.set("respond", table, line.origin);
            }
            Some(None) => {
                self.ledger.lost(
                    line.origin,
                    "its body has a placeholder without a counterpart",
                    "write `respond` by hand",
                );
                route.table.set("respond", status, line.origin);
            }
        }
        route
    }

    fn proxy(&mut self, line: &Line, args: &[String], mut route: Route, context: &Context) -> Vec<Route> {
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

    fn php(
        &mut self,
        line: &Line,
        args: &[String],
        mut route: Route,
        context: &Context,
        label: &str,
    ) -> Vec<Route> {
        let inner_root = line.child("root").map(|root| (root.arg(0).to_owned(), root.origin));
        let Some((root, root_origin)) = inner_root.or_else(|| context.root.clone()) else {
            self.ledger.lost(
                line.origin,
                "no directory of scripts is known: there is no `root`",
                "write an `[app.NAME]` by hand",
            );
            line.settle_inner(self.ledger);
            route.table.set("respond", 501i64, line.origin);
            return vec![route];
        };
        let index = line.child("index").map_or("index.php", |index| index.arg(0));
        let mut scripts = Scripts {
            entry: format!("{}/{index}", root.trim_end_matches('/')),
            origin: Some(line.origin),
            ..Scripts::default()
        };
        if line.name() == "php_fastcgi" {
            let address = args.first().cloned().unwrap_or_default();
            scripts.address = Some(address.trim_start_matches("unix/").to_owned());
        } else {
            self.ledger.differs(line.origin, "scripts run from the top for each request; an app that returns itself can be kept warm (docs/guide/php.md)");
        }
        for inner in &line.inner {
            match inner.name() {
                "root" | "index" => self.ledger.carried(inner.origin),
                "env" => scripts.env.push((inner.arg(0).to_owned(), inner.arg(1).to_owned(), inner.origin)),
                "read_timeout" => match nginx_time(inner.arg(0)).filter(|millis| *millis > 0) {
                    Some(millis) => scripts.timeout = Some((time(millis), inner.origin)),
                    None => {
                        self.ledger.lost(inner.origin, "it is not a time", "set `request_timeout` of the app")
                    }
                },
                "resolve_root_symlink"
                | "capture_stderr"
                | "dial_timeout"
                | "write_timeout"
                | "split"
                | "try_files"
                | "worker"
                | "file_server" => {
                    self.ledger.differs(
                        inner.origin,
                        "Keepwarm finds scripts and files by its own rules (docs/guide/classic-php.md)",
                    );
                    inner.settle_inner(self.ledger);
                }
                _ => inner.settle_unknown(self.ledger),
            }
        }
        let app = php::app(&scripts, label, self.pools, self.model, self.ledger);
        route.table.set("app", app, line.origin);
        route.table.set("try_files", root, root_origin);
        if context.strip.is_some() {
            self.strip(&mut route, context, line);
        }
        apply(&mut route, context, true);
        vec![route]
    }

    fn files(
        &mut self,
        line: &Line,
        args: &[String],
        mut route: Route,
        context: &Context,
        try_files: Option<&Line>,
    ) -> Vec<Route> {
        let own = line.child("root").map(|root| (root.arg(0).to_owned(), root.origin));
        let Some((root, root_origin)) = own.or_else(|| context.root.clone()) else {
            self.ledger.lost(
                line.origin,
                "there is no `root`: the working directory of Caddy",
                "set `files` of the route",
            );
            route.table.set("respond", 501i64, line.origin);
            return vec![route];
        };
        if root.contains('{') && template(&root).is_none() {
            self.ledger.lost(
                root_origin,
                "its path has a placeholder without a counterpart",
                "write `files` by hand",
            );
            route.table.set("respond", 501i64, line.origin);
            return vec![route];
        }
        let directory = template(&root).unwrap_or(root).trim_end_matches('/').to_owned();
        if args.iter().any(|word| word == "browse") || line.child("browse").is_some() {
            route.table.set("listing", true, line.origin);
        }
        for inner in &line.inner {
            match inner.name() {
                "root" | "browse" => self.ledger.carried(inner.origin),
                "index" => route.table.set("index", one_or_list(inner.args().to_vec()), inner.origin),
                "hide" => self.ledger.lost(
                    inner.origin,
                    "files that are hidden",
                    "write a route for them before, with respond = 404",
                ),
                "precompressed" => self.ledger.carried(inner.origin),
                "status" | "disable_canonical_uris" | "pass_thru" | "fs" | "etag_file_extensions" => {
                    self.ledger.differs(inner.origin, "it has no counterpart")
                }
                _ => inner.settle_unknown(self.ledger),
            }
        }
        let prefix = context.strip.clone();
        let directory = match (&prefix, &route.path) {
            // With the pattern `/x/*`, the prefix is not part of the name anyway.
            (Some(_), _) => directory,
            (None, PathMatch::Patterns(patterns))
                if patterns.len() == 1
                    && patterns.iter().all(|one| one.ends_with("/*") && one.matches('*').count() == 1) =>
            {
                format!("{directory}{}", patterns.first().map_or("", |one| one.trim_end_matches("/*")))
            }
            (None, _) => directory,
        };
        route.table.set("files", directory.as_str(), root_origin);
        apply(&mut route, context, false);
        let page = try_files.and_then(|line| Some((line, line.args().last()?.clone())));
        match page {
            Some((tried, page)) if page.starts_with('/') && !page.contains('{') && route.is_for_all() => {
                self.ledger.differs(tried.origin, format!("paths whose last part has a `.` are files, or 404; all others get {page}, also those of directories"));
                let mut rest = route.clone();
                rest.table.set("rewrite", page, tried.origin);
                route.path = PathMatch::Regex("[^/]*\\.[^/]+$".to_owned());
                vec![route, rest]
            }
            Some((tried, _)) => {
                self.ledger.lost(
                    tried.origin,
                    "files are found by their whole path",
                    "write `rewrite` of a route by hand",
                );
                vec![route]
            }
            None => vec![route],
        }
    }

    /// Removes a prefix from the path that an upstream or app gets.
    fn strip(&mut self, route: &mut Route, context: &Context, line: &Line) {
        let Some(prefix) = &context.strip else { return };
        let prefix = prefix.trim_end_matches('/');
        match &route.path {
            PathMatch::Patterns(patterns) if patterns.as_slice() == [format!("{prefix}/*")] => {
                route.table.set("rewrite", "/$1", line.origin)
            }
            _ => {
                route.path = PathMatch::Patterns(vec![format!("{prefix}/*")]);
                route.table.set("rewrite", "/$1", line.origin);
                self.ledger.differs(line.origin, format!("only paths below {prefix}/"));
            }
        }
    }
}

/// Headers that apply to all responses are those of redirects and fixed responses too.
fn add_headers(route: &mut Route, context: &Context) {
    if let Some(headers) = context.table.items.iter().find(|item| item.key == "headers") {
        route.table.items.push(headers.clone());
    }
}

/// A `handle` ends its requests: those that nothing in it takes get 404.
fn closed(mut routes: Vec<Route>, base: Route, line: &Line) -> Vec<Route> {
    let is_closed = routes.iter().any(|route| {
        route.path == base.path
            && route.table.items.iter().all(|item| {
                !["host", "method", "header", "query", "client", "scheme"].contains(&item.key.as_str())
                    || base.table.has(&item.key)
            })
    });
    if !is_closed && line.name() != "route" {
        let mut rest = base;
        rest.table.set("respond", 404i64, line.origin);
        routes.push(rest);
    }
    routes
}

/// What applies to all routes of a block.
fn apply(route: &mut Route, context: &Context, to_server: bool) {
    for item in &context.table.items {
        let fits = match item.key.as_str() {
            "file_headers" => route.table.has("files") || route.table.has("try_files"),
            "max_body" => to_server,
            _ => true,
        };
        if fits && !route.table.has(&item.key) {
            route.table.items.push(item.clone());
        }
    }
    if to_server && !context.request_headers.is_empty() && !route.table.has("request_headers") {
        route.table.set("request_headers", context.request_headers.clone(), None);
    }
}

/// Patterns within those of the block around; `None`: both have conditions on the path that do not go together.
fn narrowed(outer: &PathMatch, patterns: &[String]) -> Option<PathMatch> {
    match outer {
        PathMatch::Any => Some(PathMatch::Patterns(patterns.to_vec())),
        PathMatch::Patterns(list) => {
            let prefix = list.first()?.trim_end_matches('*');
            // Of `handle_path`, inner paths are without the prefix, which is not known here.
            patterns
                .iter()
                .all(|pattern| pattern.starts_with(prefix))
                .then(|| PathMatch::Patterns(patterns.to_vec()))
        }
        _ => None,
    }
}

fn path_of(table: &Table) -> Option<String> {
    match table.get("path") {
        Some(Value::List(list)) if list.len() == 1 => match list.first() {
            Some(Value::Text(text)) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    }
}

fn private_ranges(value: &str) -> Vec<String> {
    let (sign, name) = value.strip_prefix('!').map_or(("", value), |name| ("!", name));
    match name {
        "private_ranges" => {
            ["192.168.0.0/16", "172.16.0.0/12", "10.0.0.0/8", "127.0.0.1/8", "fd00::/8", "::1"]
                .iter()
                .map(|range| format!("{sign}{}", range.replace("127.0.0.1/8", "127.0.0.0/8")))
                .collect()
        }
        "static" => Vec::new(),
        _ => vec![value.to_owned()],
    }
}

fn url(address: &str, tls: bool) -> String {
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

/// A text with Caddy's placeholders, as a template.
fn template(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(&before.replace('$', "$$"));
        let (name, behind) = after.split_once('}')?;
        let name = name.trim_start_matches("http.request.");
        out.push_str(&match name {
            "uri" => "$path$query".to_owned(),
            "path" | "uri.path" => "$path".to_owned(),
            "query" | "uri.query" => "$args".to_owned(),
            "host" => "$host_name".to_owned(),
            "hostport" => "$host".to_owned(),
            "method" => "$method".to_owned(),
            "scheme" => "$scheme".to_owned(),
            "remote_host" | "remote.host" | "client_ip" => "$client".to_owned(),
            "uuid" => "$request_id".to_owned(),
            name => match (
                name.strip_prefix("header."),
                name.strip_prefix("cookie."),
                name.strip_prefix("query."),
            ) {
                (Some(header), ..) => format!("$header_{}", header.replace('-', "_")),
                (_, Some(cookie), _) => format!("$cookie_{cookie}"),
                (.., Some(argument)) => format!("$arg_{argument}"),
                _ => return None,
            },
        });
        rest = behind;
    }
    out.push_str(&rest.replace('$', "$$"));
    Some(out)
}
