//! Who may use a route: addresses, passwords, another service; and locations that clients cannot use.

use super::Reader;
use super::action::Place;
use super::location::Kind;
use super::server::{Server, configured};
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

impl<'d> Reader<'d, '_> {
    pub(super) fn access(&mut self, place: &Place<'_, 'd>, mut route: Route) -> Vec<Route> {
        let clients = self.clients(place);
        let satisfy_any = place.scope.one("satisfy").filter(|satisfy| satisfy.arg(0) == "any");
        let mut auth = Table::default();
        self.basic_auth(place, &mut auth);
        self.auth_request(place, &mut auth);
        if self.is_unguarded(place, &auth) {
            // A rule that has no counterpart must not leave its paths open.
            let mut closed = Route::status(route.origin, route.path.clone(), 501);
            closed.except = route.except.clone();
            for key in ["host", "client", "scheme", "method"] {
                closed.table.items.extend(route.table.remove(key));
            }
            return vec![closed];
        }
        if let (Some(satisfy), Some((Clients::Only(list), origin)), false) =
            (satisfy_any, &clients, auth.is_empty())
        {
            // Known clients need no password: a route for them, and one for everybody.
            self.ledger.carried(satisfy.origin);
            let mut known = route.clone();
            known.table.set("client", list.clone(), *origin);
            route.table.items.extend(auth.items);
            return vec![known, route];
        }
        if let Some(satisfy) = place.scope.one("satisfy") {
            match (satisfy.arg(0) == "any", auth.is_empty(), &clients) {
                (true, false, Some((Clients::Except(_), _))) => {
                    self.ledger.lost(
                        satisfy.origin,
                        "all of the rules must be met",
                        "write two routes, one with `client`",
                    );
                }
                _ => self.ledger.carried(satisfy.origin),
            }
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

    /// Whether a rule of authentication is in force that was not converted.
    fn is_unguarded(&self, place: &Place<'_, 'd>, auth: &Table) -> bool {
        if GUARDS.iter().any(|guard| place.scope.one(guard).is_some_and(|rule| rule.arg(0) != "off")) {
            return true;
        }
        [("auth_basic", "basic_auth"), ("auth_request", "auth_request")].iter().any(|(theirs, ours)| {
            place.scope.one(theirs).is_some_and(|rule| rule.arg(0) != "off") && !auth.has(ours)
        })
    }

    fn clients(&mut self, place: &Place<'_, 'd>) -> Option<(Clients, Origin)> {
        let rules = place.scope.any_of(&["allow", "deny"]);
        let origin = rules.first()?.origin;
        let mut list = Vec::new();
        for rule in &rules {
            let verdict = if rule.name == "allow" { Verdict::Allow } else { Verdict::Deny };
            let text = if rule.arg(0) == "unix:" { "127.0.0.1" } else { rule.arg(0) };
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
        Some((resolve(&list, Verdict::Allow)?, origin))
    }

    fn basic_auth(&mut self, place: &Place<'_, 'd>, out: &mut Table) {
        let Some(realm) = place.scope.one("auth_basic") else { return };
        if realm.arg(0) == "off" {
            self.ledger.carried(realm.origin);
            return;
        }
        let Some(file) = place.scope.one("auth_basic_user_file").filter(|file| !file.arg(0).contains('$'))
        else {
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

    fn auth_request(&mut self, place: &Place<'_, 'd>, out: &mut Table) {
        let Some(auth) = place.scope.one("auth_request") else { return };
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
