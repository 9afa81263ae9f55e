//! Faults of a peer: status, stable name, sentence.

use std::fmt;

/// A fault of a peer, after which the framing of its connection cannot be trusted: respond with [`Fault::status`] if no response was sent yet,
/// and close.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The kind of fault.
    pub kind: FaultKind,
    /// The peer at fault.
    pub peer: Peer,
}

/// The sender of the bytes.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Peer {
    /// The peer that connected to us.
    Client,
    /// The peer that we connected to.
    Upstream,
}

impl Fault {
    pub(crate) fn client(kind: FaultKind) -> Self {
        Self { kind, peer: Peer::Client }
    }

    /// A fault of an upstream.
    #[must_use]
    pub fn upstream(kind: FaultKind) -> Self {
        Self { kind, peer: Peer::Upstream }
    }

    /// The status of the response to the client: 400, 414, 431, 501 or 505 for its own fault, 502 for a fault of an upstream.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self.peer {
            Peer::Client => self.kind.facts().0,
            Peer::Upstream => 502,
        }
    }

    /// A stable name, for counters and logs.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.kind.facts().1
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = match self.peer {
            Peer::Client => "the client",
            Peer::Upstream => "the upstream",
        };
        write!(f, "{who} {}", self.kind.facts().2)
    }
}

impl std::error::Error for Fault {}

macro_rules! kinds {
    ($($kind:ident $status:literal $name:literal $sentence:literal,)*) => {
        /// The kinds of fault. The doc of each is its sentence, after "the client" or "the upstream".
        #[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
        #[non_exhaustive]
        pub enum FaultKind { $(#[doc = $sentence] $kind,)* }

        impl FaultKind {
            /// Every kind, in the order of declaration, to register a counter for each.
            pub const ALL: &'static [FaultKind] = &[$(FaultKind::$kind,)*];

            /// The status when it is the client's fault, the stable name, and the sentence without its subject.
            #[must_use]
            pub fn facts(self) -> (u16, &'static str, &'static str) {
                match self { $(FaultKind::$kind => ($status, $name, $sentence),)* }
            }
        }
    };
}

kinds! {
    BadMethod 400 "bad_method" "sent a method that is not a token",
    MethodTooLong 501 "method_too_long" "sent a method longer than any there is",
    TlsOnPlain 400 "tls_on_plain" "sent a TLS handshake to a plaintext port",
    BadRequestLine 400 "bad_request_line" "sent a request line that is not `method target version`",
    Http09 400 "http_0_9" "sent a request line without a version (HTTP/0.9)",
    BadVersion 400 "bad_version" "sent a version that is not HTTP/digit.digit",
    UnsupportedVersion 505 "unsupported_version" "speaks a major version of HTTP other than 1",
    Http2Preface 505 "http2_preface" "sent the HTTP/2 preface on a connection that speaks HTTP/1",
    BadTarget 400 "bad_target" "sent a request target that is not one",
    BadAuthority 400 "bad_authority" "sent a target whose authority is not `host[:port]`",
    BadScheme 400 "bad_scheme" "sent a target whose scheme is neither http nor https",
    ExtraEmptyLine 400 "extra_empty_line" "sent more than one empty line before a request",
    BareLf 400 "bare_lf" "ended a line with LF alone",
    BareCr 400 "bare_cr" "sent a CR that is not followed by LF",
    Folded 400 "folded" "folded a header over several lines",
    SpaceBeforeColon 400 "space_before_colon" "sent whitespace between a header's name and its colon",
    BadFieldName 400 "bad_field_name" "sent a header whose name is empty or not a token",
    BadFieldValue 400 "bad_field_value" "sent a control character in a header's value",
    RequestLineTooLong 414 "request_line_too_long" "sent a start line longer than the limit",
    HeaderBlockTooLarge 431 "header_block_too_large" "sent a header block larger than the limit",
    TooManyFields 431 "too_many_fields" "sent more headers than the limit",
    NoHost 400 "no_host" "sent no Host (nor :authority with HTTP/2)",
    SeveralHosts 400 "several_hosts" "sent Host more than once",
    BadHost 400 "bad_host" "sent a Host that is not `host[:port]`",
    BothLengthAndChunked 400 "both_length_and_chunked" "sent Content-Length together with Transfer-Encoding",
    BadContentLength 400 "bad_content_length" "sent a Content-Length that is not a number of at most 19 digits",
    DifferingContentLengths 400 "differing_content_lengths" "sent Content-Length values that differ",
    BadTransferEncoding 400 "bad_transfer_encoding" "sent a Transfer-Encoding that does not end in chunked, once",
    TransferEncodingOnHttp10 400 "transfer_encoding_on_http_1_0" "sent Transfer-Encoding with HTTP/1.0",
    UnknownTransferCoding 501 "unknown_transfer_coding" "sent a transfer coding other than chunked",
    BadChunkSize 400 "bad_chunk_size" "sent a chunk size that is not 1 to 16 hexadecimal digits",
    BadChunkExtension 400 "bad_chunk_extension" "sent a malformed chunk extension",
    ChunkExtensionsTooLarge 400 "chunk_extensions_too_large" "sent more chunk extensions than the limit",
    BadChunkEnd 400 "bad_chunk_end" "sent a chunk whose data does not end with CRLF",
    TrailersTooLarge 400 "trailers_too_large" "sent trailers larger than the limit",
    TooManyTrailers 400 "too_many_trailers" "sent more trailers than the limit",
    Truncated 400 "truncated" "closed the connection inside a message",
    BadStatusLine 400 "bad_status_line" "sent a status line that is not `version status reason`",
    Unsolicited 400 "unsolicited" "sent bytes that belong to no request",
    UnofferedUpgrade 400 "unrequested_upgrade" "sent 101 without an upgrade that the request offered",
    ClosedWithoutResponse 400 "closed_without_response" "closed the connection before the first byte of its response",
}
