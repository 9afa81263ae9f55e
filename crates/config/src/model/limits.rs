use std::time::Duration;

/// `[server.limits]` and `[listen.NAME.limits]`: limits for what a peer may use.
///
/// Sizes are in bytes, rates in bytes per second. The documentation of each key has its reason and precedents
/// (`keepwarm explain limits`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Size of the request line; a longer one gets 414.
    pub request_line: u64,
    /// Size of the header block; a larger one gets 431.
    pub header_block: u64,
    /// Number of fields in the header block, cookie crumbs included; more get 431.
    pub header_fields: u64,
    /// Time limit for a whole head, from its first byte; then 408 and close.
    pub head_timeout: Duration,
    /// Size of a request body for an app; a larger one gets 413. `None`: no limit.
    pub body: Option<u64>,
    /// Minimum average rate of a request body; a slower one gets 408. `None`: no limit.
    pub body_rate: Option<u64>,
    /// Time before `body_rate` and `drain_rate` apply.
    pub body_grace: Duration,
    /// Minimum average rate at which a client reads a response; a slower client is reset. `None`: no limit.
    pub drain_rate: Option<u64>,
    /// Size of a trailer block; a larger one gets 400.
    pub trailer_block: u64,
    /// Number of fields in a trailer block; more get 400.
    pub trailer_fields: u64,
    /// Size of all chunk extensions of one message; larger ones get 400.
    pub chunk_extensions: u64,
    /// Accept bytes from 0x80 in a request target; otherwise they get 400.
    pub raw_targets: bool,
    /// Time for which a persistent connection may wait for its next request.
    pub idle_timeout: Duration,
    /// Time for which a write may make no progress; then the connection is reset.
    pub write_timeout: Duration,
    /// Number of requests after which a connection is closed. `None`: no limit.
    pub connection_requests: Option<u64>,
    /// Age at which a connection is closed, after the request in progress. `None`: no limit.
    pub connection_age: Option<Duration>,
    /// Number of connections from one client address. `None`: no limit.
    pub connections_per_client: Option<u64>,
    /// Number of connections of the process. `None`: derived from the limit on open files.
    pub connections: Option<u64>,
    /// Size of a response held for a slow client, in memory and spill files; beyond it the app waits.
    pub response_buffer: u64,
    /// Size of everything held for slow clients, in memory and spill files.
    pub spill: u64,
    /// Part of `spill` that may be in memory.
    pub spill_memory: u64,
    /// Memory of all encoders of compressed responses; beyond it responses are sent uncompressed.
    pub compression_memory: u64,
    /// Size of one WebSocket frame; a larger one closes it with 1009.
    pub websocket_frame: u64,
    /// Size of one WebSocket message; a larger one closes it with 1009.
    pub websocket_message: u64,
    /// Time for which a WebSocket may be silent; a ping is sent at half of it.
    pub websocket_idle: Duration,
    /// Compress WebSocket messages for clients that offer it.
    pub websocket_compression: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            request_line: 8 * KIB,
            header_block: 32 * KIB,
            header_fields: 128,
            head_timeout: Duration::from_secs(10),
            body: Some(10 * MIB),
            body_rate: Some(500),
            body_grace: Duration::from_secs(5),
            drain_rate: Some(500),
            trailer_block: 8 * KIB,
            trailer_fields: 64,
            chunk_extensions: 16 * KIB,
            raw_targets: false,
            idle_timeout: Duration::from_secs(75),
            write_timeout: Duration::from_secs(30),
            connection_requests: Some(10_000),
            connection_age: Some(Duration::from_secs(3600)),
            connections_per_client: None,
            connections: None,
            response_buffer: 1024 * MIB,
            spill: 1024 * MIB,
            spill_memory: 128 * MIB,
            compression_memory: 128 * MIB,
            websocket_frame: 16 * MIB,
            websocket_message: 16 * MIB,
            websocket_idle: Duration::from_secs(300),
            websocket_compression: true,
        }
    }
}

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
