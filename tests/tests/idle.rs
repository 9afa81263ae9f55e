//! 10,000 idle keep-alive connections cost at most 8 KiB of resident memory each, in all of Keepwarm's processes.

use std::net::SocketAddr;
use std::time::Duration;

use keepwarm_tests::{Client, Server, WSGI, get, process};

const CONNECTIONS: usize = 10_000;
const KIB_EACH: u64 = 8;

/// Raises the limit on open files of this process, and so of the server it starts, as far as allowed.
fn raise_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let enough = CONNECTIONS as u64 + 1_000;
    assert!(
        limit.maximum.is_none_or(|maximum| maximum >= enough),
        "the hard limit on open files is below {enough}: {limit:?}"
    );
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })
        .expect("the hard limit is allowed");
}

/// Resident memory of the server and all its descendants.
fn resident(server: &Server) -> u64 {
    let mut pids = process::descendants(server.pid());
    pids.push(server.pid());
    pids.into_iter().map(process::resident_kib).sum()
}

#[test]
fn ten_thousand_idle_connections() {
    raise_limit();
    let server = Server::start(WSGI).warm("/pong");
    let mut client = server.client();
    for _ in 0..200 {
        client.expect_kept("/list");
    }
    let before = resident(&server);
    let mut idle: Vec<Client> = Vec::with_capacity(CONNECTIONS);
    for number in 0..CONNECTIONS {
        // Each has been served, so that whatever a request needs has been allocated for it. Several source addresses: one has too few ports.
        let mut client = connect_from(server.address(), number);
        client.send(get("/list"));
        idle.push(client);
        if idle.len().is_multiple_of(64) {
            respond_last(&mut idle, 64);
        }
    }
    let rest = CONNECTIONS % 64;
    respond_last(&mut idle, rest);
    // Whatever is freed a little later is freed by then.
    let allowed = KIB_EACH * CONNECTIONS as u64;
    let grown = || resident(&server).saturating_sub(before);
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while grown() > allowed && std::time::Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(50));
    }
    let each = grown() as f64 / CONNECTIONS as f64;
    println!("{each:.2} KiB for each of {CONNECTIONS} idle connections ({before} KiB before)");
    assert!(grown() <= allowed, "{each:.2} KiB each, {KIB_EACH} allowed");
    // They are alive.
    for client in idle.iter_mut().step_by(997) {
        client.expect_kept("/list");
    }
}

/// Reads the responses of the last `count` clients.
fn respond_last(idle: &mut [Client], count: usize) {
    let from = idle.len() - count;
    for client in &mut idle[from..] {
        assert_eq!(client.response("GET").text(), "pong");
    }
}

/// From one of the loopback addresses 127.0.0.2 to 127.0.0.5.
fn connect_from(address: SocketAddr, number: usize) -> Client {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    let source = SocketAddr::from(([127, 0, 0, 2 + (number % 4) as u8], 0));
    bind(&socket, &source).expect("a source address");
    connect(&socket, &address).expect("a connection");
    Client::from_stream(std::net::TcpStream::from(socket))
}
