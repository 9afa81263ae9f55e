//! Directories: where they are mounted, and what their sections say.

use super::scripts::script_of;
use super::{Host, Mount, Reader};
use crate::apache::syntax::Node;
use crate::model::{PathMatch, Route};
use crate::php;

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
            if mount.is_only_below {
                return routes;
            }
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
        }
    }
}
