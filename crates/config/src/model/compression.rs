/// `compress` of a listener or a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compression {
    /// Whether responses are compressed.
    pub enabled: bool,
    /// Codings to offer, the preferred one first; at least one.
    pub codings: Vec<ContentCoding>,
    /// CPU time against size.
    pub level: CompressionLevel,
    /// Size from which a response is compressed.
    pub min_size: u64,
    /// Patterns of media types, such as `text/*`. `None`: the default list.
    pub types: Option<Vec<String>>,
    /// Compress responses that set cookies over TLS.
    pub set_cookie: bool,
}

impl Default for Compression {
    fn default() -> Self {
        Compression {
            enabled: true,
            codings: vec![ContentCoding::Zstd, ContentCoding::Brotli, ContentCoding::Gzip],
            level: CompressionLevel::Balanced,
            min_size: 1024,
            types: None,
            set_cookie: false,
        }
    }
}

/// A content coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ContentCoding {
    /// Zstandard.
    Zstd,
    /// Brotli.
    Brotli,
    /// gzip.
    Gzip,
}

/// `level`: how much CPU time a smaller response may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CompressionLevel {
    /// As little as possible.
    Fast,
    /// In between.
    Balanced,
    /// Several times as much for a few percent.
    Small,
}
