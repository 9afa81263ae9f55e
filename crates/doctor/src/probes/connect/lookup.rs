//! The name: where it is known, for how long, and how long it takes to learn that.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use hickory_resolver::config::ResolveHosts;
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::op::Query;
use hickory_resolver::proto::rr::{Name, RecordType};
use hickory_resolver::{Hosts, TokioResolver};

use crate::context::ProbeContext;
use crate::finding::Finding;
use crate::report::time;

const ID: &str = "connect.lookup";

/// How long to wait for the name servers. The system's resolver has found the name before, so this only tells how.
const PATIENCE: Duration = Duration::from_secs(2);

/// Where a name was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Lookup {
    /// In the hosts file.
    Hosts,
    /// The name servers know it: addresses of each family, and how long they count.
    Found { four: usize, six: usize, ttl: Duration, took: Duration },
    /// They do not say, though the system's resolver has a result.
    Failed(String),
}

/// Nothing if no name is looked up.
pub(super) async fn ask(context: &ProbeContext) -> Option<Lookup> {
    let target = &context.target;
    let given = |(host, port, _): &(String, u16, IpAddr)| {
        host.eq_ignore_ascii_case(&target.host) && *port == target.port
    };
    if target.socket.is_some()
        || target.host.parse::<IpAddr>().is_ok()
        || context.settings.resolve.iter().any(given)
    {
        return None;
    }
    let name = match Name::from_utf8(&target.host) {
        Ok(name) => name,
        Err(error) => return Some(Lookup::Failed(error.to_string())),
    };
    if is_in_hosts(&name) {
        return Some(Lookup::Hosts);
    }
    let resolver = match resolver() {
        Ok(resolver) => resolver,
        Err(why) => return Some(Lookup::Failed(why)),
    };
    let patience = PATIENCE.min(context.settings.timeout);
    let late = |_| Lookup::Failed(format!("no complete DNS answer within {}", time(patience)));
    Some(tokio::time::timeout(patience, look(&resolver, name)).await.unwrap_or_else(late))
}

fn is_in_hosts(name: &Name) -> bool {
    let mut hosts = Hosts::default();
    // Many containers have no such file.
    let _ = std::fs::File::open("/etc/hosts").and_then(|file| hosts.read_hosts_conf(file));
    [RecordType::A, RecordType::AAAA]
        .into_iter()
        .any(|kind| hosts.lookup_static_host(&Query::query(name.clone(), kind)).is_some())
}

/// Both families at once, as the system's resolver does.
async fn look(resolver: &TokioResolver, name: Name) -> Lookup {
    let begun = Instant::now();
    let (four, six) =
        tokio::join!(resolver.lookup(name.clone(), RecordType::A), resolver.lookup(name, RecordType::AAAA));
    let took = begun.elapsed();
    let mut ttls = Vec::new();
    let mut count = |looked: Result<hickory_resolver::lookup::Lookup, NetError>, kind| match looked {
        Ok(lookup) => {
            // Those of aliases on the way count as well.
            ttls.extend(lookup.answers().iter().map(|record| record.ttl));
            Ok(lookup.answers().iter().filter(|record| record.record_type() == kind).count())
        }
        Err(error) if error.is_no_records_found() => Ok(0),
        Err(error) => Err(error.to_string()),
    };
    match (count(four, RecordType::A), count(six, RecordType::AAAA)) {
        (Ok(0), Ok(0)) => Lookup::Failed("they have no address for it".to_owned()),
        (Ok(four), Ok(six)) => {
            let ttl = Duration::from_secs(u64::from(ttls.into_iter().min().unwrap_or(0)));
            Lookup::Found { four, six, ttl, took }
        }
        (Err(why), _) | (_, Err(why)) => Lookup::Failed(why),
    }
}

fn resolver() -> Result<TokioResolver, String> {
    let text = std::fs::read("/etc/resolv.conf").map_err(|error| format!("/etc/resolv.conf: {error}"))?;
    let (config, mut options) = hickory_resolver::system_conf::parse_resolv_conf(text)
        .map_err(|error| format!("/etc/resolv.conf: {error}"))?;
    options.use_hosts_file = ResolveHosts::Never;
    options.cache_size = 0;
    let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
    *builder.options_mut() = options;
    builder.build().map_err(|error| error.to_string())
}

pub(super) fn judge(lookup: &Lookup) -> Finding {
    match lookup {
        Lookup::Hosts => Finding::good(ID, "the name is in /etc/hosts: no name server is queried"),
        Lookup::Failed(why) => Finding::unknown(ID, format!("the name servers of /etc/resolv.conf: {why}")),
        Lookup::Found { four, six, ttl, took } => {
            let evidence = format!(
                "{four} IPv4 and {six} IPv6 addresses, resolved in {}, time to live {} s",
                time(*took),
                ttl.as_secs()
            );
            match ttl.is_zero() {
                true => Finding::warning(ID, evidence)
                    .costs(format!("a lookup of {} before every new connection", time(*took))),
                false => Finding::good(ID, evidence),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;

    /// A name server that responds to A with one address and to AAAA with none.
    async fn name_server(ttl: u32) -> std::net::SocketAddr {
        let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        tokio::spawn(async move {
            let mut question = [0; 512];
            while let Ok((length, from)) = socket.recv_from(&mut question).await {
                // The head, and the one question, which ends with a zero, its type and its class.
                let end = 12 + question[12..length].iter().position(|&byte| byte == 0).unwrap() + 5;
                let is_a = question[end - 3] == 1;
                let mut answer = question[..end].to_vec();
                answer[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, u8::from(is_a), 0, 0, 0, 0]);
                if is_a {
                    answer.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1]);
                    answer.extend_from_slice(&ttl.to_be_bytes());
                    answer.extend_from_slice(&[0, 4, 192, 0, 2, 1]);
                }
                socket.send_to(&answer, from).await.unwrap();
            }
        });
        address
    }

    #[tokio::test]
    async fn the_time_to_live_is_that_of_the_name_server() {
        use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ProtocolConfig, ResolverConfig};
        for seconds in [300, 0] {
            let server = name_server(seconds).await;
            let mut connection = ConnectionConfig::new(ProtocolConfig::Udp);
            connection.port = server.port();
            let servers = vec![NameServerConfig::new(server.ip(), true, vec![connection])];
            let config = ResolverConfig::from_parts(None, Vec::new(), servers);
            let provider = TokioRuntimeProvider::default();
            let resolver = TokioResolver::builder_with_config(config, provider).build().unwrap();
            let looked = look(&resolver, Name::from_utf8("shop.example.").unwrap()).await;
            let Lookup::Found { four: 1, six: 0, ttl, .. } = looked else { panic!("{looked:?}") };
            assert_eq!(ttl.as_secs(), u64::from(seconds));
        }
    }

    #[test]
    fn only_a_name_that_may_never_be_remembered_costs() {
        let found = |ttl| Lookup::Found {
            four: 2,
            six: 1,
            ttl: Duration::from_secs(ttl),
            took: Duration::from_millis(12),
        };
        for (lookup, verdict, part) in [
            (Lookup::Hosts, Verdict::Good, "/etc/hosts"),
            (
                found(300),
                Verdict::Good,
                "2 IPv4 and 1 IPv6 addresses, resolved in 12.0 ms, time to live 300 s",
            ),
            (found(1), Verdict::Good, "live 1 s"),
            (found(0), Verdict::Warning, "live 0 s"),
            (Lookup::Failed("REFUSED".to_owned()), Verdict::Unknown, "REFUSED"),
        ] {
            let finding = judge(&lookup);
            assert_eq!(finding.verdict, verdict, "{}", finding.evidence);
            assert!(finding.evidence.contains(part), "{}", finding.evidence);
        }
    }
}
