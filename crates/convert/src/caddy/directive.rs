//! Directives of a site become routes, in the order in which Caddy applies them.

mod files;
mod matcher;
mod proxy;
mod scripts;
mod settings;

use self::settings::add_headers;
use super::syntax::{Block, Line};
use super::{Reader, everything};
use crate::model::{PathMatch, Route, Site};
use crate::table::Table;

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
