//! Nothing to connect to.

use keepwarm_doctor::Verdict;
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener};

use crate::server::{Well, behave, blocking, check, every_probe_spoke, found, settings};

#[tokio::test]
async fn nobody_listens() {
    let address = TcpListener::bind("127.0.0.1:0").await.expect("a free port").local_addr().expect("bound");
    let it = check(&format!("http://{address}/"), &settings()).await;
    found(&it, "reach.connection", Verdict::Bad, &format!("nobody listens at {address}"));
    let it = check("unix:/nonexistent/app.sock", &settings()).await;
    found(&it, "reach.connection", Verdict::Bad, "/nonexistent/app.sock");
}

#[tokio::test]
async fn nothing_comes_back() {
    // Where the queue of connections is full, the kernel drops what comes, as a firewall does.
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind("127.0.0.1:0".parse().unwrap()).expect("a free port");
    let listener = socket.listen(1).expect("it listens");
    let address = listener.local_addr().expect("bound");
    let mut waiting = Vec::new();
    let full = std::time::Duration::from_millis(300);
    while let Ok(Ok(stream)) = tokio::time::timeout(full, TcpStream::connect(address)).await {
        waiting.push(stream);
        assert!(waiting.len() < 100, "the queue is never full");
    }
    let it = check(&format!("http://{address}/"), &settings()).await;
    found(&it, "reach.connection", Verdict::Bad, "connecting: nothing came back within 0.4 s");
}

#[tokio::test]
async fn no_such_name() {
    let it = check("http://no-such-host.invalid/", &settings()).await;
    assert_eq!(it.verdict(), Verdict::Bad);
    let finding = &it.examined[0].findings[0];
    assert!(["reach.name", "reach.connection"].contains(&finding.id), "{finding:?}");
    assert!(finding.fix.is_some(), "{finding:?}");
}

#[tokio::test]
async fn the_first_address_refuses_and_the_second_answers() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            behave(blocking(stream), Well::default());
        }
    });
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
            behave(stream, Well::default());
        }
    });
    let it = check(&format!("unix:{}:/page", path.display()), &settings()).await;
    std::fs::remove_file(&path).expect("it was there");
    every_probe_spoke(&it);
    found(&it, "connect.reuse", Verdict::Good, "on a kept one");
}
