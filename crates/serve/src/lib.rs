//! The server's side of the data plane: listeners, connections of HTTP/1 and HTTP/2, and the [`Handler`] trait that the parts of
//! the front door implement.
//!
//! A request and the means to respond to it are an [`Exchange`], in every version of HTTP. Nothing here knows what an
//! app, a route or a worker is.

mod body_copy;
mod cidr;
mod compression;
mod error_pages;
mod error_response;
mod exchange;
mod field_edits;
mod field_patterns;
mod folder;
mod h1;
mod h2;
mod handler;
mod listener;
mod max_forwards;
mod outcome;
mod own_request;
mod own_response;
mod pass;
mod proxy_header;
mod pump;
mod record;
mod refusals;
mod response_buffer;
mod sendfile;
mod server_exchange;
mod websocket;

pub use body_copy::BodyCopy;
pub use cidr::Cidr;
pub use compression::{COMPRESSION_MEMORY, Compression, CompressionMemory};
pub use error_pages::{ErrorPage, ErrorPages, PageApp, PageError, PageSource, PendingPage};
pub use error_response::{
    ErrorMessage, ErrorResponse, prefers_json, respond_with_body_error, respond_with_error,
    respond_with_page, respond_with_printed, respond_with_refusal, wants_page,
};
pub use exchange::{Exchange, FileProgress};
pub use field_edits::FieldEdits;
pub use field_patterns::FieldPatterns;
pub use folder::{
    AccessGuard, FileLookup, Folder, FolderEntry, FolderListing, OpenFile, RewrittenQuery, Rules, file_name,
};
pub use handler::{
    ConnectionInfo, EarlyHints, FieldNames, Forwarded, ForwardingPolicy, Frontend, Handler, LocalAddress,
    Outcome, PeerProcess, Request, RequestContext, RequestInstants, RequestTimes, RouteContext,
};
pub use listener::{
    ConnectionLimits, ListenerContext, ListenerTls, OpenConnections, ProxyProtocol, StopListening,
    StopSignal, serve, stop_listening,
};
pub use max_forwards::{ALLOW, MAX_FORWARDS, forwards_left, max_forwards, respond_as_final_recipient};
pub use outcome::{BodyError, BodyProgress, ClientLoss, Refusal, ResponseOutcome};
pub use own_request::{OwnResponse, send_own_request};
pub use own_response::{FetchFault, FetchLimits, FetchedResponse, fetch_own_response};
pub use pass::{
    ServerExchange, Tunnel, TunnelBytes, TunnelEnd, UNSENT_ENOUGH, is_for_client, is_read_first,
    offered_protocols, pass_informational, read_first, request_target, response_fields, switch_target,
    websocket_accept,
};
pub use proxy_header::ProxyVersion;
pub use pump::{Backend, BufferedBody, ClientEnd, PartResult, ServerPart, ServerSide, poll_pump};
pub use record::{CallRecord, CallTimes, FailedAttempt};
pub use refusals::{ERROR_RESPONSES, refuse_misdirected, respond_with_head_refusal};
pub use response_buffer::ResponseBuffer;
pub use sendfile::{SendfileField, SendfileRequest, SendfileTarget};
pub use websocket::{Message, WebSocketLimits};
