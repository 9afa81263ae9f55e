//! What a connection may hold, and why.

/// Bytes of one response that may wait for a slow client. The throughput of one call is at most this for each round trip: 27 MB/s at 37 ms. nginx as a proxy does not have more, Envoy 256 MiB,
/// hyper 2 MiB.
pub const STREAM_WINDOW: u32 = 1 << 20;

/// Calls on one connection at once, whatever the server accepts. nginx accepts 128, Envoy and Go 100 to 250.
pub const STREAMS: usize = 128;

/// Bytes of all responses on a connection that may wait: one window for each call, so that no slow client holds up the responses of others.
pub const CONNECTION_WINDOW: u32 = STREAM_WINDOW * STREAMS as u32;

/// Bytes of one request's body that the connection takes before the socket does.
pub const SEND_BUFFER: usize = 256 * 1024;

/// Bytes of one request's body that may wait to be read; the same for each request of a connection. nginx takes 64 KiB, Envoy 256 MiB.
pub const BODY_WINDOW: u32 = 256 * 1024;

/// The same on a connection whose bodies were read as fast as they came, and for which [`BODY_WINDOW`] was all that a round trip could carry: 40 MB/s at 100 ms.
pub const BODY_WINDOW_MOST: u32 = 4 << 20;

/// Bytes of all bodies on a connection that may wait to be read, however large the window of each.
pub const BODIES_WINDOW: u32 = BODY_WINDOW * STREAMS as u32;
