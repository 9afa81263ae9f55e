//! Addresses must not overlap.

use std::net::{IpAddr, SocketAddr};

use crate::checker::Checker;
use crate::model::Bind;
use crate::raw::Span;
use crate::report::Problem;
use crate::sections::{AdminDraft, ListenDraft, UpstreamDraft};

/// An address, with the section that uses it and the key in the documentation.
struct AddressUse<'a> {
    section: String,
    key: &'static str,
    bind: &'a Bind,
    span: Span,
}

/// Rejects overlapping addresses of listeners, doors and `[admin]`: with `SO_REUSEPORT` the kernel would accept both,
/// and distribute connections between them.
pub(super) fn check(
    listeners: &[ListenDraft],
    admin: Option<&AdminDraft>,
    upstreams: &[UpstreamDraft],
    cx: &mut Checker<'_>,
) {
    let mut all: Vec<AddressUse<'_>> = Vec::new();
    for listen in listeners {
        add_uses(&mut all, &format!("listen.{}", listen.name), "listen.NAME.bind", &listen.bind);
    }
    if let Some(admin) = admin {
        add_uses(&mut all, "admin", "admin.bind", &admin.bind);
    }
    for draft in upstreams {
        add_uses(&mut all, &format!("upstream.{}", draft.upstream.name), "upstream.NAME.bind", &draft.bind);
    }
    for (index, AddressUse { section, key, bind, span }) in all.iter().enumerate() {
        let Some(earlier) = all.iter().take(index).find(|earlier| overlap(bind, earlier.bind)) else {
            continue;
        };
        let shared = if *bind == earlier.bind { "is the address of" } else { "overlaps with an address of" };
        Problem::new(format!("`{bind}` of `{section}` {shared} `{}`", earlier.section))
            .key(*key)
            .at(cx.source_map.location(*span))
            .related(cx.source_map.location(earlier.span), format!("`{}`", earlier.bind))
            .expected("a different address for each listener and each door")
            .report(cx);
    }
}

fn add_uses<'a>(all: &mut Vec<AddressUse<'a>>, section: &str, key: &'static str, binds: &'a [(Bind, Span)]) {
    all.extend(binds.iter().map(|(bind, span)| AddressUse {
        section: section.to_owned(),
        key,
        bind,
        span: *span,
    }));
}

fn overlap(a: &Bind, b: &Bind) -> bool {
    match (a, b) {
        (Bind::Unix(a), Bind::Unix(b)) => a == b,
        (Bind::Tcp(a), Bind::Tcp(b)) => overlap_tcp(*a, *b),
        (Bind::Host { host: a, port }, Bind::Host { host: b, port: other }) => {
            a == b && port == other && *port != 0
        }
        (Bind::Host { host, port }, Bind::Tcp(tcp)) | (Bind::Tcp(tcp), Bind::Host { host, port }) => {
            // Names are resolved later. `localhost` is known, and a wildcard includes every address that a name
            // resolves to.
            let known = host == "localhost" && tcp.ip().is_loopback();
            (known || tcp.ip().is_unspecified()) && *port == tcp.port() && *port != 0
        }
        _ => false,
    }
}

fn overlap_tcp(a: SocketAddr, b: SocketAddr) -> bool {
    let (ip, other) = (a.ip().to_canonical(), b.ip().to_canonical());
    let same_family = matches!((ip, other), (IpAddr::V4(_), IpAddr::V4(_)) | (IpAddr::V6(_), IpAddr::V6(_)));
    let meet = ip == other || ip.is_unspecified() || other.is_unspecified();
    same_family && meet && a.port() == b.port() && a.port() != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_overlap() {
        let tcp = |text: &str| Bind::Tcp(text.parse().unwrap());
        let host = |host: &str, port| Bind::Host { host: host.to_owned(), port };
        for (a, b) in [
            (tcp("0.0.0.0:80"), tcp("127.0.0.1:80")),
            (tcp("127.0.0.1:80"), tcp("127.0.0.1:80")),
            (tcp("[::]:80"), tcp("[::1]:80")),
            (tcp("[::ffff:127.0.0.1]:80"), tcp("127.0.0.1:80")),
            (host("localhost", 80), tcp("[::1]:80")),
            (host("example", 80), tcp("0.0.0.0:80")),
            (host("example", 80), host("example", 80)),
        ] {
            assert!(overlap(&a, &b) && overlap(&b, &a), "{a} {b}");
        }
        for (a, b) in [
            (tcp("0.0.0.0:80"), tcp("127.0.0.1:81")),
            (tcp("127.0.0.2:80"), tcp("127.0.0.1:80")),
            (tcp("[::]:80"), tcp("0.0.0.0:80")),
            (tcp("127.0.0.1:0"), tcp("127.0.0.1:0")),
            (host("localhost", 0), tcp("127.0.0.1:0")),
            (host("a", 80), host("b", 80)),
            (Bind::Unix("/a".into()), Bind::Unix("/b".into())),
        ] {
            assert!(!overlap(&a, &b) && !overlap(&b, &a), "{a} {b}");
        }
    }
}
