//! Endpoints that are checked, by servers that change their minds.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::time::Duration;

use keepwarm_egress::{
    DiscoveredEndpoint, Door, EndpointState, HealthSettings, Probe, Source, SourceAddress, Upstream,
    UpstreamSettings, run_health_checks,
};
use keepwarm_net::{CaSource, ClientTls, Endpoint, Pem, Protocol, Scheme, TlsSettings, TlsVersion};
use keepwarm_policy::HealthThresholds;
use rustls::ServerConfig;

use crate::harness::{BOUND, Server, status, wait_until};
use crate::origin::Origin;

/// An upstream of these servers, its door, and who looks after its endpoints.
struct CheckedUpstream {
    upstream: Arc<Upstream>,
    door: Server,
}

impl CheckedUpstream {
    fn start(origins: &[&Origin], change: impl FnOnce(&mut UpstreamSettings)) -> Self {
        let places = origins.iter().map(|origin| source(SourceAddress::Address(origin.address))).collect();
        let mut settings = UpstreamSettings::new(Scheme::Http, places);
        settings.health = Some(health());
        change(&mut settings);
        let upstream = Upstream::new("search", settings);
        assert!(upstream.publish_literal());
        let door = Server::start(Arc::new(Door::new(Arc::clone(&upstream), None)));
        let watched = Arc::downgrade(&upstream);
        door.remote().spawn(move || run_health_checks(watched));
        Self { upstream, door }
    }

    fn state(&self, origin: &Origin) -> Arc<EndpointState> {
        let set = self.upstream.endpoints();
        let entry = set.endpoints.iter().find(|entry| entry.endpoint == Endpoint::Tcp(origin.address));
        Arc::clone(&entry.unwrap().state)
    }

    fn wait_for(&self, origin: &Origin, healthy: bool) {
        let state = self.state(origin);
        wait_until(|| state.is_healthy() == healthy, "a decision");
    }

    /// Changes the settings as a reload does.
    fn change(&self, change: impl FnOnce(&mut UpstreamSettings)) {
        let mut settings = UpstreamSettings::clone(&self.upstream.settings());
        change(&mut settings);
        self.upstream.set_settings(settings);
    }

    fn call(&self) -> u16 {
        status(&self.door.get(""))
    }
}

fn health() -> HealthSettings {
    HealthSettings {
        probe: Probe::Http { path: "/health?deep".to_owned(), statuses: vec![200..=204, 299..=299] },
        timeout: BOUND,
        thresholds: HealthThresholds { interval: Duration::from_millis(20), rise: 2, fall: 2 },
    }
}

fn source(address: SourceAddress) -> Source {
    Source { address, authority: "search.test:81".into(), weight: 1, priority: 0 }
}

#[test]
fn an_endpoint_that_fails_its_checks_gets_no_calls_until_it_passes() {
    let (one, two) = (Origin::start(None), Origin::start(None));
    let checked = CheckedUpstream::start(&[&one, &two], |_| ());
    wait_until(|| one.checks() >= 2 && two.checks() >= 2, "checks of both");
    assert!(checked.state(&one).is_healthy() && checked.state(&two).is_healthy());
    assert_eq!(one.host_of_checks(), "search.test:81");
    one.respond_to_checks_with(503);
    checked.wait_for(&one, false);
    let failure = checked.state(&one).check_failure().unwrap();
    assert_eq!(
        (failure.name, failure.sentence.as_str()),
        ("health_status", "it responds to /health?deep with 503")
    );
    let before = one.calls();
    for _ in 0..20 {
        assert_eq!(checked.call(), 200);
    }
    assert_eq!(one.calls(), before, "it gets none");
    one.respond_to_checks_with(299);
    checked.wait_for(&one, true);
    assert_eq!(checked.state(&one).check_failure(), None);
    wait_until(|| checked.call() == 200 && one.calls() > before, "a call");
}

#[test]
fn when_all_fail_all_are_called() {
    let (one, two) = (Origin::start(None), Origin::start(None));
    let checked = CheckedUpstream::start(&[&one, &two], |_| ());
    for origin in [&one, &two] {
        origin.respond_to_checks_with(500);
    }
    checked.wait_for(&one, false);
    checked.wait_for(&two, false);
    wait_until(|| checked.call() == 200 && one.calls() > 0 && two.calls() > 0, "calls to both");
}

#[test]
fn a_server_that_hangs_or_is_gone_fails_and_one_that_is_back_passes() {
    let hanging = Origin::start(None);
    let gone = Origin::start(None);
    let gone_at = gone.address;
    let checked = CheckedUpstream::start(&[&hanging, &gone], |settings| {
        settings.health.as_mut().unwrap().timeout = Duration::from_millis(100);
    });
    let state = checked.state(&gone);
    hanging.hang(true);
    checked.wait_for(&hanging, false);
    let failure = checked.state(&hanging).check_failure().unwrap();
    assert_eq!(failure.name, "health_timeout", "{failure:?}");
    drop(gone);
    wait_until(|| state.check_failure().is_some_and(|it| it.name == "connect_refused"), "its end");
    wait_until(|| !state.is_healthy(), "a decision");
    let mut again = None;
    wait_until(
        || {
            again = std::net::TcpListener::bind(gone_at).ok().map(|listener| Origin::at(listener, None));
            again.is_some()
        },
        "its port",
    );
    hanging.hang(false);
    wait_until(|| state.is_healthy(), "its return");
    checked.wait_for(&hanging, true);
}

#[test]
fn a_connection_is_enough_where_only_that_is_asked() {
    let origin = Origin::start(None);
    origin.respond_to_checks_with(500);
    let checked = CheckedUpstream::start(&[&origin], |settings| {
        settings.health.as_mut().unwrap().probe = Probe::Connect;
    });
    let state = checked.state(&origin);
    drop(origin);
    wait_until(|| !state.is_healthy(), "its end");
    assert_eq!(state.check_failure().unwrap().name, "connect_refused");
}

#[test]
fn settings_that_change_are_followed_and_without_checks_all_are_healthy() {
    let origin = Origin::start(None);
    let checked = CheckedUpstream::start(&[&origin], |settings| settings.health = None);
    origin.respond_to_checks_with(500);
    assert_eq!(checked.call(), 200);
    assert_eq!(origin.checks(), 0);
    checked.change(|settings| settings.health = Some(health()));
    checked.wait_for(&origin, false);
    checked.change(|settings| settings.health = None);
    checked.wait_for(&origin, true);
}

#[test]
fn endpoints_that_come_are_checked_and_begin_slowly() {
    let (one, two) = (Origin::start(None), Origin::start(None));
    let hour = Some(Duration::from_secs(3600));
    let checked = CheckedUpstream::start(&[&one], |settings| settings.slow_start = hour);
    wait_until(|| one.checks() > 0, "a check");
    assert_eq!(checked.state(&one).warmth(), 1000, "it was there from the beginning");
    let found = |origin: &Origin| DiscoveredEndpoint {
        endpoint: Endpoint::Tcp(origin.address),
        weight: 1,
        priority: 0,
        authority: "search.test".into(),
    };
    checked.upstream.publish(&[found(&one), found(&two)]);
    wait_until(|| two.checks() > 0, "a check of the new one");
    let is_cold = |origin: &Origin| (100..200).contains(&checked.state(origin).warmth());
    assert!(is_cold(&two) && !is_cold(&one));
    // One that was down begins slowly as well.
    one.respond_to_checks_with(500);
    checked.wait_for(&one, false);
    one.respond_to_checks_with(200);
    checked.wait_for(&one, true);
    assert!(is_cold(&one));
    checked.change(|settings| settings.slow_start = Some(Duration::from_millis(10)));
    wait_until(|| checked.state(&one).warmth() == 1000 && checked.state(&two).warmth() == 1000, "warmth");
    // What is gone is not looked after any more.
    checked.upstream.publish(&[found(&one)]);
    let (before, others) = (two.checks(), one.checks());
    wait_until(|| one.checks() > others + 5, "checks of the other");
    assert!(two.checks() <= before + 1, "one may have been under way");
}

#[test]
fn checks_are_encrypted_where_calls_are() {
    let (server, ca) = certificates("search.test");
    let origin = Origin::start(Some(server));
    let checked = CheckedUpstream::start(&[&origin], |settings| settings.scheme = Scheme::Https);
    let state = checked.state(&origin);
    // In plaintext, a check of the TLS server fails.
    wait_until(|| !state.is_healthy(), "a check in clear");
    let tls = |name: &str| {
        let ca = Pem { file: "ca.pem".into(), text: ca.clone().into_bytes() };
        ClientTls::new(&TlsSettings {
            server_name: name.to_owned(),
            ca: CaSource::Only(ca),
            identity: None,
            min_version: TlsVersion::Tls12,
            alpn: vec![b"http/1.1".to_vec()],
        })
        .unwrap()
    };
    checked.upstream.set_tls(Some(tls("search.test")));
    wait_until(|| state.is_healthy() && origin.checks() > 0, "an encrypted check");
    checked.upstream.set_tls(Some(tls("other.test")));
    wait_until(|| !state.is_healthy(), "a check of the wrong name");
    let sentence = state.check_failure().unwrap().sentence;
    assert!(sentence.contains("other.test") && sentence.contains("search.test"), "{sentence}");
}

/// A certificate for this name, and who has signed it.
fn certificates(name: &str) -> (Arc<ServerConfig>, String) {
    let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    (Arc::new(config), made.cert.pem())
}

#[test]
fn checks_speak_the_protocol_of_calls() {
    let status = Arc::new(AtomicU16::new(200));
    let (address, checks) = http2_origin(Arc::clone(&status));
    let mut settings = UpstreamSettings::new(Scheme::Http, vec![source(SourceAddress::Address(address))]);
    settings.protocol = Protocol::Http2;
    settings.health = Some(health());
    let upstream = Upstream::new("search", settings);
    assert!(upstream.publish_literal());
    let plane = keepwarm_net::DataPlane::start_named("checks", 1).unwrap();
    let watched = Arc::downgrade(&upstream);
    plane.remotes()[0].spawn(move || run_health_checks(watched));
    let state = Arc::clone(&upstream.endpoints().endpoints[0].state);
    wait_until(|| checks.load(Ordering::SeqCst) >= 2, "checks");
    assert!(state.is_healthy());
    status.store(503, Ordering::SeqCst);
    wait_until(|| !state.is_healthy(), "a decision");
    assert_eq!(state.check_failure().unwrap().name, "health_status");
    status.store(200, Ordering::SeqCst);
    wait_until(|| state.is_healthy(), "its return");
    plane.stop();
}

/// A server of HTTP/2 in plaintext, and its number of responses to `/health?deep`. It ends with the process.
fn http2_origin(status: Arc<AtomicU16>) -> (SocketAddr, Arc<AtomicU32>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let (address, checks) = (listener.local_addr().unwrap(), Arc::new(AtomicU32::new(0)));
    let counted = Arc::clone(&checks);
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                let (status, counted) = (Arc::clone(&status), Arc::clone(&counted));
                tokio::spawn(async move {
                    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
                    while let Some(Ok((request, mut respond))) = connection.accept().await {
                        assert_eq!(request.uri().path_and_query().unwrap(), "/health?deep");
                        counted.fetch_add(1, Ordering::SeqCst);
                        let response = http::Response::builder().status(status.load(Ordering::SeqCst));
                        let _ = respond.send_response(response.body(()).unwrap(), true);
                    }
                });
            }
        });
    });
    (address, checks)
}
