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
    /// Prefixes below a `^~` that are chosen themselves.
    pub(super) except: Vec<String>,
}

impl<'d> Location<'d> {
    /// The expression with the prefix of the location around it.
    pub(super) fn pattern(&self) -> String {
        match &self.under {
            Some(prefix) if !self.text.starts_with('^') => format!("^{}.*(?:{})", escape(prefix), self.text),
            _ => self.text.clone(),
        }
    }

    pub(super) fn is_internal(&self) -> bool {
        self.directive.children().iter().any(|inner| inner.name == "internal")
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Locations<'d> {
    all: Vec<Location<'d>>,
}

impl<'d> Locations<'d> {
    pub(super) fn of(scope: &Scope<'d>, ledger: &mut Ledger) -> Locations<'d> {
        let mut locations = Locations::default();
        locations.collect(scope, None, ledger);
        let begins: Vec<String> =
            locations.of_kind(Kind::Begin).map(|location| location.text.clone()).collect();
        for stop in locations.all.iter_mut().filter(|location| location.kind == Kind::Stop) {
            let below = begins.iter().filter(|begin| begin.starts_with(&stop.text) && **begin != stop.text);
            stop.except = below.map(|begin| format!("{begin}*")).collect();
        }
        locations
    }

    fn collect(&mut self, scope: &Scope<'d>, under: Option<&str>, ledger: &mut Ledger) {
        for directive in scope.own().iter().filter(|inner| inner.name == "location") {
            let (kind, text, ignore_case) = head(directive);
            if kind == Kind::Regex && under.is_some_and(|under| under.is_empty()) {
                let why = "a location within one of a regular expression has no counterpart";
                super::drop_block(directive, why, "write a route with both conditions by hand", ledger);
                continue;
            }
            let inner = scope.within(directive.children());
            let around = match kind {
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
                except: Vec::new(),
            });
            self.collect(&inner, Some(around), ledger);
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
            .filter(|location| {
                matches!(location.kind, Kind::Begin | Kind::Stop) && path.starts_with(&location.text)
            })
            .max_by_key(|location| location.text.len());
        if longest.is_some_and(|location| location.kind == Kind::Stop) {
            return longest;
        }
        self.regexes().into_iter().find(|location| matches(location, path)).or(longest)
    }

    /// In the order of our routes.
    pub(super) fn ordered(&self) -> Vec<&Location<'d>> {
        let by_length = |kind: Kind| {
            let mut found: Vec<&Location<'d>> = self.of_kind(kind).collect();
            found.sort_by_key(|location| std::cmp::Reverse(location.text.len()));
            found
        };
        let mut out: Vec<&Location<'d>> = self.of_kind(Kind::Exact).collect();
        let is_below_stop = |location: &Location<'d>| {
            location
                .under
                .as_ref()
                .is_some_and(|under| self.of_kind(Kind::Stop).any(|stop| stop.text == *under))
        };
        let regexes = self.regexes();
        out.extend(regexes.iter().filter(|location| is_below_stop(location)));
        out.extend(by_length(Kind::Stop));
        out.extend(regexes.iter().filter(|location| !is_below_stop(location)));
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
    let Ok(pattern) = expression::check(&location.pattern(), location.ignore_case) else { return false };
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
