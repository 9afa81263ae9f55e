//! Keys that say which requests a route matches.

use super::RouteDraft;
use crate::key::{DefaultValue, Key, Set};
use crate::model::{PathPattern, Scheme};
use crate::shape::{
    CLIENTS, COOKIE_CONDITIONS, HEADER_CONDITIONS, HOSTS, METHODS, PATHS, QUERY_CONDITIONS, Words,
    pattern_set,
};

pub(super) const HOST: Key<RouteDraft> = Key {
    name: "host",
    brief: "Hosts that the route matches",
    long: "The request's host is compared without its port and regardless of case. `\"*.example.com\"` matches every name below `example.com`, but not `example.com` itself. In other places, `*` is any text. `\"~…\"` is a regular expression of the host in lower case. `\"!…\"` negates a pattern: the route matches if one of the others does, or there is no other, and no negated one does.",
    default: DefaultValue::Words("all"),
    right: "host = [\"example.com\", \"*.example.com\"]",
    wrong: "host = \"example.com:8080\"",
    value: &Set(HOSTS, |draft: &mut RouteDraft, hosts| {
        let hosts = pattern_set(hosts);
        draft.route.hosts = hosts.any;
        draft.route.conditions.not_hosts = hosts.none;
    }),
    ..Key::LIVE
};

pub(super) const PATH: Key<RouteDraft> = Key {
    name: "path",
    brief: "Paths that the route matches",
    long: "`\"/x\"` matches that path only. `\"/x/*\"` matches every path that begins with `/x/`; it matches `/x` itself only with `strip_prefix`. `\"/*\"` matches all paths. In other places (`\"*.php\"`, `\"/blog/*/feed\"`), `*` is any text, also with slashes. `\"~…\"` is a regular expression, which matches anywhere unless `^` and `$` anchor it. `\"!…\"` negates a pattern: the route matches if one of the others does, or there is no other, and no negated one does. Case matters. Paths are compared in normalized form: unreserved octets decoded, escapes in upper case, dot segments removed, `//` kept. A path with `%2F`, `;` or `//` that an application may understand as a path of another route gets 400.",
    default: DefaultValue::Words("all"),
    right: "path = [\"/assets/*\", \"!*.map\"]",
    wrong: "path = \"assets/*\"",
    value: &Set(PATHS, |draft: &mut RouteDraft, paths| {
        let mut paths = pattern_set(paths);
        draft.route.path = match paths.any.len() {
            1 => paths.any.pop().unwrap_or(PathPattern::Any),
            _ => PathPattern::Any,
        };
        draft.route.conditions.paths = paths;
    }),
    ..Key::LIVE
};

pub(super) const METHOD: Key<RouteDraft> = Key {
    name: "method",
    brief: "Methods that the route matches; `GET` includes `HEAD`",
    long: "`\"!…\"` negates a method: the route matches if one of the others does, or there is no other, and no negated one does. `\"!GET\"` negates `HEAD` as well.",
    default: DefaultValue::Words("all"),
    right: "method = [\"GET\", \"POST\"]",
    wrong: "method = \"get\"",
    value: &Set(METHODS, |draft: &mut RouteDraft, methods| {
        let methods = pattern_set(methods);
        draft.route.methods = methods.any;
        draft.route.conditions.not_methods = methods.none;
    }),
    ..Key::LIVE
};

pub(super) const HEADER: Key<RouteDraft> = Key {
    name: "header",
    brief: "Headers that the route matches: `{ NAME = PATTERN }`",
    long: "The request must meet the condition of every name. A pattern is a value in which `*` is any text; `\"~…\"` is a regular expression; `\"!…\"` negates a pattern. `\"*\"` requires the header, `\"!*\"` its absence. In a list, one of the patterns must match and no negated one may. A header with several lines has several values: a pattern matches if it matches one of them, and a negated pattern fails if it does. Names are compared regardless of case, values by case.",
    default: DefaultValue::Words("all"),
    right: "header = { X-Api-Version = [\"2\", \"3\"], Accept = \"*json*\" }",
    wrong: "header = { Host = \"example.com\" }",
    value: &Set(HEADER_CONDITIONS, |draft: &mut RouteDraft, headers| {
        draft.route.conditions.headers = headers;
    }),
    ..Key::LIVE
};

pub(super) const QUERY: Key<RouteDraft> = Key {
    name: "query",
    brief: "Arguments of the query that the route matches: `{ NAME = PATTERN }`",
    long: "Names and values are decoded as those of forms: `%41` is `A`, `+` is a space; an argument without `=` has an empty value. Case matters. Patterns as in `header`. If a name is repeated, every value counts: a pattern matches if it matches one of them, and a negated pattern fails if it does. `;` separates arguments as well as `&`, in addition: some applications read it that way.",
    default: DefaultValue::Words("all"),
    right: "query = { version = \"~^[0-9]+$\" }",
    wrong: "query = { version = \"~[\" }",
    value: &Set(QUERY_CONDITIONS, |draft: &mut RouteDraft, query| {
        draft.route.conditions.query = query;
    }),
    ..Key::LIVE
};

pub(super) const COOKIE: Key<RouteDraft> = Key {
    name: "cookie",
    brief: "Cookies that the route matches: `{ NAME = PATTERN }`",
    long: "Patterns as in `header`. Case matters, in names too. If a client sends a name several times, every value counts, as for `query`.",
    default: DefaultValue::Words("all"),
    right: "cookie = { beta = \"1\" }",
    wrong: "cookie = { \"be ta\" = \"1\" }",
    value: &Set(COOKIE_CONDITIONS, |draft: &mut RouteDraft, cookies| {
        draft.route.conditions.cookies = cookies;
    }),
    ..Key::LIVE
};

pub(super) const CLIENT: Key<RouteDraft> = Key {
    name: "client",
    brief: "Addresses of clients that the route matches",
    long: "Addresses and address blocks; `\"!…\"` negates one. The client is the peer, or the client that a trusted proxy reports. A client on a Unix socket is 127.0.0.1. Clients that do not match go to the next route that does; to refuse them, use `allow` and `deny`.",
    default: DefaultValue::Words("all"),
    right: "client = [\"10.0.0.0/8\", \"!10.0.0.1\"]",
    wrong: "client = \"10.0.0.0/33\"",
    value: &Set(CLIENTS, |draft: &mut RouteDraft, clients| {
        draft.route.conditions.clients = pattern_set(clients);
    }),
    ..Key::LIVE
};

pub(super) const SCHEME: Key<RouteDraft> = Key {
    name: "scheme",
    brief: "Scheme that the route matches",
    long: "The scheme that the client used: that of the connection, or the one that a trusted proxy reports.",
    default: DefaultValue::Words("both"),
    right: "scheme = \"http\"",
    wrong: "scheme = \"ftp\"",
    value: &Set(Words(SCHEMES), |draft: &mut RouteDraft, scheme| {
        draft.route.conditions.scheme = Some(scheme);
    }),
    ..Key::LIVE
};

const SCHEMES: &[(&str, Scheme)] = &[("http", Scheme::Http), ("https", Scheme::Https)];
