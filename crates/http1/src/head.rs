//! Heads of requests and responses, as the decoders fill them in.

use http::{Method, StatusCode};

use crate::bytes::members;
use crate::fields::Fields;
use crate::request::ListenerKind;

/// The version of a message. A higher minor one counts as 1.1 (RFC 9110 §2.5).
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1 to HTTP/1.9
    Http11,
}

/// A request's head. Reuse one for every request of a connection: the decoder clears and fills it, and allocates only when one is larger than
/// all before it.
#[derive(Clone, Debug)]
pub struct RequestHead {
    /// The method, a token in its own case.
    pub method: Method,
    /// The version.
    pub version: Version,
    /// The field lines.
    pub fields: Fields,
    /// How the body is framed.
    pub body: RequestBody,
    /// Whether `Content-Length: 0` was sent; [`RequestBody::None`] does not distinguish that.
    pub empty_body_declared: bool,
    /// The options in `Connection`.
    pub connection: ConnectionOptions,
    /// `Expect: 100-continue` that applies: in HTTP/1.1 with a body (RFC 9110 §10.1.1).
    pub expects_continue: bool,
    /// `Connection: upgrade` with an `Upgrade` to something other than h2c, in HTTP/1.1.
    pub upgrade: bool,
    /// How the target was written.
    pub form: TargetForm,
    /// Why this well-framed request must not be handled.
    pub refusal: Option<Refusal>,
    pub(crate) listener: ListenerKind,
    pub(crate) target: Vec<u8>,
    pub(crate) parts: TargetParts,
    /// The authority is `Host`, unless the target has one.
    pub(crate) host: Vec<u8>,
}

impl RequestHead {
    /// The path as received: percent-encoded, with dot segments. `/` for an absolute target without one; `*` for `OPTIONS *` and for
    /// `OPTIONS` of an absolute target without path and query (RFC 9112 §3.2.4); empty for `CONNECT`.
    #[must_use]
    pub fn path(&self) -> &[u8] {
        match &self.parts.path {
            Some(range) => self.target.get(range.clone()).unwrap_or_default(),
            None if self.form == TargetForm::Authority => b"",
            None if self.method == Method::OPTIONS && self.parts.query.is_none() => b"*",
            None => b"/",
        }
    }

    /// The part after the first `?`, as received.
    #[must_use]
    pub fn query(&self) -> Option<&[u8]> {
        self.parts.query.clone().and_then(|range| self.target.get(range))
    }

    /// `host[:port]` of the target if it has one, else of `Host`; may be empty.
    #[must_use]
    pub fn authority(&self) -> &[u8] {
        match &self.parts.authority {
            Some(range) => self.target.get(range.clone()).unwrap_or_default(),
            None => &self.host,
        }
    }

    /// The target as received.
    #[must_use]
    pub fn target(&self) -> &[u8] {
        &self.target
    }

    /// `http` or `https` as written, of an absolute target.
    #[must_use]
    pub fn absolute_scheme(&self) -> Option<&[u8]> {
        self.parts.scheme.clone().and_then(|range| self.target.get(range))
    }

    /// Turns it into a request for another path and query of the same authority: by `GET`, unless it is `HEAD`, and without a body. A CGI script may send such a
    /// redirect instead of a response (RFC 3875 §6.2.2, which leaves the method open).
    pub fn redirect(&mut self, local: &[u8]) {
        if self.method != Method::HEAD {
            self.method = Method::GET;
        }
        self.rewrite(local.split(|&byte| byte == b'#').next().unwrap_or_default());
        self.body = RequestBody::None;
        self.empty_body_declared = false;
        self.expects_continue = false;
        self.upgrade = false;
        let describes_body = |name: &[u8]| {
            name.starts_with(b"content-") || matches!(name, b"transfer-encoding" | b"expect" | b"trailer")
        };
        let mut kept = Fields::new();
        self.fields
            .iter()
            .filter(|(name, _)| !describes_body(name))
            .for_each(|(name, value)| kept.push(name, value));
        self.fields = kept;
    }

    /// Replaces path and query. The authority stays.
    pub fn rewrite(&mut self, target: &[u8]) {
        self.host = self.authority().to_vec();
        self.target = target.to_vec();
        let path = target.iter().position(|&byte| byte == b'?').unwrap_or(target.len());
        let query = (path < target.len()).then_some(path + 1..target.len());
        self.parts = TargetParts { path: Some(0..path), query, ..TargetParts::default() };
        self.form = TargetForm::Origin;
    }

    /// Whether this is `OPTIONS *`, which is about the server and not about a resource (RFC 9110 §9.3.7): the edge responds to it.
    #[must_use]
    pub fn is_server_wide(&self) -> bool {
        self.method == Method::OPTIONS && self.path() == b"*"
    }

    /// The protocols `Upgrade` offers, in order, less h2c, which is never forwarded.
    pub fn upgrade_protocols(&self) -> impl Iterator<Item = &[u8]> {
        let all: &str = if self.upgrade { "upgrade" } else { "" };
        self.fields.all(all).flat_map(members).filter(|protocol| is_forwarded_upgrade(protocol))
    }

    /// Bytes of storage that this holds, to account for an idle connection.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.fields.capacity() + self.target.capacity() + self.host.capacity()
    }
}

impl Default for RequestHead {
    fn default() -> Self {
        Self {
            method: Method::GET,
            version: Version::Http11,
            fields: Fields::new(),
            body: RequestBody::None,
            empty_body_declared: false,
            connection: ConnectionOptions::default(),
            expects_continue: false,
            upgrade: false,
            form: TargetForm::Origin,
            refusal: None,
            listener: ListenerKind::Origin,
            target: Vec::new(),
            parts: TargetParts::default(),
            host: Vec::new(),
        }
    }
}

pub(crate) fn is_forwarded_upgrade(protocol: &[u8]) -> bool {
    !protocol.is_empty() && !protocol.eq_ignore_ascii_case(b"h2c")
}

/// Ranges of the target.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct TargetParts {
    pub(crate) scheme: Option<std::ops::Range<usize>>,
    pub(crate) authority: Option<std::ops::Range<usize>>,
    pub(crate) path: Option<std::ops::Range<usize>>,
    pub(crate) query: Option<std::ops::Range<usize>>,
}

/// How a request's body is framed.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum RequestBody {
    /// There is none.
    None,
    /// That many bytes, more than zero.
    Length(u64),
    /// Chunks until the last one.
    Chunked,
}

/// The forms of a request target (RFC 9112 §3.2).
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum TargetForm {
    /// `/path?query`
    Origin,
    /// `http://host/path?query`
    Absolute,
    /// `host:port`, of `CONNECT`
    Authority,
    /// `*`, of `OPTIONS`
    Asterisk,
}

/// Connection options of a message (RFC 9110 §7.6.1), in any case and anywhere in the lists of `Connection`.
#[derive(Copy, Clone, Default, PartialEq, Eq, Debug)]
pub struct ConnectionOptions {
    /// `close`
    pub close: bool,
    /// `keep-alive`
    pub keep_alive: bool,
    /// `upgrade`
    pub upgrade: bool,
}

/// Why Keepwarm itself responds to a well-framed request. The connection stays usable.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// `CONNECT` on a listener that is not a forward proxy.
    Connect,
    /// `TRACE`, which would show a script the cookies it may not read.
    Trace,
    /// An expectation other than `100-continue` (RFC 9110 §10.1.1).
    Expectation,
    /// Extended CONNECT for a protocol other than WebSocket (RFC 9220 §3).
    Protocol,
}

impl Refusal {
    /// 405, 417 or 501.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Self::Connect | Self::Trace => 405,
            Self::Expectation => 417,
            Self::Protocol => 501,
        }
    }

    /// A stable name, for counters and logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect_refused",
            Self::Trace => "trace_refused",
            Self::Expectation => "unknown_expectation",
            Self::Protocol => "unknown_protocol",
        }
    }
}

/// A response's head. Reuse one for every response of a connection.
#[derive(Clone, Debug)]
pub struct ResponseHead {
    /// The status.
    pub status: StatusCode,
    /// The version.
    pub version: Version,
    /// The field lines.
    pub fields: Fields,
    /// How the body is framed.
    pub body: ResponseBody,
    /// The value of `Content-Length`, if any; with HEAD and 304 no body of that length follows.
    pub content_length: Option<u64>,
    /// The options in `Connection`.
    pub connection: ConnectionOptions,
    /// Faults of syntax that were normalized.
    pub normalized: Normalizations,
}

impl ResponseHead {
    /// Whether the connection can carry another request once this response is complete (RFC 9112 §9.3).
    #[must_use]
    pub fn is_persistent(&self) -> bool {
        let persistent = match self.version {
            Version::Http11 => true,
            Version::Http10 => self.connection.keep_alive,
        };
        persistent && !self.connection.close && self.body != ResponseBody::UntilClose
    }

    /// Seconds of `Keep-Alive: timeout=`, after which the peer closes an idle connection.
    #[must_use]
    pub fn keep_alive_timeout(&self) -> Option<u64> {
        self.fields.all("keep-alive").flat_map(members).find_map(|member| {
            let (name, value) = member.split_at_checked(8)?;
            let seconds = if name.eq_ignore_ascii_case(b"timeout=") { value } else { return None };
            crate::bytes::parse_decimal(seconds)
        })
    }
}

impl Default for ResponseHead {
    fn default() -> Self {
        Self {
            status: StatusCode::OK,
            version: Version::Http11,
            fields: Fields::new(),
            body: ResponseBody::None,
            content_length: None,
            connection: ConnectionOptions::default(),
            normalized: Normalizations::default(),
        }
    }
}

/// How a response's body is framed.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum ResponseBody {
    /// None by rule: HEAD, 1xx, 204, 304, an opened tunnel.
    None,
    /// That many bytes, perhaps zero.
    Length(u64),
    /// Chunks until the last one.
    Chunked,
    /// All bytes until the connection ends.
    UntilClose,
}

/// Faults of syntax in the head of an upstream that were normalized, because they cannot move a boundary.
#[derive(Copy, Clone, Default, PartialEq, Eq, Debug)]
pub struct Normalizations {
    /// A folded field was joined (RFC 9112 §5.2).
    pub folded: bool,
    /// Whitespace between a name and its colon was removed (RFC 9112 §5.1).
    pub space_before_colon: bool,
    /// A line ended with LF alone (RFC 9112 §2.2).
    pub bare_lf: bool,
    /// The status line ended after the status, without the space of RFC 9112 §4.
    pub no_reason_space: bool,
}

impl Normalizations {
    /// Whether there was any.
    #[must_use]
    pub fn any(self) -> bool {
        self != Self::default()
    }

    /// Their names in metrics and logs.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let Self { folded, space_before_colon, bare_lf, no_reason_space } = self;
        let faults = [
            ("folded", folded),
            ("space_before_colon", space_before_colon),
            ("bare_lf", bare_lf),
            ("no_reason_space", no_reason_space),
        ];
        faults.into_iter().filter_map(|(name, found)| found.then_some(name))
    }
}
