//! The requests that come to a directive: the conditions that they have met, and the path that they have by then.

use crate::expression;
use crate::ledger::Origin;
use crate::model::{PathMatch, Route, escape, exact_methods};
use crate::pattern::{Pattern, only_widest};
use crate::table::one_or_list;

/// A condition on requests.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Test {
    /// One of these.
    Path(Vec<Pattern>),
    /// The name of the expression, for its groups, and the expression.
    Regex(String, String),
    Method(Vec<String>),
    Scheme(String),
    /// A key of a route, the name of a header or argument, and patterns, of which one must match.
    Value(&'static str, String, Vec<String>),
    /// Something without a counterpart, which may hold or not.
    Unknown,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Condition {
    pub(crate) test: Test,
    pub(crate) negated: bool,
}

/// Sets of conditions: all conditions of one of them hold.
pub(crate) type Sets = Vec<Vec<Condition>>;

#[derive(Clone, Debug)]
pub(crate) enum Matcher {
    All,
    Sets(Sets),
    /// It has no counterpart.
    Unknown,
}

pub(crate) const UNKNOWN: Condition = Condition { test: Test::Unknown, negated: false };

/// More sets than these are not written.
const SETS_LIMIT: usize = 24;

/// One set of each.
pub(crate) fn product(a: &Sets, b: &Sets) -> Option<Sets> {
    let mut sets = Vec::new();
    for one in a {
        sets.extend(b.iter().map(|other| one.iter().chain(other).cloned().collect::<Vec<_>>()));
    }
    (sets.len() <= SETS_LIMIT).then_some(sets)
}

/// None of the sets holds: of each, one condition does not.
pub(crate) fn opposite(sets: &Sets) -> Option<Sets> {
    let mut all: Sets = vec![Vec::new()];
    for set in sets {
        let flipped: Sets =
            set.iter().map(|one| vec![Condition { test: one.test.clone(), negated: !one.negated }]).collect();
        all = product(&all, &flipped)?;
    }
    Some(all)
}

#[derive(Clone, Debug, PartialEq)]
enum Except {
    Pattern(Pattern),
    Regex(String),
}

#[derive(Clone, Debug, PartialEq)]
enum Methods {
    Of(Vec<String>),
    Not(Vec<String>),
}

/// Patterns for a header, argument, host or client.
#[derive(Clone, Debug, PartialEq)]
struct Values {
    key: &'static str,
    name: String,
    /// One of these; empty: all.
    some: Vec<String>,
    /// None of these.
    none: Vec<String>,
}

/// The path that directives see after rewrites.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Sight {
    /// The path of the request without a prefix, after a text.
    Moved {
        strip: String,
        add: String,
    },
    /// The same one for all.
    Fixed {
        path: String,
        query: Option<String>,
    },
    Unknown,
}

/// No condition has been met yet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Reach {
    /// One of these; empty: all paths.
    paths: Vec<Pattern>,
    /// The name of an expression, and the expression. Where there is one, `paths` is empty.
    pub(crate) regex: Option<(String, String)>,
    except: Vec<Except>,
    methods: Option<Methods>,
    values: Vec<Values>,
    scheme: Option<String>,
    pub(crate) sight: Sight,
    /// Whether `try_files` may have changed the path, which files are served by.
    pub(crate) is_tried: bool,
}

/// What becomes of requests at a matcher.
pub(crate) struct Met {
    pub(crate) yes: Vec<Reach>,
    /// Requests that may meet it: no conditions say which.
    pub(crate) unknown: Option<Reach>,
    /// Whether all of them meet it.
    pub(crate) is_all: bool,
}

/// Why a condition cannot be added: no conditions of Keepwarm say it.
#[derive(Debug)]
struct Inexpressible;

type Narrowed = Result<Option<Reach>, Inexpressible>;

impl Reach {
    pub(crate) fn all() -> Reach {
        Reach {
            paths: Vec::new(),
            regex: None,
            except: Vec::new(),
            methods: None,
            values: Vec::new(),
            scheme: None,
            sight: Sight::Moved { strip: String::new(), add: String::new() },
            is_tried: false,
        }
    }

    pub(crate) fn meets(&self, matcher: &Matcher) -> Met {
        let sets = match matcher {
            Matcher::All => return Met { yes: vec![self.clone()], unknown: None, is_all: true },
            Matcher::Unknown => return Met { yes: Vec::new(), unknown: Some(self.clone()), is_all: false },
            Matcher::Sets(sets) => sets,
        };
        let mut met = Met { yes: Vec::new(), unknown: None, is_all: false };
        for set in sets {
            let mut reach = Some(self.clone());
            let mut is_known = true;
            for condition in set {
                reach = match reach.as_ref().map(|reach| reach.narrowed(condition)) {
                    None | Some(Ok(None)) => None,
                    Some(Ok(narrowed)) => narrowed,
                    Some(Err(Inexpressible)) => {
                        is_known = false;
                        reach
                    }
                };
            }
            match (reach, is_known) {
                (None, _) => {}
                (Some(reach), true) => {
                    met.is_all |= reach == *self;
                    met.yes.push(reach);
                }
                (Some(reach), false) if met.unknown.is_none() => met.unknown = Some(reach),
                (Some(_), false) => met.unknown = Some(self.clone()),
            }
        }
        if met.is_all {
            return Met { yes: vec![self.clone()], unknown: None, is_all: true };
        }
        met
    }

    fn narrowed(&self, condition: &Condition) -> Narrowed {
        let mut reach = self.clone();
        let negated = condition.negated;
        let is_met = match &condition.test {
            Test::Unknown => return Err(Inexpressible),
            Test::Path(_) | Test::Regex(..) if self.is_tried => return Err(Inexpressible),
            Test::Path(patterns) => return self.with_paths(patterns, negated),
            Test::Regex(name, pattern) => return self.with_regex(name, pattern, negated),
            Test::Method(methods) => reach.add_methods(methods, negated),
            Test::Scheme(scheme) => {
                let own = match (scheme.as_str(), negated) {
                    ("http", true) => "https",
                    ("https", true) => "http",
                    (scheme, _) => scheme,
                };
                let known = reach.scheme.replace(own.to_owned());
                known.is_none_or(|known| known == own)
            }
            Test::Value("query", ..) if matches!(self.sight, Sight::Fixed { query: Some(_), .. }) => {
                return Err(Inexpressible);
            }
            Test::Value(key, name, patterns) => reach.add_values(key, name, patterns, negated)?,
        };
        Ok(is_met.then_some(reach))
    }

    fn add_methods(&mut self, methods: &[String], negated: bool) -> bool {
        let is_of = |list: &[String], method: &String| list.contains(method);
        let own = match (self.methods.take(), negated) {
            (None, false) => Methods::Of(methods.to_vec()),
            (None, true) => Methods::Not(methods.to_vec()),
            (Some(Methods::Of(old)), negated) => {
                Methods::Of(old.into_iter().filter(|one| is_of(methods, one) != negated).collect())
            }
            (Some(Methods::Not(old)), false) => {
                Methods::Of(methods.iter().filter(|one| !is_of(&old, one)).cloned().collect())
            }
            (Some(Methods::Not(mut old)), true) => {
                old.extend(methods.iter().cloned());
                Methods::Not(old)
            }
        };
        let is_some = own != Methods::Of(Vec::new());
        self.methods = Some(own);
        is_some
    }

    fn add_values(
        &mut self,
        key: &'static str,
        name: &str,
        patterns: &[String],
        negated: bool,
    ) -> Result<bool, Inexpressible> {
        let is_same = |values: &&mut Values| values.key == key && values.name.eq_ignore_ascii_case(name);
        let Some(known) = self.values.iter_mut().find(is_same) else {
            let (some, none) =
                if negated { (Vec::new(), patterns.to_vec()) } else { (patterns.to_vec(), Vec::new()) };
            self.values.push(Values { key, name: name.to_owned(), some, none });
            return Ok(true);
        };
        if negated {
            let new: Vec<String> = patterns.iter().filter(|one| !known.none.contains(one)).cloned().collect();
            known.none.extend(new);
            return Ok(known.some.is_empty() || known.some.iter().any(|one| !known.none.contains(one)));
        }
        let is_plain = |list: &[String]| list.iter().all(|one| !one.contains('*') && !one.starts_with('~'));
        if known.some.is_empty() || known.some == patterns || known.some.iter().all(|one| one == "*") {
            known.some = patterns.to_vec();
        } else if key == "host" && is_plain(&known.some) && is_plain(patterns) {
            known.some.retain(|one| patterns.contains(one));
            return Ok(!known.some.is_empty());
        } else if patterns.iter().all(|one| one == "*") {
            return Ok(true);
        } else {
            return Err(Inexpressible);
        }
        Ok(known.some.iter().any(|one| !known.none.contains(one)) && !known.none.contains(&"*".to_owned()))
    }

    /// Patterns for the path that is seen, as patterns for that of the request; an error says that all or none match.
    fn of_request(&self, patterns: &[Pattern]) -> Result<Result<Vec<Pattern>, bool>, Inexpressible> {
        match &self.sight {
            Sight::Unknown => Err(Inexpressible),
            // With a variable in it.
            Sight::Fixed { path, .. } if path.contains('$') => {
                let seen = [Pattern::beginning(path.split('$').next().unwrap_or(""))];
                if are_apart(patterns, &seen) { Ok(Err(false)) } else { Err(Inexpressible) }
            }
            Sight::Fixed { path, .. } => Ok(Err(patterns.iter().any(|pattern| pattern.matches(path)))),
            Sight::Moved { strip, add } => Ok(Ok(patterns
                .iter()
                .flat_map(|pattern| pattern.rest_after(add))
                .flat_map(|pattern| {
                    // A path of which nothing is left is `/`.
                    let whole =
                        !strip.is_empty() && add.is_empty() && pattern.matches("/") && !pattern.matches("");
                    let whole = whole.then(|| Pattern::text(strip));
                    [Some(pattern.after_text(strip)), whole].into_iter().flatten()
                })
                .collect())),
        }
    }

    fn with_paths(&self, patterns: &[Pattern], negated: bool) -> Narrowed {
        let patterns = match self.of_request(patterns)? {
            Ok(patterns) => patterns,
            Err(all_match) => return Ok((all_match != negated).then(|| self.clone())),
        };
        let mut reach = self.clone();
        if negated {
            if patterns.iter().any(Pattern::is_all) {
                return Ok(None);
            }
            for pattern in patterns {
                let is_apart = !self.paths.is_empty()
                    && self.paths.iter().all(|own| own.both(&pattern).is_some_and(|both| both.is_empty()));
                if !is_apart && !reach.except.contains(&Except::Pattern(pattern.clone())) {
                    reach.except.push(Except::Pattern(pattern));
                }
            }
            return Ok(reach.without_excepted());
        }
        if patterns.iter().any(Pattern::is_all) {
            return Ok(Some(reach));
        }
        if let Some((_, regex)) = &self.regex {
            return match begins(regex) {
                Some(begins) if begins.iter().all(|begin| patterns.iter().any(|one| one.covers(begin))) => {
                    Ok(Some(reach))
                }
                Some(begins) if are_apart(&begins, &patterns) => Ok(None),
                _ => Err(Inexpressible),
            };
        }
        reach.paths = match self.paths.is_empty() {
            true => only_widest(patterns).ok_or(Inexpressible)?,
            false => {
                let mut both = Vec::new();
                for own in &self.paths {
                    for pattern in &patterns {
                        both.extend(own.both(pattern).ok_or(Inexpressible)?);
                    }
                }
                only_widest(both).ok_or(Inexpressible)?
            }
        };
        Ok(if reach.paths.is_empty() { None } else { reach.without_excepted() })
    }

    /// Without patterns of which nothing is left.
    fn without_excepted(mut self) -> Option<Reach> {
        let had = !self.paths.is_empty();
        let except = &self.except;
        self.paths.retain(|path| {
            !except.iter().any(|one| matches!(one, Except::Pattern(pattern) if pattern.covers(path)))
        });
        (!had || !self.paths.is_empty()).then_some(self)
    }

    fn with_regex(&self, name: &str, pattern: &str, negated: bool) -> Narrowed {
        match &self.sight {
            Sight::Moved { strip, add } if strip.is_empty() && add.is_empty() => {}
            Sight::Moved { add, .. } if !add.is_empty() => {
                let seen = [Pattern::beginning(add)];
                let is_apart = begins(pattern).is_some_and(|begins| are_apart(&begins, &seen));
                return if is_apart { Ok(negated.then(|| self.clone())) } else { Err(Inexpressible) };
            }
            Sight::Fixed { path, .. } if !path.contains('$') => {
                let regex = regex::bytes::RegexBuilder::new(pattern).unicode(false).build();
                let is_match = regex.map_err(|_| Inexpressible)?.is_match(path.as_bytes());
                return Ok((is_match != negated).then(|| self.clone()));
            }
            Sight::Fixed { path, .. } => {
                let seen = [Pattern::beginning(path.split('$').next().unwrap_or(""))];
                let is_apart = begins(pattern).is_some_and(|begins| are_apart(&begins, &seen));
                return if is_apart { Ok(negated.then(|| self.clone())) } else { Err(Inexpressible) };
            }
            _ => return Err(Inexpressible),
        }
        let mut reach = self.clone();
        if negated {
            reach.except.push(Except::Regex(pattern.to_owned()));
            return Ok(Some(reach));
        }
        match &self.regex {
            Some((_, known)) if known == pattern => return Ok(Some(reach)),
            Some(_) => return Err(Inexpressible),
            None => {}
        }
        if !self.paths.is_empty() {
            match begins(pattern) {
                Some(begins) if begins.iter().all(|begin| self.paths.iter().any(|one| one.covers(begin))) => {
                    reach.paths = Vec::new();
                }
                Some(begins) if are_apart(&begins, &self.paths) => return Ok(None),
                _ => return Err(Inexpressible),
            }
        }
        reach.regex = Some((name.to_owned(), pattern.to_owned()));
        Ok(Some(reach))
    }

    /// The same requests, by the path that the client sent.
    pub(crate) fn by_request(&self) -> Reach {
        Reach { sight: Sight::Moved { strip: String::new(), add: String::new() }, ..self.clone() }
    }

    pub(crate) fn untried(&self) -> Reach {
        Reach { is_tried: false, ..self.clone() }
    }

    /// `uri strip_prefix`: those whose path has the prefix, and whether all have.
    pub(crate) fn stripped(&self, prefix: &str) -> Met {
        let prefix = if prefix.starts_with('/') { prefix.to_owned() } else { format!("/{prefix}") };
        let test = Test::Path(vec![Pattern::beginning(&prefix)]);
        let matcher = Matcher::Sets(vec![vec![Condition { test, negated: false }]]);
        let mut met = self.meets(&matcher);
        for reach in &mut met.yes {
            match &mut reach.sight {
                Sight::Moved { strip, add } if add.is_empty() => strip.push_str(&prefix),
                sight => *sight = Sight::Unknown,
            }
        }
        met
    }

    /// The routes of these requests, each with the path that is seen as a template. `None`: no rewrite makes it.
    pub(crate) fn routes(
        &self,
        origin: Origin,
        fold: bool,
        own_prefix: bool,
    ) -> Option<Vec<(Route, String)>> {
        let mut routes: Vec<(Route, String)> = Vec::new();
        let mut base = Route::new(origin, PathMatch::Any);
        base.except = self.except.iter().map(|one| one.text(fold)).collect();
        match &self.sight {
            Sight::Unknown => return None,
            Sight::Moved { strip, add } if !strip.is_empty() => {
                for pattern in &self.paths {
                    // What is left begins with a slash, which the template has.
                    let slashed = format!("{strip}/");
                    let exact = pattern
                        .matches(strip)
                        .then(|| format!("^{}$", escape(&crate::model::encoded(strip))));
                    if let Some(exact) = exact {
                        let mut route = base.clone();
                        route.path = PathMatch::Patterns(vec![folded(&exact, fold)]);
                        routes.push((route, format!("{add}/")));
                    }
                    // `/apix` without `/api` is `x`, which Caddy takes for `/x`.
                    let beginnings = [
                        (slashed.as_str(), Pattern::beginning(&slashed)),
                        (strip.as_str(), Pattern::longer(strip)),
                    ];
                    let mut expressions: Vec<(String, Pattern)> = Vec::new();
                    for (before, beginning) in &beginnings {
                        let both = pattern.both(beginning)?;
                        expressions.extend(
                            both.into_iter().filter_map(|one| Some((one.expression_after(before)?, one))),
                        );
                    }
                    for (expression, one) in expressions {
                        let is_whole = one.glob() == Some(format!("{slashed}*")) && !fold;
                        let text = match is_whole {
                            true => format!("{slashed}*"),
                            false => folded(&expression, fold),
                        };
                        let mut route = base.clone();
                        route.path = PathMatch::Patterns(vec![text]);
                        let is_own = is_whole && own_prefix && add.is_empty() && base.except.is_empty();
                        routes.push((route, if is_own { String::new() } else { format!("{add}/$1") }));
                    }
                }
            }
            Sight::Moved { add, .. } => {
                if let Some((_, regex)) = &self.regex {
                    base.path = PathMatch::Patterns(vec![format!("~{regex}")]);
                } else if !self.paths.is_empty() {
                    base.path = PathMatch::Patterns(self.paths.iter().map(|one| shown(one, fold)).collect());
                }
                routes.push((base, if add.is_empty() { String::new() } else { format!("{add}$path") }));
            }
            Sight::Fixed { path, query } => {
                if let Some((_, regex)) = &self.regex {
                    base.path = PathMatch::Patterns(vec![format!("~{regex}")]);
                } else if !self.paths.is_empty() {
                    base.path = PathMatch::Patterns(self.paths.iter().map(|one| shown(one, fold)).collect());
                }
                let query = query.as_ref().map(|query| format!("?{query}")).unwrap_or_default();
                routes.push((base, format!("{path}{query}")));
            }
        }
        for (route, _) in &mut routes {
            self.set_values(route, origin);
        }
        Some(
            routes
                .into_iter()
                .flat_map(|(route, path)| {
                    self.of_methods(route, origin).into_iter().map(move |route| (route, path.clone()))
                })
                .collect(),
        )
    }

    fn set_values(&self, route: &mut Route, origin: Origin) {
        for values in &self.values {
            let mut list = values.some.clone();
            list.extend(values.none.iter().map(|one| format!("!{one}")));
            match values.name.is_empty() {
                true => route.table.set(values.key, one_or_list(list), origin),
                false => route.table.set_in(&[values.key], &values.name, one_or_list(list), origin),
            }
        }
        if let Some(scheme) = &self.scheme {
            route.table.set("scheme", scheme.as_str(), origin);
        }
    }

    fn of_methods(&self, route: Route, origin: Origin) -> Vec<Route> {
        let lists = match &self.methods {
            None => return vec![route],
            Some(Methods::Of(list)) => exact_methods(list, &[]),
            Some(Methods::Not(list)) => exact_methods(&[], list),
        };
        lists
            .into_iter()
            .map(|list| {
                let mut route = route.clone();
                route.table.set("method", one_or_list(list), origin);
                route
            })
            .collect()
    }

    /// A route that refuses all of these, whatever path they have by now.
    pub(crate) fn closed(&self, origin: Origin, fold: bool) -> Vec<Route> {
        self.refused(origin, fold, 501)
    }

    /// Routes that respond with a status to all of these, whatever path they have by now.
    pub(crate) fn refused(&self, origin: Origin, fold: bool, status: i64) -> Vec<Route> {
        let routes = self.by_request().routes(origin, fold, false).unwrap_or_default();
        routes
            .into_iter()
            .map(|(mut route, _)| {
                route.table.set("respond", status, origin);
                route
            })
            .collect()
    }
}

impl Except {
    fn text(&self, fold: bool) -> String {
        match self {
            Except::Pattern(pattern) => shown(pattern, fold),
            Except::Regex(regex) => format!("~{regex}"),
        }
    }
}

fn folded(expression: &str, fold: bool) -> String {
    format!("~{}{expression}", if fold { "(?i)" } else { "" })
}

/// A pattern as one of Keepwarm; `fold`: without case.
fn shown(pattern: &Pattern, fold: bool) -> String {
    match pattern.glob().filter(|_| !fold || !pattern.has_letters()) {
        Some(glob) => glob,
        None => folded(&pattern.expression(), fold),
    }
}

/// Patterns for what a match of an expression begins with.
fn begins(regex: &str) -> Option<Vec<Pattern>> {
    expression::anchored_begins(regex)
        .map(|texts| texts.iter().map(|text| Pattern::beginning(text)).collect())
}

fn are_apart(a: &[Pattern], b: &[Pattern]) -> bool {
    a.iter().all(|one| b.iter().all(|other| one.both(other).is_some_and(|both| both.is_empty())))
}
