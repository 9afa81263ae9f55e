//! Making a connection: connect, and the TLS handshake, each bounded and timed.

mod any;

use std::io;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::tls::{ClientTls, HandshakeFacts, Session, TlsError};
use crate::transport::Transport;
use crate::{Endpoint, ServerFault};

pub use any::connect_any;

/// How a connection is made.
#[derive(Debug, Clone, Copy)]
pub struct Dial<'d> {
    /// The destination.
    pub endpoint: &'d Endpoint,
    /// The TLS settings; `None`: plaintext.
    pub tls: Option<&'d ClientTls>,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// The same for the TLS handshake.
    pub handshake_timeout: Duration,
}

/// How long connecting took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DialTimes {
    /// The TCP or Unix connect.
    pub connect: Duration,
    /// The duration and result of the handshake; `None`: plaintext.
    pub handshake: Option<(Duration, HandshakeFacts)>,
}

#[cfg(test)]
thread_local! {
    /// The next dial panics.
    pub(crate) static PANIC_ON_DIAL: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

impl Dial<'_> {
    /// Makes the connection.
    ///
    /// # Errors
    /// It could not be made.
    pub async fn run(self) -> Result<(Transport, DialTimes), AcquireError> {
        #[cfg(test)]
        assert!(!PANIC_ON_DIAL.take(), "as the test wants it");
        let began = Instant::now();
        let io = match timeout(self.connect_timeout, self.endpoint.connect()).await {
            Ok(io) => io.map_err(AcquireError::Connect)?,
            Err(_) => return Err(AcquireError::Timeout),
        };
        let connect = began.elapsed();
        let Some(tls) = self.tls else {
            return Ok((io.into(), DialTimes { connect, handshake: None }));
        };
        let began = Instant::now();
        let session = match timeout(self.handshake_timeout, Session::handshake(io, tls)).await {
            Ok(session) => session?,
            Err(_) => return Err(AcquireError::HandshakeTimeout),
        };
        let handshake = Some((began.elapsed(), session.facts()));
        Ok((session.into(), DialTimes { connect, handshake }))
    }
}

/// Why there is no connection.
#[derive(Debug)]
pub enum AcquireError {
    /// The system's error.
    Connect(io::Error),
    /// The server did not accept the connection in time.
    Timeout,
    /// The connection was made, but the TLS handshake failed.
    Tls(TlsError),
    /// The server did not finish the TLS handshake in time.
    HandshakeTimeout,
    /// The server does not choose HTTP/2, which is required.
    NotHttp2,
    /// The request opens a WebSocket, and the server does not offer extended CONNECT (RFC 8441 §3).
    NoExtendedConnect,
    /// The server ended the HTTP/2 connection before it carried a request; in words that continue "the server".
    Ended(ServerFault),
    /// The server allows no stream on its HTTP/2 connections (`SETTINGS_MAX_CONCURRENT_STREAMS` of 0), and did not change that in this time.
    NoStreams(Duration),
    /// The connection limit is reached, and so is the limit of the queue.
    QueueFull,
    /// The connection limit is reached, and no connection became free in this time.
    NoneFree(Duration),
}

impl AcquireError {
    /// Nobody listens there.
    pub fn is_refused(&self) -> bool {
        use io::ErrorKind::{ConnectionRefused, NotFound};
        matches!(self, Self::Connect(error) if matches!(error.kind(), ConnectionRefused | NotFound))
    }

    /// This machine has no descriptor or memory for it: not a fault of the server.
    pub fn is_local(&self) -> bool {
        use rustix::io::Errno;
        const LOCAL: [Errno; 4] = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
        let Self::Connect(error) = self else { return false };
        Errno::from_io_error(error).is_some_and(|errno| LOCAL.contains(&errno))
    }

    /// It may be that the server is at another address by now.
    pub fn is_about_address(&self) -> bool {
        !matches!(self, Self::QueueFull | Self::NoneFree(_) | Self::NoStreams(_) | Self::NoExtendedConnect)
            && !self.is_local()
    }

    /// A stable name, for counters and logs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Connect(_) if self.is_refused() => "connect_refused",
            Self::Connect(_) if self.is_local() => "no_descriptor",
            Self::Connect(_) => "connect_failed",
            Self::Timeout => "connect_timeout",
            Self::Tls(error) => error.name,
            Self::HandshakeTimeout => "tls_timeout",
            Self::NotHttp2 => "not_http2",
            Self::NoExtendedConnect => "no_extended_connect",
            Self::Ended(fault) => fault.name,
            Self::NoStreams(_) => "no_streams",
            Self::QueueFull => "queue_full",
            Self::NoneFree(_) => "no_connection_free",
        }
    }

    /// The same wait, where it was for the server to allow streams.
    pub(crate) fn without_streams(self) -> Self {
        match self {
            Self::NoneFree(waited) => Self::NoStreams(waited),
            other => other,
        }
    }

    /// A copy for another caller that waited for the same connection.
    pub(crate) fn told_again(&self) -> Self {
        match self {
            Self::Connect(error) => Self::Connect(match error.raw_os_error() {
                Some(code) => io::Error::from_raw_os_error(code),
                None => io::Error::new(error.kind(), error.to_string()),
            }),
            Self::Timeout => Self::Timeout,
            Self::Tls(error) => Self::Tls(error.clone()),
            Self::HandshakeTimeout => Self::HandshakeTimeout,
            Self::NotHttp2 => Self::NotHttp2,
            Self::NoExtendedConnect => Self::NoExtendedConnect,
            Self::Ended(fault) => Self::Ended(fault.clone()),
            Self::NoStreams(waited) => Self::NoStreams(*waited),
            Self::QueueFull => Self::QueueFull,
            Self::NoneFree(waited) => Self::NoneFree(*waited),
        }
    }
}

impl std::fmt::Display for AcquireError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Connect(error) => error.fmt(f),
            Self::Timeout => f.write_str("connecting timed out"),
            Self::Tls(error) => error.fmt(f),
            Self::HandshakeTimeout => f.write_str("the TLS handshake timed out"),
            Self::NotHttp2 => f.write_str("the server did not select HTTP/2 in the TLS handshake (ALPN)"),
            Self::NoExtendedConnect => {
                f.write_str("the server takes no WebSockets over HTTP/2 (SETTINGS_ENABLE_CONNECT_PROTOCOL)")
            }
            Self::Ended(fault) => write!(f, "the server {}", fault.sentence),
            Self::NoStreams(waited) => {
                write!(f, "the server allows no stream on its connections, and did not for {waited:?}")
            }
            Self::QueueFull => f.write_str("the queue for a connection is full"),
            Self::NoneFree(waited) => write!(f, "no connection became free within {waited:?}"),
        }
    }
}

impl std::error::Error for AcquireError {}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn what_this_machine_lacks_is_not_the_servers_fault() {
        for (errno, local, name) in [
            (Errno::MFILE, true, "no_descriptor"),
            (Errno::NFILE, true, "no_descriptor"),
            (Errno::NOBUFS, true, "no_descriptor"),
            (Errno::NOMEM, true, "no_descriptor"),
            (Errno::CONNREFUSED, false, "connect_refused"),
            (Errno::HOSTUNREACH, false, "connect_failed"),
            // No address for that family: another endpoint may have one.
            (Errno::ADDRNOTAVAIL, false, "connect_failed"),
        ] {
            // A caller that waited for another's connection gets the same error.
            let error = AcquireError::Connect(errno.into()).told_again();
            assert_eq!((error.is_local(), error.name()), (local, name), "{errno:?}");
        }
    }
}
