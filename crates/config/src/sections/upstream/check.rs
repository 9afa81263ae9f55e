//! Checks of an upstream that involve several keys.

use super::{EndpointDraft, UpstreamDraft};
use crate::checker::Checker;
use crate::model::{Bind, EndpointAddress, UpstreamEndpoint};
use crate::raw::Table;
use crate::shape::Origin;

/// The keys of TLS.
const TLS_KEYS: [&str; 6] = ["ca", "ca_system", "cert", "key", "min_tls", "server_name"];

impl UpstreamDraft {
    /// Resolves the endpoints from `url` or `endpoints`, one of which is required.
    pub(super) fn resolve_endpoints(&mut self, table: &Table, cx: &mut Checker<'_>) {
        let name = cx.name();
        match (table.entry("url"), table.entry("endpoints")) {
            (None, None) => {
                cx.problem(self.span, format!("`{name}` has neither `url` nor `endpoints`"))
                    .expected("`url`, for example url = \"https://search.internal:9243\", or `endpoints`")
                    .report(cx);
            }
            (Some(url), Some(endpoints)) => {
                cx.both(url, endpoints)
                    .expected("one of the two")
                    .help("`url` is short for one endpoint: put it in the list")
                    .report(cx);
            }
            (Some(_), None) | (None, Some(_)) => {}
        }
        self.check_schemes(cx);
        self.check_addresses(cx);
        self.check_weights(cx);
        self.check_priorities(cx);
        self.check_srv(table, cx);
        let of_url = self
            .url
            .iter()
            .map(|(origin, _)| UpstreamEndpoint::new(origin.address.clone(), origin.authority.clone()));
        let of_list = self.endpoints.iter().filter_map(|endpoint| {
            let origin = endpoint.origin.as_ref()?;
            let (address, authority) = (origin.address.clone(), origin.authority.clone());
            Some(UpstreamEndpoint {
                address,
                authority,
                weight: endpoint.weight,
                priority: endpoint.priority,
            })
        });
        self.upstream.endpoints = of_url.chain(of_list).collect();
    }

    fn check_schemes(&self, cx: &mut Checker<'_>) {
        let tls = |endpoint: &EndpointDraft| endpoint.origin.as_ref().map(|origin| origin.tls);
        let Some((first, wanted)) = self.endpoints.iter().find_map(|one| Some((one, tls(one)?))) else {
            return;
        };
        let Some(other) = self.endpoints.iter().find(|one| tls(one).is_some_and(|tls| tls != wanted)) else {
            return;
        };
        let word = |tls: bool| if tls { "over TLS" } else { "in plaintext" };
        cx.problem(other.span, format!("`{}` has endpoints both over TLS and in plaintext", cx.name()))
            .key("upstream.NAME.endpoints")
            .related(cx.source_map.location(first.span), word(wanted))
            .expected(
                "one scheme for all endpoints: what may go to one in plaintext may go to all in plaintext",
            )
            .help(format!("this one is {}; if both are intended, make two upstreams", word(!wanted)))
            .report(cx);
    }

    fn check_addresses(&self, cx: &mut Checker<'_>) {
        let address =
            |endpoint: &EndpointDraft| endpoint.origin.as_ref().map(|origin| origin.address.clone());
        for (index, endpoint) in self.endpoints.iter().enumerate() {
            let Some(own) = address(endpoint) else { continue };
            let Some(earlier) =
                self.endpoints.iter().take(index).find(|one| address(one).as_ref() == Some(&own))
            else {
                continue;
            };
            cx.problem(endpoint.span, format!("`{}` has the endpoint `{own}` twice", cx.name()))
                .key("upstream.NAME.endpoints")
                .related(cx.source_map.location(earlier.span), "the other one")
                .help("to give it a larger share of the calls, set its `weight`")
                .report(cx);
        }
    }

    fn check_weights(&self, cx: &mut Checker<'_>) {
        let Some(first) = self.endpoints.first().filter(|_| self.endpoints.iter().all(|one| one.weight == 0))
        else {
            return;
        };
        cx.problem(
            first.weight_span.unwrap_or(first.span),
            format!("no endpoint of `{}` gets any calls: the weight of each is 0", cx.name()),
        )
        .key("upstream.NAME.endpoints.weight")
        .expected("a `weight` above 0 for at least one endpoint")
        .report(cx);
    }

    fn check_priorities(&self, cx: &mut Checker<'_>) {
        let mut known: Vec<u32> = self.endpoints.iter().map(|endpoint| endpoint.priority).collect();
        known.sort_unstable();
        known.dedup();
        let Some((wanted, found)) = (0u32..).zip(known).find(|(wanted, found)| wanted != found) else {
            return;
        };
        let Some(endpoint) = self.endpoints.iter().find(|endpoint| endpoint.priority == found) else {
            return;
        };
        cx.problem(
            endpoint.priority_span.unwrap_or(endpoint.span),
            format!("`{}` has endpoints of priority {found}, but none of priority {wanted}", cx.name()),
        )
        .key("upstream.NAME.endpoints.priority")
        .expected("priorities from 0 on without gaps; 0 is used first")
        .help(format!("write priority = {wanted}"))
        .report(cx);
    }

    fn check_srv(&self, table: &Table, cx: &mut Checker<'_>) {
        if self.upstream.dns.srv.is_none() {
            return;
        }
        let at = match table.entry("dns").map(|entry| &entry.value.value) {
            Some(crate::raw::Value::Table(dns)) => dns.entry("srv").map(|entry| entry.key_span),
            _ => None,
        };
        let span = at.or(table.entry("dns").map(|entry| entry.key_span)).unwrap_or(self.span);
        let (other, what) = match (table.entry("endpoints"), &self.url) {
            (Some(endpoints), _) => {
                (endpoints.key_span, "`dns.srv` and `endpoints`, which exclude each other")
            }
            (None, Some((origin, url))) if matches!(origin.address, EndpointAddress::Unix(_)) => {
                (*url, "`dns.srv`, but is a Unix socket")
            }
            _ => return,
        };
        let expected = "`dns.srv` with a `url` that has a host: SRV records provide hosts, ports, weights and priorities";
        cx.problem(span, format!("`{}` has {what}", cx.name()))
            .key("upstream.NAME.dns.srv")
            .related(cx.source_map.location(other), "here")
            .expected(expected)
            .report(cx);
    }

    pub(super) fn reject_tls_keys(&self, table: &Table, cx: &mut Checker<'_>) {
        let name = cx.name();
        for key in TLS_KEYS {
            let Some(entry) = table.entry(key) else { continue };
            let mut problem = cx
                .problem(entry.key_span, format!("`{name}` has `{key}`, but does not use TLS"))
                .key(format!("upstream.NAME.{key}"))
                .expected("`https://` in its `url`, or no TLS keys");
            let of_url = self.url.as_ref().map(|(_, span)| *span);
            let url = of_url.or(self.endpoints.first().map(|endpoint| endpoint.span));
            if let Some(url) = url {
                problem = problem.related(cx.source_map.location(url), "in plaintext");
            }
            problem.report(cx);
        }
    }

    pub(super) fn check_tls_keys(&self, table: &Table, cx: &mut Checker<'_>) {
        let name = cx.name();
        for (one, other) in [("cert", "key"), ("key", "cert")] {
            let Some(entry) = table.entry(one).filter(|_| table.entry(other).is_none()) else { continue };
            cx.problem(entry.key_span, format!("`{name}` has `{one}` without `{other}`"))
                .key(format!("upstream.NAME.{one}"))
                .expected("both the certificate and its private key")
                .report(cx);
        }
        if let Some(entry) = table.entry("ca_system").filter(|_| table.entry("ca").is_none()) {
            cx.problem(entry.key_span, format!("`{name}` has `ca_system` without `ca`"))
                .key("upstream.NAME.ca_system")
                .help("without `ca`, the system's certificate authorities are trusted anyway: leave it out")
                .report(cx);
        }
    }

    /// Any client that reaches a door can call the upstream as the app does.
    pub(super) fn check_public(&self, cx: &mut Checker<'_>) {
        if self.upstream.public {
            return;
        }
        for (bind, span) in self.bind.iter().filter(|(bind, _)| !bind.is_local()) {
            let port = match bind {
                Bind::Tcp(address) => address.port(),
                Bind::Host { port, .. } => *port,
                Bind::Unix(_) => continue,
            };
            let message = format!(
                "`{bind}` can be reached from other machines, and anyone who reaches a door can call `{}` as the app does",
                cx.name()
            );
            let help = format!(
                "write bind = \"127.0.0.1:{port}\"; or public = true, if anyone who can reach it may use it"
            );
            cx.problem(*span, message)
                .key("upstream.NAME.bind")
                .expected("an address of this machine (127.0.0.1, [::1], localhost, unix:), or public = true")
                .help(help)
                .report(cx);
        }
    }

    /// A call that comes back to its own door loops until a limit stops it.
    pub(super) fn check_loop(&self, cx: &mut Checker<'_>) {
        let is_own = |origin: &Origin| self.bind.iter().find(|(bind, _)| is_door(&origin.address, bind));
        let of_url = self.url.iter().map(|(origin, span)| (origin, *span));
        let of_list =
            self.endpoints.iter().filter_map(|endpoint| Some((endpoint.origin.as_ref()?, endpoint.span)));
        for (origin, span) in of_url.chain(of_list).filter(|_| self.upstream.dns.srv.is_none()) {
            let Some((bind, door)) = is_own(origin) else { continue };
            cx.problem(span, format!("`{}` leads to its own door: a call would loop", cx.name()))
                .key("upstream.NAME.url")
                .related(cx.source_map.location(*door), format!("`{bind}`"))
                .expected("the address of the service in `url`, and another address, for the app, in `bind`")
                .report(cx);
        }
    }

    /// The name of an upstream is part of the name of its variable.
    pub(super) fn check_name(&self, cx: &mut Checker<'_>) {
        let name = self.upstream.name.as_str();
        if name.starts_with('_') || name.ends_with('_') {
            let message = format!(
                "`{name}` is not a valid name for an upstream: with `_` at the start or end, variables would be ambiguous"
            );
            let help = format!("write [upstream.{}]", name.trim_matches('_'));
            cx.problem(self.span, message).key("upstream").help(help).report(cx);
        }
    }

    /// Numbers that contradict each other.
    pub(super) fn check_numbers(&self, table: &Table, cx: &mut Checker<'_>) {
        let name = cx.name();
        let pool = &self.upstream.pool;
        let dns = &self.upstream.dns;
        if let (Some(_), Some(entry)) = (self.upstream.proxy_protocol, table.entry("proxy_protocol"))
            && pool.min_idle > 0
        {
            let message = format!("`{name}` has `proxy_protocol`, and `pool.min_idle` above 0");
            cx.problem(entry.key_span, message)
                .key("upstream.NAME.proxy_protocol")
                .expected("no `pool.min_idle`")
                .help("a connection is made for a client that is known: none can be made beforehand")
                .report(cx);
        }
        let contradictions = [
            ("pool", "min_idle", "idle", pool.min_idle > pool.idle),
            ("pool", "min_idle", "max", pool.max.is_some_and(|max| pool.min_idle > max)),
            ("dns", "min_ttl", "max_ttl", dns.min_ttl > dns.max_ttl),
        ];
        for (section, low, high, wrong) in contradictions {
            let Some(entry) = table.entry(section).filter(|_| wrong) else { continue };
            let crate::raw::Value::Table(inner) = &entry.value.value else { continue };
            let at = inner.entry(low).or(inner.entry(high)).map_or(entry.key_span, |entry| entry.key_span);
            cx.problem(at, format!("`{name}.{section}.{low}` is above `{name}.{section}.{high}`"))
                .key(format!("upstream.NAME.{section}.{low}"))
                .expected(format!("a `{low}` of at most `{high}`"))
                .report(cx);
        }
    }
}

/// Whether a connection to `address` arrives at `bind`, as far as that is known without looking up names.
fn is_door(address: &EndpointAddress, bind: &Bind) -> bool {
    match (address, bind) {
        (EndpointAddress::Ip(address), Bind::Tcp(bind)) => {
            let (ip, own) = (address.ip().to_canonical(), bind.ip().to_canonical());
            let arrives =
                ip == own || (own.is_unspecified() && ip.is_loopback() && ip.is_ipv4() == own.is_ipv4());
            arrives && address.port() == bind.port()
        }
        (EndpointAddress::Ip(address), Bind::Host { host, port }) => {
            host == "localhost" && address.ip().is_loopback() && address.port() == *port
        }
        (EndpointAddress::Name { host, port }, Bind::Tcp(bind)) => {
            let here = bind.ip().is_loopback() || bind.ip().is_unspecified();
            host == "localhost" && here && bind.port() == *port
        }
        (EndpointAddress::Name { host, port }, Bind::Host { host: own, port: bound }) => {
            host == own && port == bound
        }
        (EndpointAddress::Unix(path), Bind::Unix(bind)) => path == bind,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_to_a_door_are_recognized() {
        let tcp = |text: &str| Bind::Tcp(text.parse().unwrap());
        let ip = |text: &str| EndpointAddress::Ip(text.parse().unwrap());
        let host = |host: &str, port| Bind::Host { host: host.to_owned(), port };
        let name = |host: &str, port| EndpointAddress::Name { host: host.to_owned(), port };
        for (address, bind) in [
            (ip("127.0.0.1:80"), tcp("127.0.0.1:80")),
            (ip("[::ffff:127.0.0.1]:80"), tcp("127.0.0.1:80")),
            (ip("127.0.0.1:80"), tcp("0.0.0.0:80")),
            (ip("127.0.0.1:80"), host("localhost", 80)),
            (name("localhost", 80), tcp("127.0.0.1:80")),
            (name("door", 80), host("door", 80)),
            (EndpointAddress::Unix("/a".into()), Bind::Unix("/a".into())),
        ] {
            assert!(is_door(&address, &bind), "{address} {bind}");
        }
        for (address, bind) in [
            (ip("127.0.0.1:81"), tcp("127.0.0.1:80")),
            (ip("10.0.0.1:80"), tcp("0.0.0.0:80")),
            (ip("[::1]:80"), tcp("0.0.0.0:80")),
            (name("search", 80), tcp("127.0.0.1:80")),
            (EndpointAddress::Unix("/a".into()), tcp("127.0.0.1:80")),
        ] {
            assert!(!is_door(&address, &bind), "{address} {bind}");
        }
    }
}
