use std::time::Duration;

use super::SplitTarget;

/// `auth_request` of a route: a service that decides about each request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthRequest {
    /// The app or upstream.
    pub service: SplitTarget,
    /// The path, and perhaps the query, that it is asked at.
    pub path: String,
    /// Headers of its response that the route's target gets: names, or their begin with `*` after it.
    pub headers: Vec<String>,
    /// The header of its response that names the user.
    pub user_header: Option<String>,
    /// Headers of its 2xx response that the client gets, written alike.
    pub response_headers: Vec<String>,
    /// How long it may take.
    pub timeout: Duration,
    /// Bytes of the body of a response that the client gets.
    pub max_response: u64,
    /// Also pass on requests whose path can be read in several ways.
    pub ambiguous_paths: bool,
}
