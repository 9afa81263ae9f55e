//! Writes decoded frames back.

use super::{
    EncodeError, RequestWriter, ResponseWriter, encode_binary, encode_busy, encode_close, encode_credit,
    encode_data, encode_drain, encode_growth, encode_half_close, encode_hello, encode_hijack, encode_inform,
    encode_leaks, encode_ping, encode_pong, encode_reset, encode_samples, encode_text, encode_trailers,
    encode_want, encode_welcome,
};
use crate::frame::{FromWorker, Request, Response, ToWorker, flags};

impl FromWorker<'_> {
    /// Appends the frame: exactly the bytes it was decoded from.
    ///
    /// # Errors
    ///
    /// None for a decoded frame; for one built by hand, the errors of its type's encoder.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        match *self {
            Self::Hello(ref hello) => encode_hello(out, hello, hello.about.pairs()),
            Self::Response(ref response) => encode_response(out, response),
            Self::Data { stream, bytes, end } => encode_data(out, stream, bytes, end),
            Self::Trailers { stream, fields } => encode_trailers(out, stream, fields.pairs()),
            Self::Inform { stream, status, fields } => encode_inform(out, stream, status, fields.pairs()),
            Self::Want { stream } => encode_want(out, stream),
            Self::Credit { stream, amount } => encode_credit(out, stream, amount),
            Self::Reset { stream, code, reason } => encode_reset(out, stream, code, reason),
            Self::Text { stream, bytes, end } => encode_text(out, stream, bytes, end),
            Self::Binary { stream, bytes, end } => encode_binary(out, stream, bytes, end),
            Self::Close { stream, code, reason } => encode_close(out, stream, code, reason),
            Self::Hijack { stream } => encode_hijack(out, stream),
            Self::Pong { payload } => {
                encode_pong(out, payload);
                Ok(())
            }
            Self::Drain => {
                encode_drain(out);
                Ok(())
            }
            Self::Busy { end } => {
                encode_busy(out, end);
                Ok(())
            }
            Self::Samples(ref samples) => encode_samples(out, samples),
            Self::Growth(ref growth) => encode_growth(out, growth),
        }
    }
}

impl ToWorker<'_> {
    /// Appends the frame: exactly the bytes it was decoded from.
    ///
    /// # Errors
    ///
    /// As [`FromWorker::encode`].
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        match *self {
            Self::Welcome(ref welcome) => encode_welcome(out, welcome, welcome.about.pairs()),
            Self::Request(ref request) => encode_request(out, request),
            Self::Data { stream, bytes, end } => encode_data(out, stream, bytes, end),
            Self::Trailers { stream, fields } => encode_trailers(out, stream, fields.pairs()),
            Self::Credit { stream, amount } => encode_credit(out, stream, amount),
            Self::Reset { stream, code, reason } => encode_reset(out, stream, code, reason),
            Self::HalfClose { stream } => encode_half_close(out, stream),
            Self::Text { stream, bytes, end } => encode_text(out, stream, bytes, end),
            Self::Binary { stream, bytes, end } => encode_binary(out, stream, bytes, end),
            Self::Close { stream, code, reason } => encode_close(out, stream, code, reason),
            Self::Ping { payload } => {
                encode_ping(out, payload);
                Ok(())
            }
            Self::Drain => {
                encode_drain(out);
                Ok(())
            }
            Self::Leaks { end } => {
                encode_leaks(out, end);
                Ok(())
            }
        }
    }
}

fn encode_request(out: &mut Vec<u8>, request: &Request<'_>) -> Result<(), EncodeError> {
    let mut writer = RequestWriter::begin(out, request.stream, request.content_length);
    request.strings.iter().for_each(|string| writer.string(string));
    writer.body(request.body);
    writer.finish(request.flags)
}

fn encode_response(out: &mut Vec<u8>, response: &Response<'_>) -> Result<(), EncodeError> {
    let mut writer = ResponseWriter::begin(out, response.stream, response.status);
    response.fields.pairs().for_each(|(name, value)| writer.field(name, value));
    writer.body(response.body);
    let end = if response.end { flags::END } else { 0 };
    let close = if response.close { flags::CLOSE } else { 0 };
    writer.finish(end | close)
}
