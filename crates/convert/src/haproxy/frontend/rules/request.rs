//! `http-request`: what it refuses, and what it changes of requests.

use super::respond::template;
use super::{Done, State};
use crate::haproxy::Reader;
use crate::haproxy::section::Line;
use crate::reach::{Condition, Matcher, Reach, Sight, Test};
use crate::table::Table;

impl Reader<'_> {
    pub(super) fn request_rule(&mut self, line: &Line, at: usize, state: &State) -> Done {
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
