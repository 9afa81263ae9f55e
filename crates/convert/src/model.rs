//! The model between readers and writer: sites, and what keepwarm.toml has besides.

use crate::ledger::{Ledger, Origin};
use crate::table::Table;

/// A section `[KIND.NAME]`.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    pub(crate) name: String,
    pub(crate) origin: Option<Origin>,
    pub(crate) table: Table,
}

/// What a path must be for a route.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PathMatch {
    Any,
    Exact(String),
    /// A beginning, as in nginx: `/a` is also the beginning of `/ab`.
    Begin(String),
    /// A regular expression that was checked.
    Regex(String),
    /// Patterns as keepwarm.toml has them.
    Patterns(Vec<String>),
}

impl PathMatch {
    /// The value of `path`; empty: all paths.
    pub(crate) fn patterns(&self) -> Vec<String> {
        match self {
            PathMatch::Any => Vec::new(),
            PathMatch::Exact(path) => vec![literal(&encoded(path))],
            PathMatch::Begin(path) if path == "/" || path.is_empty() => Vec::new(),
            PathMatch::Begin(path) if path.contains('*') => vec![format!("~^{}", escape(&encoded(path)))],
            PathMatch::Begin(path) => vec![format!("{}*", encoded(path))],
            PathMatch::Regex(pattern) => vec![simplest(pattern)],
            PathMatch::Patterns(patterns) => patterns.clone(),
        }
    }
}

/// A path as requests have it: other servers compare the decoded one.
pub(crate) fn encoded(path: &str) -> String {
    let mut out = String::new();
    for byte in path.bytes() {
        match byte {
            b'!'..=b'~' if !b"\"<>^`{|}".contains(&byte) => out.push(char::from(byte)),
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// A path as a pattern that matches it and nothing else.
fn literal(path: &str) -> String {
    match path.contains('*') {
        true => format!("~^{}$", escape(path)),
        false => path.to_owned(),
    }
}

/// A text as a regular expression.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if "\\.+*?()|[]{}^$#&-~".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// The usual expression for an extension as the glob that it is.
fn simplest(pattern: &str) -> String {
    let extension = pattern.strip_prefix("\\.").and_then(|rest| rest.strip_suffix('$'));
    match extension {
        Some(word) if !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric()) => {
            format!("*.{word}")
        }
        _ => format!("~{pattern}"),
    }
}

/// A route of a site. Its hosts are those of the site.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) origin: Option<Origin>,
    pub(crate) path: PathMatch,
    /// Patterns of paths that the route does not match.
    pub(crate) except: Vec<String>,
    /// All keys but `host` and `path`.
    pub(crate) table: Table,
    /// A directory whose files come first; only an app can have one.
    pub(crate) files_before: Option<FilesBefore>,
}

/// Files before an upstream.
#[derive(Clone, Debug)]
pub(crate) struct FilesBefore {
    pub(crate) directory: String,
    /// The directive of the directory.
    pub(crate) root: Origin,
    /// The directive that tries files.
    pub(crate) origin: Origin,
}

impl Route {
    pub(crate) fn new(origin: impl Into<Option<Origin>>, path: PathMatch) -> Route {
        Route { origin: origin.into(), path, except: Vec::new(), table: Table::default(), files_before: None }
    }

    /// A route with a fixed status.
    pub(crate) fn status(origin: impl Into<Option<Origin>>, path: PathMatch, status: i64) -> Route {
        let mut route = Route::new(origin, path);
        let origin = route.origin;
        route.table.set("respond", status, origin);
        route
    }

    /// Whether requests can pass it by.
    pub(crate) fn is_for_all(&self) -> bool {
        self.path.patterns().is_empty()
            && self.except.is_empty()
            && !["host", "method", "header", "query", "cookie", "client", "scheme"]
                .iter()
                .any(|key| self.table.has(key))
    }
}

/// An address on which sites are served.
#[derive(Clone, Debug)]
pub(crate) struct Bind {
    pub(crate) address: String,
    pub(crate) tls: bool,
    /// Whether the site is for hosts that no site of this address has.
    pub(crate) is_default: bool,
    pub(crate) proxy_protocol: bool,
    pub(crate) origin: Option<Origin>,
}

#[derive(Clone, Debug)]
pub(crate) struct Certificate {
    pub(crate) cert: String,
    pub(crate) key: String,
    pub(crate) origin: Option<Origin>,
}

/// What is served for some hosts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Site {
    pub(crate) origin: Option<Origin>,
    pub(crate) binds: Vec<Bind>,
    /// Patterns of hosts, as keepwarm.toml has them; empty: it has no name of its own.
    pub(crate) hosts: Vec<String>,
    pub(crate) certificates: Vec<Certificate>,
    /// Names of certificates from an authority.
    pub(crate) acme: Vec<String>,
    /// Keys of `[listen.NAME]`.
    pub(crate) listener: Table,
    /// Keys of `[listen.NAME.tls]`.
    pub(crate) tls: Table,
    /// In order of precedence.
    pub(crate) routes: Vec<Route>,
    /// Whether conditions on the scheme are on that of the connection, whatever a proxy reports.
    pub(crate) has_own_scheme: bool,
    /// The app that listens on these addresses by itself, where the input is that of an app server.
    pub(crate) app: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Listener {
    pub(crate) name: String,
    pub(crate) origin: Option<Origin>,
    pub(crate) table: Table,
    pub(crate) routes: Vec<Table>,
    /// Where each route comes from.
    pub(crate) origins: Vec<Option<Origin>>,
}

/// Everything that keepwarm.toml will have.
#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) server: Table,
    pub(crate) admin: Table,
    pub(crate) acme: Table,
    pub(crate) sites: Vec<Site>,
    pub(crate) listeners: Vec<Listener>,
    pub(crate) apps: Vec<Section>,
    pub(crate) processes: Vec<Section>,
    pub(crate) upstreams: Vec<Section>,
    pub(crate) rate_limits: Vec<Section>,
    pub(crate) maps: Vec<Section>,
    /// Rules of the input that are lost unless a part of the output comes from them.
    pub(crate) rules: Vec<Origin>,
}

impl Model {
    /// Whether there is anything to serve or to run.
    pub(crate) fn is_empty(&self) -> bool {
        self.sites.is_empty()
            && self.apps.is_empty()
            && self.processes.is_empty()
            && self.upstreams.is_empty()
    }
}

/// Adds a section, or finds an equal one; returns its name.
pub(crate) fn add(
    sections: &mut Vec<Section>,
    wish: &str,
    table: Table,
    origin: impl Into<Option<Origin>>,
    ledger: &mut Ledger,
) -> String {
    let wish = name_of(wish);
    if let Some(equal) = sections.iter().find(|section| section.table == table && stem(&section.name, &wish))
    {
        table.settle(ledger);
        return equal.name.clone();
    }
    let mut name = wish.clone();
    let mut number = 2;
    while sections.iter().any(|section| section.name == name) {
        name = format!("{wish}-{number}");
        number += 1;
    }
    sections.push(Section { name: name.clone(), origin: origin.into(), table });
    name
}

/// The values of `method`, one for each route, for some methods (empty: all) but others.
///
/// A `GET` of Keepwarm includes `HEAD`, and `!GET` excludes it; elsewhere, they are two methods.
pub(crate) fn exact_methods(some: &[String], none: &[String]) -> Vec<Vec<String>> {
    let has = |list: &[String], name: &str| list.iter().any(|one| one == name);
    if !some.is_empty() {
        let mut list: Vec<String> = some.iter().filter(|one| !none.contains(one)).cloned().collect();
        list.dedup();
        if has(&list, "GET") {
            match has(&list, "HEAD") {
                true => list.retain(|one| one != "HEAD"),
                false => list.push("!HEAD".to_owned()),
            }
        }
        return if list.is_empty() { Vec::new() } else { vec![list] };
    }
    let has_get = has(none, "GET");
    let mut negated: Vec<String> =
        none.iter().filter(|one| *one != "HEAD" || !has_get).map(|one| format!("!{one}")).collect();
    negated.dedup();
    match has_get && !has(none, "HEAD") {
        true => vec![vec!["HEAD".to_owned()], negated],
        false => vec![negated],
    }
}

/// Whether a name is the wish, or the wish with a number.
fn stem(name: &str, wish: &str) -> bool {
    let rest = name.strip_prefix(wish);
    rest.is_some_and(|rest| {
        rest.is_empty() || rest.strip_prefix('-').is_some_and(|n| n.parse::<u32>().is_ok())
    })
}

/// A text as the name of a section: letters, digits, `-` and `_`.
pub(crate) fn name_of(text: &str) -> String {
    let mut name = String::new();
    for c in text.chars().take(60) {
        match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' => name.push(c),
            _ if !name.is_empty() && !name.ends_with('-') => name.push('-'),
            _ => {}
        }
    }
    let name = name.trim_matches('-');
    if name.is_empty() { "main".to_owned() } else { name.to_owned() }
}
