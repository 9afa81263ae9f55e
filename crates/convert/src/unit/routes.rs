//! Routes: steps, conditions, actions.

use super::Reader;
use crate::ledger::Origin;
use crate::model::{PathMatch, Route, add};
use crate::table::{Table, one_or_list};
use crate::tree::{Data, Node};

impl Reader<'_> {
    /// `routes`, `routes/NAME`, `applications/NAME`, `applications/NAME/TARGET`, `upstreams/NAME`.
    pub(super) fn pass(&mut self, text: &str, origin: Origin, within: &Route) -> Vec<Route> {
        let parts: Vec<&str> = text.split('/').collect();
        match parts.as_slice() {
            ["routes"] => self.steps(self.config.get("routes").cloned().as_ref(), within),
            ["routes", name] => self.steps(self.config.at(&["routes", name]).cloned().as_ref(), within),
            ["applications", name, target @ ..] => {
                let mut route = within.clone();
                match self.app(name, target.first().copied(), origin) {
                    Some(app) => {
                        route.table.set("app", app, origin);
                        self.body_limit(&mut route);
                    }
                    None => route.table.set("respond", 501i64, origin),
                }
                vec![route]
            }
            ["upstreams", name] => {
                let mut route = within.clone();
                match self.upstream(name) {
                    Some(upstream) => route.table.set("upstream", upstream, origin),
                    None => route.table.set("respond", 501i64, origin),
                }
                vec![route]
            }
            _ => {
                self.ledger.lost(
                    origin,
                    format!("`{text}` depends on the request, or leads to nothing"),
                    "write the route by hand",
                );
                let mut route = within.clone();
                route.table.set("respond", 501i64, origin);
                vec![route]
            }
        }
    }

    fn steps(&mut self, steps: Option<&Node>, within: &Route) -> Vec<Route> {
        let Some(steps) = steps.filter(|steps| matches!(steps.data, Data::List(_))) else {
            return Vec::new();
        };
        let mut routes = Vec::new();
        for step in steps.items() {
            let origin = step.open(self.ledger);
            self.ledger.carried(origin);
            let mut matched = within.clone();
            matched.origin = Some(origin);
            if let Some(conditions) = step.get("match")
                && !self.conditions(conditions, &mut matched)
            {
                // Its requests go to the steps after it: the report says so.
                if let Some(action) = step.get("action") {
                    action.ignore("a part of a step that is not converted", self.ledger);
                }
                continue;
            }
            match step.get("action") {
                Some(action) => routes.extend(self.action(action, &matched)),
                None => self.ledger.ignored(origin, "it has no action"),
            }
        }
        routes
    }

    /// Sets the conditions of a route; whether all of them have a counterpart.
    fn conditions(&mut self, conditions: &Node, route: &mut Route) -> bool {
        let is_list = matches!(conditions.data, Data::List(_));
        if is_list {
            conditions.drop(
                "several sets of conditions are several routes",
                "write a route for each",
                true,
                self.ledger,
            );
            return false;
        }
        for (name, value) in conditions.entries() {
            let origin = value.origin;
            let patterns: Vec<String> = value.texts();
            match name.as_str() {
                "uri" => route.path = PathMatch::Patterns(patterns),
                "host" => route.table.set("host", one_or_list(patterns), origin),
                "method" => route.table.set("method", one_or_list(patterns), origin),
                "scheme" => route.table.set("scheme", value.text(), origin),
                "source" => {
                    let addresses: Vec<String> = patterns
                        .into_iter()
                        .filter(|pattern| !pattern.contains(':') || pattern.contains("::"))
                        .collect();
                    if addresses.is_empty() {
                        self.ledger.lost(
                            origin,
                            "ports of clients have no counterpart",
                            "write `client` of the route by hand",
                        );
                        return false;
                    }
                    route.table.set("client", addresses, origin);
                }
                "headers" | "arguments" | "cookies" => {
                    let key = match name.as_str() {
                        "headers" => "header",
                        "arguments" => "query",
                        _ => "cookie",
                    };
                    for (of, pattern) in value.entries() {
                        route.table.set_in(&[key], of, one_or_list(pattern.texts()), pattern.origin);
                        self.ledger.carried(pattern.origin);
                    }
                }
                _ => {
                    value.drop(
                        "a condition without a counterpart",
                        "write the route by hand",
                        true,
                        self.ledger,
                    );
                    return false;
                }
            }
            self.ledger.carried(origin);
        }
        true
    }

    fn action(&mut self, action: &Node, matched: &Route) -> Vec<Route> {
        let mut route = matched.clone();
        if let Some(headers) = action.get("response_headers") {
            for (name, value) in headers.entries() {
                match value.text() {
                    "" => route.table.push_in(&["headers"], "remove", name.as_str(), value.origin),
                    text if text.contains('$') => value.drop(
                        "it has variables of Unit",
                        "set `headers` of the route by hand",
                        false,
                        self.ledger,
                    ),
                    text => route.table.set_in(&["headers", "set"], name, text, value.origin),
                }
            }
        }
        if let Some(rewrite) = action.get("rewrite") {
            match rewrite.text().contains('$') {
                true => rewrite.drop(
                    "it has variables of Unit",
                    "set `rewrite` of the route by hand",
                    true,
                    self.ledger,
                ),
                false => route.table.set("rewrite", rewrite.text(), rewrite.origin),
            }
        }
        if let Some(pass) = action.get("pass") {
            self.ledger.carried(pass.origin);
            return self.pass(pass.text(), pass.origin, &route);
        }
        if let Some(share) = action.get("share") {
            return self.share(action, share, route);
        }
        if let Some(status) = action.get("return") {
            return vec![self.returned(action, status, route)];
        }
        if let Some(proxy) = action.get("proxy") {
            let mut table = Table::default();
            table.set("url", proxy.text(), proxy.origin);
            let authority = proxy.text().split("://").nth(1).unwrap_or("proxy");
            let name = add(
                &mut self.model.upstreams,
                &crate::nginx::upstream_wish(authority),
                table,
                proxy.origin,
                self.ledger,
            );
            route.table.set("upstream", name, proxy.origin);
            return vec![route];
        }
        action.drop("an action without a counterpart", "write the route by hand", true, self.ledger);
        route.table.set("respond", 501i64, None);
        vec![route]
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
    fn share(&mut self, action: &Node, share: &Node, mut route: Route) -> Vec<Route> {
        let texts = share.texts();
        let first = texts.first().map(String::as_str).unwrap_or("");
        let directory =
            first.strip_suffix("$uri").map(|directory| directory.trim_end_matches('/').to_owned());
        if texts.len() > 1 {
            self.ledger.differs(share.origin, "one directory is tried: the first");
        }
        let Some(directory) = directory.filter(|directory| !directory.contains('$')) else {
            // `/www/index.html`: one file for all paths.
            if let Some((directory, name)) = first.rsplit_once('/').filter(|_| !first.contains('$')) {
                route.table.set("files", directory, share.origin);
                route.table.set("rewrite", format!("/{name}"), share.origin);
                return vec![route];
            }
            share.drop(
                "its path has variables other than $uri",
                "write `files` of the route by hand",
                true,
                self.ledger,
            );
            route.table.set("respond", 501i64, None);
            return vec![route];
        };
        for name in ["chroot", "follow_symlinks", "traverse_mounts"] {
            if let Some(node) = action.get(name) {
                node.ignore("files outside of the directory are never served", self.ledger);
            }
        }
        if let Some(types) = action.get("types") {
            types.drop(
                "files are not chosen by their type",
                "set patterns in `path` of the route",
                true,
                self.ledger,
            );
        }
        let index = action.get("index");
        let fallback = action.get("fallback").cloned();
        let Some(fallback) = fallback else {
            route.table.set("files", beneath(&directory, &route.path), share.origin);
            if let Some(index) = index {
                route.table.set("index", index.text(), index.origin);
            }
            return vec![route];
        };
        let mut routes = self.action(&fallback, &route);
        let leads_to_app = routes.iter().any(|route| route.table.has("app"));
        for route in routes.iter_mut().filter(|route| route.table.has("app")) {
            route.table.set("try_files", directory.as_str(), share.origin);
            if let Some(index) = index {
                route.table.set("index", index.text(), index.origin);
            }
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
