use std::net::SocketAddr;
use std::time::Duration;

/// `balance`: how an endpoint is chosen among those that take calls.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Balance {
    /// The less busy and faster of two drawn at random.
    #[default]
    LeastRequest,
    /// One after the other, by their weights.
    RoundRobin,
    /// By a key, on a ring of hashes.
    RingHash(HashKey),
    /// By a key, by Maglev's table.
    Maglev(HashKey),
}

/// `hash`: the key that goes to the same endpoint. A call without it goes to one at random.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum HashKey {
    /// A field of the request, lower case.
    Header(String),
    /// A cookie; its case counts.
    Cookie(String),
}

/// `[upstream.NAME.health]`: checks of endpoints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthCheck {
    /// What is asked.
    pub probe: HealthProbe,
    /// From one check to the next.
    pub interval: Duration,
    /// The time of one check; never above `interval`.
    pub timeout: Duration,
    /// Good checks in a row until an endpoint gets calls again.
    pub rise: u32,
    /// Bad ones in a row until it gets none.
    pub fall: u32,
}

/// What a check asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HealthProbe {
    /// `GET` of this path, with perhaps a query, is answered with one of these statuses; never empty.
    Http {
        /// Begins with a slash.
        path: String,
        /// Good ones.
        statuses: Vec<StatusRange>,
    },
    /// A connection can be made.
    Tcp,
}

/// Statuses from `first` to `last`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StatusRange {
    /// 200 to 599.
    pub first: u16,
    /// Never below `first`.
    pub last: u16,
}

impl StatusRange {
    /// Whether `status` is one of them.
    pub fn contains(self, status: u16) -> bool {
        (self.first..=self.last).contains(&status)
    }
}

/// `[upstream.NAME.dns]`: how names are looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dns {
    /// A response counts for at least so long, whatever it says.
    pub min_ttl: Duration,
    /// And for at most so long.
    pub max_ttl: Duration,
    /// The name of SRV records that say hosts and ports, in place of the URL's.
    pub srv: Option<String>,
    /// Servers to ask. Empty: those of the system.
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
