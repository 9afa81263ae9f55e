//! A virtual host, or the main server, becomes a site.

use super::syntax::{Node, ignore};
use crate::cidr::{Clients, Rule, Verdict, resolve};
use crate::files::Files;
use crate::fpm::Pool;
use crate::ledger::{Ledger, Origin};
use crate::model::{Bind, Certificate, Model, PathMatch, Route, Site, add};
use crate::php::{self, Scripts};
use crate::table::{Table, Value};
use crate::units::size;

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
struct Mount {
    /// `/wiki`; empty: the whole site.
    prefix: String,
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
        let has_content = self.global.iter().any(|node| {
            ["documentroot", "alias", "proxypass", "redirect", "redirectmatch"].contains(&node.name.as_str())
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

    fn tls(&mut self, host: &Host<'a>, site: &mut Site) {
        match (host.one("sslcertificatefile"), host.one("sslcertificatekeyfile")) {
            (Some(cert), key) => {
                let key_file = key.map_or_else(|| cert.arg(0).to_owned(), |key| key.arg(0).to_owned());
                key.iter().for_each(|node| self.ledger.carried(node.origin));
                site.certificates.push(Certificate {
                    cert: cert.arg(0).to_owned(),
                    key: key_file,
                    origin: Some(cert.origin),
                });
            }
            (None, _) => {
                if let Some(origin) = host.origin {
                    self.ledger.lost(
                        origin,
                        "it has no SSLCertificateFile",
                        "set `tls.cert` and `tls.key` of the listener",
                    );
                }
            }
        }
        if let Some(chain) = host.one("sslcertificatechainfile") {
            self.ledger.lost(
                chain.origin,
                "the chain is in the file of the certificate",
                "append this file to the certificate's",
            );
        }
        if let Some(protocol) = host.one("sslprotocol") {
            let text = protocol.args.join(" ").to_ascii_lowercase();
            match text.contains("-tlsv1.2") || text == "tlsv1.3" || text == "+tlsv1.3" {
                true => site.tls.set("profile", "modern", protocol.origin),
                false => self.ledger.differs(protocol.origin, "TLS 1.2 and 1.3 only"),
            }
        }
        if let Some(verify) =
            host.one("sslverifyclient").filter(|node| !node.arg(0).eq_ignore_ascii_case("none"))
        {
            match (host.one("sslcacertificatefile"), verify.arg(0).to_ascii_lowercase().as_str()) {
                (Some(ca), kind @ ("require" | "optional")) => {
                    site.tls.set("client_ca", ca.arg(0), ca.origin);
                    if kind == "optional" {
                        site.tls.set("client_auth", "optional", verify.origin);
                    }
                    self.ledger.carried(verify.origin);
                }
                _ => self.ledger.lost(
                    verify.origin,
                    "certificates of clients are of an authority in `tls.client_ca`",
                    "set it",
                ),
            }
        }
        if let Some(crl) = host.one("sslcarevocationfile") {
            site.tls.set("client_crl", crl.arg(0), crl.origin);
        }
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
        let mut routes = Vec::new();
        for node in &host.own {
            match node.name.as_str() {
                "redirect" | "redirectpermanent" | "redirecttemp" => routes.extend(self.redirect(node)),
                "redirectmatch" => routes.extend(self.redirect_match(node)),
                _ => continue,
            }
            if is_proxied(host, node) {
                self.ledger.differs(
                    node.origin,
                    "Apache passes the path to the server of ProxyPass instead, and never redirects",
                );
            }
        }
        routes.extend(self.rewrites(host));
        let mut mounts: Vec<Mount> = Vec::new();
        for node in host.each("alias") {
            mounts.push(Mount {
                prefix: node.arg(0).trim_end_matches('/').to_owned(),
                directory: node.arg(1).trim_end_matches('/').to_owned(),
                origin: node.origin,
            });
        }
        // The longest prefix first: Apache takes the first alias, and people write the longest first.
        mounts.sort_by_key(|mount| std::cmp::Reverse(mount.prefix.len()));
        let mut content: Vec<Route> = self.proxies(host);
        for mount in &mounts {
            content.extend(self.mounted(host, mount));
        }
        if let Some((root, origin)) = &host.root {
            let whole = Mount { prefix: String::new(), directory: root.clone(), origin: *origin };
            content.extend(self.mounted(host, &whole));
        }
        for name in ["scriptalias", "scriptaliasmatch", "aliasmatch", "wsgiscriptalias", "wsgidaemonprocess"]
        {
            for node in host.each(name) {
                let todo = match name.starts_with("wsgi") {
                    true => {
                        "let Keepwarm run the app: `entry = \"shop.wsgi:application\"` of an `[app.NAME]`"
                    }
                    false => "write its route by hand",
                };
                self.ledger.lost(node.origin, "it has no counterpart", todo);
            }
        }
        self.sections(host, &mounts, &mut content);
        content.sort_by_key(|route| std::cmp::Reverse(weight(route)));
        routes.extend(content);
        let headers = self.headers(host);
        let pages = self.error_pages(host);
        let compress = self.compression(host);
        for route in &mut routes {
            for item in headers.items.iter().chain(&compress.items) {
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

    /// `Redirect [STATUS] /path URL`: the path and all below it.
    fn redirect(&mut self, node: &Node) -> Vec<Route> {
        let (status, rest) = match (node.name.as_str(), node.args.as_slice()) {
            ("redirectpermanent", rest) => (301, rest),
            ("redirecttemp", rest) => (302, rest),
            (_, [status, rest @ ..]) if !status.starts_with('/') && !status.contains("://") => (
                match status.as_str() {
                    "permanent" => 301,
                    "temp" => 302,
                    "seeother" => 303,
                    "gone" => 410,
                    number => number.parse().unwrap_or(0),
                },
                rest,
            ),
            (_, rest) => (302, rest),
        };
        let path = rest.first().map_or("/", String::as_str).trim_end_matches('/');
        let origin = node.origin;
        let below =
            if path.is_empty() { PathMatch::Any } else { PathMatch::Patterns(vec![format!("{path}/*")]) };
        let Some(target) = rest.get(1) else {
            let status = if (200..=599).contains(&status) { status } else { 410 };
            return vec![Route::status(
                origin,
                if path.is_empty() { PathMatch::Any } else { PathMatch::Begin(path.to_owned()) },
                status,
            )];
        };
        if ![301, 302, 303, 307, 308].contains(&status) {
            self.ledger.lost(
                origin,
                "its status is not that of a redirect",
                "write `redirect` of a route by hand",
            );
            return Vec::new();
        }
        let plain = target.replace('$', "$$");
        let mut routes = Vec::new();
        if !path.is_empty() {
            let mut exact = Route::new(origin, PathMatch::Exact(path.to_owned()));
            exact.table.set(
                "redirect",
                crate::nginx::redirect(&format!("{plain}$query"), status, origin),
                origin,
            );
            routes.push(exact);
        }
        let rest = match path.is_empty() {
            true => format!("{}$path$query", plain.trim_end_matches('/')),
            false => format!("{}/$1$query", plain.trim_end_matches('/')),
        };
        let mut all = Route::new(origin, below);
        all.table.set("redirect", crate::nginx::redirect(&rest, status, origin), origin);
        routes.push(all);
        routes
    }

    fn redirect_match(&mut self, node: &Node) -> Vec<Route> {
        let (status, rest) = match node.args.as_slice() {
            [status, rest @ ..]
                if rest.len() > 1
                    || status.parse::<i64>().is_ok()
                    || matches!(status.as_str(), "permanent" | "temp" | "seeother" | "gone") =>
            {
                (status.as_str(), rest)
            }
            rest => ("302", rest),
        };
        let status = match status {
            "permanent" => 301,
            "temp" => 302,
            "seeother" => 303,
            "gone" => 410,
            number => number.parse::<i64>().unwrap_or(0),
        };
        let pattern = rest.first().map_or("", String::as_str);
        let Ok(pattern) = crate::expression::check(pattern, false) else {
            self.ledger.lost(
                node.origin,
                "its regular expression has no counterpart",
                "write a route by hand",
            );
            return Vec::new();
        };
        let path = PathMatch::Regex(pattern);
        match rest.get(1) {
            Some(target)
                if [301, 302, 303, 307, 308].contains(&status)
                    && crate::nginx::safe_target(target).is_ok() =>
            {
                let mut route = Route::new(node.origin, path);
                route.table.set(
                    "redirect",
                    crate::nginx::redirect(&format!("{target}$query"), status, node.origin),
                    node.origin,
                );
                vec![route]
            }
            None if (200..=599).contains(&status) => vec![Route::status(node.origin, path, status)],
            _ => {
                self.ledger.lost(
                    node.origin,
                    "its target or status has no counterpart",
                    "write a route by hand",
                );
                Vec::new()
            }
        }
    }

    /// What serves a directory: PHP, or files.
    fn mounted(&mut self, host: &Host<'a>, mount: &Mount) -> Vec<Route> {
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

    /// The scripts of a directory, if PHP runs them.
    fn php(
        &mut self,
        host: &Host<'a>,
        directory: &str,
        sections: &[&'a Node],
        is_mount_of_php: bool,
    ) -> Option<Scripts> {
        let mut scripts = Scripts::default();
        let mut is_php = false;
        let nodes: Vec<&Node> =
            sections.iter().flat_map(|section| &section.inner).chain(host.all.iter().copied()).collect();
        let mut handlers: Vec<&Node> = Vec::new();
        for node in &nodes {
            match node.name.as_str() {
                "sethandler" => handlers.push(node),
                "filesmatch" | "files" if node.arg(0).contains("ph") || node.arg(1).contains("ph") => {
                    let inner: Vec<&Node> =
                        node.inner.iter().filter(|inner| inner.name == "sethandler").collect();
                    if !inner.is_empty() {
                        self.ledger.carried(node.origin);
                        handlers.extend(inner);
                    }
                }
                "addtype" | "addhandler" if node.args.iter().any(|arg| arg.contains("x-httpd-php")) => {
                    is_php = true;
                    self.ledger.carried(node.origin);
                }
                "loadmodule" if node.arg(0).starts_with("php") => is_php = true,
                "directoryindex"
                    if node.args.iter().any(|name| name.ends_with(".php"))
                        && sections
                            .iter()
                            .any(|section| section.inner.iter().any(|inner| inner.origin == node.origin)) =>
                {
                    is_php = true
                }
                "proxypassmatch"
                    if node.arg(1).starts_with("fcgi://") || node.arg(1).contains("|fcgi://") =>
                {
                    is_php = true;
                    let address =
                        node.arg(1).split("|fcgi://").next().unwrap_or("").trim_start_matches("fcgi://");
                    scripts.address = Some(
                        address
                            .split('/')
                            .next()
                            .filter(|_| !address.starts_with("unix:"))
                            .unwrap_or(address)
                            .to_owned(),
                    );
                    self.ledger.carried(node.origin);
                }
                "php_value" | "php_flag" | "php_admin_value" | "php_admin_flag" => {
                    is_php = true;
                    let value = match (node.name.ends_with("flag"), node.arg(1).to_ascii_lowercase().as_str())
                    {
                        (true, "on") => "1".to_owned(),
                        (true, "off") => "0".to_owned(),
                        _ => node.arg(1).to_owned(),
                    };
                    scripts.settings.push((format!("{}={value}", node.arg(0)), node.origin));
                    if node.name.starts_with("php_admin") {
                        self.ledger.differs(node.origin, "scripts can change it by ini_set(); for values that they cannot, see docs/guide/classic-php.md");
                    }
                }
                _ => {}
            }
        }
        for handler in handlers {
            let text = handler.arg(0);
            if let Some(proxy) = text.strip_prefix("proxy:") {
                is_php = true;
                let address = proxy.split("|fcgi://").next().unwrap_or(proxy).trim_start_matches("fcgi://");
                scripts.address = Some(address.to_owned());
                self.ledger.carried(handler.origin);
            } else if text.contains("x-httpd-php") && !text.contains("source") {
                is_php = true;
                self.ledger.carried(handler.origin);
            } else if text.eq_ignore_ascii_case("none") || text.contains("source") {
                self.ledger.ignored(handler.origin, "source is never shown");
            }
        }
        if !is_mount_of_php && !sections.iter().flat_map(|section| &section.inner).any(is_php_directive) {
            // A handler for all of the server says nothing of a directory beside the site.
            is_php = false;
        }
        let has_index = self.files.here(&std::path::Path::new(directory).join("index.php")).is_file();
        (is_php || has_index).then_some(scripts)
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

    /// `Require`, or `Order`, `Allow` and `Deny`, and passwords.
    fn access(&mut self, nodes: &[Node], route: &mut Route) {
        let mut rules: Vec<(Verdict, String, Origin)> = Vec::new();
        let mut is_denied = None;
        let mut has_user = false;
        let any = nodes.iter().find(|node| node.name == "requireany");
        let all: Vec<&Node> = nodes.iter().chain(any.iter().flat_map(|node| &node.inner)).collect();
        any.iter().for_each(|node| self.ledger.carried(node.origin));
        for node in &all {
            let words: Vec<String> = node.args.iter().map(|arg| arg.to_ascii_lowercase()).collect();
            let first = words.first().map_or("", String::as_str);
            let second = words.get(1).map_or("", String::as_str);
            match (node.name.as_str(), first, second) {
                ("require", "all", "granted") => self.ledger.carried(node.origin),
                ("require", "all", "denied") => is_denied = Some(node.origin),
                ("require", "ip", _) => rules.extend(
                    node.args.iter().skip(1).map(|ip| (Verdict::Allow, short_block(ip), node.origin)),
                ),
                ("require", "local", _) => rules
                    .extend(["127.0.0.0/8", "::1"].map(|ip| (Verdict::Allow, ip.to_owned(), node.origin))),
                ("require", "valid-user", _) => {
                    has_user = true;
                    self.ledger.carried(node.origin);
                }
                ("require", "user", _) => {
                    has_user = true;
                    self.ledger.lost(
                        node.origin,
                        "every user of the file may use it",
                        "keep only these users in the file",
                    );
                }
                ("require", ..) => {
                    self.ledger.lost(
                        node.origin,
                        "it has no counterpart: nobody may use it",
                        "set `allow`, `basic_auth` or `auth_request`",
                    );
                    is_denied = Some(node.origin);
                }
                ("deny", "from", "all") => is_denied = is_denied.or(Some(node.origin)),
                ("allow", "from", "all") => self.ledger.carried(node.origin),
                ("allow", "from", _) => rules.extend(
                    node.args.iter().skip(1).map(|ip| (Verdict::Allow, short_block(ip), node.origin)),
                ),
                ("deny", "from", _) => rules
                    .extend(node.args.iter().skip(1).map(|ip| (Verdict::Deny, short_block(ip), node.origin))),
                ("order", ..) => self.ledger.carried(node.origin),
                ("satisfy", "any", _) => self.ledger.lost(
                    node.origin,
                    "all of the rules must be met",
                    "write two routes, one with `client`",
                ),
                _ => {}
            }
        }
        let has_allow = rules.iter().any(|(verdict, ..)| *verdict == Verdict::Allow);
        if let (Some(origin), false) = (is_denied, has_allow) {
            deny(route, origin);
            return;
        }
        is_denied.iter().for_each(|origin| self.ledger.carried(*origin));
        let texts: Vec<Rule<'_>> = rules.iter().map(|(verdict, text, _)| (*verdict, text.as_str())).collect();
        let end = if has_allow { Verdict::Deny } else { Verdict::Allow };
        let first = rules.first().map(|(.., origin)| *origin);
        match (resolve(&texts, end), first) {
            (Some(Clients::Only(list)), Some(origin)) => route.table.set("allow", list, origin),
            (Some(Clients::Except(list)), Some(origin)) => route.table.set("deny", list, origin),
            (Some(_), _) | (_, None) => {}
            (None, Some(origin)) => {
                self.ledger.lost(
                    origin,
                    "clients are addresses and blocks, not names: nobody may use it",
                    "set `allow` of the route",
                );
                route.table.set("deny", vec!["0.0.0.0/0", "::/0"], origin);
            }
        }
        rules.iter().for_each(|(.., origin)| self.ledger.carried(*origin));
        if has_user {
            self.basic_auth(nodes, route);
        }
    }

    fn basic_auth(&mut self, nodes: &[Node], route: &mut Route) {
        let find = |name: &str| nodes.iter().find(|node| node.name == name);
        find("authtype").iter().for_each(|node| self.ledger.carried(node.origin));
        find("authbasicprovider").iter().for_each(|node| self.ledger.carried(node.origin));
        let is_basic = find("authtype").is_none_or(|node| node.arg(0).eq_ignore_ascii_case("basic"));
        match find("authuserfile").filter(|_| is_basic) {
            Some(file) => {
                let mut table = Table::default();
                table.set("file", file.arg(0), file.origin);
                if let Some(realm) = find("authname") {
                    table.set("realm", realm.arg(0).replace(['"', '\\'], ""), realm.origin);
                }
                route.table.set("basic_auth", table, file.origin);
                self.ledger.differs(file.origin, "its hashes must be by bcrypt (htpasswd -B) or argon2");
            }
            None => {
                let origin = find("authtype").or_else(|| nodes.first()).map(|node| node.origin);
                if let Some(origin) = origin {
                    self.ledger.lost(
                        origin,
                        "it has no AuthUserFile for basic authentication: nobody may use it",
                        "set `basic_auth` or `auth_request`",
                    );
                    deny(route, origin);
                }
            }
        }
    }

    /// `<Location>`, `<LocationMatch>`, `<Files>`, and `<Directory>` below a mount.
    fn sections(&mut self, host: &Host<'a>, mounts: &[Mount], content: &mut Vec<Route>) {
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

    fn proxies(&mut self, host: &Host<'a>) -> Vec<Route> {
        let preserve = host.one("proxypreservehost");
        let is_preserved = preserve.is_some_and(|node| node.arg(0).eq_ignore_ascii_case("on"));
        preserve.iter().for_each(|node| self.ledger.carried(node.origin));
        let mut routes = Vec::new();
        for node in host.own.iter().copied() {
            match node.name.as_str() {
                "proxypass" if node.arg(1) == "!" => {
                    // Another route serves it: where a document root is, its files.
                    self.ledger.carried(node.origin);
                    let path = node.arg(0);
                    let mut route = Route::new(node.origin, PathMatch::Begin(path.to_owned()));
                    match &host.root {
                        Some((root, _)) => {
                            let below = path.trim_matches('/');
                            let is_prefix = path.ends_with('/');
                            let directory = if is_prefix { format!("{root}/{below}") } else { root.clone() };
                            route.table.set("files", directory, node.origin);
                        }
                        None => route.table.set("respond", 404i64, node.origin),
                    }
                    let has_alias = host
                        .each("alias")
                        .any(|alias| alias.arg(0).trim_end_matches('/') == path.trim_end_matches('/'));
                    if !has_alias {
                        routes.push(route);
                    }
                }
                "proxypass" => routes.push(self.proxied(node, node.arg(0), node.arg(1), is_preserved)),
                "proxypassmatch" if !node.arg(1).contains("fcgi://") => {
                    self.ledger.lost(
                        node.origin,
                        "a pattern of paths to a proxy",
                        "write a route with `rewrite` by hand",
                    );
                }
                "proxypassreverse" | "proxypassreversecookiedomain" | "proxypassreversecookiepath" => {
                    self.ledger.differs(node.origin, "`Location` and cookies are passed on unchanged: let the app make its URLs from X-Forwarded-Host and X-Forwarded-Proto");
                }
                "requestheader" => self.request_header(node, &mut routes),
                _ => {}
            }
        }
        // Request headers that come before the proxies in the file.
        let headers: Vec<&Node> =
            host.own.iter().copied().filter(|node| node.name == "requestheader").collect();
        for node in headers {
            self.request_header(node, &mut routes);
        }
        routes
    }

    fn request_header(&mut self, node: &Node, routes: &mut [Route]) {
        let (action, name, value) = (node.arg(0).to_ascii_lowercase(), node.arg(1), node.arg(2));
        if name.to_ascii_lowercase().starts_with("x-forwarded-") {
            self.ledger.ignored(node.origin, "Keepwarm sends X-Forwarded-* itself");
            return;
        }
        for route in routes.iter_mut().filter(|route| route.table.has("upstream") || route.table.has("app")) {
            match action.as_str() {
                "set" if !value.contains('%') => route.table.set_in(
                    &["request_headers", "set"],
                    name,
                    value.replace('$', "$$"),
                    node.origin,
                ),
                "unset" => route.table.push_in(&["request_headers"], "remove", name, node.origin),
                _ => self.ledger.lost(
                    node.origin,
                    "its action or value has no counterpart",
                    "set `request_headers` by hand",
                ),
            }
        }
    }

    /// A route to the server of a ProxyPass.
    fn proxied(&mut self, node: &Node, path: &str, target: &str, is_preserved: bool) -> Route {
        let origin = node.origin;
        let mut route =
            Route::new(origin, if path == "/" { PathMatch::Any } else { PathMatch::Begin(path.to_owned()) });
        let (target, socket) = match target.split_once('|') {
            Some((socket, target)) => (target, Some(socket)),
            None => (target, None),
        };
        let (scheme, rest) = target.split_once("://").unwrap_or(("", target));
        let (authority, uri) = rest.split_once('/').map_or((rest, ""), |(authority, uri)| (authority, uri));
        let uri = format!("/{uri}");
        let mut table = Table::default();
        match scheme {
            "http" | "https" | "ws" | "wss" | "h2" | "h2c" => {
                let tls = matches!(scheme, "https" | "wss" | "h2");
                let url = socket.map_or_else(
                    || format!("{}://{authority}", if tls { "https" } else { "http" }),
                    str::to_owned,
                );
                table.set("url", url, origin);
                if matches!(scheme, "h2" | "h2c") {
                    table.set("protocol", "http2", origin);
                }
                if !is_preserved && socket.is_none() {
                    table.set("host", authority, origin);
                }
            }
            "balancer" if self.balancer(authority, &mut table) => {}
            _ => {
                self.ledger.lost(
                    origin,
                    format!("`{target}` is not a server of HTTP"),
                    "write the route by hand",
                );
                route.table.set("respond", 501i64, origin);
                return route;
            }
        }
        for option in node.args.iter().filter(|arg| arg.contains('=') && !arg.contains("://")) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            match (name, value.parse::<u64>()) {
                ("timeout", Ok(seconds)) if seconds > 0 => {
                    table.set_in(&["timeouts"], "first_byte", crate::units::time(seconds * 1000), origin);
                    table.set_in(&["timeouts"], "idle", crate::units::time(seconds * 1000), origin);
                }
                ("connectiontimeout", Ok(seconds)) if seconds > 0 => {
                    table.set_in(&["timeouts"], "connect", crate::units::time(seconds * 1000), origin)
                }
                ("max", Ok(number)) if number > 0 => {
                    table.set_in(&["pool"], "max", i64::try_from(number).unwrap_or(1), origin)
                }
                (
                    "retry" | "keepalive" | "disablereuse" | "ping" | "ttl" | "smax" | "acquire" | "status"
                    | "upgrade" | "nocanon" | "flushpackets",
                    _,
                ) => {
                    self.ledger
                        .differs(origin, "connections are kept by Keepwarm's own rules (`pool`, `breaker`)");
                }
                _ => self.ledger.dropped(
                    origin,
                    format!("`{option}` has no counterpart"),
                    "find out whether it is needed",
                ),
            }
        }
        let wish = if scheme == "balancer" {
            authority.to_owned()
        } else {
            crate::nginx::upstream_wish(socket.unwrap_or(authority))
        };
        let name = add(&mut self.model.upstreams, &wish, table, origin, self.ledger);
        route.table.set("upstream", name, origin);
        // The path of the target replaces that of the location.
        match (path, uri.as_str()) {
            ("/", "/") => {}
            ("/", uri) => {
                route.path = PathMatch::Patterns(vec!["~^/(.*)$".to_owned()]);
                route.table.set("rewrite", format!("{uri}$1"), origin);
            }
            (path, uri) if uri == path => {}
            // Without a path, the rest follows the host.
            (path, "/") if !target.ends_with('/') && path.ends_with('/') => {
                route.table.set("rewrite", "/$1", origin)
            }
            (_, uri) => route.table.set("rewrite", format!("{uri}$1"), origin),
        }
        if !path.ends_with('/') && path != "/" && route.table.has("rewrite") && uri == "/" {
            // `/api` to `http://x/`: `/api/y` is `//y` in Apache, and `/y` is what is meant.
            route.path = PathMatch::Patterns(vec![format!("{path}/*")]);
            route.table.set("rewrite", "/$1", origin);
            self.ledger.differs(origin, format!("only paths below {path}/"));
        }
        route
    }

    fn balancer(&mut self, name: &str, table: &mut Table) -> bool {
        let wanted = format!("balancer://{name}");
        let section = self
            .global
            .iter()
            .chain(self.global.iter().flat_map(|node| &node.inner))
            .find(|node| node.name == "proxy" && node.arg(0).trim_end_matches('/') == wanted);
        let Some(section) = section else { return false };
        self.ledger.carried(section.origin);
        let mut list: Vec<Value> = Vec::new();
        for node in &section.inner {
            match node.name.as_str() {
                "balancermember" => {
                    let mut endpoint = Table::default();
                    endpoint.set("url", node.arg(0).trim_end_matches('/'), node.origin);
                    for option in node.args.iter().skip(1) {
                        match option.split_once('=') {
                            Some(("loadfactor", number)) => {
                                endpoint.set("weight", number.parse::<i64>().unwrap_or(1), node.origin)
                            }
                            Some(("status", "+H" | "H")) => endpoint.set("priority", 1i64, node.origin),
                            Some(("route", _)) => {
                                self.ledger.differs(node.origin, "sessions are kept by `balance` with `hash`")
                            }
                            _ => self.ledger.differs(node.origin, format!("`{option}` has no counterpart")),
                        }
                    }
                    self.ledger.carried(node.origin);
                    list.push(match endpoint.items.as_slice() {
                        [only] => only.value.clone(),
                        _ => endpoint.into(),
                    });
                }
                "proxyset" => self.ledger.differs(
                    node.origin,
                    "the less busy of two endpoints is chosen; set `balance` with `hash` for sessions",
                ),
                _ => {}
            }
        }
        let is_some = !list.is_empty();
        table.set("endpoints", Value::List(list), section.origin);
        is_some
    }

    /// `Header [always] set NAME VALUE`
    fn headers(&mut self, host: &Host<'a>) -> Table {
        let mut out = Table::default();
        for node in host.each("header") {
            let args: Vec<&str> = node
                .args
                .iter()
                .map(String::as_str)
                .filter(|arg| !matches!(*arg, "always" | "onsuccess"))
                .collect();
            let (action, name, value) = (
                args.first().copied().unwrap_or("").to_ascii_lowercase(),
                args.get(1).copied().unwrap_or(""),
                args.get(2).copied().unwrap_or(""),
            );
            if value.contains('%') || args.len() > 3 {
                self.ledger.lost(
                    node.origin,
                    "its value or condition has no counterpart",
                    "set `headers` of the route by hand",
                );
                continue;
            }
            let value = value.replace('$', "$$");
            match action.as_str() {
                "set" => out.set_in(&["headers", "set"], name, value, node.origin),
                "setifempty" => out.set_in(&["headers", "if_missing"], name, value, node.origin),
                "add" | "append" | "merge" => out.set_in(&["headers", "add"], name, value, node.origin),
                "unset" => out.push_in(&["headers"], "remove", name, node.origin),
                _ => self.ledger.lost(
                    node.origin,
                    "its action has no counterpart",
                    "set `headers` of the route by hand",
                ),
            }
        }
        out
    }

    fn error_pages(&mut self, host: &Host<'a>) -> Table {
        let mut out = Table::default();
        for node in host.each("errordocument") {
            let (code, target) = (node.arg(0), node.arg(1));
            let is_status = code.parse::<u16>().is_ok_and(|code| (400..600).contains(&code));
            match (
                &host.root,
                target.starts_with('/') && !target.contains(".php") && !target.contains(".cgi"),
                is_status,
            ) {
                (Some((root, _)), true, true) => {
                    // An alias may lead elsewhere.
                    let alias = host.each("alias").find(|alias| target.starts_with(alias.arg(0)));
                    let file = match alias {
                        Some(alias) => {
                            format!("{}{}", alias.arg(1), target.strip_prefix(alias.arg(0)).unwrap_or(""))
                        }
                        None => format!("{root}{target}"),
                    };
                    out.set_in(&["error_pages"], code, file, node.origin);
                }
                _ => self.ledger.dropped(
                    node.origin,
                    "an error page is a file, or a path of an app",
                    "set `error_pages`",
                ),
            }
        }
        out
    }

    fn compression(&mut self, host: &Host<'a>) -> Table {
        let mut out = Table::default();
        for node in host
            .each("addoutputfilterbytype")
            .filter(|node| node.args.iter().any(|arg| arg.contains("DEFLATE") || arg.contains("BROTLI")))
        {
            out.set("compress", true, node.origin);
            self.ledger.differs(node.origin, "all formats of text are compressed");
        }
        out
    }

    fn body_limit(&mut self, host: &Host<'a>, route: &mut Route) {
        match host
            .one("limitrequestbody")
            .and_then(|node| Some((node.arg(0).parse::<u64>().ok()?, node.origin)))
        {
            Some((0, origin)) => route.table.set("max_body", "off", origin),
            Some((bytes, origin)) => route.table.set("max_body", size(bytes), origin),
            None => route.table.note("max_body", "1GiB", "the default of Apache"),
        }
    }
}

/// The script of a directory: the first of DirectoryIndex.
fn script_of(host: &Host<'_>, sections: &[&Node]) -> String {
    let own = sections.iter().flat_map(|section| &section.inner).find(|node| node.name == "directoryindex");
    let all = own.or_else(|| host.each("directoryindex").next());
    all.and_then(|node| node.args.iter().find(|name| name.ends_with(".php")))
        .cloned()
        .unwrap_or_else(|| "index.php".to_owned())
}

/// `10.` and `192.168` are blocks in Apache.
fn short_block(text: &str) -> String {
    if text.eq_ignore_ascii_case("localhost") {
        return "127.0.0.1".to_owned();
    }
    let parts: Vec<&str> = text.trim_end_matches('.').split('.').collect();
    let is_short =
        !text.contains(['/', ':']) && parts.len() < 4 && parts.iter().all(|part| part.parse::<u8>().is_ok());
    match is_short {
        true => {
            let mut all: Vec<&str> = parts.clone();
            all.resize(4, "0");
            format!("{}/{}", all.join("."), parts.len() * 8)
        }
        false => text.to_owned(),
    }
}

/// Whether a directive of a directory says that PHP runs its scripts.
fn is_php_directive(node: &Node) -> bool {
    node.name.starts_with("php_")
        || (node.name == "directoryindex" && node.args.iter().any(|name| name.ends_with(".php")))
        || (node.name == "sethandler" && node.arg(0).contains("php"))
        || (matches!(node.name.as_str(), "addtype" | "addhandler")
            && node.args.iter().any(|arg| arg.contains("x-httpd-php")))
        || node.inner.iter().any(is_php_directive)
}

/// Whether a ProxyPass has the path of a redirect: mod_proxy comes before mod_alias.
fn is_proxied(host: &Host<'_>, redirect: &Node) -> bool {
    let path = redirect.args.iter().find_map(|arg| arg.trim_start_matches('^').strip_prefix('/'));
    let first = host.each("proxypass").find(|pass| {
        let prefix = pass.arg(0).trim_start_matches('/');
        path.is_some_and(|path| path.starts_with(prefix) || path == prefix.trim_end_matches('/'))
    });
    first.is_some_and(|pass| pass.arg(1) != "!")
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

/// Responds with 403, in place of what the route was for.
fn deny(route: &mut Route, origin: Origin) {
    const TARGET: [&str; 10] = [
        "app",
        "files",
        "upstream",
        "try_files",
        "strip_prefix",
        "listing",
        "index",
        "max_body",
        "rewrite",
        "request_headers",
    ];
    for key in TARGET {
        route.table.remove(key);
    }
    route.table.set("respond", 403i64, origin);
}
