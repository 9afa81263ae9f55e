//! Sites become listeners: one for each set of addresses that serve the same sites, with the routes of all of them.
//!
//! A server chooses the site by the host first, and only then looks at its routes. So the routes of a site that has a
//! name come before those of a site with a pattern that matches that name, and each site ends with a route for all
//! paths: no request falls through to another site.

use crate::ledger::{Ledger, Origin};
use crate::model::{Bind, Listener, Model, PathMatch, Route, Site};
use crate::table::{Table, Value, one_or_list};

pub(crate) fn assemble(model: &mut Model, ledger: &mut Ledger) {
    join_apps(model, ledger);
    settle_files_before(model, ledger);
    let sites = std::mem::take(&mut model.sites);
    let mut groups: Vec<Group> = Vec::new();
    for (index, site) in sites.iter().enumerate() {
        for bind in &site.binds {
            join(&mut groups, index, bind, ledger);
        }
    }
    merge_covered(&mut groups, ledger);
    merge_equal(&mut groups);
    let mut unreachable = Vec::new();
    for group in groups {
        let listener = listener(&group, &sites, &model.listeners, &mut unreachable, ledger);
        model.listeners.push(listener);
    }
    // What is reached on another listener is not lost.
    unreachable
        .retain(|origin| !model.listeners.iter().any(|listener| listener.origins.contains(&Some(*origin))));
    for origin in unreachable {
        ledger.differs(origin, "no request reaches it: a route before it takes them all");
    }
}

/// An upstream that is the address of an app of the input is that app: the web server and the app server of one site.
fn join_apps(model: &mut Model, ledger: &mut Ledger) {
    let mut at = 0;
    while let Some(site) = model.sites.get(at) {
        let found = site.app.clone().and_then(|app| {
            let is_own = |url: &str| site.binds.iter().any(|bind| leads_to(url, &bind.address));
            let upstream = model.upstreams.iter().position(
                |upstream| matches!(upstream.table.get("url"), Some(Value::Text(url)) if is_own(url)),
            )?;
            Some((app, upstream))
        });
        let Some((app, upstream)) = found else {
            at += 1;
            continue;
        };
        let upstream = model.upstreams.remove(upstream);
        upstream.table.settle(ledger);
        upstream.origin.iter().for_each(|origin| ledger.carried(*origin));
        for route in model.sites.iter_mut().flat_map(|site| &mut site.routes) {
            if route.table.get("upstream") == Some(&Value::from(upstream.name.as_str())) {
                let old = route.table.remove("upstream");
                route.table.set("app", app.as_str(), old.and_then(|item| item.origin));
            }
        }
        let has_more = model.upstreams.iter().any(|other| {
            let own = model.sites.get(at).map(|site| &site.binds);
            matches!((other.table.get("url"), own), (Some(Value::Text(url)), Some(binds)) if binds.iter().any(|bind| leads_to(url, &bind.address)))
        });
        if !has_more {
            let site = model.sites.remove(at);
            for origin in site.binds.iter().filter_map(|bind| bind.origin).chain(site.origin) {
                ledger.carried(origin);
            }
            site.listener.ignore(ledger);
        }
    }
}

/// An app can have files before it, an upstream cannot.
fn settle_files_before(model: &mut Model, ledger: &mut Ledger) {
    for route in model.sites.iter_mut().flat_map(|site| &mut site.routes) {
        let Some(before) = route.files_before.take() else { continue };
        if route.table.has("app") {
            route.table.set("try_files", before.directory, before.root);
            ledger.carried(before.origin);
            continue;
        }
        let directory = &before.directory;
        ledger.dropped(
            before.origin,
            format!("{directory} cannot be read here, and a route cannot try files before an upstream"),
            format!("add a route with `files = \"{directory}\"` for the names in it, or let Keepwarm run the app (`try_files`)"),
        );
    }
}

/// Whether a URL of an upstream leads to an address.
fn leads_to(url: &str, address: &str) -> bool {
    let address = address.replace("0.0.0.0:", "127.0.0.1:");
    match url.strip_prefix("http://") {
        Some(host) => host.replace("localhost:", "127.0.0.1:") == address,
        None => url == address,
    }
}

/// Addresses, and the sites that are served there.
struct Group {
    addresses: Vec<String>,
    tls: bool,
    proxy_protocol: bool,
    /// Sites, each with whether it is the default, in the order of the input.
    members: Vec<(usize, bool)>,
    bind: Bind,
}

fn join(groups: &mut Vec<Group>, site: usize, bind: &Bind, ledger: &mut Ledger) {
    if let Some(group) = groups.iter_mut().find(|group| group.addresses.contains(&bind.address)) {
        if let (Some(origin), true) = (bind.origin, group.tls != bind.tls) {
            ledger
                .differs(origin, format!("all sites of {} are served {}", bind.address, tls_word(group.tls)));
        }
        group.proxy_protocol |= bind.proxy_protocol;
        if !group.members.iter().any(|(member, _)| *member == site) {
            group.members.push((site, bind.is_default));
        }
        return;
    }
    groups.push(Group {
        addresses: vec![bind.address.clone()],
        tls: bind.tls,
        proxy_protocol: bind.proxy_protocol,
        members: vec![(site, bind.is_default)],
        bind: bind.clone(),
    });
}

fn tls_word(tls: bool) -> &'static str {
    if tls { "over TLS" } else { "without TLS" }
}

/// An address of one interface beside all of them: two listeners cannot share a port.
fn merge_covered(groups: &mut Vec<Group>, ledger: &mut Ledger) {
    let mut at = 0;
    while let Some(group) = groups.get(at) {
        let covering = group.addresses.first().and_then(|address| {
            let (host, port) = address.rsplit_once(':')?;
            let all = if host.starts_with('[') { "[::]" } else { "0.0.0.0" };
            let wide = format!("{all}:{port}");
            (host != all).then(|| groups.iter().position(|other| other.addresses.contains(&wide)))?
        });
        let Some(covering) = covering else {
            at += 1;
            continue;
        };
        let narrow = groups.remove(at);
        let Some(wide) = groups.get_mut(covering - usize::from(covering > at)) else { continue };
        for (site, _) in narrow.members {
            if !wide.members.iter().any(|(member, _)| *member == site) {
                wide.members.push((site, false));
            }
        }
        if let Some(origin) = narrow.bind.origin {
            let address = narrow.addresses.join(", ");
            ledger.lost(
                origin,
                format!(
                    "{address} is part of an address for all interfaces: its sites are served on all of them"
                ),
                "give it a port of its own, or `client` to its routes",
            );
        }
    }
}

/// Addresses that serve the same sites are one listener.
fn merge_equal(groups: &mut Vec<Group>) {
    let mut merged: Vec<Group> = Vec::new();
    for group in groups.drain(..) {
        let same = merged.iter_mut().find(|other| {
            other.members == group.members
                && other.tls == group.tls
                && other.proxy_protocol == group.proxy_protocol
        });
        match same {
            Some(other) => other.addresses.extend(group.addresses),
            None => merged.push(group),
        }
    }
    *groups = merged;
}

fn listener(
    group: &Group,
    sites: &[Site],
    others: &[Listener],
    unreachable: &mut Vec<Origin>,
    ledger: &mut Ledger,
) -> Listener {
    let mut table = Table::default();
    let members: Vec<&Site> = group.members.iter().filter_map(|(site, _)| sites.get(*site)).collect();
    table.set("bind", one_or_list(group.addresses.clone()), group.bind.origin);
    if group.proxy_protocol {
        table.set("proxy_protocol", true, group.bind.origin);
    }
    let default = group.members.iter().position(|(_, is_default)| *is_default).unwrap_or(0);
    // Of settings of the listener, those of the default site hold.
    let first = members.get(default).into_iter().chain(members.iter());
    for site in first {
        take_settings(&mut table, site, ledger);
    }
    if group.tls {
        set_tls(&mut table, default, &members, ledger);
    }
    let (mut routes, mut origins) = routes(default, &members, group.tls, ledger);
    hoist(&mut table, &mut routes);
    drop_unreachable(&mut routes, &mut origins, unreachable);
    // What is equal in several listeners is written once for each.
    for origin in group.members.iter().filter_map(|(site, _)| sites.get(*site)?.origin) {
        ledger.carried(origin);
    }
    for bind in members.iter().flat_map(|site| &site.binds) {
        if let Some(origin) = bind.origin {
            ledger.carried(origin);
        }
    }
    table.settle(ledger);
    routes.iter().for_each(|route| route.settle(ledger));
    origins.iter().flatten().for_each(|origin| ledger.carried(*origin));
    Listener { name: name(group, others), origin: group.bind.origin, table, routes, origins }
}

fn take_settings(table: &mut Table, site: &Site, ledger: &mut Ledger) {
    for item in &site.listener.items {
        match (table.get(&item.key), &item.value) {
            (None, _) => table.items.push(item.clone()),
            (Some(known), value) if known == value => {
                if let Some(origin) = item.origin {
                    ledger.carried(origin);
                }
            }
            (Some(Value::Table(_)), Value::Table(new)) => {
                for inner in &new.items {
                    let known = table.within(&[&item.key], None);
                    match known.get(&inner.key).map(|old| *old == inner.value) {
                        None => known.items.push(inner.clone()),
                        Some(true) => {}
                        Some(false) => differs_from_default(inner.origin.or(item.origin), ledger),
                    }
                }
            }
            _ => differs_from_default(item.origin, ledger),
        }
    }
}

fn differs_from_default(origin: Option<Origin>, ledger: &mut Ledger) {
    if let Some(origin) = origin {
        ledger.differs(origin, "applies to all sites of the listener: that of its default site is used");
    }
}

fn set_tls(table: &mut Table, default: usize, members: &[&Site], ledger: &mut Ledger) {
    // A client certificate is required before the site is known.
    let required =
        |site: &Site| ["client_ca", "client_auth", "client_crl"].map(|key| site.tls.get(key).cloned());
    if members.windows(2).any(|pair| matches!(pair, [a, b] if required(a) != required(b))) {
        for item in members.iter().flat_map(|site| &site.tls.items) {
            if let (Some(origin), true) = (item.origin, item.key.starts_with("client_")) {
                ledger.lost(
                    origin,
                    "certificates of clients are the same for all sites of a listener",
                    "give the site a listener of its own",
                );
            }
        }
    }
    let mut tls = Table::default();
    let mut certificates: Vec<Value> = Vec::new();
    let mut acme: Vec<String> = Vec::new();
    let ordered = members
        .get(default)
        .into_iter()
        .chain(members.iter().enumerate().filter(|(index, _)| *index != default).map(|(_, site)| site));
    for site in ordered {
        for certificate in &site.certificates {
            let mut pair = Table::default();
            pair.set("cert", certificate.cert.as_str(), certificate.origin);
            pair.set("key", certificate.key.as_str(), None);
            pair.settle(ledger);
            if !certificates.contains(&Value::Table(pair.clone())) {
                certificates.push(pair.into());
            }
        }
        acme.extend(site.acme.iter().cloned());
        for item in &site.tls.items {
            match tls.get(&item.key) {
                None => tls.items.push(item.clone()),
                Some(value) if *value == item.value => {
                    item.origin.iter().for_each(|origin| ledger.carried(*origin))
                }
                Some(_) => differs_from_default(item.origin, ledger),
            }
        }
    }
    match certificates.as_slice() {
        [Value::Table(pair)] => tls.items.splice(0..0, pair.items.clone()).for_each(drop),
        [] => {}
        _ => tls.set("certificates", Value::List(certificates), None),
    }
    acme.sort();
    acme.dedup();
    if !acme.is_empty() {
        tls.set("acme", one_or_list(acme), None);
    }
    table.set("tls", tls, None);
}

/// A site, or a part of its names.
struct Part<'a> {
    site: &'a Site,
    hosts: Vec<String>,
    rank: Rank,
}

/// How specific hosts are; the lowest comes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Exact,
    /// `*.example.com`, the longest first.
    Wildcard(std::cmp::Reverse<usize>),
    /// `example.*`, the longest first.
    End(std::cmp::Reverse<usize>),
    Regex,
    All,
}

fn rank(host: &str) -> Rank {
    match host {
        "" => Rank::All,
        host if host.starts_with('~') => Rank::Regex,
        host if host.ends_with('*') => Rank::End(std::cmp::Reverse(host.len())),
        host if host.contains('*') => Rank::Wildcard(std::cmp::Reverse(host.len())),
        _ => Rank::Exact,
    }
}

fn routes(
    default: usize,
    members: &[&Site],
    tls: bool,
    ledger: &mut Ledger,
) -> (Vec<Table>, Vec<Option<Origin>>) {
    let mut parts: Vec<Part<'_>> = Vec::new();
    for (index, site) in members.iter().enumerate() {
        if index == default {
            // Its names need no mention where no pattern of another site can match them: what no other site has is its.
            let others = members.iter().enumerate().filter(|(other, _)| *other != index);
            let patterns: Vec<&String> = others.flat_map(|(_, other)| &other.hosts).collect();
            for host in site.hosts.iter().filter(|host| {
                patterns.iter().any(|pattern| rank(pattern) >= rank(host) && may_match(pattern, host))
            }) {
                parts.push(Part { site, hosts: vec![host.clone()], rank: rank(host) });
            }
            parts.push(Part { site, hosts: Vec::new(), rank: Rank::All });
            continue;
        }
        let mut hosts = site.hosts.clone();
        hosts.sort_by_key(|host| rank(host));
        for host in hosts {
            let rank = rank(&host);
            match parts.iter_mut().find(|part| std::ptr::eq(part.site, *site) && part.rank == rank) {
                Some(part) => part.hosts.push(host),
                None => parts.push(Part { site, hosts: vec![host], rank }),
            }
        }
    }
    join_wildcards(&mut parts);
    parts.sort_by_key(|part| part.rank);
    let (mut tables, mut origins) = (Vec::new(), Vec::new());
    for part in &parts {
        let other = Value::from(if tls { "http" } else { "https" });
        let is_here = |route: &Route| !part.site.has_own_scheme || route.table.get("scheme") != Some(&other);
        for route in part_routes(part.site).into_iter().filter(is_here) {
            tables.push(route_table(&route, &part.hosts, tls, ledger));
            origins.push(route.origin);
        }
    }
    (tables, origins)
}

/// Whether a pattern of hosts matches a host; one of two patterns may.
fn may_match(pattern: &str, host: &str) -> bool {
    if rank(host) != Rank::Exact {
        return true;
    }
    match (pattern.strip_prefix('~'), pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (None, None, None) => pattern == host,
        (Some(expression), ..) => {
            let regex = regex::bytes::RegexBuilder::new(expression).unicode(false).build();
            regex.map_or(true, |regex| regex.is_match(host.as_bytes()))
        }
        (_, Some(end), _) => host.ends_with(end),
        (.., Some(start)) => host.starts_with(start),
    }
}

/// A name and its wildcard are one part where no other site has patterns that could come between.
fn join_wildcards(parts: &mut Vec<Part<'_>>) {
    let named: Vec<*const Site> = parts
        .iter()
        .filter(|part| part.rank != Rank::All)
        .map(|part| std::ptr::from_ref(part.site))
        .collect();
    let only_one = named.windows(2).all(|pair| matches!(pair, [a, b] if a == b));
    if !only_one {
        return;
    }
    let mut joined: Vec<Part<'_>> = Vec::new();
    for part in parts.drain(..) {
        match joined.iter_mut().find(|other| std::ptr::eq(other.site, part.site) && other.rank != Rank::All) {
            Some(other) if part.rank != Rank::All => other.hosts.extend(part.hosts),
            _ => joined.push(part),
        }
    }
    *parts = joined;
}

/// The routes of a site, with one for all paths at the end.
fn part_routes(site: &Site) -> Vec<Route> {
    let mut routes = site.routes.clone();
    let is_complete = routes.iter().any(Route::is_for_all) || site.listener.has("redirect_to_https");
    if !is_complete {
        routes.push(Route::status(None, PathMatch::Any, 404));
    }
    routes
}

fn route_table(route: &Route, of_site: &[String], tls: bool, ledger: &mut Ledger) -> Table {
    let hosts = of_site;
    let mut table = Table::default();
    let mut patterns = route.path.patterns();
    patterns.extend(route.except.iter().map(|pattern| format!("!{pattern}")));
    let condition = route.table.get("host").filter(|_| !hosts.is_empty());
    let hosts = condition.map_or_else(|| Some(hosts.to_vec()), |condition| both(hosts, condition));
    let Some(hosts) = hosts else {
        // An expression, and hosts that are patterns: nothing says both.
        if let Some(origin) = route.table.origin("host") {
            ledger.lost(
                origin,
                "a condition on the host, within a server whose names are patterns",
                "write the route with both by hand; what it is for gets 501",
            );
        }
        let mut closed =
            Route { except: route.except.clone(), ..Route::status(route.origin, route.path.clone(), 501) };
        closed
            .table
            .items
            .extend(route.table.items.iter().filter(|item| CONDITIONS.contains(&item.key.as_str())).cloned());
        return route_table(&closed, of_site, tls, ledger);
    };
    let has_hosts = !hosts.is_empty();
    if has_hosts {
        table.set("host", one_or_list(hosts), None);
    }
    if !patterns.is_empty() {
        table.set("path", one_or_list(patterns), route.origin);
    }
    for item in &route.table.items {
        // A scheme that the listener has anyway.
        let is_own_scheme =
            item.key == "scheme" && item.value == Value::from(if tls { "https" } else { "http" });
        if !(is_own_scheme || has_hosts && item.key == "host") {
            table.items.push(item.clone());
        }
    }
    table
}

/// The hosts of a site that meet a condition of a route; `None`: no patterns say so.
fn both(hosts: &[String], condition: &Value) -> Option<Vec<String>> {
    let Value::Text(condition) = condition else { return None };
    if condition.starts_with('!') {
        let mut both = hosts.to_vec();
        both.push(condition.clone());
        return Some(both);
    }
    let met: Vec<String> = hosts
        .iter()
        .filter(|host| rank(host) == Rank::Exact && may_match_text(condition, host))
        .cloned()
        .collect();
    let has_patterns = hosts.iter().any(|host| rank(host) != Rank::Exact);
    match rank(condition) {
        Rank::Exact if met.is_empty() && hosts.iter().any(|host| may_match_text(host, condition)) => {
            Some(vec![condition.clone()])
        }
        Rank::Regex | Rank::Wildcard(_) | Rank::End(_) | Rank::All if has_patterns => None,
        // No host of the site meets it.
        _ if met.is_empty() => {
            let mut none = hosts.to_vec();
            none.extend(hosts.iter().map(|host| format!("!{host}")));
            Some(none)
        }
        _ => Some(met),
    }
}

fn may_match_text(condition: &str, host: &str) -> bool {
    match rank(condition) {
        Rank::Exact => condition == host,
        _ => may_match(condition, host),
    }
}

/// Conditions of a route, apart from that on the host.
const CONDITIONS: [&str; 7] = ["path", "method", "header", "query", "cookie", "client", "scheme"];

/// Routes behind one of the same hosts that takes all requests.
fn drop_unreachable(
    routes: &mut Vec<Table>,
    origins: &mut Vec<Option<Origin>>,
    unreachable: &mut Vec<Origin>,
) {
    let mut kept: Vec<Table> = Vec::new();
    let mut of = Vec::new();
    for (route, origin) in routes.drain(..).zip(origins.drain(..)) {
        let is_covered = kept.iter().any(|earlier| {
            let same = |key: &str| earlier.get(key) == route.get(key);
            (!earlier.has("host") || same("host"))
                && (CONDITIONS.iter().all(|key| !earlier.has(key)) || CONDITIONS.iter().all(|key| same(key)))
        });
        match is_covered {
            true => unreachable.extend(origin),
            false => {
                kept.push(route);
                of.push(origin);
            }
        }
    }
    (*routes, *origins) = (kept, of);
}

/// What all routes have in common becomes a setting of the listener.
fn hoist(table: &mut Table, routes: &mut [Table]) {
    if routes.len() < 2 {
        return;
    }
    for key in ["compress", "headers", "error_pages"] {
        let with_body = routes.iter().find(|route| key != "compress" || !has_no_body(route));
        let Some(first) = with_body.and_then(|route| route.items.iter().find(|item| item.key == key)) else {
            continue;
        };
        let first = first.clone();
        let fits =
            |route: &Table| route.get(key) == Some(&first.value) || (key == "compress" && has_no_body(route));
        if table.has(key) || !routes.iter().all(fits) || has_captures(&first.value) {
            continue;
        }
        table.items.push(first);
        for route in routes.iter_mut() {
            route.remove(key);
        }
    }
}

/// A response whose body is none or a short one of Keepwarm.
fn has_no_body(route: &Table) -> bool {
    route.has("redirect") || matches!(route.get("respond"), Some(Value::Integer(_)))
}

/// `$1` to `$9` belong to the path of a route.
fn has_captures(value: &Value) -> bool {
    match value {
        Value::Text(text) => text
            .replace("$$", "")
            .split('$')
            .skip(1)
            .any(|rest| rest.starts_with(|c: char| c.is_ascii_digit())),
        Value::List(list) => list.iter().any(has_captures),
        Value::Table(table) => table.items.iter().any(|item| has_captures(&item.value)),
        Value::Open(_) | Value::Integer(_) | Value::Flag(_) => false,
    }
}

fn name(group: &Group, others: &[Listener]) -> String {
    let port =
        group.addresses.first().and_then(|address| address.rsplit_once(':')).map_or("", |(_, port)| port);
    let wish = match (port, group.tls) {
        ("80", false) => "http".to_owned(),
        ("443", true) => "https".to_owned(),
        (port, _) if !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) => format!("port-{port}"),
        _ => "socket".to_owned(),
    };
    let mut name = wish.clone();
    let mut number = 2;
    while others.iter().any(|other| other.name == name) {
        name = format!("{wish}-{number}");
        number += 1;
    }
    name
}
