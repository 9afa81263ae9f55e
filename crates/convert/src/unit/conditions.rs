//! What requests must be for a step of Unit's routes.

use super::Reader;
use crate::expression;
use crate::ledger::Origin;
use crate::model::{PathMatch, Route, encoded, exact_methods};
use crate::pattern::Pattern;
use crate::table::{Table, one_or_list};
use crate::tree::{Data, Node};

/// Patterns of which one must match (empty: all do), and those of which none may.
#[derive(Clone, Debug)]
struct Condition {
    key: &'static str,
    /// Of a header, an argument or a cookie.
    name: String,
    some: Vec<String>,
    none: Vec<String>,
    origin: Origin,
}

/// The requests that come to a step or an action, and what was said of them before.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) origin: Option<Origin>,
    met: Vec<Condition>,
    /// Keys of the route that an action sets.
    pub(super) table: Table,
}

/// No conditions of Keepwarm say it.
struct Inexpressible;

/// The requests that a step is for; and, where no conditions say which, those that it may be for.
pub(super) struct Matched {
    pub(super) yes: Vec<Place>,
    pub(super) unknown: Vec<Place>,
}

impl Place {
    pub(super) fn new(origin: Origin) -> Place {
        Place { origin: Some(origin), met: Vec::new(), table: Table::default() }
    }

    pub(super) fn at(&self, origin: Origin) -> Place {
        Place { origin: Some(origin), ..self.clone() }
    }

    fn narrowed(&self, new: Condition) -> Result<Option<Place>, Inexpressible> {
        let mut place = self.clone();
        if new.key == "uri" && self.table.has("rewrite") {
            return Err(Inexpressible);
        }
        let same =
            |known: &&mut Condition| known.key == new.key && is_same_name(new.key, &known.name, &new.name);
        let Some(known) = place.met.iter_mut().find(same) else {
            place.met.push(new);
            return Ok(Some(place));
        };
        known.none.extend(new.none);
        if known.some.is_empty() {
            known.some = new.some;
        } else if !new.some.is_empty() && new.some != known.some {
            let is_plain =
                |list: &[String]| list.iter().all(|one| !one.contains('*') && !one.starts_with('~'));
            match known.key {
                "uri" => known.some = common(&known.some, &new.some).ok_or(Inexpressible)?,
                "method" | "scheme" | "host" if is_plain(&known.some) && is_plain(&new.some) => {
                    known.some.retain(|one| new.some.contains(one));
                }
                _ => return Err(Inexpressible),
            }
            if known.some.is_empty() {
                return Ok(None);
            }
        }
        Ok(Some(place))
    }

    /// The routes of these requests.
    pub(super) fn routes(&self) -> Vec<Route> {
        let mut route = Route::new(self.origin, PathMatch::Any);
        let mut methods = vec![Vec::new()];
        for Condition { key, name, some, none, origin } in &self.met {
            let negated = none.iter().map(|one| format!("!{one}"));
            match *key {
                "uri" => {
                    // With the pattern `/x/*` alone, the prefix is not part of the names of files.
                    route.path = match some.is_empty() {
                        true => PathMatch::Any,
                        false => {
                            PathMatch::Patterns(some.iter().map(|one| path(one, !none.is_empty())).collect())
                        }
                    };
                    route.except = none.iter().map(|one| path(one, false)).collect();
                }
                "method" => methods = exact_methods(some, none),
                _ => {
                    let list: Vec<String> = some.iter().cloned().chain(negated).collect();
                    match name.is_empty() {
                        true => route.table.set(key, one_or_list(list), *origin),
                        false => route.table.set_in(&[key], name, one_or_list(list), *origin),
                    }
                }
            }
        }
        route.table.merge(&self.table);
        let with = |list: Vec<String>| {
            let mut route = route.clone();
            if !list.is_empty() {
                let origin = self.met.iter().find(|one| one.key == "method").map(|one| one.origin);
                route.table.set("method", one_or_list(list), origin);
            }
            route
        };
        methods.into_iter().map(with).collect()
    }

    /// Routes that respond with a status, and nothing else.
    pub(super) fn closed(&self, origin: impl Into<Option<Origin>>, status: i64) -> Vec<Route> {
        let origin = origin.into();
        let mut routes = Place { origin, table: Table::default(), ..self.clone() }.routes();
        routes.iter_mut().for_each(|route| route.table.set("respond", status, origin));
        routes
    }
}

/// A pattern of decoded paths as one of Keepwarm.
fn path(pattern: &str, as_expression: bool) -> String {
    if let Some(expression) = pattern.strip_prefix('~') {
        return format!("~{expression}");
    }
    if as_expression && pattern.ends_with("/*") {
        return format!("~{}", Pattern::of_texts(pattern).expression());
    }
    pattern.split('*').map(encoded).collect::<Vec<_>>().join("*")
}

/// Patterns for what one of each list matches; `None`: none say so.
fn common(a: &[String], b: &[String]) -> Option<Vec<String>> {
    let is_usable = |one: &String| !one.starts_with('~') && !one.contains(char::is_uppercase);
    if !a.iter().chain(b).all(is_usable) {
        return None;
    }
    let mut both = Vec::new();
    for one in a {
        for other in b {
            both.extend(Pattern::of_texts(one).both(&Pattern::of_texts(other))?);
        }
    }
    crate::pattern::only_widest(both)?.iter().map(Pattern::texts).collect()
}

fn is_same_name(key: &str, a: &str, b: &str) -> bool {
    if key == "header" { a.eq_ignore_ascii_case(b) } else { a == b }
}

/// Conditions that hold together.
type Set = Vec<Condition>;

impl Reader<'_> {
    pub(super) fn matched(&mut self, conditions: &Node, place: &Place) -> Matched {
        let sets: Vec<&Node> = match &conditions.data {
            Data::List(list) if !list.is_empty() => list.iter().collect(),
            _ => vec![conditions],
        };
        let mut matched = Matched { yes: Vec::new(), unknown: Vec::new() };
        for set in sets {
            // Of each member of a set, one alternative holds.
            let mut places = vec![(place.clone(), true)];
            for (name, value) in set.entries() {
                let alternatives = self.alternatives(name, value);
                let mut next = Vec::new();
                for (place, is_known) in places {
                    match &alternatives {
                        None => next.push((place, false)),
                        Some(alternatives) => {
                            for set in alternatives {
                                next.extend(with_all(&place, is_known, set));
                            }
                        }
                    }
                }
                if next.iter().any(|(_, is_known)| !is_known) {
                    value.drop(
                        "no conditions of a route say it, together with those around it",
                        "what it may match gets 501; write the route by hand",
                        true,
                        self.ledger,
                    );
                }
                places = next;
            }
            for (place, is_known) in places {
                match is_known {
                    true => matched.yes.push(place),
                    false => matched.unknown.push(place),
                }
            }
        }
        matched
    }

    /// The alternatives of one member of `match`; `None`: it has no counterpart.
    fn alternatives(&mut self, name: &str, value: &Node) -> Option<Vec<Set>> {
        let key = match name {
            "uri" => "uri",
            "host" => "host",
            "method" => "method",
            "scheme" => "scheme",
            "source" => "client",
            "headers" => "header",
            "arguments" => "query",
            "cookies" => "cookie",
            _ => return None,
        };
        if !matches!(key, "header" | "query" | "cookie") {
            let condition = condition(key, "", &value.texts(), value.origin)?;
            self.ledger.carried(value.origin);
            return Some(vec![vec![condition]]);
        }
        let tables: Vec<&Node> = match &value.data {
            Data::List(list) => list.iter().collect(),
            _ => vec![value],
        };
        let mut sets = Vec::new();
        for table in tables {
            let mut set: Set = Vec::new();
            for (of, patterns) in table.entries() {
                let condition = condition(key, of, &patterns.texts(), patterns.origin)?;
                self.ledger.carried(patterns.origin);
                set.push(condition);
            }
            sets.push(set);
        }
        Some(sets)
    }
}

/// The place with all conditions of a set, if requests can meet them.
fn with_all(place: &Place, is_known: bool, set: &Set) -> Option<(Place, bool)> {
    let mut found = (place.clone(), is_known);
    for condition in set {
        match found.0.narrowed(condition.clone()) {
            Ok(None) => return None,
            Ok(Some(place)) => found.0 = place,
            Err(Inexpressible) => found.1 = false,
        }
    }
    Some(found)
}

fn condition(key: &'static str, name: &str, patterns: &[String], origin: Origin) -> Option<Condition> {
    let (mut some, mut none) = (Vec::new(), Vec::new());
    for pattern in patterns {
        match pattern.strip_prefix('!') {
            Some(pattern) => none.push(converted(key, pattern)?),
            None => some.push(converted(key, pattern)?),
        }
    }
    // An absent header, argument or cookie meets nothing, not even a negation.
    if !name.is_empty() && some.is_empty() {
        some.push("*".to_owned());
    }
    if key == "method" && some.iter().chain(&none).any(|one| one.contains('*') || one.starts_with('~')) {
        return None;
    }
    if some.is_empty() && none.is_empty() {
        return None;
    }
    if key == "scheme" && !none.is_empty() {
        return None;
    }
    Some(Condition { key, name: name.to_owned(), some, none, origin })
}

fn converted(key: &str, pattern: &str) -> Option<String> {
    if key == "client" {
        return (pattern != "all" && crate::cidr::is_address(pattern)).then(|| pattern.to_owned());
    }
    if let Some(regex) = pattern.strip_prefix('~') {
        let checked = expression::check(regex, false).ok()?;
        return match key {
            "uri" => expression::encoded(&checked).map(|regex| format!("~{regex}")),
            _ => Some(format!("~{checked}")),
        };
    }
    Some(match key {
        "method" => pattern.to_uppercase(),
        "host" => pattern.to_lowercase(),
        // Values of headers and cookies are compared without case.
        "header" | "cookie" if pattern.contains(char::is_alphabetic) => {
            let pieces: Vec<String> = pattern.split('*').map(crate::model::escape).collect();
            format!("~(?i)^{}$", pieces.join(".*"))
        }
        "header" | "cookie" | "query" if pattern.starts_with(['!', '~']) => return None,
        _ => pattern.to_owned(),
    })
}
