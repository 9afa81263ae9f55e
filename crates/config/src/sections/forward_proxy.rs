use super::listen::ListenDraft;
use crate::checker::Checker;
use crate::key::{Describe, Field, Key, Preset, Reload, Section, Set};
use crate::model::{ForwardProxy, ProxyHost, ProxyTarget};
use crate::raw::{Directive, Table};
use crate::shape::{Ports, TARGETS};

/// `forward_proxy` of a listener: its keys; that it is there makes a proxy.
pub(super) struct Proxy;

impl Field<ListenDraft> for Proxy {
    fn set(&self, listen: &mut ListenDraft, directive: &Directive, cx: &mut Checker<'_>) {
        let Some(table) = cx.table(directive) else { return };
        let mut proxy = ForwardProxy::default();
        FORWARD_PROXY.read(&mut proxy, &table, cx);
        check_public(listen, &proxy, &table, directive, cx);
        listen.forward_proxy = Some(proxy);
    }

    fn describe(&self) -> &dyn Describe {
        &FORWARD_PROXY
    }
}

/// A proxy that everybody reaches and that calls everything is an open one: others hide behind it.
fn check_public(
    listen: &ListenDraft,
    proxy: &ForwardProxy,
    table: &Table,
    directive: &Directive,
    cx: &mut Checker<'_>,
) {
    let Some((bind, span)) = listen.bind.iter().find(|(bind, _)| !bind.is_local()) else { return };
    let name = cx.name();
    let allow = table.entry("allow");
    let (at, what) = match allow {
        None => (directive.span, "without `allow`"),
        Some(entry) if proxy.allow.iter().any(|target| target.host == ProxyHost::Any) => {
            (entry.value.span, "with `*` in `allow`")
        }
        Some(_) => return,
    };
    let problem = cx
        .problem(
            at,
            format!("`{name}` {what} would let anyone who can reach `{bind}` call any host through it"),
        )
        .related(cx.texts.place(*span), "other machines can reach this address")
        .expected("`allow` with the hosts that may be called, or a `bind` address of this machine")
        .help("allow = [\"*.example.com\", \"api.partner.example:8443\"]");
    cx.push(problem);
}

static FORWARD_PROXY: Section<ForwardProxy> = Section {
    keys: &[
        Key {
            name: "allow",
            brief: "Hosts that clients may call, and tunnel to with `CONNECT`",
            long: "`\"example.com\"` is that host, `\"*.example.com\"` every host below it, `\"10.0.0.0/8\"` every address in that block, `\"*\"` every host. With a port after it, an entry allows only that port. Some addresses are allowed only if they are listed by address, or by the name `localhost`, not because a name or `*` leads to them: loopback, link-local, the metadata services of clouds (169.254.169.254, 100.100.100.200, 168.63.129.16, fd00:ec2::254 and similar), and the addresses that Keepwarm itself listens on.",
            default: Preset::Words("plain calls to every host, and no `CONNECT`"),
            right: "allow = [\"*.example.com\", \"10.0.0.0/8\", \"partner.example:8443\"]",
            wrong: "allow = [\"https://example.com\"]",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(TARGETS, |proxy: &mut ForwardProxy, allow: Vec<ProxyTarget>| proxy.allow = allow),
        },
        Key {
            name: "connect_ports",
            brief: "Ports that `CONNECT` may use if the entry in `allow` has none",
            long: "The client may send anything through a tunnel: port 25 would let it send mail. Requests inside a tunnel cannot be pooled; an `http://` call to an `[upstream]` whose URL is `https://` can.",
            default: Preset::Value("[443]"),
            right: "connect_ports = [443, 8443]",
            wrong: "connect_ports = [0]",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(Ports, |proxy: &mut ForwardProxy, ports| proxy.connect_ports = ports),
        },
    ],
};
