//! One definition for each limit: its unit, what it bounds, and who else has which.

/// What a peer may make us hold or count. [`Default`] is what production runs with.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes of a start line without its CRLF; see [`Limits::REQUEST_LINE`].
    pub request_line: usize,
    /// Bytes from behind the start line to the end of the head; see [`Limits::HEADER_BLOCK`].
    pub header_block: usize,
    /// Field lines in a head; see [`Limits::FIELDS`].
    pub fields: usize,
    /// Bytes of a trailer section; see [`Limits::TRAILER_BLOCK`].
    pub trailer_block: usize,
    /// Field lines in a trailer section; see [`Limits::TRAILER_FIELDS`].
    pub trailer_fields: usize,
    /// Bytes of chunk extensions in one message; see [`Limits::CHUNK_EXTENSIONS`].
    pub chunk_extensions: usize,
    /// Whether bytes from 0x80 may stand in a request target. RFC 9112 §3.2 has them encoded, and a request line with others answered 400.
    pub raw_targets: bool,
}

impl Limits {
    /// Bytes. Bounds the memory of a connection whose first line never ends; answered 414. RFC 9112 §3 wants at least 8,000. nginx 8 KiB,
    /// Apache 8,190, Node 16 KiB for the whole head.
    pub const REQUEST_LINE: usize = 8 * 1024;
    /// Bytes. RFC 9112 §3: a method longer than any that a server knows gets 501. The longest that is registered has 17 (RFC 4437).
    pub const METHOD: usize = 32;
    /// Bytes. Bounds the memory of one head: at most `REQUEST_LINE + HEADER_BLOCK + 4` are buffered by the driver, and as many copied; answered
    /// 431. nginx 4 × 8 KiB, HAProxy 16 KiB in all, Envoy 60 KiB.
    pub const HEADER_BLOCK: usize = 32 * 1024;
    /// Lines. Bounds the work per head (a search over fields is linear, hash-flooding has nothing to aim at); answered 431. Apache 100,
    /// HAProxy 101, Envoy 100, gunicorn 100.
    pub const FIELDS: usize = 128;
    /// Bytes. The trailers come after the whole body and are held until they end; answered 400.
    pub const TRAILER_BLOCK: usize = 8 * 1024;
    /// Lines; answered 400.
    pub const TRAILER_FIELDS: usize = 64;
    /// Bytes. Extensions are dropped, so that an endless one would cost work without ever counting as body (CVE-2023-39326 in Go); answered 400.
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
