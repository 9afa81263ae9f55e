//! Locations that a path can lead to after `rewrite`, apart from the one that it usually leads to.

use super::location::{Kind, Location, Locations};
use super::scope::Scope;
use super::variables::{Piece, pieces};
use crate::expression::beginning;
use crate::ledger::Origin;
use crate::model::escape;

/// Directives that decide on a response, or on who may have it.
const GUARDS: [&str; 9] = [
    "allow",
    "deny",
    "auth_basic",
    "auth_basic_user_file",
    "auth_request",
    "satisfy",
    "return",
    "if",
    "limit_except",
];

/// Directives that a response comes from.
const SOURCES: [&str; 12] = [
    "proxy_pass",
    "grpc_pass",
    "fastcgi_pass",
    "uwsgi_pass",
    "scgi_pass",
    "memcached_pass",
    "root",
    "alias",
    "try_files",
    "add_header",
    "expires",
    "rewrite",
];

/// Directives that apply to the location alone.
const OWN: [&str; 11] = [
    "return",
    "if",
    "limit_except",
    "rewrite",
    "try_files",
    "proxy_pass",
    "grpc_pass",
    "fastcgi_pass",
    "uwsgi_pass",
    "scgi_pass",
    "memcached_pass",
];

/// Other locations that the client's part of a replacement can lead to.
pub(super) fn others<'d>(
    locations: &Locations<'d>,
    usual: Option<&Location<'d>>,
    replacement: &str,
) -> Vec<Location<'d>> {
    let path = replacement.split('?').next().unwrap_or("");
    let pieces = pieces(path);
    if !pieces.iter().any(|piece| matches!(piece, Piece::Variable(_))) {
        return Vec::new();
    }
    let (start, end) = match (pieces.first(), pieces.last()) {
        (Some(Piece::Text(start)), Some(Piece::Text(end))) => (*start, *end),
        (Some(Piece::Text(start)), _) => (*start, ""),
        (_, Some(Piece::Text(end))) => ("", *end),
        _ => ("", ""),
    };
    let longest = locations
        .all()
        .iter()
        .filter(|location| matches!(location.kind, Kind::Begin | Kind::Stop))
        .filter(|location| start.starts_with(&location.text))
        .max_by_key(|location| location.text.len());
    let stops = longest.is_some_and(|location| location.kind == Kind::Stop);
    let is_usual = |location: &Location<'d>| {
        usual.is_some_and(|usual| usual.directive.origin == location.directive.origin)
    };
    let can_be = |location: &Location<'d>| match location.kind {
        Kind::Exact => location.text.starts_with(start) && location.text.ends_with(end),
        Kind::Begin | Kind::Stop => {
            location.text.starts_with(start) || longest.is_some_and(|longest| longest.text == location.text)
        }
        Kind::Regex => {
            (!stops || location.is_below_stop())
                && beginning(&location.text)
                    .is_none_or(|begin| begin.starts_with(start) || start.starts_with(&begin))
                && !is_other_extension(&location.text, end)
        }
        Kind::Named => false,
    };
    let mut found: Vec<Location<'d>> =
        locations.ordered().into_iter().filter(|location| can_be(location)).cloned().collect();
    // Those after the usual one that is a prefix are shorter prefixes.
    if let Some(at) = found.iter().position(is_usual) {
        found.remove(at);
    }
    found.retain(|other| is_different(other, usual));
    found
}

/// Whether a location serves otherwise.
fn is_different(other: &Location<'_>, usual: Option<&Location<'_>>) -> bool {
    of(Some(other), &GUARDS) != of(usual, &GUARDS) || of(Some(other), &SOURCES) != of(usual, &SOURCES)
}

/// Whether a location has rules that the usual one does not have.
pub(super) fn is_guarded(other: &Location<'_>, usual: Option<&Location<'_>>) -> bool {
    let own = of(Some(other), &GUARDS);
    !own.iter().all(Vec::is_empty) && own != of(usual, &GUARDS)
}

fn of(location: Option<&Location<'_>>, names: &[&str]) -> Vec<Vec<Origin>> {
    let Some(location) = location else { return vec![Vec::new(); names.len()] };
    let own = |name: &str| {
        let own = location.scope.own().iter().filter(|directive| directive.name == name);
        own.map(|directive| directive.origin).collect()
    };
    names
        .iter()
        .map(|name| match OWN.contains(name) {
            true => own(name),
            false => location.scope.origins(&[name]),
        })
        .collect()
}

/// Whether a location has other rules or headers than another.
pub(super) fn is_other(scope: &Scope<'_>, usual: &Scope<'_>) -> bool {
    const INHERITED: [&str; 9] = [
        "allow",
        "deny",
        "auth_basic",
        "auth_basic_user_file",
        "auth_request",
        "add_header",
        "expires",
        "root",
        "alias",
    ];
    INHERITED.iter().any(|name| scope.origins(&[name]) != usual.origins(&[name]))
        || ["return", "if", "limit_except", "rewrite"].iter().any(|name| scope.own_one(name).is_some())
        || !serves_files(scope)
}

/// Whether a location has no source but a directory.
pub(super) fn serves_files(scope: &Scope<'_>) -> bool {
    let own = scope.own();
    !own.iter().any(|directive| directive.name.ends_with("_pass") || directive.name == "try_files")
}

/// Whether an expression is one for extensions, and the end of a path is another extension.
fn is_other_extension(expression: &str, end: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "()|.$?:\\".contains(c);
    let is_extension =
        expression.starts_with("\\.") && expression.ends_with('$') && expression.chars().all(is_plain);
    let Some(at) = end.rfind('.').filter(|_| is_extension) else { return false };
    let regex = regex::bytes::RegexBuilder::new(expression).unicode(false).build();
    regex.is_ok_and(|regex| !regex.is_match(end.get(at..).unwrap_or("").as_bytes()))
}

/// The expression of a rewrite, for the paths alone that it leads to a location: `^/a/(.*)$` with the replacement
/// `/b/$1` leads to `/b/c/` from `^/a/(c/.*)$`.
pub(super) fn narrowed(pattern: &str, replacement: &str, location: &Location<'_>) -> Option<String> {
    let from = ["(.*)$", "(.*)", "(.+)$", "(.+)"].iter().find_map(|end| pattern.strip_suffix(end))?;
    let from_text = beginning(from)?;
    if escape(&from_text) != escape(&from.strip_prefix('^')?.replace('\\', "")) {
        return None;
    }
    let (to, rest) = replacement.split_once("$1")?;
    if to.contains('$') || !(rest.is_empty() || rest.starts_with('?')) {
        return None;
    }
    let uses_groups = location.directive.children().iter().flat_map(|inner| &inner.args).any(|arg| {
        pieces(arg).iter().any(|piece| matches!(piece, Piece::Variable(name) if name.parse::<u8>().is_ok()))
    });
    let start = format!("^{}", escape(&from_text));
    let text = location.text.as_str();
    match location.kind {
        Kind::Exact => Some(format!("{start}({})$", escape(text.strip_prefix(to)?))),
        Kind::Begin | Kind::Stop if to.starts_with(text) => Some(format!("{start}(.*)$")),
        Kind::Begin | Kind::Stop => Some(format!("{start}({}.*)$", escape(text.strip_prefix(to)?))),
        Kind::Regex if uses_groups || location.is_nested() => None,
        Kind::Regex => {
            let flag = if location.ignore_case { "i" } else { "" };
            let is_one = !text.contains('|')
                || text.find('(').unwrap_or(usize::MAX) < text.find('|').unwrap_or(usize::MAX);
            match (text.strip_prefix('/'), text.starts_with("\\.")) {
                _ if !is_one => None,
                // The slash may be the one before the client's part.
                (Some(after), _) if to.ends_with('/') && from_text.ends_with('/') => {
                    Some(format!("{start}((?:.*/)?(?{flag}:{after}).*)$"))
                }
                (_, true) if !to.contains('.') => Some(format!("{start}(.*(?{flag}:{text}).*)$")),
                _ => {
                    let escaped = escape(to).replace("\\-", "-");
                    let after = text.strip_prefix('^')?.strip_prefix(escaped.as_str())?;
                    let is_closed = after.matches('(').count() == after.matches(')').count();
                    let is_safe = is_closed && !after.starts_with(['*', '+', '?', '{']) && flag.is_empty();
                    is_safe.then(|| format!("{start}((?:{after}).*)$"))
                }
            }
        }
        Kind::Named => None,
    }
}
