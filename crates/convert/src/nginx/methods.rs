//! `limit_except`: methods that have rules of their own.

use super::Reader;
use super::action::Place;
use super::syntax::Directive;
use crate::model::Route;
use crate::table::{Value, one_or_list};

const TODO: &str = "the other methods get 501; write a route with `method` by hand instead";

impl<'d> Reader<'d, '_> {
    /// The routes of the methods that the block does not name, which come before those of the location.
    pub(super) fn limit_except(&mut self, place: &Place<'_, 'd>) -> Vec<Route> {
        let Some(block) = place.scope.own_one("limit_except") else { return Vec::new() };
        if block.children().is_empty() {
            self.ledger.ignored(block.origin, "it has no rules");
            return Vec::new();
        }
        let Some(others) = others(block) else {
            super::drop_block(block, "it names no methods", TODO, self.ledger);
            return vec![place.closed(block.origin)];
        };
        let mut routes = self.other_methods(place, block);
        for route in &mut routes {
            route.table.set("method", others.clone(), block.origin);
        }
        routes
    }

    fn other_methods(&mut self, place: &Place<'_, 'd>, block: &'d Directive) -> Vec<Route> {
        if block.children().iter().all(|inner| inner.name == "deny" && inner.arg(0) == "all") {
            self.ledger.carried(block.origin);
            block.children().iter().for_each(|inner| self.ledger.carried(inner.origin));
            let mut denied = place.route(place.path.clone());
            denied.table.set("respond", 403i64, block.origin);
            return vec![denied];
        }
        if let Some(other) = block.children().iter().find(|inner| !is_rule(&inner.name)) {
            let why = format!("`{}` within `limit_except` has no counterpart", other.name);
            super::drop_block(block, &why, TODO, self.ledger);
            return vec![place.closed(block.origin)];
        }
        self.ledger.carried(block.origin);
        let routes = self.handler(&place.limited(block.children()));
        if routes.iter().any(|route| route.table.has("method")) {
            let why = "the location has conditions on methods besides";
            super::drop_block(block, why, TODO, self.ledger);
            return vec![place.closed(block.origin)];
        }
        routes
    }
}

impl<'s, 'd> Place<'s, 'd> {
    /// The place with the rules of a block, which are those of the location where it has none.
    fn limited(&self, rules: &'d [Directive]) -> Place<'s, 'd> {
        Place {
            server: self.server,
            scope: self.scope.with_rules(rules),
            outer: self.outer.clone(),
            path: self.path.clone(),
            except: self.except.clone(),
            variables: self.variables.clone(),
            origin: self.origin,
        }
    }
}

/// Rules that a route can have.
fn is_rule(name: &str) -> bool {
    matches!(name, "allow" | "deny" | "auth_basic" | "auth_basic_user_file")
}

/// The condition of all methods but those of the block.
fn others(block: &Directive) -> Option<Value> {
    let named: Vec<String> = block.args.iter().map(|method| method.to_ascii_uppercase()).collect();
    // `GET` includes `HEAD`, in nginx and in routes.
    let has_get = named.iter().any(|method| method == "GET");
    let others: Vec<String> = named
        .iter()
        .filter(|method| !(has_get && *method == "HEAD"))
        .map(|method| format!("!{method}"))
        .collect();
    (!others.is_empty()).then(|| one_or_list(others))
}
