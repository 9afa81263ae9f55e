//! What a server or a location does with a request: routes.

use super::Reader;
use super::location::{Kind, Location};
use super::scope::Scope;
use super::server::Server;
use super::syntax::Directive;
use super::variables::{Piece, Variables, groups, pieces};
use crate::expression::beginning;
use crate::ledger::Origin;
use crate::model::{PathMatch, Route};
use crate::table::{Table, Value};

/// What a route leads to, for the settings that apply to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    App,
    Upstream,
    Files,
    Fixed,
}

/// A place for which routes are made.
pub(super) struct Place<'s, 'd> {
    pub(super) server: &'s Server<'d>,
    pub(super) scope: Scope<'d>,
    /// The location that led here by an internal redirect: its access rules and limits are in force too.
    pub(super) outer: Option<Scope<'d>>,
    pub(super) path: PathMatch,
    pub(super) except: Vec<String>,
    pub(super) variables: Variables,
    pub(super) origin: Origin,
}

impl<'s, 'd> Place<'s, 'd> {
    /// The same paths after an internal redirect to another location.
    pub(super) fn redirected(&self, scope: Scope<'d>, origin: Origin) -> Place<'s, 'd> {
        Place {
            server: self.server,
            scope,
            // Of several locations on the way, the one that has rules.
            outer: self
                .outer
                .clone()
                .filter(|outer| super::access::is_open(&self.scope) && !super::access::is_open(outer))
                .or_else(|| Some(self.scope.clone())),
            path: self.path.clone(),
            except: self.except.clone(),
            variables: self.variables.clone(),
            origin,
        }
    }

    pub(super) fn route(&self, path: PathMatch) -> Route {
        Route { except: self.except.clone(), ..Route::new(self.origin, path) }
    }

    /// A route that refuses what a directive without a counterpart was for.
    pub(super) fn closed(&self, origin: Origin) -> Route {
        Route { except: self.except.clone(), ..Route::status(origin, self.path.clone(), 501) }
    }
}

/// Internal redirects of one request; nginx has 10.
const REDIRECTS_LIMIT: usize = 4;

const REWRITE_TODO: &str = "write it as `rewrite` or `redirect` of a route by hand";

/// Redirects of a `rewrite`, and their statuses.
const REDIRECTS: [i64; 5] = [301, 302, 303, 307, 308];

impl<'d> Reader<'d, '_> {
    /// The routes of a server, in order of precedence.
    pub(super) fn routes(&mut self, server: &Server<'d>) -> Vec<Route> {
        let place = Place {
            server,
            scope: server.scope.clone(),
            outer: None,
            path: PathMatch::Any,
            except: Vec::new(),
            variables: server.variables.clone(),
            origin: server.origin,
        };
        let (mut routes, is_final) = self.rewrite_phase(&place);
        if is_final {
            for location in server.locations.all() {
                self.ledger
                    .ignored(location.directive.origin, "the server returns before a location is chosen");
                super::settle_all(location.directive.children(), self.ledger);
            }
            return routes;
        }
        for location in server.locations.ordered() {
            routes.extend(self.location(server, location));
        }
        let has_root = server
            .locations
            .all()
            .iter()
            .any(|location| matches!(location.kind, Kind::Begin | Kind::Stop) && location.text == "/");
        if !has_root {
            routes.extend(self.content(&place));
        }
        self.allow_internal(&mut routes);
        routes
    }

    fn location(&mut self, server: &Server<'d>, location: &Location<'d>) -> Vec<Route> {
        let origin = location.directive.origin;
        self.ledger.carried(origin);
        let mut variables = server.variables.clone();
        let path = match location.kind {
            Kind::Exact => PathMatch::Exact(location.text.clone()),
            Kind::Begin | Kind::Stop => PathMatch::Begin(location.text.clone()),
            Kind::Named => return Vec::new(),
            Kind::Regex => match crate::expression::encoded(&location.pattern())
                .ok_or_else(|| "paths are compared in their encoded form".to_owned())
                .and_then(|pattern| self.expression(&pattern, location.ignores_case()))
            {
                Ok(pattern) => {
                    variables.groups = groups(&pattern);
                    PathMatch::Regex(pattern)
                }
                Err(_) if let Some(patterns) = self.look_ahead(location) => PathMatch::Patterns(patterns),
                Err(why) => {
                    super::drop_block(
                        location.directive,
                        &why,
                        "write its route by hand, before the ones that follow",
                        self.ledger,
                    );
                    return Vec::new();
                }
            },
        };
        self.set_constants(&location.scope, &mut variables);
        if let Some(root) = location.scope.one("root") {
            variables.root = super::server::absolute(root.arg(0));
        }
        let place = Place {
            server,
            scope: location.scope.clone(),
            outer: None,
            path,
            except: location.except.clone(),
            variables,
            origin,
        };
        if location.is_internal() {
            return self.internal(&place);
        }
        self.place(&place)
    }

    /// A negative look-ahead as a negated pattern.
    fn look_ahead(&mut self, location: &Location<'d>) -> Option<Vec<String>> {
        let (positive, negative) = crate::expression::without_look_ahead(&location.pattern())?;
        let positive = self.expression(&positive, location.ignores_case()).ok()?;
        let negative = self.expression(&negative, location.ignores_case()).ok()?;
        self.ledger.differs(
            location.directive.origin,
            "the look-ahead is a negated pattern: a path in which it matches anywhere is not matched",
        );
        Some(vec![format!("~{positive}"), format!("!~{negative}")])
    }

    /// The routes of a place: its conditions and rewrites, then its content.
    pub(super) fn place(&mut self, place: &Place<'_, 'd>) -> Vec<Route> {
        let (mut phase, is_final) = self.rewrite_phase(place);
        // The rewrites of a location are not for the methods that `limit_except` limits.
        let mut routes = self.limit_except(place);
        routes.append(&mut phase);
        if !is_final {
            routes.extend(self.handler(place));
        }
        routes
    }

    /// `if`, `rewrite` and `return`; whether nothing comes after them.
    fn rewrite_phase(&mut self, place: &Place<'_, 'd>) -> (Vec<Route>, bool) {
        let mut routes = Vec::new();
        // From the first rewrite without a flag on: conditions that follow apply to it, so they come before it.
        let mut rewritten: Vec<(&Directive, Vec<Route>)> = Vec::new();
        for directive in place.scope.own() {
            match directive.name.as_str() {
                "if" => routes.extend(self.condition(place, directive)),
                "rewrite" if !ends_rewrites(directive) && place.scope.own_one("return").is_some() => {
                    self.ledger.ignored(directive.origin, "a `return` follows");
                }
                "rewrite" => {
                    self.rewritten_again(place, &mut rewritten, directive);
                    let found = self.rewrite(place, directive);
                    match rewritten.is_empty() && ends_rewrites(directive) {
                        true => routes.extend(found),
                        false => rewritten.push((directive, found)),
                    }
                }
                "return" => {
                    // What has been rewritten by a rule with a flag does not get here.
                    let earlier = rewritten.into_iter().filter(|(rewrite, _)| ends_rewrites(rewrite));
                    routes.extend(earlier.flat_map(|(_, found)| found));
                    routes.extend(self.returned(place, directive, &Table::default()));
                    return (routes, true);
                }
                "break" => {
                    self.ledger.ignored(directive.origin, "no rewrite follows");
                    break;
                }
                _ => {}
            }
        }
        routes.extend(rewritten.into_iter().flat_map(|(_, found)| found));
        (routes, false)
    }

    /// A rewrite without a flag whose path a later one may change again.
    fn rewritten_again(
        &mut self,
        place: &Place<'_, 'd>,
        rewritten: &mut [(&Directive, Vec<Route>)],
        next: &Directive,
    ) {
        for (rewrite, found) in rewritten.iter_mut().filter(|(rewrite, _)| !ends_rewrites(rewrite)) {
            if may_match(rewrite.arg(1), next.arg(0)) {
                self.ledger.lost(rewrite.origin, "a later `rewrite` may change its path again", REWRITE_TODO);
                let path = found.first().map_or_else(|| place.path.clone(), |route| route.path.clone());
                *found = vec![Route { path, ..place.closed(rewrite.origin) }];
            }
        }
    }

    /// `return`, perhaps under conditions.
    pub(super) fn returned(
        &mut self,
        place: &Place<'_, 'd>,
        directive: &Directive,
        conditions: &Table,
    ) -> Vec<Route> {
        let mut variables = place.variables.clone();
        directive.args.iter().for_each(|arg| self.use_maps(arg, &mut variables));
        let (status, text) = match directive.args.as_slice() {
            [url] if url.parse::<i64>().is_err() => (302, Some(url.as_str())),
            [status] => (status.parse().unwrap_or(0), None),
            [status, text, ..] => (status.parse().unwrap_or(0), Some(text.as_str())),
            [] => (0, None),
        };
        let origin = directive.origin;
        let mut route = place.route(place.path.clone());
        route.table.items.extend(conditions.items.iter().cloned());
        match (status, text) {
            (status, Some(target)) if REDIRECTS.contains(&status) => {
                return self.redirects(&route, &variables, target, status, origin, place);
            }
            (444, _) => {
                self.ledger.differs(
                    origin,
                    "the client gets 403: Keepwarm does not close connections without a response",
                );
                route.table.set("respond", 403i64, origin);
            }
            (status @ 200..=599, None) => route.table.set("respond", status, origin),
            (status @ 200..=599, Some(body)) => {
                self.respond(place, &mut route, status, body, &variables, origin)
            }
            _ => {
                self.ledger.lost(
                    origin,
                    "it has no status from 200 to 599",
                    "write `respond` of the route by hand",
                );
                route.table.set("respond", 501i64, origin);
            }
        }
        self.finish(place, Target::Fixed, route)
    }

    fn respond(
        &mut self,
        place: &Place<'_, 'd>,
        route: &mut Route,
        status: i64,
        body: &str,
        variables: &Variables,
        origin: Origin,
    ) {
        let headers = place.scope.all("add_header");
        let typed = headers.iter().find(|header| header.arg(0).eq_ignore_ascii_case("content-type"));
        let media =
            typed.map(|header| header.arg(1)).or_else(|| Some(place.scope.one("default_type")?.arg(0)));
        let mut table = Table::default();
        table.set("status", status, origin);
        let is_variable = pieces(body).iter().any(|piece| matches!(piece, Piece::Variable(_)));
        let text = match media {
            // Variables are escaped for a type of text only.
            Some(media) if is_variable && !is_text(media) => Err(format!("a body of type {media}")),
            _ => variables.template(body),
        };
        match text {
            Ok(_) if matches!(status, 204 | 304) || body.is_empty() => {}
            Ok(text) => {
                table.set("body", text, origin);
                if let Some(media) = media.filter(|media| media.contains('/') && *media != "text/plain") {
                    table.set("content_type", media, typed.map(|header| header.origin));
                }
            }
            Err(variable) => self.ledger.lost(
                origin,
                format!("its body has ${variable}, for which Keepwarm has no variable"),
                "write `respond.body` by hand",
            ),
        }
        if let Some(header) = typed {
            self.ledger.carried(header.origin);
        }
        match table.items.as_slice() {
            [_] => route.table.set("respond", status, origin),
            _ => route.table.set("respond", table, origin),
        }
    }

    /// A redirect; two where the scheme stays that of the request.
    fn redirects(
        &mut self,
        route: &Route,
        variables: &Variables,
        target: &str,
        status: i64,
        origin: Origin,
        place: &Place<'_, 'd>,
    ) -> Vec<Route> {
        let mut targets: Vec<(Option<&str>, String)> = vec![(None, target.to_owned())];
        if let Some(rest) = target.strip_prefix("$scheme://").or_else(|| target.strip_prefix("${scheme}://"))
        {
            let schemes = [("http", place.server.has_plaintext), ("https", place.server.has_tls)];
            let used = schemes.iter().filter(|(_, is_used)| *is_used).count();
            targets = schemes
                .iter()
                .filter(|(_, is_used)| *is_used)
                .map(|(scheme, _)| ((used > 1).then_some(*scheme), format!("{scheme}://{rest}")))
                .collect();
        }
        let mut routes = Vec::new();
        for (scheme, target) in targets {
            let target = target.strip_prefix("//").map_or(target.clone(), |rest| format!("https://{rest}"));
            let ours = variables.template(&target).and_then(|ours| safe_target(&ours).map(|()| ours));
            let mut route = route.clone();
            match ours {
                Ok(ours) => route.table.set("redirect", redirect(&ours, status, origin), origin),
                Err(variable) => {
                    let why = format!("its target has ${variable}, for which Keepwarm has no variable");
                    self.ledger.lost(origin, why, "write `redirect` of the route by hand");
                    route.table.set("respond", 501i64, origin);
                }
            }
            if let Some(scheme) = scheme {
                route.table.set("scheme", scheme, None);
            }
            routes.extend(self.finish(place, Target::Fixed, route));
        }
        routes
    }

    /// `rewrite EXPRESSION REPLACEMENT [FLAG]` of a server or location.
    pub(super) fn rewrite(&mut self, place: &Place<'_, 'd>, directive: &Directive) -> Vec<Route> {
        let (origin, flag) = (directive.origin, directive.arg(2));
        let todo = "write it as `rewrite` or `redirect` of a route by hand";
        let encoded = crate::expression::encoded(directive.arg(0))
            .ok_or_else(|| "paths are compared in their encoded form".to_owned());
        let pattern = match encoded.and_then(|pattern| self.expression(&pattern, false)) {
            Ok(pattern) => pattern,
            Err(why) => {
                self.ledger.lost(origin, why, todo);
                return Vec::new();
            }
        };
        if is_elsewhere(&place.path, &pattern) {
            self.ledger.ignored(origin, "no path of its location matches it");
            return Vec::new();
        }
        let Some(path) = narrowed(&place.path, &pattern) else {
            self.ledger.lost(origin, "its expression matches other paths than its location", todo);
            return Vec::new();
        };
        let replacement = directive.arg(1);
        let mut variables = Variables { groups: groups(&pattern), ..place.variables.clone() };
        self.use_maps(replacement, &mut variables);
        let is_absolute =
            ["http://", "https://", "$scheme"].iter().any(|start| replacement.starts_with(start));
        if is_absolute || matches!(flag, "permanent" | "redirect") {
            let status = if flag == "permanent" { 301 } else { 302 };
            let target = with_query(replacement, "$is_args$args", "&$args");
            let route = place.route(path);
            return self.redirects(&route, &variables, &target, status, origin, place);
        }
        self.internal_rewrite(place, directive, path, &variables)
    }

    /// `last`, `break` or no flag: another path within the server.
    fn internal_rewrite(
        &mut self,
        place: &Place<'_, 'd>,
        directive: &Directive,
        path: PathMatch,
        variables: &Variables,
    ) -> Vec<Route> {
        let origin = directive.origin;
        let replacement = directive.arg(1);
        let ours = with_query(replacement, "", "&$args");
        // A `?` at the end of a replacement leaves the query out.
        let ours = if replacement.ends_with('?') && !ours.contains('?') { format!("{ours}?") } else { ours };
        let template = match variables.template(&ours) {
            Ok(template) if template.starts_with('/') => template,
            Ok(template) if template.starts_with('$') => {
                template.strip_prefix("$path").map_or(format!("/{template}"), |rest| format!("/{rest}"))
            }
            Ok(_) => {
                self.ledger.lost(
                    origin,
                    "its replacement is not a path",
                    "write it as `rewrite` of a route by hand",
                );
                return Vec::new();
            }
            Err(variable) => {
                let why = format!("its replacement has ${variable}, for which Keepwarm has no variable");
                self.ledger.lost(origin, why, "write it as `rewrite` of a route by hand");
                return Vec::new();
            }
        };
        // The prefix is a part of the name of no file now.
        let path = match path {
            PathMatch::Begin(prefix) if prefix != "/" => {
                PathMatch::Regex(format!("^{}", crate::model::escape(&crate::model::encoded(&prefix))))
            }
            path => path,
        };
        if directive.arg(2) == "break" && place.path != PathMatch::Any {
            let inner = Place {
                outer: place.outer.clone(),
                path,
                variables: variables.clone(),
                ..place.redirected(place.scope.clone(), origin)
            };
            let routes = self.content(&inner);
            return self.with_rewrite(routes, &template, origin);
        }
        let target = place.server.locations.choose(&example(replacement)).cloned();
        let mut routes = Vec::new();
        for other in super::targets::others(&place.server.locations, target.as_ref(), replacement) {
            match super::targets::narrowed(directive.arg(0), replacement, &other) {
                Some(narrow) if self.expression(&narrow, false).is_ok() => {
                    let path = PathMatch::Regex(narrow);
                    routes.extend(self.rewritten(place, directive, path, variables, Some(&other), &template));
                }
                _ => {
                    let why = format!(
                        "it can lead to `location {}`, which is not looked for after a rewrite",
                        other.directive.args.join(" ")
                    );
                    self.ledger.lost(origin, why, REWRITE_TODO);
                    if super::targets::is_guarded(&other, target.as_ref()) {
                        return vec![Route { path, ..place.closed(origin) }];
                    }
                }
            }
        }
        routes.extend(self.rewritten(place, directive, path, variables, target.as_ref(), &template));
        routes
    }

    /// What a location does with a path that was rewritten.
    fn rewritten(
        &mut self,
        place: &Place<'_, 'd>,
        directive: &Directive,
        path: PathMatch,
        variables: &Variables,
        target: Option<&Location<'d>>,
        template: &str,
    ) -> Vec<Route> {
        let origin = directive.origin;
        let scope = target.map_or_else(|| place.server.scope.clone(), |location| location.scope.clone());
        let inner = Place {
            outer: place.outer.clone(),
            path,
            variables: variables.clone(),
            ..place.redirected(scope, origin)
        };
        if self.redirects >= REDIRECTS_LIMIT {
            self.ledger.lost(origin, "its location leads to another one again and again", REWRITE_TODO);
            return vec![inner.closed(origin)];
        }
        self.redirects += 1;
        let routes = self.routes_of_target(directive, inner, target, template);
        self.redirects -= 1;
        routes
    }

    fn routes_of_target(
        &mut self,
        directive: &Directive,
        mut inner: Place<'_, 'd>,
        target: Option<&Location<'d>>,
        template: &str,
    ) -> Vec<Route> {
        let origin = directive.origin;
        let mut routes = Vec::new();
        if let Some(location) = target {
            self.ledger.carried(location.directive.origin);
            if let Some(root) = location.scope.one("root") {
                inner.variables.root = super::server::absolute(root.arg(0));
            }
            match self.target_phase(&inner, directive.arg(1)) {
                Ok((phase, true)) => return phase,
                Ok((phase, false)) => routes.extend(phase),
                Err(why) => {
                    self.ledger.lost(origin, why, REWRITE_TODO);
                    return vec![inner.closed(origin)];
                }
            }
        }
        routes.extend(self.content(&inner));
        self.with_rewrite(routes, template, origin)
    }

    /// `if` and `return` of the location that a rewrite leads to; whether nothing comes after them.
    fn target_phase(
        &mut self,
        place: &Place<'_, 'd>,
        replacement: &str,
    ) -> Result<(Vec<Route>, bool), String> {
        let mut routes = Vec::new();
        for directive in place.scope.own() {
            let of_path = |inner: &Directive| {
                inner.args.iter().flat_map(|arg| pieces(arg)).any(|piece| {
                    matches!(piece, Piece::Variable(name) if matches!(name, "uri" | "document_uri") || name.parse::<u8>().is_ok())
                })
            };
            let why = || format!("its location has a `{}` on the new path", directive.name);
            match directive.name.as_str() {
                "rewrite" if may_match(replacement, directive.arg(0)) => return Err(why()),
                "if" if of_path(directive)
                    || directive.children().iter().any(|inner| inner.name == "rewrite" || of_path(inner)) =>
                {
                    return Err(why());
                }
                "if" => routes.extend(self.condition(place, directive)),
                "return" if of_path(directive) => return Err(why()),
                "return" => {
                    routes.extend(self.returned(place, directive, &Table::default()));
                    return Ok((routes, true));
                }
                "break" => break,
                _ => {}
            }
        }
        Ok((routes, false))
    }

    /// Sets the new path, where it matters.
    fn with_rewrite(&mut self, mut routes: Vec<Route>, template: &str, origin: Origin) -> Vec<Route> {
        for route in &mut routes {
            if ["app", "upstream", "files"].iter().any(|key| route.table.has(key)) {
                let has_own = route.table.has("rewrite");
                match has_own {
                    true => self.ledger.lost(
                        origin,
                        "the location changes the path again",
                        "write the `rewrite` of the route by hand",
                    ),
                    false => route.table.set("rewrite", template, origin),
                }
            }
        }
        self.ledger.carried(origin);
        routes
    }

    /// What serves the request.
    pub(super) fn content(&mut self, place: &Place<'_, 'd>) -> Vec<Route> {
        let mut routes = self.limit_except(place);
        routes.extend(self.handler(place));
        routes
    }

    pub(super) fn handler(&mut self, place: &Place<'_, 'd>) -> Vec<Route> {
        let own = |name: &str| place.scope.own_one(name);
        if let Some(pass) = own("proxy_pass").or_else(|| own("grpc_pass")) {
            return self.proxied(place, pass);
        }
        if let Some(pass) = own("fastcgi_pass") {
            return self.scripts(place, pass);
        }
        for name in ["uwsgi_pass", "scgi_pass", "memcached_pass"] {
            let Some(pass) = own(name) else { continue };
            let todo = "let Keepwarm run the app itself: `entry` of an `[app.NAME]`, such as \"shop.wsgi:application\"";
            self.ledger.lost(
                pass.origin,
                format!("Keepwarm has no {}", name.trim_end_matches("_pass")),
                todo,
            );
            return vec![place.closed(pass.origin)];
        }
        if let Some(program) = place.scope.own().iter().find(|inner| is_program(&inner.name)) {
            return vec![place.closed(program.origin)];
        }
        // The methods that `limit_except` limits get files only.
        if let Some(files) = own("try_files").filter(|_| !place.scope.is_limited()) {
            return self.try_files(place, files);
        }
        self.static_files(place)
    }
}

/// Directives whose program makes the response.
fn is_program(name: &str) -> bool {
    matches!(name, "js_content" | "perl") || name.starts_with("content_by_lua")
}

/// The value of `redirect`.
pub(crate) fn redirect(target: &str, status: i64, origin: Origin) -> Value {
    if status == 307 {
        return target.into();
    }
    let mut table = Table::default();
    table.set("to", target, origin);
    table.set("status", status, origin);
    table.into()
}

/// A client must not choose the host; an error has the variable that it would choose by.
pub(crate) fn safe_target(target: &str) -> Result<(), String> {
    let Some((_, rest)) = target.split_once("://") else {
        return match target.starts_with('/') || target.starts_with("$map_") {
            true => Ok(()),
            false => Err(target.trim_start_matches('$').to_owned()),
        };
    };
    let host = rest.split(['/', '?', '#']).next().unwrap_or("");
    match host.strip_prefix('$') {
        Some(name) if !name.starts_with("host") && !name.starts_with("map_") && !host.contains('.') => {
            Err(name.to_owned())
        }
        _ => Ok(()),
    }
}

/// A replacement with the query of the request, as `rewrite` appends it.
fn with_query(replacement: &str, alone: &str, further: &str) -> String {
    match (replacement.strip_suffix('?'), replacement.contains('?')) {
        (Some(without), _) => without.to_owned(),
        (None, true) => format!("{replacement}{further}"),
        // `$request_uri` has it already.
        (None, false) if replacement.contains("$request_uri") => replacement.to_owned(),
        (None, false) => format!("{replacement}{alone}"),
    }
}

/// Whether an expression matches no path of a location.
fn is_elsewhere(path: &PathMatch, pattern: &str) -> bool {
    match (path, beginning(pattern)) {
        (PathMatch::Exact(exact), _) => {
            let regex = regex::bytes::RegexBuilder::new(pattern).unicode(false).build();
            regex.is_ok_and(|regex| !regex.is_match(exact.as_bytes()))
        }
        (PathMatch::Begin(prefix), Some(begin)) => !begin.starts_with(prefix) && !prefix.starts_with(&begin),
        _ => false,
    }
}

/// The expression of a rewrite within a location; `None`: the location is for other paths.
fn narrowed(path: &PathMatch, pattern: &str) -> Option<PathMatch> {
    let begin = beginning(pattern);
    let is_all =
        ["^", "^/", ".*", "^.*$", "^(.*)$", "(.*)", "^.*", "^/(.*)$", "^/(.*)", "^(.*)"].contains(&pattern);
    match path {
        PathMatch::Any => match pattern {
            "^" | ".*" | "^/" | "^.*$" | "^.*" => Some(PathMatch::Any),
            _ => Some(PathMatch::Regex(pattern.to_owned())),
        },
        PathMatch::Begin(prefix) if begin.as_ref().is_some_and(|begin| begin.starts_with(prefix)) => {
            Some(PathMatch::Regex(pattern.to_owned()))
        }
        PathMatch::Begin(prefix) if prefix == "/" => Some(PathMatch::Regex(pattern.to_owned())),
        PathMatch::Begin(_) | PathMatch::Exact(_)
            if matches!(pattern, "^" | ".*" | "^/" | "^.*$" | "^.*") =>
        {
            Some(path.clone())
        }
        PathMatch::Begin(prefix) if is_all => {
            let rest = if prefix.starts_with('/') { prefix.get(1..).unwrap_or("") } else { prefix };
            // The group has the path with the prefix.
            Some(PathMatch::Regex(match pattern.starts_with("^/(") {
                true => format!("^/({}.*)$", crate::model::escape(rest)),
                false => format!("^({}.*)$", crate::model::escape(prefix)),
            }))
        }
        PathMatch::Exact(exact) => {
            let regex = regex::bytes::RegexBuilder::new(pattern).unicode(false).build().ok()?;
            (regex.is_match(exact.as_bytes()) && regex.captures_len() == 1).then(|| path.clone())
        }
        PathMatch::Regex(own) if own == pattern || is_all => {
            Some(path.clone()).filter(|_| !is_all || !pattern.contains('('))
        }
        _ => None,
    }
}

/// A path that a replacement can give, to choose the location by.
fn example(replacement: &str) -> String {
    let path = replacement.split('?').next().unwrap_or("");
    pieces(path)
        .into_iter()
        .map(|piece| match piece {
            Piece::Text(text) => text,
            Piece::Variable("uri" | "request_uri") => "/x",
            Piece::Variable(_) => "x",
        })
        .collect()
}

/// Whether nothing of the same block comes after a rewrite that matches.
fn ends_rewrites(rewrite: &Directive) -> bool {
    !rewrite.arg(2).is_empty()
        || ["http://", "https://", "$scheme"].iter().any(|start| rewrite.arg(1).starts_with(start))
}

/// Whether an expression may match the path that a replacement gives.
fn may_match(replacement: &str, pattern: &str) -> bool {
    let path = replacement.split('?').next().unwrap_or("");
    let pieces = pieces(path);
    if !pieces.iter().any(|piece| matches!(piece, Piece::Variable(_))) {
        let regex = regex::bytes::RegexBuilder::new(pattern).unicode(false).build();
        return regex.map_or(true, |regex| regex.is_match(path.as_bytes()));
    }
    let start = match pieces.first() {
        Some(Piece::Text(text)) => text,
        _ => "",
    };
    beginning(pattern).is_none_or(|begin| start.starts_with(&begin) || begin.starts_with(start))
}

fn is_text(media: &str) -> bool {
    let media = media.split(';').next().unwrap_or("").trim();
    matches!(media, "text/plain" | "text/html" | "text/xml" | "application/json" | "application/xml")
        || media.ends_with("+json")
        || media.ends_with("+xml")
}
