//! What a protocol is to [`super::Client`], and what goes wrong with a server.

use std::io;

use keepwarm_http1::{Decoded, Event, Fields, ResponseHead};

use crate::tls::TlsError;

/// The client's side of a protocol that carries one request at a time on a connection: bytes in, events out. How a request begins is
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
    /// The server's. The connection is of no further use.
    fn decode(&mut self, input: &[u8], head: &mut ResponseHead) -> Result<Decoded, ServerFault>;

    /// The server has closed: `Some(End)` if that ends the response, `None` if it was not to come yet.
    ///
    /// # Errors
    /// The response is cut short by it.
    fn handle_eof(&mut self) -> Result<Option<Event>, ServerFault>;

    /// Bytes stand behind the end of a response: what is wrong with that response for it. `None`: nothing, though the connection is of no further use.
    fn fault_behind(&mut self, behind: &[u8]) -> Option<ServerFault>;

    /// The trailers, after [`Event::Trailers`].
    fn trailers(&self) -> &Fields;

    /// Whether another request may follow on this connection, once the response has ended.
    fn keeps_connection(&self) -> bool;

    /// Whether the connection has become a tunnel.
    fn is_tunnel(&self) -> bool {
        false
    }

    /// Seconds after which the server says it closes an idle connection.
    fn keep_alive_timeout(&self) -> Option<u64> {
        None
    }

    /// Takes what the server said beside its response, for the log (FastCGI's STDERR).
    fn take_words(&mut self) -> Vec<u8> {
        Vec::new()
    }
}

/// What a server did wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFault {
    /// A stable name, for counters and logs.
    pub name: &'static str,
    /// What, as a sentence that goes on from "the server".
    pub sentence: String,
}

/// Why a response will not be complete.
#[derive(Debug)]
pub enum ClientError {
    /// The connection ended before a byte of the response. Whether a byte of the request was sent: [`crate::Client::has_sent`].
    NoResponse(Option<io::Error>),
    /// The server broke the rules, or broke off.
    Fault(ServerFault),
    /// It is certain that the server has processed nothing of the request: it may be sent again, whatever its method (RFC 9113 §8.7).
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
    /// A stable name, for counters and logs.
    pub fn name(&self) -> &'static str {
        match self {
            // In TLS 1.3 the server says only now what it thinks of our certificate.
            Self::NoResponse(Some(error)) => error
                .get_ref()
                .and_then(|error| error.downcast_ref::<TlsError>())
                .map_or("closed_without_response", |error| error.name),
            Self::NoResponse(None) => "closed_without_response",
            Self::Fault(fault) | Self::NotProcessed(fault) => fault.name,
        }
    }
}
