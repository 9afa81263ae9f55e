//! The activity of each worker: a view for status and metrics, and the text that describes a request in the log.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::Method;
use keepwarm_serve::Request;
use keepwarm_telemetry::RequestId;

use crate::supervisor::WorkerKey;

/// One worker of an app, as far as it takes requests.
#[derive(Debug, Clone)]
pub struct WorkerActivity {
    /// Who.
    pub worker: WorkerKey,
    /// Requests it was given since it is ready.
    pub taken: u64,
    /// Those that it holds, the oldest first.
    pub active_requests: Vec<ActiveRequest>,
}

/// A request that a worker holds.
#[derive(Debug, Clone)]
pub struct ActiveRequest {
    /// What it is.
    pub summary: RequestSummary,
    /// Its path without the query, as the app gets it; `None`: it is on its way to its worker.
    pub path: Option<Box<str>>,
    /// How long the worker has been at it; `None`: it waits there behind another.
    pub age: Option<Duration>,
    /// The worker has begun to respond.
    pub is_responding: bool,
}

/// A request that waits for a worker.
#[derive(Debug, Clone)]
pub struct WaitingRequest {
    /// What it is.
    pub summary: RequestSummary,
    /// Its path without the query, as the app will get it.
    pub path: Option<Box<str>>,
    /// How long it has waited.
    pub waited: Duration,
}

/// The id, method and route of a request, for logs and the status.
#[derive(Debug, Clone)]
pub struct RequestSummary {
    /// Its id.
    pub id: RequestId,
    /// Its method.
    pub method: Method,
    /// The pattern of its route, as configured.
    pub route: Option<Arc<str>>,
    /// Stands for its path, of which there is no copy here.
    pub(super) path: u64,
}

impl RequestSummary {
    pub(super) fn of(request: &Request) -> Self {
        let (method, route) = (request.head.method.clone(), request.notes.route.clone());
        Self { id: RequestId::new(request.number()), method, route, path: path_number(request.path()) }
    }
}

/// The same for the same path, as long as this process lives. Keyed: nobody outside can find another path with the number of a page, to have that page
/// refused (`quarantine`).
fn path_number(path: &[u8]) -> u64 {
    static KEY: OnceLock<RandomState> = OnceLock::new();
    KEY.get_or_init(RandomState::new).hash_one(path)
}

impl std::fmt::Display for RequestSummary {
    /// `GET /assets/*`
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.method, self.route.as_deref().unwrap_or("-"))
    }
}
