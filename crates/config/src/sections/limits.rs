use std::time::Duration;

use crate::key::{DefaultValue, Key, Section, Set};
use crate::model::Limits;
use crate::shape::{Count, Flag, Rate, Size, Time, WordOr};

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
const MONTH: Duration = Duration::from_secs(30 * 24 * 3600);

/// `[server.limits]`, and `[listen.NAME.limits]`, which overrides it.
pub(crate) static LIMITS: Section<Limits> = Section {
    keys: &[
        Key {
            name: "request_line",
            brief: "Maximum size of the request line; a longer one gets 414",
            long: "Bounds what one client makes Keepwarm hold before anything is known about the request. Precedents: nginx and Apache 8 KiB.",
            default: DefaultValue::Literal("\"8KiB\""),
            right: "request_line = \"16KiB\"",
            wrong: "request_line = \"8KB\"",
            value: &Set(Size(16..=1 << 20), |limits: &mut Limits, value| limits.request_line = value),
            ..Key::LIVE
        },
        Key {
            name: "header_block",
            brief: "Maximum size of the header block; a larger one gets 431",
            long: "All headers together, without the request line. They are held in memory for each request in progress, so the worst case of a listener is this size times its connections. Precedents: nginx 4 times 8 KiB, Node 16 KiB, HAProxy 16 KiB including the request line.",
            default: DefaultValue::Literal("\"32KiB\""),
            right: "header_block = \"64KiB\"",
            wrong: "header_block = 10",
            value: &Set(Size(64..=16 << 20), |limits: &mut Limits, value| limits.header_block = value),
            ..Key::LIVE
        },
        Key {
            name: "header_fields",
            brief: "Maximum number of headers, cookie crumbs included; more get 431",
            long: "Bounds the work per header in every later layer. Precedents: Apache 100, HAProxy 101, Go none.",
            default: DefaultValue::Literal("128"),
            right: "header_fields = 256",
            wrong: "header_fields = 1_000_000",
            value: &Set(Count(1..=65_536), |limits: &mut Limits, value| {
                limits.header_fields = u64::from(value)
            }),
            ..Key::LIVE
        },
        Key {
            name: "head_timeout",
            brief: "Time limit for a whole request head, from its first byte; then 408",
            long: "Bounds how long a client can hold a connection by sending a head a few bytes at a time (Slowloris). Precedents: Apache 20 to 40 s, nginx 60 s between two reads, HAProxy as configured.",
            default: DefaultValue::Literal("\"10s\""),
            right: "head_timeout = \"20s\"",
            wrong: "head_timeout = 10",
            value: &Set(Time(Duration::from_millis(1)..=HOUR), |limits: &mut Limits, value| {
                limits.head_timeout = value
            }),
            ..Key::LIVE
        },
        Key {
            name: "body",
            brief: "Maximum size of a request body for an app; a larger one gets 413",
            long: "Bounds memory and spill files: a blocking app gets a request only when its body is complete. A larger declared length is rejected at once, before any `100 Continue`. `max_body` of a route overrides it. Precedents: nginx 1 MiB, Caddy none.",
            default: DefaultValue::Literal("\"10MiB\""),
            right: "body = \"100MiB\"",
            wrong: "body = \"10M\"",
            value: &Set(WordOr("off", Size(0..=1 << 40)), |limits: &mut Limits, value| limits.body = value),
            ..Key::LIVE
        },
        Key {
            name: "body_rate",
            brief: "Minimum average rate of a request body, in bytes per second; slower gets 408",
            long: "Applies after `body_grace`. Bounds how long a body can take that is sent a few bytes at a time. Precedents: Apache's mod_reqtimeout 500 bytes a second, Kestrel 240.",
            default: DefaultValue::Literal("\"500B\""),
            right: "body_rate = \"1KiB\"",
            wrong: "body_rate = \"fast\"",
            value: &Set(WordOr("off", Rate(1..=1 << 40)), |limits: &mut Limits, value| {
                limits.body_rate = value
            }),
            ..Key::LIVE
        },
        Key {
            name: "body_grace",
            brief: "Time before `body_rate` and `drain_rate` apply",
            long: "A slow start is not an attack. Precedent: Kestrel 5 s.",
            default: DefaultValue::Literal("\"5s\""),
            right: "body_grace = \"10s\"",
            wrong: "body_grace = \"ten\"",
            value: &Set(Time(Duration::ZERO..=HOUR), |limits: &mut Limits, value| limits.body_grace = value),
            ..Key::LIVE
        },
        Key {
            name: "drain_rate",
            brief: "Minimum average rate at which a client reads a response, in bytes per second",
            long: "A slower client has its connection reset. Applies after `body_grace`. Bounds how long the memory and spill file of a response can be held by a client that hardly reads. Precedent: Kestrel 240 bytes a second.",
            default: DefaultValue::Literal("\"500B\""),
            right: "drain_rate = \"off\"",
            wrong: "drain_rate = \"500b\"",
            value: &Set(WordOr("off", Rate(1..=1 << 40)), |limits: &mut Limits, value| {
                limits.drain_rate = value
            }),
            ..Key::LIVE
        },
        Key {
            name: "trailer_block",
            brief: "Maximum size of a trailer block; a larger one gets 400",
            long: "Like `header_block`, for the trailers after a chunked body.",
            default: DefaultValue::Literal("\"8KiB\""),
            right: "trailer_block = \"4KiB\"",
            wrong: "trailer_block = \"8Ki\"",
            value: &Set(Size(0..=1 << 20), |limits: &mut Limits, value| limits.trailer_block = value),
            ..Key::LIVE
        },
        Key {
            name: "trailer_fields",
            brief: "Maximum number of trailers; more get 400",
            long: "Like `header_fields`, for the trailers after a chunked body.",
            default: DefaultValue::Literal("64"),
            right: "trailer_fields = 16",
            wrong: "trailer_fields = -1",
            value: &Set(Count(0..=4096), |limits: &mut Limits, value| {
                limits.trailer_fields = u64::from(value)
            }),
            ..Key::LIVE
        },
        Key {
            name: "chunk_extensions",
            brief: "Maximum size of all chunk extensions of one message; larger ones get 400",
            long: "Extensions are dropped, but they must be read: without a limit, a client could send nothing else forever (CVE-2023-39326 and similar). Precedents: Go and Node 16 KiB.",
            default: DefaultValue::Literal("\"16KiB\""),
            right: "chunk_extensions = \"1KiB\"",
            wrong: "chunk_extensions = \"16 KiB\"",
            value: &Set(Size(0..=1 << 20), |limits: &mut Limits, value| limits.chunk_extensions = value),
            ..Key::LIVE
        },
        Key {
            name: "raw_targets",
            brief: "Accept unencoded bytes 0x80-0xFF in request targets; otherwise they get 400",
            long: "RFC 9112 §3.2 and RFC 3986 require them to be percent-encoded, and every browser does so. Apps and caches disagree about what such bytes mean. Set it for your own old clients that send UTF-8 or Latin-1 as it is.",
            default: DefaultValue::Literal("false"),
            right: "raw_targets = true",
            wrong: "raw_targets = \"utf-8\"",
            value: &Set(Flag, |limits: &mut Limits, value| limits.raw_targets = value),
            ..Key::LIVE
        },
        Key {
            name: "idle_timeout",
            brief: "Time for which a persistent connection may wait for its next request",
            long: "Announced to clients in `Keep-Alive: timeout=…`. Keep it longer than the idle timeout of a load balancer in front, which would otherwise use closed connections (AWS ALB: 60 s). Precedent: nginx 75 s.",
            default: DefaultValue::Literal("\"75s\""),
            right: "idle_timeout = \"15s\"",
            wrong: "idle_timeout = \"0s\"",
            value: &Set(Time(Duration::from_millis(1)..=DAY), |limits: &mut Limits, value| {
                limits.idle_timeout = value
            }),
            ..Key::LIVE
        },
        Key {
            name: "write_timeout",
            brief: "Time for which a write may make no progress before the connection is reset",
            long: "Bounds how long a client that reads nothing can hold a response. Precedents: nginx 60 s, Puma 10 s.",
            default: DefaultValue::Literal("\"30s\""),
            right: "write_timeout = \"60s\"",
            wrong: "write_timeout = true",
            value: &Set(Time(Duration::from_millis(1)..=HOUR), |limits: &mut Limits, value| {
                limits.write_timeout = value
            }),
            ..Key::LIVE
        },
        Key {
            name: "connection_requests",
            brief: "Requests on one connection before it is closed",
            long: "Spreads long-lived clients over a fleet, and bounds what accumulates per connection. Precedents: nginx 1,000, Envoy none.",
            default: DefaultValue::Literal("10_000"),
            right: "connection_requests = \"off\"",
            wrong: "connection_requests = 0",
            value: &Set(WordOr("off", Count(1..=u32::MAX)), |limits: &mut Limits, value: Option<u32>| {
                limits.connection_requests = value.map(u64::from)
            }),
            ..Key::LIVE
        },
        Key {
            name: "connection_age",
            brief: "Age at which a connection is closed, after the request in progress",
            long: "Like `connection_requests`, by time. Precedent: nginx 1 h.",
            default: DefaultValue::Literal("\"1h\""),
            right: "connection_age = \"10m\"",
            wrong: "connection_age = \"1d\"",
            value: &Set(
                WordOr("off", Time(Duration::from_millis(1)..=MONTH)),
                |limits: &mut Limits, value| limits.connection_age = value,
            ),
            ..Key::LIVE
        },
        Key {
            name: "connections_per_client",
            brief: "Maximum number of connections from one client address",
            long: "Off by default, because many people share one address behind a proxy or a carrier's NAT. Behind `trusted_proxies`, it counts the connections of each proxy.",
            default: DefaultValue::Literal("\"off\""),
            right: "connections_per_client = 100",
            wrong: "connections_per_client = \"none\"",
            value: &Set(WordOr("off", Count(1..=u32::MAX)), |limits: &mut Limits, value: Option<u32>| {
                limits.connections_per_client = value.map(u64::from)
            }),
            ..Key::LIVE
        },
        Key {
            name: "connections",
            brief: "Maximum number of client connections of the whole process",
            long: "At the limit, the connections that have been idle longest are closed first. Then accepting pauses: new connections wait in the kernel, and none is lost. The default reserves 256 descriptors (a quarter, if that is less) for workers, logs and spill files, and half of the rest if requests are passed on over separate connections: `http` and `fastcgi` apps, upstreams, forward proxies. A value for which the limit on open files has no room is lowered, with a warning.",
            default: DefaultValue::Words("`\"auto\"`: derived from the limit on open files"),
            right: "connections = 20_000",
            wrong: "connections = \"many\"",
            value: &Set(WordOr("auto", Count(1..=u32::MAX)), |limits: &mut Limits, value: Option<u32>| {
                limits.connections = value.map(u64::from)
            }),
            ..Key::LIVE
        },
        Key {
            name: "response_buffer",
            brief: "Maximum size of a response held for a slow client; beyond it the app waits",
            long: "Uses memory first, then a spill file. Up to this size, and while `spill` has room, a blocking worker is free as soon as it has produced its response. Precedent: nginx 1 GiB (`proxy_max_temp_file_size`).",
            default: DefaultValue::Literal("\"1GiB\""),
            right: "response_buffer = \"64MiB\"",
            wrong: "response_buffer = \"1TiB\"",
            value: &Set(Size(0..=1 << 40), |limits: &mut Limits, value| limits.response_buffer = value),
            ..Key::LIVE
        },
        Key {
            name: "spill",
            brief: "Maximum size of everything held for slow clients, in memory and in spill files",
            long: "Covers what is held for blocking apps and buffering routes: request bodies above 64 KiB, and responses. At three quarters of it, responses wait for their clients, as without `buffer_response`, so a worker is occupied for as long as its client reads. When it is reached, request bodies above 64 KiB are rejected with 503 (`spill_full`). The last quarter is there so that slow readers alone do not cause uploads to be rejected. The files are in the temporary directory (`TMPDIR`): if that is memory (tmpfs) or has a quota, set less than it has. Precedents: nginx and HAProxy limit each response or nothing; 1 GiB is what nginx allows for one response.",
            default: DefaultValue::Literal("\"1GiB\""),
            right: "spill = \"8GiB\"",
            wrong: "spill = \"1GB\"",
            value: &Set(Size(1 << 20..=1 << 50), |limits: &mut Limits, value| limits.spill = value),
            ..Key::LIVE
        },
        Key {
            name: "spill_memory",
            brief: "Part of `spill` that may be in memory",
            long: "From half of it on, held data goes to the disk at once, in smaller blocks. When it is reached, no further client gets a buffer: responses wait for their clients, and request bodies above 64 KiB are rejected with 503 (`spill_full`). Data that passes through memory on its way to the disk counts.",
            default: DefaultValue::Literal("\"128MiB\""),
            right: "spill_memory = \"32MiB\"",
            wrong: "spill_memory = \"none\"",
            value: &Set(Size(1 << 20..=1 << 40), |limits: &mut Limits, value| limits.spill_memory = value),
            ..Key::LIVE
        },
        Key {
            name: "compression_memory",
            brief: "Maximum memory of all encoders of compressed responses",
            long: "A response holds an encoder until the last byte of its body is compressed: streams, and bodies above 128 KiB whose clients read slowly, hold theirs for long. gzip needs 380 KiB, zstd and brotli 1.7 MiB (zstd 300 KiB for server-sent events), and up to 5 MiB with `level = \"small\"`. At the limit, further responses are sent uncompressed, and counted (`keepwarm_compression_skipped_total`).",
            default: DefaultValue::Literal("\"128MiB\""),
            right: "compression_memory = \"512MiB\"",
            wrong: "compression_memory = \"off\"",
            value: &Set(Size(1 << 20..=1 << 40), |limits: &mut Limits, value| {
                limits.compression_memory = value
            }),
            ..Key::LIVE
        },
        Key {
            name: "websocket_frame",
            brief: "Maximum size of one WebSocket frame; a larger one closes it with 1009",
            long: "Applies to frames from the client. A compressed frame may be 1/256 longer, because data that cannot be compressed grows a little. A frame is passed to the app in parts of 64 KiB, so a large one takes no more memory here than a small one. Precedents: uvicorn 16 MiB, Node's ws 100 MiB.",
            default: DefaultValue::Literal("\"16MiB\""),
            right: "websocket_frame = \"64KiB\"",
            wrong: "websocket_frame = \"1 MiB\"",
            value: &Set(Size(125..=1 << 30), |limits: &mut Limits, value| limits.websocket_frame = value),
            ..Key::LIVE
        },
        Key {
            name: "websocket_message",
            brief: "Maximum size of one WebSocket message; a larger one closes it with 1009",
            long: "Applies to messages from clients and from the app, after decompression. Python apps get whole messages, so the worst case of a worker is this size times its WebSockets. Precedents: uvicorn 16 MiB, Node's ws 100 MiB.",
            default: DefaultValue::Literal("\"16MiB\""),
            right: "websocket_message = \"1MiB\"",
            wrong: "websocket_message = []",
            value: &Set(Size(125..=4 << 30), |limits: &mut Limits, value| limits.websocket_message = value),
            ..Key::LIVE
        },
        Key {
            name: "websocket_idle",
            brief: "Time for which a WebSocket may be silent; a ping is sent at half of it",
            long: "Detects clients that have disappeared without closing, and keeps NATs on the way from closing the connection. A response that is a stream (`text/event-stream`, gRPC) may be silent for the same time, without pings.",
            default: DefaultValue::Literal("\"5m\""),
            right: "websocket_idle = \"1m\"",
            wrong: "websocket_idle = \"5min\"",
            value: &Set(Time(Duration::from_millis(1)..=DAY), |limits: &mut Limits, value| {
                limits.websocket_idle = value
            }),
            ..Key::LIVE
        },
        Key {
            name: "websocket_compression",
            brief: "Compress WebSocket messages for clients that offer permessage-deflate",
            long: "RFC 7692, between clients and ASGI apps. Messages of an app below 64 bytes, and binary messages that do not get smaller, are sent uncompressed. A WebSocket keeps at most 4 KiB of sent data and 4 KiB of received data (32 KiB if the client does not offer `client_max_window_bits`). The compressors, 200 KiB each, belong to the threads, which keep up to 16 each. Precedents: on in uvicorn, off in Node's ws.",
            default: DefaultValue::Literal("true"),
            right: "websocket_compression = false",
            wrong: "websocket_compression = \"off\"",
            value: &Set(Flag, |limits: &mut Limits, value| limits.websocket_compression = value),
            ..Key::LIVE
        },
    ],
};
