//! Certificates on demand from a real authority (Pebble): the first handshake waits, a service permits or refuses, floods cost little.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use keepwarm_tests::certificates::Authority;
use keepwarm_tests::pebble::{Pebble, PebbleSettings};
use keepwarm_tests::process::{self, wait_until};
use keepwarm_tests::{BOUND, Server, admin};
use rustix::process::Signal;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};

/// An order takes seconds, and a busy machine makes several of each.
const LONG: Duration = Duration::from_secs(90);

/// RFC 8446 §6: the fatal alert `unrecognized_name` (112), before there are keys.
const UNRECOGNIZED_NAME: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];

/// The service that is asked: it permits everything until it is told otherwise.
struct Permission {
    address: SocketAddr,
    status: Arc<AtomicU16>,
    asked: Arc<Mutex<BTreeMap<String, usize>>>,
}

impl Permission {
    fn start(status: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let status = Arc::new(AtomicU16::new(status));
        let asked = Arc::<Mutex<BTreeMap<String, usize>>>::default();
        let (current, noted) = (Arc::clone(&status), Arc::clone(&asked));
        // Ends with the process of the test.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
                let first = lines.next().unwrap_or_default();
                lines.take_while(|line| !line.is_empty()).for_each(drop);
                let target =
                    first.strip_prefix("GET /ask?key=1&domain=").expect("the name is one more parameter");
                let name = target.split(' ').next().unwrap_or_default();
                *noted.lock().unwrap().entry(name.to_owned()).or_default() += 1;
                let status = current.load(Ordering::SeqCst);
                let _ = write!(&stream, "HTTP/1.1 {status} x\r\nContent-Length: 0\r\n\r\n");
            }
        });
        Self { address, status, asked }
    }

    fn url(&self) -> String {
        format!("http://{}/ask?key=1", self.address)
    }

    fn set(&self, status: u16) {
        self.status.store(status, Ordering::SeqCst);
    }

    /// How often it was asked about a name.
    fn asked(&self, name: &str) -> usize {
        self.asked.lock().unwrap().get(name).copied().unwrap_or(0)
    }

    fn asked_in_all(&self) -> usize {
        self.asked.lock().unwrap().values().sum()
    }
}

fn config(pebble: &Pebble, url: &str, more: &str) -> String {
    format!(
        r#"
[acme]
directory = "{}"
ca = "{}"
storage = "{}"
{more}

[admin]
bind = "127.0.0.1:0"

[listen.main]
bind = "127.0.0.1:{}"
tls = {{ on_demand = "{url}", handshake_timeout = "80s" }}
[[listen.main.route]]
respond = {{ status = 200, body = "hello" }}

[listen.http]
bind = "127.0.0.1:{}"
redirect_to_https = {}
"#,
        pebble.directory(),
        pebble.ca().display(),
        pebble.folder().join("storage").display(),
        pebble.tls_port(),
        pebble.http_port(),
        pebble.tls_port()
    )
}

/// What OpenSSL says about a handshake.
fn s_client(port: u16, name: &str, args: &[&str]) -> String {
    let output = Command::new("openssl")
        .args(["s_client", "-connect", &format!("127.0.0.1:{port}"), "-servername", name])
        .args(args)
        .stdin(Stdio::null())
        .output()
        .expect("openssl");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

/// The certificate that a client gets, and whether the authority has issued it.
fn served(port: u16, name: &str) -> Option<String> {
    let text = s_client(port, name, &[]);
    let issued = text.lines().any(|line| line.starts_with("issuer=") && line.contains("Pebble"));
    let pem = text.split("-----BEGIN CERTIFICATE-----").nth(1)?.split("-----END").next()?;
    issued.then(|| pem.to_owned())
}

/// What a client gets for its first message, with this SNI or none.
fn first_bytes(port: u16, name: Option<&str>) -> std::io::Result<Vec<u8>> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    config.enable_sni = name.is_some();
    let name = ServerName::try_from(name.unwrap_or("shop.test").to_owned()).unwrap();
    let mut session = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(LONG))?;
    session.write_tls(&mut stream)?;
    let mut first = vec![0; 7];
    stream.read_exact(&mut first)?;
    Ok(first)
}

fn is_refused(port: u16, name: &str) -> bool {
    first_bytes(port, Some(name)).unwrap() == UNRECOGNIZED_NAME
}

/// How many requested names ended so, once that is at least `least`.
#[track_caller]
fn count(server: &Server, result: &str, least: f64) -> f64 {
    admin::wait_for_metric(server, &format!("keepwarm_acme_on_demand_total{{result=\"{result}\"}}"), least)
}

/// Certificates that the authority has issued.
fn obtained(server: &Server) -> f64 {
    let metrics = admin::metrics(server);
    let counts =
        metrics.iter().filter(|(name, _)| name.starts_with("keepwarm_acme_certificates_obtained_total"));
    counts.map(|(_, count)| count).sum()
}

/// RFC 8446 §4.1.4: also where the server asks for a second first message.
#[test]
fn the_first_handshakes_of_a_name_wait_for_its_certificate() {
    let pebble = Pebble::start(PebbleSettings::default());
    let permission = Permission::start(200);
    let server = Server::start(&config(&pebble, &permission.url(), ""));
    let port = pebble.tls_port();
    let kinds: [&[&str]; 4] = [&["-tls1_3"], &["-tls1_2"], &["-groups", "P-521:P-256"], &[]];
    std::thread::scope(|scope| {
        for at in 0..8 {
            scope.spawn(move || {
                let text = s_client(port, "Shop.Test", kinds[at % kinds.len()]);
                assert!(text.contains("issuer=") && text.contains("Pebble"), "{text}");
            });
        }
    });
    assert_eq!((permission.asked("shop.test"), permission.asked_in_all()), (1, 1));
    wait_until("it is counted", BOUND, || obtained(&server) >= 1.0);
    assert_eq!(obtained(&server), 1.0, "{}", server.log());
    assert_eq!(count(&server, "issued", 1.0), 1.0);
    assert!(served(port, "shop.test").is_some());
    assert!(served(port, "www.shop.test").is_some(), "another name has its own");
    assert_eq!(permission.asked_in_all(), 2);
    let status = admin::status(&server);
    let shown = status["certificates"].as_array().unwrap();
    let shown = shown.iter().find(|one| one["acme"]["name"] == "shop.test").expect("the name");
    assert_eq!(
        (&shown["acme"]["on_demand"], &shown["acme"]["issued"]),
        (&true.into(), &true.into()),
        "{shown}"
    );
    assert_eq!(status["certificates_on_demand"]["issued"], 2, "{status}");
    server.wait_for_log("the service permits it", BOUND);
}

/// RFC 8737: the authority's own handshake for the name does not wait for its certificate.
#[test]
fn a_name_on_demand_is_validated_by_a_handshake() {
    let pebble = Pebble::start(PebbleSettings::default());
    let permission = Permission::start(200);
    let server = Server::start(&config(&pebble, &permission.url(), "challenges = [\"tls-alpn-01\"]"));
    assert!(served(pebble.tls_port(), "shop.test").is_some(), "{}", server.log());
    assert_eq!(permission.asked_in_all(), 1);
}

#[test]
fn a_name_that_is_not_permitted_is_refused_and_remembered() {
    let pebble = Pebble::start(PebbleSettings::default());
    let permission = Permission::start(404);
    let server = Server::start(&config(&pebble, &permission.url(), ""));
    let port = pebble.tls_port();
    for _ in 0..3 {
        assert!(is_refused(port, "shop.test"));
    }
    permission.set(200);
    assert!(is_refused(port, "shop.test"), "the refusal is remembered for minutes");
    assert_eq!(permission.asked("shop.test"), 1);
    assert_eq!((count(&server, "refused", 1.0), count(&server, "remembered", 3.0)), (1.0, 3.0));
    // No authority of the web certifies these: nobody is asked.
    for name in ["localhost", "a_b.test"] {
        assert!(is_refused(port, name), "{name}");
    }
    assert_eq!(first_bytes(port, None).unwrap(), UNRECOGNIZED_NAME);
    assert_eq!(permission.asked_in_all(), 1);
    assert_eq!(obtained(&server), 0.0);
    assert_eq!(fs::read_dir(pebble.storage_file("on_demand")).unwrap().count(), 0);
}

/// A service that is down permits nothing, and takes nothing away; only its no does.
#[test]
fn a_renewal_asks_again_and_a_no_ends_it() {
    let pebble = Pebble::start(PebbleSettings { validity_seconds: 20, ..PebbleSettings::default() });
    let permission = Permission::start(204);
    let server = Server::start(&config(&pebble, &permission.url(), ""));
    let port = pebble.tls_port();
    let first = served(port, "shop.test").expect("a certificate");
    permission.set(503);
    assert!(is_refused(port, "other.test"));
    server.wait_for_log("cannot ask whether a name may have a certificate", BOUND);
    server.wait_for_log("cannot ask whether the name is still permitted", LONG);
    wait_until("it is renewed", LONG, || served(port, "shop.test").is_some_and(|now| now != first));
    assert_eq!(count(&server, "unavailable", 1.0), 1.0);
    permission.set(200);
    let asked = permission.asked("shop.test");
    wait_until("it is asked about again", LONG, || permission.asked("shop.test") > asked);
    permission.set(403);
    server.wait_for_log("the service no longer permits the name", LONG);
    wait_until("it is not presented", BOUND, || is_refused(port, "shop.test"));
    wait_until("it is not stored", BOUND, || {
        ["on_demand/shop.test", "certificates/shop.test.pem"]
            .iter()
            .all(|file| !pebble.storage_file(file).exists())
    });
    assert!(admin::status(&server)["certificates"].as_array().unwrap().is_empty());
}

/// Nothing is asked or ordered again for what is stored, and the service may be down.
#[test]
fn names_outlive_reloads_upgrades_and_restarts() {
    let mut pebble = Pebble::start(PebbleSettings::default());
    let permission = Permission::start(200);
    let text = config(&pebble, &permission.url(), "");
    let server = Server::start(&text);
    let port = pebble.tls_port();
    let first = served(port, "shop.test");
    assert!(first.is_some());
    server.reload_with(&text.replace("\"hello\"", "\"again\""));
    assert_eq!(served(port, "shop.test"), first);
    // Whatever of it changes, there is no moment without the certificate.
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let begun = Instant::now();
            while !is_over.load(Ordering::SeqCst) && begun.elapsed() < LONG {
                assert_eq!(served(port, "shop.test"), first);
            }
        });
        for more in
            ["email = \"ops@shop.test\"", "on_demand_names = 7", "key = \"p384\"\non_demand_names = 5"]
        {
            server.reload_with(&config(&pebble, &permission.url(), more));
        }
        server.reload_with(&config(&pebble, "http://127.0.0.1:1/", ""));
        is_over.store(true, Ordering::SeqCst);
    });
    // Without the key nothing is presented; with it, all of it again.
    let without = text
        .replace("on_demand", "acme = \"fixed.test\", on_demand")
        .replace(&format!("on_demand = \"{}\", ", permission.url()), "");
    server.reload_with(&without);
    assert_ne!(served(port, "shop.test"), first);
    server.reload_with(&text);
    assert_eq!(served(port, "shop.test"), first);
    drop(server);
    pebble.stop();
    permission.set(500);
    let server = Server::start(&text);
    assert_eq!(served(port, "shop.test"), first);
    let before = server.mark();
    server.signal(Signal::USR2);
    server.wait_for_log_after(before, "upgraded: the new process serves", BOUND);
    assert_eq!(served(port, "shop.test"), first);
    assert_eq!(permission.asked("shop.test"), 1);
    admin::end_successor(&server);
}

/// What a service that is gone, or an authority that issues nothing, does to a client.
#[test]
fn without_a_service_or_an_authority_there_is_an_alert_and_no_loop() {
    let pebble = Pebble::start(PebbleSettings { blocked: &["blocked.test"], ..PebbleSettings::default() });
    // Nobody listens there any more.
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let text = config(&pebble, &format!("http://{gone}/"), "");
    let server = Server::start(&text);
    let port = pebble.tls_port();
    assert!(is_refused(port, "shop.test"));
    server.wait_for_log("cannot connect to 127.0.0.1", BOUND);
    assert_eq!(count(&server, "unavailable", 1.0), 1.0);
    let permission = Permission::start(200);
    server.reload_with(&config(&pebble, &permission.url(), ""));
    // A permitted name is not ordered again for each client: the order has its own waits.
    assert!(is_refused(port, "blocked.test"));
    server.wait_for_log("cannot obtain a certificate", BOUND);
    assert!(is_refused(port, "blocked.test"));
    assert_eq!(permission.asked("blocked.test"), 1);
    assert_eq!((count(&server, "failed", 1.0), count(&server, "remembered", 1.0)), (1.0, 1.0));
    assert!(served(port, "shop.test").is_some());
}

#[test]
fn the_number_of_names_is_bounded() {
    let pebble = Pebble::start(PebbleSettings::default());
    let permission = Permission::start(200);
    let server = Server::start(&config(&pebble, &permission.url(), "on_demand_names = 2"));
    let port = pebble.tls_port();
    assert!(served(port, "a.test").is_some() && served(port, "b.test").is_some());
    assert!(is_refused(port, "c.test"));
    server.wait_for_log("acme.on_demand_names is reached", BOUND);
    assert_eq!(count(&server, "full", 1.0), 1.0);
    assert_eq!(permission.asked("c.test"), 0);
    assert!(served(port, "a.test").is_some());
}

/// Thousands of invented names: a bounded number of questions, no order, bounded memory, and others are served.
#[test]
fn a_flood_of_names_costs_little_and_harms_nobody() {
    const THREADS: usize = 4;
    const NAMES: usize = 1000;
    let pebble = Pebble::start(PebbleSettings::default());
    let permission = Permission::start(200);
    let server = Server::start(&config(&pebble, &permission.url(), ""));
    let port = pebble.tls_port();
    assert!(served(port, "shop.test").is_some());
    permission.set(404);
    let (before, begun, left) =
        (process::resident_kib(server.pid()), Instant::now(), AtomicUsize::new(THREADS));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let left = &left;
            scope.spawn(move || {
                for at in 0..NAMES {
                    assert!(is_refused(port, &format!("{thread}-{at}.{}.test", "x".repeat(60))));
                }
                left.fetch_sub(1, Ordering::SeqCst);
            });
        }
        while left.load(Ordering::SeqCst) > 0 {
            assert!(served(port, "shop.test").is_some(), "the good client goes on");
        }
    });
    // Ten a second, and fifty at once.
    let most = 50 + 10 * (begun.elapsed().as_secs() as usize + 1);
    let asked = permission.asked_in_all() - 1;
    assert!(asked <= most, "{asked} questions, {most} allowed");
    assert!(asked < THREADS * NAMES, "{asked}");
    assert_eq!(obtained(&server), 1.0);
    assert_eq!(fs::read_dir(pebble.storage_file("orders")).unwrap().count(), 0);
    let grown = process::resident_kib(server.pid()).saturating_sub(before);
    assert!(grown < 64 * 1024, "{grown} KiB");
    let refused =
        || ["refused", "limited", "remembered"].iter().map(|result| count(&server, result, 0.0)).sum::<f64>();
    wait_until("all are counted", BOUND, || refused() as usize >= THREADS * NAMES);
    assert_eq!(refused() as usize, THREADS * NAMES);
    assert!(
        server.log().matches("can be asked about or ordered").count()
            <= 1 + begun.elapsed().as_secs() as usize / 60
    );
}

/// Over TLS with an authority that the system trusts; a certificate of any other permits nothing.
#[test]
fn a_service_is_asked_over_tls() {
    let pebble = Pebble::start(PebbleSettings::default());
    let (known, unknown) = (Authority::default(), Authority::named("others"));
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("https://localhost:{port}/ask");
    let asked = format!(
        "[listen.ask]\nbind = \"127.0.0.1:{port}\"\ntls = {{ cert = \"@DIR@/ask.pem\", key = \"@DIR@/ask.key\" }}\n\
         [[listen.ask.route]]\npath = \"/ask\"\nrespond = 204\n"
    );
    let text = config(&pebble, &url, "") + &asked;
    for (authority, is_trusted) in [(&unknown, false), (&known, true)] {
        let server = Server::start_with(&text, |command| {
            let folder = command.get_current_dir().unwrap().to_owned();
            authority.identity(&["localhost"]).write(&folder, "ask");
            fs::write(folder.join("system.pem"), known.pem()).unwrap();
            command.env("SSL_CERT_FILE", folder.join("system.pem"));
        });
        assert_eq!(served(pebble.tls_port(), "shop.test").is_some(), is_trusted, "{}", server.log());
        if !is_trusted {
            server.wait_for_log("TLS with localhost failed", BOUND);
        }
    }
}
