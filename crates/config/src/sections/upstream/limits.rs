//! What an upstream may cost: connections, times, calls under way.

use std::time::Duration;

use crate::key::{Key, Preset, Reload, Section, Set};
use crate::model::{UpstreamLimits, UpstreamPool, UpstreamTimeouts};
use crate::shape::{Count, OrWord, Time};

const MILLISECOND: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
const MANY: u32 = 1_000_000;

pub(super) static POOL: Section<UpstreamPool> = Section {
    keys: &[
        Key {
            name: "max",
            brief: "Connections to one endpoint at once, idle and in use; more calls wait",
            long: "The endpoint's own limit is the reason to set it. HTTP/2 needs one for each data-plane thread.",
            default: Preset::Value("\"off\""),
            right: "max = 100",
            wrong: "max = 0",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(
                OrWord { word: "off", shape: Count { min: 1, max: MANY } },
                |pool: &mut UpstreamPool, max| pool.max = max,
            ),
        },
        Key {
            name: "idle",
            brief: "Idle connections to one endpoint that are kept for the next calls",
            long: "One more is closed. About as many as calls are under way at once: what is closed too early has to be dialled again.",
            default: Preset::Value("256"),
            right: "idle = 32",
            wrong: "idle = \"all\"",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(Count { min: 0, max: MANY }, |pool: &mut UpstreamPool, idle| pool.idle = idle),
        },
        Key {
            name: "min_idle",
            brief: "Idle connections to one endpoint that are opened before a call asks for them",
            long: "So that the first calls after a start or a pause do not pay for a handshake. One that is taken or lost is made again; while that fails, after 250 ms and then less and less often, every 32 s in the end. Over HTTP/2 it is one for each data-plane thread, whatever the number: it carries many calls. Never beyond `max` and `limits.connections`.",
            default: Preset::Value("0"),
            right: "min_idle = 4",
            wrong: "min_idle = -1",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(Count { min: 0, max: 10_000 }, |pool: &mut UpstreamPool, idle| pool.min_idle = idle),
        },
        Key {
            name: "max_age",
            brief: "A connection is not used again beyond this age",
            long: "So that load moves on to new addresses, and memory that grew with a connection is given back on both sides.",
            default: Preset::Value("\"1h\""),
            right: "max_age = \"10m\"",
            wrong: "max_age = 600",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(
                Time { min: Duration::from_secs(1), max: DAY.saturating_mul(30) },
                |pool: &mut UpstreamPool, age| pool.max_age = age,
            ),
        },
        Key {
            name: "max_requests",
            brief: "Nor after so many calls",
            long: "For origins that close after a number of requests of their own: a little below that number no call meets the close.",
            default: Preset::Value("\"off\""),
            right: "max_requests = 1000",
            wrong: "max_requests = 0",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(
                OrWord { word: "off", shape: Count { min: 1, max: u32::MAX } },
                |pool: &mut UpstreamPool, requests| pool.max_requests = requests,
            ),
        },
        Key {
            name: "idle_timeout",
            brief: "An idle connection is closed after this time",
            long: "Or earlier: at 0.8 of what the origin says in `Keep-Alive`, or of what it was seen to allow.",
            default: Preset::Value("\"60s\""),
            right: "idle_timeout = \"4s\"",
            wrong: "idle_timeout = \"4\"",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(Time { min: MILLISECOND, max: DAY }, |pool: &mut UpstreamPool, time| {
                pool.idle_timeout = time
            }),
        },
    ],
};

pub(super) static TIMEOUTS: Section<UpstreamTimeouts> = Section {
    keys: &[
        Key {
            name: "connect",
            brief: "Time to make a connection, the TLS handshake included",
            long: "Of all addresses of a name together. Past it the attempt has failed: 504, unless another is made.",
            default: Preset::Value("\"5s\""),
            right: "connect = \"500ms\"",
            wrong: "connect = 5",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(Time { min: MILLISECOND, max: HOUR }, |times: &mut UpstreamTimeouts, time| {
                times.connect = time
            }),
        },
        Key {
            name: "first_byte",
            brief: "Time from the end of the request to the head of its response",
            long: "Past it: 504. The head must have come whole by then, so that one which comes drop by drop holds nobody; after a response of status 1xx `idle` counts.",
            default: Preset::Value("\"60s\""),
            right: "first_byte = \"2s\"",
            wrong: "first_byte = \"2 s\"",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(
                OrWord { word: "off", shape: Time { min: MILLISECOND, max: DAY } },
                |times: &mut UpstreamTimeouts, time| times.first_byte = time,
            ),
        },
        Key {
            name: "idle",
            brief: "Silence of the upstream in the middle of a request or a response",
            long: "It takes no more of the request, or nothing further of its response comes. The first 100 informational responses (1xx) of a call count as signs of life. Past it the call is cut, or answered with 504 where nothing of its response has left. Tunnels (WebSockets) end after the listener's `limits.websocket_idle`.",
            default: Preset::Value("\"60s\""),
            right: "idle = \"off\"",
            wrong: "idle = \"never\"",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(
                OrWord { word: "off", shape: Time { min: MILLISECOND, max: DAY } },
                |times: &mut UpstreamTimeouts, time| times.idle = time,
            ),
        },
    ],
};

pub(super) static UPSTREAM_LIMITS: Section<UpstreamLimits> = Section {
    keys: &[
        Key {
            name: "connections",
            brief: "Connections to all endpoints together, idle and in use, of all threads",
            long: "More calls wait in the queue. A connection that lies idle is closed for a call to another endpoint, and one that a busy endpoint has is given up now and then for who has waited for a while. HTTP/2 needs one for each data-plane thread and endpoint: with fewer they take turns, and each turn costs a handshake. `pool.max` bounds those to one endpoint. Active health checks make connections of their own.",
            default: Preset::Value("\"off\""),
            right: "connections = 200",
            wrong: "connections = \"200\"",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(
                OrWord { word: "off", shape: Count { min: 1, max: MANY } },
                |limits: &mut UpstreamLimits, most| limits.connections = most,
            ),
        },
        Key {
            name: "in_flight",
            brief: "Calls in work at once",
            long: "More wait in the queue: an upstream that has become slow is not buried under calls, and they do not hold the app's workers for ever. Precedent: Envoy 1024.",
            default: Preset::Value("4096"),
            right: "in_flight = 100",
            wrong: "in_flight = 0",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(
                OrWord { word: "off", shape: Count { min: 1, max: MANY } },
                |limits: &mut UpstreamLimits, most| limits.in_flight = most,
            ),
        },
        Key {
            name: "queue",
            brief: "Calls that may wait, because of `in_flight`, `connections` or `pool.max`; more gets 503",
            long: "At once, with `Retry-After`, and with the reason `queue_full`. Those who wait for a connection are in flight already: both kinds are counted together.",
            default: Preset::Value("1024"),
            right: "queue = 0",
            wrong: "queue = \"off\"",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(Count { min: 0, max: MANY }, |limits: &mut UpstreamLimits, queue| {
                limits.queue = queue
            }),
        },
        Key {
            name: "queue_timeout",
            brief: "How long a call may wait in the queue; longer gets 503",
            long: "The reason is `queue_timeout` where it waited because of `in_flight`, and `no_connection_free` where because of `connections` or `pool.max`; it may wait so long for each. Where `timeout` is over before, that is the response: 504. What connecting takes is not counted.",
            default: Preset::Value("\"1s\""),
            right: "queue_timeout = \"250ms\"",
            wrong: "queue_timeout = 1",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(Time { min: MILLISECOND, max: HOUR }, |limits: &mut UpstreamLimits, time| {
                limits.queue_timeout = time
            }),
        },
    ],
};
