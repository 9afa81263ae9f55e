//! HTTP/2 through the back door, on both sides: gRPC calls of every kind with gRPC's own client and server, and HTTP/1.1 beside it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use keepwarm_tests::{Server, apps, get_local as get, process, python, tools};

const LONG: Duration = Duration::from_secs(90);

/// The gRPC server of the tests; ends with the test.
struct Peer {
    process: Child,
    address: String,
}

impl Peer {
    #[track_caller]
    fn start() -> Self {
        let mut process = Command::new(python())
            .arg(apps().join("grpc_peer.py"))
            .arg("server")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a gRPC server");
        let mut port = String::new();
        BufReader::new(process.stdout.take().expect("piped")).read_line(&mut port).expect("its port");
        assert!(
            !port.is_empty(),
            "the gRPC server does not start (tests/requirements.txt has what it needs)"
        );
        Self { process, address: format!("127.0.0.1:{}", port.trim()) }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn door(peer: &Peer, more: &str) -> Server {
    Server::start(&format!(
        "[server]\nthreads = 1\n[upstream.grpc]\nurl = \"http://{}\"\nprotocol = \"http2\"\nbind = \"127.0.0.1:0\"\n{more}",
        peer.address
    ))
}

/// Unary, both streams, metadata, statuses, deadlines, cancelling.
#[test]
fn grpc_calls_of_every_kind_pass() {
    let peer = Peer::start();
    let server = door(&peer, "");
    let mut client = Command::new(python());
    client.arg(apps().join("grpc_peer.py")).arg("client").arg(server.address().to_string());
    let said = tools::run_ok(&mut client, LONG);
    for kind in [
        "unary",
        "server stream",
        "client stream",
        "both streams",
        "deadline ends the call",
        "large",
        "cancel",
    ] {
        assert!(said.lines().any(|line| line == kind), "{kind} is not among\n{said}");
    }
}

/// The door takes both versions, the upstream speaks one of them.
#[test]
fn clients_of_either_version_reach_an_upstream_of_either() {
    let peer = Peer::start();
    let h2 = door(&peer, "");
    // A gRPC server refuses other requests, in HTTP/2's own way or with a status: it must get this one, and the next call must work.
    let mut client = h2.client();
    let first = client.ask(get("/t.Test/Unary")).status;
    assert!(first >= 400, "{first}");
    assert_eq!(client.ask(get("/t.Test/Unary")).status, first);

    let origin = keepwarm_tests::origin::Origin::fixed("hello");
    let h1 = Server::start(&format!(
        "[upstream.plain]\nurl = \"http://{}\"\nbind = \"127.0.0.1:0\"\n",
        origin.address()
    ));
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--http2-prior-knowledge", "--write-out", " %{http_version}", &h1.url("/a")]);
    assert_eq!(tools::run_ok(&mut curl, LONG), "hello 2");
    assert_eq!(origin.last().target(), "/a");
    assert_eq!(h1.ask(get("/b")).text(), "hello");
    assert_eq!(origin.connections(), 1);
}

/// Nothing that a client of HTTP/2 leaves undone stays behind.
#[test]
fn a_stop_waits_for_the_calls_under_way() {
    let gate = keepwarm_tests::origin::Gate::default();
    let held = gate.clone();
    let origin = keepwarm_tests::origin::Origin::start(move |_, stream| {
        held.wait();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone").expect("taken");
        keepwarm_tests::origin::After::Keep
    });
    let server = Server::start(&format!(
        "[upstream.plain]\nurl = \"http://{}\"\nbind = \"127.0.0.1:0\"\n",
        origin.address()
    ));
    let url = server.url("/");
    let asking = std::thread::spawn(move || {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--http2-prior-knowledge", &url]);
        tools::run_ok(&mut curl, LONG)
    });
    origin.wait_until("it was asked", |origin| !origin.requests().is_empty());
    server.signal(rustix::process::Signal::TERM);
    server.wait_for_log("stopping", LONG);
    gate.open();
    assert_eq!(asking.join().expect("a response"), "done");
}

/// An nginx behind TLS; ends with the test.
struct Nginx {
    process: Child,
    folder: std::path::PathBuf,
    port: u16,
    ca: String,
}

impl Nginx {
    #[track_caller]
    fn start(listen: &str) -> Self {
        let port = tools::free_port();
        let folder = std::env::temp_dir().join(format!("keepwarm-nginx-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let own = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
        let ca = own.cert.pem();
        std::fs::write(folder.join("cert.pem"), &ca).expect("written");
        std::fs::write(folder.join("key.pem"), own.signing_key.serialize_pem()).expect("written");
        let config = format!(
            "daemon off; master_process off; pid nginx.pid; error_log stderr crit;
             events {{ worker_connections 64; }}
             http {{
               access_log off; client_body_temp_path b; proxy_temp_path p; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
               server {{
                 listen 127.0.0.1:{port} {listen}; ssl_certificate cert.pem; ssl_certificate_key key.pem;
                 location / {{ return 200 \"$server_protocol $connection_requests\"; }}
               }}
             }}"
        );
        std::fs::write(folder.join("nginx.conf"), config).expect("written");
        let process = Command::new("nginx")
            .args(["-p", &format!("{}/", folder.display()), "-c", "nginx.conf", "-e", "stderr"])
            .stdin(Stdio::null())
            .spawn()
            .expect("nginx");
        process::wait_until("nginx listens", LONG, || {
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Self { process, folder, port, ca }
    }

    fn door(&self) -> Server {
        let config = format!(
            "[server]\nthreads = 1\n[upstream.site]\nurl = \"https://localhost:{}\"\nca = \"@DIR@/ca.pem\"\nbind = \"127.0.0.1:0\"\n",
            self.port
        );
        let server = Server::spawn(&config, |command| {
            let folder = command.get_current_dir().expect("a folder");
            std::fs::write(folder.join("ca.pem"), &self.ca).expect("written");
        });
        server.listening()
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn over_tls_the_upstream_chooses_the_version_and_one_connection_does() {
    for (listen, version) in [("ssl http2", "HTTP/2.0"), ("ssl", "HTTP/1.1")] {
        let nginx = Nginx::start(listen);
        let server = nginx.door();
        for number in 1..=4 {
            let response = server.ask(get("/"));
            assert_eq!((response.status, response.text()), (200, format!("{version} {number}")));
        }
    }
}
