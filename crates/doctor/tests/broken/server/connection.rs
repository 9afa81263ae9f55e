//! A connection: requests in, responses out, and which side closes.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::{HandshakeKind, ServerConfig, ServerConnection, StreamOwned};

use super::Flaw;
use super::request::{Body, Parsed, Request, chunk_size, parse};
use super::response::{Response, respond};

/// The idle time that is promised.
const IDLE: Duration = Duration::from_secs(75);

/// So long a connection that was closed on this side is read from, so that no reset overtakes the response.
const LINGER: Duration = Duration::from_secs(2);

/// The longest body that is read.
const LONGEST: u64 = 1024 * 1024;

/// With TLS or without.
enum Wire {
    Plain(TcpStream),
    Encrypted(Box<StreamOwned<ServerConnection, TcpStream>>),
}

/// A connection, and what has come and is not read.
pub(super) struct Connection {
    wire: Wire,
    pub(super) flaw: Flaw,
    inbox: Vec<u8>,
    /// Requests that got a response.
    pub(super) turn: usize,
}

/// Why there is no request.
enum End {
    /// The client has gone, or stayed silent for too long.
    Gone,
    /// The bytes received cannot be read.
    Refused(u16),
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

/// Serves a connection to its end.
pub(super) fn serve(stream: TcpStream, tls: Option<Arc<ServerConfig>>, flaw: Flaw) {
    if stream.set_nodelay(!matches!(flaw, Flaw::Nagle | Flaw::NagleAfterTickets)).is_err() {
        return;
    }
    let wire = match tls.map(ServerConnection::new) {
        None => Wire::Plain(stream),
        Some(Ok(mut session)) => {
            if flaw == Flaw::NagleAfterTickets && shake_hands_slowly(&mut session, &stream).is_err() {
                return;
            }
            Wire::Encrypted(Box::new(StreamOwned::new(session, stream)))
        }
        Some(Err(_)) => return,
    };
    let mut connection = Connection { wire, flaw, inbox: Vec::new(), turn: 0 };
    match connection.requests() {
        Ok(()) | Err(End::Gone) => {}
        Err(End::Refused(status)) => {
            let refusal = Response::refused(status);
            let _ = connection.write(&refusal.bytes());
        }
    }
    connection.close();
}

/// Reads the end of the handshake when the request is there, too: so the request acknowledges none of the tickets, which leave before the response.
fn shake_hands_slowly(session: &mut ServerConnection, mut stream: &TcpStream) -> io::Result<()> {
    while session.is_handshaking() || session.wants_write() {
        if session.wants_write() {
            session.write_tls(&mut stream)?;
            std::thread::sleep(Duration::from_millis(5));
        } else {
            // Of a resumed session it sends none.
            if session.handshake_kind() == Some(HandshakeKind::Resumed) {
                return Ok(());
            }
            if session.read_tls(&mut stream)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            session.process_new_packets().map_err(io::Error::other)?;
        }
    }
    Ok(())
}

impl Connection {
    fn requests(&mut self) -> Result<(), End> {
        loop {
            let request = self.request()?;
            let stays = self.one(&request)?;
            self.turn += 1;
            if self.flaw == Flaw::LosesPipelined {
                self.inbox.clear();
            }
            if !stays {
                return Ok(());
            }
        }
    }

    /// Responds to a request, and returns whether there may be another.
    fn one(&mut self, request: &Request) -> Result<bool, End> {
        if let Some(expected) = request.field("expect").filter(|_| !request.old) {
            let refused = !expected.eq_ignore_ascii_case("100-continue") || self.flaw == Flaw::RefusesExpect;
            if refused {
                return Err(End::Refused(417));
            }
        }
        if self.flaw == Flaw::WantsHostOfNamed && self.is_named() && request.field("host").is_none() {
            return Err(End::Refused(400));
        }
        if self.flaw == Flaw::OptionsStalls && request.method == "OPTIONS" {
            let _ = self.fill(IDLE)?;
            return Ok(false);
        }
        let unread =
            request.body != Body::None && !matches!(&*request.method, "GET" | "HEAD" | "OPTIONS" | "POST");
        if !unread {
            self.body(request)?;
        }
        if matches!(self.flaw, Flaw::Boots) && request.path() == "/" || self.flaw == Flaw::BootsForAnything {
            std::thread::sleep(Duration::from_millis(50));
        }
        let mut response = respond(request, self.flaw, self.turn);
        if unread {
            response.close();
        }
        response.send(self)?;
        match self.flaw {
            // Here it waits, for a request or for ever.
            Flaw::AnnouncesCloseAndStays => {
                while self.inbox.is_empty() && self.fill(IDLE)? {}
                Ok(true)
            }
            _ => Ok(response.stays),
        }
    }

    fn request(&mut self) -> Result<Request, End> {
        let mut reads = 0;
        loop {
            if !self.inbox.is_empty() {
                match parse(&self.inbox, self.flaw) {
                    Parsed::Part if self.flaw == Flaw::OneRead && reads > 0 => return Err(End::Refused(400)),
                    Parsed::Part => {}
                    Parsed::Refused(status) => return Err(End::Refused(status)),
                    Parsed::Whole(request, length) => {
                        self.inbox.drain(..length);
                        return Ok(request);
                    }
                }
            }
            let idle = self.turn > 0 && self.inbox.is_empty();
            let within = match self.flaw == Flaw::ClosesIdleEarly && idle {
                true => Duration::from_millis(300),
                false => IDLE,
            };
            if !self.fill(within)? {
                return Err(End::Gone);
            }
            reads += 1;
        }
    }

    /// Reads the body, and sends a 100 if the client waits for that.
    fn body(&mut self, request: &Request) -> Result<(), End> {
        let waits = request.field("expect").is_some();
        if request.body == Body::None || self.flaw == Flaw::LeavesBody && !waits {
            return Ok(());
        }
        let promised = b"HTTP/1.1 100 Continue\r\n\r\n";
        match self.flaw {
            Flaw::IgnoresExpect | Flaw::ContinueLate => {}
            Flaw::ContinueTo10 if request.old && waits => self.write(promised)?,
            _ if request.old || !waits || !self.inbox.is_empty() => {}
            Flaw::ContinueTwice => self.write(&promised.repeat(2))?,
            _ => self.write(promised)?,
        }
        match request.body {
            Body::None => {}
            Body::Length(length) if length > LONGEST => return Err(End::Refused(413)),
            Body::Length(length) => self.take(usize::try_from(length).unwrap_or_default())?,
            Body::Chunked => self.chunks()?,
        }
        if self.flaw == Flaw::ContinueLate && waits && !request.old {
            self.write(promised)?;
        }
        Ok(())
    }

    fn chunks(&mut self) -> Result<(), End> {
        let mut total = 0;
        loop {
            let line = self.line()?;
            let size = chunk_size(&line, self.flaw).ok_or(End::Refused(400))?;
            total += size;
            if total > LONGEST {
                return Err(End::Refused(413));
            }
            if size == 0 {
                break;
            }
            self.take(usize::try_from(size).unwrap_or_default())?;
            if !self.line()?.is_empty() {
                return Err(End::Refused(400));
            }
        }
        // Trailers, which are ignored.
        while !self.line()?.is_empty() {}
        Ok(())
    }

    fn line(&mut self) -> Result<String, End> {
        loop {
            if let Some(end) = self.inbox.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.inbox.drain(..=end).collect();
                let line = line.strip_suffix(b"\n").unwrap_or_default();
                let line = match line.strip_suffix(b"\r") {
                    Some(line) => line,
                    None if self.flaw == Flaw::BareLf => line,
                    None => return Err(End::Refused(400)),
                };
                return String::from_utf8(line.to_vec()).map_err(|_| End::Refused(400));
            }
            if self.inbox.len() > 4096 {
                return Err(End::Refused(400));
            }
            if !self.fill(IDLE)? {
                return Err(End::Gone);
            }
        }
    }

    fn take(&mut self, length: usize) -> Result<(), End> {
        while self.inbox.len() < length {
            if !self.fill(IDLE)? {
                return Err(End::Gone);
            }
        }
        self.inbox.drain(..length);
        Ok(())
    }

    /// Waits for bytes; false when no more will come.
    fn fill(&mut self, within: Duration) -> io::Result<bool> {
        self.socket().set_read_timeout(Some(within))?;
        let mut chunk = [0; 16 * 1024];
        let read = match &mut self.wire {
            Wire::Plain(stream) => stream.read(&mut chunk),
            Wire::Encrypted(stream) => stream.read(&mut chunk),
        };
        let count = match read {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => 0,
            other => other?,
        };
        self.inbox.extend_from_slice(&chunk[..count]);
        Ok(count > 0)
    }

    /// Writes at once: the bytes of one call are one segment, if they fit.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.wire {
            Wire::Plain(stream) => stream.write_all(bytes),
            Wire::Encrypted(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
        }
    }

    /// Whether the client named the server in the TLS handshake.
    fn is_named(&self) -> bool {
        matches!(&self.wire, Wire::Encrypted(stream) if stream.conn.server_name().is_some())
    }

    fn socket(&self) -> &TcpStream {
        match &self.wire {
            Wire::Plain(stream) => stream,
            Wire::Encrypted(stream) => stream.get_ref(),
        }
    }

    fn close(mut self) {
        if let Wire::Encrypted(stream) = &mut self.wire {
            stream.conn.send_close_notify();
            let _ = stream.flush();
        }
        if self.socket().shutdown(Shutdown::Write).is_ok() {
            let mut more = true;
            while more {
                self.inbox.clear();
                more = self.fill(LINGER).unwrap_or(false);
            }
        }
    }
}
