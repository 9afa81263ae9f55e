//! Sockets, buffers, connection drivers and deadlines of the data plane, and the [`Handler`] that the front
//! door's parts implement.
//!
//! One current-thread runtime per data-plane thread ([`DataPlane`]); a connection lives on the thread that
//! accepted it. Nothing here knows what an app, a route or a worker is.

mod buffer;
mod call;
mod client;
mod connect;
mod deadline;
mod endpoint;
mod error_answer;
mod exchange;
mod field_edits;
mod folder;
mod h1;
mod h2;
mod handed;
mod handler;
mod io;
mod kernel;
mod listener;
mod out;
mod pass;
mod pool;
mod record;
mod runtime;
mod spool;
mod tls;
mod transport;

pub use buffer::ReadBuffer;
pub use call::{Call, CallHead, Calls, Protocol};
pub use client::{Answer, Client, ClientError, Codec, ServerFault};
pub use connect::{AcquireError, Dial, DialTimes, connect_any};
pub use deadline::{Deadlines, Wait, now, run_ticker};
pub use endpoint::Endpoint;
pub use error_answer::{answer_error, answer_refusal, sentence};
pub use exchange::{BodyError, BodyProgress, Exchange, Fate, Gone, Refusal};
pub use field_edits::FieldEdits;
pub use folder::{Folder, Found, OpenFile, file_name, is_script_name};
pub use h1::{Http1, Message, RequestLine, WebSocketLimits};
pub use h2::{Http2Call, Http2Pool};
pub use handed::{HandedFile, HandedName};
pub use handler::{EarlyHints, Forwarded, Handler, Local, Outcome, Passing, Peer, Request, Scheme, Times};
pub use io::Io;
pub use keepwarm_http1::Limits as SyntaxLimits;
pub use kernel::{TcpFacts, tcp_facts, watch};
pub use listener::{
    BindTo, Bound, ConnectionLimits, ListenerContext, OpenConnections, StopListening, StopSignal, bind,
    serve, stop_listening,
};
pub use pass::{
    FarEnd, Tunnel, TunnelEnd, UNSENT_ENOUGH, answer_fields, is_read_first, offered_protocols,
    pass_informational, read_first, request_target,
};
pub use pool::{Lease, MeterOf, Need, Pool, PoolSettings, PoolState, PoolTotals, Queue, Queued};
pub use record::{CallRecord, CallTimes, FailedAttempt};
pub use runtime::{DataPlane, Remote, thread_index};
pub use spool::{Spool, SpoolError};
pub use tls::{
    CaSource, ClientTls, HandshakeFacts, Pem, TlsError, TlsPart, TlsSettings, TlsSetupError, TlsVersion,
};
pub use transport::{Transport, TransportStream, Written};
