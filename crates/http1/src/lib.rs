//! HTTP/1.x messages, sans-IO: bytes in, events out, both roles.
//!
//! * [`RequestDecoder`] is the server's side, [`ResponseDecoder`] the client's. Both take bytes and give [`Event`]s; neither
//!   knows of sockets, clocks or buffers.
//! * [`plan`] decides how a response is framed and whether its connection is kept; the `encode_*` functions write what was decided.
//! * [`Fault`] is what a peer did wrong, the status to respond with, and a stable name.
//!
//! The rules, with their sections of RFC 9110 and RFC 9112, their places here and their tests, are listed in `spec/http.md`.

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
mod hop_by_hop;
mod limits;
mod lines;
mod path;
mod plan;
mod request;
mod response;
mod survey;
mod target;

pub use app_fields::{AppFields, BadField, BadFieldReason, scan_app_fields};
pub use encode::{
    CHUNK_TAIL, LAST_CHUNK, RequestOptions, encode_chunk_head, encode_continue, encode_informational,
    encode_request_head, encode_response_head, encode_trailers,
};
pub use fault::{Fault, FaultKind, Peer};
pub use fields::Fields;
pub use from_http2::Http2Head;
pub use head::{
    ConnectionWish, Mended, Refusal, RequestBody, RequestHead, ResponseBody, ResponseHead, TargetForm,
    Version,
};
pub use hop_by_hop::{HopByHop, cgi_safe_name, trailer_allowed};
pub use limits::Limits;
pub use path::{PathFault, normalize_path, percent_decode};
pub use plan::{ConnectionOption, Plan, RequestFacts, ResponseFacts, ResponseFraming, ResponseLength, plan};
pub use request::{Listener, RequestDecoder};
pub use response::ResponseDecoder;

/// What one call of a decoder found, and how many bytes of its input are done with.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Decoded {
    /// Bytes of the input the caller drops before it calls again. May be over zero with any event, [`Event::NeedMore`] included.
    pub consumed: usize,
    /// What was found.
    pub event: Event,
}

/// The parts of a message in the order they come: `Informational*`, `Head`, `Data*`, `Trailers?`, `End`.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// Nothing further can be said before more bytes come (not even with the rest of this input), or before there is room for what stands at its front
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
        /// Offset behind the last byte.
        end: usize,
    },
    /// Trailers came, and are in the decoder's `trailers()`.
    Trailers,
    /// The message is complete. Comes once for each message, one without a body included.
    End,
}
