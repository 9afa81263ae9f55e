//! Nothing to connect to.

use std::net::SocketAddr;
use std::time::Duration;

use keepwarm_doctor::Verdict;
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener};

use crate::server::{GoodServer, behave, check, every_probe_spoke, found, serve, settings};

#[tokio::test]
async fn nobody_listens() {
    let address = TcpListener::bind("127.0.0.1:0").await.expect("a free port").local_addr().expect("bound");
    let it = check(&format!("http://{address}/"), &settings()).await;
    found(&it, "reach.connection", Verdict::Bad, &format!("nothing listens on {address}"));
    let it = check("unix:/nonexistent/app.sock", &settings()).await;
    let finding = found(&it, "reach.connection", Verdict::Bad, "/nonexistent/app.sock");
    assert!(format!("{:?}", finding.fix).contains("path of the socket"), "{:?}", finding.fix);
}

/// An address without a reply: the kernel drops what comes to a full queue of connections, as a firewall does.
struct FullBacklog {
    address: SocketAddr,
    _listener: TcpListener,
    _waiting: Vec<TcpStream>,
}

impl FullBacklog {
    /// `None`: somebody has that port.
    async fn at(address: SocketAddr) -> Option<Self> {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_reuseaddr(true).expect("a socket");
        socket.bind(address).ok()?;
        let listener = socket.listen(1).expect("it listens");
        let address = listener.local_addr().expect("bound");
        let mut waiting = Vec::new();
        let full = Duration::from_millis(500);
        while let Ok(Ok(stream)) = tokio::time::timeout(full, TcpStream::connect(address)).await {
            waiting.push(stream);
            assert!(waiting.len() < 100, "the queue is never full");
        }
        Some(Self { address, _listener: listener, _waiting: waiting })
    }
}

#[tokio::test]
async fn nothing_comes_back() {
    let hole = FullBacklog::at("127.0.0.1:0".parse().unwrap()).await.expect("a free port");
    let it = check(&format!("http://{}/", hole.address), &settings()).await;
    found(&it, "reach.connection", Verdict::Bad, "connecting timed out after 1.0 s");
}

#[tokio::test]
async fn the_first_address_is_silent_and_the_second_responds() {
    // A port that is free at both addresses.
    let (address, hole) = loop {
        let address = serve(usize::MAX, |_| async { Ok(()) }).await;
        let twin = SocketAddr::new("127.0.0.2".parse().unwrap(), address.port());
        if let Some(hole) = FullBacklog::at(twin).await {
            break (address, hole);
        }
    };
    let mut settings = settings();
    settings.resolve =
        [hole.address, address].map(|it| ("shop.example".to_owned(), it.port(), it.ip())).to_vec();
    let it = check(&format!("http://shop.example:{}/", address.port()), &settings).await;
    let finding =
        found(&it, "connect.addresses", Verdict::Bad, &format!("{} does not respond", hole.address));
    assert!(finding.evidence.contains(&format!("{address} responds in")), "{finding:?}");
    let all = it.results.iter().flat_map(|result| &result.findings);
    assert_eq!(all.filter(|finding| finding.verdict == Verdict::Bad).count(), 1);
}

#[tokio::test]
async fn no_such_name() {
    let it = check("http://no-such-host.invalid/", &settings()).await;
    assert_eq!(it.verdict(), Verdict::Bad);
    let finding = &it.results[0].findings[0];
    assert!(["reach.name", "reach.connection"].contains(&finding.id), "{finding:?}");
    assert!(finding.fix.is_some(), "{finding:?}");
}

#[tokio::test]
async fn the_first_address_refuses_and_the_second_responds() {
    let port = serve(usize::MAX, |_| async { Ok(()) }).await.port();
    let mut settings = settings();
    let name = || "shop.example".to_owned();
    settings.resolve =
        vec![(name(), port, "127.0.0.2".parse().unwrap()), (name(), port, "127.0.0.1".parse().unwrap())];
    let it = check(&format!("http://shop.example:{port}/"), &settings).await;
    found(&it, "connect.addresses", Verdict::Good, "127.0.0.2");
    every_probe_spoke(&it);
}

#[tokio::test]
async fn a_socket_of_this_machine_is_examined() {
    let path = std::env::temp_dir().join(format!("doctor-{}.sock", std::process::id()));
    let listener = UnixListener::bind(&path).expect("a socket");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let stream = stream.into_std().expect("a socket");
            stream.set_nonblocking(false).expect("a socket");
            behave(stream, GoodServer::default());
        }
    });
    let it = check(&format!("unix:{}:/page", path.display()), &settings()).await;
    std::fs::remove_file(&path).expect("it was there");
    every_probe_spoke(&it);
    found(&it, "connect.reuse", Verdict::Good, "on a persistent one");
}
