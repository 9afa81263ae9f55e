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

use super::tls::Session;
use super::{Ask, Failure, Handshake, Socket};
use crate::examine::Watcher;

/// Bytes read at once.
const READ: usize = 64 * 1024;

/// A connection. Bytes go out by [`send`](Self::send), come in by [`read`](Self::read), and are understood by [`answer`](Self::answer), which keeps when
/// each of them came.
pub struct Line {
    pub(super) socket: Socket,
    tls: Option<Session>,
    /// What has come and is not used up.
    pub(super) inbox: Vec<u8>,
    pub(super) decoder: ResponseDecoder,
    /// How long opening it took, by phase.
    pub times: LineTimes,
    /// The TLS handshake, where there is one.
    pub handshake: Option<Handshake>,
    acks: Acks,
    number: u64,
    watcher: Arc<dyn Watcher>,
    /// The place among the connections that may be open.
    _permit: Option<OwnedSemaphorePermit>,
}

/// How long opening a connection took.
#[derive(Debug, Clone, Copy, Default)]
pub struct LineTimes {
    /// Connecting: a round trip of TCP.
    pub connect: Duration,
    /// The TLS handshake, where there is one.
    pub tls: Duration,
}

/// How what comes is acknowledged, on this side.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Acks {
    /// As the system likes: at once on a new connection, delayed on one that asks and is answered in turns.
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
    /// So many bytes, now in the inbox.
    Bytes(usize),
    /// The server closed its side, properly.
    Closed,
    /// The server reset the connection.
    Reset,
    /// Nothing came within the time given.
    Silence,
    /// What came is not valid TLS, or the system failed.
    Broken(String),
}

impl Line {
    pub(crate) async fn open(
        address: SocketAddr,
        tls: Option<(&str, Arc<ClientConfig>)>,
        within: Duration,
        number: u64,
        watcher: Arc<dyn Watcher>,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Result<Self, Failure> {
        let begun = Instant::now();
        let socket = match tokio::time::timeout(within, Socket::connect(address)).await {
            Ok(Ok(socket)) => socket,
            Ok(Err(error)) => return Err(Failure::of_connect(address, &error)),
            Err(_) => return Err(Failure::TimedOut("connecting", within)),
        };
        let connect = begun.elapsed();
        let (tls, handshake) = match tls {
            None => (None, None),
            Some((host, config)) => {
                let opening = Session::open(&socket, host, config);
                match tokio::time::timeout(within, opening).await {
                    Ok(Ok((session, handshake))) => (Some(session), Some(handshake)),
                    Ok(Err(failure)) => return Err(failure),
                    Err(_) => return Err(Failure::TimedOut("the TLS handshake", within)),
                }
            }
        };
        let times =
            LineTimes { connect, tls: handshake.as_ref().map_or(Duration::ZERO, |handshake| handshake.took) };
        watcher.wire(number, &format!("* connected to {address}"));
        let decoder = ResponseDecoder::new(Limits::default());
        Ok(Self {
            socket,
            tls,
            inbox: Vec::new(),
            decoder,
            times,
            handshake,
            acks: Acks::AsUsual,
            number,
            watcher,
            _permit: permit,
        })
    }

    /// Says which request the next answer is to, without sending anything.
    pub fn begin(&mut self, ask: &Ask) {
        let method = Method::from_bytes(ask.method().as_bytes()).unwrap_or(Method::GET);
        self.decoder.begin(&method);
    }

    /// Sends these bytes, in as few segments as they fit.
    ///
    /// # Errors
    /// The connection is gone.
    pub async fn send(&mut self, bytes: &[u8]) -> Result<Instant, Failure> {
        self.tell('>', bytes);
        if self.acks == Acks::Late {
            self.socket.acknowledge(self.acks);
        }
        let sent = match &mut self.tls {
            None => self.socket.write_all(bytes).await,
            Some(session) => send_encrypted(session, &self.socket, bytes).await,
        };
        sent.map_err(|error| Failure::Lost(error.to_string()))?;
        if self.acks == Acks::AtOnce {
            // Sending puts the socket back into its usual ways.
            self.socket.acknowledge(self.acks);
        }
        Ok(Instant::now())
    }

    /// Waits for bytes, for so long at most.
    pub async fn read(&mut self, within: Duration) -> Read {
        let read = match tokio::time::timeout(within, self.fill()).await {
            Ok(Ok(read)) => read,
            Ok(Err(error)) => match error.kind() {
                io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Read::Reset,
                // A TLS session that ends without its goodbye is closed all the same.
                io::ErrorKind::UnexpectedEof => Read::Closed,
                _ => Read::Broken(error.to_string()),
            },
            Err(_) => Read::Silence,
        };
        match &read {
            Read::Bytes(count) => {
                if self.acks == Acks::AtOnce {
                    self.socket.acknowledge(self.acks);
                }
                let from = self.inbox.len().saturating_sub(*count);
                let fresh = self.inbox.get(from..).unwrap_or_default().to_vec();
                self.tell('<', &fresh);
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

    /// Says that nothing more will be sent (a half-close).
    pub fn finish_writing(&self) {
        // A connection that is gone already has nothing to be told.
        let _ = self.socket.shut_down_writing();
    }

    /// Bytes that came and belong to no answer that was asked for.
    #[must_use]
    pub fn left_over(&self) -> &[u8] {
        &self.inbox
    }

    /// What the kernel has counted; nothing where it does not tell.
    #[must_use]
    pub fn facts(&self) -> Option<TcpFacts> {
        self.socket.facts()
    }

    /// The address of the server.
    #[must_use]
    pub fn peer(&self) -> Option<SocketAddr> {
        self.socket.peer()
    }

    async fn fill(&mut self) -> io::Result<Read> {
        let Some(session) = &mut self.tls else { return fill_plain(&self.socket, &mut self.inbox).await };
        loop {
            let ready = take_decrypted(session, &mut self.inbox)?;
            if let Some(read) = ready {
                return Ok(read);
            }
            self.socket.readable().await?;
            match session.rustls.read_tls(&mut &self.socket) {
                Ok(0) => return Ok(Read::Closed),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error),
            }
            if let Err(error) = session.rustls.process_new_packets() {
                return Ok(Read::Broken(error.to_string()));
            }
            session.flush(&self.socket).await?;
        }
    }

    fn tell(&self, direction: char, bytes: &[u8]) {
        if self.watcher.wants_wire() {
            for line in bytes.split_inclusive(|&byte| byte == b'\n').take(64) {
                self.watcher.wire(self.number, &format!("{direction} {}", line.escape_ascii()));
            }
        }
    }
}

async fn send_encrypted(session: &mut Session, socket: &Socket, mut bytes: &[u8]) -> io::Result<()> {
    use io::Write as _;
    while !bytes.is_empty() {
        let taken = session.rustls.writer().write(bytes)?;
        bytes = bytes.get(taken..).unwrap_or_default();
        session.flush(socket).await?;
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

/// Moves what has been decrypted into the inbox; nothing when there is none.
fn take_decrypted(session: &mut Session, inbox: &mut Vec<u8>) -> io::Result<Option<Read>> {
    use io::Read as _;
    let mut chunk = vec![0; READ];
    match session.rustls.reader().read(&mut chunk) {
        Ok(0) => Ok(Some(Read::Closed)),
        Ok(count) => {
            inbox.extend_from_slice(chunk.get(..count).unwrap_or_default());
            Ok(Some(Read::Bytes(count)))
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}
