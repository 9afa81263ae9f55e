use super::forward_proxy::Proxy;
use super::limits::LIMITS;
use super::route::{ROUTE, RouteDraft, Routes};
use crate::checker::Checker;
use crate::key::{Describe, Field, Key, Preset, Reload, Section, Set, Sub};
use crate::model::{AccessLog, Bind, ForwardProxy, Limits, LogFormat};
use crate::raw::{Directive, Span, Value};
use crate::shape::{AccessLogs, Binds};

/// `[listen.NAME]` as it was read, with the places later checks point at.
pub(crate) struct ListenDraft {
    pub(crate) name: String,
    /// Of NAME.
    pub(crate) span: Span,
    pub(crate) bind: Vec<(Bind, Span)>,
    pub(crate) limits: Limits,
    pub(crate) access_log: Option<AccessLog>,
    pub(crate) forward_proxy: Option<ForwardProxy>,
    pub(crate) routes: Vec<RouteDraft>,
    /// None was written, not even a faulty one.
    pub(crate) has_no_route: bool,
}

impl ListenDraft {
    pub(crate) fn new(name: &str, span: Span, limits: Limits) -> ListenDraft {
        ListenDraft {
            name: name.to_owned(),
            span,
            bind: Vec::new(),
            limits,
            access_log: Some(AccessLog { format: LogFormat::Text, file: None }),
            forward_proxy: None,
            routes: Vec::new(),
            has_no_route: true,
        }
    }
}

/// `limits` of a listener: those of the server, less those of the whole process.
struct ListenLimits;

/// With what to do instead.
const OF_THE_PROCESS: [(&str, &str); 3] = [
    ("connections", "set it in `[server.limits]`; `connections_per_client` can be set here"),
    ("spill", "set it in `[server.limits]`; `response_buffer` can be set here"),
    ("spill_memory", "set it in `[server.limits]`; `response_buffer` can be set here"),
];

const LIMITS_FIELD: Sub<ListenDraft, Limits> = Sub(&LIMITS, |listen| &mut listen.limits);

impl Field<ListenDraft> for ListenLimits {
    fn set(&self, listen: &mut ListenDraft, directive: &Directive, cx: &mut Checker<'_>) {
        LIMITS_FIELD.set(listen, directive, cx);
        let Value::Table(table) = &directive.value else { return };
        for (key, help) in OF_THE_PROCESS {
            let Some(entry) = table.entry(key) else { continue };
            let problem = cx
                .problem(entry.key_span, format!("`{}.{key}` is a limit of the whole process", cx.name()))
                .help(help);
            cx.push(problem);
        }
    }

    fn describe(&self) -> &dyn Describe {
        &LIMITS
    }
}

pub(crate) static LISTEN: Section<ListenDraft> = Section {
    keys: &[
        Key {
            name: "bind",
            brief: "Where to listen",
            long: "`\"HOST:PORT\"`, `\"[IPV6]:PORT\"` or `\"unix:/PATH\"`; one, or a list. A host name is resolved at start and at each reload. Port 0 is any free port. An IPv6 address is IPv6 only: for both families write `[\"0.0.0.0:80\", \"[::]:80\"]`. No two listeners may share an address.",
            default: Preset::Required,
            right: "bind = \"0.0.0.0:8080\"",
            wrong: "bind = \"8080\"",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(Binds, |listen: &mut ListenDraft, bind| listen.bind = bind),
        },
        Key {
            name: "limits",
            brief: "What a peer may cost on this listener; keys as in `[server.limits]`",
            long: "What is not set here is taken from `[server.limits]`. `connections` can be set only there.",
            default: Preset::Words("those of `[server.limits]`"),
            right: "limits = { body = \"1MiB\" }",
            wrong: "limits = 5",
            reload: Reload::Live,
            since: "0.1.0",
            value: &ListenLimits,
        },
        Key {
            name: "access_log",
            brief: "One line per request",
            long: "`\"off\"`, `\"text\"` or `\"json\"` for standard output, or a table with `format` and `file`.",
            default: Preset::Value("\"text\""),
            right: "access_log = \"json\"",
            wrong: "access_log = true",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(AccessLogs, |listen: &mut ListenDraft, log| listen.access_log = log),
        },
        Key {
            name: "route",
            brief: "Which requests are served by what: `[[listen.NAME.route]]`, in order",
            long: "Routes are tried in the order of the file, those of an included file after those of the file that includes it; the first one whose `host`, `path` and `method` all fit serves the request. When none fits the response is 404, or 405 when one would fit but for its `method`. With a single `[app.NAME]` and no route at all, every request goes to that app.",
            default: Preset::Words("everything to the app, when there is just one"),
            right: "route = [{ path = \"/api/*\", app = \"shop\" }]",
            wrong: "route = \"shop\"",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Routes(&ROUTE),
        },
        Key {
            name: "forward_proxy",
            brief: "The listener is a forward proxy, for clients that have it as their `http_proxy`",
            long: "It takes calls for hosts of others: in absolute form, over kept connections, as the `[upstream]` of that host where there is one (and over TLS where that one's URL is `https`); and `CONNECT`, to what `allow` lists. Other requests go to the routes, if there are any.",
            default: Preset::Words("none: it is not"),
            right: "forward_proxy = { allow = [\"*.example.com\"] }",
            wrong: "forward_proxy = true",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Proxy,
        },
        Key::later("tls", "Certificates"),
        Key::later("http2", "HTTP/2"),
        Key::later("proxy_protocol", "PROXY protocol"),
    ],
};
