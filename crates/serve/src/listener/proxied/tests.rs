use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use keepwarm_telemetry::meters;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;

use super::super::tests::PongHandler;
use super::*;
use crate::{ConnectionLimits, OpenConnections};

const V1: &[u8] = b"PROXY TCP4 203.0.113.7 198.51.100.1 4711 443\r\n";

struct Received {
    ends: Option<Ends>,
    context: Arc<ListenerContext>,
    io: Io,
}

fn context(trusted: &str, per_client: usize) -> Arc<ListenerContext> {
    let trusted = Cidr::new(trusted.parse().unwrap(), 32).unwrap();
    Arc::new(ListenerContext {
        handler: Arc::new(PongHandler),
        limits: ConnectionLimits { per_client, ..ConnectionLimits::default() },
        tls: None,
        proxy_protocol: Some(ProxyProtocol::from_peers(vec![trusted])),
        draining: Arc::default(),
        open: Arc::new(OpenConnections::new(10)),
        meter: meters::unlisted(),
    })
}

fn ends(peer: Option<&str>) -> Ends {
    Ends {
        client: peer.map(|peer| peer.parse().unwrap()),
        local: LocalAddress::Tcp("127.0.0.1:80".parse().unwrap()),
        scheme: Scheme::Http,
    }
}

/// Receives from a peer that writes `pieces`, each once the one before was read, and then ends or stays.
async fn receive(
    context: &Arc<ListenerContext>,
    peer: Option<&str>,
    pieces: &[&[u8]],
    stays: bool,
) -> Received {
    let (client, server) = std::os::unix::net::UnixStream::pair().unwrap();
    client.set_nonblocking(true).unwrap();
    server.set_nonblocking(true).unwrap();
    let mut client = UnixStream::from_std(client).unwrap();
    let pieces: Vec<Vec<u8>> = pieces.iter().map(|piece| piece.to_vec()).collect();
    tokio::task::spawn_local(async move {
        for piece in pieces {
            client.write_all(&piece).await.unwrap();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        if stays {
            std::future::pending::<()>().await;
        }
    });
    let ticker = tokio::task::spawn_local(keepwarm_net::run_ticker());
    let mut io = Io::new(server.into());
    let mut place = context.open.enter(None, 0, context.meter.of(0)).unwrap();
    let protocol = context.proxy_protocol.as_ref().unwrap();
    let ends = protocol.receive(&mut io, ends(peer), &mut place, context).await;
    ticker.abort();
    Received { ends, context: Arc::clone(context), io }
}

impl Received {
    fn client(&self) -> Option<SocketAddr> {
        self.ends.as_ref().expect("accepted").client
    }

    /// What was left in the socket.
    async fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::with_capacity(64);
        poll_fn(|cx| self.io.poll_read(cx, &mut rest)).await.unwrap();
        rest
    }
}

async fn run(test: impl Future<Output = ()>) {
    tokio::task::LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn a_header_names_both_ends_and_what_follows_stays_in_the_socket() {
    run(async {
        let context = context("10.0.0.1", 0);
        let whole = [V1, b"GET / HTTP/1.1\r\n"].concat();
        let bytes: Vec<&[u8]> = whole.chunks(1).collect();
        let half: [&[u8]; 2] = [&whole[..20], &whole[20..]];
        for pieces in [[whole.as_slice()].as_slice(), &half, &bytes] {
            let mut received = receive(&context, Some("10.0.0.1:9"), pieces, true).await;
            assert_eq!(received.client(), Some("203.0.113.7:4711".parse().unwrap()));
            let Some(Ends { local: LocalAddress::Tcp(local), scheme, .. }) = &received.ends else { panic!() };
            assert_eq!((*local, *scheme), ("198.51.100.1:443".parse().unwrap(), Scheme::Http));
            assert_eq!(received.rest().await.first(), Some(&b'G'));
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn without_an_address_in_it_the_proxys_own_applies() {
    run(async {
        let context = context("10.0.0.1", 0);
        let mut unix = Vec::new();
        let path = ProxiedAddresses::Unix { source: b"/a".to_vec(), destination: b"/b".to_vec() };
        keepwarm_proxy_protocol::encode_v2(&path, true, &mut unix);
        for header in [b"PROXY UNKNOWN\r\n".as_slice(), b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0", &unix] {
            let received = receive(&context, Some("10.0.0.1:9"), &[header], true).await;
            assert_eq!(received.client(), Some("10.0.0.1:9".parse().unwrap()));
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn tls_towards_the_proxy_is_the_scheme() {
    run(async {
        let block = b"\xcb\0\x71\x07\xc6\x33\x64\x01\x12\x67\x01\xbb\x20\0\x05\x01\0\0\0\0";
        let header = [b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x14".as_slice(), block].concat();
        let received = receive(&context("10.0.0.1", 0), Some("10.0.0.1:9"), &[&header], true).await;
        assert_eq!(received.client(), Some("203.0.113.7:4711".parse().unwrap()));
        assert_eq!(received.ends.unwrap().scheme, Scheme::Https);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn others_than_trusted_proxies_with_a_header_are_closed() {
    run(async {
        let cases: [(&str, &[&[u8]], bool); 6] = [
            ("10.0.0.2:9", &[V1], true),
            ("10.0.0.1:9", &[b"GET / HTTP/1.1\r\n\r\n"], true),
            ("10.0.0.1:9", &[b"PROXY TCP4 nonsense\r\n"], true),
            ("10.0.0.1:9", &[&V1[..20]], false),
            ("10.0.0.1:9", &[&V1[..20]], true),
            ("10.0.0.1:9", &[], true),
        ];
        for (peer, pieces, stays) in cases {
            let context = context("10.0.0.1", 0);
            let begun = Instant::now();
            let received = receive(&context, Some(peer), pieces, stays).await;
            assert!(received.ends.is_none(), "{peer} {pieces:?}");
            assert!(begun.elapsed() < Duration::from_secs(11), "limits.head_timeout is 10 s");
            let logged = context.proxy_protocol.as_ref().unwrap().rejected_at.lock().unwrap().is_some();
            assert!(logged, "{peer} {pieces:?}");
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_check_of_the_port_is_no_fault() {
    run(async {
        let context = context("127.0.0.1", 0);
        // On a Unix socket: it counts as 127.0.0.1.
        let received = receive(&context, None, &[], false).await;
        assert!(received.ends.is_none());
        assert!(context.proxy_protocol.as_ref().unwrap().rejected_at.lock().unwrap().is_none());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_client_behind_the_proxy_is_counted_not_the_proxy() {
    run(async {
        let context = context("10.0.0.1", 1);
        let mut place = context.open.enter(None, 0, context.meter.of(0)).unwrap();
        assert!(place.count_client(Some("203.0.113.7".parse().unwrap()), 1));
        let received = receive(&context, Some("10.0.0.1:9"), &[V1], true).await;
        assert!(received.ends.is_none(), "it has one already");
        let other = b"PROXY TCP4 203.0.113.8 198.51.100.1 4711 443\r\n".as_slice();
        let received = receive(&context, Some("10.0.0.1:9"), &[other], true).await;
        assert!(received.ends.is_some());
        drop(place);
        let received = receive(&received.context, Some("10.0.0.1:9"), &[V1], true).await;
        assert!(received.ends.is_some());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_connection_leaves_when_the_process_drains() {
    run(async {
        let context = context("10.0.0.1", 0);
        let open = Arc::clone(&context.open);
        tokio::task::spawn_local(async move {
            tokio::time::sleep(Duration::from_secs(2)).await;
            open.close_idle(Duration::ZERO);
        });
        let begun = Instant::now();
        assert!(receive(&context, Some("10.0.0.1:9"), &[], true).await.ends.is_none());
        assert!(begun.elapsed() < Duration::from_secs(9));
    })
    .await;
}
