use std::net::SocketAddr;
use std::time::Duration;

/// `balance`: how an endpoint is chosen for a call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Balance {
    /// The less busy and faster of two endpoints drawn at random.
    #[default]
    LeastRequest,
    /// One after the other, by weight.
    RoundRobin,
    /// By a key, on a hash ring.
    RingHash(HashKey),
    /// By a key, with Maglev's lookup table.
    Maglev(HashKey),
}

/// `hash`: the key whose calls go to the same endpoint. A call without it goes to a random endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum HashKey {
    /// A header, in lower case.
    Header(String),
    /// A cookie, whose name is case-sensitive.
    Cookie(String),
}

/// `[upstream.NAME.health]`: active health checks of endpoints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthCheck {
    /// The request or connection of a check.
    pub probe: HealthProbe,
    /// Time from one check to the next.
    pub interval: Duration,
    /// Time limit of one check, never above `interval`.
    pub timeout: Duration,
    /// Successful checks in a row before an endpoint gets calls again.
    pub rise: u32,
    /// Failed checks in a row before it gets no calls.
    pub fall: u32,
}

/// The kind of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HealthProbe {
    /// `GET` of this path, optionally with a query; one of these statuses is healthy.
    Http {
        /// Path, which begins with a slash.
        path: String,
        /// Statuses of a healthy endpoint, never empty.
        statuses: Vec<StatusRange>,
    },
    /// A TCP connection.
    Tcp,
}

/// Statuses from `first` to `last`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StatusRange {
    /// First status, from 200 to 599.
    pub first: u16,
    /// Last status, never below `first`.
    pub last: u16,
}

impl StatusRange {
    /// Whether the range contains `status`.
    pub fn contains(self, status: u16) -> bool {
        (self.first..=self.last).contains(&status)
    }
}

/// `[upstream.NAME.dns]`: DNS lookups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dns {
    /// Minimum time for which a DNS response is used, whatever its time to live.
    pub min_ttl: Duration,
    /// Maximum time for which a DNS response is used.
    pub max_ttl: Duration,
    /// Name of SRV records, whose hosts and ports replace those of the URL.
    pub srv: Option<String>,
    /// DNS servers. Empty: those of the system.
    pub resolver: Vec<SocketAddr>,
}

impl Default for Dns {
    fn default() -> Self {
        Self {
            min_ttl: Duration::from_secs(5),
            max_ttl: Duration::from_secs(300),
            srv: None,
            resolver: Vec::new(),
        }
    }
}
