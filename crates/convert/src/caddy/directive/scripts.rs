//! `php_fastcgi` and `php_server`.

use super::files::root_of;
use super::{Chains, State, Step, apply};
use crate::caddy::syntax::Line;
use crate::model::Route;
use crate::php;
use crate::php::Scripts;
use crate::units::{nginx_time, time};

impl<'a> Chains<'_, '_> {
    /// `files`: the file server that gets everything but scripts.
    pub(super) fn php(&mut self, step: &Step<'a>, state: &State<'a>, files: Option<&'a Line>) -> Vec<Route> {
        let (line, args) = (step.line, &step.args);
        let Some((root, root_origin)) = root_of(line, state).filter(|(root, _)| !root.contains('{')) else {
            self.reader.ledger.lost(
                line.origin,
                "no directory of scripts is known: there is no `root`, or one with a placeholder",
                "write an `[app.NAME]` by hand",
            );
            line.settle_inner(self.reader.ledger);
            return state.reach.closed(line.origin, self.fold);
        };
        let index = line.child("index").map_or("index.php", |index| index.arg(0));
        let mut scripts = Scripts {
            entry: format!("{}/{index}", root.trim_end_matches('/')),
            origin: Some(line.origin),
            ..Scripts::default()
        };
        if line.name() == "php_fastcgi" {
            let address = args.first().cloned().unwrap_or_default();
            scripts.address = Some(address.trim_start_matches("unix/").to_owned());
        } else {
            self.reader.ledger.differs(line.origin, "scripts run from the top for each request; an app that returns itself can be kept warm (docs/guide/php.md)");
        }
        for inner in &line.inner {
            match inner.name() {
                "root" | "index" => self.reader.ledger.carried(inner.origin),
                "env" => scripts.env.push((inner.arg(0).to_owned(), inner.arg(1).to_owned(), inner.origin)),
                "read_timeout" => match nginx_time(inner.arg(0)).filter(|millis| *millis > 0) {
                    Some(millis) => scripts.timeout = Some((time(millis), inner.origin)),
                    None => self.reader.ledger.lost(
                        inner.origin,
                        "it is not a time",
                        "set `request_timeout` of the app",
                    ),
                },
                "resolve_root_symlink"
                | "capture_stderr"
                | "dial_timeout"
                | "write_timeout"
                | "split"
                | "try_files"
                | "worker"
                | "file_server" => {
                    self.reader.ledger.differs(
                        inner.origin,
                        "Keepwarm finds scripts and files by its own rules (docs/guide/classic-php.md)",
                    );
                    inner.settle_inner(self.reader.ledger);
                }
                _ => inner.settle_unknown(self.reader.ledger),
            }
        }
        let app =
            php::app(&scripts, &self.label.clone(), self.reader.pools, self.reader.model, self.reader.ledger);
        let places = match self.places(line, state, false) {
            Ok(places) => places,
            Err(closed) => return closed,
        };
        let mut routes = Vec::new();
        let is_front = |word: &String| word.trim_start_matches('/').split('?').next() == Some(index);
        if let Some(tried) = state.context.tried.filter(|tried| !tried.args().last().is_some_and(is_front)) {
            self.reader.ledger.lost(
                tried.origin,
                "it leads to something else than the scripts' front controller",
                "write `rewrite` of a route by hand; these requests get 501",
            );
            return state.reach.closed(tried.origin, self.fold);
        }
        if let Some(tried) = state.context.tried {
            self.reader.ledger.differs(
                tried.origin,
                "Keepwarm finds scripts and files by its own rules (docs/guide/classic-php.md)",
            );
        }
        let serves_files = files.is_some() || line.name() != "php_fastcgi";
        if let Some(files) = files {
            self.reader.ledger.carried(files.origin);
            routes.extend(self.hidden(files, root.trim_end_matches('/'), state));
        }
        for (mut route, path) in places {
            route.table.set("app", app.as_str(), line.origin);
            if serves_files {
                route.table.set("try_files", root.as_str(), root_origin);
            }
            if !path.is_empty() {
                route.table.set("rewrite", path, line.origin);
            }
            apply(&mut route, &state.context, true);
            routes.push(route);
        }
        routes
    }
}
