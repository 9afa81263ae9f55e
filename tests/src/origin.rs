//! A server behind Keepwarm that does what a test says, byte by byte, and remembers what it was asked. Shares no code with Keepwarm.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// How long a test waits for what it expects here.
const BOUND: Duration = Duration::from_secs(20);

/// A running origin; its threads end with it, or with their connections.
pub struct Origin {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    connections: AtomicUsize,
    open: AtomicUsize,
    requests: Mutex<Vec<Request>>,
    stopped: AtomicBool,
}

/// A request it got.
#[derive(Clone, Debug)]
pub struct Request {
    /// The number among all connections, from 0.
    pub connection: usize,
    /// The number on this connection, from 0.
    pub turn: usize,
    /// The request line and the fields, with their line ends.
    pub head: String,
    /// The body, its framing taken away.
    pub body: Vec<u8>,
    /// The lines after the last chunk.
    pub trailers: Vec<String>,
}

impl Request {
    pub fn method(&self) -> &str {
        self.head.split(' ').next().unwrap_or_default()
    }

    pub fn target(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }

    /// The value of the first field of this name.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// Holds responses back until a test releases them.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub fn open(&self) {
        *self.0.0.lock().expect("no panic while locked") = true;
        self.0.1.notify_all();
    }

    /// Waits until it is open.
    pub fn wait(&self) {
        let open = self.0.0.lock().expect("no panic while locked");
        let waited =
            self.0.1.wait_timeout_while(open, BOUND, |open| !*open).expect("no panic while locked").1;
        assert!(!waited.timed_out(), "the gate stays closed for {BOUND:?}");
    }
}

/// What to do with a connection after a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum After {
    Keep,
    /// FIN.
    Close,
    /// RST.
    Reset,
}

impl Origin {
    /// Reads whole requests, and lets `respond` write the responses.
    pub fn start(respond: impl Fn(&Request, &mut TcpStream) -> After + Send + Sync + 'static) -> Self {
        Self::start_on(bound(), respond)
    }

    /// The same on a socket of the test's.
    pub fn start_on(
        listener: TcpListener,
        respond: impl Fn(&Request, &mut TcpStream) -> After + Send + Sync + 'static,
    ) -> Self {
        Self::serve(listener, move |shared, connection, stream| {
            let mut reader = BufReader::new(stream.try_clone().expect("a descriptor"));
            let mut stream = stream;
            for turn in 0.. {
                let Some(head) = read_head(&mut reader) else { return };
                let mut request = Request { connection, turn, head, body: Vec::new(), trailers: Vec::new() };
                if request.field("expect").is_some() {
                    stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").expect("100");
                }
                if read_body(&mut reader, &mut request).is_none() {
                    return;
                }
                shared.requests.lock().expect("no panic while locked").push(request.clone());
                match respond(&request, &mut stream) {
                    After::Keep => {}
                    After::Close => return,
                    After::Reset => return reset(stream),
                }
            }
        })
    }

    /// Responds to each request with 200 and this body.
    pub fn fixed(body: &'static str) -> Self {
        Self::start(move |_, stream| {
            ok(stream, body.as_bytes());
            After::Keep
        })
    }

    /// ConnectionGuard everything about a connection to `talk`; it is closed when that returns. The number is that of the connection.
    pub fn raw(talk: impl Fn(usize, TcpStream) + Send + Sync + 'static) -> Self {
        Self::serve(bound(), move |_, connection, stream| talk(connection, stream))
    }

    fn serve(
        listener: TcpListener,
        talk: impl Fn(&Shared, usize, TcpStream) + Send + Sync + 'static,
    ) -> Self {
        let address = listener.local_addr().expect("bound");
        let shared = Arc::new(Shared::default());
        let (ours, talk) = (Arc::clone(&shared), Arc::new(talk));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if ours.stopped.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                stream.set_nodelay(true).expect("TCP");
                let connection = ours.connections.fetch_add(1, Ordering::SeqCst);
                ours.open.fetch_add(1, Ordering::SeqCst);
                let (shared, talk) = (Arc::clone(&ours), Arc::clone(&talk));
                std::thread::spawn(move || {
                    let leaves = ConnectionGuard(Arc::clone(&shared));
                    talk(&shared, connection, stream);
                    drop(leaves);
                });
            }
        });
        Self { address, shared }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many connections were made to it.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// How many are open.
    pub fn open(&self) -> usize {
        self.shared.open.load(Ordering::SeqCst)
    }

    /// The requests it got, in order.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.requests.lock().expect("no panic while locked").clone()
    }

    /// The request that came last.
    #[track_caller]
    pub fn last(&self) -> Request {
        self.requests().pop().expect("a request")
    }

    /// Waits until `what` holds.
    #[track_caller]
    pub fn wait_until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + BOUND;
        while !holds(self) {
            assert!(Instant::now() < deadline, "{what}: not within {BOUND:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

fn bound() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").expect("a free port")
}

struct ConnectionGuard(Arc<Shared>);

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

/// 200 with this body, in one write.
pub fn ok(stream: &mut TcpStream, body: &[u8]) {
    let mut response = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).into_bytes();
    response.extend_from_slice(body);
    let _ = stream.write_all(&response);
}

/// Ends a connection by RST.
pub fn reset(stream: TcpStream) {
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).expect("a socket");
}

/// A head with its empty line; `None` at the end.
pub fn read_head(reader: &mut impl BufRead) -> Option<String> {
    let mut head = String::new();
    loop {
        let before = head.len();
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
        if head.get(before..)? == "\r\n" {
            return Some(head);
        }
    }
}

fn read_body(reader: &mut impl BufRead, request: &mut Request) -> Option<()> {
    if let Some(length) = request.field("content-length") {
        request.body = vec![0; length.parse().ok()?];
        return reader.read_exact(&mut request.body).ok();
    }
    if request.field("transfer-encoding").is_none() {
        return Some(());
    }
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let size = usize::from_str_radix(line.trim_end().split(';').next()?, 16).ok()?;
        if size == 0 {
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).ok()?;
                match line.trim_end() {
                    "" => return Some(()),
                    trailer => request.trailers.push(trailer.to_owned()),
                }
            }
        }
        let at = request.body.len();
        request.body.resize(at + size + 2, 0);
        reader.read_exact(request.body.get_mut(at..)?).ok()?;
        request.body.truncate(at + size);
    }
}
