//! Conditions: ACLs and what follows `if`.

use super::Condition;
use crate::haproxy::Reader;
use crate::haproxy::section::{Line, Section};
use crate::ledger::Origin;
use crate::model::{PathMatch, Route};
use crate::table::{Table, Value, one_or_list};

impl Reader<'_> {
    /// Adds a route for each alternative of a condition; none, and `todo` in the report, if a part of it has no counterpart.
    pub(super) fn conditional(
        &mut self,
        line: &Line,
        at: usize,
        section: &Section,
        route: Route,
        routes: &mut Vec<Route>,
        todo: &str,
    ) {
        let words = line.after(at);
        let Some(first) = words.first() else {
            routes.push(route);
            return;
        };
        let alternatives = alternatives(words);
        if first == "unless"
            && (alternatives.len() > 1 || alternatives.first().is_some_and(|terms| terms.len() > 1))
        {
            self.ledger.lost(line.origin, "`unless` with several conditions", todo);
            return;
        }
        let mut made = Vec::new();
        for terms in &alternatives {
            let mut conditions = Vec::new();
            for term in terms {
                let negated = term.starts_with('!') != (first == "unless");
                match self.term(term.trim_start_matches('!'), negated, section) {
                    Some(Some(condition)) => conditions.push(condition),
                    // Always true.
                    Some(None) => {}
                    None => {
                        self.ledger.lost(
                            line.origin,
                            format!("the condition `{term}` has no counterpart"),
                            todo,
                        );
                        return;
                    }
                }
            }
            match merged(&route, &conditions) {
                Some(route) => made.push(route),
                None => {
                    self.ledger.lost(line.origin, "two conditions on the same thing", todo);
                    return;
                }
            }
        }
        routes.extend(made);
    }

    /// A named or anonymous acl; `Some(None)`: it is always true.
    pub(super) fn term(&mut self, term: &str, negated: bool, section: &Section) -> Option<Option<Condition>> {
        if let Some(inside) = term.strip_prefix('{') {
            let words: Vec<String> =
                inside.trim_end_matches('}').split_whitespace().map(str::to_owned).collect();
            return condition(&words, negated, section.origin).map(Some);
        }
        match term {
            "TRUE" if !negated => return Some(None),
            "HTTP" | "METH_GET" | "METH_POST" | "LOCALHOST" => {
                let words: Vec<String> = match term {
                    "METH_GET" => vec!["method".to_owned(), "GET".to_owned(), "HEAD".to_owned()],
                    "METH_POST" => vec!["method".to_owned(), "POST".to_owned()],
                    "LOCALHOST" => vec!["src".to_owned(), "127.0.0.1".to_owned()],
                    _ => return Some(None),
                };
                return condition(&words, negated, section.origin).map(Some);
            }
            _ => {}
        }
        let lines: Vec<&Line> =
            section.lines.iter().filter(|line| line.word(0) == "acl" && line.word(1) == term).collect();
        let mut all: Option<Condition> = None;
        for line in &lines {
            let found = condition(line.after(2), negated, line.origin)?;
            self.ledger.carried(line.origin);
            all = Some(match all {
                None => found,
                // Several acls of one name: any of them.
                Some(earlier) => either(earlier, found)?,
            });
        }
        all.map(Some)
    }
}

/// Whether a criterion counts what clients or servers do: a rule with it is a limit.
pub(super) fn counts_clients(criterion: &str) -> bool {
    const COUNTERS: [&str; 14] = [
        "sc_",
        "sc0_",
        "sc1_",
        "sc2_",
        "src_conn",
        "src_http",
        "src_get_",
        "src_inc_",
        "src_sess",
        "src_bytes",
        "table_",
        "be_",
        "fe_",
        "nbsrv",
    ];
    let criterion = criterion.trim_start_matches(['!', '{']);
    COUNTERS.iter().any(|counter| criterion.starts_with(counter))
}

/// The terms of each alternative of `if A B or C`.
pub(super) fn alternatives(words: &[String]) -> Vec<Vec<String>> {
    let mut alternatives: Vec<Vec<String>> = vec![Vec::new()];
    for word in join_braces(words.get(1..).unwrap_or(&[])) {
        match word.as_str() {
            "or" | "||" => alternatives.push(Vec::new()),
            _ => alternatives.iter_mut().last().into_iter().for_each(|terms| terms.push(word.clone())),
        }
    }
    alternatives
}

/// `{ path_beg /x }` as one word.
fn join_braces(words: &[String]) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut open: Option<String> = None;
    for word in words {
        match open.take() {
            Some(text) if word.ends_with('}') => out.push(format!("{text} {word}")),
            Some(text) => open = Some(format!("{text} {word}")),
            None if word.trim_start_matches('!').starts_with('{') && !word.ends_with('}') => {
                open = Some(word.clone())
            }
            None => out.push(word.clone()),
        }
    }
    out.extend(open);
    out
}

/// The condition of an acl: a criterion, flags, patterns.
pub(super) fn condition(words: &[String], negated: bool, origin: Origin) -> Option<Condition> {
    let criterion = words.first()?.as_str();
    let ignore_case = words.iter().any(|word| word == "-i");
    let mut patterns: Vec<&str> =
        words.get(1..)?.iter().map(String::as_str).filter(|word| !matches!(*word, "-i" | "--")).collect();
    if patterns.iter().any(|pattern| *pattern == "-f" || *pattern == "-M") {
        return None;
    }
    let method = match patterns.first() {
        Some(&"-m") => {
            let method = patterns.get(1).copied().unwrap_or("str");
            patterns.drain(..2.min(patterns.len()));
            method
        }
        _ => "",
    };
    let (name, argument) =
        criterion.split_once('(').map_or((criterion, ""), |(name, rest)| (name, rest.trim_end_matches(')')));
    let (name, suffix) = match name.rsplit_once('_') {
        Some((name, suffix @ ("beg" | "end" | "sub" | "reg" | "dom" | "dir" | "len" | "cnt" | "val"))) => {
            (name, suffix)
        }
        _ => (name, method),
    };
    let sign = if negated { "!" } else { "" };
    let quoted = |suffix: &str, text: &str| -> Option<String> {
        Some(match suffix {
            "" | "str" if ignore_case => format!("{sign}~(?i)^{}$", crate::model::escape(text)),
            "" | "str" => format!("{sign}{text}"),
            "beg" if ignore_case => format!("{sign}~(?i)^{}", crate::model::escape(text)),
            "beg" => format!("{sign}{text}*"),
            "end" if ignore_case => format!("{sign}~(?i){}$", crate::model::escape(text)),
            "end" => format!("{sign}*{text}"),
            "sub" | "dir" | "dom" if ignore_case => format!("{sign}~(?i){}", crate::model::escape(text)),
            "sub" => format!("{sign}*{text}*"),
            "reg" => format!("{sign}~{}", crate::expression::check(text, ignore_case).ok()?),
            _ => return None,
        })
    };
    let all =
        |suffix: &str| patterns.iter().map(|text| quoted(suffix, text)).collect::<Option<Vec<String>>>();
    let mut table = Table::default();
    match name {
        "path" | "url" => return Some(Condition { path: Some(all(suffix)?), table }),
        "hdr" | "req.hdr" | "req.fhdr"
            if argument.split(',').next().is_some_and(|name| name.eq_ignore_ascii_case("host")) =>
        {
            let hosts: Option<Vec<String>> = match suffix {
                // Hosts are compared regardless of case.
                "" | "str" => {
                    Some(patterns.iter().map(|host| format!("{sign}{}", host.to_lowercase())).collect())
                }
                "end" => {
                    Some(patterns.iter().map(|host| format!("{sign}*{}", host.to_lowercase())).collect())
                }
                "beg" => {
                    Some(patterns.iter().map(|host| format!("{sign}{}*", host.to_lowercase())).collect())
                }
                "dom" => Some(
                    patterns
                        .iter()
                        .flat_map(|host| [format!("{sign}{host}"), format!("{sign}*.{host}")])
                        .collect(),
                ),
                other => all(other),
            };
            table.set("host", one_or_list(hosts?), origin);
        }
        "hdr" | "req.hdr" | "req.fhdr" => table.set_in(
            &["header"],
            argument.split(',').next()?,
            values(all(suffix)?, suffix, negated),
            origin,
        ),
        "req.cook" | "cook" => {
            table.set_in(&["cookie"], argument, values(all(suffix)?, suffix, negated), origin)
        }
        "url_param" | "urlp" => {
            table.set_in(&["query"], argument, values(all(suffix)?, suffix, negated), origin)
        }
        "method" => {
            // `GET` of a route includes `HEAD`, and that of HAProxy does not.
            let (has_get, has_head) = (patterns.contains(&"GET"), patterns.contains(&"HEAD"));
            if negated && has_get && !has_head {
                return None;
            }
            let methods = patterns.iter().filter(|method| !(has_get && **method == "HEAD"));
            table.set(
                "method",
                one_or_list(methods.map(|method| format!("{sign}{method}")).collect()),
                origin,
            );
        }
        "src" => {
            let clients: Vec<String> = patterns.iter().map(|address| format!("{sign}{address}")).collect();
            if !patterns.iter().all(|address| crate::cidr::is_address(address)) {
                return None;
            }
            table.set("client", clients, origin);
        }
        "ssl_fc" => table.set("scheme", if negated { "http" } else { "https" }, origin),
        "dst_port" => match (patterns.as_slice(), negated) {
            (["443"], false) | (["80"], true) => table.set("scheme", "https", origin),
            (["80"], false) | (["443"], true) => table.set("scheme", "http", origin),
            _ => return None,
        },
        _ => return None,
    }
    Some(Condition { path: None, table })
}

/// `-m found` has no pattern: the header is there.
fn values(patterns: Vec<String>, suffix: &str, negated: bool) -> Value {
    match patterns.is_empty() || suffix == "found" {
        true => Value::from(if negated { "!*" } else { "*" }),
        false => one_or_list(patterns),
    }
}

/// Either of two conditions, if they are on the same thing.
fn either(a: Condition, b: Condition) -> Option<Condition> {
    match (a.path, b.path) {
        (Some(mut a), Some(b)) => {
            a.extend(b);
            Some(Condition { path: Some(a), table: Table::default() })
        }
        (None, None) => {
            let ([one], [other]) = (a.table.items.as_slice(), b.table.items.as_slice()) else { return None };
            if one.key != other.key {
                return None;
            }
            let list = |value: &Value| match value {
                Value::List(list) => Some(list.clone()),
                Value::Text(text) => Some(vec![Value::from(text.as_str())]),
                _ => None,
            };
            let mut all = list(&one.value)?;
            all.extend(list(&other.value)?);
            let mut table = Table::default();
            table.set(&one.key, Value::List(all), one.origin);
            Some(Condition { path: None, table })
        }
        _ => None,
    }
}

/// A route with all conditions; `None`: two are on the same thing.
pub(super) fn merged(route: &Route, conditions: &[Condition]) -> Option<Route> {
    let mut route = route.clone();
    for condition in conditions {
        if let Some(path) = &condition.path {
            if route.path != PathMatch::Any {
                // Patterns and their negations go together.
                let PathMatch::Patterns(patterns) = &mut route.path else { return None };
                if !path.iter().all(|pattern| pattern.starts_with('!'))
                    && !patterns.iter().all(|pattern| pattern.starts_with('!'))
                {
                    return None;
                }
                patterns.extend(path.iter().cloned());
                continue;
            }
            route.path = PathMatch::Patterns(path.clone());
        }
        for item in &condition.table.items {
            if route.table.has(&item.key) {
                return None;
            }
            route.table.items.push(item.clone());
        }
    }
    Some(route)
}
