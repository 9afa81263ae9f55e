//! Static files: `root`, `alias`, `index`, `try_files`.

use std::path::Path;

use super::Reader;
use super::action::{Place, Target};
use super::location::{Kind, Location};
use super::server::absolute;
use super::syntax::Directive;
use crate::ledger::Origin;
use crate::model::{FilesBefore, PathMatch, Route, encoded, escape};
use crate::table::one_or_list;

/// Entries of a public directory that become patterns.
const ENTRIES_LIMIT: usize = 64;

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

    /// `try_files CANDIDATE… FALLBACK`
    pub(super) fn try_files(&mut self, place: &Place<'_, 'd>, directive: &'d Directive) -> Vec<Route> {
        let Some((fallback, candidates)) = directive.args.split_last() else { return Vec::new() };
        let odd: Vec<&str> = candidates
            .iter()
            .map(String::as_str)
            .filter(|candidate| {
                !matches!(
                    *candidate,
                    "$uri" | "$uri/" | "$uri/index.html" | "$uri/index.htm" | "$document_root$uri"
                )
            })
            .collect();
        if !odd.is_empty() {
            self.ledger.differs(
                directive.origin,
                format!("files are found by their whole path: `{}` is not tried", odd.join("`, `")),
            );
        }
        let origin = directive.origin;
        if let Some(status) = fallback.strip_prefix('=') {
            self.ledger.carried(origin);
            if status != "404" {
                self.ledger.differs(origin, format!("a file that does not exist is 404, not {status}"));
            }
            return self.only_files(place, candidates, origin);
        }
        if fallback.starts_with('@') {
            return self.named_fallback(place, fallback, origin);
        }
        let path = fallback.split(['?']).next().unwrap_or("").split("$is_args").next().unwrap_or("");
        let path = path.replace("$uri", "").replace("//", "/");
        if path.ends_with(".php") {
            let has_arguments = fallback.split_once('?').is_some_and(|(_, args)| {
                args.contains('$') && !matches!(args, "$args" | "$query_string" | "$is_args$args")
            });
            if has_arguments {
                self.ledger.differs(origin, "the script finds the path in REQUEST_URI, not in the query");
            }
            self.ledger.carried(origin);
            return self.pass_to_script(place, &path, origin);
        }
        let location = place.server.locations.choose(&path).cloned();
        if let Some(location) = location.as_ref().filter(|location| location.directive.origin != place.origin)
            && let Some(routes) = self.returned_fallback(place, location, origin)
        {
            return routes;
        }
        match location {
            Some(location)
                if location.scope.own_one("proxy_pass").is_some()
                    && location.directive.origin != place.origin =>
            {
                self.before_upstream(place, &location.scope.clone(), location.directive.origin, origin)
            }
            _ => self.single_page(place, &path, origin),
        }
    }

    /// Files, and directories where they are tried.
    fn only_files(&mut self, place: &Place<'_, 'd>, candidates: &[String], origin: Origin) -> Vec<Route> {
        let has_directories =
            candidates.iter().any(|candidate| candidate.ends_with('/') || candidate.contains("/index."));
        let mut routes = Vec::new();
        if !has_directories && !matches!(&place.path, PathMatch::Exact(path) if !path.ends_with('/')) {
            // The paths of directories, which end with a slash.
            let mut missing = place.route(place.path.clone());
            missing.except.push("~[^/]$".to_owned());
            missing.table.set("respond", 404i64, origin);
            routes.extend(self.access(place, missing));
        }
        routes.extend(self.static_files(place));
        routes
    }

    /// The fallback to a location that only returns.
    fn returned_fallback(
        &mut self,
        place: &Place<'_, 'd>,
        location: &Location<'d>,
        origin: Origin,
    ) -> Option<Vec<Route>> {
        let returned = location.scope.own_one("return")?;
        self.ledger.carried(location.directive.origin);
        let others = ["if", "rewrite"].iter().any(|name| location.scope.own_one(name).is_some());
        match returned.arg(0).parse::<u16>() {
            Ok(status @ 400..=599) if !others => {
                if status != 404 {
                    let how = format!("a file that does not exist is 404, not {status}");
                    self.ledger.differs(returned.origin, how);
                }
                self.ledger.carried(returned.origin);
                self.ledger.carried(origin);
                let candidates =
                    place.scope.own_one("try_files").map_or(&[][..], |files| files.args.as_slice());
                Some(self.only_files(place, candidates, origin))
            }
            _ if tries_path(place) && self.names(place).is_none_or(|names| names.is_empty()) => {
                self.ledger.lost(
                    returned.origin,
                    "a file that does not exist is 404: its directory cannot be read here",
                    "write routes for the names of the directory by hand, and one for the rest",
                );
                Some(self.static_files(place))
            }
            _ => {
                Some(self.before_upstream(place, &location.scope.clone(), location.directive.origin, origin))
            }
        }
    }

    fn named_fallback(&mut self, place: &Place<'_, 'd>, name: &str, origin: Origin) -> Vec<Route> {
        let Some(location) = place.server.locations.named(name).cloned() else {
            self.ledger.lost(origin, format!("there is no location {name}"), "write the route by hand");
            return vec![Route::status(origin, place.path.clone(), 501)];
        };
        self.ledger.carried(location.directive.origin);
        if let Some(routes) = self.returned_fallback(place, &location, origin) {
            return routes;
        }
        if location.scope.own_one("proxy_pass").is_some() {
            return self.before_upstream(place, &location.scope, location.directive.origin, origin);
        }
        self.ledger.carried(origin);
        let rewritten = location
            .scope
            .own_one("rewrite")
            .map(|rewrite| (rewrite.arg(1).split('?').next().unwrap_or("").to_owned(), rewrite));
        if let Some((script, rewrite)) =
            rewritten.filter(|(script, _)| script.ends_with(".php") && !script.contains('$'))
        {
            self.ledger.differs(rewrite.origin, "the script finds the path in REQUEST_URI");
            return self.pass_to_script(place, &script, origin);
        }
        if super::targets::serves_files(&location.scope) {
            return self.before_upstream(place, &location.scope, location.directive.origin, origin);
        }
        let within = place.redirected(location.scope.clone(), location.directive.origin);
        let mut routes = self.place(&within);
        let root = place.scope.one("root").filter(|_| tries_path(place));
        for route in routes.iter_mut().filter(|route| route.table.has("app")) {
            if let Some(root) = root.filter(|root| !root.arg(0).contains('$')) {
                route.table.set("try_files", absolute(root.arg(0)), root.origin);
            }
        }
        routes
    }

    /// Files, and an upstream for the rest: routes for what the directory has now.
    fn before_upstream(
        &mut self,
        place: &Place<'_, 'd>,
        scope: &super::scope::Scope<'d>,
        named: Origin,
        origin: Origin,
    ) -> Vec<Route> {
        let mut routes = Vec::new();
        let mut before = None;
        let root = place.scope.one("root").map(|root| (absolute(root.arg(0)), root.origin));
        let root = root.filter(|_| tries_path(place));
        let entries = self.names(place);
        match (&root, entries) {
            (Some((path, from)), Some(patterns)) if !patterns.is_empty() => {
                self.ledger.differs(origin, format!("the names that {path} has now are served from it; give the patterns of a new one a route"));
                let mut route = place.route(PathMatch::Patterns(patterns));
                route.table.set("files", path.as_str(), *from);
                routes.extend(self.finish(place, Target::Files, route));
            }
            (Some((directory, root)), _) => {
                before = Some(FilesBefore { directory: directory.clone(), root: *root, origin });
            }
            (None, _) => self.ledger.carried(origin),
        }
        let mut rest = self.place(&place.redirected(scope.clone(), named));
        let takes_files = |route: &Route| route.table.has("upstream") || route.table.has("app");
        if before.is_some() && !rest.iter().any(takes_files) {
            self.ledger.lost(
                origin,
                "its directory cannot be read here, and files of it are not tried first",
                "write a route with `files` for the names in it by hand",
            );
        }
        for route in rest.iter_mut().filter(|route| route.table.has("upstream")) {
            route.files_before = before.clone();
        }
        routes.extend(rest);
        routes
    }

    /// Patterns for what the directory of a place has now.
    fn names(&self, place: &Place<'_, 'd>) -> Option<Vec<String>> {
        // Names of a part of the site are below its prefix.
        let prefix = match &place.path {
            PathMatch::Any => "/",
            PathMatch::Begin(prefix) if prefix.ends_with('/') => prefix.as_str(),
            _ => return None,
        };
        let root = place.scope.one("root").filter(|_| tries_path(place))?;
        self.entries(&absolute(root.arg(0)), prefix)
    }

    /// Patterns for the entries of a directory.
    fn entries(&self, root: &str, prefix: &str) -> Option<Vec<String>> {
        let mut patterns = Vec::new();
        let directory = format!("{root}{prefix}");
        for entry in self.files.here(Path::new(&directory)).read_dir().ok()? {
            let entry = entry.ok()?;
            let name = entry.file_name().into_string().ok()?;
            if name.starts_with('.') || name.contains('*') || name.ends_with(".php") {
                continue;
            }
            patterns.push(match entry.path().is_dir() {
                true => format!("{prefix}{name}/*"),
                false => format!("{prefix}{name}"),
            });
        }
        patterns.sort();
        (patterns.len() <= ENTRIES_LIMIT).then_some(patterns)
    }

    /// A page for every path without a file: those with an extension are files.
    fn single_page(&mut self, place: &Place<'_, 'd>, page: &str, origin: Origin) -> Vec<Route> {
        let prefix = match &place.path {
            PathMatch::Any => "/",
            PathMatch::Begin(prefix) => prefix.as_str(),
            PathMatch::Exact(_) | PathMatch::Regex(_) | PathMatch::Patterns(_) => {
                self.ledger.differs(
                    origin,
                    format!("a file that does not exist is 404: {page} is not served for it"),
                );
                return self.static_files(place);
            }
        };
        self.ledger.differs(
            origin,
            format!("paths whose last part has a `.` are files, or 404; all others get {page}, also those of directories"),
        );
        let pattern = format!("^{}(?:.*/)?[^/]*\\.[^/]+$", escape(&encoded(prefix)));
        let mut files = place.route(PathMatch::Regex(pattern));
        let is_there = match (place.scope.own_one("alias"), place.scope.one("root")) {
            (Some(alias), _) => {
                files.path =
                    PathMatch::Regex(format!("^{}((?:.*/)?[^/]*\\.[^/]+)$", escape(&encoded(prefix))));
                files.table.set("files", trimmed(alias.arg(0)), alias.origin);
                files.table.set("rewrite", "/$1", alias.origin);
                Some(trimmed(alias.arg(0)))
            }
            (None, Some(root)) if !root.arg(0).contains('$') => {
                files.table.set("files", absolute(root.arg(0)), root.origin);
                Some(absolute(root.arg(0)))
            }
            _ => None,
        };
        let Some(directory) = is_there else {
            self.ledger.lost(origin, "there is no `root` with a fixed name", "write the routes by hand");
            return vec![Route::status(origin, place.path.clone(), 501)];
        };
        let target = place.server.locations.choose(page).cloned();
        let target = target.filter(|location| location.directive.origin != place.origin);
        let of_page = match &target {
            Some(location) => place.redirected(location.scope.clone(), origin),
            None => place.redirected(place.scope.clone(), origin),
        };
        let page_root = of_page.scope.one("root").filter(|root| !root.arg(0).contains('$'));
        let directory = match (place.scope.own_one("alias"), page_root) {
            (None, Some(root)) => absolute(root.arg(0)),
            _ => directory,
        };
        let mut phase = Vec::new();
        if let Some(location) = &target {
            self.ledger.carried(location.directive.origin);
            for inner in location.scope.own().iter().filter(|inner| inner.name == "if") {
                phase.extend(self.condition(&of_page, inner));
            }
        }
        let mut rest = place.route(place.path.clone());
        rest.table.set("files", directory, origin);
        // An alias has the file below it, whatever the prefix is.
        let page = match place.scope.own_one("alias") {
            Some(_) => format!("/{}", page.strip_prefix(prefix).unwrap_or(page).trim_start_matches('/')),
            None => page.to_owned(),
        };
        rest.table.set("rewrite", page, origin);
        let mut routes = self.finish(place, Target::Files, files);
        routes.extend(phase);
        routes.extend(self.finish(&of_page, Target::Files, rest));
        routes
    }
}

/// Whether `try_files` tries the path of the request: `try_files /maintenance.html @app` serves no other file.
fn tries_path(place: &Place<'_, '_>) -> bool {
    let Some(files) = place.scope.own_one("try_files") else { return true };
    let candidates = files.args.split_last().map_or(&[][..], |(_, candidates)| candidates);
    candidates.iter().any(|candidate| candidate.contains('$'))
}

/// Whether a path looks like that of a file: `/favicon.ico`.
fn is_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or("");
    name.find('.').is_some_and(|at| at > 0)
}

fn trimmed(path: &str) -> String {
    match path.trim_end_matches('/') {
        "" => "/".to_owned(),
        trimmed => trimmed.to_owned(),
    }
}
