//! The client's side of a connection.
//!
//! In this file: the order of a response's parts, and which framing its head means. Not in it: how lines and bodies are read (`lines`, `body`), and
//! what is done with a broken connection (the pool).

use http::{Method, StatusCode};

use crate::body::Body;
use crate::bytes::{is_field_value, members};
use crate::chunked::Chunked;
use crate::fault::{Fault, FaultKind};
use crate::field_lines::{self, Syntax};
use crate::fields::Fields;
use crate::head::{ConnectionWish, Mended, ResponseBody, ResponseHead, Version};
use crate::limits::Limits;
use crate::lines::{Bounds, LineScan};
use crate::survey::Survey;
use crate::target::parse_version;
use crate::{Decoded, Event};

/// Decodes the responses of one connection.
///
/// For each request, once the response before it has ended: [`begin`](Self::begin), and [`allow_upgrade`](Self::allow_upgrade) if the request asked
/// for one. Then call [`decode`](Self::decode) as with [`RequestDecoder`](crate::RequestDecoder). A response is any number of `Informational`, then `Head`,
/// any number of `Data`, at most one `Trailers`, and one `End`. Bytes that come without a request are a fault: so are bytes behind the end of a response, once
/// `decode` sees them. When the peer closes, call [`handle_eof`](Self::handle_eof). A [`Fault`] is final.
///
/// After a response that opens a tunnel (`101`, or `2xx` to `CONNECT`), [`is_tunnel`](Self::is_tunnel) holds and the bytes are no longer this decoder's.
#[derive(Debug)]
pub struct ResponseDecoder {
    limits: Limits,
    state: State,
    asked: Asked,
    /// What the request offered to switch to, as its `Upgrade` lists it; empty: nothing.
    offered: Vec<u8>,
    trailers: Fields,
}

/// The request the next response belongs to, as far as it steers the response's framing.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Asked {
    Nothing,
    Head,
    Connect,
    Other,
}

#[derive(Copy, Clone, Debug)]
enum State {
    /// Between responses, or in a head that has not wholly come. `block` is where the fields begin, once the status line is whole.
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

const FRESH: State =
    State::Head { scan: LineScan { searched: 0, line_start: 0, lines: 0, bare_lf: false }, line: None };

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
        Self { limits, state: FRESH, asked: Asked::Nothing, offered: Vec::new(), trailers: Fields::new() }
    }

    /// A request was (or is about to be) sent; the next final response is to it. Also withdraws [`allow_upgrade`](Self::allow_upgrade).
    pub fn begin(&mut self, method: &Method) {
        self.asked = match *method {
            Method::HEAD => Asked::Head,
            Method::CONNECT => Asked::Connect,
            _ => Asked::Other,
        };
        self.offered.clear();
    }

    /// What the request offers to switch to, as its `Upgrade` lists it: `101` is a response to it if its own `Upgrade` names nothing else (RFC 9110 §7.8).
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
        matches!(self.state, State::Tunnel { .. })
    }

    /// Whether no response is due or in progress: the connection may be reused, if the last head said so and no byte waits.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.asked == Asked::Nothing && matches!(self.state, State::Head { .. })
    }

    /// The next event. `head` is cleared and filled when, and only when, the event is [`Event::Head`] or [`Event::Informational`].
    ///
    /// # Errors
    ///
    /// The upstream's fault. The connection is of no further use.
    pub fn decode(&mut self, input: &[u8], head: &mut ResponseHead) -> Result<Decoded, Fault> {
        let result = match &mut self.state {
            State::Failed(fault) => return Err(*fault),
            State::Head { .. } => self.decode_head(input, head),
            State::Body(body) => body.decode(input, usize::MAX, &self.limits, &mut self.trailers),
            State::Tunnel { ended: ended @ false } => {
                *ended = true;
                return Ok(Decoded { consumed: 0, event: Event::End });
            }
            State::Tunnel { ended: true } => Err(FaultKind::Unsolicited),
        };
        match result {
            Ok(decoded) => {
                if decoded.event == Event::End {
                    self.state = FRESH;
                }
                Ok(decoded)
            }
            Err(kind) => Err(self.fail(kind)),
        }
    }

    /// The upstream closed. `Some(End)` if that is what ends the response, `None` if none was due.
    ///
    /// # Errors
    ///
    /// [`FaultKind::ClosedWithoutResponse`] when a response is due and no byte of it came (which is what decides whether a retry can be safe);
    /// [`FaultKind::Truncated`] inside a response.
    pub fn handle_eof(&mut self) -> Result<Option<Event>, Fault> {
        match &self.state {
            State::Failed(fault) => Err(*fault),
            State::Body(Body::UntilClose | Body::Done) | State::Tunnel { ended: false } => {
                self.state = FRESH;
                Ok(Some(Event::End))
            }
            State::Tunnel { ended: true } => Ok(None),
            State::Head { scan, .. } if !scan.has_begun() => match self.asked {
                Asked::Nothing => Ok(None),
                _ => Err(self.fail(FaultKind::ClosedWithoutResponse)),
            },
            State::Head { .. } | State::Body(_) => Err(self.fail(FaultKind::Truncated)),
        }
    }

    fn decode_head(&mut self, input: &[u8], head: &mut ResponseHead) -> Result<Decoded, FaultKind> {
        const NEED_MORE: Decoded = Decoded { consumed: 0, event: Event::NeedMore };
        let State::Head { scan, line } = &mut self.state else { return Ok(NEED_MORE) };
        if input.is_empty() {
            return Ok(NEED_MORE);
        }
        if self.asked == Asked::Nothing {
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
        let bounds = Bounds {
            block: self.limits.header_block,
            fields: self.limits.fields,
            block_fault: FaultKind::HeaderBlockTooLarge,
            fields_fault: FaultKind::TooManyFields,
            bare_lf: true,
        };
        let Some(end) = scan.block_end(input, status_line.block, &bounds)? else { return Ok(NEED_MORE) };
        let bare_lf = scan.bare_lf;
        self.state = FRESH;
        let block = input.get(status_line.block..end).unwrap_or_default();
        let event = self.take_head(status_line, block, head)?;
        head.mended.bare_lf = bare_lf;
        Ok(Decoded { consumed: end, event })
    }

    /// Fills the head, and goes on to what follows it.
    fn take_head(
        &mut self,
        line: StatusLine,
        block: &[u8],
        head: &mut ResponseHead,
    ) -> Result<Event, FaultKind> {
        head.fields.clear();
        let mended = field_lines::parse(block, &mut head.fields, Syntax::Mend)?;
        head.mended = Mended { no_reason_space: line.no_reason_space, ..mended };
        head.status = line.status;
        head.version = line.version;
        if line.status.is_informational() && line.status != StatusCode::SWITCHING_PROTOCOLS {
            head.wants = ConnectionWish::default();
            head.content_length = None;
            head.body = ResponseBody::None;
            return Ok(Event::Informational);
        }
        let survey = Survey::of(&head.fields, line.version)?;
        head.wants = survey.wants;
        head.content_length = survey.length;
        self.trailers.clear();
        self.begin_body(&survey_framing(&survey), head)?;
        self.asked = Asked::Nothing;
        Ok(Event::Head)
    }

    /// RFC 9112 §6.3, in its order.
    fn begin_body(&mut self, framing: &ResponseBody, head: &mut ResponseHead) -> Result<(), FaultKind> {
        let status = head.status.as_u16();
        let tunnel = status == 101 || (self.asked == Asked::Connect && head.status.is_success());
        if status == 101 && !switches_to_offered(&head.fields, &self.offered) {
            return Err(FaultKind::UnaskedUpgrade);
        }
        // 1. and 2.: HEAD, 204, 304 and opened tunnels have no body, whatever the fields say.
        let bodiless = self.asked == Asked::Head || matches!(status, 204 | 304) || tunnel;
        head.body = if bodiless { ResponseBody::None } else { *framing };
        self.state = match head.body {
            ResponseBody::None if tunnel => State::Tunnel { ended: false },
            ResponseBody::None => State::Body(Body::Done),
            ResponseBody::Length(length) => State::Body(Body::with_length(length)),
            ResponseBody::Chunked => State::Body(Body::Chunked(Chunked::new())),
            ResponseBody::UntilClose => State::Body(Body::UntilClose),
        };
        Ok(())
    }

    fn fail(&mut self, kind: FaultKind) -> Fault {
        let fault = Fault::upstream(kind);
        self.state = State::Failed(fault);
        fault
    }
}

/// Whether the `Upgrade` of a `101` names something, and nothing that was not offered. A server must name what it switches to (RFC 9110 §7.8).
fn switches_to_offered(fields: &Fields, offered: &[u8]) -> bool {
    let mut named = fields.all("upgrade").flat_map(members).filter(|name| !name.is_empty()).peekable();
    let is_offered = |name: &[u8]| members(offered).any(|ours| ours.eq_ignore_ascii_case(name));
    named.peek().is_some() && named.all(is_offered)
}

fn survey_framing(survey: &Survey<'_>) -> ResponseBody {
    match survey.length {
        _ if survey.chunked => ResponseBody::Chunked,
        Some(length) => ResponseBody::Length(length),
        None => ResponseBody::UntilClose,
    }
}

/// `HTTP-version SP status-code SP [ reason-phrase ]` (RFC 9112 §4), and without the second blank, as many servers send it. The reason is checked
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
