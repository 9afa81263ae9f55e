//! Both decoders, fed in pieces, and what they said in a form that does not depend on the cuts.

use http::Method;
use keepwarm_http1::{
    Decoded, Event, Fault, Limits, ListenerKind, RequestDecoder, RequestHead, ResponseDecoder, ResponseHead,
};

/// An event, with the data of a body joined.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Said {
    Head(String),
    Informational(String),
    Data(Vec<u8>),
    Trailers(String),
    /// With the offset, in all bytes fed, at which the message ended.
    End(usize),
    EndByClose,
    Fault(&'static str),
    Tunnel(usize),
}

/// Small enough for a fuzzer to get past.
pub const SMALL: Limits = Limits {
    request_line: 64,
    header_block: 256,
    fields: 6,
    trailer_block: 64,
    trailer_fields: 2,
    chunk_extensions: 16,
    raw_targets: false,
};

/// Everything the server's side said of the pieces, and of the end after them.
pub fn requests(limits: Limits, listener: ListenerKind, pieces: &[&[u8]]) -> Vec<Said> {
    let mut decoder = RequestDecoder::with_kind(limits, listener);
    let mut head = RequestHead::default();
    let mut feed = Feed::default();
    for piece in pieces {
        feed.buffer.extend_from_slice(piece);
        loop {
            let decoded = match decoder.decode(&feed.buffer, &mut head) {
                Ok(decoded) => decoded,
                Err(fault) => return feed.failed(fault),
            };
            match feed.take(decoded) {
                Event::NeedMore => break,
                Event::Head => feed.said.push(Said::Head(format!("{head:?}"))),
                Event::Trailers => feed.said.push(Said::Trailers(format!("{:?}", decoder.trailers()))),
                Event::Informational => unreachable!("not the server's"),
                Event::Data { .. } | Event::End => {}
            }
            assert_eq!(decoder.in_body(), decoded.event != Event::End);
        }
    }
    match decoder.handle_eof() {
        Ok(()) => feed.said,
        Err(fault) => feed.failed(fault),
    }
}

/// Everything the client's side said of the responses to these requests.
pub fn responses(limits: Limits, asked: &[(Method, bool)], pieces: &[&[u8]]) -> Vec<Said> {
    let mut decoder = ResponseDecoder::new(limits);
    let mut head = ResponseHead::default();
    let mut feed = Feed::default();
    let mut asked = asked.iter();
    let mut ask = |decoder: &mut ResponseDecoder| {
        if let Some((method, upgrade)) = asked.next() {
            decoder.begin(method);
            decoder.allow_upgrade(upgrade.then_some(b"websocket"));
        }
    };
    ask(&mut decoder);
    for piece in pieces {
        feed.buffer.extend_from_slice(piece);
        loop {
            let decoded = match decoder.decode(&feed.buffer, &mut head) {
                Ok(decoded) => decoded,
                Err(fault) => return feed.failed(fault),
            };
            match feed.take(decoded) {
                Event::NeedMore => break,
                Event::Head => feed.said.push(Said::Head(format!("{head:?}"))),
                Event::Informational => feed.said.push(Said::Informational(format!("{head:?}"))),
                Event::Trailers => feed.said.push(Said::Trailers(format!("{:?}", decoder.trailers()))),
                Event::End if decoder.is_tunnel() => {
                    feed.said.push(Said::Tunnel(feed.consumed));
                    return feed.said;
                }
                Event::End => ask(&mut decoder),
                Event::Data { .. } => {}
            }
        }
    }
    match decoder.handle_eof() {
        Ok(None) => {}
        Ok(Some(_)) => feed.said.push(Said::EndByClose),
        Err(fault) => return feed.failed(fault),
    }
    feed.said
}

#[derive(Default)]
struct Feed {
    buffer: Vec<u8>,
    consumed: usize,
    said: Vec<Said>,
}

impl Feed {
    fn take(&mut self, decoded: Decoded) -> Event {
        assert!(decoded.consumed <= self.buffer.len());
        if let Event::Data { start, end } = decoded.event {
            assert!(start < end && end <= decoded.consumed);
            let data = &self.buffer[start..end];
            match self.said.last_mut() {
                Some(Said::Data(before)) => before.extend_from_slice(data),
                _ => self.said.push(Said::Data(data.to_vec())),
            }
        }
        self.buffer.drain(..decoded.consumed);
        self.consumed += decoded.consumed;
        if decoded.event == Event::End {
            self.said.push(Said::End(self.consumed));
        }
        decoded.event
    }

    fn failed(mut self, fault: Fault) -> Vec<Said> {
        assert!((400..=505).contains(&fault.status()));
        self.said.push(Said::Fault(fault.name()));
        self.said
    }
}
