//! Who may use a route, and how much of it at once.

use std::time::Duration;

use super::route::RouteDraft;
use crate::checker::Checker;
use crate::key::{CheckedSubtable, DefaultValue, Key, Section, Set, Subtable};
use crate::model::{BasicAuth, Concurrency, PasswordHash};
use crate::raw::{Directive, Table};
use crate::shape::{Count, Flag, ParsedString, Time, UserFile, UserTable, ValueError};

/// `basic_auth` of a route.
pub(super) static BASIC_AUTH_FIELD: CheckedSubtable<RouteDraft, BasicAuth> = CheckedSubtable(
    Subtable(&BASIC_AUTH, |draft: &mut RouteDraft| {
        draft.route.basic_auth.get_or_insert_with(BasicAuth::default)
    }),
    check_users,
);

/// `concurrency` of a route.
pub(super) static CONCURRENCY_FIELD: CheckedSubtable<RouteDraft, Concurrency> = CheckedSubtable(
    Subtable(&CONCURRENCY, |draft: &mut RouteDraft| {
        draft.route.concurrency.get_or_insert_with(Concurrency::default)
    }),
    check_concurrency,
);

fn check_users(_: &RouteDraft, table: &Table, directive: &Directive, cx: &mut Checker<'_>) {
    if table.entry("users").is_none() && table.entry("file").is_none() {
        let message = format!("`{}` has neither `users` nor `file`", cx.name());
        cx.problem(directive.span, message)
            .key("listen.NAME.route.basic_auth")
            .expected("at least one of them: nobody could use the route")
            .help("basic_auth = { file = \"htpasswd\" }")
            .report(cx);
    }
}

fn check_concurrency(draft: &RouteDraft, table: &Table, directive: &Directive, cx: &mut Checker<'_>) {
    let name = cx.name();
    if table.entry("total").is_none() && table.entry("per_client").is_none() {
        cx.problem(directive.span, format!("`{name}` has neither `total` nor `per_client`"))
            .key("listen.NAME.route.concurrency")
            .expected("at least one of them")
            .help("concurrency = { total = 100 }")
            .report(cx);
    }
    let Some(entry) = table.entry("wait") else { return };
    if draft.route.concurrency.is_some_and(|limit| limit.total.is_none()) {
        cx.problem(entry.key_span, format!("`{name}` has `wait`, but no `total`"))
            .key("listen.NAME.route.concurrency.wait")
            .expected("`total`: a client over its own limit gets 429 at once")
            .report(cx);
    }
}

static BASIC_AUTH: Section<BasicAuth> = Section {
    keys: &[
        Key {
            name: "users",
            brief: "Users, each with the hash of a password: `{ NAME = HASH }`",
            long: "By argon2 (a PHC string) or bcrypt; `keepwarm hash-password` makes one. Hashes by MD5, SHA-1, SHA-crypt and DES are rejected: a leaked one is guessed within hours.",
            default: DefaultValue::Words("none"),
            right: "users = { alice = \"$2y$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW\" }",
            wrong: "users = { alice = \"secret\" }",
            value: &Set(UserTable, |auth: &mut BasicAuth, users: Vec<PasswordHash>| {
                auth.users.splice(0..0, users);
            }),
            ..Key::LIVE
        },
        Key {
            name: "file",
            brief: "File of users, one per line: `NAME:HASH`",
            long: "What `htpasswd -B` writes. Read again at each reload.",
            default: DefaultValue::Words("none"),
            right: "file = \"htpasswd\"",
            wrong: "file = \"/no/such/htpasswd\"",
            value: &Set(UserFile, |auth: &mut BasicAuth, users: Vec<PasswordHash>| auth.users.extend(users)),
            ..Key::LIVE
        },
        Key {
            name: "realm",
            brief: "Name of the area, which browsers may show",
            default: DefaultValue::Literal("\"Restricted\""),
            right: "realm = \"Staging\"",
            wrong: "realm = \"\"",
            value: &Set(REALM, |auth: &mut BasicAuth, realm| auth.realm = realm),
            ..Key::LIVE
        },
        Key {
            name: "forward_credentials",
            brief: "Pass the `Authorization` header on to the app",
            long: "Off by default: the app needs the name of the user, not the password.",
            default: DefaultValue::Literal("false"),
            right: "forward_credentials = true",
            wrong: "forward_credentials = \"yes\"",
            value: &Set(Flag, |auth: &mut BasicAuth, on| auth.forward_credentials = on),
            ..Key::LIVE
        },
    ],
};

static CONCURRENCY: Section<Concurrency> = Section {
    keys: &[
        Key {
            name: "total",
            brief: "Requests of this route in progress at once; further ones wait, then get 503",
            default: DefaultValue::Words("none"),
            right: "total = 100",
            wrong: "total = 0",
            value: &Set(Count(1..=1_000_000), |limit: &mut Concurrency, total| limit.total = Some(total)),
            ..Key::LIVE
        },
        Key {
            name: "per_client",
            brief: "Requests of one client address in progress at once; further ones get 429",
            long: "The client is the peer, or the client that a trusted proxy reports; of an IPv6 address, the first 64 bits.",
            default: DefaultValue::Words("none"),
            right: "per_client = 4",
            wrong: "per_client = 0",
            value: &Set(Count(1..=1_000_000), |limit: &mut Concurrency, count| {
                limit.per_client = Some(count)
            }),
            ..Key::LIVE
        },
        Key {
            name: "wait",
            brief: "How long a request waits for others to end before it gets 503",
            default: DefaultValue::Literal("\"0s\""),
            right: "wait = \"2s\"",
            wrong: "wait = \"2h\"",
            value: &Set(Time(Duration::ZERO..=Duration::from_secs(600)), |limit: &mut Concurrency, wait| {
                limit.wait = wait
            }),
            ..Key::LIVE
        },
    ],
};

const REALM: ParsedString<String> = ParsedString {
    expected: "a text without quotes, backslashes and control characters",
    type_name: "string",
    pattern: None,
    bare: None,
    read: |text| match text {
        "" => Err(ValueError::new("is an empty string")),
        _ if text.chars().any(|c| c.is_control() || matches!(c, '"' | '\\')) => {
            Err(ValueError::new("contains a quote, a backslash or a control character"))
        }
        _ => Ok(text.to_owned()),
    },
};
