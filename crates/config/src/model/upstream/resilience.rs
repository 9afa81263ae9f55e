use std::time::Duration;

/// `[upstream.NAME.pool]`: connections to one endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpstreamPool {
    /// Number of connections, idle and in use; further calls wait. `None`: only `limits` apply.
    pub max: Option<u32>,
    /// Number of idle connections that are kept.
    pub idle: u32,
    /// Number of idle connections that are opened in advance.
    pub min_idle: u32,
    /// Age after which a connection is not used again.
    pub max_age: Duration,
    /// Number of requests after which a connection is not used again. `None`: no limit.
    pub max_requests: Option<u32>,
    /// Time after which an idle connection is closed, or earlier if the origin is known to close it earlier.
    pub idle_timeout: Duration,
}

impl Default for UpstreamPool {
    fn default() -> Self {
        Self {
            max: None,
            idle: 256,
            min_idle: 0,
            max_age: Duration::from_secs(3600),
            max_requests: None,
            idle_timeout: Duration::from_secs(60),
        }
    }
}

/// `[upstream.NAME.timeouts]`: time limits of the phases of one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpstreamTimeouts {
    /// Making a connection, including the TLS handshake.
    pub connect: Duration,
    /// From the end of the request to the head of its response. `None`: no limit.
    pub first_byte: Option<Duration>,
    /// Silence of the upstream during a request or a response. `None`: no limit.
    pub idle: Option<Duration>,
}

impl Default for UpstreamTimeouts {
    fn default() -> Self {
        const MINUTE: Duration = Duration::from_secs(60);
        Self { connect: Duration::from_secs(5), first_byte: Some(MINUTE), idle: Some(MINUTE) }
    }
}

/// `retry_on`: a cause for which a call is retried if that is safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RetryCause {
    /// No connection could be made.
    Connect,
    /// The upstream reported that it did not process the call (HTTP/2: REFUSED_STREAM, GOAWAY).
    Refused,
    /// The connection closed before the first byte of a response.
    Reset,
    /// `timeouts.first_byte` was reached.
    FirstByte,
    /// The response had this status: 502, 503 or 504.
    Status(u16),
}

/// `retry_budget`: the load that retries may add.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryBudget {
    /// Retries for each hundred calls.
    pub percent: u32,
    /// Retries per second that are always allowed.
    pub per_second: u32,
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self { percent: 20, per_second: 10 }
    }
}

/// `hedge`: a second attempt in parallel with a slow first one, for idempotent calls only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hedge {
    /// Delay of the second attempt.
    pub after: HedgeDelay,
    /// Second attempts for each hundred calls.
    pub budget_percent: u32,
}

/// The delay of a second attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HedgeDelay {
    /// This time.
    Fixed(Duration),
    /// A quantile of recent call times, in thousandths: 950 is the 95th percentile.
    Permille(u32),
}

impl Default for Hedge {
    fn default() -> Self {
        Self { after: HedgeDelay::Permille(950), budget_percent: 5 }
    }
}

/// `breaker`: when calls are rejected without an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Breaker {
    /// Failures in a row after which it opens. `None`: off.
    pub failures: Option<u32>,
    /// Percentage of successful calls within `window` below which it opens. `None`: off.
    pub success_percent: Option<u32>,
    /// Time over which `success_percent` is measured.
    pub window: Duration,
    /// Calls within `window` before `success_percent` applies.
    pub min_requests: u32,
    /// Time for which it stays open at first; it doubles each time in a row.
    pub open: Duration,
    /// Maximum time for which it stays open.
    pub max_open: Duration,
    /// Calls that are tried after that time, the first one alone; if all succeed, it closes.
    pub probes: u32,
}

impl Default for Breaker {
    fn default() -> Self {
        Self {
            failures: Some(5),
            success_percent: Some(50),
            window: Duration::from_secs(10),
            min_requests: 20,
            open: Duration::from_millis(100),
            max_open: Duration::from_secs(5),
            probes: 3,
        }
    }
}

/// `outlier`: when an endpoint is ejected because the others do better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutlierDetection {
    /// Failures in a row after which it opens. `None`: off.
    pub failures: Option<u32>,
    /// Time between two comparisons of success rates.
    pub interval: Duration,
    /// Calls of an endpoint within `interval` before its success rate is compared.
    pub min_requests: u32,
    /// Number of endpoints with `min_requests` calls before rates are compared.
    pub min_endpoints: u32,
    /// Distance below the mean success rate at which an endpoint is ejected, in thousandths of the standard
    /// deviation. `None`: off.
    pub deviation_permille: Option<u32>,
    /// Time for which it is ejected at first; it grows by this time with each ejection in a row.
    pub ejection: Duration,
    /// Maximum time for which it is ejected.
    pub max_ejection: Duration,
    /// Percentage of the endpoints that may be ejected at once.
    pub max_ejected_percent: u32,
}

impl Default for OutlierDetection {
    fn default() -> Self {
        Self {
            failures: Some(5),
            interval: Duration::from_secs(10),
            min_requests: 100,
            min_endpoints: 5,
            deviation_permille: Some(1900),
            ejection: Duration::from_secs(30),
            max_ejection: Duration::from_secs(300),
            max_ejected_percent: 33,
        }
    }
}

/// `[upstream.NAME.limits]`: limits for concurrent calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpstreamLimits {
    /// Number of connections to all endpoints together, idle and in use. `None`: no limit.
    pub connections: Option<u32>,
    /// Number of calls in progress. `None`: no limit.
    pub in_flight: Option<u32>,
    /// Calls that may wait in the queue; further ones get 503.
    pub queue: u32,
    /// Time for which a call may wait in the queue; then it gets 503.
    pub queue_timeout: Duration,
}

impl Default for UpstreamLimits {
    fn default() -> Self {
        Self { connections: None, in_flight: Some(4096), queue: 1024, queue_timeout: Duration::from_secs(1) }
    }
}
