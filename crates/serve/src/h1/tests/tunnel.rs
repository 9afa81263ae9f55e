//! Tunnels: every byte arrives, in order, however slowly either side takes it.

use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker, ready};

use keepwarm_http1::Fields;
use tokio::io::AsyncReadExt;

use super::*;
use crate::{ServerExchange, Tunnel, TunnelEnd};
use keepwarm_net::{Client, ClientError, Http1, Lease, ResponsePart};

/// A socket that takes little at a time, and one that takes all waiting bytes at once.
/// Each with more bytes than both sockets and all buffers between them hold.
const PAIRS: [(SocketPair, usize); 2] = [(small_pair, 1 << 20), (large_pair, 16 << 20)];

type SocketPair = fn() -> (OwnedFd, Stream);

/// Opens a tunnel from the client to this socket.
struct SocketTunnel(Mutex<Option<OwnedFd>>);

impl ExchangeScript for SocketTunnel {
    fn act<'a>(&'a self, exchange: &'a mut Exchange<'_>) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        Box::pin(async move {
            let io = Io::new(self.0.lock().unwrap().take().unwrap());
            let mut server = Lease::alone(Client::<Http1>::new(io));
            exchange.begin_tunnel(b"x", &Fields::new()).unwrap();
            let mut tunnel = Tunnel::of(exchange);
            let end = poll_fn(|cx| tunnel.poll(cx, exchange, &mut server)).await;
            assert_eq!(end, TunnelEnd::Over);
        })
    }
}

/// An open tunnel: the client's end, and the server's.
async fn tunnel(pair: SocketPair) -> (Stream, Stream) {
    let (near, server) = pair();
    let tunnels = SocketTunnel(Mutex::new(Some(near)));
    let mut client = connect_over(pair(), tunnels, ConnectionLimits::default());
    write(&mut client, b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n").await;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await.unwrap());
    }
    (client, server)
}

fn byte(at: usize) -> u8 {
    (at % 251) as u8
}

/// Sends all of it from one end, and begins to read at the other once nothing moves any more.
async fn pass((mut from, mut to): (Stream, Stream), size: usize) {
    let sending = tokio::task::spawn_local(async move {
        let bytes: Vec<u8> = (0..size).map(byte).collect();
        write(&mut from, &bytes).await;
        from
    });
    // Longer than every buffer takes to fill: all of it is in memory.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!sending.is_finished());
    let (mut taken, mut block) = (0, vec![0; 64 * 1024]);
    while taken < size {
        let got = to.read(&mut block).await.unwrap();
        assert!(got > 0, "it ended after {taken} bytes");
        assert!(block[..got].iter().enumerate().all(|(at, seen)| *seen == byte(taken + at)));
        taken += got;
    }
    drop(sending.await.unwrap());
}

/// A full side reads no more, and so only its own write wakes it: new room must not go unnoticed.
#[tokio::test]
async fn a_slow_client_gets_all_that_its_server_sends() {
    for (pair, size) in PAIRS {
        run(async {
            let (client, server) = tunnel(pair).await;
            pass((server, client), size).await;
        })
        .await;
    }
}

#[tokio::test]
async fn a_slow_server_gets_all_that_its_client_sends() {
    for (pair, size) in PAIRS {
        run(async {
            let (client, server) = tunnel(pair).await;
            pass((client, server), size).await;
        })
        .await;
    }
}

/// A TLS server, whose end of a tunnel also writes (close_notify). It gets room for that only after a delay, and ends when it sees its client's end.
#[derive(Default)]
struct CloseNotifyServer {
    room: Option<Pin<Box<tokio::time::Sleep>>>,
    is_told: bool,
    has_ended: bool,
    reader: Option<Waker>,
}

impl ServerExchange for CloseNotifyServer {
    fn poll_response(&mut self, _: &mut Context<'_>) -> Poll<Result<ResponsePart<'_>, ClientError>> {
        Poll::Pending
    }

    fn poll_tunnel(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        self.reader = Some(cx.waker().clone());
        if self.has_ended { Poll::Ready(Ok(&[])) } else { Poll::Pending }
    }

    fn send_tunnel(&mut self, _: &[u8]) {
        self.room = Some(Box::pin(tokio::time::sleep(Duration::from_millis(50))));
    }

    fn unsent(&self) -> usize {
        self.room.iter().count()
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(room) = &mut self.room {
            ready!(room.as_mut().poll(cx));
            (self.room, self.has_ended) = (None, self.is_told);
            self.reader.take_if(|_| self.is_told).into_iter().for_each(Waker::wake);
        }
        Poll::Ready(())
    }

    fn shutdown_write(&mut self) {
        self.is_told = true;
        self.send_tunnel(b"close_notify");
    }
}

/// Opens a tunnel to such a server.
struct CloseNotifyTunnel;

impl ExchangeScript for CloseNotifyTunnel {
    fn act<'a>(&'a self, exchange: &'a mut Exchange<'_>) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        Box::pin(async move {
            exchange.begin_tunnel(b"x", &Fields::new()).unwrap();
            let (mut tunnel, mut server) = (Tunnel::of(exchange), CloseNotifyServer::default());
            let end = poll_fn(|cx| tunnel.poll(cx, exchange, &mut server)).await;
            assert_eq!(end, TunnelEnd::Over);
        })
    }
}

#[tokio::test]
async fn the_end_of_a_client_leaves_when_its_server_has_room_for_it() {
    run(async {
        let mut client = connect(CloseNotifyTunnel, ConnectionLimits::default());
        write(&mut client, b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nx").await;
        client.shutdown().await.unwrap();
        client.read_to_end(&mut Vec::new()).await.unwrap();
    })
    .await;
}
