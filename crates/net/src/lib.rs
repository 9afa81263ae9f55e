//! Sockets, buffers, connection drivers and deadlines of the data plane, and the [`Handler`] that the front
//! door's parts implement.
//!
//! One current-thread runtime per data-plane thread ([`DataPlane`]); a connection lives on the thread that
//! accepted it. Nothing here knows what an app, a route or a worker is.

#[cfg(not(feature = "simulation"))]
mod bound;
mod buffer;
mod call;
mod client;
mod connect;
mod deadline;
#[cfg(not(feature = "simulation"))]
mod disk;
mod endpoint;
mod error_response;
mod exchange;
mod far_end;
mod field_edits;
mod folder;
mod h1;
mod h2;
mod handed;
mod handler;
mod io;
mod kernel;
mod listener;
mod max_forwards;
mod out;
mod pass;
mod pool;
mod record;
mod response_buffer;
mod restart;
mod runtime;
mod scheme;
#[cfg(feature = "simulation")]
pub mod simulation;
#[cfg(not(feature = "simulation"))]
mod socket;
mod spill;
mod spool;
mod tls;
mod transport;
mod websocket;

pub use bound::{BindTo, Bound, bind, bind_beside};
pub use buffer::ReadBuffer;
pub use call::{Call, CallHead, Calls, Protocol};
pub use client::{Client, ClientError, Codec, ResponsePart, ServerFault};
pub use connect::{AcquireError, Dial, DialTimes, connect_any};
pub use deadline::{Deadlines, Wait, now, run_ticker};
pub use endpoint::Endpoint;
pub use error_response::{
    respond_with_error, respond_with_printed, respond_with_refusal, sentence, wants_page,
};
pub use exchange::{BodyError, BodyProgress, Exchange, Fate, Gone, Refusal};
pub use field_edits::FieldEdits;
pub use folder::{Folder, Found, Guard, OpenFile, RewrittenQuery, Rules, file_name};
pub use h1::{Http1, Message, RequestLine, WebSocketLimits};
pub use h2::{Http2Call, Http2Pool};
pub use handed::{HandedFile, HandedName};
pub use handler::{
    EarlyHints, FieldNames, Forwarded, Handler, Local, Outcome, Passing, Peer, Request, Times,
};
pub use io::Io;
pub use keepwarm_http1::Limits as SyntaxLimits;
pub use kernel::{TcpFacts, tcp_facts};
pub use listener::{
    ConnectionLimits, ListenerContext, OpenConnections, StopListening, StopSignal, serve, stop_listening,
};
pub use max_forwards::{ALLOW, MAX_FORWARDS, forwards_left, max_forwards, respond_as_final_recipient};
pub use pass::{
    FarEnd, Tunnel, TunnelEnd, UNSENT_ENOUGH, is_for_client, is_read_first, offered_protocols,
    pass_informational, read_first, request_target, response_fields,
};
pub use pool::{Lease, MeterOf, Need, Pool, PoolSettings, PoolState, PoolTotals, Queue, Queued};
pub use record::{CallRecord, CallTimes, FailedAttempt};
pub use response_buffer::{Moved, ResponseBuffer};
pub use restart::{restart_pause, restarted};
pub use runtime::{DataPlane, Remote, spawn_local, thread_index};
pub use scheme::Scheme;
#[cfg(feature = "simulation")]
pub use simulation::turn;
pub use socket::{Socket, Watch, adopt, send, watch};
pub use spill::{SPILL, Spill, SpillTotals};
pub use spool::{Spool, SpoolError};
pub use tls::{
    CaSource, ClientTls, HandshakeFacts, Pem, TlsError, TlsPart, TlsSettings, TlsSetupError, TlsVersion,
};
pub use transport::{Transport, TransportStream, Written};

#[cfg(feature = "simulation")]
use simulation::{bound, disk, socket};

/// Nothing: the simulation counts the steps of whoever moves bytes here, to find loops that never yield.
#[cfg(not(feature = "simulation"))]
#[inline(always)]
pub fn turn() {}
