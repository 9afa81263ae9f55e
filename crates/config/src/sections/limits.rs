use std::time::Duration;

use crate::key::{Key, Preset, Reload, Section, Set};
use crate::model::Limits;
use crate::shape::{Count, Flag, OrWord, Rate, Size, Time};

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
const MONTH: Duration = Duration::from_secs(30 * 24 * 3600);

/// `[server.limits]`, and `[listen.NAME.limits]` over it.
pub(crate) static LIMITS: Section<Limits> = Section {
    keys: &[
        Key {
            name: "request_line",
            brief: "Size of the request line; more gets 414",
            long: "Bounds what one client makes Keepwarm hold before anything is known of the request. Precedents: nginx and Apache 8 KiB.",
            default: Preset::Value("\"8KiB\""),
            right: "request_line = \"16KiB\"",
            wrong: "request_line = \"8KB\"",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(Size { min: 16, max: 1 << 20 }, |limits: &mut Limits, value| {
                limits.request_line = value
            }),
        },
        Key {
            name: "header_block",
            brief: "Size of the header block; more gets 431",
            long: "All fields together, without the request line. Held in memory for each request in work, so a listener's worst case is this times its connections. Precedents: nginx 4 times 8 KiB, Node 16 KiB, HAProxy 16 KiB with the line.",
            default: Preset::Value("\"32KiB\""),
            right: "header_block = \"64KiB\"",
            wrong: "header_block = 10",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(Size { min: 64, max: 16 << 20 }, |limits: &mut Limits, value| {
                limits.header_block = value
            }),
        },
        Key {
            name: "header_fields",
            brief: "Fields in the header block, cookie crumbs counted; more gets 431",
            long: "Bounds work per field in every layer behind. Precedents: Apache 100, HAProxy 101, Go none.",
            default: Preset::Value("128"),
            right: "header_fields = 256",
            wrong: "header_fields = 1_000_000",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(Count { min: 1, max: 65_536 }, |limits: &mut Limits, value| {
                limits.header_fields = u64::from(value)
            }),
        },
        Key {
            name: "head_timeout",
            brief: "Time for a whole head, from its first byte; more gets 408",
            long: "Bounds how long a client can hold a connection by sending a head in drops (Slowloris). Precedents: Apache 20 to 40 s, nginx 60 s between two reads, HAProxy as configured.",
            default: Preset::Value("\"10s\""),
            right: "head_timeout = \"20s\"",
            wrong: "head_timeout = 10",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(Time { min: Duration::from_millis(1), max: HOUR }, |limits: &mut Limits, value| {
                limits.head_timeout = value
            }),
        },
        Key {
            name: "body",
            brief: "Size of a request body given to an app; more gets 413",
            long: "Bounds memory and spill files: blocking apps get a request when its body is in. A declared length above it is refused at once, before any `100 Continue`. `max_body` of a route goes before it. Precedents: nginx 1 MiB, Caddy none.",
            default: Preset::Value("\"10MiB\""),
            right: "body = \"100MiB\"",
            wrong: "body = \"10M\"",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(
                OrWord { word: "off", shape: Size { min: 0, max: 1 << 40 } },
                |limits: &mut Limits, value| limits.body = value,
            ),
        },
        Key {
            name: "body_rate",
            brief: "Bytes a second a client must send of a body, averaged; less gets 408",
            long: "Counts after `body_grace`. Bounds how long a body can take that comes in drops. Precedents: Apache's mod_reqtimeout and Kestrel: 500 and 240 bytes a second.",
            default: Preset::Value("\"500B\""),
            right: "body_rate = \"1KiB\"",
            wrong: "body_rate = \"fast\"",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(
                OrWord { word: "off", shape: Rate { min: 1, max: 1 << 40 } },
                |limits: &mut Limits, value| limits.body_rate = value,
            ),
        },
        Key {
            name: "body_grace",
            brief: "Time before `body_rate` and `drain_rate` count",
            long: "A slow start is no attack. Precedent: Kestrel 5 s.",
            default: Preset::Value("\"5s\""),
            right: "body_grace = \"10s\"",
            wrong: "body_grace = \"ten\"",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(Time { min: Duration::ZERO, max: HOUR }, |limits: &mut Limits, value| {
                limits.body_grace = value
            }),
        },
        Key {
            name: "drain_rate",
            brief: "Bytes a second a client must take of a response, averaged; less is a reset",
            long: "Counts after `body_grace`. Bounds how long a response's memory and spill file can be held by a client that hardly reads. Precedent: Kestrel 240 bytes a second.",
            default: Preset::Value("\"500B\""),
            right: "drain_rate = \"off\"",
            wrong: "drain_rate = \"500b\"",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(
                OrWord { word: "off", shape: Rate { min: 1, max: 1 << 40 } },
                |limits: &mut Limits, value| limits.drain_rate = value,
            ),
        },
        Key {
            name: "trailer_block",
            brief: "Size of a trailer block; more gets 400",
            long: "As `header_block`, for what comes after a chunked body.",
            default: Preset::Value("\"8KiB\""),
            right: "trailer_block = \"4KiB\"",
            wrong: "trailer_block = \"8Ki\"",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(Size { min: 0, max: 1 << 20 }, |limits: &mut Limits, value| {
                limits.trailer_block = value
            }),
        },
        Key {
            name: "trailer_fields",
            brief: "Fields in a trailer block; more gets 400",
            long: "As `header_fields`, for what comes after a chunked body.",
            default: Preset::Value("64"),
            right: "trailer_fields = 16",
            wrong: "trailer_fields = -1",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(Count { min: 0, max: 4096 }, |limits: &mut Limits, value| {
                limits.trailer_fields = u64::from(value)
            }),
        },
        Key {
            name: "chunk_extensions",
            brief: "Size of all chunk extensions of one message; more gets 400",
            long: "Extensions are dropped, but they must be read: without a bound a client could send nothing else for ever (CVE-2023-39326 and its kin). Precedents: Go and Node 16 KiB.",
            default: Preset::Value("\"16KiB\""),
            right: "chunk_extensions = \"1KiB\"",
            wrong: "chunk_extensions = \"16 KiB\"",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(Size { min: 0, max: 1 << 20 }, |limits: &mut Limits, value| {
                limits.chunk_extensions = value
            }),
        },
        Key {
            name: "raw_targets",
            brief: "Let bytes 0x80-0xFF stand in request targets unencoded; otherwise they get 400",
            long: "RFC 9112 §3.2 and RFC 3986 want them percent-encoded, and every browser does so. Apps and caches disagree about what such bytes mean. Set it for old clients of your own that send UTF-8 or Latin-1 as it is.",
            default: Preset::Value("false"),
            right: "raw_targets = true",
            wrong: "raw_targets = \"utf-8\"",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(Flag, |limits: &mut Limits, value| limits.raw_targets = value),
        },
        Key {
            name: "idle_timeout",
            brief: "How long a kept connection may wait for its next request",
            long: "Clients are told in `Keep-Alive: timeout=…`. Longer than the idle time of a load balancer in front, or that one meets closed connections (AWS ALB: 60 s). Precedent: nginx 75 s.",
            default: Preset::Value("\"75s\""),
            right: "idle_timeout = \"15s\"",
            wrong: "idle_timeout = \"0s\"",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(Time { min: Duration::from_millis(1), max: DAY }, |limits: &mut Limits, value| {
                limits.idle_timeout = value
            }),
        },
        Key {
            name: "write_timeout",
            brief: "How long a write may make no progress at all; then the connection is reset",
            long: "Bounds how long a client that reads nothing can hold a response. Precedents: nginx 60 s, Puma 10 s.",
            default: Preset::Value("\"30s\""),
            right: "write_timeout = \"60s\"",
            wrong: "write_timeout = true",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(Time { min: Duration::from_millis(1), max: HOUR }, |limits: &mut Limits, value| {
                limits.write_timeout = value
            }),
        },
        Key {
            name: "connection_requests",
            brief: "Requests on one connection, then it is closed",
            long: "Spreads long-lived clients over a fleet, and bounds what builds up per connection. Precedents: nginx 1,000, Envoy none.",
            default: Preset::Value("10_000"),
            right: "connection_requests = \"off\"",
            wrong: "connection_requests = 0",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(
                OrWord { word: "off", shape: Count { min: 1, max: u32::MAX } },
                |limits: &mut Limits, value: Option<u32>| limits.connection_requests = value.map(u64::from),
            ),
        },
        Key {
            name: "connection_age",
            brief: "Age of a connection, then it is closed after the request in work",
            long: "As `connection_requests`, by time. Precedent: nginx 1 h.",
            default: Preset::Value("\"1h\""),
            right: "connection_age = \"10m\"",
            wrong: "connection_age = \"1d\"",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(
                OrWord { word: "off", shape: Time { min: Duration::from_millis(1), max: MONTH } },
                |limits: &mut Limits, value| limits.connection_age = value,
            ),
        },
        Key {
            name: "connections_per_client",
            brief: "Connections from one client address",
            long: "Off, because many people share one address behind a proxy or a carrier's NAT. With `trusted_proxies` in front it counts the proxies.",
            default: Preset::Value("\"off\""),
            right: "connections_per_client = 100",
            wrong: "connections_per_client = \"none\"",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(
                OrWord { word: "off", shape: Count { min: 1, max: u32::MAX } },
                |limits: &mut Limits, value: Option<u32>| {
                    limits.connections_per_client = value.map(u64::from)
                },
            ),
        },
        Key {
            name: "connections",
            brief: "Connections of the whole process",
            long: "At the limit those that are idle longest are closed first, then accepting pauses: new connections wait in the kernel, and none is lost. The default keeps 256 descriptors (a quarter, if that is less) back for workers, logs and spill files, and half of the rest where requests are passed on over connections of their own: `http` and `fastcgi` apps, upstreams, forward proxies. What the limit on open files has no room for is lowered, with a warning.",
            default: Preset::Words("`\"auto\"`: from the limit on open files"),
            right: "connections = 20_000",
            wrong: "connections = \"many\"",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(
                OrWord { word: "auto", shape: Count { min: 1, max: u32::MAX } },
                |limits: &mut Limits, value: Option<u32>| limits.connections = value.map(u64::from),
            ),
        },
        Key {
            name: "response_buffer",
            brief: "Size of a response held for a client that takes it slowly; past it the app waits",
            long: "Memory first, then a spill file. Up to this size, and while `spill` has room, a blocking worker is free as soon as it has produced its response. Precedent: nginx 1 GiB (`proxy_max_temp_file_size`).",
            default: Preset::Value("\"1GiB\""),
            right: "response_buffer = \"64MiB\"",
            wrong: "response_buffer = \"1TiB\"",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(Size { min: 0, max: 1 << 40 }, |limits: &mut Limits, value| {
                limits.response_buffer = value
            }),
        },
        Key {
            name: "spill",
            brief: "Size of all that the process holds for slow clients, in memory and spill files together",
            long: "What blocking apps and buffering routes hold of request bodies above 64 KiB and of responses. At three quarters of it responses wait for their clients, as without `buffer_response`, so a worker is taken for as long as its client reads; at all of it request bodies above 64 KiB are refused with 503 (`spill_full`). The quarter keeps slow readers alone from refusing uploads. Files are in the temporary folder (`TMPDIR`): where that is memory (tmpfs) or has a quota, set less than it has. Precedents: nginx and HAProxy bound each response or nothing; 1 GiB is what nginx lets one response take.",
            default: Preset::Value("\"1GiB\""),
            right: "spill = \"8GiB\"",
            wrong: "spill = \"1GB\"",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(Size { min: 1 << 20, max: 1 << 50 }, |limits: &mut Limits, value| {
                limits.spill = value
            }),
        },
        Key {
            name: "spill_memory",
            brief: "The part of `spill` that may be in memory",
            long: "From half of it on, what is held goes to the disk at once, in smaller blocks; at all of it no further client gets a buffer: responses wait for their clients, and request bodies above 64 KiB are refused with 503 (`spill_full`). What passes through memory on its way to the disk counts.",
            default: Preset::Value("\"128MiB\""),
            right: "spill_memory = \"32MiB\"",
            wrong: "spill_memory = \"none\"",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(Size { min: 1 << 20, max: 1 << 40 }, |limits: &mut Limits, value| {
                limits.spill_memory = value
            }),
        },
        Key {
            name: "websocket_frame",
            brief: "Size of one WebSocket frame; more is closed with 1009",
            long: "Applies to what the client sends; a compressed frame may be 1/256 longer, since data that cannot be compressed grows a little. A frame is passed to the app in parts of 64 KiB, so a large one takes no more memory here than a small one. Precedents: uvicorn 16 MiB, Node's ws 100 MiB.",
            default: Preset::Value("\"16MiB\""),
            right: "websocket_frame = \"64KiB\"",
            wrong: "websocket_frame = \"1 MiB\"",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(Size { min: 125, max: 1 << 30 }, |limits: &mut Limits, value| {
                limits.websocket_frame = value
            }),
        },
        Key {
            name: "websocket_message",
            brief: "Size of one WebSocket message; more is closed with 1009",
            long: "Applies to messages of clients and of the app, after decompression. Python apps get whole messages, so a worker's worst case is this times its WebSockets. Precedents: uvicorn 16 MiB, Node's ws 100 MiB.",
            default: Preset::Value("\"16MiB\""),
            right: "websocket_message = \"1MiB\"",
            wrong: "websocket_message = []",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(Size { min: 125, max: 4 << 30 }, |limits: &mut Limits, value| {
                limits.websocket_message = value
            }),
        },
        Key {
            name: "websocket_idle",
            brief: "How long a WebSocket may be silent; a ping is sent at half of it",
            long: "Finds clients that went without a word, and keeps NATs open on the way.",
            default: Preset::Value("\"5m\""),
            right: "websocket_idle = \"1m\"",
            wrong: "websocket_idle = \"5min\"",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(Time { min: Duration::from_millis(1), max: DAY }, |limits: &mut Limits, value| {
                limits.websocket_idle = value
            }),
        },
        Key {
            name: "websocket_compression",
            brief: "Compress WebSocket messages for clients that offer it (permessage-deflate)",
            long: "RFC 7692, between clients and ASGI apps. Messages of an app below 64 bytes, and binary ones that do not get smaller, are sent as they are. A WebSocket keeps at most 4 KiB of what was sent, and 4 KiB of what was received (32 KiB when the client does not offer `client_max_window_bits`); the compressors, 200 KiB each, belong to the threads, which keep up to 16 each. Precedents: on in uvicorn, off in Node's ws.",
            default: Preset::Value("true"),
            right: "websocket_compression = false",
            wrong: "websocket_compression = \"off\"",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(Flag, |limits: &mut Limits, value| limits.websocket_compression = value),
        },
    ],
};
