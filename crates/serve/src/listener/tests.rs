//! Which side ends an idle connection, and when.

use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::atomic::Ordering;

use keepwarm_net::BindAddress;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::*;
use crate::{Exchange, Handler, Refusal};

pub(super) struct PongHandler;

impl Handler for PongHandler {
    fn handle<'a>(&'a self, exchange: &'a mut Exchange<'_>) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        Box::pin(async move {
            exchange.head(200, Some(4), false, std::iter::empty()).unwrap();
            exchange.data(b"pong");
            exchange.end();
        })
    }
}

impl Frontend for PongHandler {
    fn refuse(&self, exchange: &mut Exchange<'_>, _: &Refusal) {
        exchange.abort("refused");
    }
}

struct TestConnection {
    client: UnixStream,
    context: Arc<ListenerContext>,
    task: tokio::task::JoinHandle<()>,
}

fn context(connections: usize) -> Arc<ListenerContext> {
    Arc::new(ListenerContext {
        handler: Arc::new(PongHandler),
        limits: ConnectionLimits::default(),
        proxy_protocol: None,
        draining: Arc::default(),
        open: Arc::new(OpenConnections::new(connections)),
        meter: keepwarm_telemetry::meters::unlisted(),
        tls: None,
    })
}

fn serve_one() -> TestConnection {
    let (client, server) = std::os::unix::net::UnixStream::pair().unwrap();
    client.set_nonblocking(true).unwrap();
    server.set_nonblocking(true).unwrap();
    let context = context(1);
    tokio::task::spawn_local(keepwarm_net::run_ticker());
    let serve = h1::serve(
        Io::new(server.into()).into(),
        ConnectionInfo::new(None, LocalAddress::Unix(None), Scheme::Http),
        context.clone(),
    );
    let task = tokio::task::spawn_local(serve);
    TestConnection { client: UnixStream::from_std(client).unwrap(), context, task }
}

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

impl TestConnection {
    async fn ask(&mut self) {
        self.client.write_all(REQUEST).await.unwrap();
        self.response().await;
    }

    async fn response(&mut self) {
        let mut text = String::new();
        while !text.ends_with("pong") {
            let mut block = [0; 512];
            let got = self.client.read(&mut block).await.unwrap();
            assert!(got > 0, "the connection ended: {text}");
            text += std::str::from_utf8(&block[..got]).unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_came_before_the_idle_time_was_over_is_answered() {
    let run = async {
        let mut served = serve_one();
        served.ask().await;
        let mut ticks = 0;
        while ticks < 20 {
            // In the socket before the deadline is checked, and known to the reactor only after it.
            tokio::time::advance(Duration::from_millis(74_950)).await;
            served.client.try_write(REQUEST).unwrap();
            tokio::time::advance(Duration::from_millis(200)).await;
            served.response().await;
            ticks += 1;
        }
        served.task.abort();
    };
    tokio::task::LocalSet::new().run_until(run).await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_makes_room_unless_it_has_sent_something() {
    let run = async {
        let mut served = serve_one();
        served.ask().await;
        let open = Arc::clone(&served.context.open);
        tokio::time::sleep(Duration::from_secs(2)).await;
        served.client.try_write(REQUEST).unwrap();
        open.make_room(|| false).await;
        served.response().await;
        open.make_room(|| false).await;
        assert!(!served.task.is_finished(), "it has just been used");
        tokio::time::sleep(Duration::from_secs(2)).await;
        open.make_room(|| false).await;
        assert_eq!(served.client.read(&mut [0; 1]).await.unwrap(), 0);
        served.task.await.unwrap();
    };
    tokio::task::LocalSet::new().run_until(run).await;
}

#[tokio::test(start_paused = true)]
async fn while_somebody_waits_a_connection_that_had_its_turn_ends_with_its_response() {
    let run = async {
        let mut served = serve_one();
        let open = Arc::clone(&served.context.open);
        let wants = tokio::task::spawn_local(async move {
            while open.count() == 0 {
                open.make_room(|| false).await;
            }
        });
        served.ask().await;
        served.ask().await;
        let turn = tokio::time::Instant::now() + Duration::from_secs(1);
        while tokio::time::Instant::now() < turn {
            served.ask().await;
            tokio::time::sleep(Duration::from_millis(90)).await;
        }
        served.client.write_all(REQUEST).await.unwrap();
        let mut text = String::new();
        served.client.read_to_string(&mut text).await.unwrap();
        assert!(text.contains("\r\nConnection: close\r\n") && text.ends_with("pong"), "{text}");
        wants.abort();
    };
    tokio::task::LocalSet::new().run_until(run).await;
}

#[test]
fn an_error_of_one_connection_is_none_of_the_listening_socket() {
    use rustix::io::Errno;
    for (errno, one) in [
        (Errno::CONNABORTED, true),
        (Errno::PERM, true),
        (Errno::HOSTUNREACH, true),
        (Errno::MFILE, false),
        (Errno::NFILE, false),
        (Errno::NOBUFS, false),
        (Errno::NOMEM, false),
    ] {
        assert_eq!(concerns_one_connection(&errno.into()), one, "{errno:?}");
    }
}

/// Accepting from it fails with EOPNOTSUPP, and what waits keeps waiting: so do all connections where a security module or a filter of system calls refuses `accept`.
fn socket_that_refuses() -> std::net::UdpSocket {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.send_to(b"waits", socket.local_addr().unwrap()).unwrap();
    socket.set_nonblocking(true).unwrap();
    socket
}

fn listener_that_fails(context: Arc<ListenerContext>) -> Listener {
    Listener {
        socket: watch_socket(OwnedFd::from(socket_that_refuses()), Interest::READABLE).unwrap(),
        local: LocalAddress::Unix(None),
        context,
        burst: AcceptBurst::default(),
        failures: Cell::new(0),
    }
}

#[tokio::test]
async fn a_listening_socket_that_refuses_each_accept_is_tried_again_after_a_pause() {
    let run = async {
        let listener = listener_that_fails(serve_one().context);
        let time = Duration::from_millis(300);
        assert!(tokio::time::timeout(time, listener.accept_all()).await.is_err());
        let most = MAX_FAILURES * 10;
        let failures = listener.failures.get();
        assert!((MAX_FAILURES..most).contains(&failures), "{failures} attempts in {time:?}");
    };
    tokio::task::LocalSet::new().run_until(run).await;
}

#[tokio::test]
async fn the_end_does_not_wait_for_connections_that_cannot_be_accepted() {
    let run = async {
        let listener = listener_that_fails(serve_one().context);
        tokio::time::timeout(Duration::from_secs(30), listener.accept_earlier(REST)).await.unwrap();
    };
    tokio::task::LocalSet::new().run_until(run).await;
}

/// As where the system withholds what it takes to refuse new clients.
#[tokio::test]
async fn clients_that_keep_coming_do_not_keep_a_listening_socket_from_its_end() {
    let bound = keepwarm_net::bind(BindAddress::Tcp("127.0.0.1:0".parse().unwrap())).unwrap();
    let address = bound.address.unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&over);
    let clients = std::thread::spawn(move || {
        let mut count = 0;
        while !seen.load(Ordering::Relaxed) && std::net::TcpStream::connect(address).is_ok() {
            count += 1;
        }
        count
    });
    let run = async {
        let (stop, signal) = stop_listening();
        let context = context(1000);
        let served = tokio::task::spawn_local(serve(bound, Arc::clone(&context), signal));
        while context.open.count() == 0 {
            tokio::task::yield_now().await;
        }
        stop.accept_rest(false);
        let ended = tokio::time::timeout(Duration::from_secs(30), served).await;
        over.store(true, Ordering::Relaxed);
        assert!(ended.is_ok(), "it still accepts");
    };
    tokio::task::LocalSet::new().run_until(run).await;
    assert!(clients.join().unwrap() > 0);
}
