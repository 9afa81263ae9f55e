//! `php_fastcgi` and `php_server`.

use super::{Context, apply};
use crate::caddy::Reader;
use crate::caddy::syntax::Line;
use crate::model::Route;
use crate::php;
use crate::php::Scripts;
use crate::units::{nginx_time, time};

impl Reader<'_> {
    pub(super) fn php(
        &mut self,
        line: &Line,
        args: &[String],
        mut route: Route,
        context: &Context,
        label: &str,
    ) -> Vec<Route> {
        let inner_root = line.child("root").map(|root| (root.arg(0).to_owned(), root.origin));
        let Some((root, root_origin)) = inner_root.or_else(|| context.root.clone()) else {
            self.ledger.lost(
                line.origin,
                "no directory of scripts is known: there is no `root`",
                "write an `[app.NAME]` by hand",
            );
            line.settle_inner(self.ledger);
            route.table.set("respond", 501i64, line.origin);
            return vec![route];
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
            self.ledger.differs(line.origin, "scripts run from the top for each request; an app that returns itself can be kept warm (docs/guide/php.md)");
        }
        for inner in &line.inner {
            match inner.name() {
                "root" | "index" => self.ledger.carried(inner.origin),
                "env" => scripts.env.push((inner.arg(0).to_owned(), inner.arg(1).to_owned(), inner.origin)),
                "read_timeout" => match nginx_time(inner.arg(0)).filter(|millis| *millis > 0) {
                    Some(millis) => scripts.timeout = Some((time(millis), inner.origin)),
                    None => {
                        self.ledger.lost(inner.origin, "it is not a time", "set `request_timeout` of the app")
                    }
                },
                "resolve_root_symlink"
                | "capture_stderr"
                | "dial_timeout"
                | "write_timeout"
                | "split"
                | "try_files"
                | "worker"
                | "file_server" => {
                    self.ledger.differs(
                        inner.origin,
                        "Keepwarm finds scripts and files by its own rules (docs/guide/classic-php.md)",
                    );
                    inner.settle_inner(self.ledger);
                }
                _ => inner.settle_unknown(self.ledger),
            }
        }
        let app = php::app(&scripts, label, self.pools, self.model, self.ledger);
        route.table.set("app", app, line.origin);
        route.table.set("try_files", root, root_origin);
        if context.strip.is_some() {
            self.strip(&mut route, context, line);
        }
        apply(&mut route, context, true);
        vec![route]
    }
}
