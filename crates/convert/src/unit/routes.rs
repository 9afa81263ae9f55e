//! Routes: steps, actions.

use super::Reader;
use super::conditions::Place;
use crate::ledger::Origin;
use crate::model::{PathMatch, Route, add};
use crate::table::Table;
use crate::tree::{Data, Node};

/// Routes that lead to routes.
const DEPTH_LIMIT: usize = 8;

impl Reader<'_> {
    /// `routes`, `routes/NAME`, `applications/NAME`, `applications/NAME/TARGET`, `upstreams/NAME`.
    pub(super) fn pass(&mut self, text: &str, origin: Origin, within: &Place) -> Vec<Route> {
        let parts: Vec<&str> = text.split('/').collect();
        match parts.as_slice() {
            ["routes"] => self.steps(self.config.get("routes").cloned().as_ref(), within),
            ["routes", name] => {
                self.used.push((*name).to_owned());
                self.steps(self.config.at(&["routes", name]).cloned().as_ref(), within)
            }
            ["applications", name, target @ ..] => match self.app(name, target.first().copied(), origin) {
                Some(app) => {
                    let mut routes = self.other_scripts(name, target.first().copied(), within);
                    for mut route in within.routes() {
                        route.table.set("app", app.as_str(), origin);
                        self.body_limit(&mut route);
                        routes.push(route);
                    }
                    routes
                }
                None => within.closed(origin, 501),
            },
            ["upstreams", name] => match self.upstream(name) {
                Some(upstream) => {
                    let mut routes = within.routes();
                    for route in &mut routes {
                        route.table.set("upstream", upstream.as_str(), origin);
                        self.body_limit(route);
                    }
                    routes
                }
                None => within.closed(origin, 501),
            },
            _ => {
                self.ledger.lost(
                    origin,
                    format!("`{text}` depends on the request, or leads to nothing"),
                    "write the route by hand",
                );
                within.closed(origin, 501)
            }
        }
    }

    /// With `script`, PHP runs no other script of the directory.
    fn other_scripts(&mut self, name: &str, target: Option<&str>, within: &Place) -> Vec<Route> {
        let Some(app) = self.config.at(&["applications", name]) else { return Vec::new() };
        let spec = target.and_then(|target| app.at(&["targets", target])).unwrap_or(app);
        let is_php = app.get("type").is_some_and(|kind| kind.text().starts_with("php"));
        let Some(script) = spec.get("script").filter(|_| is_php) else { return Vec::new() };
        let mut routes = Vec::new();
        for mut route in within.routes() {
            // Patterns of the route, and these: only a route for all paths can have them.
            if route.path != PathMatch::Any || !route.except.is_empty() || route.table.has("rewrite") {
                self.ledger.differs(script.origin, "a request for another script of `root` runs that script");
                continue;
            }
            let own = crate::model::escape(script.text().trim_start_matches('/'));
            route.path = PathMatch::Patterns(vec!["~\\.php(/|$)".to_owned()]);
            route.except = vec![format!("~^/{own}(/|$)")];
            route.origin = None;
            route.table.note("respond", 404i64, "Unit runs no other script");
            routes.push(route);
        }
        routes
    }

    fn steps(&mut self, steps: Option<&Node>, within: &Place) -> Vec<Route> {
        let Some(steps) = steps.filter(|steps| matches!(steps.data, Data::List(_))) else {
            return within.closed(None, 404);
        };
        if self.depth >= DEPTH_LIMIT {
            steps.drop("routes lead to themselves", "write the routes by hand", true, self.ledger);
            return within.closed(None, 501);
        }
        self.depth += 1;
        let mut routes = Vec::new();
        for step in steps.items() {
            let origin = step.open(self.ledger);
            self.ledger.carried(origin);
            let place = within.at(origin);
            let Some(action) = step.get("action") else {
                self.ledger.ignored(origin, "it has no action");
                continue;
            };
            let Some(conditions) = step.get("match") else {
                routes.extend(self.action(action, &place));
                continue;
            };
            let matched = self.matched(conditions, &place);
            for place in &matched.yes {
                routes.extend(self.action(action, place));
            }
            routes.extend(matched.unknown.iter().flat_map(|place| place.closed(origin, 501)));
            if matched.yes.is_empty() {
                action.ignore("a part of a step that is not converted", self.ledger);
            }
        }
        self.depth -= 1;
        // What no step is for does not go on to other routes.
        routes.extend(within.closed(None, 404));
        routes
    }

    fn action(&mut self, action: &Node, matched: &Place) -> Vec<Route> {
        let mut place = matched.clone();
        if let Some(headers) = action.get("response_headers") {
            for (name, value) in headers.entries() {
                self.ledger.carried(value.origin);
                match (value.text(), template(value.text())) {
                    ("", _) => place.table.push_in(&["headers"], "remove", name.as_str(), value.origin),
                    (_, Some(text)) => place.table.set_in(&["headers", "set"], name, text, value.origin),
                    (_, None) => value.drop(
                        "it has variables of Unit",
                        "set `headers` of the route by hand",
                        false,
                        self.ledger,
                    ),
                }
            }
        }
        if let Some(rewrite) = action.get("rewrite") {
            let text = template(rewrite.text()).filter(|text| text.starts_with('/'));
            match text.filter(|_| !matched.table.has("rewrite")) {
                Some(text) => {
                    self.ledger.carried(rewrite.origin);
                    place.table.set("rewrite", text, rewrite.origin);
                }
                None => {
                    rewrite.drop(
                        "it has variables of Unit, or is a second one",
                        "set `rewrite` of the route by hand; its requests get 501",
                        true,
                        self.ledger,
                    );
                    action.ignore("a part of a step that is not converted", self.ledger);
                    return matched.closed(rewrite.origin, 501);
                }
            }
        }
        if let Some(pass) = action.get("pass") {
            self.ledger.carried(pass.origin);
            return self.pass(pass.text(), pass.origin, &place);
        }
        if let Some(share) = action.get("share") {
            return self.share(action, share, &place);
        }
        if let Some(status) = action.get("return") {
            // A rewrite makes no difference to a fixed response.
            place
                .table
                .remove("rewrite")
                .and_then(|item| item.origin)
                .iter()
                .for_each(|origin| self.ledger.carried(*origin));
            return place.routes().into_iter().map(|route| self.returned(action, status, route)).collect();
        }
        if let Some(proxy) = action.get("proxy") {
            let url = match proxy.text().strip_prefix("http://unix:") {
                Some(path) => format!("unix:{path}"),
                None => proxy.text().to_owned(),
            };
            let mut table = Table::default();
            table.set("url", url.as_str(), proxy.origin);
            let authority = url.split("://").nth(1).unwrap_or("proxy");
            let name = add(
                &mut self.model.upstreams,
                &crate::nginx::upstream_wish(authority),
                table,
                proxy.origin,
                self.ledger,
            );
            let mut routes = place.routes();
            for route in &mut routes {
                route.table.set("upstream", name.as_str(), proxy.origin);
                self.body_limit(route);
            }
            return routes;
        }
        action.drop("an action without a counterpart", "write the route by hand", true, self.ledger);
        place.closed(None, 501)
    }

    fn returned(&mut self, action: &Node, status: &Node, mut route: Route) -> Route {
        let number = status.number().unwrap_or(0);
        match action.get("location") {
            Some(location)
                if [301, 302, 303, 307, 308].contains(&number) && !location.text().contains("${") =>
            {
                let target = location
                    .text()
                    .replace("$request_uri", "$path$query")
                    .replace("$uri", "$path")
                    .replace("$host", "$host_name");
                match crate::nginx::safe_target(&target) {
                    Ok(()) => route.table.set(
                        "redirect",
                        crate::nginx::redirect(&target, number, location.origin),
                        location.origin,
                    ),
                    Err(_) => {
                        location.drop(
                            "its target depends on the client",
                            "write `redirect` by hand",
                            true,
                            self.ledger,
                        );
                        route.table.set("respond", 501i64, None);
                    }
                }
                self.ledger.carried(status.origin);
            }
            Some(location) => {
                location.drop(
                    "its target has variables of Unit, or its status is not that of a redirect",
                    "write `redirect` by hand",
                    true,
                    self.ledger,
                );
                route.table.set("respond", 501i64, status.origin);
            }
            None if (200..=599).contains(&number) => route.table.set("respond", number, status.origin),
            None => {
                self.ledger
                    .differs(status.origin, "the client gets 403: a response has a status from 200 to 599");
                route.table.set("respond", 403i64, status.origin);
            }
        }
        route
    }

    /// `share`: files, perhaps with a fallback.
    fn share(&mut self, action: &Node, share: &Node, place: &Place) -> Vec<Route> {
        let texts = share.texts();
        let first = texts.first().map(String::as_str).unwrap_or("");
        let directory =
            first.strip_suffix("$uri").map(|directory| directory.trim_end_matches('/').to_owned());
        if let Some(types) = action.get("types") {
            types.drop(
                "files are not chosen by their type",
                "set patterns in `path` of the route; its requests get 501",
                true,
                self.ledger,
            );
            action.ignore("a part of a step that is not converted", self.ledger);
            return place.closed(types.origin, 501);
        }
        if texts.len() > 1 {
            self.ledger.differs(share.origin, "one directory is tried: the first");
        }
        for name in ["chroot", "follow_symlinks", "traverse_mounts"] {
            if let Some(node) = action.get(name) {
                node.ignore("files outside of the directory are never served", self.ledger);
            }
        }
        let Some(directory) = directory.filter(|directory| !directory.contains('$')) else {
            // `/www/index.html`: one file for all paths.
            let mut routes = place.routes();
            if let Some((directory, name)) = first.rsplit_once('/').filter(|_| !first.contains('$')) {
                if let Some(fallback) = action.get("fallback") {
                    fallback.drop(
                        "a fallback for one file",
                        "the file is expected to be there",
                        false,
                        self.ledger,
                    );
                }
                for route in &mut routes {
                    route.table.set("files", directory, share.origin);
                    route.table.set("rewrite", format!("/{name}"), share.origin);
                }
                return routes;
            }
            share.drop(
                "its path has variables other than $uri",
                "write `files` of the route by hand",
                true,
                self.ledger,
            );
            action.ignore("a part of a step that is not converted", self.ledger);
            return place.closed(None, 501);
        };
        let index = action.get("index");
        let set_index = |route: &mut Route| {
            if let Some(index) = index {
                route.table.set("index", index.text(), index.origin);
            }
        };
        let Some(fallback) = action.get("fallback").cloned() else {
            let mut routes = place.routes();
            for route in &mut routes {
                let is_whole = route.table.has("rewrite");
                let own = if is_whole { directory.clone() } else { beneath(&directory, &route.path) };
                route.table.set("files", own, share.origin);
                set_index(route);
            }
            return routes;
        };
        let mut routes = self.action(&fallback, place);
        let leads_to_app = routes.iter().any(|route| route.table.has("app"));
        for route in routes.iter_mut().filter(|route| route.table.has("app")) {
            route.table.set("try_files", directory.as_str(), share.origin);
            set_index(route);
        }
        if !leads_to_app {
            self.ledger.lost(
                share.origin,
                "files before something other than an app",
                "write a route for the files by their patterns",
            );
        }
        routes
    }
}

/// A text with variables of Unit, as a template.
fn template(text: &str) -> Option<String> {
    let text = text.replace("${", "$").replace('}', "");
    let out = text
        .replace("$request_uri", "\u{1}path\u{1}query")
        .replace("$uri", "\u{1}path")
        .replace("$host", "\u{1}host_name")
        .replace("$method", "\u{1}method")
        .replace("$remote_addr", "\u{1}client");
    (!out.contains('$')).then(|| out.replace('\u{1}', "$"))
}

/// The directory of a route: with the pattern `/x/*`, the prefix is not part of the file names.
fn beneath(directory: &str, path: &PathMatch) -> String {
    let PathMatch::Patterns(patterns) = path else { return directory.to_owned() };
    match patterns.as_slice() {
        [only] if only.ends_with("/*") && only.matches('*').count() == 1 && only.starts_with('/') => {
            format!("{directory}{}", only.trim_end_matches("/*"))
        }
        _ => directory.to_owned(),
    }
}
