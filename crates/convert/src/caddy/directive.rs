//! Directives of a site become routes, in the order in which Caddy applies them.
//!
//! Caddy's directives are a chain: each changes a request or responds to it, if its matcher matches, and others pass it
//! on. Keepwarm takes the first route whose conditions hold. So at each matcher the chain is followed twice: first for the
//! requests that it matches, whose routes come first, and then for all of them.

mod expression;
mod files;
mod matcher;
mod order;
mod proxy;
mod respond;
mod rewrite;
mod scripts;
mod settings;

use super::Reader;
use super::syntax::{Block, Line};
use crate::ledger::Origin;
use crate::model::{Route, Site};
use crate::reach::{Matcher, Reach};
use crate::table::Table;

use order::{ORDER, steps};
use respond::template;

const TODO: &str = "write the route by hand";

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
