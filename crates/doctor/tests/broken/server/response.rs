//! Responses, and how they are written.

use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use super::Flaw;
use super::connection::Connection;
use super::request::Request;

/// The page.
const PAGE: &[u8] = b"Hello, world!\n";
const ETAG: &str = "\"hello-1\"";

/// A response.
#[derive(Debug)]
pub(super) struct Response {
    status: u16,
    fields: Vec<(&'static str, String)>,
    body: Vec<u8>,
    chunked: bool,
    trailers: &'static [u8],
    /// Whether the body is kept back: `HEAD`.
    head_only: bool,
    /// Whether the connection is kept after it.
    pub(super) stays: bool,
    /// 1xx before it.
    before: &'static [u8],
    flaw: Flaw,
}

/// The response to a request.
pub(super) fn respond(request: &Request, flaw: Flaw, turn: usize) -> Response {
    let mut response = content(request, flaw);
    response.head_only = request.method == "HEAD" && flaw != Flaw::HeadWithBody;
    response.persist(request, turn);
    if flaw == Flaw::HintsTo10 && request.old {
        response.before = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload; as=style\r\n\r\n";
    }
    if flaw == Flaw::ChunkedTo10 && request.old && response.status == 200 {
        response.chunked = true;
    }
    let asked = request.field("te").is_some_and(|te| te.contains("trailers"));
    if flaw == Flaw::ForbiddenTrailers && !request.old && asked && response.status == 200 {
        response.chunked = true;
        response.trailers = b"Content-Length: 3\r\nSet-Cookie: who=me\r\nX-Checksum: 1\r\n";
    }
    response
}

fn content(request: &Request, flaw: Flaw) -> Response {
    let mut response = Response::of(200, flaw);
    match (&*request.method, request.path()) {
        ("TRACE" | "CONNECT", _) => response = Response::text(405, b"Not here.\n", flaw),
        ("OPTIONS", _) => {
            response.status = 204;
            response.fields.push(("Allow", "GET, HEAD, OPTIONS, POST".to_owned()));
        }
        ("GET" | "HEAD", "/") => {
            let known = request.field("if-none-match").is_some_and(|tags| tags == "*" || tags.contains(ETAG));
            response = match known {
                true => Response::of(304, flaw),
                false => Response::text(200, PAGE, flaw),
            };
            response.fields.push(("ETag", ETAG.to_owned()));
            response.fields.push(("Cache-Control", "no-cache".to_owned()));
            if known && flaw == Flaw::NotModifiedWithBody {
                response.body = PAGE.to_vec();
            }
        }
        ("POST", "/") => response = Response::text(200, PAGE, flaw),
        ("GET" | "HEAD" | "POST", _) => response = Response::text(404, b"There is nothing here.\n", flaw),
        _ => {
            response = Response::text(405, b"Not so.\n", flaw);
            response.fields.push(("Allow", "GET, HEAD, OPTIONS, POST".to_owned()));
        }
    }
    response
}

impl Response {
    fn of(status: u16, flaw: Flaw) -> Self {
        Self {
            status,
            fields: vec![("Date", date())],
            body: Vec::new(),
            chunked: false,
            trailers: b"",
            head_only: false,
            stays: false,
            before: b"",
            flaw,
        }
    }

    fn text(status: u16, body: &[u8], flaw: Flaw) -> Self {
        let mut response = Self::of(status, flaw);
        response.fields.push(("Content-Type", "text/plain; charset=utf-8".to_owned()));
        response.body = body.to_vec();
        response
    }

    /// The response to a request that cannot be read; nothing can come after it.
    pub(super) fn refused(status: u16) -> Self {
        let mut response = Self::text(status, b"That cannot be read.\n", Flaw::None);
        response.close();
        response
    }

    /// Announces that this is the last response, and makes it so.
    pub(super) fn close(&mut self) {
        self.fields.retain(|(name, _)| !matches!(*name, "Connection" | "Keep-Alive"));
        self.fields.push(("Connection", "close".to_owned()));
        self.stays = false;
    }

    /// Which side closes (RFC 9112 §9.3).
    fn persist(&mut self, request: &Request, turn: usize) {
        let flaw = self.flaw;
        let closes = request.connection("close", flaw);
        self.stays = !closes && (!request.old || request.connection("keep-alive", flaw));
        if flaw == Flaw::NoReuse {
            self.stays = false;
        }
        if !self.stays && flaw == Flaw::NeverCloses && request.old && !closes {
            self.stays = true;
            return;
        }
        if !self.stays {
            self.close();
            return;
        }
        if request.old {
            self.fields.push(("Connection", "keep-alive".to_owned()));
        }
        if turn == 0 {
            self.fields.push(("Keep-Alive", "timeout=75".to_owned()));
        }
        self.stays = match flaw {
            Flaw::AnnouncesKeepAliveAndCloses => !request.old,
            Flaw::ClosesUnannounced => request.old,
            _ => true,
        };
    }

    /// Head and body, in one piece.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.head();
        bytes.extend(self.content());
        bytes
    }

    fn head(&self) -> Vec<u8> {
        let mut head = format!("HTTP/1.1 {} {}\r\n", self.status, reason(self.status));
        for (name, value) in &self.fields {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        match self.status {
            204 | 304 => {}
            _ if self.chunked => head.push_str("Transfer-Encoding: chunked\r\n"),
            _ => head.push_str(&format!("Content-Length: {}\r\n", self.body.len())),
        }
        head.push_str("\r\n");
        [self.before, head.as_bytes()].concat()
    }

    fn content(&self) -> Vec<u8> {
        if self.head_only {
            return Vec::new();
        }
        let mut content = match self.chunked {
            false => self.body.clone(),
            true => {
                let size = format!("{:x}\r\n", self.body.len());
                [size.as_bytes(), &self.body, b"\r\n0\r\n", self.trailers, b"\r\n"].concat()
            }
        };
        if self.flaw == Flaw::BytesAfterResponse && !content.is_empty() {
            content.extend(b"\r\n");
        }
        content
    }

    /// Sends it, in one piece if nothing is wrong with that.
    pub(super) fn send(&self, connection: &mut Connection) -> io::Result<()> {
        match self.flaw {
            Flaw::LineByLine => {
                let bytes = self.head();
                bytes.split_inclusive(|&byte| byte == b'\n').try_for_each(|line| connection.write(line))?;
            }
            Flaw::Nagle => connection.write(&self.head())?,
            _ => return connection.write(&self.bytes()),
        }
        match self.content() {
            none if none.is_empty() => Ok(()),
            content => connection.write(&content),
        }
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        204 => "No Content",
        304 => "Not Modified",
        404 => "Not Found",
        405 => "Method Not Allowed",
        413 => "Content Too Large",
        417 => "Expectation Failed",
        431 => "Request Header Fields Too Large",
        501 => "Not Implemented",
        505 => "HTTP Version Not Supported",
        _ => "Bad Request",
    }
}

/// Now, as RFC 9110 §5.6.7 writes it.
fn date() -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (mut day, second) = (now / 86_400, now % 86_400);
    let weekday = DAYS[usize::try_from(day % 7).unwrap_or_default()];
    let leap = |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let mut year = 1970;
    while day >= 365 + u64::from(leap(year)) {
        day -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while day >= lengths[month] {
        day -= lengths[month];
        month += 1;
    }
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{weekday}, {:02} {} {year} {hour:02}:{minute:02}:{second:02} GMT", day + 1, MONTHS[month])
}
