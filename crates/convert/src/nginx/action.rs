//! What a server or a location does with a request: routes.

use super::Reader;
use super::location::{Kind, Location};
use super::scope::Scope;
use super::server::Server;
use super::syntax::Directive;
use super::variables::{Piece, Variables, groups, pieces};
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

/// Statuses with which a `return` redirects.
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
    pub(super) fn redirects(
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

fn is_text(media: &str) -> bool {
    let media = media.split(';').next().unwrap_or("").trim();
    matches!(media, "text/plain" | "text/html" | "text/xml" | "application/json" | "application/xml")
        || media.ends_with("+json")
        || media.ends_with("+xml")
}
