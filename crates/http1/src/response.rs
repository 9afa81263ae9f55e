//! Decoder of responses: the client's side of a connection.
//!
//! This file has the order of a response's parts, and the framing that follows from its head. Lines and bodies are parsed in `lines` and `body`;
//! broken connections are handled by the pool.

use http::{Method, StatusCode};

use crate::body::Body;
use crate::bytes::{is_field_value, members};
use crate::chunked::Chunked;
use crate::fault::{Fault, FaultKind};
use crate::field_lines::{self, Syntax};
use crate::fields::Fields;
use crate::head::{ConnectionOptions, Normalizations, ResponseBody, ResponseHead, Version};
use crate::head_summary::HeadSummary;
use crate::limits::Limits;
use crate::lines::{LineScan, SectionLimits};
use crate::target::parse_version;
use crate::{Decoded, Event};

/// Decodes the responses of one connection.
///
/// For each request, once the response before it has ended: [`begin`](Self::begin), and [`allow_upgrade`](Self::allow_upgrade) if the request pending
/// offers one. Then call [`decode`](Self::decode) as with [`RequestDecoder`](crate::RequestDecoder). A response is any number of `Informational`, then `Head`,
/// any number of `Data`, at most one `Trailers`, and one `End`. Bytes that come without a request are a fault: so are bytes after the end of a response, once
/// `decode` sees them. When the peer closes, call [`handle_eof`](Self::handle_eof). A [`Fault`] is final.
///
/// After a response that opens a tunnel (`101`, or `2xx` to `CONNECT`), [`is_tunnel`](Self::is_tunnel) holds and the bytes are no longer this decoder's.
#[derive(Debug)]
pub struct ResponseDecoder {
    limits: Limits,
    state: ResponseState,
    pending: RequestKind,
    /// The protocols in the request's `Upgrade`; empty: none.
    offered: Vec<u8>,
    trailers: Fields,
}

/// The kind of request that the next response belongs to, as far as it determines the framing.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum RequestKind {
    Nothing,
    Head,
    Connect,
    Other,
}

#[derive(Copy, Clone, Debug)]
enum ResponseState {
    /// Between responses, or in an incomplete head.
    Head {
        scan: LineScan,
        line: Option<StatusLine>,
    },
    Body(Body),
    Tunnel {
        ended: bool,
    },
    Failed(Fault),
}

const INITIAL: ResponseState = ResponseState::Head {
    scan: LineScan { searched: 0, line_start: 0, lines: 0, bare_lf: false },
    line: None,
};

#[derive(Copy, Clone, Debug)]
struct StatusLine {
    version: Version,
    status: StatusCode,
    no_reason_space: bool,
    /// Where the field lines begin.
    block: usize,
}

impl ResponseDecoder {
    /// For a new connection.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            state: INITIAL,
            pending: RequestKind::Nothing,
            offered: Vec::new(),
            trailers: Fields::new(),
        }
    }

    /// A request was (or is about to be) sent; the next final response is to it. Also withdraws [`allow_upgrade`](Self::allow_upgrade).
    pub fn begin(&mut self, method: &Method) {
        self.pending = match *method {
            Method::HEAD => RequestKind::Head,
            Method::CONNECT => RequestKind::Connect,
            _ => RequestKind::Other,
        };
        self.offered.clear();
    }

    /// The protocols in the request's `Upgrade`: `101` is a response to it if its own `Upgrade` names nothing else (RFC 9110 §7.8).
    pub fn allow_upgrade(&mut self, offered: Option<&[u8]>) {
        self.offered.clear();
        self.offered.extend_from_slice(offered.unwrap_or_default());
    }

    /// The trailers, after [`Event::Trailers`] and until the next head.
    #[must_use]
    pub fn trailers(&self) -> &Fields {
        &self.trailers
    }

    /// Whether the connection became a tunnel.
    #[must_use]
    pub fn is_tunnel(&self) -> bool {
        matches!(self.state, ResponseState::Tunnel { .. })
    }

    /// Whether no response is due or in progress: the connection may be reused, if the last head allows it and no byte waits.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.pending == RequestKind::Nothing && matches!(self.state, ResponseState::Head { .. })
    }

    /// The next event. `head` is cleared and filled when, and only when, the event is [`Event::Head`] or [`Event::Informational`].
    ///
    /// # Errors
    ///
    /// The upstream's fault. The connection is unusable.
    pub fn decode(&mut self, input: &[u8], head: &mut ResponseHead) -> Result<Decoded, Fault> {
        let result = match &mut self.state {
            ResponseState::Failed(fault) => return Err(*fault),
            ResponseState::Head { .. } => self.decode_head(input, head),
            ResponseState::Body(body) => body.decode(input, usize::MAX, &self.limits, &mut self.trailers),
            ResponseState::Tunnel { ended: ended @ false } => {
                *ended = true;
                return Ok(Decoded { consumed: 0, event: Event::End });
            }
            ResponseState::Tunnel { ended: true } => Err(FaultKind::Unsolicited),
        };
        match result {
            Ok(decoded) => {
                if decoded.event == Event::End {
                    self.state = INITIAL;
                }
                Ok(decoded)
            }
            Err(kind) => Err(self.fail(kind)),
        }
    }

    /// The upstream closed. `Some(End)` if the close ends the response, `None` if no response was due.
    ///
    /// # Errors
    ///
    /// [`FaultKind::ClosedWithoutResponse`] when a response is due and no byte of it came (which decides whether a retry can be safe);
    /// [`FaultKind::Truncated`] inside a response.
    pub fn handle_eof(&mut self) -> Result<Option<Event>, Fault> {
        match &self.state {
            ResponseState::Failed(fault) => Err(*fault),
            ResponseState::Body(Body::UntilClose | Body::Done) | ResponseState::Tunnel { ended: false } => {
                self.state = INITIAL;
                Ok(Some(Event::End))
            }
            ResponseState::Tunnel { ended: true } => Ok(None),
            ResponseState::Head { scan, .. } if !scan.has_begun() => match self.pending {
                RequestKind::Nothing => Ok(None),
                _ => Err(self.fail(FaultKind::ClosedWithoutResponse)),
            },
            ResponseState::Head { .. } | ResponseState::Body(_) => Err(self.fail(FaultKind::Truncated)),
        }
    }

    fn decode_head(&mut self, input: &[u8], head: &mut ResponseHead) -> Result<Decoded, FaultKind> {
        const NEED_MORE: Decoded = Decoded { consumed: 0, event: Event::NeedMore };
        let ResponseState::Head { scan, line } = &mut self.state else { return Ok(NEED_MORE) };
        if input.is_empty() {
            return Ok(NEED_MORE);
        }
        if self.pending == RequestKind::Nothing {
            return Err(FaultKind::Unsolicited);
        }
        let status_line = match line {
            Some(known) => *known,
            None => {
                let Some((len, block)) = scan.first_line(input, self.limits.request_line, true)? else {
                    return Ok(NEED_MORE);
                };
                *line.insert(parse_status_line(input.get(..len).unwrap_or_default(), block)?)
            }
        };
        let bounds = SectionLimits {
            block: self.limits.header_block,
            fields: self.limits.fields,
            block_fault: FaultKind::HeaderBlockTooLarge,
            fields_fault: FaultKind::TooManyFields,
            bare_lf: true,
        };
        let Some(end) = scan.block_end(input, status_line.block, &bounds)? else { return Ok(NEED_MORE) };
        let bare_lf = scan.bare_lf;
        self.state = INITIAL;
        let block = input.get(status_line.block..end).unwrap_or_default();
        let event = self.take_head(status_line, block, head)?;
        head.normalized.bare_lf = bare_lf;
        Ok(Decoded { consumed: end, event })
    }

    /// Fills the head, and begins the body.
    fn take_head(
        &mut self,
        line: StatusLine,
        block: &[u8],
        head: &mut ResponseHead,
    ) -> Result<Event, FaultKind> {
        head.fields.clear();
        let normalized = field_lines::parse(block, &mut head.fields, Syntax::Lenient)?;
        head.normalized = Normalizations { no_reason_space: line.no_reason_space, ..normalized };
        head.status = line.status;
        head.version = line.version;
        if line.status.is_informational() && line.status != StatusCode::SWITCHING_PROTOCOLS {
            head.connection = ConnectionOptions::default();
            head.content_length = None;
            head.body = ResponseBody::None;
            return Ok(Event::Informational);
        }
        let summary = HeadSummary::of(&head.fields, line.version)?;
        head.connection = summary.connection;
        head.content_length = summary.length;
        self.trailers.clear();
        self.begin_body(&summary_framing(&summary), head)?;
        self.pending = RequestKind::Nothing;
        Ok(Event::Head)
    }

    /// RFC 9112 §6.3, in its order.
    fn begin_body(&mut self, framing: &ResponseBody, head: &mut ResponseHead) -> Result<(), FaultKind> {
        let status = head.status.as_u16();
        let tunnel = status == 101 || (self.pending == RequestKind::Connect && head.status.is_success());
        if status == 101 && !switches_to_offered(&head.fields, &self.offered) {
            return Err(FaultKind::UnofferedUpgrade);
        }
        // 1. and 2.: HEAD, 204, 304 and opened tunnels have no body, whatever the fields say.
        let bodiless = self.pending == RequestKind::Head || matches!(status, 204 | 304) || tunnel;
        head.body = if bodiless { ResponseBody::None } else { *framing };
        self.state = match head.body {
            ResponseBody::None if tunnel => ResponseState::Tunnel { ended: false },
            ResponseBody::None => ResponseState::Body(Body::Done),
            ResponseBody::Length(length) => ResponseState::Body(Body::with_length(length)),
            ResponseBody::Chunked => ResponseState::Body(Body::Chunked(Chunked::new())),
            ResponseBody::UntilClose => ResponseState::Body(Body::UntilClose),
        };
        Ok(())
    }

    fn fail(&mut self, kind: FaultKind) -> Fault {
        let fault = Fault::upstream(kind);
        self.state = ResponseState::Failed(fault);
        fault
    }
}

/// Whether the `Upgrade` of a `101` names at least one protocol, and only offered ones. A server must name the protocol it switches to (RFC 9110 §7.8).
fn switches_to_offered(fields: &Fields, offered: &[u8]) -> bool {
    let mut named = fields.all("upgrade").flat_map(members).filter(|name| !name.is_empty()).peekable();
    let is_offered = |name: &[u8]| members(offered).any(|ours| ours.eq_ignore_ascii_case(name));
    named.peek().is_some() && named.all(is_offered)
}

fn summary_framing(summary: &HeadSummary<'_>) -> ResponseBody {
    match summary.length {
        _ if summary.chunked => ResponseBody::Chunked,
        Some(length) => ResponseBody::Length(length),
        None => ResponseBody::UntilClose,
    }
}

/// `HTTP-version SP status-code SP [ reason-phrase ]` (RFC 9112 §4), and without the second space, as many servers send it. The reason is checked
/// and dropped.
fn parse_status_line(line: &[u8], block: usize) -> Result<StatusLine, FaultKind> {
    let (version, rest) = line.split_at_checked(8).ok_or(FaultKind::BadStatusLine)?;
    let version = parse_version(version).map_err(|kind| match kind {
        FaultKind::UnsupportedVersion => kind,
        _ => FaultKind::BadStatusLine,
    })?;
    let (status, reason) = match rest {
        [b' ', digits @ ..] => digits.split_at_checked(3).ok_or(FaultKind::BadStatusLine)?,
        _ => return Err(FaultKind::BadStatusLine),
    };
    let no_reason_space = reason.is_empty();
    if !(no_reason_space || reason.first() == Some(&b' ')) || !is_field_value(reason) {
        return Err(FaultKind::BadStatusLine);
    }
    let status = StatusCode::from_bytes(status).map_err(|_| FaultKind::BadStatusLine)?;
    Ok(StatusLine { version, status, no_reason_space, block })
}
