//! Outcomes of an exchange: of its request's body, of a refused request, of its client, of its response.

use std::fmt::Display;

use keepwarm_http1::{Fault, PathFault};
use keepwarm_net::SpoolError;

use crate::{ErrorResponse, refusals};

/// The progress of the request's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyProgress {
    /// Bytes were appended; there may be more.
    More,
    /// The body has ended.
    Done,
}

/// Why the body of a request will not be complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyError {
    /// The client has gone.
    ClientLost(ClientLoss),
    /// Its framing is faulty.
    Fault(Fault),
    /// It exceeds the route's limit.
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// It comes too slowly.
    TooSlow,
    /// It should have been buffered whole, and its spill file failed.
    NotKept,
    /// It should have been buffered whole, and spools have reached their limit (`server.limits.spill`).
    NoRoom,
}

impl BodyError {
    /// The error response; `None` when no client is left to read it.
    pub fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::ClientLost(_) => None,
            Self::Fault(fault) => Some(fault.into()),
            Self::TooLarge { limit } => Some(Refusal::body_too_large(*limit)),
            Self::TooSlow => Some(Refusal::of(&refusals::BODY_TOO_SLOW, &[])),
            Self::NotKept => Some(Refusal::of(&refusals::BODY_NOT_KEPT, &[])),
            Self::NoRoom => Some(Refusal::of(&refusals::SPILL_FULL, &[])),
        }
    }
}

impl BodyError {
    /// How the client was lost, where that is why.
    pub fn client_loss(&self) -> ClientLoss {
        match self {
            Self::ClientLost(gone) => *gone,
            _ => ClientLoss::Closed,
        }
    }
}

impl From<&SpoolError> for BodyError {
    fn from(error: &SpoolError) -> Self {
        match error {
            SpoolError::Failed(_) => Self::NotKept,
            SpoolError::Full => Self::NoRoom,
        }
    }
}

/// A request that gets an error response from Keepwarm itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The status.
    pub status: u16,
    /// A stable name, for counters and logs.
    pub name: &'static str,
    /// A sentence for people.
    pub detail: String,
}

impl Refusal {
    /// One of a table, with the details of a case.
    #[must_use]
    pub fn of(response: &'static ErrorResponse, details: &[&dyn Display]) -> Self {
        let detail = response.about(details).sentence().to_owned();
        Self { status: response.status, name: response.reason, detail }
    }

    /// A body above the limit of `limit` bytes (RFC 9110 §15.5.14), with the keys that set it.
    #[must_use]
    pub fn body_too_large(limit: u64) -> Self {
        let units = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
        let exact = units.iter().find(|(_, bytes)| limit >= *bytes && limit.is_multiple_of(*bytes));
        let limit = exact
            .map_or_else(|| format!("{limit} bytes"), |(unit, bytes)| format!("{} {unit}", limit / bytes));
        Self::of(&refusals::BODY_TOO_LARGE, &[&limit])
    }
}

impl From<&Fault> for Refusal {
    fn from(fault: &Fault) -> Self {
        Self { status: fault.status(), name: fault.name(), detail: fault.to_string() }
    }
}

impl From<&PathFault> for Refusal {
    fn from(fault: &PathFault) -> Self {
        Self { status: fault.status(), name: fault.name(), detail: fault.to_string() }
    }
}

/// How a client was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientLoss {
    /// It reset the connection, or a write failed.
    Reset,
    /// It shut its writing side before its request was complete, or on a route where that means that it left.
    Closed,
    /// It took its response too slowly.
    TooSlow,
    /// It violated HTTP/2, which resets the stream or ends the connection (RFC 9113 §5.4).
    Refused,
}

impl ClientLoss {
    /// A stable name, for counters and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reset => "client_reset",
            Self::Closed => "client_closed",
            Self::TooSlow => "client_too_slow",
            Self::Refused => "http2_refused",
        }
    }
}

/// How an exchange ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseOutcome {
    /// The response was written whole.
    Complete,
    /// We cut it.
    Cut,
    /// The client left before it was written.
    ClientLost(ClientLoss),
}
