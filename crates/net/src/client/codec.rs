//! What [`super::Client`] needs of a protocol, and the faults of a server.

use std::io;

use keepwarm_http1::{Decoded, Event, Fields, ResponseHead};

use crate::tls::TlsError;

/// The client's side of a protocol that carries one request at a time on a connection: bytes in, events out. Beginning a request is
/// the protocol's own (see [`crate::Client::begin`]).
pub trait Codec: Send + 'static {
    /// For a new connection.
    fn new() -> Self;

    /// Appends a part of the request's body, framed. `bytes` is not empty.
    fn encode_body(&mut self, bytes: &[u8], out: &mut Vec<u8>);

    /// Appends what ends the request's body.
    fn encode_end(&mut self, trailers: &Fields, out: &mut Vec<u8>);

    /// The next event of the response, as [`keepwarm_http1::ResponseDecoder::decode`] gives it: `Informational*`, `Head`, `Data*`, `Trailers?`, `End`. The head is filled in
    /// with `Informational` and `Head`.
    ///
    /// # Errors
    /// The server's fault. The connection is unusable.
    fn decode(&mut self, input: &[u8], head: &mut ResponseHead) -> Result<Decoded, ServerFault>;

    /// The server has closed: `Some(End)` if that ends the response, `None` if no response was due yet.
    ///
    /// # Errors
    /// The close cuts the response short.
    fn handle_eof(&mut self) -> Result<Option<Event>, ServerFault>;

    /// Extra bytes follow the end of a response: the fault they reveal in it. `None`: no fault, though the connection cannot be reused.
    fn fault_behind(&mut self, behind: &[u8]) -> Option<ServerFault>;

    /// The trailers, after [`Event::Trailers`].
    fn trailers(&self) -> &Fields;

    /// Whether another request may follow on this connection, once the response has ended.
    fn keeps_connection(&self) -> bool;

    /// Whether the connection has become a tunnel.
    fn is_tunnel(&self) -> bool {
        false
    }

    /// Seconds after which the server closes an idle connection, if it announced that.
    fn keep_alive_timeout(&self) -> Option<u64> {
        None
    }

    /// Takes the server's output beside its response, for the log (FastCGI's STDERR).
    fn take_words(&mut self) -> Vec<u8> {
        Vec::new()
    }
}

/// What a server did wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFault {
    /// A stable name, for counters and logs.
    pub name: &'static str,
    /// A sentence that continues "the server".
    pub sentence: String,
}

/// Why a response will not be complete.
#[derive(Debug)]
pub enum ClientError {
    /// The connection ended before a byte of the response. [`crate::Client::has_sent`] tells whether a byte of the request was sent.
    NoResponse(Option<io::Error>),
    /// The server broke the protocol, or cut its response short.
    Fault(ServerFault),
    /// The server has certainly processed nothing of the request: it may be retried, whatever its method (RFC 9113 §8.7).
    NotProcessed(ServerFault),
}

impl std::fmt::Display for ClientError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoResponse(None) => {
                f.write_str("the server closed the connection before the first byte of its response")
            }
            Self::NoResponse(Some(error)) => {
                write!(f, "the connection was lost before the first byte of the response: {error}")
            }
            Self::Fault(fault) | Self::NotProcessed(fault) => write!(f, "the server {}", fault.sentence),
        }
    }
}

impl ClientError {
    /// The server has reset the request's stream, on a connection that keeps running (RFC 9113 §5.4.2).
    pub fn is_reset(&self) -> bool {
        match self {
            Self::NoResponse(_) => false,
            Self::Fault(fault) => fault.name.starts_with("reset_"),
            Self::NotProcessed(fault) => fault.name == "refused_stream",
        }
    }

    /// A stable name, for counters and logs.
    pub fn name(&self) -> &'static str {
        match self {
            // In TLS 1.3 the server rejects our certificate only now.
            Self::NoResponse(Some(error)) => error
                .get_ref()
                .and_then(|error| error.downcast_ref::<TlsError>())
                .map_or("closed_without_response", |error| error.name),
            Self::NoResponse(None) => "closed_without_response",
            Self::Fault(fault) | Self::NotProcessed(fault) => fault.name,
        }
    }
}
