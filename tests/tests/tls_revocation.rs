//! What is revoked, and what is out of date: OCSP responses of our certificate, and lists of revoked clients.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use keepwarm_tests::certificates::{Authority, Identity, TlsClient};
use keepwarm_tests::{BOUND, Server, admin, keepwarm};

/// Files are looked at every 5 s.
const LOOK: Duration = Duration::from_secs(30);

const CONFIG: &str = r#"
[listen.main]
bind = "127.0.0.1:0"
tls = { cert = "@DIR@/shop.pem", key = "@DIR@/shop.key", @TLS@ }
[[listen.main.route]]
respond = { status = 200, body = "hello" }
[admin]
bind = "127.0.0.1:0"
"#;

/// An authority's response, as OpenSSL makes it.
const MAKE: &str = "set -e
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.pem -days 30 -subj /CN=ca
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout shop.key -out shop.csr -subj /CN=shop
printf subjectAltName=DNS:shop.example > names
openssl x509 -req -in shop.csr -CA ca.pem -CAkey ca.key -set_serial 0x1234 -days 20 -out shop.pem -extfile names
printf 'V\\t291231235959Z\\t\\t1234\\tunknown\\t/CN=shop\\n' > index.txt
openssl ocsp -index index.txt -rsigner ca.pem -rkey ca.key -CA ca.pem -issuer ca.pem -cert shop.pem -respout shop.ocsp -ndays 1
";

/// The same response with another nextUpdate: nobody but the client verifies its signature.
fn until(response: &[u8], end: SystemTime) -> Vec<u8> {
    /// GeneralizedTime, such as 20261231235959Z (RFC 5280 §4.1.2.5.2).
    const TIME: usize = 15;
    let is_time = |at: &[u8]| at.starts_with(&[0x18, 15]) && at.len() >= TIME + 2 && at[TIME + 1] == b'Z';
    let last =
        (0..response.len()).rfind(|&at| is_time(&response[at..]) && response[at - 2..at] == [0xA0, 17]);
    let at = last.expect("nextUpdate") + 2;
    let seconds = end.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let date = Command::new("date").args(["-u", "-d", &format!("@{seconds}"), "+%Y%m%d%H%M%SZ"]).output();
    let mut changed = response.to_vec();
    changed[at..at + TIME].copy_from_slice(&date.expect("date").stdout[..TIME]);
    changed
}

fn is_stapled(server: &Server) -> bool {
    let output = Command::new("openssl")
        .args(["s_client", "-status", "-servername", "shop.example", "-connect"])
        .arg(server.address().to_string())
        .stdin(Stdio::null())
        .output()
        .expect("openssl");
    let output = String::from_utf8_lossy(&output.stdout);
    assert!(output.contains("OCSP response:"), "{output}");
    output.contains("Cert Status: good")
}

/// RFC 6960 §3.2: clients refuse a response whose nextUpdate is over.
#[test]
fn an_expired_ocsp_response_is_not_stapled_until_the_file_is_replaced() {
    let config = CONFIG.replace("@TLS@", "ocsp = \"@DIR@/shop.ocsp\"");
    let mut fresh = Vec::new();
    let server = Server::start_with(&config, |command| {
        let folder = command.get_current_dir().unwrap();
        let output = Command::new("sh").args(["-c", MAKE]).current_dir(folder).output().expect("sh");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        fresh = fs::read(folder.join("shop.ocsp")).unwrap();
        let soon = SystemTime::now() + Duration::from_secs(8);
        fs::write(folder.join("shop.ocsp"), until(&fresh, soon)).unwrap();
    });
    assert!(is_stapled(&server), "it is valid for some seconds");
    server.wait_for_log("OCSP response expired", LOOK);
    assert!(!is_stapled(&server));
    let (file, mark) = (server.folder().join("shop.ocsp"), server.mark());
    fs::write(&file, &fresh).unwrap();
    server.wait_for_log_after(mark, "new connections use the changed certificates", LOOK);
    assert!(is_stapled(&server));
    // An old response in place of a good one is a mistake.
    let past = SystemTime::now() - Duration::from_secs(60);
    fs::write(&file, until(&fresh, past)).unwrap();
    server.wait_for_log_after(mark, "has expired, and the previous one has not", LOOK);
    assert!(is_stapled(&server));
    assert_eq!(server.log().matches("OCSP response expired").count(), 1, "{}", server.log());
}

/// Clients of an authority, with a list of those that it has revoked.
struct World {
    server_authority: Authority,
    clients: Authority,
    shop: Identity,
}

impl World {
    fn new() -> Self {
        let server_authority = Authority::default();
        let shop = server_authority.identity(&["shop.example"]);
        Self { server_authority, clients: Authority::named("clients"), shop }
    }

    fn client(&self, name: &str, serial: u64) -> Identity {
        self.clients.identity_with(&[name], |params| params.serial_number = Some(serial.into()))
    }

    fn start(&self, crl: &str) -> Server {
        let tls = "client_ca = \"@DIR@/clients.pem\", client_crl = \"@DIR@/revoked.pem\"";
        Server::start_with(&CONFIG.replace("@TLS@", tls), |command| {
            let folder = command.get_current_dir().unwrap();
            self.shop.write(folder, "shop");
            fs::write(folder.join("clients.pem"), self.clients.pem()).unwrap();
            fs::write(folder.join("revoked.pem"), crl).unwrap();
        })
    }

    fn serves(&self, server: &Server, identity: &Identity) -> bool {
        self.ask(server, self.server_authority.client(Some(identity))).is_ok_and(|(status, _)| status == 200)
    }

    /// The status, and whether the session was resumed.
    fn ask(&self, server: &Server, config: rustls::ClientConfig) -> std::io::Result<(u16, bool)> {
        let mut client = TlsClient::connect(server.address(), "shop.example", config)?;
        let (status, _) = client.ask("GET / HTTP/1.1\r\nHost: shop.example\r\n\r\n")?;
        Ok((status, client.is_resumed()))
    }
}

fn later(seconds: u64) -> SystemTime {
    SystemTime::now() + Duration::from_secs(seconds)
}

const DAY: u64 = 24 * 3600;

/// RFC 5280 §6.3: a listed certificate is refused, from the moment at which the list is loaded.
#[test]
fn a_revoked_client_is_refused_as_soon_as_the_list_says_so() {
    let world = World::new();
    let (anna, eve) = (world.client("anna", 11), world.client("eve", 12));
    let server = world.start(&world.clients.revoked(&[12], later(DAY)));
    assert!(world.serves(&server, &anna));
    assert!(!world.serves(&server, &eve));
    let revoked =
        "keepwarm_tls_handshake_failures_total{listener=\"main\",reason=\"client_certificate_revoked\"}";
    // Counted after the alert has left.
    assert_eq!(admin::wait_for_metric(&server, revoked, 1.0), 1.0);
    // A session of before is not resumed past the new list.
    let mut config = world.server_authority.client(Some(&anna));
    config.resumption = rustls::client::Resumption::in_memory_sessions(8);
    assert_eq!(world.ask(&server, config.clone()).unwrap(), (200, false));
    assert_eq!(world.ask(&server, config.clone()).unwrap(), (200, true));
    let mark = server.mark();
    fs::write(server.folder().join("revoked.pem"), world.clients.revoked(&[11], later(DAY))).unwrap();
    server.wait_for_log_after(mark, "new connections use the changed certificates", LOOK);
    assert!(world.ask(&server, config).is_err());
    assert!(!world.serves(&server, &anna));
    assert!(world.serves(&server, &eve));
}

/// An old list misses what was revoked since: nobody is let in by it.
#[test]
fn an_expired_list_refuses_everyone_until_it_is_replaced() {
    let world = World::new();
    let anna = world.client("anna", 11);
    let server = world.start(&world.clients.revoked(&[12], later(6)));
    server.wait_for_log("a list in client_crl has expired", LOOK);
    assert!(!world.serves(&server, &anna));
    server.wait_for_log("fetch a new one", BOUND);
    let (file, mark) = (server.folder().join("revoked.pem"), server.mark());
    fs::write(&file, world.clients.revoked(&[12], later(DAY))).unwrap();
    server.wait_for_log_after(mark, "new connections use the changed certificates", LOOK);
    assert!(world.serves(&server, &anna));
    // A file that cannot be used changes nothing.
    fs::write(&file, "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n").unwrap();
    server.wait_for_log_after(mark, "revoked.pem cannot be used: list 1 is not a revocation list", LOOK);
    assert!(world.serves(&server, &anna));
}

/// A list of another authority says nothing about a client.
#[test]
fn a_client_whose_authority_has_no_list_is_refused() {
    let world = World::new();
    let server = world.start(&Authority::named("others").revoked(&[], later(DAY)));
    assert!(!world.serves(&server, &world.client("anna", 11)));
    server.wait_for_log("client_crl has no list of an authority", BOUND);
}

#[test]
fn faults_of_lists_are_reported_with_file_and_line() {
    let world = World::new();
    let folder = std::env::temp_dir().join(format!("keepwarm-crl-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    world.shop.write(&folder, "shop");
    fs::write(folder.join("clients.pem"), world.clients.pem()).unwrap();
    fs::write(folder.join("noise.pem"), "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n").unwrap();
    for (tls, parts) in [
        (
            "client_ca = \"clients.pem\", client_crl = \"shop.pem\"",
            ["no revocation list", "keepwarm.toml:4:"],
        ),
        ("client_ca = \"clients.pem\", client_crl = \"none.pem\"", ["cannot be read", "keepwarm.toml:4:"]),
        ("client_crl = \"noise.pem\"", ["`client_crl` without `client_ca`", "keepwarm.toml:4:"]),
        (
            "client_ca = \"clients.pem\", client_crl = \"noise.pem\"",
            ["listen.main.tls", "noise.pem cannot be used"],
        ),
    ] {
        fs::write(folder.join("keepwarm.toml"), CONFIG.replace("@DIR@/", "").replace("@TLS@", tls)).unwrap();
        let output =
            Command::new(keepwarm()).args(["run", "--dry-run"]).current_dir(&folder).output().unwrap();
        let output = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        for part in parts {
            assert!(output.contains(part), "{tls}: no {part:?} in\n{output}");
        }
    }
    fs::remove_dir_all(&folder).unwrap();
}
