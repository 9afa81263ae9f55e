//! FastCGI as a protocol of `net`'s clients and pools.

use http::StatusCode;
use keepwarm_http1::{
    ConnectionOptions, Decoded, Event, Fields, Normalizations, ResponseBody, ResponseHead, Version,
};
use keepwarm_net::{Codec, ServerFault};
use keepwarm_wire::fastcgi::encode::{
    ParamsWriter, encode_begin, encode_get_values, encode_stdin, encode_stdin_end,
};
use keepwarm_wire::fastcgi::{
    self, CgiFault, CgiHead, CgiLimits, CgiNormalizations, CgiResponse, Connection, FastCgiFault,
    ProtocolStatus, RecordFault,
};

use super::super::relay::ChildGuard;
use super::params::encode_params;
use super::script::{Script, ScriptRoot};
use keepwarm_serve::Request;

/// What is kept of the words of one request for the log, in bytes: a script that prints without end has no right to our memory.
const MAX_WORDS: usize = 64 * 1024;

/// What a php-fpm of ours responds to by itself (`adapters/fastcgi/php-fpm.conf`). The name of no script: that ends in `.php`.
const PING: &[u8] = b"/keepwarm/ping";

/// FastCGI, the web server's side.
#[derive(Debug)]
pub(in crate::dispatch) struct FastCgi {
    connection: Connection,
    /// The request in progress.
    id: u16,
    head: CgiHead,
    state: ResponseState,
    words: Vec<u8>,
    no_trailers: Fields,
    /// The process at the other end, of a server that keeps its own.
    pub(in crate::dispatch) child_guard: Option<ChildGuard>,
}

/// How far the current response is decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ResponseState {
    /// The head has not come whole.
    Head,
    /// The first `left` bytes of the input are body: they came in one record with the end of the head.
    Body { left: usize },
    /// The request is over.
    Over,
}

impl FastCgi {
    /// Appends the beginning of a request. To be called inside [`keepwarm_net::Client::begin`].
    pub(super) fn begin(
        &mut self,
        out: &mut Vec<u8>,
        request: &Request,
        script: (&ScriptRoot, &Script),
        length: Option<u64>,
    ) {
        self.begin_request(out);
        // What fits in no record was refused before (`super::hold`).
        let _ = encode_params(out, self.id, request, script, length);
    }

    /// Appends a request that php-fpm responds to without a script. To be called inside [`keepwarm_net::Client::begin`].
    pub(in crate::dispatch) fn ping(&mut self, out: &mut Vec<u8>) {
        self.begin_request(out);
        let mut params = ParamsWriter::begin(out, self.id);
        params.pair(b"REQUEST_METHOD", b"GET");
        params.pair(b"SCRIPT_NAME", PING);
        params.pair(b"SCRIPT_FILENAME", PING);
        // Three short pairs.
        let _ = params.finish();
    }

    fn begin_request(&mut self, out: &mut Vec<u8>) {
        // None only on a connection that is of no use, and that shows in its first response.
        self.id = self.connection.begin().unwrap_or(1);
        self.head.restart();
        self.state = ResponseState::Head;
        self.words.clear();
        encode_begin(out, self.id);
    }

    /// Appends a question about the server; its response is [`Event::End`]. To be called inside [`keepwarm_net::Client::begin`].
    pub(super) fn ask(&mut self, out: &mut Vec<u8>) {
        if self.connection.ask() {
            self.state = ResponseState::Head;
            encode_get_values(out);
        }
    }

    /// The names of the response's fields, in their order, as the script has written them. PHP writes `Content-type`; nginx and Apache make the usual name of that.
    pub(super) fn names(&self) -> impl Iterator<Item = &[u8]> + Clone {
        const USUAL: [&[u8]; 2] = [b"Content-Type", b"Content-Length"];
        let status = self.status();
        let usual = |name| USUAL.into_iter().find(|usual| usual.eq_ignore_ascii_case(name)).unwrap_or(name);
        self.head.fields().map(|(name, _)| name).filter(move |name| is_kept(status, name)).map(usual)
    }

    fn status(&self) -> u16 {
        match self.head.response() {
            CgiResponse::Client(status) => status,
            // Followed here ([`Self::named_path`]); where that cannot be, a client that follows gets the same.
            CgiResponse::Local(_) => 302,
        }
    }

    /// The path that the response names in its place.
    pub(in crate::dispatch) fn named_path(&self) -> Option<Vec<u8>> {
        match self.head.response() {
            CgiResponse::Local(local) => Some(local.to_vec()),
            CgiResponse::Client(_) => None,
        }
    }

    /// Takes bytes of STDOUT while the head is incomplete. `Some(n)`: the head is complete, and the first `n` bytes belong to it.
    fn take_head(&mut self, bytes: &[u8], head: &mut ResponseHead) -> Result<Option<usize>, ServerFault> {
        let Some(used) = self.head.push(bytes).map_err(of_head)? else { return Ok(None) };
        let status = self.status();
        head.status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
        head.version = Version::Http11;
        head.fields.clear();
        let kept = self.head.fields().filter(|(name, _)| is_kept(status, name));
        kept.for_each(|(name, value)| head.fields.push(name, value));
        head.body = ResponseBody::UntilClose;
        head.content_length = None;
        head.connection = ConnectionOptions {
            close: head.fields.has_token("connection", "close"),
            ..ConnectionOptions::default()
        };
        let CgiNormalizations { folded, space_before_colon } = self.head.mended();
        head.normalized = Normalizations { folded, space_before_colon, ..Normalizations::default() };
        Ok(Some(used))
    }

    fn end(&mut self, app_status: u32, protocol: ProtocolStatus) -> Result<(), ServerFault> {
        let fault = |name, sentence: &str| Err(ServerFault { name, sentence: sentence.to_owned() });
        match protocol {
            ProtocolStatus::Complete => {}
            ProtocolStatus::Overloaded => {
                return fault("fastcgi_overloaded", "has no capacity for the request");
            }
            ProtocolStatus::CannotMultiplex => {
                return fault("fastcgi_multiplex", "reports two requests at once");
            }
            ProtocolStatus::UnknownRole => {
                return fault("fastcgi_role", "does not support the responder role");
            }
        }
        if self.state == ResponseState::Head {
            let why = if app_status == 0 { "" } else { ", with an error" };
            let name = CgiFault::Truncated.name();
            return fault(name, &format!("ended the request before its response head{why}"));
        }
        self.state = ResponseState::Over;
        Ok(())
    }

    /// The end, with what is left of its record, so that the connection is seen to be clean.
    fn ended(&mut self, input: &[u8], at: usize) -> Decoded {
        let padding = self.connection.decode(input.get(at..).unwrap_or_default());
        let padding = padding.map_or(0, |padding| padding.consumed);
        Decoded { consumed: at + padding, event: Event::End }
    }
}

impl Codec for FastCgi {
    fn new() -> Self {
        Self {
            connection: Connection::new(),
            id: 0,
            head: CgiHead::new(CgiLimits::default()),
            state: ResponseState::Over,
            words: Vec::new(),
            no_trailers: Fields::new(),
            child_guard: None,
        }
    }

    fn encode_body(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        encode_stdin(out, self.id, bytes);
    }

    fn encode_end(&mut self, _trailers: &Fields, out: &mut Vec<u8>) {
        encode_stdin_end(out, self.id);
    }

    fn decode(&mut self, input: &[u8], head: &mut ResponseHead) -> Result<Decoded, ServerFault> {
        if let ResponseState::Body { left } = &mut self.state
            && *left > 0
        {
            let end = std::mem::take(left);
            return Ok(Decoded { consumed: end, event: Event::Data { start: 0, end } });
        }
        let mut at = 0;
        loop {
            let rest = input.get(at..).unwrap_or_default();
            let decoded = self.connection.decode(rest).map_err(of_record)?;
            let (begin, after) = (at, at + decoded.consumed);
            at = after;
            match decoded.event {
                fastcgi::Event::NeedMore => return Ok(Decoded { consumed: at, event: Event::NeedMore }),
                fastcgi::Event::Stderr(range) => {
                    let room = MAX_WORDS - self.words.len().min(MAX_WORDS);
                    let words = rest.get(range).unwrap_or_default();
                    self.words.extend_from_slice(words.get(..room).unwrap_or(words));
                }
                fastcgi::Event::Stdout(range) if self.state == ResponseState::Head => {
                    let start = begin + range.start;
                    let Some(used) = self.take_head(rest.get(range).unwrap_or_default(), head)? else {
                        continue;
                    };
                    self.state = ResponseState::Body { left: after - start - used };
                    return Ok(Decoded { consumed: start + used, event: Event::Head });
                }
                fastcgi::Event::Stdout(range) => {
                    let (start, end) = (begin + range.start, begin + range.end);
                    return Ok(Decoded { consumed: after, event: Event::Data { start, end } });
                }
                fastcgi::Event::End { app_status, protocol } => {
                    self.end(app_status, protocol)?;
                    return Ok(self.ended(input, at));
                }
                fastcgi::Event::Values => {
                    self.state = ResponseState::Over;
                    return Ok(self.ended(input, at));
                }
            }
        }
    }

    fn handle_eof(&mut self) -> Result<Option<Event>, ServerFault> {
        match self.state {
            ResponseState::Over => Ok(None),
            ResponseState::Head | ResponseState::Body { .. } => {
                let sentence = "broke off in the middle of its response".to_owned();
                Err(ServerFault { name: "truncated", sentence })
            }
        }
    }

    fn fault_behind(&mut self, behind: &[u8]) -> Option<ServerFault> {
        let unasked = || ServerFault {
            name: RecordFault::Unasked.name(),
            sentence: "violated FastCGI: bytes after the end of the request".to_owned(),
        };
        Some(self.connection.decode(behind).map_or_else(of_record, |_| unasked()))
    }

    fn trailers(&self) -> &Fields {
        &self.no_trailers
    }

    fn keeps_connection(&self) -> bool {
        self.connection.is_idle() && self.child_guard.as_ref().is_none_or(ChildGuard::keeps)
    }

    fn take_words(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.words)
    }
}

/// Frameworks send a length with 304 that is none (`spec/http.md` §1).
fn is_kept(status: u16, name: &[u8]) -> bool {
    !(matches!(status, 204 | 304) && name.eq_ignore_ascii_case(b"content-length"))
}

fn of_record(fault: FastCgiFault) -> ServerFault {
    ServerFault { name: fault.name(), sentence: format!("violated FastCGI: {fault}") }
}

fn of_head(fault: CgiFault) -> ServerFault {
    ServerFault { name: fault.name(), sentence: format!("sent an invalid response: {fault}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(record_type: u8, content: &[u8], padding: usize) -> Vec<u8> {
        let length = (content.len() as u16).to_be_bytes();
        let mut bytes = vec![1, record_type, 0, 1, length[0], length[1], padding as u8, 0];
        bytes.extend_from_slice(content);
        bytes.extend(std::iter::repeat_n(0, padding));
        bytes
    }

    /// Status, fields, body and how it ended, of input in pieces.
    fn hear(pieces: &[&[u8]]) -> (FastCgi, String) {
        let mut codec = FastCgi::new();
        codec.id = codec.connection.begin().unwrap();
        codec.state = ResponseState::Head;
        let mut head = ResponseHead::default();
        let (mut said, mut body, mut buffer) = (String::new(), Vec::new(), Vec::new());
        for piece in pieces {
            buffer.extend_from_slice(piece);
            loop {
                let decoded = match codec.decode(&buffer, &mut head) {
                    Ok(decoded) => decoded,
                    Err(fault) => return (codec, format!("{said}fault {}", fault.name)),
                };
                match decoded.event {
                    Event::Head => {
                        said = format!("{} ", head.status.as_u16());
                        for (name, value) in head.fields.iter() {
                            said += &format!(
                                "{}={} ",
                                String::from_utf8_lossy(name),
                                String::from_utf8_lossy(value)
                            );
                        }
                    }
                    Event::Data { start, end } => body.extend_from_slice(&buffer[start..end]),
                    Event::End => said += &format!("[{}]", String::from_utf8_lossy(&body)),
                    _ => {}
                }
                buffer.drain(..decoded.consumed);
                if matches!(decoded.event, Event::NeedMore | Event::End) {
                    break;
                }
            }
        }
        assert!(buffer.is_empty());
        (codec, said)
    }

    #[test]
    fn a_response_is_understood_however_it_is_cut() {
        let ok = [0; 8];
        let cases: [(Vec<Vec<u8>>, &str); 8] = [
            (
                vec![record(6, b"Content-Type: a/b\r\n\r\nbody", 3), record(3, &ok, 5)],
                "200 content-type=a/b [body]",
            ),
            (
                vec![
                    record(7, b"Notice", 0),
                    record(6, b"Status: 404\r", 1),
                    record(6, b"\nX: 1\n\nbo", 0),
                    record(7, b"more", 2),
                    record(6, b"dy", 0),
                    record(6, b"", 0),
                    record(3, &ok, 0),
                ],
                "404 x=1 [body]",
            ),
            (vec![record(6, b"Location: /x\r\n\r\n", 0), record(3, &ok, 0)], "302 location=/x []"),
            (vec![record(6, b"\r\n", 0), record(3, &ok, 0)], "200 []"),
            (vec![record(3, &ok, 0)], "fault cgi_no_head"),
            (vec![record(6, b"<html>\n", 0), record(3, &ok, 0)], "fault cgi_not_a_field"),
            (vec![record(3, &[0, 0, 0, 0, 2, 0, 0, 0], 0)], "fault fastcgi_overloaded"),
            (vec![b"garbage".to_vec()], "fault fastcgi_version"),
        ];
        for (records, expected) in cases {
            let bytes = records.concat();
            let (whole, said) = hear(&[&bytes]);
            assert_eq!(said, expected);
            let (cut, said) = hear(&bytes.chunks(1).collect::<Vec<_>>());
            assert_eq!(said, expected, "in single bytes");
            assert_eq!(whole.words, cut.words);
            let ended = bytes.get(1) != Some(&b'a') && records.last().is_some_and(|last| last[1] == 3);
            assert_eq!(whole.keeps_connection(), ended && !expected.contains("field"), "{expected}");
        }
    }

    #[test]
    fn what_is_printed_without_end_is_cut() {
        let bytes: Vec<u8> = (0..4).flat_map(|_| record(7, &[b'x'; 60_000], 0)).collect();
        let (mut codec, _) = hear(&[&bytes]);
        assert_eq!(codec.take_words().len(), MAX_WORDS);
        assert!(codec.take_words().is_empty());
    }
}
