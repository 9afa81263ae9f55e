//! `file_server`, `root`, `try_files`.

use super::{Context, apply, template};
use crate::caddy::Reader;
use crate::caddy::syntax::Line;
use crate::model::{PathMatch, Route};
use crate::table::one_or_list;

impl Reader<'_> {
    pub(super) fn files(
        &mut self,
        line: &Line,
        args: &[String],
        mut route: Route,
        context: &Context,
        try_files: Option<&Line>,
    ) -> Vec<Route> {
        let own = line.child("root").map(|root| (root.arg(0).to_owned(), root.origin));
        let Some((root, root_origin)) = own.or_else(|| context.root.clone()) else {
            self.ledger.lost(
                line.origin,
                "there is no `root`: the working directory of Caddy",
                "set `files` of the route",
            );
            route.table.set("respond", 501i64, line.origin);
            return vec![route];
        };
        if root.contains('{') && template(&root).is_none() {
            self.ledger.lost(
                root_origin,
                "its path has a placeholder without a counterpart",
                "write `files` by hand",
            );
            route.table.set("respond", 501i64, line.origin);
            return vec![route];
        }
        let directory = template(&root).unwrap_or(root).trim_end_matches('/').to_owned();
        if args.iter().any(|word| word == "browse") || line.child("browse").is_some() {
            route.table.set("listing", true, line.origin);
        }
        for inner in &line.inner {
            match inner.name() {
                "root" | "browse" => self.ledger.carried(inner.origin),
                "index" => route.table.set("index", one_or_list(inner.args().to_vec()), inner.origin),
                "hide" => self.ledger.lost(
                    inner.origin,
                    "files that are hidden",
                    "write a route for them before, with respond = 404",
                ),
                "precompressed" => self.ledger.carried(inner.origin),
                "status" | "disable_canonical_uris" | "pass_thru" | "fs" | "etag_file_extensions" => {
                    self.ledger.differs(inner.origin, "it has no counterpart")
                }
                _ => inner.settle_unknown(self.ledger),
            }
        }
        let prefix = context.strip.clone();
        let directory = match (&prefix, &route.path) {
            // With the pattern `/x/*`, the prefix is not part of the name anyway.
            (Some(_), _) => directory,
            (None, PathMatch::Patterns(patterns))
                if patterns.len() == 1
                    && patterns.iter().all(|one| one.ends_with("/*") && one.matches('*').count() == 1) =>
            {
                format!("{directory}{}", patterns.first().map_or("", |one| one.trim_end_matches("/*")))
            }
            (None, _) => directory,
        };
        route.table.set("files", directory.as_str(), root_origin);
        apply(&mut route, context, false);
        let page = try_files.and_then(|line| Some((line, line.args().last()?.clone())));
        match page {
            Some((tried, page)) if page.starts_with('/') && !page.contains('{') && route.is_for_all() => {
                self.ledger.differs(tried.origin, format!("paths whose last part has a `.` are files, or 404; all others get {page}, also those of directories"));
                let mut rest = route.clone();
                rest.table.set("rewrite", page, tried.origin);
                route.path = PathMatch::Regex("[^/]*\\.[^/]+$".to_owned());
                vec![route, rest]
            }
            Some((tried, _)) => {
                self.ledger.lost(
                    tried.origin,
                    "files are found by their whole path",
                    "write `rewrite` of a route by hand",
                );
                vec![route]
            }
            None => vec![route],
        }
    }

    /// Removes a prefix from the path that an upstream or app gets.
    pub(super) fn strip(&mut self, route: &mut Route, context: &Context, line: &Line) {
        let Some(prefix) = &context.strip else { return };
        let prefix = prefix.trim_end_matches('/');
        match &route.path {
            PathMatch::Patterns(patterns) if patterns.as_slice() == [format!("{prefix}/*")] => {
                route.table.set("rewrite", "/$1", line.origin)
            }
            _ => {
                route.path = PathMatch::Patterns(vec![format!("{prefix}/*")]);
                route.table.set("rewrite", "/$1", line.origin);
                self.ledger.differs(line.origin, format!("only paths below {prefix}/"));
            }
        }
    }
}
