use std::time::Duration;

use crate::checker::Checker;
use crate::key::{DefaultValue, Key, Section, Set};
use crate::model::{RateKey, RateLimit, RateStore, StoreFailureMode};
use crate::raw::{Span, Table};
use crate::shape::{Count, FREQUENCY, Pem, RATE_KEY, STORE, Time, Words};

/// `[rate_limit.NAME]` before the checks of the whole file.
pub(crate) struct RateLimitDraft {
    /// The span of NAME.
    pub(crate) span: Span,
    pub(crate) limit: RateLimit,
}

impl RateLimitDraft {
    pub(crate) fn new(name: &str, span: Span) -> RateLimitDraft {
        RateLimitDraft { span, limit: RateLimit::new(name.to_owned(), 1, Duration::from_secs(1)) }
    }

    /// Checks that involve several keys.
    pub(crate) fn finish(&mut self, table: &Table, cx: &mut Checker<'_>) {
        let name = cx.name();
        if table.entry("rate").is_none() {
            cx.missing(self.span, "rate = \"100/s\"").report(cx);
        }
        if table.entry("burst").is_none() {
            self.limit.burst = RateLimit::default_burst(self.limit.requests, self.limit.period);
        }
        if matches!(self.limit.store, RateStore::Redis { tls: None, .. })
            && let Some(entry) = table.entry("store_ca")
        {
            let what = format!("`{name}` has `store_ca`, but its store does not use TLS");
            cx.problem(entry.key_span, what)
                .key("rate_limit.NAME.store_ca")
                .expected("a `store` over TLS, for example store = \"rediss://10.0.0.6:6379\"")
                .report(cx);
        }
        if self.limit.store != RateStore::Local {
            return;
        }
        // An invalid store was reported already.
        if table.entry("store").is_some_and(
            |entry| !matches!(&entry.value.value, crate::raw::Value::String(text) if text.text == "local"),
        ) {
            return;
        }
        for key in ["store_ca", "on_store_failure", "store_timeout"] {
            let Some(entry) = table.entry(key) else { continue };
            cx.problem(
                entry.key_span,
                format!("`{name}` has `{key}`, but no `store` outside of this process"),
            )
            .key(format!("rate_limit.NAME.{key}"))
            .expected("a `store`, for example store = \"redis://127.0.0.1:6379\"")
            .report(cx);
        }
    }
}

pub(crate) static RATE_LIMIT: Section<RateLimitDraft> = Section {
    keys: &[
        Key {
            name: "rate",
            brief: "Requests allowed per second, minute or hour, for each value of `key`",
            long: "Further requests get 429, with `Retry-After` and the `RateLimit` headers. Requests are spread evenly: `\"60/m\"` allows one each second, and up to `burst` at once.",
            default: DefaultValue::Required,
            right: "rate = \"100/s\"",
            wrong: "rate = 100",
            value: &Set(FREQUENCY, |draft: &mut RateLimitDraft, (requests, period): (u32, Duration)| {
                draft.limit.requests = requests;
                draft.limit.period = period;
            }),
            ..Key::LIVE
        },
        Key {
            name: "burst",
            brief: "Requests allowed at once after a pause",
            default: DefaultValue::Words("the number that `rate` allows in one second, at least 1"),
            right: "burst = 20",
            wrong: "burst = 0",
            value: &Set(Count(1..=RateLimit::MAX_BURST), |draft: &mut RateLimitDraft, burst| {
                draft.limit.burst = burst
            }),
            ..Key::LIVE
        },
        Key {
            name: "key",
            brief: "Property that requests are counted by",
            long: "`\"client\"`: the client's address, or the address that a trusted proxy reports; of an IPv6 address, the first 64 bits, which is what one subscriber has. `\"header:NAME\"` and `\"cookie:NAME\"`: the value of that header or cookie; requests without it are counted together. `\"all\"`: all requests together.",
            default: DefaultValue::Literal("\"client\""),
            right: "key = \"header:X-Api-Key\"",
            wrong: "key = \"X-Api-Key\"",
            value: &Set(RATE_KEY, |draft: &mut RateLimitDraft, key: RateKey| draft.limit.key = key),
            ..Key::LIVE
        },
        Key {
            name: "store",
            brief: "Where requests are counted",
            long: "`\"local\"`: in this process. `\"redis://HOST:PORT/DATABASE\"`, `\"rediss://HOST:PORT/DATABASE\"` (over TLS) or `\"redis+unix:/PATH\"`: in a Valkey or Redis, together with every Keepwarm that has a rate limit of this name there, at one round trip for each request. Keep a password out of the file: `\"redis://:${file:/run/secrets/redis}@HOST\"`.",
            default: DefaultValue::Literal("\"local\""),
            right: "store = \"redis://10.0.0.6:6379\"",
            wrong: "store = \"10.0.0.6:6379\"",
            value: &Set(STORE, |draft: &mut RateLimitDraft, store: RateStore| draft.limit.store = store),
            ..Key::LIVE
        },
        Key {
            name: "store_ca",
            brief: "File of certificate authorities for the store, in place of the system's",
            long: "In PEM; one, or several in a row. For a `store` that begins with `rediss://`. Read again at each reload.",
            default: DefaultValue::Words("the system's"),
            right: "store_ca = \"/etc/ssl/internal-ca.pem\"",
            wrong: "store_ca = \"/no/such/ca.pem\"",
            value: &Set(Pem::Certificates, |draft: &mut RateLimitDraft, ca| draft.limit.store_ca = Some(ca)),
            ..Key::LIVE
        },
        Key {
            name: "on_store_failure",
            brief: "What to do while the store is slow or down",
            long: "`\"open\"`: this process counts on its own. `\"closed\"`: every request is rejected with 503. Keepwarm retries a failed store in the background, so that requests do not wait for it each time.",
            default: DefaultValue::Literal("\"open\""),
            right: "on_store_failure = \"closed\"",
            wrong: "on_store_failure = \"deny\"",
            value: &Set(Words(FAILURE), |draft: &mut RateLimitDraft, failure| {
                draft.limit.on_store_failure = failure
            }),
            ..Key::LIVE
        },
        Key {
            name: "store_timeout",
            brief: "Time limit for a response of the store; a slower store counts as down",
            default: DefaultValue::Literal("\"50ms\""),
            right: "store_timeout = \"20ms\"",
            wrong: "store_timeout = \"2m\"",
            value: &Set(
                Time(Duration::from_millis(1)..=Duration::from_secs(60)),
                |draft: &mut RateLimitDraft, time| draft.limit.store_timeout = time,
            ),
            ..Key::LIVE
        },
    ],
};

const FAILURE: &[(&str, StoreFailureMode)] =
    &[("open", StoreFailureMode::Open), ("closed", StoreFailureMode::Closed)];
