//! The output of a decoder, as lines of text that do not depend on how the bytes were cut.

use http::Method;
use keepwarm_http1::{
    Decoded, Event, Fault, Fields, Limits, ListenerKind, RequestBody, RequestDecoder, RequestHead,
    ResponseBody, ResponseDecoder, ResponseHead, Version,
};

/// Which decoder reads.
#[derive(Clone, Debug)]
pub(crate) enum Role {
    Server(ListenerKind),
    /// Requests with these methods were sent, each when the response before it had ended.
    Client {
        asked: Vec<Method>,
        upgrade: bool,
    },
}

impl Role {
    pub(crate) const SERVER: Self = Self::Server(ListenerKind::Origin);

    pub(crate) fn client(asked: &[Method]) -> Self {
        Self::Client { asked: asked.to_vec(), upgrade: false }
    }
}

/// One line for each event; the data of a body joined to one line. The last line tells how the peer's close was handled, or names the fault.
pub(crate) fn trace<'a>(
    role: &Role,
    limits: Limits,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Vec<String> {
    let mut reader = Reader::new(role, limits);
    for piece in pieces {
        if reader.feed(piece).is_err() {
            return reader.lines;
        }
    }
    reader.eof();
    reader.lines
}

/// Feeds whole, byte by byte, and at every split into two; returns the one trace that all must have.
pub(crate) fn trace_every_cut(role: &Role, limits: Limits, bytes: &[u8]) -> Vec<String> {
    let whole = trace(role, limits, [bytes]);
    assert_eq!(whole, trace(role, limits, bytes.chunks(1)), "byte by byte: {}", bytes.escape_ascii());
    for at in 0..=bytes.len() {
        let (left, right) = bytes.split_at(at);
        assert_eq!(whole, trace(role, limits, [left, right]), "cut at {at}: {}", bytes.escape_ascii());
    }
    whole
}

/// The name of the fault in the bytes, cut in every way; `None` if there is none.
pub(crate) fn fault(role: &Role, limits: Limits, bytes: &[u8]) -> Option<String> {
    let lines = trace_every_cut(role, limits, bytes);
    lines.last().and_then(|line| line.strip_prefix("fault: ")).map(str::to_owned)
}

enum Decoder {
    Server(Box<RequestDecoder>, Box<RequestHead>),
    Client(Box<ResponseDecoder>, Box<ResponseHead>),
}

struct Reader {
    decoder: Decoder,
    asked: std::vec::IntoIter<Method>,
    upgrade: bool,
    buffer: Vec<u8>,
    body: Vec<u8>,
    lines: Vec<String>,
}

impl Reader {
    fn new(role: &Role, limits: Limits) -> Self {
        let (decoder, asked, upgrade) = match role {
            Role::Server(listener) => (
                Decoder::Server(Box::new(RequestDecoder::with_kind(limits, *listener)), Box::default()),
                vec![],
                false,
            ),
            Role::Client { asked, upgrade } => (
                Decoder::Client(Box::new(ResponseDecoder::new(limits)), Box::default()),
                asked.clone(),
                *upgrade,
            ),
        };
        let mut reader =
            Self { decoder, asked: asked.into_iter(), upgrade, buffer: vec![], body: vec![], lines: vec![] };
        reader.ask();
        reader
    }

    fn ask(&mut self) {
        if let (Decoder::Client(decoder, _), Some(method)) = (&mut self.decoder, self.asked.next()) {
            decoder.begin(&method);
            decoder.allow_upgrade(self.upgrade.then_some(b"websocket"));
        }
    }

    fn feed(&mut self, piece: &[u8]) -> Result<(), Fault> {
        self.buffer.extend_from_slice(piece);
        loop {
            let Decoded { consumed, event } = match self.decode() {
                Ok(decoded) => decoded,
                Err(fault) => {
                    assert_eq!(self.decode(), Err(fault), "a fault is final");
                    self.flush_body();
                    self.lines.push(format!("fault: {}", fault.name()));
                    return Err(fault);
                }
            };
            assert!(consumed <= self.buffer.len());
            if let Event::Data { start, end } = event {
                assert!(start < end && end <= consumed);
                self.body.extend(self.buffer.get(start..end).unwrap_or_default());
            }
            self.buffer.drain(..consumed);
            match event {
                Event::NeedMore => {
                    let again = Decoded { consumed: 0, event: Event::NeedMore };
                    assert_eq!(self.decode(), Ok(again), "what is left needs more");
                    return Ok(());
                }
                Event::Data { .. } => {}
                Event::Informational => self.head("informational"),
                Event::Head => self.head("head"),
                Event::Trailers => {
                    self.flush_body();
                    self.trailers();
                }
                Event::End => {
                    self.flush_body();
                    self.lines.push("end".to_owned());
                    if self.is_tunnel() {
                        self.lines.push(format!("tunnel: {}", self.buffer.escape_ascii()));
                        return Ok(());
                    }
                    self.ask();
                }
            }
        }
    }

    fn decode(&mut self) -> Result<Decoded, Fault> {
        match &mut self.decoder {
            Decoder::Server(decoder, head) => decoder.decode(&self.buffer, head),
            // A tunnel's bytes do not belong to the decoder.
            Decoder::Client(decoder, _)
                if decoder.is_tunnel() && self.lines.last().is_some_and(|line| is_tunnel_line(line)) =>
            {
                Ok(Decoded { consumed: 0, event: Event::NeedMore })
            }
            Decoder::Client(decoder, head) => decoder.decode(&self.buffer, head),
        }
    }

    fn is_tunnel(&self) -> bool {
        matches!(&self.decoder, Decoder::Client(decoder, _) if decoder.is_tunnel())
    }

    fn eof(&mut self) {
        let result = match &mut self.decoder {
            Decoder::Server(decoder, _) => decoder.handle_eof().map(|()| None),
            Decoder::Client(decoder, _) => decoder.handle_eof(),
        };
        self.flush_body();
        match result {
            Ok(None) => {
                // Later bytes of a tunnel are added to its line, however they were cut.
                if let Some(line) = self.lines.last_mut().filter(|line| is_tunnel_line(line)) {
                    *line = format!("tunnel: {}", self.buffer.escape_ascii());
                }
            }
            Ok(Some(event)) => self.lines.push(format!("{event:?} by close").to_lowercase()),
            Err(fault) => self.lines.push(format!("fault: {}", fault.name())),
        }
    }

    fn flush_body(&mut self) {
        if !self.body.is_empty() {
            self.lines.push(format!("data: {}", self.body.escape_ascii()));
            self.body.clear();
        }
    }

    fn head(&mut self, what: &str) {
        let (line, fields) = match &self.decoder {
            Decoder::Server(_, head) => (request_line(head), &head.fields),
            Decoder::Client(_, head) => (status_line(head), &head.fields),
        };
        let fields = field_lines(fields);
        self.lines.push(format!("{what}: {line}"));
        self.lines.extend(fields);
    }

    fn trailers(&mut self) {
        let fields = match &self.decoder {
            Decoder::Server(decoder, _) => decoder.trailers(),
            Decoder::Client(decoder, _) => decoder.trailers(),
        };
        let fields = field_lines(fields);
        self.lines.push("trailers".to_owned());
        self.lines.extend(fields);
    }
}

fn is_tunnel_line(line: &str) -> bool {
    line.starts_with("tunnel: ")
}

/// `METHOD path[?query] version @authority framing words`
fn request_line(head: &RequestHead) -> String {
    let query = head.query().map_or(String::new(), |query| format!("?{}", query.escape_ascii()));
    let framing = match head.body {
        RequestBody::None => "none".to_owned(),
        RequestBody::Length(length) => length.to_string(),
        RequestBody::Chunked => "chunked".to_owned(),
    };
    let words = [
        (head.connection.close, "close"),
        (head.connection.keep_alive, "keep-alive"),
        (head.expects_continue, "continue"),
        (head.upgrade, "upgrade"),
        (head.empty_body_declared, "empty"),
        (head.is_server_wide(), "server-wide"),
    ];
    let words: String = words.into_iter().filter(|(is, _)| *is).map(|(_, word)| format!(" {word}")).collect();
    let refusal = head.refusal.map_or(String::new(), |refusal| format!(" {}", refusal.status()));
    format!(
        "{} {}{query} {} @{} {framing}{words}{refusal}",
        head.method,
        head.path().escape_ascii(),
        version(head.version),
        head.authority().escape_ascii(),
    )
}

/// `status version framing words`
fn status_line(head: &ResponseHead) -> String {
    let framing = match head.body {
        ResponseBody::None => "none".to_owned(),
        ResponseBody::Length(length) => length.to_string(),
        ResponseBody::Chunked => "chunked".to_owned(),
        ResponseBody::UntilClose => "until-close".to_owned(),
    };
    let words = [
        (head.is_persistent(), "keeps"),
        (head.normalized.folded, "folded"),
        (head.normalized.space_before_colon, "blank"),
        (head.normalized.bare_lf, "lf"),
        (head.normalized.no_reason_space, "no-reason"),
    ];
    let words: String = words.into_iter().filter(|(is, _)| *is).map(|(_, word)| format!(" {word}")).collect();
    format!("{} {} {framing}{words}", head.status.as_u16(), version(head.version))
}

fn version(version: Version) -> &'static str {
    match version {
        Version::Http10 => "1.0",
        Version::Http11 => "1.1",
    }
}

fn field_lines(fields: &Fields) -> Vec<String> {
    fields
        .iter()
        .map(|(name, value)| format!("  {}: {}", name.escape_ascii(), value.escape_ascii()))
        .collect()
}
