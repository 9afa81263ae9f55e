//! `Require`, `Allow`, `Deny`, `AuthType Basic` (mod_authz_core, mod_access_compat, mod_auth_basic).

use super::Reader;
use crate::apache::syntax::Node;
use crate::cidr::{Clients, Rule, Verdict, resolve};
use crate::ledger::Origin;
use crate::model::Route;
use crate::table::Table;

impl<'a> Reader<'a> {
    /// `Require`, or `Order`, `Allow` and `Deny`, and passwords.
    pub(super) fn access(&mut self, nodes: &[Node], route: &mut Route) {
        let mut rules: Vec<(Verdict, String, Origin)> = Vec::new();
        let mut is_denied = None;
        let mut has_user = false;
        let any = nodes.iter().find(|node| node.name == "requireany");
        let all: Vec<&Node> = nodes.iter().chain(any.iter().flat_map(|node| &node.inner)).collect();
        any.iter().for_each(|node| self.ledger.carried(node.origin));
        for node in &all {
            let words: Vec<String> = node.args.iter().map(|arg| arg.to_ascii_lowercase()).collect();
            let first = words.first().map_or("", String::as_str);
            let second = words.get(1).map_or("", String::as_str);
            match (node.name.as_str(), first, second) {
                ("require", "all", "granted") => self.ledger.carried(node.origin),
                ("require", "all", "denied") => is_denied = Some(node.origin),
                ("require", "ip", _) => rules.extend(
                    node.args.iter().skip(1).map(|ip| (Verdict::Allow, short_block(ip), node.origin)),
                ),
                ("require", "local", _) => rules
                    .extend(["127.0.0.0/8", "::1"].map(|ip| (Verdict::Allow, ip.to_owned(), node.origin))),
                ("require", "valid-user", _) => {
                    has_user = true;
                    self.ledger.carried(node.origin);
                }
                ("require", "user", _) => {
                    has_user = true;
                    self.ledger.lost(
                        node.origin,
                        "every user of the file may use it",
                        "keep only these users in the file",
                    );
                }
                ("require", ..) => {
                    self.ledger.lost(
                        node.origin,
                        "it has no counterpart: nobody may use it",
                        "set `allow`, `basic_auth` or `auth_request`",
                    );
                    is_denied = Some(node.origin);
                }
                ("deny", "from", "all") => is_denied = is_denied.or(Some(node.origin)),
                ("allow", "from", "all") => self.ledger.carried(node.origin),
                ("allow", "from", _) => rules.extend(
                    node.args.iter().skip(1).map(|ip| (Verdict::Allow, short_block(ip), node.origin)),
                ),
                ("deny", "from", _) => rules
                    .extend(node.args.iter().skip(1).map(|ip| (Verdict::Deny, short_block(ip), node.origin))),
                ("order", ..) => self.ledger.carried(node.origin),
                ("satisfy", "any", _) => self.ledger.lost(
                    node.origin,
                    "all of the rules must be met",
                    "write two routes, one with `client`",
                ),
                _ => {}
            }
        }
        let has_allow = rules.iter().any(|(verdict, ..)| *verdict == Verdict::Allow);
        if let (Some(origin), false) = (is_denied, has_allow) {
            deny(route, origin);
            return;
        }
        is_denied.iter().for_each(|origin| self.ledger.carried(*origin));
        let texts: Vec<Rule<'_>> = rules.iter().map(|(verdict, text, _)| (*verdict, text.as_str())).collect();
        let end = if has_allow { Verdict::Deny } else { Verdict::Allow };
        let first = rules.first().map(|(.., origin)| *origin);
        match (resolve(&texts, end), first) {
            (Some(Clients::Only(list)), Some(origin)) => route.table.set("allow", list, origin),
            (Some(Clients::Except(list)), Some(origin)) => route.table.set("deny", list, origin),
            (Some(_), _) | (_, None) => {}
            (None, Some(origin)) => {
                self.ledger.lost(
                    origin,
                    "clients are addresses and blocks, not names: nobody may use it",
                    "set `allow` of the route",
                );
                route.table.set("deny", vec!["0.0.0.0/0", "::/0"], origin);
            }
        }
        rules.iter().for_each(|(.., origin)| self.ledger.carried(*origin));
        if has_user {
            self.basic_auth(nodes, route);
        }
    }

    fn basic_auth(&mut self, nodes: &[Node], route: &mut Route) {
        let find = |name: &str| nodes.iter().find(|node| node.name == name);
        find("authtype").iter().for_each(|node| self.ledger.carried(node.origin));
        find("authbasicprovider").iter().for_each(|node| self.ledger.carried(node.origin));
        let is_basic = find("authtype").is_none_or(|node| node.arg(0).eq_ignore_ascii_case("basic"));
        match find("authuserfile").filter(|_| is_basic) {
            Some(file) => {
                let mut table = Table::default();
                table.set("file", file.arg(0), file.origin);
                if let Some(realm) = find("authname") {
                    table.set("realm", realm.arg(0).replace(['"', '\\'], ""), realm.origin);
                }
                route.table.set("basic_auth", table, file.origin);
                self.ledger.differs(file.origin, "its hashes must be by bcrypt (htpasswd -B) or argon2");
            }
            None => {
                let origin = find("authtype").or_else(|| nodes.first()).map(|node| node.origin);
                if let Some(origin) = origin {
                    self.ledger.lost(
                        origin,
                        "it has no AuthUserFile for basic authentication: nobody may use it",
                        "set `basic_auth` or `auth_request`",
                    );
                    deny(route, origin);
                }
            }
        }
    }
}

/// `10.` and `192.168` are blocks in Apache.
fn short_block(text: &str) -> String {
    if text.eq_ignore_ascii_case("localhost") {
        return "127.0.0.1".to_owned();
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
    const TARGET: [&str; 10] = [
        "app",
        "files",
        "upstream",
        "try_files",
        "strip_prefix",
        "listing",
        "index",
        "max_body",
        "rewrite",
        "request_headers",
    ];
    for key in TARGET {
        route.table.remove(key);
    }
    route.table.set("respond", 403i64, origin);
}
