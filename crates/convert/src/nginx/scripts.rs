//! `fastcgi_pass`: classic PHP.

use super::Reader;
use super::action::{Place, Target};
use super::location::{Kind, Location};
use super::scope::Scope;
use super::syntax::Directive;
use crate::ledger::Origin;
use crate::model::{PathMatch, Route};
use crate::php::{self, Scripts};
use crate::units::{nginx_time, time};

/// Parameters that Keepwarm sets, as the files of nginx have them.
const USUAL: [&str; 31] = [
    "SCRIPT_FILENAME",
    "QUERY_STRING",
    "REQUEST_METHOD",
    "CONTENT_TYPE",
    "CONTENT_LENGTH",
    "SCRIPT_NAME",
    "REQUEST_URI",
    "DOCUMENT_URI",
    "DOCUMENT_ROOT",
    "SERVER_PROTOCOL",
    "REQUEST_SCHEME",
    "HTTPS",
    "GATEWAY_INTERFACE",
    "SERVER_SOFTWARE",
    "REMOTE_ADDR",
    "REMOTE_PORT",
    "SERVER_ADDR",
    "SERVER_PORT",
    "SERVER_NAME",
    "REDIRECT_STATUS",
    "PATH_INFO",
    "PATH_TRANSLATED",
    "HTTP_PROXY",
    "REMOTE_USER",
    "HTTP_HOST",
    "HTTP_X_FORWARDED_FOR",
    "HTTP_X_FORWARDED_PROTO",
    "HTTP_X_REAL_IP",
    "AUTH_USER",
    "FCGI_ROLE",
    "modHeadersAvailable",
];

/// Entries that are looked at below a root.
const ENTRIES_LIMIT: usize = 10_000;

/// Whether a directory below this one has an index.php; `true` if that cannot be known.
fn has_index(directory: &std::path::Path, is_below: bool, entries: &mut usize) -> bool {
    let Ok(list) = directory.read_dir() else { return true };
    for entry in list.flatten() {
        if *entries == 0 || (is_below && entry.file_name().eq_ignore_ascii_case("index.php")) {
            return true;
        }
        *entries -= 1;
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir() || kind.is_symlink());
        if is_directory && entry.path().is_dir() && has_index(&entry.path(), true, entries) {
            return true;
        }
    }
    false
}

impl<'d> Reader<'d, '_> {
    pub(super) fn scripts(&mut self, place: &Place<'_, 'd>, pass: &Directive) -> Vec<Route> {
        let Some(app) = self.script_app(place, &place.scope, None) else {
            self.ledger.lost(
                pass.origin,
                "no directory of scripts is known: there is no `root`",
                "write an `[app.NAME]` by hand",
            );
            return vec![Route::status(pass.origin, place.path.clone(), 501)];
        };
        if let Some(files) = place.scope.own_one("try_files") {
            match files.args.last().map(String::as_str) {
                Some("=404") => self
                    .ledger
                    .differs(files.origin, "the entry script handles requests for scripts that do not exist"),
                _ => self.ledger.carried(files.origin),
            }
        }
        let mut route = place.route(place.path.clone());
        route.table.set("app", app, pass.origin);
        self.script_settings(place, &mut route);
        self.finish(place, Target::App, route)
    }

    /// Everything that is not a file goes to a script.
    pub(super) fn pass_to_script(
        &mut self,
        place: &Place<'_, 'd>,
        script: &str,
        origin: Origin,
    ) -> Vec<Route> {
        let location = place.server.locations.choose(script);
        let Some(location) =
            location.filter(|location| location.scope.own_one("fastcgi_pass").is_some()).cloned()
        else {
            self.ledger.lost(
                origin,
                format!("no location passes {script} to FastCGI"),
                "write the route to the app by hand",
            );
            return vec![Route::status(origin, place.path.clone(), 501)];
        };
        self.ledger.carried(location.directive.origin);
        let Some(app) = self.script_app(place, &location.scope, Some(script)) else {
            self.ledger.lost(
                origin,
                "no directory of scripts is known: there is no `root`",
                "write an `[app.NAME]` by hand",
            );
            return vec![Route::status(origin, place.path.clone(), 501)];
        };
        let mut route = place.route(place.path.clone());
        route.table.set("app", app, origin);
        if let Some(root) = place.scope.one("root").filter(|root| !root.arg(0).contains('$')) {
            route.table.set("try_files", super::server::absolute(root.arg(0)), root.origin);
        }
        // A location below `/` has a part of the site for its script.
        if let Some((directory, _)) = script.rsplit_once('/').filter(|(directory, _)| !directory.is_empty()) {
            self.ledger.differs(
                origin,
                format!("the scripts of {directory} are an app of their own, whose site is that directory"),
            );
        }
        self.script_settings(place, &mut route);
        let both = Place {
            outer: Some(location.scope.clone()),
            ..place.redirected(place.scope.clone(), place.origin)
        };
        let before = place.redirected(location.scope.clone(), place.origin);
        let mut routes = Vec::new();
        for inner in location.scope.own().iter().filter(|inner| inner.name == "if") {
            routes.extend(self.condition(&before, inner));
        }
        routes.extend(self.index_scripts(&both, &location));
        routes.extend(self.other_scripts(&both, script, &route, origin));
        routes.extend(self.finish(&both, Target::App, route));
        routes
    }

    /// An app runs the index.php of any directory: that is said where there may be one.
    fn lose_indexes(&mut self, place: &Place<'_, 'd>, origin: Origin) {
        let root = place.scope.one("root").map(|root| super::server::absolute(root.arg(0)));
        let directory = root.map(|root| self.files.here(std::path::Path::new(&root)));
        let mut entries = ENTRIES_LIMIT;
        if directory.is_none_or(|directory| has_index(&directory, false, &mut entries)) {
            self.ledger.lost(
                origin,
                "a directory with an index.php runs it, whatever nginx has for that script",
                "write a route for the paths of these directories by hand",
            );
        }
    }

    /// Rules for `/x/index.php`, which an app runs on `/x/` too.
    fn index_scripts(&mut self, place: &Place<'_, 'd>, usual: &Location<'d>) -> Vec<Route> {
        let prefix = match &place.path {
            PathMatch::Any => "/",
            PathMatch::Begin(prefix) if prefix.ends_with('/') => prefix.as_str(),
            _ => return Vec::new(),
        };
        let locations = &place.server.locations;
        let takes = |location: &Location<'d>, path: &str| {
            let chosen = locations.choose(path);
            chosen.is_some_and(|chosen| chosen.directive.origin == location.directive.origin)
        };
        let others: Vec<Location<'d>> = locations
            .ordered()
            .into_iter()
            .filter(|location| location.directive.origin != usual.directive.origin)
            .filter(|location| super::targets::is_guarded(location, Some(usual)))
            .cloned()
            .collect();
        let mut routes = Vec::new();
        for location in &others {
            let start = match location.kind {
                Kind::Exact => location.text.strip_suffix("index.php").unwrap_or(""),
                Kind::Regex => {
                    let start = crate::expression::beginning(&location.text).unwrap_or_default();
                    let end = start.rfind('/').map_or(0, |at| at + 1);
                    location.text.get(1..=end).unwrap_or("")
                }
                Kind::Begin | Kind::Stop | Kind::Named => continue,
            };
            let start = match location.kind {
                Kind::Regex if !start.starts_with('/') || !start.ends_with('/') => prefix,
                _ => start,
            };
            let (here, below) = (
                takes(location, &format!("{start}index.php")),
                takes(location, &format!("{start}x/index.php")),
            );
            let escaped = crate::model::escape(&crate::model::encoded(start));
            let is_anywhere = location.kind == Kind::Regex && start == prefix;
            let path = match (here, below) {
                _ if !start.starts_with(prefix) => continue,
                (_, true) if is_anywhere => {
                    self.lose_indexes(place, location.directive.origin);
                    continue;
                }
                (true, false) => PathMatch::Exact(start.to_owned()),
                (_, true) => PathMatch::Regex(format!("^{escaped}(?:.*/)?$")),
                (false, false) => {
                    if location.kind == Kind::Regex && location.text.contains("php") {
                        self.lose_indexes(place, location.directive.origin);
                    }
                    continue;
                }
            };
            let origin = location.directive.origin;
            let within = Place { path, ..place.redirected(location.scope.clone(), origin) };
            routes.extend(self.place(&within));
        }
        routes
    }

    /// Paths that have a script in them which no location passes on: `location ~ \.php$` does not match `/x.php/y`, so
    /// nginx gives it to the entry script. An app would run `/x.php`, past any rule for it.
    fn other_scripts(
        &mut self,
        place: &Place<'_, 'd>,
        script: &str,
        route: &Route,
        origin: Origin,
    ) -> Vec<Route> {
        let runs = |path: &str| {
            let location = place.server.locations.choose(path);
            location.is_some_and(|location| location.scope.own_one("fastcgi_pass").is_some())
        };
        let end = match (runs("/x/y.php"), runs("/x/y.php/z")) {
            (false, _) => "(?:/|$)",
            (true, false) => "/",
            (true, true) => return Vec::new(),
        };
        let prefix = match &place.path {
            PathMatch::Any => "/",
            PathMatch::Begin(prefix) => prefix.as_str(),
            PathMatch::Exact(_) => return Vec::new(),
            PathMatch::Regex(_) | PathMatch::Patterns(_) => {
                self.ledger.lost(
                    origin,
                    "a path such as /x.php/y runs the script in it, which nginx does not",
                    "write a route for such paths by hand",
                );
                return Vec::new();
            }
        };
        let prefix = crate::model::escape(&crate::model::encoded(prefix));
        let mut other = route.clone();
        other.path = PathMatch::Regex(format!("^{prefix}.*(?i:\\.php){end}"));
        other.except.extend([script.to_owned(), format!("{script}/*")]);
        other.table.remove("try_files");
        other.table.set("rewrite", script, origin);
        let how =
            format!("a path with another script in it, such as /x.php/y, is {script} for the entry script");
        self.ledger.differs(origin, how);
        if end != "/" {
            self.lose_indexes(place, origin);
        }
        self.finish(place, Target::App, other)
    }

    /// The app of the scripts of a location.
    fn script_app(
        &mut self,
        place: &Place<'_, 'd>,
        scope: &Scope<'d>,
        script: Option<&str>,
    ) -> Option<String> {
        let pass = scope.own_one("fastcgi_pass")?;
        let root = match (scope.own_one("alias"), scope.one("root")) {
            (Some(alias), _) => (alias.arg(0).trim_end_matches('/').to_owned(), alias.origin),
            (None, Some(root)) => (super::server::absolute(root.arg(0)), root.origin),
            (None, None) => return None,
        };
        let fixed = self.script_filename(place, scope, &root.0);
        if root.0.contains('$') && fixed.is_none() {
            return None;
        }
        self.ledger.carried(root.1);
        let entry = match (fixed, script) {
            (Some(fixed), _) => fixed,
            (None, Some(script)) => format!("{}{script}", root.0),
            (None, None) => self.front_script(place, scope, &root.0),
        };
        let mut scripts = Scripts { entry, origin: Some(pass.origin), ..Scripts::default() };
        scripts.address = Some(self.script_address(pass));
        self.parameters(place, scope, &mut scripts);
        if let Some(timeout) = scope.one("fastcgi_read_timeout") {
            match nginx_time(timeout.arg(0)).filter(|millis| *millis > 0) {
                Some(millis) => scripts.timeout = Some((time(millis.min(86_400_000)), timeout.origin)),
                None => {
                    self.ledger.lost(timeout.origin, "it is not a time", "set `request_timeout` of the app")
                }
            }
        }
        let label = place.server.label.clone();
        Some(php::app(&scripts, &label, self.pools, self.model, self.ledger))
    }

    /// The first script of `index`, or that of the site's `try_files`.
    fn front_script(&self, place: &Place<'_, 'd>, scope: &Scope<'d>, root: &str) -> String {
        let of_try = place.server.locations.all().iter().filter(|location| location.text == "/").find_map(
            |location| {
                let last = location.scope.own_one("try_files")?.args.last()?;
                let path = last.split('?').next()?;
                (path.starts_with('/') && path.ends_with(".php"))
                    .then(|| path.trim_start_matches('/').to_owned())
            },
        );
        let index = scope
            .one("index")
            .and_then(|index| index.args.iter().find(|name| name.ends_with(".php")).cloned());
        format!("{root}/{}", of_try.or(index).unwrap_or_else(|| "index.php".to_owned()))
    }

    /// A fixed SCRIPT_FILENAME: one script for all requests.
    fn script_filename(&mut self, place: &Place<'_, 'd>, scope: &Scope<'d>, root: &str) -> Option<String> {
        let parameter = scope
            .all("fastcgi_param")
            .into_iter()
            .rfind(|parameter| parameter.arg(0) == "SCRIPT_FILENAME")?;
        let mut variables = place.variables.clone();
        variables.root = root.to_owned();
        let path = variables.constant(parameter.arg(1))?;
        (path.starts_with('/') && path.ends_with(".php")).then_some(path)
    }

    fn script_address(&mut self, pass: &Directive) -> String {
        let block = self.http.every("upstream").into_iter().find(|block| block.arg(0) == pass.arg(0));
        let Some(block) = block else { return pass.arg(0).to_owned() };
        self.ledger.carried(block.origin);
        let mut servers = block.children().iter().filter(|inner| inner.name == "server");
        let first = servers.next();
        for server in servers {
            self.ledger.dropped(
                server.origin,
                "an app has one address",
                "let Keepwarm run PHP itself, with enough `workers`",
            );
        }
        for inner in block.children().iter().filter(|inner| inner.name != "server") {
            self.ledger.ignored(inner.origin, "Keepwarm keeps connections to php-fpm by itself");
        }
        first.map_or_else(
            || pass.arg(0).to_owned(),
            |server| {
                self.ledger.carried(server.origin);
                server.arg(0).to_owned()
            },
        )
    }

    fn parameters(&mut self, place: &Place<'_, 'd>, scope: &Scope<'d>, scripts: &mut Scripts) {
        for parameter in scope.all("fastcgi_param") {
            let (name, value, origin) = (parameter.arg(0), parameter.arg(1), parameter.origin);
            match name {
                "HTTPS" if value == "on" && place.server.has_plaintext && !place.server.has_tls => {
                    self.ledger.differs(
                        origin,
                        "HTTPS is set if the client uses it, or a proxy in `server.trusted_proxies` says so",
                    );
                }
                name if USUAL.contains(&name) => {
                    self.ledger.ignored(origin, "Keepwarm sets the usual parameters")
                }
                "PHP_VALUE" | "PHP_ADMIN_VALUE" => {
                    for setting in
                        value.split(['\n', ';']).map(str::trim).filter(|setting| !setting.is_empty())
                    {
                        let setting = setting.replace(" = ", "=").replace(" =", "=").replace("= ", "=");
                        scripts.settings.push((setting, origin));
                    }
                }
                _ if self.auth_variable(place, value).is_some() => {}
                name => match place.variables.constant(value) {
                    Some(value) => scripts.env.push((name.to_owned(), value, origin)),
                    None => self.ledger.dropped(
                        origin,
                        "a variable of the environment is the same for all requests",
                        "let the script read the request's headers",
                    ),
                },
            }
        }
    }

    fn script_settings(&mut self, place: &Place<'_, 'd>, route: &mut Route) {
        for (name, key) in
            [("fastcgi_buffering", "buffer_response"), ("fastcgi_request_buffering", "buffer_request")]
        {
            if let Some(off) = place.scope.one(name).filter(|directive| directive.arg(0) == "off") {
                route.table.set(key, false, off.origin);
            } else if let Some(on) = place.scope.one(name) {
                self.ledger.ignored(on.origin, "requests and responses of PHP are buffered by default");
            }
        }
        for name in ["fastcgi_index", "fastcgi_split_path_info"] {
            for directive in place.scope.all(name) {
                self.ledger.ignored(
                    directive.origin,
                    "Keepwarm finds the script, its index and PATH_INFO by itself",
                );
            }
        }
    }
}
