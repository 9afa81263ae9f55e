//! The keys of `[upstream.NAME]`, one by one.

use std::time::Duration;

use super::UpstreamDraft;
use super::balance::{BALANCE, BalanceDraft, DNS};
use super::endpoints::Endpoints;
use super::health::{HEALTH, HealthDraft};
use super::limits::{POOL, TIMEOUTS, UPSTREAM_LIMITS};
use super::resilience::{BREAKER, HEDGE, OUTLIER, RETRY_BUDGET, RETRY_ON};
use crate::key::{Key, Preset, Reload, Section, Set, Sub};
use crate::model::{Expect, TlsVersion, UpstreamProtocol};
use crate::raw::Span;
use crate::shape::{
    AUTHORITY, AccessLogs, Binds, Count, Flag, NameOf, OrWord, Origin, Pem, PlacedUrl, SERVER_NAME, Time,
    Words,
};

const MILLISECOND: Duration = Duration::from_millis(1);
const DAY: Duration = Duration::from_secs(24 * 3600);

pub(crate) static UPSTREAM: Section<UpstreamDraft> = Section {
    keys: &[
        Key {
            name: "url",
            brief: "Where it is",
            long: "A scheme, a host and perhaps a port: an upstream is a whole origin, and calls bring their own paths. `https` is TLS, with session resumption. The host is looked up as often as DNS says. Of `\"unix:/PATH\"` the answers are HTTP in clear.",
            default: Preset::Words("none; it or `endpoints` must be set"),
            right: "url = \"https://search.internal:9243\"",
            wrong: "url = \"search.internal:9243\"",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(PlacedUrl, |draft: &mut UpstreamDraft, url: (Origin, Span)| draft.url = Some(url)),
        },
        Key {
            name: "endpoints",
            brief: "Several places, in place of `url`",
            long: "URLs, or tables of a URL with its weight and priority. A host with several addresses is one endpoint for each of them.",
            default: Preset::Words("none; it or `url` must be set"),
            right: "endpoints = [{ url = \"http://10.0.0.1:9200\", weight = 3 }, \"http://10.0.0.2:9200\"]",
            wrong: "endpoints = [9200]",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Endpoints,
        },
        Key {
            name: "bind",
            brief: "The door: where the app calls it, in clear",
            long: "Written as `bind` of a listener; one, or a list. The app's workers find the first one in the variable `KEEPWARM_UPSTREAM_NAME` (upper case, `_` for `-`). An address that other machines reach needs `public = true`.",
            default: Preset::Words("none: routes and forward proxies lead to it"),
            right: "bind = \"127.0.0.1:6102\"",
            wrong: "bind = \"6102\"",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(Binds, |draft: &mut UpstreamDraft, bind| draft.bind = bind),
        },
        Key {
            name: "public",
            brief: "The door may be on an address that other machines reach",
            long: "Whoever reaches a door calls the upstream as the app does, with the client certificate of `cert`.",
            default: Preset::Value("false"),
            right: "public = true",
            wrong: "public = \"yes\"",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(Flag, |draft: &mut UpstreamDraft, public| draft.upstream.public = public),
        },
        Key {
            name: "host",
            brief: "The `Host` of every call, and whom the certificate has to be for",
            long: "Routes send the client's host unless this is set.",
            default: Preset::Words("the URL's host for doors, the client's for routes"),
            right: "host = \"search.example.com\"",
            wrong: "host = \"https://search.example.com\"",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(AUTHORITY, |draft: &mut UpstreamDraft, host: String| {
                draft.upstream.host = Some(host)
            }),
        },
        Key {
            name: "expect",
            brief: "What the door does with `Expect: 100-continue`",
            long: "`\"answer\"`: it answers `100 Continue` at once and forwards without the expectation, so that nobody waits for an origin that ignores it. `\"forward\"`: the origin decides before the body is sent.",
            default: Preset::Value("\"answer\""),
            right: "expect = \"forward\"",
            wrong: "expect = \"anwser\"",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(Words(EXPECT), |draft: &mut UpstreamDraft, expect| draft.upstream.expect = expect),
        },
        Key {
            name: "protocol",
            brief: "The protocol spoken to it",
            long: "`\"auto\"`: over TLS HTTP/2 or HTTP/1.1, as ALPN settles; in clear HTTP/1.1. `\"http1\"`: HTTP/1.1 only. `\"http2\"`: HTTP/2 only, in clear with prior knowledge; gRPC needs it.",
            default: Preset::Value("\"auto\""),
            right: "protocol = \"http2\"",
            wrong: "protocol = \"h2c\"",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(Words(PROTOCOLS), |draft: &mut UpstreamDraft, protocol| {
                draft.upstream.protocol = protocol
            }),
        },
        Key {
            name: "ca",
            brief: "File of the authorities that may have signed its certificate, in place of the system's",
            long: "In PEM; one, or several in a row. With `ca_system = true` beside those of the system. Read anew at each reload and when it changes; open connections stay.",
            default: Preset::Words("those the system trusts"),
            right: "ca = \"/etc/ssl/internal-ca.pem\"",
            wrong: "ca = \"/no/such/ca.pem\"",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(Pem::Certificates, |draft: &mut UpstreamDraft, ca| draft.tls.ca = Some(ca)),
        },
        Key {
            name: "ca_system",
            brief: "The authorities that the system trusts count beside those of `ca`",
            long: "",
            default: Preset::Words("`false` with `ca`, without it they alone count"),
            right: "ca_system = true",
            wrong: "ca_system = \"/etc/ssl/certs\"",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(Flag, |draft: &mut UpstreamDraft, system| draft.tls.ca_system = system),
        },
        Key {
            name: "cert",
            brief: "File of the client certificate, with those that lead to its authority behind it",
            long: "In PEM, with `key`. Read anew at each reload and when it changes.",
            default: Preset::Words("none"),
            right: "cert = \"/etc/ssl/client.pem\"",
            wrong: "cert = \"/no/such/client.pem\"",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(Pem::Certificates, |draft: &mut UpstreamDraft, cert| draft.tls.cert = Some(cert)),
        },
        Key {
            name: "key",
            brief: "File of the private key of `cert`",
            long: "In PEM, not encrypted; may be the same file.",
            default: Preset::Words("none"),
            right: "key = \"/etc/ssl/client.key\"",
            wrong: "key = \"/no/such/client.key\"",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(Pem::Key, |draft: &mut UpstreamDraft, key| draft.tls.key = Some(key)),
        },
        Key {
            name: "min_tls",
            brief: "The lowest version of TLS that is spoken",
            long: "",
            default: Preset::Value("\"1.2\""),
            right: "min_tls = \"1.3\"",
            wrong: "min_tls = \"1.1\"",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(Words(VERSIONS), |draft: &mut UpstreamDraft, version| {
                draft.tls.min_version = version
            }),
        },
        Key {
            name: "server_name",
            brief: "Whom the certificate has to be for, and the name sent in the clear (SNI)",
            long: "For endpoints that are addresses, or whose certificates have another name than their URLs.",
            default: Preset::Words("that of `host`, else of the URL"),
            right: "server_name = \"search.internal\"",
            wrong: "server_name = \"search.internal:9243\"",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(SERVER_NAME, |draft: &mut UpstreamDraft, name: String| {
                draft.tls.server_name = Some(name)
            }),
        },
        Key {
            name: "pool",
            brief: "Connections that are kept for the next calls, of all workers and threads together",
            long: "",
            default: Preset::Words("as each key says"),
            right: "pool = { min_idle = 4 }",
            wrong: "pool = 100",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Sub(&POOL, |draft: &mut UpstreamDraft| &mut draft.upstream.pool),
        },
        Key {
            name: "timeout",
            brief: "The time of a whole call; past it the answer is 504, or cut",
            long: "Waiting for a place and all tries included.",
            default: Preset::Value("\"off\""),
            right: "timeout = \"5s\"",
            wrong: "timeout = 5",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(
                OrWord { word: "off", shape: Time { min: MILLISECOND, max: DAY } },
                |draft: &mut UpstreamDraft, time| draft.upstream.timeout = time,
            ),
        },
        Key {
            name: "timeouts",
            brief: "The times of the phases of one attempt",
            long: "",
            default: Preset::Words("as each key says"),
            right: "timeouts = { connect = \"500ms\", first_byte = \"2s\" }",
            wrong: "timeouts = \"5s\"",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Sub(&TIMEOUTS, |draft: &mut UpstreamDraft| &mut draft.upstream.timeouts),
        },
        Key {
            name: "retries",
            brief: "How often a call is tried again, on another endpoint if there is one",
            long: "For the causes of `retry_on`, within `retry_budget`, and only where RFC 9110 §9.2.2 allows: an idempotent method, or for certain nothing of the call was processed. A kept connection that turns out to be closed is not counted: such a call goes out on a new one even with 0.",
            default: Preset::Value("1"),
            right: "retries = 2",
            wrong: "retries = \"twice\"",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(Count { min: 0, max: 10 }, |draft: &mut UpstreamDraft, retries| {
                draft.upstream.retries = retries
            }),
        },
        Key {
            name: "retry_on",
            brief: "What a call is tried again for",
            long: "`\"connect\"`: no connection could be made. `\"refused\"`: the origin said that it did not work on it (HTTP/2). `\"reset\"`: the connection ended before the first byte of an answer. `\"first_byte\"`: `timeouts.first_byte` passed. `\"502\"`, `\"503\"`, `\"504\"`: it was answered with that.",
            default: Preset::Value("[\"connect\", \"refused\", \"reset\"]"),
            right: "retry_on = [\"connect\", \"reset\", \"503\"]",
            wrong: "retry_on = [\"timeout\"]",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(RETRY_ON, |draft: &mut UpstreamDraft, causes| draft.upstream.retry_on = causes),
        },
        Key {
            name: "retry_budget",
            brief: "How many of all calls may be tries",
            long: "So that tries do not bury an upstream that fails. Per cent, or a table. Precedents: Finagle and Linkerd 20 % and 10 a second.",
            default: Preset::Value("\"20%\""),
            right: "retry_budget = \"10%\"",
            wrong: "retry_budget = 1.2",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(RETRY_BUDGET, |draft: &mut UpstreamDraft, budget| {
                draft.upstream.retry_budget = budget
            }),
        },
        Key {
            name: "hedge",
            brief: "A second attempt beside a first one that is slow; the faster answer counts",
            long: "Of idempotent methods without a body only. A time after which it is made, a percentile of how long calls took lately, or a table. It shortens the longest calls, and the upstream works for both.",
            default: Preset::Value("\"off\""),
            right: "hedge = \"p95\"",
            wrong: "hedge = true",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(OrWord { word: "off", shape: HEDGE }, |draft: &mut UpstreamDraft, hedge| {
                draft.upstream.hedge = hedge
            }),
        },
        Key {
            name: "breaker",
            brief: "When calls are refused without being tried, for an endpoint and for the whole upstream",
            long: "Closed, calls flow; open, they are answered with 503 at once; half-open, a few are tried.",
            default: Preset::Words("on, as each key says"),
            right: "breaker = { failures = 10, open = \"2s\" }",
            wrong: "breaker = \"on\"",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(BREAKER, |draft: &mut UpstreamDraft, breaker| draft.upstream.breaker = breaker),
        },
        Key {
            name: "outlier",
            brief: "When an endpoint is left out for a while because the others do better",
            long: "Looked at where there are several endpoints. Precedent: Envoy's outlier detection.",
            default: Preset::Words("on, as each key says"),
            right: "outlier = \"off\"",
            wrong: "outlier = 5",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(OUTLIER, |draft: &mut UpstreamDraft, outlier| draft.upstream.outlier = outlier),
        },
        Key {
            name: "health",
            brief: "Checks of each endpoint, apart from the calls",
            long: "A path that is asked for, `\"tcp\"` for whether a connection can be made, or a table. An endpoint that fails gets no calls. While more than half of all fail, they are all used: then it is rather the checks that are wrong.",
            default: Preset::Words("none"),
            right: "health = \"/healthz\"",
            wrong: "health = \"healthz\"",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(HEALTH, |draft: &mut UpstreamDraft, health: HealthDraft| {
                draft.upstream.health = Some(health.settle())
            }),
        },
        Key {
            name: "balance",
            brief: "How an endpoint is chosen",
            long: "`\"least_request\"`: the less busy and faster of two drawn at random. `\"round_robin\"`: one after the other. `\"ring_hash\"` and `\"maglev\"`: what has the same key goes to the same endpoint; as a table, with the key. Weights count in all of them.",
            default: Preset::Value("\"least_request\""),
            right: "balance = { by = \"ring_hash\", hash = \"header:X-User\" }",
            wrong: "balance = \"random\"",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(BALANCE, |draft: &mut UpstreamDraft, balance: BalanceDraft| {
                draft.upstream.balance = balance.settle()
            }),
        },
        Key {
            name: "slow_start",
            brief: "How long a new or recovered endpoint gets less than its share",
            long: "It begins with a tenth and grows evenly: for origins that have caches to fill.",
            default: Preset::Value("\"off\""),
            right: "slow_start = \"30s\"",
            wrong: "slow_start = 30",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(
                OrWord { word: "off", shape: Time { min: MILLISECOND, max: DAY } },
                |draft: &mut UpstreamDraft, time| draft.upstream.slow_start = time,
            ),
        },
        Key {
            name: "dns",
            brief: "How its host is looked up",
            long: "",
            default: Preset::Words("as each key says"),
            right: "dns = { max_ttl = \"1m\" }",
            wrong: "dns = \"10.0.0.53\"",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Sub(&DNS, |draft: &mut UpstreamDraft| &mut draft.upstream.dns),
        },
        Key {
            name: "limits",
            brief: "How much may be under way at once",
            long: "",
            default: Preset::Words("as each key says"),
            right: "limits = { in_flight = 100, queue = 50 }",
            wrong: "limits = 100",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Sub(&UPSTREAM_LIMITS, |draft: &mut UpstreamDraft| &mut draft.upstream.limits),
        },
        Key {
            name: "rate_limit",
            brief: "Name of the `[rate_limit.NAME]` that holds at its door",
            long: "Past it: 429, with `Retry-After`.",
            default: Preset::Words("none"),
            right: "rate_limit = \"api\"",
            wrong: "rate_limit = \"apo\"",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(NameOf("rate_limit"), |draft: &mut UpstreamDraft, name| {
                draft.rate_limit = Some(name)
            }),
        },
        Key {
            name: "server_timing",
            brief: "Answers of the door say what they cost, in `Server-Timing`",
            long: "`Server-Timing: egress;dur=12.3;desc=\"reused\"`: milliseconds, and whether a connection was reused.",
            default: Preset::Value("false"),
            right: "server_timing = true",
            wrong: "server_timing = \"on\"",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(Flag, |draft: &mut UpstreamDraft, on| draft.upstream.server_timing = on),
        },
        Key {
            name: "access_log",
            brief: "One record per call",
            long: "`\"off\"`, `\"text\"` or `\"json\"` for standard output, or a table with `format` and `file`.",
            default: Preset::Value("\"json\""),
            right: "access_log = \"off\"",
            wrong: "access_log = true",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(AccessLogs, |draft: &mut UpstreamDraft, log| draft.upstream.access_log = log),
        },
    ],
};

const EXPECT: &[(&str, Expect)] = &[("answer", Expect::Answer), ("forward", Expect::Forward)];
const PROTOCOLS: &[(&str, UpstreamProtocol)] = &[
    ("auto", UpstreamProtocol::Auto),
    ("http1", UpstreamProtocol::Http1),
    ("http2", UpstreamProtocol::Http2),
];
const VERSIONS: &[(&str, TlsVersion)] = &[("1.2", TlsVersion::Tls12), ("1.3", TlsVersion::Tls13)];
