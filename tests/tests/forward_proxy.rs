//! A listener as `http_proxy`: calls that are pooled, tunnels that are allowed, and what it never calls.

use std::io::{BufReader, Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use keepwarm_tests::origin::{After, Origin, ok};
use keepwarm_tests::{Response, Server, tools};

/// A proxy that may call this; more of the configuration follows.
fn proxy(allow: &str, more: &str) -> Server {
    Server::start(&format!(
        "[server]\nthreads = 1\n[listen.proxy]\nbind = \"127.0.0.1:0\"\nforward_proxy = {{ allow = [{allow}] }}\n{more}"
    ))
}

fn reason(response: &Response) -> String {
    response.json()["reason"].as_str().unwrap_or_default().to_owned()
}

fn get(target: &str) -> String {
    let host = target.split('/').nth(2).unwrap_or_default();
    format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nAccept: application/json\r\n\r\n")
}

#[test]
fn absolute_calls_are_pooled_and_have_via() {
    let origin = Origin::fixed("hello");
    let server = proxy("\"127.0.0.1\"", "");
    for _ in 0..4 {
        let response = server.ask(format!(
            "GET http://{0}/a?b HTTP/1.1\r\nHost: {0}\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: Basic eA==\r\n\r\n",
            origin.address()
        ));
        assert_eq!((response.status, response.text().as_str()), (200, "hello"));
        assert_eq!(response.field("via"), Some("1.1 keepwarm"));
    }
    assert_eq!(origin.connections(), 1);
    let seen = origin.last();
    assert_eq!(seen.target(), "/a?b");
    assert_eq!(seen.field("host"), Some(origin.address().to_string().as_str()));
    assert_eq!(seen.field("via"), Some("1.1 keepwarm"));
    assert_eq!((seen.field("proxy-connection"), seen.field("proxy-authorization")), (None, None));
}

/// RFC 9110 §7.6.2.
#[test]
fn an_options_goes_no_further_than_it_may() {
    let origin = Origin::fixed("asked");
    let server = proxy(&format!("\"{}\"", origin.address()), "");
    let mut client = server.client();
    let mut options = |left: &str| {
        let (method, host) = ("OPTIONS", origin.address());
        client
            .ask(format!("{method} http://{host}/a HTTP/1.1\r\nHost: {host}\r\nMax-Forwards: {left}\r\n\r\n"))
    };
    let ours = options("0");
    assert_eq!((ours.status, ours.text().as_str()), (200, ""));
    assert!(ours.field("allow").is_some_and(|allow| allow.contains("OPTIONS")));
    assert!(origin.requests().is_empty());
    assert_eq!(options("3").text(), "asked");
    assert_eq!(origin.requests()[0].field("max-forwards"), Some("2"));
    assert_eq!(options("99999999999999999999999").text(), "asked");
    assert_eq!(origin.requests()[1].field("max-forwards"), Some("18446744073709551614"));
    assert_eq!(options("many").text(), "asked");
    assert_eq!(origin.requests()[2].field("max-forwards"), Some("many"));
    let get = client.ask(get(&format!("http://{}/a", origin.address())).replacen(
        "\r\n",
        "\r\nMax-Forwards: 0\r\n",
        1,
    ));
    assert_eq!(get.text(), "asked", "it counts for OPTIONS alone");
}

#[test]
fn a_client_of_1_0_is_not_kept() {
    let origin = Origin::fixed("hello");
    let server = proxy("\"127.0.0.1\"", "");
    let mut client = server.client();
    client.send(format!(
        "GET http://{0}/ HTTP/1.0\r\nHost: {0}\r\nConnection: keep-alive\r\n\r\n",
        origin.address()
    ));
    let response = client.response("GET");
    assert!(response.says_close());
    client.expect_eof();
}

#[test]
fn loopback_and_own_addresses_are_not_called_unless_listed() {
    let origin = Origin::fixed("secret");
    for allow in ["\"*\"", "\"*\", \"10.0.0.0/8\"", "\"other.example\""] {
        let server = proxy(allow, "");
        let port = origin.address().port();
        for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "[::1]", "127.1.2.3", "0.0.0.0"] {
            let response = server.ask(get(&format!("http://{host}:{port}/")));
            assert!(matches!(response.status, 403 | 502), "{allow} {host}: {}", response.text());
        }
        let own = server.ask(get(&server.url("/")));
        assert_eq!((own.status, reason(&own).as_str()), (403, "proxy_denied"));
    }
    assert_eq!(origin.connections(), 0);
    let server = proxy("\"localhost\"", "");
    let response = server.ask(get(&format!("http://localhost:{}/", origin.address().port())));
    assert_eq!(response.text(), "secret");
}

#[test]
fn connect_opens_tunnels_to_listed_hosts_and_ports_only() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let echo = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut bytes = Vec::new();
        BufReader::new(stream.try_clone().unwrap()).read_to_end(&mut bytes).unwrap();
        stream.write_all(&bytes).unwrap();
    });
    let server = proxy(&format!("\"127.0.0.1:{port}\""), "");
    let mut client = server.client();
    client.send(format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\nfirst "));
    let (status, fields) = client.head("CONNECT");
    assert_eq!(status, 200);
    assert!(!fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("transfer-encoding")), "{fields:?}");
    client.send("second");
    client.half_close();
    assert_eq!(client.read_to_end().0, b"first second");
    echo.join().unwrap();
    for target in ["127.0.0.1:22", "169.254.169.254:80", "example.test:443"] {
        let response = server
            .ask(format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\nAccept: application/json\r\n\r\n"));
        assert_eq!((response.status, reason(&response).as_str()), (403, "proxy_denied"), "{target}");
        assert!(response.says_close());
    }
}

#[test]
fn a_call_for_an_upstreams_host_is_carried_as_that_upstream() {
    let origin = Origin::start(|_, stream| {
        ok(stream, b"as an upstream");
        After::Keep
    });
    let server = proxy(
        "\"nothing.example\"",
        &format!(
            "[upstream.search]\nurl = \"http://{}\"\nhost = \"search.internal\"\ntimeout = \"5s\"\n",
            origin.address()
        ),
    );
    let response = server.ask(get(&format!("http://{}/x", origin.address())));
    assert_eq!(response.text(), "as an upstream");
    assert_eq!(origin.last().field("host"), Some("search.internal"), "by the upstream's settings");
}

/// The opposite of an upgrade: a plaintext upstream does not carry an `https://` target.
#[test]
fn an_https_target_is_not_called_in_clear() {
    let origin = Origin::fixed("in clear");
    let upstream = format!("[upstream.search]\nurl = \"http://{}\"\n", origin.address());
    let server = proxy("\"nothing.example\"", &upstream);
    let response = server.ask(get(&format!("https://{}/x", origin.address())));
    assert_eq!((response.status, reason(&response).as_str()), (403, "proxy_denied"));
    assert_eq!(server.ask(get(&format!("http://{}/x", origin.address()))).text(), "in clear");
    assert_eq!(origin.requests().len(), 1);
}

/// RFC 9110 §7.6.3: in each message that is passed on.
#[test]
fn via_stands_in_switches_and_informational_responses_too() {
    let origin = Origin::start(|request, stream| {
        let switch = b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: chat\r\n\r\n";
        match request.field("upgrade") {
            Some(_) => stream.write_all(switch).unwrap(),
            None => {
                stream.write_all(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n").unwrap();
                ok(stream, b"");
            }
        }
        After::Keep
    });
    let server = proxy("\"127.0.0.1\"", "");
    let mut client = server.client();
    client.send(get(&format!("http://{}/", origin.address())));
    let via = ("via".to_owned(), "1.1 keepwarm".to_owned());
    let (status, fields) = client.head("GET");
    assert!(status == 103 && fields.contains(&via), "{status} {fields:?}");
    assert_eq!(client.response("GET").field("via"), Some("1.1 keepwarm"));
    client.send(format!(
        "GET http://{0}/ HTTP/1.1\r\nHost: {0}\r\nConnection: upgrade\r\nUpgrade: chat\r\n\r\n",
        origin.address()
    ));
    let (status, fields) = client.head("GET");
    assert!(status == 101 && fields.contains(&via), "{status} {fields:?}");
}

#[test]
fn a_call_to_a_host_that_is_no_upstream_has_a_record_and_its_connection_outlives_a_reload() {
    let origin = Origin::fixed("hello");
    let config = |more: &str| {
        format!(
            "[server]\nthreads = 1\n{more}[listen.proxy]\nbind = \"127.0.0.1:0\"\nforward_proxy = {{ allow = [\"127.0.0.1\"] }}\n"
        )
    };
    let server = Server::start(&config(""));
    let target = format!("http://{}/a", origin.address());
    assert_eq!(server.ask(get(&target)).text(), "hello");
    server.reload_with(&config("shutdown_grace = \"7s\"\n"));
    assert_eq!(server.ask(get(&target)).text(), "hello");
    assert_eq!(origin.connections(), 1, "the reload has left it open");
    server.wait_for_log("\"reused\":true", Duration::from_secs(30));
    let log = server.log();
    let records: Vec<serde_json::Value> =
        log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    assert_eq!(records.len(), 2, "{log}");
    for (record, reused) in records.iter().zip([false, true]) {
        assert_eq!((&record["upstream"], &record["status"]), (&"forward_proxy".into(), &200.into()));
        assert_eq!((&record["target"], &record["reused"]), (&target.as_str().into(), &reused.into()));
    }
}

#[test]
fn other_targets_are_for_the_listeners_routes() {
    let server =
        proxy("\"other.example\"", "[[listen.proxy.route]]\nrespond = { status = 200, body = \"mine\" }\n");
    let response = server.ask("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(response.text(), "mine");
}

#[test]
fn an_unreachable_host_is_reported() {
    let gone = tools::nobody();
    let server = proxy("\"127.0.0.1\", \"nowhere.invalid\"", "");
    let response = server.ask(get(&format!("http://{gone}/")));
    assert_eq!((response.status, reason(&response).as_str()), (502, "connect_refused"));
    let mut client = server.client().patient(Duration::from_secs(30));
    client.send(get("http://nowhere.invalid/"));
    let response = client.response("GET");
    assert_eq!((response.status, reason(&response).as_str()), (502, "host_unknown"));
}
