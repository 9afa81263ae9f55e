//! Static files: `root`, `alias`, `index`.

use super::Reader;
use super::action::{Place, Target};
use super::location::{Kind, Location};
use super::server::absolute;
use super::syntax::Directive;
use crate::ledger::Origin;
use crate::model::{PathMatch, Route, encoded, escape};
use crate::table::one_or_list;

impl<'d> Reader<'d, '_> {
    /// A place without a handler: files of its root, unless its index is a script.
    pub(super) fn static_files(&mut self, place: &Place<'_, 'd>) -> Vec<Route> {
        let is_whole =
            matches!(&place.path, PathMatch::Any) || place.path == PathMatch::Begin("/".to_owned());
        if is_whole && let Some(script) = self.pending_front.take() {
            return self.pass_to_script(place, &script, place.origin);
        }
        if let Some((script, index)) = self.index_script(place) {
            let routes = self.pass_to_script(place, &script, index);
            self.ledger.differs(
                index,
                "the entry script handles requests for which there is no file, in place of 404",
            );
            return routes;
        }
        let mut route = place.route(place.path.clone());
        if !self.root(place, &mut route) {
            // Only what a block says itself: nginx would serve its own default pages.
            let status = Route::status(place.origin, place.path.clone(), 404);
            return self.access(place, Route { except: place.except.clone(), ..status });
        }
        self.index(place, &mut route);
        if let Some(links) = place.scope.one("disable_symlinks").filter(|links| links.arg(0) != "off") {
            self.ledger.lost(
                links.origin,
                "links that stay in the directory are followed",
                "remove links from the directory, or serve a copy of it",
            );
        }
        let rest = self.beside_alias(place, &route);
        let mut routes = self.index_rules(place);
        routes.extend(self.finish(place, Target::Files, route));
        routes.extend(rest);
        routes
    }

    /// Sets `files`, and what it needs; whether there is a directory.
    fn root(&mut self, place: &Place<'_, 'd>, route: &mut Route) -> bool {
        if let Some(alias) = place.scope.own_one("alias") {
            return self.alias(place, alias, route);
        }
        let roots = place.scope.any_of(&["root", "alias"]);
        let Some(root) = roots.first().copied() else { return false };
        if root.name == "alias" {
            return self.outer_alias(place, root, route);
        }
        let path = absolute(root.arg(0));
        let Ok(template) = place.variables.template(&path) else {
            self.ledger.lost(
                root.origin,
                format!("`{path}` has a variable that no directory can have"),
                "write `files` of the route by hand",
            );
            return false;
        };
        // With the pattern `/x/*`, the prefix is not part of the name.
        let is_prefix =
            matches!(&route.path, PathMatch::Begin(prefix) if prefix.ends_with('/') && prefix != "/");
        let directory = match &route.path {
            PathMatch::Begin(prefix) if is_prefix => format!("{template}/{}", prefix.trim_matches('/')),
            _ => template,
        };
        route.table.set("files", directory, root.origin);
        true
    }

    /// Paths of a location that are not below its alias: `/a` and `/ab` of `location /a`.
    fn beside_alias(&mut self, place: &Place<'_, 'd>, route: &Route) -> Vec<Route> {
        let PathMatch::Begin(prefix) = &place.path else { return Vec::new() };
        if place.scope.own_one("alias").is_none() || route.path == place.path {
            return Vec::new();
        }
        let mut routes = Vec::new();
        if matches!(route.path, PathMatch::Begin(_)) {
            let mut slash = place.route(PathMatch::Exact(prefix.clone()));
            let to = super::action::redirect(&format!("{}/$query", encoded(prefix)), 301, place.origin);
            slash.table.set("redirect", to, place.origin);
            routes.extend(self.access(place, slash));
        }
        let mut rest = place.route(place.path.clone());
        rest.table.set("respond", 404i64, place.origin);
        routes.extend(self.access(place, rest));
        routes
    }

    /// The alias of a location around this one.
    fn outer_alias(&mut self, place: &Place<'_, 'd>, alias: &Directive, route: &mut Route) -> bool {
        let around =
            place.server.locations.all().iter().find(|location| {
                location.scope.own_one("alias").is_some_and(|own| own.origin == alias.origin)
            });
        let text = around.map_or("", |location| location.text.as_str());
        let target = alias.arg(0);
        let is_plain = text.ends_with('/') && target.ends_with('/') && !target.contains('$');
        let expression = format!("^{}.*(?", escape(text));
        match &place.path {
            PathMatch::Begin(prefix) if is_plain && prefix.ends_with('/') && prefix.starts_with(text) => {
                let rest = prefix.strip_prefix(text).unwrap_or("");
                route.table.set("files", trimmed(&format!("{target}{rest}")), alias.origin);
            }
            PathMatch::Regex(pattern) if is_plain && pattern.starts_with(&expression) => {
                let start = format!("^{}", escape(text));
                let rest = pattern.strip_prefix(&start).unwrap_or("");
                let (inside, end) = rest.strip_suffix("$)").map_or((rest, ""), |inside| (inside, "$)"));
                // One group has the name within the directory.
                let inside = match end.is_empty() {
                    true => format!("{inside}.*"),
                    false => format!("{inside}{end}"),
                };
                route.path = PathMatch::Regex(format!("{start}({inside})"));
                route.table.set("files", trimmed(target), alias.origin);
                route.table.set("rewrite", "/$1", alias.origin);
            }
            _ => {
                self.ledger.lost(
                    alias.origin,
                    "a location within the one of an alias has files of its own",
                    "write `files` and `rewrite` by hand",
                );
                return false;
            }
        }
        true
    }

    /// What applies to the index of a directory: nginx looks for the location of `/x/index.html` on `/x/`.
    fn index_rules(&mut self, place: &Place<'_, 'd>) -> Vec<Route> {
        let names: Vec<String> = match place.scope.one("index") {
            Some(index) => index.args.iter().filter(|name| !name.contains(['/', '$'])).cloned().collect(),
            None => vec!["index.html".to_owned()],
        };
        let prefix = match &place.path {
            PathMatch::Any => "/",
            PathMatch::Begin(prefix) => prefix.as_str(),
            PathMatch::Exact(path) if path.ends_with('/') => path.as_str(),
            PathMatch::Regex(pattern) if pattern.ends_with("/$") => {
                self.ledger.lost(
                    place.origin,
                    "the location of the index of a directory is not looked for",
                    "write a route for the paths of directories by hand; they get 501",
                );
                return vec![place.closed(place.origin)];
            }
            PathMatch::Exact(_) | PathMatch::Regex(_) | PathMatch::Patterns(_) => return Vec::new(),
        };
        let alias = place.scope.own_one("alias");
        if place.outer.is_some()
            || super::access::denies_all(&place.scope)
            || (alias.is_some() && is_file(prefix))
        {
            return Vec::new();
        }
        if let PathMatch::Exact(path) = &place.path
            && let Some(name) = names.first()
            && place.server.locations.choose(&format!("{path}{name}")).is_none()
            && super::targets::is_other(&place.server.scope, &place.scope)
        {
            // The index is served by the server itself.
            return self.content(&place.redirected(place.server.scope.clone(), place.origin));
        }
        let all: Vec<Location<'d>> = place.server.locations.ordered().into_iter().cloned().collect();
        let is_own = |path: &str| {
            let chosen = place.server.locations.choose(path);
            chosen.map_or(place.server.origin, |location| location.directive.origin) == place.origin
        };
        let mut routes = Vec::new();
        for location in all.iter().filter(|location| location.directive.origin != place.origin) {
            let found = names.iter().filter(|name| !name.ends_with(".php")).find_map(|name| {
                if let PathMatch::Exact(path) = &place.path {
                    let chosen = place.server.locations.choose(&format!("{path}{name}"));
                    let is_it =
                        chosen.is_some_and(|chosen| chosen.directive.origin == location.directive.origin);
                    return is_it.then(|| place.path.clone());
                }
                if location.kind != Kind::Regex {
                    let directory = location.text.strip_suffix(name.as_str())?;
                    let fits = directory.ends_with('/') && directory.starts_with(prefix) && is_own(directory);
                    return fits.then(|| PathMatch::Exact(directory.to_owned()));
                }
                // `location ~ ^/admin/.+$` has the index of /admin/, but not /admin/ itself.
                let start = crate::expression::beginning(&location.text).unwrap_or_default();
                let start = start.rfind('/').and_then(|at| start.get(..=at)).unwrap_or("");
                let is_start = start.starts_with(prefix)
                    && is_own(start)
                    && place
                        .server
                        .locations
                        .choose(&format!("{start}{name}"))
                        .is_some_and(|chosen| chosen.directive.origin == location.directive.origin);
                if is_start && start != prefix {
                    return Some(PathMatch::Exact(start.to_owned()));
                }
                let directories = [prefix.to_owned(), format!("{}/x/", prefix.trim_end_matches('/'))];
                let fits = directories.iter().any(|directory| {
                    let chosen = place.server.locations.choose(&format!("{directory}{name}"));
                    directory.ends_with('/')
                        && is_own(directory)
                        && chosen.is_some_and(|chosen| chosen.directive.origin == location.directive.origin)
                });
                fits.then(|| {
                    let any = if prefix.ends_with('/') { "((?:.*/)?)" } else { ".*/" };
                    PathMatch::Regex(format!("^{}{any}$", escape(&encoded(prefix))))
                })
            });
            let Some(path) = found.filter(|_| super::targets::is_other(&location.scope, &place.scope)) else {
                continue;
            };
            let within = Place {
                path: path.clone(),
                ..place.redirected(location.scope.clone(), location.directive.origin)
            };
            let is_plain = super::targets::serves_files(&location.scope)
                && alias.is_none()
                && location.scope.any_of(&["root", "alias"]).first().is_some_and(|root| root.name == "root");
            let is_aliased = alias
                .is_some_and(|alias| alias.arg(0).ends_with('/') && !alias.arg(0).contains('$'))
                && matches!(path, PathMatch::Regex(_))
                && prefix.ends_with('/')
                && super::targets::serves_files(&location.scope)
                && !["return", "if", "rewrite", "limit_except", "root", "alias"]
                    .iter()
                    .any(|name| location.scope.own_one(name).is_some());
            if let (true, Some(alias)) = (is_aliased, alias) {
                let mut route = within.route(path);
                route.table.set("files", trimmed(alias.arg(0)), alias.origin);
                route.table.set("rewrite", "/$1", alias.origin);
                self.index(place, &mut route);
                routes.extend(self.finish(&within, Target::Files, route));
                continue;
            }
            if !is_plain {
                self.ledger.lost(
                    location.directive.origin,
                    "it is not looked for for the index of a directory",
                    "write a route for the paths of directories by hand",
                );
                routes.push(within.closed(location.directive.origin));
                continue;
            }
            routes.extend(self.place(&within));
        }
        routes
    }

    fn alias(&mut self, place: &Place<'_, 'd>, alias: &Directive, route: &mut Route) -> bool {
        let Ok(target) = place.variables.template(alias.arg(0)) else {
            self.ledger.lost(
                alias.origin,
                "it has a variable that no directory can have",
                "write `files` of the route by hand",
            );
            return false;
        };
        match &place.path {
            PathMatch::Exact(_) => {
                let (directory, name) = target.rsplit_once('/').unwrap_or(("", &target));
                route.table.set("files", directory, alias.origin);
                route.table.set("rewrite", format!("/{name}"), alias.origin);
            }
            PathMatch::Begin(prefix) if prefix.ends_with('/') && !target.ends_with('/') => {
                self.ledger.lost(
                    alias.origin,
                    format!("it does not end with a slash, as its location does: nginx serves {target}NAME"),
                    "write `files` of the route by hand",
                );
                return false;
            }
            PathMatch::Begin(prefix) if prefix == "/" => {
                route.table.set("files", trimmed(&target), alias.origin)
            }
            PathMatch::Begin(prefix) if is_file(prefix) && is_file(&target) => {
                let (directory, name) = target.rsplit_once('/').unwrap_or(("", &target));
                route.path = PathMatch::Exact(prefix.clone());
                route.table.set("files", directory, alias.origin);
                route.table.set("rewrite", format!("/{name}"), alias.origin);
            }
            PathMatch::Begin(prefix) => {
                if !prefix.ends_with('/') {
                    route.path = PathMatch::Begin(format!("{prefix}/"));
                    if target.ends_with('/') {
                        self.ledger.differs(
                            alias.origin,
                            format!("{prefix}/… only: nginx would also serve {prefix}../"),
                        );
                    }
                }
                route.table.set("files", trimmed(&target), alias.origin);
            }
            // `location ~ ^/u/(.+)$ { alias /srv/u/$1; }`
            PathMatch::Regex(_) => {
                let Some((directory, rest)) = target.split_once("/$") else {
                    self.ledger.lost(
                        alias.origin,
                        "an alias of a regular expression needs a directory before its variables",
                        "write `files` and `rewrite` by hand",
                    );
                    return false;
                };
                route.table.set("files", directory, alias.origin);
                route.table.set("rewrite", format!("/${rest}"), alias.origin);
            }
            PathMatch::Any | PathMatch::Patterns(_) => return false,
        }
        true
    }

    fn index(&mut self, place: &Place<'_, 'd>, route: &mut Route) {
        if let Some(index) = place.scope.one("index") {
            let names: Vec<String> = index
                .args
                .iter()
                .filter(|name| !name.ends_with(".php") && !name.contains(['/', '$']))
                .cloned()
                .collect();
            match names.as_slice() {
                [only] if only == "index.html" => {
                    self.ledger.ignored(index.origin, "index.html, as by default")
                }
                [] => self.ledger.ignored(index.origin, "scripts are the app's"),
                _ => route.table.set("index", one_or_list(names), index.origin),
            }
        }
        let tries_directories = place
            .scope
            .own_one("try_files")
            .is_none_or(|files| files.args.iter().any(|candidate| candidate.ends_with('/')));
        match place.scope.one("autoindex").filter(|listing| listing.arg(0) == "on") {
            Some(listing) if tries_directories => route.table.set("listing", true, listing.origin),
            Some(listing) => self.ledger.ignored(listing.origin, "`try_files` tries no directory"),
            None => {}
        }
    }

    /// A script among the names of `index` that a location passes to FastCGI.
    fn index_script(&self, place: &Place<'_, 'd>) -> Option<(String, Origin)> {
        let index = place.scope.one("index")?;
        let name = index.args.iter().find(|name| name.ends_with(".php"))?;
        let PathMatch::Begin(prefix) = &place.path else {
            return (place.path == PathMatch::Any && self.runs(place, &format!("/{name}")))
                .then(|| (format!("/{name}"), index.origin));
        };
        let script = format!("{prefix}{name}");
        let is_directory = prefix.ends_with('/') && place.scope.own_one("alias").is_none();
        (is_directory && self.runs(place, &script)).then_some((script, index.origin))
    }

    fn runs(&self, place: &Place<'_, 'd>, script: &str) -> bool {
        let location = place.server.locations.choose(script);
        location.is_some_and(|location| location.scope.own_one("fastcgi_pass").is_some())
    }
}

/// Whether a path looks like that of a file: `/favicon.ico`.
fn is_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or("");
    name.find('.').is_some_and(|at| at > 0)
}

pub(super) fn trimmed(path: &str) -> String {
    match path.trim_end_matches('/') {
        "" => "/".to_owned(),
        trimmed => trimmed.to_owned(),
    }
}
