//! HTTP/1.x messages, sans-IO: bytes in, events out, both roles.
//!
//! * [`RequestDecoder`] is the server's side, [`ResponseDecoder`] the client's. Both take bytes and return [`Event`]s; neither
//!   knows about sockets, clocks or buffers.
//! * [`plan`] decides how a response is framed and whether its connection is kept; the `encode_*` functions write the result.
//! * [`Fault`] is a fault of a peer: the status of the response to it, and a stable name.
//!
//! `spec/http.md` lists the rules, with their sections of RFC 9110 and RFC 9112, their places here and their tests.

mod app_fields;
mod body;
mod bytes;
mod chunked;
mod encode;
mod fault;
mod field_lines;
mod fields;
mod from_http2;
mod head;
mod head_summary;
mod hop_by_hop;
mod limits;
mod lines;
mod path;
mod plan;
mod request;
mod response;
mod target;

pub use app_fields::{AppFields, BadField, BadFieldReason, is_stream, scan_app_fields};
pub use bytes::trim;
pub use encode::{
    CHUNK_TAIL, LAST_CHUNK, RequestOptions, encode_chunk_head, encode_continue, encode_informational,
    encode_request_head, encode_response_head, encode_trailers,
};
pub use fault::{Fault, FaultKind, Peer};
pub use fields::Fields;
pub use from_http2::{ExtendedConnect, Http2Head};
pub use head::{
    ConnectionOptions, Normalizations, Refusal, RequestBody, RequestHead, ResponseBody, ResponseHead,
    TargetForm, Version,
};
pub use hop_by_hop::{HopByHop, cgi_safe_name, trailer_allowed};
pub use limits::Limits;
pub use path::{PathFault, PathScan, normalize_path, path_readings, percent_decode, scan_path};
pub use plan::{ConnectionHeader, Plan, RequestFacts, ResponseFacts, ResponseFraming, ResponseLength, plan};
pub use request::{ListenerKind, RequestDecoder};
pub use response::ResponseDecoder;

/// Result of one call of a decoder: the event, and how many bytes of the input are consumed.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Decoded {
    /// Bytes of the input that the caller drops before the next call. May be above zero with any event, [`Event::NeedMore`] included.
    pub consumed: usize,
    /// The event.
    pub event: Event,
}

/// The parts of a message in the order they come: `Informational*`, `Head`, `Data*`, `Trailers?`, `End`.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The decoder needs more bytes than this input has, or room for the data at its front
    /// ([`RequestDecoder::decode_within`]).
    NeedMore,
    /// A 1xx response (never 101) is in the head; the final response is still to come. Client role only.
    Informational,
    /// The head is filled in.
    Head,
    /// Bytes of the body: this range of the input; `start < end <= consumed`.
    Data {
        /// Offset of the first byte.
        start: usize,
        /// Offset after the last byte.
        end: usize,
    },
    /// Trailers are in the decoder's `trailers()`.
    Trailers,
    /// The message is complete. One for each message, with or without a body.
    End,
}
