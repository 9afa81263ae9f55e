//! Sections: `<Directory>`, `<Files>`, `<Location>` and their kin, in the order in which Apache merges them. Of several that are of a path, the last one's rules
//! are those of the path; so each route is divided by the sections that are of a part of it.

use super::access::{Access, deny, has_rules};
use super::regions::{
    Region, Share, alternatives, begin_of, captured, glob, is_anchored, of_location, of_name,
    of_name_matching, share,
};
use super::{Host, Mount, Reader, weight};
use crate::apache::syntax::{Node, ignore};
use crate::expression::check;
use crate::model::{PathMatch, Route, escape};
use crate::table::{Table, Value};

const TODO: &str = "write a route by hand";

/// A section, and the paths that it is of.
struct Part<'a> {
    node: &'a Node,
    /// Sections around it.
    around: Vec<&'a Node>,
    /// Each of the paths that one mount serves, or of all.
    regions: Vec<(Option<usize>, Region)>,
    /// Whether it is of files, and not of what is passed to another server.
    is_of_files: bool,
    /// In the order of merging.
    order: (u8, usize),
}

/// What a part sets: access rules, and header fields.
struct Settings {
    access: Access,
    headers: Table,
}

/// A route, and the parts that are of all its paths.
struct Piece {
    route: Route,
    parts: Vec<usize>,
    /// The piece that it was taken from.
    from: Option<usize>,
    /// The mount that serves its paths.
    mount: Option<usize>,
    /// Where its files are, and the begin of the paths that is no part of their names.
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
                    Share::Nothing | Share::Part(_) | Share::Unknown => {}
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
            let (mut rules, why) = match piece.access(settings).keys() {
                Ok(rules) => (rules, "a part of the paths of a route that changes them: nobody may use it"),
                Err(_) => (Table::default(), "`Require` and `Allow` both name clients: nobody may use it"),
            };
            let is_known = piece.is_exact && piece.access(settings).keys().is_ok();
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
            let origin =
                route.table.items.iter().find(|item| item.key == "files").and_then(|item| item.origin);
            route.path = PathMatch::Regex(format!("^{}", escape(path)));
            route.table.set("files", around, origin);
        }
    }

    /// What a part sets.
    fn settings(&mut self, parts: &[Part<'a>], index: usize) -> Settings {
        let mut set = Settings { access: Access::default(), headers: Table::default() };
        let Some(part) = parts.get(index) else { return set };
        if has_rules(&part.node.inner) {
            // Sections that were merged before, and are of all its paths, may have the file of passwords.
            let mut around: Vec<&Node> = parts
                .iter()
                .take(index)
                .filter(|earlier| {
                    part.regions.iter().all(|region| earlier.regions.iter().any(|all| includes(all, region)))
                })
                .map(|earlier| earlier.node)
                .collect();
            around.extend(&part.around);
            set.access = self.access(&part.node.inner, &around);
        }
        set.headers = self.headers(part.node.inner.iter());
        set
    }

    /// All sections with settings, in the order of merging.
    fn parts(&mut self, host: &Host<'a>, mounts: &[Mount]) -> Vec<Part<'a>> {
        let mut parts = Vec::new();
        // Those of the server come before those of the host.
        let shared = host.all.iter().skip(host.own.len()).chain(&host.own);
        for node in shared.copied() {
            self.part(node, mounts, &mut parts);
        }
        parts.sort_by_key(|part: &Part<'a>| part.order);
        parts
    }

    fn part(&mut self, node: &'a Node, mounts: &[Mount], parts: &mut Vec<Part<'a>>) {
        let is_matching = node.name.ends_with("match") || node.arg(0) == "~";
        let pattern = node.args.last().map_or("", String::as_str);
        let mut new =
            Part { node, around: Vec::new(), regions: Vec::new(), is_of_files: true, order: (0, 0) };
        match node.name.as_str() {
            "directory" | "directorymatch" => {
                new.order = if is_matching {
                    (1, 0)
                } else {
                    (0, pattern.split('/').filter(|name| !name.is_empty()).count())
                };
                let found: Option<Vec<Vec<(Option<usize>, Region)>>> = mounts
                    .iter()
                    .enumerate()
                    .map(|(number, mount)| {
                        let regions = match is_matching {
                            true => of_directory_matching(mount, pattern)?,
                            false => of_directory(mount, pattern),
                        };
                        Some(regions.into_iter().map(|region| (Some(number), region)).collect())
                    })
                    .collect();
                let found: Option<Vec<_>> = found.map(|all| all.into_iter().flatten().collect());
                match found {
                    Some(regions) => new.regions = regions,
                    None => {
                        self.ledger.lost(
                            node.origin,
                            "its regular expression is of the paths of files",
                            TODO,
                        );
                        ignore(&node.inner, self.ledger);
                        return;
                    }
                }
                if new.regions.is_empty() {
                    self.nothing_is_there(node);
                    return;
                }
            }
            "files" | "filesmatch" => {
                new.order = (2, 0);
                self.names(new, &[(None, Region::All)], is_matching, parts);
                return;
            }
            "location" | "locationmatch" => {
                new.is_of_files = false;
                new.order = (3, 0);
                let found = match is_matching {
                    true => check(pattern, false).map(|pattern| vec![(None, Region::Matching(pattern))]),
                    false if pattern.starts_with('/') => {
                        Ok(of_location(pattern).into_iter().map(|region| (None, region)).collect())
                    }
                    false => Err("it is of requests to other servers".to_owned()),
                };
                match found {
                    Ok(regions) => new.regions = regions,
                    Err(why) => {
                        self.ledger.lost(node.origin, why, TODO);
                        ignore(&node.inner, self.ledger);
                        return;
                    }
                }
                if self.is_status_page(node) {
                    return;
                }
            }
            "if" | "elseif" | "else" | "proxymatch" | "macro" | "limit" | "limitexcept" => {
                self.lost_section(node);
                return;
            }
            _ => return,
        }
        let (regions, order) = (new.regions.clone(), new.order);
        parts.push(new);
        for inner in &node.inner {
            match inner.name.as_str() {
                "files" | "filesmatch" => {
                    let is_matching = inner.name == "filesmatch" || inner.arg(0) == "~";
                    let new = Part {
                        node: inner,
                        around: vec![node],
                        regions: Vec::new(),
                        is_of_files: true,
                        order: (2, 1 + if order.0 == 0 { order.1 } else { usize::MAX / 2 }),
                    };
                    self.names(new, &regions, is_matching, parts);
                }
                "limit" | "limitexcept" | "if" => self.lost_section(inner),
                _ => {}
            }
        }
    }

    fn lost_section(&mut self, node: &Node) {
        let sets_access = |node: &Node| has_rules(&node.inner) || !node.inner.is_empty();
        match sets_access(node) {
            true => self.ledger.lost(node.origin, "the section has no counterpart", TODO),
            false => self.ledger.ignored(node.origin, "there is nothing in it"),
        }
        ignore(&node.inner, self.ledger);
    }

    /// `<Files>`, of some paths.
    fn names(
        &mut self,
        mut part: Part<'a>,
        regions: &[(Option<usize>, Region)],
        is_matching: bool,
        parts: &mut Vec<Part<'a>>,
    ) {
        let pattern = part.node.args.last().map_or("", String::as_str);
        let of = |prefix: &str| match is_matching {
            true => of_name_matching(prefix, pattern),
            false => of_name(prefix, pattern),
        };
        let found: Option<Vec<(Option<usize>, Region)>> = regions
            .iter()
            .filter(|(_, region)| !matches!(region, Region::Exact(_)))
            .map(|(mount, region)| {
                let names = match region {
                    Region::All => of(""),
                    Region::Below(begin) => of(begin.trim_end_matches('/')),
                    Region::Exact(_) | Region::Matching(_) => None,
                };
                Some((*mount, names?))
            })
            .collect();
        let has_meaning =
            has_rules(&part.node.inner) || part.node.inner.iter().any(|node| node.name == "header");
        match found {
            Some(regions) => {
                part.regions = regions;
                parts.push(part);
            }
            None if has_meaning => {
                self.ledger.lost(part.node.origin, "its pattern of names has no counterpart", TODO);
                ignore(&part.node.inner, self.ledger);
            }
            None => {}
        }
    }

    /// A section of a directory that no path leads to.
    fn nothing_is_there(&mut self, node: &Node) {
        if !self.ledger.is_settled(node.origin) {
            self.ledger.ignored(node.origin, "no path of the sites leads to it");
            ignore(&node.inner, self.ledger);
        }
    }

    fn is_status_page(&mut self, node: &Node) -> bool {
        let handler = node.inner.iter().find(|inner| {
            inner.name == "sethandler"
                && matches!(inner.arg(0), "server-status" | "server-info" | "balancer-manager")
        });
        let Some(handler) = handler else { return false };
        self.ledger.dropped(
            node.origin,
            "Keepwarm has its own page for operators",
            "set `admin.bind`, or use `keepwarm status`",
        );
        ignore(&node.inner, self.ledger);
        self.ledger.ignored(handler.origin, "a part of a section that is not converted");
        true
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
            // Only a begin that ends with a slash is no part of the names.
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
        let origin = route.table.items.iter().find(|item| item.key == "rewrite").and_then(|item| item.origin);
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
    let origin = route.table.items.iter().find(|item| item.key == "files").and_then(|item| item.origin);
    match &route.path {
        // The begin is no part of the names.
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

/// Whether all paths of one region are of the other.
fn includes((mount, all): &(Option<usize>, Region), (of, region): &(Option<usize>, Region)) -> bool {
    if mount.is_some() && mount != of {
        return false;
    }
    match (all, region) {
        (Region::All, _) => true,
        (Region::Below(begin), Region::Below(path) | Region::Exact(path)) => path.starts_with(begin.as_str()),
        (one, other) => one == other,
    }
}

/// The paths of a directory, which may be a pattern of the shell, within a mount.
fn of_directory(mount: &Mount, pattern: &str) -> Vec<Region> {
    let wanted: Vec<&str> = pattern.split('/').filter(|name| !name.is_empty()).collect();
    let base: Vec<&str> = mount.directory.split('/').filter(|name| !name.is_empty()).collect();
    let is_like = |(pattern, name): (&&str, &&str)| {
        regex::bytes::Regex::new(&format!("^{}$", glob(pattern)))
            .is_ok_and(|regex| regex.is_match(name.as_bytes()))
    };
    if !wanted.iter().zip(&base).all(is_like) {
        return Vec::new();
    }
    let all = match mount.prefix.as_str() {
        "" => vec![Region::All],
        prefix => of_location(prefix),
    };
    match wanted.get(base.len()..) {
        None | Some([]) => all,
        Some(rest) => of_location(&format!("{}/{}", mount.prefix, rest.join("/"))),
    }
}

/// The same for a regular expression; `None`: which paths are its own is not known.
fn of_directory_matching(mount: &Mount, pattern: &str) -> Option<Vec<Region>> {
    let checked = check(pattern, false).ok()?;
    let prefix = &mount.prefix;
    let whole = [&mount.directory, &mount.directory.replace('.', "\\.")];
    let is_whole = whole.iter().any(|directory| checked.starts_with(directory.as_str()));
    let Some(anchored) = checked.strip_prefix('^').or_else(|| is_whole.then_some(checked.as_str())) else {
        let is_plain = !is_anchored(&checked) && !begins_in(&mount.directory, &checked);
        let between = if checked.starts_with('/') { "(?:/.*)?" } else { "/.*?" };
        return match (is_plain, prefix.is_empty()) {
            (true, true) => Some(vec![Region::Matching(checked)]),
            (true, false) => Some(vec![Region::Matching(format!("^{}{between}{checked}", escape(prefix)))]),
            (false, _) => None,
        };
    };
    let dotted = mount.directory.replace('.', "\\.");
    let rest = anchored.strip_prefix(&mount.directory).or_else(|| anchored.strip_prefix(&dotted));
    match rest {
        Some("" | "/" | "$" | "/$" | "/?$" | "(/|$)" | "(?:/|$)") => {
            Some(of_directory(mount, &mount.directory))
        }
        Some(rest) if rest.starts_with('/') && alternatives(rest).len() == 1 => {
            Some(vec![Region::Matching(format!("^{}{rest}", escape(prefix)))])
        }
        _ => match crate::expression::beginning(&checked) {
            // Of another directory.
            Some(begin) if !mount.directory.starts_with(&begin) && !begin.starts_with(&mount.directory) => {
                Some(Vec::new())
            }
            _ => None,
        },
    }
}

/// Whether what an expression finds can begin in the path of a directory, so that it is not in the rest of a path.
fn begins_in(directory: &str, pattern: &str) -> bool {
    if [".*", "(/", "(?:/"].iter().any(|begin| pattern.starts_with(begin)) && !directory.contains(pattern) {
        return false;
    }
    let begins = crate::expression::begins(pattern).unwrap_or_else(|| vec![String::new()]);
    let ends = || directory.char_indices().filter_map(|(at, _)| directory.get(at..));
    begins.iter().any(|begin| ends().any(|end| end.starts_with(begin.as_str()) || begin.starts_with(end)))
}

/// Where a directory is in the paths of the site: for rules that are written for one.
pub(crate) fn places(mounts: &[Mount], directory: &str) -> Vec<String> {
    let mut places = Vec::new();
    for mount in mounts {
        match of_directory(mount, directory).as_slice() {
            [Region::All] if directory.trim_end_matches('/') == mount.directory => {
                places.push("/".to_owned())
            }
            [.., Region::Below(begin)] if !directory.contains(['*', '?', '[']) => {
                let is_within = directory.trim_end_matches('/').starts_with(&mount.directory);
                places.extend(is_within.then(|| begin.clone()));
            }
            _ => {}
        }
    }
    places
}
