//! Settings of a route: headers, compression, limits, error pages.

use super::Reader;
use super::action::{Place, Target};
use super::location::Kind;
use super::syntax::Directive;
use super::variables::{Piece, pieces};
use crate::model::Route;
use crate::table::{Table, Value, one_or_list};
use crate::units::{bytes, nginx_time, size};

/// Headers that only Keepwarm sets.
const OURS: [&str; 10] = [
    "connection",
    "content-length",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "date",
    "server",
];

const OCTETS: &str = "application/octet-stream";

impl<'d> Reader<'d, '_> {
    /// Adds what applies to a route by the blocks that it is in; access rules can make two routes of it.
    pub(super) fn finish(&mut self, place: &Place<'_, 'd>, target: Target, mut route: Route) -> Vec<Route> {
        self.response_headers(place, &mut route);
        self.compression(place, &mut route);
        self.quiet(place, &route);
        if target == Target::Fixed {
            // It comes before the rules of its location, but after those of the one that led to it.
            return match &place.outer {
                Some(outer) => {
                    let before = Place { outer: None, ..place.redirected(outer.clone(), place.origin) };
                    self.access(&before, route)
                }
                None => vec![route],
            };
        }
        if target == Target::Files {
            self.types(place, &mut route);
        }
        self.body_limit(place, target, &mut route);
        self.rate_limits(place, target, &mut route);
        self.error_pages(place, target, &mut route);
        self.access(place, route)
    }

    fn response_headers(&mut self, place: &Place<'_, 'd>, route: &mut Route) {
        for hide in place.scope.any_of(&["proxy_hide_header", "fastcgi_hide_header"]) {
            push_name(&mut route.table, hide);
        }
        if let Some(expires) = place.scope.one("expires") {
            match cache_control(expires) {
                Some(Some(value)) => {
                    route.table.set_in(&["headers", "set"], "Cache-Control", value, expires.origin);
                    self.ledger.differs(
                        expires.origin,
                        "there is no `Expires`, which clients ignore beside `Cache-Control`",
                    );
                }
                Some(None) => self.ledger.carried(expires.origin),
                None => self.ledger.dropped(
                    expires.origin,
                    "Keepwarm sets `Cache-Control` to a fixed value",
                    "set it in `headers` or `file_headers`",
                ),
            }
        }
        let mut variables = place.variables.clone();
        for header in place.scope.all("add_header") {
            let (name, value) = (header.arg(0), header.arg(1));
            let lower = name.to_ascii_lowercase();
            if OURS.contains(&lower.as_str()) || value.trim().is_empty() {
                self.ledger.ignored(header.origin, "Keepwarm sets it, or its value is empty");
                continue;
            }
            if lower == "content-type" && route.table.has("respond") {
                continue;
            }
            if self.auth_variable(place, value).is_some() {
                // `response_headers` of `auth_request` has it.
                continue;
            }
            self.use_maps(value, &mut variables);
            match variables.template(value) {
                Ok(value) => {
                    let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
                    route.table.push_in(&["headers", "add"], name, value, header.origin);
                    if header.arg(2) != "always" {
                        self.ledger.differs(header.origin, "error responses have it as well");
                    }
                }
                Err(variable) => {
                    let why = format!("its value has ${variable}, for which Keepwarm has no variable");
                    self.ledger.lost(
                        header.origin,
                        why,
                        "let the app set it, or write it in `headers` by hand",
                    );
                }
            }
        }
    }

    /// Types of files that a server or a location has of its own.
    fn types(&mut self, place: &Place<'_, 'd>, route: &mut Route) {
        let types = place.scope.inner("types");
        let default = place.scope.one("default_type");
        match (types, default) {
            (Some(types), Some(default)) if types.children().is_empty() => {
                route.table.set_in(&["headers", "set"], "Content-Type", default.arg(0), default.origin);
                self.ledger.carried(types.origin);
            }
            (Some(types), _) => self
                .ledger
                .differs(types.origin, "Keepwarm knows the types of files; `file_headers` sets others"),
            (None, Some(_)) => {
                let default = place.scope.inner("default_type");
                if let Some(default) = default.filter(|default| default.arg(0) != OCTETS) {
                    let how = format!("a file of an unknown type is {OCTETS}; `file_headers` sets others");
                    self.ledger.differs(default.origin, how);
                }
            }
            (None, None) => {}
        }
    }

    fn compression(&mut self, place: &Place<'_, 'd>, route: &mut Route) {
        let gzip = place.scope.one("gzip").filter(|gzip| gzip.arg(0) == "on");
        let brotli = place.scope.one("brotli").filter(|brotli| brotli.arg(0) == "on");
        let Some(on) = gzip.or(brotli) else {
            for off in ["gzip", "brotli"] {
                if let Some(off) = place.scope.one(off) {
                    self.ledger.carried(off.origin);
                }
            }
            return;
        };
        if let Some(brotli) = brotli {
            self.ledger.carried(brotli.origin);
        }
        let start = if gzip.is_some() { "gzip" } else { "brotli" };
        let mut table = Table::default();
        if let Some(level) = place.scope.one(&format!("{start}_comp_level")) {
            match level.arg(0).parse::<u8>() {
                Ok(1..=3) => table.set("level", "fast", level.origin),
                Ok(8..) => table.set("level", "small", level.origin),
                _ => self.ledger.ignored(level.origin, "`level` is \"balanced\" by default"),
            }
        }
        if let Some((least, bytes)) = place
            .scope
            .one(&format!("{start}_min_length"))
            .and_then(|least| Some((least, bytes(least.arg(0))?)))
        {
            table.set("min_size", size(bytes), least.origin);
        }
        for other in ["gzip_types", "brotli_types"] {
            if let Some(types) = place.scope.one(other) {
                let mut list: Vec<String> = vec!["text/html".to_owned()];
                list.extend(
                    types
                        .args
                        .iter()
                        .map(|media| if media == "*" { "*/*".to_owned() } else { media.clone() }),
                );
                list.retain(|media| media.contains('/'));
                list.dedup();
                table.set("types", list, types.origin);
            }
        }
        if !table.has("types") {
            self.ledger.differs(on.origin, "all formats of text are compressed, by zstd and brotli too");
        }
        match table.is_empty() {
            true => route.table.set("compress", true, on.origin),
            false => route.table.set("compress", table, on.origin),
        }
    }

    fn quiet(&mut self, place: &Place<'_, 'd>, route: &Route) {
        let Some(off) = place.scope.own_one("access_log").filter(|log| log.arg(0) == "off") else { return };
        self.ledger.carried(off.origin);
        for pattern in route.path.patterns() {
            let pattern = format!("!{pattern}");
            if !self.quiet.contains(&pattern) {
                self.quiet.push(pattern);
            }
        }
    }

    fn body_limit(&mut self, place: &Place<'_, 'd>, target: Target, route: &mut Route) {
        if target == Target::Files {
            return;
        }
        let limits = [Some(&place.scope), place.outer.as_ref()];
        let limits = limits.into_iter().flatten().filter_map(|scope| scope.one("client_max_body_size"));
        let least =
            limits.min_by_key(|limit| bytes(limit.arg(0)).filter(|bytes| *bytes > 0).unwrap_or(u64::MAX));
        match least {
            None => route.table.note("max_body", "1MiB", "the default of nginx"),
            Some(limit) => match bytes(limit.arg(0)) {
                Some(0) => route.table.set("max_body", "off", limit.origin),
                Some(bytes) => route.table.set("max_body", size(bytes), limit.origin),
                None => self.ledger.lost(limit.origin, "it is not a size", "set `max_body` of the route"),
            },
        }
    }

    fn rate_limits(&mut self, place: &Place<'_, 'd>, target: Target, route: &mut Route) {
        let all = |name: &str| match place.outer.as_ref().map(|outer| outer.all(name)) {
            Some(limits) if !limits.is_empty() => limits,
            _ => place.scope.all(name),
        };
        let mut limits = all("limit_req").into_iter();
        if let Some(limit) = limits.next() {
            match target {
                Target::Files | Target::Fixed => {
                    self.ledger.differs(
                        limit.origin,
                        "files are not limited: a response of Keepwarm itself costs next to nothing",
                    );
                }
                Target::App | Target::Upstream => {
                    if let Some(name) = self.rate_limit(limit) {
                        route.table.set("rate_limit", name, limit.origin);
                    }
                }
            }
        }
        for further in limits {
            self.ledger.lost(
                further.origin,
                "a route has one rate limit",
                "merge the limits into one `[rate_limit.NAME]`",
            );
        }
        for limit in all("limit_conn") {
            let Some(key) = self.connection_zone(limit.arg(0)) else {
                self.ledger.lost(
                    limit.origin,
                    format!("there is no limit_conn_zone `{}`", limit.arg(0)),
                    "set `concurrency` of the route",
                );
                continue;
            };
            let name = match key.as_str() {
                "$binary_remote_addr" | "$remote_addr" => "per_client",
                "$server_name" | "$host" => "total",
                _ => {
                    self.ledger.lost(
                        limit.origin,
                        format!("Keepwarm does not count by {key}"),
                        "set `concurrency` of the route",
                    );
                    continue;
                }
            };
            match limit.arg(1).parse::<i64>() {
                Ok(number) if number > 0 => {
                    route.table.set_in(&["concurrency"], name, number, limit.origin);
                    self.ledger.differs(
                        limit.origin,
                        "each route counts on its own; a client over its limit gets 429",
                    );
                }
                _ => self.ledger.lost(limit.origin, "it is not a number", "set `concurrency` of the route"),
            }
        }
        for status in place.scope.any_of(&["limit_req_status", "limit_conn_status"]) {
            match status.arg(0) {
                "429" => self.ledger.carried(status.origin),
                _ => self.ledger.differs(status.origin, "the status is 429"),
            }
        }
    }

    fn error_pages(&mut self, place: &Place<'_, 'd>, target: Target, route: &mut Route) {
        for directive in place.scope.all("error_page") {
            let Some((uri, codes)) = directive.args.split_last() else { continue };
            let status = codes.iter().find(|code| code.starts_with('='));
            let codes: Vec<&String> = codes.iter().filter(|code| !code.starts_with('=')).collect();
            let todo = "set `error_pages` to a file, or to { app, path }";
            let Some(page) = self.error_page(place, uri) else {
                self.ledger.lost(
                    directive.origin,
                    format!("`{uri}` is not a file or a path of an app"),
                    todo,
                );
                continue;
            };
            for code in codes {
                match code.parse::<u16>() {
                    Ok(400..=599) if code != "499" => {
                        route.table.set_in(&["error_pages"], code, page.clone(), directive.origin)
                    }
                    _ => self
                        .ledger
                        .differs(directive.origin, format!("{code} is not the status of an error page")),
                }
            }
            if let Some(status) = status {
                self.ledger
                    .differs(directive.origin, format!("the status stays that of the error (`{status}`)"));
            }
        }
        let intercept = place.scope.any_of(&["proxy_intercept_errors", "fastcgi_intercept_errors"]);
        if let Some(on) = intercept.first().filter(|on| on.arg(0) == "on" && target != Target::Files) {
            match route.table.has("error_pages") {
                true => route.table.set("intercept_errors", true, on.origin),
                false => self.ledger.ignored(on.origin, "there are no error pages"),
            }
        }
    }

    /// The file of an error page, or the app or upstream that makes it.
    fn error_page(&mut self, place: &Place<'_, 'd>, uri: &str) -> Option<Value> {
        let path = uri.split('?').next().unwrap_or("");
        if !path.starts_with('/') || path.contains('$') {
            return None;
        }
        let location = place.server.locations.choose(path);
        let scope = location.map_or(&place.server.scope, |location| &location.scope);
        if let Some(location) = location {
            self.ledger.carried(location.directive.origin);
        }
        if let Some(alias) = scope.own_one("alias") {
            let location = location
                .filter(|location| matches!(location.kind, Kind::Exact | Kind::Begin | Kind::Stop))?;
            let rest = path.strip_prefix(location.text.as_str())?;
            self.ledger.carried(alias.origin);
            return Some(format!("{}{rest}", alias.arg(0)).into());
        }
        if scope.own_one("proxy_pass").is_some() || path.ends_with(".php") {
            return None;
        }
        let root = scope.one("root")?;
        self.ledger.carried(root.origin);
        for internal in scope.own().iter().filter(|inner| inner.name == "internal") {
            self.ledger.carried(internal.origin);
        }
        Some(format!("{}{path}", super::server::absolute(root.arg(0))).into())
    }

    /// The header of the service of `auth_request` that a value is: `$user` after `auth_request_set $user …`.
    pub(super) fn auth_variable(&self, place: &Place<'_, 'd>, value: &str) -> Option<String> {
        let pieces = pieces(value);
        let [Piece::Variable(name)] = pieces.as_slice() else { return None };
        let set = place
            .scope
            .every("auth_request_set")
            .into_iter()
            .find(|set| set.arg(0).strip_prefix('$') == Some(*name))?;
        let header = set.arg(1).strip_prefix("$upstream_http_")?;
        Some(header_name(header))
    }
}

/// Adds a name to `headers.remove`.
fn push_name(table: &mut Table, hide: &Directive) {
    let headers = table.within(&["headers"], hide.origin);
    let mut names: Vec<String> = match headers.remove("remove").map(|item| item.value) {
        Some(Value::List(list)) => {
            list.iter().filter_map(|value| super::server::text_of(value).map(str::to_owned)).collect()
        }
        Some(Value::Text(name)) => vec![name],
        _ => Vec::new(),
    };
    names.push(hide.arg(0).to_owned());
    headers.set("remove", one_or_list(names), hide.origin);
}

/// `Cache-Control` of `expires`; `Some(None)`: none.
fn cache_control(expires: &Directive) -> Option<Option<String>> {
    match expires.arg(0) {
        "off" => Some(None),
        "max" => Some(Some("max-age=315360000".to_owned())),
        "epoch" => Some(Some("no-cache".to_owned())),
        text if text.starts_with('-') => {
            nginx_time(text.trim_start_matches('-')).map(|_| Some("no-cache".to_owned()))
        }
        text => nginx_time(text).map(|millis| Some(format!("max-age={}", millis / 1000))),
    }
}

/// `x_real_ip` is `X-Real-Ip`.
pub(super) fn header_name(variable: &str) -> String {
    let words = variable.split('_').map(|word| {
        let mut chars = word.chars();
        chars.next().map(|first| first.to_ascii_uppercase().to_string() + chars.as_str()).unwrap_or_default()
    });
    words.collect::<Vec<_>>().join("-")
}
