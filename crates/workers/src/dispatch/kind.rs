//! The kinds of worker: in an app's policy, in the link to a worker, and in the requests for it.
//!
//! | kind | protocol | started by |
//! |---|---|---|
//! | wire | our wire (`spec/wire.md`), on a socket that it inherits | the supervisor |
//! | server | HTTP or FastCGI, at an address from its environment | the supervisor |
//! | external server | FastCGI, at an address in the configuration | another service manager |
//!
//! A reload may change the kind of an app. Until the old generation has drained, requests of one kind may meet workers of the other.

use keepwarm_net::{Endpoint, Socket};

use super::relay::{ExternalServer, Protocol, Server, ServerPolicy, ServerProcess};

/// The kind of an app's workers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkerKind {
    /// They speak our wire.
    Wire,
    /// They are servers by themselves.
    Server(ServerPolicy),
    /// In their place is a server that runs already, at this address.
    External(Endpoint, ServerPolicy),
}

impl WorkerKind {
    /// How they are spoken to, if they are servers.
    pub(super) fn server(&self) -> Option<&ServerPolicy> {
        match self {
            Self::Wire => None,
            Self::Server(server) | Self::External(_, server) => Some(server),
        }
    }

    /// Their protocol, if it is not our wire.
    pub(super) fn protocol(&self) -> Option<&Protocol> {
        self.server().map(|server| &server.protocol)
    }
}

/// How one worker is reached.
#[derive(Debug)]
pub(super) enum LinkKind {
    /// Over our wire; the driver reads from a duplicate of this socket.
    Wire(Socket),
    /// It listens itself: the task of each request that has a slot there connects to it.
    Server(ServerProcess),
    /// The same for an external server.
    External(ExternalServer),
}

impl LinkKind {
    /// The socket to write to.
    pub(super) fn socket(&self) -> Option<&Socket> {
        match self {
            Self::Wire(socket) => Some(socket),
            Self::Server(_) | Self::External(_) => None,
        }
    }

    /// The server, once it is known where it responds.
    pub(super) fn server(&self) -> Option<&Server> {
        match self {
            Self::Wire(_) => None,
            Self::Server(process) => process.server(),
            Self::External(external) => Some(&external.server),
        }
    }

    /// The process that serves.
    pub(super) fn process(&self) -> Option<&ServerProcess> {
        match self {
            Self::Server(process) => Some(process),
            Self::Wire(_) | Self::External(_) => None,
        }
    }

    /// The external server.
    pub(super) fn external(&self) -> Option<&ExternalServer> {
        match self {
            Self::External(external) => Some(external),
            Self::Wire(_) | Self::Server(_) => None,
        }
    }
}

/// What a worker is given of a request.
#[derive(Debug)]
pub(super) enum RequestKind {
    /// A REQUEST frame; its stream id is filled in when it is given.
    Wire(Vec<u8>),
    /// A slot of a server, to which the request's own task then speaks.
    Server,
}

impl RequestKind {
    /// The REQUEST frame; empty for a server.
    pub(super) fn frame(&self) -> &[u8] {
        match self {
            Self::Wire(frame) => frame,
            Self::Server => &[],
        }
    }
}
