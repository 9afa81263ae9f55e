//! Decoder of requests: the server's side of a connection.
//!
//! This file has the order of a request's parts, and the meaning of its head. Lines, targets and bodies are parsed in `lines`, `target` and
//! `body`; responses are in `plan`.

use crate::body::Body;
use crate::chunked::Chunked;
use crate::fault::{Fault, FaultKind};
use crate::field_lines::{self, Syntax};
use crate::fields::Fields;
use crate::head::{Refusal, RequestBody, RequestHead, TargetForm, Version};
use crate::head_summary::HeadSummary;
use crate::limits::Limits;
use crate::lines::{LineScan, SectionLimits};
use crate::target::{RequestLine, is_authority, parse_request_line};
use crate::{Decoded, Event};

/// Decodes the requests of one connection.
///
/// Call [`decode`](Self::decode) with the bytes at hand; drop `consumed` of them; act on the event; call again with the rest, until
/// [`Event::NeedMore`] asks for more. A request is `Head`, any number of `Data`, at most one `Trailers`, and one `End`, after which the next
/// call begins the next request. Nothing of a head is consumed before it is whole, and none of its bytes is searched twice. When the peer
/// closes, call [`handle_eof`](Self::handle_eof). A [`Fault`] is final: every later call gives the same one.
///
/// A response may begin before the request has ended; whether the rest is then read or the connection closed is the driver's choice.
#[derive(Debug)]
pub struct RequestDecoder {
    limits: Limits,
    listener: ListenerKind,
    state: RequestState,
    trailers: Fields,
}

/// The kind of listener, which decides what `CONNECT` means.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum ListenerKind {
    /// An ordinary server: `CONNECT` is refused, the authority of an absolute target replaces `Host`.
    Origin,
    /// A forward proxy.
    ForwardProxy,
}

#[derive(Debug)]
enum RequestState {
    /// Between messages, or in an incomplete head.
    Head(PartialHead),
    Body(Body),
    Failed(Fault),
}

#[derive(Default, Debug)]
struct PartialHead {
    scan: LineScan,
    /// The empty line a client may send before a request (RFC 9112 §2.2) was skipped.
    skipped_empty_line: bool,
    /// A byte of this head was received.
    begun: bool,
    /// The request line, once it is complete, and where the fields begin.
    line: Option<(RequestLine, usize)>,
}

impl RequestDecoder {
    /// For an ordinary listener.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self::with_kind(limits, ListenerKind::Origin)
    }

    /// For a listener of that kind.
    #[must_use]
    pub fn with_kind(limits: Limits, listener: ListenerKind) -> Self {
        Self { limits, listener, state: RequestState::Head(PartialHead::default()), trailers: Fields::new() }
    }

    /// The trailers, after [`Event::Trailers`] and until the next head.
    #[must_use]
    pub fn trailers(&self) -> &Fields {
        &self.trailers
    }

    /// Whether no message is in progress: no byte of the next one was received, except perhaps the empty line that may precede it.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        matches!(&self.state, RequestState::Head(head) if !head.begun)
    }

    /// Whether the body of a message is being decoded.
    #[must_use]
    pub fn in_body(&self) -> bool {
        matches!(self.state, RequestState::Body(_))
    }

    /// Whether `input` begins with the complete rest of the current message, without a fault. Nothing is consumed.
    #[must_use]
    pub fn ends_within(&self, input: &[u8]) -> bool {
        let RequestState::Body(mut body) = self.state else { return false };
        let (mut rest, mut trailers) = (input, Fields::new());
        loop {
            let Ok(decoded) = body.decode(rest, usize::MAX, &self.limits, &mut trailers) else {
                return false;
            };
            match decoded.event {
                Event::End => return true,
                Event::Data { .. } | Event::Trailers => {}
                Event::NeedMore | Event::Head | Event::Informational => return false,
            }
            rest = rest.get(decoded.consumed..).unwrap_or_default();
        }
    }

    /// The next event. `head` is cleared and filled when, and only when, the event is [`Event::Head`].
    ///
    /// # Errors
    ///
    /// The client's fault, with the status to respond with.
    pub fn decode(&mut self, input: &[u8], head: &mut RequestHead) -> Result<Decoded, Fault> {
        self.decode_within(input, usize::MAX, head)
    }

    /// The next event, [`Event::Data`] of at most `room` bytes. Pass the whole input all the same: chunk framing and trailers take none of the room, and
    /// a decoder that does not get them would wait forever.
    ///
    /// # Errors
    ///
    /// The client's fault, with the status to respond with.
    pub fn decode_within(
        &mut self,
        input: &[u8],
        room: usize,
        head: &mut RequestHead,
    ) -> Result<Decoded, Fault> {
        let result = match &mut self.state {
            RequestState::Failed(fault) => return Err(*fault),
            RequestState::Head(partial) => partial.decode(input, &self.limits, self.listener, head),
            RequestState::Body(body) => body.decode(input, room, &self.limits, &mut self.trailers),
        };
        match result {
            Ok(decoded) => {
                match decoded.event {
                    Event::Head => self.begin_body(head),
                    Event::End => self.state = RequestState::Head(PartialHead::default()),
                    _ => {}
                }
                Ok(decoded)
            }
            Err(kind) => Err(self.fail(kind)),
        }
    }

    /// The client closed its side. `Ok` between messages.
    ///
    /// # Errors
    ///
    /// [`FaultKind::Truncated`] inside a message.
    pub fn handle_eof(&mut self) -> Result<(), Fault> {
        match &self.state {
            RequestState::Failed(fault) => Err(*fault),
            RequestState::Head(head) if !head.begun => Ok(()),
            // The whole request was read; only its `End` was not returned yet.
            RequestState::Body(Body::Done) => Ok(()),
            RequestState::Head(_) | RequestState::Body(_) => Err(self.fail(FaultKind::Truncated)),
        }
    }

    fn begin_body(&mut self, head: &RequestHead) {
        self.trailers.clear();
        self.state = RequestState::Body(match head.body {
            RequestBody::None => Body::Done,
            RequestBody::Length(length) => Body::with_length(length),
            RequestBody::Chunked => Body::Chunked(Chunked::new()),
        });
    }

    fn fail(&mut self, kind: FaultKind) -> Fault {
        let fault = Fault::client(kind);
        self.state = RequestState::Failed(fault);
        fault
    }
}

impl PartialHead {
    fn decode(
        &mut self,
        input: &[u8],
        limits: &Limits,
        listener: ListenerKind,
        head: &mut RequestHead,
    ) -> Result<Decoded, FaultKind> {
        let skipped = self.skip_empty_line(input)?;
        let input = input.get(skipped..).unwrap_or_default();
        let Some(end) = self.read(input, limits, listener, head)? else {
            return Ok(Decoded { consumed: skipped, event: Event::NeedMore });
        };
        Ok(Decoded { consumed: skipped + end, event: Event::Head })
    }

    /// RFC 9112 §2.2: a server SHOULD ignore at least one empty line before the request line. We ignore exactly one.
    fn skip_empty_line(&mut self, input: &[u8]) -> Result<usize, FaultKind> {
        let (&first, rest) = match input.split_first() {
            Some(split) if self.scan_is_fresh() => split,
            _ => return Ok(0),
        };
        self.begun = true;
        match (first, rest.first()) {
            (b'\r', None) => Ok(0),
            (b'\r', Some(b'\n')) if self.skipped_empty_line => Err(FaultKind::ExtraEmptyLine),
            (b'\r', Some(b'\n')) => {
                self.skipped_empty_line = true;
                self.begun = false;
                self.skip_empty_line(rest.get(1..).unwrap_or_default())?;
                Ok(2)
            }
            (b'\r', Some(_)) => Err(FaultKind::BareCr),
            (b'\n', _) => Err(FaultKind::BareLf),
            // The record type of a TLS handshake: tell it apart from noise, at its first byte.
            (0x16, _) => Err(FaultKind::TlsOnPlain),
            (byte, _) if !crate::bytes::is_tchar(byte) => Err(FaultKind::BadMethod),
            _ => Ok(0),
        }
    }

    /// Fills the head and gives its length, once it is whole.
    fn read(
        &mut self,
        input: &[u8],
        limits: &Limits,
        listener: ListenerKind,
        head: &mut RequestHead,
    ) -> Result<Option<usize>, FaultKind> {
        // A lone CR is either half of an empty line or a fault: the next byte shows which.
        if input.is_empty() || input == b"\r" {
            return Ok(None);
        }
        if self.line.is_none() {
            let first = self.scan.first_line(input, limits.request_line, false);
            let Some((len, next)) = first.map_err(|fault| too_long(fault, input))? else { return Ok(None) };
            // At once, not when the head is complete: a client of HTTP/0.9 sends no more, and waits.
            self.line =
                Some((parse_request_line(input.get(..len).unwrap_or_default(), limits.raw_targets)?, next));
        }
        let Some((_, block)) = &self.line else { return Ok(None) };
        let block = *block;
        let bounds = SectionLimits {
            block: limits.header_block,
            fields: limits.fields,
            block_fault: FaultKind::HeaderBlockTooLarge,
            fields_fault: FaultKind::TooManyFields,
            bare_lf: false,
        };
        let Some(end) = self.scan.block_end(input, block, &bounds)? else { return Ok(None) };
        let Some((line, _)) = self.line.take() else { return Ok(None) };
        head.listener = listener;
        fill(head, line, input, block..end)?;
        Ok(Some(end))
    }

    fn scan_is_fresh(&self) -> bool {
        self.line.is_none() && !self.scan.has_begun()
    }
}

/// Distinguishes a method that is too long from another request line above the limit (RFC 9112 §3).
fn too_long(fault: FaultKind, input: &[u8]) -> FaultKind {
    let begin = input.get(..=Limits::METHOD).unwrap_or_default();
    match fault {
        FaultKind::RequestLineTooLong if crate::bytes::is_token(begin) => FaultKind::MethodTooLong,
        fault => fault,
    }
}

/// Fills in everything from a complete head.
fn fill(
    head: &mut RequestHead,
    line: RequestLine,
    input: &[u8],
    block: std::ops::Range<usize>,
) -> Result<(), FaultKind> {
    head.fields.clear();
    field_lines::parse(input.get(block).unwrap_or_default(), &mut head.fields, Syntax::Strict)?;
    let summary = HeadSummary::of(&head.fields, line.version)?;
    check_host(&summary, line.version)?;

    head.host.clear();
    head.host.extend_from_slice(summary.host);
    head.target.clear();
    head.target.extend_from_slice(input.get(line.target).unwrap_or_default());
    head.body = match summary.length {
        _ if summary.chunked => RequestBody::Chunked,
        Some(length @ 1..) => RequestBody::Length(length),
        Some(0) | None => RequestBody::None,
    };
    head.empty_body_declared = summary.length == Some(0);
    head.connection = summary.connection;
    let modern = line.version >= Version::Http11;
    // RFC 9110 §10.1.1: ignored in HTTP/1.0, and without a body.
    head.expects_continue = summary.expects_continue && modern && head.body != RequestBody::None;
    // RFC 9110 §7.8: ignored in HTTP/1.0.
    head.upgrade = summary.upgrade && summary.connection.upgrade && modern;
    head.refusal = match line.method {
        http::Method::CONNECT if head.listener == ListenerKind::Origin => Some(Refusal::Connect),
        http::Method::TRACE => Some(Refusal::Trace),
        _ if summary.expects_other && modern => Some(Refusal::Expectation),
        _ => None,
    };
    head.method = line.method;
    head.version = line.version;
    head.form = line.form;
    head.parts = line.parts;
    Ok(())
}

/// RFC 9112 §3.2: exactly one `Host` in 1.1, at most one before, and a valid one; whatever form the target has.
fn check_host(summary: &HeadSummary<'_>, version: Version) -> Result<(), FaultKind> {
    match summary.hosts {
        0 if version >= Version::Http11 => Err(FaultKind::NoHost),
        0 | 1 if is_authority(summary.host) => Ok(()),
        0 | 1 => Err(FaultKind::BadHost),
        _ => Err(FaultKind::SeveralHosts),
    }
}

impl RequestHead {
    /// Whether the listener it came through is a forward proxy.
    #[must_use]
    pub fn is_for_forward_proxy(&self) -> bool {
        self.listener == ListenerKind::ForwardProxy
    }

    /// Whether the target names its own authority, which then replaces `Host` (RFC 9112 §3.2.2).
    #[must_use]
    pub fn names_authority(&self) -> bool {
        matches!(self.form, TargetForm::Absolute | TargetForm::Authority)
    }
}
