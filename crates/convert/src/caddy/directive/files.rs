//! `file_server`, with `root` and `try_files`.

use super::{Chains, State, apply, template};
use crate::caddy::syntax::Line;
use crate::ledger::Origin;
use crate::model::{PathMatch, Route};
use crate::pattern::Pattern;
use crate::reach::{Condition, Matcher, Test};
use crate::reach::{Reach, Sight};
use crate::table::one_or_list;

impl<'a> Chains<'_, '_> {
    pub(super) fn files(&mut self, line: &'a Line, args: &[String], state: &State<'a>) -> Vec<Route> {
        let own = line.child("root").map(|root| (root.arg(0).to_owned(), root.origin));
        let Some((root, root_origin)) = own.or_else(|| state.context.root.clone()) else {
            self.reader.ledger.lost(
                line.origin,
                "there is no `root`: the working directory of Caddy",
                "set `files` of the route",
            );
            line.settle_inner(self.reader.ledger);
            return state.reach.closed(line.origin, self.fold);
        };
        if root.contains('{') && template(&root, "", &state.reach).is_none() {
            self.reader.ledger.lost(
                root_origin,
                "its path has a placeholder without a counterpart",
                "write `files` by hand",
            );
            line.settle_inner(self.reader.ledger);
            return state.reach.closed(line.origin, self.fold);
        }
        let directory = template(&root, "", &state.reach).unwrap_or(root).trim_end_matches('/').to_owned();
        let mut routes = self.hidden(line, &directory, state);
        for route in self.tried(line, state) {
            match route {
                Ok((mut route, path)) => {
                    self.file_options(line, args, &mut route);
                    let directory = match own_prefix(&route) {
                        Some(prefix) if path.is_empty() && !is_stripped(&state.reach) => {
                            format!("{directory}{prefix}")
                        }
                        _ => directory.clone(),
                    };
                    route.table.set("files", directory.as_str(), root_origin);
                    if !path.is_empty() {
                        route.table.set("rewrite", path, line.origin);
                    }
                    apply(&mut route, &state.context, false);
                    routes.push(route);
                }
                Err(closed) => routes.push(closed),
            }
        }
        routes
    }

    fn file_options(&mut self, line: &Line, args: &[String], route: &mut Route) {
        if args.iter().any(|word| word == "browse") || line.child("browse").is_some() {
            route.table.set("listing", true, line.origin);
        }
        for inner in &line.inner {
            match inner.name() {
                "root" | "browse" => self.reader.ledger.carried(inner.origin),
                "index" => route.table.set("index", one_or_list(inner.args().to_vec()), inner.origin),
                "hide" => {}
                "precompressed" => self.reader.ledger.carried(inner.origin),
                "pass_thru" => self.reader.ledger.lost(
                    inner.origin,
                    "files before something else than an app",
                    "write a route for the files by their patterns",
                ),
                "status" | "disable_canonical_uris" | "fs" | "etag_file_extensions" => {
                    self.reader.ledger.differs(inner.origin, "it has no counterpart")
                }
                _ => inner.settle_unknown(self.reader.ledger),
            }
        }
    }

    /// Routes that respond with 404 for files that are hidden.
    pub(super) fn hidden(&mut self, line: &'a Line, directory: &str, state: &State<'a>) -> Vec<Route> {
        let mut routes = Vec::new();
        for hide in line.inner.iter().filter(|inner| inner.name() == "hide") {
            let names =
                hide.args().iter().cloned().chain(hide.inner.iter().map(|inner| inner.name().to_owned()));
            let patterns: Option<Vec<Pattern>> = names
                .map(|name| hidden_name(&name, directory))
                .collect::<Option<Vec<_>>>()
                .map(|lists| lists.concat());
            let seen = state.reach.untried();
            let met = patterns.map(|patterns| {
                let test = Test::Path(patterns);
                seen.meets(&Matcher::Sets(vec![vec![Condition { test, negated: false }]]))
            });
            match met {
                Some(met) if met.unknown.is_none() => {
                    self.reader.ledger.carried(hide.origin);
                    for reach in met.yes {
                        for (mut route, _) in
                            reach.by_request().routes(hide.origin, self.fold, false).unwrap_or_default()
                        {
                            route.table.set("respond", 404i64, hide.origin);
                            apply(&mut route, &state.context, false);
                            routes.push(route);
                        }
                    }
                }
                _ => {
                    self.reader.ledger.lost(
                        hide.origin,
                        "files that are hidden, by a path that is not in `root`, or after a rewrite",
                        "write a route for them before, with respond = 404; these requests get 501",
                    );
                    routes.extend(state.reach.closed(hide.origin, self.fold));
                }
            }
            hide.settle_inner(self.reader.ledger);
        }
        routes
    }

    /// The places of files: with a page of `try_files`, those that have an extension, and the others.
    fn tried(&mut self, line: &'a Line, state: &State<'a>) -> Vec<Result<(Route, String), Route>> {
        let all = |places: Result<Vec<(Route, String)>, Vec<Route>>| match places {
            Ok(places) => places.into_iter().map(Ok).collect::<Vec<_>>(),
            Err(closed) => closed.into_iter().map(Err).collect(),
        };
        let Some(tried) = state.context.tried else { return all(self.places(line, state, true)) };
        let page = match self.page(tried) {
            Page::File => return all(self.places(line, state, true)),
            Page::Other => return state.reach.closed(tried.origin, self.fold).into_iter().map(Err).collect(),
            Page::At(page) => page,
        };
        let test = Test::Path(vec![Pattern::with_extension()]);
        let state = &State { reach: state.reach.untried(), context: state.context.clone() };
        let met = state.reach.meets(&Matcher::Sets(vec![vec![Condition { test, negated: false }]]));
        let mut places = Vec::new();
        for reach in met.yes {
            let named = State { reach, context: state.context.clone() };
            places.extend(all(self.places(line, &named, true)));
        }
        places.extend(met.unknown.iter().flat_map(|reach| reach.closed(tried.origin, self.fold)).map(Err));
        if !met.is_all {
            let mut rest = state.clone();
            rest.reach.sight = Sight::Fixed { path: page, query: None };
            places.extend(all(self.places(line, &rest, true)));
        }
        places
    }

    /// What `try_files` ends in.
    fn page(&mut self, tried: &Line) -> Page {
        let own: Vec<&str> = tried.args().iter().map(String::as_str).collect();
        let is_own = |word: &&str| matches!(*word, "{path}" | "{path}/" | "{path}/index.html" | "{file}");
        let (last, before) = own.split_last().map_or(("", &[][..]), |(last, before)| (*last, before));
        let last = last.split('?').next().unwrap_or(last);
        if own.iter().all(|word| is_own(word) || *word == "=404") {
            match own.contains(&"{path}/") || !own.contains(&"=404") {
                true => self.reader.ledger.carried(tried.origin),
                false => {
                    self.reader.ledger.differs(tried.origin, "directories have their index, and are not 404")
                }
            }
            return Page::File;
        }
        match last.starts_with('/') && !last.contains(['{', '*']) && before.iter().all(is_own) {
            true => {
                self.reader.ledger.differs(tried.origin, format!("paths whose last part has a `.` are files, or 404; all others get {last}, also those of directories"));
                Page::At(last.to_owned())
            }
            false => {
                self.reader.ledger.lost(
                    tried.origin,
                    "files are found by their whole path",
                    "write `rewrite` of a route by hand; these requests get 501",
                );
                Page::Other
            }
        }
    }
}

enum Page {
    /// The file, or 404.
    File,
    At(String),
    Other,
}

/// With the pattern `/x/*`, the prefix is not part of the name.
fn own_prefix(route: &Route) -> Option<String> {
    let PathMatch::Patterns(patterns) = &route.path else { return None };
    match patterns.as_slice() {
        [only] if only.starts_with('/') && only.ends_with("/*") && only.matches('*').count() == 1 => {
            Some(only.trim_end_matches("/*").to_owned())
        }
        _ => None,
    }
}

fn is_stripped(reach: &Reach) -> bool {
    matches!(&reach.sight, Sight::Moved { strip, .. } if !strip.is_empty())
}

/// The paths of a name of `hide`; `None`: it is not known which.
fn hidden_name(name: &str, directory: &str) -> Option<Vec<Pattern>> {
    if !name.contains('/') {
        return Pattern::named(name);
    }
    let within = name.strip_prefix(directory)?;
    let within = within.trim_end_matches('/');
    if !within.starts_with('/') || within.contains('*') {
        return None;
    }
    Some(vec![Pattern::parse(within)?, Pattern::parse(&format!("{within}/*"))?])
}

/// The origin of a root, for scripts.
pub(super) fn root_of(line: &Line, state: &State<'_>) -> Option<(String, Origin)> {
    let own = line.child("root").map(|root| (root.arg(0).to_owned(), root.origin));
    own.or_else(|| state.context.root.clone())
}
