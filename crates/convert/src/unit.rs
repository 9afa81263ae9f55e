//! NGINX Unit's JSON: listeners, routes, applications, upstreams.

use std::path::Path;

use crate::Error;
use crate::files::Files;
use crate::ledger::{Ledger, Origin};
use crate::model::{Bind, Model, PathMatch, Route, Site, add};
use crate::table::{Table, Value, one_or_list};
use crate::tree::{Data, Node, load};
use crate::units::{size, time};

pub(crate) fn read(path: &Path, files: &Files, model: &mut Model, ledger: &mut Ledger) -> Result<(), Error> {
    let whole = load(path, files, ledger)?;
    // As `curl …/` gives it, the configuration is within `config`.
    let config = whole.get("config").unwrap_or(&whole);
    if let Some(certificates) = whole.get("certificates").filter(|_| whole.get("config").is_some()) {
        certificates.ignore("Unit's store of certificates", ledger);
    }
    let Some(listeners) = config.get("listeners") else {
        return Err(Error::new(format!(
            "{}: has no `listeners`, so there is nothing to serve",
            files.shown(path)
        )));
    };
    let mut reader = Reader { config, model, ledger };
    for (address, listener) in listeners.entries() {
        reader.listener(address, listener);
    }
    reader.settings();
    for (name, app) in config.get("applications").map(Node::entries).unwrap_or_default() {
        if !reader.model.apps.iter().any(|known| known.name.starts_with(name.as_str())) {
            app.ignore("no listener leads to this application", reader.ledger);
        }
    }
    Ok(())
}

struct Reader<'a> {
    config: &'a Node,
    model: &'a mut Model,
    ledger: &'a mut Ledger,
}

impl Reader<'_> {
    fn listener(&mut self, address: &str, listener: &Node) {
        let origin = listener.open(self.ledger);
        let tls = listener.get("tls");
        let text = match address.strip_prefix("unix:") {
            Some(path) => format!("unix:{path}"),
            None => address.replace("*:", "0.0.0.0:"),
        };
        let bind = Bind {
            address: text,
            tls: tls.is_some(),
            is_default: true,
            proxy_protocol: false,
            origin: Some(origin),
        };
        let mut site = Site { origin: Some(origin), binds: vec![bind], ..Site::default() };
        if let Some(tls) = tls {
            let todo = "export the certificate and its key to files, and set `tls.cert` and `tls.key` of the listener";
            tls.drop("Unit keeps certificates in its own store", todo, true, self.ledger);
            site.tls.note("cert", "/etc/ssl/unit.pem", "set this: the file of the certificate");
            site.tls.note("key", "/etc/ssl/unit.key", "set this: the file of its key");
        }
        if let Some(forwarded) = listener.get("forwarded").or_else(|| listener.get("client_ip")) {
            if let Some(source) = forwarded.get("source") {
                self.model.server.set("trusted_proxies", source.texts(), source.origin);
            }
            forwarded.ignore(
                "the client is read from X-Forwarded-For and Forwarded of `server.trusted_proxies`",
                self.ledger,
            );
        }
        if let Some(pass) = listener.get("pass") {
            self.ledger.carried(pass.origin);
            site.routes = self.pass(pass.text(), pass.origin, &Route::new(origin, PathMatch::Any));
        }
        self.model.sites.push(site);
    }

    /// `routes`, `routes/NAME`, `applications/NAME`, `applications/NAME/TARGET`, `upstreams/NAME`.
    fn pass(&mut self, text: &str, origin: Origin, within: &Route) -> Vec<Route> {
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

    fn app(&mut self, name: &str, target: Option<&str>, origin: Origin) -> Option<String> {
        let Some(app) = self.config.at(&["applications", name]).cloned() else {
            self.ledger.lost(origin, format!("there is no application `{name}`"), "write an `[app.NAME]`");
            return None;
        };
        let mut table = Table::default();
        let kind = app
            .get("type")
            .map(|kind| kind.text().split(' ').next().unwrap_or("").to_owned())
            .unwrap_or_default();
        let spec = match target {
            Some(target) => app.at(&["targets", target]).cloned().unwrap_or_else(|| app.clone()),
            None => app.clone(),
        };
        if !self.program(&kind, &app, &spec, &mut table) {
            app.drop(
                &format!("applications of type `{kind}` have no counterpart"),
                "run it by its own server (`command`)",
                true,
                self.ledger,
            );
            return None;
        }
        for (key, value) in app.entries() {
            self.app_key(key, value, &kind, &mut table);
        }
        let wish = target.map_or_else(|| name.to_owned(), |target| format!("{name}-{target}"));
        Some(add(&mut self.model.apps, &wish, table, origin, self.ledger))
    }

    /// What a worker runs; whether Keepwarm can run it.
    fn program(&mut self, kind: &str, app: &Node, spec: &Node, table: &mut Table) -> bool {
        if let Some(node) = app.get("type") {
            self.ledger.carried(node.origin);
        }
        match kind {
            "python" => {
                let Some(module) = spec.get("module") else { return false };
                let callable = spec.get("callable").map_or("application", Node::text);
                let is_factory = spec.get("factory").is_some_and(Node::is_on);
                table.set(
                    "entry",
                    format!("{}:{callable}{}", module.text(), if is_factory { "()" } else { "" }),
                    module.origin,
                );
                for key in ["callable", "factory"] {
                    spec.get(key).iter().for_each(|node| self.ledger.carried(node.origin));
                }
                if let Some(home) = app.get("home") {
                    table.set(
                        "interpreter",
                        format!("{}/bin/python", home.text().trim_end_matches('/')),
                        home.origin,
                    );
                }
                if let Some(path) = app.get("path") {
                    table.set("directory", path.texts().first().cloned().unwrap_or_default(), path.origin);
                }
            }
            "ruby" => {
                let Some(script) = app.get("script") else { return false };
                table.set("kind", "rack", None);
                table.set("entry", script.text(), script.origin);
            }
            "php" => {
                let Some(root) = spec.get("root") else { return false };
                table.set("kind", "fastcgi", None);
                let script = spec.get("script").or_else(|| spec.get("index"));
                let name = script.map_or("index.php", Node::text);
                table.set("entry", format!("{}/{name}", root.text().trim_end_matches('/')), root.origin);
                for key in ["script", "index"] {
                    spec.get(key).iter().for_each(|node| self.ledger.carried(node.origin));
                }
            }
            "external" | "nodejs" | "go" => {
                let Some(executable) = app.get("executable") else { return false };
                let mut command = vec![executable.text().to_owned()];
                command.extend(app.get("arguments").map(Node::texts).unwrap_or_default());
                table.set("command", command, executable.origin);
                app.get("arguments").iter().for_each(|node| self.ledger.carried(node.origin));
                self.ledger.differs(executable.origin, "the program must serve HTTP itself, at the port in PORT: without unit-http and Unit's libraries");
            }
            _ => return false,
        }
        true
    }

    fn app_key(&mut self, key: &str, value: &Node, kind: &str, table: &mut Table) {
        let origin = value.origin;
        match key {
            "type" | "module" | "callable" | "factory" | "path" | "home" | "script" | "root" | "index"
            | "executable" | "arguments" | "targets" => {}
            "processes" if value.is_map() => self.processes(value, table),
            "processes" => match value.number() {
                Some(number) => table.set("workers", number.clamp(1, 1024), origin),
                None => self.ledger.lost(origin, "it is not a number", "set `workers` of the app"),
            },
            "threads" if matches!(kind, "python" | "ruby") => match value.number() {
                Some(number) => table.set("threads", number, origin),
                None => self.ledger.lost(origin, "it is not a number", "set `threads` of the app"),
            },
            "user" | "group" => table.set(key, value.text(), origin),
            "working_directory" => table.set("directory", value.text(), origin),
            "environment" => {
                for (name, text) in value.entries() {
                    table.set_in(&["env"], name, text.text(), text.origin);
                }
            }
            "protocol" => table.set("kind", value.text(), origin),
            "prefix" => value.drop(
                "a prefix is `path` and `strip_prefix` of the route",
                "set them",
                false,
                self.ledger,
            ),
            "limits" => {
                for (name, limit) in value.entries() {
                    match (name.as_str(), limit.number()) {
                        ("timeout", Some(seconds)) if seconds > 0 => {
                            table.set("request_timeout", time(seconds.unsigned_abs() * 1000), limit.origin)
                        }
                        ("requests", Some(requests)) if requests > 0 => {
                            table.set("max_requests", requests, limit.origin)
                        }
                        ("timeout" | "requests", Some(_)) => self.ledger.ignored(limit.origin, "no limit"),
                        _ => {}
                    }
                }
            }
            "options" => self.php_options(value, table),
            "isolation" => value.drop(
                "Keepwarm does not isolate workers",
                "confine the service by systemd or a container",
                true,
                self.ledger,
            ),
            "stdout" | "stderr" => self.ledger.differs(origin, "what apps print is in Keepwarm's log"),
            "hooks" | "thread_stack_size" | "options_file" => {
                value.drop("it has no counterpart", "find out whether it is needed", false, self.ledger)
            }
            _ => {}
        }
    }

    fn processes(&mut self, value: &Node, table: &mut Table) {
        let mut range = Table::default();
        for (name, node) in value.entries() {
            match (name.as_str(), node.number()) {
                ("max", Some(number)) => range.set("max", number.clamp(1, 1024), node.origin),
                ("spare", Some(number)) => range.set("min", number.clamp(1, 1024), node.origin),
                ("idle_timeout", Some(seconds)) => {
                    range.set("idle", time(seconds.max(1).unsigned_abs() * 1000), node.origin)
                }
                _ => {}
            }
        }
        table.set("workers", range, None);
    }

    fn php_options(&mut self, value: &Node, table: &mut Table) {
        let mut options: Vec<Value> = Vec::new();
        for kind in ["admin", "user"] {
            for (name, setting) in value.get(kind).map(Node::entries).unwrap_or_default() {
                options.extend([Value::from("-d"), Value::from(format!("{name}={}", setting.text()))]);
                match kind {
                    "admin" => self.ledger.differs(setting.origin, "scripts can change it by ini_set(); for values that they cannot, see docs/guide/classic-php.md"),
                    _ => self.ledger.carried(setting.origin),
                }
            }
        }
        if let Some(file) = value.get("file") {
            self.ledger.dropped(
                file.origin,
                "PHP reads its own php.ini",
                "set `options` of the app to [\"-c\", FILE]",
            );
        }
        if !options.is_empty() {
            table.set("options", Value::List(options), None);
        }
    }

    fn upstream(&mut self, name: &str) -> Option<String> {
        let servers = self.config.at(&["upstreams", name, "servers"]).cloned()?;
        let mut endpoints: Vec<Value> = Vec::new();
        for (address, server) in servers.entries() {
            let weight = server.get("weight").and_then(|weight| Some((weight.number()?, weight.origin)));
            let url = format!("http://{address}");
            self.ledger.carried(server.origin);
            endpoints.push(match weight {
                Some((weight, origin)) => {
                    let mut endpoint = Table::default();
                    endpoint.set("url", url, None);
                    endpoint.set("weight", weight, origin);
                    self.ledger.carried(origin);
                    endpoint.into()
                }
                None => url.into(),
            });
        }
        let origin = servers.open(self.ledger);
        let mut table = Table::default();
        table.set("endpoints", Value::List(endpoints), origin);
        Some(add(&mut self.model.upstreams, name, table, origin, self.ledger))
    }

    fn body_limit(&mut self, route: &mut Route) {
        match self.config.at(&["settings", "http", "max_body_size"]) {
            Some(limit) => {
                let bytes = limit.number().unwrap_or(0).unsigned_abs();
                route.table.set("max_body", size(bytes), limit.origin);
            }
            None => route.table.note("max_body", "8MiB", "the default of Unit"),
        }
    }

    fn settings(&mut self) {
        if let Some(log) = self.config.get("access_log") {
            let path = if log.is_map() { log.get("path") } else { Some(log) };
            if let Some(path) = path {
                for site in &mut self.model.sites {
                    site.listener.set_in(&["access_log"], "file", path.text(), path.origin);
                }
            }
            if let Some(format) = log.get("format") {
                self.ledger.differs(format.origin, "the format is Keepwarm's own; set `access_log.format`");
            }
        }
        if let Some(isolation) = self.config.get("settings") {
            for (name, value) in isolation.get("http").map(Node::entries).unwrap_or_default() {
                let key = match name.as_str() {
                    "header_read_timeout" => "head_timeout",
                    "idle_timeout" => "idle_timeout",
                    "send_timeout" => "write_timeout",
                    "max_body_size" => continue,
                    _ => {
                        value.ignore("Keepwarm's own limits apply", self.ledger);
                        continue;
                    }
                };
                let limit = time(value.number().unwrap_or(30).max(1).unsigned_abs() * 1000);
                for site in &mut self.model.sites {
                    site.listener.set_in(&["limits"], key, limit.as_str(), value.origin);
                }
            }
            isolation.ignore("Keepwarm's own settings apply", self.ledger);
        }
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
