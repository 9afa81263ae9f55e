use super::compression::COMPRESSION;
use super::forward_proxy::{self, FORWARD_PROXY};
use super::limits::LIMITS;
use super::listen_domains::Domains;
use super::listen_tls::{LISTEN_TLS, TlsDraft};
use super::map;
use super::route::{RouteDraft, RouteList, check_written_headers};
use crate::checker::Checker;
use crate::description::Describe;
use crate::key::{CheckedSubtable, DefaultValue, Field, Key, Section, Set, Subtable};
use crate::model::{
    AccessLog, Bind, Cidr, Compression, ForwardProxy, HeaderRules, Limits, LogFormat, RecordTemplate, Server,
    Template,
};
use crate::raw::{Directive, Span, Table, Value};
use crate::shape::{
    AccessLogShape, BindAddresses, CIDRS, Count, ErrorPageDraft, ErrorPagesShape, Flag, header_rules,
};

/// `[listen.NAME]` before the checks of the whole file, with the spans that these checks report.
pub(crate) struct ListenDraft {
    pub(crate) name: String,
    /// The span of NAME.
    pub(crate) span: Span,
    pub(crate) bind: Vec<(Bind, Span)>,
    pub(crate) limits: Limits,
    pub(crate) access_log: Option<AccessLog>,
    pub(crate) http2: bool,
    pub(crate) error_pages: Vec<ErrorPageDraft>,
    pub(crate) forward_proxy: Option<ForwardProxy>,
    pub(crate) compression: Option<Compression>,
    pub(crate) tls: Option<TlsDraft>,
    /// Names of `domains`, with its span.
    pub(crate) domains: Option<(Vec<String>, Span)>,
    pub(crate) redirect_to_https: Option<u16>,
    pub(crate) proxy_protocol: bool,
    pub(crate) allow: Vec<Cidr>,
    pub(crate) deny: Vec<Cidr>,
    pub(crate) headers: HeaderRules,
    pub(crate) request_headers: HeaderRules,
    pub(crate) routes: Vec<RouteDraft>,
    /// The file has no route, not even an invalid one.
    pub(crate) has_no_route: bool,
}

impl ListenDraft {
    pub(crate) fn new(name: &str, span: Span, limits: Limits) -> ListenDraft {
        ListenDraft {
            name: name.to_owned(),
            span,
            bind: Vec::new(),
            limits,
            access_log: Some(AccessLog::new(LogFormat::Text)),
            http2: true,
            error_pages: Vec::new(),
            forward_proxy: None,
            compression: None,
            tls: None,
            domains: None,
            redirect_to_https: None,
            proxy_protocol: false,
            allow: Vec::new(),
            deny: Vec::new(),
            headers: HeaderRules::default(),
            request_headers: HeaderRules::default(),
            routes: Vec::new(),
            has_no_route: true,
        }
    }
}

/// Limits of the whole process, which a listener cannot have, each with advice.
const PROCESS_LIMITS: [(&str, &str); 4] = [
    ("connections", "set it in `[server.limits]`; here you can set `connections_per_client`"),
    ("spill", "set it in `[server.limits]`; here you can set `response_buffer`"),
    ("spill_memory", "set it in `[server.limits]`; here you can set `response_buffer`"),
    ("compression_memory", "set it in `[server.limits]`; here you can set `compress`"),
];

fn check_limits(_: &ListenDraft, table: &Table, _: &Directive, cx: &mut Checker<'_>) {
    for (key, help) in PROCESS_LIMITS {
        let Some(entry) = table.entry(key) else { continue };
        let message = format!("`{}.{key}` is a limit of the whole process", cx.name());
        cx.problem(entry.key_span, message).help(help).report(cx);
    }
}

/// Checks what the listener needs of `[server]`.
pub(super) fn check_proxy_protocol(
    listen: &ListenDraft,
    server: &Server,
    table: &Table,
    cx: &mut Checker<'_>,
) {
    let Some(entry) = table.entry("proxy_protocol").filter(|_| listen.proxy_protocol) else { return };
    if server.trusted_proxies.is_empty() {
        let name = cx.name();
        let message = format!("`{name}.proxy_protocol` is true, but `server.trusted_proxies` is empty");
        cx.problem(entry.key_span, message)
            .key("listen.NAME.proxy_protocol")
            .expected("the addresses of the proxies that send the header, in `server.trusted_proxies`")
            .help("add trusted_proxies = [\"10.0.0.5\"] to [server], with the address of your proxy")
            .report(cx);
    }
}

fn check_forward_proxy(listen: &ListenDraft, table: &Table, directive: &Directive, cx: &mut Checker<'_>) {
    if let Some(proxy) = &listen.forward_proxy {
        forward_proxy::check(proxy, &listen.bind, table, directive, cx);
    }
}

fn check_tls(listen: &ListenDraft, table: &Table, directive: &Directive, cx: &mut Checker<'_>) {
    if let Some(tls) = &listen.tls {
        tls.check(table, directive, cx);
    }
}

fn check_headers(listen: &ListenDraft, _: &Table, directive: &Directive, cx: &mut Checker<'_>) {
    check_captures(&listen.headers, directive, cx);
}

fn check_request_headers(listen: &ListenDraft, _: &Table, directive: &Directive, cx: &mut Checker<'_>) {
    check_written_headers(&listen.request_headers, directive, cx);
    check_captures(&listen.request_headers, directive, cx);
}

/// Maps that the listener's own keys use must exist.
pub(super) fn check_maps(listen: &ListenDraft, table: &Table, cx: &mut Checker<'_>) {
    map::check_uses(listen.headers.templates(), "headers", table, cx);
    map::check_uses(listen.request_headers.templates(), "request_headers", table, cx);
    let record = listen.access_log.iter().filter_map(|log| log.record.as_ref());
    map::check_uses(record.flat_map(RecordTemplate::templates), "access_log", table, cx);
}

/// `$1` to `$9` are of a route's path.
fn check_captures(rules: &HeaderRules, directive: &Directive, cx: &mut Checker<'_>) {
    if let Some(number) = rules.templates().map(Template::captures).max().filter(|number| *number > 0) {
        cx.problem(directive.span, format!("`{}` uses `${number}`, which only a route has", cx.name()))
            .help("set this header in the route")
            .report(cx);
    }
}

impl Field<ListenDraft> for RouteList {
    fn set(&self, listen: &mut ListenDraft, directive: &Directive, cx: &mut Checker<'_>) {
        listen.has_no_route = matches!(&directive.value, Value::Array(items) if items.is_empty());
        listen.routes = self.read(directive, cx);
    }

    fn describe(&self) -> &dyn Describe {
        self
    }
}

pub(crate) static LISTEN: Section<ListenDraft> = Section {
    keys: &[
        Key {
            name: "bind",
            brief: "Addresses to listen on",
            long: "`\"HOST:PORT\"`, `\"[IPV6]:PORT\"` or `\"unix:/PATH\"`; one, or a list. A host name is resolved at start and at each reload. Port 0 is any free port. An IPv6 address accepts IPv6 only: for both families, write `[\"0.0.0.0:80\", \"[::]:80\"]`. Two listeners cannot share an address.",
            default: DefaultValue::Words(
                "required, unless there are `domains`: then port 443 of all addresses",
            ),
            right: "bind = \"0.0.0.0:8080\"",
            wrong: "bind = \"8080\"",
            value: &Set(BindAddresses, |listen: &mut ListenDraft, bind| listen.bind = bind),
            ..Key::LIVE
        },
        Key {
            name: "limits",
            brief: "Limits for this listener, with the keys of `[server.limits]`",
            long: "Keys that are not set here are taken from `[server.limits]`. `connections`, `spill`, `spill_memory` and `compression_memory` can be set only there.",
            default: DefaultValue::Words("those of `[server.limits]`"),
            right: "limits = { body = \"1MiB\" }",
            wrong: "limits = 5",
            value: &CheckedSubtable(
                Subtable(&LIMITS, |listen: &mut ListenDraft| &mut listen.limits),
                check_limits,
            ),
            ..Key::LIVE
        },
        Key {
            name: "access_log",
            brief: "Access log, one record per request",
            long: "`\"off\"`, `\"text\"` or `\"json\"` for standard output, or a table, whose keys also say which requests are recorded.",
            default: DefaultValue::Literal("\"text\""),
            right: "access_log = \"json\"",
            wrong: "access_log = true",
            value: &Set(AccessLogShape::REQUESTS, |listen: &mut ListenDraft, log| listen.access_log = log),
            ..Key::LIVE
        },
        Key {
            name: "error_pages",
            brief: "Pages to send in place of Keepwarm's error responses: `{ 404 = FILE, 5xx = FILE }`",
            long: "For a single status, or for all that begin with 4 or 5; the single status comes first. They also apply to requests that match no route or are malformed. In place of a file: `{ app = NAME, path = PATH }`, a path whose response is the page ([details](../guide/error-pages.md#pages-of-an-app)). A route's `error_pages` come before these.",
            default: DefaultValue::Words(
                "none: short responses as HTML, JSON or text, as the client prefers",
            ),
            right: "error_pages = { 404 = \"errors/404.html\", 5xx = \"errors/5xx.html\" }",
            wrong: "error_pages = \"errors/404.html\"",
            value: &Set(ErrorPagesShape, |listen: &mut ListenDraft, pages| listen.error_pages = pages),
            ..Key::LIVE
        },
        Key {
            name: "compress",
            brief: "Compress responses, for all routes without a `compress` of their own",
            long: "`true`, `false`, or a table with other settings; see `compress` of a route. Off by default: it costs CPU time for every response, a CDN or proxy in front may do it already, and it makes pages that mix secrets with input readable for attackers (BREACH), so that somebody should decide. Precedents: nginx and Caddy compress nothing unless they are told to.",
            default: DefaultValue::Literal("false"),
            right: "compress = { level = \"fast\" }",
            wrong: "compress = \"on\"",
            value: &Set(COMPRESSION, |listen: &mut ListenDraft, compression| {
                listen.compression = Some(compression)
            }),
            ..Key::LIVE
        },
        Key {
            name: "route",
            brief: "Routes, in order of precedence: `[[listen.NAME.route]]`",
            long: "Routes are tried in the order of the file; those of an included file come after those of the file that includes it. The first route whose conditions all hold serves the request: `host`, `path`, `method`, `header`, `query`, `cookie`, `client`, `scheme`. If none matches, the response is 404, or 405 if one would match but for its `method`. With a single `[app.NAME]` and no routes, every request goes to that app.",
            default: DefaultValue::Words("every request goes to the app, if there is exactly one"),
            right: "route = [{ path = \"/api/*\", app = \"shop\" }]",
            wrong: "route = \"shop\"",
            value: &RouteList,
            ..Key::LIVE
        },
        Key {
            name: "forward_proxy",
            brief: "Make the listener a forward proxy, for clients that use it as `http_proxy`",
            long: "It accepts requests in absolute form for other hosts and sends them over persistent connections. If an `[upstream]` has that host, the request is a call to this upstream (over TLS if its URL is `https`). It also accepts `CONNECT` to the hosts in `allow`. Other requests go to the routes, if there are any.",
            default: DefaultValue::Words("none: it is not a forward proxy"),
            right: "forward_proxy = { allow = [\"*.example.com\"] }",
            wrong: "forward_proxy = true",
            value: &CheckedSubtable(
                Subtable(&FORWARD_PROXY, |listen: &mut ListenDraft| {
                    listen.forward_proxy.insert(ForwardProxy::default())
                }),
                check_forward_proxy,
            ),
            ..Key::LIVE
        },
        Key {
            name: "tls",
            brief: "TLS: certificates, versions, certificates of clients",
            long: "The listener then accepts HTTPS only. A client that speaks HTTP without TLS gets 400.",
            default: DefaultValue::Words("plaintext"),
            right: "tls = { cert = \"/etc/ssl/shop.pem\", key = \"/etc/ssl/shop.key\" }",
            wrong: "tls = true",
            value: &CheckedSubtable(
                Subtable(&LISTEN_TLS, |listen: &mut ListenDraft| listen.tls.insert(TlsDraft::default())),
                check_tls,
            ),
            ..Key::LIVE
        },
        Key {
            name: "domains",
            brief: "Names to serve over HTTPS, with certificates from an authority (ACME)",
            long: "The short form of a listener on the internet: `bind` is port 443 of all addresses, `tls.acme` has these names, and HTTP on port 80 is redirected to HTTPS (308), unless another listener has port 80. Certificates are obtained and renewed without further keys; `[acme]` has the details, `tls` the settings of TLS. With a `bind` of another port, nothing listens on port 80.",
            default: DefaultValue::Words("none"),
            right: "domains = [\"shop.example\", \"www.shop.example\"]",
            wrong: "domains = \"https://shop.example\"",
            value: &Domains,
            ..Key::LIVE
        },
        Key {
            name: "redirect_to_https",
            brief: "Redirect requests that no route takes to HTTPS on this port",
            long: "With 308, which keeps method and body, to the same host, path and query. Such a listener needs no route. Responses to an authority's challenges (`http-01`) come first, as on every listener.",
            default: DefaultValue::Words("off"),
            right: "redirect_to_https = 443",
            wrong: "redirect_to_https = true",
            value: &Set(Count(1..=65_535), |listen: &mut ListenDraft, port| {
                listen.redirect_to_https = u16::try_from(port).ok();
            }),
            ..Key::LIVE
        },
        Key {
            name: "http2",
            brief: "Accept HTTP/2 from clients",
            long: "Over TLS, the client selects the version in the handshake (ALPN). In plaintext, a connection that begins with the HTTP/2 preface (prior knowledge, RFC 9113 §3.3) is served as HTTP/2, every other one as HTTP/1. With `false`, `h2` is not offered, and the preface gets 505. `Upgrade: h2c` is always ignored. Doors of upstreams accept both versions without a setting.",
            default: DefaultValue::Literal("true"),
            right: "http2 = false",
            wrong: "http2 = \"off\"",
            value: &Set(Flag, |listen: &mut ListenDraft, http2| listen.http2 = http2),
            ..Key::LIVE
        },
        Key {
            name: "proxy_protocol",
            brief: "Expect a PROXY protocol header at the beginning of every connection",
            long: "Versions 1 and 2, from the peers in `server.trusted_proxies`: HAProxy's `send-proxy`, nginx's `proxy_protocol on`, AWS Network Load Balancers. The client's address and the address that it connected to are those in the header, for logs, limits, routes and the app. The header comes before TLS, and must be complete within `limits.head_timeout`. A connection of any other peer, or without a valid header, is closed, logged and counted: clients that come directly need another listener. With `LOCAL`, `UNKNOWN` and Unix sockets in the header, the proxy's own address applies.",
            default: DefaultValue::Literal("false"),
            right: "proxy_protocol = true",
            wrong: "proxy_protocol = \"v2\"",
            value: &Set(Flag, |listen: &mut ListenDraft, on| listen.proxy_protocol = on),
            ..Key::LIVE
        },
        Key {
            name: "allow",
            brief: "Clients that may use the listener; all others get 403",
            long: "Addresses and address blocks, for every route; those of a route are applied afterwards. The client is the peer, or the client that a trusted proxy reports. `deny` is applied first. On a forward proxy, this applies to its routes only.",
            default: DefaultValue::Words("everybody"),
            right: "allow = [\"10.0.0.0/8\", \"::1\"]",
            wrong: "allow = [\"10.0.0.0/33\"]",
            value: &Set(CIDRS, |listen: &mut ListenDraft, blocks| listen.allow = blocks),
            ..Key::LIVE
        },
        Key {
            name: "deny",
            brief: "Clients that get 403 on every route",
            default: DefaultValue::Words("nobody"),
            right: "deny = [\"203.0.113.0/24\"]",
            wrong: "deny = [\"somebody\"]",
            value: &Set(CIDRS, |listen: &mut ListenDraft, blocks| listen.deny = blocks),
            ..Key::LIVE
        },
        Key {
            name: "headers",
            brief: "Headers to set or remove in every response of the listener",
            long: "Written like `headers` of a route, without `$1` to `$9`. Also applied to responses without a route and to malformed requests. The route's `headers` are applied afterwards: for a header that it sets or removes, the listener's rules are void.",
            default: DefaultValue::Words("none"),
            right: "headers = { set = { X-Content-Type-Options = \"nosniff\" } }",
            wrong: "headers = \"X-Content-Type-Options: nosniff\"",
            value: &CheckedSubtable(
                header_rules(|listen: &mut ListenDraft| &mut listen.headers),
                check_headers,
            ),
            ..Key::LIVE
        },
        Key {
            name: "request_headers",
            brief: "Headers to set or remove in requests that apps and upstreams get through the listener",
            long: "Written like `request_headers` of a route, which are applied afterwards, without `$1` to `$9`.",
            default: DefaultValue::Words("none"),
            right: "request_headers = { set = { X-Site = \"$host_name\" } }",
            wrong: "request_headers = { set = { Host = \"example.com\" } }",
            value: &CheckedSubtable(
                header_rules(|listen: &mut ListenDraft| &mut listen.request_headers),
                check_request_headers,
            ),
            ..Key::LIVE
        },
    ],
};
