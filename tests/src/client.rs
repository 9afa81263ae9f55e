//! A client that works with raw bytes: it sends exactly what a test wrote, the strict reader reads the response, and all of it is
//! kept with times for the message of a failing test.

use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::response::{self, Framing, Response};

/// How long a wait for something that must happen lasts. Far above what a loaded machine needs, far below the 75 s of an idle connection
/// and every other timeout of the defaults, so that a wait for one of those fails.
pub const BOUND: Duration = Duration::from_secs(8);

/// A connection to the server under test.
pub struct Client {
    stream: TcpStream,
    pending: Vec<u8>,
    end: Option<End>,
    started: Instant,
    bound: Duration,
    transcript: Vec<(Duration, char, Vec<u8>)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Eof,
    Reset,
}

/// Why there is no response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The connection ended before the first byte of a response.
    Closed,
    /// It was reset, with the bytes that had come.
    Reset(Vec<u8>),
    /// It ended inside a response, with the bytes of it that were not yet used.
    Cut(Vec<u8>),
    /// Nothing came within the bound.
    TimedOut(Vec<u8>),
    /// The bytes received are not a valid response.
    Malformed(String),
}

/// `GET path HTTP/1.1` with a Host and nothing else.
pub fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: test.example\r\n\r\n")
}

/// The same for doors and admin, which serve no other host.
pub fn get_local(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect_timeout(&address, BOUND)
            .unwrap_or_else(|error| panic!("connect {address}: {error}"));
        Self::from_stream(stream)
    }

    pub fn from_stream(stream: TcpStream) -> Self {
        stream.set_nodelay(true).expect("TCP_NODELAY");
        stream.set_write_timeout(Some(Duration::from_secs(10))).expect("a write time-out");
        Self {
            stream,
            pending: Vec::new(),
            end: None,
            started: Instant::now(),
            bound: BOUND,
            transcript: Vec::new(),
        }
    }

    /// Waits this long instead of [`BOUND`], for responses that are slow by nature.
    pub fn patient(mut self, bound: Duration) -> Self {
        self.bound = bound;
        self
    }

    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Sends all of it, in one write where the kernel takes it.
    #[track_caller]
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> Instant {
        if let Err(error) = self.try_send(bytes.as_ref()) {
            panic!("send: {error}\n{self}");
        }
        Instant::now()
    }

    pub fn try_send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.note('>', bytes);
        self.stream.write_all(bytes)
    }

    /// Sends byte by byte, each in a segment of its own as far as the kernel allows.
    #[track_caller]
    pub fn send_bytewise(&mut self, bytes: impl AsRef<[u8]>) {
        for byte in bytes.as_ref() {
            // A server that has refused already may have closed: its response is what the test looks at.
            if self.try_send(&[*byte]).is_err() {
                return;
            }
        }
    }

    /// Sends and reads the response.
    #[track_caller]
    pub fn ask(&mut self, request: impl AsRef<[u8]>) -> Response {
        let request = request.as_ref();
        let end = request.iter().position(|&byte| byte == b' ').unwrap_or(0);
        let method = String::from_utf8_lossy(&request[..end]).into_owned();
        self.send(request);
        self.response(&method)
    }

    pub fn half_close(&mut self) {
        self.note('>', b"<FIN>");
        self.stream.shutdown(Shutdown::Write).expect("shutdown");
    }

    /// Ends the connection by RST, as a client does that crashes.
    pub fn reset(self) {
        rustix::net::sockopt::set_socket_linger(&self.stream, Some(Duration::ZERO)).expect("SO_LINGER");
    }

    /// One response to a request with this method; panics with the transcript when there is none.
    #[track_caller]
    pub fn response(&mut self, method: &str) -> Response {
        match self.try_response(method) {
            Ok(response) => response,
            Err(failure) => panic!("no response to {method}: {failure:?}\n{self}"),
        }
    }

    pub fn try_response(&mut self, method: &str) -> Result<Response, Failure> {
        let deadline = Instant::now() + self.bound;
        if self.pending.is_empty() && !self.fill(deadline)? {
            return Err(Failure::Closed);
        }
        let first_byte = Instant::now();
        let bytes = self.take_through(b"\r\n\r\n", 256 * 1024, deadline)?;
        let head = response::head(&bytes, method).map_err(Failure::Malformed)?;
        let head_whole = Instant::now();
        let (mut trailers, mut chunks) = (Vec::new(), Vec::new());
        let body = match head.framing {
            Framing::None => Vec::new(),
            Framing::Length(length) => {
                self.take(usize::try_from(length).expect("a test's body fits"), deadline)?
            }
            Framing::Chunked => self.chunked(&mut trailers, &mut chunks, deadline)?,
            Framing::Close => {
                while self.fill(deadline)? {}
                std::mem::take(&mut self.pending)
            }
        };
        Ok(Response {
            status: head.status,
            reason: head.reason,
            fields: head.fields,
            framing: head.framing,
            body,
            trailers,
            chunks,
            first_byte,
            head_whole,
            whole: Instant::now(),
        })
    }

    /// A head alone, for a response whose body a test reads by [`Client::read_exact`] or leaves unread.
    #[track_caller]
    pub fn head(&mut self, method: &str) -> (u16, Vec<(String, String)>) {
        let deadline = Instant::now() + self.bound;
        let bytes = match self.take_through(b"\r\n\r\n", 256 * 1024, deadline) {
            Ok(bytes) => bytes,
            Err(failure) => panic!("no head: {failure:?}\n{self}"),
        };
        match response::head(&bytes, method) {
            Ok(head) => (head.status, head.fields),
            Err(fault) => panic!("{fault}\n{self}"),
        }
    }

    /// Exactly `count` bytes.
    #[track_caller]
    pub fn read_exact(&mut self, count: usize) -> Vec<u8> {
        let deadline = Instant::now() + self.bound;
        match self.take(count, deadline) {
            Ok(bytes) => bytes,
            Err(failure) => panic!("{count} bytes wanted: {failure:?}\n{self}"),
        }
    }

    /// Bytes up to and with `mark`.
    #[track_caller]
    pub fn read_through(&mut self, mark: &[u8]) -> Vec<u8> {
        match self.try_read_through(mark) {
            Ok(bytes) => bytes,
            Err(failure) => panic!("{:?} wanted: {failure:?}\n{self}", String::from_utf8_lossy(mark)),
        }
    }

    /// The same, of a connection that may end.
    ///
    /// # Errors
    /// It ended before.
    pub fn try_read_through(&mut self, mark: &[u8]) -> Result<Vec<u8>, Failure> {
        let deadline = Instant::now() + self.bound;
        self.take_through(mark, 16 * 1024 * 1024, deadline)
    }

    /// Waits at most this long until something comes or the connection ends, and leaves it unread.
    pub fn wait_for_something(&mut self, time: Duration) {
        let _ = self.fill(Instant::now() + time);
    }

    /// Everything until the end of the connection, and whether that was an orderly one.
    #[track_caller]
    pub fn read_to_end(&mut self) -> (Vec<u8>, bool) {
        let deadline = Instant::now() + self.bound;
        loop {
            match self.fill(deadline) {
                Ok(true) => {}
                Ok(false) => return (std::mem::take(&mut self.pending), true),
                Err(Failure::Reset(bytes)) => return (bytes, false),
                Err(failure) => panic!("no end: {failure:?}\n{self}"),
            }
        }
    }

    /// The server closes now, in order (FIN, no RST), and sends nothing more.
    #[track_caller]
    pub fn expect_eof(&mut self) {
        let (bytes, orderly) = self.read_to_end();
        assert!(bytes.is_empty(), "bytes after the end: {:?}\n{self}", String::from_utf8_lossy(&bytes));
        assert!(orderly, "a reset where a close was due\n{self}");
    }

    /// The connection ends now, by FIN or RST, and nothing more comes.
    #[track_caller]
    pub fn expect_end(&mut self) {
        let (bytes, _) = self.read_to_end();
        assert!(bytes.is_empty(), "bytes after the end: {:?}\n{self}", String::from_utf8_lossy(&bytes));
    }

    /// Nothing comes, and the connection stays, for this long.
    #[track_caller]
    pub fn expect_silence(&mut self, time: Duration) {
        let deadline = Instant::now() + time;
        match self.fill(deadline) {
            Err(Failure::TimedOut(bytes)) if bytes.is_empty() => {}
            other => {
                panic!("silence wanted, not {other:?}: {:?}\n{self}", String::from_utf8_lossy(&self.pending))
            }
        }
    }

    /// The connection is kept: a further request on it gets 200.
    #[track_caller]
    pub fn expect_kept(&mut self, path: &str) -> Response {
        assert!(
            self.pending.is_empty(),
            "bytes after the response: {:?}\n{self}",
            String::from_utf8_lossy(&self.pending)
        );
        let response = self.ask(get(path));
        assert_eq!(response.status, 200, "{self}");
        response
    }

    fn chunked(
        &mut self,
        trailers: &mut Vec<(String, String)>,
        chunks: &mut Vec<usize>,
        deadline: Instant,
    ) -> Result<Vec<u8>, Failure> {
        let mut body = Vec::new();
        loop {
            let line = self.line(deadline)?;
            let size = response::chunk_size(&line).map_err(Failure::Malformed)?;
            if size == 0 {
                break;
            }
            chunks.push(size);
            body.extend(self.take(size, deadline)?);
            if self.take(2, deadline)? != b"\r\n" {
                return Err(Failure::Malformed("no CRLF after a chunk".into()));
            }
        }
        loop {
            let line = self.line(deadline)?;
            if line.is_empty() {
                return Ok(body);
            }
            trailers.push(response::field(&line).map_err(Failure::Malformed)?);
        }
    }

    fn line(&mut self, deadline: Instant) -> Result<Vec<u8>, Failure> {
        let mut line = self.take_through(b"\n", 64 * 1024, deadline)?;
        if !line.ends_with(b"\r\n") || line.iter().filter(|&&byte| byte == b'\r').count() != 1 {
            return Err(Failure::Malformed(format!(
                "a line that does not end in CRLF: {:?}",
                String::from_utf8_lossy(&line)
            )));
        }
        line.truncate(line.len() - 2);
        Ok(line)
    }

    fn take_through(&mut self, mark: &[u8], limit: usize, deadline: Instant) -> Result<Vec<u8>, Failure> {
        let mut searched = 0;
        loop {
            let from = searched.min(self.pending.len());
            if let Some(at) = self.pending[from..].windows(mark.len()).position(|window| window == mark) {
                return Ok(self.pending.drain(..from + at + mark.len()).collect());
            }
            searched = self.pending.len().saturating_sub(mark.len() - 1);
            if self.pending.len() > limit {
                return Err(Failure::Malformed(format!(
                    "over {limit} bytes without {:?}",
                    String::from_utf8_lossy(mark)
                )));
            }
            if !self.fill(deadline)? {
                return Err(Failure::Cut(std::mem::take(&mut self.pending)));
            }
        }
    }

    fn take(&mut self, count: usize, deadline: Instant) -> Result<Vec<u8>, Failure> {
        while self.pending.len() < count {
            if !self.fill(deadline)? {
                return Err(Failure::Cut(std::mem::take(&mut self.pending)));
            }
        }
        Ok(self.pending.drain(..count).collect())
    }

    /// Reads once; false at the end.
    fn fill(&mut self, deadline: Instant) -> Result<bool, Failure> {
        match self.end {
            Some(End::Eof) => return Ok(false),
            Some(End::Reset) => return Err(Failure::Reset(std::mem::take(&mut self.pending))),
            None => {}
        }
        let mut buffer = [0; 65_536];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Failure::TimedOut(self.pending.clone()));
            }
            self.stream.set_read_timeout(Some(left)).expect("a read time-out");
            match self.stream.read(&mut buffer) {
                Ok(0) => {
                    self.note('<', b"<FIN>");
                    self.end = Some(End::Eof);
                    return Ok(false);
                }
                Ok(count) => {
                    self.note('<', &buffer[..count]);
                    self.pending.extend_from_slice(&buffer[..count]);
                    return Ok(true);
                }
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                    ) => {}
                Err(error) => {
                    self.note('<', format!("<RST: {error}>").as_bytes());
                    self.end = Some(End::Reset);
                    return Err(Failure::Reset(std::mem::take(&mut self.pending)));
                }
            }
        }
    }

    fn note(&mut self, direction: char, bytes: &[u8]) {
        let kept = bytes[..bytes.len().min(600)].to_vec();
        if self.transcript.len() < 400 {
            self.transcript.push((self.started.elapsed(), direction, kept));
        }
    }
}

/// The transcript.
impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "---- transcript")?;
        for (at, direction, bytes) in &self.transcript {
            writeln!(f, "{:>10.3} ms {direction} {}", at.as_secs_f64() * 1e3, bytes.escape_ascii())?;
        }
        write!(f, "---- now {:.3} ms", self.started.elapsed().as_secs_f64() * 1e3)
    }
}
