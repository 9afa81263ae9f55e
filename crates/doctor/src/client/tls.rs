//! TLS as the doctor sees it: the same library the back door uses, with everything of the handshake kept to be looked at.

use std::io::{self, Read as _, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, ProtocolVersion};

use super::connection::READ;
use super::socket::Socket;
use super::trust::refusal;
use super::{Failure, Read};

/// What a handshake was like.
#[derive(Debug, Clone)]
pub struct Handshake {
    /// From the end of connecting to the end of the handshake.
    pub took: Duration,
    /// `TLS 1.3`, `TLS 1.2`
    pub version: String,
    /// The cipher suite.
    pub cipher: String,
    /// The protocol agreed upon (ALPN).
    pub alpn: Option<String>,
    /// Whether an earlier session was resumed, so that no certificate was sent.
    pub resumed: bool,
    /// The server's certificate first, then those it sent with it, each in DER. With a resumed session those of the session.
    pub chain: Vec<CertificateDer<'static>>,
    /// Times that we waited for the server: round trips.
    pub round_trips: u32,
    /// Bytes that the server sent for it.
    pub received: usize,
}

/// A session on a connection.
#[derive(Debug)]
pub(crate) struct Session {
    rustls: Box<ClientConnection>,
    /// Records that are made and not sent. They stay here when sending is cancelled: a record that were lost would break the session.
    outbox: Vec<u8>,
}

/// A record of type `change_cipher_spec`: sent for old middleboxes' sake, and no reason to wait (RFC 8446 §D.4).
const CHANGE_CIPHER_SPEC: [u8; 6] = [20, 3, 3, 0, 1, 1];

impl Session {
    /// Shakes hands. The caller bounds the time.
    pub(crate) async fn open(
        socket: &Socket,
        host: &str,
        config: Arc<ClientConfig>,
    ) -> Result<(Self, Handshake), Failure> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| Failure::Tls(format!("{host:?} is neither a DNS name nor an IP address")))?;
        let rustls = ClientConnection::new(config, name).map_err(|error| Failure::Tls(error.to_string()))?;
        let mut session = Self { rustls: Box::new(rustls), outbox: Vec::new() };
        let begun = Instant::now();
        let mut round_trips = 0;
        let mut received = 0;
        while session.rustls.is_handshaking() {
            session.make_records().map_err(lost)?;
            let asks = !session.outbox.is_empty() && session.outbox != CHANGE_CIPHER_SPEC;
            round_trips += u32::from(asks);
            session.flush(socket).await.map_err(lost)?;
            socket.readable().await.map_err(lost)?;
            if received == 0 {
                is_tls(socket)?;
            }
            received += session.hear(socket).await?;
        }
        session.flush(socket).await.map_err(lost)?;
        let handshake = session.handshake(begun.elapsed(), round_trips, received);
        Ok((session, handshake))
    }

    /// Reads once from the socket, and decrypts; says how many bytes came.
    async fn hear(&mut self, socket: &Socket) -> Result<usize, Failure> {
        let count = match self.rustls.read_tls(&mut &*socket) {
            Ok(0) => return Err(Failure::Lost("closed by the server during the TLS handshake".to_owned())),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
            Err(error) => return Err(lost(error)),
        };
        if let Err(error) = self.rustls.process_new_packets() {
            // The alert that says why.
            let _ = self.flush(socket).await;
            return Err(match error {
                rustls::Error::InvalidCertificate(why) => Failure::Certificate(refusal(&why)),
                other => Failure::Tls(other.to_string()),
            });
        }
        Ok(count)
    }

    fn make_records(&mut self) -> io::Result<()> {
        while self.rustls.wants_write() {
            self.rustls.write_tls(&mut self.outbox)?;
        }
        Ok(())
    }

    /// Writes what waits to be sent. The caller bounds the time; cancelled, it can be called again.
    pub(crate) async fn flush(&mut self, socket: &Socket) -> io::Result<()> {
        self.make_records()?;
        while !self.outbox.is_empty() {
            let written = socket.write_some(&self.outbox).await?;
            self.outbox.drain(..written.min(self.outbox.len()));
        }
        Ok(())
    }

    /// Encrypts and sends.
    pub(crate) async fn send(&mut self, socket: &Socket, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let taken = self.rustls.writer().write(bytes)?;
            bytes = bytes.get(taken..).unwrap_or_default();
            self.flush(socket).await?;
        }
        Ok(())
    }

    /// Sends `close_notify`, as far as the kernel takes it now.
    pub(crate) fn finish(&mut self, socket: &Socket) {
        self.rustls.send_close_notify();
        if self.make_records().is_ok() {
            // A connection that is already gone needs no announcement.
            let _ = socket.try_write(&self.outbox);
            self.outbox.clear();
        }
    }

    /// Waits until something that was encrypted has come, or the end. The caller bounds the time.
    pub(crate) async fn fill(&mut self, socket: &Socket, inbox: &mut Vec<u8>) -> io::Result<Read> {
        let mut chunk = vec![0; READ];
        loop {
            // Bytes that are not TLS may follow some that were.
            let heard = self.rustls.process_new_packets();
            match self.rustls.reader().read(&mut chunk) {
                Ok(0) => return Ok(Read::Closed),
                Ok(count) => {
                    inbox.extend_from_slice(chunk.get(..count).unwrap_or_default());
                    return Ok(Read::Bytes(count));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            if let Err(error) = heard {
                // The alert that says why.
                let _ = self.flush(socket).await;
                return Ok(Read::Broken(error.to_string()));
            }
            self.flush(socket).await?;
            socket.readable().await?;
            match self.rustls.read_tls(&mut &*socket) {
                // The next turn says whether it was a proper end.
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn handshake(&self, took: Duration, round_trips: u32, received: usize) -> Handshake {
        let chain = self.rustls.peer_certificates().unwrap_or_default();
        Handshake {
            took,
            version: self.rustls.protocol_version().map_or_else(String::new, version),
            cipher: self
                .rustls
                .negotiated_cipher_suite()
                .map_or_else(String::new, |suite| format!("{:?}", suite.suite())),
            alpn: self.rustls.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned()),
            resumed: self.rustls.handshake_kind() == Some(HandshakeKind::Resumed),
            chain: chain.iter().cloned().map(CertificateDer::into_owned).collect(),
            round_trips,
            received,
        }
    }
}

/// As people write it: `TLS 1.3`.
fn version(version: ProtocolVersion) -> String {
    match version {
        ProtocolVersion::TLSv1_3 => "TLS 1.3".to_owned(),
        ProtocolVersion::TLSv1_2 => "TLS 1.2".to_owned(),
        other => format!("{other:?}"),
    }
}

/// Refuses a server that responds in another language than TLS, with what it says.
fn is_tls(socket: &Socket) -> Result<(), Failure> {
    let mut first = [0; 64];
    let count = socket.peek(&mut first);
    match first.get(..count) {
        Some(b"") | None | Some([20..=24, 3, ..] | [20..=24]) => Ok(()),
        Some(other) => {
            let line = other.split(|&byte| byte == b'\r' || byte == b'\n').next().unwrap_or_default();
            Err(Failure::NotTls(line.escape_ascii().to_string()))
        }
    }
}

fn lost(error: io::Error) -> Failure {
    Failure::Lost(error.to_string())
}
