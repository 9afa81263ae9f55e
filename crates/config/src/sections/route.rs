use std::path::PathBuf;

use super::listen::ListenDraft;
use crate::checker::Checker;
use crate::json::Json;
use crate::key::{Describe, Field, Info, Key, Preset, Reload, Section, Set};
use crate::model::{Cidr, EarlyHints, HeaderRules, HostPattern, PathPattern, Redirect, Respond};
use crate::raw::{Directive, Span, Table, Value};
use crate::shape::{
    Cidrs, Directory, Flag, Folders, Hosts, Methods, NameOf, OrWord, Paths, Redirects, Responses, Size,
    Words, header_rules,
};

/// `[[listen.NAME.route]]` as it was read.
pub(crate) struct RouteDraft {
    /// Of the whole route.
    pub(crate) span: Span,
    /// `listen.public.route[1]`
    pub(crate) name: String,
    pub(crate) hosts: Vec<HostPattern>,
    pub(crate) path: PathPattern,
    pub(crate) methods: Vec<String>,
    pub(crate) app: Option<(String, Span)>,
    pub(crate) upstream: Option<(String, Span)>,
    pub(crate) files: Option<PathBuf>,
    pub(crate) respond: Option<Respond>,
    pub(crate) redirect: Option<Redirect>,
    pub(crate) strip_prefix: Option<bool>,
    pub(crate) max_body: Option<Option<u64>>,
    pub(crate) buffer_request: Option<bool>,
    pub(crate) buffer_response: Option<bool>,
    pub(crate) early_hints: EarlyHints,
    pub(crate) any_header_names: bool,
    pub(crate) via: bool,
    pub(crate) headers: HeaderRules,
    pub(crate) allow: Vec<Cidr>,
    pub(crate) deny: Vec<Cidr>,
    pub(crate) abort_on_half_close: bool,
    pub(crate) try_files: Option<PathBuf>,
    pub(crate) send_files: Vec<(String, PathBuf)>,
    pub(crate) rate_limit: Option<(String, Span)>,
}

impl RouteDraft {
    pub(crate) fn new(name: String, span: Span) -> RouteDraft {
        RouteDraft {
            span,
            name,
            hosts: Vec::new(),
            path: PathPattern::Any,
            methods: Vec::new(),
            app: None,
            upstream: None,
            files: None,
            respond: None,
            redirect: None,
            strip_prefix: None,
            max_body: None,
            buffer_request: None,
            buffer_response: None,
            early_hints: EarlyHints::Auto,
            any_header_names: false,
            via: true,
            headers: HeaderRules::default(),
            allow: Vec::new(),
            deny: Vec::new(),
            abort_on_half_close: false,
            try_files: None,
            send_files: Vec::new(),
            rate_limit: None,
        }
    }
}

/// What a route can end in. Exactly one.
const ENDS: [&str; 5] = ["app", "upstream", "files", "redirect", "respond"];

/// The list of routes of a listener.
pub(crate) struct Routes(pub(crate) &'static Section<RouteDraft>);

impl Field<ListenDraft> for Routes {
    fn set(&self, listen: &mut ListenDraft, directive: &Directive, cx: &mut Checker<'_>) {
        listen.has_no_route = matches!(&directive.value, Value::List(items) if items.is_empty());
        for (index, item) in cx.items(directive).iter().enumerate() {
            let Some(table) = cx.table(item) else { continue };
            let name = format!("{}[{}]", cx.name(), index + 1);
            let mut draft = RouteDraft::new(name, item.span);
            cx.enter_item(index + 1);
            self.0.read(&mut draft, &table, cx);
            check(&draft, &table, cx);
            cx.leave();
            listen.routes.push(draft);
        }
    }

    fn describe(&self) -> &dyn Describe {
        self
    }
}

impl Describe for Routes {
    fn expected(&self) -> String {
        "a list of tables, one for each route: [[listen.NAME.route]]".to_owned()
    }

    fn type_name(&self) -> String {
        "list of tables".to_owned()
    }

    fn schema(&self) -> Json {
        Json::object([("type", Json::text("array")), ("items", self.0.schema())])
    }

    fn children(&self, path: &str) -> Vec<Info> {
        self.0.infos(path)
    }
}

/// What no key can know of the others.
fn check(draft: &RouteDraft, table: &Table, cx: &mut Checker<'_>) {
    let ends: Vec<_> = ENDS.iter().filter_map(|end| table.entry(end)).collect();
    let name = cx.name();
    match ends.as_slice() {
        [] => {
            let problem = cx
                .problem(
                    draft.span,
                    format!("`{name}` has no `app`, `upstream`, `files`, `respond` or `redirect`"),
                )
                .expected("exactly one of them");
            cx.push(problem);
        }
        [_] => {}
        [first, second, ..] => {
            let message = format!("`{name}` has both `{}` and `{}`", first.key, second.key);
            let problem = cx
                .problem(second.key_span, message)
                .related(cx.texts.place(first.key_span), "the other one")
                .expected("exactly one of `app`, `upstream`, `files`, `respond` or `redirect`")
                .help("split it into two routes");
            cx.push(problem);
        }
    }
    for key in ["try_files", "send_files"] {
        let Some(entry) = table.entry(key).filter(|_| table.entry("app").is_none()) else { continue };
        let problem = cx
            .problem(entry.key_span, format!("`{name}` has `{key}`, but no `app`"))
            .expected("`app` in the same route")
            .help("to serve the files of a directory and nothing else, use `files`");
        cx.push(problem);
    }
    let responded_here = ["files", "respond", "redirect"].iter().any(|end| table.entry(end).is_some());
    if let Some(entry) = table.entry("rate_limit").filter(|_| responded_here) {
        let problem = cx
            .problem(entry.key_span, format!("`{name}` has `rate_limit`, but leads to no app or upstream"))
            .key("listen.NAME.route.rate_limit")
            .expected("`rate_limit` on routes with `app` or `upstream`: a response of Keepwarm itself costs next to nothing");
        cx.push(problem);
    }
    let Some(strip) = table.entry("strip_prefix").filter(|_| draft.strip_prefix == Some(true)) else {
        return;
    };
    if !matches!(draft.path, PathPattern::Prefix(_)) {
        let problem = cx
            .problem(strip.key_span, format!("`{name}` has no prefix to strip"))
            .expected("a `path` such as \"/api/*\" with `strip_prefix`");
        cx.push(problem);
    }
}

pub(crate) static ROUTE: Section<RouteDraft> = Section {
    keys: &[
        Key {
            name: "host",
            brief: "Hosts that the route matches",
            long: "The request's host is compared without its port and regardless of case. `\"*.example.com\"` matches every name below `example.com`, but not `example.com` itself.",
            default: Preset::Words("all"),
            right: "host = [\"example.com\", \"*.example.com\"]",
            wrong: "host = \"example.com:8080\"",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(Hosts, |route: &mut RouteDraft, hosts| route.hosts = hosts),
        },
        Key {
            name: "path",
            brief: "Paths that the route matches",
            long: "`\"/x\"` matches that path only. `\"/x/*\"` matches every path that begins with `/x/`; it matches `/x` itself only with `strip_prefix`. `\"/*\"` matches all paths. Paths are compared in normalized form: unreserved octets decoded, escapes in upper case, dot segments removed, `//` kept.",
            default: Preset::Words("all"),
            right: "path = \"/assets/*\"",
            wrong: "path = \"assets/*\"",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(Paths, |route: &mut RouteDraft, path| route.path = path),
        },
        Key {
            name: "method",
            brief: "Methods that the route matches; `GET` includes `HEAD`",
            long: "",
            default: Preset::Words("all"),
            right: "method = [\"GET\", \"POST\"]",
            wrong: "method = \"get\"",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(Methods, |route: &mut RouteDraft, methods| route.methods = methods),
        },
        Key {
            name: "app",
            brief: "Name of the `[app.NAME]` that serves the requests",
            long: "A route has exactly one of `app`, `upstream`, `files`, `respond` and `redirect`.",
            default: Preset::Words("none"),
            right: "app = \"shop\"",
            wrong: "app = \"shpo\"",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(NameOf("app"), |route: &mut RouteDraft, app| route.app = Some(app)),
        },
        Key {
            name: "upstream",
            brief: "Name of the `[upstream.NAME]` that serves the requests",
            long: "The client's `Host` is passed on, unless the upstream sets `host`. Bodies are passed on as they arrive, limited only by `max_body` of this route.",
            default: Preset::Words("none"),
            right: "upstream = \"search\"",
            wrong: "upstream = \"saerch\"",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(NameOf("upstream"), |route: &mut RouteDraft, upstream| {
                route.upstream = Some(upstream)
            }),
        },
        Key {
            name: "files",
            brief: "Directory of files to serve",
            long: "The route's prefix is not part of the file names: with `path = \"/assets/*\"`, `/assets/x.css` is `x.css`. Supports GET and HEAD, conditional requests and ranges; for a directory, `index.html` is sent. Never served: names that begin with a dot (except `/.well-known/`), scripts (`.php`, `.phar` …), and targets of links outside of the directory.",
            default: Preset::Words("none"),
            right: "files = \"public/assets\"",
            wrong: "files = \"public/*.css\"",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(Directory, |route: &mut RouteDraft, folder| route.files = Some(folder)),
        },
        Key {
            name: "try_files",
            brief: "Directory of files to serve before the app is called",
            long: "A GET or HEAD request whose whole path names a file in it gets that file, by the rules of `files`. Every other request goes to the app. In front of a PHP app, requests for copies (`*~`, `*.bak`), for Composer's files and for whatever an `.htaccess` denies get 403.",
            default: Preset::Words("none"),
            right: "try_files = \"public\"",
            wrong: "try_files = [\"$uri\", \"/index.php\"]",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(Directory, |route: &mut RouteDraft, folder| route.try_files = Some(folder)),
        },
        Key {
            name: "send_files",
            brief: "Directories whose files the app may send: `{ \"/protected/\" = DIRECTORY }`",
            long: "A response with `X-Accel-Redirect: /protected/a.zip` sends the file `a.zip` of that directory. A response with `X-Sendfile` names a file in one of the directories by its absolute path. Keepwarm handles ranges and conditional requests; the other headers are the app's. Without this key, both headers are passed on like any other.",
            default: Preset::Words("none"),
            right: "send_files = { \"/protected/\" = \"var/files\" }",
            wrong: "send_files = \"var/files\"",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(Folders, |route: &mut RouteDraft, folders| route.send_files = folders),
        },
        Key {
            name: "respond",
            brief: "Fixed response: a status, or a table",
            long: "",
            default: Preset::Words("none"),
            right: "respond = { status = 200, body = \"pong\" }",
            wrong: "respond = \"pong\"",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(Responses, |route: &mut RouteDraft, respond| route.respond = Some(respond)),
        },
        Key {
            name: "redirect",
            brief: "Redirect: a target, or a table",
            long: "",
            default: Preset::Words("none"),
            right: "redirect = \"https://example.com$path$query\"",
            wrong: "redirect = \"/$path\"",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(Redirects, |route: &mut RouteDraft, redirect| route.redirect = Some(redirect)),
        },
        Key {
            name: "strip_prefix",
            brief: "Remove the route's prefix from the path that the app sees",
            long: "With `path = \"/api/*\"`, a request for `/api/x` reaches the app as `/x`, with `/api` in `SCRIPT_NAME` (WSGI) or `root_path` (ASGI). The route also matches `/api` itself, unless an earlier route does.",
            default: Preset::Value("false"),
            right: "strip_prefix = true",
            wrong: "strip_prefix = \"/api\"",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(Flag, |route: &mut RouteDraft, strip| route.strip_prefix = Some(strip)),
        },
        Key {
            name: "max_body",
            brief: "Maximum size of a request body; a larger one gets 413",
            long: "A larger declared length is rejected at once, without `100 Continue`.",
            default: Preset::Words(
                "`limits.body` of the listener; for an upstream none, unless `buffer_request = true`",
            ),
            right: "max_body = \"200MiB\"",
            wrong: "max_body = \"200mb\"",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(
                OrWord { word: "off", shape: Size { min: 0, max: 1 << 40 } },
                |route: &mut RouteDraft, size| route.max_body = Some(size),
            ),
        },
        Key {
            name: "buffer_request",
            brief: "Read the whole request body before the app or upstream is called",
            long: "A slow upload then occupies no worker and no connection. Up to 256 KiB are kept in memory, the rest in an unnamed file in the temporary directory. For an upstream, `limits.body` then applies as it does for an app, a body that arrived in chunks is sent with its length, Keepwarm itself responds to `Expect: 100-continue`, and the upstream's `timeout` starts when the body is complete.",
            default: Preset::Words(
                "`true` for WSGI, Rack and PHP; `false` for ASGI, `kind = \"http\"` and upstreams",
            ),
            right: "buffer_request = false",
            wrong: "buffer_request = \"no\"",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(Flag, |route: &mut RouteDraft, buffer| route.buffer_request = Some(buffer)),
        },
        Key {
            name: "buffer_response",
            brief: "Free the worker or upstream connection as soon as the response is produced",
            long: "A slow reader then occupies neither. What the client has not read yet is kept in memory, then in a spill file, up to `limits.response_buffer`. Streams are still sent as they are produced.",
            default: Preset::Words(
                "`true` for WSGI, Rack and PHP; `false` for ASGI, `kind = \"http\"` and upstreams",
            ),
            right: "buffer_response = false",
            wrong: "buffer_response = 0",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(Flag, |route: &mut RouteDraft, buffer| route.buffer_response = Some(buffer)),
        },
        Key {
            name: "early_hints",
            brief: "Clients that get an app's `103 Early Hints`",
            long: "`\"auto\"`: clients known to support it, which over HTTP/1.1 are those that send `Sec-Fetch-Mode: navigate` (RFC 8297 §3). `\"always\"`: every HTTP/1.1 client. An HTTP/1.0 client never gets a 1xx response.",
            default: Preset::Value("\"auto\""),
            right: "early_hints = \"never\"",
            wrong: "early_hints = \"alwyas\"",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(Words(HINTS), |route: &mut RouteDraft, hints| route.early_hints = hints),
        },
        Key {
            name: "any_header_names",
            brief: "Pass on request headers of any name, not only of letters, digits and `-`",
            long: "Applies to ASGI, `kind = \"http\"` and upstreams. CGI-style environments treat `_` and `.` in a name like `-`: a server further on would take `X_User` for `X-User`. Without this key, such headers are dropped and counted. `Proxy` (httpoxy) is never passed on, and WSGI, Rack and PHP never get such names.",
            default: Preset::Value("false"),
            right: "any_header_names = true",
            wrong: "any_header_names = \"X_User\"",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(Flag, |route: &mut RouteDraft, any| route.any_header_names = any),
        },
        Key {
            name: "via",
            brief: "Add `Via: 1.1 keepwarm` to requests to `kind = \"http\"` apps and upstreams",
            long: "RFC 9110 §7.6.3 requires it of every intermediary. Some servers do less for such requests: nginx compresses none of their responses unless `gzip_proxied` says so.",
            default: Preset::Value("true"),
            right: "via = false",
            wrong: "via = \"keepwarm\"",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(Flag, |route: &mut RouteDraft, via| route.via = via),
        },
        Key {
            name: "headers",
            brief: "Headers to set or remove in every response",
            long: "Written as `{ set = { NAME = VALUE }, remove = [NAME] }`.",
            default: Preset::Words("none"),
            right: "headers = { set = { X-Frame-Options = \"DENY\" }, remove = [\"X-Powered-By\"] }",
            wrong: "headers = \"X-Frame-Options: DENY\"",
            reload: Reload::Live,
            since: "0.1.0",
            value: &header_rules(|route: &mut RouteDraft| &mut route.headers),
        },
        Key {
            name: "allow",
            brief: "Clients that may use the route; all others get 403",
            long: "Addresses and address blocks. The client is the peer, or the client that a trusted proxy reports. `deny` is applied first.",
            default: Preset::Words("everybody"),
            right: "allow = [\"10.0.0.0/8\", \"::1\"]",
            wrong: "allow = [\"10.0.0.0/33\"]",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(Cidrs, |route: &mut RouteDraft, blocks| route.allow = blocks),
        },
        Key {
            name: "deny",
            brief: "Clients that get 403",
            long: "",
            default: Preset::Words("nobody"),
            right: "deny = [\"203.0.113.0/24\"]",
            wrong: "deny = [\"somebody\"]",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(Cidrs, |route: &mut RouteDraft, blocks| route.deny = blocks),
        },
        Key {
            name: "rate_limit",
            brief: "Name of the `[rate_limit.NAME]` that applies",
            long: "Requests over the limit get 429, with `Retry-After`. `deny` and `allow` are applied first.",
            default: Preset::Words("none"),
            right: "rate_limit = \"api\"",
            wrong: "rate_limit = \"aip\"",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(NameOf("rate_limit"), |route: &mut RouteDraft, limit| route.rate_limit = Some(limit)),
        },
        Key {
            name: "abort_on_half_close",
            brief: "Cancel a request when its client closes the write side of the connection",
            long: "Off by default, because a client may close its write side after its request and wait for the response (RFC 9112 §9.6).",
            default: Preset::Value("false"),
            right: "abort_on_half_close = true",
            wrong: "abort_on_half_close = \"yes\"",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(Flag, |route: &mut RouteDraft, abort| route.abort_on_half_close = abort),
        },
        Key::later("compress", "Compression of responses"),
    ],
};

const HINTS: &[(&str, EarlyHints)] =
    &[("auto", EarlyHints::Auto), ("always", EarlyHints::Always), ("never", EarlyHints::Never)];
