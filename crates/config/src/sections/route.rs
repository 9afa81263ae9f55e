mod auth_request;
mod errors;
mod files;
mod matching;
mod mirror;
mod split;
mod sticky;

use super::access::{BASIC_AUTH_FIELD, CONCURRENCY_FIELD};
use super::compression::COMPRESSION;
use super::map;
use crate::checker::Checker;
use crate::description::{Describe, Description, KeyInfo};
use crate::json::Json;
use crate::key::{CheckedSubtable, DefaultValue, Key, Section, Set};
use crate::model::{
    Action, Compression, EarlyHints, FilesFolder, FixedResponse, HeaderRules, PathPattern, Redirect, Route,
    Template,
};
use crate::raw::{Directive, Span, Table};
use crate::shape::{
    CIDRS, DirectoryTable, ErrorPageDraft, ExistingPath, FilesFolderShape, Flag, ParsedString, RedirectShape,
    ResponseShape, SectionName, Size, ValueError, WordOr, Words, header_rules, mapped_fault, template,
};

pub(crate) use auth_request::AuthRequestDraft;
pub(crate) use mirror::MirrorDraft;
pub(crate) use split::SplitDraft;

/// `[[listen.NAME.route]]` before the checks of the whole file.
pub(crate) struct RouteDraft {
    /// The span of the whole route.
    pub(crate) span: Span,
    /// `listen.public.route[1]`
    pub(crate) name: String,
    /// `action`, `max_body`, `rate_limit` and `compression` are valid only after the checks of the whole file.
    pub(crate) route: Route,
    pub(crate) app: Option<(String, Span)>,
    pub(crate) upstream: Option<(String, Span)>,
    pub(crate) files: Option<FilesFolder>,
    pub(crate) respond: Option<FixedResponse>,
    pub(crate) redirect: Option<Redirect>,
    pub(crate) max_body: Option<Option<u64>>,
    pub(crate) rate_limit: Option<(String, Span)>,
    pub(crate) split: Vec<SplitDraft>,
    pub(crate) error_pages: Vec<ErrorPageDraft>,
    pub(crate) mirror: Option<MirrorDraft>,
    pub(crate) auth_request: Option<AuthRequestDraft>,
    /// It replaces that of the listener.
    pub(crate) compression: Option<Compression>,
}

impl RouteDraft {
    fn new(name: String, span: Span) -> RouteDraft {
        RouteDraft {
            span,
            name,
            route: Route::to(Action::App(String::new()), None),
            app: None,
            upstream: None,
            files: None,
            respond: None,
            redirect: None,
            max_body: None,
            rate_limit: None,
            split: Vec::new(),
            error_pages: Vec::new(),
            mirror: None,
            auth_request: None,
            compression: None,
        }
    }
}

/// The keys of the actions, of which a route has exactly one.
const ACTIONS: [&str; 5] = ["app", "upstream", "files", "redirect", "respond"];

/// The list of routes of a listener.
pub(super) struct RouteList;

impl RouteList {
    pub(super) fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Vec<RouteDraft> {
        let mut routes = Vec::new();
        for (index, item) in cx.items(directive).iter().enumerate() {
            let Some(table) = cx.table(item) else { continue };
            let name = format!("{}[{}]", cx.name(), index + 1);
            let mut draft = RouteDraft::new(name, item.span);
            cx.enter_item(index + 1);
            ROUTE.read(&mut draft, &table, cx);
            check(&draft, &table, cx);
            cx.leave();
            routes.push(draft);
        }
        routes
    }
}

impl Describe for RouteList {
    fn description(&self) -> Description {
        Description::new(
            "a list of tables, one for each route: [[listen.NAME.route]]",
            "list of tables",
            Json::object([("type", Json::text("array")), ("items", ROUTE.schema())]),
        )
    }

    fn children(&self, path: &str) -> Vec<KeyInfo> {
        ROUTE.infos(path)
    }
}

fn check_request_headers(draft: &RouteDraft, _: &Table, directive: &Directive, cx: &mut Checker<'_>) {
    check_written_headers(&draft.route.request_headers, directive, cx);
}

/// Other `X-Forwarded-` headers (`X-Forwarded-Port`, which Tomcat wants) are the operator's: those of untrusted clients are removed, and nothing else makes them.
const WRITTEN: [&str; 7] = [
    "host",
    "forwarded",
    "expect",
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-host",
    "x-forwarded-prefix",
];

/// Headers of requests that the edge itself writes.
pub(super) fn check_written_headers(rules: &HeaderRules, directive: &Directive, cx: &mut Checker<'_>) {
    let set = rules.set.iter().chain(&rules.add).chain(&rules.if_missing).map(|(name, _)| name);
    for name in set.chain(&rules.remove) {
        let lower = name.to_ascii_lowercase();
        if WRITTEN.contains(&lower.as_str()) {
            let help = (lower == "host").then(|| "use `host` of the upstream".to_owned());
            cx.problem(directive.span, format!("`{}` changes `{name}`, which Keepwarm writes", cx.name()))
                .maybe_help(help)
                .report(cx);
        }
    }
}

/// The keys with variables, each with its templates.
fn templates(draft: &RouteDraft) -> [(&'static str, Vec<&Template>); 6] {
    let route = &draft.route;
    [
        ("headers", route.headers.templates().collect()),
        ("request_headers", route.request_headers.templates().collect()),
        ("rewrite", route.rewrite.iter().collect()),
        ("redirect", draft.redirect.iter().map(|redirect| &redirect.to).collect()),
        ("files", draft.files.iter().flat_map(|files| &files.below).collect()),
        ("respond", draft.respond.iter().map(|respond| &respond.body).collect()),
    ]
}

/// Maps must exist, and their values must not let a client choose the host of a redirect.
fn check_maps(draft: &RouteDraft, table: &Table, cx: &mut Checker<'_>) {
    for (key, templates) in templates(draft) {
        map::check_uses(templates, key, table, cx);
    }
    let (Some(redirect), Some(entry)) = (&draft.redirect, table.entry("redirect")) else { return };
    if redirect.to.maps().next().is_none() {
        return;
    }
    if let Some(fault) = mapped_fault(&redirect.to, &cx.maps) {
        cx.problem(entry.value.span, format!("`{}.redirect` {}", cx.name(), fault.what))
            .key("listen.NAME.route.redirect")
            .expected("a path that begins with `/`, or a URL that begins with `http://` or `https://`")
            .maybe_help(fault.help)
            .report(cx);
    }
}

/// `$1` to `$9` must stand for something.
fn check_captures(draft: &RouteDraft, cx: &mut Checker<'_>) {
    let used = templates(draft).iter().flat_map(|(_, used)| used).map(|used| used.captures()).max();
    let used = used.unwrap_or(0);
    let known = draft.route.path.captures();
    if usize::from(used) > known {
        let message = format!("`{}` uses `${used}`, but its `path` has {known} `*` or groups", cx.name());
        cx.problem(draft.span, message)
            .expected("a single `path` (apart from negated ones) with a `*` or a group in parentheses for each number")
            .help("for a dollar sign, write `$$`")
            .report(cx);
    }
}

/// Checks that involve several keys.
fn check(draft: &RouteDraft, table: &Table, cx: &mut Checker<'_>) {
    let actions: Vec<_> = ACTIONS.iter().filter_map(|end| table.entry(end)).collect();
    let name = cx.name();
    match actions.as_slice() {
        [] => {
            cx.problem(
                draft.span,
                format!("`{name}` has no `app`, `upstream`, `files`, `respond` or `redirect`"),
            )
            .expected("exactly one of them")
            .report(cx);
        }
        [_] => {}
        [first, second, ..] => {
            cx.both(first, second)
                .expected("exactly one of `app`, `upstream`, `files`, `respond` or `redirect`")
                .help("split it into two routes")
                .report(cx);
        }
    }
    for key in ["try_files", "send_files"] {
        let Some(entry) = table.entry(key).filter(|_| table.entry("app").is_none()) else { continue };
        cx.problem(entry.key_span, format!("`{name}` has `{key}`, but no `app`"))
            .expected("`app` in the same route")
            .help("to serve the files of a directory and nothing else, use `files`")
            .report(cx);
    }
    files::check(table, cx);
    errors::check(draft, table, cx);
    split::check(table, cx);
    sticky::check(table, cx);
    mirror::check_route(table, cx);
    let responded_here = ["files", "respond", "redirect"].iter().any(|end| table.entry(end).is_some());
    if let Some(entry) = table.entry("rate_limit").filter(|_| responded_here) {
        let message = format!("`{name}` has `rate_limit`, but leads to no app or upstream");
        let expected = "`rate_limit` on routes with `app` or `upstream`: a response of Keepwarm itself costs next to nothing";
        cx.problem(entry.key_span, message).key("listen.NAME.route.rate_limit").expected(expected).report(cx);
    }
    check_captures(draft, cx);
    check_maps(draft, table, cx);
    if let Some(entry) = table.entry("request_headers").filter(|_| responded_here) {
        cx.problem(
            entry.key_span,
            format!("`{name}` has `request_headers`, but leads to no app or upstream"),
        )
        .expected("`request_headers` on routes with `app` or `upstream`")
        .report(cx);
    }
    if let Some(rewrite) = table.entry("rewrite") {
        if let Some(strip) = table.entry("strip_prefix").filter(|_| draft.route.strip_prefix) {
            cx.both(strip, rewrite).help("a rewrite says the whole path: \"/$1\" strips a prefix").report(cx);
        }
        if ["respond", "redirect"].iter().any(|end| table.entry(end).is_some()) {
            cx.problem(rewrite.key_span, format!("`{name}` has `rewrite`, but nothing gets the path"))
                .expected("`rewrite` on routes with `app`, `upstream` or `files`")
                .report(cx);
        }
    }
    let Some(strip) = table.entry("strip_prefix").filter(|_| draft.route.strip_prefix) else { return };
    if !matches!(draft.route.path, PathPattern::Prefix(_)) {
        cx.problem(strip.key_span, format!("`{name}` has no prefix to strip"))
            .expected("a `path` such as \"/api/*\" with `strip_prefix`")
            .report(cx);
    }
}

/// `rewrite` of a route.
const REWRITE: ParsedString<Template> = ParsedString {
    expected: "a path with variables that begins with a slash",
    type_name: "path with variables",
    pattern: Some("^/"),
    bare: None,
    read: rewrite,
};

fn rewrite(text: &str) -> Result<Template, ValueError> {
    if !text.starts_with('/') {
        return Err(ValueError::new(format!("is `{text}`, which does not begin with a slash"))
            .help(format!("write \"/{text}\"")));
    }
    if text.chars().any(|c| c.is_control() || c == ' ' || c == '#' || !c.is_ascii()) {
        return Err(ValueError::new(
            "contains spaces, `#`, control characters or characters that are not ASCII",
        )
        .help("escape them with %XX"));
    }
    template(text)
}

static ROUTE: Section<RouteDraft> = Section {
    keys: &[
        matching::HOST,
        matching::PATH,
        matching::METHOD,
        matching::HEADER,
        matching::QUERY,
        matching::COOKIE,
        matching::CLIENT,
        matching::SCHEME,
        Key {
            name: "app",
            brief: "Name of the `[app.NAME]` that serves the requests",
            long: "A route has exactly one of `app`, `upstream`, `files`, `respond` and `redirect`.",
            default: DefaultValue::Words("none"),
            right: "app = \"shop\"",
            wrong: "app = \"shpo\"",
            value: &Set(SectionName("app"), |draft: &mut RouteDraft, app| draft.app = Some(app)),
            ..Key::LIVE
        },
        Key {
            name: "upstream",
            brief: "Name of the `[upstream.NAME]` that serves the requests",
            long: "The client's `Host` is passed on, unless the upstream sets `host`. Bodies are passed on as they arrive, limited only by `max_body` of this route.",
            default: DefaultValue::Words("none"),
            right: "upstream = \"search\"",
            wrong: "upstream = \"saerch\"",
            value: &Set(SectionName("upstream"), |draft: &mut RouteDraft, upstream| {
                draft.upstream = Some(upstream)
            }),
            ..Key::LIVE
        },
        Key {
            name: "files",
            brief: "Directory of files to serve",
            long: "The route's prefix is not part of the file names: with `path = \"/assets/*\"`, `/assets/x.css` is `x.css`. With several patterns or another kind of pattern, the whole path is the name. Supports GET and HEAD, conditional requests and ranges; for a directory, its `index` is sent. Names in the path after a fixed directory can have variables ([rules](../guide/files.md#a-directory-for-each-host)): `\"/srv/sites/$host_name\"`. Never served: names that begin with a dot (except `/.well-known/`), scripts (`.php`, `.phar` …), and targets of links outside of the directory.",
            default: DefaultValue::Words("none"),
            right: "files = \"public/assets\"",
            wrong: "files = \"public/*.css\"",
            value: &Set(FilesFolderShape, |draft: &mut RouteDraft, folder| draft.files = Some(folder)),
            ..Key::LIVE
        },
        Key {
            name: "try_files",
            brief: "Directory of files to serve before the app is called",
            long: "A GET or HEAD request whose whole path names a file in it gets that file, by the rules of `files`. Every other request goes to the app. In front of a PHP app, requests for copies (`*~`, `*.bak`), for Composer's files and for whatever an `.htaccess` denies get 403.",
            default: DefaultValue::Words("none"),
            right: "try_files = \"public\"",
            wrong: "try_files = [\"$uri\", \"/index.php\"]",
            value: &Set(ExistingPath::Directory, |draft: &mut RouteDraft, folder| {
                draft.route.try_files = Some(folder)
            }),
            ..Key::LIVE
        },
        Key {
            name: "send_files",
            brief: "Directories whose files the app may send: `{ \"/protected/\" = DIRECTORY }`",
            long: "A response with `X-Accel-Redirect: /protected/a.zip` sends the file `a.zip` of that directory. A response with `X-Sendfile` names a file in one of the directories by its absolute path. Keepwarm handles ranges and conditional requests; the other headers are the app's. Without this key, both headers are passed on like any other.",
            default: DefaultValue::Words("none"),
            right: "send_files = { \"/protected/\" = \"var/files\" }",
            wrong: "send_files = \"var/files\"",
            value: &Set(DirectoryTable, |draft: &mut RouteDraft, folders| draft.route.send_files = folders),
            ..Key::LIVE
        },
        split::SPLIT,
        split::SPLIT_BY,
        mirror::MIRROR,
        sticky::STICKY,
        files::INDEX,
        files::LISTING,
        files::IMMUTABLE,
        files::FILE_HEADERS,
        Key {
            name: "respond",
            brief: "Fixed response: a status, or a table",
            default: DefaultValue::Words("none"),
            right: "respond = { status = 200, body = \"pong\" }",
            wrong: "respond = \"pong\"",
            value: &Set(ResponseShape, |draft: &mut RouteDraft, respond| draft.respond = Some(respond)),
            ..Key::LIVE
        },
        Key {
            name: "redirect",
            brief: "Redirect: a target, or a table",
            default: DefaultValue::Words("none"),
            right: "redirect = \"https://example.com$path$query\"",
            wrong: "redirect = \"/$path\"",
            value: &Set(RedirectShape, |draft: &mut RouteDraft, redirect| draft.redirect = Some(redirect)),
            ..Key::LIVE
        },
        Key {
            name: "strip_prefix",
            brief: "Remove the route's prefix from the path that the app sees",
            long: "With `path = \"/api/*\"`, a request for `/api/x` reaches the app as `/x`, with `/api` in `SCRIPT_NAME` (WSGI) or `root_path` (ASGI). The route also matches `/api` itself, unless an earlier route does.",
            default: DefaultValue::Literal("false"),
            right: "strip_prefix = true",
            wrong: "strip_prefix = \"/api\"",
            value: &Set(Flag, |draft: &mut RouteDraft, strip| draft.route.strip_prefix = strip),
            ..Key::LIVE
        },
        Key {
            name: "max_body",
            brief: "Maximum size of a request body; a larger one gets 413",
            long: "A larger declared length is rejected at once, without `100 Continue`.",
            default: DefaultValue::Words(
                "`limits.body` of the listener; for an upstream none, unless `buffer_request = true`",
            ),
            right: "max_body = \"200MiB\"",
            wrong: "max_body = \"200mb\"",
            value: &Set(WordOr("off", Size(0..=1 << 40)), |draft: &mut RouteDraft, size| {
                draft.max_body = Some(size)
            }),
            ..Key::LIVE
        },
        Key {
            name: "buffer_request",
            brief: "Read the whole request body before the app or upstream is called",
            long: "A slow upload then occupies no worker and no connection. Up to 256 KiB are kept in memory, the rest in an unnamed file in the temporary directory. For an upstream, `limits.body` then applies as it does for an app, a body that arrived in chunks is sent with its length, Keepwarm itself responds to `Expect: 100-continue`, and the upstream's `timeout` starts when the body is complete.",
            default: DefaultValue::Words(
                "`true` for WSGI, Rack and PHP; `false` for ASGI, `kind = \"http\"` and upstreams",
            ),
            right: "buffer_request = false",
            wrong: "buffer_request = \"no\"",
            value: &Set(Flag, |draft: &mut RouteDraft, buffer| draft.route.buffer_request = Some(buffer)),
            ..Key::LIVE
        },
        Key {
            name: "buffer_response",
            brief: "Free the worker or upstream connection as soon as the response is produced",
            long: "A slow reader then occupies neither. What the client has not read yet is kept in memory, then in a spill file, up to `limits.response_buffer`. Streams are still sent as they are produced.",
            default: DefaultValue::Words(
                "`true` for WSGI, Rack and PHP; `false` for ASGI, `kind = \"http\"` and upstreams",
            ),
            right: "buffer_response = false",
            wrong: "buffer_response = 0",
            value: &Set(Flag, |draft: &mut RouteDraft, buffer| draft.route.buffer_response = Some(buffer)),
            ..Key::LIVE
        },
        Key {
            name: "early_hints",
            brief: "Clients that get an app's `103 Early Hints`",
            long: "`\"auto\"`: clients known to support it: those of HTTP/2, and over HTTP/1.1 those that send `Sec-Fetch-Mode: navigate` (RFC 8297 §3). `\"always\"`: every client of HTTP/1.1 or HTTP/2. An HTTP/1.0 client never gets a 1xx response.",
            default: DefaultValue::Literal("\"auto\""),
            right: "early_hints = \"never\"",
            wrong: "early_hints = \"alwyas\"",
            value: &Set(Words(HINTS), |draft: &mut RouteDraft, hints| draft.route.early_hints = hints),
            ..Key::LIVE
        },
        Key {
            name: "any_header_names",
            brief: "Pass on request headers of any name, not only of letters, digits and `-`",
            long: "Applies to ASGI, `kind = \"http\"` and upstreams. CGI-style environments treat `_` and `.` in a name like `-`: a server further on would take `X_User` for `X-User`. Without this key, such headers are dropped and counted. `Proxy` (httpoxy) is never passed on, and WSGI, Rack and PHP never get such names.",
            default: DefaultValue::Literal("false"),
            right: "any_header_names = true",
            wrong: "any_header_names = \"X_User\"",
            value: &Set(Flag, |draft: &mut RouteDraft, any| draft.route.any_header_names = any),
            ..Key::LIVE
        },
        Key {
            name: "via",
            brief: "Add `Via: 1.1 keepwarm` to requests to `kind = \"http\"` apps and upstreams",
            long: "RFC 9110 §7.6.3 requires it of every intermediary. Some servers do less for such requests: nginx compresses none of their responses unless `gzip_proxied` says so.",
            default: DefaultValue::Literal("true"),
            right: "via = false",
            wrong: "via = \"keepwarm\"",
            value: &Set(Flag, |draft: &mut RouteDraft, via| draft.route.via = via),
            ..Key::LIVE
        },
        Key {
            name: "rewrite",
            brief: "Path that the app, upstream or file lookup gets in place of the request's",
            long: "A path with variables ([list](../guide/routes.md#variables)): `$1` is what the first `*`, or the first group of a regular expression, of `path` stands for. Without `?` the query stays as it is; with `?` it is replaced, and `$args` is the old one. The route was chosen before, and is not looked for again. A result that is not a normalized path gets 400.",
            default: DefaultValue::Words("none"),
            right: "rewrite = \"/v1/$1\"",
            wrong: "rewrite = \"v1/$1\"",
            value: &Set(REWRITE, |draft: &mut RouteDraft, rewrite| draft.route.rewrite = Some(rewrite)),
            ..Key::LIVE
        },
        Key {
            name: "request_headers",
            brief: "Headers to set or remove in requests that an app or upstream gets",
            long: "Written like `headers`. A header that is set here replaces the client's, whatever the client sends. `Host`, `Forwarded` and `X-Forwarded-*` are not changed by it.",
            default: DefaultValue::Words("none"),
            right: "request_headers = { set = { X-Tenant = \"$host_name\" } }",
            wrong: "request_headers = { set = { Host = \"example.com\" } }",
            value: &CheckedSubtable(
                header_rules(|draft: &mut RouteDraft| &mut draft.route.request_headers),
                check_request_headers,
            ),
            ..Key::LIVE
        },
        Key {
            name: "headers",
            brief: "Headers to set or remove in every response",
            long: "Written as `{ set = { NAME = VALUE }, add = { NAME = VALUE }, if_missing = { NAME = VALUE }, remove = [NAME] }`.",
            default: DefaultValue::Words("none"),
            right: "headers = { set = { X-Frame-Options = \"DENY\" }, remove = [\"X-Powered-By\"] }",
            wrong: "headers = \"X-Frame-Options: DENY\"",
            value: &header_rules(|draft: &mut RouteDraft| &mut draft.route.headers),
            ..Key::LIVE
        },
        errors::ERROR_PAGES,
        errors::INTERCEPT_ERRORS,
        Key {
            name: "allow",
            brief: "Clients that may use the route; all others get 403",
            long: "Addresses and address blocks. The client is the peer, or the client that a trusted proxy reports. `deny` is applied first.",
            default: DefaultValue::Words("everybody"),
            right: "allow = [\"10.0.0.0/8\", \"::1\"]",
            wrong: "allow = [\"10.0.0.0/33\"]",
            value: &Set(CIDRS, |draft: &mut RouteDraft, blocks| draft.route.allow = blocks),
            ..Key::LIVE
        },
        Key {
            name: "deny",
            brief: "Clients that get 403",
            default: DefaultValue::Words("nobody"),
            right: "deny = [\"203.0.113.0/24\"]",
            wrong: "deny = [\"somebody\"]",
            value: &Set(CIDRS, |draft: &mut RouteDraft, blocks| draft.route.deny = blocks),
            ..Key::LIVE
        },
        Key {
            name: "rate_limit",
            brief: "Name of the `[rate_limit.NAME]` that applies",
            long: "Requests over the limit get 429, with `Retry-After`. `deny` and `allow` are applied first.",
            default: DefaultValue::Words("none"),
            right: "rate_limit = \"api\"",
            wrong: "rate_limit = \"aip\"",
            value: &Set(SectionName("rate_limit"), |draft: &mut RouteDraft, limit| {
                draft.rate_limit = Some(limit)
            }),
            ..Key::LIVE
        },
        Key {
            name: "concurrency",
            brief: "How many requests of the route are in progress at once",
            long: "Applied after `deny`, `allow`, `rate_limit`, `basic_auth` and `auth_request`. A request is in progress until its response is complete, a WebSocket until it ends.",
            default: DefaultValue::Words("no limit"),
            right: "concurrency = { total = 100, per_client = 4, wait = \"2s\" }",
            wrong: "concurrency = 100",
            value: &CONCURRENCY_FIELD,
            ..Key::LIVE
        },
        Key {
            name: "basic_auth",
            brief: "Users that may use the route, with a password (RFC 7617)",
            long: "Everybody else gets 401. `deny`, `allow` and `rate_limit` are applied first. The app gets the user's name in the header `Remote-User`, which no client can set on this route; WSGI, Rack and PHP also get `REMOTE_USER` and `AUTH_TYPE`, ASGI an extension ([list](../guide/access.md#what-the-app-is-told)). Passwords are checked on threads of their own, and a correct one is remembered for a minute. Use it over TLS only: the password is sent with each request.",
            default: DefaultValue::Words("none"),
            right: "basic_auth = { file = \"htpasswd\", realm = \"Staging\" }",
            wrong: "basic_auth = \"htpasswd\"",
            value: &BASIC_AUTH_FIELD,
            ..Key::LIVE
        },
        auth_request::AUTH_REQUEST,
        Key {
            name: "abort_on_half_close",
            brief: "Cancel a request when its client closes the write side of the connection",
            long: "Off by default, because a client may close its write side after its request and wait for the response (RFC 9112 §9.6).",
            default: DefaultValue::Literal("false"),
            right: "abort_on_half_close = true",
            wrong: "abort_on_half_close = \"yes\"",
            value: &Set(Flag, |draft: &mut RouteDraft, abort| draft.route.abort_on_half_close = abort),
            ..Key::LIVE
        },
        Key {
            name: "compress",
            brief: "Compress responses with zstd, brotli or gzip",
            long: "`true`, `false`, or a table with other settings; it replaces the listener's `compress`. Responses of the app or upstream, files, fixed responses and error pages are compressed alike, by `Accept-Encoding`. Streams are flushed as the app sends them. Not compressed: what has a `Content-Encoding` already, `Cache-Control: no-transform`, a digest or a signature; parts (206); HTTP/1.0. An app switches it off for a response with `Content-Encoding: identity`, which is not passed on.",
            default: DefaultValue::Words("that of the listener"),
            right: "compress = true",
            wrong: "compress = \"gzip\"",
            value: &Set(COMPRESSION, |draft: &mut RouteDraft, compression| {
                draft.compression = Some(compression)
            }),
            ..Key::LIVE
        },
    ],
};

const HINTS: &[(&str, EarlyHints)] =
    &[("auto", EarlyHints::Auto), ("always", EarlyHints::Always), ("never", EarlyHints::Never)];
