//! `auth_request`: a service that decides about each request of a route.

use std::time::Duration;

use super::RouteDraft;
use crate::checker::Checker;
use crate::key::{CheckedSubtable, DefaultValue, Key, Section, Set, Subtable};
use crate::raw::{Directive, Span, Table};
use crate::shape::{
    EmptyList, Flag, ListOf, ParsedString, RequestPath, SectionName, Size, Time, ValueError, field_name_fault,
};

/// `auth_request` before the checks of the whole file.
pub(crate) struct AuthRequestDraft {
    pub(crate) app: Option<(String, Span)>,
    pub(crate) upstream: Option<(String, Span)>,
    pub(crate) path: String,
    pub(crate) headers: Vec<String>,
    pub(crate) user_header: Option<String>,
    pub(crate) response_headers: Vec<String>,
    pub(crate) timeout: Duration,
    pub(crate) max_response: u64,
    pub(crate) ambiguous_paths: bool,
}

impl Default for AuthRequestDraft {
    fn default() -> AuthRequestDraft {
        AuthRequestDraft {
            app: None,
            upstream: None,
            path: String::new(),
            headers: Vec::new(),
            user_header: None,
            response_headers: Vec::new(),
            timeout: Duration::from_secs(5),
            max_response: 64 << 10,
            ambiguous_paths: false,
        }
    }
}

pub(super) const AUTH_REQUEST: Key<RouteDraft> = Key {
    name: "auth_request",
    brief: "App or upstream that decides about each request before the route serves it",
    long: "It gets a GET without a body, with the client's headers and `X-Original-Method`, `X-Original-URI`, `X-Forwarded-*` ([list](../guide/access.md#by-another-service)). 2xx: the request is served. 3xx and 4xx: the client gets that response. Otherwise, or if there is no response in time: 502 or 503. `deny`, `allow`, `rate_limit` and `basic_auth` are applied first.",
    default: DefaultValue::Words("none"),
    right: "auth_request = { app = \"shop\", path = \"/verify\", headers = [\"Remote-User\", \"X-Auth-*\"] }",
    wrong: "auth_request = \"/verify\"",
    value: &CheckedSubtable(
        Subtable(&SERVICE, |draft: &mut RouteDraft| draft.auth_request.get_or_insert_default()),
        check,
    ),
    ..Key::LIVE
};

static SERVICE: Section<AuthRequestDraft> = Section {
    keys: &[
        Key {
            name: "app",
            brief: "Name of the `[app.NAME]` that decides",
            default: DefaultValue::Words("none"),
            right: "app = \"shop\"",
            wrong: "app = \"\"",
            value: &Set(SectionName("app"), |draft: &mut AuthRequestDraft, app| draft.app = Some(app)),
            ..Key::LIVE
        },
        Key {
            name: "upstream",
            brief: "Name of the `[upstream.NAME]` that decides",
            long: "The client's `Host` is passed on, unless the upstream sets `host`.",
            default: DefaultValue::Words("none"),
            right: "upstream = \"search\"",
            wrong: "upstream = \"\"",
            value: &Set(SectionName("upstream"), |draft: &mut AuthRequestDraft, to| {
                draft.upstream = Some(to)
            }),
            ..Key::LIVE
        },
        Key {
            name: "path",
            brief: "Path, and perhaps the query, of the requests to it",
            default: DefaultValue::Required,
            right: "path = \"/api/authz/auth-request\"",
            wrong: "path = \"verify\"",
            value: &Set(RequestPath, |draft: &mut AuthRequestDraft, path| draft.path = path),
            ..Key::LIVE
        },
        Key {
            name: "headers",
            brief: "Headers of its response that the app or upstream gets as request headers",
            long: "Names, or their beginning followed by `*`. Such headers of the client are removed first, in every spelling that an application takes for the same (`Remote_User`), also if the service sends none. Several headers of one name are joined with a comma.",
            default: DefaultValue::Literal("[]"),
            right: "headers = [\"Remote-User\", \"X-Auth-*\"]",
            wrong: "headers = [\"X-*\"]",
            value: &Set(HEADERS, |draft: &mut AuthRequestDraft, headers| draft.headers = headers),
            ..Key::LIVE
        },
        Key {
            name: "user_header",
            brief: "Header of its response that names the user",
            long: "The app gets it like those of `headers`. The name is also the user of the request: `REMOTE_USER` of WSGI, Rack and PHP, and `user` in the access log.",
            default: DefaultValue::Words("none"),
            right: "user_header = \"Remote-User\"",
            wrong: "user_header = \"Remote-*\"",
            value: &Set(HEADER, |draft: &mut AuthRequestDraft, name| draft.user_header = Some(name)),
            ..Key::LIVE
        },
        Key {
            name: "response_headers",
            brief: "Headers of its 2xx response that the client gets with the response of the route",
            long: "Names, or their beginning followed by `*`: for example the `Set-Cookie` of a renewed session. `Set-Cookie` is added to the app's; every other one replaces those of the app and of `headers`. A 3xx or 4xx is passed on with all headers anyway.",
            default: DefaultValue::Literal("[]"),
            right: "response_headers = [\"Set-Cookie\", \"X-Auth-*\"]",
            wrong: "response_headers = [\"Content-Length\"]",
            value: &Set(RESPONSE_HEADERS, |draft: &mut AuthRequestDraft, headers| {
                draft.response_headers = headers
            }),
            ..Key::LIVE
        },
        Key {
            name: "timeout",
            brief: "Time until its response; then the client gets 503",
            default: DefaultValue::Literal("\"5s\""),
            right: "timeout = \"2s\"",
            wrong: "timeout = \"0s\"",
            value: &Set(
                Time(Duration::from_millis(1)..=Duration::from_secs(600)),
                |draft: &mut AuthRequestDraft, timeout| draft.timeout = timeout,
            ),
            ..Key::LIVE
        },
        Key {
            name: "max_response",
            brief: "Maximum size of the body of a 3xx or 4xx of it; with a larger one the client gets 502",
            long: "The body is held in memory until it is complete. The body of a 2xx is dropped.",
            default: DefaultValue::Literal("\"64KiB\""),
            right: "max_response = \"256KiB\"",
            wrong: "max_response = \"1GiB\"",
            value: &Set(Size(0..=1 << 20), |draft: &mut AuthRequestDraft, size| draft.max_response = size),
            ..Key::LIVE
        },
        Key {
            name: "ambiguous_paths",
            brief: "Also pass on requests whose path can be read in several ways",
            long: "The service may decide by a path that the app reads differently: `/public%2F..%2Fadmin`. So a path with `%2F`, `%5C`, `%3B`, `;`, `\\` or `//` gets 400. Set this if the service does not look at the path.",
            default: DefaultValue::Literal("false"),
            right: "ambiguous_paths = true",
            wrong: "ambiguous_paths = \"pass\"",
            value: &Set(Flag, |draft: &mut AuthRequestDraft, pass| draft.ambiguous_paths = pass),
            ..Key::LIVE
        },
    ],
};

const HEADERS: ListOf<ParsedString<String>> = ListOf {
    one: ParsedString {
        expected: "a header name, or the beginning of names and `*`",
        type_name: "header name",
        pattern: Some("^[A-Za-z0-9-]+\\*?$"),
        bare: None,
        read: |text| header(text, true),
    },
    expected: "header names, or their beginning and `*`",
    type_name: "string or list of strings",
    empty: EmptyList::Allowed,
};

const RESPONSE_HEADERS: ListOf<ParsedString<String>> = ListOf {
    one: ParsedString { read: response_header, ..HEADERS.one },
    expected: HEADERS.expected,
    type_name: HEADERS.type_name,
    empty: EmptyList::Allowed,
};

const HEADER: ParsedString<String> = ParsedString {
    expected: "a header name",
    type_name: "header name",
    pattern: Some("^[A-Za-z0-9-]+$"),
    bare: None,
    read: |text| header(text, false),
};

/// Headers that say more than who the client is, or that Keepwarm writes.
const RESERVED: [&str; 9] =
    ["host", "cookie", "set-cookie", "expect", "forwarded", "via", "range", "proxy", "x-real-ip"];
/// The beginnings of others.
const RESERVED_BEGINNINGS: [&str; 5] = ["content-", "if-", "x-forwarded-", "x-original-", "x-client-cert-"];

/// Headers of a response that are about its body or connection, or that servers in front of the service obey.
const RESPONSE_RESERVED: [&str; 12] = [
    "connection",
    "date",
    "etag",
    "keep-alive",
    "last-modified",
    "accept-ranges",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-sendfile",
];
const RESPONSE_RESERVED_BEGINNINGS: [&str; 2] = ["content-", "x-accel-"];

fn response_header(text: &str) -> Result<String, ValueError> {
    checked_header(text, true, &RESPONSE_RESERVED, &RESPONSE_RESERVED_BEGINNINGS)
}

fn header(text: &str, takes_pattern: bool) -> Result<String, ValueError> {
    let is_credentials = text
        .strip_suffix('*')
        .is_some_and(|begin| !begin.is_empty() && "authorization".starts_with(&begin.to_ascii_lowercase()));
    if takes_pattern && is_credentials {
        return Err(covers(text, "authorization"));
    }
    checked_header(text, takes_pattern, &RESERVED, &RESERVED_BEGINNINGS)
}

fn covers(text: &str, known: &str) -> ValueError {
    ValueError::new(format!("contains `{text}`, which covers `{known}`"))
        .help("use a longer beginning, such as \"X-Auth-*\"")
}

/// The text, a name or with `takes_pattern` perhaps the beginning of names, none of which is reserved.
fn checked_header(
    text: &str,
    takes_pattern: bool,
    reserved: &[&'static str],
    beginnings: &[&'static str],
) -> Result<String, ValueError> {
    let (name, is_pattern) = match text.strip_suffix('*').filter(|_| takes_pattern) {
        Some(begin) => (begin, true),
        None => (text, false),
    };
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return Err(ValueError::new(format!("contains `{text}`, which is not a header name"))
            .help("letters, digits and hyphens; no application would see another name"));
    }
    let lower = name.to_ascii_lowercase();
    let reserved = reserved.iter().chain(beginnings);
    let is_covered = |known: &&&str| match is_pattern {
        _ if known.ends_with('-') && lower.starts_with(**known) => true,
        true => known.starts_with(&lower),
        false => lower == **known,
    };
    let framing = (!is_pattern && field_name_fault(name).is_some()).then_some(name);
    match framing.or_else(|| reserved.clone().find(is_covered).copied()) {
        None => Ok(text.to_owned()),
        Some(known) if is_pattern => Err(covers(text, known)),
        Some(_) => Err(ValueError::new(format!("contains `{text}`, which the service may not set"))),
    }
}

fn check(_: &RouteDraft, table: &Table, directive: &Directive, cx: &mut Checker<'_>) {
    match (table.entry("app"), table.entry("upstream")) {
        (Some(app), Some(upstream)) => cx.both(app, upstream).expected("exactly one of them").report(cx),
        (None, None) => cx.missing(directive.span, "app = \"shop\"").report(cx),
        _ => {}
    }
    if table.entry("path").is_none() {
        cx.missing(directive.span, "path = \"/verify\"").report(cx);
    }
}
