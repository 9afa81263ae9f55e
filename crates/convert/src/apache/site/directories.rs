//! Directories: where they are mounted, and what their sections say.

use super::scripts::script_of;
use super::{Host, Mount, Reader, weight};
use crate::apache::syntax::{Node, ignore};
use crate::model::{PathMatch, Route};
use crate::php;
use crate::table::Value;

impl<'a> Reader<'a> {
    /// What serves a directory: PHP, or files.
    pub(super) fn mounted(&mut self, host: &Host<'a>, mount: &Mount) -> Vec<Route> {
        let origin = mount.origin;
        self.ledger.carried(origin);
        let path = if mount.prefix.is_empty() {
            PathMatch::Any
        } else {
            PathMatch::Patterns(vec![format!("{}/*", mount.prefix)])
        };
        let mut route = Route::new(origin, path);
        let is_file = mount
            .directory
            .rsplit('/')
            .next()
            .is_some_and(|name| name.contains('.') && !name.starts_with('.') && !mount.prefix.is_empty())
            && !self.files.here(std::path::Path::new(&mount.directory)).is_dir();
        if is_file {
            let (directory, name) = mount.directory.rsplit_once('/').unwrap_or(("", &mount.directory));
            let mut exact = Route::new(origin, PathMatch::Exact(mount.prefix.clone()));
            exact.table.set("files", directory, origin);
            exact.table.set("rewrite", format!("/{name}"), origin);
            return vec![exact];
        }
        let sections = self.directories(host, &mount.directory);
        match self.php(host, &mount.directory, &sections, mount.prefix.is_empty()) {
            Some(mut scripts) => {
                scripts.entry = format!("{}/{}", mount.directory, script_of(host, &sections));
                scripts.origin = Some(origin);
                let label = match mount.prefix.rsplit('/').next().filter(|name| !name.is_empty()) {
                    Some(name) => name.to_owned(),
                    None => host.label.clone(),
                };
                let app = php::app(&scripts, &label, self.pools, self.model, self.ledger);
                route.table.set("app", app, origin);
                match mount.prefix.is_empty() {
                    true => route.table.set("try_files", mount.directory.as_str(), origin),
                    false => route.table.set("strip_prefix", true, origin),
                }
                self.body_limit(host, &mut route);
            }
            None => {
                route.table.set("files", mount.directory.as_str(), origin);
                for node in sections
                    .iter()
                    .flat_map(|section| &section.inner)
                    .filter(|node| node.name == "allowoverride" && !node.arg(0).eq_ignore_ascii_case("none"))
                {
                    self.ledger.differs(
                        node.origin,
                        "an .htaccess is read in front of PHP only: move its rules to routes",
                    );
                }
            }
        }
        self.directory_options(&sections, &mut route);
        let mut routes = vec![route];
        if !mount.prefix.is_empty() && routes.iter().all(|route| !route.table.has("strip_prefix")) {
            let mut slash = Route::new(origin, PathMatch::Exact(mount.prefix.clone()));
            slash.table.set(
                "redirect",
                crate::nginx::redirect(&format!("{}/$query", mount.prefix), 301, origin),
                origin,
            );
            routes.insert(0, slash);
        } else if let Some(route) = routes.first_mut()
            && route.table.has("strip_prefix")
        {
            // Files beside the scripts, before the app.
            let mut files = Route::new(
                origin,
                PathMatch::Regex(format!(
                    "^{}/(.*\\.(?:css|js|png|jpe?g|gif|svg|ico|webp|woff2?|ttf|map|json|html|txt))$",
                    crate::model::escape(&mount.prefix)
                )),
            );
            files.table.set("files", mount.directory.as_str(), origin);
            files.table.set("rewrite", "/$1", origin);
            for key in ["allow", "deny", "basic_auth", "respond"] {
                files.table.items.extend(route.table.items.iter().filter(|item| item.key == key).cloned());
            }
            self.ledger.differs(origin, "beside the scripts, files of the usual types are served");
            routes.insert(0, files);
        }
        routes
    }

    /// `<Directory>` sections of a directory.
    fn directories(&mut self, host: &Host<'a>, directory: &str) -> Vec<&'a Node> {
        let own = host.each("directory").filter(|node| node.arg(0).trim_end_matches('/') == directory);
        let found: Vec<&'a Node> = own.collect();
        found.iter().for_each(|node| self.ledger.carried(node.origin));
        found
    }

    fn directory_options(&mut self, sections: &[&'a Node], route: &mut Route) {
        for section in sections {
            for node in &section.inner {
                match node.name.as_str() {
                    "options" => {
                        let has_indexes = node
                            .args
                            .iter()
                            .any(|arg| arg.trim_start_matches('+').eq_ignore_ascii_case("indexes"));
                        match has_indexes && route.table.has("files") {
                            true => route.table.set("listing", true, node.origin),
                            false => self.ledger.ignored(node.origin, "links that lead out of the directory are not followed, and scripts are the app's"),
                        }
                    }
                    "directoryindex" => {
                        let names: Vec<String> = node
                            .args
                            .iter()
                            .filter(|name| {
                                !name.ends_with(".php") && !name.ends_with(".cgi") && !name.ends_with(".pl")
                            })
                            .cloned()
                            .collect();
                        match names.is_empty() {
                            true => self.ledger.carried(node.origin),
                            false => route.table.set("index", names, node.origin),
                        }
                    }
                    _ => {}
                }
            }
            self.access(&section.inner, route);
        }
    }

    /// `<Location>`, `<LocationMatch>`, `<Files>`, and `<Directory>` below a mount.
    pub(super) fn sections(&mut self, host: &Host<'a>, mounts: &[Mount], content: &mut Vec<Route>) {
        for node in host.all.iter().copied() {
            let path = match node.name.as_str() {
                "location" if node.arg(0) != "~" => PathMatch::Begin(node.arg(0).to_owned()),
                "location" | "locationmatch" => {
                    match crate::expression::check(node.args.last().map_or("", String::as_str), false) {
                        Ok(pattern) => PathMatch::Regex(pattern),
                        Err(why) => {
                            self.ledger.lost(node.origin, why, "write a route by hand");
                            ignore(&node.inner, self.ledger);
                            continue;
                        }
                    }
                }
                "files" | "filesmatch" => {
                    self.hidden_files(node, content);
                    continue;
                }
                "directory" => match self.below(host, mounts, node) {
                    Some(path) => path,
                    None => continue,
                },
                "directorymatch" | "if" | "proxymatch" | "macro" | "limit" | "limitexcept" => {
                    self.ledger.lost(node.origin, "the section has no counterpart", "write a route by hand");
                    ignore(&node.inner, self.ledger);
                    continue;
                }
                _ => continue,
            };
            self.section(node, path, content);
        }
    }

    /// The paths of a directory that is not a mount itself; `None`: it has none, or is one.
    fn below(&mut self, host: &Host<'a>, mounts: &[Mount], node: &Node) -> Option<PathMatch> {
        let directory = node.arg(0).trim_end_matches('/');
        let root = host.root.iter().map(|(root, _)| (String::new(), root.clone()));
        let of = mounts.iter().map(|mount| (mount.prefix.clone(), mount.directory.clone())).chain(root);
        for (prefix, base) in of {
            if directory == base {
                return None;
            }
            if let Some(rest) = directory.strip_prefix(&format!("{base}/")) {
                return Some(PathMatch::Patterns(vec![format!("{prefix}/{rest}/*")]));
            }
        }
        // Of another site, or the whole disk.
        if !self.ledger.is_settled(node.origin) {
            self.ledger.ignored(node.origin, "no path of the sites leads to it");
            ignore(&node.inner, self.ledger);
        }
        None
    }

    /// A route for a part of the paths, with what serves them and rules of its own.
    fn section(&mut self, node: &Node, path: PathMatch, content: &mut Vec<Route>) {
        self.ledger.carried(node.origin);
        let is_status = node.inner.iter().find(|inner| {
            inner.name == "sethandler"
                && matches!(inner.arg(0), "server-status" | "server-info" | "balancer-manager")
        });
        if let Some(handler) = is_status {
            self.ledger.dropped(
                node.origin,
                "Keepwarm has its own page for operators",
                "set `admin.bind`, or use `keepwarm status`",
            );
            ignore(&node.inner, self.ledger);
            self.ledger.ignored(handler.origin, "a part of a section that is not converted");
            return;
        }
        let begin = match &path {
            PathMatch::Begin(path) => path.clone(),
            PathMatch::Patterns(patterns) => {
                patterns.first().map(|pattern| pattern.trim_end_matches('*').to_owned()).unwrap_or_default()
            }
            _ => String::new(),
        };
        if let Some(pass) = node.inner.iter().find(|inner| inner.name == "proxypass") {
            let mut route = self.proxied(
                pass,
                &begin,
                pass.arg(0),
                node.inner.iter().any(|inner| {
                    inner.name == "proxypreservehost" && inner.arg(0).eq_ignore_ascii_case("on")
                }),
            );
            self.access(&node.inner, &mut route);
            content.push(route);
            return;
        }
        let has_rules = node.inner.iter().any(|inner| {
            matches!(inner.name.as_str(), "require" | "deny" | "allow" | "authtype" | "requireany" | "header")
        });
        if !has_rules {
            return;
        }
        // What serves these paths otherwise.
        let mut served: Option<Route> = None;
        for route in content.iter().filter(|route| covers(route, &begin)) {
            if served.as_ref().is_none_or(|known| weight(route) > weight(known)) {
                served = Some(route.clone());
            }
        }
        let Some(mut route) = served else {
            self.ledger.ignored(node.origin, "nothing serves these paths");
            return;
        };
        if path == PathMatch::Begin("/".to_owned()) {
            for route in content.iter_mut() {
                self.access(&node.inner, route);
            }
            return;
        }
        let prefix = match &route.path {
            PathMatch::Patterns(patterns) => {
                patterns.first().map(|pattern| pattern.trim_end_matches('*').to_owned()).unwrap_or_default()
            }
            _ => "/".to_owned(),
        };
        if let (Some(Value::Text(directory)), PathMatch::Patterns(patterns)) =
            (route.table.get("files").cloned(), &path)
            && patterns.len() == 1
            && !route.table.has("rewrite")
        {
            // The prefix is not part of file names.
            let rest = begin.strip_prefix(&prefix).unwrap_or("").trim_matches('/');
            route.table.set("files", format!("{directory}/{rest}"), node.origin);
        }
        if route.table.remove("strip_prefix").is_some() {
            self.ledger.differs(node.origin, "rules below an alias of PHP: check the route");
            route.table.set("strip_prefix", true, None);
            if !matches!(&path, PathMatch::Patterns(_)) {
                route.table.remove("strip_prefix");
            }
        }
        route.origin = Some(node.origin);
        route.path = path;
        self.access(&node.inner, &mut route);
        content.push(route);
    }

    /// `<Files ".ht*">`: names that are hidden.
    fn hidden_files(&mut self, node: &Node, content: &mut Vec<Route>) {
        let pattern = node.args.last().map_or("", String::as_str);
        let is_dot = pattern.starts_with(".ht") || pattern.starts_with("^\\.");
        let is_denied = node
            .inner
            .iter()
            .any(|inner| inner.name == "require" && inner.arg(1).eq_ignore_ascii_case("denied"))
            || node.inner.iter().any(|inner| inner.name == "deny");
        if !is_denied {
            return;
        }
        self.ledger.carried(node.origin);
        node.inner.iter().for_each(|inner| self.ledger.carried(inner.origin));
        if is_dot {
            self.ledger.ignored(node.origin, "names that begin with a dot are never served");
        }
        let regex = match node.name == "filesmatch" || node.arg(0) == "~" {
            true => {
                pattern.strip_prefix('^').map_or_else(|| format!("[^/]*{pattern}"), |rest| format!("/{rest}"))
            }
            false => format!("/{}$", crate::model::escape(pattern).replace("\\*", "[^/]*")),
        };
        match crate::expression::check(&regex, false) {
            Ok(pattern) => content.push(Route::status(node.origin, PathMatch::Regex(pattern), 403)),
            Err(why) => self.ledger.lost(node.origin, why, "write a route with respond = 403 by hand"),
        }
    }
}

fn covers(route: &Route, path: &str) -> bool {
    match &route.path {
        PathMatch::Any => true,
        PathMatch::Begin(begin) => path.starts_with(begin.as_str()),
        PathMatch::Patterns(patterns) => {
            patterns.iter().any(|pattern| path.starts_with(pattern.trim_end_matches('*')))
        }
        PathMatch::Exact(_) | PathMatch::Regex(_) => false,
    }
}
