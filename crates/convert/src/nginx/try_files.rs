//! `try_files`: files before an app, an upstream, a page or an error.

use std::path::Path;

use super::Reader;
use super::action::{Place, Target};
use super::files::trimmed;
use super::location::Location;
use super::server::absolute;
use super::syntax::Directive;
use crate::ledger::Origin;
use crate::model::{FilesBefore, PathMatch, Route, encoded, escape};

/// Entries of a public directory that become patterns.
const ENTRIES_LIMIT: usize = 64;

impl<'d> Reader<'d, '_> {
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
