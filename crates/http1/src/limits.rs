//! One definition for each limit: its unit, its purpose, and the limits of other servers.

/// Limits on what a peer can make us buffer or count. [`Default`] has the production values.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes of a start line without its CRLF; see [`Limits::REQUEST_LINE`].
    pub request_line: usize,
    /// Bytes from after the start line to the end of the head; see [`Limits::HEADER_BLOCK`].
    pub header_block: usize,
    /// Field lines in a head; see [`Limits::FIELDS`].
    pub fields: usize,
    /// Bytes of a trailer section; see [`Limits::TRAILER_BLOCK`].
    pub trailer_block: usize,
    /// Field lines in a trailer section; see [`Limits::TRAILER_FIELDS`].
    pub trailer_fields: usize,
    /// Bytes of chunk extensions in one message; see [`Limits::CHUNK_EXTENSIONS`].
    pub chunk_extensions: usize,
    /// Whether bytes from 0x80 are allowed in a request target. RFC 9112 §3.2 requires them to be encoded, and 400 for a request line with others.
    pub raw_targets: bool,
}

impl Limits {
    /// Bytes. Bounds the memory of a connection whose first line never ends; the status is 414. RFC 9112 §3 recommends at least 8,000. nginx 8 KiB,
    /// Apache 8,190, Node 16 KiB for the whole head.
    pub const REQUEST_LINE: usize = 8 * 1024;
    /// Bytes. RFC 9112 §3: a method longer than any that a server implements gets 501. The longest registered one has 17 (RFC 4437).
    pub const METHOD: usize = 32;
    /// Bytes. Bounds the memory of one head: at most `REQUEST_LINE + HEADER_BLOCK + 4` are buffered by the driver, and as many copied; the status is
    /// 431. nginx 4 × 8 KiB, HAProxy 16 KiB in all, Envoy 60 KiB.
    pub const HEADER_BLOCK: usize = 32 * 1024;
    /// Lines. Bounds the work per head (a search over fields is linear, hash-flooding has no target); the status is 431. Apache 100,
    /// HAProxy 101, Envoy 100, gunicorn 100.
    pub const FIELDS: usize = 128;
    /// Bytes. The trailers come after the whole body and are buffered until they end; the status is 400.
    pub const TRAILER_BLOCK: usize = 8 * 1024;
    /// Lines; the status is 400.
    pub const TRAILER_FIELDS: usize = 64;
    /// Bytes. Extensions are dropped, so that an endless one would cost work without ever counting as body (CVE-2023-39326 in Go); the status is 400.
    /// Go and hyper stop at 16 KiB too.
    pub const CHUNK_EXTENSIONS: usize = 16 * 1024;
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            request_line: Self::REQUEST_LINE,
            header_block: Self::HEADER_BLOCK,
            fields: Self::FIELDS,
            trailer_block: Self::TRAILER_BLOCK,
            trailer_fields: Self::TRAILER_FIELDS,
            chunk_extensions: Self::CHUNK_EXTENSIONS,
            raw_targets: false,
        }
    }
}
