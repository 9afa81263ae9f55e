//! The rewrites of a server or a location: another path, a redirect, or what the location of the new path does.

use super::Reader;
use super::action::Place;
use super::location::Location;
use super::syntax::Directive;
use super::variables::{Piece, Variables, groups, pieces};
use crate::expression::beginning;
use crate::ledger::Origin;
use crate::model::{PathMatch, Route};
use crate::table::Table;

/// Internal redirects of one request; nginx has 10.
const REDIRECTS_LIMIT: usize = 4;

const REWRITE_TODO: &str = "write it as `rewrite` or `redirect` of a route by hand";

impl<'d> Reader<'d, '_> {
    /// `if`, `rewrite` and `return`; whether nothing comes after them.
    pub(super) fn rewrite_phase(&mut self, place: &Place<'_, 'd>) -> (Vec<Route>, bool) {
        let mut routes = Vec::new();
        // From the first rewrite without a flag on: conditions that follow apply to it, so they come before it.
        let mut rewritten: Vec<(&Directive, Vec<Route>)> = Vec::new();
        for directive in place.scope.own() {
            match directive.name.as_str() {
                "if" => routes.extend(self.condition(place, directive)),
                "rewrite" if !ends_rewrites(directive) && place.scope.own_one("return").is_some() => {
                    self.ledger.ignored(directive.origin, "a `return` follows");
                }
                "rewrite" => {
                    self.rewritten_again(place, &mut rewritten, directive);
                    let found = self.rewrite(place, directive);
                    match rewritten.is_empty() && ends_rewrites(directive) {
                        true => routes.extend(found),
                        false => rewritten.push((directive, found)),
                    }
                }
                "return" => {
                    // What has been rewritten by a rule with a flag does not get here.
                    let earlier = rewritten.into_iter().filter(|(rewrite, _)| ends_rewrites(rewrite));
                    routes.extend(earlier.flat_map(|(_, found)| found));
                    routes.extend(self.returned(place, directive, &Table::default()));
                    return (routes, true);
                }
                "break" => {
                    self.ledger.ignored(directive.origin, "no rewrite follows");
                    break;
                }
                _ => {}
            }
        }
        routes.extend(rewritten.into_iter().flat_map(|(_, found)| found));
        (routes, false)
    }

    /// A rewrite without a flag whose path a later one may change again.
    fn rewritten_again(
        &mut self,
        place: &Place<'_, 'd>,
        rewritten: &mut [(&Directive, Vec<Route>)],
        next: &Directive,
    ) {
        for (rewrite, found) in rewritten.iter_mut().filter(|(rewrite, _)| !ends_rewrites(rewrite)) {
            if may_match(rewrite.arg(1), next.arg(0)) {
                self.ledger.lost(rewrite.origin, "a later `rewrite` may change its path again", REWRITE_TODO);
                let path = found.first().map_or_else(|| place.path.clone(), |route| route.path.clone());
                *found = vec![Route { path, ..place.closed(rewrite.origin) }];
            }
        }
    }

    /// `rewrite EXPRESSION REPLACEMENT [FLAG]` of a server or location.
    pub(super) fn rewrite(&mut self, place: &Place<'_, 'd>, directive: &Directive) -> Vec<Route> {
        let (origin, flag) = (directive.origin, directive.arg(2));
        let todo = REWRITE_TODO;
        let encoded = crate::expression::encoded(directive.arg(0))
            .ok_or_else(|| "paths are compared in their encoded form".to_owned());
        let pattern = match encoded.and_then(|pattern| self.expression(&pattern, false)) {
            Ok(pattern) => pattern,
            Err(why) => {
                self.ledger.lost(origin, why, todo);
                return Vec::new();
            }
        };
        if is_elsewhere(&place.path, &pattern) {
            self.ledger.ignored(origin, "no path of its location matches it");
            return Vec::new();
        }
        let Some(path) = narrowed(&place.path, &pattern) else {
            self.ledger.lost(origin, "its expression matches other paths than its location", todo);
            return Vec::new();
        };
        let replacement = directive.arg(1);
        let mut variables = Variables { groups: groups(&pattern), ..place.variables.clone() };
        self.use_maps(replacement, &mut variables);
        let is_absolute =
            ["http://", "https://", "$scheme"].iter().any(|start| replacement.starts_with(start));
        if is_absolute || matches!(flag, "permanent" | "redirect") {
            let status = if flag == "permanent" { 301 } else { 302 };
            let target = with_query(replacement, "$is_args$args", "&$args");
            let route = place.route(path);
            return self.redirects(&route, &variables, &target, status, origin, place);
        }
        self.internal_rewrite(place, directive, path, &variables)
    }

    /// `last`, `break` or no flag: another path within the server.
    fn internal_rewrite(
        &mut self,
        place: &Place<'_, 'd>,
        directive: &Directive,
        path: PathMatch,
        variables: &Variables,
    ) -> Vec<Route> {
        let origin = directive.origin;
        let replacement = directive.arg(1);
        let ours = with_query(replacement, "", "&$args");
        // A `?` at the end of a replacement leaves the query out.
        let ours = if replacement.ends_with('?') && !ours.contains('?') { format!("{ours}?") } else { ours };
        let template = match variables.template(&ours) {
            Ok(template) if template.starts_with('/') => template,
            Ok(template) if template.starts_with('$') => {
                template.strip_prefix("$path").map_or(format!("/{template}"), |rest| format!("/{rest}"))
            }
            Ok(_) => {
                self.ledger.lost(
                    origin,
                    "its replacement is not a path",
                    "write it as `rewrite` of a route by hand",
                );
                return Vec::new();
            }
            Err(variable) => {
                let why = format!("its replacement has ${variable}, for which Keepwarm has no variable");
                self.ledger.lost(origin, why, "write it as `rewrite` of a route by hand");
                return Vec::new();
            }
        };
        // The prefix is a part of the name of no file now.
        let path = match path {
            PathMatch::Begin(prefix) if prefix != "/" => {
                PathMatch::Regex(format!("^{}", crate::model::escape(&crate::model::encoded(&prefix))))
            }
            path => path,
        };
        if directive.arg(2) == "break" && place.path != PathMatch::Any {
            let inner = Place {
                outer: place.outer.clone(),
                path,
                variables: variables.clone(),
                ..place.redirected(place.scope.clone(), origin)
            };
            let routes = self.content(&inner);
            return self.with_rewrite(routes, &template, origin);
        }
        let target = place.server.locations.choose(&example(replacement)).cloned();
        let mut routes = Vec::new();
        for other in super::targets::others(&place.server.locations, target.as_ref(), replacement) {
            match super::targets::narrowed(directive.arg(0), replacement, &other) {
                Some(narrow) if self.expression(&narrow, false).is_ok() => {
                    let path = PathMatch::Regex(narrow);
                    routes.extend(self.rewritten(place, directive, path, variables, Some(&other), &template));
                }
                _ => {
                    let why = format!(
                        "it can lead to `location {}`, which is not looked for after a rewrite",
                        other.directive.args.join(" ")
                    );
                    self.ledger.lost(origin, why, REWRITE_TODO);
                    if super::targets::is_guarded(&other, target.as_ref()) {
                        return vec![Route { path, ..place.closed(origin) }];
                    }
                }
            }
        }
        routes.extend(self.rewritten(place, directive, path, variables, target.as_ref(), &template));
        routes
    }

    /// What a location does with a path that was rewritten.
    fn rewritten(
        &mut self,
        place: &Place<'_, 'd>,
        directive: &Directive,
        path: PathMatch,
        variables: &Variables,
        target: Option<&Location<'d>>,
        template: &str,
    ) -> Vec<Route> {
        let origin = directive.origin;
        let scope = target.map_or_else(|| place.server.scope.clone(), |location| location.scope.clone());
        let inner = Place {
            outer: place.outer.clone(),
            path,
            variables: variables.clone(),
            ..place.redirected(scope, origin)
        };
        if self.redirects >= REDIRECTS_LIMIT {
            self.ledger.lost(origin, "its location leads to another one again and again", REWRITE_TODO);
            return vec![inner.closed(origin)];
        }
        self.redirects += 1;
        let routes = self.routes_of_target(directive, inner, target, template);
        self.redirects -= 1;
        routes
    }

    fn routes_of_target(
        &mut self,
        directive: &Directive,
        mut inner: Place<'_, 'd>,
        target: Option<&Location<'d>>,
        template: &str,
    ) -> Vec<Route> {
        let origin = directive.origin;
        let mut routes = Vec::new();
        if let Some(location) = target {
            self.ledger.carried(location.directive.origin);
            if let Some(root) = location.scope.one("root") {
                inner.variables.root = super::server::absolute(root.arg(0));
            }
            match self.target_phase(&inner, directive.arg(1)) {
                Ok((phase, true)) => return phase,
                Ok((phase, false)) => routes.extend(phase),
                Err(why) => {
                    self.ledger.lost(origin, why, REWRITE_TODO);
                    return vec![inner.closed(origin)];
                }
            }
        }
        routes.extend(self.content(&inner));
        self.with_rewrite(routes, template, origin)
    }

    /// `if` and `return` of the location that a rewrite leads to; whether nothing comes after them.
    fn target_phase(
        &mut self,
        place: &Place<'_, 'd>,
        replacement: &str,
    ) -> Result<(Vec<Route>, bool), String> {
        let mut routes = Vec::new();
        for directive in place.scope.own() {
            let of_path = |inner: &Directive| {
                inner.args.iter().flat_map(|arg| pieces(arg)).any(|piece| {
                    matches!(piece, Piece::Variable(name) if matches!(name, "uri" | "document_uri") || name.parse::<u8>().is_ok())
                })
            };
            let why = || format!("its location has a `{}` on the new path", directive.name);
            match directive.name.as_str() {
                "rewrite" if may_match(replacement, directive.arg(0)) => return Err(why()),
                "if" if of_path(directive)
                    || directive.children().iter().any(|inner| inner.name == "rewrite" || of_path(inner)) =>
                {
                    return Err(why());
                }
                "if" => routes.extend(self.condition(place, directive)),
                "return" if of_path(directive) => return Err(why()),
                "return" => {
                    routes.extend(self.returned(place, directive, &Table::default()));
                    return Ok((routes, true));
                }
                "break" => break,
                _ => {}
            }
        }
        Ok((routes, false))
    }

    /// Sets the new path, where it matters.
    fn with_rewrite(&mut self, mut routes: Vec<Route>, template: &str, origin: Origin) -> Vec<Route> {
        for route in &mut routes {
            if ["app", "upstream", "files"].iter().any(|key| route.table.has(key)) {
                let has_own = route.table.has("rewrite");
                match has_own {
                    true => self.ledger.lost(
                        origin,
                        "the location changes the path again",
                        "write the `rewrite` of the route by hand",
                    ),
                    false => route.table.set("rewrite", template, origin),
                }
            }
        }
        self.ledger.carried(origin);
        routes
    }
}

/// A replacement with the query of the request, as `rewrite` appends it.
fn with_query(replacement: &str, alone: &str, further: &str) -> String {
    match (replacement.strip_suffix('?'), replacement.contains('?')) {
        (Some(without), _) => without.to_owned(),
        (None, true) => format!("{replacement}{further}"),
        // `$request_uri` has it already.
        (None, false) if replacement.contains("$request_uri") => replacement.to_owned(),
        (None, false) => format!("{replacement}{alone}"),
    }
}

/// Whether an expression matches no path of a location.
fn is_elsewhere(path: &PathMatch, pattern: &str) -> bool {
    match (path, beginning(pattern)) {
        (PathMatch::Exact(exact), _) => {
            let regex = regex::bytes::RegexBuilder::new(pattern).unicode(false).build();
            regex.is_ok_and(|regex| !regex.is_match(exact.as_bytes()))
        }
        (PathMatch::Begin(prefix), Some(begin)) => !begin.starts_with(prefix) && !prefix.starts_with(&begin),
        _ => false,
    }
}

/// The expression of a rewrite within a location; `None`: the location is for other paths.
fn narrowed(path: &PathMatch, pattern: &str) -> Option<PathMatch> {
    let begin = beginning(pattern);
    let is_all =
        ["^", "^/", ".*", "^.*$", "^(.*)$", "(.*)", "^.*", "^/(.*)$", "^/(.*)", "^(.*)"].contains(&pattern);
    match path {
        PathMatch::Any => match pattern {
            "^" | ".*" | "^/" | "^.*$" | "^.*" => Some(PathMatch::Any),
            _ => Some(PathMatch::Regex(pattern.to_owned())),
        },
        PathMatch::Begin(prefix) if begin.as_ref().is_some_and(|begin| begin.starts_with(prefix)) => {
            Some(PathMatch::Regex(pattern.to_owned()))
        }
        PathMatch::Begin(prefix) if prefix == "/" => Some(PathMatch::Regex(pattern.to_owned())),
        PathMatch::Begin(_) | PathMatch::Exact(_)
            if matches!(pattern, "^" | ".*" | "^/" | "^.*$" | "^.*") =>
        {
            Some(path.clone())
        }
        PathMatch::Begin(prefix) if is_all => {
            let rest = if prefix.starts_with('/') { prefix.get(1..).unwrap_or("") } else { prefix };
            // The group has the path with the prefix.
            Some(PathMatch::Regex(match pattern.starts_with("^/(") {
                true => format!("^/({}.*)$", crate::model::escape(rest)),
                false => format!("^({}.*)$", crate::model::escape(prefix)),
            }))
        }
        PathMatch::Exact(exact) => {
            let regex = regex::bytes::RegexBuilder::new(pattern).unicode(false).build().ok()?;
            (regex.is_match(exact.as_bytes()) && regex.captures_len() == 1).then(|| path.clone())
        }
        PathMatch::Regex(own) if own == pattern || is_all => {
            Some(path.clone()).filter(|_| !is_all || !pattern.contains('('))
        }
        _ => None,
    }
}

/// A path that a replacement can give, to choose the location by.
fn example(replacement: &str) -> String {
    let path = replacement.split('?').next().unwrap_or("");
    pieces(path)
        .into_iter()
        .map(|piece| match piece {
            Piece::Text(text) => text,
            Piece::Variable("uri" | "request_uri") => "/x",
            Piece::Variable(_) => "x",
        })
        .collect()
}

/// Whether nothing of the same block comes after a rewrite that matches.
fn ends_rewrites(rewrite: &Directive) -> bool {
    !rewrite.arg(2).is_empty()
        || ["http://", "https://", "$scheme"].iter().any(|start| rewrite.arg(1).starts_with(start))
}

/// Whether an expression may match the path that a replacement gives.
fn may_match(replacement: &str, pattern: &str) -> bool {
    let path = replacement.split('?').next().unwrap_or("");
    let pieces = pieces(path);
    if !pieces.iter().any(|piece| matches!(piece, Piece::Variable(_))) {
        let regex = regex::bytes::RegexBuilder::new(pattern).unicode(false).build();
        return regex.map_or(true, |regex| regex.is_match(path.as_bytes()));
    }
    let start = match pieces.first() {
        Some(Piece::Text(text)) => text,
        _ => "",
    };
    beginning(pattern).is_none_or(|begin| start.starts_with(&begin) || begin.starts_with(start))
}
