//! Limits for connections, times and concurrent calls.

use std::time::Duration;

use crate::key::{DefaultValue, Key, Section, Set};
use crate::model::{UpstreamLimits, UpstreamPool, UpstreamTimeouts};
use crate::shape::{Count, Time, WordOr};

const MILLISECOND: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
const MANY: u32 = 1_000_000;

pub(super) static POOL: Section<UpstreamPool> = Section {
    keys: &[
        Key {
            name: "max",
            brief: "Maximum number of connections to one endpoint, idle and in use",
            long: "Further calls wait. Set it if the endpoint has a limit of its own. HTTP/2 needs one connection for each data-plane thread.",
            default: DefaultValue::Literal("\"off\""),
            right: "max = 100",
            wrong: "max = 0",
            value: &Set(WordOr("off", Count(1..=MANY)), |pool: &mut UpstreamPool, max| pool.max = max),
            ..Key::LIVE
        },
        Key {
            name: "idle",
            brief: "Maximum number of idle connections to one endpoint that are kept",
            long: "Any more are closed. Set it to about the number of concurrent calls: a connection that is closed too early must be opened again.",
            default: DefaultValue::Literal("256"),
            right: "idle = 32",
            wrong: "idle = \"all\"",
            value: &Set(Count(0..=MANY), |pool: &mut UpstreamPool, idle| pool.idle = idle),
            ..Key::LIVE
        },
        Key {
            name: "min_idle",
            brief: "Number of idle connections to one endpoint that are opened in advance",
            long: "The first calls after a start or a pause then do not pay for a handshake. A connection that is taken or lost is replaced; while that fails, Keepwarm retries after 250 ms, then less and less often, finally every 32 s. With HTTP/2 there is one for each data-plane thread, whatever the number, because it carries many calls. Never exceeds `max` and `limits.connections`.",
            default: DefaultValue::Literal("0"),
            right: "min_idle = 4",
            wrong: "min_idle = -1",
            value: &Set(Count(0..=10_000), |pool: &mut UpstreamPool, idle| pool.min_idle = idle),
            ..Key::LIVE
        },
        Key {
            name: "max_age",
            brief: "Age after which a connection is not used again",
            long: "Load then moves on to new addresses, and memory that has grown with a connection is freed on both sides.",
            default: DefaultValue::Literal("\"1h\""),
            right: "max_age = \"10m\"",
            wrong: "max_age = 600",
            value: &Set(
                Time(Duration::from_secs(1)..=DAY.saturating_mul(30)),
                |pool: &mut UpstreamPool, age| pool.max_age = age,
            ),
            ..Key::LIVE
        },
        Key {
            name: "max_requests",
            brief: "Number of calls after which a connection is not used again",
            long: "For origins that close connections after a number of requests of their own: with a slightly lower number here, no call meets the close.",
            default: DefaultValue::Literal("\"off\""),
            right: "max_requests = 1000",
            wrong: "max_requests = 0",
            value: &Set(WordOr("off", Count(1..=u32::MAX)), |pool: &mut UpstreamPool, requests| {
                pool.max_requests = requests
            }),
            ..Key::LIVE
        },
        Key {
            name: "idle_timeout",
            brief: "Time after which an idle connection is closed",
            long: "It is closed earlier at 0.8 of the time that the origin announces in `Keep-Alive`, or that it was observed to allow.",
            default: DefaultValue::Literal("\"60s\""),
            right: "idle_timeout = \"4s\"",
            wrong: "idle_timeout = \"4\"",
            value: &Set(Time(MILLISECOND..=DAY), |pool: &mut UpstreamPool, time| pool.idle_timeout = time),
            ..Key::LIVE
        },
    ],
};

pub(super) static TIMEOUTS: Section<UpstreamTimeouts> = Section {
    keys: &[
        Key {
            name: "connect",
            brief: "Time limit for making a connection, including the TLS handshake",
            long: "Covers all addresses of a name together. When it is reached, the attempt has failed: 504, unless there is another attempt.",
            default: DefaultValue::Literal("\"5s\""),
            right: "connect = \"500ms\"",
            wrong: "connect = 5",
            value: &Set(Time(MILLISECOND..=HOUR), |times: &mut UpstreamTimeouts, time| times.connect = time),
            ..Key::LIVE
        },
        Key {
            name: "first_byte",
            brief: "Time limit from the end of the request to the head of its response",
            long: "Then the call gets 504. The whole head must have arrived by then, so that a head sent a few bytes at a time delays nobody. After a 1xx response, `idle` applies.",
            default: DefaultValue::Literal("\"60s\""),
            right: "first_byte = \"2s\"",
            wrong: "first_byte = \"2 s\"",
            value: &Set(WordOr("off", Time(MILLISECOND..=DAY)), |times: &mut UpstreamTimeouts, time| {
                times.first_byte = time
            }),
            ..Key::LIVE
        },
        Key {
            name: "idle",
            brief: "Maximum silence of the upstream during a request or a response",
            long: "The upstream reads no more of the request, or sends no more of its response. The first 100 informational responses (1xx) of a call count as activity. When this time is reached, the call is cut, or gets 504 if nothing of its response has been sent. Tunnels (WebSockets) close after the listener's `limits.websocket_idle`.",
            default: DefaultValue::Literal("\"60s\""),
            right: "idle = \"off\"",
            wrong: "idle = \"never\"",
            value: &Set(WordOr("off", Time(MILLISECOND..=DAY)), |times: &mut UpstreamTimeouts, time| {
                times.idle = time
            }),
            ..Key::LIVE
        },
    ],
};

pub(super) static UPSTREAM_LIMITS: Section<UpstreamLimits> = Section {
    keys: &[
        Key {
            name: "connections",
            brief: "Maximum number of connections to all endpoints together, idle and in use",
            long: "Connections of all threads count. Further calls wait in the queue. An idle connection is closed to make room for a call to another endpoint. At most once in 100 ms, a busy endpoint gives up a connection for a call that has waited that long. HTTP/2 needs one connection for each data-plane thread and endpoint: with fewer they take turns, and each turn costs a handshake. `pool.max` limits the connections to one endpoint. Active health checks open connections of their own.",
            default: DefaultValue::Literal("\"off\""),
            right: "connections = 200",
            wrong: "connections = \"200\"",
            value: &Set(WordOr("off", Count(1..=MANY)), |limits: &mut UpstreamLimits, most| {
                limits.connections = most
            }),
            ..Key::LIVE
        },
        Key {
            name: "in_flight",
            brief: "Maximum number of calls in progress",
            long: "Further calls wait in the queue: an upstream that has become slow is not flooded with calls, and they do not hold the app's workers forever. Precedent: Envoy 1024.",
            default: DefaultValue::Literal("4096"),
            right: "in_flight = 100",
            wrong: "in_flight = 0",
            value: &Set(WordOr("off", Count(1..=MANY)), |limits: &mut UpstreamLimits, most| {
                limits.in_flight = most
            }),
            ..Key::LIVE
        },
        Key {
            name: "queue",
            brief: "Calls that may wait in the queue; further ones get 503",
            long: "Calls wait because of `in_flight`, `connections` or `pool.max`. Further ones are rejected at once, with `Retry-After` and the reason `queue_full`. Calls that wait for a connection are already in flight. Both kinds are counted together.",
            default: DefaultValue::Literal("1024"),
            right: "queue = 0",
            wrong: "queue = \"off\"",
            value: &Set(Count(0..=MANY), |limits: &mut UpstreamLimits, queue| limits.queue = queue),
            ..Key::LIVE
        },
        Key {
            name: "queue_timeout",
            brief: "Time for which a call may wait in the queue; then it gets 503",
            long: "The reason is `queue_timeout` if it waited for `in_flight`, and `no_connection_free` if it waited for `connections` or `pool.max`; the limit applies to each of the two waits. If `timeout` is reached first, the response is 504. The time to make a connection does not count.",
            default: DefaultValue::Literal("\"1s\""),
            right: "queue_timeout = \"250ms\"",
            wrong: "queue_timeout = 1",
            value: &Set(Time(MILLISECOND..=HOUR), |limits: &mut UpstreamLimits, time| {
                limits.queue_timeout = time
            }),
            ..Key::LIVE
        },
    ],
};
