//! `tcp-request`, `http-request`, `redirect`, `use_backend`, `http-response`.
//!
//! HAProxy evaluates rules one after the other. At each condition they are followed twice: for the requests that meet it,
//! whose routes come first, and for all.

mod ending;
mod request;
mod respond;

use super::{CLOSED, TODO};
use crate::haproxy::Reader;
use crate::haproxy::section::{Line, Section};
use crate::ledger::Origin;
use crate::model::Route;
use crate::reach::{Condition, Matcher, Reach, Test};
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
    let mut steps: Vec<Step<'_>> = section
        .around
        .as_deref()
        .into_iter()
        .chain([section])
        .flat_map(|section| {
            section.lines.iter().filter(|line| rank(line) < 6).map(move |line| Step { line, section })
        })
        .collect();
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
        count: &mut usize,
    ) -> Vec<Route> {
        let Some((step, rest)) = steps.split_first() else {
            let routes = match last {
                Some((name, origin)) => self.backend_routes(name, origin, state, count),
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
            match self.rule(step, at, &matched, count) {
                Done::Ended(ended) => routes.extend(ended),
                Done::On(states, false) => {
                    for state in &states {
                        routes.extend(self.run(rest, state, last, count));
                    }
                }
                Done::On(states, true) => {
                    let is_other = |other: &&Step<'_>| {
                        other.line.word(0) != line.word(0) || !std::ptr::eq(other.section, step.section)
                    };
                    let others: Vec<Step<'_>> = rest.iter().filter(is_other).copied().collect();
                    for state in &states {
                        routes.extend(self.run(&others, state, last, count));
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
            routes.extend(self.run(rest, state, last, count));
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

    fn rule(&mut self, step: &Step<'_>, at: usize, state: &State, count: &mut usize) -> Done {
        let line = step.line;
        match (line.word(0), line.word(1)) {
            ("monitor-uri", _) => Done::Ended(self.fixed(line, state, 200, &[])),
            ("redirect", _) => self.redirect(line, line.words.get(1..at).unwrap_or(&[]), state),
            ("use_backend", name) => Done::Ended(self.backend_routes(name, line.origin, state, count)),
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
