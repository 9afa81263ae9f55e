//! Looks names up: in the system's hosts file first, then at name servers.
//!
//! * **hosts.** A name in `/etc/hosts` is not looked up elsewhere, as with the C library: an entry that sends a service to this machine must not be mixed
//!   with the addresses of the real one.
//! * **Name servers.** Those of `/etc/resolv.conf`, with its search list, timeout and attempts; or those that are configured. DNS answers are not cached: the caller observes their time to live.
//! * **Changes.** Both files are checked before each lookup, and read again when they have changed.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ProtocolConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::{Query, ResponseCode};
use hickory_resolver::proto::rr::{Name, RData, RecordType};
use hickory_resolver::{Hosts, TokioResolver};
use tokio::time::timeout;

use crate::endpoints::lock;

/// How long a lookup may take in all, with every attempt at every server.
const PATIENCE: Duration = Duration::from_secs(10);
/// The first DNS answer is used without the other family's when that is later than this (RFC 8305 §3).
const RESOLUTION_DELAY: Duration = Duration::from_millis(50);
/// What the hosts file says counts so long: an edit is noticed soon, and looking costs nothing.
const HOSTS_TTL: Duration = Duration::from_secs(5);
/// The maximum of one DNS answer; further records are ignored.
const MOST_RECORDS: usize = 256;

/// Resolves names by DNS and the hosts file. Shared by all upstreams that ask the same servers; to be used on the control thread, whose runtime drives its connections.
#[derive(Debug)]
pub struct DnsResolver {
    servers: NameServers,
    hosts_file: PathBuf,
    timeout: Duration,
    loaded: Mutex<Option<LoadedConfig>>,
}

/// The name servers to query.
#[derive(Debug, Clone)]
enum NameServers {
    /// Those in this file.
    File(PathBuf),
    Named(Vec<SocketAddr>),
}

/// The resolver configuration and hosts file, as loaded at `stamp`.
#[derive(Debug, Clone)]
struct LoadedConfig {
    stamp: [Option<SystemTime>; 2],
    hosts: Arc<Hosts>,
    resolver: Result<TokioResolver, LookupFailure>,
}

/// The result of a lookup of one record type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LookupResult<T> {
    /// Records, and how long they count.
    Found(Vec<T>, Duration),
    /// For certain there are none.
    Empty,
    /// It is not known.
    Failed(LookupFailure),
}

/// The addresses of a name, by family.
pub(crate) type Addresses = (LookupResult<Ipv4Addr>, LookupResult<Ipv6Addr>);

/// A record of a service (RFC 2782).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServiceRecord {
    pub(crate) priority: u16,
    pub(crate) weight: u16,
    pub(crate) port: u16,
    pub(crate) target: String,
}

/// Why a lookup has failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LookupFailure {
    /// A stable name, for counters and logs.
    pub name: &'static str,
    /// The cause, as a sentence that continues "looking up NAME:".
    pub sentence: String,
}

impl DnsResolver {
    /// Queries these servers, or those of the system when there are none; the system's hosts file before them.
    #[must_use]
    pub fn new(servers: &[SocketAddr]) -> Arc<Self> {
        let servers = match servers {
            [] => NameServers::File("/etc/resolv.conf".into()),
            servers => NameServers::Named(servers.to_vec()),
        };
        let hosts_file = "/etc/hosts".into();
        Arc::new(Self { servers, hosts_file, timeout: PATIENCE, loaded: Mutex::new(None) })
    }

    #[cfg(test)]
    pub(crate) fn of_test(server: SocketAddr, hosts_file: PathBuf, timeout: Duration) -> Arc<Self> {
        let servers = NameServers::Named(vec![server]);
        Arc::new(Self { servers, hosts_file, timeout, loaded: Mutex::new(None) })
    }

    /// Looks up both families of a name at the same time. `hurry`: a call waits for the first address; a family that is much later than the
    /// other counts as failed.
    pub(crate) async fn addresses(&self, host: &str, hurry: bool) -> Addresses {
        if let Ok(address) = host.parse::<IpAddr>() {
            return literal(address);
        }
        let loaded = self.load();
        let name = match Name::from_utf8(host) {
            Ok(name) => name,
            Err(error) => {
                let failure = LookupFailure::new("dns_bad_name", format!("it is not a valid name: {error}"));
                return (LookupResult::Failed(failure.clone()), LookupResult::Failed(failure));
            }
        };
        if let Some(addresses) = loaded.listed(&name) {
            return addresses;
        }
        let resolver = match loaded.resolver {
            Ok(resolver) => resolver,
            Err(failure) => return (LookupResult::Failed(failure.clone()), LookupResult::Failed(failure)),
        };
        let query = DnsQuery { resolver: &resolver, name: &name, timeout: self.timeout };
        let v4 = query.ask(RecordType::A, |data| match data {
            RData::A(address) => Some(address.0),
            _ => None,
        });
        let v6 = query.ask(RecordType::AAAA, |data| match data {
            RData::AAAA(address) => Some(address.0),
            _ => None,
        });
        match hurry {
            true => first_of(v4, v6).await,
            false => tokio::join!(v4, v6),
        }
    }

    /// The records of a service.
    pub(crate) async fn service(&self, service: &str) -> LookupResult<ServiceRecord> {
        let resolver = match self.load().resolver {
            Ok(resolver) => resolver,
            Err(failure) => return LookupResult::Failed(failure),
        };
        let name = match Name::from_utf8(service) {
            Ok(name) => name,
            Err(error) => {
                return LookupResult::Failed(LookupFailure::new(
                    "dns_bad_name",
                    format!("it is not a valid name: {error}"),
                ));
            }
        };
        let query = DnsQuery { resolver: &resolver, name: &name, timeout: self.timeout };
        let result = query.ask(RecordType::SRV, |data| match data {
            // RFC 2782: a target "." says that the service is decidedly not available here.
            RData::SRV(record) if record.target.is_root() => None,
            RData::SRV(record) => Some(ServiceRecord {
                priority: record.priority,
                weight: record.weight,
                port: record.port,
                target: record.target.to_utf8(),
            }),
            _ => None,
        });
        result.await
    }

    /// What the files say, read again if they have changed.
    fn load(&self) -> LoadedConfig {
        let stamp = [self.changed(), modified(&self.hosts_file)];
        let mut loaded = lock(&self.loaded);
        if let Some(known) = loaded.as_ref().filter(|known| known.stamp == stamp) {
            return known.clone();
        }
        let hosts = read_hosts(&self.hosts_file);
        let resolver = self.servers.resolver();
        loaded.insert(LoadedConfig { stamp, hosts: Arc::new(hosts), resolver }).clone()
    }

    fn changed(&self) -> Option<SystemTime> {
        match &self.servers {
            NameServers::File(path) => modified(path),
            NameServers::Named(_) => None,
        }
    }
}

impl LoadedConfig {
    /// What the hosts file says about a name, if anything.
    fn listed(&self, name: &Name) -> Option<Addresses> {
        let of = |kind| self.hosts.lookup_static_host(&Query::query(name.clone(), kind));
        let (v4, v6) = (of(RecordType::A), of(RecordType::AAAA));
        if v4.is_none() && v6.is_none() {
            return None;
        }
        let v4 = records(v4.as_ref(), |data| match data {
            RData::A(address) => Some(address.0),
            _ => None,
        });
        let v6 = records(v6.as_ref(), |data| match data {
            RData::AAAA(address) => Some(address.0),
            _ => None,
        });
        Some((LookupResult::of(v4, HOSTS_TTL), LookupResult::of(v6, HOSTS_TTL)))
    }
}

impl NameServers {
    fn resolver(&self) -> Result<TokioResolver, LookupFailure> {
        let (config, mut options) = match self {
            Self::File(path) => {
                let unreadable = |why: &dyn std::fmt::Display| {
                    let sentence = format!("{} has no usable name server: {why}", path.display());
                    LookupFailure::new("dns_no_server", sentence)
                };
                let text = std::fs::read(path).map_err(|error| unreadable(&error))?;
                hickory_resolver::system_conf::parse_resolv_conf(text).map_err(|error| unreadable(&error))?
            }
            Self::Named(servers) => {
                let servers = servers.iter().map(|server| name_server(*server)).collect();
                (ResolverConfig::from_parts(None, Vec::new(), servers), ResolverOpts::default())
            }
        };
        // We do both: the hosts file is read before, and a name is queried again when its last DNS answer has expired.
        options.use_hosts_file = ResolveHosts::Never;
        options.cache_size = 0;
        let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
        *builder.options_mut() = options;
        builder.build().map_err(|error| LookupFailure::new("dns_no_server", error.to_string()))
    }
}

impl<T> LookupResult<T> {
    fn of(records: Vec<T>, ttl: Duration) -> Self {
        match records.is_empty() {
            true => Self::Empty,
            false => Self::Found(records, ttl),
        }
    }
}

impl LookupFailure {
    pub(crate) fn new(name: &'static str, sentence: impl Into<String>) -> Self {
        Self { name, sentence: sentence.into() }
    }

    fn of(error: &NetError) -> Self {
        match error {
            NetError::Timeout => Self::new("dns_timeout", "no name server responded in time"),
            NetError::NoConnections => Self::new("dns_no_server", "no name server can be reached"),
            NetError::Dns(DnsError::ResponseCode(code)) => {
                Self::new("dns_refused", format!("the name server returned an error: {}", words(*code)))
            }
            other => Self::new("dns_failed", other.to_string()),
        }
    }
}

fn words(code: ResponseCode) -> String {
    match code {
        ResponseCode::ServFail => "it failed to resolve the name (SERVFAIL)".to_owned(),
        ResponseCode::Refused => "it refuses queries from this machine (REFUSED)".to_owned(),
        other => other.to_string(),
    }
}

/// A DNS query for one name.
struct DnsQuery<'a> {
    resolver: &'a TokioResolver,
    name: &'a Name,
    timeout: Duration,
}

impl DnsQuery<'_> {
    /// Asks for one type of record, with every attempt at every server.
    async fn ask<T>(&self, kind: RecordType, pick: impl Fn(&RData) -> Option<T>) -> LookupResult<T> {
        // A cache of no size keeps what was put in for a moment.
        self.resolver.clear_cache();
        match timeout(self.timeout, self.resolver.lookup(self.name.clone(), kind)).await {
            Ok(Ok(lookup)) => {
                // Those of aliases on the way count as well.
                let ttl = lookup.answers().iter().map(|record| record.ttl).min().unwrap_or(0);
                LookupResult::of(records(Some(&lookup), pick), Duration::from_secs(u64::from(ttl)))
            }
            Ok(Err(error)) if error.is_no_records_found() => LookupResult::Empty,
            Ok(Err(error)) => LookupResult::Failed(LookupFailure::of(&error)),
            Err(_) => LookupResult::Failed(LookupFailure::of(&NetError::Timeout)),
        }
    }
}

/// Both, or the first that has found something when the other is much later.
async fn first_of(
    v4: impl Future<Output = LookupResult<Ipv4Addr>>,
    v6: impl Future<Output = LookupResult<Ipv6Addr>>,
) -> Addresses {
    let (mut v4, mut v6) = (std::pin::pin!(v4), std::pin::pin!(v6));
    tokio::select! {
        biased;
        first = &mut v4 => {
            let second = match first {
                LookupResult::Found(..) => timeout(RESOLUTION_DELAY, v6).await.unwrap_or_else(|_| late()),
                _ => v6.await,
            };
            (first, second)
        }
        first = &mut v6 => {
            let second = match first {
                LookupResult::Found(..) => timeout(RESOLUTION_DELAY, v4).await.unwrap_or_else(|_| late()),
                _ => v4.await,
            };
            (second, first)
        }
    }
}

fn late<T>() -> LookupResult<T> {
    LookupResult::Failed(LookupFailure::new("dns_late", "the response for one address family is late"))
}

fn literal(address: IpAddr) -> Addresses {
    match address {
        IpAddr::V4(address) => (LookupResult::Found(vec![address], Duration::MAX), LookupResult::Empty),
        IpAddr::V6(address) => (LookupResult::Empty, LookupResult::Found(vec![address], Duration::MAX)),
    }
}

fn records<T>(lookup: Option<&Lookup>, pick: impl Fn(&RData) -> Option<T>) -> Vec<T> {
    let answers = lookup.map_or(&[][..], Lookup::answers);
    answers.iter().filter_map(|record| pick(&record.data)).take(MOST_RECORDS).collect()
}

fn name_server(address: SocketAddr) -> NameServerConfig {
    let connection = |protocol| {
        let mut connection = ConnectionConfig::new(protocol);
        connection.port = address.port();
        connection
    };
    let connections = vec![connection(ProtocolConfig::Udp), connection(ProtocolConfig::Tcp)];
    NameServerConfig::new(address.ip(), true, connections)
}

fn read_hosts(path: &std::path::Path) -> Hosts {
    let mut hosts = Hosts::default();
    let read = std::fs::File::open(path).and_then(|file| hosts.read_hosts_conf(file));
    // A missing file is not a fault: many containers have none.
    if let Err(error) = read
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(
            name: "hosts_file_unreadable",
            file = %path.display(), %error, "cannot read the hosts file; names are looked up without it"
        );
    }
    hosts
}

fn modified(path: &std::path::Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|about| about.modified()).ok()
}
