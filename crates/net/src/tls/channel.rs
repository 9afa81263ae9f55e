//! A TLS session without its socket: records in, records out.
//!
//! rustls' unbuffered interface decrypts incoming bytes in place; plaintext is copied once, to the reader's buffer. Encryption takes
//! all input at once. Both pass through buffers of the thread: a session with nothing half-read or half-written holds none.

use std::io::{self, IoSlice};
use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus, WriteTraffic,
};
use rustls::{CommonState, HandshakeKind, ServerConfig};

use super::scratch::{READ, RECORD, Records, SCRATCH, Scratch, WRITE};
use super::server::{Choice, UNRECOGNIZED_NAME};
use super::{ClientTls, HandshakeFacts, TlsError};
use crate::client::IdleState;
use crate::socket::{Socket, receive};

/// A TLS session without its socket.
pub(super) struct Channel {
    tls: Connection,
    /// The received part of an incomplete record, or of a message in several.
    partial: Vec<u8>,
    /// All that has come, until it is clear that the requested name has a certificate: after that it is obtained, a new session gets these bytes. At most
    /// what rustls takes for a first message, 64 KiB, and one read more. `None`: certificates are not obtained.
    hello: Option<Vec<u8>>,
    /// Plaintext that came before a read: with the handshake, or before a request.
    early: Vec<u8>,
    /// Bytes that the socket did not take at once.
    pub(super) outgoing: Records,
    /// Nothing more comes.
    end: Option<SessionEnd>,
    /// Our side has been closed.
    shut: bool,
}

/// The connection of rustls, by our role.
enum Connection {
    Client(UnbufferedClientConnection, ServerName<'static>),
    /// What the client hello chose is known once it has come.
    Server(UnbufferedServerConnection, Option<Choice>),
}

/// Both have the same methods, of different types.
macro_rules! on {
    ($connection:expr, $tls:ident => $call:expr) => {
        match $connection {
            Connection::Client($tls, _) => $call,
            Connection::Server($tls, _) => $call,
        }
    };
}

impl Connection {
    fn common(&self) -> &CommonState {
        on!(self, tls => tls)
    }

    /// Converts an error about the peer.
    fn error(&self, error: &rustls::Error) -> TlsError {
        match self {
            Self::Client(_, name) => TlsError::of(error, name),
            Self::Server(_, Some(choice)) if choice.is_none() => {
                TlsError::unknown_name(choice.server_name.as_deref())
            }
            Self::Server(..) => TlsError::of_client(error),
        }
    }
}

/// How the peer's side ended.
#[derive(Debug, Clone)]
pub(super) enum SessionEnd {
    /// By a close_notify: everything arrived.
    Closed,
    /// By a FIN alone: there may have been more (RFC 8446 §6.1).
    CutOff,
    /// The session is broken.
    Broken(TlsError),
}

impl Channel {
    /// A new session of a client; the first message is ready to be sent.
    pub(super) fn client(tls: &ClientTls) -> Result<Self, TlsError> {
        let name = tls.name.clone();
        let connection = UnbufferedClientConnection::new(tls.config.clone(), name.clone())
            .map_err(|error| TlsError::of(&error, &name))?;
        let mut channel = Self::new(Connection::Client(connection, name));
        let used = channel.run(&mut [], &mut Vec::new());
        debug_assert_eq!(used, 0);
        Ok(channel)
    }

    /// A new session of a server, which waits for the client's first message.
    /// With `may_obtain`, a certificate that is missing is [`Self::missing`] and not yet a failure.
    pub(super) fn server(config: Arc<ServerConfig>, may_obtain: bool) -> Result<Self, TlsError> {
        let connection =
            UnbufferedServerConnection::new(config).map_err(|error| TlsError::of_client(&error))?;
        let hello = may_obtain.then(Vec::new);
        Ok(Self { hello, ..Self::new(Connection::Server(connection, None)) })
    }

    fn new(tls: Connection) -> Self {
        Self {
            tls,
            partial: Vec::new(),
            hello: None,
            early: Vec::new(),
            outgoing: Records::default(),
            end: None,
            shut: false,
        }
    }

    pub(super) fn is_handshaking(&self) -> bool {
        self.tls.common().is_handshaking()
    }

    /// Whether decrypted bytes wait to be read.
    pub(super) fn has_early(&self) -> bool {
        !self.early.is_empty()
    }

    pub(super) fn common(&self) -> &CommonState {
        self.tls.common()
    }

    /// What a client's first message chose.
    pub(super) fn take_choice(&mut self) -> Option<Choice> {
        match &mut self.tls {
            Connection::Client(..) => None,
            Connection::Server(_, choice) => choice.take(),
        }
    }

    /// The name without a certificate that may be obtained. Nothing has been sent to the client.
    pub(super) fn missing(&self) -> Option<Box<str>> {
        match &self.tls {
            Connection::Server(_, Some(choice)) if choice.may_obtain && self.hello.is_some() => {
                choice.server_name.clone()
            }
            _ => None,
        }
    }

    /// The certificate has been obtained: the client's bytes, for a session that has it.
    pub(super) fn take_hello(&mut self) -> Vec<u8> {
        self.hello.take().unwrap_or_default()
    }

    /// The certificate will not be obtained: the alert that says so.
    pub(super) fn refuse_name(&mut self) {
        self.hello = None;
        self.outgoing.add(&UNRECOGNIZED_NAME, true);
    }

    pub(super) fn end(&self) -> Option<&SessionEnd> {
        self.end.as_ref()
    }

    pub(super) fn facts(&self) -> HandshakeFacts {
        let tls = self.tls.common();
        let chain = tls.peer_certificates().unwrap_or_default();
        HandshakeFacts {
            resumed: tls.handshake_kind() == Some(HandshakeKind::Resumed),
            certificate_bytes: chain.iter().map(|certificate| certificate.len()).sum(),
        }
    }

    pub(super) fn alpn(&self) -> Option<&[u8]> {
        self.tls.common().alpn_protocol()
    }

    /// Returns the early plaintext.
    pub(super) fn take_early(&mut self, into: &mut Vec<u8>) {
        if !self.early.is_empty() {
            into.append(&mut self.early);
        }
    }

    /// Prepares `incoming` for a read: the earlier partial record goes in front.
    pub(super) fn prepare(&self, incoming: &mut Vec<u8>) {
        incoming.clear();
        incoming.extend_from_slice(&self.partial);
        incoming.reserve(READ);
    }

    /// Processes the bytes read into `incoming`; plaintext goes to `into`, `None`: it came early.
    pub(super) fn handle_incoming(&mut self, incoming: &mut [u8], into: Option<&mut Vec<u8>>) {
        if let (Connection::Server(_, None), Some(&first)) = (&self.tls, incoming.first())
            && first != HANDSHAKE
            && self.is_handshaking()
        {
            // rustls would say that it is invalid, and not what it is.
            self.end = Some(SessionEnd::Broken(TlsError::not_tls(first)));
            return;
        }
        if let Some(hello) = &mut self.hello {
            hello.extend_from_slice(incoming.get(self.partial.len()..).unwrap_or_default());
        }
        let used = match into {
            Some(into) => self.run(incoming, into),
            None => {
                let mut early = std::mem::take(&mut self.early);
                let used = self.run(incoming, &mut early);
                self.early = early;
                used
            }
        };
        self.partial.clear();
        self.partial.extend_from_slice(incoming.get(used..).unwrap_or_default());
    }

    /// The server has sent FIN.
    pub(super) fn handle_eof(&mut self) {
        self.end.get_or_insert(SessionEnd::CutOff);
    }

    /// Runs until more input is needed. Returns how much of `incoming` was consumed.
    fn run(&mut self, incoming: &mut [u8], into: &mut Vec<u8>) -> usize {
        let mut used = 0;
        loop {
            let rest = incoming.get_mut(used..).unwrap_or_default();
            let Self { tls, outgoing, .. } = self;
            let Step { discard, next } = on!(tls, tls => step(tls.process_tls_records(rest), into, outgoing));
            used += discard;
            if let Connection::Server(_, choice) = &mut self.tls {
                Choice::take_made(choice);
                if choice.as_ref().is_some_and(|choice| !choice.may_obtain) {
                    self.hello = None;
                }
            }
            match next {
                Next::Again => {}
                Next::Rest => return used,
                Next::Closed => self.end = Some(SessionEnd::Closed),
                Next::Failed(error) => {
                    self.fail(&error);
                    return used;
                }
            }
        }
    }

    fn fail(&mut self, error: &rustls::Error) {
        self.end = Some(SessionEnd::Broken(self.tls.error(error)));
        if self.missing().is_some() {
            return;
        }
        match &self.tls {
            // rustls has no hook for this alert, and would send access_denied.
            Connection::Server(_, Some(choice)) if choice.is_none() => {
                self.outgoing.add(&UNRECOGNIZED_NAME, true);
            }
            Connection::Client(..) | Connection::Server(..) => self.take_alert(),
        }
    }

    /// After a fault: the alert that tells the peer. Incoming bytes are not processed again.
    fn take_alert(&mut self) {
        let Self { tls, outgoing, .. } = self;
        while tls.common().wants_write() {
            // Pending output goes before incoming bytes.
            let step = on!(tls, tls => step(tls.process_tls_records(&mut []), &mut Vec::new(), outgoing));
            if !matches!(step.next, Next::Again) {
                return;
            }
        }
    }

    /// Encrypts as much of `slices` as goes at a time, into the thread's buffer. Returns how much that is.
    pub(super) fn encrypt(&mut self, slices: &[IoSlice<'_>], scratch: &mut Scratch) -> io::Result<usize> {
        let Scratch { outgoing, gathered, .. } = scratch;
        let sealed = self.with_traffic(|traffic| {
            let mut taken = 0;
            for part in parts(slices, gathered) {
                let part = part.get(..part.len().min(WRITE - taken)).unwrap_or_default();
                seal(traffic, part, outgoing)?;
                taken += part.len();
            }
            Ok(taken)
        });
        match sealed {
            Some(Ok(taken)) => Ok(taken),
            Some(Err(EncryptError::InsufficientSize(_) | EncryptError::EncryptExhausted)) | None => {
                Err(io::ErrorKind::BrokenPipe.into())
            }
        }
    }

    /// Adds a close_notify to the output: nothing more is sent.
    pub(super) fn shut(&mut self) {
        /// An alert is a few bytes, and what encrypts them.
        const ALERT: usize = 128;
        let broken = matches!(self.end, Some(SessionEnd::Broken(_)));
        if broken || self.is_handshaking() || std::mem::replace(&mut self.shut, true) {
            return;
        }
        let mut goodbye = Records::default();
        self.with_traffic(|traffic| {
            if let Ok(size) = traffic.queue_close_notify(goodbye.room(ALERT)) {
                goodbye.push(size, true);
            }
        });
        self.outgoing.take(&mut goodbye);
    }

    /// `None`: nothing can be written any more.
    fn with_traffic<T>(&mut self, write: impl FnOnce(&mut dyn Traffic) -> T) -> Option<T> {
        let mut write = Some(write);
        let mut written = None;
        loop {
            let Self { tls, partial, outgoing, end, .. } = self;
            let discard = on!(tls, tls => {
                let UnbufferedStatus { discard, state } = tls.process_tls_records(partial);
                match state {
                    Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                        written = write.take().map(|write| write(&mut traffic));
                    }
                    Ok(ConnectionState::EncodeTlsData(mut data)) => encode(&mut data, outgoing),
                    Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                    Ok(ConnectionState::PeerClosed) => *end = Some(SessionEnd::Closed),
                    Ok(_) | Err(_) => write = None,
                }
                discard
            });
            self.partial.drain(..discard.min(self.partial.len()));
            if write.is_none() {
                return written;
            }
        }
    }

    /// The state of an idle connection. Tickets and new keys are processed, and are not events.
    pub(super) fn look(&mut self, fd: &Socket) -> IdleState {
        /// No peer has that much to say besides: an endless stream must not hold up the thread.
        const READS: usize = 4;
        for _ in 0..READS {
            if !self.early.is_empty() {
                return IdleState::Noisy;
            }
            if self.end.is_some() {
                return IdleState::Closed;
            }
            let received = SCRATCH.with_borrow_mut(|Scratch { incoming, .. }| {
                self.prepare(incoming);
                let received = receive(fd, incoming);
                if received.as_ref().is_ok_and(|got| *got > 0) {
                    self.handle_incoming(incoming, None);
                }
                received
            });
            match received {
                Ok(0) => self.handle_eof(),
                Ok(_) => {}
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => return IdleState::Quiet,
                    _ => return IdleState::Closed,
                },
            }
        }
        match self.end {
            Some(_) => IdleState::Closed,
            None => IdleState::Noisy,
        }
    }

    /// Frees storage before it becomes idle.
    pub(super) fn rest(&mut self) {
        self.outgoing.free();
        if self.partial.is_empty() {
            self.partial = Vec::new();
        }
    }
}

/// The content type of a record with a handshake message (RFC 8446 §5.1).
const HANDSHAKE: u8 = 22;

/// The bytes to encrypt, in pieces that become records: head and body that fit together are one.
fn parts<'p>(slices: &'p [IoSlice<'_>], gathered: &'p mut Vec<u8>) -> [&'p [u8]; 2] {
    match slices {
        [] => [&[], &[]],
        [only] => [only, &[]],
        [head, body, ..] if head.len() >= RECORD => [head, body],
        [head, body, ..] => {
            let (with, rest) = body.split_at(body.len().min(RECORD - head.len()));
            gathered.clear();
            gathered.extend_from_slice(head);
            gathered.extend_from_slice(with);
            [gathered, rest]
        }
    }
}

/// What can be written once the handshake is done.
trait Traffic {
    fn encrypt(&mut self, plain: &[u8], into: &mut [u8]) -> Result<usize, EncryptError>;
    fn queue_close_notify(&mut self, into: &mut [u8]) -> Result<usize, EncryptError>;
}

impl<D> Traffic for WriteTraffic<'_, D> {
    fn encrypt(&mut self, plain: &[u8], into: &mut [u8]) -> Result<usize, EncryptError> {
        WriteTraffic::encrypt(self, plain, into)
    }

    fn queue_close_notify(&mut self, into: &mut [u8]) -> Result<usize, EncryptError> {
        WriteTraffic::queue_close_notify(self, into)
    }
}

/// One state of rustls, and how much of the input it used.
struct Step {
    discard: usize,
    next: Next,
}

enum Next {
    Again,
    /// More input is needed.
    Rest,
    /// The peer's side has ended.
    Closed,
    Failed(rustls::Error),
}

fn step<D>(status: UnbufferedStatus<'_, '_, D>, into: &mut Vec<u8>, outgoing: &mut Records) -> Step {
    let UnbufferedStatus { mut discard, state } = status;
    let next = match state {
        Ok(ConnectionState::ReadTraffic(mut records)) => {
            let mut next = Next::Again;
            while let Some(record) = records.next_record() {
                match record {
                    Ok(record) => {
                        discard += record.discard;
                        into.extend_from_slice(record.payload);
                    }
                    Err(error) => next = Next::Failed(error),
                }
            }
            next
        }
        Ok(ConnectionState::EncodeTlsData(mut data)) => {
            encode(&mut data, outgoing);
            Next::Again
        }
        Ok(ConnectionState::TransmitTlsData(data)) => {
            data.done();
            Next::Again
        }
        Ok(ConnectionState::PeerClosed) => Next::Closed,
        Ok(_) => Next::Rest,
        Err(error) => Next::Failed(error),
    };
    Step { discard, next }
}

fn seal(traffic: &mut dyn Traffic, plain: &[u8], into: &mut Records) -> Result<(), EncryptError> {
    /// Header, tag, type and nonce of a record (RFC 8446 §5.2; 1.2's AEADs take a little more).
    const OVERHEAD: usize = 64;
    let mut size = plain.len() + OVERHEAD * plain.len().div_ceil(RECORD);
    loop {
        match traffic.encrypt(plain, into.room(size)) {
            Ok(sealed) => {
                into.push(sealed, false);
                return Ok(());
            }
            // A new key goes out with it.
            Err(EncryptError::InsufficientSize(error)) if error.required_size > size => {
                size = error.required_size;
            }
            Err(error) => return Err(error),
        }
    }
}

fn encode<D>(data: &mut EncodeTlsData<'_, D>, into: &mut Records) {
    let mut size = 1024;
    loop {
        match data.encode(into.room(size)) {
            Ok(encoded) => return into.push(encoded, true),
            Err(EncodeError::InsufficientSize(error)) if error.required_size > size => {
                size = error.required_size;
            }
            Err(_) => return,
        }
    }
}
