//! Who may use a route: addresses, passwords, another service; and locations that clients cannot use.

use super::Reader;
use super::action::Place;
use super::location::Kind;
use super::scope::Scope;
use super::server::{Server, Sockets, configured};
use super::syntax::Directive;
use crate::cidr::{Clients, Verdict, resolve};
use crate::ledger::Origin;
use crate::model::Route;
use crate::table::Table;

/// Rules that have no counterpart.
const GUARDS: [&str; 14] = [
    "access_by_lua",
    "access_by_lua_block",
    "access_by_lua_file",
    "rewrite_by_lua",
    "rewrite_by_lua_block",
    "rewrite_by_lua_file",
    "js_access",
    "auth_jwt",
    "auth_digest",
    "auth_gss",
    "auth_ldap",
    "auth_pam",
    "auth_spnego",
    "auth_oidc",
];

/// The rules in force in a place, each with the block that it is of.
struct Rules<'d> {
    clients: Scope<'d>,
    basic: Scope<'d>,
    request: Scope<'d>,
    satisfy: Option<&'d Directive>,
}

/// Rules that a route has each of once.
const KINDS: [&[&str]; 3] = [&["allow", "deny"], &["auth_basic"], &["auth_request"]];

/// The rules of a location, and of the one that led to it; `None`: a route cannot have both.
fn rules<'d>(place: &Place<'_, 'd>) -> Option<Rules<'d>> {
    let inner = &place.scope;
    let outer = place.outer.as_ref().unwrap_or(inner);
    let (ours, before) = (in_force(inner), in_force(outer));
    let has = |rules: &[Vec<Origin>; 3]| rules.iter().any(|kind| !kind.is_empty());
    let is_any = |scope: &Scope<'_>| scope.one("satisfy").is_some_and(|satisfy| satisfy.arg(0) == "any");
    if has(&ours) && has(&before) && ours != before && (is_any(inner) || is_any(outer)) {
        return None;
    }
    let mut scopes = ours.iter().zip(&before).zip(KINDS).map(|((ours, before), names)| {
        match (ours.is_empty(), before.is_empty()) {
            (true, false) => Some(outer.clone()),
            (false, false) if ours != before && names == KINDS[0] && denies_all(inner) => Some(inner.clone()),
            (false, false) if ours != before && names == KINDS[0] && denies_all(outer) => Some(outer.clone()),
            (false, false) if ours != before => None,
            _ => Some(inner.clone()),
        }
    });
    let (clients, basic, request) = (scopes.next()??, scopes.next()??, scopes.next()??);
    let satisfy = if has(&ours) || !has(&before) { inner } else { outer }.one("satisfy");
    Some(Rules { clients, basic, request, satisfy })
}

/// Whether a location refuses everybody.
pub(super) fn denies_all(scope: &Scope<'_>) -> bool {
    scope.any_of(&["allow", "deny"]).first().is_some_and(|rule| rule.name == "deny" && rule.arg(0) == "all")
        && scope.one("satisfy").is_none_or(|satisfy| satisfy.arg(0) != "any")
}

/// Whether a location has no rules.
pub(super) fn is_open(scope: &Scope<'_>) -> bool {
    in_force(scope).iter().all(Vec::is_empty)
}

/// The directives of each kind that refuse anybody.
fn in_force(scope: &Scope<'_>) -> [Vec<Origin>; 3] {
    KINDS.map(|names| {
        let rules = scope.any_of(names);
        let refuses = match names {
            ["auth_basic"] => rules.iter().any(|rule| rule.arg(0) != "off"),
            ["auth_request"] => rules.iter().any(|rule| rule.arg(0) != "off"),
            _ => rules.iter().any(|rule| rule.name == "deny"),
        };
        let mut origins = if refuses { scope.origins(names) } else { Vec::new() };
        if refuses && names == ["auth_basic"] {
            origins.extend(scope.origins(&["auth_basic_user_file"]));
        }
        origins
    })
}

/// The route for what must not be open.
fn closed(route: &mut Route) -> Route {
    let mut closed = Route::status(route.origin, route.path.clone(), 501);
    closed.except = route.except.clone();
    for key in ["host", "client", "scheme", "method"] {
        closed.table.items.extend(route.table.remove(key));
    }
    closed
}

/// Whether a rule of authentication is in force that was not converted.
fn is_unguarded(place: &Place<'_, '_>, rules: &Rules<'_>, auth: &Table) -> bool {
    let scopes = [Some(&place.scope), place.outer.as_ref()];
    let has_guard = |scope: &Scope<'_>| {
        GUARDS.iter().any(|guard| scope.one(guard).is_some_and(|rule| rule.arg(0) != "off"))
    };
    if scopes.into_iter().flatten().any(has_guard) {
        return true;
    }
    [("auth_basic", "basic_auth", &rules.basic), ("auth_request", "auth_request", &rules.request)].iter().any(
        |(theirs, ours, scope)| scope.one(theirs).is_some_and(|rule| rule.arg(0) != "off") && !auth.has(ours),
    )
}

impl<'d> Reader<'d, '_> {
    pub(super) fn access(&mut self, place: &Place<'_, 'd>, mut route: Route) -> Vec<Route> {
        let Some(rules) = rules(place) else {
            self.ledger.lost(
                place.origin,
                "its access rules are in force, and others of the location that leads to it",
                "write a route with all of them by hand",
            );
            return vec![closed(&mut route)];
        };
        let satisfy = rules.satisfy.filter(|satisfy| satisfy.arg(0) == "any");
        let end = if satisfy.is_some() { Verdict::Deny } else { Verdict::Allow };
        let clients = self.clients(place, &rules.clients, end);
        let mut auth = Table::default();
        self.basic_auth(&rules.basic, &mut auth);
        self.auth_request(place, &rules.request, &mut auth);
        if is_unguarded(place, &rules, &auth) {
            // A rule that has no counterpart must not leave its paths open.
            return vec![closed(&mut route)];
        }
        if let Some(satisfy) = rules.satisfy {
            self.ledger.carried(satisfy.origin);
        }
        if let (Some(_), Some((clients, origin)), false) = (satisfy, &clients, auth.is_empty()) {
            // Known clients need no password: a route for them, and one for everybody.
            let known = match clients {
                Clients::All => return vec![route],
                Clients::None => Vec::new(),
                Clients::Only(list) => list.clone(),
                Clients::Except(list) => list.iter().map(|client| format!("!{client}")).collect(),
            };
            let mut routes = Vec::new();
            if !known.is_empty() {
                let mut open = route.clone();
                open.table.set("client", known, *origin);
                routes.push(open);
            }
            self.ledger.carried(*origin);
            route.table.items.extend(auth.items);
            routes.push(route);
            return routes;
        }
        match clients {
            None | Some((Clients::All, _)) => {}
            Some((Clients::Only(list), origin)) => route.table.set("allow", list, origin),
            Some((Clients::Except(list), origin)) => route.table.set("deny", list, origin),
            Some((Clients::None, origin)) => {
                // What it leads to does not matter.
                let mut denied = Route {
                    except: route.except.clone(),
                    ..Route::status(route.origin, route.path.clone(), 403)
                };
                denied.table.set("respond", 403i64, origin);
                for key in ["headers", "client", "scheme", "method"] {
                    denied.table.items.extend(route.table.remove(key));
                }
                return vec![denied];
            }
        }
        route.table.items.extend(auth.items);
        vec![route]
    }

    fn clients(
        &mut self,
        place: &Place<'_, 'd>,
        scope: &Scope<'d>,
        end: Verdict,
    ) -> Option<(Clients, Origin)> {
        let rules = scope.any_of(&["allow", "deny"]);
        let origin = rules.first()?.origin;
        let mut list = Vec::new();
        for rule in &rules {
            let verdict = if rule.name == "allow" { Verdict::Allow } else { Verdict::Deny };
            let text = match (rule.arg(0), place.server.sockets) {
                ("unix:", Sockets::None) => {
                    self.ledger.ignored(rule.origin, "no client comes by a Unix socket");
                    continue;
                }
                ("unix:", Sockets::Only) => "127.0.0.1",
                (text, _) => text,
            };
            if !crate::cidr::is_address(text) {
                self.ledger.lost(
                    rule.origin,
                    format!("`{text}` is not an address or a block"),
                    "set `allow` and `deny` of the route",
                );
                // The safe reading: nobody more than before.
                continue;
            }
            self.ledger.carried(rule.origin);
            list.push((verdict, text));
        }
        Some((resolve(&list, end)?, origin))
    }

    fn basic_auth(&mut self, scope: &Scope<'d>, out: &mut Table) {
        let Some(realm) = scope.one("auth_basic") else { return };
        if realm.arg(0) == "off" {
            self.ledger.carried(realm.origin);
            return;
        }
        let Some(file) = scope.one("auth_basic_user_file").filter(|file| !file.arg(0).contains('$')) else {
            self.ledger.lost(
                realm.origin,
                "it has no auth_basic_user_file with a fixed name",
                "set `basic_auth` of the route",
            );
            return;
        };
        let mut table = Table::default();
        let path = configured(file.arg(0));
        self.check_hashes(&path, file.origin);
        table.set("file", path, file.origin);
        let text: String = realm.arg(0).chars().filter(|c| !"\"\\".contains(*c) && !c.is_control()).collect();
        if !text.contains('$') && !text.is_empty() {
            table.set("realm", text, realm.origin);
        }
        out.set("basic_auth", table, realm.origin);
    }

    /// Keepwarm refuses hashes that are guessed within hours.
    fn check_hashes(&mut self, path: &str, origin: Origin) {
        let Ok(text) = self.files.read(std::path::Path::new(path)) else { return };
        let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
        let weak = lines.filter(|line| !line.contains(":$2") && !line.contains(":$argon2")).count();
        if weak > 0 {
            self.ledger.differs(
                origin,
                format!("{weak} of its hashes are not by bcrypt or argon2, and Keepwarm rejects the file; hash the passwords again: keepwarm hash-password --bcrypt --user NAME"),
            );
        }
    }

    fn auth_request(&mut self, place: &Place<'_, 'd>, scope: &Scope<'d>, out: &mut Table) {
        let Some(auth) = scope.one("auth_request") else { return };
        if auth.arg(0) == "off" {
            self.ledger.carried(auth.origin);
            return;
        }
        let todo = "set `auth_request` of the route: an upstream and its path";
        let location = place.server.locations.choose(auth.arg(0));
        let Some((location, pass)) =
            location.and_then(|location| Some((location, location.scope.own_one("proxy_pass")?)))
        else {
            self.ledger.lost(auth.origin, "it leads to no location with proxy_pass", todo);
            return;
        };
        let within = Place {
            server: place.server,
            scope: location.scope.clone(),
            outer: None,
            path: place.path.clone(),
            except: Vec::new(),
            variables: place.variables.clone(),
            origin: location.directive.origin,
        };
        let (name, uri) = match self.upstream(&within, pass) {
            Ok(found) => found,
            Err(why) => {
                self.ledger.lost(auth.origin, why, todo);
                return;
            }
        };
        for inner in location.directive.children() {
            let is_usual = matches!(
                inner.name.as_str(),
                "internal" | "proxy_pass_request_body" | "proxy_set_header" | "proxy_pass_request_headers"
            );
            if is_usual {
                self.ledger.ignored(
                    inner.origin,
                    "the service gets a GET without a body, with the client's headers and X-Original-URI",
                );
            }
        }
        let mut table = Table::default();
        table.set("upstream", name, pass.origin);
        let uri = uri.map(|uri| uri.split('$').next().unwrap_or("").to_owned()).filter(|uri| !uri.is_empty());
        table.set("path", uri.unwrap_or_else(|| auth.arg(0).to_owned()), auth.origin);
        let taken = self
            .taken_headers(place, "proxy_set_header")
            .into_iter()
            .chain(self.taken_headers(place, "fastcgi_param"));
        let headers: Vec<String> = taken.collect();
        if !headers.is_empty() {
            table.set("headers", headers, None);
        }
        let given = self.taken_headers(place, "add_header");
        if !given.is_empty() {
            table.set("response_headers", given, None);
        }
        for set in place.scope.every("auth_request_set") {
            self.ledger.carried(set.origin);
        }
        out.set("auth_request", table, auth.origin);
    }

    /// Headers of the service that are passed on, under their own name or another.
    fn taken_headers(&mut self, place: &Place<'_, 'd>, directive: &str) -> Vec<String> {
        let mut out: Vec<String> = Vec::new();
        for header in place.scope.all(directive) {
            let Some(source) = self.auth_variable(place, header.arg(1)) else { continue };
            let name = header.arg(0).trim_start_matches("HTTP_").replace('_', "-");
            match name.eq_ignore_ascii_case(&source) {
                true => self.ledger.carried(header.origin),
                false => self
                    .ledger
                    .differs(header.origin, format!("it has the name that the service gives it, {source}")),
            }
            if !out.contains(&source) {
                out.push(source);
            }
        }
        out
    }

    /// Directories of `internal` locations, which responses with X-Accel-Redirect name.
    pub(super) fn read_internal(&mut self, server: &Server<'d>) {
        for location in server.locations.all().iter().filter(|location| location.is_internal()) {
            let is_prefix = matches!(location.kind, Kind::Begin | Kind::Stop) && location.text.ends_with('/');
            let directory = match (location.scope.own_one("alias"), location.scope.own_one("root")) {
                (Some(alias), _) => Some((alias.arg(0).to_owned(), alias.origin)),
                (None, Some(root)) => {
                    Some((format!("{}{}", super::server::absolute(root.arg(0)), location.text), root.origin))
                }
                (None, None) => None,
            };
            if let (true, Some((directory, origin))) = (is_prefix, directory) {
                self.sends.push((location.text.clone(), directory.trim_end_matches('/').to_owned(), origin));
            }
        }
    }

    /// A client that requests an `internal` location gets 404.
    pub(super) fn internal(&mut self, place: &Place<'_, 'd>) -> Vec<Route> {
        for inner in place.scope.own().iter().filter(|inner| inner.name == "internal") {
            self.ledger.carried(inner.origin);
        }
        vec![Route { except: place.except.clone(), ..Route::status(place.origin, place.path.clone(), 404) }]
    }

    /// Apps may send the files of `internal` locations.
    pub(super) fn allow_internal(&mut self, routes: &mut [Route]) {
        for (prefix, directory, origin) in std::mem::take(&mut self.sends) {
            let mut is_used = false;
            for route in routes.iter_mut().filter(|route| route.table.has("app")) {
                route.table.set_in(&["send_files"], &prefix, directory.as_str(), origin);
                is_used = true;
            }
            if !is_used {
                let todo = "let Keepwarm run the app (`[app.NAME]`), whose X-Accel-Redirect it follows";
                self.ledger.dropped(origin, "X-Accel-Redirect of an upstream is not followed", todo);
            }
        }
    }
}
