//! One connection to the server under examination.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Method;
use keepwarm_http1::{Limits, ResponseDecoder};
use keepwarm_net::TcpFacts;
use rustls::ClientConfig;
use tokio::sync::OwnedSemaphorePermit;

use super::socket::{PeerAddress, Socket};
use super::tls::Session;
use super::{Failure, Handshake, Request};
use crate::examine::Watcher;

/// Bytes read at once.
pub(super) const READ: usize = 64 * 1024;

/// Most received bytes that are not decoded yet: a response's decoder needs less than 64 KiB to continue, so anything beyond is a flood.
const INBOX: usize = 1024 * 1024;

/// Bytes of a line that the transcript shows.
const TOLD: usize = 1024;

/// A connection. Bytes go out by [`send`](Self::send), come in by [`read`](Self::read), and are understood by [`read_response`](Self::read_response), which keeps when
/// each of them came.
pub struct Connection {
    pub(super) socket: Socket,
    tls: Option<Session>,
    /// What has come and is not used up.
    pub(super) inbox: Vec<u8>,
    pub(super) decoder: ResponseDecoder,
    /// How long opening it took, by phase.
    pub times: ConnectTimes,
    /// The TLS handshake, where there is one.
    pub handshake: Option<Handshake>,
    /// How long sending may take.
    patience: Duration,
    acks: Acks,
    /// Sending learned of a reset, which the system tells only once.
    was_reset: bool,
    number: u64,
    watcher: Arc<dyn Watcher>,
    /// The place among the connections that may be open.
    _permit: Option<OwnedSemaphorePermit>,
}

/// How long opening a connection took.
#[derive(Debug, Clone, Copy, Default)]
pub struct ConnectTimes {
    /// Connecting: a round trip of TCP.
    pub connect: Duration,
    /// The TLS handshake, where there is one.
    pub tls: Duration,
}

/// How what comes is acknowledged, on this side.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Acks {
    /// The system's default: at once on a new connection, delayed where requests and responses alternate.
    #[default]
    AsUsual,
    /// Delayed, in the hope of bytes to send it with: what every client does on a kept connection (RFC 9293 §3.8.6.3).
    Late,
    /// At once, as soon as the bytes are read.
    AtOnce,
}

/// What a read gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Read {
    /// This many bytes, now in the inbox.
    Bytes(usize),
    /// The server closed its side, properly.
    Closed,
    /// The server reset the connection.
    Reset,
    /// Nothing came within the time given.
    Silence,
    /// The bytes received are not valid TLS, or are too many that were not requested, or the system failed.
    Broken(String),
}

impl Connection {
    /// Connects, with `within` for each step of it, and for each sending later.
    pub(crate) async fn open(
        peer: &PeerAddress,
        tls: Option<(&str, Arc<ClientConfig>)>,
        within: Duration,
        number: u64,
        watcher: Arc<dyn Watcher>,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Result<Self, Failure> {
        let opened = Self::connect(peer, tls, within).await;
        let (socket, tls, handshake, connect) = match opened {
            Ok(opened) => opened,
            Err(failure) => {
                watcher.wire(number, &format!("* {peer}: {failure}"));
                return Err(failure);
            }
        };
        watcher.wire(number, &format!("* connected to {peer}"));
        if let Some(handshake) = &handshake {
            let resumed = if handshake.resumed { ", resumed" } else { "" };
            let line = format!("* {} {}{resumed}", handshake.version, handshake.cipher);
            watcher.wire(number, &line);
        }
        Ok(Self {
            socket,
            tls,
            inbox: Vec::new(),
            decoder: ResponseDecoder::new(Limits::default()),
            times: ConnectTimes { connect, tls: handshake.as_ref().map_or(Duration::ZERO, |it| it.took) },
            handshake,
            patience: within,
            acks: Acks::AsUsual,
            was_reset: false,
            number,
            watcher,
            _permit: permit,
        })
    }

    async fn connect(
        peer: &PeerAddress,
        tls: Option<(&str, Arc<ClientConfig>)>,
        within: Duration,
    ) -> Result<(Socket, Option<Session>, Option<Handshake>, Duration), Failure> {
        let begun = Instant::now();
        let socket = match tokio::time::timeout(within, Socket::connect(peer)).await {
            Ok(Ok(socket)) => socket,
            Ok(Err(error)) => return Err(Failure::of_connect(peer, &error)),
            Err(_) => return Err(Failure::TimedOut("connecting", within)),
        };
        let connect = begun.elapsed();
        let Some((host, config)) = tls else { return Ok((socket, None, None, connect)) };
        match tokio::time::timeout(within, Session::open(&socket, host, config)).await {
            Ok(Ok((session, handshake))) => Ok((socket, Some(session), Some(handshake), connect)),
            Ok(Err(failure)) => Err(failure),
            Err(_) => Err(Failure::TimedOut("the TLS handshake", within)),
        }
    }

    /// Says which request the next response is to, without sending anything.
    pub fn begin(&mut self, request: &Request) {
        let method = Method::from_bytes(request.method().as_bytes()).unwrap_or(Method::GET);
        self.decoder.begin(&method);
    }

    /// Sends these bytes, in as few segments as they fit. A server that takes none of them is waited for as long as a step may take.
    ///
    /// # Errors
    /// The connection is gone, or the server does not read.
    pub async fn send(&mut self, bytes: &[u8]) -> Result<Instant, Failure> {
        self.tell('>', bytes);
        if self.acks == Acks::Late {
            self.socket.acknowledge(self.acks);
        }
        let sending = async {
            match &mut self.tls {
                None => send_plain(&self.socket, bytes).await,
                Some(session) => session.send(&self.socket, bytes).await,
            }
        };
        match tokio::time::timeout(self.patience, sending).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                self.was_reset = error.kind() == io::ErrorKind::ConnectionReset;
                return Err(Failure::Lost(error.to_string()));
            }
            Err(_) => return Err(Failure::TimedOut("sending", self.patience)),
        }
        if self.acks == Acks::AtOnce {
            // Sending puts the socket back into its usual ways.
            self.socket.acknowledge(self.acks);
        }
        Ok(Instant::now())
    }

    /// Waits for bytes, at most `within`.
    pub async fn read(&mut self, within: Duration) -> Read {
        if self.inbox.len() >= INBOX {
            return Read::Broken(format!("more than {} KiB of unrequested bytes received", INBOX / 1024));
        }
        let before = self.inbox.len();
        let read = match tokio::time::timeout(within, self.fill()).await {
            Ok(Ok(Read::Closed)) if self.was_reset => Read::Reset,
            Ok(Ok(read)) => read,
            Ok(Err(error)) => match error.kind() {
                io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Read::Reset,
                // A TLS session that ends without `close_notify` is closed all the same.
                io::ErrorKind::UnexpectedEof => Read::Closed,
                _ => Read::Broken(error.to_string()),
            },
            Err(_) => Read::Silence,
        };
        match &read {
            Read::Bytes(_) => {
                if self.acks == Acks::AtOnce {
                    self.socket.acknowledge(self.acks);
                }
                self.tell('<', self.inbox.get(before..).unwrap_or_default());
            }
            Read::Silence => {}
            other => self.watcher.wire(self.number, &format!("* {other:?}")),
        }
        read
    }

    /// Chooses how what comes is acknowledged from now on, where the system lets it be chosen.
    pub fn acknowledge(&mut self, acks: Acks) {
        self.acks = acks;
        self.socket.acknowledge(acks);
    }

    /// Announces that nothing more will be sent (a half-close), with TLS by `close_notify`, too.
    pub fn finish_writing(&mut self) {
        if let Some(session) = &mut self.tls {
            session.finish(&self.socket);
        }
        // A connection that is already gone needs no announcement.
        let _ = self.socket.shut_down_writing();
    }

    /// Bytes that belong to no requested response.
    #[must_use]
    pub fn left_over(&self) -> &[u8] {
        &self.inbox
    }

    /// What the kernel has counted; nothing where it does not tell.
    #[must_use]
    pub fn facts(&self) -> Option<TcpFacts> {
        self.socket.facts()
    }

    /// The address of the server; nothing for a socket of this machine.
    #[must_use]
    pub fn peer(&self) -> Option<SocketAddr> {
        self.socket.address()
    }

    async fn fill(&mut self) -> io::Result<Read> {
        match &mut self.tls {
            None => fill_plain(&self.socket, &mut self.inbox).await,
            Some(session) => session.fill(&self.socket, &mut self.inbox).await,
        }
    }

    fn tell(&self, direction: char, bytes: &[u8]) {
        if !self.watcher.wants_wire() {
            return;
        }
        for line in bytes.split_inclusive(|&byte| byte == b'\n').take(64) {
            let shown = line.get(..TOLD).unwrap_or(line);
            let rest = line.len() - shown.len();
            let more = if rest > 0 { format!(" … and {rest} more bytes") } else { String::new() };
            self.watcher.wire(self.number, &format!("{direction} {}{more}", shown.escape_ascii()));
        }
    }
}

async fn send_plain(socket: &Socket, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = socket.write_some(bytes).await?;
        bytes = bytes.get(written..).unwrap_or_default();
    }
    Ok(())
}

async fn fill_plain(socket: &Socket, inbox: &mut Vec<u8>) -> io::Result<Read> {
    let mut chunk = vec![0; READ];
    loop {
        socket.readable().await?;
        match socket.try_read(&mut chunk) {
            Ok(0) => return Ok(Read::Closed),
            Ok(count) => {
                inbox.extend_from_slice(chunk.get(..count).unwrap_or_default());
                return Ok(Read::Bytes(count));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}
