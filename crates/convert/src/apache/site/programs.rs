//! Programs at paths (CGI, mod_wsgi), and directories by a regular expression.

use super::{Host, Reader};
use crate::expression::check;
use crate::model::{PathMatch, Route};

impl<'a> Reader<'a> {
    /// Paths of programs, and of directories by a regular expression. They get 501: the document root might have files there, among them the
    /// sources of the program.
    pub(super) fn programs(&mut self, host: &Host<'a>) -> Vec<Route> {
        let mut routes = Vec::new();
        for name in
            ["scriptalias", "scriptaliasmatch", "aliasmatch", "wsgiscriptalias", "wsgiscriptaliasmatch"]
        {
            for node in host.each(name) {
                let todo = match name.starts_with("wsgi") {
                    true => {
                        "its requests get 501: let Keepwarm run the app: `entry = \"shop.wsgi:application\"` of an `[app.NAME]`"
                    }
                    false => "its requests get 501: write its route by hand",
                };
                self.ledger.lost(node.origin, "it has no counterpart", todo);
                let paths = match (name.ends_with("match"), node.arg(0).trim_end_matches('/')) {
                    (true, _) => vec![check(node.arg(0), false).map_or(PathMatch::Any, PathMatch::Regex)],
                    (false, "") => vec![PathMatch::Any],
                    (false, prefix) => {
                        vec![PathMatch::Exact(prefix.to_owned()), PathMatch::Begin(format!("{prefix}/"))]
                    }
                };
                routes.extend(paths.into_iter().map(|path| Route::status(node.origin, path, 501)));
            }
        }
        for node in host.each("wsgidaemonprocess") {
            let todo = "let Keepwarm run the app: `entry = \"shop.wsgi:application\"` of an `[app.NAME]`";
            self.ledger.lost(node.origin, "it has no counterpart", todo);
        }
        routes
    }
}
