//! Directives of a site become routes, in the order in which Caddy applies them.
//!
//! Caddy's directives are a chain: each changes a request or responds to it, if its matcher matches, and others pass it
//! on. Keepwarm takes the first route whose conditions hold. So at each matcher the chain is followed twice: first for the
//! requests that it matches, whose routes come first, and then for all of them.

mod expression;
mod files;
mod matcher;
mod proxy;
mod rewrite;
mod scripts;
mod settings;

use super::Reader;
use super::syntax::{Block, Line};
use crate::ledger::Origin;
use crate::model::{Route, Site};
use crate::reach::{Matcher, Reach};
use crate::table::Table;

const TODO: &str = "write the route by hand";

/// Caddy's order of directives.
const ORDER: [&str; 42] = [
    "tracing",
    "map",
    "vars",
    "fs",
    "root",
    "log_append",
    "skip_log",
    "log_skip",
    "log_name",
    "header",
    "copy_response_headers",
    "request_body",
    "timeouts",
    "redir",
    "method",
    "rewrite",
    "uri",
    "try_files",
    "basicauth",
    "basic_auth",
    "forward_auth",
    "request_header",
    "encode",
    "push",
    "intercept",
    "templates",
    "mercure",
    "rate_limit",
    "invoke",
    "handle",
    "handle_path",
    "route",
    "abort",
    "error",
    "copy_response",
    "respond",
    "metrics",
    "reverse_proxy",
    "php_fastcgi",
    "php_server",
    "php",
    "file_server",
];

fn rank(line: &Line) -> usize {
    // They exclude one another, and are sorted together.
    let name = if line.name() == "handle_path" { "handle" } else { line.name() };
    ORDER.iter().position(|known| *known == name).unwrap_or(ORDER.len())
}

/// Directives of which only the first that matches applies.
fn group(line: &Line) -> Option<&str> {
    match line.name() {
        "handle" | "handle_path" => Some("handle"),
        name @ ("rewrite" | "root") => Some(name),
        _ => None,
    }
}

/// The word that is a directive's matcher.
fn matcher_word(line: &Line) -> Option<&str> {
    Some(line.arg(0)).filter(|word| word.starts_with(['/', '@']))
}

/// A directive with its matcher.
#[derive(Clone)]
struct Step<'a> {
    line: &'a Line,
    matcher: Matcher,
    args: Vec<String>,
    /// Definitions of matchers in its blocks.
    scope: Vec<&'a Line>,
}

/// What comes after the directives of a block.
struct Chain<'c, 'a> {
    steps: &'c [Step<'a>],
    next: Option<&'c Chain<'c, 'a>>,
}

/// What applies to all routes of a block.
#[derive(Clone, Default)]
struct Context<'a> {
    root: Option<(String, Origin)>,
    table: Table,
    request_headers: Table,
    /// `try_files`, which makes a difference for files and scripts only.
    tried: Option<&'a Line>,
}

#[derive(Clone)]
struct State<'a> {
    reach: Reach,
    context: Context<'a>,
}

/// What a setting makes of the requests that it is for.
enum Applied<'a> {
    /// In order of precedence: those that it changes, and then those that it does not.
    Changed(Vec<State<'a>>),
    /// It has no counterpart: requests must not go on without it.
    Lost,
}

/// Routes of one site; each matcher may double those after it.
const ROUTES_LIMIT: usize = 400;

pub(super) struct Chains<'r, 'm> {
    reader: &'r mut Reader<'m>,
    label: String,
    origin: Origin,
    /// Whether paths are compared without case, as Caddy does: where it could matter to an access rule.
    fold: bool,
    count: usize,
}

impl Reader<'_> {
    pub(super) fn routes(&mut self, block: &Block, site: &Site) -> Vec<Route> {
        let label = site.hosts.first().cloned().unwrap_or_else(|| "site".to_owned());
        for line in &block.lines {
            if !self.ledger.is_settled(line.origin) && matches!(line.name(), "log" | "tls" | "bind") {
                self.ledger.carried(line.origin);
            }
        }
        let fold = has_access_rules(&block.lines);
        if !fold && has_paths(&block.lines) {
            self.ledger.differs(block.origin, "the case of paths matters: Caddy takes `/A` for `/a`");
        }
        let mut chains = Chains { reader: self, label, origin: block.origin, fold, count: 0 };
        let steps = steps(&block.lines, &[], true);
        let state = State { reach: Reach::all(), context: Context::default() };
        let routes = chains.run(&steps, None, &state);
        settle_rest(&block.lines, self);
        routes
    }
}

/// Whether a site refuses requests by their path, or asks for passwords.
fn has_access_rules(lines: &[Line]) -> bool {
    lines.iter().any(|line| {
        let is_rule = match line.name() {
            "basic_auth" | "basicauth" | "forward_auth" | "abort" | "error" | "not" | "remote_ip"
            | "client_ip" => true,
            "respond" => line.args().iter().any(|arg| arg.parse::<u16>().is_ok_and(|status| status >= 400)),
            "file_server" => line.child("hide").is_some(),
            name => {
                name.starts_with('@')
                    && line.args().iter().any(|arg| matches!(arg.as_str(), "not" | "remote_ip" | "client_ip"))
            }
        };
        is_rule || has_access_rules(&line.inner)
    })
}

/// Whether there are paths that have another case.
fn has_paths(lines: &[Line]) -> bool {
    let is_path = |word: &String| word.starts_with(['/', '*']) && word.contains(|c: char| c.is_alphabetic());
    lines.iter().any(|line| {
        let has = match line.name() {
            "path" => line.args().iter().any(is_path),
            name if name.starts_with('@') => line.arg(0) == "path" && line.args().iter().any(is_path),
            name => {
                ORDER.contains(&name)
                    && !matches!(name, "root" | "try_files" | "rewrite" | "redir")
                    && is_path(&line.arg(0).to_owned())
                    || matches!(name, "handle_path" | "uri")
            }
        };
        has || has_paths(&line.inner)
    })
}

/// What no request reached.
fn settle_rest(lines: &[Line], reader: &mut Reader<'_>) {
    for line in lines {
        let name = line.name();
        if !reader.ledger.is_settled(line.origin)
            && (name.starts_with('@') || ORDER.contains(&name) || name == "handle_path")
        {
            match name.starts_with('@') {
                true => reader.ledger.ignored(line.origin, "no directive uses it"),
                false => reader
                    .ledger
                    .differs(line.origin, "no request reaches it: a route before it takes them all"),
            }
            line.settle_inner(reader.ledger);
        }
        if matches!(name, "handle" | "handle_path" | "route") {
            settle_rest(&line.inner, reader);
        }
    }
}

/// The directives of a block in the order in which they are applied; those of `route` as they are written.
fn steps<'a>(lines: &'a [Line], outer: &[&'a Line], sorted: bool) -> Vec<Step<'a>> {
    let mut scope = outer.to_vec();
    scope.extend(lines.iter().filter(|line| line.name().starts_with('@')));
    let mut own: Vec<&Line> = Vec::new();
    for line in lines.iter().filter(|line| !line.name().starts_with('@') && rank(line) < ORDER.len()) {
        // As Go sorts short lists: by insertion.
        let at = match sorted {
            true => {
                own.iter().rposition(|earlier| !comes_before(line, earlier, &scope)).map_or(0, |at| at + 1)
            }
            false => own.len(),
        };
        own.insert(at, line);
    }
    own.into_iter()
        .map(|line| {
            let (matcher, args, _) = matcher::of(line, &scope);
            Step { line, matcher, args, scope: scope.clone() }
        })
        .collect()
}

/// The order of directives, and of two of one name that of their paths.
fn comes_before(a: &Line, b: &Line, scope: &[&Line]) -> bool {
    if rank(a) != rank(b) {
        return rank(a) < rank(b);
    }
    let before = match (matcher::only_path(a, scope), matcher::only_path(b, scope)) {
        (Some(a), Some(b)) => {
            let (short, other) = (a.strip_suffix('*').unwrap_or(&a), b.strip_suffix('*').unwrap_or(&b));
            match (short.len().cmp(&other.len()), short == other) {
                (_, true) => a.len() < b.len(),
                (std::cmp::Ordering::Equal, _) => short < other,
                (order, _) => order.is_gt(),
            }
        }
        _ => {
            let has = |line: &Line| line.arg(0).starts_with('/') || line.arg(0).starts_with('@');
            has(a) && !has(b)
        }
    };
    if a.name() == "vars" { !before } else { before }
}

impl<'a> Chains<'_, '_> {
    /// The routes for the requests of a state, from some directives on.
    fn run(&mut self, steps: &[Step<'a>], next: Option<&Chain<'_, 'a>>, state: &State<'a>) -> Vec<Route> {
        let Some((step, rest)) = steps.split_first() else {
            return match next {
                Some(chain) => self.run(chain.steps, chain.next, state),
                None => self.unhandled(state),
            };
        };
        if self.count > ROUTES_LIMIT {
            self.reader.ledger.lost(
                self.origin,
                format!("its directives make more than {ROUTES_LIMIT} routes"),
                "write `handle` blocks, or the routes by hand; the remaining requests get 501",
            );
            return state.reach.closed(step.line.origin, self.fold);
        }
        let met = state.reach.meets(&step.matcher);
        let mut routes = Vec::new();
        for reach in met.yes {
            let matched = State { reach, context: state.context.clone() };
            routes.extend(self.matched(step, rest, next, &matched));
        }
        if let Some(unknown) = met.unknown {
            let is_all = unknown == state.reach;
            self.unknown(step, state.reach.is_tried);
            if is_rule(step.line) {
                routes.extend(unknown.closed(step.line.origin, self.fold));
                if is_all {
                    return routes;
                }
            }
        }
        if !met.is_all {
            routes.extend(self.run(rest, next, state));
        }
        self.count = self.count.max(routes.len());
        routes
    }

    /// A directive whose requests nothing of Keepwarm can tell from others.
    fn unknown(&mut self, step: &Step<'a>, is_tried: bool) {
        let line = step.line;
        let name = line.arg(0);
        let why = match is_tried {
            true => format!("the matcher {name} is for the path after `try_files`, which is not known"),
            false => format!("the matcher {name} has no counterpart"),
        };
        let (why, todo) = match is_rule(line) {
            true => (why, "the requests that it may match get 501; write the route by hand"),
            false => (format!("{why}, and the directive is left out"), TODO),
        };
        self.reader.ledger.lost(line.origin, why, todo);
        line.settle_inner(self.reader.ledger);
        self.settle_matcher(step);
    }

    fn settle_matcher(&mut self, step: &Step<'a>) {
        let name = step.line.arg(0);
        let found = step.scope.iter().rev().find(|line| name.starts_with('@') && line.name() == name);
        if let Some(definition) = found {
            carry(definition, self.reader);
        }
    }

    fn matched(
        &mut self,
        step: &Step<'a>,
        rest: &[Step<'a>],
        next: Option<&Chain<'_, 'a>>,
        state: &State<'a>,
    ) -> Vec<Route> {
        self.settle_matcher(step);
        let own = group(step.line);
        // Caddy joins neighbors with one matcher: all of them apply.
        let is_joined = |other: &Step<'a>| {
            group(other.line) == own && matcher_word(other.line) == matcher_word(step.line)
        };
        let joined = rest.iter().take_while(|other| is_joined(other)).count();
        let others: Vec<Step<'a>> = rest
            .iter()
            .enumerate()
            .filter(|(at, other)| *at < joined || group(other.line) != own)
            .map(|(at, other)| match at < joined {
                true => Step { matcher: Matcher::All, ..other.clone() },
                false => other.clone(),
            })
            .collect();
        let rest = if own.is_some() { others.as_slice() } else { rest };
        let line = step.line;
        let ends = matches!(
            line.name(),
            "redir"
                | "respond"
                | "error"
                | "abort"
                | "reverse_proxy"
                | "php_fastcgi"
                | "php_server"
                | "php"
                | "file_server"
                | "metrics"
                | "copy_response"
        );
        if ends {
            self.reader.ledger.carried(line.origin);
            let files = files_after(rest, next, state);
            let routes = self.handler(step, state, files);
            self.count += routes.len();
            return routes;
        }
        if matches!(line.name(), "handle" | "handle_path" | "route") {
            self.reader.ledger.carried(line.origin);
            let inner = steps(&line.inner, &step.scope, line.name() != "route");
            let chain = Chain { steps: rest, next };
            if line.name() != "handle_path" {
                return self.run(&inner, Some(&chain), state);
            }
            let path = line.arg(0);
            let prefix = path.strip_suffix("/*").or_else(|| path.strip_suffix('*')).unwrap_or(path);
            let met = if prefix.is_empty() {
                state.reach.meets(&Matcher::All)
            } else {
                state.reach.stripped(prefix)
            };
            let mut routes = Vec::new();
            for reach in met.yes {
                let stripped = State { reach, context: state.context.clone() };
                routes.extend(self.run(&inner, Some(&chain), &stripped));
            }
            routes.extend(met.unknown.iter().flat_map(|reach| reach.closed(line.origin, self.fold)));
            if !met.is_all {
                routes.extend(self.run(&inner, Some(&chain), state));
            }
            return routes;
        }
        match self.setting(step, state) {
            Applied::Changed(states) => {
                let mut routes = Vec::new();
                for state in &states {
                    routes.extend(self.run(rest, next, state));
                }
                routes
            }
            Applied::Lost => {
                line.settle_inner(self.reader.ledger);
                state.reach.closed(line.origin, self.fold)
            }
        }
    }

    /// Caddy responds to such requests with an empty 200.
    fn unhandled(&mut self, state: &State<'a>) -> Vec<Route> {
        self.count += 1;
        let routes = state.reach.by_request().routes(self.origin, self.fold, false).unwrap_or_default();
        routes
            .into_iter()
            .map(|(mut route, _)| {
                route.table.set("respond", 404i64, self.origin);
                apply(&mut route, &state.context, false);
                route
            })
            .collect()
    }

    fn handler(&mut self, step: &Step<'a>, state: &State<'a>, files: Option<&'a Line>) -> Vec<Route> {
        let needs_files = matches!(step.line.name(), "redir" | "respond" | "reverse_proxy");
        if let Some(tried) = state.context.tried.filter(|_| needs_files) {
            self.reader.ledger.lost(
                tried.origin,
                format!("files are not looked for before `{}`", step.line.name()),
                "write a route for the files; the requests get 501",
            );
            step.line.settle_inner(self.reader.ledger);
            return state.reach.closed(step.line.origin, self.fold);
        }
        match step.line.name() {
            "redir" => self.redirect(step, state),
            "respond" | "error" | "abort" => self.respond(step, state),
            "reverse_proxy" => self.proxy(step, state),
            "php_fastcgi" | "php_server" | "php" => self.php(step, state, files),
            "file_server" => self.files(step.line, &step.args, state),
            name => {
                self.reader.ledger.lost(step.line.origin, format!("`{name}` has no counterpart"), TODO);
                step.line.settle_inner(self.reader.ledger);
                state.reach.closed(step.line.origin, self.fold)
            }
        }
    }

    /// The routes of a handler, each with the path that it sees; a report where no rewrite makes it.
    fn places(
        &mut self,
        line: &Line,
        state: &State<'a>,
        own_prefix: bool,
    ) -> Result<Vec<(Route, String)>, Vec<Route>> {
        match state.reach.routes(line.origin, self.fold, own_prefix) {
            Some(places) => Ok(places),
            None => {
                self.reader.ledger.lost(
                    line.origin,
                    "its path is rewritten before in a way without a counterpart",
                    TODO,
                );
                Err(state.reach.closed(line.origin, self.fold))
            }
        }
    }

    fn redirect(&mut self, step: &Step<'a>, state: &State<'a>) -> Vec<Route> {
        let (line, args) = (step.line, &step.args);
        let status = match args.get(1).map(String::as_str) {
            Some("permanent") => 301,
            Some("temporary") | None => 302,
            Some(code) => code.parse().unwrap_or(0),
        };
        let text = args.first().map_or("", String::as_str);
        let places = match self.places(line, state, false) {
            Ok(places) => places,
            Err(closed) => return closed,
        };
        let mut routes = Vec::new();
        for (mut route, path) in places {
            let target = template(text, &path, &state.reach)
                .filter(|target| crate::nginx::safe_target(target).is_ok());
            match target.filter(|_| [301, 302, 303, 307, 308].contains(&status)) {
                Some(target) => route.table.set(
                    "redirect",
                    crate::nginx::redirect(&target, status, line.origin),
                    line.origin,
                ),
                None => {
                    self.reader.ledger.lost(
                        line.origin,
                        "its target or status has no counterpart",
                        "write `redirect` of the route by hand",
                    );
                    route.table.set("respond", 501i64, line.origin);
                }
            }
            apply(&mut route, &state.context, false);
            routes.push(route);
        }
        routes
    }

    fn respond(&mut self, step: &Step<'a>, state: &State<'a>) -> Vec<Route> {
        let (line, args) = (step.line, &step.args);
        let places = match self.places(line, state, false) {
            Ok(places) => places,
            Err(closed) => return closed,
        };
        if line.name() == "abort" {
            self.reader.ledger.differs(
                line.origin,
                "the client gets 403: Keepwarm does not close connections without a response",
            );
        }
        // With one argument, three digits are the status; with two, the last one is.
        let is_status = |word: &String| word.len() == 3 && word.bytes().all(|b| b.is_ascii_digit());
        let (body, number) = match args.as_slice() {
            [only] if is_status(only) => (None, Some(only)),
            [body, number, ..] => (Some(body.clone()), Some(number)),
            rest => (rest.first().cloned(), None),
        };
        let inner = line.child("body").or_else(|| line.child("message"));
        let body = inner.map(|inner| inner.arg(0).to_owned()).or(body);
        for inner in &line.inner {
            match inner.name() {
                "body" | "message" => self.reader.ledger.carried(inner.origin),
                "close" => self.reader.ledger.ignored(inner.origin, "connections stay open"),
                _ => inner.settle_unknown(self.reader.ledger),
            }
        }
        let default = if line.name() == "error" { 500 } else { 200 };
        let status = match (line.name(), number) {
            ("abort", _) => Some(403),
            (_, None) => Some(default),
            (_, Some(text)) => text.parse::<i64>().ok().filter(|status| (200..=599).contains(status)),
        };
        let mut routes = Vec::new();
        for (mut route, path) in places {
            let text = body
                .as_ref()
                .filter(|_| line.name() == "respond")
                .map(|body| template(body, &path, &state.reach));
            match (status, text) {
                (None, _) => {
                    self.reader.ledger.lost(
                        line.origin,
                        "its status is none from 200 to 599",
                        "write `respond` by hand",
                    );
                    route.table.set("respond", 501i64, line.origin);
                }
                (Some(status), None) => route.table.set("respond", status, line.origin),
                (Some(status), Some(Some(text))) => {
                    let mut table = Table::default();
                    table.set("status", status, line.origin);
                    table.set("body", text, line.origin);
                    route.table.set("respond", table, line.origin);
                }
                (Some(status), Some(None)) => {
                    self.reader.ledger.lost(
                        line.origin,
                        "its body has a placeholder without a counterpart",
                        "write `respond` by hand",
                    );
                    route.table.set("respond", status, line.origin);
                }
            }
            apply(&mut route, &state.context, false);
            routes.push(route);
        }
        routes
    }
}

/// Whether requests must not go on without a directive.
fn is_rule(line: &Line) -> bool {
    !matches!(
        line.name(),
        "header"
            | "encode"
            | "request_header"
            | "log_append"
            | "log_skip"
            | "skip_log"
            | "log_name"
            | "tracing"
            | "vars"
            | "map"
            | "push"
            | "templates"
            | "timeouts"
    )
}

/// The file server after a directive, whose requests it gets.
fn files_after<'a>(rest: &[Step<'a>], next: Option<&Chain<'_, 'a>>, state: &State<'a>) -> Option<&'a Line> {
    let found = rest
        .iter()
        .find(|step| step.line.name() == "file_server" && state.reach.meets(&step.matcher).is_all)
        .map(|step| step.line);
    found.or_else(|| next.and_then(|chain| files_after(chain.steps, chain.next, state)))
}

fn carry(line: &Line, reader: &mut Reader<'_>) {
    if !reader.ledger.is_settled(line.origin) {
        reader.ledger.carried(line.origin);
    }
    line.inner.iter().for_each(|inner| carry(inner, reader));
}

/// What applies to all routes of a block.
fn apply(route: &mut Route, context: &Context<'_>, to_server: bool) {
    for item in &context.table.items {
        let fits = match item.key.as_str() {
            "max_body" => to_server,
            "compress" => to_server || route.table.has("files"),
            _ => true,
        };
        if fits && !route.table.has(&item.key) {
            route.table.items.push(item.clone());
        }
    }
    if to_server && !context.request_headers.is_empty() {
        let mut all = context.request_headers.clone();
        if let Some(crate::table::Value::Table(own)) =
            route.table.remove("request_headers").map(|item| item.value)
        {
            all.merge(&own);
        }
        route.table.set("request_headers", all, None);
    }
}

/// A text with Caddy's placeholders, as a template; `path` is that of the request, as far as it was rewritten.
fn template(text: &str, path: &str, reach: &Reach) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    let path = if path.is_empty() { "$path" } else { path };
    let query = if path.contains('?') { "" } else { "$query" };
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(&before.replace('$', "$$"));
        let (name, behind) = after.split_once('}')?;
        let name = name.trim_start_matches("http.request.");
        let name = name.strip_prefix("http.regexp.").map_or(name.to_owned(), |rest| format!("re.{rest}"));
        out.push_str(&match name.as_str() {
            "uri" => format!("{path}{query}"),
            "path" | "uri.path" => path.split('?').next().unwrap_or(path).to_owned(),
            "orig_uri" => "$path$query".to_owned(),
            "orig_uri.path" => "$path".to_owned(),
            "query" | "uri.query" => "$args".to_owned(),
            "host" => "$host_name".to_owned(),
            "hostport" => "$host".to_owned(),
            "method" => "$method".to_owned(),
            "scheme" => "$scheme".to_owned(),
            "remote_host" | "remote.host" | "client_ip" => "$client".to_owned(),
            "uuid" => "$request_id".to_owned(),
            name => match (
                name.strip_prefix("header."),
                name.strip_prefix("cookie."),
                name.strip_prefix("query."),
                name.strip_prefix("re."),
            ) {
                (Some(header), ..) => format!("$header_{}", header.replace('-', "_")),
                (_, Some(cookie), ..) => format!("$cookie_{cookie}"),
                (_, _, Some(argument), _) => format!("$arg_{argument}"),
                (.., Some(group)) => {
                    let (of, number) = group.rsplit_once('.').unwrap_or(("", group));
                    let is_own = reach.regex.as_ref().is_some_and(|(name, _)| of.is_empty() || name == of);
                    let number: u8 =
                        number.parse().ok().filter(|number| (1..=9).contains(number) && is_own)?;
                    format!("${number}")
                }
                _ => return None,
            },
        });
        rest = behind;
    }
    out.push_str(&rest.replace('$', "$$"));
    Some(out)
}
