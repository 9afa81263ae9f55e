use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::{AccessLog, Bind, LogFormat};

mod balance;
mod proxy;
mod resilience;
mod tls;

pub use balance::{Balance, Dns, HashKey, HealthCheck, HealthProbe, StatusRange};
pub use proxy::ProxyVersion;
pub use resilience::{
    Breaker, Hedge, HedgeDelay, OutlierDetection, RetryBudget, RetryCause, UpstreamLimits, UpstreamPool,
    UpstreamTimeouts,
};
pub use tls::{ClientCertificate, PemFile, TlsVersion, TrustRoots, UpstreamTls};

/// `[upstream.NAME]`: a service the app calls.
///
/// Invariants: there is an endpoint with a weight above 0; priorities begin at 0 and have no gaps; a door is on an
/// address that other machines can reach only if it is `public`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upstream {
    /// NAME, as in logs and metrics.
    pub name: String,
    /// Endpoints; one for `url`. With `dns.srv` there is exactly one, whose address is not looked up.
    pub endpoints: Vec<UpstreamEndpoint>,
    /// TLS towards it. `None`: plaintext.
    pub tls: Option<UpstreamTls>,
    /// Addresses of its door. Empty: only routes and forward proxies lead to it.
    pub bind: Vec<Bind>,
    /// Allow the door on an address that other machines can reach.
    pub public: bool,
    /// `Host` of every call. `None`: the endpoint's authority for doors, the client's host for routes.
    pub host: Option<String>,
    /// What the door does with `Expect: 100-continue`.
    pub expect: Expect,
    /// Protocol of calls.
    pub protocol: UpstreamProtocol,
    /// PROXY header with which each connection begins. `None`: none.
    pub proxy_protocol: Option<ProxyVersion>,
    /// Pool of connections.
    pub pool: UpstreamPool,
    /// Time limit of a whole call, including retries and time in the queue. `None`: no limit.
    pub timeout: Option<Duration>,
    /// Time limits of the phases of an attempt.
    pub timeouts: UpstreamTimeouts,
    /// Number of times a call is retried if that is safe. A retry because a kept connection was closed does not
    /// count.
    pub retries: u32,
    /// Causes for which a call is retried.
    pub retry_on: Vec<RetryCause>,
    /// Share of the calls that may be retries.
    pub retry_budget: RetryBudget,
    /// Second attempt in parallel with a slow first one. `None`: off.
    pub hedge: Option<Hedge>,
    /// Circuit breaker. `None`: off.
    pub breaker: Option<Breaker>,
    /// Outlier detection. `None`: off.
    pub outlier: Option<OutlierDetection>,
    /// Active health checks of its endpoints. `None`: only the results of calls count.
    pub health: Option<HealthCheck>,
    /// Load balancing.
    pub balance: Balance,
    /// Time for which a new or recovered endpoint gets less than its share. `None`: off.
    pub slow_start: Option<Duration>,
    /// DNS lookups of its names.
    pub dns: Dns,
    /// Limits for concurrent calls.
    pub limits: UpstreamLimits,
    /// Name of the rate limit of its door, which is in [`crate::Config::rate_limits`].
    pub rate_limit: Option<String>,
    /// Responses of its door have `Server-Timing`.
    pub server_timing: bool,
    /// One record per call. `None`: off.
    pub access_log: Option<AccessLog>,
}

/// An endpoint of an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamEndpoint {
    /// Its address.
    pub address: EndpointAddress,
    /// `Host` for it: host and port of the URL in lower case, without the scheme's default port. `localhost` for a
    /// Unix socket.
    pub authority: String,
    /// Share of the calls, relative to the other endpoints of the same priority. 0: none.
    pub weight: u32,
    /// Priority: 0 is used first, higher numbers for calls that the healthy endpoints of lower ones cannot take.
    pub priority: u32,
}

/// The address of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EndpointAddress {
    /// An IP address and port.
    Ip(SocketAddr),
    /// A host name to look up, and a port.
    Name {
        /// Host name, lower case.
        host: String,
        /// Port, never 0.
        port: u16,
    },
    /// A Unix stream socket.
    Unix(PathBuf),
}

impl fmt::Display for EndpointAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EndpointAddress::Ip(address) => write!(f, "{address}"),
            EndpointAddress::Name { host, port } => write!(f, "{host}:{port}"),
            EndpointAddress::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// `expect`: what the door does with `Expect: 100-continue`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Expect {
    /// It responds with `100 Continue` at once and forwards the call without the expectation.
    #[default]
    Response,
    /// It forwards the expectation: the upstream decides.
    Forward,
}

/// `protocol`: the protocol of calls to an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum UpstreamProtocol {
    /// Over TLS as ALPN selects; in plaintext HTTP/1.1.
    #[default]
    Auto,
    /// HTTP/1.1.
    Http1,
    /// HTTP/2: by ALPN over TLS; in plaintext with prior knowledge.
    Http2,
}

impl Upstream {
    /// An upstream with all defaults.
    pub fn new(name: String, endpoints: Vec<UpstreamEndpoint>) -> Upstream {
        Upstream {
            name,
            endpoints,
            tls: None,
            bind: Vec::new(),
            public: false,
            host: None,
            expect: Expect::Response,
            protocol: UpstreamProtocol::Auto,
            proxy_protocol: None,
            pool: UpstreamPool::default(),
            timeout: None,
            timeouts: UpstreamTimeouts::default(),
            retries: 1,
            retry_on: vec![RetryCause::Connect, RetryCause::Refused, RetryCause::Reset],
            retry_budget: RetryBudget::default(),
            hedge: None,
            breaker: Some(Breaker::default()),
            outlier: Some(OutlierDetection::default()),
            health: None,
            balance: Balance::LeastRequest,
            slow_start: None,
            dns: Dns::default(),
            limits: UpstreamLimits::default(),
            rate_limit: None,
            server_timing: false,
            access_log: Some(AccessLog::new(LogFormat::Json)),
        }
    }

    /// The variable that has the URL of its door in workers: `KEEPWARM_UPSTREAM_SEARCH`.
    pub fn variable(&self) -> String {
        format!("KEEPWARM_UPSTREAM_{}", self.name.to_ascii_uppercase().replace('-', "_"))
    }

    /// The value of that variable: the URL of its first door. `None`: it has no door.
    ///
    /// With port 0 the port is known only once the door is open: call [`door_url`] with the address that it has then.
    pub fn door_url(&self) -> Option<String> {
        self.bind.first().map(door_url)
    }
}

impl UpstreamEndpoint {
    /// An endpoint with the default weight and priority.
    pub fn new(address: EndpointAddress, authority: String) -> UpstreamEndpoint {
        UpstreamEndpoint { address, authority, weight: 1, priority: 0 }
    }
}

/// The URL of a door for processes of this machine: `http://127.0.0.1:6102`, `unix:/run/search.sock`.
pub fn door_url(bind: &Bind) -> String {
    match bind {
        Bind::Tcp(address) if address.ip().is_unspecified() => {
            let loopback = if address.is_ipv4() { "127.0.0.1" } else { "[::1]" };
            format!("http://{loopback}:{}", address.port())
        }
        Bind::Tcp(_) | Bind::Host { .. } => format!("http://{bind}"),
        Bind::Unix(_) => bind.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doors_have_urls_for_this_machine() {
        let tcp = |text: &str| Bind::Tcp(text.parse().unwrap());
        assert_eq!(door_url(&tcp("127.0.0.1:6102")), "http://127.0.0.1:6102");
        assert_eq!(door_url(&tcp("0.0.0.0:6102")), "http://127.0.0.1:6102");
        assert_eq!(door_url(&tcp("[::]:6102")), "http://[::1]:6102");
        assert_eq!(door_url(&tcp("10.0.0.1:6102")), "http://10.0.0.1:6102");
        assert_eq!(door_url(&Bind::Host { host: "localhost".to_owned(), port: 1 }), "http://localhost:1");
        assert_eq!(door_url(&Bind::Unix("/run/x.sock".into())), "unix:/run/x.sock");
    }
}
