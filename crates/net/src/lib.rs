//! Sockets, buffers, timers and clients of the data plane: the base of the server's side (`keepwarm-serve`), the back door
//! and the doctor.
//!
//! One current-thread runtime per data-plane thread ([`DataPlane`]); a connection lives on the thread that
//! accepted or opened it. Nothing here knows what a request to Keepwarm, an app, a route or a worker is.

#[cfg(not(feature = "simulation"))]
mod bound;
mod buffer;
mod call;
mod client;
mod connect;
mod deadline;
#[cfg(not(feature = "simulation"))]
pub mod disk;
mod endpoint;
mod h1;
pub mod h2;
mod io;
mod kernel;
mod memory_stream;
mod pool;
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
mod write_buffer;

pub use bound::{BindAddress, ListeningSocket, bind, bind_beside};
pub use buffer::ReadBuffer;
pub use call::{Call, CallHead, Calls, Protocol, SwitchTarget};
pub use client::{Client, ClientError, Codec, IdleState, ResponsePart, ServerFault};
pub use connect::{AcquireError, Dial, DialTimes, connect_any};
#[cfg(not(feature = "simulation"))]
pub use deadline::thread_time;
pub use deadline::{Deadlines, WaitKind, http_date, now, run_ticker};
pub use endpoint::Endpoint;
pub use h1::{Http1, RequestLine};
pub use h2::{Http2Call, Http2Pool};
pub use io::Io;
pub use keepwarm_http1::Limits as SyntaxLimits;
#[cfg(not(feature = "simulation"))]
pub use kernel::peer_user;
pub use kernel::{TcpFacts, tcp_facts};
pub use pool::{
    ConnectionNeed, EndpointMeter, Lease, Pool, PoolSettings, PoolState, PoolTotals, Queue, QueueGuard,
};
pub use restart::{restart_pause, restarted};
pub use runtime::{
    DataPlane, Remote, corked, is_corked, keep_blocking_threads, spawn_local, start_blocking_thread,
    thread_index,
};
pub use scheme::Scheme;
#[cfg(feature = "simulation")]
pub use simulation::turn;
pub use socket::{
    Socket, WatchedSocket, accept, adopt, has_waiting, local_address, peer_process, send, watch,
};
pub use spill::{SPILL, Spill, SpillTotals};
pub use spool::{Spool, SpoolError};
pub use tls::{
    AcceptFailure, CaSource, Certificate, CertificateFacts, CertificateFiles, CertificateOrigin,
    ChallengeCertificates, ClientAuth, ClientIdentity, ClientTls, Coverage, HandshakeFacts, KeyKind,
    OnDemandNames, Pem, PlaintextClient, ServerHandshake, ServerTls, ServerTlsSettings, ServerTlsState,
    TicketKeys, TicketSecret, TlsError, TlsPart, TlsProfile, TlsSettings, TlsSetupError, TlsVersion,
    UnknownNames, accept as accept_tls,
};
pub use transport::{Transport, TransportStream, WriteProgress};
pub use write_buffer::WriteBuffer;

#[cfg(feature = "simulation")]
pub use simulation::disk;
#[cfg(feature = "simulation")]
use simulation::{bound, socket};

/// Does nothing: the simulation counts the steps of code that moves bytes here, to find loops that never yield.
#[cfg(not(feature = "simulation"))]
#[inline(always)]
pub fn turn() {}
