//! A virtual host, or the main server, becomes a site.

mod access;
mod directories;
pub(super) mod mounts;
mod parts;
mod pieces;
mod programs;
mod proxy;
mod redirects;
pub(super) mod regions;
mod responses;
mod scripts;
mod tls;

use self::redirects::is_proxied;
use super::syntax::Node;
use crate::files::Files;
use crate::fpm::Pool;
use crate::ledger::{Ledger, Origin};
use crate::model::{Bind, Model, PathMatch, Route, Site};
use crate::table::Table;

pub(super) struct Reader<'a> {
    pub(super) files: &'a Files,
    pub(super) pools: &'a [Pool],
    pub(super) model: &'a mut Model,
    pub(super) ledger: &'a mut Ledger,
    pub(super) global: &'a [Node],
}

/// A server that is read: its own directives, and the global ones.
pub(super) struct Host<'n> {
    pub(super) own: Vec<&'n Node>,
    pub(super) all: Vec<&'n Node>,
    pub(super) root: Option<(String, Origin)>,
    label: String,
    pub(super) origin: Option<Origin>,
}

impl<'n> Host<'n> {
    pub(super) fn one(&self, name: &str) -> Option<&'n Node> {
        self.own.iter().chain(&self.all).find(|node| node.name == name).copied()
    }

    fn each<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'n Node> + 's {
        self.all.iter().copied().filter(move |node| node.name == name)
    }
}

/// Where a directory is in the paths of a site.
#[derive(Clone, Debug)]
pub(super) struct Mount {
    /// `/wiki`; empty: the whole site.
    prefix: String,
    /// Whether the prefix itself is not of it: `Alias /wiki/ …`.
    is_only_below: bool,
    directory: String,
    origin: Origin,
}

impl<'a> Reader<'a> {
    pub(super) fn read(mut self) {
        let hosts: Vec<&'a Node> = self.global.iter().filter(|node| node.name == "virtualhost").collect();
        for host in &hosts {
            self.ledger.carried(host.origin);
            let own: Vec<&Node> = host.inner.iter().collect();
            let shared = self.global.iter().filter(|node| {
                node.name != "virtualhost" && node.name != "listen" && node.name != "documentroot"
            });
            let all: Vec<&Node> = own.iter().copied().chain(shared).collect();
            self.site(own, all, host.args.clone(), Some(host.origin));
        }
        for listen in self.global.iter().filter(|node| node.name == "listen") {
            self.ledger.carried(listen.origin);
        }
        let is_content = |node: &Node| {
            ["documentroot", "alias", "proxypass", "redirect", "redirectmatch"].contains(&node.name.as_str())
        };
        let has_content = self.global.iter().any(|node| {
            is_content(node)
                || (node.name == "location" && node.inner.iter().any(|inner| inner.name == "proxypass"))
        });
        if hosts.is_empty() && has_content {
            let all: Vec<&Node> = self.global.iter().collect();
            let mut listens: Vec<String> = self
                .global
                .iter()
                .filter(|node| node.name == "listen")
                .map(|node| node.arg(0).to_owned())
                .collect();
            if listens.is_empty() {
                listens.push("80".to_owned());
            }
            let addresses = listens
                .iter()
                .map(|listen| if listen.contains(':') { listen.clone() } else { format!("*:{listen}") })
                .collect();
            self.site(all.clone(), all, addresses, None);
        }
    }

    fn site(
        &mut self,
        own: Vec<&'a Node>,
        all: Vec<&'a Node>,
        addresses: Vec<String>,
        origin: Option<Origin>,
    ) {
        let find = |name: &str| own.iter().find(|node| node.name == name).copied();
        let names: Vec<String> = own
            .iter()
            .filter(|node| node.name == "servername" || node.name == "serveralias")
            .flat_map(|node| node.args.iter())
            .map(|name| {
                name.split("://").last().unwrap_or(name).split(':').next().unwrap_or(name).to_lowercase()
            })
            .collect();
        for node in own.iter().filter(|node| node.name == "servername" || node.name == "serveralias") {
            self.ledger.carried(node.origin);
        }
        let tls = find("sslengine").is_some_and(|node| node.arg(0).eq_ignore_ascii_case("on"));
        find("sslengine").iter().for_each(|node| self.ledger.carried(node.origin));
        let root =
            find("documentroot").map(|node| (node.arg(0).trim_end_matches('/').to_owned(), node.origin));
        let label =
            names.first().filter(|name| !name.contains('*')).cloned().unwrap_or_else(|| "site".to_owned());
        let host = Host { own, all, root, label, origin };
        let mut site =
            Site { origin, hosts: if origin.is_some() { names } else { Vec::new() }, ..Site::default() };
        for address in &addresses {
            let (name, port) = match address.rsplit_once(':') {
                Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => (name, port),
                _ => (address.as_str(), if tls { "443" } else { "80" }),
            };
            let name = if matches!(name, "*" | "_default_" | "") { "0.0.0.0" } else { name };
            let port = if port.is_empty() || port == "*" { "80" } else { port };
            let bind = Bind {
                address: format!("{name}:{port}"),
                tls,
                is_default: false,
                proxy_protocol: false,
                origin,
            };
            site.binds.push(bind);
        }
        if tls {
            self.tls(&host, &mut site);
        }
        self.listener(&host, &mut site);
        site.routes = self.routes(&host);
        self.model.sites.push(site);
    }

    fn listener(&mut self, host: &Host<'a>, site: &mut Site) {
        if let Some(log) = host.own.iter().find(|node| node.name == "customlog") {
            let path = log.arg(0);
            match path.starts_with('/') {
                true => site.listener.set_in(&["access_log"], "file", path, log.origin),
                false => self.ledger.differs(log.origin, "the access log is a file, or standard output"),
            }
            if log.args.len() > 1 {
                self.ledger.differs(log.origin, "its format is Keepwarm's own; set `access_log.format`");
            }
        }
        if let Some(limit) = host
            .one("limitrequestline")
            .and_then(|node| Some((node.arg(0).parse::<i64>().ok()?, node.origin)))
        {
            site.listener.set_in(&["limits"], "request_line", limit.0.clamp(16, 1 << 20), limit.1);
        }
        if let Some(limit) = host
            .one("limitrequestfields")
            .and_then(|node| Some((node.arg(0).parse::<i64>().ok()?, node.origin)))
        {
            site.listener.set_in(&["limits"], "header_fields", limit.0.clamp(1, 65_536), limit.1);
        }
    }

    fn routes(&mut self, host: &Host<'a>) -> Vec<Route> {
        let mut mounts: Vec<Mount> = Vec::new();
        for node in host.each("alias") {
            mounts.push(Mount {
                prefix: node.arg(0).trim_end_matches('/').to_owned(),
                is_only_below: node.arg(0).ends_with('/'),
                directory: node.arg(1).trim_end_matches('/').to_owned(),
                origin: node.origin,
            });
        }
        // The longest prefix first: Apache takes the first alias, and people write the longest first.
        mounts.sort_by_key(|mount| std::cmp::Reverse(mount.prefix.len()));
        if let Some((root, origin)) = &host.root {
            mounts.push(Mount {
                prefix: String::new(),
                is_only_below: false,
                directory: root.clone(),
                origin: *origin,
            });
        }
        let mut routes = self.rewrites(host);
        routes.extend(self.redirects(host, &mounts));
        let proxies = self.proxies(host);
        let passed: Vec<String> = proxies
            .iter()
            .filter(|route| route.table.has("upstream"))
            .flat_map(|route| route.path.patterns())
            .collect();
        routes.extend(self.rewrites_of_directories(host, &mounts, &passed));
        // What no proxy gets is of the document root.
        let root = mounts.iter().position(|mount| mount.prefix.is_empty());
        let mut content: Vec<(Option<usize>, Route)> =
            proxies.into_iter().map(|route| (root.filter(|_| !route.table.has("upstream")), route)).collect();
        for (number, mount) in mounts.iter().enumerate() {
            content.extend(self.mounted(host, mount).into_iter().map(|route| (Some(number), route)));
        }
        let programs = self.programs(host);
        if programs.iter().any(Route::is_for_all) {
            // In place of the document root: its files may be the program's own.
            content.retain(|(mount, _)| mount.is_none() || *mount != root);
        }
        content.extend(programs.into_iter().map(|route| (None, route)));
        routes.extend(self.sections(host, &mounts, content));
        let headers = self.headers(host.all.iter().copied());
        let pages = self.error_pages(host);
        let compress = self.compression(host);
        for route in &mut routes {
            // What a section sets is set after what the host does.
            let mut all = headers.clone();
            if let Some(own) = route.table.remove("headers") {
                all.merge(&Table { items: vec![own] });
            }
            route.table.items.extend(all.items);
            for item in &compress.items {
                if !route.table.has(&item.key) {
                    route.table.items.push(item.clone());
                }
            }
            if !route.table.has("redirect") && !route.table.has("respond") {
                route.table.items.extend(pages.items.iter().cloned());
            }
        }
        routes
    }

    /// `Redirect` and `RedirectMatch`, of the host and of its sections.
    fn redirects(&mut self, host: &Host<'a>, mounts: &[Mount]) -> Vec<Route> {
        let mut routes = Vec::new();
        for node in &host.own {
            routes.extend(self.redirection(node));
            if node.name.starts_with("redirect") && is_proxied(host, node) {
                self.ledger.differs(
                    node.origin,
                    "Apache passes the path to the server of ProxyPass instead, and never redirects",
                );
            }
        }
        for section in host.all.iter().copied().filter(|node| node.name == "directory") {
            let is_whole = mounts::places(mounts, section.arg(0)).iter().any(|place| place == "/");
            for node in section.inner.iter().filter(|node| node.name.starts_with("redirect")) {
                match is_whole {
                    true => routes.extend(self.redirection(node)),
                    false => self.ledger.lost(
                        node.origin,
                        "a redirect of a part of the files",
                        "write a route by hand",
                    ),
                }
            }
        }
        for section in host.all.iter().copied().filter(|node| node.name.starts_with("location")) {
            for node in section.inner.iter().filter(|node| node.name.starts_with("redirect")) {
                self.ledger.lost(node.origin, "a redirect of a part of the paths", "write a route by hand");
            }
        }
        routes
    }

    fn redirection(&mut self, node: &'a Node) -> Vec<Route> {
        match node.name.as_str() {
            "redirect" | "redirectpermanent" | "redirecttemp" => self.redirect(node),
            "redirectmatch" => self.redirect_match(node),
            _ => Vec::new(),
        }
    }
}

/// How much of a path a route fixes: longer ones come first, regular expressions and denials before all.
fn weight(route: &Route) -> usize {
    match &route.path {
        // Files beside scripts: after all that has rules of its own below them.
        PathMatch::Regex(pattern) if route.table.has("rewrite") => {
            crate::expression::beginning(pattern).map_or(0, |begin| begin.len() + 1)
        }
        PathMatch::Regex(_) => 100_000,
        PathMatch::Exact(path) => 10_000 + path.len(),
        PathMatch::Begin(path) => path.len(),
        PathMatch::Patterns(patterns) => patterns.iter().map(String::len).max().unwrap_or(0),
        PathMatch::Any => 0,
    }
}
