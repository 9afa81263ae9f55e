//! What no section can know of the others: routes and their apps, addresses, what is never reached.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use crate::checker::Checker;
use crate::model::{Action, Admin, App, AppKind, Bind, Config, Listen, PathPattern, Program, Route};
use crate::nearest::{nearest, or_list};
use crate::raw::{Span, Table};
use crate::report::Problem;
use crate::sections::{AdminDraft, ListenDraft, Root, RouteDraft};

/// The configuration, good only if `cx` has no problem afterwards. `file` is what to name when something is missing.
pub(crate) fn finish(root: Root, table: &Table, file: Option<&str>, cx: &mut Checker<'_>) -> Config {
    let Root { server, admin, listens, apps, .. } = root;
    if table.entry("listen").is_none() {
        let mut problem = Problem::new("nothing listens: there is no [listen.NAME]")
            .key("listen")
            .expected("at least one listener, for example [listen.public] with bind = \"127.0.0.1:8080\"");
        if let Some(file) = file {
            problem = problem.at(Span::nowhere(file));
        }
        cx.push(problem);
    }
    check_addresses(&listens, admin.as_ref(), cx);
    let apps: Vec<(App, Span)> = apps.into_iter().map(|draft| (draft.app, draft.span)).collect();
    let listens: Vec<Listen> = listens.into_iter().map(|listen| settle(listen, &apps, cx)).collect();
    warn_of_unused(&listens, &apps, cx);
    let admin = admin.map(|draft| Admin {
        bind: draft.bind.into_iter().map(|(bind, _)| bind).collect(),
        token: draft.token,
    });
    Config { server, admin, listens, apps: apps.into_iter().map(|(app, _)| app).collect() }
}

fn settle(draft: ListenDraft, apps: &[(App, Span)], cx: &mut Checker<'_>) -> Listen {
    warn_of_unreachable(&draft, cx);
    let body = draft.limits.body;
    let mut routes: Vec<Route> =
        draft.routes.into_iter().filter_map(|route| settle_route(route, body, apps, cx)).collect();
    if draft.has_no_route {
        match apps {
            [(app, _)] => routes.push(Route {
                try_files: script_folder(app),
                ..Route::to(Action::App(app.name.clone()), body)
            }),
            _ => {
                let problem = Problem::new(format!("`listen.{}` has no route", draft.name))
                    .key("listen.NAME.route")
                    .at(cx.texts.place(draft.span))
                    .expected("at least one [[listen.NAME.route]], unless there is exactly one app");
                cx.push(problem);
            }
        }
    }
    Listen {
        name: draft.name,
        bind: draft.bind.into_iter().map(|(bind, _)| bind).collect(),
        limits: draft.limits,
        access_log: draft.access_log,
        routes,
    }
}

/// A site of classic PHP is scripts and files in one folder, and nobody has said otherwise.
fn script_folder(app: &App) -> Option<PathBuf> {
    match (&app.program, app.kind) {
        (Program::Entry(entry), Some(AppKind::FastCgi)) => {
            app.directory.join(entry).parent().map(Path::to_path_buf)
        }
        _ => None,
    }
}

/// `None` when something about it is wrong, which has been said.
fn settle_route(
    draft: RouteDraft,
    body: Option<u64>,
    apps: &[(App, Span)],
    cx: &mut Checker<'_>,
) -> Option<Route> {
    let action = match (draft.app, draft.files, draft.respond, draft.redirect) {
        (Some((name, span)), None, None, None) => {
            check_app(&name, span, &draft.name, apps, cx);
            Action::App(name)
        }
        (None, Some(folder), None, None) => Action::Files(folder),
        (None, None, Some(respond), None) => Action::Respond(respond),
        (None, None, None, Some(redirect)) => Action::Redirect(redirect),
        _ => return None,
    };
    Some(Route {
        hosts: draft.hosts,
        path: draft.path,
        methods: draft.methods,
        action,
        strip_prefix: draft.strip_prefix.unwrap_or(false),
        max_body: draft.max_body.unwrap_or(body),
        buffer_request: draft.buffer_request,
        buffer_response: draft.buffer_response,
        early_hints: draft.early_hints,
        headers: draft.headers,
        allow: draft.allow,
        deny: draft.deny,
        abort_on_half_close: draft.abort_on_half_close,
        try_files: draft.try_files,
        send_files: draft.send_files,
    })
}

fn check_app(name: &str, span: Span, route: &str, apps: &[(App, Span)], cx: &mut Checker<'_>) {
    if apps.iter().any(|(app, _)| app.name == name) {
        return;
    }
    let names: Vec<&str> = apps.iter().map(|(app, _)| app.name.as_str()).collect();
    let near = nearest(name, names.iter().copied());
    let expected = match names.is_empty() {
        true => "an [app.NAME] section; there is none".to_owned(),
        false => format!("the name of an [app.NAME]: {}", or_list(&names)),
    };
    let mut problem = Problem::new(format!("`{route}.app` is `{name}`, and there is no `[app.{name}]`"))
        .key("listen.NAME.route.app")
        .at(cx.texts.place(span))
        .expected(expected);
    if !near.is_empty() {
        problem = problem.help(format!("did you mean {}?", or_list(&near)));
    }
    cx.push(problem);
}

/// No two listeners on one address: with `SO_REUSEPORT` the kernel would let both in, and deal connections out among
/// them.
fn check_addresses(listens: &[ListenDraft], admin: Option<&AdminDraft>, cx: &mut Checker<'_>) {
    let of = |name: String, binds: &'_ [(Bind, Span)]| -> Vec<(String, Bind, Span)> {
        binds.iter().map(|(bind, span)| (name.clone(), bind.clone(), *span)).collect()
    };
    let mut all: Vec<(String, Bind, Span)> =
        listens.iter().flat_map(|listen| of(format!("listen.{}", listen.name), &listen.bind)).collect();
    all.extend(admin.into_iter().flat_map(|admin| of("admin".to_owned(), &admin.bind)));
    for (index, (name, bind, span)) in all.iter().enumerate() {
        let earlier = all.iter().take(index).find(|(_, other, _)| clash(bind, other));
        let Some((other_name, other, other_span)) = earlier else { continue };
        let shared = if bind == other { "is the address of" } else { "overlaps with an address of" };
        let problem = Problem::new(format!("`{bind}` of `{name}` {shared} `{other_name}`"))
            .key(if name == "admin" { "admin.bind" } else { "listen.NAME.bind" })
            .at(cx.texts.place(*span))
            .related(cx.texts.place(*other_span), format!("`{other}`"))
            .expected("an address of its own for each listener");
        cx.push(problem);
    }
}

fn clash(a: &Bind, b: &Bind) -> bool {
    match (a, b) {
        (Bind::Unix(a), Bind::Unix(b)) => a == b,
        (Bind::Tcp(a), Bind::Tcp(b)) => clash_tcp(*a, *b),
        (Bind::Host { host: a, port }, Bind::Host { host: b, port: other }) => {
            a == b && port == other && *port != 0
        }
        (Bind::Host { host, port }, Bind::Tcp(tcp)) | (Bind::Tcp(tcp), Bind::Host { host, port }) => {
            // A name is resolved later; this one is known, and a wildcard takes in whatever any name resolves to.
            let known = host == "localhost" && tcp.ip().is_loopback();
            (known || tcp.ip().is_unspecified()) && *port == tcp.port() && *port != 0
        }
        _ => false,
    }
}

fn clash_tcp(a: SocketAddr, b: SocketAddr) -> bool {
    let (ip, other) = (a.ip().to_canonical(), b.ip().to_canonical());
    let same_family = matches!((ip, other), (IpAddr::V4(_), IpAddr::V4(_)) | (IpAddr::V6(_), IpAddr::V6(_)));
    let meet = ip == other || ip.is_unspecified() || other.is_unspecified();
    same_family && meet && a.port() == b.port() && a.port() != 0
}

/// A route behind one that takes all it could take.
fn warn_of_unreachable(listen: &ListenDraft, cx: &mut Checker<'_>) {
    for (index, route) in listen.routes.iter().enumerate() {
        let Some(first) = listen.routes.iter().take(index).find(|first| takes_all_of(first, route)) else {
            continue;
        };
        let problem = Problem::new(format!("`{}` is never reached", route.name))
            .key("listen.NAME.route")
            .at(cx.texts.place(route.span))
            .related(cx.texts.place(first.span), "this route takes all its requests")
            .help("the first route that matches serves a request: put the narrower one first");
        cx.warn(problem);
    }
}

fn takes_all_of(first: &RouteDraft, later: &RouteDraft) -> bool {
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
    hosts && methods && paths
}

fn warn_of_unused(listens: &[Listen], apps: &[(App, Span)], cx: &mut Checker<'_>) {
    let used: Vec<&str> = listens
        .iter()
        .flat_map(|listen| &listen.routes)
        .filter_map(|route| match &route.action {
            Action::App(name) => Some(name.as_str()),
            _ => None,
        })
        .collect();
    for (app, span) in apps.iter().filter(|(app, _)| !used.contains(&app.name.as_str())) {
        let problem =
            Problem::new(format!("no route leads to `app.{}`: it is started, and gets no request", app.name))
                .key("listen.NAME.route.app")
                .at(cx.texts.place(*span))
                .help(format!("add a [[listen.NAME.route]] with app = \"{}\", or remove the app", app.name));
        cx.warn(problem);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_meet() {
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
            assert!(clash(&a, &b) && clash(&b, &a), "{a} {b}");
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
            assert!(!clash(&a, &b) && !clash(&b, &a), "{a} {b}");
        }
    }
}
