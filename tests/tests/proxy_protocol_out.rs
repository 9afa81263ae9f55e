//! PROXY headers to servers: nginx, HAProxy and Keepwarm learn whose a connection is, and no connection is used for another client.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

use keepwarm_tests::certificates::Authority;
use keepwarm_tests::daemon::Daemon;
use keepwarm_tests::{ASGI, Client, Server, admin, get, tools, websocket};

const LONG: Duration = Duration::from_secs(60);

/// What nginx knows: the client of the header, its own view of it, and which connection and request of it this is.
const NGINX: &str = "set_real_ip_from 127.0.0.1; real_ip_header proxy_protocol; \
    location / { return 200 \"$proxy_protocol_addr $proxy_protocol_port $remote_addr $connection $connection_requests\"; }";

fn routed(url: &str, more: &str) -> Server {
    Server::start(&format!(
        "[server]\nthreads = 1\ntrusted_proxies = [\"127.0.0.9\"]\n[admin]\nbind = \"127.0.0.1:0\"\n\
         [listen.main]\nbind = \"127.0.0.1:0\"\nroute = [{{ upstream = \"site\" }}]\n\
         [upstream.site]\nurl = \"{url}\"\n{more}\n"
    ))
}

/// The responses to two requests on one connection from this address of loopback.
#[track_caller]
fn two(server: &Server, from: &str, more: &[&str]) -> (String, String) {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--max-time", "20", "--interface", from]).args(more);
    curl.args(["--write-out", "\n%{local_port}\n", &server.url("/"), &server.url("/")]);
    let said = tools::run_ok(&mut curl, LONG);
    let lines: Vec<&str> = said.lines().collect();
    let [first, port, second, same] = lines[..] else { panic!("{said}") };
    assert_eq!(port, same, "one connection: {said}");
    (first.replace(port, "PORT"), second.replace(port, "PORT"))
}

#[track_caller]
fn words(text: &str) -> Vec<&str> {
    text.split(' ').collect()
}

#[test]
fn nginx_learns_the_client_of_each_connection() {
    for version in ["v1", "v2"] {
        let (_nginx, port) = Daemon::nginx("proxy_protocol", NGINX);
        let server = routed(&format!("http://127.0.0.1:{port}"), &format!("proxy_protocol = \"{version}\""));
        let mut connections = Vec::new();
        for from in ["127.0.0.2", "127.0.0.3"] {
            let (first, second) = two(&server, from, &[]);
            let [client, client_port, real, connection, "1"] = words(&first)[..] else { panic!("{first}") };
            assert_eq!((client, client_port, real), (from, "PORT", from), "{version}");
            // The second request of the same client is on the same connection.
            assert_eq!(second, format!("{from} PORT {from} {connection} 2"), "{version}");
            connections.push(connection.to_owned());
        }
        assert_ne!(connections[0], connections[1], "{version}");
    }
}

/// Requests of two clients in turn: each is on its own client's connection, which is kept.
#[test]
fn clients_in_turn_keep_their_connections() {
    let (_nginx, port) = Daemon::nginx("proxy_protocol", NGINX);
    let server = routed(&format!("http://127.0.0.1:{port}"), "proxy_protocol = \"v2\"");
    let mut clients = [server.client(), server.client(), server.client()];
    let mut seen: BTreeMap<usize, (String, String)> = BTreeMap::new();
    for round in 1..=5 {
        for (number, client) in clients.iter_mut().enumerate() {
            let port = client.stream().local_addr().expect("an address").port().to_string();
            let text = client.ask(get("/")).text();
            let [_, client_port, _, connection, requests] = words(&text)[..] else { panic!("{text}") };
            assert_eq!((client_port, requests), (port.as_str(), round.to_string().as_str()), "{text}");
            let first = seen.entry(number).or_insert_with(|| (port.clone(), connection.to_owned()));
            assert_eq!(*first, (port, connection.to_owned()));
        }
    }
}

/// The address that is told is that of the logs. Its port is not known (nginx shows 0 as nothing), so that all connections of this client share theirs.
#[test]
fn the_client_that_a_trusted_proxy_names_is_passed_on() {
    let (_nginx, port) = Daemon::nginx("proxy_protocol", NGINX);
    let server = routed(&format!("http://127.0.0.1:{port}"), "proxy_protocol = \"v2\"");
    let forwarded = ["--header", "X-Forwarded-For: 203.0.113.7"];
    let (first, second) = two(&server, "127.0.0.9", &forwarded);
    assert!(first.starts_with("203.0.113.7  203.0.113.7 "), "{first}");
    assert!(second.ends_with(" 2"), "{second}");
    // Nobody else is believed.
    let (other, _) = two(&server, "127.0.0.2", &forwarded);
    assert!(other.starts_with("127.0.0.2 PORT "), "{other}");
}

#[test]
fn http_2_to_nginx_has_a_connection_for_each_client() {
    let (_nginx, port) = Daemon::nginx("http2 proxy_protocol", NGINX);
    let server = routed(&format!("http://127.0.0.1:{port}"), "protocol = \"http2\"\nproxy_protocol = \"v2\"");
    let (first, second) = two(&server, "127.0.0.2", &[]);
    let [_, _, "127.0.0.2", connection, _] = words(&first)[..] else { panic!("{first}") };
    assert_eq!(words(&second)[3], connection);
    let (other, _) = two(&server, "127.0.0.3", &[]);
    assert!(words(&other)[2] == "127.0.0.3" && words(&other)[3] != connection, "{other}");
}

/// The server's limit is one for all clients: idle connections of others make room, and nobody waits for long.
#[test]
fn many_clients_stay_within_the_limits() {
    let (_nginx, port) = Daemon::nginx("proxy_protocol", NGINX);
    let server =
        routed(&format!("http://127.0.0.1:{port}"), "proxy_protocol = \"v2\"\npool = { max = 4, idle = 2 }");
    let mut clients: Vec<Client> = (0..20).map(|_| server.client().patient(LONG)).collect();
    for _ in 0..3 {
        for client in &mut clients {
            let own = client.stream().local_addr().expect("an address").port();
            let text = client.ask(get("/")).text();
            assert_eq!(words(&text)[1], own.to_string());
            let status = admin::status(&server);
            let pool = &status["upstreams"][0]["endpoints"][0]["connections"];
            let idle = pool["idle"].as_u64().unwrap_or_else(|| panic!("{status}"));
            assert!(idle <= 2, "{pool}");
        }
    }
    // All at once: four at a time.
    for client in &mut clients {
        client.send(get("/"));
    }
    for client in &mut clients {
        assert_eq!(client.response("GET").status, 200);
    }
}

/// The header comes before the TLS handshake.
#[test]
fn haproxy_learns_the_client_and_its_tls() {
    let authority = Authority::named("proxy out");
    let identity = authority.identity(&["site.test"]);
    let port = tools::free_port();
    let config = format!(
        "defaults\n  mode http\n  timeout connect 2s\n  timeout client 20s\n  timeout server 20s\n\
         frontend f\n  bind 127.0.0.1:{port} accept-proxy ssl crt @DIR@/both.pem\n  \
         http-request return status 200 content-type text/plain lf-string \"%[src] %[src_port] %[dst_port] %[fc_pp_authority] %[ssl_fc]\"\n"
    );
    let haproxy = Daemon::start_with("haproxy", &config, &["-f", "@CONF@"], |directory| {
        let both = format!("{}{}", identity.cert, identity.key);
        std::fs::write(directory.join("both.pem"), both).expect("a file");
    });
    haproxy.wait_for_port(port);
    let ca = haproxy.directory().join("ca.pem");
    std::fs::write(&ca, authority.pem()).expect("a file");
    let own = authority.identity(&["front.test"]);
    let server = Server::start_with(
        &format!(
            "[server]\nthreads = 1\n[listen.main]\nbind = \"127.0.0.1:0\"\ntls = {{ cert = \"@DIR@/own.pem\", key = \"@DIR@/own.key\" }}\n\
             route = [{{ upstream = \"site\" }}]\n\
             [upstream.site]\nurl = \"https://127.0.0.1:{port}\"\nserver_name = \"site.test\"\nca = \"{}\"\nproxy_protocol = \"v2\"\n",
            ca.display()
        ),
        |command| drop(own.write(command.get_current_dir().expect("a directory"), "own")),
    );
    let near = server.address().port();
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--max-time", "20", "--interface", "127.0.0.2", "--http2"])
        .args(["--cacert", ca.to_str().expect("UTF-8"), "--write-out", " %{local_port}"])
        .args(["--resolve", &format!("front.test:{near}:127.0.0.1"), &format!("https://front.test:{near}/")]);
    let said = tools::run_ok(&mut curl, LONG);
    let [client, client_port, to, name, tls, local_port] = words(&said)[..] else { panic!("{said}") };
    assert_eq!((client, client_port), ("127.0.0.2", local_port));
    assert_eq!((to, name, tls), (near.to_string().as_str(), "front.test", "1"));
}

/// An app that is a server: HAProxy, which also gets the health checks of Keepwarm.
#[test]
fn an_app_learns_the_client() {
    for version in ["v1", "v2"] {
        let server = Server::start_with(
            &format!(
                "[server]\nthreads = 1\n[listen.main]\nbind = \"127.0.0.1:0\"\nroute = [{{ app = \"app\" }}]\n\
                 [app.app]\ncommand = [\"haproxy\", \"-f\", \"@DIR@/haproxy.cfg\", \"-db\"]\nproxy_protocol = \"{version}\"\nhealth = \"/health\"\nworkers = 1\n"
            ),
            |command| {
                let config = "defaults\n  mode http\n  timeout connect 2s\n  timeout client 20s\n  timeout server 20s\n\
                    frontend f\n  bind \"127.0.0.1:${PORT}\" accept-proxy\n  \
                    http-request return status 200 content-type text/plain lf-string \"%[src] %[src_port]\"\n";
                let directory = command.get_current_dir().expect("a directory");
                std::fs::write(directory.join("haproxy.cfg"), config).expect("a file");
            },
        );
        for from in ["127.0.0.2", "127.0.0.3"] {
            let wanted = format!("{from} PORT");
            assert_eq!(two(&server, from, &[]), (wanted.clone(), wanted), "{version}");
        }
    }
}

fn behind(more: &str) -> Server {
    let config = ASGI.replace(
        "[listen.main]\n",
        "[server]\ntrusted_proxies = [\"127.0.0.1\"]\n[listen.main]\nproxy_protocol = true\n",
    );
    Server::start(&format!("{config}\n{more}"))
}

#[test]
fn keepwarm_behind_keepwarm_logs_the_client() {
    let behind = behind("");
    for protocol in ["http1", "http2"] {
        let server = routed(
            &format!("http://{}", behind.address()),
            &format!("protocol = \"{protocol}\"\nproxy_protocol = \"v2\""),
        );
        let from = if protocol == "http1" { "127.0.0.5" } else { "127.0.0.6" };
        let mut curl = Command::new("curl");
        curl.args([
            "--silent",
            "--show-error",
            "--max-time",
            "60",
            "--interface",
            from,
            &server.url("/pong"),
        ]);
        assert_eq!(tools::run_ok(&mut curl, LONG), "pong");
        behind.wait_for_log(&format!("{from} - - ["), LONG);
    }
}

#[test]
fn websockets_have_their_clients_address() {
    let behind = behind("");
    for protocol in ["http1", "http2"] {
        let server = routed(
            &format!("http://{}", behind.address()),
            &format!("protocol = \"{protocol}\"\nproxy_protocol = \"v2\""),
        );
        let mut client = server.client().patient(LONG);
        websocket::open(&mut client, "/ws", "");
        client.send(websocket::frame(0x81, b"hello"));
        assert_eq!(websocket::read(&mut client), (0x81, b"hello".to_vec()));
    }
}

/// Doors have no clients but processes of this machine: they share connections, as health checks they say `LOCAL`.
#[test]
fn doors_and_health_checks_say_that_they_have_no_client() {
    const LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";
    for (version, header) in [("v1", b"PROXY UNKNOWN\r\n".as_slice()), ("v2", LOCAL)] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let server = Server::start(&format!(
            "[server]\nthreads = 1\n[upstream.site]\nurl = \"http://{address}\"\nbind = \"127.0.0.1:0\"\nproxy_protocol = \"{version}\"\n\
             health = {{ path = \"/health\", interval = \"100ms\" }}\n"
        ));
        let serving = std::thread::spawn(move || {
            let (mut checked, mut called) = (false, false);
            while !(checked && called) {
                let (mut stream, _) = listener.accept().expect("a connection");
                stream.set_read_timeout(Some(LONG)).expect("a time-out");
                let mut first = vec![0; header.len()];
                stream.read_exact(&mut first).expect("a header");
                assert_eq!(first, header);
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    stream.read_exact(&mut byte).expect("a request");
                    request.push(byte[0]);
                }
                checked |= request.starts_with(b"GET /health ");
                called |= request.starts_with(b"GET /call ");
                stream
                    .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
                    .expect("taken");
            }
        });
        assert_eq!(server.client().patient(LONG).ask(keepwarm_tests::get_local("/call")).text(), "ok");
        serving.join().expect("both came");
    }
}
