use crate::checker::Checker;
use crate::key::{DefaultValue, Key, Section, Set};
use crate::model::{Bind, ForwardProxy, ProxyHost, ProxyTarget};
use crate::raw::{Directive, Span, Table};
use crate::shape::{PORTS, TARGETS};

/// Rejects an open proxy: anyone could call any host through it, and would appear as this machine.
pub(super) fn check(
    proxy: &ForwardProxy,
    addresses: &[(Bind, Span)],
    table: &Table,
    directive: &Directive,
    cx: &mut Checker<'_>,
) {
    let Some((bind, span)) = addresses.iter().find(|(bind, _)| !bind.is_local()) else { return };
    let name = cx.name();
    let allow = table.entry("allow");
    let (at, what) = match allow {
        None => (directive.span, "without `allow`"),
        Some(entry) if proxy.allow.iter().any(|target| target.host == ProxyHost::Any) => {
            (entry.value.span, "with `*` in `allow`")
        }
        Some(_) => return,
    };
    cx.problem(
        at,
        format!("`{name}` {what} would let anyone who can reach `{bind}` call any host through it"),
    )
    .related(cx.source_map.location(*span), "other machines can reach this address")
    .expected("`allow` with the hosts that may be called, or a `bind` address of this machine")
    .help("allow = [\"*.example.com\", \"api.partner.example:8443\"]")
    .report(cx);
}

/// `[listen.NAME.forward_proxy]`
pub(super) static FORWARD_PROXY: Section<ForwardProxy> = Section {
    keys: &[
        Key {
            name: "allow",
            brief: "Hosts that clients may call, and tunnel to with `CONNECT`",
            long: "`\"example.com\"` is that host, `\"*.example.com\"` every host below it, `\"10.0.0.0/8\"` every address in that block, `\"*\"` every host. With a port after it, an entry allows only that port. Some addresses are allowed only if they are listed by address, or by the name `localhost`, not because a name or `*` leads to them: loopback, link-local, the metadata services of clouds (169.254.169.254, 100.100.100.200, 168.63.129.16, fd00:ec2::254 and similar), and the addresses that Keepwarm itself listens on.",
            default: DefaultValue::Words("plain calls to every host, and no `CONNECT`"),
            right: "allow = [\"*.example.com\", \"10.0.0.0/8\", \"partner.example:8443\"]",
            wrong: "allow = [\"https://example.com\"]",
            value: &Set(TARGETS, |proxy: &mut ForwardProxy, allow: Vec<ProxyTarget>| proxy.allow = allow),
            ..Key::LIVE
        },
        Key {
            name: "connect_ports",
            brief: "Ports that `CONNECT` may use if the entry in `allow` has none",
            long: "The client may send anything through a tunnel: port 25 would let it send mail. Requests inside a tunnel cannot be pooled; an `http://` call to an `[upstream]` whose URL is `https://` can.",
            default: DefaultValue::Literal("[443]"),
            right: "connect_ports = [443, 8443]",
            wrong: "connect_ports = [0]",
            value: &Set(PORTS, |proxy: &mut ForwardProxy, ports: Vec<u32>| {
                proxy.connect_ports = ports.iter().filter_map(|port| u16::try_from(*port).ok()).collect();
            }),
            ..Key::LIVE
        },
    ],
};
