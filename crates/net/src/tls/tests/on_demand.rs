//! Certificates that come while their first client waits.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{AlertDescription, ClientConfig, ClientConnection, Error, SupportedProtocolVersion};
use tokio::task::LocalSet;

use super::accept::{BOUND, accepted, complete_in_single_bytes, settings};
use super::kit::{Authority, Identity, V12, V13};
use crate::{
    OnDemandNames, ServerHandshake, ServerTls, ServerTlsSettings, ServerTlsState, TicketKeys, accept_tls,
};

/// What is done about a missing certificate.
#[derive(Clone, Copy)]
enum Reaction {
    /// It comes.
    Obtain,
    /// It comes, and is for another name.
    Mistake,
    Refuse,
    /// Too many wait.
    Reject,
    /// Nothing, for ever.
    Wait,
}

/// A listener that obtains certificates.
struct Listener {
    authority: Authority,
    tls: Arc<ServerTls>,
    requested: Arc<Mutex<Vec<String>>>,
    socket: TcpListener,
}

fn made(settings: &ServerTlsSettings) -> Arc<ServerTlsState> {
    ServerTlsState::new(settings, &Arc::new(TicketKeys::new(Vec::new())), None).unwrap()
}

impl Listener {
    fn new(reaction: Reaction, configured: &[&Identity]) -> Self {
        let authority = Authority::new();
        let (tls, requested) =
            (Arc::<OnceLock<Arc<ServerTls>>>::default(), Arc::<Mutex<Vec<String>>>::default());
        let identity =
            authority.identity(if matches!(reaction, Reaction::Mistake) { "b.test" } else { "a.test" });
        let (filled, noted) = (Arc::clone(&tls), Arc::clone(&requested));
        let obtain = move |name: &str| {
            noted.lock().unwrap().push(name.to_owned());
            let tls = Arc::clone(filled.get().unwrap());
            let certificates = settings(&[&identity]).certificates;
            Some(Box::pin(async move {
                tokio::task::yield_now().await;
                match reaction {
                    Reaction::Obtain | Reaction::Mistake => {
                        let settings = ServerTlsSettings { certificates, ..tls.state().settings().clone() };
                        tls.replace(made(&settings));
                        true
                    }
                    Reaction::Refuse | Reaction::Reject => false,
                    Reaction::Wait => std::future::pending().await,
                }
            }) as _)
            .filter(|_| !matches!(reaction, Reaction::Reject))
        };
        let mut own = settings(configured);
        own.on_demand = Some(OnDemandNames::new(obtain));
        let listening = Arc::new(ServerTls::new(made(&own)));
        tls.set(Arc::clone(&listening)).unwrap();
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        Self { authority, tls: listening, requested, socket }
    }

    /// A client's handshake for a name, and ours.
    async fn handshake(
        &self,
        name: &'static str,
        versions: &'static [&'static SupportedProtocolVersion],
        adjust: impl FnOnce(&mut ClientConfig),
        complete: fn(&mut ClientConnection, &mut TcpStream) -> Result<(), Error>,
    ) -> (Result<(), Error>, Result<ServerHandshake, &'static str>) {
        let mut config = self.authority.client_config(versions);
        adjust(&mut config);
        let address = self.socket.local_addr().unwrap();
        let client: JoinHandle<_> = std::thread::spawn(move || {
            let mut session =
                ClientConnection::new(Arc::new(config), ServerName::try_from(name).unwrap()).unwrap();
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(BOUND)).unwrap();
            complete(&mut session, &mut stream)
        });
        let io = accepted(&self.socket);
        let done = LocalSet::new().run_until(accept_tls(io, &self.tls, BOUND)).await;
        let done = done.map(|(_, facts)| facts).map_err(|failure| failure.error.name);
        (client.join().unwrap(), done)
    }

    fn requested(&self) -> Vec<String> {
        self.requested.lock().unwrap().clone()
    }
}

fn complete(session: &mut ClientConnection, stream: &mut TcpStream) -> Result<(), Error> {
    while session.is_handshaking() {
        if let Err(error) = session.complete_io(stream) {
            return Err(error.downcast::<Error>().expect("an error of TLS"));
        }
    }
    Ok(())
}

/// However the first message is cut: into segments, and into records (RFC 8446 §5.1).
#[tokio::test]
async fn the_first_handshake_gets_a_certificate_that_came_after_its_first_message() {
    type Complete = fn(&mut ClientConnection, &mut TcpStream) -> Result<(), Error>;
    for version in [V12, V13] {
        for fragment in [None, Some(40)] {
            for complete in [complete as Complete, complete_in_single_bytes] {
                let listener = Listener::new(Reaction::Obtain, &[]);
                let cut = |config: &mut ClientConfig| config.max_fragment_size = fragment;
                let (client, server) = listener.handshake("a.test", version, cut, complete).await;
                assert_eq!(client, Ok(()), "{version:?} {fragment:?}");
                let facts = server.unwrap();
                assert_eq!(facts.certificate.unwrap().facts.names, ["a.test"]);
                assert_eq!(facts.server_name.as_deref(), Some("a.test"));
                assert_eq!(listener.requested(), ["a.test"]);
                // From now on it is there.
                let (client, _) = listener.handshake("a.test", version, |_| {}, self::complete).await;
                assert_eq!((client, listener.requested().len()), (Ok(()), 1));
            }
        }
    }
}

/// RFC 6066 §3: the alert says what is wrong. A certificate for another name is not asked for again and again.
#[tokio::test]
async fn without_a_certificate_the_client_is_told_that_its_name_is_unknown() {
    let other = Authority::new().identity("other.test");
    for reaction in [Reaction::Refuse, Reaction::Reject, Reaction::Mistake] {
        for configured in [&[][..], &[&other]] {
            let listener = Listener::new(reaction, configured);
            let (client, server) = listener.handshake("a.test", V13, |_| {}, complete).await;
            assert_eq!(client, Err(Error::AlertReceived(AlertDescription::UnrecognisedName)));
            assert_eq!(server.err(), Some("name_unknown"));
            assert_eq!(listener.requested(), ["a.test"]);
        }
    }
}

/// The default certificate is for names that nobody could obtain one for.
#[tokio::test]
async fn names_that_no_authority_certifies_are_not_requested() {
    let other = Authority::new().identity("other.test");
    let listener = Listener::new(Reaction::Obtain, &[&other]);
    for name in ["localhost", "a_b.test"] {
        let (client, _) = listener.handshake(name, V13, |_| {}, complete).await;
        assert!(matches!(client, Err(Error::InvalidCertificate(_))), "{name}: {client:?}");
    }
    let listener = Listener::new(Reaction::Obtain, &[]);
    let (client, server) = listener.handshake("localhost", V13, |_| {}, complete).await;
    assert_eq!(client, Err(Error::AlertReceived(AlertDescription::UnrecognisedName)));
    assert_eq!(server.err(), Some("name_unknown"));
    assert!(listener.requested().is_empty());
}

/// One that has left takes no place of another. One that sends more than it may is not taken for it.
#[tokio::test]
async fn a_client_that_leaves_while_it_waits_ends_the_wait() {
    for (more, stays) in [(&b""[..], false), (b"", true), (b"\x14\x03\x03\0\x01\x01", true)] {
        let listener = Listener::new(Reaction::Wait, &[]);
        let config = ClientConfig::clone(&listener.authority.client("a.test").config);
        let mut session =
            ClientConnection::new(Arc::new(config), ServerName::try_from("a.test").unwrap()).unwrap();
        let mut stream = TcpStream::connect(listener.socket.local_addr().unwrap()).unwrap();
        session.write_tls(&mut stream).unwrap();
        let io = accepted(&listener.socket);
        let limit = if stays { Duration::from_millis(200) } else { BOUND };
        let handshake = accept_tls(io, &listener.tls, limit);
        let client = async {
            while listener.requested().is_empty() {
                tokio::task::yield_now().await;
            }
            stream.write_all(more).unwrap();
            if !stays {
                drop(stream.shutdown(std::net::Shutdown::Both));
            }
        };
        let (failure, ()) = tokio::join!(handshake, client);
        let expected = if stays { "timeout" } else { "client_left" };
        assert_eq!(failure.unwrap_err().error.name, expected, "{more:?}");
    }
}

/// The wait is part of the handshake, and has its limit.
#[tokio::test(start_paused = true)]
async fn a_certificate_that_does_not_come_ends_with_the_time_limit() {
    let listener = Listener::new(Reaction::Wait, &[]);
    let config = ClientConfig::clone(&listener.authority.client("a.test").config);
    let mut session =
        ClientConnection::new(Arc::new(config), ServerName::try_from("a.test").unwrap()).unwrap();
    let mut stream = TcpStream::connect(listener.socket.local_addr().unwrap()).unwrap();
    session.write_tls(&mut stream).unwrap();
    let (io, begun) = (accepted(&listener.socket), tokio::time::Instant::now());
    let failure = accept_tls(io, &listener.tls, Duration::from_secs(10)).await.unwrap_err();
    assert_eq!((failure.error.name, begun.elapsed().as_secs()), ("timeout", 10));
    assert_eq!(listener.requested(), ["a.test"]);
}
