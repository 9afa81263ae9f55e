//! The input of every probe, once the server has been reached.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use rustls::ClientConfig;

use crate::budget::{Budget, CONNECTIONS};
use crate::client::{Connection, Failure, Outcome, PeerAddress, Request, Response, TlsSettings};
use crate::examine::Watcher;
use crate::server::Server;
use crate::settings::Settings;
use crate::target::Target;

/// What a probe works with: the target, the settings, the first response, and connections within the budget.
///
/// [`once`](Self::once) sends a request on a new connection; [`connect`](Self::connect) opens a connection, and [`exchange`](Self::exchange) sends requests on
/// it. A probe that sends by hand uses [`Connection::begin`], [`Connection::send`] and [`Connection::read_response`], after [`Budget::request`].
pub struct ProbeContext {
    /// The target of the examination.
    pub target: Target,
    /// How.
    pub settings: Settings,
    /// Every address of the server, the one that is used first. None if it listens on a socket of this machine.
    pub addresses: Vec<SocketAddr>,
    /// The server software, if it reveals it.
    pub server: Server,
    /// The very first response, to the ordinary request.
    pub first: Response,
    /// The budget of requests and connections.
    pub budget: Arc<Budget>,
    /// Trusted authorities, where there is TLS.
    pub(crate) tls_settings: Option<TlsSettings>,
    pub(crate) tls: Option<Arc<ClientConfig>>,
    pub(crate) watcher: Arc<dyn Watcher>,
    pub(crate) connections: AtomicU64,
    /// Requests and connections, one after the other, to which nothing came for as long as a step may take.
    pub(crate) silences: AtomicU32,
    /// Responses that a server sends which limits its clients or has too much to do: 429 and 503.
    pub(crate) refusals: AtomicU32,
}

/// After this many silences in a row the server is considered gone. Waiting out every further one would take minutes and reveal nothing.
const GONE: u32 = 5;

/// So long a server that is gone is waited for on the connections that are there still.
const LAST: Duration = Duration::from_millis(250);

impl ProbeContext {
    /// A new connection.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn connect(&self) -> Result<Connection, Failure> {
        self.connect_with(self.tls.clone()).await
    }

    /// A new connection with other settings of TLS than the usual.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn connect_with(&self, tls: Option<Arc<ClientConfig>>) -> Result<Connection, Failure> {
        self.connect_to(&self.peer()?, tls).await
    }

    /// A new connection to one of the addresses.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) async fn connect_to(
        &self,
        peer: &PeerAddress,
        tls: Option<Arc<ClientConfig>>,
    ) -> Result<Connection, Failure> {
        if self.is_gone() {
            return Err(Failure::Gone(GONE));
        }
        let number = self.connections.fetch_add(1, Ordering::Relaxed) + 1;
        let connector = Connector {
            target: &self.target,
            settings: &self.settings,
            budget: &self.budget,
            watcher: &self.watcher,
        };
        let connection = connector.connect(peer, tls, number).await;
        if matches!(connection, Err(Failure::TimedOut(..))) {
            self.silences.fetch_add(1, Ordering::Relaxed);
        }
        connection
    }

    /// Whether the server, which did respond once, no longer does.
    pub(crate) fn is_gone(&self) -> bool {
        self.silences.load(Ordering::Relaxed) >= GONE
    }

    /// A probe has found out that ordinary requests get nothing any more.
    pub(crate) fn give_up(&self) {
        self.silences.store(GONE, Ordering::Relaxed);
    }

    fn peer(&self) -> Result<PeerAddress, Failure> {
        match (&self.target.socket, self.addresses.first()) {
            (Some(path), _) => Ok(PeerAddress::Unix(path.clone())),
            (None, Some(&address)) => Ok(PeerAddress::Tcp(address)),
            (None, None) => Err(Failure::no_address(&self.target.host)),
        }
    }

    /// The `Host` of an ordinary request: the target's, unless another was given.
    #[must_use]
    pub fn authority(&self) -> String {
        let given = self.settings.headers.iter().rev().find(|(name, _)| name.eq_ignore_ascii_case("host"));
        given.map_or_else(|| self.target.authority(), |(_, host)| host.clone())
    }

    /// The ordinary request: the method and the path that were chosen, HTTP/1.1, kept.
    #[must_use]
    pub fn ordinary_request(&self) -> Request {
        self.request_by(&self.settings.method)
    }

    /// A request by another method, for the same path.
    #[must_use]
    pub fn request_by(&self, method: &str) -> Request {
        request_for(&self.target, &self.settings, method)
    }

    /// Asks on a connection, and waits for the whole response as long as a step may take.
    pub async fn exchange(&self, connection: &mut Connection, request: &Request) -> Response {
        self.exchange_within(connection, request, self.settings.timeout).await
    }

    /// The same, at most `within`.
    pub async fn exchange_within(
        &self,
        connection: &mut Connection,
        request: &Request,
        within: Duration,
    ) -> Response {
        self.send_request(connection, request).await;
        self.read_response_until(connection, within, |_| false).await
    }

    /// Sends a request, and nothing more.
    pub(crate) async fn send_request(&self, connection: &mut Connection, request: &Request) {
        self.budget.request().await;
        connection.begin(request);
        // A server may respond, and close, before it has the whole request: its response is read either way.
        let _ = connection.send(&request.bytes()).await;
    }

    /// Waits for the response to it, or for enough of it.
    pub(crate) async fn read_response_until(
        &self,
        connection: &mut Connection,
        within: Duration,
        enough: impl Fn(&Response) -> bool,
    ) -> Response {
        let within = if self.is_gone() { within.min(LAST) } else { within };
        let response = connection.read_response_until(within, &enough).await;
        if matches!(response.status(), Some(429 | 503)) {
            self.refusals.fetch_add(1, Ordering::Relaxed);
        }
        match response.outcome {
            Outcome::Silence if enough(&response) => self.silences.store(0, Ordering::Relaxed),
            Outcome::Silence if within >= self.settings.timeout => {
                self.silences.fetch_add(1, Ordering::Relaxed);
            }
            Outcome::Silence => {}
            _ => self.silences.store(0, Ordering::Relaxed),
        }
        response
    }

    /// Sends a request on a new connection.
    ///
    /// # Errors
    /// Why there is no connection.
    pub async fn once(&self, request: &Request) -> Result<(Connection, Response), Failure> {
        let mut connection = self.connect().await?;
        let response = self.exchange(&mut connection, request).await;
        Ok((connection, response))
    }
}

/// Opens connections to a target within the budget; used before there is a [`ProbeContext`], too.
pub(crate) struct Connector<'a> {
    pub(crate) target: &'a Target,
    pub(crate) settings: &'a Settings,
    pub(crate) budget: &'a Budget,
    pub(crate) watcher: &'a Arc<dyn Watcher>,
}

impl Connector<'_> {
    /// A connection within the budget.
    pub(crate) async fn connect(
        &self,
        peer: &PeerAddress,
        tls: Option<Arc<ClientConfig>>,
        number: u64,
    ) -> Result<Connection, Failure> {
        let permit = self.budget.connection().await;
        if permit.is_none() {
            return Err(Failure::Network(format!("all {CONNECTIONS} connections are in use")));
        }
        let tls = tls.map(|config| (self.target.host.as_str(), config));
        Connection::open(peer, tls, self.settings.timeout, number, Arc::clone(self.watcher), permit).await
    }
}

/// A request for the target's path, with the fields a well-behaved client sends and those that were given.
pub(crate) fn request_for(target: &Target, settings: &Settings, method: &str) -> Request {
    let fields = vec![
        ("Host".to_owned(), target.authority()),
        ("User-Agent".to_owned(), concat!("keepwarm-check/", env!("CARGO_PKG_VERSION")).to_owned()),
        ("Accept".to_owned(), "*/*".to_owned()),
    ];
    let request = Request::new(method, &target.path, fields);
    // A POST without a body is unusual.
    let request = if method == "POST" { request.body(&settings.body) } else { request };
    settings.headers.iter().fold(request, |request, (name, value)| request.field(name, value))
}
