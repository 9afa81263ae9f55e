/// The only fault of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// It is correct.
    None,
    /// It is correct, and speaks TLS.
    NoneOverTls,
    /// It is correct: as Apache does, it rejects a request without `Host` on a connection whose TLS handshake named the server.
    WantsHostOfNamed,

    /// Says HTTP/1.1 to HTTP/1.0 without keep-alive, and waits for the next request.
    NeverCloses,
    /// Says `Connection: close`, and leaves the connection open.
    AnnouncesCloseAndStays,
    /// Says `Connection: keep-alive` to HTTP/1.0, and closes.
    AnnouncesKeepAliveAndCloses,
    /// Closes after every response to HTTP/1.1, and does not announce it.
    ClosesUnannounced,
    /// Promises 75 s of idling, and closes after 300 ms.
    ClosesIdleEarly,
    /// Sends the page to `HEAD`, too.
    HeadWithBody,
    /// Sends the page with 304.
    NotModifiedWithBody,
    /// Sends chunks to HTTP/1.0.
    ChunkedTo10,
    /// Looks for `close` exactly, in small letters.
    CloseInSmallLettersOnly,
    /// Forgets the bytes after the request that it read.
    LosesPipelined,

    /// Waits for the body, though the client waits for its `100`.
    IgnoresExpect,
    /// 417, to every expectation.
    RefusesExpect,
    /// `100` to a client of HTTP/1.0.
    ContinueTo10,
    /// `100` twice.
    ContinueTwice,
    /// Sends its `100` only when the body has come.
    ContinueLate,

    /// Every line of the head is a segment of its own.
    LineByLine,
    /// Head and body by two writes, with Nagle's algorithm: the second waits until the first is acknowledged.
    Nagle,
    /// Leaves Nagle's algorithm on: the first response waits until the tickets of TLS, which go before it, are acknowledged.
    NagleAfterTickets,

    /// Boots its application for each request of a page, which takes 50 ms.
    Boots,
    /// Boots it also for paths that are not pages, and for `OPTIONS`.
    BootsForAnything,

    /// Closes after each response and resumes no session: every call pays a handshake.
    NoReuse,
    /// Has a certificate of yesterday.
    Expired,
    /// Speaks TLS 1.2 and nothing newer.
    OnlyTls12,
    /// Has an IPv6 address that does not respond.
    DeadIpv6,
    /// Sends more certificates than fit the first flight.
    LongChain,
    /// Has a certificate for another name.
    OtherName,

    /// Leaves the body of a request that it does not look at in the stream: it becomes the next request.
    LeavesBody,
    /// Ends a body with an empty line that belongs to nothing.
    BytesAfterResponse,
    /// Takes the chunks of a request for its body, as they are.
    IgnoresChunked,
    /// Expects the head of a request in one read.
    OneRead,

    /// Reads a request with both lengths (by `Content-Length`).
    BothLengths,
    /// Reads a request with two lengths (the first counts).
    TwoLengths,
    /// Ends lines at a bare LF.
    BareLf,
    /// Takes `Transfer-Encoding : chunked`.
    BlankBeforeColon,
    /// Joins folded lines.
    Folding,
    /// Reads `+5` and `0x5` as sizes of chunks.
    LaxChunkSize,

    /// 400 to HTTP/1.0 without `Host`, which is what health checks send.
    WantsHostOf10,
    /// Does not respond to `OPTIONS`, which is what HAProxy's check sends.
    OptionsStalls,

    /// Sends trailers that no trailer may hold.
    ForbiddenTrailers,
    /// Sends 103 to HTTP/1.0.
    HintsTo10,
}

impl Flaw {
    /// Whether it is correct.
    pub(crate) fn is_none(self) -> bool {
        matches!(self, Self::None | Self::NoneOverTls | Self::WantsHostOfNamed)
    }

    /// Whether it is one of a server with TLS.
    pub(crate) fn needs_tls(self) -> bool {
        matches!(
            self,
            Self::NoneOverTls
                | Self::WantsHostOfNamed
                | Self::NagleAfterTickets
                | Self::NoReuse
                | Self::Expired
                | Self::OnlyTls12
                | Self::LongChain
                | Self::OtherName
        )
    }
}
