//! The order in which Caddy applies the directives of a block, which is not that in which they are written.

use super::{Step, matcher};
use crate::caddy::syntax::Line;

/// Caddy's order of directives.
pub(super) const ORDER: [&str; 42] = [
    "tracing",
    "map",
    "vars",
    "fs",
    "root",
    "log_append",
    "skip_log",
    "log_skip",
    "log_name",
    "header",
    "copy_response_headers",
    "request_body",
    "timeouts",
    "redir",
    "method",
    "rewrite",
    "uri",
    "try_files",
    "basicauth",
    "basic_auth",
    "forward_auth",
    "request_header",
    "encode",
    "push",
    "intercept",
    "templates",
    "mercure",
    "rate_limit",
    "invoke",
    "handle",
    "handle_path",
    "route",
    "abort",
    "error",
    "copy_response",
    "respond",
    "metrics",
    "reverse_proxy",
    "php_fastcgi",
    "php_server",
    "php",
    "file_server",
];

fn rank(line: &Line) -> usize {
    // They exclude one another, and are sorted together.
    let name = if line.name() == "handle_path" { "handle" } else { line.name() };
    ORDER.iter().position(|known| *known == name).unwrap_or(ORDER.len())
}

/// The directives of a block in the order in which they are applied; those of `route` as they are written.
pub(super) fn steps<'a>(lines: &'a [Line], outer: &[&'a Line], sorted: bool) -> Vec<Step<'a>> {
    let mut scope = outer.to_vec();
    scope.extend(lines.iter().filter(|line| line.name().starts_with('@')));
    let mut own: Vec<&Line> = Vec::new();
    for line in lines.iter().filter(|line| !line.name().starts_with('@') && rank(line) < ORDER.len()) {
        // As Go sorts short lists: by insertion.
        let at = match sorted {
            true => {
                own.iter().rposition(|earlier| !comes_before(line, earlier, &scope)).map_or(0, |at| at + 1)
            }
            false => own.len(),
        };
        own.insert(at, line);
    }
    own.into_iter()
        .map(|line| {
            let (matcher, args, _) = matcher::of(line, &scope);
            Step { line, matcher, args, scope: scope.clone() }
        })
        .collect()
}

/// The order of directives, and of two of one name that of their paths.
fn comes_before(a: &Line, b: &Line, scope: &[&Line]) -> bool {
    if rank(a) != rank(b) {
        return rank(a) < rank(b);
    }
    let before = match (matcher::only_path(a, scope), matcher::only_path(b, scope)) {
        (Some(a), Some(b)) => {
            let (short, other) = (a.strip_suffix('*').unwrap_or(&a), b.strip_suffix('*').unwrap_or(&b));
            match (short.len().cmp(&other.len()), short == other) {
                (_, true) => a.len() < b.len(),
                (std::cmp::Ordering::Equal, _) => short < other,
                (order, _) => order.is_gt(),
            }
        }
        _ => {
            let has = |line: &Line| line.arg(0).starts_with('/') || line.arg(0).starts_with('@');
            has(a) && !has(b)
        }
    };
    if a.name() == "vars" { !before } else { before }
}
