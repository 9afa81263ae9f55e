//! The test's own HTTP server, whose behavior can change, in plaintext or over TLS.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// Serves until it is dropped; each connection has a thread of its own.
pub(crate) struct Origin {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// The status of `/health`.
    status: AtomicU16,
    /// Connections are taken, and nothing is said on them.
    hangs: AtomicBool,
    ends: AtomicBool,
    checks: AtomicU32,
    calls: AtomicU32,
    /// The authority of the last check.
    host: Mutex<String>,
}

impl Origin {
    pub(crate) fn start(tls: Option<Arc<ServerConfig>>) -> Self {
        Self::at(TcpListener::bind("127.0.0.1:0").unwrap(), tls)
    }

    pub(crate) fn at(listener: TcpListener, tls: Option<Arc<ServerConfig>>) -> Self {
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared { status: AtomicU16::new(200), ..Shared::default() });
        let serving = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if serving.ends.load(Ordering::SeqCst) {
                    return;
                }
                let (shared, tls) = (Arc::clone(&serving), tls.clone());
                std::thread::spawn(move || match tls {
                    Some(tls) => {
                        let session = ServerConnection::new(tls).unwrap();
                        shared.serve(StreamOwned::new(session, stream));
                    }
                    None => shared.serve(stream),
                });
            }
        });
        Self { address, shared }
    }

    pub(crate) fn respond_to_checks_with(&self, status: u16) {
        self.shared.status.store(status, Ordering::SeqCst);
    }

    pub(crate) fn hang(&self, yes: bool) {
        self.shared.hangs.store(yes, Ordering::SeqCst);
    }

    /// Checks so far.
    pub(crate) fn checks(&self) -> u32 {
        self.shared.checks.load(Ordering::SeqCst)
    }

    /// Calls so far that were no checks.
    pub(crate) fn calls(&self) -> u32 {
        self.shared.calls.load(Ordering::SeqCst)
    }

    pub(crate) fn host_of_checks(&self) -> String {
        self.shared.host.lock().unwrap().clone()
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::SeqCst);
        // The listener wakes, and closes.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn serve(&self, mut stream: impl Read + Write) {
        let mut read = Vec::new();
        let mut buffer = [0; 4096];
        while !self.ends.load(Ordering::SeqCst) {
            match stream.read(&mut buffer) {
                Ok(got @ 1..) => read.extend_from_slice(&buffer[..got]),
                _ => return,
            }
            if !read.ends_with(b"\r\n\r\n") {
                continue;
            }
            let head = String::from_utf8(std::mem::take(&mut read)).unwrap().to_lowercase();
            let status = match head.starts_with("get /health") {
                true => {
                    self.checks.fetch_add(1, Ordering::SeqCst);
                    let host = head.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default();
                    *self.host.lock().unwrap() = host.to_owned();
                    self.status.load(Ordering::SeqCst)
                }
                false => {
                    self.calls.fetch_add(1, Ordering::SeqCst);
                    200
                }
            };
            if self.hangs.load(Ordering::SeqCst) {
                continue;
            }
            let response = format!("HTTP/1.1 {status} So\r\nContent-Length: 2\r\n\r\nok");
            if stream.write_all(response.as_bytes()).and_then(|()| stream.flush()).is_err() {
                return;
            }
        }
    }
}
