use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::{AccessLog, Bind, LogFormat};

mod balance;
mod resilience;
mod tls;

pub use balance::{Balance, Dns, HashKey, HealthCheck, HealthProbe, StatusRange};
pub use resilience::{
    Breaker, Hedge, HedgeDelay, OutlierDetection, RetryBudget, RetryCause, UpstreamLimits, UpstreamPool,
    UpstreamTimeouts,
};
pub use tls::{ClientCertificate, PemFile, TlsVersion, TrustRoots, UpstreamTls};

/// `[upstream.NAME]`: a service the app calls.
///
/// Invariants: at least one endpoint, not all of weight 0; priorities begin at 0 and have no gaps; no door on an address that other
/// machines reach unless `public`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upstream {
    /// NAME, as logs and metrics show it.
    pub name: String,
    /// Where it is; one for `url`. With `dns.srv` there is exactly one, whose address is not looked up.
    pub endpoints: Vec<UpstreamEndpoint>,
    /// How it is reached over TLS. `None`: in clear.
    pub tls: Option<UpstreamTls>,
    /// Its doors. Empty: it has none, and is reached by routes or through a forward proxy.
    pub bind: Vec<Bind>,
    /// Whether a door may be reached from other machines.
    pub public: bool,
    /// `Host` of every call. `None`: the endpoint's authority for doors, the client's for routes.
    pub host: Option<String>,
    /// What a door does with `Expect: 100-continue`.
    pub expect: Expect,
    /// The protocol spoken to it.
    pub protocol: UpstreamProtocol,
    /// Its connections.
    pub pool: UpstreamPool,
    /// The time of a whole call, retries and waiting included. `None`: no limit.
    pub timeout: Option<Duration>,
    /// The times of its phases.
    pub timeouts: UpstreamTimeouts,
    /// How often a call is tried again, where that is safe. That a kept connection was closed is not counted.
    pub retries: u32,
    /// What a call is tried again for.
    pub retry_on: Vec<RetryCause>,
    /// How many of all calls may be tries.
    pub retry_budget: RetryBudget,
    /// A second attempt beside a slow first one. `None`: off.
    pub hedge: Option<Hedge>,
    /// When calls are refused without being tried. `None`: off.
    pub breaker: Option<Breaker>,
    /// When an endpoint is left out. `None`: off.
    pub outlier: Option<OutlierDetection>,
    /// Checks of its endpoints. `None`: none but the calls themselves.
    pub health: Option<HealthCheck>,
    /// How an endpoint is chosen.
    pub balance: Balance,
    /// How long a new or recovered endpoint gets less than its share. `None`: off.
    pub slow_start: Option<Duration>,
    /// How names are looked up.
    pub dns: Dns,
    /// How much may be under way.
    pub limits: UpstreamLimits,
    /// Name of the rate limit that holds for its door; it is in [`crate::Config::rate_limits`].
    pub rate_limit: Option<String>,
    /// Answers of its door carry `Server-Timing`.
    pub server_timing: bool,
    /// One record per call. `None`: off.
    pub access_log: Option<AccessLog>,
}

/// One place of an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamEndpoint {
    /// Where it listens.
    pub address: EndpointAddress,
    /// `Host` for it: host and port as the URL has them, lower case, without the scheme's own port. `localhost` for a Unix socket.
    pub authority: String,
    /// Its share of the calls, against those of the others of its priority. 0: it gets none.
    pub weight: u32,
    /// 0 is asked first; the next only for what the healthy ones of those before cannot take.
    pub priority: u32,
}

/// Where an endpoint listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EndpointAddress {
    /// An address that needs no looking up.
    Ip(SocketAddr),
    /// A host name to look up, lower case, and a port.
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

/// `expect`: what a door does with `Expect: 100-continue`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Expect {
    /// It responds with `100` at once, and forwards without the expectation.
    #[default]
    Response,
    /// The upstream decides.
    Forward,
}

/// `protocol`: what is spoken to an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum UpstreamProtocol {
    /// Over TLS what ALPN settles on, in clear HTTP/1.1.
    #[default]
    Auto,
    /// HTTP/1.1.
    Http1,
    /// HTTP/2: by ALPN over TLS, with prior knowledge in clear.
    Http2,
}

impl Upstream {
    /// An upstream with every default.
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
            access_log: Some(AccessLog { format: LogFormat::Json, file: None }),
        }
    }

    /// The variable that tells workers of its door: `KEEPWARM_UPSTREAM_SEARCH`.
    pub fn variable(&self) -> String {
        format!("KEEPWARM_UPSTREAM_{}", self.name.to_ascii_uppercase().replace('-', "_"))
    }

    /// What that variable says: the URL of its first door. `None`: it has none.
    ///
    /// With port 0 the port is known only when the door is open: give [`door_url`] the address it has then.
    pub fn door_url(&self) -> Option<String> {
        self.bind.first().map(door_url)
    }
}

impl UpstreamEndpoint {
    /// One that takes calls like all others.
    pub fn new(address: EndpointAddress, authority: String) -> UpstreamEndpoint {
        UpstreamEndpoint { address, authority, weight: 1, priority: 0 }
    }
}

/// The URL by which a process of this machine reaches a door: `http://127.0.0.1:6102`, `unix:/run/search.sock`.
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
