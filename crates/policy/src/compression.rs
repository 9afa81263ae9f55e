//! Which responses are compressed, with which coding, and what their heads then say.
//!
//! A response is compressed when its client accepts a coding that the route offers ([`AcceptEncoding`], RFC 9110 §12.5.3) and nothing about the
//! response forbids it ([`CompressionRules::decide`]). `Vary` depends on the representation alone, so that a cache keeps both forms apart.
//! Modelled on nginx's gzip filter and Caddy's `encode`; where they differ from the RFC (qualities, `HEAD`, digests), the RFC is followed.

mod accept;
mod etag;
mod media_type;
mod traits;

#[cfg(test)]
mod tests;

pub use accept::AcceptEncoding;
pub use etag::{coded_etag, has_coded_etag, is_coded_etag_of, restore_etags};
pub use media_type::{InvalidMediaType, MediaTypes};
pub use traits::ResponseTraits;

/// A content coding that can be produced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Coding {
    /// RFC 8878, with the window that RFC 9659 allows.
    Zstd,
    /// RFC 7932.
    Brotli,
    /// RFC 1952.
    Gzip,
}

impl Coding {
    /// All, in the order in which they are preferred: by what a byte saved costs.
    pub const ALL: [Coding; 3] = [Coding::Zstd, Coding::Brotli, Coding::Gzip];

    /// Its name in `Accept-Encoding` and `Content-Encoding`.
    pub const fn name(self) -> &'static str {
        match self {
            Coding::Zstd => "zstd",
            Coding::Brotli => "br",
            Coding::Gzip => "gzip",
        }
    }

    /// Its position in [`Coding::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// How much CPU time a smaller response may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CompressionLevel {
    /// As little as possible.
    Fast,
    /// Where a further percent begins to cost much more.
    #[default]
    Balanced,
    /// Small responses: for few requests, or a cache in front.
    Small,
}

/// The settings of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompressionRules {
    /// The codings it offers, the preferred one first.
    pub codings: Vec<Coding>,
    /// How hard they try.
    pub level: CompressionLevel,
    /// Bytes; a response that is known to be shorter is not worth it.
    pub min_size: u64,
    /// The types of responses that are compressed.
    pub types: MediaTypes,
    /// Responses that set cookies over TLS are compressed too (see [`CompressionRules::decide`]).
    pub set_cookie: bool,
}

impl Default for CompressionRules {
    fn default() -> Self {
        Self {
            codings: Coding::ALL.to_vec(),
            level: CompressionLevel::Balanced,
            min_size: 1024,
            types: MediaTypes::default(),
            set_cookie: false,
        }
    }
}

/// What matters about a request.
#[derive(Debug, Clone, Copy, Default)]
pub struct RequestTraits {
    /// What its client accepts.
    pub accept: AcceptEncoding,
    /// It came over HTTP/1.0: only a known length shows such a client that a response was cut, and keeps its connection.
    pub is_http10: bool,
    /// It came over TLS.
    pub is_secure: bool,
    /// `Cache-Control: no-transform` (RFC 9111 §5.2.1.6).
    pub no_transform: bool,
}

/// What happens to a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CompressionDecision {
    /// Its body is compressed so.
    pub coding: Option<Coding>,
    /// It depends on `Accept-Encoding`, and must say so (RFC 9110 §12.5.5).
    pub varies: bool,
}

impl CompressionRules {
    /// Decides for a response with this status and, if known, this length of its body. The same for `HEAD` as for `GET` (RFC 9110 §9.3.2).
    ///
    /// Not compressed: what is encoded already, `identity` included, which is how an app says no; `no-transform` (RFC 9110 §7.7); parts (206);
    /// what carries a digest or signature of the bytes it has now (RFC 9530); and what sets a cookie over TLS, because the length of a page that
    /// holds a secret and repeats input of an attacker tells the secret (BREACH, CVE-2013-3587), and such pages are where sessions begin.
    pub fn decide(
        &self,
        status: u16,
        length: Option<u64>,
        request: &RequestTraits,
        response: &ResponseTraits<'_>,
    ) -> CompressionDecision {
        let fits = match response.content_type {
            Some(content_type) => self.types.matches(content_type),
            // A 304 says what its 200 would say, but not its type (RFC 9110 §15.4.5).
            None => status == 304,
        } || (status == 206 && response.is_multipart());
        let secret = response.sets_cookie && request.is_secure && !self.set_cookie;
        let barred = response.is_encoded || response.no_transform || response.is_signed || secret;
        // 204 and 205 have no body.
        if !fits || barred || matches!(status, ..200 | 204 | 205) {
            return CompressionDecision::default();
        }
        let varies = CompressionDecision { coding: None, varies: true };
        if matches!(status, 206 | 304) || response.is_part || request.is_http10 || request.no_transform {
            return varies;
        }
        // A client that refuses the response as it is gets a short one compressed, too.
        let min_size = if request.accept.refuses_identity() { 1 } else { self.min_size.max(1) };
        if length.is_some_and(|length| length < min_size) {
            return varies;
        }
        CompressionDecision { coding: request.accept.best(&self.codings), varies: true }
    }
}
