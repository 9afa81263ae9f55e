//! The keys of `[upstream.NAME]`.

use std::time::Duration;

use super::UpstreamDraft;
use super::balance::{BALANCE, BalanceDraft, DNS};
use super::endpoints::EndpointList;
use super::health::{HEALTH, HealthDraft};
use super::limits::{POOL, TIMEOUTS, UPSTREAM_LIMITS};
use super::resilience::{BREAKER, HEDGE, OUTLIER, RETRY_BUDGET, RETRY_ON};
use crate::key::{DefaultValue, Key, Section, Set, Subtable};
use crate::model::{Expect, TlsVersion};
use crate::raw::Span;
use crate::shape::{
    AUTHORITY, AccessLogShape, BindAddresses, Count, Flag, Origin, OriginUrl, PROTOCOL, PROXY_PROTOCOL, Pem,
    SERVER_NAME, SectionName, Time, WordOr, Words,
};

const MILLISECOND: Duration = Duration::from_millis(1);
const DAY: Duration = Duration::from_secs(24 * 3600);

pub(crate) static UPSTREAM: Section<UpstreamDraft> = Section {
    keys: &[
        Key {
            name: "url",
            brief: "URL of the service",
            long: "A scheme, a host and optionally a port. An upstream is a whole origin: calls have their own paths. `https` is TLS, with session resumption. The host is looked up as often as DNS says. `\"unix:/PATH\"` is a Unix socket, with HTTP in plaintext.",
            default: DefaultValue::Words("none; either it or `endpoints` is required"),
            right: "url = \"https://search.internal:9243\"",
            wrong: "url = \"search.internal:9243\"",
            value: &Set(OriginUrl, |draft: &mut UpstreamDraft, url: (Origin, Span)| draft.url = Some(url)),
            ..Key::LIVE
        },
        Key {
            name: "endpoints",
            brief: "Several URLs, in place of `url`",
            long: "URLs, or tables of a URL with its weight and priority. A host with several addresses is one endpoint for each of them.",
            default: DefaultValue::Words("none; either it or `url` is required"),
            right: "endpoints = [{ url = \"http://10.0.0.1:9200\", weight = 3 }, \"http://10.0.0.2:9200\"]",
            wrong: "endpoints = [9200]",
            value: &EndpointList,
            ..Key::LIVE
        },
        Key {
            name: "bind",
            brief: "Address of the door, where the app calls the upstream in plaintext",
            long: "Same format as `bind` of a listener: one address or a list. The app's workers find the first one in the variable `KEEPWARM_UPSTREAM_NAME` (upper case, `_` for `-`). An address that other machines can reach needs `public = true`.",
            default: DefaultValue::Words("none: only routes and forward proxies lead to it"),
            right: "bind = \"127.0.0.1:6102\"",
            wrong: "bind = \"6102\"",
            value: &Set(BindAddresses, |draft: &mut UpstreamDraft, bind| draft.bind = bind),
            ..Key::LIVE
        },
        Key {
            name: "public",
            brief: "Allow the door on an address that other machines can reach",
            long: "Anyone who reaches a door calls the upstream as the app does, with the client certificate of `cert`.",
            default: DefaultValue::Literal("false"),
            right: "public = true",
            wrong: "public = \"yes\"",
            value: &Set(Flag, |draft: &mut UpstreamDraft, public| draft.upstream.public = public),
            ..Key::LIVE
        },
        Key {
            name: "host",
            brief: "`Host` of every call, and the name that the certificate must be for",
            long: "Routes send the client's host unless this is set.",
            default: DefaultValue::Words("the URL's host for doors, the client's host for routes"),
            right: "host = \"search.example.com\"",
            wrong: "host = \"https://search.example.com\"",
            value: &Set(AUTHORITY, |draft: &mut UpstreamDraft, host: String| {
                draft.upstream.host = Some(host)
            }),
            ..Key::LIVE
        },
        Key {
            name: "expect",
            brief: "What the door does with `Expect: 100-continue`",
            long: "`\"answer\"`: it responds with `100 Continue` at once and forwards the call without the expectation, so that no client waits for an origin that ignores it. `\"forward\"`: the origin decides before the body is sent.",
            default: DefaultValue::Literal("\"answer\""),
            right: "expect = \"forward\"",
            wrong: "expect = \"anwser\"",
            value: &Set(Words(EXPECT), |draft: &mut UpstreamDraft, expect| draft.upstream.expect = expect),
            ..Key::LIVE
        },
        Key {
            name: "protocol",
            brief: "Protocol to speak to the upstream",
            long: "`\"auto\"`: over TLS, HTTP/2 or HTTP/1.1 as ALPN selects; in plaintext, HTTP/1.1. `\"http1\"`: HTTP/1.1 only. `\"http2\"`: HTTP/2 only, in plaintext with prior knowledge; gRPC needs it.",
            default: DefaultValue::Literal("\"auto\""),
            right: "protocol = \"http2\"",
            wrong: "protocol = \"h2c\"",
            value: &Set(PROTOCOL, |draft: &mut UpstreamDraft, protocol| draft.upstream.protocol = protocol),
            ..Key::LIVE
        },
        Key {
            name: "proxy_protocol",
            brief: "PROXY header that names the client to the upstream, at the beginning of each connection",
            long: "For servers that expect it (nginx: `listen … proxy_protocol`, HAProxy: `accept-proxy`, Keepwarm: `proxy_protocol` of a listener). `\"v2\"` is binary and also has the client's TLS version, server name and ALPN, `\"v1\"` is a line of text. The header comes before TLS. The address is that of the client in the logs: a trusted proxy in front may name it. Each connection belongs to one client then, and is kept for that client only; `pool.max`, `pool.idle` and `limits.connections` count those of all clients, and the one that has been idle longest makes room. Calls through a door, and health checks, send `LOCAL` (`UNKNOWN` in v1), and share their connections.",
            default: DefaultValue::Words("none"),
            right: "proxy_protocol = \"v2\"",
            wrong: "proxy_protocol = true",
            value: &Set(PROXY_PROTOCOL, |draft: &mut UpstreamDraft, version| {
                draft.upstream.proxy_protocol = Some(version)
            }),
            ..Key::LIVE
        },
        Key {
            name: "ca",
            brief: "File of certificate authorities to trust, in place of the system's",
            long: "In PEM; one, or several in a row. With `ca_system = true`, in addition to the system's. Read again at each reload and when it changes; open connections stay.",
            default: DefaultValue::Words("the system's"),
            right: "ca = \"/etc/ssl/internal-ca.pem\"",
            wrong: "ca = \"/no/such/ca.pem\"",
            value: &Set(Pem::Certificates, |draft: &mut UpstreamDraft, ca| draft.tls.ca = Some(ca)),
            ..Key::LIVE
        },
        Key {
            name: "ca_system",
            brief: "Trust the system's certificate authorities in addition to `ca`",
            default: DefaultValue::Words("`false` with `ca`; without `ca`, only the system's are trusted"),
            right: "ca_system = true",
            wrong: "ca_system = \"/etc/ssl/certs\"",
            value: &Set(Flag, |draft: &mut UpstreamDraft, system| draft.tls.ca_system = system),
            ..Key::LIVE
        },
        Key {
            name: "cert",
            brief: "File of the client certificate, followed by its chain",
            long: "In PEM, with `key`. The chain is the certificates that lead to its authority. Read again at each reload and when it changes.",
            default: DefaultValue::Words("none"),
            right: "cert = \"/etc/ssl/client.pem\"",
            wrong: "cert = \"/no/such/client.pem\"",
            value: &Set(Pem::Certificates, |draft: &mut UpstreamDraft, cert| draft.tls.cert = Some(cert)),
            ..Key::LIVE
        },
        Key {
            name: "key",
            brief: "File of the private key of `cert`",
            long: "In PEM, not encrypted. It may be the same file.",
            default: DefaultValue::Words("none"),
            right: "key = \"/etc/ssl/client.key\"",
            wrong: "key = \"/no/such/client.key\"",
            value: &Set(Pem::Key, |draft: &mut UpstreamDraft, key| draft.tls.key = Some(key)),
            ..Key::LIVE
        },
        Key {
            name: "min_tls",
            brief: "Lowest version of TLS to accept",
            default: DefaultValue::Literal("\"1.2\""),
            right: "min_tls = \"1.3\"",
            wrong: "min_tls = \"1.1\"",
            value: &Set(Words(VERSIONS), |draft: &mut UpstreamDraft, version| {
                draft.tls.min_version = version
            }),
            ..Key::LIVE
        },
        Key {
            name: "server_name",
            brief: "Name that the certificate must be for, also sent unencrypted (SNI)",
            long: "For endpoints that are addresses, or whose certificates have another name than their URLs.",
            default: DefaultValue::Words("the name in `host`, else in the URL"),
            right: "server_name = \"search.internal\"",
            wrong: "server_name = \"search.internal:9243\"",
            value: &Set(SERVER_NAME, |draft: &mut UpstreamDraft, name: String| {
                draft.tls.server_name = Some(name)
            }),
            ..Key::LIVE
        },
        Key {
            name: "pool",
            brief: "Connections kept for the next calls, shared by all workers and threads",
            default: DefaultValue::Words("see each key"),
            right: "pool = { min_idle = 4 }",
            wrong: "pool = 100",
            value: &Subtable(&POOL, |draft: &mut UpstreamDraft| &mut draft.upstream.pool),
            ..Key::LIVE
        },
        Key {
            name: "timeout",
            brief: "Time limit of a whole call; then it gets 504, or its response is cut",
            long: "Includes time in the queue and all attempts.",
            default: DefaultValue::Literal("\"off\""),
            right: "timeout = \"5s\"",
            wrong: "timeout = 5",
            value: &Set(WordOr("off", Time(MILLISECOND..=DAY)), |draft: &mut UpstreamDraft, time| {
                draft.upstream.timeout = time
            }),
            ..Key::LIVE
        },
        Key {
            name: "timeouts",
            brief: "Time limits of the phases of one attempt",
            default: DefaultValue::Words("see each key"),
            right: "timeouts = { connect = \"500ms\", first_byte = \"2s\" }",
            wrong: "timeouts = \"5s\"",
            value: &Subtable(&TIMEOUTS, |draft: &mut UpstreamDraft| &mut draft.upstream.timeouts),
            ..Key::LIVE
        },
        Key {
            name: "retries",
            brief: "Number of times a call is retried, on another endpoint if there is one",
            long: "For the causes in `retry_on`, within `retry_budget`, and only where RFC 9110 §9.2.2 allows it: the method is idempotent, or it is certain that nothing of the call was processed. A kept connection that turns out to be closed does not count: such a call is sent on a new one even with 0.",
            default: DefaultValue::Literal("1"),
            right: "retries = 2",
            wrong: "retries = \"twice\"",
            value: &Set(Count(0..=10), |draft: &mut UpstreamDraft, retries| draft.upstream.retries = retries),
            ..Key::LIVE
        },
        Key {
            name: "retry_on",
            brief: "Causes for which a call is retried",
            long: "`\"connect\"`: no connection could be made. `\"refused\"`: the origin reported that it did not process the call (HTTP/2). `\"reset\"`: the connection closed before the first byte of a response. `\"first_byte\"`: `timeouts.first_byte` was reached. `\"502\"`, `\"503\"`, `\"504\"`: the response had that status.",
            default: DefaultValue::Literal("[\"connect\", \"refused\", \"reset\"]"),
            right: "retry_on = [\"connect\", \"reset\", \"503\"]",
            wrong: "retry_on = [\"timeout\"]",
            value: &Set(RETRY_ON, |draft: &mut UpstreamDraft, causes| draft.upstream.retry_on = causes),
            ..Key::LIVE
        },
        Key {
            name: "retry_budget",
            brief: "Share of the calls that may be retries",
            long: "Keeps retries from overloading an upstream that fails. A percentage, or a table; `\"0%\"` alone allows none at all. Precedents: Finagle and Linkerd 20 % and 10 a second.",
            default: DefaultValue::Literal("\"20%\""),
            right: "retry_budget = \"10%\"",
            wrong: "retry_budget = 1.2",
            value: &Set(RETRY_BUDGET, |draft: &mut UpstreamDraft, budget| {
                draft.upstream.retry_budget = budget
            }),
            ..Key::LIVE
        },
        Key {
            name: "hedge",
            brief: "Second attempt in parallel with a slow first one; the faster response counts",
            long: "Only for idempotent methods, and to another endpoint if there is one. The value is the time after which it is made, a percentile of recent call times, or a table. It shortens the longest calls, and the upstream works on both attempts.",
            default: DefaultValue::Literal("\"off\""),
            right: "hedge = \"p95\"",
            wrong: "hedge = true",
            value: &Set(WordOr("off", HEDGE), |draft: &mut UpstreamDraft, hedge| {
                draft.upstream.hedge = hedge
            }),
            ..Key::LIVE
        },
        Key {
            name: "breaker",
            brief: "When calls to an endpoint, or to the whole upstream, are held back",
            long: "Closed: calls flow. Open: they go to other endpoints. Half-open: a few are tried. If no other endpoint can be called, only silence opens the breaker; calls then wait for the next probe, or get 503 at once if it comes too late for them.",
            default: DefaultValue::Words("on; see each key"),
            right: "breaker = { failures = 10, open = \"2s\" }",
            wrong: "breaker = \"on\"",
            value: &Set(BREAKER, |draft: &mut UpstreamDraft, breaker| draft.upstream.breaker = breaker),
            ..Key::LIVE
        },
        Key {
            name: "outlier",
            brief: "When an endpoint is ejected because the others do better",
            long: "Applies if there are several endpoints. Precedent: Envoy's outlier detection.",
            default: DefaultValue::Words("on; see each key"),
            right: "outlier = \"off\"",
            wrong: "outlier = 5",
            value: &Set(OUTLIER, |draft: &mut UpstreamDraft, outlier| draft.upstream.outlier = outlier),
            ..Key::LIVE
        },
        Key {
            name: "health",
            brief: "Health checks of each endpoint, separate from the calls",
            long: "A path to request, `\"tcp\"` to test only whether a connection can be made, or a table. An endpoint that fails gets no calls. While more than half of the endpoints of a priority fail, all of them are used, because then the checks are more likely to be wrong.",
            default: DefaultValue::Words("none"),
            right: "health = \"/healthz\"",
            wrong: "health = \"healthz\"",
            value: &Set(HEALTH, |draft: &mut UpstreamDraft, health: HealthDraft| {
                draft.upstream.health = Some(health.finish())
            }),
            ..Key::LIVE
        },
        Key {
            name: "balance",
            brief: "How an endpoint is chosen for a call",
            long: "`\"least_request\"`: the less busy and faster of two drawn at random. `\"round_robin\"`: one after the other. `\"ring_hash\"` and `\"maglev\"`: calls with the same key go to the same endpoint; written as a table, with the key. Weights apply to all of them.",
            default: DefaultValue::Literal("\"least_request\""),
            right: "balance = { by = \"ring_hash\", hash = \"header:X-User\" }",
            wrong: "balance = \"random\"",
            value: &Set(BALANCE, |draft: &mut UpstreamDraft, balance: BalanceDraft| {
                draft.upstream.balance = balance.finish()
            }),
            ..Key::LIVE
        },
        Key {
            name: "slow_start",
            brief: "Time for which a new or recovered endpoint gets less than its share",
            long: "It starts with a tenth, and the share grows linearly: for origins that have caches to fill.",
            default: DefaultValue::Literal("\"off\""),
            right: "slow_start = \"30s\"",
            wrong: "slow_start = 30",
            value: &Set(WordOr("off", Time(MILLISECOND..=DAY)), |draft: &mut UpstreamDraft, time| {
                draft.upstream.slow_start = time
            }),
            ..Key::LIVE
        },
        Key {
            name: "dns",
            brief: "How the host is looked up",
            default: DefaultValue::Words("see each key"),
            right: "dns = { max_ttl = \"1m\" }",
            wrong: "dns = \"10.0.0.53\"",
            value: &Subtable(&DNS, |draft: &mut UpstreamDraft| &mut draft.upstream.dns),
            ..Key::LIVE
        },
        Key {
            name: "limits",
            brief: "Limits for concurrent calls",
            default: DefaultValue::Words("see each key"),
            right: "limits = { in_flight = 100, queue = 50 }",
            wrong: "limits = 100",
            value: &Subtable(&UPSTREAM_LIMITS, |draft: &mut UpstreamDraft| &mut draft.upstream.limits),
            ..Key::LIVE
        },
        Key {
            name: "rate_limit",
            brief: "Name of the `[rate_limit.NAME]` that applies at the door",
            long: "Calls over the limit get 429, with `Retry-After`.",
            default: DefaultValue::Words("none"),
            right: "rate_limit = \"api\"",
            wrong: "rate_limit = \"apo\"",
            value: &Set(SectionName("rate_limit"), |draft: &mut UpstreamDraft, name| {
                draft.rate_limit = Some(name)
            }),
            ..Key::LIVE
        },
        Key {
            name: "server_timing",
            brief: "Report the cost of a call in `Server-Timing` of the door's response",
            long: "`Server-Timing: egress;dur=12.3;desc=\"reused\"`: milliseconds, and whether a connection was reused.",
            default: DefaultValue::Literal("false"),
            right: "server_timing = true",
            wrong: "server_timing = \"on\"",
            value: &Set(Flag, |draft: &mut UpstreamDraft, on| draft.upstream.server_timing = on),
            ..Key::LIVE
        },
        Key {
            name: "access_log",
            brief: "Access log, one record per call",
            long: "`\"off\"`, `\"text\"` or `\"json\"` for standard output, or a table with `format` and `file`.",
            default: DefaultValue::Literal("\"json\""),
            right: "access_log = \"off\"",
            wrong: "access_log = true",
            value: &Set(AccessLogShape::CALLS, |draft: &mut UpstreamDraft, log| {
                draft.upstream.access_log = log
            }),
            ..Key::LIVE
        },
    ],
};

const EXPECT: &[(&str, Expect)] = &[("answer", Expect::Response), ("forward", Expect::Forward)];
const VERSIONS: &[(&str, TlsVersion)] = &[("1.2", TlsVersion::Tls12), ("1.3", TlsVersion::Tls13)];
