//! A small server of HTTP/1.1 that is correct, or broken in exactly one way: a [`Flaw`]. Threads and blocking sockets; shares no code with what examines it.

mod connection;
mod flaw;
mod request;
mod response;
mod tls;

use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustls::ServerConfig;

pub(crate) use flaw::Flaw;

/// A running server; its threads end with their connections.
pub(crate) struct Server {
    address: SocketAddr,
    encrypted: bool,
    stopped: Arc<AtomicBool>,
    most: Arc<AtomicUsize>,
    authority: Option<String>,
    /// A listener whose queue is full, and what fills it: a client that connects to it waits for ever.
    deaf: Option<(TcpListener, Vec<TcpStream>)>,
}

impl Server {
    /// With this flaw; over TLS if that is where the flaw is.
    pub(crate) fn start(flaw: Flaw) -> Self {
        match flaw.needs_tls() {
            true => Self::encrypted(flaw),
            false => Self::plain(flaw),
        }
    }

    pub(crate) fn plain(flaw: Flaw) -> Self {
        Self::serve(flaw, None, None)
    }

    pub(crate) fn encrypted(flaw: Flaw) -> Self {
        let (config, authority) = tls::server(flaw);
        Self::serve(flaw, Some(config), Some(authority))
    }

    fn serve(flaw: Flaw, tls: Option<Arc<ServerConfig>>, authority: Option<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let stopped = Arc::new(AtomicBool::new(false));
        let (open, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let server = Self {
            address,
            encrypted: tls.is_some(),
            stopped: Arc::clone(&stopped),
            most: Arc::clone(&most),
            authority,
            deaf: (flaw == Flaw::DeadIpv6).then(|| deaf(address.port())),
        };
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                let (Ok(stream), tls) = (stream, tls.clone()) else { continue };
                most.fetch_max(open.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                let open = Arc::clone(&open);
                std::thread::spawn(move || {
                    connection::serve(stream, tls, flaw);
                    open.fetch_sub(1, Ordering::Relaxed);
                });
            }
        });
        server
    }

    /// By its address; by the name `localhost` where that matters, for a certificate or because it has several.
    pub(crate) fn url(&self) -> String {
        match (self.encrypted, &self.deaf) {
            (true, _) => format!("https://localhost:{}/", self.address.port()),
            (false, Some(_)) => format!("http://localhost:{}/", self.address.port()),
            (false, None) => format!("http://{}/", self.address),
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// How many connections were open at once, at most.
    pub(crate) fn most_at_once(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }

    /// The certificate of the authority which signed the server's, in PEM.
    pub(crate) fn authority(&self) -> Option<&str> {
        self.authority.as_deref()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
    }
}

/// Listens at this port of `::1` and never accepts: with a full queue the system sends no SYN-ACK, as if a firewall had dropped the SYN.
fn deaf(port: u16) -> (TcpListener, Vec<TcpStream>) {
    let socket =
        rustix::net::socket(rustix::net::AddressFamily::INET6, rustix::net::SocketType::STREAM, None)
            .expect("a socket");
    rustix::net::bind(&socket, &SocketAddr::from((Ipv6Addr::LOCALHOST, port))).expect("a free port");
    rustix::net::listen(&socket, 0).expect("it listens");
    let listener = TcpListener::from(socket);
    let address = listener.local_addr().expect("bound");
    // A queue of none holds one.
    let waiting = (0..2)
        .map_while(|_| TcpStream::connect_timeout(&address, std::time::Duration::from_millis(200)).ok())
        .collect();
    (listener, waiting)
}
