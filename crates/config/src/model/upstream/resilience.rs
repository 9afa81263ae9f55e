use std::time::Duration;

/// `[upstream.NAME.pool]`: connections, those to one endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpstreamPool {
    /// Connections at once, idle and in use; more wait. `None`: no limit but those of `limits`.
    pub max: Option<u32>,
    /// Idle connections that are kept.
    pub idle: u32,
    /// Idle connections that are opened before they are asked for.
    pub min_idle: u32,
    /// A connection is not used again beyond this age.
    pub max_age: Duration,
    /// Nor after so many requests. `None`: no limit.
    pub max_requests: Option<u32>,
    /// An idle connection is closed after this time, or earlier where the origin is known to.
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

/// `[upstream.NAME.timeouts]`: the phases of one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpstreamTimeouts {
    /// From the first packet to a connection that can be used, the TLS handshake included.
    pub connect: Duration,
    /// From the end of the request to the first byte of its response. `None`: no limit.
    pub first_byte: Option<Duration>,
    /// Silence in the middle of a request or a response. `None`: no limit.
    pub idle: Option<Duration>,
}

impl Default for UpstreamTimeouts {
    fn default() -> Self {
        const MINUTE: Duration = Duration::from_secs(60);
        Self { connect: Duration::from_secs(5), first_byte: Some(MINUTE), idle: Some(MINUTE) }
    }
}

/// `retry_on`: what a call is tried again for, where that is safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RetryCause {
    /// No connection could be made.
    Connect,
    /// The upstream has said that it did not work on it (HTTP/2: REFUSED_STREAM, GOAWAY).
    Refused,
    /// The connection ended before the first byte of a response.
    Reset,
    /// `timeouts.first_byte` passed.
    FirstByte,
    /// It was answered with this status: 502, 503 or 504.
    Status(u16),
}

/// `retry_budget`: what tries may add to the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryBudget {
    /// Tries for each hundred calls.
    pub percent: u32,
    /// Tries a second that are always allowed.
    pub per_second: u32,
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self { percent: 20, per_second: 10 }
    }
}

/// `hedge`: a second attempt beside a slow first one; of idempotent calls only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hedge {
    /// When it is made.
    pub after: HedgeDelay,
    /// Second attempts for each hundred calls.
    pub budget_percent: u32,
}

/// When a second attempt is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HedgeDelay {
    /// After this time.
    Fixed(Duration),
    /// When the first takes longer than this share of calls did lately, in thousandths: 950 is the 95th percentile.
    Permille(u32),
}

impl Default for Hedge {
    fn default() -> Self {
        Self { after: HedgeDelay::Permille(950), budget_percent: 5 }
    }
}

/// `breaker`: when calls are refused without being tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Breaker {
    /// Failures in a row. `None`: not for that.
    pub failures: Option<u32>,
    /// Of a hundred calls within `window` fewer than so many go well. `None`: not for that.
    pub success_percent: Option<u32>,
    /// What counts for `success_percent`.
    pub window: Duration,
    /// Calls within `window` before `success_percent` counts.
    pub min_requests: u32,
    /// How long calls are refused the first time; each time in a row twice as long.
    pub open: Duration,
    /// How long they are refused at most.
    pub max_open: Duration,
    /// Calls that are tried after that time, the first alone, and that all have to go well.
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

/// `outlier`: when an endpoint is left out because the others do better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutlierDetection {
    /// Failures in a row. `None`: not for that.
    pub failures: Option<u32>,
    /// Success rates are compared so often.
    pub interval: Duration,
    /// Calls of an endpoint within `interval` before its rate counts.
    pub min_requests: u32,
    /// EndpointList with so many calls that it takes before rates are compared.
    pub min_endpoints: u32,
    /// How far below the mean a rate must be, in thousandths of the standard deviation. `None`: not for that.
    pub deviation_permille: Option<u32>,
    /// How long it is left out the first time; each time in a row so much longer.
    pub ejection: Duration,
    /// How long it is left out at most.
    pub max_ejection: Duration,
    /// Of a hundred endpoints at most so many are left out at once.
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

/// `[upstream.NAME.limits]`: how much may be under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpstreamLimits {
    /// Connections to all endpoints together, idle and in use. `None`: no limit.
    pub connections: Option<u32>,
    /// Calls in work. `None`: no limit.
    pub in_flight: Option<u32>,
    /// Calls that may wait for one of these; more: 503.
    pub queue: u32,
    /// How long a call may wait; longer: 503.
    pub queue_timeout: Duration,
}

impl Default for UpstreamLimits {
    fn default() -> Self {
        Self { connections: None, in_flight: Some(4096), queue: 1024, queue_timeout: Duration::from_secs(1) }
    }
}
