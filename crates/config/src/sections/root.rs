use std::path::PathBuf;
use std::sync::LazyLock;

use super::acme::{ACME, AcmeDraft};
use super::admin::{ADMIN, AdminDraft};
use super::app::{APP, AppDraft};
use super::listen::{LISTEN, ListenDraft, check_maps, check_proxy_protocol};
use super::listen_domains;
use super::map::{MAP, MapDraft};
use super::otlp::{self, OTLP, OtlpDraft};
use super::process::{PROCESS, ProcessDraft};
use super::rate_limit::{RATE_LIMIT, RateLimitDraft};
use super::server::SERVER;
use super::upstream::{UPSTREAM, UpstreamDraft};
use crate::checker::Checker;
use crate::description::{Describe, Description, KeyInfo};
use crate::json::Json;
use crate::key::{CheckedSubtable, DefaultValue, Field, Key, Section, Set, Subtable};
use crate::model::Server;
use crate::raw::{Directive, Entry, Span, Table, Value};
use crate::shape::Strings;

/// The configuration before the checks that involve several sections.
pub(crate) struct Root {
    pub(crate) server: Server,
    pub(crate) admin: Option<AdminDraft>,
    pub(crate) otlp: Option<OtlpDraft>,
    pub(crate) acme: AcmeDraft,
    pub(crate) maps: Vec<MapDraft>,
    pub(crate) listeners: Vec<ListenDraft>,
    pub(crate) apps: Vec<AppDraft>,
    pub(crate) processes: Vec<ProcessDraft>,
    pub(crate) upstreams: Vec<UpstreamDraft>,
    pub(crate) rate_limits: Vec<RateLimitDraft>,
    /// The directory of apps that set none.
    pub(crate) directory: PathBuf,
}

/// The top of the file. The order matters: listeners inherit the limits of the server and use maps, which must be read first.
pub(crate) static ROOT: Section<Root> = Section {
    keys: &[
        Key {
            name: "include",
            brief: "More configuration files to merge into this one",
            long: "Paths and globs, relative to the directory of the main file. The files of a glob are read in the order of their names. Each key may be set only once across all files. Routes of the same listener are concatenated. An included file cannot include others.",
            default: DefaultValue::Words("none"),
            right: "include = [\"conf.d/*.toml\"]",
            wrong: "include = [\"no-such-file.toml\"]",
            value: &Set(INCLUDE, |_: &mut Root, _| {}),
            ..Key::LIVE
        },
        Key {
            name: "server",
            brief: "Settings of the process",
            default: DefaultValue::Words("see each key"),
            right: "[server]\nthreads = 2",
            wrong: "server = 2",
            value: &CheckedSubtable(Subtable(&SERVER, |root: &mut Root| &mut root.server), check_server),
            ..Key::LIVE
        },
        Key {
            name: "app",
            brief: "Applications, each in its own section `[app.NAME]`",
            long: "NAME consists of letters, digits, `-` and `_`. It appears in logs and metrics.",
            default: DefaultValue::Words("none"),
            right: "[app.shop]\nentry = \"shop.wsgi:application\"",
            wrong: "app = \"shop\"",
            value: &NamedSections {
                section: &APP,
                begin: |root, name, span| AppDraft::new(name, span, root.directory.clone(), &root.server),
                finish: |root, mut draft, table, cx| {
                    draft.finish(table, cx);
                    root.apps.push(draft);
                },
            },
            ..Key::LIVE
        },
        Key {
            name: "process",
            brief: "Processes that serve no requests, each in its own section `[process.NAME]`",
            long: "Queue workers, schedulers and daemons, supervised like the workers of apps. NAME consists of letters, digits, `-` and `_`. It appears in logs and metrics.",
            default: DefaultValue::Words("none"),
            right: "[process.mail]\ncommand = [\"php\", \"bin/console\", \"messenger:consume\"]",
            wrong: "process = \"mail\"",
            value: &NamedSections {
                section: &PROCESS,
                begin: |root, name, span| ProcessDraft::new(name, span, root.directory.clone(), &root.server),
                finish: |root, mut draft, table, cx| {
                    draft.finish(table, &root.server, cx);
                    root.processes.push(draft);
                },
            },
            ..Key::LIVE
        },
        Key {
            name: "map",
            brief: "Variables that are looked up in a table, each in its own section `[map.NAME]`",
            long: "NAME consists of letters, digits and `_`. The variable `$map_NAME` can be used wherever variables can ([list](../guide/routes.md#variables)). It is looked up each time it is used, and only then.",
            default: DefaultValue::Words("none"),
            right: "[map.tenant]\nsource = \"$host_name\"\nvalues = { \"shop.example\" = \"shop\" }",
            wrong: "map = \"$host_name\"",
            value: &NamedSections {
                section: &MAP,
                begin: |_, name, span| MapDraft::new(name, span),
                finish: |root, mut draft, table, cx| {
                    draft.finish(table, cx);
                    root.maps.push(draft);
                },
            },
            ..Key::LIVE
        },
        Key {
            name: "listen",
            brief: "Listeners, each in its own section `[listen.NAME]`",
            long: "NAME consists of letters, digits, `-` and `_`. It appears in logs and metrics.",
            default: DefaultValue::Words(
                "none; at least one listener, an upstream with a door or a process is required",
            ),
            right: "[listen.public]\nbind = \"0.0.0.0:8080\"",
            wrong: "listen = \"0.0.0.0:8080\"",
            value: &NamedSections {
                section: &LISTEN,
                begin: |root, name, span| ListenDraft::new(name, span, root.server.limits.clone()),
                finish: |root, mut draft, table, cx| {
                    listen_domains::finish(&mut draft, table, cx);
                    check_proxy_protocol(&draft, &root.server, table, cx);
                    check_maps(&draft, table, cx);
                    root.listeners.push(draft);
                },
            },
            ..Key::LIVE
        },
        Key {
            name: "admin",
            brief: "Health, metrics and status for operators",
            long: "Serves `/livez`, `/readyz`, `/metrics` and `/status`, and accepts `POST /reload`. Runs on its own thread, so that it can still report a data plane that is stuck.",
            default: DefaultValue::Words("none: nothing is served"),
            right: "[admin]\nbind = \"127.0.0.1:9090\"",
            wrong: "admin = \"127.0.0.1:9090\"",
            value: &CheckedSubtable(
                Subtable(&ADMIN, |root: &mut Root| root.admin.insert(AdminDraft::default())),
                check_admin,
            ),
            ..Key::LIVE
        },
        Key {
            name: "otlp",
            brief: "Traces and metrics for an OpenTelemetry collector, in OTLP over HTTP",
            long: "The collector is an upstream, so that its connections are kept, and its TLS and time limits are those of `[upstream.NAME]`. A request never waits for it. [Traces](../operate/traces.md) lists what is sent, and what happens while the collector is slow or down.",
            default: DefaultValue::Words("none: nothing is sent"),
            right: "[otlp]\nupstream = \"collector\"\ntraces = { sample = \"10%\" }\n\n[upstream.collector]\nurl = \"http://127.0.0.1:4318\"",
            wrong: "otlp = \"http://127.0.0.1:4318\"",
            value: &CheckedSubtable(
                Subtable(&OTLP, |root: &mut Root| root.otlp.insert(OtlpDraft::default())),
                |root, table, directive, cx| {
                    if let Some(draft) = &root.otlp {
                        otlp::check(draft, table, directive, cx);
                    }
                },
            ),
            ..Key::LIVE
        },
        Key {
            name: "acme",
            brief: "Certificates from an authority such as Let's Encrypt, for listeners with `domains` or `acme`",
            long: "They are ordered, renewed and stored by Keepwarm (RFC 8555). The section is not required: without it, Let's Encrypt is asked.",
            default: DefaultValue::Words("see each key"),
            right: "[acme]\nemail = \"ops@shop.example\"",
            wrong: "acme = true",
            value: &Subtable(&ACME, |root: &mut Root| &mut root.acme),
            ..Key::LIVE
        },
        Key {
            name: "upstream",
            brief: "Services that the app calls, each in its own section `[upstream.NAME]`",
            long: "Keepwarm keeps connections to them open. All workers share these connections, which outlive each worker. The app calls a local address (`bind`, the door of the upstream), or a route of a listener or a forward proxy leads there. NAME consists of letters, digits, `-` and `_`. It appears in logs, metrics and the variable `KEEPWARM_UPSTREAM_NAME`.",
            default: DefaultValue::Words("none"),
            right: "[upstream.search]\nurl = \"https://search.internal:9243\"\nbind = \"127.0.0.1:6102\"",
            wrong: "upstream = \"https://search.internal:9243\"",
            value: &NamedSections {
                section: &UPSTREAM,
                begin: |_, name, span| UpstreamDraft::new(name, span),
                finish: |root, mut draft, table, cx| {
                    draft.finish(table, cx);
                    root.upstreams.push(draft);
                },
            },
            ..Key::LIVE
        },
        Key {
            name: "rate_limit",
            brief: "Rate limits, each in its own section `[rate_limit.NAME]`",
            long: "Routes and upstreams refer to them by name.",
            default: DefaultValue::Words("none"),
            right: "[rate_limit.api]\nrate = \"100/s\"",
            wrong: "rate_limit = \"100/s\"",
            value: &NamedSections {
                section: &RATE_LIMIT,
                begin: |_, name, span| RateLimitDraft::new(name, span),
                finish: |root, mut draft, table, cx| {
                    draft.finish(table, cx);
                    root.rate_limits.push(draft);
                },
            },
            ..Key::LIVE
        },
    ],
};

/// The keys of all sections, a section before its keys.
pub(crate) fn all_keys() -> &'static [KeyInfo] {
    static ALL: LazyLock<Vec<KeyInfo>> = LazyLock::new(|| {
        let mut all = Vec::new();
        flatten(ROOT.infos(""), &mut all);
        all
    });
    &ALL
}

fn flatten(keys: Vec<KeyInfo>, all: &mut Vec<KeyInfo>) {
    for key in keys {
        let children = key.children.clone();
        all.push(key);
        flatten(children, all);
    }
}

fn check_admin(root: &Root, table: &Table, directive: &Directive, cx: &mut Checker<'_>) {
    if table.entry("bind").is_none() {
        cx.missing(directive.span, "bind = \"127.0.0.1:9090\"").report(cx);
    }
    if table.entry("token").is_some() {
        return;
    }
    let addresses = root.admin.iter().flat_map(|admin| &admin.bind);
    if let Some((bind, span)) = addresses.into_iter().find(|(bind, _)| !bind.is_local()) {
        cx.problem(*span, format!("`{bind}` can be reached from other machines, but `admin` has no `token`"))
            .key("admin.bind")
            .expected("an address of this machine (127.0.0.1, [::1], localhost, unix:), or `token`")
            .help("add token = \"...\" with at least 16 characters, for example from: openssl rand -hex 32")
            .report(cx);
    }
}

/// The phases of a shutdown must fit into its time limit.
fn check_server(root: &Root, table: &Table, _: &Directive, cx: &mut Checker<'_>) {
    let server = &root.server;
    let Some(delay) = table.entry("drain_delay").filter(|_| server.drain_delay >= server.shutdown_grace)
    else {
        return;
    };
    let message = "`server.drain_delay` is not shorter than `server.shutdown_grace`, which it is part of";
    let mut problem = cx
        .problem(delay.key_span, message)
        .expected(format!("less than `shutdown_grace`, which is {:?}", server.shutdown_grace));
    if let Some(grace) = table.entry("shutdown_grace") {
        problem = problem.related(cx.source_map.location(grace.key_span), "the other one");
    }
    problem.report(cx);
}

/// `include`, which is processed before anything is checked.
pub(crate) const INCLUDE: Strings =
    Strings { one: "a path or glob", many: "paths and globs", may_be_empty: true, fault: |_| None };

/// A table of named sections: `[app.NAME]`.
struct NamedSections<T: 'static> {
    section: &'static Section<T>,
    begin: fn(&Root, &str, Span) -> T,
    finish: fn(&mut Root, T, &Table, &mut Checker<'_>),
}

impl<T> Field<Root> for NamedSections<T> {
    fn set(&self, root: &mut Root, directive: &Directive, cx: &mut Checker<'_>) {
        let Some(table) = cx.table(directive) else { return };
        for entry in &table.entries {
            if let Some(fault) = name_fault(&entry.key) {
                cx.problem(entry.key_span, format!("`{}` is not a valid section name: {fault}", entry.key))
                    .expected("at most 64 letters, digits, `-` and `_`")
                    .report(cx);
                continue;
            }
            self.one(root, entry, cx);
        }
    }

    fn describe(&self) -> &dyn Describe {
        self
    }
}

impl<T> NamedSections<T> {
    fn one(&self, root: &mut Root, entry: &Entry, cx: &mut Checker<'_>) {
        // `[app] workers = 4`: a key of the section in place of a name.
        if self.section.has(&entry.key) && !matches!(entry.value.value, Value::Table(_)) {
            let section = cx.name();
            cx.problem(entry.key_span, format!("`{}` is set in `[{section}]`, which has no name", entry.key))
                .expected(format!("a section with a name: [{section}.NAME]"))
                .report(cx);
            return;
        }
        cx.enter_named(&entry.key);
        let ambiguous = match &entry.value.value {
            Value::Table(table) => Some(table).filter(|table| self.section.is_ambiguous(table, cx)),
            _ => None,
        };
        if let Some(table) = ambiguous {
            self.section.report_unknown(table, cx);
        } else if let Some(table) = cx.table(&entry.value) {
            let mut draft = (self.begin)(root, &entry.key, entry.key_span);
            self.section.read(&mut draft, &table, cx);
            (self.finish)(root, draft, &table, cx);
        }
        cx.leave();
    }
}

/// The problem of a section's name, if there is one. `__` would end it in the name of a variable.
fn name_fault(name: &str) -> Option<&'static str> {
    let letters = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    if name.is_empty() {
        Some("it is empty")
    } else if name.len() > 64 {
        Some("it is longer than 64 characters")
    } else if !name.bytes().all(letters) {
        Some("it contains other characters")
    } else if name.contains("__") {
        Some("`__` separates the parts of a variable's name")
    } else {
        None
    }
}

impl<T> Describe for NamedSections<T> {
    fn description(&self) -> Description {
        Description::new(
            "a table of named sections",
            "sections",
            Json::object([("type", Json::text("object")), ("additionalProperties", self.section.schema())]),
        )
    }

    fn children(&self, path: &str) -> Vec<KeyInfo> {
        self.section.infos(&format!("{path}.NAME"))
    }
}
