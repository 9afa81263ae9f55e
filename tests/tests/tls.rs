//! Listeners with TLS: certificates by name, versions, resumption, files that change, clients that do what they should not.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use keepwarm_tests::certificates::{Authority, Identity, TlsClient, TlsRelay};
use keepwarm_tests::service::Service;
use keepwarm_tests::{ASGI, BOUND, Client, Server, WSGI, admin, keepwarm, websocket};
use rustix::process::Signal;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// A listener that responds itself.
const FIXED: &str = r#"
[listen.main]
bind = "127.0.0.1:0"
tls = { @TLS@ }
[[listen.main.route]]
respond = { status = 200, body = "hello" }
"#;

/// Starts with these certificates: names of files in the server's directory.
fn start(config: &str, tls: &str, files: &[(&str, &Identity)]) -> Server {
    Server::start_with(&config.replace("@TLS@", tls), |command| write(command, files))
}

fn write(command: &Command, files: &[(&str, &Identity)]) {
    let folder = command.get_current_dir().expect("it has a directory");
    files.iter().for_each(|(name, identity)| drop(identity.write(folder, name)));
}

fn pair(name: &str) -> String {
    format!("cert = \"@DIR@/{name}.pem\", key = \"@DIR@/{name}.key\"")
}

fn list(names: &[&str]) -> String {
    let each: Vec<String> = names.iter().map(|name| format!("{{ {} }}", pair(name))).collect();
    format!("certificates = [{}]", each.join(", "))
}

fn der(identity: &Identity) -> Vec<u8> {
    CertificateDer::from_pem_slice(identity.cert.as_bytes()).unwrap().to_vec()
}

fn get(host: &str) -> String {
    format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")
}

/// The certificate that a client gets for a name, trusted or not.
fn served(server: &Server, name: &str) -> Result<Vec<u8>, String> {
    let output = s_client(server, &["-servername", name, "-showcerts"]);
    CertificateDer::from_pem_slice(output.as_bytes()).map(|der| der.to_vec()).map_err(|_| output)
}

fn s_client(server: &Server, args: &[&str]) -> String {
    let output = Command::new("openssl")
        .args(["s_client", "-connect", &server.address().to_string()])
        .args(args)
        .stdin(std::process::Stdio::null())
        .output()
        .expect("openssl");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

fn curl(server: &Server, args: &[&str], url: &str) -> String {
    let authority = server.folder().join("ca.pem");
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--include", "--max-time", "20", "--cacert"])
        .arg(authority)
        .args(["--resolve", &format!("shop.example:{}:127.0.0.1", server.address().port())])
        .args(args)
        .arg(url.replace("PORT", &server.address().port().to_string()))
        .output()
        .expect("curl");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

/// Repeats until it holds.
fn eventually(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn an_app_is_served_over_tls_1_2_and_1_3() {
    let authority = Authority::default();
    let identity = authority.identity(&["shop.example"]);
    let config = WSGI.replace("[[listen.main.route]]", "tls = { @TLS@ }\n[[listen.main.route]]");
    let server = start(&config, &pair("shop"), &[("shop", &identity)]);
    fs::write(server.folder().join("ca.pem"), authority.pem()).unwrap();
    fs::write(server.folder().join("large"), vec![b'x'; 3_000_000]).unwrap();
    let large = format!("@{}", server.folder().join("large").display());
    for version in [&["--tls-max", "1.2"][..], &["--tlsv1.3"]] {
        for (protocol, begin) in [("--http2", "HTTP/2 200"), ("--http1.1", "HTTP/1.1 200")] {
            let text =
                curl(&server, &[version, &[protocol]].concat(), "https://shop.example:PORT/connection");
            assert!(text.starts_with(begin), "{text}");
            assert!(
                text.contains("wsgi.url_scheme=https") && text.contains("HTTP_X_FORWARDED_PROTO=https"),
                "{text}"
            );
        }
        // Uploads and downloads of many records.
        let upload = [version, &["--data-binary", &large]];
        let text = curl(&server, &upload.concat(), "https://shop.example:PORT/digest");
        assert!(text.contains(r#""length": 3000000"#), "{text}");
        let download = [version, &["--no-include", "-o", "/dev/null", "-w", "%{http_code} %{size_download}"]];
        let text = curl(&server, &download.concat(), "https://shop.example:PORT/big?bytes=3000000");
        assert_eq!(text, "200 3000000");
    }
    assert!(s_client(&server, &["-alpn", "http/1.1"]).contains("ALPN protocol: http/1.1"));
    // RFC 8996: nothing below 1.2.
    assert!(s_client(&server, &["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"]).contains("SSL alert"));
}

/// RFC 5746 §4.5: the alert comes at once, and not with the next response.
#[test]
fn renegotiation_is_refused_at_once() {
    let server = start(FIXED, &pair("shop"), &[("shop", &Authority::default().identity(&["shop.example"]))]);
    let mut client = Command::new("timeout")
        .args(["60", "openssl", "s_client", "-tls1_2", "-connect", &server.address().to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("openssl");
    let mut commands = client.stdin.take().expect("piped");
    commands.write_all(b"R\n").expect("taken");
    // It ends by itself once it is refused: its standard input stays open until then.
    let mut said = String::new();
    client.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
    client.wait().expect("it ends");
    drop(commands);
    assert!(said.contains("no renegotiation"), "{said}");
}

#[test]
fn the_modern_profile_is_tls_1_3_only() {
    let identity = Authority::default().identity(&["shop.example"]);
    let server = start(FIXED, &format!("{}, profile = \"modern\"", pair("shop")), &[("shop", &identity)]);
    assert!(s_client(&server, &["-tls1_2"]).contains("alert protocol version"));
    assert!(s_client(&server, &["-tls1_3"]).contains("TLSv1.3"));
}

#[test]
fn each_name_gets_its_certificate_exact_names_before_wildcards() {
    let authority = Authority::default();
    let first = authority.identity(&["first.example"]);
    let wild = authority.identity(&["*.shop.example", "shop.example"]);
    let exact = authority.identity(&["www.shop.example"]);
    let files = [("first", &first), ("wild", &wild), ("exact", &exact)];
    let server = start(FIXED, &list(&["first", "wild", "exact"]), &files);
    for (name, expected) in [
        ("first.example", &first),
        ("shop.example", &wild),
        ("a.shop.example", &wild),
        ("www.shop.example", &exact),
        // RFC 9525 §6.3: names have no case.
        ("WWW.Shop.Example", &exact),
        // A wildcard is one label.
        ("a.b.shop.example", &first),
        ("unknown.example", &first),
    ] {
        assert!(served(&server, name).unwrap() == der(expected), "{name}");
    }
    let output = s_client(&server, &["-noservername", "-showcerts"]);
    assert_eq!(CertificateDer::from_pem_slice(output.as_bytes()).unwrap().to_vec(), der(&first));
}

#[test]
fn unknown_names_are_refused_on_request() {
    let identity = Authority::default().identity(&["shop.example"]);
    let tls = format!("{}, unknown_names = \"refuse\"", pair("shop"));
    let server = start(FIXED, &tls, &[("shop", &identity)]);
    for version in ["-tls1_2", "-tls1_3"] {
        let output = s_client(&server, &[version, "-servername", "other.example"]);
        // RFC 6066 §3: alert 112.
        assert!(output.contains("unrecognized name"), "{output}");
        assert!(s_client(&server, &[version, "-noservername"]).contains("unrecognized name"));
    }
    assert_eq!(served(&server, "shop.example").unwrap(), der(&identity));
    server.wait_for_log("requests other.example, and no certificate is for that name", BOUND);
}

/// caddy#7742: a certificate for an IDN name is not found, since one side is in Unicode.
#[test]
fn an_idn_name_gets_its_certificate() {
    let authority = Authority::default();
    let first = authority.identity(&["first.example"]);
    let book = authority.identity(&["xn--bcher-kva.example"]);
    let wild = authority.identity(&["*.xn--mnchen-3ya.example"]);
    let files = [("first", &first), ("book", &book), ("wild", &wild)];
    let server = start(FIXED, &list(&["first", "book", "wild"]), &files);
    assert_eq!(served(&server, "xn--bcher-kva.example").unwrap(), der(&book));
    assert_eq!(served(&server, "xn--tren-5qa.xn--mnchen-3ya.example").unwrap(), der(&wild));
    // A client that is given the name in Unicode sends A-labels (RFC 5890 §2.3.2.1).
    let script = "import socket, ssl, sys, hashlib\n\
        context = ssl._create_unverified_context()\n\
        with socket.create_connection(('127.0.0.1', int(sys.argv[1]))) as raw:\n    \
        with context.wrap_socket(raw, server_hostname='b\\u00fccher.example') as tls:\n        \
        print(tls.getpeercert(True).hex())";
    let output = Command::new("python3")
        .args(["-c", script, &server.address().port().to_string()])
        .output()
        .expect("python3");
    let expected: String = der(&book).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), expected, "{output:?}");
}

/// contour#5240: 421 for what a wildcard covers strands clients that share connections (RFC 9113 §9.1.1).
#[test]
fn a_request_for_another_host_is_misdirected_unless_the_certificate_covers_it() {
    let authority = Authority::default();
    let wild = authority.identity(&["shop.example", "*.shop.example", "127.0.0.1"]);
    let other = authority.identity(&["other.example"]);
    let server = start(FIXED, &list(&["wild", "other"]), &[("wild", &wild), ("other", &other)]);
    let mut client = TlsClient::connect(server.address(), "a.shop.example", authority.client(None)).unwrap();
    for (host, expected) in [
        ("a.shop.example", 200),
        ("A.Shop.Example:443", 200),
        ("b.shop.example", 200),
        ("shop.example.", 200),
        ("127.0.0.1", 200),
        ("other.example", 421),
        ("a.b.shop.example", 421),
        ("127.0.0.2", 421),
        // The connection is kept.
        ("c.shop.example:8443", 200),
    ] {
        let (status, text) = client.ask(get(host)).unwrap();
        assert_eq!(status, expected, "{host}: {text}");
    }
    // A client that requested the name gets what there is for it, whatever the certificate.
    let there = format!("new.example:443:{}", server.address());
    let text = curl(&server, &["--insecure", "--connect-to", &there], "https://new.example/");
    assert!(text.starts_with("HTTP/2 200"), "{text}");
}

#[test]
fn http_in_plaintext_gets_a_clear_response() {
    let identity = Authority::default().identity(&["shop.example"]);
    let server = start(FIXED, &pair("shop"), &[("shop", &identity)]);
    let response = server.ask(get("shop.example"));
    assert_eq!(response.status, 400);
    assert!(String::from_utf8_lossy(&response.body).contains("requires TLS"), "{response:?}");
    server.wait_for_log("speaks HTTP without TLS", BOUND);
    // Neither TLS nor HTTP: no response, and no harm.
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.write_all(&[0, 1, 2, 3]).unwrap();
    stream.set_read_timeout(Some(BOUND)).unwrap();
    assert_eq!(stream.read(&mut [0; 16]).unwrap_or(0), 0);
}

/// A client that speaks TLS to a port without it gets 400, which TLS libraries call a wrong version, and the log says why.
#[test]
fn tls_to_a_plaintext_listener_is_reported() {
    let server = Server::start(&FIXED.replace("tls = { @TLS@ }", ""));
    let output = s_client(&server, &["-servername", "shop.example"]);
    assert!(output.contains("wrong version number"), "{output}");
    let line = server.wait_for_log("client speaks TLS, and this listener has none", BOUND);
    assert!(line.contains("listener=main"), "{line}");
}

/// The keys of tickets outlive a reload and an upgrade, and every data-plane thread has them.
#[test]
fn sessions_are_resumed_after_a_reload_and_an_upgrade() {
    let identity = Authority::default().identity(&["shop.example"]);
    let config = format!(
        "[server]\nthreads = 3\npid_file = \"@DIR@/pid\"\nlog = {{ file = \"@DIR@/log\" }}\n{}",
        FIXED.replace("@TLS@", &pair("shop"))
    );
    let service = Service::start_with(keepwarm(), &config, |folder| drop(identity.write(folder, "shop")));
    let server = &service.server;
    for version in ["-tls1_2", "-tls1_3"] {
        let file = server.folder().join(format!("session{version}"));
        let session = file.to_str().unwrap();
        let save = [version, "-servername", "shop.example", "-sess_out", session, "-ign_eof"];
        save_session(server, &save);
        assert!(file.exists(), "{version}: no ticket");
    }
    let resumes = || {
        for version in ["-tls1_2", "-tls1_3"] {
            let file = server.folder().join(format!("session{version}"));
            let args = [version, "-servername", "shop.example", "-sess_in", file.to_str().unwrap()];
            let output = s_client(server, &args);
            assert!(output.contains("Reused, TLSv1."), "{version}: {output}");
        }
    };
    // On whichever thread it is accepted.
    (0..6).for_each(|_| resumes());
    server.signal(Signal::HUP);
    service.wait_for_log("reloaded in");
    resumes();
    service.upgrade();
    (0..6).for_each(|_| resumes());
}

/// Has openssl make a request, so that it reads the tickets of TLS 1.3.
fn save_session(server: &Server, args: &[&str]) {
    let mut child = Command::new("openssl")
        .args(["s_client", "-connect", &server.address().to_string()])
        .args(args)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("openssl");
    let request = b"GET / HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n\r\n";
    child.stdin.take().unwrap().write_all(request).unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn changed_files_are_used_without_a_reload_and_faulty_ones_are_not() {
    let authority = Authority::default();
    let before = authority.identity(&["shop.example"]);
    let server = start(FIXED, &pair("shop"), &[("shop", &before)]);
    let mut kept = TlsClient::connect(server.address(), "shop.example", authority.client(None)).unwrap();
    assert_eq!(kept.ask(get("shop.example")).unwrap().0, 200);
    // A certificate without its key, as it is between the two writes of a renewal.
    let after = authority.identity(&["shop.example"]);
    fs::write(server.folder().join("shop.pem"), &after.cert).unwrap();
    server.wait_for_log("changed certificates not used", Duration::from_secs(30));
    assert_eq!(served(&server, "shop.example").unwrap(), der(&before));
    fs::write(server.folder().join("shop.key"), &after.key).unwrap();
    server.wait_for_log("new connections use the changed certificates", Duration::from_secs(30));
    assert_eq!(served(&server, "shop.example").unwrap(), der(&after));
    assert_eq!(kept.ask(get("shop.example")).unwrap().0, 200, "the connection has outlived both");
    // A reload with files that cannot be used changes nothing.
    fs::write(server.folder().join("shop.key"), &before.key).unwrap();
    let mark = server.mark();
    server.signal(Signal::HUP);
    let line = server.wait_for_log_after(mark, "is not the key of the first certificate", BOUND);
    assert!(line.contains("shop.key"), "{line}");
    assert_eq!(served(&server, "shop.example").unwrap(), der(&after));
    assert_eq!(kept.ask(get("shop.example")).unwrap().0, 200);
}

#[test]
fn clients_present_certificates() {
    let (authority, clients) = (Authority::default(), Authority::named("clients"));
    let shop = authority.identity(&["shop.example"]);
    let (known, unknown) = (clients.identity(&["anna"]), Authority::named("others").identity(&["eve"]));
    for (auth, without) in [("required", false), ("optional", true)] {
        let tls = format!("{}, client_ca = \"@DIR@/clients.pem\", client_auth = \"{auth}\"", pair("shop"));
        let server = Server::start_with(&FIXED.replace("@TLS@", &tls), |command| {
            write(command, &[("shop", &shop)]);
            let folder = command.get_current_dir().unwrap();
            fs::write(folder.join("clients.pem"), clients.pem()).unwrap();
        });
        let serves = |identity: Option<&Identity>| {
            let config = authority.client(identity);
            let client = TlsClient::connect(server.address(), "shop.example", config);
            client
                .and_then(|mut client| client.ask(get("shop.example")))
                .is_ok_and(|(status, _)| status == 200)
        };
        assert!(serves(Some(&known)), "{auth}");
        assert!(!serves(Some(&unknown)), "{auth}");
        assert_eq!(serves(None), without, "{auth}");
    }
}

/// What the certificate of a client says reaches the app, and what a client says about it does not.
#[test]
fn an_app_learns_who_the_client_is_by_its_certificate_and_not_by_its_headers() {
    let (authority, clients) = (Authority::default(), Authority::named("clients"));
    let shop = authority.identity(&["shop.example"]);
    let anna = clients.identity_with(&["anna"], |params| {
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(rcgen::DnType::CommonName, "Anna,O=Admins");
        params.distinguished_name.push(rcgen::DnType::OrganizationName, "Shop");
        params.serial_number = Some(0x1234.into());
    });
    let tls = format!("{}, client_ca = \"@DIR@/clients.pem\", client_auth = \"optional\"", pair("shop"));
    let config = WSGI
        .replace("[[listen.main.route]]", &format!("tls = {{ {tls} }}\n[[listen.main.route]]"))
        .replace("[listen.main]", "[server]\ntrusted_proxies = [\"127.0.0.1\"]\n[listen.main]");
    let server = Server::start_with(&config, |command| {
        write(command, &[("shop", &shop)]);
        fs::write(command.get_current_dir().unwrap().join("clients.pem"), clients.pem()).unwrap();
    });
    let request = "GET /connection HTTP/1.1\r\nHost: shop.example\r\nX-Client-Cert-Verify: SUCCESS\r\n\
                   X-Client-Cert-Subject: CN=Eve\r\n\r\n";
    let ask = |identity: Option<&Identity>| {
        let config = authority.client(identity);
        TlsClient::connect(server.address(), "shop.example", config).unwrap().ask(request).unwrap().1
    };
    let text = ask(Some(&anna));
    for line in [
        "HTTP_X_CLIENT_CERT_VERIFY=SUCCESS\n",
        "HTTP_X_CLIENT_CERT_SUBJECT=O=Shop,CN=Anna\\,O\\=Admins\n",
        "HTTP_X_CLIENT_CERT_ISSUER=CN=clients\n",
        "HTTP_X_CLIENT_CERT_SERIAL=1234\n",
        "HTTP_X_CLIENT_CERT_FINGERPRINT=",
    ] {
        assert!(text.contains(line), "no {line:?} in {text}");
    }
    let text = ask(None);
    assert!(text.contains("HTTP_X_CLIENT_CERT_VERIFY=NONE") && !text.contains("SUBJECT"), "{text}");
}

#[test]
fn stalled_handshakes_end_and_hold_up_nobody() {
    let authority = Authority::default();
    let identity = authority.identity(&["shop.example"]);
    let tls = format!("{}, handshake_timeout = \"2s\"", pair("shop"));
    let server = start(&format!("[server]\nthreads = 1\n{FIXED}"), &tls, &[("shop", &identity)]);
    // More than may be in progress at once on a thread; each has begun, and does not go on.
    let mut stalled: Vec<TcpStream> = Vec::new();
    for _ in 0..600 {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.write_all(&[22, 3, 1, 2, 0, 1, 0]).unwrap();
        stalled.push(stream);
    }
    let mut client = TlsClient::connect(server.address(), "shop.example", authority.client(None)).unwrap();
    assert_eq!(client.ask(get("shop.example")).unwrap().0, 200);
    for stream in &mut stalled {
        stream.set_read_timeout(Some(BOUND)).unwrap();
        // An end, after an alert or not; a reset is one, too.
        let mut rest = Vec::new();
        if let Err(error) = stream.read_to_end(&mut rest) {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        }
    }
    assert_eq!(client.ask(get("shop.example")).unwrap().0, 200);
}

/// A response whose end is the end of the connection ends with a close_notify, and a cut one does not (RFC 8446 §6.1).
#[test]
fn the_end_of_a_response_is_announced_and_a_cut_is_not() {
    let authority = Authority::default();
    let identity = authority.identity(&["shop.example"]);
    let config = WSGI.replace("[[listen.main.route]]", "tls = { @TLS@ }\n[[listen.main.route]]");
    let server = start(&config, &pair("shop"), &[("shop", &identity)]);
    let connect = || TlsClient::connect(server.address(), "shop.example", authority.client(None)).unwrap();
    let mut client = connect();
    client.send("GET /list HTTP/1.0\r\nHost: shop.example\r\n\r\n").unwrap();
    let whole = client.read_to_end().expect("a close_notify");
    assert!(whole.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&whole));
    let mut client = connect();
    client.send("GET /raise-late HTTP/1.0\r\nHost: shop.example\r\n\r\n").unwrap();
    assert!(client.read_to_end().is_err(), "a part must not look like the whole");
}

/// traefik#7869: while the certificates load, clients get a default one.
#[test]
fn the_first_handshake_after_start_and_after_a_reload_has_the_right_certificate() {
    let authority = Authority::default();
    let names: Vec<String> = (0..40).map(|number| format!("host{number}.example")).collect();
    let identities: Vec<Identity> = names.iter().map(|name| authority.identity(&[name])).collect();
    let labels: Vec<String> = (0..40).map(|number| format!("c{number}")).collect();
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    let files: Vec<(&str, &Identity)> = labels.iter().copied().zip(&identities).collect();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let config = FIXED.replace("127.0.0.1:0", &port.to_string());
    let begin = config.replace("@TLS@", &list(&labels[..39]));
    let right = Arc::new(AtomicUsize::new(0));
    let over = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = [0, 20, 38]
        .map(|at| {
            let (name, expected) = (names[at].clone(), der(&identities[at]));
            let (right, over, config) = (Arc::clone(&right), Arc::clone(&over), authority.client(None));
            std::thread::spawn(move || {
                while !over.load(Ordering::SeqCst) {
                    // Before it listens there is nobody; a handshake that fails is a failure of this test.
                    match TlsClient::connect(port, &name, config.clone()) {
                        Ok(client) => {
                            assert!(client.certificate() == expected, "{name}");
                            right.fetch_add(1, Ordering::SeqCst);
                        }
                        Err(error) => {
                            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused, "{name}");
                            std::thread::sleep(Duration::from_millis(1));
                        }
                    }
                }
            })
        })
        .into();
    let server = Server::start_with(&begin, |command| write(command, &files));
    eventually("no handshake", || right.load(Ordering::SeqCst) > 20);
    // One more certificate: those of the others are served all the time.
    server.reload_with(&config.replace("@TLS@", &list(&labels)));
    let before = right.load(Ordering::SeqCst);
    eventually("no handshake after the reload", || right.load(Ordering::SeqCst) > before + 20);
    assert_eq!(served(&server, &names[39]).unwrap(), der(&identities[39]));
    over.store(true, Ordering::SeqCst);
    clients.into_iter().for_each(|client| client.join().expect("no wrong certificate"));
}

#[test]
fn the_status_and_the_metrics_show_certificates_and_handshakes() {
    let authority = Authority::named("The Authority");
    let shop = authority.identity_with(&["shop.example", "*.shop.example"], |params| {
        params.not_after = rcgen::date_time_ymd(2099, 1, 2);
    });
    let config = format!("[admin]\nbind = \"127.0.0.1:0\"\n{FIXED}");
    let tls = format!("{}, unknown_names = \"refuse\"", pair("shop"));
    let server = start(&config, &tls, &[("shop", &shop)]);
    let mut client = TlsClient::connect(server.address(), "shop.example", authority.client(None)).unwrap();
    assert_eq!(client.ask(get("shop.example")).unwrap().0, 200);
    s_client(&server, &["-tls1_2", "-servername", "shop.example"]);
    s_client(&server, &["-servername", "other.example"]);
    admin::wait_for_metric(
        &server,
        "keepwarm_tls_handshake_failures_total{listener=\"main\",reason=\"name_unknown\"}",
        1.0,
    );
    let metrics = admin::metrics(&server);
    for (name, expected) in [
        ("keepwarm_tls_handshakes_total{listener=\"main\",version=\"1.3\",resumed=\"false\"}", 1.0),
        ("keepwarm_tls_handshakes_total{listener=\"main\",version=\"1.2\",resumed=\"false\"}", 1.0),
        ("keepwarm_tls_handshakes_total{listener=\"main\",version=\"1.3\",resumed=\"true\"}", 0.0),
        ("keepwarm_certificate_error{listener=\"main\"}", 0.0),
    ] {
        assert_eq!(metrics.get(name), Some(&expected), "{name}: {metrics:?}");
    }
    let expiry = metrics.iter().find(|(name, _)| name.starts_with("keepwarm_certificate_expiry_seconds"));
    // 2099-01-02.
    assert_eq!(expiry.map(|(_, value)| *value), Some(4_070_995_200.0));
    let status = admin::status(&server);
    let certificate = &status["certificates"][0];
    assert_eq!(certificate["names"], serde_json::json!(["shop.example", "*.shop.example"]));
    assert_eq!(certificate["issuer"], "The Authority");
    assert_eq!(certificate["error"], serde_json::Value::Null);
    assert!(certificate["source"].as_str().unwrap().ends_with("shop.pem"), "{certificate}");
    // A file that cannot be used is shown until it can be.
    fs::write(server.folder().join("shop.pem"), "nothing").unwrap();
    let shows = |status: &serde_json::Value| status["certificates"][0]["error"].is_string();
    admin::wait_for_status(&server, "the error", shows);
    fs::write(server.folder().join("shop.pem"), &shop.cert).unwrap();
    admin::wait_for_status(&server, "no error", |status| !shows(status));
}

/// certmagic#369: while many certificates load, no handshake gets its turn. Here they are loaded on a thread of their own.
#[test]
fn loading_many_certificates_holds_up_no_handshake() {
    const MANY: usize = 300;
    let authority = Authority::default();
    let shop = authority.identity(&["shop.example"]);
    let config = format!("[server]\nthreads = 1\n{FIXED}");
    let server = start(&config, &list(&["shop"]), &[("shop", &shop)]);
    let labels: Vec<String> = (0..MANY).map(|number| format!("c{number}")).collect();
    for label in &labels {
        authority.identity(&[&format!("{label}.example")]).write(server.folder(), label);
    }
    let mut all = vec!["shop"];
    all.extend(labels.iter().map(String::as_str));
    let (over, address, client) =
        (Arc::new(AtomicBool::new(false)), server.address(), authority.client(None));
    let visitor = {
        let over = Arc::clone(&over);
        std::thread::spawn(move || {
            let mut longest = Duration::ZERO;
            while !over.load(Ordering::SeqCst) {
                let begun = Instant::now();
                let mut visit = TlsClient::connect(address, "shop.example", client.clone()).unwrap();
                assert_eq!(visit.ask(get("shop.example")).unwrap().0, 200);
                longest = longest.max(begun.elapsed());
            }
            longest
        })
    };
    server.reload_with(&config.replace("@TLS@", &list(&all)));
    over.store(true, Ordering::SeqCst);
    let longest = visitor.join().expect("no handshake failed");
    // Parsing all of them takes longer than this in a build for tests, on a machine that does other things.
    assert!(longest < Duration::from_secs(2), "{longest:?}");
    assert_ne!(served(&server, "c299.example").unwrap(), der(&shop));
}

/// Everything that a connection can do, it can do under TLS: pipelining, expectations, WebSockets, streams, an early response.
#[test]
fn connections_under_tls_do_what_others_do() {
    let authority = Authority::default();
    let shop = authority.identity(&["test.example"]);
    let config = ASGI.replace("[[listen.main.route]]", "tls = { @TLS@ }\n[[listen.main.route]]");
    let server = start(&config, &pair("shop"), &[("shop", &shop)]);
    let relay = TlsRelay::start(server.address(), "test.example", authority.client(None));
    let mut client = Client::connect(relay.address());
    // Two requests in one write, and one in single bytes.
    let request = keepwarm_tests::get("/pong");
    client.send(request.repeat(2));
    for _ in 0..2 {
        assert_eq!(client.response("GET").text(), "pong");
    }
    client.send_bytewise(&request);
    assert_eq!(client.response("GET").text(), "pong");
    // A WebSocket, with a message that needs many records.
    let mut client = Client::connect(relay.address());
    websocket::open(&mut client, "/ws", "");
    let message = vec![b'm'; 200_000];
    for payload in [&b"short"[..], &message] {
        client.send(websocket::frame(0x81, payload));
        assert_eq!(websocket::message(&mut client), (1, payload.to_vec()));
    }
    // A client that shuts its side after a whole request gets its response.
    let mut client = Client::connect(relay.address());
    client.send(&request);
    client.half_close();
    assert_eq!(client.response("GET").text(), "pong");
    client.expect_end();
}

/// RFC 6066 §8: a response that an authority made is stapled, in both versions.
#[test]
fn an_ocsp_response_is_stapled() {
    const MAKE: &str = "set -e
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.pem -days 30 -subj /CN=ca
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout shop.key -out shop.csr -subj /CN=shop
printf subjectAltName=DNS:shop.example > names
openssl x509 -req -in shop.csr -CA ca.pem -CAkey ca.key -set_serial 0x1234 -days 20 -out shop.pem -extfile names
printf 'V\\t291231235959Z\\t\\t1234\\tunknown\\t/CN=shop\\n' > index.txt
openssl ocsp -index index.txt -rsigner ca.pem -rkey ca.key -CA ca.pem -issuer ca.pem -cert shop.pem -respout shop.ocsp -ndays 1
";
    let tls = format!("{}, ocsp = \"@DIR@/shop.ocsp\"", pair("shop"));
    let server = Server::start_with(&FIXED.replace("@TLS@", &tls), |command| {
        let folder = command.get_current_dir().unwrap();
        let output = Command::new("sh").args(["-c", MAKE]).current_dir(folder).output().expect("sh");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    });
    for version in ["-tls1_2", "-tls1_3"] {
        let output = s_client(&server, &[version, "-status", "-servername", "shop.example"]);
        assert!(output.contains("Cert Status: good"), "{output}");
    }
}

/// RFC 6797 §7.2: over TLS only, and on each response.
#[test]
fn browsers_are_told_to_use_https_on_request() {
    let authority = Authority::default();
    let shop = authority.identity(&["shop.example"]);
    let config = r#"
[listen.main]
bind = "127.0.0.1:0"
[listen.main.tls]
cert = "@DIR@/shop.pem"
key = "@DIR@/shop.key"
hsts = { max_age = "1h", include_subdomains = true }
[[listen.main.route]]
path = "/files/*"
files = "@DIR@"
strip_prefix = true
headers = { set = { Strict-Transport-Security = "max-age=5" } }
[[listen.main.route]]
path = "/old"
redirect = { to = "/" }
[[listen.main.route]]
deny = "0.0.0.0/0"
path = "/denied"
respond = 200
[[listen.main.route]]
respond = 200
"#;
    let server = start(config, "", &[("shop", &shop)]);
    let mut client = TlsClient::connect(server.address(), "shop.example", authority.client(None)).unwrap();
    for (path, status, value) in [
        ("/", 200, "max-age=3600; includeSubDomains"),
        ("/old", 307, "max-age=3600; includeSubDomains"),
        ("/denied", 403, "max-age=3600; includeSubDomains"),
        ("/files/shop.pem", 200, "max-age=5"),
    ] {
        let (found, text) = client.ask(format!("GET {path} HTTP/1.1\r\nHost: shop.example\r\n\r\n")).unwrap();
        assert_eq!(found, status, "{path}: {text}");
        let field = text.to_ascii_lowercase();
        let fields: Vec<&str> = field.lines().filter(|line| line.starts_with("strict-transport")).collect();
        let expected = format!("strict-transport-security: {}", value.to_ascii_lowercase());
        assert_eq!(fields, [expected.as_str()], "{path}: {text}");
    }
}

#[test]
fn faults_of_certificates_are_reported_with_file_and_line() {
    let authority = Authority::default();
    let (shop, other) = (authority.identity(&["shop.example"]), authority.identity(&["other.example"]));
    let expired = authority.identity_with(&["old.example"], |params| {
        params.not_before = rcgen::date_time_ymd(2019, 1, 1);
        params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    });
    let folder = std::env::temp_dir().join(format!("keepwarm-faults-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    for (name, identity) in
        [("shop", &shop), ("again", &authority.identity(&["shop.example"])), ("old", &expired)]
    {
        identity.write(&folder, name);
    }
    fs::write(folder.join("wrong.key"), &other.key).unwrap();
    fs::write(folder.join("noise.pem"), "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
        .unwrap();
    let mixed = "cert = \"shop.pem\", key = \"wrong.key\"";
    let noise = "cert = \"noise.pem\", key = \"shop.key\"";
    let plain = |text: &str| text.replace("@DIR@/", "");
    for (tls, parts) in [
        (
            mixed.to_owned(),
            &["error", "wrong.key is not the key of the first certificate in shop.pem", "keepwarm.toml:4:"][..],
        ),
        (noise.to_owned(), &["error", "noise.pem", "keepwarm.toml:4:"]),
        (
            plain(&list(&["shop", "again"])),
            &["error", "two certificates for shop.example", "keepwarm.toml:4:"],
        ),
        (
            plain(&pair("old")),
            &["warning", "the certificate of old.example expired on 2020-01-01", "configuration is valid"],
        ),
    ] {
        let output = dry_run(&folder, &FIXED.replace("@TLS@", &tls));
        for part in parts {
            assert!(output.contains(part), "{tls}: no {part:?} in\n{output}");
        }
    }
    let _ = fs::remove_dir_all(&folder);
}

fn dry_run(folder: &Path, config: &str) -> String {
    fs::write(folder.join("keepwarm.toml"), config).unwrap();
    let output = Command::new(keepwarm_tests::keepwarm())
        .args(["run", "--dry-run"])
        .current_dir(folder)
        .output()
        .expect("keepwarm");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

/// The PROXY header comes before the handshake, and names the client (a load balancer that forwards TCP sends it).
#[test]
fn a_proxy_header_comes_before_the_handshake() {
    let authority = Authority::default();
    let identity = authority.identity(&["shop.example"]);
    let config = FIXED.replace("tls = {", "proxy_protocol = true\ntls = {")
        + "\n[server]\ntrusted_proxies = [\"127.0.0.1\"]\n";
    let config = config.replace(
        "body = \"hello\" }",
        "body = \"hello\" }\nheaders = { set = { X-Client = \"$client $scheme\" } }",
    );
    let server = start(&config, &pair("shop"), &[("shop", &identity)]);
    fs::write(server.folder().join("ca.pem"), authority.pem()).unwrap();
    let url = "https://shop.example:PORT/";
    for version in ["--http1.1", "--http2"] {
        let response = curl(&server, &["--haproxy-protocol", version], url);
        assert!(response.to_ascii_lowercase().contains("x-client: 127.0.0.1 https"), "{response}");
    }
    // Without the header, the client's first message of TLS is not one.
    let response = curl(&server, &[], url);
    assert!(response.starts_with("curl: ("), "{response}");
}
