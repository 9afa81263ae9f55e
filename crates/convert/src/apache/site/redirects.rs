//! `Redirect`, `RedirectMatch` (mod_alias).

use super::{Host, Reader};
use crate::apache::syntax::Node;
use crate::model::{PathMatch, Route};

impl<'a> Reader<'a> {
    /// `Redirect [STATUS] /path URL`: the path and all below it.
    pub(super) fn redirect(&mut self, node: &Node) -> Vec<Route> {
        let (status, rest) = match (node.name.as_str(), node.args.as_slice()) {
            ("redirectpermanent", rest) => (301, rest),
            ("redirecttemp", rest) => (302, rest),
            (_, [status, rest @ ..]) if !status.starts_with('/') && !status.contains("://") => (
                match status.as_str() {
                    "permanent" => 301,
                    "temp" => 302,
                    "seeother" => 303,
                    "gone" => 410,
                    number => number.parse().unwrap_or(0),
                },
                rest,
            ),
            (_, rest) => (302, rest),
        };
        let path = rest.first().map_or("/", String::as_str).trim_end_matches('/');
        let origin = node.origin;
        let below =
            if path.is_empty() { PathMatch::Any } else { PathMatch::Patterns(vec![format!("{path}/*")]) };
        let Some(target) = rest.get(1) else {
            let status = if (200..=599).contains(&status) { status } else { 410 };
            return vec![Route::status(
                origin,
                if path.is_empty() { PathMatch::Any } else { PathMatch::Begin(path.to_owned()) },
                status,
            )];
        };
        if ![301, 302, 303, 307, 308].contains(&status) {
            self.ledger.lost(
                origin,
                "its status is not that of a redirect",
                "write `redirect` of a route by hand",
            );
            return Vec::new();
        }
        let plain = target.replace('$', "$$");
        let mut routes = Vec::new();
        if !path.is_empty() {
            let mut exact = Route::new(origin, PathMatch::Exact(path.to_owned()));
            exact.table.set(
                "redirect",
                crate::nginx::redirect(&format!("{plain}$query"), status, origin),
                origin,
            );
            routes.push(exact);
        }
        let rest = match path.is_empty() {
            true => format!("{}$path$query", plain.trim_end_matches('/')),
            false => format!("{}/$1$query", plain.trim_end_matches('/')),
        };
        let mut all = Route::new(origin, below);
        all.table.set("redirect", crate::nginx::redirect(&rest, status, origin), origin);
        routes.push(all);
        routes
    }

    pub(super) fn redirect_match(&mut self, node: &Node) -> Vec<Route> {
        let (status, rest) = match node.args.as_slice() {
            [status, rest @ ..]
                if rest.len() > 1
                    || status.parse::<i64>().is_ok()
                    || matches!(status.as_str(), "permanent" | "temp" | "seeother" | "gone") =>
            {
                (status.as_str(), rest)
            }
            rest => ("302", rest),
        };
        let status = match status {
            "permanent" => 301,
            "temp" => 302,
            "seeother" => 303,
            "gone" => 410,
            number => number.parse::<i64>().unwrap_or(0),
        };
        let pattern = rest.first().map_or("", String::as_str);
        let Ok(pattern) = crate::expression::check(pattern, false) else {
            self.ledger.lost(
                node.origin,
                "its regular expression has no counterpart",
                "write a route by hand",
            );
            return Vec::new();
        };
        let path = PathMatch::Regex(pattern);
        match rest.get(1) {
            Some(target)
                if [301, 302, 303, 307, 308].contains(&status)
                    && crate::nginx::safe_target(target).is_ok() =>
            {
                let mut route = Route::new(node.origin, path);
                route.table.set(
                    "redirect",
                    crate::nginx::redirect(&format!("{target}$query"), status, node.origin),
                    node.origin,
                );
                vec![route]
            }
            None if (200..=599).contains(&status) => vec![Route::status(node.origin, path, status)],
            _ => {
                self.ledger.lost(
                    node.origin,
                    "its target or status has no counterpart",
                    "write a route by hand",
                );
                Vec::new()
            }
        }
    }
}

/// Whether a ProxyPass has the path of a redirect: mod_proxy comes before mod_alias.
pub(super) fn is_proxied(host: &Host<'_>, redirect: &Node) -> bool {
    let path = redirect.args.iter().find_map(|arg| arg.trim_start_matches('^').strip_prefix('/'));
    let first = host.each("proxypass").find(|pass| {
        let prefix = pass.arg(0).trim_start_matches('/');
        path.is_some_and(|path| path.starts_with(prefix) || path == prefix.trim_end_matches('/'))
    });
    first.is_some_and(|pass| pass.arg(1) != "!")
}
