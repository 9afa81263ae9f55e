//! HTTP/1.1, client's role: what [`crate::Client`] drives.

use http::Method;
use keepwarm_http1::{
    CHUNK_TAIL, Decoded, Event, Fault, FaultKind, Fields, LAST_CHUNK, Limits, RequestBody, RequestOptions,
    ResponseBody, ResponseDecoder, ResponseHead, encode_chunk_head, encode_request_head, encode_trailers,
};

use crate::client::{Codec, ServerFault};

/// HTTP/1.1, client's role.
#[derive(Debug)]
pub struct Http1 {
    decoder: ResponseDecoder,
    framing: RequestBody,
    keeps: bool,
    /// How the body of the response is framed.
    body: ResponseBody,
    keep_alive_timeout: Option<u64>,
}

/// The head of a request to a server.
#[derive(Debug, Clone, Copy)]
pub struct RequestLine<'a> {
    /// The method.
    pub method: &'a Method,
    /// Path and query.
    pub target: &'a [u8],
    /// For `Host`.
    pub authority: &'a [u8],
}

impl Http1 {
    /// Appends the head of a request: see [`encode_request_head`]. To be called inside [`crate::Client::begin`].
    pub fn encode_head<'f>(
        &mut self,
        out: &mut Vec<u8>,
        line: RequestLine<'_>,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
        framing: RequestBody,
        options: RequestOptions<'_>,
    ) {
        self.decoder.begin(line.method);
        self.decoder.allow_upgrade(options.upgrade);
        self.framing = framing;
        self.keeps = false;
        encode_request_head(out, line.method, line.target, line.authority, fields, framing, options);
        self.keep_alive_timeout = None;
    }
}

impl Codec for Http1 {
    fn new() -> Self {
        Self {
            decoder: ResponseDecoder::new(Limits::default()),
            framing: RequestBody::None,
            keeps: false,
            body: ResponseBody::None,
            keep_alive_timeout: None,
        }
    }

    fn encode_body(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        match self.framing {
            RequestBody::Chunked => {
                encode_chunk_head(out, bytes.len());
                out.extend_from_slice(bytes);
                out.extend_from_slice(CHUNK_TAIL);
            }
            RequestBody::Length(_) => out.extend_from_slice(bytes),
            RequestBody::None => {}
        }
    }

    fn encode_end(&mut self, trailers: &Fields, out: &mut Vec<u8>) {
        match self.framing {
            RequestBody::Chunked if !trailers.is_empty() => encode_trailers(out, trailers.iter()),
            RequestBody::Chunked => out.extend_from_slice(LAST_CHUNK),
            RequestBody::Length(_) | RequestBody::None => {}
        }
    }

    fn decode(&mut self, input: &[u8], head: &mut ResponseHead) -> Result<Decoded, ServerFault> {
        let decoded = self.decoder.decode(input, head).map_err(|fault| told(&fault))?;
        if decoded.event == Event::Head {
            self.keeps = head.is_persistent();
            self.body = head.body;
            self.keep_alive_timeout = head.keep_alive_timeout();
        }
        Ok(decoded)
    }

    fn handle_eof(&mut self) -> Result<Option<Event>, ServerFault> {
        self.decoder.handle_eof().map_err(|fault| told(&fault))
    }

    fn fault_behind(&mut self, behind: &[u8]) -> Option<ServerFault> {
        // Many servers send a body after a head that can have none; it moves no boundary, and is dropped (`spec/http.md` §1). A second response is a fault.
        if self.body == ResponseBody::None && !behind.starts_with(b"HTTP/") {
            return None;
        }
        // An extra empty line after the last chunk moves no boundary either. After a length it is a fault: the length may belong to something shorter.
        if self.body == ResponseBody::Chunked && b"\r\n".starts_with(behind) {
            return None;
        }
        let sentence = "sent bytes after the end of its response".to_owned();
        Some(ServerFault { name: Fault::upstream(FaultKind::Unsolicited).name(), sentence })
    }

    fn trailers(&self) -> &Fields {
        self.decoder.trailers()
    }

    fn keeps_connection(&self) -> bool {
        self.keeps && self.decoder.is_idle()
    }

    fn is_tunnel(&self) -> bool {
        self.decoder.is_tunnel()
    }

    fn keep_alive_timeout(&self) -> Option<u64> {
        self.keep_alive_timeout
    }
}

fn told(fault: &Fault) -> ServerFault {
    let sentence = fault.to_string();
    let sentence = sentence.strip_prefix("the upstream ").unwrap_or(&sentence).to_owned();
    ServerFault { name: fault.name(), sentence }
}
