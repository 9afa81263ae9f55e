use std::time::Duration;

/// `[server.limits]` and `[listen.NAME.limits]`: what a peer may cost.
///
/// Sizes are bytes, rates bytes per second. The reason and the precedents of each are in its key's documentation
/// (`keepwarm explain limits`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the request line; more: 414.
    pub request_line: u64,
    /// Bytes of the header block; more: 431.
    pub header_block: u64,
    /// Fields in the header block, cookie crumbs counted; more: 431.
    pub header_fields: u64,
    /// Time for a whole head, from its first byte; more: 408 and close.
    pub head_timeout: Duration,
    /// Bytes of a request body given to an app; more: 413. `None`: no limit.
    pub body: Option<u64>,
    /// Bytes per second, averaged, a client must send of a body; less: 408. `None`: no limit.
    pub body_rate: Option<u64>,
    /// Time before `body_rate` and `drain_rate` count.
    pub body_grace: Duration,
    /// Bytes per second, averaged, a client must take of a response; less: reset. `None`: no limit.
    pub drain_rate: Option<u64>,
    /// Bytes of a trailer block; more: 400.
    pub trailer_block: u64,
    /// Fields in a trailer block; more: 400.
    pub trailer_fields: u64,
    /// Bytes of chunk extensions in one message; more: 400.
    pub chunk_extensions: u64,
    /// Whether bytes from 0x80 may stand in a request target; else: 400.
    pub raw_targets: bool,
    /// How long a kept connection may wait for its next request.
    pub idle_timeout: Duration,
    /// How long a write may make no progress at all; more: reset.
    pub write_timeout: Duration,
    /// Requests on one connection, then it is closed. `None`: no limit.
    pub connection_requests: Option<u64>,
    /// Age of a connection, then it is closed after the request in work. `None`: no limit.
    pub connection_age: Option<Duration>,
    /// Connections from one client address. `None`: no limit.
    pub connections_per_client: Option<u64>,
    /// Connections of the process. `None`: from the limit on open files.
    pub connections: Option<u64>,
    /// Bytes of a response held for a slow client, memory and spill together; past it the app waits.
    pub response_buffer: u64,
    /// Bytes of all that the process holds for slow clients, memory and spill together.
    pub spill: u64,
    /// The part of it that may be in memory.
    pub spill_memory: u64,
    /// Bytes of one WebSocket frame; more: close 1009.
    pub websocket_frame: u64,
    /// Bytes of one WebSocket message; more: close 1009.
    pub websocket_message: u64,
    /// How long a WebSocket may be silent; a ping is sent at half of it.
    pub websocket_idle: Duration,
    /// Whether WebSocket messages are compressed where the client offers it.
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
            websocket_frame: 16 * MIB,
            websocket_message: 16 * MIB,
            websocket_idle: Duration::from_secs(300),
            websocket_compression: true,
        }
    }
}

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
