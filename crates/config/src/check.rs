//! Checks that involve several sections: names, addresses, unreachable routes.

use std::path::PathBuf;

use crate::checker::Checker;
use crate::model::{
    Acme, AcmeChallenge, Action, Admin, App, AppKind, AuthRequest, Config, ErrorPage, HostPattern, ListenTls,
    Listener, Mirror, Otlp, PageSource, PathPattern, Program, Route, SplitShare, SplitTarget, Upstream,
};
use crate::raw::{SourceMap, Span, Table, Value};
use crate::report::Problem;
use crate::sections::{
    AuthRequestDraft, ListenDraft, MirrorDraft, OtlpDraft, Root, RouteDraft, SplitDraft, TlsDraft,
    UpstreamDraft, check_maps, check_processes, https_redirect, implied_listeners,
};
use crate::shape::{ErrorPageDraft, PageSourceDraft};
use crate::sources::{PathKind, Sources};

mod addresses;
mod names;

use names::SectionNames;

/// The configuration, valid only if `cx` has no problems afterwards. A missing section is reported for `file`.
pub(crate) fn finish(root: Root, table: &Table, file: Option<&str>, cx: &mut Checker<'_>) -> Config {
    let Root {
        server, admin, otlp, acme, maps, mut listeners, apps, processes, upstreams, rate_limits, ..
    } = root;
    listeners.extend(implied_listeners(&listeners, &server.limits));
    let acme = acme.finish();
    check_maps(&maps, cx);
    check_something_listens(table, file, cx);
    addresses::check(&listeners, admin.as_ref(), &upstreams, cx);
    check_on_demand(&listeners, cx);
    names::check_variables(&upstreams, cx);
    let known = SectionNames {
        apps: apps.iter().map(|draft| (draft.app.name.clone(), draft.span)).collect(),
        upstreams: upstreams.iter().map(|draft| (draft.upstream.name.clone(), draft.span)).collect(),
        rate_limits: rate_limits.iter().map(|draft| (draft.limit.name.clone(), draft.span)).collect(),
    };
    check_processes(&processes, cx);
    names::check_dependencies(&processes, &known, cx);
    let processes = processes.into_iter().map(|draft| draft.process).collect();
    let apps: Vec<App> = apps.into_iter().map(|draft| draft.app).collect();
    let listeners: Vec<Listener> =
        listeners.into_iter().map(|listen| finish_listener(listen, &apps, &known, cx)).collect();
    check_challenges(&acme, &listeners, cx);
    let upstreams: Vec<Upstream> =
        upstreams.into_iter().map(|draft| finish_upstream(draft, &known, cx)).collect();
    let admin = admin.map(|draft| Admin {
        bind: draft.bind.into_iter().map(|(bind, _)| bind).collect(),
        token: draft.token,
    });
    let otlp = otlp.and_then(|draft| finish_otlp(draft, &known, cx));
    let rate_limits = rate_limits.into_iter().map(|draft| draft.limit).collect();
    let maps = std::mem::take(&mut cx.maps);
    let config =
        Config { server, admin, otlp, acme, maps, listeners, apps, processes, upstreams, rate_limits };
    names::warn_of_unused(&config, &known, cx);
    config
}

/// The configuration needs a listener, a door or a process.
fn check_something_listens(table: &Table, file: Option<&str>, cx: &mut Checker<'_>) {
    let upstreams = match table.entry("upstream").map(|entry| &entry.value.value) {
        Some(Value::Table(upstreams)) => upstreams.entries.as_slice(),
        _ => &[],
    };
    let is_door = |value: &Value| matches!(value, Value::Table(upstream) if upstream.entry("bind").is_some());
    if table.entry("listen").is_some()
        || table.entry("process").is_some()
        || upstreams.iter().any(|upstream| is_door(&upstream.value.value))
    {
        return;
    }
    let mut problem = Problem::new("nothing listens: there is no [listen.NAME]")
        .key("listen")
        .expected("at least one listener, for example [listen.public] with bind = \"127.0.0.1:8080\"");
    if !upstreams.is_empty() {
        problem = problem.help("or give an [upstream.NAME] a door: bind = \"127.0.0.1:6102\"");
    }
    if let Some(file) = file {
        problem = problem.at(SourceMap::unreadable(file));
    }
    problem.report(cx);
}

fn finish_listener(draft: ListenDraft, apps: &[App], known: &SectionNames, cx: &mut Checker<'_>) -> Listener {
    warn_of_unreachable(&draft, cx);
    warn_of_uncovered(&draft, cx);
    let body = draft.limits.body;
    let compression = draft.compression;
    let mut routes: Vec<Route> = Vec::new();
    for mut route in draft.routes {
        let own = route.compression.take().or_else(|| compression.clone());
        route.route.compression = own.filter(|compression| compression.enabled);
        routes.extend(finish_route(route, body, known, cx));
    }
    if let Some(port) = draft.redirect_to_https {
        routes.push(https_redirect(port, body));
    } else if draft.has_no_route && draft.forward_proxy.is_none() {
        match apps {
            [app] => routes.push(Route {
                try_files: site_directory(app, cx.sources),
                compression: compression.filter(|compression| compression.enabled),
                ..Route::to(Action::App(app.name.clone()), body)
            }),
            _ => {
                Problem::new(format!("`listen.{}` has no route", draft.name))
                    .key("listen.NAME.route")
                    .at(cx.source_map.location(draft.span))
                    .expected("at least one [[listen.NAME.route]], unless there is exactly one app")
                    .report(cx);
            }
        }
    }
    let name = format!("listen.{}", draft.name);
    Listener {
        name: draft.name,
        bind: draft.bind.into_iter().map(|(bind, _)| bind).collect(),
        limits: draft.limits,
        access_log: draft.access_log,
        http2: draft.http2,
        error_pages: finish_pages(draft.error_pages, &name, known, cx),
        routes,
        tls: draft.tls.and_then(TlsDraft::finish),
        forward_proxy: draft.forward_proxy,
        proxy_protocol: draft.proxy_protocol,
        allow: draft.allow,
        deny: draft.deny,
        headers: draft.headers,
        request_headers: draft.request_headers,
    }
}

/// A name has one certificate, which all listeners on demand present: one service decides about it.
fn check_on_demand(listeners: &[ListenDraft], cx: &mut Checker<'_>) {
    let mut urls =
        listeners.iter().filter_map(|listen| Some((listen, listen.tls.as_ref()?.on_demand.as_ref()?)));
    let Some((first, (url, first_span))) = urls.next() else { return };
    for (listen, (_, span)) in urls.filter(|(_, (other, _))| other != url) {
        let (name, first) = (&listen.name, &first.name);
        cx.problem(*span, format!("`listen.{name}` asks another service than `listen.{first}`"))
            .key("listen.NAME.tls.on_demand")
            .related(cx.source_map.location(*first_span), "the other one")
            .expected("the same URL for every listener: a name has one certificate")
            .report(cx);
    }
}

/// Names that no challenge can be met for would only fail, again and again.
fn check_challenges(acme: &Acme, listeners: &[Listener], cx: &mut Checker<'_>) {
    let names = |listen: &Listener| listen.tls.as_ref().is_some_and(ListenTls::has_authority);
    let has_plaintext = listeners.iter().any(|listen| listen.tls.is_none() && !listen.proxy_protocol);
    let only = |challenge: AcmeChallenge| acme.challenges == [challenge];
    for listen in listeners.iter().filter(|listen| names(listen)) {
        let asks =
            listen.tls.as_ref().and_then(|tls| tls.client_auth.as_ref()).is_some_and(|auth| auth.required);
        let what = if only(AcmeChallenge::Http01) && !has_plaintext {
            "no listener without TLS responds to the challenge http-01"
        } else if asks && (only(AcmeChallenge::TlsAlpn01) || !has_plaintext) {
            "the challenge tls-alpn-01 fails where clients must have certificates, which the authority has not"
        } else {
            continue;
        };
        Problem::new(format!("`listen.{}` has names for an authority, but {what}", listen.name))
            .key("acme.challenges")
            .expected("a listener on port 80 without TLS, for the challenge http-01")
            .help("add [listen.http] with bind = \"0.0.0.0:80\" and redirect_to_https = 443")
            .report(cx);
    }
}

/// `None` if a problem was reported.
fn finish_otlp(draft: OtlpDraft, known: &SectionNames, cx: &mut Checker<'_>) -> Option<Otlp> {
    if let Some((name, span)) = &draft.upstream {
        names::check(name, *span, "otlp.upstream", "otlp.upstream", "upstream", &known.upstreams, cx);
    }
    draft.finish()
}

fn finish_upstream(draft: UpstreamDraft, known: &SectionNames, cx: &mut Checker<'_>) -> Upstream {
    let rate_limit = draft.rate_limit.map(|(name, span)| {
        let key = format!("upstream.{}.rate_limit", draft.upstream.name);
        names::check(&name, span, &key, "upstream.NAME.rate_limit", "rate_limit", &known.rate_limits, cx);
        name
    });
    let bind = draft.bind.into_iter().map(|(bind, _)| bind).collect();
    Upstream { bind, rate_limit, ..draft.upstream }
}

/// Names that frameworks use for the public directory inside a project. Not `html` or `htdocs`, which often contain
/// whole projects.
const PUBLIC_DIRECTORIES: [&str; 5] = ["public", "web", "webroot", "docroot", "pub"];

/// The directory whose files are served for an app without routes. A site of classic PHP has scripts and files in one
/// directory. For warm workers it is the directory of the front controller, if its name says that it is public:
/// another one may contain the whole project.
fn site_directory(app: &App, sources: &dyn Sources) -> Option<PathBuf> {
    let Program::Entry(entry) = &app.program else { return None };
    let script = app.directory.join(entry);
    let is_directory = || sources.path_kind(&script.to_string_lossy()) == PathKind::Directory;
    let folder = script.parent()?;
    let public = || {
        let name = folder.file_name().and_then(|name| name.to_str());
        script.file_name().is_some_and(|name| name == "index.php")
            && name.is_some_and(|name| PUBLIC_DIRECTORIES.contains(&name))
    };
    match app.kind {
        Some(AppKind::FastCgi) if is_directory() => Some(script),
        Some(AppKind::FastCgi) => Some(folder.to_path_buf()),
        Some(AppKind::Php) if public() => Some(folder.to_path_buf()),
        _ => None,
    }
}

/// `None` if a problem was reported.
fn finish_route(
    draft: RouteDraft,
    body: Option<u64>,
    known: &SectionNames,
    cx: &mut Checker<'_>,
) -> Option<Route> {
    let rate_limit = draft.rate_limit.map(|(name, span)| {
        let key = format!("{}.rate_limit", draft.name);
        names::check(&name, span, &key, "listen.NAME.route.rate_limit", "rate_limit", &known.rate_limits, cx);
        name
    });
    let action = match (draft.app, draft.upstream, draft.files, draft.respond, draft.redirect) {
        (Some((name, span)), None, None, None, None) => {
            let key = format!("{}.app", draft.name);
            names::check(&name, span, &key, "listen.NAME.route.app", "app", &known.apps, cx);
            Action::App(name)
        }
        (None, Some((name, span)), None, None, None) => {
            let key = format!("{}.upstream", draft.name);
            names::check(&name, span, &key, "listen.NAME.route.upstream", "upstream", &known.upstreams, cx);
            Action::Upstream(name)
        }
        (None, None, Some(folder), None, None) => Action::Files(folder),
        (None, None, None, Some(respond), None) => Action::Respond(respond),
        (None, None, None, None, Some(redirect)) => Action::Redirect(redirect),
        _ => return None,
    };
    // A body for an upstream is passed on as it arrives, so `limits.body` applies only if the route buffers it.
    let held = draft.route.buffer_request == Some(true);
    let body = body.filter(|_| held || !matches!(action, Action::Upstream(_)));
    let max_body = draft.max_body.unwrap_or(body);
    let split =
        draft.split.into_iter().filter_map(|share| finish_share(share, &draft.name, known, cx)).collect();
    let mirror = draft.mirror.and_then(|mirror| finish_mirror(mirror, &draft.name, known, cx));
    let auth_request = draft.auth_request.and_then(|auth| finish_auth_request(auth, &draft.name, known, cx));
    let error_pages = finish_pages(draft.error_pages, &draft.name, known, cx);
    Some(Route { action, split, mirror, error_pages, auth_request, max_body, rate_limit, ..draft.route })
}

fn finish_pages(
    drafts: Vec<ErrorPageDraft>,
    owner: &str,
    known: &SectionNames,
    cx: &mut Checker<'_>,
) -> Vec<ErrorPage> {
    let mut finish = |draft: ErrorPageDraft| {
        let source = match draft.source {
            PageSourceDraft::File(file) => PageSource::File(file),
            PageSourceDraft::App(page) => {
                let referrer = Referrer::ErrorPages { of_route: owner.contains(".route[") };
                let target = finish_target(page.app, page.upstream, owner, referrer, known, cx)?;
                PageSource::App(target, page.path)
            }
        };
        Some(ErrorPage { statuses: draft.statuses, source })
    };
    drafts.into_iter().filter_map(&mut finish).collect()
}

/// `None` if a problem was reported.
fn finish_share(
    draft: SplitDraft,
    route: &str,
    known: &SectionNames,
    cx: &mut Checker<'_>,
) -> Option<SplitShare> {
    let target = finish_target(draft.app, draft.upstream, route, Referrer::Split, known, cx)?;
    Some(SplitShare { target, share: draft.share })
}

/// `None` if a problem was reported.
fn finish_mirror(
    draft: MirrorDraft,
    route: &str,
    known: &SectionNames,
    cx: &mut Checker<'_>,
) -> Option<Mirror> {
    let MirrorDraft { app, upstream, share, max_body, all_methods } = draft;
    let target = finish_target(app, upstream, route, Referrer::Mirror, known, cx)?;
    Some(Mirror { target, share, max_body, all_methods })
}

/// `None` if a problem was reported.
fn finish_auth_request(
    draft: AuthRequestDraft,
    route: &str,
    known: &SectionNames,
    cx: &mut Checker<'_>,
) -> Option<AuthRequest> {
    let AuthRequestDraft {
        app,
        upstream,
        path,
        headers,
        user_header,
        response_headers,
        timeout,
        max_response,
        ambiguous_paths,
    } = draft;
    let service = finish_target(app, upstream, route, Referrer::AuthRequest, known, cx)?;
    Some(AuthRequest {
        service,
        path,
        headers,
        user_header,
        response_headers,
        timeout,
        max_response,
        ambiguous_paths,
    })
}

/// The key of a route that names another target.
#[derive(Clone, Copy)]
enum Referrer {
    Split,
    Mirror,
    AuthRequest,
    ErrorPages { of_route: bool },
}

/// `None` if a problem was reported.
fn finish_target(
    app: Option<(String, Span)>,
    upstream: Option<(String, Span)>,
    route: &str,
    referrer: Referrer,
    known: &SectionNames,
    cx: &mut Checker<'_>,
) -> Option<SplitTarget> {
    let (word, app_key, upstream_key) = match referrer {
        Referrer::Split => ("split", "listen.NAME.route.split.app", "listen.NAME.route.split.upstream"),
        Referrer::Mirror => ("mirror", "listen.NAME.route.mirror.app", "listen.NAME.route.mirror.upstream"),
        Referrer::ErrorPages { of_route: true } => {
            ("error_pages", "listen.NAME.route.error_pages", "listen.NAME.route.error_pages")
        }
        Referrer::ErrorPages { of_route: false } => {
            ("error_pages", "listen.NAME.error_pages", "listen.NAME.error_pages")
        }
        Referrer::AuthRequest => {
            ("auth_request", "listen.NAME.route.auth_request.app", "listen.NAME.route.auth_request.upstream")
        }
    };
    match (app, upstream) {
        (Some((name, span)), None) => {
            let key = format!("{route}.{word}.app");
            names::check(&name, span, &key, app_key, "app", &known.apps, cx);
            Some(SplitTarget::App(name))
        }
        (None, Some((name, span))) => {
            let key = format!("{route}.{word}.upstream");
            names::check(&name, span, &key, upstream_key, "upstream", &known.upstreams, cx);
            Some(SplitTarget::Upstream(name))
        }
        _ => None,
    }
}

/// Warns of routes after one that matches all their requests.
fn warn_of_unreachable(listen: &ListenDraft, cx: &mut Checker<'_>) {
    for (index, route) in listen.routes.iter().enumerate() {
        let Some(first) = listen.routes.iter().take(index).find(|first| covers(&first.route, &route.route))
        else {
            continue;
        };
        Problem::new(format!("`{}` is never reached", route.name))
            .key("listen.NAME.route")
            .at(cx.source_map.location(route.span))
            .related(cx.source_map.location(first.span), "this route matches all its requests")
            .help("the first route that matches serves a request: put the narrower route first")
            .warn(cx);
    }
}

/// Warns of hosts of routes that no certificate is for: clients would refuse the connection.
fn warn_of_uncovered(listen: &ListenDraft, cx: &mut Checker<'_>) {
    let Some(tls) = &listen.tls else { return };
    for route in &listen.routes {
        let exact = route.route.hosts.iter().filter_map(|host| match host {
            HostPattern::Exact(host) => Some(host.trim_start_matches('[').trim_end_matches(']')),
            HostPattern::Suffix(_) | HostPattern::Glob(_) | HostPattern::Regex(_) => None,
        });
        for host in exact.filter(|host| !tls.covers(host)) {
            Problem::new(format!(
                "`{}` is for {host}, and no certificate of `listen.{}.tls` is",
                route.name, listen.name
            ))
            .key("listen.NAME.tls.certificates")
            .at(cx.source_map.location(route.span))
            .expected("a certificate for each `host` of a route")
            .help(format!("add one that is for {host} to `certificates`"))
            .warn(cx);
        }
    }
}

fn covers(first: &Route, later: &Route) -> bool {
    let hosts = first.hosts.is_empty()
        || (!later.hosts.is_empty() && later.hosts.iter().all(|host| first.hosts.contains(host)));
    let methods = first.methods.is_empty()
        || (!later.methods.is_empty() && later.methods.iter().all(|method| first.methods.contains(method)));
    let paths = match (&first.path, &later.path) {
        (PathPattern::Any, _) => true,
        (PathPattern::Prefix(first), PathPattern::Prefix(later) | PathPattern::Exact(later)) => {
            later.starts_with(first.as_str())
        }
        (first, later) => first == later,
    };
    let conditions = first.conditions.is_empty() || first.conditions == later.conditions;
    hosts && methods && paths && conditions
}
