//! `tcp-request`, `http-request`, `redirect`, `use_backend`, `http-response`.
//!
//! HAProxy evaluates rules one after the other. At each condition they are followed twice: for the requests that meet it,
//! whose routes come first, and for all.

use super::{CLOSED, TODO};
use crate::haproxy::Reader;
use crate::haproxy::section::{Line, Section};
use crate::ledger::Origin;
use crate::model::Route;
use crate::reach::{Condition, Matcher, Reach, Sight, Test};
use crate::table::Table;

/// A rule, with its section.
#[derive(Clone, Copy)]
pub(super) struct Step<'a> {
    line: &'a Line,
    section: &'a Section,
}

/// Requests, and the headers that were set on them.
#[derive(Clone)]
pub(super) struct State {
    reach: Reach,
    request_headers: Table,
}

impl State {
    pub(super) fn all() -> State {
        State { reach: Reach::all(), request_headers: Table::default() }
    }
}

/// Routes of one frontend; each condition may double those after it.
const ROUTES_LIMIT: usize = 400;

/// The rules of a section in the order in which HAProxy evaluates them.
pub(super) fn steps(section: &Section) -> Vec<Step<'_>> {
    let rank = |line: &Line| match (line.word(0), line.word(1)) {
        ("tcp-request", "connection") => 0,
        ("tcp-request", _) => 1,
        ("monitor-uri", _) => 2,
        ("http-request" | "block", _) => 3,
        ("redirect", _) => 4,
        ("use_backend", _) => 5,
        _ => 6,
    };
    let mut steps: Vec<Step<'_>> =
        section.lines.iter().filter(|line| rank(line) < 6).map(|line| Step { line, section }).collect();
    steps.sort_by_key(|step| rank(step.line));
    steps
}

/// What a rule does to the requests that meet its condition.
enum Done {
    Ended(Vec<Route>),
    /// They go on, perhaps without rules of the same kind.
    On(Vec<State>, bool),
    Lost,
}

impl Reader<'_> {
    /// The routes for the requests of a state, from some rules on; the last backend is for the rest.
    pub(super) fn run(
        &mut self,
        steps: &[Step<'_>],
        state: &State,
        last: Option<(&str, Origin)>,
        defaults: &[Line],
        count: &mut usize,
    ) -> Vec<Route> {
        let Some((step, rest)) = steps.split_first() else {
            let routes = match last {
                Some((name, origin)) => self.backend_routes(name, origin, state, defaults, count),
                None => state.reach.refused(Origin::hidden(), false, 503),
            };
            *count += routes.len();
            return routes;
        };
        let line = step.line;
        if *count > ROUTES_LIMIT {
            self.ledger.lost(
                line.origin,
                format!("its section makes more than {ROUTES_LIMIT} routes"),
                CLOSED,
            );
            return state.reach.closed(line.origin, false);
        }
        let at =
            line.words.iter().position(|word| word == "if" || word == "unless").unwrap_or(line.words.len());
        let (matcher, counts) = match line.word(0) {
            "monitor-uri" => (exact(line.word(1)), false),
            _ => self.matcher(line.after(at), step.section),
        };
        let met = state.reach.meets(&matcher);
        let mut routes = Vec::new();
        let mut closed = met.unknown;
        for reach in met.yes {
            let matched = State { reach, request_headers: state.request_headers.clone() };
            match self.rule(step, at, &matched, defaults, count) {
                Done::Ended(ended) => routes.extend(ended),
                Done::On(states, false) => {
                    for state in &states {
                        routes.extend(self.run(rest, state, last, defaults, count));
                    }
                }
                Done::On(states, true) => {
                    let is_other = |other: &&Step<'_>| {
                        other.line.word(0) != line.word(0) || !std::ptr::eq(other.section, step.section)
                    };
                    let others: Vec<Step<'_>> = rest.iter().filter(is_other).copied().collect();
                    for state in &states {
                        routes.extend(self.run(&others, state, last, defaults, count));
                    }
                }
                Done::Lost => routes.extend(matched.reach.closed(line.origin, false)),
            }
        }
        if closed.is_some() && !counts && self.is_settled_rule(line) {
            closed = None;
        }
        if let Some(unknown) = closed {
            let is_rule = is_rule(line);
            let todo = if is_rule && !counts { CLOSED } else { TODO };
            let why = "its condition has no counterpart, or not together with those before it";
            self.ledger.lost(line.origin, why, todo);
            if is_rule && !counts {
                routes.extend(unknown.closed(line.origin, false));
                if unknown == state.reach {
                    return routes;
                }
            }
        }
        if !met.is_all {
            routes.extend(self.run(rest, state, last, defaults, count));
        }
        *count = (*count).max(routes.len());
        routes
    }

    /// A rule that makes no difference, whatever its condition.
    fn is_settled_rule(&mut self, line: &Line) -> bool {
        let is_forwarded = line.word(0) == "http-request"
            && matches!(line.word(1), "set-header" | "add-header" | "del-header")
            && line.word(2).to_ascii_lowercase().starts_with("x-forwarded-");
        if is_forwarded {
            self.ledger.ignored(line.origin, "Keepwarm sends X-Forwarded-* itself");
        }
        is_forwarded
    }

    fn rule(
        &mut self,
        step: &Step<'_>,
        at: usize,
        state: &State,
        defaults: &[Line],
        count: &mut usize,
    ) -> Done {
        let line = step.line;
        match (line.word(0), line.word(1)) {
            ("monitor-uri", _) => Done::Ended(self.fixed(line, state, 200, &[])),
            ("redirect", _) => self.redirect(line, line.words.get(1..at).unwrap_or(&[]), state),
            ("use_backend", name) => {
                Done::Ended(self.backend_routes(name, line.origin, state, defaults, count))
            }
            ("block", _) => Done::Ended(self.fixed(line, state, 403, &[])),
            ("tcp-request", "connection" | "content" | "session") => self.connection_rule(line, state),
            ("tcp-request", _) => {
                self.ledger.ignored(line.origin, "Keepwarm waits for a request's head anyway");
                Done::On(vec![state.clone()], false)
            }
            _ => self.request_rule(line, at, state),
        }
    }

    fn connection_rule(&mut self, line: &Line, state: &State) -> Done {
        match line.word(2) {
            "reject" | "silent-drop" => {
                self.ledger.differs(
                    line.origin,
                    "the client gets 403: Keepwarm does not close connections without a response",
                );
                Done::Ended(self.fixed(line, state, 403, &[]))
            }
            "accept" => {
                self.ledger.carried(line.origin);
                Done::On(vec![state.clone()], true)
            }
            _ => {
                self.ledger.lost(
                    line.origin,
                    "it has no counterpart",
                    "find out what it does, and use `rate_limit`, `concurrency`, `allow` or `proxy_protocol`",
                );
                Done::On(vec![state.clone()], false)
            }
        }
    }

    /// The routes that lead to a backend, after its own rules.
    fn backend_routes(
        &mut self,
        name: &str,
        origin: Origin,
        state: &State,
        defaults: &[Line],
        count: &mut usize,
    ) -> Vec<Route> {
        if let Some(upstream) = name.strip_prefix('\u{1}') {
            let common = self.endings.last().map(|(_, common)| common.clone()).unwrap_or_default();
            return self.end(upstream, origin, state, &common);
        }
        let Some(upstream) = self.backend(name, defaults) else {
            self.ledger.lost(origin, format!("`{name}` is not a backend with servers"), CLOSED);
            return state.reach.closed(origin, false);
        };
        self.ledger.carried(origin);
        let Some(section) =
            self.sections.iter().find(|section| section.kind == "backend" && section.name == name).cloned()
        else {
            return self.end(&upstream, origin, state, &Table::default());
        };
        let mut common = Table::default();
        for line in &section.lines {
            self.side_rule(line, &mut common);
        }
        let steps = steps(&section);
        let own = Ending { upstream, common, origin };
        self.run_backend(&steps, state, &own, count)
    }

    fn run_backend(
        &mut self,
        steps: &[Step<'_>],
        state: &State,
        ending: &Ending,
        count: &mut usize,
    ) -> Vec<Route> {
        // The last rule: to the servers.
        let name = format!("\u{1}{}", ending.upstream);
        self.endings.push((name.clone(), ending.common.clone()));
        let routes = self.run(steps, state, Some((&name, ending.origin)), &[], count);
        self.endings.pop();
        routes
    }

    /// Routes to an upstream.
    fn end(&mut self, upstream: &str, origin: Origin, state: &State, common: &Table) -> Vec<Route> {
        let Some(places) = state.reach.routes(origin, false, false) else {
            self.ledger.lost(origin, "the path is rewritten before in a way without a counterpart", TODO);
            return state.reach.closed(origin, false);
        };
        places
            .into_iter()
            .map(|(mut route, path)| {
                route.table.set("upstream", upstream, origin);
                if !path.is_empty() {
                    route.table.set("rewrite", path, origin);
                }
                if !state.request_headers.is_empty() {
                    route.table.set("request_headers", state.request_headers.clone(), None);
                }
                route.table.merge(common);
                route
            })
            .collect()
    }

    /// Rules that apply to all requests of a section, or to none.
    pub(super) fn side_rule(&mut self, line: &Line, common: &mut Table) {
        match line.word(0) {
            "http-response" | "rspadd" | "rspidel" | "rspdel" => self.response_rule(line, common),
            "stats" => self.ledger.dropped(
                line.origin,
                "Keepwarm has its own page for operators",
                "set `admin.bind`, or use `keepwarm status`",
            ),
            "reqadd"
            | "reqdel"
            | "reqidel"
            | "reqrep"
            | "reqirep"
            | "tcp-response"
            | "stick-table"
            | "stick"
            | "filter"
            | "use-service"
            | "http-after-response"
            | "declare" => {
                self.ledger.lost(
                    line.origin,
                    "it has no counterpart",
                    "find out what it does, and use `rate_limit`, `concurrency`, `allow` or `headers`",
                );
            }
            _ => {}
        }
    }

    fn redirect(&mut self, line: &Line, options: &[String], state: &State) -> Done {
        let value =
            |name: &str| options.iter().position(|option| option == name).and_then(|at| options.get(at + 1));
        let code = value("code").and_then(|code| code.parse::<i64>().ok()).unwrap_or(302);
        let Some(places) = state.reach.routes(line.origin, false, false) else {
            self.ledger.lost(
                line.origin,
                "the path is rewritten before in a way without a counterpart",
                CLOSED,
            );
            return Done::Lost;
        };
        let mut routes = Vec::new();
        for (mut route, path) in places {
            let path = if path.is_empty() { "$path".to_owned() } else { path };
            let target = match (value("scheme"), value("prefix"), value("location")) {
                (Some(scheme), ..) => Some(format!("{scheme}://$host_name{path}$query")),
                (_, Some(prefix), _) => template(prefix.trim_end_matches('/'), &path)
                    .map(|prefix| format!("{prefix}{path}$query")),
                (_, _, Some(location)) => template(location, &path),
                _ => None,
            };
            let target = target.filter(|target| crate::nginx::safe_target(target).is_ok());
            let Some(target) = target.filter(|_| [301, 302, 303, 307, 308].contains(&code)) else {
                self.ledger.lost(
                    line.origin,
                    "its target or status has no counterpart",
                    "write `redirect` of a route by hand; its requests get 501",
                );
                return Done::Lost;
            };
            route.table.set("redirect", crate::nginx::redirect(&target, code, line.origin), line.origin);
            routes.push(route);
        }
        self.ledger.carried(line.origin);
        Done::Ended(routes)
    }

    /// A fixed response.
    fn fixed(&mut self, line: &Line, state: &State, status: i64, words: &[String]) -> Vec<Route> {
        self.ledger.carried(line.origin);
        let mut routes = state.reach.refused(line.origin, false, status);
        for route in &mut routes {
            self.body(line.origin, words, status, route);
        }
        routes
    }

    fn request_rule(&mut self, line: &Line, at: usize, state: &State) -> Done {
        let origin = line.origin;
        let on = |state: &State| Done::On(vec![state.clone()], false);
        match line.word(1) {
            "redirect" => self.redirect(line, line.words.get(2..at).unwrap_or(&[]), state),
            "allow" => {
                self.ledger.carried(origin);
                Done::On(vec![state.clone()], true)
            }
            "silent-drop" | "reject" => {
                self.ledger.differs(
                    origin,
                    "the client gets 403: Keepwarm does not close connections without a response",
                );
                Done::Ended(self.fixed(line, state, 403, &[]))
            }
            "deny" | "return" | "tarpit" => {
                let words = line.words.get(2..at).unwrap_or(&[]);
                let status = words
                    .iter()
                    .position(|word| word == "deny_status" || word == "status")
                    .and_then(|at| words.get(at + 1)?.parse::<i64>().ok());
                let default = match line.word(1) {
                    "return" => 200,
                    "tarpit" => 500,
                    _ => 403,
                };
                if line.word(1) == "tarpit" {
                    self.ledger.differs(origin, "the response comes at once");
                }
                Done::Ended(self.fixed(line, state, status.unwrap_or(default).clamp(200, 599), words))
            }
            "set-header" | "add-header" | "del-header" => {
                let (name, value) = (line.word(2), line.words.get(3..at).unwrap_or(&[]).join(" "));
                let lower = name.to_ascii_lowercase();
                let mut changed = state.clone();
                if lower.starts_with("x-forwarded-") || lower == "forwarded" {
                    self.ledger.ignored(origin, "Keepwarm sends X-Forwarded-* and Forwarded itself");
                } else if line.word(1) == "del-header"
                    && line.words.get(3..at).is_some_and(<[String]>::is_empty)
                {
                    forget(&mut changed.request_headers, name);
                    changed.request_headers.push_in(&[], "remove", name, origin);
                    self.ledger.carried(origin);
                } else if let (Some(value), false, false) =
                    (template(&value, "$path"), lower == "host", line.word(1) == "del-header")
                {
                    let kind = if line.word(1) == "set-header" { "set" } else { "add" };
                    if kind == "set" {
                        forget(&mut changed.request_headers, name);
                    }
                    changed.request_headers.set_in(&[kind], name, value, origin);
                    self.ledger.carried(origin);
                } else {
                    self.ledger.lost(
                        origin,
                        "its value has no counterpart",
                        "set `request_headers`, or `host` of the upstream, by hand",
                    );
                }
                Done::On(vec![changed], false)
            }
            "set-path" | "replace-path" => self.new_path(line, at, state),
            "replace-uri" | "set-uri" | "replace-pathq" | "set-pathq" | "set-method" | "set-query"
            | "normalize-uri" => {
                self.ledger.lost(
                    origin,
                    "it changes the request",
                    "set `rewrite` of the route by hand; its requests get 501",
                );
                Done::Lost
            }
            "replace-header" | "replace-value" => {
                self.ledger.lost(origin, "a part of a header's value is not replaced", "let the app do it");
                on(state)
            }
            "set-var" | "unset-var" | "set-log-level" | "capture" | "set-nice" | "set-priority-class"
            | "wait-for-body" => {
                self.ledger.dropped(origin, "Keepwarm has no such variables", "find out what uses them");
                on(state)
            }
            "auth" => {
                self.ledger.lost(
                    origin,
                    "users are in a file of bcrypt or argon2 hashes; its requests get 501",
                    "set `basic_auth` of the routes (keepwarm hash-password), and remove the 501",
                );
                Done::Lost
            }
            "track-sc0" | "track-sc1" | "track-sc2" | "sc-inc-gpc0" => {
                self.ledger.lost(
                    origin,
                    "counters of clients",
                    "set `rate_limit` or `concurrency` of the routes",
                );
                on(state)
            }
            _ => {
                self.ledger.lost(origin, "it has no counterpart", "write it by hand");
                on(state)
            }
        }
    }

    /// `set-path /v1%[path]`, `replace-path ^/api/(.*) /\\1`.
    fn new_path(&mut self, line: &Line, at: usize, state: &State) -> Done {
        let is_first = state.reach.sight == Reach::all().sight;
        let mut changed = state.clone();
        let moved = match (line.word(1), line.words.get(2..at).unwrap_or(&[])) {
            ("set-path", [text]) => match (text.strip_suffix("%[path]"), template(text, "")) {
                (Some(before), _) if is_first && before.starts_with('/') && !before.contains('%') => {
                    Some(Sight::Moved { strip: String::new(), add: before.to_owned() })
                }
                (_, Some(path)) if !text.contains('%') && path.starts_with('/') && !path.contains('?') => {
                    Some(Sight::Fixed { path, query: None })
                }
                _ => None,
            },
            ("replace-path", [pattern, text]) if !text.contains(['%', '$', '?']) => {
                return self.replaced_path(line, pattern, text, state);
            }
            _ => None,
        };
        match moved {
            Some(sight) => {
                self.ledger.carried(line.origin);
                changed.reach.sight = sight;
                Done::On(vec![changed], false)
            }
            None => {
                self.ledger.lost(
                    line.origin,
                    "it changes the request",
                    "set `rewrite` of the route by hand; its requests get 501",
                );
                Done::Lost
            }
        }
    }

    fn response_rule(&mut self, line: &Line, common: &mut Table) {
        let origin = line.origin;
        let is_conditional = line.words.iter().any(|word| word == "if" || word == "unless");
        match (line.word(1), is_conditional) {
            ("set-header" | "add-header", false) => match template(&line.after(3).join(" "), "$path") {
                Some(value) => {
                    let kind = if line.word(1) == "set-header" { "set" } else { "add" };
                    common.set_in(&["headers", kind], line.word(2), value, origin);
                }
                None => self.ledger.lost(
                    origin,
                    "its value has no counterpart",
                    "set `headers` of the route by hand",
                ),
            },
            ("del-header", false) => common.push_in(&["headers"], "remove", line.word(2), origin),
            _ => self.ledger.lost(origin, "it has no counterpart", "set `headers` of the route by hand"),
        }
    }

    fn replaced_path(&mut self, line: &Line, pattern: &str, text: &str, state: &State) -> Done {
        let test = crate::expression::check(pattern, false).ok().map(|own| Test::Regex(String::new(), own));
        let met = test
            .map(|test| state.reach.meets(&Matcher::Sets(vec![vec![Condition { test, negated: false }]])));
        let Some(met) = met.filter(|met| met.unknown.is_none()) else {
            self.ledger.lost(
                line.origin,
                "it changes the request",
                "set `rewrite` of the route by hand; its requests get 501",
            );
            return Done::Lost;
        };
        self.ledger.carried(line.origin);
        let mut states: Vec<State> = Vec::new();
        for mut reach in met.yes {
            reach.sight = Sight::Fixed { path: groups(text), query: None };
            states.push(State { reach, request_headers: state.request_headers.clone() });
        }
        if !met.is_all {
            states.push(state.clone());
        }
        Done::On(states, false)
    }

    /// `string TEXT` and `content-type TYPE` of `return` and `deny`.
    fn body(&mut self, origin: Origin, words: &[String], status: i64, route: &mut Route) {
        let after = |name: &str| words.iter().position(|word| word == name).and_then(|at| words.get(at + 1));
        let other = ["file", "lf-file", "lf-string", "errorfile", "errorfiles", "hdr"];
        if let Some(word) = words.iter().find(|word| other.contains(&word.as_str())) {
            self.ledger.differs(origin, format!("`{word}` is left out: the body is Keepwarm's own"));
        }
        let Some(text) = after("string").filter(|_| !matches!(status, 204 | 304)) else { return };
        let mut respond = Table::default();
        respond.set("status", status, origin);
        respond.set("body", text.replace('$', "$$"), origin);
        if let Some(media) = after("content-type").filter(|media| *media != "text/plain") {
            respond.set("content_type", media.as_str(), origin);
        }
        route.table.set("respond", respond, origin);
    }
}

/// The servers of a backend, and what applies to all requests to them.
struct Ending {
    upstream: String,
    common: Table,
    origin: Origin,
}

/// Whether requests must not go on without a rule.
fn is_rule(line: &Line) -> bool {
    match (line.word(0), line.word(1)) {
        ("http-request", action) => !matches!(
            action,
            "set-header"
                | "add-header"
                | "del-header"
                | "replace-header"
                | "replace-value"
                | "set-var"
                | "unset-var"
                | "set-log-level"
                | "capture"
                | "set-nice"
                | "set-priority-class"
                | "wait-for-body"
                | "track-sc0"
                | "track-sc1"
                | "track-sc2"
                | "sc-inc-gpc0"
        ),
        ("tcp-request", _) => matches!(line.word(2), "reject" | "silent-drop" | "accept"),
        _ => true,
    }
}

fn exact(path: &str) -> Matcher {
    let test = Test::Path(vec![crate::pattern::Pattern::text(path)]);
    Matcher::Sets(vec![vec![Condition { test, negated: false }]])
}

/// `/\\1` as `/$1`.
fn groups(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('\\', Some(next)) if next.is_ascii_digit() => out.push('$'),
            _ => out.push(c),
        }
    }
    out
}

/// What earlier rules say of a header.
fn forget(table: &mut Table, name: &str) {
    for item in &mut table.items {
        if let crate::table::Value::Table(inner) = &mut item.value {
            inner.items.retain(|known| !known.key.eq_ignore_ascii_case(name));
        }
    }
    table.items.retain(|item| !matches!(&item.value, crate::table::Value::Table(inner) if inner.is_empty()));
}

/// A log-format string with variables, as a template.
fn template(text: &str, path: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("%[") {
        let (before, after) = rest.split_at(at);
        out.push_str(before);
        let (expression, behind) = after.get(2..)?.split_once(']')?;
        let name = expression.split(',').next().unwrap_or(expression);
        let argument = || name.split_once('(').map(|(_, rest)| rest.trim_end_matches(')').to_owned());
        out.push_str(&match name {
            "src" => "$client".to_owned(),
            "path" => path.to_owned(),
            "capture.req.uri" => "$path$query".to_owned(),
            "url" | "pathq" => format!("{path}$query"),
            "query" => "$args".to_owned(),
            "method" => "$method".to_owned(),
            "unique-id" => "$request_id".to_owned(),
            name if name.starts_with("hdr(host)")
                || name.starts_with("req.hdr(host)")
                || name.starts_with("req.hdr(Host)") =>
            {
                "$host".to_owned()
            }
            name if name.starts_with("hdr(") || name.starts_with("req.hdr(") => {
                format!("$header_{}", argument()?.replace('-', "_"))
            }
            name if name.starts_with("req.cook(") => format!("$cookie_{}", argument()?),
            _ => return None,
        });
        rest = behind;
    }
    out.push_str(rest);
    // Old variables: %ci, %[…] is above.
    let out = out.replace("%ci", "$client").replace("%HU", "$path$query").replace("%HM", "$method");
    match out.contains('%') {
        true => out.contains("%%").then(|| out.replace("%%", "%")),
        false => Some(out),
    }
}
