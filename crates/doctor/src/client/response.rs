//! A response, with when each part of it came.

use std::time::{Duration, Instant};

use http::StatusCode;
use keepwarm_http1::{Event, Fault, Fields, ResponseHead};

use super::{Connection, Read};

/// Bytes of a body that are kept; the rest is counted.
const KEPT: usize = 64 * 1024;

/// A response longer than this, framing and all, is not read to its end.
const LONGEST: u64 = 32 * 1024 * 1024;

/// Informational responses before a final one, at most: `curl` and browsers stop at fewer.
const INFORMATIONAL: usize = 1000;

/// A response as received. All times count from the call of [`Connection::read_response`].
#[derive(Debug, Clone)]
pub struct Response {
    /// The 1xx responses before the final one.
    pub informational: Vec<Informational>,
    /// The final head.
    pub head: Option<ResponseHead>,
    /// When the final head was whole.
    pub head_at: Option<Duration>,
    /// The body, as far as it is kept.
    pub body: Vec<u8>,
    /// Its length, without framing.
    pub body_len: u64,
    /// The trailers, without those that have no business in a trailer section.
    pub trailers: Fields,
    /// The trailer section as it came, after the line of the last chunk where both came together.
    pub trailer_block: Vec<u8>,
    /// Every read that brought bytes.
    pub reads: Vec<TimedRead>,
    /// How it ended.
    pub outcome: Outcome,
    /// When it ended.
    pub took: Duration,
}

/// A 1xx response.
#[derive(Debug, Clone)]
pub struct Informational {
    /// When it was whole.
    pub at: Duration,
    /// Its status.
    pub status: StatusCode,
    /// Its fields.
    pub fields: Fields,
}

/// A read that brought bytes, and when.
#[derive(Debug, Clone, Copy)]
pub struct TimedRead {
    /// When.
    pub at: Duration,
    /// How many.
    pub bytes: usize,
}

/// How a response ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// As its framing says; a body that runs until the close ends so, too.
    Complete,
    /// Nothing (more) came within the time given.
    Silence,
    /// The connection was closed before the end, or before the first byte.
    Closed,
    /// The connection was reset.
    Reset,
    /// The bytes received are not a valid response.
    Malformed(Fault),
    /// It never ends, as far as was read.
    Endless,
    /// TLS, or the system.
    Broken(String),
}

impl Response {
    /// The final status; nothing if none came.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        self.head.as_ref().map(|head| head.status.as_u16())
    }

    /// A field of the final head, as text.
    #[must_use]
    pub fn field(&self, lower_name: &str) -> Option<String> {
        let value = self.head.as_ref()?.fields.first(lower_name)?;
        Some(String::from_utf8_lossy(value).into_owned())
    }

    /// Whether a whole response came.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.outcome == Outcome::Complete
    }

    /// When the first byte came.
    #[must_use]
    pub fn first_byte(&self) -> Option<Duration> {
        self.reads.first().map(|read| read.at)
    }

    /// In a few words, for evidence: `200 after 3.2 ms`, `nothing within 5.0 s`.
    #[must_use]
    pub fn words(&self) -> String {
        let after = crate::report::time(self.took);
        let bytes: usize = self.reads.iter().map(|read| read.bytes).sum();
        let status = self.status().map(|status| status.to_string());
        let came = match (&status, self.informational.len(), bytes) {
            (Some(status), ..) => status.clone(),
            (None, 0, 0) => "nothing".to_owned(),
            (None, 0, bytes) => format!("{bytes} bytes without a complete head"),
            (None, count, _) => format!("{count} informational but no final response"),
        };
        let nothing = status.is_none() && bytes == 0;
        match &self.outcome {
            Outcome::Complete => format!("{came} after {after}"),
            Outcome::Silence if status.is_none() => format!("{came} within {after}"),
            Outcome::Silence => format!("{came}, and no end within {after}"),
            Outcome::Closed if nothing => format!("the connection closed without a response after {after}"),
            Outcome::Closed => format!("{came}, cut off by a close after {after}"),
            Outcome::Reset if nothing => format!("the connection was reset without a response after {after}"),
            Outcome::Reset => format!("{came}, cut off by a reset after {after}"),
            Outcome::Malformed(fault) if status.is_none() => {
                format!("no valid response ({})", broken_rule(fault))
            }
            Outcome::Malformed(fault) => format!("{came}, then an invalid message ({})", broken_rule(fault)),
            Outcome::Endless => format!("{came}, and no end after {bytes} bytes"),
            Outcome::Broken(why) => format!("a broken connection ({why})"),
        }
    }
}

/// The sentence of a fault, about the server that is examined.
fn broken_rule(fault: &Fault) -> String {
    format!("the server {}", fault.kind.facts().2)
}

impl Connection {
    /// Reads the response to the request begun last, until it is complete, at most `within`. After [`Outcome::Silence`] it can be called again for the
    /// rest of the same response.
    pub async fn read_response(&mut self, within: Duration) -> Response {
        self.read_response_until(within, |_| false).await
    }

    /// The same, but stops as soon as what has come is enough, and then says [`Outcome::Silence`] as well: the rest is read by calling again.
    pub async fn read_response_until(
        &mut self,
        within: Duration,
        enough: impl Fn(&Response) -> bool,
    ) -> Response {
        let begun = Instant::now();
        let mut response = Response {
            informational: Vec::new(),
            head: None,
            head_at: None,
            body: Vec::new(),
            body_len: 0,
            trailers: Fields::new(),
            trailer_block: Vec::new(),
            reads: Vec::new(),
            outcome: Outcome::Complete,
            took: Duration::ZERO,
        };
        let mut received = 0;
        let outcome = loop {
            if let Some(outcome) = self.decode(&mut response, begun) {
                break outcome;
            }
            if received > LONGEST || response.informational.len() > INFORMATIONAL {
                break Outcome::Endless;
            }
            // Where bytes never stop, a read never waits, and its limit is never looked at.
            let left = within.saturating_sub(begun.elapsed());
            if left.is_zero() || enough(&response) {
                break Outcome::Silence;
            }
            match self.read(left).await {
                Read::Bytes(bytes) => {
                    received += bytes as u64;
                    response.reads.push(TimedRead { at: begun.elapsed(), bytes });
                }
                Read::Silence => break Outcome::Silence,
                Read::Reset => break Outcome::Reset,
                Read::Broken(why) => break Outcome::Broken(why),
                Read::Closed => match self.decoder.handle_eof() {
                    Ok(Some(_)) => break Outcome::Complete,
                    Ok(None) | Err(_) => break Outcome::Closed,
                },
            }
        };
        response.outcome = outcome;
        response.took = begun.elapsed();
        response
    }

    /// Decodes the inbox; returns how the response ended, if it did.
    fn decode(&mut self, response: &mut Response, begun: Instant) -> Option<Outcome> {
        let mut used = 0;
        let outcome = loop {
            let input = self.inbox.get(used..).unwrap_or_default();
            let mut head = ResponseHead::default();
            let decoded = match self.decoder.decode(input, &mut head) {
                Ok(decoded) => decoded,
                Err(fault) => break Some(Outcome::Malformed(fault)),
            };
            match decoded.event {
                // Those that are too many are not kept, and the response is called endless.
                Event::Informational if response.informational.len() > INFORMATIONAL => {}
                Event::Informational => response.informational.push(Informational {
                    at: begun.elapsed(),
                    status: head.status,
                    fields: head.fields,
                }),
                Event::Head => {
                    response.head_at = Some(begun.elapsed());
                    response.head = Some(head);
                }
                Event::Data { start, end } => {
                    let data = input.get(start..end).unwrap_or_default();
                    let room = KEPT.saturating_sub(response.body.len()).min(data.len());
                    response.body.extend_from_slice(data.get(..room).unwrap_or_default());
                    response.body_len += data.len() as u64;
                }
                Event::Trailers => response.trailers = self.decoder.trailers().clone(),
                Event::NeedMore | Event::End => {}
            }
            if matches!(decoded.event, Event::Trailers | Event::End) && decoded.consumed > 0 {
                response.trailer_block = input.get(..decoded.consumed).unwrap_or_default().to_vec();
            }
            used += decoded.consumed;
            match decoded.event {
                Event::End => break Some(Outcome::Complete),
                Event::NeedMore => break None,
                _ => {}
            }
        };
        self.inbox.drain(..used.min(self.inbox.len()));
        outcome
    }
}

#[cfg(test)]
impl Response {
    /// A whole response with these fields and no body, for tests of rules.
    pub(crate) fn for_tests(status: u16, fields: &[(&str, &str)]) -> Self {
        let mut head = ResponseHead {
            status: StatusCode::from_u16(status).unwrap_or_default(),
            ..ResponseHead::default()
        };
        for (name, value) in fields {
            head.fields.push(name.to_ascii_lowercase().as_bytes(), value.as_bytes());
        }
        Self {
            informational: Vec::new(),
            head: Some(head),
            head_at: Some(Duration::from_millis(1)),
            body: Vec::new(),
            body_len: 0,
            trailers: Fields::new(),
            trailer_block: Vec::new(),
            reads: vec![TimedRead { at: Duration::from_millis(1), bytes: 100 }],
            outcome: Outcome::Complete,
            took: Duration::from_millis(1),
        }
    }
}
