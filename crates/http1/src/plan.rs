//! How a response is framed, and whether its connection is kept: `spec/http.md` §1, RFC 9112 §6 and §9.3.
//!
//! Pure functions. Whether to close is decided here, when the head is written, and never later.

use http::Method;

use crate::head::{RequestHead, Version};
use crate::request::ListenerKind;

/// The facts of a request that determine the framing of its response.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct RequestFacts {
    /// Its version.
    pub version: Version,
    /// HEAD: the response has no body.
    pub is_head: bool,
    /// CONNECT: a 2xx opens a tunnel.
    pub is_connect: bool,
    /// `Connection: close`.
    pub close: bool,
    /// `Connection: keep-alive`.
    pub keep_alive: bool,
    /// It came through the listener of a forward proxy.
    pub forward_proxy: bool,
}

impl RequestFacts {
    /// Whether the client wants a persistent connection (RFC 9112 §9.3).
    #[must_use]
    pub const fn wants_persistence(self) -> bool {
        match self.version {
            _ if self.close => false,
            Version::Http11 => true,
            Version::Http10 => self.keep_alive && !self.forward_proxy,
        }
    }

    /// The facts of a head.
    #[must_use]
    pub fn of(head: &RequestHead) -> Self {
        Self {
            version: head.version,
            is_head: head.method == Method::HEAD,
            is_connect: head.method == Method::CONNECT,
            close: head.connection.close,
            keep_alive: head.connection.keep_alive,
            forward_proxy: head.listener == ListenerKind::ForwardProxy,
        }
    }
}

/// The length of a response's body.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum ResponseLength {
    /// That many bytes, from our own code or a worker. Dropped on 304, for which frameworks send the length of an empty body.
    Known(u64),
    /// That many bytes, from an upstream; a 304 repeats it: it is the length of the corresponding 200 (RFC 9110 §8.6).
    Upstream(u64),
    /// Bytes come until the producer ends.
    Unknown,
    /// No body will come and no length is known (HEAD).
    Absent,
}

/// The facts of a response that determine its framing.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct ResponseFacts {
    /// The status, 100 to 999.
    pub status: u16,
    /// The length of its body.
    pub length: ResponseLength,
    /// We or the app want the connection to end after it.
    pub close: bool,
    /// It is the first on its connection, and announces the idle timeout.
    pub first_on_connection: bool,
    /// For `Keep-Alive: timeout=`, in seconds; 0: none is sent.
    pub idle_timeout_secs: u16,
    /// Trailers may follow its body: the producer has some, and the client accepts them.
    pub trailers: bool,
}

/// How the body is framed on the wire.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum ResponseFraming {
    /// No body, and no field that frames.
    None,
    /// `Content-Length`. With HEAD and 304 no body follows it.
    Length(u64),
    /// `Transfer-Encoding: chunked`.
    Chunked,
    /// Neither field: the close ends the body.
    UntilClose,
}

/// The `Connection` field of the response.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum ConnectionHeader {
    /// No field.
    None,
    /// `close`
    Close,
    /// `keep-alive`, to a client of HTTP/1.0.
    KeepAlive,
    /// `upgrade`, with 101.
    Upgrade,
}

/// Framing and persistence of a response.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// How the body is framed.
    pub framing: ResponseFraming,
    /// Whether the connection takes another request after this one (or is a tunnel); else it is closed.
    pub keep: bool,
    /// Whether the producer's bytes are sent. If not, all are dropped.
    pub send_body: bool,
    /// The `Connection` field.
    pub connection: ConnectionHeader,
    /// `Keep-Alive: timeout=`, in seconds.
    pub keep_alive_timeout: Option<u16>,
    /// Whether trailers may follow the last chunk.
    pub trailers: bool,
}

/// Decides framing and persistence. The tests read the table in `spec/http.md` row by row.
#[must_use]
pub fn plan(request: RequestFacts, response: ResponseFacts) -> Plan {
    let switches = response.status == 101 || (request.is_connect && (200..300).contains(&response.status));
    if response.status < 200 || switches {
        return without_body(response.status == 101);
    }
    let (framing, send_body) = frame(request, response);
    let keep = keeps(request, response.close, framing);
    let connection = match (keep, request.version) {
        (false, _) => ConnectionHeader::Close,
        (true, Version::Http10) => ConnectionHeader::KeepAlive,
        (true, Version::Http11) => ConnectionHeader::None,
    };
    let announces_timeout = keep && response.first_on_connection && response.idle_timeout_secs > 0;
    Plan {
        framing,
        keep,
        send_body,
        connection,
        keep_alive_timeout: announces_timeout.then_some(response.idle_timeout_secs),
        trailers: framing == ResponseFraming::Chunked && response.trailers,
    }
}

/// 1xx and opened tunnels: no framing field (RFC 9110 §8.6, RFC 9112 §6.1), and the connection stays open.
fn without_body(upgrade: bool) -> Plan {
    Plan {
        framing: ResponseFraming::None,
        keep: true,
        send_body: false,
        connection: if upgrade { ConnectionHeader::Upgrade } else { ConnectionHeader::None },
        keep_alive_timeout: None,
        trailers: false,
    }
}

/// The framing, and whether the producer's bytes are sent.
fn frame(request: RequestFacts, response: ResponseFacts) -> (ResponseFraming, bool) {
    let known = match response.length {
        ResponseLength::Known(length) | ResponseLength::Upstream(length) => Some(length),
        ResponseLength::Unknown | ResponseLength::Absent => None,
    };
    let declared = known.map_or(ResponseFraming::None, ResponseFraming::Length);
    match response.status {
        // RFC 9110 §8.6: never a length on 204.
        204 => (ResponseFraming::None, false),
        304 if matches!(response.length, ResponseLength::Upstream(_)) => (declared, false),
        304 => (ResponseFraming::None, false),
        // RFC 9110 §15.3.6: 205 has no content; every client understands a length of zero.
        205 => (ResponseFraming::Length(0), false),
        // A length is forwarded, never computed.
        _ if request.is_head => (declared, false),
        _ if response.trailers
            && request.version >= Version::Http11
            && response.length != ResponseLength::Absent =>
        {
            (ResponseFraming::Chunked, true)
        }
        _ => match (response.length, known) {
            (_, Some(length)) => (ResponseFraming::Length(length), length > 0),
            (ResponseLength::Unknown, _) if request.version >= Version::Http11 => {
                (ResponseFraming::Chunked, true)
            }
            (ResponseLength::Unknown, _) => (ResponseFraming::UntilClose, true),
            _ => (ResponseFraming::Length(0), false),
        },
    }
}

/// RFC 9112 §9.3, in its order, after our own decision to close.
fn keeps(request: RequestFacts, close: bool, framing: ResponseFraming) -> bool {
    !close && framing != ResponseFraming::UntilClose && request.wants_persistence()
}
