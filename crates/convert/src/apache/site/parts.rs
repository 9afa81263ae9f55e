//! Sections: `<Directory>`, `<Files>`, `<Location>` and their kin, in the order in which Apache merges them. Of several that are of a path, the last one's rules
//! are those of the path; so each route is divided by the sections that are of a part of it.

use super::access::{deny, has_rules};
use super::regions::{
    Region, Share, begin_of, glob, is_anchored, of_location, of_name, of_name_matching, share,
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
    regions: Vec<Region>,
    /// Whether it is of files, and not of what is passed to another server.
    is_of_files: bool,
    /// In the order of merging.
    order: (u8, usize),
}

/// What a part sets: access rules, and header fields.
struct Settings {
    access: Option<Table>,
    headers: Table,
}

impl Settings {
    fn is_denial(&self) -> bool {
        self.access.as_ref().is_some_and(|access| access.has("respond"))
    }
}

/// A route, and the parts that are of all its paths.
struct Piece {
    route: Route,
    parts: Vec<usize>,
    /// The piece that it was taken from.
    from: Option<usize>,
    /// Where its files are, and the begin of the paths that is no part of their names.
    files: Option<(String, String)>,
    /// Whether what serves its paths is known.
    is_exact: bool,
}

impl<'a> Reader<'a> {
    /// The routes with the rules of all sections.
    pub(super) fn sections(&mut self, host: &Host<'a>, mounts: &[Mount], content: Vec<Route>) -> Vec<Route> {
        let parts = self.parts(host, mounts);
        let settings: Vec<Settings> = (0..parts.len()).map(|index| self.settings(&parts, index)).collect();
        let mut pieces: Vec<Piece> = content.into_iter().map(piece).collect();
        for (index, (part, set)) in parts.iter().zip(&settings).enumerate() {
            if set.access.is_some() || !set.headers.is_empty() {
                self.divide(&mut pieces, part, set, index);
            }
        }
        self.settled(pieces, &parts, &settings)
    }

    /// Divides the routes by a part.
    fn divide(&mut self, pieces: &mut Vec<Piece>, part: &Part<'a>, set: &Settings, index: usize) {
        let is_for = |piece: &Piece| !(part.is_of_files && is_passed(&piece.route));
        let mut is_used = false;
        for region in &part.regions {
            if let (Region::Matching(pattern), true) = (region, set.is_denial())
                && pieces.iter().any(|piece| piece.route.path == PathMatch::Any && is_for(piece))
            {
                // Whatever serves these paths: one route denies them all.
                is_used = true;
                let mut route = Route::new(part.node.origin, PathMatch::Regex(pattern.clone()));
                let passed = pieces.iter().filter(|piece| !is_for(piece));
                route.except = passed.flat_map(|piece| piece.route.path.patterns()).collect();
                pieces.push(Piece { parts: vec![index], ..piece(route) });
                continue;
            }
            let begins: Vec<String> = pieces
                .iter()
                .filter(|piece| piece.from.is_none() && !matches!(piece.route.path, PathMatch::Regex(_)))
                .filter(|piece| begin_of(&piece.route.path).is_none_or(|begin| !begin.is_empty()))
                .flat_map(|piece| piece.route.path.patterns())
                .collect();
            for at in 0..pieces.len() {
                let Some(of) = pieces.get(at).filter(|piece| is_for(piece)) else { continue };
                // What an earlier region of the same part has made is its own.
                let found = match of.parts.last() == Some(&index) {
                    true => Share::Nothing,
                    false => share(&of.route.path, region),
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
                let Some(of) = pieces.get_mut(at) else { continue };
                match found {
                    Share::All => of.parts.push(index),
                    Share::Begin(begin) => {
                        let pattern = if begin.ends_with('/') { format!("{begin}*") } else { begin };
                        of.route.except.push(pattern);
                    }
                    // More than it asks for is denied, and no more is granted.
                    Share::Unknown if set.access.as_ref().is_none_or(Table::is_empty) => {
                        self.ledger.lost(part.node.origin, "a route has only a part of its paths", TODO);
                    }
                    Share::Unknown => {
                        of.parts.push(index);
                        let why = "a route has only a part of its paths, and gets its rules whole";
                        self.ledger.lost(part.node.origin, why, TODO);
                    }
                    Share::Nothing | Share::Part(_) => {}
                }
                if let Some(mut new) = made {
                    new.route.origin = Some(part.node.origin);
                    if matches!(new.route.path, PathMatch::Regex(_)) {
                        new.route.except.extend(begins.iter().cloned());
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
        let access = |piece: &Piece| {
            let last = piece
                .parts
                .iter()
                .rev()
                .find(|part| settings.get(**part).is_some_and(|set| set.access.is_some()));
            let table = last.and_then(|part| settings.get(*part)).and_then(|set| set.access.clone());
            (last.copied(), table.unwrap_or_default())
        };
        let headers = |piece: &Piece| {
            let mut all = Table::default();
            for set in piece.parts.iter().filter_map(|part| settings.get(*part)) {
                all.merge(&set.headers);
            }
            all
        };
        let mut routes: Vec<(usize, Route)> = Vec::new();
        let mut found: Vec<(Table, Table)> = Vec::new();
        for piece in &pieces {
            let (last, mut rules) = access(piece);
            let is_denied = rules.has("respond");
            if let (false, false, Some(part)) = (piece.is_exact, is_denied, last) {
                let origin = parts.get(part).map(|part| part.node.origin);
                let why = "a part of the paths of a route that changes them: nobody may use it";
                origin.iter().for_each(|origin| self.ledger.lost(*origin, why, TODO));
                rules.set("respond", 403i64, origin);
            }
            let own = (rules, headers(piece));
            let is_same = piece.from.and_then(|from| found.get(from)).is_some_and(|parent| *parent == own);
            found.push(own.clone());
            if is_same {
                continue;
            }
            let mut route = piece.route.clone();
            if let Some((directory, begin)) = &piece.files {
                set_files(&mut route, directory, begin);
            }
            let (rules, headers) = own;
            match rules.items.iter().find(|item| item.key == "respond") {
                Some(item) => item.origin.iter().for_each(|origin| deny(&mut route, *origin)),
                None => route.table.items.extend(rules.items),
            }
            route.table.merge(&headers);
            // Of regular expressions, those of sections that are merged later.
            let rank = match &route.path {
                PathMatch::Regex(_) => piece.parts.last().map_or(0, |part| part + 1),
                _ => 0,
            };
            routes.push((rank, route));
        }
        routes.sort_by_key(|(rank, route)| std::cmp::Reverse((weight(route), *rank)));
        joined(routes.into_iter().map(|(_, route)| route).collect())
    }

    /// What a part sets.
    fn settings(&mut self, parts: &[Part<'a>], index: usize) -> Settings {
        let mut set = Settings { access: None, headers: Table::default() };
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
            let mut route = Route::new(part.node.origin, PathMatch::Any);
            self.access(&part.node.inner, &around, &mut route);
            set.access = Some(route.table);
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
                let found: Option<Vec<Region>> = mounts
                    .iter()
                    .map(|mount| match is_matching {
                        true => of_directory_matching(mount, pattern),
                        false => Some(of_directory(mount, pattern)),
                    })
                    .collect::<Option<Vec<_>>>()
                    .map(|all| all.into_iter().flatten().collect());
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
                self.names(new, &[Region::All], is_matching, parts);
                return;
            }
            "location" | "locationmatch" => {
                new.is_of_files = false;
                new.order = (3, 0);
                let found = match is_matching {
                    true => check(pattern, false).map(|pattern| vec![Region::Matching(pattern)]),
                    false if pattern.starts_with('/') => Ok(of_location(pattern)),
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
        let regions = new.regions.clone();
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
                        order: (2, 0),
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
        regions: &[Region],
        is_matching: bool,
        parts: &mut Vec<Part<'a>>,
    ) {
        let pattern = part.node.args.last().map_or("", String::as_str);
        let of = |prefix: &str| match is_matching {
            true => of_name_matching(prefix, pattern),
            false => of_name(prefix, pattern),
        };
        let found: Option<Vec<Region>> = regions
            .iter()
            .filter(|region| !matches!(region, Region::Exact(_)))
            .map(|region| match region {
                Region::All => of(""),
                Region::Below(begin) => of(begin.trim_end_matches('/')),
                Region::Exact(_) | Region::Matching(_) => None,
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
    one == other || begin_of(one).is_some_and(|begin| begin_of(other) == Some(begin))
}

/// Whether another server has the paths of a route.
fn is_passed(route: &Route) -> bool {
    route.table.has("upstream")
}

fn piece(route: Route) -> Piece {
    let files = match route.table.get("files") {
        Some(Value::Text(directory)) if !route.table.has("rewrite") => {
            // Only a begin that ends with a slash is no part of the names.
            let begin = begin_of(&route.path).filter(|begin| begin.ends_with('/')).unwrap_or_default();
            Some((directory.clone(), begin))
        }
        _ => None,
    };
    Piece { route, parts: Vec::new(), from: None, files, is_exact: true }
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
    } else if route.table.has("rewrite") && matches!(path, PathMatch::Regex(_)) {
        is_exact = false;
    }
    if matches!(path, PathMatch::Regex(_)) && of.files.as_ref().is_some_and(|(_, begin)| !begin.is_empty()) {
        is_exact = false;
    }
    route.path = path;
    Piece { route, parts: of.parts.clone(), from: Some(at), files: of.files.clone(), is_exact }
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
fn includes(all: &Region, region: &Region) -> bool {
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
        Some(rest) if rest.starts_with('/') && !rest.contains('|') => {
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
    if [".*", "\\.", "(\\.", "(?:\\.", "(/", "(?:/"].iter().any(|begin| pattern.starts_with(begin)) {
        return false;
    }
    let literal = crate::expression::beginning(&format!("^{pattern}")).unwrap_or_default();
    literal.is_empty()
        || directory.contains(&literal)
        || directory
            .char_indices()
            .any(|(at, _)| directory.get(at..).is_some_and(|end| literal.starts_with(end)))
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
