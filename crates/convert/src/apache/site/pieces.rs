//! Routes, divided by the sections that are for a part of their paths.

use super::access::{Access, deny};
use super::parts::{Part, Settings};
use super::regions::{Region, Share, begin_of, captured, share};
use super::{Host, Mount, Reader, weight};
use crate::model::{PathMatch, Route, escape};
use crate::table::{Table, Value};

const TODO: &str = "write a route by hand";

/// A route, and the parts that are of all its paths.
struct Piece {
    route: Route,
    parts: Vec<usize>,
    /// The piece that it was taken from.
    from: Option<usize>,
    /// The mount that serves its paths.
    mount: Option<usize>,
    /// Where its files are, and the beginning of the paths, which their names do not have.
    files: Option<(String, String)>,
    /// Whether what serves its paths is known.
    is_exact: bool,
}

impl Piece {
    /// The rules of its paths: of each module, those of the last part that has some.
    fn access(&self, settings: &[Settings]) -> Access {
        let of = |rules: fn(&Access) -> &Option<Table>| {
            let last = self.parts.iter().rev().filter_map(|part| settings.get(*part));
            last.map(|set| rules(&set.access)).find(|rules| rules.is_some()).cloned().flatten()
        };
        Access { required: of(|access| &access.required), ordered: of(|access| &access.ordered) }
    }
}

impl<'a> Reader<'a> {
    /// The routes with the rules of all sections.
    pub(super) fn sections(
        &mut self,
        host: &Host<'a>,
        mounts: &[Mount],
        content: Vec<(Option<usize>, Route)>,
    ) -> Vec<Route> {
        let parts = self.parts(host, mounts);
        let settings: Vec<Settings> = (0..parts.len()).map(|index| self.settings(&parts, index)).collect();
        let mut pieces: Vec<Piece> = content.into_iter().map(|(mount, route)| piece(mount, route)).collect();
        for (index, (part, set)) in parts.iter().zip(&settings).enumerate() {
            if !set.access.is_none() || !set.headers.is_empty() {
                self.divide(&mut pieces, part, &settings, index);
            }
        }
        self.settled(pieces, &parts, &settings)
    }

    /// Divides the routes by a part.
    fn divide(&mut self, pieces: &mut Vec<Piece>, part: &Part<'a>, all: &[Settings], index: usize) {
        let Some(set) = all.get(index) else { return };
        let mut is_used = false;
        for (mount, region) in &part.regions {
            let is_for = |piece: &Piece| {
                !(part.is_of_files && is_passed(&piece.route)) && (mount.is_none() || *mount == piece.mount)
            };
            // Which paths of a route are of it may not be known.
            let is_unknown = pieces.iter().any(|piece| {
                is_for(piece)
                    && !matches!(piece.route.path, PathMatch::Regex(_))
                    && share(&piece.route.path, region) == Share::Unknown
            });
            let is_denial = set.access.is_denial() || (is_unknown && !set.access.is_none());
            if let (Region::Matching(pattern), true) = (region, is_denial) {
                // Whatever serves these paths: one route denies them all.
                is_used = true;
                let mut route = Route::new(part.node.origin, PathMatch::Regex(pattern.clone()));
                let passed = pieces.iter().filter(|piece| piece.from.is_none() && !is_for(piece));
                route.except = passed.flat_map(|piece| piece.route.path.patterns()).collect();
                let is_exact = set.access.is_denial();
                pieces.push(Piece { parts: vec![index], is_exact, ..piece(*mount, route) });
                continue;
            }
            let routes: Vec<PathMatch> = pieces
                .iter()
                .filter(|piece| !matches!(piece.route.path, PathMatch::Regex(_)))
                .map(|piece| piece.route.path.clone())
                .collect();
            for at in 0..pieces.len() {
                let Some(of) = pieces.get(at).filter(|piece| is_for(piece)) else { continue };
                // What an earlier region of the same part has made is its own.
                let found = match (of.parts.last() == Some(&index), &of.route.path, region) {
                    (true, ..) => Share::Nothing,
                    // The route that it was taken from is divided by this region too, and what is merged later comes first.
                    (false, PathMatch::Regex(_), Region::Matching(_)) => Share::Nothing,
                    (false, path, region) => share(path, region),
                };
                let made = match &found {
                    Share::Nothing => continue,
                    // Another route has these paths whole.
                    Share::Part(path) if pieces.iter().any(|piece| is_same(&piece.route.path, path)) => {
                        continue;
                    }
                    Share::Part(path) => Some(narrowed(of, path.clone(), at)),
                    _ => None,
                };
                // Paths of two regular expressions have the rules of the later one only: where those are of one module, and others of the other, they
                // would be lost.
                let is_hiding = !set.access.is_none()
                    && pieces.iter().any(|piece| {
                        matches!(piece.route.path, PathMatch::Regex(_))
                            && set.access.leaves(&piece.access(all))
                    });
                let whole = of.route.path.clone();
                let Some(of) = pieces.get_mut(at) else { continue };
                match found {
                    Share::All => of.parts.push(index),
                    // Its own rules of another module are for these paths too, and cannot be combined.
                    Share::Begin(_) if set.access.leaves(&of.access(all)) => {
                        let is_denied = set.access.is_none() || of.access(all).is_denial();
                        of.is_exact &= is_denied;
                    }
                    Share::Begin(begin) => {
                        let pattern = if begin.ends_with('/') { format!("{begin}*") } else { begin };
                        of.route.except.push(pattern);
                    }
                    Share::Unknown => {
                        self.ledger.lost(part.node.origin, "a route has only a part of its paths", TODO);
                    }
                    Share::Nothing | Share::Part(_) => {}
                }
                if let Some(mut new) = made {
                    new.route.origin = Some(part.node.origin);
                    if matches!(new.route.path, PathMatch::Regex(_)) {
                        new.is_exact &= !is_hiding;
                        // Not those of other routes.
                        let others = routes.iter().filter(|path| is_within(path, &whole));
                        new.route.except.extend(others.flat_map(PathMatch::patterns));
                    }
                    new.parts.push(index);
                    pieces.push(new);
                }
                is_used = true;
            }
        }
        if !is_used && !self.ledger.is_settled(part.node.origin) {
            self.ledger.ignored(part.node.origin, "nothing serves these paths");
        } else if is_used {
            self.ledger.carried(part.node.origin);
        }
    }

    /// The pieces as routes with the settings of their parts.
    fn settled(&mut self, pieces: Vec<Piece>, parts: &[Part<'a>], settings: &[Settings]) -> Vec<Route> {
        let headers = |piece: &Piece| {
            let mut all = Table::default();
            for set in piece.parts.iter().filter_map(|part| settings.get(*part)) {
                all.merge(&set.headers);
            }
            all
        };
        let mut routes: Vec<(usize, Route)> = Vec::new();
        let mut found: Vec<(Table, Table)> = Vec::new();
        let has_patterns = pieces.iter().any(|piece| {
            matches!(piece.route.path, PathMatch::Regex(_)) && piece.access(settings) != Access::default()
        });
        for piece in &pieces {
            let origin = piece.parts.last().and_then(|part| parts.get(*part)).map(|part| part.node.origin);
            let keys = piece.access(settings).keys();
            let is_known = piece.is_exact && keys.is_some();
            let why = match &keys {
                Some(_) => "a part of the paths of a route that changes them: nobody may use it",
                None => "`Require` and `Allow` both name clients: nobody may use it",
            };
            let mut rules = keys.unwrap_or_default();
            if let (false, false, Some(origin)) = (is_known, rules.has("respond"), origin) {
                self.ledger.lost(origin, why, TODO);
                rules.set("respond", 403i64, origin);
            }
            // A denial that a later section has taken back: other routes serve its paths.
            if piece.route.table.is_empty() && !rules.has("respond") {
                found.push((rules, Table::default()));
                continue;
            }
            let own = (rules, headers(piece));
            // A regular expression may be there to come before another.
            let is_first = matches!(piece.route.path, PathMatch::Regex(_)) && has_patterns;
            let is_same =
                !is_first && piece.from.and_then(|from| found.get(from)).is_some_and(|parent| *parent == own);
            found.push(own.clone());
            if is_same {
                continue;
            }
            let mut route = piece.route.clone();
            if let Some((directory, begin)) = &piece.files {
                set_files(&mut route, directory, begin);
            }
            let mut known: Vec<String> = Vec::new();
            for pattern in std::mem::take(&mut route.except) {
                if !known.contains(&pattern) {
                    known.push(pattern);
                }
            }
            route.except = known;
            let (rules, headers) = own;
            match rules.items.iter().find(|item| item.key == "respond") {
                Some(item) => item.origin.iter().for_each(|origin| deny(&mut route, *origin)),
                None => route.table.items.extend(rules.items),
            }
            route.table.merge(&headers);
            // Of regular expressions, those of sections that are merged later come first, and those without rules last.
            let last = piece
                .parts
                .iter()
                .rev()
                .find(|part| settings.get(**part).is_some_and(|set| !set.access.is_none()));
            let rank = match &route.path {
                PathMatch::Regex(_) => last.map_or(0, |part| part + 1),
                _ => 0,
            };
            let weight = match rank {
                0 => weight(&route),
                _ => 100_000 + rank,
            };
            routes.push((weight, route));
        }
        routes.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
        let mut routes = joined(routes.into_iter().map(|(_, route)| route).collect());
        routes.iter_mut().for_each(|route| self.keep_to_directories(route));
        routes
    }

    /// Rules can be of paths without a directory. Where the directory around them is there, the route has that, with an expression: then the whole path is the
    /// name of a file.
    fn keep_to_directories(&self, route: &mut Route) {
        let (PathMatch::Begin(path), Some(Value::Text(inner))) = (&route.path, route.table.get("files"))
        else {
            return;
        };
        let Some(around) = inner.strip_suffix(path.trim_end_matches('/')).map(str::to_owned) else { return };
        let is_there = |path: &str| self.files.here(std::path::Path::new(path)).is_dir();
        if is_there(&around) && !is_there(inner) {
            let origin = route.table.origin("files");
            route.path = PathMatch::Regex(format!("^{}", escape(path)));
            route.table.set("files", around, origin);
        }
    }
}

fn is_same(one: &PathMatch, other: &PathMatch) -> bool {
    // Of regular expressions, what is merged later comes first.
    (one == other && !matches!(one, PathMatch::Regex(_)))
        || begin_of(one).is_some_and(|begin| begin_of(other) == Some(begin))
}

/// Whether a route is of a part of the paths of another.
fn is_within(path: &PathMatch, all: &PathMatch) -> bool {
    let Some(all) = begin_of(all) else { return false };
    match path {
        PathMatch::Exact(path) => path.starts_with(&all),
        path => begin_of(path).is_some_and(|begin| begin.len() > all.len() && begin.starts_with(&all)),
    }
}

/// Whether another server has the paths of a route.
fn is_passed(route: &Route) -> bool {
    route.table.has("upstream")
}

fn piece(mount: Option<usize>, route: Route) -> Piece {
    let files = match route.table.get("files") {
        Some(Value::Text(directory)) if !route.table.has("rewrite") => {
            // Names do not have a beginning that ends with a slash.
            let begin = begin_of(&route.path).filter(|begin| begin.ends_with('/')).unwrap_or_default();
            Some((directory.clone(), begin))
        }
        _ => None,
    };
    Piece { route, parts: Vec::new(), from: None, mount, files, is_exact: true }
}

/// A part of the paths of a route.
fn narrowed(of: &Piece, path: PathMatch, at: usize) -> Piece {
    let mut route = of.route.clone();
    let begin = begin_of(&of.route.path).unwrap_or_default();
    let mut is_exact = of.is_exact && !route.table.has("strip_prefix");
    if let (Some(Value::Text(text)), false) =
        (route.table.get("rewrite").cloned(), matches!(path, PathMatch::Regex(_)))
        && text.contains("$1")
    {
        let is_whole = of.route.path == PathMatch::Patterns(vec!["~^/(.*)$".to_owned()]);
        let cut = if is_whole { 1 } else { begin.len() };
        let (rest, tail) = match &path {
            PathMatch::Exact(path) => (path.get(cut..).unwrap_or(""), ""),
            PathMatch::Begin(path) => (path.get(cut..).unwrap_or(""), "$1"),
            _ => ("", "$1"),
        };
        let origin = route.table.origin("rewrite");
        route.table.set("rewrite", text.replace("$1", &format!("{}{tail}", rest.replace('$', "$$"))), origin);
    }
    let mut path = path;
    let mut files = of.files.clone();
    let has_names = route.table.has("rewrite") || files.as_ref().is_some_and(|(_, begin)| !begin.is_empty());
    if let (PathMatch::Regex(pattern), true) = (&path, has_names) {
        match captured(&begin, pattern) {
            Some(pattern) => {
                path = PathMatch::Regex(pattern);
                if let Some((_, cut)) = files.take() {
                    let inner = begin.strip_prefix(&cut).unwrap_or("").replace('$', "$$");
                    route.table.set("rewrite", format!("/{inner}$1"), None);
                }
            }
            None => is_exact = false,
        }
    }
    route.path = path;
    Piece { route, parts: of.parts.clone(), from: Some(at), mount: of.mount, files, is_exact }
}

/// The directory for a route to files whose names have the paths without `begin`.
fn set_files(route: &mut Route, directory: &str, begin: &str) {
    let origin = route.table.origin("files");
    match &route.path {
        // The names do not have the beginning.
        PathMatch::Begin(path) if path.ends_with('/') => {
            let rest = path.strip_prefix(begin).unwrap_or(path).trim_matches('/');
            let directory =
                if rest.is_empty() { directory.to_owned() } else { format!("{directory}/{rest}") };
            route.table.set("files", directory, origin);
        }
        PathMatch::Exact(path) if !begin.is_empty() => {
            let rest = path.strip_prefix(begin).unwrap_or("").replace('$', "$$");
            route.table.set("rewrite", format!("/{rest}"), origin);
        }
        _ => {}
    }
}

/// `/a` and `/a/*` of the same settings as one route. With two patterns, the whole path is the name of a file.
fn joined(routes: Vec<Route>) -> Vec<Route> {
    let mut out: Vec<Route> = Vec::new();
    for route in routes {
        let PathMatch::Begin(below) = &route.path else {
            out.push(route);
            continue;
        };
        let plain = below.trim_end_matches('/');
        let twin = out.iter_mut().find(|known| matches!(&known.path, PathMatch::Exact(path) if path == plain && below.len() == plain.len() + 1));
        let is_same = |known: &Route| {
            let rest = |table: &Table| {
                let mut table = table.clone();
                table.remove("files");
                table
            };
            let files = match (known.table.get("files"), route.table.get("files")) {
                (Some(Value::Text(whole)), Some(Value::Text(below))) => *below == format!("{whole}{plain}"),
                (None, None) => true,
                _ => false,
            };
            files
                && rest(&known.table) == rest(&route.table)
                && known.except == route.except
                && !known.table.has("strip_prefix")
                && !known.table.has("rewrite")
        };
        match twin {
            Some(known) if is_same(known) => {
                known.path = PathMatch::Patterns(vec![plain.to_owned(), format!("{below}*")]);
            }
            _ => out.push(route),
        }
    }
    out
}
