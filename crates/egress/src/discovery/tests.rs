//! Discovery against a name server of the test's own, over real sockets.

mod server;

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::RecordType;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;

use self::server::{DnsServer, Reply, alias, srv, v4, v6};
use super::*;

const BOUND: Duration = Duration::from_secs(30);
/// Names are asked for again at once.
fn quick() -> DnsSettings {
    settings(Duration::from_millis(5), Duration::from_millis(10))
}

fn settings(min_ttl: Duration, max_ttl: Duration) -> DnsSettings {
    DnsSettings { min_ttl, max_ttl, resolver: Vec::new() }
}

/// A discovery that runs, and what it publishes.
struct Running {
    status: Arc<DiscoveryStatus>,
    published: UnboundedReceiver<Vec<DiscoveredEndpoint>>,
    task: JoinHandle<()>,
}

impl Running {
    fn start(server: &DnsServer, addresses: &[SourceAddress], dns: DnsSettings) -> Self {
        Self::with(
            DnsResolver::of_test(server.address, "/dev/null".into(), Duration::from_secs(5)),
            addresses,
            dns,
        )
    }

    fn with(names: Arc<DnsResolver>, addresses: &[SourceAddress], dns: DnsSettings) -> Self {
        let status = Arc::<DiscoveryStatus>::default();
        let discovery = Discovery {
            upstream: "search".into(),
            sources: addresses.iter().map(source).collect(),
            dns,
            names,
            status: Arc::clone(&status),
        };
        let (sender, published) = unbounded_channel();
        let task =
            tokio::spawn(async move { discovery.run(move |found| drop(sender.send(found.to_vec()))).await });
        Self { status, published, task }
    }

    /// The next set: each endpoint with weight and priority.
    async fn next(&mut self) -> Vec<String> {
        let found = tokio::time::timeout(BOUND, self.published.recv()).await.expect("in time").unwrap();
        found.iter().map(|it| format!("{} {} {}", it.endpoint, it.weight, it.priority)).collect()
    }

    /// Waits until it is in trouble of this name, or in none.
    async fn in_trouble(&self, name: Option<&str>) {
        let wait = async {
            while self.status.trouble().map(|trouble| trouble.name) != name {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(BOUND, wait).await.unwrap_or_else(|_| panic!("not {name:?}: {:?}", self.status));
    }

    fn publishes_nothing(&mut self) -> bool {
        self.published.try_recv().is_err()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn source(address: &SourceAddress) -> Source {
    Source { address: address.clone(), authority: "search".into(), weight: 1, priority: 0 }
}

fn named(host: &str) -> SourceAddress {
    SourceAddress::Name { host: host.to_owned(), port: 80 }
}

#[tokio::test]
async fn an_answer_that_changes_is_published_and_one_that_does_not_is_not() {
    let server = DnsServer::start().await;
    server.set_v4("search.test", 1, &[[192, 0, 2, 2], [192, 0, 2, 1]]);
    let mut running = Running::start(&server, &[named("search.test")], quick());
    assert_eq!(running.next().await, ["192.0.2.1:80 1 0", "192.0.2.2:80 1 0"]);
    // Another order, or a longer time, does not count as a change.
    server.set_v4("search.test", 2, &[[192, 0, 2, 1], [192, 0, 2, 2]]);
    server.asked(6).await;
    assert!(running.publishes_nothing());
    server.set_v4("search.test", 1, &[[192, 0, 2, 3]]);
    assert_eq!(running.next().await, ["192.0.2.3:80 1 0"]);
    assert_eq!(running.status.changes(), 2);
    assert_eq!(running.status.failures(), 0);
}

#[tokio::test]
async fn the_last_good_answer_outlives_failures_and_emptiness() {
    let server = DnsServer::start().await;
    server.set_v4("search.test", 1, &[[192, 0, 2, 1]]);
    let mut running = Running::start(&server, &[named("search.test")], quick());
    assert_eq!(running.next().await, ["192.0.2.1:80 1 0"]);
    let troubles = [
        (Reply::Code(ResponseCode::ServFail), "dns_refused"),
        (Reply::Code(ResponseCode::NXDomain), "dns_empty"),
        (Reply::Records(Vec::new()), "dns_empty"),
    ];
    for (reply, name) in troubles {
        server.set("search.test", RecordType::A, reply.clone());
        server.set("search.test", RecordType::AAAA, reply);
        running.in_trouble(Some(name)).await;
        assert!(running.publishes_nothing());
        server.set_v4("search.test", 1, &[[192, 0, 2, 1]]);
        running.in_trouble(None).await;
        assert!(running.publishes_nothing(), "it is as it was");
    }
    assert!(running.status.failures() >= 3);
}

#[tokio::test]
async fn a_server_that_says_nothing_holds_up_nobody_else() {
    let server = DnsServer::start().await;
    server.set_v4("search.test", 60, &[[192, 0, 2, 1]]);
    for kind in [RecordType::A, RecordType::AAAA] {
        server.set("silent.test", kind, Reply::Silence);
    }
    let names = DnsResolver::of_test(server.address, "/dev/null".into(), Duration::from_secs(2));
    let mut running = Running::with(names, &[named("silent.test"), named("search.test")], quick());
    assert_eq!(running.next().await, ["192.0.2.1:80 1 0"], "published without the other");
    running.in_trouble(Some("dns_timeout")).await;
    server.set_v4("silent.test", 60, &[[192, 0, 2, 9]]);
    assert_eq!(running.next().await, ["192.0.2.1:80 1 0", "192.0.2.9:80 1 0"]);
}

#[tokio::test]
async fn one_family_that_is_late_does_not_hold_up_the_first_set() {
    let server = DnsServer::start().await;
    server.set_v4("search.test", 60, &[[192, 0, 2, 1]]);
    server.set("search.test", RecordType::AAAA, Reply::Silence);
    let mut running = Running::start(&server, &[named("search.test")], quick());
    assert_eq!(running.next().await, ["192.0.2.1:80 1 0"]);
    running.in_trouble(Some("dns_late")).await;
}

#[tokio::test]
async fn the_hosts_file_goes_before_the_servers_and_is_read_again() {
    let server = DnsServer::start().await;
    server.set_v4("search.test", 1, &[[192, 0, 2, 1]]);
    server.set("search.test", RecordType::AAAA, Reply::Records(vec![(v6(Ipv6Addr::LOCALHOST), 1)]));
    let hosts = scratch("hosts");
    std::fs::write(&hosts, "127.0.0.7 other.test Search.Test # here\n").unwrap();
    let names = DnsResolver::of_test(server.address, hosts.clone(), Duration::from_secs(5));
    let mut running = Running::with(names, &[named("search.test")], quick());
    assert_eq!(running.next().await, ["127.0.0.7:80 1 0"], "nothing of the name server's");
    std::fs::write(&hosts, "127.0.0.8 search.test\n").unwrap();
    assert_eq!(running.next().await, ["127.0.0.8:80 1 0"]);
    std::fs::remove_file(&hosts).unwrap();
    let after = running.next().await;
    assert!(after.iter().any(|it| it.starts_with("192.0.2.1:80")), "{after:?}");
}

#[tokio::test]
async fn a_long_answer_comes_over_tcp_and_an_alias_is_followed() {
    let server = DnsServer::start().await;
    let many: Vec<_> = (0..100).map(|last| (v4([192, 0, 2, last]), 60)).collect();
    server.set("many.test", RecordType::A, Reply::Long(many));
    server.set("many.test", RecordType::AAAA, Reply::Records(Vec::new()));
    let records = vec![(alias("real.test."), 1), (v4([192, 0, 2, 200]), 3600)];
    server.set("alias.test", RecordType::A, Reply::Records(records));
    server.set("alias.test", RecordType::AAAA, Reply::Records(Vec::new()));
    let mut running = Running::start(&server, &[named("many.test"), named("alias.test")], quick());
    let found = running.next().await;
    assert_eq!(found.len(), 101);
    assert!(found.contains(&"192.0.2.200:80 1 0".to_owned()));
    let names = DnsResolver::of_test(server.address, "/dev/null".into(), Duration::from_secs(5));
    let (addresses, _) = names.addresses("alias.test", false).await;
    let expected = vec![Ipv4Addr::new(192, 0, 2, 200)];
    assert_eq!(
        addresses,
        names::LookupResult::Found(expected, Duration::from_secs(1)),
        "the alias's time counts"
    );
}

#[tokio::test]
async fn a_service_has_ports_weights_and_priorities() {
    let server = DnsServer::start().await;
    let records = vec![
        (srv(10, 3, 8001, "a.test."), 1),
        (srv(10, 1, 8002, "b.test."), 1),
        (srv(20, 0, 8003, "c.test."), 1),
        (srv(20, 5, 8003, "gone.test."), 1),
    ];
    server.set("_search._tcp.test", RecordType::SRV, Reply::Records(records));
    // Two addresses share the weight of their server.
    server.set_v4("a.test", 1, &[[192, 0, 2, 1], [192, 0, 2, 2]]);
    server.set_v4("b.test", 1, &[[192, 0, 2, 3]]);
    server.set_v4("c.test", 1, &[[192, 0, 2, 4]]);
    let mut running = Running::start(&server, &[SourceAddress::Srv("_search._tcp.test".to_owned())], quick());
    let expected =
        ["192.0.2.1:8001 90 0", "192.0.2.2:8001 90 0", "192.0.2.3:8002 60 0", "192.0.2.4:8003 1 1"];
    assert_eq!(running.next().await, expected);
    running.in_trouble(Some("dns_empty")).await;
    // The service moves to one server; then it says that it is nowhere, which is not believed.
    let one = vec![(srv(0, 0, 9000, "b.test."), 1)];
    server.set("_search._tcp.test", RecordType::SRV, Reply::Records(one));
    assert_eq!(running.next().await, ["192.0.2.3:9000 1 0"]);
    running.in_trouble(None).await;
    let nowhere = vec![(srv(0, 0, 0, "."), 1)];
    server.set("_search._tcp.test", RecordType::SRV, Reply::Records(nowhere));
    running.in_trouble(Some("dns_empty")).await;
    assert!(running.publishes_nothing());
}

#[tokio::test]
async fn of_two_families_the_one_that_works_comes_first() {
    let (port, _six, _four) = race::tests::port(true).await;
    let server = DnsServer::start().await;
    server.set("search.test", RecordType::A, Reply::Records(vec![(v4([127, 0, 0, 1]), 60)]));
    server.set("search.test", RecordType::AAAA, Reply::Records(vec![(v6(Ipv6Addr::LOCALHOST), 60)]));
    let address = SourceAddress::Name { host: "search.test".to_owned(), port };
    let mut running = Running::start(&server, &[address], quick());
    let found = running.next().await;
    assert_eq!(found.first(), Some(&format!("127.0.0.1:{port} 1 0")));
    // The other stands by, unless this machine has no sixth version at all.
    assert!(found.len() == 1 || found[1] == format!("[::1]:{port} 1 1"), "{found:?}");
}

#[tokio::test]
async fn literal_places_need_no_name_server() {
    let unix = SourceAddress::Unix("/run/search.sock".into());
    let literal = SourceAddress::Address("192.0.2.1:80".parse().unwrap());
    let nobody = DnsResolver::new(&["127.0.0.1:1".parse().unwrap()]);
    let host = named("192.0.2.7");
    let mut running = Running::with(nobody, &[unix, literal, host], quick());
    assert_eq!(running.next().await, ["192.0.2.1:80 1 0", "192.0.2.7:80 1 0", "unix:/run/search.sock 1 0"]);
    assert_eq!(running.status.failures(), 0);
}

#[tokio::test]
async fn it_looks_again_when_it_is_told_to() {
    let server = DnsServer::start().await;
    server.set_v4("search.test", 3600, &[[192, 0, 2, 1]]);
    let hourly = settings(Duration::from_millis(5), Duration::from_secs(3600));
    let mut running = Running::start(&server, &[named("search.test")], hourly);
    running.next().await;
    server.set_v4("search.test", 3600, &[[192, 0, 2, 2]]);
    let again = async {
        // The word is lost on a lookup that is under way.
        while running.status.changes() == 1 {
            running.status.look_again();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(BOUND, again).await.expect("in time");
    assert_eq!(running.next().await, ["192.0.2.2:80 1 0"]);
}

#[test]
fn a_time_to_live_has_a_floor_and_a_ceiling_and_a_little_chance() {
    let discovery = Discovery {
        upstream: "search".into(),
        sources: vec![source(&named("search.test"))],
        dns: settings(Duration::from_secs(10), Duration::from_secs(100)),
        names: DnsResolver::new(&[]),
        status: Arc::default(),
    };
    let mut watch = SourceWatcher::new(&discovery, 0, mpsc::channel(1).0);
    let mut pause =
        |ttl| watch.pause(LookupOutcome { ttl: Some(Duration::from_secs(ttl)), trouble: None }).as_millis();
    for _ in 0..100 {
        assert!((9_000..=10_000).contains(&pause(0)));
        assert!((45_000..=50_000).contains(&pause(50)));
        assert!((90_000..=100_000).contains(&pause(u64::from(u32::MAX))));
    }
    let mut failing =
        || watch.pause(LookupOutcome { ttl: None, trouble: Some(LookupFailure::new("dns_timeout", "")) });
    let pauses: Vec<u128> = (0..8).map(|_| failing().as_millis()).collect();
    assert!((500..=1_000).contains(&pauses[0]), "{pauses:?}");
    assert!((15_000..=30_000).contains(&pauses[7]), "{pauses:?}");
}

fn scratch(name: &str) -> PathBuf {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("keepwarm-{name}-{}-{number}", std::process::id()))
}
