//! A server in this process, and a client that sends exactly what a test wrote.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use keepwarm_edge::{Cidr, Edge, FixedResponse, HostPattern, PathPattern, Route, Site, Target};
use keepwarm_net::{BindAddress, DataPlane, bind};
use keepwarm_serve::{
    ConnectionLimits, ListenerContext, OpenConnections, StopListening, serve, stop_listening,
};

pub(crate) struct Server {
    pub(crate) edge: Arc<Edge>,
    address: SocketAddr,
    plane: Option<DataPlane>,
    /// Dropped, it would end the listening.
    _stop: StopListening,
}

impl Server {
    pub(crate) fn start(site: Site) -> Self {
        LazyLock::force(&crate::log::LOG);
        let edge = Arc::new(Edge::new(site));
        let context = Arc::new(ListenerContext {
            handler: Arc::clone(&edge) as _,
            limits: ConnectionLimits::default(),
            proxy_protocol: None,
            draining: Arc::new(AtomicBool::new(false)),
            open: Arc::new(OpenConnections::new(100)),
            meter: keepwarm_telemetry::meters::listener("main"),
            tls: None,
        });
        let bound = bind(BindAddress::Tcp("127.0.0.1:0".parse().unwrap())).unwrap();
        let address = bound.address.unwrap();
        let plane = DataPlane::start(1).unwrap();
        let (stop, signal) = stop_listening();
        plane.remotes()[0].spawn(move || serve(bound, context, signal));
        Self { edge, address, plane: Some(plane), _stop: stop }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        // Below every default timeout: a test that waits for one fails.
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        stream
    }

    /// Everything the server says to these bytes before it closes.
    pub(crate) fn says(&self, bytes: impl AsRef<[u8]>) -> String {
        masked(&self.exchange(bytes))
    }

    /// The same with ids and dates as they are.
    pub(crate) fn exchange(&self, bytes: impl AsRef<[u8]>) -> String {
        let mut stream = self.connect();
        stream.write_all(bytes.as_ref()).unwrap();
        let mut response = Vec::new();
        stream.read_to_end(&mut response).unwrap();
        String::from_utf8(response).unwrap()
    }

    /// The response to `GET path` with these further lines.
    pub(crate) fn get(&self, path: &str, lines: &str) -> String {
        self.says(format!("GET {path} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n{lines}\r\n"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(plane) = self.plane.take() {
            plane.stop();
        }
    }
}

/// Ids and dates replaced.
pub(crate) fn masked(text: &str) -> String {
    let mut out = String::new();
    for line in text.split_inclusive("\r\n") {
        out.push_str(if line.starts_with("Date: ") { "Date: DATE\r\n" } else { line });
    }
    let is_digit = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    let mut digits = 0;
    let mut masked = String::new();
    for c in out.chars() {
        masked.push(c);
        digits = if is_digit(c) { digits + 1 } else { 0 };
        if digits == 32 {
            masked.truncate(masked.len() - 32);
            masked.push_str("ID");
            digits = 0;
        }
    }
    masked
}

/// Reads one response with `Content-Length` and leaves the connection open.
pub(crate) fn read_response(stream: &mut TcpStream) -> String {
    let mut read = Vec::new();
    let mut byte = [0];
    while !read.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        read.push(byte[0]);
    }
    let head = String::from_utf8(read.clone()).unwrap();
    let length = head.split("Content-Length: ").nth(1).unwrap().split("\r\n").next().unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).unwrap();
    read.extend(body);
    String::from_utf8(read).unwrap()
}

pub(crate) fn body(response: &str) -> &str {
    response.split_once("\r\n\r\n").map_or(response, |(_, body)| body)
}

pub(crate) fn status_of(response: &str) -> &str {
    response.get(9..12).unwrap_or(response)
}

pub(crate) fn respond(status: u16, body: &str) -> Target {
    let content_type = (!body.is_empty()).then_some("text/plain; charset=utf-8");
    Target::Respond(FixedResponse::new(status, content_type, &[], body).unwrap())
}

pub(crate) fn at(path: &str, target: Target) -> Route {
    let mut route = Route::to(target);
    route.path = match path.strip_suffix('*') {
        Some(prefix) => PathPattern::Prefix(prefix.to_owned()),
        None => PathPattern::Exact(path.to_owned()),
    };
    route
}

pub(crate) fn on_host(host: &str, mut route: Route) -> Route {
    route.hosts = vec![match host.strip_prefix('*') {
        Some(suffix) => HostPattern::Below(suffix.to_owned()),
        None => HostPattern::Exact(host.to_owned()),
    }];
    route
}

pub(crate) fn block(first: &str, prefix: u8) -> Cidr {
    Cidr::new(first.parse().unwrap(), prefix).unwrap()
}

/// A file of its own for each test, removed in the end.
pub(crate) struct TempFile(pub(crate) PathBuf);

impl TempFile {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("keepwarm-edge-{}-{number}", std::process::id())))
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
