//! The handshake with a client: one signature at a time on a thread, a bounded number at once, the oldest given up first.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io::IoSlice;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::{Notify, Semaphore};

use super::channel::{Channel, SessionEnd};
use super::error::PLAINTEXT_HTTP;
use super::session::Session;
use super::{CHALLENGE_PROTOCOL, Certificate, ClientIdentity, ServerTls, ServerTlsState, TlsError};
use crate::client::IdleState;
use crate::{Io, Transport};

/// Handshakes that one thread has begun and not finished. Each may hold a message of up to 64 KiB beside the state of rustls, so this bounds a
/// thread's to about 40 MiB in the worst case (72 MiB where certificates are obtained on demand, which needs a copy of that message), and to 5 MiB where clients send what clients send. When one more comes, the oldest is given up:
/// a client that stalls is older than one that does not.
const AT_ONCE: usize = 512;

/// The result of a handshake with a client.
#[derive(Debug)]
pub struct ServerHandshake {
    /// `TLSv1.3`, `TLSv1.2`.
    pub version: &'static str,
    /// The cipher suite, by its name in the registry of IANA.
    pub cipher: &'static str,
    /// It resumed an earlier session.
    pub resumed: bool,
    /// The requested host name (SNI).
    pub server_name: Option<Box<str>>,
    /// Our certificate.
    pub certificate: Option<Arc<Certificate>>,
    /// Whether clients are asked for certificates.
    pub asks_clients: bool,
    /// The client's certificate, which has been verified.
    pub client: Option<Box<ClientIdentity>>,
    /// HTTP/2 was agreed on (ALPN).
    pub http2: bool,
    /// It was an authority that verified a name, and nothing follows (RFC 8737).
    pub is_challenge: bool,
}

/// Why a handshake failed.
#[derive(Debug)]
pub struct AcceptFailure {
    /// What happened.
    pub error: TlsError,
    /// The client speaks HTTP in plaintext, and can be told.
    pub plaintext: Option<PlaintextClient>,
}

/// A client that speaks HTTP without TLS.
#[derive(Debug)]
pub struct PlaintextClient(Box<Session>);

impl PlaintextClient {
    /// Writes a short response and waits until the client has closed its side, so that no reset destroys it; the caller bounds that.
    pub async fn respond(mut self, response: &[u8]) {
        let io = self.0.abandon();
        if io.write(&[IoSlice::new(response)]).is_err() {
            return;
        }
        io.shutdown_write();
        let mut discard = Vec::with_capacity(DISCARD);
        while poll_fn(|cx| io.poll_read(cx, &mut discard)).await.is_ok_and(|got| got > 0) {
            discard.clear();
        }
    }
}

/// Bytes in one read of discarded data.
const DISCARD: usize = 16 * 1024;

/// Makes a session with a client. The whole of it may take `timeout`.
///
/// # Errors
/// The client refuses, is refused, leaves, or is too slow.
pub async fn accept(
    io: Io,
    tls: &ServerTls,
    timeout: Duration,
) -> Result<(Transport, ServerHandshake), AcceptFailure> {
    let place = HandshakePlace::enter();
    let mut given_up = pin!(place.given_up());
    let mut handshake = pin!(tokio::time::timeout(timeout, handshake(io, tls)));
    let done = poll_fn(|cx| {
        if let Poll::Ready(done) = handshake.as_mut().poll(cx) {
            return Poll::Ready(Some(done));
        }
        given_up.as_mut().poll(cx).map(|()| None)
    });
    match done.await {
        Some(Ok(done)) => done,
        Some(Err(_)) => Err(failure("timeout", format!("the TLS handshake did not end within {timeout:?}"))),
        None => Err(failure(
            "limit",
            format!(
                "more than {AT_ONCE} TLS handshakes are in progress on this thread, and this one was the oldest"
            ),
        )),
    }
}

fn failure(name: &'static str, sentence: String) -> AcceptFailure {
    TlsError::new(name, sentence).into()
}

impl From<TlsError> for AcceptFailure {
    fn from(error: TlsError) -> Self {
        Self { error, plaintext: None }
    }
}

async fn handshake(io: Io, tls: &ServerTls) -> Result<(Transport, ServerHandshake), AcceptFailure> {
    let mut state = tls.state();
    let mut session =
        Session::of_server(io, Channel::server(state.config(), state.settings().on_demand.is_some())?);
    loop {
        if let Some(name) = session.channel().missing() {
            state = obtain(&mut session, tls, &state, &name).await?;
        }
        // A fault has become an alert, which goes out first.
        let written = poll_fn(|cx| session.poll_outgoing(cx)).await;
        let is_done = !session.channel().is_handshaking();
        match session.channel().end() {
            Some(SessionEnd::Broken(error)) => {
                let error = error.clone();
                let plaintext = (error.name == PLAINTEXT_HTTP).then(|| PlaintextClient(Box::new(session)));
                return Err(AcceptFailure { error, plaintext });
            }
            Some(SessionEnd::Closed | SessionEnd::CutOff) if !is_done => {
                return Err(TlsError::client_left(None).into());
            }
            // A client may have sent all that it has to say, its end included, with the last of the handshake.
            Some(SessionEnd::Closed | SessionEnd::CutOff) | None => {}
        }
        written.map_err(|error| TlsError::client_left(Some(&error)))?;
        if is_done {
            let facts = facts(&mut session, state.settings().client_auth.is_some());
            return Ok((session.into(), facts));
        }
        read_flight(&mut session).await.map_err(|error| TlsError::client_left(Some(&error)))?;
    }
}

/// Waits for the certificate of the requested name, and gives the client's first message to a session that has it; without one, the client is refused.
async fn obtain(
    session: &mut Session,
    tls: &ServerTls,
    state: &Arc<ServerTlsState>,
    name: &str,
) -> Result<Arc<ServerTlsState>, TlsError> {
    let obtained = match &state.settings().on_demand {
        Some(names) => while_connected(session, names.obtain(name)).await,
        None => Some(false),
    };
    if !obtained.ok_or_else(|| TlsError::client_left(None))? {
        session.channel().refuse_name();
        return Ok(Arc::clone(state));
    }
    let state = tls.state();
    let mut hello = session.channel().take_hello();
    let mut channel = Channel::server(state.config(), false)?;
    let turn = turn();
    let _turn = turn.acquire().await;
    channel.handle_incoming(&mut hello, None);
    *session.channel() = channel;
    tokio::task::yield_now().await;
    Ok(state)
}

/// `None`: the client has left, and nobody waits any more.
async fn while_connected<T>(session: &mut Session, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    let mut is_quiet = true;
    let done = poll_fn(|cx| {
        if let Poll::Ready(done) = work.as_mut().poll(cx) {
            return Poll::Ready(Some(done));
        }
        if is_quiet && let Poll::Ready(unread) = session.poll_unread(cx) {
            if unread == IdleState::Closed {
                return Poll::Ready(None);
            }
            // It is read when the handshake continues.
            is_quiet = false;
        }
        Poll::Pending
    });
    done.await
}

/// Reads what the client has sent and processes it, which may take a signature. Others of this thread get their turn between two of these: without
/// that, as many as came at once would go on one after the other.
async fn read_flight(session: &mut Session) -> std::io::Result<()> {
    loop {
        poll_fn(|cx| session.poll_readable(cx)).await?;
        let turn = turn();
        let _turn = turn.acquire().await;
        let read = poll_fn(|cx| Poll::Ready(session.poll_records(cx, None))).await;
        // The reactor is asked, and everything that is ready runs, before the next handshake continues.
        tokio::task::yield_now().await;
        if let Poll::Ready(read) = read {
            return read;
        }
    }
}

/// The turn of this thread.
fn turn() -> Rc<Semaphore> {
    thread_local! {
        static TURN: Rc<Semaphore> = Rc::new(Semaphore::new(1));
    }
    TURN.with(Rc::clone)
}

fn facts(session: &mut Session, asks_clients: bool) -> ServerHandshake {
    let choice = session.channel().take_choice();
    session.note_facts();
    let channel = session.channel();
    let common = channel.common();
    let client = common.peer_certificates().and_then(<[_]>::first).and_then(ClientIdentity::new);
    let version = match common.protocol_version() {
        Some(rustls::ProtocolVersion::TLSv1_2) => "TLSv1.2",
        _ => "TLSv1.3",
    };
    let suite = common.negotiated_cipher_suite().and_then(|suite| suite.suite().as_str());
    let resumed = common.handshake_kind() == Some(rustls::HandshakeKind::Resumed);
    let http2 = common.alpn_protocol() == Some(b"h2");
    let is_challenge = common.alpn_protocol() == Some(CHALLENGE_PROTOCOL);
    let (server_name, certificate) =
        choice.map_or((None, None), |choice| (choice.server_name, choice.certificate));
    ServerHandshake {
        version,
        cipher: suite.unwrap_or_default(),
        resumed,
        server_name,
        certificate,
        asks_clients,
        client: client.map(Box::new),
        http2,
        is_challenge,
    }
}

/// A handshake among those of its thread.
struct HandshakePlace(Rc<PlaceState>);

#[derive(Default)]
struct PlaceState {
    left: Cell<bool>,
    given_up: Notify,
}

thread_local! {
    /// The handshakes in progress, the oldest first; some of them are over.
    static PLACES: RefCell<VecDeque<Weak<PlaceState>>> = const { RefCell::new(VecDeque::new()) };
    static IN_PROGRESS: Cell<usize> = const { Cell::new(0) };
}

impl HandshakePlace {
    fn enter() -> Self {
        let state = Rc::new(PlaceState::default());
        PLACES.with_borrow_mut(|places| {
            while places.front().is_some_and(|oldest| oldest.strong_count() == 0) {
                places.pop_front();
            }
            if IN_PROGRESS.get() >= AT_ONCE {
                let mut oldest =
                    std::iter::from_fn(|| places.pop_front()).filter_map(|oldest| oldest.upgrade());
                if let Some(oldest) = oldest.next() {
                    Self::leave(&oldest);
                    oldest.given_up.notify_one();
                }
            } else if places.len() > 4 * AT_ONCE {
                places.retain(|place| place.strong_count() > 0);
            }
            places.push_back(Rc::downgrade(&state));
        });
        IN_PROGRESS.set(IN_PROGRESS.get() + 1);
        Self(state)
    }

    async fn given_up(&self) {
        self.0.given_up.notified().await;
    }

    fn leave(state: &PlaceState) {
        if !state.left.replace(true) {
            IN_PROGRESS.set(IN_PROGRESS.get() - 1);
        }
    }
}

impl Drop for HandshakePlace {
    fn drop(&mut self) {
        Self::leave(&self.0);
    }
}
