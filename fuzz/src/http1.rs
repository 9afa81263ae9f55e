//! Both decoders, fed in pieces, and their results in a form that does not depend on the cuts.

use http::Method;
use keepwarm_http1::{
    Decoded, Event, Fault, Limits, ListenerKind, RequestDecoder, RequestHead, ResponseDecoder, ResponseHead,
};

/// An event, with the data of a body joined.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TraceEvent {
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

/// All results of the server's side for the pieces, and for the end after them.
pub fn requests(limits: Limits, listener: ListenerKind, pieces: &[&[u8]]) -> Vec<TraceEvent> {
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
                Event::Head => feed.trace.push(TraceEvent::Head(format!("{head:?}"))),
                Event::Trailers => feed.trace.push(TraceEvent::Trailers(format!("{:?}", decoder.trailers()))),
                Event::Informational => unreachable!("not the server's"),
                Event::Data { .. } | Event::End => {}
            }
            assert_eq!(decoder.in_body(), decoded.event != Event::End);
        }
    }
    match decoder.handle_eof() {
        Ok(()) => feed.trace,
        Err(fault) => feed.failed(fault),
    }
}

/// All results of the client's side for the responses to these requests.
pub fn responses(limits: Limits, requests: &[(Method, bool)], pieces: &[&[u8]]) -> Vec<TraceEvent> {
    let mut decoder = ResponseDecoder::new(limits);
    let mut head = ResponseHead::default();
    let mut feed = Feed::default();
    let mut requests = requests.iter();
    let mut ask = |decoder: &mut ResponseDecoder| {
        if let Some((method, upgrade)) = requests.next() {
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
                Event::Head => feed.trace.push(TraceEvent::Head(format!("{head:?}"))),
                Event::Informational => feed.trace.push(TraceEvent::Informational(format!("{head:?}"))),
                Event::Trailers => feed.trace.push(TraceEvent::Trailers(format!("{:?}", decoder.trailers()))),
                Event::End if decoder.is_tunnel() => {
                    feed.trace.push(TraceEvent::Tunnel(feed.consumed));
                    return feed.trace;
                }
                Event::End => ask(&mut decoder),
                Event::Data { .. } => {}
            }
        }
    }
    match decoder.handle_eof() {
        Ok(None) => {}
        Ok(Some(_)) => feed.trace.push(TraceEvent::EndByClose),
        Err(fault) => return feed.failed(fault),
    }
    feed.trace
}

#[derive(Default)]
struct Feed {
    buffer: Vec<u8>,
    consumed: usize,
    trace: Vec<TraceEvent>,
}

impl Feed {
    fn take(&mut self, decoded: Decoded) -> Event {
        assert!(decoded.consumed <= self.buffer.len());
        if let Event::Data { start, end } = decoded.event {
            assert!(start < end && end <= decoded.consumed);
            let data = &self.buffer[start..end];
            match self.trace.last_mut() {
                Some(TraceEvent::Data(before)) => before.extend_from_slice(data),
                _ => self.trace.push(TraceEvent::Data(data.to_vec())),
            }
        }
        self.buffer.drain(..decoded.consumed);
        self.consumed += decoded.consumed;
        if decoded.event == Event::End {
            self.trace.push(TraceEvent::End(self.consumed));
        }
        decoded.event
    }

    fn failed(mut self, fault: Fault) -> Vec<TraceEvent> {
        assert!((400..=505).contains(&fault.status()));
        self.trace.push(TraceEvent::Fault(fault.name()));
        self.trace
    }
}
