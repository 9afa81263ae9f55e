//! `Require`, `Allow`, `Deny`, `AuthType Basic` (mod_authz_core, mod_access_compat, mod_auth_basic).

use super::Reader;
use crate::apache::syntax::Node;
use crate::cidr::{Clients, Rule, Verdict, resolve};
use crate::ledger::Origin;
use crate::model::Route;
use crate::table::{Table, Value};

const TODO: &str = "set `allow`, `basic_auth` or `auth_request`";

/// What `Require`s demand together.
#[derive(Debug, Default)]
struct Demand {
    /// Nobody meets them.
    denied: bool,
    /// Clients that alone meet them; empty: it does not depend on that.
    only: Vec<String>,
    /// Clients that do not.
    but: Vec<String>,
    /// A user and a password.
    user: bool,
}

impl Demand {
    fn denied() -> Demand {
        Demand { denied: true, ..Demand::default() }
    }

    fn is_met_by_all(&self) -> bool {
        !self.denied && self.only.is_empty() && self.but.is_empty() && !self.user
    }
}

/// Whether a section says who may use its paths.
pub(super) fn has_rules(nodes: &[Node]) -> bool {
    nodes.iter().any(|node| {
        matches!(
            node.name.as_str(),
            "require" | "requireall" | "requireany" | "requirenone" | "order" | "deny" | "allow"
        )
    })
}

/// The rules of two modules: `Require`, and `Order`, `Allow` and `Deny`. Each is merged by itself, and both must be met.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Access {
    /// Keys of a route; `None`: nothing is said.
    pub(super) required: Option<Table>,
    pub(super) ordered: Option<Table>,
}

impl Access {
    pub(super) fn is_none(&self) -> bool {
        self.required.is_none() && self.ordered.is_none()
    }

    pub(super) fn is_denial(&self) -> bool {
        [&self.required, &self.ordered].into_iter().flatten().any(|rules| rules.has("respond"))
    }

    /// Whether another has rules of a module of which this says nothing.
    pub(super) fn leaves(&self, other: &Access) -> bool {
        let has_rules = |rules: &Option<Table>| rules.as_ref().is_some_and(|rules| !rules.is_empty());
        (self.required.is_none() && has_rules(&other.required))
            || (self.ordered.is_none() && has_rules(&other.ordered))
    }

    /// Both as the keys of a route; `None`: they cannot be combined.
    pub(super) fn keys(&self) -> Option<Table> {
        let mut all = self.required.clone().unwrap_or_default();
        let Some(ordered) = &self.ordered else { return Some(all) };
        for item in &ordered.items {
            match (item.key.as_str(), all.get(&item.key).cloned(), &item.value) {
                ("allow", Some(known), new) if known != *new => return None,
                ("deny", Some(Value::List(mut known)), Value::List(new)) => {
                    known.extend(
                        new.iter().filter(|block| !known.contains(block)).cloned().collect::<Vec<_>>(),
                    );
                    all.set("deny", Value::List(known), item.origin);
                }
                _ => {
                    all.remove(&item.key);
                    all.items.push(item.clone());
                }
            }
        }
        Some(all)
    }
}

impl<'a> Reader<'a> {
    /// The rules of a section. `around`: sections around it, which may have the file of passwords.
    pub(super) fn access(&mut self, nodes: &[Node], around: &[&Node]) -> Access {
        let first = nodes.iter().find(|node| has_rules(std::slice::from_ref(node)));
        let Some(origin) = first.map(|node| node.origin) else { return Access::default() };
        let required = self.demand(nodes, false).map(|demand| {
            let mut table = Table::default();
            let but = demand.but.iter().map(|ip| (Verdict::Deny, ip.as_str()));
            let only = demand.only.iter().map(|ip| (Verdict::Allow, ip.as_str()));
            let rules: Vec<Rule<'_>> = but.chain(only).collect();
            let end = if demand.only.is_empty() { Verdict::Allow } else { Verdict::Deny };
            match (demand.denied, resolve(&rules, end)) {
                (true, _) => table.set("respond", 403i64, origin),
                (false, Some(clients)) => set_clients(&mut table, clients, origin),
                (false, None) => {
                    let why = "clients are addresses and blocks, not names: nobody may use it";
                    self.ledger.lost(origin, why, "set `allow` of the route");
                    table.set("respond", 403i64, origin);
                }
            }
            if demand.user && !table.has("respond") {
                self.basic_auth(nodes, around, origin, &mut table);
            }
            table
        });
        let ordered = self.order(nodes).map(|clients| {
            let mut table = Table::default();
            set_clients(&mut table, clients, origin);
            table
        });
        Access { required, ordered }
    }

    /// What the `Require`s among these demand: each of them, or one.
    fn demand(&mut self, nodes: &[Node], all: bool) -> Option<Demand> {
        let items: Vec<(Demand, Origin)> =
            nodes.iter().filter_map(|node| Some((self.item(node)?, node.origin))).collect();
        let (_, origin) = items.first()?;
        let origin = *origin;
        if !all && items.iter().any(|(item, _)| item.is_met_by_all()) {
            return Some(Demand::default());
        }
        let mut sum = Demand::default();
        if all {
            let lists = items.iter().filter(|(item, _)| !item.only.is_empty()).count();
            sum.denied = items.iter().any(|(item, _)| item.denied);
            if lists > 1 {
                self.ledger.lost(origin, "clients of two lists at once: nobody may use it", TODO);
                return Some(Demand::denied());
            }
        } else {
            let is_negative = |item: &Demand| !item.but.is_empty();
            if items.len() > 1 && items.iter().any(|(item, _)| is_negative(item)) {
                self.ledger.lost(origin, "one of several rules is enough: nobody may use it", TODO);
                return Some(Demand::denied());
            }
            sum.denied = items.iter().all(|(item, _)| item.denied);
        }
        for (item, _) in items {
            sum.only.extend(item.only);
            sum.but.extend(item.but);
            sum.user |= item.user;
        }
        if !all && sum.user && !sum.only.is_empty() {
            self.ledger.lost(
                origin,
                "one of address and password is enough there: here both are needed",
                "write two routes, one with `client`",
            );
        }
        Some(sum)
    }

    fn item(&mut self, node: &Node) -> Option<Demand> {
        let words: Vec<String> = node.args.iter().map(|arg| arg.to_ascii_lowercase()).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let blocks = |from: usize| node.args.iter().skip(from).map(|ip| short_block(ip)).collect();
        let demand = match (node.name.as_str(), words.as_slice()) {
            ("requireall", _) => self.demand(&node.inner, true).unwrap_or_default(),
            ("requireany", _) => self.demand(&node.inner, false).unwrap_or_default(),
            ("requirenone", _) => match self.demand(&node.inner, false) {
                Some(Demand { denied: false, only, but, user: false })
                    if but.is_empty() && !only.is_empty() =>
                {
                    Demand { but: only, ..Demand::default() }
                }
                _ => {
                    self.ledger.lost(node.origin, "it has no counterpart: nobody may use it", TODO);
                    Demand::denied()
                }
            },
            ("require", ["all", "granted"]) => Demand::default(),
            ("require", ["all", "denied"]) => Demand::denied(),
            ("require", ["ip", _, ..]) => Demand { only: blocks(1), ..Demand::default() },
            ("require", ["not", "ip", _, ..]) => Demand { but: blocks(2), ..Demand::default() },
            ("require", ["local"]) => {
                Demand { only: ["127.0.0.0/8", "::1"].map(str::to_owned).into(), ..Demand::default() }
            }
            ("require", ["valid-user"]) => Demand { user: true, ..Demand::default() },
            ("require", ["user", ..]) => {
                let why = "every user of the file may use it";
                self.ledger.lost(node.origin, why, "keep only these users in the file");
                Demand { user: true, ..Demand::default() }
            }
            ("require", _) => {
                self.ledger.lost(node.origin, "it has no counterpart: nobody may use it", TODO);
                Demand::denied()
            }
            _ => return None,
        };
        self.ledger.carried(node.origin);
        Some(demand)
    }

    /// `Order`, `Allow` and `Deny`: what is named second wins, and is also for clients that neither names.
    fn order(&mut self, nodes: &[Node]) -> Option<Clients> {
        let rules: Vec<&Node> =
            nodes.iter().filter(|node| matches!(node.name.as_str(), "order" | "allow" | "deny")).collect();
        let first = rules.first()?.origin;
        let order = rules.iter().rfind(|node| node.name == "order");
        let is_allowed_first = order.is_some_and(|node| {
            let text = node.args.join("").to_ascii_lowercase();
            text == "allow,deny" || text == "mutual-failure"
        });
        let list = |name: &str| -> Vec<String> {
            let named = rules.iter().filter(|node| node.name == name);
            named.flat_map(|node| node.args.iter().skip(1)).map(|text| short_block(text)).collect()
        };
        let (allowed, denied) = (list("allow"), list("deny"));
        let allowed = allowed.iter().map(|text| (Verdict::Allow, text.as_str()));
        let denied = denied.iter().map(|text| (Verdict::Deny, text.as_str()));
        let clients = match is_allowed_first {
            true => resolve(&denied.chain(allowed).collect::<Vec<_>>(), Verdict::Deny),
            false => resolve(&allowed.chain(denied).collect::<Vec<_>>(), Verdict::Allow),
        };
        rules.iter().for_each(|node| self.ledger.carried(node.origin));
        if let Some(any) =
            nodes.iter().find(|node| node.name == "satisfy" && node.arg(0).eq_ignore_ascii_case("any"))
        {
            self.ledger.lost(
                any.origin,
                "all of the rules must be met",
                "write two routes, one with `client`",
            );
        }
        clients.or_else(|| {
            let why = "clients are addresses and blocks, not names or variables: nobody may use it";
            self.ledger.lost(first, why, "set `allow` of the route");
            Some(Clients::None)
        })
    }

    fn basic_auth(&mut self, nodes: &[Node], around: &[&Node], origin: Origin, rules: &mut Table) {
        let find = |name: &str| {
            let outer = around.iter().rev().flat_map(|section| &section.inner);
            nodes.iter().chain(outer).find(|node| node.name == name)
        };
        find("authtype").iter().for_each(|node| self.ledger.carried(node.origin));
        find("authbasicprovider").iter().for_each(|node| self.ledger.carried(node.origin));
        let is_basic = find("authtype").is_none_or(|node| node.arg(0).eq_ignore_ascii_case("basic"));
        let provider = find("authbasicprovider").filter(|node| !node.arg(0).eq_ignore_ascii_case("file"));
        match find("authuserfile").filter(|_| is_basic && provider.is_none()) {
            Some(file) => {
                let mut table = Table::default();
                table.set("file", file.arg(0), file.origin);
                if let Some(realm) = find("authname") {
                    table.set("realm", realm.arg(0).replace(['"', '\\'], ""), realm.origin);
                }
                rules.set("basic_auth", table, file.origin);
                self.ledger.differs(file.origin, "its hashes must be by bcrypt (htpasswd -B) or argon2");
            }
            None => {
                let origin = provider.or_else(|| find("authtype")).map_or(origin, |node| node.origin);
                self.ledger.lost(
                    origin,
                    "it has no AuthUserFile for basic authentication: nobody may use it",
                    "set `basic_auth` or `auth_request`",
                );
                rules.set("respond", 403i64, origin);
            }
        }
    }
}

fn set_clients(table: &mut Table, clients: Clients, origin: Origin) {
    match clients {
        Clients::All => {}
        Clients::None => table.set("respond", 403i64, origin),
        Clients::Only(list) => table.set("allow", list, origin),
        Clients::Except(list) => table.set("deny", list, origin),
    }
}

/// `10.` and `192.168` are blocks in Apache.
fn short_block(text: &str) -> String {
    if text.eq_ignore_ascii_case("localhost") {
        return "127.0.0.1".to_owned();
    }
    if text.eq_ignore_ascii_case("all") {
        return "all".to_owned();
    }
    let parts: Vec<&str> = text.trim_end_matches('.').split('.').collect();
    let is_short =
        !text.contains(['/', ':']) && parts.len() < 4 && parts.iter().all(|part| part.parse::<u8>().is_ok());
    match is_short {
        true => {
            let mut all: Vec<&str> = parts.clone();
            all.resize(4, "0");
            format!("{}/{}", all.join("."), parts.len() * 8)
        }
        false => text.to_owned(),
    }
}

/// Responds with 403, in place of what the route was for.
pub(super) fn deny(route: &mut Route, origin: Origin) {
    const KEPT: [&str; 5] = ["host", "method", "header", "scheme", "client"];
    route.table.items.retain(|item| KEPT.contains(&item.key.as_str()));
    route.table.set("respond", 403i64, origin);
}
