//! `location` blocks, and the order in which nginx chooses one.
//!
//! nginx takes an exact location, else remembers the longest prefix. With `^~` that prefix is chosen; else the first
//! regular expression that matches, else the prefix. Keepwarm takes the first route that matches, so the routes are
//! sorted accordingly.

use super::scope::Scope;
use super::syntax::Directive;
use crate::expression;
use crate::ledger::Ledger;
use crate::model::escape;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Exact,
    Begin,
    /// `^~`
    Stop,
    Regex,
    Named,
}

#[derive(Clone, Debug)]
pub(super) struct Location<'d> {
    pub(super) kind: Kind,
    /// The path, the expression, or the name with its `@`.
    pub(super) text: String,
    pub(super) ignore_case: bool,
    pub(super) scope: Scope<'d>,
    pub(super) directive: &'d Directive,
    /// The prefix of the location around a regular expression.
    under: Option<String>,
    /// Prefixes of the locations around it, the outermost first, each with whether it is a `^~`.
    around: Vec<(String, bool)>,
    /// Whether it is a `^~` by itself; `kind` is that of the outermost location.
    stops: bool,
    /// Patterns of paths that match it, but have another location.
    pub(super) except: Vec<String>,
}

impl<'d> Location<'d> {
    /// The expression with the prefix of the location around it.
    pub(super) fn pattern(&self) -> String {
        match &self.under {
            Some(prefix) if self.is_joined() => {
                let flag = if self.ignore_case { "i" } else { "" };
                format!("^{}.*(?{flag}:{})", escape(prefix), self.text)
            }
            _ => self.text.clone(),
        }
    }

    /// Whether the case of the whole pattern is ignored.
    pub(super) fn ignores_case(&self) -> bool {
        self.ignore_case && !self.is_joined()
    }

    /// Whether one expression has the prefix of the location around and what is after it: an expression that begins
    /// with a dot cannot match a part of the prefix.
    fn is_joined(&self) -> bool {
        let is_one = self.text.find('(').unwrap_or(usize::MAX) < self.text.find('|').unwrap_or(usize::MAX)
            || !self.text.contains('|');
        self.under.as_ref().is_some_and(|prefix| !prefix.contains('.'))
            && self.text.starts_with("\\.")
            && is_one
    }

    pub(super) fn is_internal(&self) -> bool {
        self.scope.one("internal").is_some()
    }

    fn is_prefix(&self) -> bool {
        matches!(self.kind, Kind::Begin | Kind::Stop)
    }

    /// Whether expressions below a prefix are tried where this location has the longest prefix.
    fn tries(&self, prefix: &str) -> bool {
        if self.text == prefix {
            return true;
        }
        let Some(at) = self.around.iter().position(|(around, _)| around == prefix) else { return false };
        !self.around.get(at + 1).map_or(self.stops, |(_, stops)| *stops)
    }

    /// Whether a regular expression is within a prefix.
    pub(super) fn is_nested(&self) -> bool {
        self.under.is_some()
    }

    /// Whether the outermost location is a `^~`.
    pub(super) fn is_below_stop(&self) -> bool {
        self.around.first().is_some_and(|(_, stops)| *stops)
    }
}

/// An expression that matches a path unless it begins with a prefix.
fn without(prefix: &str) -> String {
    let mut known = String::new();
    let mut alternatives = Vec::new();
    for c in prefix.chars() {
        let next = escape(&c.to_string());
        alternatives.push(format!("{known}(?:$|[^{next}])"));
        known.push_str(&next);
    }
    format!("~^(?:{})", alternatives.join("|"))
}

#[derive(Clone, Debug, Default)]
pub(super) struct Locations<'d> {
    all: Vec<Location<'d>>,
}

impl<'d> Locations<'d> {
    pub(super) fn of(scope: &Scope<'d>, ledger: &mut Ledger) -> Locations<'d> {
        let mut locations = Locations::default();
        locations.collect(scope, None, &[], ledger);
        let begins: Vec<String> =
            locations.of_kind(Kind::Begin).map(|location| location.text.clone()).collect();
        let prefixes: Vec<Location<'d>> =
            locations.all.iter().filter(|location| location.is_prefix()).cloned().collect();
        for location in &mut locations.all {
            match (location.kind, location.under.clone()) {
                (Kind::Stop, _) => {
                    let below = begins
                        .iter()
                        .filter(|begin| begin.starts_with(&location.text) && **begin != location.text);
                    location.except = below.map(|begin| format!("{begin}*")).collect();
                }
                (Kind::Regex, Some(under)) => {
                    let longer = prefixes
                        .iter()
                        .filter(|prefix| prefix.text.starts_with(&under) && !prefix.tries(&under));
                    location.except = longer.map(|prefix| format!("{}*", prefix.text)).collect();
                    let is_within = location.is_joined()
                        || (!location.ignore_case
                            && expression::beginning(&location.text)
                                .is_some_and(|begin| begin.starts_with(&under)));
                    if !is_within {
                        location.except.push(without(&under));
                    }
                }
                _ => {}
            }
        }
        locations
    }

    fn collect(
        &mut self,
        scope: &Scope<'d>,
        under: Option<&str>,
        around: &[(String, bool)],
        ledger: &mut Ledger,
    ) {
        for directive in scope.own().iter().filter(|inner| inner.name == "location") {
            let (own_kind, text, ignore_case) = head(directive);
            if own_kind == Kind::Regex && under.is_some_and(|under| under.is_empty()) {
                let why = "a location within one of a regular expression has no counterpart";
                super::drop_block(directive, why, "write a route with both conditions by hand", ledger);
                continue;
            }
            // Expressions of the server are tried unless the outermost location is a `^~`.
            let kind = match (own_kind, around.first()) {
                (Kind::Begin | Kind::Stop, Some((_, true))) => Kind::Stop,
                (Kind::Begin | Kind::Stop, Some((_, false))) => Kind::Begin,
                (kind, _) => kind,
            };
            let inner = scope.within(directive.children());
            let prefix = match kind {
                Kind::Begin | Kind::Stop | Kind::Exact => text.as_str(),
                Kind::Regex | Kind::Named => "",
            };
            self.all.push(Location {
                kind,
                text: text.clone(),
                ignore_case,
                scope: inner.clone(),
                directive,
                under: under.filter(|_| kind == Kind::Regex).map(str::to_owned),
                around: around.to_vec(),
                stops: own_kind == Kind::Stop,
                except: Vec::new(),
            });
            let mut chain = around.to_vec();
            chain.push((prefix.to_owned(), own_kind == Kind::Stop));
            self.collect(&inner, Some(prefix), &chain, ledger);
        }
    }

    fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Location<'d>> {
        self.all.iter().filter(move |location| location.kind == kind)
    }

    pub(super) fn all(&self) -> &[Location<'d>] {
        &self.all
    }

    pub(super) fn named(&self, name: &str) -> Option<&Location<'d>> {
        self.of_kind(Kind::Named).find(|location| location.text == name)
    }

    /// The location that nginx chooses for a path.
    pub(super) fn choose(&self, path: &str) -> Option<&Location<'d>> {
        if let Some(exact) = self.of_kind(Kind::Exact).find(|location| location.text == path) {
            return Some(exact);
        }
        let longest = self
            .all
            .iter()
            .filter(|location| location.is_prefix() && path.starts_with(&location.text))
            .max_by_key(|location| location.text.len());
        let stops = longest.is_some_and(|location| location.kind == Kind::Stop);
        let mut regexes = self.regexes().into_iter().filter(|location| match &location.under {
            Some(under) => longest.is_some_and(|longest| longest.tries(under)),
            None => !stops,
        });
        regexes.find(|location| matches(location, path)).or(longest)
    }

    /// In the order of our routes.
    pub(super) fn ordered(&self) -> Vec<&Location<'d>> {
        let by_length = |kind: Kind| {
            let mut found: Vec<&Location<'d>> = self.of_kind(kind).collect();
            found.sort_by_key(|location| std::cmp::Reverse(location.text.len()));
            found
        };
        let mut out: Vec<&Location<'d>> = self.of_kind(Kind::Exact).collect();
        let regexes = self.regexes();
        out.extend(regexes.iter().filter(|location| location.is_below_stop()));
        out.extend(by_length(Kind::Stop));
        out.extend(regexes.iter().filter(|location| !location.is_below_stop()));
        out.extend(by_length(Kind::Begin));
        out
    }

    /// Regular expressions, those within a prefix first.
    fn regexes(&self) -> Vec<&Location<'d>> {
        let mut nested: Vec<&Location<'d>> =
            self.of_kind(Kind::Regex).filter(|location| location.under.is_some()).collect();
        nested.sort_by_key(|location| std::cmp::Reverse(location.under.as_ref().map_or(0, String::len)));
        nested.extend(self.of_kind(Kind::Regex).filter(|location| location.under.is_none()));
        nested
    }
}

fn matches(location: &Location<'_>, path: &str) -> bool {
    let Ok(pattern) = expression::check(&location.text, location.ignore_case) else { return false };
    regex::bytes::RegexBuilder::new(&pattern)
        .unicode(false)
        .build()
        .is_ok_and(|regex| regex.is_match(path.as_bytes()))
}

/// The kind and the text of a location.
fn head(directive: &Directive) -> (Kind, String, bool) {
    let (modifier, text) = match directive.args.as_slice() {
        [modifier, text] => (modifier.as_str(), text.as_str()),
        // `location =/x` and `location ~*\.php` without a space.
        [text] => {
            let modifier =
                ["~*", "^~", "~", "="].into_iter().find(|modifier| text.starts_with(modifier)).unwrap_or("");
            (modifier, text.strip_prefix(modifier).unwrap_or(text))
        }
        _ => ("", directive.arg(0)),
    };
    let kind = match modifier {
        "=" => Kind::Exact,
        "^~" => Kind::Stop,
        "~" | "~*" => Kind::Regex,
        _ if text.starts_with('@') => Kind::Named,
        _ => Kind::Begin,
    };
    (kind, text.to_owned(), modifier == "~*")
}
