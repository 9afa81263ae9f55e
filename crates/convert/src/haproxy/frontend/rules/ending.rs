//! What is left once no rule has responded: the rules of a backend, and its servers.

use super::{CLOSED, State, Step, TODO, steps};
use crate::haproxy::Reader;
use crate::ledger::Origin;
use crate::model::Route;
use crate::table::Table;

/// The servers of a backend, and what applies to all requests to them.
struct Ending {
    upstream: String,
    common: Table,
    origin: Origin,
}

impl Reader<'_> {
    /// The routes that lead to a backend, after its own rules.
    pub(super) fn backend_routes(
        &mut self,
        name: &str,
        origin: Origin,
        state: &State,
        count: &mut usize,
    ) -> Vec<Route> {
        if let Some(upstream) = name.strip_prefix('\u{1}') {
            let common = self.endings.last().map(|(_, common)| common.clone()).unwrap_or_default();
            return self.end(upstream, origin, state, &common);
        }
        let Some(upstream) = self.backend(name) else {
            self.ledger.lost(origin, format!("`{name}` is not a backend with servers"), CLOSED);
            return state.reach.closed(origin, false);
        };
        self.ledger.carried(origin);
        let Some(section) =
            self.sections.iter().find(|section| section.kind == "backend" && section.name == name).cloned()
        else {
            return self.end(&upstream, origin, state, &Table::default());
        };
        let mut common = Table::default();
        for line in section.defaults.iter().chain(&section.lines) {
            self.side_rule(line, &mut common);
        }
        let steps = steps(&section);
        let own = Ending { upstream, common, origin };
        self.run_backend(&steps, state, &own, count)
    }

    fn run_backend(
        &mut self,
        steps: &[Step<'_>],
        state: &State,
        ending: &Ending,
        count: &mut usize,
    ) -> Vec<Route> {
        // The last rule: to the servers.
        let name = format!("\u{1}{}", ending.upstream);
        self.endings.push((name.clone(), ending.common.clone()));
        let routes = self.run(steps, state, Some((&name, ending.origin)), count);
        self.endings.pop();
        routes
    }

    /// Routes to an upstream.
    fn end(&mut self, upstream: &str, origin: Origin, state: &State, common: &Table) -> Vec<Route> {
        let Some(places) = state.reach.routes(origin, false, false) else {
            self.ledger.lost(origin, "the path is rewritten before in a way without a counterpart", TODO);
            return state.reach.closed(origin, false);
        };
        places
            .into_iter()
            .map(|(mut route, path)| {
                route.table.set("upstream", upstream, origin);
                if !path.is_empty() {
                    route.table.set("rewrite", path, origin);
                }
                if !state.request_headers.is_empty() {
                    route.table.set("request_headers", state.request_headers.clone(), None);
                }
                route.table.merge(common);
                route
            })
            .collect()
    }
}
