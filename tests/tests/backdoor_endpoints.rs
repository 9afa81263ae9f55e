//! Endpoints that come and go: names whose addresses change, and health checks.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::time::{Duration, Instant};

use keepwarm_tests::name_server::NameServer;
use keepwarm_tests::origin::{After, Origin, ok};
use keepwarm_tests::{Client, Server, get_local as get};

const BOUND: Duration = Duration::from_secs(30);

const ONE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 1);
const TWO: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// A client calls over one connection for as long as something takes.
const SERVER: &str = "[server]\nthreads = 1\nlimits = { connection_requests = \"off\" }\n";

/// Two origins at two addresses and one port.
fn pair(
    respond: impl Fn(&str, &mut std::net::TcpStream) -> After + Clone + Send + Sync + 'static,
) -> (Origin, Origin) {
    loop {
        let one = TcpListener::bind((ONE, 0)).unwrap();
        let port = one.local_addr().unwrap().port();
        // The port may be taken at the other address.
        let Ok(two) = TcpListener::bind((TWO, port)) else { continue };
        let start = |listener, name: &'static str| {
            let respond = respond.clone();
            Origin::start_on(listener, move |_, stream| respond(name, stream))
        };
        return (start(one, "one"), start(two, "two"));
    }
}

fn named(address: SocketAddr, names: &NameServer) -> String {
    format!(
        "{SERVER}[upstream.search]\nurl = \"http://search.test:{}\"\nbind = \"127.0.0.1:0\"\n\
         dns = {{ min_ttl = \"100ms\", max_ttl = \"100ms\", resolver = [\"{}\"] }}\n",
        address.port(),
        names.address()
    )
}

fn say(name: &str, stream: &mut std::net::TcpStream) -> After {
    ok(stream, name.as_bytes());
    After::Keep
}

/// Calls until the response is this one; each must go well.
fn call_until(client: &mut Client, expected: &str) {
    let deadline = Instant::now() + BOUND;
    loop {
        let response = client.ask(get("/"));
        assert_eq!(response.status, 200);
        if response.text() == expected {
            return;
        }
        assert!(Instant::now() < deadline, "never {expected}");
        // Between looks at another process, which needs the processor.
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_name_that_moves_takes_its_calls_with_it_and_loses_none() {
    let (one, two) = pair(say);
    let names = NameServer::start(&[ONE]);
    let server = Server::start(&named(one.address(), &names));
    let mut client = server.client();
    call_until(&mut client, "one");
    let stop = Arc::new(AtomicBool::new(false));
    let others: Vec<_> = (0..2)
        .map(|_| {
            let (stop, mut client) = (Arc::clone(&stop), server.client());
            std::thread::spawn(move || {
                while !stop.load(Ordering::SeqCst) {
                    assert_eq!(client.ask(get("/")).status, 200);
                }
            })
        })
        .collect();
    for (addresses, expected) in [([TWO], "two"), ([ONE], "one"), ([TWO], "two")] {
        names.answer_with(Some(&addresses));
        call_until(&mut client, expected);
    }
    // Nothing is kept to an address that is gone.
    one.wait_until("its connections have ended", |one| one.open() == 0);
    assert!(two.open() > 0);
    // An unhealthy name server, and one without addresses: the known ones are used.
    for response in [None, Some(&[][..])] {
        names.answer_with(response);
        let (asked, deadline) = (names.asked(), Instant::now() + BOUND);
        while names.asked() < asked + 2 {
            assert_eq!(client.ask(get("/")).text(), "two");
            assert!(Instant::now() < deadline, "it is not asked any more");
        }
    }
    server.wait_for_log("upstream name lookup failed", BOUND);
    stop.store(true, Ordering::SeqCst);
    others.into_iter().for_each(|other| other.join().unwrap());
}

#[test]
fn a_name_without_an_address_is_a_502_with_the_reason() {
    let names = NameServer::start(&[]);
    let origin = Origin::fixed("here");
    let server = Server::start(&named(origin.address(), &names));
    let response = server.ask(get("/"));
    assert_eq!(response.status, 503, "{}", response.text());
    assert!(response.text().contains("the name servers returned no address"), "{}", response.text());
    names.answer_with(Some(&[ONE]));
    let deadline = Instant::now() + BOUND;
    while server.ask(get("/")).status != 200 {
        assert!(Instant::now() < deadline, "it is there now");
    }
}

/// A call waits for a lookup in progress, not for a failed one.
#[test]
fn a_name_without_address_holds_up_no_call() {
    let names = NameServer::start(&[]);
    let origin = Origin::fixed("here");
    let config = named(origin.address(), &names);
    let server = Server::start(&format!("{config}timeouts = {{ connect = \"1h\" }}\n"));
    for _ in 0..3 {
        assert_eq!(server.ask(get("/")).status, 503);
    }
}

#[test]
fn an_endpoint_that_fails_its_checks_gets_no_calls() {
    let status = Arc::new(AtomicU16::new(200));
    let said = Arc::clone(&status);
    let ill = Origin::start(move |request, stream| {
        use std::io::Write;
        let status = if request.target() == "/health" { said.load(Ordering::SeqCst) } else { 200 };
        let response = format!("HTTP/1.1 {status} So\r\nContent-Length: 3\r\n\r\nill");
        stream.write_all(response.as_bytes()).unwrap();
        After::Keep
    });
    let well = Origin::fixed("well");
    // Round robin: by the least load, one late response would keep calls away for a minute.
    let config = |health: &str| {
        format!(
            "{SERVER}[upstream.search]\nbind = \"127.0.0.1:0\"\nbalance = \"round_robin\"\n{health}\
             endpoints = [{{ url = \"http://{}\" }}, {{ url = \"http://{}\" }}]\n",
            ill.address(),
            well.address()
        )
    };
    let checked = "health = { path = \"/health\", interval = \"100ms\", timeout = \"100ms\" }\n";
    let server = Server::start(&config(checked));
    let mut client = server.client();
    call_until(&mut client, "ill");
    status.store(500, Ordering::SeqCst);
    let line = server.wait_for_log("endpoint fails its health checks", BOUND);
    assert!(line.contains("health_status") && line.contains("it responds to /health with 500"), "{line}");
    for _ in 0..20 {
        assert_eq!(client.ask(get("/")).text(), "well");
    }
    status.store(200, Ordering::SeqCst);
    call_until(&mut client, "ill");
    // A reload without checks: their last results have no effect any more.
    let mark = server.mark();
    status.store(500, Ordering::SeqCst);
    server.wait_for_log_after(mark, "endpoint fails its health checks", BOUND);
    server.reload_with(&config(""));
    call_until(&mut client, "ill");
}

/// A check takes until the last byte of its response: half of one is none.
#[test]
fn a_check_whose_response_does_not_come_whole_has_failed() {
    use std::io::Write;
    for (after, reason) in [(After::Keep, "health_timeout"), (After::Close, "health_no_response")] {
        let ill = Origin::start(move |request, stream| match request.target() {
            "/health" => {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf").unwrap();
                after
            }
            _ => say("ill", stream),
        });
        let well = Origin::fixed("well");
        let server = Server::start(&format!(
            "[server]\nthreads = 1\n[upstream.search]\nbind = \"127.0.0.1:0\"\n\
             health = {{ path = \"/health\", interval = \"100ms\" }}\n\
             endpoints = [{{ url = \"http://{}\" }}, {{ url = \"http://{}\" }}]\n",
            ill.address(),
            well.address()
        ));
        let line = server.wait_for_log("endpoint fails its health checks", BOUND);
        assert!(line.contains(reason), "{line}");
    }
}
